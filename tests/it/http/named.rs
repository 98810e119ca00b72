//! The names in requests, against the real binary: hosts, pages, businesses.

use super::{field, post, request};
use crate::common::{Settings, Setup};

const MAP: &str = r#"<map>
  <group name="default" files="2" key-nodes="64" chain="8" node-size="128"/>
  <biz id="1" name="plenty" key="string"><limit policy="interval" interval="1h" max="1000"/></biz>
</map>"#;

const ITEM: &str = "<request><item biz=\"plenty\" key=\"k\"/></request>";

// Shows: pages-and-hosts.
#[test]
fn pages_and_hosts_that_are_named_are_answered_and_a_reload_names_others() {
    let named = |attributes: &str| Settings {
        workers: 1,
        http: attributes.to_owned(),
        ..Settings::default()
    };
    let setup = Setup::new(&named(""));
    setup.write_map(MAP);
    let server = setup.start();
    let mut client = server.client();
    let page = |page: &str| format!("Origin: {page}\r\nSec-Fetch-Site: cross-site\r\n");
    let (one, other) = (page("https://one.example"), page("https://other.example"));
    let mut ask = |sent: &str| {
        client.send(sent);
        let answer = client.answer();
        let origin = field(&answer, "Access-Control-Allow-Origin").map(str::to_owned);
        assert_eq!(field(&answer, "Vary"), origin.as_deref().map(|_| "Origin"), "{answer:?}");
        (answer.status, origin)
    };
    assert_eq!(ask(&post("/update", &one, ITEM)), (403, None));
    for (attributes, own, others) in [
        ("allow-origin='https://one.example'", &one, &other),
        ("allow-origin='https://two.example\nHTTPS://Other.Example:443'", &other, &one),
    ] {
        setup.write_srv(&named(attributes));
        assert!(setup.frs(&["reload"]).status.success());
        let origin = own.split(['\r', ' ']).nth(1).map(str::to_owned);
        assert_eq!(ask(&post("/update", own, ITEM)), (200, origin.clone()));
        assert_eq!(ask(&request("GET /nope", own, "")), (404, origin.clone()));
        let first = format!("{own}Access-Control-Request-Method: POST\r\n");
        assert_eq!(ask(&request("OPTIONS /update", &first, "")), (204, origin));
        assert_eq!(ask(&post("/update", others, ITEM)), (403, None));
        assert_eq!(ask(&post("/update", "", ITEM)), (200, None));
    }
    // Sends the same head repeatedly. The head is cached, but the answer follows the configuration
    // in force.
    let plain = post("/update", "", ITEM);
    for (attributes, status) in
        [("", 200), ("hosts='frs.internal'", 403), ("hosts='frs.internal T'", 200)]
    {
        setup.write_srv(&named(attributes));
        assert!(setup.frs(&["reload"]).status.success());
        for _ in 0..3 {
            assert_eq!(ask(&plain), (status, None), "{attributes}");
        }
    }
    assert_eq!(ask(&plain.replace("Host: t", "Host: frs.Internal:7600")), (200, None));
    assert_eq!(ask(&plain.replace("Host: t", "Host: rebound.example")), (403, None));
    drop(server);
}

#[test]
fn an_id_with_a_leading_zero_names_no_business_in_any_format() {
    let setup = Setup::of_map(MAP);
    let server = setup.start();
    let mut client = server.client();
    let json = "Content-Type: application/json\r\n";
    for biz in ["01", "001", "0", "00001"] {
        for sent in [
            request(&format!("GET /update?biz={biz}&key=k"), "", ""),
            request(&format!("GET /authz/{biz}/"), "", ""),
            post("/update", "", &format!("<request><item biz=\"{biz}\" key=\"k\"/></request>")),
            post("/update", json, &format!(r#"{{"items":[{{"biz":"{biz}","key":"k"}}]}}"#)),
        ] {
            client.send(&sent);
            let answer = client.answer();
            assert!(answer.body.contains("\"unknown-biz\""), "{sent}\n{answer:?}");
        }
    }
    // A JSON number must not have leading zeros either.
    client.send(&post("/update", json, r#"{"items":[{"biz":01,"key":"k"}]}"#));
    let answer = client.answer();
    assert!(answer.status == 400 && answer.body.contains("\"bad-json\""), "{answer:?}");
    let answer = client.get("/query?biz=1&key=k");
    assert_eq!((answer.status, answer.attribute("used")), (200, Some("0")));
}

// Shows: bad-input.
#[test]
fn hosts_and_targets_that_are_none_are_400_and_closed() {
    let setup = Setup::of_map(MAP);
    let server = setup.start();
    for sent in [
        "GET /health HTTP/1.1\r\n\r\n".to_owned(),
        request("GET /health", "Host: t\r\n", ""),
        request("GET /health", "host: other\r\n", ""),
        "GET /health HTTP/1.1\r\nHost:\r\n\r\n".to_owned(),
        "GET /health HTTP/1.1\r\nHost: a b\r\n\r\n".to_owned(),
        "GET /health HTTP/1.1\r\nHost: user@t\r\n\r\n".to_owned(),
        "GET /health HTTP/1.0\r\nHost: a/b\r\n\r\n".to_owned(),
        "GET /health HTTP/1.5\r\n\r\n".to_owned(),
        request("GET /health#top", "", ""),
        request("GET /query?biz=plenty&key=\u{e9}", "", ""),
        request("GET http:///health", "", ""),
        request("GET http://user@t/health", "", ""),
        request("GET http://a b/health", "", ""),
    ] {
        let mut client = server.client();
        // The bytes after the request must not be taken for a request.
        client.send(&(sent.clone() + &request("GET /update?biz=plenty&key=behind", "", "")));
        let answer = client.answer();
        assert_eq!((answer.status, answer.closes()), (400, true), "{sent}\n{answer:?}");
        assert!(answer.body.contains("<error code=\"bad-http\">"), "{sent}\n{answer:?}");
        assert!(client.is_closed(), "{sent}");
    }
    let answer = server.client().get("/query?biz=plenty&key=behind");
    assert_eq!(answer.attribute("used"), Some("0"));
}
