//! Listeners of `<metrics>`: opened, kept and refused as those of the admin plane; what they serve,
//! and to whom.

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;

use nix::sys::signal::{Signal, kill};
use socket2::{Domain, Socket, Type};

use super::{Life, under_load};
use crate::common::address::Reserved;
use crate::common::plane::{TOKEN, ask_socket};
use crate::common::{Answer, Client, Settings, Setup, text, wait_until};

fn settings(more: &str) -> Settings {
    Settings { more: more.to_owned(), ..Settings::default() }
}

/// The answer to one request of a machine that addresses the server by name.
#[track_caller]
fn ask(address: SocketAddr, line: &str, fields: &str) -> Answer {
    ask_over(&mut Client::connect(address), line, fields)
}

#[track_caller]
fn ask_over(client: &mut Client, line: &str, fields: &str) -> Answer {
    client.send(&format!("{line} HTTP/1.1\r\nHost: frs.example\r\n{fields}\r\n"));
    client.answer()
}

/// A connection from this address of the loopback interface.
fn client_from(source: &str, to: SocketAddr) -> Client {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let source: SocketAddr = format!("{source}:0").parse().expect("an address");
    socket.bind(&source.into()).expect("bound");
    socket.connect(&to.into()).expect("connected");
    Client::over(socket.into())
}

/// Whether a unix socket serves metrics.
fn is_served_at(path: &std::path::Path) -> bool {
    let answer = ask_socket(path, "GET /metrics HTTP/1.0\r\n\r\n").expect("answered");
    answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("\nfrs_build_info{")
}

#[test]
fn metrics_are_read_by_the_hosts_that_http_names() {
    let reserved = Reserved::new();
    let address = reserved.address;
    let more = format!("<metrics listen=\"{address}\"/>");
    let http = "hosts=\"frs.example test\"".to_owned();
    let setup = Setup::new(&Settings { http, ..settings(&more) });
    let server = setup.start();
    server.wait_for_workers(2);
    for path in ["/metrics", "/health"] {
        assert_eq!(ask(address, &format!("GET {path}"), "").status, 200);
        let mut client = Client::connect(address);
        client.send(&format!("GET {path} HTTP/1.1\r\nHost: rebound.example\r\n\r\n"));
        let answer = client.answer();
        assert_eq!(answer.status, 403);
        assert!(answer.body.contains("hosts"), "{}", answer.body);
    }
}

// Shows: remote-metrics.
#[test]
fn metrics_and_health_are_read_there_and_nothing_else() {
    let reserved = Reserved::new();
    let address = reserved.address;
    let setup = Setup::new(&settings(&format!("<metrics listen=\"{address}\"/>")));
    let server = setup.start();
    server.wait_for_workers(2);
    assert!(text(&setup.frs(&["status"]).stdout).contains(&format!("\nmetrics      {address}\n")));
    let metrics = ask(address, "GET /metrics", "");
    assert_eq!(metrics.status, 200, "{metrics:?}");
    assert!(metrics.head.contains("Content-Type: text/plain; version=0.0.4"), "{metrics:?}");
    assert!(metrics.head.contains("X-Content-Type-Options: nosniff\r\n"), "{metrics:?}");
    assert!(!metrics.head.contains("Access-Control-"), "{metrics:?}");
    let health = ask(address, "GET /health", "Accept: application/json\r\n");
    assert!(health.status == 200 && health.body.starts_with("{\"health\":{"), "{health:?}");
    let head = "HEAD /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let mut client = Client::connect(address);
    client.send(head);
    let mut answer = String::new();
    client.stream.read_to_string(&mut answer).expect("answered");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\n"), "{answer}");

    // A worker's counts show within a second.
    server.client().charge("three", "alice", 2);
    let counted = "frs_items_total{biz=\"three\",command=\"update\",verdict=\"allowed\"} 1\n";
    let shown = wait_until("it is counted", || {
        Some(ask(address, "GET /metrics", "").body).filter(|text| text.contains(counted))
    });
    assert!(!shown.contains("alice"), "{shown}");

    let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
    for (line, status) in [
        ("GET /", 404),
        ("GET /stats", 404),
        ("GET /biz", 404),
        ("GET /biz/three", 404),
        ("PUT /biz/three", 404),
        ("GET /node?biz=three&key=alice", 404),
        ("DELETE /node?biz=three&key=alice", 404),
        ("GET /top?biz=three", 404),
        ("POST /reload", 404),
        ("POST /degrade?on=true", 404),
        ("GET /update?biz=three&key=alice", 404),
        ("POST /metrics", 405),
        ("OPTIONS /health", 405),
        ("GET /metrics?biz=three", 400),
    ] {
        let answer = ask(address, line, &bearer);
        assert_eq!(answer.status, status, "{line} {answer:?}");
        assert!(status != 404 || answer.body.contains("expected /metrics or /health"), "{line}");
    }
    let page = ask(address, "GET /metrics", "Origin: http://page.example\r\n");
    assert_eq!(page.status, 403, "{page:?}");
    let log = setup.log();
    assert!(!log.contains("refused"), "nothing to change, nothing to tell of: {log}");
}

