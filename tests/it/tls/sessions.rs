//! Sessions over the life of a server: other workers, reloads and new binaries.

use std::collections::BTreeSet;

use nix::sys::signal::{Signal, kill};
use rustls::HandshakeKind;

use super::stage::{Stage, TlsClient, in_plain};
use crate::common::{text, wait_until};
use crate::life::Life;

/// Connects until each of several workers has likely answered. Returns how the handshakes ended.
fn kinds(
    stage: &Stage,
    client: &std::sync::Arc<rustls::ClientConfig>,
    count: usize,
) -> Vec<HandshakeKind> {
    let connections = (0..count).map(|_| {
        let mut connection = TlsClient::connect(client, stage.http.address);
        assert!(connection.get("/health").expect("served").starts_with("HTTP/1.1 200 "));
        connection.kind().expect("a handshake")
    });
    connections.collect()
}

fn is_resumed(kind: &HandshakeKind) -> bool {
    *kind == HandshakeKind::Resumed
}

// Shows: tls-resumption.
#[test]
fn a_session_is_resumed_at_any_worker_and_after_a_reload_and_an_upgrade() {
    let stage = Stage::new(4, "");
    let life = Life::start(&stage.setup);
    let client = stage.client();
    let first = kinds(&stage, &client, 40);
    assert_eq!(first[0], HandshakeKind::Full);
    assert!(first[1..].iter().all(is_resumed), "at every worker: {first:?}");

    stage.write_pair();
    assert!(stage.setup.frs(&["reload"]).status.success());
    assert!(kinds(&stage, &client, 20).iter().all(is_resumed), "after a reload");

    life.upgrade();
    assert!(kinds(&stage, &client, 20).iter().all(is_resumed), "by the new binary");

    let workers = life.workers();
    kill(nix::unistd::Pid::from_raw(*workers.first().expect("one")), Signal::SIGKILL)
        .expect("killed");
    wait_until("it is replaced", || {
        let now: BTreeSet<i32> = life.workers();
        (now.len() == workers.len() && now != workers).then_some(())
    });
    assert!(kinds(&stage, &client, 20).iter().all(is_resumed), "by its successor");
    life.stop();
}

// Shows: tls-resumption.
#[test]
fn other_authorities_of_clients_end_all_sessions() {
    let stage = Stage::new(2, "client-ca='conf/ca.pem' client='required'");
    let server = stage.setup.start();
    let own = stage.clients.sign(&frs_server::tls::testing::Leaf::default());
    let client = stage.client_with(Some(&own));
    assert_eq!(kinds(&stage, &client, 3)[1..], [HandshakeKind::Resumed; 2]);
    let both = format!("{}{}", stage.clients.pem(), stage.servers.pem());
    std::fs::write(stage.setup.path("conf/ca.pem"), both).expect("written");
    assert!(stage.setup.frs(&["reload"]).status.success());
    let after = kinds(&stage, &client, 2);
    assert_eq!(after, [HandshakeKind::Full, HandshakeKind::Resumed]);
    drop(server);
}

// Shows: tls-renewal.
#[test]
fn a_reload_shows_the_renewed_certificate_and_loses_no_connection() {
    let stage = Stage::new(2, "");
    let server = stage.setup.start();
    let addresses = stage.of_http();
    let mut standing: Vec<TlsClient> =
        addresses.iter().map(|&address| TlsClient::connect(&stage.client(), address)).collect();
    let mut redis = TlsClient::connect(&stage.client(), stage.resp.address);
    redis.command("PING").expect("served");
    standing.iter_mut().for_each(|client| drop(client.get("/health").expect("served")));
    let former = standing[0].shown();

    let renewed = stage.write_pair().der();
    assert_ne!(former, renewed);
    assert!(stage.setup.frs(&["reload"]).status.success());
    for address in addresses {
        wait_until("the renewed certificate is shown", || {
            let mut client = TlsClient::connect(&stage.client(), address);
            client.get("/health").expect("served");
            (client.shown() == renewed).then_some(())
        });
    }
    for client in &mut standing {
        assert!(client.get("/health").expect("it stands").starts_with("HTTP/1.1 200 "));
        assert_eq!(client.shown(), former);
    }
    assert_eq!(redis.command("PING").expect("it stands"), "+PONG\r\n");

    // A pair that does not fit is refused as a whole, and the one in force stays.
    let other = stage.servers.sign(&frs_server::tls::testing::Leaf::default());
    std::fs::write(stage.setup.path("conf/edge.key"), other.key).expect("written");
    let refused = stage.setup.frs(&["reload"]);
    assert!(!refused.status.success());
    assert!(text(&refused.stderr).contains("found the key of another certificate"));
    let mut client = TlsClient::connect(&stage.client(), stage.http.address);
    client.get("/health").expect("served");
    assert_eq!(client.shown(), renewed);
    drop(server);
}

// Shows: tls-renewal.
#[test]
fn a_reload_turns_tls_on_and_off() {
    let stage = Stage::new(2, "");
    let server = stage.setup.start();
    let srv = std::fs::read_to_string(stage.setup.path("conf/srv.xml")).expect("read");
    let plain = |address| {
        let close = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        in_plain(address, close).starts_with("HTTP/1.1 200 ").then_some(())
    };
    assert_eq!(plain(stage.http.address), None);
    let without = srv.replace(" tls='edge'", "");
    std::fs::write(stage.setup.path("conf/srv.xml"), without).expect("written");
    assert!(stage.setup.frs(&["reload"]).status.success());
    for address in stage.of_http() {
        wait_until("plain text is served", || plain(address));
    }
    std::fs::write(stage.setup.path("conf/srv.xml"), srv).expect("written");
    assert!(stage.setup.frs(&["reload"]).status.success());
    for address in stage.of_http() {
        wait_until("TLS is served", || {
            TlsClient::connect(&stage.client(), address).get("/health").ok()
        });
    }
    drop(server);
}
