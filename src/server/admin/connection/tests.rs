//! Tests of requests to the admin plane, in any pieces and each format.

use super::*;
use crate::protocol::route::Target;

fn admit(head: &Head<'_, '_>) -> Result<Admitted, Refusal> {
    let route = super::super::route::route(head.method, &Target::parse(head.target)?)?;
    Ok(Admitted { route, name: None })
}

/// Feeds the pieces and answers each request at once. Returns the requests, the output and whether
/// the connection is over.
fn run(pieces: &[&[u8]]) -> (Vec<AdminRequest>, String, bool) {
    let (mut connection, mut asked, mut out) = (AdminConnection::default(), vec![], vec![]);
    for piece in pieces {
        if connection.wants_input() {
            connection.take(piece);
        }
        loop {
            let step = connection.step(0, admit);
            let run = matches!(step, ConnectionStep::Run(_));
            if let ConnectionStep::Run(one) = step {
                asked.push(*one);
                connection.answer(&Response::text(Format::Xml, *b"<ok/>"), 0);
            }
            while connection.has_output() {
                out.push(connection.output()[0]);
                connection.note_sent(1);
            }
            if !run {
                break;
            }
        }
    }
    (asked, String::from_utf8(out).unwrap(), connection.is_over())
}

#[test]
fn requests_in_any_pieces() {
    let input = b"PUT /biz/a HTTP/1.1\r\nContent-Length: 6\r\n\r\n<biz/>\
        PUT /biz/b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n<bi\r\n3\r\nz/>\r\n0\r\n\r\n\
        HEAD /health HTTP/1.1\r\nConnection: close\r\n\r\nrest";
    let bytes: Vec<&[u8]> = input.chunks(1).collect();
    for cut in 0..input.len() {
        let (asked, out, over) = run(&[&input[..cut], &input[cut..]]);
        let bodies: Vec<&[u8]> = asked.iter().map(|asked| &asked.body[..]).collect();
        assert_eq!(bodies, [&b"<biz/>"[..], b"<biz/>", b""], "cut at {cut}");
        assert_eq!(out.matches("200 OK").count(), 3);
        assert_eq!(out.matches("<ok/>").count(), 2, "none follows on HEAD");
        assert!(over);
    }
    assert_eq!(run(&bytes).0.len(), 3);
}

#[test]
fn bounds_and_refusals_close_where_a_body_would_follow() {
    let long = format!("GET /{} HTTP/1.1\r\n", "x".repeat(9000));
    let over = MAX_BODY_BYTES + 1;
    let chunk = format!("{over:x}\r\n");
    for (input, status, closes) in [
        ("GET /none HTTP/1.1\r\n\r\n".to_owned(), 404, false),
        ("GET /none HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc".to_owned(), 404, true),
        (long, 431, true),
        (format!("PUT /biz/a HTTP/1.1\r\nContent-Length: {over}\r\n\r\n"), 413, true),
        (format!("PUT /biz/a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}"), 413, true),
        ("POST /reload HTTP/1.1\r\nContent-Length: 1, 2\r\n\r\n".to_owned(), 400, true),
        ("GET /health#top HTTP/1.1\r\n\r\n".to_owned(), 400, true),
        ("GET /health?x HTTP/1.1\r\n\r\n".to_owned(), 400, false),
        ("GET / HTTP/2.0\r\n\r\n".to_owned(), 505, true),
        ("GET / HTTP/1.10\r\n\r\n".to_owned(), 400, true),
        ("\0".to_owned(), 400, true),
        (
            "PUT /biz/a HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: 1\r\n\r\na"
                .to_owned(),
            415,
            true,
        ),
    ] {
        let (asked, out, is_over) = run(&[input.as_bytes()]);
        assert!(asked.is_empty(), "{input:?}");
        assert!(out.starts_with(&format!("HTTP/1.1 {status} ")), "{input:?} {out}");
        assert_eq!(is_over, closes, "{input:?}");
        assert_eq!(out.contains("Connection: close"), closes, "{input:?}");
    }
}

