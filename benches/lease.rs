//! The cost of a hit that spends a lease, against the same limit with `share="host"`: both in
//! turns, in one run, with one key and with a million. `cargo bench -p frs-server --bench lease`;
//! arguments select by name.
//!
//! A line shows the nanoseconds of both, and the median of the ratios with its range. Each limit is
//! compared twice: *small* with local records that are as small as possible, *alike* with local
//! records in a group of the same `node-size`, as if both bizs were in one group.
//!
//! `FRS_BENCH_DIR` names the directory for the files, `FRS_BENCH_KEYS` the number of keys,
//! `FRS_BENCH_ROUNDS` the number of rounds. `FRS_BENCH_ONLY=local` or `leased` runs that side
//! alone, for tools that count instructions.

mod bench_store;
mod random;

use std::hint::black_box;
use std::time::Instant;

use frs_base::clock;
use frs_cluster::lease::Lease;
use frs_cluster::nodes;
use frs_conf::key::{KeyField, MAX_KEY_WORDS, Seed};
use frs_conf::{ClusterSecret, KeyType};
use frs_engine::{
    Answers, Command, Exchange, ItemMoment, ItemOptions, Request, Role, Service, StoredKey,
};
use frs_store::layout::node;

use random::Random;

/// The Updates of one side in a round.
const BLOCK: usize = 1 << 16;
const ROUNDS: usize = 31;
const KEYS: u64 = 1_000_000;
const NOW: u64 = 1_700_000_000_000;
/// The requests that a worker runs together.
const TOGETHER: usize = 16;
const KEY_BYTES: usize = "user-000000000000000".len();
const LEASED: u32 = 1;

/// A limit, and the sizes of its records.
struct Case {
    name: &'static str,
    limits: &'static str,
    local_bytes: u32,
    leased_bytes: u32,
}

const CASES: [Case; 3] = [
    Case {
        name: "one interval",
        limits: r#"<limit policy="interval" interval="24h" max="1125899906842624"/>"#,
        local_bytes: 64,
        leased_bytes: 192,
    },
    Case {
        name: "two intervals",
        limits: r#"<limit policy="interval" interval="24h" max="1125899906842624"/>
            <limit policy="interval" interval="48h" max="1125899906842624"/>"#,
        local_bytes: 128,
        leased_bytes: 320,
    },
    Case {
        name: "token",
        limits: r#"<limit policy="token" rate="1000000/s" burst="100000000000"/>"#,
        local_bytes: 64,
        leased_bytes: 192,
    },
];

/// The files of a case, and a process that is attached to them.
struct World {
    service: Service,
    keys: u64,
    _dir: tempfile::TempDir,
}

impl World {
    fn new(case: &Case, keys: u64) -> World {
        let dir = bench_store::directory();
        let cluster = r#"<cluster name="c" secret-file="s"><node>a:1</node></cluster>"#;
        // Chains are so far from full that not one of them fills by chance.
        let key_nodes = keys.div_ceil(24).max(8);
        let &Case { limits, local_bytes, leased_bytes, .. } = case;
        let group = |name: &str, bytes: u32| {
            format!(
                r#"<group name="{name}" files="1" key-nodes="{key_nodes}" chain="56"
                    node-size="{bytes}" hash="bob"/>"#
            )
        };
        let [small, alike, leased] =
            [("small", local_bytes), ("alike", leased_bytes), ("leased", leased_bytes)]
                .map(|(name, bytes)| group(name, bytes));
        let map = format!(
            r#"<map>{small}{alike}{leased}
            <biz id="{LEASED}" name="leased" group="leased" key="string" share="cluster"
                hosts="3">{limits}</biz>
            <biz id="2" name="small" group="small" key="string">{limits}</biz>
            <biz id="3" name="alike" group="alike" key="string">{limits}</biz></map>"#
        );
        bench_store::fill(&dir, &map, cluster, |runtime| {
            runtime.keep_words(ClusterSecret::new([7; 32]).keys().words());
        });
        let service = frs_cluster::attach(dir.path(), Role::Program).expect("an attachment");
        let mut world = World { service, keys, _dir: dir };
        for key in 0..keys {
            world.grant(key);
            for biz in ["small", "alike", "leased"] {
                world.update_first(biz, key);
            }
        }
        while world.service.ask_for_huge_pages() {}
        world
    }

    /// Grants this host more than it can use.
    fn grant(&mut self, number: u64) {
        let (boot_ms, incarnation) =
            (clock::boot_ms(), frs_cluster::HostCluster::incarnation_of(&mut self.service));
        let mut key = KeyField::default();
        key.encode(KeyType::String, key_text(number).as_bytes(), 24, Seed([0; 2])).expect("a key");
        let key = key.key();
        let mut field = [0; MAX_KEY_WORDS];
        field[..key.words().len()].copy_from_slice(key.words());
        let key_word = node::key_word(LEASED, key.form() as u8, key.bytes());
        let moment = ItemMoment { boot_ms, wall_ms: NOW };
        let granted = nodes::with_leases(
            &mut self.service,
            &StoredKey { key_word, field },
            moment,
            NOW,
            |limits| {
                for limit in limits {
                    limit.holding.lease = Lease {
                        incarnation,
                        seq: number + 1,
                        window: NOW,
                        allowance: limit.settings.max / 6,
                        end_ms: boot_ms + 86_400_000,
                        gone_ms: boot_ms + 86_400_000,
                        sent_ms: boot_ms,
                        answered_ms: boot_ms,
                        obtainable: limit.settings.max / 2,
                        ..Lease::default()
                    };
                }
            },
        );
        granted.expect("a lease");
    }

