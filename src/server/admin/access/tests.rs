//! Tests of hosts, pages and tokens that are accepted or refused.

use super::*;
use crate::protocol::request_head::fields;
use frs_conf::SecretReaders;

const TOKEN: &str = "0123456789abcdef";

fn tokens(text: &str) -> AdminTokens {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    AdminTokens::read(file.path(), &SecretReaders::of(None)).unwrap()
}

fn status(over: Transport, request: &str) -> u16 {
    status_by(over, Some(&tokens(TOKEN)), request)
}

fn status_without_token(over: Transport, request: &str) -> u16 {
    status_by(over, None, request)
}

fn status_by(over: Transport, tokens: Option<&AdminTokens>, request: &str) -> u16 {
    status_with(over, Keys { tokens, ..Keys::default() }, request)
}

fn status_with(over: Transport, keys: Keys<'_>, request: &str) -> u16 {
    let bytes = format!("{}\r\n\r\n", request.replace('\n', "\r\n"));
    let mut room = fields();
    let head = Head::parse(bytes.as_bytes(), &mut room, 8192).unwrap();
    admit(&head, over, keys).map_or_else(|refusal| refusal.status, |_| 200)
}

// Shows: permissions.
#[test]
fn hosts_are_loopback() {
    for host in [
        "localhost",
        "LocalHost:7601",
        "127.0.0.1",
        "127.8.9.10:1",
        "[::1]",
        "[::1]:7601",
        "[0:0:0:0:0:0:0:1]:65535",
        "localhost:",
    ] {
        let request = format!("GET /health HTTP/1.1\nHost: {host}");
        assert_eq!(status(Transport::Tcp, &request), 200, "{host}");
    }
    for host in [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "localhos%74",
        "127.0.0.1.",
        "[::ffff:127.0.0.1]",
        "10.0.0.1",
        "0.0.0.0",
        "[::]",
        "2130706433",
    ] {
        let request = format!("GET /health HTTP/1.1\nHost: {host}");
        assert_eq!(status(Transport::Tcp, &request), 403, "{host}");
        assert_eq!(status(Transport::Unix, &request), 200, "{host}");
    }
}

// Shows: permissions.
#[test]
fn there_is_one_host_and_it_can_be_one() {
    for host in [
        "",
        "127.0.0.1@evil.example",
        "localhost:x",
        "localhost:1:2",
        "local host",
        "localhost/",
        "[::1",
        "[::1]evil",
        "[localhost]",
        "::1",
        "localhost:65536",
        "localhos%7",
        ":7601",
    ] {
        let request = format!("GET /health HTTP/1.1\nHost: {host}");
        for over in [Transport::Tcp, Transport::Unix] {
            assert_eq!(status(over, &request), 400, "{host}");
        }
    }
    for over in [Transport::Tcp, Transport::Unix] {
        assert_eq!(status(over, "GET /health HTTP/1.1"), 400);
        for second in ["evil.example", "localhost"] {
            let two = format!("GET /health HTTP/1.1\nHost: localhost\nHOST: {second}");
            assert_eq!(status(over, &two), 400);
        }
    }
    assert_eq!(status(Transport::Tcp, "GET /health HTTP/1.0"), 403);
    assert_eq!(status(Transport::Unix, "GET /health HTTP/1.0"), 200);
}