// Shows: remote-metrics.
#[test]
fn who_is_in_no_allowed_network_is_refused_as_on_the_data_plane() {
    let reserved = Reserved::new();
    let address = reserved.address;
    let allow = "<allow>127.0.0.1</allow><allow>127.0.0.3</allow>";
    let setup = Setup::new(&settings(&format!("<metrics listen=\"{address}\"/>{allow}")));
    let _server = setup.start();
    let refused = |to| {
        let mut client = client_from("127.0.0.2", to);
        client.send("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
        let answer = client.answer();
        assert!(client.is_closed());
        (answer.status, answer.closes(), answer.body.trim_end().to_owned())
    };
    let answers = [address, setup.address].map(refused);
    assert_eq!(answers[0], answers[1]);
    assert!(
        answers[0].0 == 403
            && answers[0].1
            && answers[0]
                .2
                .contains("no <allow>".replace('<', "&lt;").replace('>', "&gt;").as_str()),
        "{answers:?}"
    );
    for source in ["127.0.0.1", "127.0.0.3"] {
        let answer = ask_over(&mut client_from(source, address), "GET /metrics", "");
        assert_eq!(answer.status, 200, "{source}");
    }
    wait_until("both are counted", || {
        let metrics = ask(address, "GET /metrics", "").body;
        metrics.contains("\nfrs_connections_refused_total 2\n").then_some(())
    });
    // The change is in force as soon as the reload reports success.
    setup.write_srv(&settings(&format!("<metrics listen=\"{address}\"/>")));
    assert_eq!(setup.frs(&["reload"]).status.code(), Some(0));
    let answer = ask_over(&mut client_from("127.0.0.2", address), "GET /metrics", "");
    assert_eq!(answer.status, 200);
}

// Shows: remote-metrics.
#[test]
fn no_flood_of_clients_takes_a_place_of_the_admin_plane_or_keeps_a_scrape_out() {
    let (metrics, admin) = (Reserved::new(), Reserved::new());
    let (metrics, admin) = (metrics.address, admin.address);
    let more = format!(
        "<metrics listen=\"{metrics}\"/><admin listen=\"{admin}\"/><allow>127.0.0.1</allow>"
    );
    let setup = Setup::new(&settings(&more));
    let _server = setup.start();
    let admin_asks = |client: &mut Client| {
        client.send("GET /biz HTTP/1.1\r\nHost: localhost\r\n\r\n");
        client.answer().status
    };
    let mut operators: Vec<Client> = (0..50).map(|_| Client::connect(admin)).collect();
    operators.iter_mut().for_each(|client| assert_eq!(admin_asks(client), 200));
    let mut scraper = Client::connect(metrics);
    assert_eq!(ask_over(&mut scraper, "GET /metrics", "").status, 200);
    let _strangers: Vec<Client> = (0..100).map(|_| client_from("127.0.0.2", metrics)).collect();
    assert_eq!(ask_over(&mut scraper, "GET /metrics", "").status, 200, "strangers take no place");
    // Silent clients, deaf ones, and some that never end their heads.
    let deaf = "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n".repeat(500);
    let _crowd: Vec<Client> = (0..100)
        .map(|nth| {
            let client = Client::connect(metrics);
            client.stream.set_nonblocking(true).expect("set");
            let said = ["", &deaf, "GET /metrics HT"][nth % 3];
            // Bytes that do not fit are not needed.
            let _ = (&client.stream).write(said.as_bytes());
            client
        })
        .collect();
    wait_until("a newcomer is served", || {
        let mut client = Client::try_connect(metrics)?;
        client.try_get("/metrics").ok().filter(|answer| answer.status == 200)
    });
    operators.iter_mut().for_each(|client| assert_eq!(admin_asks(client), 200));
}

// Shows: remote-metrics.
#[test]
fn its_addresses_stay_over_reloads_and_new_binaries_add_some() {
    let (first, second) = (Reserved::new(), Reserved::new());
    let setup = Setup::new(&Settings::default());
    let life = Life::start(&setup);
    let own =
        format!("<metrics listen=\"{}\"/><metrics listen=\"unix:metrics.sock\"/>", first.address);
    let refused = |what: &str| {
        let output = setup.frs(&["reload"]);
        let said = text(&output.stderr);
        let words = "srv.xml: <metrics listen> differs from the one in force: it needs a restart";
        assert!(output.status.code() == Some(1) && said.contains(words), "{what}: {said}");
    };
    // As for the admin plane, only a new binary adds listeners, also without an admin plane.
    setup.write_srv(&settings(&own));
    refused("added");
    let socket = setup.path("metrics.sock");
    let mut inode = None;
    under_load(setup.address, |_| {
        for _ in 0..2 {
            life.upgrade();
            assert_eq!(ask(first.address, "GET /metrics", "").status, 200);
            assert!(is_served_at(&socket));
            let file = fs::metadata(&socket).expect("there");
            assert_eq!(
                (file.mode() & 0o777, *inode.get_or_insert(file.ino())),
                (0o666, file.ino())
            );
        }
    });
    let turned =
        format!("<metrics listen=\"unix:metrics.sock\"/><metrics listen=\"{}\"/>", first.address);
    setup.write_srv(&settings(&turned));
    assert_eq!(setup.frs(&["reload"]).status.code(), Some(0), "the same ones");
    setup.write_srv(&settings(&format!("{own}<metrics listen=\"{}\"/>", second.address)));
    refused("one more");
    life.upgrade();
    assert_eq!(ask(second.address, "GET /metrics", "").status, 200);
    let moved = turned.replace("metrics.sock", "m.sock");
    for (failed, (what, more)) in (1..).zip([("moved", moved), ("gone", String::new())]) {
        setup.write_srv(&settings(&more));
        refused(what);
        let master = life.master();
        kill(master, Signal::SIGUSR2).expect("signalled");
        // While the new binary still reads the configuration, a reload is refused for another
        // reason.
        wait_until("the new binary has failed", || {
            (setup.log().matches("this one continues").count() == failed).then_some(())
        });
        assert_eq!(life.master(), master, "{what}");
        assert_eq!(ask(first.address, "GET /metrics", "").status, 200, "{what}");
    }
    life.stop();
    assert!(!socket.exists());
}
