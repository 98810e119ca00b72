//! Clients of the rate limit service: tokens, rights, and counts by client.

use std::process::Command;

use super::client::{
    Ask, CHECK, Client, Descriptor, Health, LIMIT, OK, Reply, Said, ask, descriptor, framed, hits,
    post,
};
use super::{DOMAINS, Stage};
use crate::common::files::write_secret;
use crate::common::{needs, text};

/// Each client and its rights.
const CLIENTS: [(&str, &str); 5] = [
    ("edge", r#"may="query update" biz="login two""#),
    ("reader", r#"may="query" biz="*""#),
    ("writer", r#"may="update" biz="*""#),
    ("giver", r#"may="update give-back" biz="login""#),
    ("holder", r#"may="update hold" biz="tokens places""#),
];

const UNAUTHENTICATED: u16 = 16;
const DENIED: u16 = 7;

/// The token of a client.
pub fn token(name: &str) -> String {
    format!("token-of-{name}-0123456789")
}

impl Stage {
    /// A stage with these clients, each with a token of its own, and `anonymous`.
    pub fn with_clients(clients: &[(&str, &str)], anonymous: &str) -> Stage {
        let stage = Stage::new("");
        for (name, _) in clients {
            stage.write_tokens(name, &token(name));
        }
        stage.write(&(stage.element("", DOMAINS) + &list(clients, anonymous)));
        stage
    }

    /// Writes the token file of a client.
    pub fn write_tokens(&self, name: &str, tokens: &str) {
        write_secret(&self.setup.path(&format!("conf/{name}.token")), tokens);
    }
}

/// `<clients>`.
pub fn list(clients: &[(&str, &str)], anonymous: &str) -> String {
    let client = |(name, rights): &(&str, &str)| {
        format!("<client name=\"{name}\" token-file=\"conf/{name}.token\" {rights}/>")
    };
    let all: String = clients.iter().map(client).collect();
    format!("<clients>{all}{anonymous}</clients>")
}

impl Client {
    /// Asks with this field `authorization`.
    pub fn shows(&mut self, authorization: &str, ask: &Ask) -> Reply {
        let mut head = post(LIMIT);
        let value = authorization.parse().expect("a field");
        head.headers_mut().insert("authorization", value);
        self.send_bytes(head, framed(ask)).expect("answered")
    }

    /// Asks as a client of srv.xml.
    pub fn asks_as(&mut self, name: &str, ask: &Ask) -> Reply {
        self.shows(&format!("Bearer {}", token(name)), ask)
    }
}

fn login(user: &str) -> Descriptor {
    descriptor(&[("user", user), ("path", "/login")])
}

fn two(key: &str) -> Descriptor {
    descriptor(&[("two", key)])
}

fn tokens(key: &str, id: &str) -> Descriptor {
    descriptor(&[("tokens", key), ("id", id)])
}

// Shows: envoy-clients.
#[test]
fn a_call_needs_the_right_of_each_business_that_it_charges() {
    let stage = Stage::with_clients(&CLIENTS, "");
    let _server = stage.setup.start();
    let mut client = Client::connect(stage.rls.address);
    let back = Descriptor { negative: true, ..hits(login("a"), 1) };
    let counted = || descriptor(&[("counted", "a")]);
    let nowhere = descriptor(&[("nobody", "x")]);
    let calls = [
        ("a charge", vec![login("a")], &["edge", "writer", "giver"][..]),
        ("a check", vec![hits(login("a"), 0)], &["edge", "reader"]),
        ("another business", vec![counted()], &["writer"]),
        ("two businesses", vec![login("a"), counted()], &["writer"]),
        ("a charge and a check", vec![login("b"), hits(two("b"), 0)], &["edge"]),
        ("a return", vec![back], &["giver"]),
        ("a hold", vec![tokens("a", "1")], &["holder"]),
        ("the end of a hold", vec![hits(tokens("a", "1"), 0)], &["holder"]),
        ("nothing limited", vec![nowhere], &["edge", "reader", "writer", "giver", "holder"]),
    ];
    for (what, descriptors, may) in calls {
        let asked = ask(descriptors);
        for (name, _) in CLIENTS {
            let reply = client.asks_as(name, &asked);
            let expected = if may.contains(&name) { 0 } else { DENIED };
            assert_eq!(reply.grpc, Some(expected), "{what} by {name}: {reply:?}");
        }
    }
}

// Shows: envoy-clients.
#[test]
fn what_is_denied_charges_nothing_and_names_the_right() {
    let stage = Stage::with_clients(&CLIENTS, "");
    let _server = stage.setup.start();
    let mut client = Client::connect(stage.rls.address);
    let asked = ask(vec![login("a"), descriptor(&[("counted", "a")])]);
    let reply = client.asks_as("edge", &asked);
    assert_eq!(reply.grpc, Some(DENIED));
    assert!(reply.message.contains("edge") && reply.message.contains("counted"), "{reply:?}");
    assert!(reply.message.contains("update"), "{reply:?}");
    let left: Said = client.asks_as("edge", &ask(vec![hits(login("a"), 0)])).read();
    assert_eq!(left.statuses[0].remaining, 5);
}

// Shows: envoy-clients.
#[test]
fn a_call_without_a_token_is_anonymous_and_a_wrong_token_is_refused() {
    let anonymous = r#"<anonymous may="query" biz="login"/>"#;
    let stage = Stage::with_clients(&CLIENTS, anonymous);
    let server = stage.setup.start();
    let mut client = Client::connect(stage.rls.address);
    let (charge, check) = (ask(vec![login("a")]), ask(vec![hits(login("a"), 0)]));
    assert_eq!(client.limit(&check).code, OK);
    assert_eq!(client.send(LIMIT, &charge).grpc, Some(UNAUTHENTICATED), "a token is missing");
    for wrong in [
        "Bearer token-of-nobody-0123456789",
        "Bearer ",
        "Bearer",
        &format!("Bearer {} ", token("edge").to_uppercase()),
    ] {
        let reply = client.shows(wrong, &check);
        assert_eq!(reply.grpc, Some(UNAUTHENTICATED), "{wrong}: {reply:?}");
        assert!(!reply.message.contains("token-of"), "{reply:?}");
    }
    // Another scheme shows nothing.
    assert_eq!(client.shows("Basic ZnJzOmZycw==", &check).grpc, Some(0));
    assert_eq!(client.asks_as("edge", &charge).grpc, Some(0));
    assert_eq!(client.shows(&format!("bearer {}", token("edge")), &charge).grpc, Some(0));
    // The health needs nothing, whatever is shown.
    let mut head = post(CHECK);
    head.headers_mut().insert("authorization", "Bearer nonsense".parse().expect("a field"));
    let health: Health =
        client.send_bytes(head, framed(&Health { status: 0 })).expect("answered").read();
    assert_eq!(health.status, 1);
    drop(server);
}

// Shows: envoy-clients.
#[test]
fn a_reload_resolves_the_clients_of_standing_connections_anew() {
    let stage = Stage::with_clients(&CLIENTS, "");
    let _server = stage.setup.start();
    let mut client = Client::connect(stage.rls.address);
    let charge = ask(vec![login("a")]);
    assert_eq!(client.asks_as("edge", &charge).grpc, Some(0));
    // Both tokens are right while a client rotates.
    let new = "another-token-0123456789";
    stage.write_tokens("edge", &format!("{}\n{new}\n", token("edge")));
    assert_eq!(text(&stage.setup.frs(&["reload"]).stdout), "taken: generation 2\n");
    assert_eq!(client.asks_as("edge", &charge).grpc, Some(0));
    assert_eq!(client.shows(&format!("Bearer {new}"), &charge).grpc, Some(0));
    stage.write_tokens("edge", new);
    assert_eq!(text(&stage.setup.frs(&["reload"]).stdout), "taken: generation 3\n");
    assert_eq!(client.asks_as("edge", &charge).grpc, Some(UNAUTHENTICATED));
    assert_eq!(client.shows(&format!("Bearer {new}"), &charge).grpc, Some(0));
    // Fewer rights.
    let fewer = [("edge", r#"may="query" biz="*""#)];
    stage.write(&(stage.element("", DOMAINS) + &list(&fewer, "")));
    assert_eq!(text(&stage.setup.frs(&["reload"]).stdout), "taken: generation 4\n");
    assert_eq!(client.shows(&format!("Bearer {new}"), &charge).grpc, Some(DENIED));
    // Without clients everything is as it was.
    stage.write(&stage.element("", DOMAINS));
    assert!(stage.setup.frs(&["reload"]).status.success());
    assert_eq!(client.send(LIMIT, &charge).grpc, Some(0));
    assert_eq!(client.shows("Bearer whatever-this-is", &charge).grpc, Some(0));
}

/// Calls as grpcio makes them, with metadata.
const SCRIPT: &str = r#"
import sys
import grpc

def field(number, value):
    return bytes([number << 3 | 2, len(value)]) + value

def entry(name, value):
    return field(1, field(1, name) + field(2, value))

def ask(*entries):
    return field(1, b"edge") + field(2, b"".join(entry(*one) for one in entries))

raw = lambda data: data
target, right = sys.argv[1:]
with grpc.insecure_channel(target) as channel:
    limit = channel.unary_unary("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
                                request_serializer=raw, response_deserializer=raw)
    def code(data, token):
        metadata = [("authorization", "Bearer " + token)] if token else []
        try:
            return limit(data, timeout=20, metadata=metadata)[1]
        except grpc.RpcError as error:
            return error.code()
    login, counted = ask((b"user", b"a"), (b"path", b"/login")), ask((b"counted", b"a"))
    assert code(login, right) == 1
    assert code(counted, right) is grpc.StatusCode.PERMISSION_DENIED
    assert code(login, None) is grpc.StatusCode.UNAUTHENTICATED
    assert code(login, "x" * 32) is grpc.StatusCode.UNAUTHENTICATED
    check = channel.unary_unary("/grpc.health.v1.Health/Check", request_serializer=raw,
                                response_deserializer=raw)
    assert check(b"", timeout=20) == b"\x08\x01"
"#;

// Shows: envoy-clients.
#[test]
fn grpcio_shows_its_token_as_metadata() {
    let imports = Command::new("python3").args(["-c", "import grpc"]).output();
    if !imports.is_ok_and(|output| output.status.success()) {
        return needs::skip("grpcio is not installed");
    }
    let stage = Stage::with_clients(&CLIENTS, "");
    let _server = stage.setup.start();
    let target = stage.rls.address.to_string();
    let arguments = ["-c", SCRIPT, &target, &token("edge")];
    let output = Command::new("python3").args(arguments).output().expect("it runs");
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}
