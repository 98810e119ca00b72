//! Tests of the hosts and pages that are answered.

use super::*;
use frs_conf::Conf;

/// Rules with these attributes of `<http>`.
fn http(attributes: &str) -> Http {
    let srv = format!("<srv><http {attributes} max-body='300' max-head='512'/></srv>");
    let map = "<map><group name='g' files='1' key-nodes='8' node-size='64'/></map>";
    Conf::parse("srv.xml", &srv, "map.xml", map).expect("good").srv.http
}

fn talk_by(http: &Http, input: &str) -> (String, bool) {
    let mut line = Line::new();
    line.push_by(ConnectionRules { http, ..RULES }, input.as_bytes());
    (line.text(), line.closed)
}

/// The status of the answer, whether it closes the connection, and the origin that it names.
fn answer(http: &Http, input: &str) -> (u16, bool, Option<String>) {
    let (text, closed) = talk_by(http, input);
    let named = text.split("Access-Control-Allow-Origin: ").nth(1);
    let named = named.map(|rest| rest.split("\r\n").next().unwrap().to_owned());
    assert_eq!(text.contains("\r\nVary: Origin\r\n"), named.is_some(), "{text}");
    (statuses(&text)[0], closed, named)
}

const PAGE: &str = "https://app.example";

fn origin(page: &str) -> String {
    format!("Origin: {page}\r\n")
}

// Shows: pages-and-hosts.
#[test]
fn a_page_is_answered_if_it_is_named() {
    let (none, named) = (http(""), http("allow-origin='http://b.example https://app.example'"));
    let asks = |fields: &str| {
        [
            post("/update", fields, XML),
            post("/query", &format!("{fields}Content-Type: application/json\r\n"), JSON),
            get("/update?biz=login&key=a").replace("\r\n\r\n", &format!("\r\n{fields}\r\n")),
            get("/health").replace("\r\n\r\n", &format!("\r\n{fields}\r\n")),
        ]
    };
    for asked in asks(&origin(PAGE)) {
        assert_eq!(answer(&none, &asked), (403, false, None), "{asked}");
        assert_eq!(answer(&named, &asked), (200, false, Some(PAGE.into())), "{asked}");
    }
    for asked in asks(&(origin(PAGE) + "Sec-Fetch-Site: cross-site\r\n")) {
        assert_eq!(answer(&named, &asked), (200, false, Some(PAGE.into())), "{asked}");
    }
    for fields in [
        &*origin("null"),
        &origin(""),
        &origin("*"),
        &origin("https://app.example:443"),
        &origin("https://app.example/"),
        &origin("https://APP.example"),
        &origin("http://app.example"),
        &origin("https://x.app.example"),
        &(origin(PAGE) + &origin(PAGE)),
        &(origin(PAGE) + &origin("http://b.example")),
        "Sec-Fetch-Site: cross-site\r\n",
        "Sec-Fetch-Site: same-site\r\n",
        "Sec-Fetch-Site: \r\n",
    ] {
        for asked in asks(fields) {
            assert_eq!(answer(&named, &asked), (403, false, None), "{asked}");
            let (text, _) = talk_by(&named, &asked);
            assert!(text.contains("\"forbidden\""), "{text}");
            let mut line = Line::new();
            line.push_by(ConnectionRules { http: &named, ..RULES }, asked.as_bytes());
            assert!(line.serve.ran.is_empty(), "{asked}");
        }
    }
    for fields in ["", "Sec-Fetch-Site: none\r\n", "Sec-Fetch-Site: same-origin\r\n"] {
        for asked in asks(fields) {
            assert_eq!(answer(&none, &asked), (200, false, None), "{asked}");
        }
    }
}

