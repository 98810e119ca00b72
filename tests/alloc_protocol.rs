//! In the steady state, reading requests and writing their answers allocates nothing.
//!
//! A separate test binary, because it replaces the allocator. Only allocations of the test's own
//! thread count: the harness has another thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use frs_conf::{AuthzKey, Conf, Http, Listen};
use frs_engine::{
    Answer, Answers, Figures, HistorySpan, ItemError, LimitFigures, Request, Verdict,
};
use frs_server::worker::connection::{
    Connection, ConnectionBuffers, ConnectionRules, RespRules, Serve,
};
use frs_server::worker::resp_connection::RespConnection;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

fn count() {
    // A thread that is ending no longer has a counter.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call is handed to the system's allocator as it came.
#[expect(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`, and `alloc` was the system's.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `realloc`, and `alloc` was the system's.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

struct Fixed;

impl Serve for Fixed {
    fn run(&mut self, request: &Request, answers: &mut Answers) {
        let figures = Figures { used: 3, max: 5, remaining: 2, reset_ms: Some(57_123) };
        for item in request.items() {
            let start = answers.details.len();
            if item.detail {
                let limit = LimitFigures {
                    index: 1,
                    policy: "count",
                    figures,
                    retry_ms: None,
                    limited: false,
                    error_thousandths: None,
                    history: HistorySpan::default(),
                };
                // With more windows, the answers of a tick would exceed their bound.
                let windows = if start == 0 { 60 } else { 3 };
                answers.details.push(limit, Some(std::iter::repeat_n(u32::MAX, windows)));
            }
            let verdict = Verdict {
                limited: item.force,
                banned: false,
                limit: 1,
                figures,
                retry_ms: Some(1),
                window_ms: Some(60_000),
                ..Verdict::UNJUDGED
            };
            let result = if item.count.is_some() { Ok(verdict) } else { Err(ItemError::BadCount) };
            let details = start..answers.details.len();
            answers.items.push(Answer { biz: Some(0), result, details, action: 0 });
        }
    }

    fn biz_name(&self, _: usize) -> Option<&str> {
        Some("login")
    }

    fn draining(&self) -> bool {
        false
    }
}

fn post(fields: &str, body: &str) -> String {
    format!(
        "POST /update HTTP/1.1\r\nHost: x\r\n{fields}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

const ADMIN: Listen = Listen::Tcp(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7601));

/// The number of allocations for this input in `turns` turns, after the buffers have grown.
fn allocations(input: &[u8], turns: u64) -> usize {
    allocations_by(&Http::default(), input, turns)
}

fn allocations_by(http: &Http, input: &[u8], turns: u64) -> usize {
    let rules = ConnectionRules {
        http,
        authz: &AuthzKey::Forwarded,
        trusted: &[],
        admin: Some(&ADMIN),
        gate: None,
    };
    let (mut scratch, mut out) = (ConnectionBuffers::default(), Vec::new());
    let mut connection = Connection::new(None);
    let mut turn = |now: u64| {
        out.clear();
        scratch.set_now(now);
        let progress = connection.advance(input, rules, &mut Fixed, &mut scratch, &mut out);
        assert_eq!((progress.consumed, progress.close), (input.len(), false));
        out.len()
    };
    let written = turn(0);
    let before = ALLOCATIONS.get();
    for second in 1..=turns {
        assert_eq!(turn(second * 1000), written);
    }
    ALLOCATIONS.get() - before
}

// Shows: memory-bound.
#[test]
fn the_steady_state_allocates_nothing() {
    let many = format!(
        "<?xml version='1.0' encoding='UTF-8'?><request>{}</request>",
        "<item biz='&lt;b&gt;' key='a&#9;b&amp;' count='x' detail='true'/><!-- c --><item \
         biz=\"login\" key=\"user\" force=\"true\" detail=\"true\"></item>"
            .repeat(100)
    );
    let one = "<request><item biz='login' key='alice'/></request>";
    let member = "<request><item biz='users' key='app' member='a&amp;b'/></request>";
    let input = [
        post("Content-Type: application/xml; charset=utf-8\r\n", one),
        post("", member),
        "GET /update?biz=users&key=app&member=al%20ice HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(),
        post("Expect: 100-continue\r\n", &many),
        format!(
            "POST /query HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{many}\r\n0\r\n\r\n",
            many.len()
        ),
        "GET /query?biz=login&key=a%20b&count=2&detail=true HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(),
        "GET /authz/login:403/x HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.1, 10.0.0.1\r\n\r\n"
            .to_owned(),
        "HEAD /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n".to_owned(),
        // Faults allocate nothing either.
        "GET /nope HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(),
        "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(),
        post("", "<request><item biz='b' kay='k'/></request>"),
        post("Content-Type: text/plain\r\n", one),
    ]
    .concat()
    .into_bytes();
    assert_eq!(allocations(&input, 99), 0);
}

#[test]
fn nor_do_hosts_and_pages_that_are_named() {
    let srv = "<srv><http hosts='a x' allow-origin='https://a.example https://b.example'/></srv>";
    let map = "<map><group name='g' files='1' key-nodes='8' node-size='64'/></map>";
    let http = Conf::parse("srv.xml", srv, "map.xml", map).expect("good").srv.http;
    let one = "<request><item biz='login' key='alice'/></request>";
    let input = [
        post("", one),
        post("Origin: https://b.example\r\nSec-Fetch-Site: cross-site\r\n", one),
        post("Origin: https://c.example\r\n", one),
        post("", one).replace("Host: x", "Host: y"),
        "OPTIONS /update HTTP/1.1\r\nHost: x\r\nOrigin: https://a.example\r\n\r\n".to_owned(),
        "GET http://A:80/query?biz=login&key=a HTTP/1.1\r\nHost: y\r\n\r\n".to_owned(),
    ]
    .concat()
    .into_bytes();
    assert_eq!(allocations_by(&http, &input, 99), 0);
}

#[test]
fn the_steady_state_in_resp_allocates_nothing() {
    let array = |words: &[&str]| {
        let bulks: String =
            words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
        format!("*{}\r\n{bulks}", words.len())
    };
    let items = ["login", "\u{e9}", "x", "nope", "alice", "2"].repeat(100);
    let many = [&["FRS.MUPDATE", "FORCE", "DETAIL", "ITEMS", "200"], &items[..]].concat();
    let input = [
        array(&["FRS.UPDATE", "login", "alice"]),
        array(&["FRS.QUERY", "login", "alice", "COUNT", "2", "DETAIL"]),
        array(&["FRS.UPDATE", "login", "alice", "RATE", "30/m", "BURST", "16", "FORCE"]),
        array(&["FRS.UPDATE", "users", "app", "MEMBER", "alice"]),
        array(&many),
        array(&["CL.THROTTLE", "alice", "15", "30", "60"]),
        "frs.update login 'alice' count 3\r\nPING\r\n".to_owned(),
        array(&["MULTI"]),
        array(&["FRS.UPDATE", "login", "alice"]),
        array(&["CL.THROTTLE", "alice", "15", "30", "60"]),
        array(&["EXEC"]),
        array(&["COMMAND", "COUNT"]),
        // Faults allocate nothing either.
        array(&["GET", "a"]),
        array(&["FRS.UPDATE", "login", "alice", "COUNT", "x"]),
    ]
    .concat()
    .into_bytes();
    let http = Http::default();
    let rules = ConnectionRules {
        http: &http,
        authz: &AuthzKey::Peer,
        trusted: &[],
        admin: None,
        gate: None,
    };
    let own =
        RespRules { rules, nth: 0, has_token: false, throttle: Some("login"), registers: None };
    let (mut scratch, mut out) = (ConnectionBuffers::default(), Vec::new());
    let mut connection = RespConnection::default();
    let mut turn = || {
        out.clear();
        let progress = connection.advance(&input, own, &mut Fixed, &mut scratch, &mut out);
        assert_eq!((progress.consumed, progress.close), (input.len(), false));
        out.len()
    };
    let written = turn();
    let before = ALLOCATIONS.get();
    (0..99).for_each(|_| assert_eq!(turn(), written));
    assert_eq!(ALLOCATIONS.get() - before, 0);
}

const JSON: &str = "Content-Type: application/json\r\n";

#[test]
fn the_steady_state_in_json_allocates_nothing() {
    let two = r#"{"biz":1002,"key":18446744073709551615,"count":1.5,"detail":true},
        {"key":"é","biz":"login","force":true,"count":-2,"member":"ä"}"#;
    let many = format!("{{\"items\":[{}],\"atomic\":false}}", [two; 100].join(","));
    let one = r#"{"items":[{"biz":"login","key":"alice"}]}"#;
    let input = [
        post(&format!("Accept: */*\r\n{JSON}"), one),
        post("Content-Type: application/json; charset=utf-8\r\nExpect: 100-continue\r\n", &many),
        format!(
            "POST /query HTTP/1.1\r\nHost: x\r\n{JSON}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{many}\r\n\
             0\r\n\r\n",
            many.len()
        ),
        post(&format!("{JSON}Accept: application/xml, application/json;q=0.9\r\n"), one),
        "GET /query?biz=login&key=a%0Ab&detail=true HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\n\r\n"
            .to_owned(),
        "GET /nope HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\n\r\n".to_owned(),
    ]
    .concat();
    assert_eq!(allocations(input.as_bytes(), 99), 0);
}

/// The JSON parser cannot decode into the server's buffer, and a fault needs a buffer of its own.
#[test]
fn escapes_and_faults_in_json_cost_little() {
    let key = "\\u4e2d".repeat(20);
    let item = format!("{{\"biz\":\"login\",\"key\":\"{key}\"}}");
    let many = format!("{{\"items\":[{}]}}", vec![item; 100].join(","));
    let grows = allocations(post(JSON, &many).as_bytes(), 10) / 10;
    assert!((1..=4).contains(&grows), "one buffer for all strings of a document: {grows}");
    for body in ["{", "{\"items\":{}}", "{\"items\":[{\"biz\":null}]}", "{\"item\":1}"] {
        let faults = allocations(post(JSON, body).as_bytes(), 10) / 10;
        assert!(faults <= 3, "{body}: {faults}");
    }
}
