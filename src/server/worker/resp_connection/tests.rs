//! Tests of a RESP connection as bytes in and bytes out, without a socket.

use std::ops::{Deref, DerefMut};

use super::*;
use crate::worker::connection::tests::{HTTP, RULES, Stub, Talk};
use crate::worker::connection::{Gate, MAX_REQUESTS_PER_TICK, TICK_ANSWER_BYTES};

mod handshake;
mod pieces;
mod registers;
mod throttle;
mod transactions;

/// The clients of a server whose only `<resp>` has a token.
struct OneToken {
    conf: frs_conf::Conf,
    access: frs_engine::access::Access,
}

impl OneToken {
    const TOKEN: &str = "0123456789abcdef";

    fn new() -> OneToken {
        use std::os::unix::fs::PermissionsExt;
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), OneToken::TOKEN).expect("written");
        let mode = PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(file.path(), mode).expect("set");
        let path = file.path().display();
        let srv = format!("<srv><resp listen='127.0.0.1:1' token-file='{path}'/></srv>");
        let map = "<map><group name='g' keys='1'/></map>";
        let conf = frs_conf::Conf::parse("srv.xml", &srv, "map.xml", map).expect("sound");
        let digests = frs_engine::access::TokenDigests::read(&conf.srv).expect("read");
        OneToken { access: frs_engine::access::Access::of(&conf, Some(digests)), conf }
    }

    /// Requires the token at a listener.
    fn require<'a>(&'a self, own: &mut RespRules<'a>) {
        let gate = Gate { access: &self.access, map: &self.conf.map, generation: 1 };
        *own = RespRules { has_token: true, ..own.with(Some(gate)) };
    }
}

/// A connection with the state that its caller keeps for it, and the rules of its listener.
struct Line<'a, S> {
    talk: Talk<RespConnection, S>,
    own: RespRules<'a>,
}

impl<S> Deref for Line<'_, S> {
    type Target = Talk<RespConnection, S>;

    fn deref(&self) -> &Self::Target {
        &self.talk
    }
}

impl<S> DerefMut for Line<'_, S> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.talk
    }
}

impl Line<'_, Stub> {
    fn new() -> Self {
        Line::serving(Stub::default())
    }
}

impl<S: Serve> Line<'_, S> {
    fn serving(serve: S) -> Self {
        let own = RespRules {
            rules: RULES,
            nth: 0,
            has_token: false,
            throttle: Some("login"),
            registers: None,
        };
        Line { talk: Talk::over(RespConnection::default(), serve), own }
    }

    fn push(&mut self, bytes: &[u8]) -> InputProgress {
        let own = self.own;
        self.talk.send(bytes, |Talk { connection, serve, scratch, unread, out, .. }| {
            let progress = connection.advance(unread, own, serve, scratch, out);
            assert!(progress.need <= own.rules.http.max_body_bytes as usize);
            progress
        })
    }

    /// Sends lines, and returns the answers with line ends replaced by spaces.
    fn ask(&mut self, lines: &str) -> String {
        let from = self.out.len();
        self.push(lines.replace('|', "\r\n").as_bytes());
        String::from_utf8_lossy(&self.out[from..]).replace("\r\n", " ")
    }
}

/// What follows the name of most commands that frs does not have.
const HINT: &str = "(see docs/redis.md)";
/// What follows the name of a command that runs scripts.
const NO_SCRIPTS: &str =
    "(see docs/redis.md: frs runs no scripts, use frs-limits, frs-express or frs-rack)";

/// A command in the form that clients send.
fn array(words: &[&str]) -> String {
    let bulks: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    format!("*{}\r\n{bulks}", words.len())
}

/// The answer to an item that passes.
const PASSED: &str = "*12 $7 limited :0 $5 limit :1 $4 used :1 $3 max :5 $9 remaining :4 $5 reset \
    :60000 ";

#[test]
fn items_are_asked_as_they_are_written() {
    let mut line = Line::new();
    for (command, ran) in [
        ("FRS.UPDATE login a", "Update login a Some(1) false"),
        ("frs.update login a count 3 force", "Update login a Some(3) true"),
        ("FRS.UPDATE login a COUNT -2 DETAIL", "Update login a Some(-2) false"),
        ("FRS.UPDATE login a COUNT x", "Update login a None false"),
        ("FRS.QUERY login a COUNT 0", "Query login a Some(0) false"),
        ("FRS.UPDATE login a RATE 30/m BURST 16", "Update login a Some(1) false"),
    ] {
        assert_eq!(line.ask(&format!("{command}|")), PASSED, "{command}");
        assert_eq!(line.serve.ran.pop().as_deref(), Some(ran), "{command}");
    }
    let refused = "*14 $7 limited :1 $5 limit :1 $4 used :1 $3 max :5 $9 remaining :4 $5 reset \
        :60000 $5 retry :1500 ";
    assert_eq!(line.ask("FRS.UPDATE login limited|"), refused);
    assert!(line.ask("FRS.UPDATE nope a|").starts_with("-ERR unknown-biz ("));
    assert!(line.ask("FRS.UPDATE login busy|").starts_with("-ERR busy ("));
    // Text that is not UTF-8 cannot be a key.
    assert!(line.ask("FRS.UPDATE login \"\\xff\"|").starts_with("-ERR bad-key ("));
    for (command, words) in [
        ("FRS.UPDATE login", "-ERR wrong number of arguments for 'frs.update' command "),
        ("FRS.UPDATE login a COUNT", "-ERR syntax error at 'COUNT' "),
        ("FRS.UPDATE login a COUNT 1 COUNT 2", "-ERR syntax error at 'COUNT' "),
        ("FRS.QUERY login a FORCE", "-ERR syntax error at 'FORCE' "),
        ("FRS.UPDATE login a NX", "-ERR syntax error at 'NX' "),
    ] {
        assert_eq!(line.ask(&format!("{command}|")), words);
    }
    let counted = &line.serve.answered;
    let of = |call, status| counted.iter().filter(|one| **one == (call, status)).count();
    assert_eq!((of(Call::Update, 200), of(Call::Query, 200)), (6, 1));
    assert_eq!((of(Call::Update, 400), of(Call::Update, 503), of(Call::Other, 400)), (2, 1, 5));
}