// Shows: permissions.
#[test]
fn a_target_may_name_the_host_and_then_that_one_counts() {
    for (target, host, expected) in [
        ("http://127.0.0.1:7601/health", "127.0.0.1:7601", 200),
        ("HTTP://LocalHost/biz/login", "localhost", 200),
        ("http://[::1]:7601/node?biz=a&key=http://b/c", "localhost", 200),
        ("http://127.0.0.1:7601", "127.0.0.1", 200),
        ("http://127.0.0.1/health", "evil.example", 200),
        ("http://evil.example/health", "127.0.0.1", 403),
        ("http://127.0.0.1@evil.example/health", "127.0.0.1", 400),
        ("http://user@127.0.0.1/health", "127.0.0.1", 400),
        ("http:///health", "127.0.0.1", 400),
        ("http://:80/health", "127.0.0.1", 400),
        ("http://127.0.0.1?biz=a", "127.0.0.1", 400),
        ("https://127.0.0.1/health", "127.0.0.1", 200),
        ("https://evil.example/health", "127.0.0.1", 403),
        ("ftp://127.0.0.1/health", "127.0.0.1", 404),
        ("http://127.0.0.1/health#top", "127.0.0.1", 400),
        ("/node?biz=a&key=\u{e9}", "127.0.0.1", 400),
        ("http://127.0.0.1/none", "127.0.0.1", 404),
        ("http://127.0.0.1/health", "a b", 400),
    ] {
        let request = format!("GET {target} HTTP/1.1\nHost: {host}");
        assert_eq!(status(Transport::Tcp, &request), expected, "{target} {host}");
    }
    assert_eq!(status(Transport::Tcp, "GET http://127.0.0.1/health HTTP/1.1"), 400);
    let own = "GET http://localhost/health HTTP/1.1\nHost: a.example\nOrigin: http://";
    assert_eq!(status(Transport::Tcp, &format!("{own}localhost")), 200);
    assert_eq!(status(Transport::Tcp, &format!("{own}a.example")), 403);
    let change = "POST http://localhost/reload HTTP/1.1\nHost: localhost";
    assert_eq!(status(Transport::Tcp, change), 401);
}

// Shows: permissions.
#[test]
fn pages_of_others_are_refused() {
    for (origin, expected) in [
        ("http://localhost:7601", 200),
        ("http://LOCALHOST:7601", 200),
        ("http://localhost", 403),
        ("https://localhost:7601", 403),
        ("http://evil.example", 403),
        ("http://localhost:7601/", 403),
        ("http://", 403),
        ("null", 403),
        ("", 403),
        ("http://localhost:7601\nOrigin: http://localhost:7601", 403),
    ] {
        for over in [Transport::Tcp, Transport::Unix] {
            let request = format!("GET /health HTTP/1.1\nHost: localhost:7601\nOrigin: {origin}");
            assert_eq!(status(over, &request), expected, "{origin}");
        }
    }
    for host in ["localhost", "localhost:", "LOCALHOST:80"] {
        let own = format!("GET / HTTP/1.1\nHost: {host}\nOrigin: http://localhost");
        assert_eq!(status(Transport::Tcp, &own), 200, "browsers leave out port 80: {host}");
    }
    for (origin, expected) in [
        ("https://localhost:7601", 200),
        ("http://localhost:7601", 403),
        ("https://localhost", 403),
    ] {
        let request = format!("GET /health HTTP/1.1\nHost: localhost:7601\nOrigin: {origin}");
        let keys = Keys { is_tls: true, ..Keys::default() };
        assert_eq!(status_with(Transport::Tcp, keys, &request), expected, "over TLS: {origin}");
    }
    let nameless = "GET / HTTP/1.0\nOrigin: http://localhost";
    assert_eq!(status(Transport::Unix, nameless), 403);
    let cross = "GET /health HTTP/1.1\nHost: localhost\nSec-Fetch-Site: cross-site";
    assert_eq!(status(Transport::Tcp, cross), 403);
}

fn scrape_status(request: &str) -> u16 {
    let bytes = format!("{}\r\n\r\n", request.replace('\n', "\r\n"));
    let mut room = fields();
    let head = Head::parse(bytes.as_bytes(), &mut room, 8192).unwrap();
    admit_scrape(&head, &Http::default(), Transport::Tcp, Keys::default())
        .map_or_else(|refusal| refusal.status, |_| 200)
}