    fn update_first(&mut self, biz: &str, number: u64) {
        let (mut request, mut answers) = (Request::default(), Answers::default());
        request.begin(Command::Update);
        request.push(biz, &key_text(number), ItemOptions::ONE);
        self.service.run(&request, NOW, &mut answers);
        let verdict = answers.items[0].result.as_ref().expect("a verdict");
        assert!(!verdict.limited, "{biz}");
    }
}

fn key_text(number: u64) -> String {
    format!("user-{number:015}")
}

/// How requests arrive.
#[derive(Clone, Copy)]
struct Load {
    name: &'static str,
    one_key: bool,
    together: usize,
}

const LOADS: [Load; 4] = [
    Load { name: "1 key", one_key: true, together: 1 },
    Load { name: "1 key, 16 requests together", one_key: true, together: TOGETHER },
    Load { name: "1 M keys", one_key: false, together: 1 },
    Load { name: "1 M keys, 16 requests together", one_key: false, together: TOGETHER },
];

/// One side of a comparison: runs the Updates of one biz.
struct Side<'w> {
    world: &'w mut World,
    biz: &'static str,
    load: Load,
}

impl Side<'_> {
    /// Measures the nanoseconds of an Update.
    fn ns(&mut self, random: &mut Random) -> f64 {
        let keys = if self.load.one_key { 1 } else { self.world.keys };
        let texts: String = (0..BLOCK).map(|_| key_text(random.next() % keys)).collect();
        let mut keys = texts.as_bytes().chunks(KEY_BYTES);
        let mut key = || std::str::from_utf8(keys.next().expect("a key")).expect("a text");
        let mut fill = |request: &mut Request| {
            request.begin(Command::Update);
            request.push(self.biz, key(), ItemOptions::ONE);
        };
        let mut exchanges = vec![Exchange::default(); self.load.together];
        let begun = Instant::now();
        serve(&mut self.world.service, &mut exchanges, &mut fill);
        let ns = begun.elapsed().as_nanos() as f64;
        let verdict = exchanges[0].answers.items[0].result.as_ref().expect("a verdict");
        assert!(!verdict.limited && verdict.shared.is_some() == (self.biz == "leased"));
        ns / BLOCK as f64
    }
}

/// A round, in a function of its own, which tools that count instructions find by name.
#[inline(never)]
fn serve(service: &mut Service, exchanges: &mut [Exchange], fill: &mut impl FnMut(&mut Request)) {
    for _ in 0..BLOCK / exchanges.len() {
        service.begin_tick();
        exchanges.iter_mut().for_each(|one| fill(&mut one.request));
        service.run_all(exchanges, NOW);
        black_box(&*exchanges);
    }
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

/// Measures a local biz and the leased one in turns.
fn pair(world: &mut World, name: &str, local: &'static str, load: Load) {
    let rounds = number("FRS_BENCH_ROUNDS").unwrap_or(ROUNDS);
    let only = std::env::var("FRS_BENCH_ONLY").ok();
    let runs = |side: &str| only.as_deref().is_none_or(|only| only == side);
    let mut random = Random(0x9e37_79b9);
    let (mut locals, mut leased) = (Vec::new(), Vec::new());
    let mut turn = |biz| Side { world: &mut *world, biz, load }.ns(&mut random);
    for round in 0..rounds + 1 {
        // The sides take turns at being first. An extra round before the first warms up.
        let is_first = round % 2 == 0;
        let mut own = if runs("local") && is_first { turn(local) } else { 0.0 };
        let lease = if runs("leased") { turn("leased") } else { 0.0 };
        if runs("local") && !is_first {
            own = turn(local);
        }
        if round > 0 {
            locals.push(own);
            leased.push(lease);
        }
    }
    let mut ratios: Vec<f64> =
        locals.iter().zip(&leased).map(|(local, leased)| leased / local).collect();
    ratios.sort_by(f64::total_cmp);
    let at = |part: usize| ratios[(ratios.len() - 1) * part / 4];
    println!(
        "{name}: local {:.0} ns, leased {:.0} ns, ratio {:.3} (quartiles {:.3}-{:.3})",
        median(locals),
        median(leased),
        at(2),
        at(1),
        at(3)
    );
}

fn number(variable: &str) -> Option<usize> {
    std::env::var(variable).ok()?.parse().ok()
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|part| name.contains(part));
    let keys = number("FRS_BENCH_KEYS").map_or(KEYS, |keys| keys as u64);
    for case in &CASES {
        let names = LOADS.iter().flat_map(|&load| {
            ["small", "alike"].map(|local| {
                (format!("lease/update hit, {}, {local}, {}", case.name, load.name), local, load)
            })
        });
        let chosen: Vec<_> = names.filter(|(name, ..)| is_wanted(name)).collect();
        if chosen.is_empty() {
            continue;
        }
        let mut world = World::new(case, keys);
        for (name, local, load) in chosen {
            pair(&mut world, &name, local, load);
        }
    }
}