#[test]
fn many_items_in_one_command() {
    let mut line = Line::new();
    let found = line.ask("FRS.MUPDATE ITEMS 3 login a 1 nope b 2 login '' 3|");
    let expected = format!(
        "*4 $7 refused :0 $5 items *3 {PASSED}*2 $5 error $11 unknown-biz *2 $5 error $7 bad-key "
    );
    assert_eq!(found, expected);
    line.ask("FRS.MQUERY FORCE DETAIL ATOMIC ITEMS 2 login a 1 login b x|");
    assert_eq!(line.serve.ran[3..], ["Query login a Some(1) true", "Query login b None true"]);
    for (command, words) in [
        ("ITEMS 1 login a 1 b", "-ERR ITEMS n must be followed by n times biz, key and count "),
        ("ITEMS 2 login a 1", "-ERR ITEMS n must be followed by n times biz, key and count "),
        ("ITEMS x login a 1", "-ERR ITEMS n must be followed by n times biz, key and count "),
        ("DETAIL ATOMIC FORCE login a", "-ERR syntax error at 'login' "),
        ("DETAIL DETAIL ITEMS 1 a", "-ERR syntax error at 'DETAIL' "),
        ("ITEMS 0 a b c", "-ERR ITEMS n must be followed by n times biz, key and count "),
        ("ITEMS 5 a b 1", "-ERR too-many-items (at most 4) "),
        ("ATOMIC ITEMS 3 a b 1", "-ERR too-many-items (at most 2) "),
    ] {
        assert_eq!(line.ask(&format!("FRS.MUPDATE {command}|")), words, "{command}");
    }
    let four = "FRS.MUPDATE ITEMS 4 login a 1 login b 1 login c 1 login d 1|";
    assert!(line.ask(four).starts_with("*4 $7 refused :0 $5 items *4 *12 "));
}

#[test]
fn a_fault_ends_the_connection_with_words() {
    for (input, status, words) in [
        (b"*1\r\nx".to_vec(), 400, "-ERR Protocol error: expected '$', got 'x' "),
        (b"*45\r\n".to_vec(), 413, "-ERR Protocol error: a command has at most 44 arguments "),
        (b"*1\r\n$4097\r\n".to_vec(), 413, "-ERR Protocol error: a bulk has at most 4096 bytes "),
        (
            b"*1\r\n$300\r\n".to_vec(),
            413,
            "-ERR Protocol error: a command has at most 300 bytes (max-body) ",
        ),
        (
            vec![b'x'; 299],
            413,
            "-ERR Protocol error: a command that is a line has at most 298 bytes ",
        ),
        (b"PING 'a\r\n".to_vec(), 400, "-ERR Protocol error: unbalanced quotes in request "),
    ] {
        let mut line = Line::new();
        line.push(b"PING\r\n");
        let from = line.out.len();
        line.push(&input);
        let found = String::from_utf8_lossy(&line.out[from..]).replace("\r\n", " ");
        assert_eq!((found.as_str(), line.closed), (words, true));
        assert_eq!(line.serve.answered.last(), Some(&(Call::Other, status)));
        // Input after the fault is not read.
        let answered = line.out.len();
        let progress = line.push(b"PING\r\nPING\r\n");
        assert!(progress.close && line.unread.is_empty() && line.out.len() == answered);
    }
    // 44 arguments are not too many.
    let mut line = Line::new();
    assert!(!line.ask(&"x ".repeat(44).replace("x 44", "")).contains("Protocol"));
}

