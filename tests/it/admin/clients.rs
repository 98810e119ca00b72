//! The admin plane with hostile or slow clients, and its log of the clients that make changes.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::load::UntilDropped;
use crate::common::plane::{Plane, TOKEN, ask};
use crate::common::{Answer, BOUND, Client, Server, Settings, Setup, wait_until};
use frs_conf::Conf;
use nix::sys::signal::{Signal, kill};

/// The answer to a client that sends `request` and closes its side before the server reads any of
/// it.
fn said_and_ended<S: Read + Write>(
    server: &Server<'_>,
    mut stream: S,
    request: &str,
    end: impl Fn(&S) -> std::io::Result<()>,
) -> String {
    let keeper = server.attached("keeper")[0];
    kill(keeper, Signal::SIGSTOP).expect("stopped");
    stream.write_all(request.as_bytes()).expect("sent");
    end(&stream).expect("ended");
    kill(keeper, Signal::SIGCONT).expect("continued");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("read");
    text
}

#[test]
fn who_ends_its_side_hears_every_answer() {
    let plane = Plane::new(1);
    let server = plane.start(1);
    let hear = |request: &str| {
        let stream = plane.client().stream;
        said_and_ended(&server, stream, request, |stream| stream.shutdown(Shutdown::Write))
    };
    let both = "GET /biz/three HTTP/1.1\r\nHost: localhost\r\n\r\n\
                GET /top?biz=three HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let heard = hear(both);
    assert_eq!(heard.matches("HTTP/1.1 200 OK").count(), 2, "{heard}");
    let bearer = format!("Authorization: Bearer {TOKEN}\r\n\r\n");
    let heard = hear(&format!("POST /reload HTTP/1.0\r\nHost: localhost\r\n{bearer}"));
    assert!(heard.contains("<done generation=\"2\"/>"), "{heard}");
    let begun = Instant::now();
    assert_eq!(hear("GET /biz/three HTTP/1.1\r\nHost: localh"), "");
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(5), "nothing more can come: {took:?}");
}

#[test]
fn over_a_unix_socket_too_who_ends_its_side_hears_the_answer() {
    let more = "<admin listen=\"unix:admin.sock\"/>".to_owned();
    let setup = Setup::new(&Settings { more, ..Settings::default() });
    let server = setup.start();
    let stream = wait_until("it serves", || UnixStream::connect(setup.path("admin.sock")).ok());
    stream.set_read_timeout(Some(BOUND)).expect("set");
    wait_until("there is a keeper", || server.attached("keeper").first().copied());
    let request = "POST /degrade?on=true HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let heard = said_and_ended(&server, stream, request, |stream| stream.shutdown(Shutdown::Write));
    assert!(heard.contains("<done generation=\"2\"/>"), "{heard}");
}

#[test]
fn requests_that_are_never_finished_keep_nobody_out() {
    let plane = Plane::new(1);
    let _server = plane.start(1);
    let bearer = format!("Authorization: Bearer {TOKEN}\r\nContent-Length: 9\r\n\r\n");
    let head = "GET /health HTTP/1.1\r\nHost: local".to_owned();
    let body = format!("PUT /biz/9 HTTP/1.1\r\nHost: localhost\r\n{bearer}<biz");
    let begin = |nth: usize| {
        let mut client = plane.client();
        client.send([&head, &body][nth % 2]);
        client
    };
    let _slow: Vec<Client> = (0..48).map(begin).collect();
    let begun = Instant::now();
    assert_eq!(plane.get("/health").status, 200);
    // Three groups of sixteen clients, at ten seconds each, would take thirty seconds.
    assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
}

