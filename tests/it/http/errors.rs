//! The contract of the data plane against the real binary: every error of a whole request, item
//! errors, statuses, fields, and whether the connection stays open.

use std::io::{Read, Write};

use super::{field, post, request};
use crate::common::address::Reserved;
use crate::common::{Answer, Client, Server, Settings, Setup, text, wait_until};
use nix::sys::signal::Signal;
use serde_json::Value;

const MAP: &str = r#"<map>
  <group name="default" files="2" key-nodes="64" chain="8" node-size="128"/>
  <group name="tiny" files="1" key-nodes="1" chain="2" node-size="64" on-full="refuse"/>
  <biz id="1" name="plenty" key="string"><limit policy="interval" interval="1h" max="1000"/></biz>
  <biz id="2" name="three" key="string"><limit policy="interval" interval="1h" max="3"/></biz>
  <biz id="3" name="ever" key="string"><limit policy="total" max="2"/></biz>
  <biz id="4" name="number" key="integer"><limit policy="total" max="2"/></biz>
  <biz id="5" name="crowded" group="tiny" key="string"><limit policy="total" max="9"/></biz>
  <biz id="6" name="address" key="ip"><limit policy="total" max="1"/></biz>
</map>"#;

const HTTP: &str = r#"max-body="1KiB" max-head="512" max-items="4" max-atomic-items="2""#;

pub(super) fn setup(more: &str) -> Setup {
    let settings = Settings { workers: 1, http: HTTP.to_owned(), more: more.to_owned() };
    let setup = Setup::new(&settings);
    setup.write_map(MAP);
    setup
}

fn chunked(body: &str) -> String {
    request("POST /query", "Transfer-Encoding: chunked\r\n", body)
}

fn items(count: usize) -> String {
    let item = "<item biz=\"plenty\" key=\"k\"/>";
    format!("<request>{}</request>", item.repeat(count))
}

/// Checks the error of a whole request. If the connection must stay open, another request on it
/// must be answered.
pub(super) fn expect(
    server: &Server<'_>,
    sent: &str,
    status: u16,
    code: &str,
    closes: bool,
) -> Answer {
    let answer = expect_status(server, sent, status, closes);
    assert!(answer.body.contains(&format!("<error code=\"{code}\"")), "{sent}\n{answer:?}");
    assert_eq!(field(&answer, "Content-Type"), Some("application/xml"), "{answer:?}");
    answer
}

/// Checks the error of a whole request in JSON. Returns the error.
fn expect_json(server: &Server<'_>, sent: &str, status: u16, code: &str, closes: bool) -> Value {
    let answer = expect_status(server, sent, status, closes);
    assert_eq!(field(&answer, "Content-Type"), Some("application/json"), "{answer:?}");
    let error = json(&answer)["error"].clone();
    assert_eq!(error["code"], code, "{sent}\n{answer:?}");
    assert!(error["message"].as_str().is_some_and(|words| !words.is_empty()), "{answer:?}");
    error
}

fn json(answer: &Answer) -> Value {
    serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
}

fn expect_status(server: &Server<'_>, sent: &str, status: u16, closes: bool) -> Answer {
    let mut client = server.client();
    client.send(sent);
    let answer = client.answer();
    assert_eq!(answer.status, status, "{sent}\n{answer:?}");
    assert_eq!(field(&answer, "Cache-Control"), Some("no-store"), "{answer:?}");
    assert_eq!(answer.closes(), closes, "{sent}\n{answer:?}");
    if closes {
        assert!(client.is_closed(), "{sent}");
    } else {
        assert_eq!(client.get("/health").status, 200, "{sent}");
    }
    answer
}

fn post_json(path: &str, body: &str) -> String {
    post(path, "Content-Type: application/json\r\n", body)
}

pub(super) fn used(server: &Server<'_>, biz: &str, key: &str) -> u64 {
    let answer = server.client().get(&format!("/query?biz={biz}&key={key}"));
    answer.attribute("used").and_then(|used| used.parse().ok()).expect("used")
}

