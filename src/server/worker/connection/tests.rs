//! Tests of a connection as bytes in and bytes out, without a socket.

use super::testing::Parks;
use super::*;
use frs_conf::{AuthzKey, Http, Listen};
use frs_engine::{Answer, Answers, Exchange, Figures, ItemError, Request, Stage, Verdict};

mod bounds;
mod formats;
mod idempotency;
mod memory;
mod parked;
mod pieces;
mod sites;

pub(in crate::worker) const HTTP: Http = Http {
    max_connections: 10,
    max_body_bytes: 300,
    max_head_bytes: 512,
    max_items: 4,
    max_atomic_items: 2,
    idle_timeout_ms: 60_000,
    request_timeout_ms: 10_000,
    lock_timeout_ms: 50,
    hosts: Vec::new(),
    allow_origin: Vec::new(),
    unknown_biz: frs_conf::UnknownBiz::Error,
};

pub(in crate::worker) const RULES: ConnectionRules<'_> =
    ConnectionRules { http: &HTTP, authz: &AuthzKey::Peer, trusted: &[], admin: None, gate: None };

const JSON: &str = r#"{"items":[{"biz":"login","key":"alice"}]}"#;

const XML: &str = "<request><item biz='login' key='alice'/></request>";

/// Answers by the key: `limited`, the word of an item error, or allowed. Records the requests it
/// ran.
#[derive(Default)]
pub(in crate::worker) struct Stub {
    /// Keys that begin with `await` wait until they are in this list.
    pub arrived: Vec<String>,
    pub given_up: Vec<String>,
    pub ran: Vec<String>,
    /// The number of requests in each batch that ran.
    pub batches: Vec<usize>,
    pub answered: Vec<(Call, u16)>,
    pub draining: bool,
    problem: Option<&'static str>,
}

impl Serve for Stub {
    fn run(&mut self, request: &Request, answers: &mut Answers) {
        assert!(answers.items.is_empty() && answers.details.is_empty() && !answers.refused);
        for item in request.items() {
            let (biz, key) = (request.biz(item), request.key(item));
            let (command, count) = (request.command, item.count);
            let mut ran = format!("{command:?} {biz} {key} {count:?} {}", item.force);
            let ids = [("once", request.extras(item).once), ("whole once", request.once())];
            ran.extend(ids.map(|(name, id)| id.map_or("".into(), |id| format!(" {name}={id}"))));
            self.ran.push(ran);
            let limited = key == "limited";
            let verdict = Verdict {
                limited,
                banned: false,
                limit: 1,
                figures: Figures { used: 1, max: 5, remaining: 4, reset_ms: Some(60_000) },
                retry_ms: limited.then_some(1500),
                window_ms: Some(60_000),
                ..Verdict::UNJUDGED
            };
            let result = match key {
                "" => Err(ItemError::BadKey),
                "busy" => Err(ItemError::Busy),
                _ if biz == "nope" => Err(ItemError::UnknownBiz),
                _ => Ok(verdict),
            };
            answers.items.push(Answer { biz: Some(0), result, details: 0..0, action: 0 });
        }
    }

    fn run_all(&mut self, exchanges: &mut [Exchange]) {
        self.batches.push(exchanges.len());
        for at in 0..exchanges.len() {
            let (before, rest) = exchanges.split_at_mut(at);
            let exchange = &mut rest[0];
            let waits =
                |other: &Exchange| other.lane == exchange.lane && other.stage != Stage::Answered;
            if before.iter().any(waits) {
                exchange.stage = Stage::Behind;
            } else if !self.may_go_on(exchange) {
                (exchange.stage, exchange.wait_ms) = (Stage::Waiting, 20);
            } else {
                exchange.stage = Stage::Answered;
                exchange.answers.clear();
                self.run(&exchange.request, &mut exchange.answers);
            }
        }
    }

    fn may_go_on(&self, exchange: &Exchange) -> bool {
        let request = &exchange.request;
        let keys = request.items().iter().map(|item| request.key(item));
        keys.filter(|key| key.starts_with("await")).all(|key| self.arrived.iter().any(|l| l == key))
    }

    fn give_up(&mut self, exchange: &mut Exchange) {
        let request = &exchange.request;
        self.given_up.extend(request.items().iter().map(|item| request.key(item).to_owned()));
    }

    fn biz_name(&self, index: usize) -> Option<&str> {
        (index == 0).then_some("login")
    }

    fn draining(&self) -> bool {
        self.draining
    }