// Shows: remote-metrics.
#[test]
fn where_metrics_are_served_nothing_else_is() {
    for host in ["10.0.0.5:7602", "frs.example", "[fd00::1]:7602", "localhost"] {
        for method in ["GET", "HEAD"] {
            for path in ["/metrics", "/health"] {
                let request = format!("{method} {path} HTTP/1.1\nHost: {host}");
                assert_eq!(scrape_status(&request), 200, "{request}");
            }
        }
    }
    assert_eq!(scrape_status("GET /metrics HTTP/1.0"), 200);
    for (path, methods) in crate::admin::route::PATHS {
        let is_served = ["/metrics", "/health"].contains(&path);
        for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"] {
            let target = path.replace("{biz}", "login");
            let request = format!(
                "{method} {target} HTTP/1.1\nHost: a.example\nAuthorization: Bearer {TOKEN}"
            );
            let expected = match (is_served, methods.split(", ").any(|taken| taken == method)) {
                (false, _) => 404,
                (true, false) => 405,
                (true, true) => 200,
            };
            assert_eq!(scrape_status(&request), expected, "{request}");
        }
    }
    for (rest, expected) in [
        ("/metrics?x=1 HTTP/1.1\nHost: a", 400),
        ("/metrics/ HTTP/1.1\nHost: a", 404),
        ("/%6detrics HTTP/1.1\nHost: a", 404),
        ("/metrics HTTP/1.1\nHost: a b", 400),
        ("/metrics HTTP/1.1", 400),
        ("/metrics HTTP/1.1\nHost: a\nContent-Length: 1", 413),
        ("/metrics HTTP/1.1\nHost: a\nTransfer-Encoding: chunked", 413),
        ("/metrics HTTP/1.1\nHost: a\nOrigin: http://b.example", 403),
        ("/metrics HTTP/1.1\nHost: a\nOrigin: null", 403),
        ("/metrics HTTP/1.1\nHost: a\nSec-Fetch-Site: cross-site", 403),
        ("/metrics HTTP/1.1\nHost: a\nSec-Fetch-Site: none", 200),
    ] {
        assert_eq!(scrape_status(&format!("GET {rest}")), expected, "{rest}");
    }
}

// Shows: permissions.
#[test]
fn changes_need_the_token() {
    let ask =
        |authorization: &str| format!("POST /reload HTTP/1.1\nHost: localhost{authorization}");
    let bearer = |token: &str| ask(&format!("\nAuthorization: Bearer {token}"));
    assert_eq!(status(Transport::Tcp, &bearer(TOKEN)), 200);
    assert_eq!(status(Transport::Tcp, &ask("\nAuthorization: bEARER 0123456789abcdef ")), 200);
    assert_eq!(status(Transport::Tcp, &ask("")), 401);
    for wrong in ["", "0123456789abcde", "0123456789abcdef0", "x"] {
        assert_eq!(status(Transport::Tcp, &bearer(wrong)), 401, "{wrong}");
    }
    assert_eq!(status(Transport::Tcp, &ask("\nAuthorization: Basic 0123456789abcdef")), 401);
    assert_eq!(status_without_token(Transport::Tcp, &bearer(TOKEN)), 403);
    assert_eq!(status_without_token(Transport::Unix, &ask("")), 200);
    assert_eq!(status_without_token(Transport::Tcp, "GET /health HTTP/1.1\nHost: localhost"), 200);
}

// Shows: permissions.
#[test]
fn a_change_has_the_name_of_its_token_and_who_may_only_look_changes_nothing() {
    let other = "fedcba9876543210";
    let tokens = tokens(&format!("alice {TOKEN}\ngrafana {other} read-only\n"));
    let admitted = |method: &str, target: &str, authorization: &str| {
        let request =
            format!("{method} {target} HTTP/1.1\r\nHost: localhost{authorization}\r\n\r\n");
        let mut room = fields();
        let head = Head::parse(request.as_bytes(), &mut room, 8192).unwrap();
        let admitted =
            admit(&head, Transport::Tcp, Keys { tokens: Some(&tokens), ..Keys::default() });
        admitted.map(|admitted| admitted.name.map(|name| name.to_string()))
    };
    let bearer = |token: &str| format!("\r\nAuthorization: Bearer {token}");
    let name = |name: &str| Ok(Some(name.to_owned()));
    assert_eq!(admitted("POST", "/reload", &bearer(TOKEN)), name("alice"));
    let refusal = admitted("POST", "/reload", &bearer(other)).unwrap_err();
    assert_eq!((refusal.status, refusal.wrong_token), (403, false));
    assert_eq!(refusal.words, "the token of grafana is read-only: it changes nothing");
    // Reading needs no token, but a wrong one is refused.
    assert_eq!(admitted("GET", "/stats", ""), Ok(None));
    assert_eq!(admitted("GET", "/stats", "\r\nAuthorization: Basic eDp5"), Ok(None));
    assert_eq!(admitted("GET", "/stats", &bearer(other)), name("grafana"));
    let refusal = admitted("GET", "/stats", &bearer("0123456789abcdeg")).unwrap_err();
    assert_eq!((refusal.status, refusal.wrong_token), (401, true));
}
