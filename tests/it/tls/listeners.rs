//! Each listener over TLS: it serves, asks for certificates as srv.xml says, and refuses in words.

use std::io::Write;
use std::net::TcpStream;

use frs_server::tls::testing::{Authority, Leaf};
use rustls::{ClientConfig, ClientConnection};

use super::stage::{Stage, TlsClient, in_plain, wait_for_the_end};
use crate::common::{BOUND, Client, text, wait_until};

/// A sample of the metrics that the server serves over TLS.
fn sample(stage: &Stage, client: &std::sync::Arc<ClientConfig>, name: &str) -> u64 {
    let page = TlsClient::connect(client, stage.metrics.address).get("/metrics").expect("served");
    let line = page.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{page}"));
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number")
}

// Shows: tls-listeners.
#[test]
fn every_listener_serves_over_tls_and_its_metrics_tell_of_it() {
    let stage = Stage::new(2, "");
    let server = stage.setup.start();
    let client = stage.client();
    for address in stage.of_http() {
        let mut connection = TlsClient::connect(&client, address);
        for _ in 0..3 {
            let answer = connection.get("/health").expect("served");
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        }
    }
    let mut redis = TlsClient::connect(&client, stage.resp.address);
    assert_eq!(redis.command("PING").expect("served"), "+PONG\r\n");
    let mut pipelined = TlsClient::connect(&client, stage.http.address);
    let one = "GET /update?biz=1&key=a HTTP/1.1\r\nHost: localhost\r\n\r\n";
    pipelined.0.write_all(one.repeat(500).as_bytes()).expect("sent");
    for _ in 0..500 {
        assert!(pipelined.answer().expect("served").starts_with("HTTP/1.1 200 "));
    }
    assert_eq!(Client::connect(stage.setup.address).get("/health").status, 200, "plain beside it");
    // The page may be a second old.
    wait_until("all handshakes are counted", || {
        let count = |result| {
            let name = format!("frs_tls_handshakes_total{{result=\"{result}\"}}");
            sample(&stage, &client, &name)
        };
        (count("full") >= 1 && count("resumed") >= 4).then_some(())
    });
    let end = sample(&stage, &client, "frs_tls_not_after_seconds{tls=\"edge\"}");
    assert!(end > frs_base::clock::now() / 1000 + 300 * 86_400);
    drop(server);
}

// Shows: tls-words.
#[test]
fn plain_text_where_tls_is_spoken_and_tls_where_it_is_not_are_refused_in_words() {
    let stage = Stage::new(1, "");
    let server = stage.setup.start();
    for address in stage.of_http() {
        let answer = in_plain(address, b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
        assert!(answer.contains("this port speaks TLS"), "{answer}");
    }
    let answer = in_plain(stage.resp.address, b"*1\r\n$4\r\nPING\r\n");
    assert!(answer.starts_with("-ERR this port speaks TLS"), "{answer}");
    let name = "localhost".try_into().expect("a name");
    let mut session = ClientConnection::new(stage.client(), name).expect("sound");
    let mut hello = Vec::new();
    session.write_tls(&mut hello).expect("memory");
    let answer = in_plain(stage.setup.address, &hello);
    assert!(answer.contains("this port speaks plain HTTP"), "{answer}");
    let failed = "frs_tls_handshakes_total{result=\"failed\"}";
    wait_until("all four are counted", || {
        (sample(&stage, &stage.client(), failed) >= 4).then_some(())
    });
    drop(server);
}

// Shows: tls-client-certificates.
#[test]
fn a_client_certificate_is_required_or_wanted() {
    for (client, needs) in [("required", true), ("wanted", false)] {
        let stage = Stage::new(1, &format!("client-ca='conf/ca.pem' client='{client}'"));
        let server = stage.setup.start();
        let own = stage.clients.sign(&Leaf { common_name: "billing", ..Leaf::default() });
        let stranger = Authority::new("clients").sign(&Leaf::default());
        for address in stage.of_http() {
            let ask = |own| {
                let mut client = TlsClient::connect(&stage.client_with(own), address);
                client.get("/health").is_ok_and(|answer| answer.starts_with("HTTP/1.1 200 "))
            };
            assert!(ask(Some(&own)));
            assert_eq!(ask(None), !needs);
            assert!(!ask(Some(&stranger)), "of a wrong authority");
        }
        let mut redis = TlsClient::connect(&stage.client_with(Some(&own)), stage.resp.address);
        assert_eq!(redis.command("PING").expect("served"), "+PONG\r\n");
        let mut redis = TlsClient::connect(&stage.client(), stage.resp.address);
        assert_eq!(redis.command("PING").is_ok(), !needs);
        drop(server);
    }
}

// Shows: tls-bounds.
#[test]
fn a_handshake_that_takes_too_long_is_closed_and_others_are_served_meanwhile() {
    let stage = Stage::new(1, "");
    stage.write_srv(1, "request-timeout='200ms'", "");
    let server = stage.setup.start();
    let mut silent: Vec<TcpStream> = (0..20)
        .map(|nth| {
            let mut stream = TcpStream::connect(stage.http.address).expect("connected");
            stream.set_read_timeout(Some(BOUND)).expect("set");
            // Some begin a handshake.
            stream.write_all(&[22, 3, 1, 2, 0, 1][..nth % 7]).expect("sent");
            stream
        })
        .collect();
    let mut client = TlsClient::connect(&stage.client(), stage.http.address);
    assert!(client.get("/health").expect("served").starts_with("HTTP/1.1 200 "));
    for stream in &mut silent {
        wait_for_the_end(stream);
    }
    drop(server);
}

// Shows: tls-files.
#[test]
fn frs_check_names_what_is_wrong_with_a_pair() {
    let stage = Stage::new(1, "");
    let check = || {
        let output = stage.setup.frs(&["check"]);
        (output.status.success(), text(&output.stdout) + &text(&output.stderr))
    };
    let (fits, said) = check();
    assert!(fits && said.contains("tls edge: conf/edge.pem on "), "{said}");
    assert!(said.contains(" + TLS 40,960)"), "{said}");
    let conf = stage.setup.path("conf");
    stage.servers.sign(&Leaf { days: (-9, 9), ..Leaf::default() }).write(&conf, "edge");
    let (fits, said) = check();
    assert!(fits && said.contains("warning: conf/edge.pem: the certificate ends on "), "{said}");
    stage.servers.sign(&Leaf { days: (-9, -1), ..Leaf::default() }).write(&conf, "edge");
    let (fits, said) = check();
    assert!(!fits && said.contains("conf/edge.pem: found a certificate that ended on "), "{said}");
    let other = stage.servers.sign(&Leaf::default());
    std::fs::write(conf.join("edge.pem"), other.cert).expect("written");
    let (fits, said) = check();
    assert!(
        !fits && said.contains("conf/edge.key: found the key of another certificate"),
        "{said}"
    );
}