    fn problem(&self) -> Option<Problem> {
        self.problem.map(Problem::from)
    }

    fn answered(&mut self, call: Call, status: u16) {
        self.answered.push((call, status));
    }
}

/// A connection with the state that its caller keeps for it.
pub(in crate::worker) struct Talk<C, S> {
    pub connection: C,
    pub serve: S,
    pub scratch: ConnectionBuffers,
    pub unread: Vec<u8>,
    pub out: Vec<u8>,
    pub closed: bool,
    pub ticks: usize,
}

impl<C: Parks, S> Talk<C, S> {
    pub fn over(connection: C, serve: S) -> Talk<C, S> {
        Talk {
            connection,
            serve,
            scratch: ConnectionBuffers::default(),
            unread: Vec::new(),
            out: Vec::new(),
            closed: false,
            ticks: 0,
        }
    }

    /// Sends bytes. `advance` answers the unread bytes.
    pub fn send(
        &mut self,
        bytes: &[u8],
        advance: impl Fn(&mut Self) -> InputProgress,
    ) -> InputProgress {
        self.unread.extend_from_slice(bytes);
        loop {
            let progress = advance(self);
            self.ticks += 1;
            self.unread.drain(..progress.consumed);
            self.closed |= progress.close;
            assert_eq!(progress.close, self.closed, "closed for good");
            let (is_parked, rest) = (!self.connection.parked().is_empty(), self.unread.len());
            assert!(is_parked || progress.need > rest || progress.more, "{progress:?} {rest}");
            if !progress.more {
                return progress;
            }
        }
    }
}

/// A connection that speaks HTTP.
type Line = Talk<Connection, Stub>;

impl Line {
    fn new() -> Line {
        Talk::over(Connection::new("192.0.2.1".parse().ok()), Stub::default())
    }

    fn push(&mut self, bytes: &[u8]) -> InputProgress {
        self.push_by(RULES, bytes)
    }

    fn push_by(&mut self, rules: ConnectionRules<'_>, bytes: &[u8]) -> InputProgress {
        self.send(bytes, |Talk { connection, serve, scratch, unread, out, .. }| {
            let progress = connection.advance(unread, rules, serve, scratch, out);
            assert!(progress.need <= 512);
            progress
        })
    }

    fn text(&self) -> String {
        String::from_utf8(self.out.clone()).unwrap()
    }
}

/// The whole output for `input`, and whether the connection was closed.
fn talk(input: &str) -> (String, bool) {
    let mut line = Line::new();
    line.push(input.as_bytes());
    (line.text(), line.closed)
}

fn post(path: &str, fields: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\n{fields}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n")
}

/// The statuses of the answers in `text`, which must consist of whole answers with bodies.
fn statuses(mut text: &str) -> Vec<u16> {
    let mut statuses = Vec::new();
    while !text.is_empty() {
        let (head, rest) = text.split_once("\r\n\r\n").expect("a whole head");
        let status = head.strip_prefix("HTTP/1.1 ").expect("a status line")[..3].parse().unwrap();
        let length = head.split("Content-Length: ").nth(1);
        let length = length.map_or(0, |l| l.split("\r\n").next().unwrap().parse().unwrap());
        assert_eq!(length == 0, status == 100);
        statuses.push(status);
        text = &rest[length..];
    }
    statuses
}

#[test]
fn a_post() {
    let (text, closed) = talk(&post("/update", "", XML));
    assert_eq!(
        text,
        "HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\nCache-Control: no-store\r\n\
         Date: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Length: 124\r\n\
         RateLimit-Policy: \"login\";q=5;w=60\r\nRateLimit: \"login\";r=4;t=60\r\n\r\n\
         <response><item biz=\"login\" key=\"alice\" limited=\"false\" limit=\"1\" used=\"1\" \
         max=\"5\" remaining=\"4\" reset=\"60000\"/></response>\n"
    );
    assert!(!closed);
    let two = "<request><item biz='login' key='a'/><item biz='login' key='limited'/></request>";
    let (text, _) = talk(&post("/query", "Content-Type: text/xml\r\n", two));
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"));
    assert!(!text.contains("RateLimit") && !text.contains("Retry-After"), "{text}");
    let one = two.replace("<item biz='login' key='a'/>", "");
    let (text, _) = talk(&post("/query", "", &one));
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && !text.contains("Retry-After"));
    assert!(!text.contains("FRS-Limited"));
}

