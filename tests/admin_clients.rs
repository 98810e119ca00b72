//! The admin plane and clients that mean no good, or have no time; and what its log says of those
//! who change something.

mod common;

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::plane::{Plane, TOKEN, ask};
use common::{BOUND, Client, Server, Settings, Setup, wait_until};
use frs::conf::Conf;
use nix::sys::signal::{Signal, kill};

/// What a client hears that says this and ends its side before any of it is read.
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
    // Three times sixteen of them, ten seconds each, were thirty.
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
    // Who has not asked yet when others come may be closed to make room for them.
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
        scope.spawn(|| {
            for max in 1.. {
                let client = Client::try_connect(plane.address);
                match client.and_then(|mut client| put(&mut client, max).ok()) {
                    Some(200 | 201) => said.store(max, Ordering::SeqCst),
                    // The one before was written, and its keeper died before it was in force.
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
        done.store(true, Ordering::SeqCst);
    });
    let max = said.load(Ordering::SeqCst);
    assert!(plane.map().contains(&format!("max=\"{max}\"")), "{}", plane.map());
    let answer = server.client().get("/query?biz=b9&key=k");
    assert_eq!(answer.attribute("max"), Some(&*max.to_string()), "{answer:?}");
    assert_eq!(plane.ask("DELETE", "/biz/9", "").status, 200);
    assert_eq!(plane.map(), common::MAP);
    assert_eq!(std::fs::read_dir(plane.setup.path("conf")).expect("readable").count(), 3);
}