#[test]
fn looks_into_the_files_keep_nobody_out() {
    let plane = Plane::new(1);
    plane.setup.write_map(
        r#"<map><group name="g" files="1" key-nodes="1024" chain="56" node-size="64"/>
        <biz id="1" name="b" key="integer"><limit policy="total" max="9"/></biz></map>"#,
    );
    let server = plane.start(1);
    let mut client = server.client();
    for batch in 0..40 {
        let items: String = (0..500)
            .map(|nth| format!("<item biz=\"b\" key=\"{}\"/>", batch * 500 + nth))
            .collect();
        let body = format!("<request>{items}</request>");
        let length = body.len();
        client.send(&format!(
            "POST /update HTTP/1.1\r\nHost: t\r\nContent-Length: {length}\r\n\r\n{body}"
        ));
        assert_eq!(client.answer().status, 200);
    }
    let look = |_| {
        let mut client = plane.client();
        client.send("GET /top?biz=b&n=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n");
        client
    };
    let mut looking: Vec<Client> = (0..64).map(look).collect();
    assert_eq!(plane.get("/health").status, 200);
    let at_once = plane.ask("POST", "/degrade?on=true", "");
    assert_eq!(at_once.status, 200);
    // A client that has not sent its request when others arrive may be closed to make room.
    let answers = looking.iter_mut().filter_map(|client| client.try_answer().ok());
    let statuses: Vec<u16> = answers.map(|answer| answer.status).collect();
    let refused = statuses.iter().filter(|&&status| status == 503).count();
    assert!(refused > 0, "all of them were waited for: {statuses:?}");
    assert!(statuses.iter().all(|status| [200, 503].contains(status)), "{statuses:?}");
    assert_eq!(statuses[0], 200, "the first ones are served");
    assert_eq!(plane.get("/top?biz=b").status, 200, "and so are later ones");
}

#[test]
fn the_log_says_what_was_changed_and_names_no_key() {
    let plane = Plane::new(1);
    let _server = plane.start(1);
    assert_eq!(plane.ask("POST", "/degrade?on=true", "").status, 200);
    assert_eq!(plane.ask("POST", "/degrade?on=false", "").status, 200);
    let put = "/node?key=secret-key&biz=three&limit=1&used=2";
    assert_eq!(plane.ask("PUT", put, "").status, 200);
    assert_eq!(plane.ask("DELETE", "/node?biz=three&key=secret-key", "").status, 200);
    let mut client = plane.client();
    let refused = "/degrade?on=true&k%65y=secret-key&%0akey=secret-key";
    assert_eq!(ask(&mut client, "POST", refused, "", "").expect("answered").status, 400);
    let log = plane.setup.log();
    for request in [
        "POST /degrade?on=true",
        "POST /degrade?on=false",
        "PUT /node?biz=three&limit=1&used=2",
        "DELETE /node?biz=three",
    ] {
        assert!(log.contains(&format!("request=\"{request}\" status=200")), "{request} in {log}");
    }
    assert!(log.contains("request=\"POST /degrade?on=true\" status=400"), "{log}");
    assert!(!log.contains("secret-key"), "{log}");
}

#[test]
fn switching_off_what_srv_xml_switches_on_is_refused_and_not_said_to_be_done() {
    let plane = Plane::new(1);
    let more = format!(
        "<admin listen=\"{}\" token-file=\"conf/token\"/><degrade>true</degrade>",
        plane.address
    );
    plane.setup.write_srv(&Settings { workers: 1, more, ..Settings::default() });
    let server = plane.start(1);
    let degraded = || server.client().get("/query?biz=three&key=k").attribute("degraded").is_some();
    assert!(degraded());
    let answer = plane.ask("POST", "/degrade?on=false", "");
    assert_eq!(answer.status, 409, "{answer:?}");
    assert!(answer.body.contains("&lt;degrade&gt;"), "{answer:?}");
    assert!(degraded());
    plane.write_srv(1, "token-file=\"conf/token\"");
    assert_eq!(plane.ask("POST", "/reload", "").status, 200);
    assert_eq!(plane.ask("POST", "/degrade?on=false", "").status, 200);
    assert!(!degraded());
}