#[test]
fn a_get() {
    for (target, status, ran) in [
        ("/query?biz=login&key=a%20b", 200, "Query login a b Some(1) false"),
        ("/update?key=a&biz=login&count=-2&force=true", 200, "Update login a Some(-2) true"),
        ("/update?biz=login&key=limited", 429, "Update login limited Some(1) false"),
        ("/update?biz=login&key=limited&deny=403", 403, "Update login limited Some(1) false"),
        ("/update?biz=login&key=limited&deny=499", 499, "Update login limited Some(1) false"),
        ("/update?biz=login&key=busy&deny=403", 503, "Update login busy Some(1) false"),
        ("/update?biz=nope&key=a&deny=403", 400, "Update nope a Some(1) false"),
        ("/query?biz=login&key=a&count=x", 200, "Query login a None false"),
    ] {
        let mut line = Line::new();
        line.push(get(target).as_bytes());
        assert_eq!(statuses(&line.text()), [status], "{target}");
        assert_eq!(line.serve.ran, [ran]);
        let failed = status == 400 || status == 503;
        assert_eq!(line.text().contains("FRS-Limited: "), !failed, "{}", line.text());
        assert!(line.text().contains("Cache-Control: no-store\r\n"));
        assert!(!line.closed);
    }
    let (text, _) = talk(&get("/update?biz=login&key=limited"));
    assert!(text.contains("\r\nRetry-After: 2\r\nFRS-Limited: true\r\n\r\n<response>"), "{text}");
}

#[test]
fn a_head_charges_and_has_no_body() {
    let mut line = Line::new();
    line.push(b"HEAD /update?biz=login&key=a HTTP/1.1\r\nHost: x\r\n\r\nHEAD /nope HTTP/1.1\r\nHost: x\r\n\r\n");
    let text = line.text();
    let heads: Vec<_> = text.split("\r\n\r\n").collect();
    assert_eq!(heads.len(), 3);
    assert!(heads[0].starts_with("HTTP/1.1 200 OK") && heads[0].contains("Content-Length: 120"));
    assert!(heads[1].starts_with("HTTP/1.1 404 Not Found"));
    assert_eq!(heads[2], "");
    assert_eq!(line.serve.ran.len(), 1);
}

#[test]
fn authz() {
    for (request, status, ran) in [
        ("GET /authz/login/a?b=c HTTP/1.1\r\nHost: x", 200, "Update login 192.0.2.1 Some(1) false"),
        ("OPTIONS /authz/login HTTP/1.1\r\nHost: x", 200, "Update login 192.0.2.1 Some(1) false"),
        ("GET /authz/nope/ HTTP/1.1\r\nHost: x", 400, "Update nope 192.0.2.1 Some(1) false"),
        (
            "GET /authz/login HTTP/1.1\r\nHost: x\r\nSec-Fetch-Site: cross-site",
            200,
            "Update login 192.0.2.1 Some(1) false",
        ),
    ] {
        let mut line = Line::new();
        line.push(format!("{request}\r\n\r\n").as_bytes());
        assert_eq!(statuses(&line.text()), [status], "{request}");
        assert_eq!(line.serve.ran, [ran]);
        assert_eq!(line.serve.answered, [(Call::Authz, status)]);
    }
    let header = AuthzKey::Header("x-user".into());
    let rules = ConnectionRules { authz: &header, ..RULES };
    for (path, user, status) in [
        ("/authz/login/", "limited", 429),
        ("/authz/login:403/", "limited", 403),
        ("/authz/login:403/", "alice", 200),
        ("/authz/login:200/", "alice", 400),
        ("/authz/login/", "", 400),
    ] {
        let mut line = Line::new();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nX-User: {user}\r\n\r\n");
        line.push_by(rules, request.as_bytes());
        assert_eq!(statuses(&line.text()), [status], "{path} {user}");
    }
}

#[test]
fn a_body_nobody_asked_for_is_skipped() {
    let body = "x".repeat(300);
    for request in [
        post("/authz/login", "", &body),
        post("/nope", "", &body),
        post("/query", "Content-Type: text/plain\r\n", &body),
        post("/query?x=y", "", &body),
        post("/health", "", &body),
        post("/query", "Sec-Fetch-Site: cross-site\r\n", &body),
        post("/query?biz=login&key=a", "", &body).replace("POST", "GET"),
        "POST /nope HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
            .into(),
    ] {
        let (text, closed) = talk(&(request.clone() + &get("/health")));
        let statuses = statuses(&text);
        assert_eq!((statuses.len(), statuses[1]), (2, 200), "{request}");
        assert!(!closed);
    }
    // A body over the bound is not read.
    for (request, status) in [
        (post("/nope", "", &"x".repeat(301)), 404),
        (post("/authz/login", "", &"x".repeat(301)), 413),
        (post("/health", "", &"x".repeat(301)).replace("POST", "GET"), 413),
    ] {
        let (text, closed) = talk(&(request.clone() + &get("/health")));
        assert_eq!((statuses(&text), closed), (vec![status], true), "{request}");
        assert!(text.contains("\r\nConnection: close\r\n"));
    }
    // A fault in the skipped body ends the connection without another answer.
    let chunked = "PUT /authz/login HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n";
    let (text, closed) = talk(&(chunked.to_owned() + &get("/health")));
    assert_eq!((statuses(&text), closed), (vec![200], true));
}

