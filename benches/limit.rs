//! The cost of one item between its parsing and its node: hashing, placing, judging, checking.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use frs_base::hash;
use frs_conf::key::{KeyField, Seed};
use frs_conf::{Biz, Geometry, HashKind, Interval, KeyType, Limit, Policy, Scope, Total};
use frs_limit::{Rules, States, Terms};

const SEED: Seed = Seed([0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210]);
const KEY: &str = "18829340001@login.id";

fn geometry(hash: HashKind) -> Geometry {
    Geometry { files: 2, key_nodes: 8192, chain: 56, node_bytes: 128, key_bytes: 24, hash }
}

fn hashes(c: &mut Criterion) {
    c.bench_function("hash/lookup3 20 bytes", |b| {
        b.iter(|| hash::hashlittle2(black_box(KEY.as_bytes()), 1, 2))
    });
    for words in [7, 15, 63] {
        let node: Vec<u64> = (0..words).map(|n| n * 0x0123_4567_89ab_cdef).collect();
        c.bench_function(&format!("hash/crc32c {words} words"), |b| {
            let (first, rest) = node.split_first_chunk().expect("three words");
            b.iter(|| hash::crc32c_words(*black_box(first), black_box(rest)))
        });
    }
}

fn keys(c: &mut Criterion) {
    let cases = [
        ("string", KeyType::String, KEY),
        ("integer", KeyType::Integer, "18829340001"),
        ("ip v4", KeyType::Ip { ipv6_prefix: 64 }, "203.0.113.77"),
        ("digest", KeyType::Digest, KEY),
    ];
    let mut field = KeyField::default();
    for (name, key_type, text) in cases {
        c.bench_function(&format!("key/encode {name}"), |b| {
            b.iter(|| field.encode(key_type, black_box(text.as_bytes()), 24, SEED).unwrap())
        });
        field.encode(key_type, text.as_bytes(), 24, SEED).unwrap();
        for hash in [HashKind::Bob, HashKind::Siphash] {
            let geometry = geometry(hash);
            c.bench_function(&format!("key/locate {name} {hash:?}"), |b| {
                b.iter(|| black_box(&field).key().locate(black_box(1001), &geometry, SEED))
            });
        }
    }
}

fn limits(c: &mut Criterion) {
    let interval = |interval_ms, max, debt| {
        Limit::new(Scope::Key, Policy::Interval(Interval { interval_ms, max, debt }))
    };
    let wide = Limit::new(Scope::Biz, Policy::Total(Total { max: 1 << 50 }));
    let cases = [
        ("one interval", vec![interval(60_000, 1 << 50, 0)]),
        ("one interval with debt", vec![interval(60_000, 1 << 50, 1000)]),
        ("one interval, refusing", vec![interval(60_000, 5, 0)]),
        (
            "two intervals and a wide total",
            vec![interval(60_000, 1 << 50, 0), interval(3_600_000, 1 << 50, 0), wide],
        ),
    ];
    for (name, limits) in cases {
        let biz = Biz::new(1, "b", KeyType::String, limits);
        let rules = Rules::new(&biz);
        let mut key = vec![0; rules.words(Scope::Key)];
        let mut wide = vec![0; rules.words(Scope::Biz)];
        let mut now = 1_700_000_000_000;
        c.bench_function(&format!("limit/{name}"), |b| {
            b.iter(|| {
                now += 1;
                let (key, biz) = (&mut key, &mut wide);
                let states = &mut States { key, biz, terms: &Terms::NEW };
                let (now, count) = (black_box(now), black_box(1));
                rules.roll(states, now);
                let judgement = rules.judge(states, now, count);
                if !judgement.limited {
                    rules.charge(states, now, count);
                }
                rules.verdict(states, now, &judgement)
            })
        });
    }
}

criterion_group!(benches, hashes, keys, limits);
criterion_main!(benches);
