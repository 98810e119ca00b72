//! The cost of one command through the library: hit, create, evict, find, and atomic requests, on a
//! group of a million keys; also the cost of a worker's counters and of the members of `distinct`.
//! Requests run one at a time, several at once, and with many items in one request. For comparison:
//! the cost of only changing a line of memory. `cargo bench -p frs-server --bench store`
//!
//! `FRS_BENCH_DIR` names the directory for the files. The default is /dev/shm if it exists, because
//! live files of large groups are on tmpfs. `FRS_BENCH_SMALL_PAGES=1` leaves the filled group in
//! small pages. Otherwise it is put into huge pages if the kernel can, as a server's keeper does.

mod bench_store;
mod random;

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use frs_engine::{Answers, Command, Exchange, ItemOptions, Outcome, Request, Role, Service};
use frs_server::protocol::call::{Call, status_kind};
use frs_store::Counter;
use frs_store::counter::Timed;

use random::Random;

const KEYS: u64 = 1_000_000;
/// The items requested in turn, drawn from all keys: as many as there are keys.
const REQUESTED: usize = 1 << 20;
const NOW: u64 = 1_700_000_000_000;

const MAP: &str = r#"<map>
  <group name="big" files="1" key-nodes="35715" chain="56" node-size="64" hash="bob"/>
  <group name="wide" files="1" key-nodes="2048" chain="56" node-size="128" hash="bob"/>
  <group name="full" files="1" key-nodes="64" chain="56" node-size="64" hash="bob"/>
  <biz id="1" name="hit" group="big" key="string">
    <limit policy="interval" interval="24h" max="9007199254740991"/>
  </biz>
  <biz id="3" name="wide" group="wide" key="string">
    <limit policy="interval" interval="24h" max="9007199254740991"/>
  </biz>
  <biz id="2" name="evict" group="full" key="string">
    <limit policy="interval" interval="24h" max="9007199254740991"/>
  </biz>
</map>"#;

struct World {
    dir: tempfile::TempDir,
}

impl World {
    fn new() -> World {
        let dir = bench_store::directory();
        bench_store::fill(&dir, MAP, "", |_| {});
        World { dir }
    }

    fn attach(&self) -> Service {
        Service::attach(self.dir.path(), Role::Program, None).expect("an attachment")
    }
}

fn key_into(text: &mut String, number: u64) {
    use std::fmt::Write;
    text.clear();
    let _ = write!(text, "user-{number:015}");
}

fn fill(service: &mut Service) {
    let (mut request, mut answers) = (Request::default(), Answers::default());
    let mut key = String::new();
    for number in 0..KEYS {
        key_into(&mut key, number);
        request.begin(Command::Update);
        request.push("hit", &key, ItemOptions::ONE);
        service.run(&request, NOW, &mut answers);
    }
}

/// Requests of `items` items each, made beforehand, so that only the service is measured.
fn requests(biz: &str, items: usize, keys: u64) -> Vec<Request> {
    let (mut random, mut key) = (Random(0x9e37_79b9), String::new());
    (0..REQUESTED / items)
        .map(|_| {
            let mut request = Request::default();
            request.begin(Command::Update);
            for _ in 0..items {
                key_into(&mut key, random.next() % keys);
                request.push(biz, &key, ItemOptions::ONE);
            }
            request
        })
        .collect()
}

fn bench(c: &mut Criterion) {
    let world = World::new();
    let mut service = world.attach();
    fill(&mut service);
    if std::env::var_os("FRS_BENCH_SMALL_PAGES").is_none() {
        while service.ask_for_huge_pages() {}
    }
    let mut answers = Answers::default();
    let mut run = |name: &str, requests: &[Request]| {
        let mut at = 0;
        c.bench_function(name, |b| {
            b.iter(|| {
                at = (at + 1) % requests.len();
                service.begin_tick();
                service.run(black_box(&requests[at]), NOW, &mut answers);
                black_box(&answers);
            });
        });
    };
    run("service/update evict, full chains of 56", &requests("evict", 1, u64::MAX));
    // Warming up creates the nodes.
    run("service/update hit, two lines, 50 k keys", &requests("wide", 1, 50_000));
    let mut many = requests("hit", 64, KEYS);
    run("service/64 updates hit, 1 M keys", &many);
    many.iter_mut().for_each(|request| request.atomic = true);
    run("service/64 updates hit, atomic, 1 M keys", &many);
    singles(c, &mut service);
    floor(c);
    counters(c, &service);
    drop(service);
    client(c, &world);
    create(c);
    distinct(c);
    two_processes(&world);
}