#[test]
fn errors_of_the_whole_request() {
    let long = |bytes: usize| format!("<request><!--{}--></request>", "x".repeat(bytes - 26));
    let items = |n: usize| format!("<request>{}</request>", "<item biz='b' key='k'/>".repeat(n));
    let atomic = items(3).replace("<request>", "<request atomic='true'>");
    let chunked = |chunks: &str| {
        format!("POST /query HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}")
    };
    for (request, status, code, closes) in [
        ("GET / HTTP/1.1\r\nHost: x\r\nA : b\r\n\r\n".into(), 400, "bad-http", true),
        ("GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n".into(), 400, "bad-http", true),
        ("\u{16}\u{3}\u{1}".into(), 400, "bad-http", true),
        (post("/query", "Content-Length: 1\r\n", XML), 400, "bad-http", true),
        (post("/query", "Transfer-Encoding: chunked\r\n", XML), 400, "bad-http", true),
        (chunked("5\r\nabcdefg"), 400, "bad-http", true),
        (chunked("zz\r\n"), 400, "bad-http", true),
        (post("/query", "", "<request>"), 400, "bad-xml", false),
        (post("/query", "", ""), 400, "bad-xml", false),
        ("POST /query HTTP/1.1\r\nHost: x\r\n\r\n".into(), 400, "bad-xml", false),
        (chunked("0\r\n\r\n"), 400, "bad-xml", false),
        (post("/query", "", "<r/>"), 400, "bad-request", false),
        (post("/query", "", "<request/>"), 400, "bad-request", false),
        (get("/query?biz=b"), 400, "bad-request", false),
        (get("/query"), 400, "bad-request", false),
        (get("/authz/login:9/"), 400, "bad-request", false),
        (get("/nope"), 404, "not-found", false),
        ("PUT /query HTTP/1.1\r\nHost: x\r\n\r\n".into(), 405, "bad-method", false),
        (post("/query", "Sec-Fetch-Site: cross-site\r\n", XML), 403, "forbidden", false),
        (post("/query", "", &long(301)), 413, "too-large", true),
        (chunked("12d\r\n"), 413, "too-large", true),
        (chunked("12c\r\n"), 0, "", false),
        (post("/query", "", &items(5)), 413, "too-many-items", true),
        (post("/query", "", &atomic), 413, "too-many-items", true),
        (post("/query", "Content-Type: text/plain\r\n", XML), 415, "bad-content-type", false),
        (
            post("/query", "Content-Type: application/x-www-form-urlencoded\r\n", XML),
            415,
            "bad-content-type",
            false,
        ),
        (
            post("/query", "", "<?xml version='1.0' encoding='latin1'?><request/>"),
            415,
            "bad-content-type",
            false,
        ),
        (
            format!("GET / HTTP/1.1\r\nHost: x\r\nA: {}\r\n\r\n", "x".repeat(512)),
            431,
            "head-too-large",
            true,
        ),
        (post("/query", "Transfer-Encoding: gzip\r\n", ""), 400, "bad-http", true),
        (
            "GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: x\r\n\r\n".into(),
            501,
            "bad-transfer-encoding",
            true,
        ),
        ("GET / HTTP/2.0\r\n\r\n".into(), 505, "bad-version", true),
    ] {
        if status == 0 {
            assert_eq!(talk(&request), (String::new(), false));
            continue;
        }
        let (text, closed) = talk(&(request.clone() + &get("/health")));
        let answered = statuses(&text);
        let expected = if closes { vec![status] } else { vec![status, 200] };
        assert_eq!((answered, closed), (expected, closes), "{request}\n{text}");
        assert!(text.contains(&format!("<error code=\"{code}\"")), "{request}\n{text}");
        assert_eq!(text.contains("Connection: close"), closes);
        assert_eq!(text.contains("Allow: GET, HEAD, POST\r\n"), status == 405);
    }
}

