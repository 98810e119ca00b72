//! Tests of the header field that names the id of an Update.

use super::*;

const ATOMIC: &str = "<request atomic='true'><item biz='login' key='a'/>\
                      <item biz='login' key='b'/></request>";

fn asked(target: &str, fields: &str, body: &str) -> (Vec<String>, String) {
    let mut line = Line::new();
    match body {
        "" => line.push(format!("GET {target} HTTP/1.1\r\nHost: x\r\n{fields}\r\n").as_bytes()),
        body => line.push(post(target, fields, body).as_bytes()),
    };
    assert!(!line.closed, "{}", line.text());
    // The id belongs to one request.
    let ran = std::mem::take(&mut line.serve.ran);
    line.push(post("/update", "", XML).as_bytes());
    assert_eq!(line.serve.ran, ["Update login alice Some(1) false"]);
    (ran, line.text())
}

const FIELD: &str = "Idempotency-Key: b7-c1\r\n";
const QUOTED: &str = "idempotency-key: \"b7-c1\"\r\n";

#[test]
fn it_is_the_id_of_an_item_or_of_an_atomic_request() {
    let json = "Content-Type: application/json\r\n";
    for field in [FIELD, QUOTED] {
        for (target, more, body, ran) in [
            ("/update", "", XML, &["Update login alice Some(1) false once=b7-c1"][..]),
            ("/update", json, JSON, &["Update login alice Some(1) false once=b7-c1"]),
            ("/update?biz=login&key=k", "", "", &["Update login k Some(1) false once=b7-c1"]),
            (
                "/update?biz=login&key=k&once=b7-c1",
                "",
                "",
                &["Update login k Some(1) false once=b7-c1"],
            ),
            (
                "/update",
                "",
                ATOMIC,
                &[
                    "Update login a Some(1) false whole once=b7-c1",
                    "Update login b Some(1) false whole once=b7-c1",
                ],
            ),
            // A Query charges nothing, and a gateway passes on the fields of its client.
            ("/query", "", XML, &["Query login alice Some(1) false"]),
            ("/query?biz=login&key=k", "", "", &["Query login k Some(1) false"]),
            ("/authz/login/x", "", "", &["Update login 192.0.2.1 Some(1) false"]),
        ] {
            let (found, text) = asked(target, &format!("{more}{field}"), body);
            assert_eq!(found, ran, "{target} {field}{text}");
        }
    }
}

#[test]
fn it_is_refused_where_it_cannot_be_the_only_id() {
    let several = ATOMIC.replace(" atomic='true'", "");
    let other = XML.replace("biz=", "once='other' biz=");
    for (target, fields, body, words) in [
        ("/update", FIELD, &*several, "several items"),
        ("/update", FIELD, &other, "found \"other\""),
        ("/update?biz=login&key=k&once=other", FIELD, "", "found \"other\""),
        ("/update", &FIELD.repeat(2), XML, "more than once"),
        ("/update?biz=login&key=k", &FIELD.repeat(2), "", "more than once"),
        ("/update", "Idempotency-Key: \"b\r\n", XML, "expected an id"),
    ] {
        let (ran, text) = asked(target, fields, body);
        assert!(ran.is_empty(), "{target} {fields}");
        assert_eq!(statuses(&text), [400, 200], "{text}");
        let words = words.replace('"', "&quot;");
        let (plain, escaped) = (text.replace('"', "&quot;"), text);
        assert!(plain.contains(&words) && escaped.contains("bad-request"), "{escaped}");
    }
    for target in ["/query", "/authz/login"] {
        assert_eq!(asked(target, &FIELD.repeat(2), XML).0.len(), 1, "{target}");
    }
}
