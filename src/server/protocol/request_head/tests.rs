//! Tests of heads that are accepted, rejected or incomplete.

use super::*;

const MAX: u32 = 256;

/// Reads a head in both ways, which must agree.
fn read(input: &[u8]) -> Result<String, Error> {
    let mut search = Search::START;
    let mut fields = fields();
    let searched = match search.end(input, MAX) {
        Ok(Some(end)) => {
            Head::parse(&input[..end], &mut fields, MAX).map(|head| format!("{end} {head:?}"))
        }
        Ok(None) => Ok("not there yet".to_owned()),
        Err(error) => Err(error),
    };
    let mut fields = super::fields();
    if let Some((end, head)) = Head::parse_at_once(input, &mut fields, MAX) {
        assert_eq!(head.map(|head| format!("{end} {head:?}")), searched);
    } else {
        assert!(!matches!(&searched, Ok(head) if head != "not there yet"));
    }
    searched
}

fn with<R>(head: &str, look: impl FnOnce(&Head<'_, '_>) -> R) -> Result<R, Error> {
    read(head.as_bytes())?;
    let mut fields = fields();
    Head::parse(head.as_bytes(), &mut fields, MAX).map(|head| look(&head))
}

fn with_field<R>(field: &str, look: impl FnOnce(&Head<'_, '_>) -> R) -> Result<R, Error> {
    with(&format!("POST /query HTTP/1.1\r\n{field}\r\n\r\n"), look)
}

#[test]
fn heads() {
    let head = "POST /query HTTP/1.1\r\nHost: x\r\ncontent-LENGTH: 12 \r\n\r\n";
    let what =
        |h: &Head<'_, '_>| (h.method.to_owned(), h.target.to_owned(), h.body, h.fields.len());
    let expected = ("POST".to_owned(), "/query".to_owned(), Body::Length(12), 2);
    assert_eq!(with(head, what), Ok(expected));
    assert_eq!(with_field("Transfer-Encoding: Chunked", |h| h.body), Ok(Body::Chunked));
    assert_eq!(with_field("X: y", |h| h.body), Ok(Body::Length(0)));
    assert_eq!(
        with_field("Content-Length: 1\r\nContent-Length: 1,1", |h| h.body),
        Ok(Body::Length(1))
    );
    assert_eq!(
        with_field("Content-Length: 99999999999999999999", |h| h.body),
        Ok(Body::Length(u64::MAX))
    );
}

#[test]
fn what_a_browser_says_of_the_page() {
    for (field, expected) in [
        ("X: y", false),
        ("Sec-Fetch-Site: none", false),
        ("sec-fetch-site: same-origin", false),
        ("Sec-Fetch-Site: same-site", true),
        ("Sec-Fetch-Site: cross-site", true),
        ("Sec-Fetch-Site: Cross-Site", true),
        ("Sec-Fetch-Site: what", true),
        ("Sec-Fetch-Site:", true),
        ("Sec-Fetch-Site: none\r\nSec-Fetch-Site: cross-site", true),
        ("Sec-Fetch-Site: cross-site\r\nSec-Fetch-Site: none", true),
    ] {
        assert_eq!(with_field(field, |h| h.cross_site), Ok(expected), "{field}");
    }
    for (field, expected) in [
        ("X: y", Lone::Absent),
        ("ORIGIN: null", Lone::Once(b"null")),
        ("Origin:", Lone::Once(b"")),
        ("Origin: a\r\norigin: a", Lone::Repeated),
        ("Origin: a\r\nOrigin: b\r\nOrigin: c", Lone::Repeated),
    ] {
        with_field(field, |h| assert_eq!(h.origin, expected, "{field}")).unwrap();
    }
}

// Shows: bad-input.
#[test]
fn the_host_stands_once() {
    let named = |version: &str, field: &str| {
        with(&format!("GET / HTTP/{version}\r\n{field}\r\n\r\n"), |h| {
            h.authority().map(|found| found.map(|found| (found.host.to_vec(), found.port)))
        })
        .unwrap()
    };
    let host = |name: &str, port| Ok(Some((name.as_bytes().to_vec(), port)));
    for version in ["1.1", "1.0"] {
        assert_eq!(named(version, "Host: frs.internal"), host("frs.internal", None));
        assert_eq!(named(version, "HOST:[::1]:7600"), host("[::1]", Some(7600)));
        for field in [
            "Host: a\r\nHost: a",
            "Host: a\r\nX: y\r\nhost: b",
            "Host:",
            "Host: \r\nHost: a",
            "Host: a b",
            "Host: a, b",
            "Host: user@a",
            "Host: http://a",
            "Host: a/b",
            "Host: a:b",
            "Host: a:1:2",
            "Host: a:65536",
            "Host: ::1",
            "Host: [::1",
            "Host: [a]",
            "Host: a%4",
            "Host: \u{e9}",
        ] {
            let error = named(version, field).unwrap_err();
            assert_eq!((error.code().word(), error.closes()), ("bad-http", true), "{field}");
        }
    }
    assert_eq!(named("1.0", "X: y"), Ok(None));
    let error = named("1.1", "X: y").unwrap_err();
    assert_eq!((error.status(), error.code().word(), error.closes()), (400, "bad-http", true));
}