/// The keys in the order of their requests, as one text, and the number of bytes of each.
fn keys() -> (usize, String) {
    let (mut random, mut key, mut keys) = (Random(0x9e37_79b9), String::new(), String::new());
    for _ in 0..REQUESTED {
        key_into(&mut key, random.next() % KEYS);
        keys.push_str(&key);
    }
    (key.len(), keys)
}

/// Requests of one item each, filled as they run: one at a time as a program does, and 16 at once
/// as a worker does with pipelined requests.
fn singles(c: &mut Criterion, service: &mut Service) {
    let (key_bytes, keys) = keys();
    let mut at = 0;
    let mut fill = |request: &mut Request, command| {
        request.begin(command);
        request.push("hit", &keys[at..at + key_bytes], ItemOptions::ONE);
        at = (at + key_bytes) % keys.len();
    };
    let (mut request, mut answers) = (Request::default(), Answers::default());
    for (name, command) in [("update", Command::Update), ("query", Command::Query)] {
        c.bench_function(&format!("service/{name} hit, 1 M keys"), |b| {
            b.iter(|| {
                fill(&mut request, command);
                service.begin_tick();
                service.run(&request, NOW, &mut answers);
                black_box(&answers);
            });
        });
    }
    let mut exchanges = vec![Exchange::default(); 16];
    c.bench_function("service/16 requests of an update hit, handed over together", |b| {
        b.iter(|| {
            exchanges.iter_mut().for_each(|one| fill(&mut one.request, Command::Update));
            service.begin_tick();
            service.run_all(&mut exchanges, NOW);
            black_box(&exchanges);
        });
    });
}

/// The cost of a program's call through a client: the Update of [`singles`], plus a lock, a clock
/// read and a verdict of its own.
fn client(c: &mut Criterion, world: &World) {
    let client = frs::Client::attach(world.dir.path()).expect("a client");
    let (key_bytes, keys) = keys();
    let mut at = 0;
    c.bench_function("client/update hit, 1 M keys", |b| {
        b.iter(|| {
            let key = &keys[at..at + key_bytes];
            at = (at + key_bytes) % keys.len();
            client.update(frs::Item::new("hit", key)).expect("judged")
        });
    });
}

/// The least work of an Update: reads one line, of as much memory as the group has, and changes it
/// with a compare-exchange. The next line is known in advance, or only after this one, which is the
/// case of a single Update. The memory is in small pages if the kernel gives huge ones only on
/// request.
fn floor(c: &mut Criterion) {
    const LINE: usize = 8;
    let lines: usize = 35_715 * 57;
    let memory: Vec<AtomicU64> = (0..lines * LINE).map(|_| AtomicU64::new(0)).collect();
    let change = |line: u64| {
        let word = &memory[line as usize % lines * LINE];
        let old = word.load(Ordering::Relaxed);
        let new = old.wrapping_add(2);
        let _ = word.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed);
        old
    };
    let mut random = Random(0x9e37_79b9);
    c.bench_function("floor/a line changed, the next one known", |b| {
        b.iter(|| change(random.next() >> 20));
    });
    let mut last = 0;
    c.bench_function("floor/a line changed, the next one after it", |b| {
        b.iter(|| last = change((random.next() >> 20) + last % 2));
    });
}

/// All counting of a worker for a tick, including the clock read at its end: with one request, and
/// with one request from each of 64 connections.
fn counters(c: &mut Criterion, service: &Service) {
    let counters = service.handle().counters().expect("an attachment that counts");
    let row = service.handle().biz_rows(&[1])[0];
    for requests in [1, 64] {
        c.bench_function(&format!("counters/a turn of {requests}"), |b| {
            let begun = frs_base::clock::instant();
            b.iter(|| {
                for _ in 0..requests {
                    counters.count_item(black_box(row), true, Outcome::Allowed as usize);
                    counters.count_request(Call::Update as usize, status_kind(black_box(200)));
                }
                let us = begun.elapsed().as_nanos().div_ceil(1000) as u64;
                counters.add_time(Timed::Request, us, requests);
                counters.add(Counter::BytesIn, 200 * requests);
                counters.add(Counter::BytesOut, 360 * requests);
                counters.set_open(64);
            });
        });
    }
}

fn create(c: &mut Criterion) {
    let world = World::new();
    let mut service = world.attach();
    let (mut request, mut answers) = (Request::default(), Answers::default());
    let (mut key, mut number) = (String::new(), 0);
    c.bench_function("service/update create, into an empty group", |b| {
        b.iter(|| {
            number += 1;
            key_into(&mut key, number);
            request.begin(Command::Update);
            request.push("hit", &key, ItemOptions::ONE);
            service.run(&request, NOW, &mut answers);
        });
    });
}

