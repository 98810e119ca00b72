//! `<rls>` over TLS: frs-envoy and clients of gRPC that show certificates.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use frs_server::tls::testing::{Authority, Leaf};
use nix::sys::signal::{Signal, kill};
use rustls::ClientConfig;

use super::edge::Edge;
use crate::common::secure::{self, Version};
use crate::common::{needs, text, wait_until};
use crate::rls::client::{Ask, Client, OK, OVER, ask, descriptor};
use crate::rls::envoy::{Files, frs_envoy};

fn three(key: &str) -> Ask {
    ask(vec![descriptor(&[("three", key)])])
}

/// Settings of a client of HTTP/2 that shows this certificate.
fn settings(stage: &Edge, name: Option<&str>, version: Version) -> ClientConfig {
    let pair = name.map(|name| stage.sign(name));
    with_http2(secure::settings(&stage.ca, pair.as_ref(), version))
}

fn with_http2(mut settings: ClientConfig) -> ClientConfig {
    settings.alpn_protocols = vec![b"h2".to_vec()];
    settings
}

fn call(stage: &Edge, settings: ClientConfig, key: &str) -> Option<i32> {
    let mut client = Client::try_connect_secure(stage.rls.address, settings)?;
    client.try_limit(&three(key)).map(|said| said.code)
}

// Shows: tls-rls.
#[test]
fn calls_are_answered_over_both_versions() {
    let stage = Edge::with_rls("");
    let server = stage.setup.start();
    wait_until("frs-envoy is attached", || server.attached("envoy").pop());
    for (key, version) in [("a", Version::Tls12), ("b", Version::Tls13)] {
        let connect = |settings| Client::try_connect_secure(stage.rls.address, settings);
        let mut client = connect(settings(&stage, None, version)).expect("connected");
        let codes: Vec<i32> = (0..4).map(|_| client.limit(&three(key)).code).collect();
        assert_eq!(codes, [OK, OK, OK, OVER], "{version:?}");
    }
    // The uses are those of every other face.
    let answer = server.client().get("/query?biz=three&key=a");
    assert_eq!(answer.attribute("used"), Some("3"), "{answer:?}");
}

// Shows: tls-rls.
#[test]
fn a_call_needs_a_certificate_of_the_authority() {
    let stage = Edge::with_rls("client=\"required\"");
    let server = stage.setup.start();
    wait_until("frs-envoy is attached", || server.attached("envoy").pop());
    let best = Version::Best;
    assert_eq!(call(&stage, settings(&stage, Some("billing"), best), "a"), Some(OK));
    assert_eq!(call(&stage, settings(&stage, None, best), "a"), None, "no certificate");
    let foreign = Authority::new("other").sign(&Leaf::default());
    let shown = secure::settings(&stage.ca, Some(&foreign), best);
    assert_eq!(call(&stage, with_http2(shown), "a"), None, "another authority");
    let expired = stage.ca.sign(&Leaf { days: (-3, -1), ..Leaf::default() });
    let shown = secure::settings(&stage.ca, Some(&expired), best);
    assert_eq!(call(&stage, with_http2(shown), "a"), None, "expired");
    let answer = server.client().get("/query?biz=three&key=a");
    assert_eq!(answer.attribute("used"), Some("1"), "{answer:?}");
}

// Shows: tls-rls.
#[test]
fn a_reload_takes_a_new_certificate_and_connections_stay() {
    let stage = Edge::with_rls("");
    let server = stage.setup.start();
    wait_until("frs-envoy is attached", || server.attached("envoy").pop());
    let mut standing =
        Client::try_connect_secure(stage.rls.address, settings(&stage, None, Version::Best))
            .expect("connected");
    assert_eq!(standing.limit(&three("a")).code, OK);
    let next = Authority::new("next CA");
    next.write(&stage.path(""), "edge");
    let reload = stage.setup.frs(&["reload"]);
    assert!(reload.status.success(), "{}", text(&reload.stderr));
    let trusting_next = || with_http2(secure::settings(&next, None, Version::Best));
    wait_until("the new certificate is shown", || {
        (call(&stage, trusting_next(), "b") == Some(OK)).then_some(())
    });
    assert_eq!(call(&stage, settings(&stage, None, Version::Best), "b"), None, "the old one");
    assert_eq!(standing.limit(&three("a")).code, OK);
    // A replaced frs-envoy has the new one, too.
    let old = server.attached("envoy").pop().expect("one");
    kill(old, Signal::SIGKILL).expect("killed");
    wait_until("another serves", || (call(&stage, trusting_next(), "c") == Some(OK)).then_some(()));
}

// Shows: tls-rls.
#[test]
fn a_client_without_tls_is_told_what_the_port_speaks() {
    let stage = Edge::with_rls("");
    let server = stage.setup.start();
    wait_until("frs-envoy is attached", || server.attached("envoy").pop());
    for preface in ["PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET / HTTP/1.1\r\n\r\n"] {
        let mut stream = TcpStream::connect(stage.rls.address).expect("connected");
        stream.set_read_timeout(Some(crate::common::BOUND)).expect("set");
        stream.write_all(preface.as_bytes()).expect("written");
        let mut said = Vec::new();
        // The rest of the request is not read, so the connection may be reset behind the words.
        let _ = stream.read_to_end(&mut said);
        assert!(text(&said).contains("speaks TLS"), "{said:?}");
    }
}

