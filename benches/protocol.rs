//! The cost of reading requests and writing answers, without sockets and without the store.

use std::fmt::Write as _;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use frs_conf::{AuthzKey, Http};
use frs_engine::{Answer, Answers, Command, Figures, Request, Verdict};
use frs_server::protocol::request_head::{self, Head};
use frs_server::protocol::{Bounds, Decoded, Format, Line, codec};
use frs_server::worker::connection::{Connection, ConnectionBuffers, ConnectionRules, Serve};

const BOUNDS: Bounds = Bounds { max_items: 1024, max_atomic_items: 64 };

/// Gives a service's answers without any work.
struct Fixed;

impl Serve for Fixed {
    fn run(&mut self, request: &Request, answers: &mut Answers) {
        answers.items.extend(request.items().iter().map(|_| allowed()));
    }

    fn biz_name(&self, _: usize) -> Option<&str> {
        Some("login")
    }

    fn draining(&self) -> bool {
        false
    }
}

fn allowed() -> Answer {
    Answer {
        biz: Some(0),
        result: Ok(Verdict {
            limited: false,
            banned: false,
            limit: 1,
            figures: Figures { used: 3, max: 5, remaining: 2, reset_ms: Some(57_123) },
            retry_ms: None,
            window_ms: Some(60_000),
            ..Verdict::UNJUDGED
        }),
        details: 0..0,
        action: 0,
    }
}

fn items(format: Format, count: usize) -> String {
    let mut text = String::new();
    for item in 0..count {
        let key = item * 7919;
        let _ = match format {
            Format::Xml => write!(text, "<item biz=\"login\" key=\"user-{key:012}\"/>"),
            Format::Json => write!(text, "{{\"biz\":\"login\",\"key\":\"user-{key:012}\"}},"),
        };
    }
    match format {
        Format::Xml => format!("<request>{text}</request>"),
        Format::Json => format!("{{\"items\":[{}]}}", text.trim_end_matches(',')),
    }
}

fn post(format: Format, count: usize) -> Vec<u8> {
    let body = items(format, count);
    let kind = match format {
        Format::Xml => "xml",
        Format::Json => "json",
    };
    format!(
        "POST /update HTTP/1.1\r\nHost: 127.0.0.1:7600\r\nUser-Agent: frs-load\r\n\
         Content-Type: application/{kind}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn heads(c: &mut Criterion) {
    let input = post(Format::Xml, 1);
    let head = &input[..input.len() - items(Format::Xml, 1).len()];
    c.bench_function("head/parse", |b| {
        b.iter(|| {
            let mut fields = request_head::fields();
            let (end, head) = Head::parse_at_once(black_box(head), &mut fields, 8192).unwrap();
            (end, head.unwrap().body)
        });
    });
}

fn documents(c: &mut Criterion) {
    for (name, format) in [("xml", Format::Xml), ("json", Format::Json)] {
        let mut group = c.benchmark_group(name);
        let (mut request, mut decoded) = (Request::default(), Decoded::default());
        for count in [1, 64] {
            group.throughput(Throughput::Elements(count as u64));
            let text = items(format, count);
            group.bench_function(format!("read {count}"), |b| {
                b.iter(|| {
                    let body = black_box(text.as_bytes());
                    let command = Command::Update;
                    codec::read(format, body, command, BOUNDS, &mut decoded, &mut request).unwrap();
                });
            });
            let answers = Answers { items: vec![allowed(); count], ..Answers::default() };
            let (mut out, mut line) = (Vec::new(), Line::default());
            group.bench_function(format!("write {count}"), |b| {
                b.iter(|| {
                    out.clear();
                    let (request, answers) = (black_box(&request), black_box(&answers));
                    codec::write(format, &mut out, &mut line, request, answers);
                });
            });
        }
        group.finish();
    }
}

fn connections(c: &mut Criterion) {
    let mut group = c.benchmark_group("connection");
    let http = Http::default();
    let rules = ConnectionRules {
        http: &http,
        authz: &AuthzKey::Peer,
        trusted: &[],
        admin: None,
        gate: None,
    };
    let get = b"GET /update?biz=login&key=user-000000000042 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    for (name, requests, input) in [
        ("post 1", 1, post(Format::Xml, 1)),
        ("post 64", 1, post(Format::Xml, 64)),
        ("post 1, 16 pipelined", 16, post(Format::Xml, 1).repeat(16)),
        ("post 1 in json", 1, post(Format::Json, 1)),
        ("post 64 in json", 1, post(Format::Json, 64)),
        ("post 1 in json, 16 pipelined", 16, post(Format::Json, 1).repeat(16)),
        ("get", 1, get.to_vec()),
    ] {
        group.throughput(Throughput::Elements(requests));
        let mut connection = Connection::new(None);
        let (mut scratch, mut out) = (ConnectionBuffers::default(), Vec::new());
        group.bench_function(name, |b| {
            b.iter(|| {
                out.clear();
                let progress = connection.advance(
                    black_box(&input),
                    rules,
                    &mut Fixed,
                    &mut scratch,
                    &mut out,
                );
                assert_eq!(progress.consumed, input.len());
            });
        });
    }
    group.finish();
}

criterion_group!(benches, heads, documents, connections);
criterion_main!(benches);