/// The cost of a member that a sketch or a set knows, and of one that is new to a sketch.
fn distinct(c: &mut Criterion) {
    const RECORDS: u64 = 100;
    const MEMBERS: u64 = 200;
    const PRECISIONS: [(&str, &str); 4] =
        [("8", ""), ("12", ""), ("14", ""), ("exact", "max=\"256\"")];
    let bizs = PRECISIONS.iter().zip(1..).map(|((precision, more), id)| {
        format!(
            r#"<group name="g{id}" keys="1000"/>
            <biz id="{id}" name="b{id}" group="g{id}" key="string">
              <limit policy="distinct" precision="{precision}" {more}/></biz>"#
        )
    });
    let dir = bench_store::directory();
    let map = format!("<map>{}</map>", bizs.collect::<String>());
    // The undo log has room for 42 of the largest records.
    bench_store::fill(&dir, &map, "<http max-atomic-items=\"42\"/>", |_| {});
    let mut service = Service::attach(dir.path(), Role::Program, None).expect("an attachment");
    let (mut request, mut answers) = (Request::default(), Answers::default());
    let (mut key, mut member, mut random) = (String::new(), String::new(), Random(0x9e37_79b9));
    for ((precision, _), id) in PRECISIONS.iter().zip(1..) {
        let biz = format!("b{id}");
        let mut note = |number: u64, of: u64| {
            key_into(&mut key, of);
            key_into(&mut member, number);
            request.begin(Command::Update);
            request.push(&biz, &key, ItemOptions::ONE);
            request.bring_member(&member);
            service.begin_tick();
            service.run(&request, NOW, &mut answers);
            assert!(answers.items[0].result.is_ok(), "{answers:?}");
        };
        (0..RECORDS).for_each(|of| (0..MEMBERS).for_each(|number| note(number, of)));
        c.bench_function(&format!("distinct/a known member, precision {precision}"), |b| {
            b.iter(|| note(random.next() % MEMBERS, random.next() % RECORDS));
        });
        if *precision != "exact" {
            c.bench_function(&format!("distinct/a new member, precision {precision}"), |b| {
                b.iter(|| note(random.next(), random.next() % RECORDS));
            });
        }
    }
}

/// Updates per second of one process and of two at once, in turns.
fn two_processes(world: &World) {
    let mut ratios: Vec<f64> = (0..5)
        .map(|_| {
            let one = updates_per_second(world, 1);
            let two = updates_per_second(world, 2);
            println!("one process {:.2} M/s, two {:.2} M/s", one / 1e6, two / 1e6);
            two / one
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    println!("service/two processes against one: {:.2} (median of 5)", ratios[2]);
}

fn updates_per_second(world: &World, processes: usize) -> f64 {
    let children: Vec<std::process::Child> = (0..processes)
        .map(|seed| {
            std::process::Command::new(std::env::current_exe().expect("this program"))
                .env("FRS_BENCH_CHILD", world.dir.path())
                .env("FRS_BENCH_SEED", (seed + 1).to_string())
                .stdout(std::process::Stdio::piped())
                .spawn()
                .expect("a child")
        })
        .collect();
    children
        .into_iter()
        .map(|child| {
            let output = child.wait_with_output().expect("a child that ends");
            String::from_utf8_lossy(&output.stdout).trim().parse::<f64>().expect("a figure")
        })
        .sum()
}

fn child(dir: &std::path::Path) {
    let mut service = Service::attach(dir, Role::Program, None).expect("an attachment");
    let requests = requests("hit", 1, KEYS);
    let seed: usize = std::env::var("FRS_BENCH_SEED").map_or(0, |s| s.parse().unwrap_or(0));
    let (mut answers, mut done) = (Answers::default(), 0u64);
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(1) {
        for offset in 0..4096 {
            let at = (done as usize + offset + seed * 7919) % requests.len();
            service.run(&requests[at], NOW, &mut answers);
        }
        done += 4096;
    }
    println!("{}", done as f64 / start.elapsed().as_secs_f64());
}

fn start(c: &mut Criterion) {
    match std::env::var_os("FRS_BENCH_CHILD") {
        Some(dir) => {
            child(dir.as_ref());
            std::process::exit(0);
        }
        None => bench(c),
    }
}

criterion_group!(benches, start);
criterion_main!(benches);
