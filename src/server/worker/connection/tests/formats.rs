//! Tests of the format of requests and answers.

use serde_json::Value;

use super::*;

const TYPE_JSON: &str = "Content-Type: application/json\r\n";
const TYPE_XML: &str = "Content-Type: application/xml\r\n";

/// Types and documents of the answers in `text`.
fn documents(text: &str) -> Vec<(String, String)> {
    let mut documents = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (head, behind) = rest.split_once("\r\n\r\n").expect("a whole head");
        let field = |name: &str| head.split(name).nth(1)?.split("\r\n").next();
        let length = field("Content-Length: ").map_or(0, |length| length.parse().unwrap());
        let kind = field("Content-Type: ").unwrap_or_default();
        documents.push((kind.to_owned(), behind[..length].to_owned()));
        rest = &behind[length..];
    }
    documents
}

fn is_json(kind: &str, document: &str) -> bool {
    let is_json = serde_json::from_str::<Value>(document).is_ok();
    assert_eq!(kind == "application/json", is_json, "{kind}: {document}");
    assert_eq!(kind == "application/xml", document.starts_with('<'), "{kind}: {document}");
    is_json
}

#[test]
fn a_post_in_json() {
    let mut line = Line::new();
    line.push(post("/update", TYPE_JSON, JSON).as_bytes());
    assert_eq!(
        line.text(),
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCache-Control: no-store\r\n\
         Date: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Length: 113\r\n\
         RateLimit-Policy: \"login\";q=5;w=60\r\nRateLimit: \"login\";r=4;t=60\r\n\r\n\
         {\"items\":[{\"biz\":\"login\",\"key\":\"alice\",\"limited\":false,\"limit\":1,\"used\":1,\
         \"max\":5,\"remaining\":4,\"reset\":60000}]}\n"
    );
    assert_eq!(line.serve.ran, ["Update login alice Some(1) false"]);

    let numbers = r#"{"items":[{"biz":1,"key":18446744073709551615,"count":-2,"force":true}]}"#;
    let mut line = Line::new();
    line.push(post("/query", TYPE_JSON, numbers).as_bytes());
    assert_eq!(line.serve.ran, ["Query 1 18446744073709551615 Some(-2) true"]);
    assert!(line.text().contains("[{\"biz\":1,\"key\":18446744073709551615,"), "{}", line.text());
    // In XML every value is text.
    let (text, _) = talk(&post("/query", &format!("{TYPE_JSON}Accept: text/xml\r\n"), numbers));
    assert!(text.contains("<item biz=\"1\" key=\"18446744073709551615\" "), "{text}");
}

#[test]
fn the_format_of_the_answer_is_what_accept_wants_most() {
    let plain = "application/json;q=0.4, application/xml;q=0.5";
    for (accept, xml_as_json, json_as_json) in [
        (None, false, true),
        (Some("*/*"), false, true),
        (Some("application/*"), false, true),
        (Some("text/html"), false, true),
        (Some("application/json, application/xml"), false, true),
        (Some("application/json;q=0, application/xml;q=0"), false, true),
        (Some("application/json;q=x"), false, true),
        (Some("application/json"), true, true),
        (Some("APPLICATION/JSON;q=0.1"), true, true),
        (Some("application/json, */*;q=0.8"), true, true),
        (Some("application/xml;q=0, */*"), true, true),
        (Some("application/xml"), false, false),
        (Some("text/xml"), false, false),
        (Some("text/*"), false, false),
        (Some(plain), false, false),
        (Some("text/html, application/xml;q=0.9, */*;q=0.8"), false, false),
    ] {
        let accept = accept.map_or(String::new(), |accept| format!("Accept: {accept}\r\n"));
        let get =
            |target: &str| format!("GET {target} HTTP/1.1\r\nHost: x\r\n{accept}{TYPE_JSON}\r\n");
        for (request, as_json, status) in [
            (post("/query", &accept, XML), xml_as_json, 200),
            (post("/query", &format!("{accept}{TYPE_XML}"), XML), xml_as_json, 200),
            (post("/query", &format!("{TYPE_JSON}{accept}"), JSON), json_as_json, 200),
            // Errors of the whole request use the format of the request.
            (post("/query", &format!("{TYPE_JSON}{accept}"), "{"), true, 400),
            (post("/query", &accept, "{"), false, 400),
            (post("/nope", &format!("{TYPE_JSON}{accept}"), "{"), true, 404),
            (get("/query?biz=login&key=a"), xml_as_json, 200),
            (get("/query?biz=login&key=limited"), xml_as_json, 429),
            (get("/query?biz=login"), false, 400),
            (get("/nope"), false, 404),
            (get("/authz/login/x"), xml_as_json, 200),
            // The body and its content type belong to the client of the gateway.
            (post("/authz/login", &format!("{TYPE_JSON}{accept}"), JSON), xml_as_json, 200),
        ] {
            let (text, _) = talk(&request);
            assert_eq!(statuses(&text), [status], "{request}");
            let (kind, document) = &documents(&text)[0];
            assert_eq!(is_json(kind, document), as_json, "{request}\n{text}");
        }
        let (text, _) = talk(&get("/health"));
        assert_eq!(documents(&text)[0].0, "text/plain; charset=utf-8");
    }
}

