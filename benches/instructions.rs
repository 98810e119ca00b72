//! The instructions that the library takes for an item, counted by valgrind: figures that a busy
//! machine does not change. `cargo bench -p frs-server --bench instructions`; a word selects cases:
//! `cargo bench -p frs-server --bench instructions -- atomic`
//!
//! A case runs once and twice as long, and the difference counts, so that the preparation does not.
//! The group is small, because waits for memory take time, not instructions.

#[allow(dead_code, reason = "a part of what the benches share")]
mod bench_store;
mod callgrind;

use frs_cluster::learning;
use frs_conf::ClusterSecret;
use frs_engine::{Answers, Command, Exchange, ItemOptions, Learning, Request, Role, Service};

const KEYS: u64 = 4096;
const NOW: u64 = 1_700_000_000_000;
/// The items of a case in its shorter run.
const ITEMS: u64 = 6400;

const MAP: &str = r#"<map>
  <group name="some" files="1" key-nodes="512" chain="56" node-size="64" hash="bob"/>
  <group name="full" files="1" key-nodes="8" chain="56" node-size="64" hash="bob"/>
  <group name="wide" files="1" key-nodes="512" chain="56" node-size="128" hash="bob"/>
  <group name="mirrored" files="1" key-nodes="512" chain="56" node-size="128" hash="bob"
    mirror="200ms"/>
  <biz id="1" name="some" group="some" key="string">
    <limit policy="interval" interval="24h" max="9007199254740991"/>
  </biz>
  <biz id="2" name="full" group="full" key="string">
    <limit policy="interval" interval="24h" max="9007199254740991"/>
  </biz>
  <biz id="3" name="spent" group="some" key="string">
    <limit policy="interval" interval="24h" max="1"/>
  </biz>
  <biz id="4" name="wide" group="wide" key="string">
    <limit policy="interval" interval="24h" max="9007199254740991"/>
  </biz>
  <biz id="5" name="mirrored" group="mirrored" key="string">
    <limit policy="interval" interval="24h" max="9007199254740991"/>
  </biz>
</map>"#;

/// A peer that is never called.
const PEERS: &str = r#"<peers name="p" secret-file="s" listen="127.0.0.1:1">
  <peer>127.0.0.1:2</peer></peers>"#;

/// A case: its name, its business, the items of a request, and the requests that run together.
struct Case {
    name: &'static str,
    biz: &'static str,
    items: usize,
    together: usize,
    is_atomic: bool,
    /// The number of keys.
    keys: u64,
    /// Whether the keys are new.
    is_new: bool,
    /// Whether the group has checkpoints.
    is_marked: bool,
}

const HIT: Case = Case {
    name: "hit",
    biz: "some",
    items: 1,
    together: 1,
    is_atomic: false,
    keys: KEYS,
    is_new: false,
    is_marked: false,
};

/// Refuses all items: each key has already used its limit.
const REFUSED: Case = Case { name: "refused, of many keys", biz: "spent", ..HIT };

/// In a node of two lines, as a mirrored record of this limit needs.
const WIDE: Case = Case { name: "hit, in 128 bytes", biz: "wide", ..HIT };
const MIRRORED: Case = Case { name: "hit, mirrored, in 128 bytes", biz: "mirrored", ..HIT };

const CASES: [Case; 20] = [
    HIT,
    Case { name: "hit, with checkpoints", is_marked: true, ..HIT },
    Case { name: "16 requests of a hit, together", together: 16, ..HIT },
    Case { name: "64 hits in a request", items: 64, ..HIT },
    Case { name: "64 hits in one, with checkpoints", items: 64, is_marked: true, ..HIT },
    Case { name: "64 hits, atomic", items: 64, is_atomic: true, ..HIT },
    Case { name: "create", is_new: true, ..HIT },
    Case { name: "64 creates in a request", items: 64, is_new: true, ..HIT },
    Case { name: "evict", biz: "full", is_new: true, ..HIT },
    REFUSED,
    Case { name: "64 refused, of many keys", items: 64, ..REFUSED },
    Case { name: "64 refused, of 16 keys", items: 64, keys: 16, ..REFUSED },
    WIDE,
    MIRRORED,
    Case { name: "64 hits, in 128 bytes", items: 64, ..WIDE },
    Case { name: "64 hits, mirrored, in 128 bytes", items: 64, ..MIRRORED },
    Case { name: "64 hits, atomic, in 128 bytes", items: 64, is_atomic: true, ..WIDE },
    Case { name: "64 hits, atomic, mirrored", items: 64, is_atomic: true, ..MIRRORED },
    Case { name: "create, in 128 bytes", is_new: true, ..WIDE },
    Case { name: "create, mirrored, in 128 bytes", is_new: true, ..MIRRORED },
];

fn main() {
    callgrind::print(&CASES.map(|case| case.name), ITEMS, |case, items| run(&CASES[case], items));
}

fn run(case: &Case, items: u64) {
    let dir = bench_store::directory();
    let checkpoint = if case.is_marked { " checkpoint=\"60s\"" } else { "" };
    let data = format!("<data dir=\"{}\"{checkpoint}/>", dir.path().display());
    let mut service = if case.biz == "mirrored" {
        let srv = format!("<srv>{data}{PEERS}</srv>");
        let secret = ClusterSecret::new([7; 32]);
        bench_store::fill_of(&dir, MAP, &srv, |runtime| {
            runtime.keep_words(secret.keys().words());
        });
        let service = frs_cluster::attach(dir.path(), Role::Program).expect("an attachment");
        learning::set(service.handle().runtime(), Learning::No);
        service
    } else {
        let map = MAP.replace("mirror=\"200ms\"", "");
        bench_store::fill_of(&dir, &map, &format!("<srv>{data}</srv>"), |_| {});
        Service::attach(dir.path(), Role::Program, None).expect("an attachment")
    };
    let mut answers = Answers::default();
    let first = if case.biz == "full" { 8 * 56 } else { KEYS };
    for number in 0..first {
        let mut one = Request::default();
        one.begin(Command::Update);
        one.push(case.biz, &key(number), ItemOptions::ONE);
        service.run(&one, NOW, &mut answers);
    }
    // Both runs prepare as many keys as the longer one needs, so that the preparation cancels out.
    let keys: Vec<String> = (0..first + 2 * ITEMS).map(key).collect();
    let mut next = first;
    let mut exchanges = vec![Exchange::default(); case.together];
    for _ in 0..items / (case.items * case.together) as u64 {
        for Exchange { request, .. } in &mut exchanges {
            request.begin(Command::Update);
            for _ in 0..case.items {
                let number = if case.is_new {
                    next
                } else {
                    next.wrapping_mul(0x9e37_79b9) % first % case.keys
                };
                request.push(case.biz, &keys[number as usize], ItemOptions::ONE);
                next += 1;
            }
            request.atomic = case.is_atomic;
        }
        service.begin_tick();
        service.run_all(&mut exchanges, NOW);
        for Exchange { answers, .. } in &exchanges {
            assert!(answers.items.iter().all(|answer| answer.result.is_ok()));
        }
    }
}

fn key(number: u64) -> String {
    format!("user-{number:015}")
}