#[test]
fn a_body_of_another_type_is_told_which_are_read() {
    for (kind, expected) in [
        ("text/plain", "expected application/xml, text/xml or application/json"),
        ("application/json; charset=latin1", "expected the charset UTF-8"),
        ("application/xml; charset=latin1", "expected the charset UTF-8"),
    ] {
        let input = format!("PUT /biz/a HTTP/1.1\r\nContent-Type: {kind}\r\n\r\n");
        let (_, out, _) = run(&[input.as_bytes()]);
        assert!(out.starts_with("HTTP/1.1 415 "), "{out}");
        assert!(
            out.contains(&format!(">{expected}<")) || out.contains(&format!("\"{expected}\"")),
            "{out}"
        );
    }
}

#[test]
fn later_minor_versions_are_served_as_the_one_that_is_spoken() {
    let input =
        b"PUT /biz/a HTTP/1.2\r\nTransfer-Encoding: chunked\r\n\r\n6\r\n<biz/>\r\n0\r\n\r\n\
        GET /health HTTP/1.9\r\n\r\n";
    for cut in 0..input.len() {
        let (asked, out, over) = run(&[&input[..cut], &input[cut..]]);
        assert_eq!(asked.len(), 2, "cut at {cut}: {out}");
        assert_eq!((&asked[0].body[..], over), (&b"<biz/>"[..], false), "cut at {cut}");
    }
}

#[test]
fn empty_lines_before_a_request_are_let_pass_and_begin_none() {
    let input = b"\r\n\r\nGET /health HTTP/1.1\r\n\r\n\r\nGET /biz HTTP/1.1\r\n\r\n";
    for cut in 0..input.len() {
        let (asked, out, _) = run(&[&input[..cut], &input[cut..]]);
        assert_eq!(asked.len(), 2, "cut at {cut}: {out}");
    }
    let mut connection = AdminConnection::default();
    for byte in b"\r\n\r\n\r" {
        connection.take(&[*byte]);
        assert!(matches!(connection.step(0, admit), ConnectionStep::Wait));
        assert!(!connection.has_begun());
    }
    assert!(connection.input.len() < 2, "they are not kept");
    for wrong in [&b"\n"[..], b"\rGET", b"\r\n\n", b"\r\n\r\r"] {
        assert!(run(&[wrong]).1.starts_with("HTTP/1.1 400 "), "{wrong:?}");
    }
}

#[test]
fn who_is_turned_away_is_told_unless_an_answer_has_begun() {
    let told = |input: &[u8], answered: bool, written: usize| {
        let mut connection = AdminConnection::default();
        connection.take(input);
        if let (ConnectionStep::Run(_), true) = (connection.step(0, admit), answered) {
            connection.answer(&Response::text(Format::Xml, *b"<ok/>"), 0);
            connection.note_sent(written);
        }
        let told = connection.turn_away(0);
        let out = connection.output();
        assert_eq!(out.starts_with(b"HTTP/1.1 503 Service Unavailable\r\n"), told);
        let out = String::from_utf8_lossy(out).into_owned();
        assert_eq!(out.contains("Connection: close"), told, "{out}");
        told
    };
    let request = b"GET /health HTTP/1.1\r\n\r\n";
    assert!(told(b"", false, 0) && told(b"GET /he", false, 0) && told(request, true, 0));
    assert!(told(b"PUT /biz/a HTTP/1.1\r\nContent-Length: 9\r\n\r\n<biz", false, 0));
    assert!(!told(request, false, 0) && !told(request, true, 1));
}

#[test]
fn who_waits_for_100_gets_it() {
    let head = b"PUT /biz/a HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 6\r\n\r\n";
    let (asked, out, _) = run(&[head]);
    assert!(asked.is_empty());
    assert_eq!(out, "HTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(run(&[head, b"<biz/>"]).0.len(), 1);
}
