//! Clients of all kinds against a worker, end to end: slow, numerous, forbidden, greedy.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use frs_server::stats::snapshot::collect;

use crate::common::{BOUND, Client, Server, Settings, Setup, text, wait_until};
use frs_store::Counter;
use socket2::{Domain, Socket, Type};

fn one_worker(http: &str) -> Setup {
    Setup::new(&Settings { workers: 1, http: http.to_owned(), ..Settings::default() })
}

#[test]
fn a_request_in_drips_is_408() {
    let setup = one_worker("request-timeout=\"500ms\"");
    let server = setup.start();
    let mut client = server.client();
    let begun = Instant::now();
    client.stream.set_read_timeout(Some(Duration::from_millis(50))).expect("set");
    let mut drips = "GET /health HTTP/1.1\r\nHost: t\r\nX: ".bytes().chain(std::iter::repeat(b'x'));
    let answer = wait_until("it is answered", || {
        client.stream.write_all(&[drips.next()?]).expect("sent");
        client.try_answer().ok()
    });
    assert_eq!(answer.status, 408);
    assert!(answer.closes());
    assert!(begun.elapsed() >= Duration::from_millis(500), "not before its time");
    assert_eq!(server.client().get("/health").status, 200);
}

#[test]
fn an_idle_client_is_closed_and_a_busy_one_is_not() {
    let setup = one_worker("idle-timeout=\"1s\"");
    let server = setup.start();
    let (mut idle, mut busy) = (server.client(), server.client());
    assert_eq!(idle.get("/health").status, 200);
    idle.stream.set_nonblocking(true).expect("set");
    let begun = Instant::now();
    wait_until("the idle one is closed", || {
        assert_eq!(busy.get("/health").status, 200);
        idle.is_closed().then_some(())
    });
    assert!(begun.elapsed() >= Duration::from_millis(900));
    assert_eq!(busy.get("/health").status, 200);
}

// Shows: memory-bound.
#[test]
fn beyond_max_connections_is_503() {
    let setup = one_worker("max-connections=\"4\"");
    let server = setup.start();
    let mut clients: Vec<Client> = Vec::new();
    // The connection that checked whether the server serves may still be open.
    wait_until("four are served", || {
        let mut client = server.client();
        if client.get("/health").status == 200 {
            clients.push(client);
        }
        (clients.len() == 4).then_some(())
    });
    let mut refused = server.client();
    let answer = refused.answer();
    assert_eq!(answer.status, 503, "without having asked");
    assert!(answer.closes() && answer.body.contains("overloaded"), "{answer:?}");
    assert!(refused.is_closed());
    for client in &mut clients {
        assert_eq!(client.get("/health").status, 200);
    }
    clients.pop();
    wait_until("there is room again", || {
        (server.client().get("/health").status == 200).then_some(())
    });
}

// Shows: idle-and-turned-away.
#[test]
fn empty_lines_do_not_keep_an_idle_client() {
    let setup = one_worker("idle-timeout=\"1s\"");
    let server = setup.start();
    // Whole line ends, then halves.
    for pieces in [&["\r\n"][..], &["\r", "\n"]] {
        let mut client = server.client();
        assert_eq!(client.get("/health").status, 200);
        client.stream.set_nonblocking(true).expect("set");
        let mut pieces = pieces.iter().cycle();
        let begun = Instant::now();
        wait_until("it is closed", || {
            // The connection may be closed already.
            let _ = client.stream.write_all(pieces.next()?.as_bytes());
            is_gone(&mut client).then_some(())
        });
        assert!(begun.elapsed() >= Duration::from_millis(900), "not before its time");
    }
}

