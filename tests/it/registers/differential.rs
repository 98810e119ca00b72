//! Random calls to a real redis-server and to frs: equal replies, byte for byte, in both versions
//! of the protocol, and times within 2 ms.
//!
//! `FRS_REGISTER_CALLS` is the number of calls in each version: `just registers 100000`.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::calls::{Call, Calls, Chance, LONG_KEY_BYTES};
use super::redis::Redis;
use super::setup;
use super::wire::{Reply, Wire};
use crate::common::wait_until;
use frs_base::clock;

/// The calls in each version without `FRS_REGISTER_CALLS`.
const CALLS: usize = 20_000;
/// Calls between two looks at all keys.
const BETWEEN_LOOKS: usize = 1000;
/// By how much the servers' times may differ. Keys are removed if the servers have read the calls
/// that set their times further apart.
const TOLERANCE: Duration = Duration::from_millis(2);
/// After this time a register is gone that expires within a millisecond.
const SOON: Duration = Duration::from_millis(8);
/// The databases that calls select.
const DATABASES: [&str; 3] = ["0", "3", "15"];
/// Patterns of SCAN.
const PATTERNS: [&str; 6] = ["*", "key:*", "key:[2-5]", "*o*", "k?y:1*", "\\key:[^1]"];
/// Commands of frs that redis-server 7.0 does not have. A newer one may have some.
const NEWER: [&str; 6] =
    ["cl.throttle", "frs.mquery", "frs.mupdate", "frs.query", "frs.update", "increx"];

/// Both servers.
struct Both {
    redis: Wire,
    frs: Wire,
    /// At most so long after the one server has the other one read the latest calls.
    apart: Duration,
    /// The most milliseconds by which times differed that were read together.
    widest: u64,
    /// How often keys were removed.
    removals: usize,
}

impl Both {
    /// Sends calls to both, and compares their replies.
    #[track_caller]
    fn compare(&mut self, calls: &[Call]) {
        let begun = Instant::now();
        let words = || calls.iter().map(|call| &call.words[..]);
        self.redis.send(words()).expect("sent");
        self.frs.send(words()).expect("sent");
        let mut replies = Vec::new();
        for call in calls {
            let expected = self.redis.reply().expect("a reply of Redis");
            let found = self
                .frs
                .reply()
                .unwrap_or_else(|error| panic!("{}: {error}, {expected:?} of Redis", call.shown()));
            replies.push((call, expected, found));
        }
        self.apart = begun.elapsed();
        let mut queued: Vec<&Call> = Vec::new();
        for (call, expected, found) in &replies {
            let fault = |found: &Reply, expected: &Reply, call: &Call| {
                let all: Vec<String> = calls.iter().map(Call::shown).collect();
                panic!("{}: {found:?} of frs, {expected:?} of Redis, in {all:#?}", call.shown())
            };
            if matches!(expected, Reply::Line(line) if line == "+QUEUED") {
                queued.push(call);
            }
            match (expected.parts(), found.parts()) {
                (expected_parts, found_parts)
                    if call.name() == "EXEC" && expected_parts.len() == found_parts.len() =>
                {
                    for ((queued, expected), found) in
                        queued.iter().zip(expected_parts).zip(found_parts)
                    {
                        if !self.are_equal(queued, expected, found) {
                            fault(found, expected, queued);
                        }
                    }
                }
                _ if !self.are_equal(call, expected, found) => fault(found, expected, call),
                _ => {}
            }
        }
        if calls.iter().any(|call| call.expires_soon) {
            std::thread::sleep(SOON);
        }
        if self.apart > TOLERANCE {
            self.removals += 1;
            self.remove_keys(true);
        }
    }

    /// Removes keys of all databases: those that SCAN lists if `listed`, and the long one.
    fn remove_keys(&mut self, listed: bool) {
        for wire in [&mut self.redis, &mut self.frs] {
            for database in DATABASES.iter().rev() {
                wire.ask(&format!("SELECT {database}"));
                let keys = if listed { all_keys(wire, "*") } else { BTreeSet::new() };
                delete(wire, keys);
                delete(wire, [vec![b'x'; LONG_KEY_BYTES]]);
            }
        }
    }

    fn are_equal(&mut self, call: &Call, expected: &Reply, found: &Reply) -> bool {
        if expected == found {
            return true;
        }
        let both = (expected.integer(), found.integer());
        match &*call.name() {
            "PTTL" | "PEXPIRETIME" => self.are_close(both),
            // Below 0 there is no time.
            "TTL" | "EXPIRETIME" => match both {
                (Some(expected @ 0..), Some(found @ 0..)) => expected.abs_diff(found) <= 1,
                _ => false,
            },
            "TIME" => self.are_close((milliseconds(expected), milliseconds(found))),
            // Redis counts registers that expired until it comes across them.
            "DBSIZE" => matches!(both, (Some(_), Some(_))),
            // The order of keys is that of the server. `compare_keys` compares all of them.
            "SCAN" => expected.parts().len() == 2 && found.parts().len() == 2,
            _ => false,
        }
    }

    /// Whether times are the same, but for the time between the servers' readings of a call: an
    /// earlier one has set it, or this one reads it.
    fn are_close(&mut self, both: (Option<i64>, Option<i64>)) -> bool {
        let (Some(expected @ 0..), Some(found @ 0..)) = both else { return false };
        let apart = expected.abs_diff(found);
        if self.apart <= TOLERANCE {
            self.widest = self.widest.max(apart);
        }
        // Each server cuts the fraction of a millisecond off.
        u128::from(apart) <= (TOLERANCE + self.apart).as_millis() + 1
    }