#[test]
fn bounds_are_inclusive() {
    let padded = |bytes: usize| {
        let space = bytes - XML.len();
        post("/query", "", &(XML.to_owned() + &" ".repeat(space)))
    };
    assert_eq!(statuses(&talk(&padded(300)).0), [200]);
    assert_eq!(statuses(&talk(&padded(301)).0), [413]);
}

#[test]
fn persistence() {
    let health = get("/health");
    for (request, field, closes) in [
        ("GET /health HTTP/1.1\r\nHost: x\r\n\r\n", None, false),
        ("GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", Some("close"), true),
        ("GET /health HTTP/1.0\r\n\r\n", Some("close"), true),
        ("GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", Some("keep-alive"), false),
        ("POST /query HTTP/1.0\r\nContent-Length: 1\r\n\r\nx", Some("close"), true),
        ("GET /nope HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", Some("keep-alive"), false),
    ] {
        let (text, closed) = talk(&(request.to_owned() + &health));
        assert_eq!(closed, closes, "{request}");
        assert_eq!(statuses(&text).len(), if closes { 1 } else { 2 });
        let found =
            text.split("Connection: ").nth(1).map(|rest| rest.split("\r\n").next().unwrap());
        assert_eq!(found, field, "{request}");
    }
}

#[test]
fn after_the_answer_that_closes_there_is_no_other() {
    let mut line = Line::new();
    line.push(b"GET /health HTTP/1.0\r\n\r\n");
    let answered = line.out.len();
    for _ in 0..3 {
        let progress = line.push(get("/health").as_bytes());
        assert!(progress.close && !progress.begun && line.unread.is_empty());
    }
    line.connection.time_out(RULES, &mut line.serve, &mut line.scratch, &mut line.out);
    assert_eq!(line.out.len(), answered);
}

#[test]
fn expectations() {
    let head =
        "POST /query HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 50\r\n\r\n";
    assert_eq!(XML.len(), 50);
    let mut line = Line::new();
    let progress = line.push(head.as_bytes());
    assert_eq!(line.text(), "HTTP/1.1 100 Continue\r\n\r\n");
    assert!(progress.begun && progress.need == 50);
    line.push(XML.as_bytes());
    assert_eq!(statuses(&line.text()), [100, 200]);
    assert_eq!(talk(&(head.to_owned() + XML)).0, line.text());
    // After another answer than 100, the body or the next request may follow. So the connection
    // closes.
    for path in ["/nope", "/authz/login"] {
        let (text, closed) = talk(&head.replace("/query", path));
        assert_eq!((statuses(&text).len(), closed), (1, true));
        assert!(!text.contains(" 100 "));
    }
    let (text, closed) = talk(&head.replace("50", "301"));
    assert_eq!((statuses(&text), closed), (vec![413], true));
}

#[test]
fn draining() {
    let mut line = Line::new();
    line.serve.draining = true;
    // The worker answers all requests that it has read, and the last answer closes the connection.
    line.push((get("/query?biz=login&key=a") + &post("/query", "", XML)).as_bytes());
    assert_eq!(statuses(&line.text()), [200, 200]);
    assert_eq!(line.text().matches("Connection: close").count(), 1);
    assert!(line.closed);

    let mut line = Line::new();
    line.serve.draining = true;
    line.push(get("/health").as_bytes());
    assert_eq!(statuses(&line.text()), [503]);
    assert!(line.text().contains("Retry-After: 1\r\n") && line.text().contains("overloaded"));
}

// Shows: stalls-are-bounded.
#[test]
fn a_tick_is_bounded() {
    let mut line = Line::new();
    let request = get("/health");
    line.push(request.repeat(MAX_REQUESTS_PER_TICK * 2 + 1).as_bytes());
    assert_eq!(statuses(&line.text()).len(), MAX_REQUESTS_PER_TICK * 2 + 1);
    assert_eq!(line.ticks, 3);

    let mut line = Line::new();
    line.push(request.repeat(MAX_REQUESTS_PER_TICK).as_bytes());
    assert_eq!(line.ticks, 1);
}

