//! Certificates as clients of srv.xml, on every listener.

use std::io::Write;

use frs_server::tls::testing::{Leaf, Signed};
use rustls::HandshakeKind;

use super::edge::Edge;
use super::stage::{Stage, TlsClient};
use crate::common::files::write_secret;
use crate::common::secure::{self, Version};
use crate::common::{Setup, text, wait_until};
use crate::rls::client::{Client, LIMIT, ask, descriptor, framed, post};

const WANTED: &str = "client-ca='conf/ca.pem' client='wanted'";
const SHOP: &str = "token-of-the-shop";
const BILLING: &str = "<client name='billing' cert='CN=billing' biz='three'
                       may='query update metrics admin-read'/>";

/// Adds `<clients>` with the shop, which has a token, and with these.
fn add_clients(setup: &Setup, more: &str) {
    write_secret(&setup.path("conf/shop.token"), SHOP);
    let path = setup.path("conf/srv.xml");
    let srv = std::fs::read_to_string(&path).expect("read");
    let end = format!(
        "<clients>{more}<client name='shop' token-file='conf/shop.token' may='query update'
                                biz='plenty'/></clients></srv>"
    );
    std::fs::write(path, srv.replace("</srv>", &end)).expect("written");
}

fn billing(stage: &Stage) -> Signed {
    stage.clients.sign(&Leaf { common_name: "billing", names: &[], ..Leaf::default() })
}

/// The status of an answer of HTTP.
fn status(client: &mut TlsClient, target: &str, token: Option<&str>) -> u16 {
    let shown = token.map(|token| format!("Authorization: Bearer {token}\r\n"));
    let request =
        format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{}\r\n", shown.unwrap_or_default());
    client.0.write_all(request.as_bytes()).expect("sent");
    let answer = client.answer().expect("answered");
    answer.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status")
}

const THREE: &str = "/query?biz=three&key=a";
const PLENTY: &str = "/query?biz=plenty&key=a";

// Shows: rights, client-tokens, tls-client-certificates.
#[test]
fn a_certificate_is_the_client_that_srv_xml_names_by_it_on_every_listener() {
    let stage = Stage::new(2, WANTED);
    add_clients(&stage.setup, BILLING);
    let _server = stage.setup.start();
    let (shown, bare) = (stage.client_with(Some(&billing(&stage))), stage.client());
    let connect =
        |address| [TlsClient::connect(&shown, address), TlsClient::connect(&bare, address)];
    let [mut own, mut other] = connect(stage.http.address);
    assert_eq!(status(&mut own, THREE, None), 200);
    assert_eq!(status(&mut own, PLENTY, None), 403, "a business of others");
    assert_eq!(status(&mut own, "/update?biz=three&key=a&count=-1", None), 403, "another right");
    assert_eq!(status(&mut other, THREE, None), 401, "no certificate");
    assert_eq!(status(&mut own, PLENTY, Some(SHOP)), 200, "a token beats a certificate");
    assert_eq!(status(&mut own, THREE, Some(SHOP)), 403);
    assert_eq!(status(&mut own, THREE, Some("wrong-token-0123456789")), 401);
    let reply = |own: &mut TlsClient, biz: &str| {
        own.command(&format!("FRS.QUERY {biz} a")).expect("answered")
    };
    let [mut own, mut other] = connect(stage.resp.address);
    assert!(reply(&mut own, "plenty").starts_with("-NOPERM"), "a business of others");
    assert!(reply(&mut own, "three").starts_with('*'));
    assert!(reply(&mut other, "three").starts_with("-NOAUTH"));
    for (address, target) in [(stage.admin.address, "/stats"), (stage.metrics.address, "/metrics")]
    {
        let [mut own, mut other] = connect(address);
        assert_eq!(status(&mut own, target, None), 200, "{target}");
        assert_eq!(status(&mut other, target, None), 401, "{target}");
    }
    let [mut own, _] = connect(stage.admin.address);
    assert_eq!(status(&mut own, "/stats", Some(SHOP)), 403, "a token beats a certificate");
}

// Shows: client-tokens, tls-client-certificates.
#[test]
fn a_resumed_session_is_the_same_client_until_a_reload_removes_it() {
    let stage = Stage::new(2, WANTED);
    let without = std::fs::read_to_string(stage.setup.path("conf/srv.xml")).expect("read");
    add_clients(&stage.setup, BILLING);
    let _server = stage.setup.start();
    let shown = stage.client_with(Some(&billing(&stage)));
    let mut http = TlsClient::connect(&shown, stage.http.address);
    assert_eq!(status(&mut http, THREE, None), 200);
    let mut resumed = TlsClient::connect(&shown, stage.http.address);
    assert_eq!(status(&mut resumed, THREE, None), 200);
    assert_eq!(resumed.kind(), Some(HandshakeKind::Resumed));
    let mut resp = TlsClient::connect(&shown, stage.resp.address);
    assert!(resp.command("PING").expect("answered").starts_with("+PONG"));
    std::fs::write(stage.setup.path("conf/srv.xml"), without).expect("written");
    add_clients(&stage.setup, "");
    let reload = stage.setup.frs(&["reload"]);
    assert!(reload.status.success(), "{}", text(&reload.stderr));
    for client in [&mut http, &mut resumed] {
        wait_until("it is nobody", || (status(client, THREE, None) == 401).then_some(()));
    }
    wait_until("it is nobody over RESP", || {
        resp.command("PING").expect("answered").starts_with("-NOAUTH").then_some(())
    });
}

// Shows: envoy-clients, tls-rls.
#[test]
fn a_certificate_is_the_client_of_envoys_calls() {
    let stage = Edge::with_rls("client=\"wanted\"");
    add_clients(&stage.setup, BILLING);
    let server = stage.setup.start();
    wait_until("frs-envoy is attached", || server.attached("envoy").pop());
    let grpc = |own: Option<&str>, entry: &str| {
        let pair = own.map(|name| stage.sign(name));
        let mut settings = secure::settings(&stage.ca, pair.as_ref(), Version::Best);
        settings.alpn_protocols = vec![b"h2".to_vec()];
        let client = Client::try_connect_secure(stage.rls.address, settings);
        let asked = framed(&ask(vec![descriptor(&[(entry, "a")])]));
        client.expect("connected").send_bytes(post(LIMIT), asked).expect("answered").grpc
    };
    assert_eq!(grpc(Some("billing"), "three"), Some(0));
    assert_eq!(grpc(Some("billing"), "user"), Some(7), "a business of others");
    assert_eq!(grpc(Some("someone"), "three"), Some(16), "no client has this name");
    assert_eq!(grpc(None, "three"), Some(16));
}