// Shows: bad-input.
#[test]
fn heads_that_could_be_read_in_two_ways_are_400_and_closed() {
    let setup = setup("");
    let server = setup.start();
    let body = items(1);
    let length = body.len();
    for sent in [
        request("GET /health", "A : b\r\n", ""),
        request("GET /health", "A: b\r\n c\r\n", ""),
        request("GET /health", "A: b\r\n\tc\r\n", ""),
        "GET /health HTTP/1.1\nHost: t\n\n".to_owned(),
        "GET /health HTTP/1.1\r\nHost: t\r\nA: b\n c\r\n\r\n".to_owned(),
        post("/query", "Content-Length: 1\r\n", &body),
        request("POST /query", &format!("Content-Length: {length}, 1\r\n"), &body),
        post("/query", "Transfer-Encoding: chunked\r\n", &body),
        request("POST /query", "Content-Length: -1\r\n", ""),
        request("POST /query", "Content-Length: +5\r\n", ""),
        request("POST /query", "Content-Length: 0x5\r\n", ""),
        request("POST /query", "Content-Length: \r\n", ""),
        chunked("zz\r\n"),
        chunked("3\r\nabcde"),
        chunked(&format!("{:x};\r\n{body}\r\n0\r\n\r\n", body.len())),
        chunked(&format!("{:x};=\r\n{body}\r\n0\r\n\r\n", body.len())),
        chunked(&format!("{:x} \r\n{body}\r\n0\r\n\r\n", body.len())),
        "\u{16}\u{3}\u{1}\u{2}".to_owned(),
        "GET /health\r\n\r\n".to_owned(),
        "GET  /health HTTP/1.1\r\nHost: t\r\n\r\n".to_owned(),
    ] {
        // The bytes after the request must not be taken for a request.
        let smuggled = request("GET /update?biz=plenty&key=smuggled", "", "");
        expect(&server, &(sent + &smuggled), 400, "bad-http", true);
    }
    assert_eq!(used(&server, "plenty", "smuggled"), 0);
}

#[test]
fn documents_and_targets_that_are_wrong_are_400_and_the_connection_goes_on() {
    let setup = setup("");
    let server = setup.start();
    let update = "GET /update?biz=plenty&key=k";
    for (sent, code, named) in [
        (post("/query", "", ""), "bad-xml", ""),
        (post("/query", "", "<request>"), "bad-xml", ""),
        (
            post("/query", "", "<request>\n  <item biz=\"b\" key=k/></request>"),
            "bad-xml",
            "line=\"2\"",
        ),
        (post("/query", "", "<!DOCTYPE r><request/>"), "bad-xml", "line=\"1\""),
        (post("/query", "", "{\"items\":[]}"), "bad-xml", ""),
        (post("/query", "", "<nope/>"), "bad-request", "nope"),
        (post("/query", "", "<request/>"), "bad-request", ""),
        (
            post("/query", "", "<request atomic=\"yes\"><item biz=\"b\" key=\"k\"/></request>"),
            "bad-request",
            "yes",
        ),
        (post("/query", "", "<request><item biz=\"b\"/></request>"), "bad-request", "key"),
        (
            post("/query", "", "<request><item biz=\"b\" key=\"k\" kay=\"\"/></request>"),
            "bad-request",
            "kay",
        ),
        (post("/query?biz=plenty", "", &items(1)), "bad-request", "biz=plenty"),
        (request("GET /query", "", ""), "bad-request", ""),
        (request("GET /update?biz=plenty", "", ""), "bad-request", "key"),
        (request(&format!("{update}&kay=1"), "", ""), "bad-request", "kay"),
        (request(&format!("{update}&key=l"), "", ""), "bad-request", "key"),
        (request(&format!("{update}&force=yes"), "", ""), "bad-request", "yes"),
        (request(&format!("{update}&deny=399"), "", ""), "bad-request", "399"),
        (request(&format!("{update}&deny=600"), "", ""), "bad-request", "600"),
        (request("GET /update?biz=plenty&key=%zz", "", ""), "bad-request", ""),
        (request("GET /authz/plenty:200/", "", ""), "bad-request", "200"),
    ] {
        let answer = expect(&server, &sent, 400, code, false);
        assert!(answer.body.contains(named), "{sent}: {named} in {answer:?}");
    }
    assert_eq!(used(&server, "plenty", "k"), 0, "nothing of it was charged");
}