// Shows: admin-changes.
#[test]
fn a_keeper_that_is_killed_in_the_middle_of_changes_leaves_a_map_that_is_whole() {
    let plane = Plane::new(2);
    let server = plane.start(2);
    let put = |client: &mut Client, max: u64| {
        let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
        let limit = format!("<limit policy=\"total\" max=\"{max}\"/>");
        let biz = format!("<biz id=\"9\" name=\"b9\" key=\"string\">{limit}</biz>");
        ask(client, "PUT", "/biz/9", &bearer, &biz).map(|answer| answer.status)
    };
    let (done, said) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let ends = UntilDropped(&done);
        scope.spawn(|| {
            for max in 1.. {
                let client = Client::try_connect(plane.address);
                match client.and_then(|mut client| put(&mut client, max).ok()) {
                    Some(200 | 201) => said.store(max, Ordering::SeqCst),
                    // The previous change was written, and its keeper died before it was in force.
                    Some(409) => assert_eq!(plane.ask("POST", "/reload", "").status, 200),
                    Some(other) => panic!("{other}"),
                    None => {}
                }
                if done.load(Ordering::SeqCst) {
                    return;
                }
            }
        });
        for round in 1..=6 {
            let before = said.load(Ordering::SeqCst);
            wait_until("one is done", || (said.load(Ordering::SeqCst) > before).then_some(()));
            std::thread::sleep(Duration::from_micros(1700 * round));
            let keeper = server.attached("keeper").first().copied();
            keeper.into_iter().for_each(|keeper| kill(keeper, Signal::SIGKILL).expect("killed"));
            Conf::load(&plane.setup.path("conf")).unwrap_or_else(|faults| panic!("{faults}"));
        }
        let before = said.load(Ordering::SeqCst);
        wait_until("one is done", || (said.load(Ordering::SeqCst) > before).then_some(()));
        drop(ends);
    });
    let max = said.load(Ordering::SeqCst);
    assert!(plane.map().contains(&format!("max=\"{max}\"")), "{}", plane.map());
    let answer = server.client().get("/query?biz=b9&key=k");
    assert_eq!(answer.attribute("max"), Some(&*max.to_string()), "{answer:?}");
    assert_eq!(plane.ask("DELETE", "/biz/9", "").status, 200);
    assert_eq!(plane.map(), crate::common::MAP);
    assert_eq!(std::fs::read_dir(plane.setup.path("conf")).expect("readable").count(), 3);
}

/// More clients than places.
const CROWD: usize = 80;

/// The answers to newcomers that are all connected before the first of them sends a request.
#[track_caller]
fn newcomers(plane: &Plane) -> Vec<Answer> {
    let mut newcomers: Vec<Client> = (0..8).map(|_| plane.client()).collect();
    let answers = newcomers.iter_mut().enumerate().map(|(nth, newcomer)| {
        let answer = ask(newcomer, "GET", "/health", "", "");
        answer.unwrap_or_else(|error| panic!("newcomer {nth}: {error}"))
    });
    answers.collect()
}

#[track_caller]
fn newcomers_are_served(plane: &Plane) {
    for (nth, answer) in newcomers(plane).iter().enumerate() {
        assert_eq!(answer.status, 200, "newcomer {nth}: {answer:?}");
    }
}

