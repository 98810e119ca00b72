//! Limits that refuse nothing: the figures that they show for all machines.

use super::*;

const COUNTS: [&str; 2] = ["<limit policy='count'/>", "<limit policy='count' unit='day'/>"];

impl Key {
    /// Reports the uses, as the courier does. The ledger knows this many uses of other hosts.
    fn answer(&mut self, others: u64) {
        let now_ms = self.clock.boot_ms();
        self.edit(|holding| {
            if holding.lease.window == 0 {
                // A log has these uses already.
                holding.used = holding.lease.extra.unsigned_abs();
                holding.lease.extra = 0;
            }
            let allowance = holding.used;
            let obtainable = (1 << 50) - (others + allowance);
            holding.lease = Lease {
                incarnation: OWN,
                seq: 1 + holding.lease.seq,
                window: 1,
                allowance,
                obtainable,
                end_ms: u64::MAX,
                gone_ms: u64::MAX,
                answered_ms: now_ms,
                ..holding.lease
            };
        });
    }
}

#[test]
fn a_count_shows_the_uses_of_all_machines_as_last_heard_and_its_own_since() {
    for limit in COUNTS {
        for spending in [Spending::New, Spending::Parked, Spending::CutOff, Spending::Ask] {
            let mut key = Key::new(CLUSTER, limit);
            assert_eq!(key.admitted(7, spending), 7, "it refuses nothing");
            assert!(key.clock.take_news(), "no round knows of it");
            let figures = key.figures();
            assert_eq!((figures.used, figures.max, figures.remaining), (7, 0, 0));
            key.answer(100);
            assert_eq!(key.figures().used, 107);
            assert_eq!(key.admitted(3, spending), 3);
            assert_eq!(key.figures().used, 110);
            assert!(!key.clock.has_news(), "the rounds report it");
            key.answer(200);
            assert_eq!(key.figures().used, 210);
            key.force(-4);
            assert_eq!(key.figures().used, 206);
            assert_eq!(key.verdict().window_ms, None);
        }
    }
}

#[test]
fn advice_begins_where_all_machines_together_have_used_the_maximum() {
    let advises = |key: &mut Key| {
        let wall_ms = key.wall_ms;
        key.with(|rules, states| {
            let judgement = rules.judge(states, wall_ms, 1);
            let verdict = rules.verdict(states, wall_ms, &judgement);
            assert!(!verdict.limited);
            verdict.advised == 1
        })
    };
    for limit in [INTERVAL, CALENDAR, TOTAL, SLIDING, COUNTER] {
        let limit = limit.replace("max=", "on-exceed='captcha' max=");
        let mut key = Key::new(CLUSTER, &limit);
        key.admitted(3, Spending::New);
        assert!(!advises(&mut key));
        key.answer(6);
        assert!(!advises(&mut key), "{limit}");
        assert_eq!(key.admitted(1, Spending::New), 1);
        assert!(advises(&mut key), "{limit}");
        assert_eq!(key.admitted(2, Spending::New), 2);
        let figures = key.figures();
        assert_eq!((figures.used, figures.max, figures.remaining), (12, 10, 0), "{limit}");
    }
}

#[test]
fn tokens_flow_back_between_two_answers() {
    let mut key = Key::new(CLUSTER, &TOKEN.replace("policy=", "on-exceed='captcha' policy="));
    key.force(4);
    key.answer(5);
    let shown = |key: &mut Key| (key.figures().used, key.figures().remaining);
    assert_eq!(shown(&mut key), (9, 1));
    key.force(11);
    assert_eq!(shown(&mut key), (10, 0), "nine more than there are");
    key.answer(5);
    // Ten in a minute.
    for (ms, used) in [(59_999, 10), (1, 10), (6_000, 9), (54_000, 0)] {
        key.pass_ms(ms);
        assert_eq!(shown(&mut key), (used, 10 - used), "after {ms} ms more");
    }
}

#[test]
fn the_window_before_weighs_less_and_less_until_the_ledger_is_heard() {
    let mut key = Key::new(CLUSTER, &COUNTER.replace("policy=", "on-exceed='captcha' policy="));
    key.force(4);
    key.answer(4);
    let now_ms = key.clock.boot_ms();
    key.edit(|holding| {
        (holding.lease.end_ms, holding.lease.gone_ms) = (now_ms + 5_000, now_ms + 65_000);
    });
    key.pass_ms(5_000);
    assert_eq!(key.figures().used, 8);
    key.pass_ms(15_000);
    assert_eq!(key.figures().used, 6);
    key.force(3);
    assert_eq!((key.figures().used, key.figures().remaining), (9, 1));
    key.pass_ms(45_000);
    assert_eq!(key.figures().used, 3);
}

#[test]
fn while_the_cluster_is_away_windows_turn_and_only_the_uses_of_the_last_one_are_told() {
    let unreported =
        |key: &mut Key| key.with(|rules, states| leases(rules, states, 0, WALL)[0].holding);
    for limit in [INTERVAL, SLIDING, COUNTER, TOKEN] {
        let mut key = Key::new(CLUSTER, &limit.replace("policy=", "on-exceed='captcha' policy="));
        for uses in 1..=5 {
            for used in 1..=uses {
                key.force(1);
                assert_eq!(key.figures().used, used, "{limit}");
            }
            assert_eq!(unreported(&mut key).lease.extra, i64::from(uses as u32), "{limit}");
            key.pass_ms(2 * MINUTE);
        }
    }
    for limit in [TOTAL, COUNTS[0]] {
        let mut key = Key::new(CLUSTER, &limit.replace("policy='t", "on-exceed='x' policy='t"));
        for used in 1..=5 {
            key.force(1);
            assert_eq!(key.figures().used, used, "{limit}");
            key.pass_ms(1000 * MINUTE);
        }
    }
}

#[test]
fn what_the_ledger_knows_of_a_count_makes_room_for_other_nodes() {
    for limit in COUNTS {
        let mut key = Key::new(CLUSTER, limit);
        key.admitted(1, Spending::New);
        assert_eq!(key.worth(), Worth::Limiting, "nobody else knows of it");
        key.answer(0);
        assert_eq!(key.worth(), Worth::Idle);
        key.admitted(1, Spending::New);
        assert_eq!(key.worth(), Worth::Limiting);
    }
}

#[test]
fn a_limit_that_refuses_and_one_that_advises_have_ledgers_of_their_own() {
    let named = |limit: &str| {
        let leased =
            Key::new(CLUSTER, limit).with(|rules, states| leases(rules, states, 0, WALL)[0]);
        (leased.shape, leased.settings.max)
    };
    for limit in ALL {
        let advising = limit.replace("policy=", "on-exceed='captcha' policy=");
        let [(refuses, max), (advises, told_max)] = [named(limit), named(&advising)];
        assert_ne!(refuses, advises, "they name another maximum");
        // A bucket flows back up to its burst.
        assert_eq!((max, told_max), (10, if limit == TOKEN { 10 } else { 1 << 50 }));
    }
}
