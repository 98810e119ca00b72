//! Tests that an answer does not depend on earlier requests of the connection and its neighbours.

use proptest::prelude::*;

use super::*;

/// Requests that leave the connection open. They differ only in properties that affect the answer.
fn requests() -> Vec<String> {
    let with = |head: &str, body: &str| {
        format!("{head}Content-Length: {}\r\nX: y\r\n\r\n{body}", body.len())
    };
    let long = XML.replace("alice", "limited");
    let (update, query) =
        ("POST /update HTTP/1.1\r\nHost: x\r\n", "POST /query HTTP/1.1\r\nHost: x\r\n");
    let (json, as_json) = ("Content-Type: application/json\r\n", "Accept: application/json\r\n");
    let old = "POST /update HTTP/1.0\r\nConnection: keep-alive\r\n";
    vec![
        with(update, XML),
        with(update, &long),
        with(update, &(" ".repeat(60) + XML)),
        with(&format!("{update}Idempotency-Key: one\r\n"), XML),
        with(&format!("{update}Idempotency-Key: two\r\n"), XML),
        with(&format!("{update}Idempotency-Key: two\r\nIdempotency-Key: two\r\n"), XML),
        with(update, ""),
        with(query, XML),
        with(query, "<request/>"),
        with(old, XML),
        with("POST /update HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n", XML),
        with("POST /update HTTP/1.1\r\nHost: x\r\nSec-Fetch-Site: cross-site\r\n", XML),
        with("POST /update HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n", XML),
        with("POST /update HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n", ""),
        with("POST /health HTTP/1.1\r\nHost: x\r\n", XML),
        post("/update", "Content-Length: 50\r\n", XML),
        format!("{CHUNKED_HEAD}32\r\n{XML}\r\n0\r\n\r\n"),
        get("/update?biz=login&key=b"),
        with(&format!("{update}{json}"), JSON),
        with(&format!("{update}{json}"), XML),
        with(&format!("{update}{as_json}"), XML),
        with(&format!("{update}{as_json}"), JSON),
        with(&format!("{update}{json}{as_json}"), JSON),
        with(&format!("{update}{json}{}", as_json.replace("json", "xml")), JSON),
        with(&format!("{update}{json}{as_json}").replace("json", "xml "), XML),
    ]
}

proptest! {
    #[test]
    fn answers_do_not_depend_on_what_was_asked_before(
        asked in prop::collection::vec((0usize..25, 0usize..3), 1..60),
    ) {
        let requests = requests();
        let mut lines: Vec<Line> = (0..3).map(|_| Line::new()).collect();
        let mut scratch = ConnectionBuffers::default();
        for (request, line) in asked {
            let mut fresh = Line::new();
            fresh.push(requests[request].as_bytes());
            let line = &mut lines[line];
            // All connections share the scratch of the worker.
            std::mem::swap(&mut line.scratch, &mut scratch);
            line.out.clear();
            line.push(requests[request].as_bytes());
            std::mem::swap(&mut line.scratch, &mut scratch);
            prop_assert_eq!(line.text(), fresh.text());
            prop_assert!(!line.closed);
        }
    }
}

#[test]
fn a_head_met_before_is_held_against_the_bounds_in_force() {
    let mut line = Line::new();
    line.push(post("/update", "", XML).as_bytes());
    let answer = line.text();
    let http = Http { max_body_bytes: 40, ..HTTP };
    line.push_by(ConnectionRules { http: &http, ..RULES }, post("/update", "", XML).as_bytes());
    assert!(line.text()[answer.len()..].starts_with("HTTP/1.1 413 "));
    assert!(line.closed);

    let mut line = Line::new();
    line.push(post("/update", "", XML).as_bytes());
    let http = Http { max_head_bytes: 20, ..HTTP };
    line.push_by(ConnectionRules { http: &http, ..RULES }, post("/update", "", XML).as_bytes());
    assert!(line.text()[answer.len()..].starts_with("HTTP/1.1 431 "));
}