// Shows: slow-admin-clients.
#[test]
fn clients_that_send_a_byte_now_and_then_keep_no_newcomer_out() {
    let plane = Plane::new(1);
    let _server = plane.start(1);
    let mut slow: Vec<Client> = (0..CROWD).map(|_| plane.client()).collect();
    slow.iter_mut().for_each(|client| client.send("G"));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _ends = UntilDropped(&done);
        let (slow, done) = (&slow, &done);
        scope.spawn(move || {
            let head = b"ET /health HTTP/1.1\r\nHost: a-host-with-a-name-that-has-no-end";
            for byte in head.iter().cycle() {
                // Some clients are turned away meanwhile.
                slow.iter().for_each(|client| drop((&client.stream).write(&[*byte])));
                if done.load(Ordering::SeqCst) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        newcomers_are_served(&plane);
        newcomers_are_served(&plane);
    });
    let mut first = slow.remove(0);
    assert_eq!(first.answer().status, 503, "who had to go was told");
}

// Shows: slow-admin-clients.
#[test]
fn clients_that_say_nothing_keep_no_newcomer_out_and_hear_why_they_had_to_go() {
    let plane = Plane::new(1);
    let _server = plane.start(1);
    let mut silent: Vec<Client> = (0..CROWD).map(|_| plane.client()).collect();
    newcomers_are_served(&plane);
    let answer = silent[0].answer();
    assert_eq!((answer.status, answer.closes()), (503, true), "{answer:?}");
    assert!(answer.head.contains("Retry-After: 1\r\n"), "{answer:?}");
    assert!(answer.body.contains("<error code=\"overloaded\">"), "{answer:?}");
    let last = ask(&mut silent[CROWD - 1], "GET", "/health", "", "").expect("it is still there");
    assert_eq!(last.status, 200);
    wait_until("it is in the log", || {
        plane
            .setup
            .log()
            .contains("admin: a client was refused: all connections are in use")
            .then_some(())
    });
}

// Shows: slow-admin-clients.
#[test]
fn clients_that_do_not_read_their_answers_keep_no_newcomer_out() {
    let plane = Plane::new(1);
    let _server = plane.start(1);
    let request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(200);
    let deaf: Vec<Client> = (0..CROWD).map(|_| plane.client()).collect();
    for client in &deaf {
        client.stream.set_nonblocking(true).expect("set");
        // Bytes that do not fit are not needed, and some clients are turned away meanwhile.
        let _ = (&client.stream).write(request.as_bytes());
    }
    // In its first second no client is known to be deaf, so a newcomer may be asked to retry.
    let refused = newcomers(&plane).into_iter().find(|answer| answer.status != 200);
    if let Some(refused) = refused {
        assert!(refused.head.contains("Retry-After: 1\r\n"), "{refused:?}");
        std::thread::sleep(Duration::from_secs(2));
        newcomers_are_served(&plane);
    }
    let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
    let on = ask(&mut plane.client(), "POST", "/degrade?on=true", &bearer, "").expect("answered");
    assert_eq!(on.status, 200);
}

// Shows: slow-admin-clients.
#[test]
fn in_a_storm_of_newcomers_who_speaks_is_served() {
    let plane = Plane::new(1);
    let _server = plane.start(1);
    let done = AtomicBool::new(false);
    let served = std::thread::scope(|scope| {
        let _ends = UntilDropped(&done);
        scope.spawn(|| {
            let mut storm = std::collections::VecDeque::new();
            while !done.load(Ordering::SeqCst) {
                let Some(client) = Client::try_connect(plane.address) else { continue };
                // Every second client begins a request.
                if storm.len() % 2 == 0 {
                    let _ = (&client.stream).write(b"G");
                }
                storm.push_back(client);
                if storm.len() > 701 {
                    storm.drain(..2);
                }
            }
        });
        let ask = |nth: usize| {
            let answer = ask(&mut plane.client(), "GET", "/health", "", "");
            answer.unwrap_or_else(|error| panic!("newcomer {nth}: {error}")).status
        };
        let statuses: Vec<u16> = (0..100).map(ask).collect();
        assert!(statuses.iter().all(|status| [200, 503].contains(status)), "{statuses:?}");
        statuses.iter().filter(|&&status| status == 200).count()
    });
    // This machine may delay a client's request until hundreds of others have connected.
    assert!(served >= 50, "{served} of 100");
}

// Shows: permissions.
#[test]
fn after_ten_wrong_tokens_an_address_waits_and_who_shows_a_right_one_here_does_not() {
    let plane = Plane::new(1);
    let _server = plane.start(1);
    let right = format!("Authorization: Bearer {TOKEN}\r\n");
    let wrong = "Authorization: Bearer not-the-token-0123456789\r\n";
    let mut proven = plane.client();
    let erase = |client: &mut Client, token: &str| {
        ask(client, "DELETE", "/node?biz=three&key=k", token, "").expect("answered")
    };
    assert_eq!(erase(&mut proven, &right).status, 404);
    for _ in 0..10 {
        assert_eq!(erase(&mut plane.client(), wrong).status, 401);
    }
    // More connections do not make guesses faster. On a busy machine a wait may end before.
    let waits = wait_until("a wrong one waits", || {
        let answer = erase(&mut plane.client(), wrong);
        (answer.status == 503).then_some(answer)
    });
    assert!(waits.head.contains("Retry-After: "), "{}", waits.head);
    assert_eq!(erase(&mut proven, &right).status, 404, "it is no guesser");
    assert_eq!(plane.get("/health").status, 200, "it shows no token");
    // All local users share this address. One of them must not lock the operators out.
    assert_eq!(erase(&mut plane.client(), &right).status, 404);
    assert_eq!(erase(&mut plane.client(), wrong).status, 401, "its count is cleared");
}

// Shows: permissions.
#[test]
fn a_flood_of_refusals_is_a_few_lines_and_none_goes_uncounted() {
    let plane = Plane::new(1);
    let _server = plane.start(1);
    let before = Instant::now();
    let mut client = plane.client();
    let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
    for _ in 0..150 {
        assert_eq!(ask(&mut client, "POST", "/reload", "", "").expect("answered").status, 401);
        let unknown = ask(&mut client, "DELETE", "/biz/none", &bearer, "").expect("answered");
        assert_eq!(unknown.status, 404);
    }
    let told = wait_until("all of them are told of", || {
        let log = plane.setup.log();
        let is_refusal =
            |line: &&str| line.contains("admin: refused") || line.contains("admin: not changed");
        let lines = log.lines().filter(is_refusal).count();
        let rest = log.lines().filter_map(|line| line.split("left_out=").nth(1));
        let rest: usize = rest.map(|rest| rest.trim().parse::<usize>().expect("a number")).sum();
        (lines + rest == 300).then_some(lines)
    });
    let seconds = before.elapsed().as_secs() as usize + 1;
    assert!(told >= 10 && told <= 10 * seconds, "{told} lines in {seconds} s");
}

#[test]
fn requests_in_every_form_that_http_knows_are_read_as_the_data_plane_reads_them() {
    let plane = Plane::new(1);
    let _server = plane.start(1);
    let address = plane.address;
    for (request, expected) in [
        (format!("GET http://{address}/health HTTP/1.1\r\nHost: {address}\r\n\r\n"), 200),
        (format!("GET /health HTTP/1.5\r\nHost: {address}\r\n\r\n"), 200),
        ("GET /health HTTP/1.5\r\n\r\n".to_owned(), 400),
        ("GET /health HTTP/2.0\r\nHost: localhost\r\n\r\n".to_owned(), 505),
        ("GET /health HTTP/1.1\r\nHost:\r\n\r\n".to_owned(), 400),
        ("GET /health#top HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(), 400),
        (format!("\r\n\r\nGET /health HTTP/1.1\r\nHost: {address}\r\n\r\n"), 200),
        ("GET http://evil.example/health HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(), 403),
        (format!("GET http://{address}/health HTTP/1.1\r\n\r\n"), 400),
        ("GET /health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n".to_owned(), 400),
        ("GET /health HTTP/1.1\r\nHost: local host\r\n\r\n".to_owned(), 400),
    ] {
        let mut client = plane.client();
        // What follows is served, unless it cannot be separated from the faulty request.
        client.send(&(request.clone() + "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        let answer = client.answer();
        assert_eq!(answer.status, expected, "{request}");
        assert_eq!(answer.closes(), matches!(expected, 400 | 505), "{request}");
        match answer.closes() {
            true => assert!(client.is_closed(), "{request}"),
            false => assert_eq!(client.answer().status, 200, "{request}"),
        }
    }
}