    /// Compares the keys of the current database, by SCAN.
    #[track_caller]
    fn compare_keys(&mut self, pattern: &str) {
        // Redis lists no register that has expired, and frs neither.
        let of_redis = all_keys(&mut self.redis, pattern);
        let of_frs = all_keys(&mut self.frs, pattern);
        assert_eq!(of_frs, of_redis, "MATCH {pattern}");
    }

    /// Compares the number of keys of a database, and removes them.
    #[track_caller]
    fn compare_counts(&mut self, database: &str) {
        for wire in [&mut self.redis, &mut self.frs] {
            wire.ask(&format!("SELECT {database}"));
        }
        self.compare_keys("*");
        // Redis counts registers that expired until it comes across them.
        wait_until("both count the same keys", || {
            let [expected, found] =
                [&mut self.redis, &mut self.frs].map(|wire| wire.ask("DBSIZE").integer());
            (expected == found).then_some(())
        });
        for wire in [&mut self.redis, &mut self.frs] {
            let keys = all_keys(wire, "*");
            delete(wire, keys);
            assert_eq!(wire.ask("DBSIZE").integer(), Some(0));
        }
    }
}

/// Removes keys.
fn delete(wire: &mut Wire, keys: impl IntoIterator<Item = Vec<u8>>) {
    for key in keys {
        wire.send([&[b"DEL".to_vec(), key][..]]).expect("sent");
        wire.reply().expect("a reply");
    }
}

/// The keys that SCAN lists. Keys that are longer than key-bytes are not listed by frs.
fn all_keys(wire: &mut Wire, pattern: &str) -> BTreeSet<Vec<u8>> {
    let (mut keys, mut cursor) = (BTreeSet::new(), "0".to_owned());
    loop {
        let reply = wire.ask(&format!("SCAN {cursor} MATCH {pattern} COUNT 7"));
        let [Reply::Bulk(next), found] = reply.parts() else { panic!("{reply:?}") };
        for key in found.parts() {
            let Reply::Bulk(key) = key else { panic!("{key:?}") };
            if key.len() < LONG_KEY_BYTES {
                keys.insert(key.clone());
            }
        }
        cursor = String::from_utf8_lossy(next).into_owned();
        if cursor == "0" {
            return keys;
        }
    }
}

/// The reply of TIME in milliseconds.
fn milliseconds(reply: &Reply) -> Option<i64> {
    let [seconds, micros] = reply.parts() else { return None };
    let number = |part: &Reply| part.text().parse::<i64>().ok();
    Some(number(seconds)? * 1000 + number(micros)? / 1000)
}

/// The names of all commands.
fn names(wire: &mut Wire) -> BTreeSet<String> {
    wire.ask("COMMAND LIST").parts().iter().map(Reply::text).collect()
}

// Shows: registers-as-redis.
#[test]
fn random_calls_are_answered_as_redis_answers_them() {
    let Some(redis) = Redis::start() else { return };
    let (setup, resp) = setup(1, 4000);
    let _server = setup.start();
    let connect = || wait_until("frs listens", || Wire::connect(resp.address).ok());
    let missing = &names(&mut connect()) - &names(&mut redis.connect());
    println!("not compared, because this redis-server has none of them: {missing:?}");
    assert!(missing.iter().all(|name| NEWER.contains(&&**name)), "{missing:?}");
    let asked = std::env::var("FRS_REGISTER_CALLS").ok();
    let count = asked.map_or(CALLS, |text| text.parse().expect("FRS_REGISTER_CALLS: a number"));
    let now_ms = clock::now();
    for version in ["2", "3"] {
        let begun = Instant::now();
        let seed = now_ms.wrapping_mul(u64::from(std::process::id()));
        println!("seed {seed} in RESP{version}");
        let mut calls = Calls { chance: Chance(seed), now_s: now_ms / 1000 };
        let (redis, frs) = (redis.connect(), connect());
        let mut both = Both { redis, frs, apart: Duration::ZERO, widest: 0, removals: 0 };
        for wire in [&mut both.redis, &mut both.frs] {
            wire.ask(&format!("HELLO {version}"));
        }
        let (mut sent, mut looked) = (0, 0);
        while sent < count {
            let mut batch = Vec::new();
            let is_multi = calls.chance.below(8) == 0;
            if is_multi {
                batch.push(Call::of(&["MULTI"]));
            }
            let length = 1 + calls.chance.below(12);
            while batch.len() < length && batch.last().is_none_or(|last: &Call| !last.expires_soon)
            {
                let call = calls.call();
                // frs looks at subcommands when they run, Redis when they are queued.
                if !(is_multi && call.name() == "COMMAND") {
                    batch.push(call);
                }
            }
            if is_multi {
                let ends = ["EXEC", "EXEC", "EXEC", "DISCARD"];
                batch.push(Call::of(&[ends[calls.chance.below(4)]]));
            }
            sent += batch.len();
            both.compare(&batch);
            if sent - looked >= BETWEEN_LOOKS {
                looked = sent;
                let pattern = PATTERNS[calls.chance.below(PATTERNS.len())];
                both.compare_keys(pattern);
            }
        }
        println!(
            "{sent} calls in {:?}; times differ by {} ms at most; keys removed {} times",
            begun.elapsed(),
            both.widest,
            both.removals
        );
        // frs counts long keys, which it stores as digests, for database 0.
        both.remove_keys(false);
        DATABASES.iter().for_each(|database| both.compare_counts(database));
    }
}