#[test]
fn a_later_minor_version_is_read_as_the_one_that_is_spoken() {
    for minor in 2..=9 {
        let head = format!("GET /query HTTP/1.{minor}\r\nX: HTTP/1.{minor}\r\n\r\n");
        assert_eq!(read(head.as_bytes()), Err(Error::BadVersion));
        let copy = as_http11(head.as_bytes()).unwrap();
        assert_eq!(copy, head.replacen(&format!("1.{minor}"), "1.1", 1).as_bytes());
        assert!(read(&copy).is_ok());
    }
    for line in ["1.1", "1.0", "1.10", "1.x", "2.0", "0.9", "11.2", "2.2", "1.2 ", " ", ""] {
        let head = format!("GET / HTTP/{line}\r\nX: HTTP/1.2\r\n\r\n");
        assert_eq!(as_http11(head.as_bytes()), None, "{line}");
    }
    assert_eq!(as_http11(b"\r\n"), None);
    assert_eq!(as_http11(b"HTTP/1.2\r\n\r\n"), None);
}

#[test]
fn persistence() {
    for (version, field, expected) in [
        ("1.1", "X: y", true),
        ("1.1", "Connection: close", false),
        ("1.1", "Connection: Upgrade, CLOSE", false),
        ("1.1", "Connection: keep-alive", true),
        ("1.1", "Connection: keep-alive\r\nConnection: close", false),
        ("1.1", "Connection: closed", true),
        ("1.0", "X: y", false),
        ("1.0", "Connection: keep-alive", true),
        ("1.0", "connection: TE , Keep-Alive", true),
        ("1.0", "Connection: keep-alive, close", false),
    ] {
        let head = format!("GET / HTTP/{version}\r\n{field}\r\n\r\n");
        assert_eq!(with(&head, |h| h.keep_alive), Ok(expected), "{head}");
    }
}

#[test]
fn expectations() {
    let expects = |head: &str| with(head, |h| h.expects_continue).unwrap();
    assert!(expects("POST / HTTP/1.1\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\n"));
    assert!(expects(
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
    ));
    assert!(!expects("POST / HTTP/1.1\r\nExpect: 100-continue\r\n\r\n"));
    assert!(!expects("POST / HTTP/1.1\r\nExpect: tea\r\nContent-Length: 1\r\n\r\n"));
    assert!(!expects("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n"));
}

#[test]
fn content() {
    for (field, format) in [
        ("X: y", Format::Xml),
        ("Content-Type: application/xml", Format::Xml),
        ("Content-Type: TEXT/XML", Format::Xml),
        ("Content-Type: text/xml; charset=utf-8", Format::Xml),
        ("Content-Type: application/xml ;Charset=\"UTF-8\"; x=y", Format::Xml),
        ("Content-Encoding: identity", Format::Xml),
        ("Content-Type: application/json", Format::Json),
        ("content-type:Application/JSON", Format::Json),
        ("Content-Type: application/json;charset=UTF-8", Format::Json),
        ("Content-Type: application/json ; CHARSET=\"utf-8\" ; x=y", Format::Json),
    ] {
        assert_eq!(with_field(field, |h| h.content()), Ok(Ok(format)), "{field}");
        assert_eq!(with_field(field, |h| h.own_format()), Ok(format), "{field}");
    }
    for field in [
        "Content-Type:",
        "Content-Type: text/json",
        "Content-Type: application/json5",
        "Content-Type: application/ld+json",
        "Content-Type: application/json; charset=latin1",
        "Content-Type: application/json; charset",
        "Content-Type: application/json, application/json",
        "Content-Type: application/json\r\nContent-Type: application/json",
        "Content-Type: application/json\r\nContent-Encoding: gzip",
        "Content-Type: application/x-www-form-urlencoded",
        "Content-Type: application/xmlish",
        "Content-Type: text/xml; charset=iso-8859-1",
        "Content-Type: text/xml; charset=",
        "Content-Type: text/xml; charset",
        "Content-Type: text/xml\r\nContent-Type: text/xml",
        "Content-Encoding: gzip",
    ] {
        let error = with_field(field, |h| h.content()).unwrap().unwrap_err();
        assert_eq!((error.status(), error.code().word()), (415, "bad-content-type"), "{field}");
    }
}