#[test]
fn a_request_in_http_is_refused_at_once_in_http() {
    for request in [
        "GET /query?biz=login&key=a HTTP/1.1\r\n",
        "POST /update HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let mut line = Line::new();
        line.push(request.as_bytes());
        let text = String::from_utf8(line.out.clone()).unwrap();
        assert!(line.closed && text.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{text}");
        assert!(text.contains("this listener speaks RESP") && text.contains("Connection: close"));
    }
}

#[test]
fn a_command_that_is_late_ends_the_connection() {
    for part in ["P", "*", "*2\r\n$4\r\nPI", "MULTI\r\n*1\r\n$4\r\nPING"] {
        let mut line = Line::new();
        assert!(line.push(part.as_bytes()).begun, "{part}");
        line.out.clear();
        let Talk { connection, serve, out, .. } = &mut line.talk;
        connection.time_out(serve, out);
        let words =
            b"-ERR Protocol error: the command was not complete in time (request-timeout)\r\n";
        assert_eq!(line.out, words);
        assert_eq!(line.serve.answered.last(), Some(&(Call::Other, 408)));
        assert!(line.push(b"PING\r\n").close && line.out == words);
    }
    // In none of these inputs has a command begun.
    for idle in ["", "\r\n", "\r", "PING\r\n", "*0\r\n", "MULTI\r\n"] {
        assert!(!Line::new().push(idle.as_bytes()).begun, "{idle:?}");
    }
}

#[test]
fn a_worker_that_drains_closes_behind_its_replies() {
    let mut line = Line::new();
    line.serve.draining = true;
    assert!(!line.push(b"").close, "nobody has asked");
    assert!(!line.push(b"\r\n").close);
    assert!(!line.push(b"PING\r\nPI").close, "a command has begun");
    assert!(line.push(b"NG\r\n").close);
    assert_eq!(line.out, b"+PONG\r\n+PONG\r\n");

    let mut line = Line::new();
    line.serve.draining = true;
    assert!(!line.push(b"MULTI\r\nPING\r\n").close, "a transaction is to be ended");
    assert!(line.push(b"EXEC\r\n").close);
    assert_eq!(line.out, b"+OK\r\n+QUEUED\r\n*1\r\n+PONG\r\n");

    let mut line = Line::new();
    line.serve.draining = true;
    assert!(!line.push(b"FRS.UPDATE login await-a\r\n").close, "it waits");
    line.serve.arrived.push("await-a".to_owned());
    assert!(line.push(b"").close);
    assert_eq!(String::from_utf8(line.talk.out).unwrap().replace("\r\n", " "), PASSED);

    let mut line = Line::new();
    line.push(b"FRS.UPDATE login await-a\r\n");
    (line.serve.draining, line.serve.arrived) = (true, vec!["await-a".to_owned()]);
    assert!(line.push(b"").close, "it has waited since before");

    let mut line = Line::new();
    line.serve.draining = true;
    let Line { talk: Talk { connection, serve, scratch, out, .. }, own } = &mut line;
    scratch.begin_batch();
    scratch.begin_connection();
    let more = Input { bytes: b"PING\r\n", has_more: true };
    assert!(!connection.take(more, *own, serve, scratch, out).close, "the socket may have more");
    assert!(line.push(b"PING\r\n").close);
    assert_eq!(line.out, b"+PONG\r\n+PONG\r\n");
}

// Shows: stalls-are-bounded.
#[test]
fn a_tick_is_bounded() {
    let mut line = Line::new();
    line.push(&b"PING\r\n".repeat(2 * MAX_REQUESTS_PER_TICK + 1));
    assert_eq!((line.out.len(), line.ticks), (7 * (2 * MAX_REQUESTS_PER_TICK + 1), 3));
    let mut line = Line::new();
    line.push(&b"PING\r\n".repeat(MAX_REQUESTS_PER_TICK));
    assert_eq!(line.ticks, 1);
    // The bytes of the answers bound a tick, too.
    let mut line = Line::new();
    line.push(&b"COMMAND\r\n".repeat(100));
    assert!(line.ticks > 2 && line.out.len() / line.ticks < TICK_ANSWER_BYTES + (16 << 10));
}

#[test]
fn what_waits_for_a_reply_keeps_its_place() {
    let mut line = Line::new();
    let input = "FRS.UPDATE login a|FRS.UPDATE login await-b|PING|FRS.QUERY login c|QUIT|PING|";
    assert_eq!(line.ask(input), PASSED);
    assert!(!line.closed && line.connection.parked.len() == 4, "with what is behind it");
    assert_eq!(line.serve.ran.len(), 1);
    line.serve.arrived.push("await-b".to_owned());
    assert_eq!(line.ask(""), format!("{PASSED}+PONG {PASSED}+OK "));
    assert!(line.closed);
    assert_eq!(line.serve.ran.len(), 3, "each once");

    // Consecutive answers are parked as one.
    let mut line = Line::new();
    line.ask(&format!("FRS.UPDATE login await-d|{}", "PING|".repeat(200)));
    assert_eq!(line.connection.parked.len(), 2);
    line.serve.arrived.push("await-d".to_owned());
    assert_eq!(line.ask(""), format!("{PASSED}{}", "+PONG ".repeat(200)));

    let mut line = Line::new();
    line.ask("FRS.UPDATE login await-a|");
    for parked in std::mem::take(&mut line.connection.parked) {
        if let ParkedItem::Request(mut exchange, _) = parked {
            line.serve.give_up(&mut exchange);
        }
    }
    assert_eq!(line.serve.given_up, ["await-a"]);
}