/// Whether the connection is closed, possibly by a reset because input was unread. Does not wait.
fn is_gone(client: &mut Client) -> bool {
    match client.stream.read(&mut [0]) {
        Ok(read) => read == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

// Shows: idle-and-turned-away.
#[test]
fn who_goes_on_sending_but_takes_no_answers_is_closed() {
    let setup = one_worker("idle-timeout=\"1s\"");
    let server = setup.start();
    let bytes_in = || collect(&setup.path("data")).sums.count(Counter::BytesIn);
    wait_until("who waited for the server has gone", || {
        let stats = collect(&setup.path("data"));
        (stats.connections() == 0).then_some(())
    });
    let before = bytes_in();
    let mut other = server.client();
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(4096).expect("set");
    socket.connect(&setup.address.into()).expect("connected");
    let mut greedy = Client::over(socket.into());
    let requests = "GET /nope HTTP/1.1\r\nHost: test\r\n\r\n".repeat(100);
    let health = "GET /health HTTP/1.1\r\nHost: test\r\n\r\n".len() as u64;
    // Sends until the answers fill the buffers and the server stops reading from this client, while
    // it still reads from all others. The last requests may be counted a moment later.
    let mut read_at_least = 0;
    wait_until("answers wait", || {
        greedy.send(&requests);
        let both = [other.get("/health"), other.get("/health")].map(|answer| answer.status);
        assert_eq!(both, [200, 200]);
        let all = read_at_least + requests.len() as u64 + health;
        read_at_least = all + health;
        (bytes_in() - before < all).then_some(())
    });
    greedy.stream.set_nonblocking(true).expect("set");
    wait_until("it is closed", || {
        assert_eq!(other.get("/health").status, 200);
        let written = greedy.stream.write(b"x");
        written.is_err_and(|error| error.kind() != ErrorKind::WouldBlock).then_some(())
    });
}

// Shows: idle-and-turned-away.
#[test]
fn all_who_come_beyond_max_connections_get_the_503_and_the_log_says_how_many() {
    const MANY: usize = 1500;
    let setup = one_worker("max-connections=\"1\"");
    let begun = Instant::now();
    let server = setup.start();
    let first = wait_until("the place is free", || {
        let mut client = server.client();
        (client.get("/health").status == 200).then_some(client)
    });
    let before = refused(&server);
    // More clients than can be answered at once. None of them closes.
    let mut clients: Vec<Client> = (0..MANY).map(|_| server.client()).collect();
    for (nth, client) in clients.iter_mut().enumerate() {
        let answer = client.answer();
        assert_eq!((answer.status, answer.closes()), (503, true), "{nth}: {answer:?}");
        assert!(client.is_closed(), "{nth}");
    }
    assert_eq!(refused(&server) - before, MANY as u64);
    drop(first);
    // The count includes the connections that check whether the place is free.
    let told = || -> (usize, u64) {
        let log = setup.log();
        let lines = log.lines().filter(|line| line.contains("refused connections with 503"));
        let counts = lines.map(|line| {
            let count = line.split("connections=").nth(1).and_then(|rest| rest.split(' ').next());
            count.and_then(|count| count.parse::<u64>().ok()).unwrap_or_else(|| panic!("{line}"))
        });
        counts.fold((0, 0), |(lines, sum), count| (lines + 1, sum + count))
    };
    let lines = wait_until("the log tells of all", || {
        let (lines, sum) = told();
        assert!(sum <= before + MANY as u64, "{sum}");
        (sum == before + MANY as u64).then_some(lines)
    });
    let most = begun.elapsed().as_secs() as usize + 1;
    assert!(lines <= most, "{lines} lines in {most} seconds");
}

// Shows: idle-and-turned-away.
#[test]
fn who_is_turned_away_and_stays_has_nobody_s_place() {
    let setup = one_worker("max-connections=\"1\"");
    let server = setup.start();
    let first = wait_until("the place is free", || {
        let mut client = server.client();
        (client.get("/health").status == 200).then_some(client)
    });
    let mut away: Vec<Client> = (0..50).map(|_| server.client()).collect();
    away.iter_mut().for_each(|client| assert_eq!(client.answer().status, 503));
    drop(first);
    // Each connection that is turned away meanwhile stays open too.
    wait_until("the place is free again", || {
        let mut client = server.client();
        let served = client.get("/health").status == 200;
        away.push(client);
        served.then_some(())
    });
}

// Shows: idle-and-turned-away.
#[test]
fn peers_that_are_not_allowed_have_nobody_s_place() {
    let more = "<allow>127.0.0.2</allow>".to_owned();
    let http = "max-connections=\"1\"".to_owned();
    let setup = Setup::new(&Settings { workers: 1, http, more });
    let _server = setup.start_unready();
    let connect = || {
        let mut client = wait_until("it listens", || Client::try_connect(setup.address));
        assert_eq!(client.answer().status, 403);
        client
    };
    let _forbidden: Vec<Client> = std::iter::repeat_with(connect).take(50).collect();
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&std::net::SocketAddr::from(([127, 0, 0, 2], 0)).into()).expect("bound");
    socket.connect(&setup.address.into()).expect("connected");
    assert_eq!(Client::over(socket.into()).get("/health").status, 200);
}

/// The number of connections that a server has refused.
fn refused(server: &Server<'_>) -> u64 {
    let stats = collect(&server.setup.path("data"));
    stats.sums.count(Counter::ConnectionsRefused)
}

#[test]
fn a_peer_that_is_not_allowed_is_403() {
    let more = "<allow>10.0.0.0/8</allow><listen>unix:frs.sock</listen>".to_owned();
    let setup = Setup::new(&Settings { more, ..Settings::default() });
    let server = setup.start_unready();
    let mut client = wait_until("it listens", || Client::try_connect(setup.address));
    let answer = client.answer();
    assert_eq!(answer.status, 403);
    assert!(answer.body.contains("<error code=\"forbidden\">"), "{answer:?}");
    assert!(answer.closes() && client.is_closed());

    let mut local = wait_until("it listens", || UnixStream::connect(setup.path("frs.sock")).ok());
    local.set_read_timeout(Some(BOUND)).expect("set");
    local.write_all(b"GET /health HTTP/1.0\r\n\r\n").expect("sent");
    let mut said = String::new();
    local.read_to_string(&mut said).expect("answered and closed");
    assert!(said.starts_with("HTTP/1.1 200 "), "{said}");
    drop(server);
    assert!(setup.path("frs.sock").exists(), "killed: it stays behind");
    let mut server = setup.start_unready();
    server.wait_for_workers(2);
    UnixStream::connect(setup.path("frs.sock")).expect("replaced");
    let output = setup.frs(&["stop"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(server.wait().success());
    assert!(!setup.path("frs.sock").exists());
}

#[test]
fn a_thousand_pipelined_requests_are_answered_in_order() {
    let setup = one_worker("");
    let server = setup.start();
    let mut client = server.client();
    let request = "GET /update?biz=plenty&key=p HTTP/1.1\r\nHost: t\r\n\r\n";
    client.send(&request.repeat(1_000));
    for nth in 1..=1_000 {
        let answer = client.answer();
        assert_eq!(answer.attribute("used"), Some(nth.to_string().as_str()));
    }
}

// Shows: stalls-are-bounded.
#[test]
fn who_does_not_read_is_not_read_from_and_loses_nothing() {
    let setup = one_worker("");
    let server = setup.start();
    let mut greedy = server.client();
    let mut writer = greedy.stream.try_clone().expect("a copy");
    writer.set_write_timeout(Some(Duration::from_millis(500))).expect("set");
    let request = b"GET /update?biz=plenty&key=g HTTP/1.1\r\nHost: t\r\n\r\n";
    let (mut sent, bound) = (0, 64 << 20);
    // Sends until the buffers of the server and of both kernels are full.
    loop {
        let at = sent % request.len();
        match writer.write(&request[at..]) {
            Ok(written) => sent += written,
            Err(_) => break,
        }
        assert!(sent < bound, "it is read from without end");
    }
    assert_eq!(server.client().get("/health").status, 200, "others are served meanwhile");
    let whole = sent / request.len();
    for nth in 1..=whole {
        let answer = greedy.answer();
        assert_eq!(answer.attribute("used"), Some(nth.to_string().as_str()));
    }
}

/// The anonymous memory of a process.
fn anonymous_bytes(pid: nix::unistd::Pid) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("Linux");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

// Shows: memory-bound.
#[test]
fn clients_who_never_read_cost_no_more_memory_than_frs_check_prints() {
    let setup = one_worker("max-connections=\"96\" max-head=\"256\" max-body=\"256\"");
    let check = text(&setup.frs(&["check"]).stdout);
    let line = check.lines().find_map(|line| line.trim().strip_prefix("clients at worst: "));
    let printed = line.and_then(|line| line.split(' ').next()).expect("a figure");
    let bound: u64 = printed.replace(',', "").parse().expect("a number");
    let server = setup.start();
    let worker = server.wait_for_workers(1)[0];
    assert_eq!(server.client().get("/health").status, 200);
    let before = anonymous_bytes(worker);
    let request = "GET /query?biz=plenty&key=k&detail=true HTTP/1.1\r\nHost: t\r\n\r\n".repeat(200);
    let mut clients: Vec<Client> = (0..90).map(|_| server.client()).collect();
    let mut most = 0;
    for client in &mut clients {
        client.stream.set_nonblocking(true).expect("set");
    }
    // Sends until the server reads from none of them.
    let (mut quiet, mut at) = (Instant::now(), vec![0; clients.len()]);
    while quiet.elapsed() < Duration::from_millis(500) {
        for (client, at) in clients.iter_mut().zip(&mut at) {
            if let Ok(written) = client.stream.write(&request.as_bytes()[*at..]) {
                *at = (*at + written) % request.len();
                quiet = Instant::now();
            }
        }
        most = most.max(anonymous_bytes(worker).saturating_sub(before));
    }
    assert!(most <= bound, "{most} of {bound}");
    assert_eq!(server.workers(), [worker]);
}

#[test]
fn bodies_in_pieces_and_at_the_limit_are_taken() {
    let setup = one_worker("max-body=\"64KiB\"");
    let server = setup.start();
    let mut client = server.client();
    let item = "<item biz=\"plenty\" key=\"b\"/>";
    let mut body = format!("<request>{}", item.repeat(1_000));
    body += &" ".repeat((64 << 10) - body.len() - "</request>".len());
    body += "</request>";
    let head = format!(
        "POST /update HTTP/1.1\r\nHost: t\r\nContent-Type: application/xml\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    for pieces in [1, 7, 100] {
        let request = format!("{head}{body}");
        for piece in request.as_bytes().chunks(request.len().div_ceil(pieces)) {
            client.stream.write_all(piece).expect("sent");
        }
        let answer = client.answer();
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.body.matches("limited=\"false\"").count(), 1_000);
    }
}

#[test]
fn the_answer_to_a_body_too_large_is_not_lost_to_a_reset() {
    let setup = one_worker("max-body=\"1KiB\"");
    let server = setup.start();
    for _ in 0..20 {
        let mut client = server.client();
        client.send("POST /update HTTP/1.1\r\nHost: t\r\nContent-Length: 1000000\r\n\r\n");
        // The server has already answered and stops reading this body.
        let _ = client.stream.write_all(&vec![b'x'; 1_000_000]);
        let answer = client.answer();
        assert_eq!(answer.status, 413);
        assert!(answer.closes());
    }
}

#[test]
fn a_client_that_ends_its_direction_is_still_answered() {
    let setup = one_worker("");
    let server = setup.start();
    let mut client = server.client();
    client.send(&"GET /update?biz=plenty&key=h HTTP/1.1\r\nHost: t\r\n\r\n".repeat(600));
    client.stream.shutdown(std::net::Shutdown::Write).expect("ended");
    for _ in 0..600 {
        assert_eq!(client.answer().status, 200);
    }
    assert!(client.is_closed());
}