#[test]
fn timeouts() {
    let mut line = Line::new();
    assert!(!line.push(b"\r\n\r\n").begun);
    assert!(!line.push(get("/health").as_bytes()).begun);
    for part in
        ["P", "POST /query HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n<", CHUNKED_HEAD]
    {
        let mut line = Line::new();
        assert!(line.push(part.as_bytes()).begun, "{part}");
        line.connection.time_out(RULES, &mut line.serve, &mut line.scratch, &mut line.out);
        assert_eq!(statuses(&line.text()), [408]);
        assert!(line.text().contains("Connection: close\r\n"));
        assert!(line.text().contains("<error code=\"timeout\">"));
        assert!(
            line.connection
                .advance(b"", RULES, &mut line.serve, &mut line.scratch, &mut line.out)
                .close
        );
    }
    // The answer is already written, so the timeout writes no second one.
    let mut line = Line::new();
    assert!(line.push(b"POST /nope HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n<").begun);
    let answered = line.out.len();
    line.connection.time_out(RULES, &mut line.serve, &mut line.scratch, &mut line.out);
    assert_eq!(line.out.len(), answered);
}

const CHUNKED_HEAD: &str = "POST /update HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";

#[test]
fn paths_of_the_admin_plane_name_its_address() {
    let told = |admin: Option<&Listen>, request: &str| {
        let mut line = Line::new();
        line.push_by(ConnectionRules { admin, ..RULES }, request.as_bytes());
        assert!(!line.closed);
        assert_eq!(statuses(&line.text()), [404]);
        line.text().split_once("\r\n\r\n").unwrap().1.to_owned()
    };
    let tcp = Listen::Tcp("127.0.0.1:7601".parse().unwrap());
    let unix = Listen::Unix("run/a&b.sock".into());
    let words = "no such path: the admin plane serves it at";
    for path in ["/", "/metrics", "/metrics?x=1"] {
        let body = told(Some(&tcp), &get(path));
        assert_eq!(body, format!("<error code=\"not-found\">{words} 127.0.0.1:7601</error>\n"));
    }
    let body = told(Some(&unix), &get("/"));
    assert_eq!(body, format!("<error code=\"not-found\">{words} unix:run/a&amp;b.sock</error>\n"));
    let json = post("/", "Content-Type: application/json\r\n", "");
    let error = format!(
        "{{\"error\":{{\"code\":\"not-found\",\"message\":\"{words} 127.0.0.1:7601\"}}}}\n"
    );
    assert_eq!(told(Some(&tcp), &json), error);
    // Without an admin plane, and on other paths, the answer names no address.
    let unknown = told(None, &get("/"));
    assert!(unknown.contains("no such path: expected /query, "), "{unknown}");
    assert_eq!(told(Some(&tcp), &get("/stats")), unknown);
}

#[test]
fn refusals() {
    let (mut scratch, mut out) = (ConnectionBuffers::default(), Vec::new());
    scratch.set_now(1000);
    scratch.refuse(ResponseOptions::CLOSE.into(), &Error::PeerForbidden, &mut out);
    scratch.refuse(ResponseOptions::CLOSE.into(), &Error::Overloaded, &mut out);
    let text = String::from_utf8(out).unwrap();
    assert_eq!(statuses(&text), [403, 503]);
    assert_eq!(text.matches("Connection: close").count(), 2);
    assert_eq!(text.matches("00:00:01 GMT").count(), 2);
}

#[test]
fn a_client_of_redis_is_refused_at_once_in_its_own_words() {
    let refused =
        "-ERR this listener speaks HTTP: send commands in RESP to a <resp> of srv.xml\r\n";
    for input in
        ["*1\r\n$4\r\nPING\r\n", "*2\r", "*3\r\n$5\r\nHELLO\r\n$1\r\n3\r\n\r\n\r\n", "*12\r\n\r\n"]
    {
        for cut in 0..input.len() {
            let mut line = Line::new();
            line.push(&input.as_bytes()[..cut]);
            line.push(&input.as_bytes()[cut..]);
            assert_eq!((line.text().as_str(), line.closed), (refused, true), "{input:?} {cut}");
            assert_eq!(line.serve.answered, [(Call::Other, 400)]);
        }
    }
    // These inputs do not look like RESP.
    for input in ["*1 / HTTP/1.1\r\n", "*\r\n\r\n", "*x\r\n\r\n"] {
        assert!(!talk(input).0.contains("RESP"), "{input:?}");
    }
    // An HTTP request before the RESP command is answered.
    let (text, closed) = talk(&(get("/health") + "*1\r\n"));
    assert!(text.starts_with("HTTP/1.1 200 OK") && text.ends_with(refused) && closed, "{text}");
}

#[test]
fn a_reply_has_not_grown_with_its_protocols() {
    assert_eq!(size_of::<super::queued_reply::QueuedReply>(), 32);
}