#[test]
fn every_answer_to_a_page_lets_it_read_it() {
    let named = http("allow-origin='https://app.example'");
    let page = origin(PAGE);
    for (asked, status, closes) in [
        (get("/nope").replace("\r\n\r\n", &format!("\r\n{page}\r\n")), 404, false),
        (post("/query", &page, "<request>"), 400, false),
        (post("/query", &format!("{page}Content-Type: text/plain\r\n"), XML), 415, false),
        (post("/query", &page, &" ".repeat(301)), 413, true),
        (post("/query", &page, XML).replace("POST", "PUT"), 405, false),
        (
            get("/update?biz=login&key=limited").replace("\r\n\r\n", &format!("\r\n{page}\r\n")),
            429,
            false,
        ),
        (format!("{}{page}\r\nzz\r\n", &CHUNKED_HEAD[..CHUNKED_HEAD.len() - 2]), 400, true),
    ] {
        assert_eq!(answer(&named, &asked), (status, closes, Some(PAGE.into())), "{asked}");
    }
    let mut line = Line::new();
    let rules = ConnectionRules { http: &named, ..RULES };
    line.push_by(rules, &post("/query", &page, XML).as_bytes()[..120]);
    line.connection.time_out(rules, &mut line.serve, &mut line.scratch, &mut line.out);
    assert!(line.text().starts_with("HTTP/1.1 408 "), "{}", line.text());
    assert!(line.text().contains("\r\nAccess-Control-Allow-Origin: https://app.example\r\n"));
}

#[test]
fn a_page_may_ask_first() {
    let named = http("allow-origin='https://app.example'");
    let ask = |target: &str, fields: &str| {
        format!("OPTIONS {target} HTTP/1.1\r\nHost: x\r\n{fields}\r\n")
    };
    let first = origin(PAGE)
        + "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: content-type\r\n";
    for target in ["/update", "/query?biz=a", "/health"] {
        let (text, closed) = talk_by(&named, &(ask(target, &first) + &get("/health")));
        let (permit, rest) = text.split_once("\r\n\r\n").unwrap();
        assert_eq!(
            permit,
            "HTTP/1.1 204 No Content\r\nCache-Control: no-store\r\n\
             Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n\
             Access-Control-Allow-Origin: https://app.example\r\nVary: Origin\r\n\
             Access-Control-Allow-Methods: POST, GET\r\nAccess-Control-Allow-Headers: Authorization, \
             Content-Type, Idempotency-Key"
        );
        assert!(rest.starts_with("HTTP/1.1 200 OK") && !closed, "{text}");
    }
    let closing = first.clone() + "Connection: close\r\n";
    let (text, closed) = talk_by(&named, &ask("/update", &closing));
    assert!(text.contains("\r\nConnection: close\r\n") && closed, "{text}");
    assert_eq!(answer(&named, &ask("/nope", &first)).0, 404);
    assert_eq!(answer(&named, &ask("/update", "")), (405, false, None));
    assert_eq!(answer(&named, &ask("/update", &origin("http://b"))), (403, false, None));
    assert_eq!(answer(&http(""), &ask("/update", &first)), (403, false, None));
}

// Shows: pages-and-hosts.
#[test]
fn gateways_pass_on_what_browsers_say_to_the_site_behind_them() {
    for http in [&http(""), &http("allow-origin='https://app.example'")] {
        for fields in [
            origin("https://shop.example"),
            origin("null"),
            origin(PAGE),
            "Sec-Fetch-Site: cross-site\r\n".into(),
            origin("https://shop.example") + "Sec-Fetch-Site: same-site\r\n",
        ] {
            for method in ["GET", "POST", "OPTIONS"] {
                let asked = format!("{method} /authz/login/ HTTP/1.1\r\nHost: x\r\n{fields}\r\n");
                // The gateway decides on the answer to a page.
                assert_eq!(answer(http, &asked), (200, false, None), "{asked}");
            }
        }
    }
}