#[test]
fn the_format_of_the_answer() {
    let get = |field: &str| format!("GET / HTTP/1.1\r\n{field}\r\n\r\n");
    let own = |head: &str| with(head, |h| h.own_format()).unwrap();
    let json = "Content-Type: application/json";
    assert_eq!(own(&get(json)), Format::Xml);
    assert_eq!(own(&get(json).replace("GET", "HEAD")), Format::Xml);
    assert_eq!(own(&get(json).replace("GET", "PUT")), Format::Json);
    // The head is faulty, but names a format.
    let latin = "Content-Type: application/json; charset=latin1";
    assert_eq!(own(&get(latin).replace("GET", "POST")), Format::Json);
    for (field, expected) in [
        ("X: y", [Format::Xml, Format::Json]),
        ("Accept: */*", [Format::Xml, Format::Json]),
        ("accept: application/json", [Format::Json, Format::Json]),
        ("Accept: text/html\r\nACCEPT: text/xml", [Format::Xml, Format::Xml]),
        ("Accept: application/json\r\nAccept: application/xml", [Format::Xml, Format::Json]),
        ("Expect: application/json", [Format::Xml, Format::Json]),
    ] {
        let chosen = [Format::Xml, Format::Json]
            .map(|own| with_field(field, |h| h.answer_format(own)).unwrap());
        assert_eq!(chosen, expected, "{field}");
    }
}

#[test]
fn framing_that_can_be_read_two_ways() {
    for field in [
        "Content-Length: 1\r\nContent-Length: 2",
        "Content-Length: 1, 2",
        "Content-Length: 1,",
        "Content-Length: +1",
        "Content-Length: -1",
        "Content-Length: 0x1",
        "Content-Length: 1 1",
        "Content-Length:",
        "Content-Length: 1\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 1",
        "Transfer-Encoding: gzip\r\nContent-Length: 1",
        "X: a\r\n folded",
        "X: a\n\tfolded",
        " X: a",
        "X : a",
        "X\t: a",
        "X: a\nY: b",
        "X: a\rb",
        "X: \0",
        "X",
        ": a",
        "X y: a",
    ] {
        let error = with_field(field, |_| ()).expect_err(field);
        assert_eq!((error.status(), error.code().word()), (400, "bad-http"), "{field:?}");
        assert!(error.closes());
    }
    for field in [
        "Transfer-Encoding: gzip",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: identity",
        "Transfer-Encoding:",
        "Transfer-Encoding: chunked;q=1",
    ] {
        let error = with_field(field, |_| ()).expect_err(field);
        assert_eq!(
            (error.status(), error.code().word()),
            (501, "bad-transfer-encoding"),
            "{field}"
        );
        assert!(error.closes());
    }
    let error = with("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", |_| ()).unwrap_err();
    assert_eq!((error.status(), error.closes()), (400, true));
}

#[test]
fn request_lines() {
    for (line, status) in [
        ("GET / HTTP/2.0", 505),
        ("PRI * HTTP/2.0", 505),
        ("GET / HTTP/0.9", 505),
        ("GET / HTTP/11.1", 505),
        ("GET / HTTP/3", 505),
        ("GET /", 400),
        ("GET / http/1.1", 400),
        ("GET / HTTP/x", 400),
        ("GET / HTTP/", 400),
        ("GET / a HTTP/1.1", 400),
        ("GET  / HTTP/1.1", 400),
        ("GET / HTTP/1.1 ", 400),
        ("GET", 400),
        ("G(T / HTTP/1.1", 400),
        ("", 400),
    ] {
        let error = with(&format!("{line}\r\nX: y\r\n\r\n"), |_| ()).expect_err(line);
        assert_eq!(error.status(), status, "{line}");
        assert!(error.closes());
    }
}

#[test]
fn garbage_is_known_by_its_first_byte() {
    for input in [&b"\x16\x03\x01"[..], b"\n", b" GET", b"\0", b"\rx", b"\xff"] {
        assert!(matches!(read(input), Err(Error::BadHttp(_))), "{input:?}");
    }
    assert_eq!(read(b"G"), Ok("not there yet".into()));
}

#[test]
fn bounds() {
    let head = |bytes: usize| {
        let mut head = b"GET / HTTP/1.1\r\nX: ".to_vec();
        head.resize(bytes - 4, b'x');
        head.extend_from_slice(b"\r\n\r\n");
        head
    };
    assert!(read(&head(MAX as usize)).is_ok_and(|head| head.starts_with("256 ")));
    let too_large = Err(Error::HeadTooLarge { max_bytes: MAX });
    assert_eq!(read(&head(MAX as usize + 1)), too_large);
    assert_eq!(read(&head(MAX as usize + 1)[..MAX as usize]), too_large);
    assert_eq!(read(&head(MAX as usize)[..MAX as usize - 1]), Ok("not there yet".into()));

    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a:\r\n".repeat(MAX_FIELDS + 1));
    let mut fields = fields();
    let error = Head::parse(many.as_bytes(), &mut fields, 8192).unwrap_err();
    assert_eq!((error.status(), error.closes()), (431, true));
}

#[test]
fn a_head_is_searched_once() {
    let head = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut search = Search::START;
    for cut in 0..head.len() {
        assert_eq!(search.end(&head[..cut], MAX), Ok(None));
        assert_eq!(search.scanned, cut.max(search.line));
    }
    assert_eq!(search.end(head, MAX), Ok(Some(head.len())));
}