#[test]
fn json_that_is_wrong_is_400_and_the_connection_goes_on() {
    let setup = setup("");
    let server = setup.start();
    let item = r#"{"biz":"plenty","key":"k"}"#;
    let with = |members: &str| format!("{{\"items\":[{{{members}}}]}}");
    for (body, code, place, named) in [
        (String::new(), "bad-json", (1, 1), "too early"),
        ("{\n".into(), "bad-json", (2, 1), "too early"),
        (items(1), "bad-json", (1, 1), "found \"<\""),
        (format!("{{\"items\":\n[{item},]}}"), "bad-json", (2, 29), "comma"),
        (format!("{{\"items\":[{item}]}}é"), "bad-json", (1, 39), "found \"é\""),
        (with(r#""biz":"plenty","key":"\ud800""#), "bad-json", (1, 40), "surrogate"),
        (with("\"biz\":\"plenty\",\"key\":\"\t\""), "bad-json", (1, 34), "control"),
        ("null".into(), "bad-json", (1, 1), "null"),
        (with(r#""biz":"plenty","key":null"#), "bad-json", (1, 33), "null"),
        (with(r#""key":"k","biz":"plenty","key":"k""#), "bad-json", (1, 37), "key"),
        (format!("{{\"items\":[{item}],\"items\":[]}}"), "bad-json", (1, 39), "items"),
        ("[".repeat(1000), "bad-request", (1, 1), "object"),
        (with(&format!("\"key\":{}", "[".repeat(900))), "bad-request", (1, 18), "string"),
        ("{}".into(), "bad-request", (1, 1), "items"),
        ("{\"items\":[]}".into(), "bad-request", (1, 1), "item"),
        (with(r#""biz":"plenty""#), "bad-request", (1, 11), "key"),
        (with(r#""biz":"plenty","key":1.5"#), "bad-request", (1, 33), "1.5"),
        (with(r#""biz":"plenty","key":"k","count":"1""#), "bad-request", (1, 45), "integer"),
        (with(r#""biz":"plenty","key":"k","force":1"#), "bad-request", (1, 45), "true or false"),
        (with(r#""biz":"plenty","key":"k","kay":1"#), "bad-request", (1, 37), "kay"),
        (format!("{{\"atomic\":\"yes\",\"items\":[{item}]}}"), "bad-request", (1, 11), "yes"),
    ] {
        let error = expect_json(&server, &post_json("/update", &body), 400, code, false);
        let (line, column) = place;
        assert_eq!(error["line"], line, "{body}: {error}");
        assert_eq!(error["column"], column, "{body}: {error}");
        assert!(error["message"].as_str().unwrap().contains(named), "{body}: {named} in {error}");
    }
    assert_eq!(used(&server, "plenty", "k"), 0, "nothing of it was charged");
}

#[test]
fn other_errors_are_in_the_format_of_the_request() {
    let setup = setup("");
    let server = setup.start();
    let item = r#"{"biz":"plenty","key":"k"}"#;
    let of = |count: usize| format!("{{\"items\":[{}]}}", vec![item; count].join(","));
    let one = of(1);
    let kind = "Content-Type: application/json\r\n";
    let atomic = of(3).replacen('{', "{\"atomic\":true,", 1);
    let with = |fields: &str| post("/query", &format!("{kind}{fields}"), &one);
    let latin = kind.replace("json", "json; charset=latin1");
    for (sent, status, code, closes) in [
        (post_json("/nope", &one), 404, "not-found", false),
        (request("PUT /query", kind, ""), 405, "bad-method", false),
        (post_json("/query?biz=plenty", &one), 400, "bad-request", false),
        (with("Sec-Fetch-Site: cross-site\r\n"), 403, "forbidden", false),
        (with("Content-Encoding: gzip\r\n"), 415, "bad-content-type", false),
        (post("/query", &latin, &one), 415, "bad-content-type", false),
        (
            request("POST /query", &format!("{kind}Content-Length: 1025\r\n"), ""),
            413,
            "too-large",
            true,
        ),
        (post_json("/query", &of(5)), 413, "too-many-items", true),
        (post_json("/query", &atomic), 413, "too-many-items", true),
        (
            with("Accept: application/xml\r\n").replace(&one, &one.replace('{', "[")),
            400,
            "bad-request",
            false,
        ),
    ] {
        expect_json(&server, &sent, status, code, closes);
    }
    // A request in an unknown format or without a format has its errors in XML.
    let json = "Accept: application/json\r\n";
    for (sent, status, code, closes) in [
        (request("GET /query?biz=plenty", json, ""), 400, "bad-request", false),
        (post("/query", json, "<r/>"), 400, "bad-request", false),
        (request("GET /nope", kind, ""), 404, "not-found", false),
        (with("A : b\r\n"), 400, "bad-http", true),
        (with(&format!("A: {}\r\n", "x".repeat(512))), 431, "head-too-large", true),
        (post("/query", "Content-Type: text/json\r\n", &one), 415, "bad-content-type", false),
    ] {
        expect(&server, &sent, status, code, closes);
    }
}

/// Sends a request that must be answered in JSON with a 200. Returns the items.
fn items_of(client: &mut Client, body: &str) -> Vec<Value> {
    client.send(&post("/update", "Content-Type: application/json; charset=UTF-8\r\n", body));
    let answer = client.answer();
    assert_eq!(answer.status, 200, "{answer:?}");
    json(&answer)["items"].as_array().expect("items").clone()
}

#[test]
fn json_is_read_charged_and_answered() {
    let setup = setup("");
    let server = setup.start();
    let mut client = server.client();
    let several = r#"{"items":[{"biz":2,"key":"a\"\u00e9"},
        {"key":18446744073709551615,"biz":"number"}, {"biz":4,"key":-1},
        {"biz":4,"key":7,"count":1.5}]}"#;
    let items = items_of(&mut client, several);
    for (item, members) in items.iter().zip([
        r#"{"biz":2,"key":"a\"é","limited":false,"used":1,"max":3}"#,
        r#"{"biz":"number","key":18446744073709551615,"limited":false,"used":1}"#,
        r#"{"biz":4,"key":-1,"error":"bad-key"}"#,
        r#"{"biz":4,"key":7,"error":"bad-count"}"#,
    ]) {
        let members: Value = serde_json::from_str(members).expect("JSON");
        for (name, value) in members.as_object().expect("an object") {
            assert_eq!(&item[name], value, "{item}");
        }
    }
    // A JSON number is a key only for integer keys.
    let item = &items_of(&mut client, r#"{"items":[{"biz":"three","key":7}]}"#)[0];
    assert_eq!((&item["key"], &item["error"]), (&Value::from(7), &Value::from("bad-key")));
    let long = r#"{"items":[{"biz":4,"key":18446744073709551616}]}"#;
    client.send(&post_json("/update", long));
    let answer = client.answer();
    assert!(answer.body.contains("\"key\":18446744073709551616,\"error\":"), "{answer:?}");

    let detail = r#"{"items":[{"biz":"number","key":9007199254740993,"detail":true}]}"#;
    let item = &items_of(&mut client, detail)[0];
    assert_eq!(item["limits"][0]["policy"], "total");
    assert_eq!(item.get("reset"), None, "it never comes");
    // Numbers beyond 2^53 are exact.
    assert_eq!(used(&server, "number", "9007199254740993"), 1);
    assert_eq!(used(&server, "number", "9007199254740992"), 0);

    let pair = r#"{"items":[{"biz":"ever","key":"x"},{"biz":"ever","key":"y","count":3}],
        "atomic":true}"#;
    client.send(&post_json("/update", pair));
    assert_eq!(json(&client.answer())["refused"], true);
    assert_eq!(used(&server, "ever", "x"), 0);
}

#[test]
fn accept_chooses_the_other_format() {
    let setup = setup("");
    let server = setup.start();
    let mut client = server.client();
    let fields = "Content-Type: application/json\r\nAccept: text/xml\r\n";
    client.send(&post("/update", fields, r#"{"items":[{"biz":4,"key":5}]}"#));
    let xml = client.answer();
    assert_eq!((xml.attribute("biz"), xml.attribute("key")), (Some("4"), Some("5")));
    assert_eq!(field(&xml, "Content-Type"), Some("application/xml"));
    let accept = "Accept: application/json\r\n";
    for (sent, biz, key) in [
        (post("/query", accept, &items(1)), "plenty", "k"),
        (request("GET /query?biz=4&key=5", accept, ""), "4", "5"),
        (request("GET /authz/address/x", accept, ""), "address", "127.0.0.1"),
    ] {
        client.send(&sent);
        let answer = client.answer();
        assert_eq!(field(&answer, "Content-Type"), Some("application/json"), "{answer:?}");
        let item = &json(&answer)["items"][0];
        assert_eq!((&item["biz"], &item["key"]), (&biz.into(), &key.into()), "{answer:?}");
        assert_eq!(item["limited"], false, "{answer:?}");
    }
}

#[test]
fn other_errors_of_the_whole_request() {
    let setup = setup("");
    let server = setup.start();
    for path in ["/", "/nope", "/query/", "/QUERY", "/authz", "/authz/", "/metrics"] {
        expect(&server, &request(&format!("GET {path}"), "", ""), 404, "not-found", false);
    }
    for (line, allow) in [
        ("PUT /query", "GET, HEAD, POST"),
        ("DELETE /update?biz=plenty&key=k", "GET, HEAD, POST"),
        ("post /query", "GET, HEAD, POST"),
        ("POST /health", "GET, HEAD"),
    ] {
        let answer = expect(&server, &request(line, "", ""), 405, "bad-method", false);
        assert_eq!(field(&answer, "Allow"), Some(allow), "{line}");
    }
    let charging = "GET /update?biz=plenty&key=k";
    for page in [
        "Sec-Fetch-Site: cross-site\r\n",
        "Sec-Fetch-Site: same-site\r\n",
        "Origin: http://t\r\n",
        "Origin: null\r\nSec-Fetch-Site: same-origin\r\n",
    ] {
        expect(&server, &request(charging, page, ""), 403, "forbidden", false);
        expect(&server, &post("/update", page, &items(1)), 403, "forbidden", false);
    }
    assert_eq!(used(&server, "plenty", "k"), 0);
    for (fields, body) in [
        ("Content-Type: application/x-www-form-urlencoded\r\n", items(1)),
        ("Content-Type: text/plain\r\n", items(1)),
        ("Content-Type: application/xml; charset=latin1\r\n", items(1)),
        ("Content-Encoding: gzip\r\n", items(1)),
        ("", format!("<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?>{}", items(1))),
    ] {
        expect(&server, &post("/query", fields, &body), 415, "bad-content-type", false);
    }
    let long = format!("A: {}\r\n", "x".repeat(512));
    expect(&server, &request("GET /health", &long, ""), 431, "head-too-large", true);
    for coding in ["gzip", "gzip, chunked", "identity"] {
        let fields = format!("Transfer-Encoding: {coding}\r\n");
        let sent = request("POST /query", &fields, "");
        expect(&server, &sent, 501, "bad-transfer-encoding", true);
    }
    for version in ["HTTP/2.0", "HTTP/0.9", "HTTP/1.20"] {
        let sent = format!("GET /health {version}\r\nHost: t\r\n\r\n");
        expect(&server, &sent, 505, "bad-version", true);
    }
    for minor in 2..=9 {
        let sent = request(charging, "", "").replace("1.1", &format!("1.{minor}"));
        expect_status(&server, &sent, 200, false);
    }
    assert_eq!(used(&server, "plenty", "k"), 8);
}

#[test]
fn too_large_is_413_and_nothing_is_read_past_the_limit() {
    let setup = setup("");
    let server = setup.start();
    let behind = request("GET /update?biz=plenty&key=behind", "", "");
    for (sent, code) in [
        // Answered before the body is read.
        (request("POST /query", "Content-Length: 1025\r\n", ""), "too-large"),
        (request("POST /query", "Content-Length: 99999999999999999999\r\n", ""), "too-large"),
        (request("GET /query?biz=plenty&key=k", "Content-Length: 1025\r\n", ""), "too-large"),
        (chunked("401\r\n"), "too-large"),
        (chunked(&format!("400\r\n{}\r\n1\r\n", " ".repeat(1024))), "too-large"),
        (post("/query", "", &items(5)) + &behind, "too-many-items"),
        (
            post("/query", "", &items(3).replace("<request>", "<request atomic=\"true\">"))
                + &behind,
            "too-many-items",
        ),
        (request("POST /query", "Content-Length: 2000\r\n", &behind.repeat(20)), "too-large"),
    ] {
        expect(&server, &sent, 413, code, true);
    }
    assert_eq!(used(&server, "plenty", "behind"), 0);
    let padded = |length: usize| format!("{}{}", items(4), " ".repeat(length - items(4).len()));
    for sent in [
        post("/query", "", &padded(1024)),
        chunked(&format!("400\r\n{}\r\n0\r\n\r\n", padded(1024))),
    ] {
        let mut client = server.client();
        client.send(&sent);
        assert_eq!(client.answer().status, 200, "the bound itself is taken");
    }
}

#[test]
fn who_does_not_finish_is_408() {
    let http = format!("{HTTP} request-timeout=\"200ms\"");
    let setup = Setup::new(&Settings { workers: 1, http, ..Settings::default() });
    let server = setup.start();
    for sent in [
        "G".to_owned(),
        "GET /health HTTP/1.1\r\n".to_owned(),
        request("POST /query", "Content-Length: 50\r\n", "<request>"),
        chunked("5\r\n<re"),
    ] {
        let mut client = server.client();
        client.send(&sent);
        let answer = client.answer();
        assert_eq!(answer.status, 408, "{sent}");
        assert!(answer.body.contains("<error code=\"timeout\">"), "{answer:?}");
        assert!(answer.closes() && client.is_closed(), "{sent}");
    }
}

#[test]
fn overload_and_draining_are_503_with_retry_after() {
    let http = "max-connections=\"1\"".to_owned();
    let setup = Setup::new(&Settings { workers: 1, http, ..Settings::default() });
    let server = setup.start();
    // The connection that checked whether the server serves may still be open.
    let mut first = wait_until("the place is free", || {
        let mut client = server.client();
        (client.get("/health").status == 200).then_some(client)
    });
    let mut second = server.client();
    let refused = second.answer();
    assert_eq!((refused.status, field(&refused, "Retry-After")), (503, Some("1")));
    assert!(refused.body.contains("<error code=\"overloaded\">"), "{refused:?}");
    assert!(refused.closes() && second.is_closed());
    server.signal(Signal::SIGQUIT);
    let draining = wait_until("it drains", || {
        let answer = first.get("/health");
        (answer.status != 200).then_some(answer)
    });
    assert_eq!((draining.status, field(&draining, "Retry-After")), (503, Some("1")));
    assert!(draining.body.contains("<error code=\"overloaded\">"), "{draining:?}");
}

// Shows: ratelimit-headers.
#[test]
fn a_get_tells_by_its_status() {
    let setup = setup("");
    let server = setup.start();
    let mut client = server.client();
    for (nth, remaining) in ["2", "1", "0"].iter().enumerate() {
        let answer = client.get("/update?biz=three&key=k");
        assert_eq!((answer.status, field(&answer, "FRS-Limited")), (200, Some("false")));
        assert_eq!(field(&answer, "RateLimit-Policy"), Some("\"three\";q=3;w=3600"));
        let rate = field(&answer, "RateLimit").expect("RateLimit");
        let seconds: u64 = rate
            .strip_prefix(&format!("\"three\";r={remaining};t="))
            .and_then(|seconds| seconds.parse().ok())
            .unwrap_or_else(|| panic!("{nth}: {rate}"));
        assert!((3590..=3600).contains(&seconds), "{rate}");
        assert_eq!(field(&answer, "Retry-After"), None);
    }
    for (command, deny, status) in [
        ("update", "", 429),
        ("query", "", 429),
        ("update", "&deny=403", 403),
        ("update", "&deny=401", 401),
        ("query", "&deny=599", 599),
    ] {
        let answer = client.get(&format!("/{command}?biz=three&key=k{deny}"));
        assert_eq!((answer.status, field(&answer, "FRS-Limited")), (status, Some("true")));
        let retry: u64 = field(&answer, "Retry-After").and_then(|s| s.parse().ok()).expect("retry");
        assert!((3590..=3600).contains(&retry), "{answer:?}");
        assert_eq!(answer.attribute("limited"), Some("true"));
        assert!(!answer.closes());
    }
    // Without a reset there is no time to wait for.
    client.get("/update?biz=ever&key=k&count=2");
    let never = client.get("/update?biz=ever&key=k");
    assert_eq!((never.status, field(&never, "Retry-After")), (429, None));
    assert_eq!(field(&never, "RateLimit-Policy"), Some("\"ever\";q=2"));
    assert_eq!(field(&never, "RateLimit"), Some("\"ever\";r=0"));
    // A POST of one item has the rate limit fields, but neither the item's status nor the field for
    // proxies.
    client.send(&post("/update", "", "<request><item biz=\"three\" key=\"k\"/></request>"));
    let posted = client.answer();
    assert_eq!((posted.status, field(&posted, "FRS-Limited")), (200, None));
    assert!(field(&posted, "Retry-After").is_none() && field(&posted, "RateLimit").is_some());
    client.send(&post("/update", "", &items(2)));
    assert_eq!(field(&client.answer(), "RateLimit"), None);
}

// Shows: unknown-biz.
#[test]
fn a_biz_that_is_not_known_is_refused_in_every_face_where_that_is_wished() {
    let resp = Reserved::new();
    let more = format!("<resp listen=\"{}\"/>", resp.address);
    let setup = setup(&more);
    let server = setup.start();
    let atomic = "<request atomic=\"true\"><item biz=\"plenty\" key=\"k\"/>\
                  <item biz=\"nope\" key=\"k\"/></request>";
    let one = "<request><item biz=\"nope\" key=\"k\"/></request>";
    let in_json = r#"{"items":[{"biz":"nope","key":"k"}]}"#;
    let command = |text: &str| {
        let mut stream = std::net::TcpStream::connect(resp.address).expect("a connection");
        stream.write_all(format!("{text}\r\nQUIT\r\n").as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answers");
        answer
    };
    let mut client = server.client();
    client.send(&post("/update", "", one));
    let open = client.answer();
    assert_eq!((open.attribute("error"), open.attribute("limited")), (Some("unknown-biz"), None));
    assert!(command("FRS.UPDATE nope k").starts_with("-ERR unknown-biz"));
    let http = format!("{HTTP} unknown-biz=\"refuse\"");
    setup.write_srv(&Settings { workers: 1, http, more });
    assert!(setup.frs(&["reload"]).status.success());
    for path in ["/update", "/query"] {
        client.send(&post(path, "", one));
        let told = client.answer();
        assert_eq!((told.status, told.attribute("limited")), (200, Some("true")), "{told:?}");
        for name in ["error", "limit", "used", "retry"] {
            assert_eq!(told.attribute(name), None, "{told:?}");
        }
        client.send(&post_json(path, in_json));
        assert_eq!(json(&client.answer())["items"][0]["limited"], true);
        let got = client.get(&format!("{path}?biz=nope&key=k"));
        assert_eq!((got.status, field(&got, "FRS-Limited")), (429, Some("true")), "{got:?}");
        assert_eq!(client.get(&format!("{path}?biz=nope&key=k&deny=403")).status, 403);
    }
    assert_eq!(client.get("/authz/nope/any").status, 429);
    assert_eq!(client.get("/authz/nope:401/any").status, 401);
    client.send(&post("/update", "", atomic));
    let whole = client.answer();
    assert!(whole.body.starts_with("<response refused=\"true\">"), "{whole:?}");
    assert!(command("FRS.UPDATE nope k").contains("limited\r\n:1\r\n"));
    let forced = "<request><item biz=\"nope\" key=\"k\" force=\"true\"/></request>";
    client.send(&post("/update", "", forced));
    assert_eq!(client.answer().attribute("limited"), Some("true"), "nothing is charged");
    assert_eq!(client.get("/update?biz=plenty&key=").status, 400, "other errors stay");
}

#[test]
fn item_errors_of_a_get_are_never_2xx_nor_denied() {
    let setup = setup("");
    let server = setup.start();
    let mut client = server.client();
    for nth in 0..2 {
        let target = format!("/update?biz=crowded&key={nth}");
        assert_eq!(client.get(&target).status, 200);
    }
    for (parameters, status, error) in [
        ("biz=nope&key=k", 400, "unknown-biz"),
        ("biz=99&key=", 400, "unknown-biz"),
        ("biz=plenty&key=", 400, "bad-key"),
        ("biz=number&key=x", 400, "bad-key"),
        ("biz=address&key=1.2.3.4:80", 400, "bad-key"),
        ("biz=plenty&key=k&count=x", 400, "bad-count"),
        ("biz=plenty&key=k&count=2147483648", 400, "bad-count"),
        ("biz=plenty&key=k&count=%2B1", 400, "bad-count"),
        ("biz=crowded&key=one-more", 503, "full"),
    ] {
        for deny in ["", "&deny=403"] {
            let answer = client.get(&format!("/update?{parameters}{deny}"));
            assert_eq!(answer.status, status, "{parameters}: {answer:?}");
            assert_eq!(answer.attribute("error"), Some(error), "{parameters}: {answer:?}");
            for name in ["FRS-Limited", "RateLimit", "RateLimit-Policy", "Retry-After"] {
                assert_eq!(field(&answer, name), None, "{parameters}: {answer:?}");
            }
            assert!(!answer.closes());
        }
    }
    client.send(&post("/update", "", "<request><item biz=\"nope\" key=\"k\"/></request>"));
    let posted = client.answer();
    assert_eq!((posted.status, posted.attribute("error")), (200, Some("unknown-biz")));
}

/// All bytes received for `sent`, which must end the connection.
fn everything(server: &Server<'_>, sent: &str) -> String {
    let mut client = server.client();
    client.send(sent);
    let mut all = Vec::new();
    client.stream.read_to_end(&mut all).expect("answered and closed");
    text(&all)
}

#[test]
fn a_head_is_a_get_without_a_body_and_charges() {
    let setup = setup("");
    let server = setup.start();
    let close = "Connection: close\r\n";
    for (target, status) in [
        ("/update?biz=ever&key=h", "200 OK"),
        ("/update?biz=ever&key=h", "200 OK"),
        ("/update?biz=ever&key=h", "429 Too Many Requests"),
        ("/nope", "404 Not Found"),
        ("/health", "200 OK"),
    ] {
        let said = everything(&server, &request(&format!("HEAD {target}"), close, ""));
        assert!(said.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{said}");
        assert!(said.ends_with("\r\n\r\n") && said.matches("\r\n\r\n").count() == 1, "{said}");
        assert!(!said.contains("Content-Length: 0\r\n"), "the length a GET would have: {said}");
    }
    assert_eq!(used(&server, "ever", "h"), 2);
}

/// The answers without the parts that change every second.
fn undated(answers: &str) -> String {
    answers.lines().filter(|line| !line.starts_with("Date: ")).collect::<Vec<_>>().join("\n")
}

#[test]
fn answers_do_not_depend_on_the_pieces_of_a_pipeline() {
    let setup = setup("");
    let server = setup.start();
    let two = "<request><item biz='ever' key='a'/><item biz='nope' key='&#x41;'/></request>";
    let pipeline = [
        post("/query", "Content-Type: text/xml\r\n", two),
        request("GET /query?biz=ever&key=a%20b&detail=true", "", ""),
        chunked(&format!("{:x}\r\n{two}\r\n0\r\nT: x\r\n\r\n", two.len())),
        request("GET /nope", "", ""),
        post("/query", "Expect: 100-continue\r\n", two),
        post("/nope", "", "not read"),
        request("PUT /query", "", ""),
        post("/query", "", "<request><item/>"),
        post_json("/query", r#"{"items":[{"biz":3,"key":"\u0061"},{"biz":"nope","key":7}]}"#),
        post("/query", "Content-Type: application/json\r\nAccept: text/xml\r\n", "{}"),
        post("/query", "Accept: application/json\r\n", two),
        request("HEAD /query?biz=nope&key=k", "", ""),
        request("GET /health", "Connection: close\r\n", ""),
    ]
    .concat();
    let whole = undated(&everything(&server, &pipeline));
    assert_eq!(whole.matches("HTTP/1.1 ").count(), 14, "{whole}");
    let mut beside = server.client();
    for at in 1..pipeline.len() {
        let (first, second) = pipeline.split_at(at);
        let mut client = server.client();
        client.send(first);
        // Once this answer arrives, the only worker has read the piece sent before.
        assert_eq!(beside.get("/health").status, 200);
        client.send(second);
        let mut all = Vec::new();
        client.stream.read_to_end(&mut all).expect("answered and closed");
        assert_eq!(undated(&text(&all)), whole, "split at {at}: {first:?}");
    }
    // The same byte by byte.
    let mut client = server.client();
    for byte in pipeline.as_bytes() {
        client.stream.write_all(&[*byte]).expect("sent");
        assert_eq!(beside.get("/health").status, 200);
    }
    let mut all = Vec::new();
    client.stream.read_to_end(&mut all).expect("answered and closed");
    assert_eq!(undated(&text(&all)), whole);
}