// Shows: tls-hostile-clients.
#[test]
fn a_flood_and_silent_clients_hold_up_no_call() {
    let stage = Edge::with_rls("");
    let server = stage.setup.start();
    let pid = wait_until("frs-envoy is attached", || server.attached("envoy").pop());
    let silent: Vec<TcpStream> = (0..100)
        .map(|nth| {
            let mut stream = TcpStream::connect(stage.rls.address).expect("connected");
            stream.write_all(&b"\x16\x03\x01\x02\0\x01"[..nth % 7]).expect("written");
            stream
        })
        .collect();
    let good = settings(&stage, None, Version::Best);
    let mut good = Client::try_connect_secure(stage.rls.address, good).expect("connected");
    super::bounds::flood(&stage, stage.rls.address, |_| {
        for nth in 0..300 {
            assert_eq!(good.limit(&three(&format!("good{nth}"))).code, OK);
        }
        let new = settings(&stage, None, Version::Best);
        assert_eq!(call(&stage, new, "new"), Some(OK));
    });
    drop(silent);
    assert_eq!(server.attached("envoy"), [pid]);
}

const SCRIPT: &str = r#"
import sys
import grpc

def field(number, value):
    return bytes([number << 3 | 2, len(value)]) + value

def ask(key):
    return field(1, b"edge") + field(2, field(1, field(1, b"three") + field(2, key)))

def read(path):
    with open(path, "rb") as file:
        return file.read()

def code(credentials, key):
    raw = lambda data: data
    with grpc.secure_channel(sys.argv[1], credentials) as channel:
        limit = channel.unary_unary("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
                                    request_serializer=raw, response_deserializer=raw)
        try:
            return limit(ask(key), timeout=20)[1]
        except grpc.RpcError as error:
            return error.code()

folder = sys.argv[2]
ca = read(folder + "/ca.pem")
shown = grpc.ssl_channel_credentials(ca, read(folder + "/shop.key"), read(folder + "/shop.pem"))
codes = [code(shown, b"grpcio") for _ in range(4)]
assert codes == [1, 1, 1, 2], codes
found = code(grpc.ssl_channel_credentials(ca), b"nothing shown")
assert found is grpc.StatusCode.UNAVAILABLE, found
found = code(grpc.ssl_channel_credentials(read(folder + "/shop.pem")), b"not trusted")
assert found is grpc.StatusCode.UNAVAILABLE, found
"#;

// Shows: tls-programs, tls-rls.
#[test]
fn grpcio_calls_with_a_certificate() {
    let imports = Command::new("python3").args(["-c", "import grpc"]).output();
    if !imports.is_ok_and(|output| output.status.success()) {
        return needs::skip("grpcio is not installed");
    }
    let stage = Edge::with_rls("client=\"required\"");
    let server = stage.setup.start();
    wait_until("frs-envoy is attached", || server.attached("envoy").pop());
    stage.sign("shop").write(&stage.path(""), "shop");
    let target = super::edge::host(stage.rls.address);
    let folder = stage.argument("");
    let mut command = Command::new("python3");
    let output = command.args(["-c", SCRIPT, &target, &folder]).output().expect("it runs");
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}

const TRANSPORT: &str = r#"  - name: frs
    transport_socket:
      name: envoy.transport_sockets.tls
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
        sni: localhost
        common_tls_context:
          tls_certificates:
          - certificate_chain: { filename: FOLDER/gateway.pem }
            private_key: { filename: FOLDER/gateway.key }
          validation_context:
            trusted_ca: { filename: FOLDER/ca.pem }
"#;

// Shows: tls-programs, tls-rls.
#[test]
fn envoy_calls_with_a_certificate_and_is_refused_without() {
    let Some(files) = Files::of("gateways/rls") else { return };
    let ca = Authority::new("frs test CA");
    let conf = files.setup.path("conf");
    std::fs::write(conf.join("ca.pem"), ca.pem()).expect("written");
    ca.write(&conf, "edge");
    ca.write(&conf, "gateway");
    files.write_srv(|srv| {
        let block = "<tls name=\"edge\" cert=\"conf/edge.pem\" key=\"conf/edge.key\" \
            client-ca=\"conf/ca.pem\" client=\"required\"/></srv>";
        srv.replace("<rls ", "<rls tls=\"edge\" ").replace("</srv>", block)
    });
    let server = files.setup.start();
    frs_envoy(&server);
    let folder = conf.display().to_string();
    let secure = TRANSPORT.replace("FOLDER", &folder);
    let envoy = files.envoy(|yaml| yaml.replace("  - name: frs\n", &secure));
    assert_eq!(envoy.statuses("/export", 4), [200, 200, 200, 429], "ten units, three each");
    drop(envoy);
    let shown = secure.find("          tls_certificates").expect("there");
    let checks = secure.find("          validation_context").expect("there");
    let without = format!("{}{}", &secure[..shown], &secure[checks..]);
    let envoy = files.envoy(|yaml| yaml.replace("  - name: frs\n", &without));
    assert_eq!(envoy.get("/export").status, 503, "without a certificate");
}