#[test]
fn types_that_are_read() {
    for (kind, body, status) in [
        ("application/json", JSON, 200),
        ("Application/JSON; charset=UTF-8", JSON, 200),
        ("application/json;charset=\"utf-8\";x=y", JSON, 200),
        ("application/json; charset=latin1", JSON, 415),
        ("text/json", JSON, 415),
        ("application/json", XML, 400),
        ("application/xml", JSON, 400),
        ("text/xml", JSON, 400),
        ("text/plain", JSON, 415),
    ] {
        let (text, closed) = talk(&post("/query", &format!("Content-Type: {kind}\r\n"), body));
        assert_eq!((statuses(&text), closed), (vec![status], false), "{kind}: {body}");
        let (found, document) = &documents(&text)[0];
        let named = kind.to_ascii_lowercase().starts_with("application/json");
        assert_eq!(is_json(found, document), named, "{kind}: {text}");
    }
}

#[test]
fn errors_of_the_whole_request_in_json() {
    let item = r#"{"biz":"b","key":"k"}"#;
    let items = |n: usize| format!(r#"{{"items":[{}]}}"#, vec![item; n].join(","));
    let atomic = items(3).replacen('{', "{\"atomic\":true,", 1);
    let json = |path: &str, body: &str| post(path, TYPE_JSON, body);
    let latin = "Content-Type: application/json; charset=latin1\r\n";
    let chunked = |chunks: &str| {
        format!(
            "POST /query HTTP/1.1\r\nHost: x\r\n{TYPE_JSON}Transfer-Encoding: chunked\r\n\r\n{chunks}"
        )
    };
    let cross = format!("{TYPE_JSON}Sec-Fetch-Site: cross-site\r\n");
    let coded = format!("{TYPE_JSON}Content-Encoding: gzip\r\n");
    for (request, status, code, closes) in [
        (json("/query", "{"), 400, "bad-json", false),
        (json("/query", ""), 400, "bad-json", false),
        (format!("POST /query HTTP/1.1\r\nHost: x\r\n{TYPE_JSON}\r\n"), 400, "bad-json", false),
        (chunked("0\r\n\r\n"), 400, "bad-json", false),
        (json("/query", r#"{"items":null}"#), 400, "bad-json", false),
        (json("/query", r#"{"items":[],"items":[]}"#), 400, "bad-json", false),
        (json("/query", "\u{FEFF}{} x"), 400, "bad-json", false),
        (json("/query", "{}"), 400, "bad-request", false),
        (json("/query", r#"{"items":[]}"#), 400, "bad-request", false),
        (json("/query", r#"{"items":[{"biz":1}]}"#), 400, "bad-request", false),
        (json("/query?biz=b", JSON), 400, "bad-request", false),
        (json("/nope", JSON), 404, "not-found", false),
        (json("/query", JSON).replace("POST", "PUT"), 405, "bad-method", false),
        (post("/query", &cross, JSON), 403, "forbidden", false),
        (json("/query", &" ".repeat(301)), 413, "too-large", true),
        (chunked("12d\r\n"), 413, "too-large", true),
        (json("/query", &items(5)), 413, "too-many-items", true),
        (json("/query", &atomic), 413, "too-many-items", true),
        (post("/query", latin, JSON), 415, "bad-content-type", false),
        (post("/query", &coded, JSON), 415, "bad-content-type", false),
        (chunked("zz\r\n"), 400, "bad-http", true),
    ] {
        let (text, closed) = talk(&(request.clone() + &get("/health")));
        let expected = if closes { vec![status] } else { vec![status, 200] };
        assert_eq!((statuses(&text), closed), (expected, closes), "{request}\n{text}");
        assert_eq!(text.contains("Connection: close"), closes);
        let (kind, document) = &documents(&text)[0];
        assert!(is_json(kind, document), "{text}");
        let error = &serde_json::from_str::<Value>(document).unwrap()["error"];
        assert_eq!(error["code"], code, "{request}\n{text}");
        assert!(error["message"].as_str().is_some_and(|words| !words.is_empty()), "{text}");
        // Faults in the body are reported with their place.
        let placed = error["line"].is_u64() && error["column"].is_u64();
        let in_body = code == "bad-json" || code == "bad-request" && !request.contains('?');
        assert_eq!(placed, in_body, "{text}");
    }
    // A head that cannot be parsed has no format.
    let broken = format!("POST /query HTTP/1.1\r\nHost: x\r\n{TYPE_JSON}A : b\r\n\r\n");
    assert_eq!(documents(&talk(&broken).0)[0].0, "application/xml");
}

#[test]
fn who_does_not_finish_is_told_in_the_format_of_the_request() {
    for (part, json) in [
        (
            format!("POST /query HTTP/1.1\r\nHost: x\r\n{TYPE_JSON}Content-Length: 50\r\n\r\n{{"),
            true,
        ),
        (
            format!(
                "POST /query HTTP/1.1\r\nHost: x\r\n{TYPE_JSON}Transfer-Encoding: chunked\r\n\r\n1\r\n{{"
            ),
            true,
        ),
        (format!("POST /query HTTP/1.1\r\nHost: x\r\n{TYPE_JSON}"), false),
    ] {
        let mut line = Line::new();
        line.push(part.as_bytes());
        line.connection.time_out(RULES, &mut line.serve, &mut line.scratch, &mut line.out);
        let text = line.text();
        assert_eq!(statuses(&text), [408]);
        assert!(text.contains("Connection: close\r\n"));
        let (kind, document) = &documents(&text)[0];
        assert_eq!(is_json(kind, document), json, "{part}\n{text}");
    }
}

// Shows: same-in-xml-and-json.
#[test]
fn answers_that_wait_together_are_each_in_their_own_format() {
    let accept = "Accept: application/json\r\n";
    let requests = [
        (post("/query", "", XML), false),
        (post("/query", TYPE_JSON, JSON), true),
        (post("/query", accept, XML), true),
        (post("/query", TYPE_XML, XML), false),
        (post("/query", TYPE_JSON, "[]"), true),
        (post("/query", "", "<r/>"), false),
        (get("/query?biz=login&key=a"), false),
        (
            get("/query?biz=login&key=a").replace("Host: x\r\n", &format!("Host: x\r\n{accept}")),
            true,
        ),
        (post("/query", TYPE_JSON, JSON), true),
    ];
    let pipeline: String = requests.iter().map(|(request, _)| &**request).collect();
    let expected: Vec<bool> = requests.iter().map(|&(_, json)| json).collect();
    for cut in 0..=pipeline.len() {
        let mut line = Line::new();
        // In the second round, the heads are in the cache.
        for _ in 0..2 {
            line.out.clear();
            line.push(&pipeline.as_bytes()[..cut]);
            line.push(&pipeline.as_bytes()[cut..]);
            let found: Vec<bool> =
                documents(&line.text()).iter().map(|(kind, text)| is_json(kind, text)).collect();
            assert_eq!(found, expected, "cut at {cut}");
        }
    }
}