#[test]
fn pages_of_one_connection_are_told_apart() {
    let named = http("allow-origin='http://a http://b'");
    let (a, b) = (origin("http://a"), origin("http://b"));
    let all = [
        post("/update", &a, XML),
        post("/update", "", XML),
        post("/update", &b, XML),
        post("/update", &origin("http://c"), XML),
        post("/update", &a, XML),
        get("/health"),
    ];
    let expected = [Some("http://a"), None, Some("http://b"), None, Some("http://a"), None];
    for _ in 0..2 {
        let (text, _) = talk_by(&named, &all.concat());
        assert_eq!(statuses(&text), [200, 200, 200, 403, 200, 200]);
        let answers = text.split("HTTP/1.1 ").skip(1);
        let found: Vec<_> = answers
            .map(|answer| {
                let named = answer.split("Allow-Origin: ").nth(1);
                named.map(|rest| rest.split("\r\n").next().unwrap())
            })
            .collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn a_reload_while_a_page_sends_its_request_does_not_mix_the_pages_up() {
    let before = http("allow-origin='http://a http://b'");
    for (after, expected) in [
        ("allow-origin='http://b http://a'", Some("http://b")),
        ("allow-origin='http://b'", Some("http://b")),
        ("allow-origin='http://a'", None),
        ("", None),
    ] {
        let after = http(after);
        let request = post("/update", &origin("http://b"), XML);
        let (first, second) = request.split_at(request.len() - 5);
        let mut line = Line::new();
        line.push_by(ConnectionRules { http: &before, ..RULES }, first.as_bytes());
        line.push_by(ConnectionRules { http: &after, ..RULES }, second.as_bytes());
        let text = line.text();
        assert_eq!(statuses(&text), [200]);
        let named = text.split("Allow-Origin: ").nth(1).map(|rest| rest.split("\r\n").next());
        assert_eq!(named.flatten(), expected);
    }
}

// Shows: pages-and-hosts.
#[test]
fn a_host_is_answered_if_it_is_named_or_none_is() {
    let (any, named) = (http(""), http("hosts='frs.internal 10.0.0.5:7600'"));
    let ask = |target: &str, host: &str, version: &str| {
        format!("GET {target} HTTP/{version}\r\nConnection: keep-alive\r\n{host}\r\n")
    };
    for (target, host, status) in [
        ("/health", "Host: frs.internal\r\n", 200),
        ("/health", "Host: FRS.Internal:7600\r\n", 200),
        ("/health", "Host: 10.0.0.5:7600\r\n", 200),
        ("/health", "Host: 10.0.0.5\r\n", 403),
        ("/health", "Host: rebound.example\r\n", 403),
        ("/health", "Host: frs.internal.rebound.example\r\n", 403),
        ("/nope", "Host: rebound.example\r\n", 403),
        ("/authz/login/", "Host: rebound.example\r\n", 403),
        ("/authz/login/", "Host: frs.internal\r\n", 200),
        // If the target names a host, that host counts.
        ("http://frs.internal/health", "Host: rebound.example\r\n", 200),
        ("http://rebound.example/health", "Host: frs.internal\r\n", 403),
    ] {
        for version in ["1.1", "1.0"] {
            let asked = ask(target, host, version);
            assert_eq!(answer(&named, &asked), (status, false, None), "{asked}");
            if target != "/nope" {
                assert_eq!(answer(&any, &asked), (200, false, None), "{asked}");
            }
        }
    }
    // A client of HTTP/1.0 names no host, so it matches no allowed host.
    let asked = ask("/health", "", "1.0");
    assert_eq!((answer(&any, &asked).0, answer(&named, &asked).0), (200, 403));
    for (target, host) in [
        ("/health", ""),
        ("/health", "Host: frs.internal\r\nHost: frs.internal\r\n"),
        ("/health", "Host: a b\r\n"),
        ("/authz/login/", ""),
        ("http://frs.internal/health", ""),
        ("http://user@frs.internal/health", "Host: frs.internal\r\n"),
        ("http:///health", "Host: frs.internal\r\n"),
        ("/health#top", "Host: frs.internal\r\n"),
        ("/health?\u{e9}", "Host: frs.internal\r\n"),
    ] {
        let asked = ask(target, host, "1.1");
        for http in [&any, &named] {
            let (text, closed) = talk_by(http, &(asked.clone() + &get("/health")));
            assert_eq!((statuses(&text), closed), (vec![400], true), "{asked}");
            assert!(text.contains("\"bad-http\""), "{text}");
        }
    }
}

// Shows: pages-and-hosts.
#[test]
fn a_head_that_was_met_is_held_against_the_hosts_in_force() {
    let (any, named) = (http(""), http("hosts='frs.internal'"));
    let heads = ["rebound.example", "frs.internal", "FRS.internal:1"].map(|host| {
        let before = format!("POST /update HTTP/1.1\r\nHost: {host}\r\nContent-Length: 50\r\n\r\n");
        let behind = format!("POST /update HTTP/1.1\r\nContent-Length: 50\r\nHost: {host}\r\n\r\n");
        [before, behind].map(|head| head + XML)
    });
    let mut line = Line::new();
    for (nth, http) in [&any, &named, &any, &named, &named].into_iter().enumerate() {
        for (at, requests) in heads.iter().enumerate() {
            for request in requests.iter().flat_map(|request| [request, request]) {
                line.out.clear();
                line.push_by(ConnectionRules { http, ..RULES }, request.as_bytes());
                let status = if at == 0 && http == &named { 403 } else { 200 };
                assert_eq!(statuses(&line.text()), [status], "{nth}: {request}");
            }
        }
    }
    // The head of an HTTP/1.0 client without a Host field is cached, too.
    let old = "POST /update HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 50\r\n\r\n";
    for (http, status) in [(&any, 200), (&any, 200), (&named, 403), (&any, 200)] {
        line.out.clear();
        line.push_by(ConnectionRules { http, ..RULES }, (old.to_owned() + XML).as_bytes());
        assert_eq!(statuses(&line.text()), [status]);
    }
}

#[test]
fn later_minor_versions_are_served_as_1_1() {
    for minor in 1..=9 {
        let as_minor =
            |request: String| request.replacen("HTTP/1.1", &format!("HTTP/1.{minor}"), 1);
        let all = [
            as_minor(post("/update", "", XML)),
            as_minor(get("/query?biz=login&key=a")),
            as_minor(post("/update", "", XML)),
            post("/update", "", XML),
            as_minor(post("/update", "Expect: 100-continue\r\n", XML)),
            as_minor(CHUNKED_HEAD.to_owned() + "0\r\n\r\n"),
        ]
        .concat();
        let mut whole = Line::new();
        whole.push(all.as_bytes());
        assert_eq!(statuses(&whole.text()), [200, 200, 200, 200, 100, 200, 400], "1.{minor}");
        assert!(!whole.closed);
        let mut pieces = Line::new();
        for piece in all.as_bytes().chunks(7) {
            pieces.push(piece);
        }
        assert_eq!(pieces.text(), whole.text());
        // A later minor version must meet all demands of 1.1.
        let (text, closed) = talk(&as_minor(get("/health").replace("Host: x\r\n", "")));
        assert_eq!((statuses(&text), closed), (vec![400], true));
    }
    for version in ["2.0", "0.9", "1.20", "3", "2.1"] {
        let (text, closed) = talk(&get("/health").replace("1.1", version));
        assert_eq!((statuses(&text), closed), (vec![505], true), "{version}");
    }
}

#[test]
fn empty_lines_are_no_request_that_has_begun() {
    let mut line = Line::new();
    for piece in ["\r\n", "\r", "\n", "\r\n\r\n\r", "\n"] {
        assert!(!line.push(piece.as_bytes()).begun, "{piece:?}");
    }
    assert!(line.push(b"\r").consumed <= 1 && line.push(b"\nG").begun);
    assert!(line.out.is_empty() && !line.closed);
}
