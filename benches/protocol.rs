//! What reading requests and writing answers costs, without sockets and without the store.

use std::fmt::Write as _;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use frs::conf::{AuthzKey, Http};
use frs::protocol::Line;
use frs::protocol::http::{self, Head};
use frs::protocol::xml::{self, Bounds, Decoded};
use frs::service::{Answer, Answers, Command, Figures, Request, Verdict};
use frs::worker::connection::{Connection, Rules, Scratch, Serve};

const BOUNDS: Bounds = Bounds { max_items: 1024, max_atomic_items: 64 };

const HTTP: Http = Http {
    max_connections: 10_000,
    max_body_bytes: 65_536,
    max_head_bytes: 8192,
    max_items: 1024,
    max_atomic_items: 64,
    idle_timeout_ms: 60_000,
    request_timeout_ms: 10_000,
    lock_timeout_ms: 50,
};

/// Answers what a service would, for nothing.
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
    }
}

fn document(items: usize) -> String {
    let mut text = String::from("<request>");
    for item in 0..items {
        let _ = write!(text, "<item biz=\"login\" key=\"user-{:012}\"/>", item * 7919);
    }
    text + "</request>"
}

fn post(items: usize) -> Vec<u8> {
    let body = document(items);
    format!(
        "POST /update HTTP/1.1\r\nHost: 127.0.0.1:7600\r\nUser-Agent: frs-load\r\n\
         Content-Type: application/xml\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn heads(c: &mut Criterion) {
    let input = post(1);
    let head = &input[..input.len() - document(1).len()];
    c.bench_function("head/parse", |b| {
        b.iter(|| {
            let mut fields = http::fields();
            let (end, head) = Head::parse_at_once(black_box(head), &mut fields, 8192).unwrap();
            (end, head.unwrap().body)
        });
    });
}

fn documents(c: &mut Criterion) {
    let mut group = c.benchmark_group("xml");
    let (mut request, mut decoded) = (Request::default(), Decoded::default());
    for items in [1, 64] {
        group.throughput(Throughput::Elements(items as u64));
        let body = document(items);
        group.bench_function(format!("read {items}"), |b| {
            b.iter(|| {
                xml::read(
                    black_box(body.as_bytes()),
                    Command::Update,
                    BOUNDS,
                    &mut decoded,
                    &mut request,
                )
                .unwrap();
            });
        });
        let answers = Answers { items: vec![allowed(); items], ..Answers::default() };
        let (mut out, mut line) = (Vec::new(), Line::default());
        group.bench_function(format!("write {items}"), |b| {
            b.iter(|| {
                out.clear();
                xml::write(&mut out, &mut line, black_box(&request), black_box(&answers));
            });
        });
    }
    group.finish();
}

fn connections(c: &mut Criterion) {
    let mut group = c.benchmark_group("connection");
    let rules = Rules { http: &HTTP, authz: &AuthzKey::Peer, trusted: &[] };
    let get = b"GET /update?biz=login&key=user-000000000042 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    for (name, requests, input) in [
        ("post 1", 1, post(1)),
        ("post 64", 1, post(64)),
        ("post 1, 16 pipelined", 16, post(1).repeat(16)),
        ("get", 1, get.to_vec()),
    ] {
        group.throughput(Throughput::Elements(requests));
        let mut connection = Connection::new(None);
        let (mut scratch, mut out) = (Scratch::default(), Vec::new());
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
