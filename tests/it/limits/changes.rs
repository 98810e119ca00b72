//! The effect of a reload on states in use: new numbers continue with the old counts, another shape
//! starts fresh, and added or removed words leave the words beside them alone.
//!
//! [`Node`] adopts other rules as the service does: at its next use, by the shape and the flag that
//! it was written with.

use std::sync::Arc;

use frs_conf::{
    Biz, Calendar, Count, Interval, KeyType, Limit, ListRule, Listed, Mode, Pattern, Policy, Scope,
    Sliding, SlidingCounter, Token, Total, Turns, Unit, Weight,
};
use frs_limit::{Rules, States, Terms, Verdict, Written};
use jiff::tz::TimeZone;
use proptest::collection::vec;
use proptest::prelude::*;

const HOUR: u64 = 3_600_000;
/// The time at which tests begin: 2023-11-14, 22:13:20 in UTC.
const T0: u64 = 1_700_000_000_000;

/// The words after the key field of every node, most of them unused.
const NODE_WORDS: usize = 64;

#[derive(Debug, Clone)]
struct Node {
    scope: Scope,
    words: Vec<u64>,
    /// The shape of its last writer.
    shape: u16,
    has_ban: bool,
}

impl Node {
    fn new(scope: Scope) -> Node {
        Node { scope, words: vec![0; NODE_WORDS], shape: 0, has_ban: false }
    }

    fn adopt(&mut self, rules: &Rules) {
        let shape = rules.shape(self.scope);
        let written = Written { shape: self.shape, has_ban: self.has_ban };
        if !rules.adopts(self.scope, self.shape) {
            self.words.fill(0);
        } else if self.shape != shape || !rules.is_adopted(self.scope, self.has_ban, &self.words) {
            rules.adopt(self.scope, written, &mut self.words);
        }
        self.shape = shape;
        self.has_ban = self.scope == Scope::Key && rules.has_ban();
        assert!(rules.is_adopted(self.scope, self.has_ban, &self.words));
    }
}

/// One key under changing rules.
#[derive(Debug, Clone)]
struct Record {
    rules: Rules,
    key: Node,
    biz: Node,
}

impl Record {
    fn new(limits: &[Limit]) -> Record {
        Record {
            rules: Rules::new(&biz(limits)),
            key: Node::new(Scope::Key),
            biz: Node::new(Scope::Biz),
        }
    }

    fn reload(&mut self, limits: &[Limit]) {
        self.rules = Rules::new(&biz(limits));
    }

    fn run(&mut self, now: u64, count: i32, charges: impl Fn(bool) -> bool) -> Verdict {
        self.rules.set_now(now);
        let Record { rules, key, biz } = self;
        key.adopt(rules);
        biz.adopt(rules);
        let (key, biz) = (&mut key.words[..], &mut biz.words[..]);
        let before = (key.to_vec(), biz.to_vec());
        let (key_words, biz_words) = (rules.words(Scope::Key), rules.words(Scope::Biz));
        let (key, biz) = (&mut key[..key_words], &mut biz[..biz_words]);
        let states = &mut States { key, biz, terms: &Terms::NEW };
        rules.roll(states, now);
        let mut judgement = rules.judge(states, now, count);
        let charged = charges(judgement.limited);
        let mut ban_until = None;
        if charged {
            rules.charge(states, now, count);
        } else {
            ban_until = rules.start_ban(states, now, &mut judgement);
        }
        let verdict = rules.verdict(states, now, &judgement);
        if !charged {
            states.key.copy_from_slice(&before.0[..key_words]);
            states.biz.copy_from_slice(&before.1[..biz_words]);
        }
        if let Some(until) = ban_until {
            rules.set_ban_word(states, until);
        }
        assert_eq!(self.key.words[key_words..], before.0[key_words..], "words of nobody's");
        verdict
    }

    fn update(&mut self, now: u64, count: i32) -> Verdict {
        self.run(now, count, |limited| !limited)
    }

    fn force(&mut self, now: u64, count: i32) -> Verdict {
        self.run(now, count, |_| true)
    }

    /// The verdict on an Update that is not stored.
    fn ask(&self, now: u64, count: i32) -> Verdict {
        self.clone().update(now, count)
    }

    /// Used, remaining, and whether a count of 1 is refused.
    fn look(&self, now: u64) -> (u64, u64, bool) {
        let zero = self.clone().force(now, 0).figures;
        (zero.used, zero.remaining, self.ask(now, 1).limited)
    }
}

fn biz(limits: &[Limit]) -> Biz {
    Biz::new(1, "biz", KeyType::String, limits.to_vec())
}

fn limit(policy: Policy) -> Limit {
    Limit::new(Scope::Key, policy)
}

fn interval(interval_ms: u64, max: u64, debt: u64) -> Limit {
    limit(Policy::Interval(Interval { interval_ms, max, debt }))
}

fn calendar(unit: Unit, zone: &str, max: u64, debt: u64) -> Limit {
    limit(Policy::Calendar(Calendar { turns: turns(unit, zone, 0), max, debt }))
}

fn turns(unit: Unit, zone: &str, at_minutes: u16) -> Turns {
    Turns { unit, zone: TimeZone::get(zone).unwrap(), at_minutes }
}

fn sliding(interval_ms: u64, max: u64) -> Limit {
    limit(Policy::Sliding(Sliding { interval_ms, max }))
}

fn counter(interval_ms: u64, max: u64) -> Limit {
    limit(Policy::SlidingCounter(SlidingCounter { interval_ms, max }))
}

fn token(rate: u64, per_ms: u64, burst: u64) -> Limit {
    limit(Policy::Token(Token { rate, per_ms, burst }))
}

fn total(max: u64) -> Limit {
    limit(Policy::Total(Total { max }))
}

fn count(turns: Option<Turns>) -> Limit {
    limit(Policy::Count(Count { turns }))
}

fn ban(limit: Limit, ban_ms: u64) -> Limit {
    Limit { ban_ms: Some(ban_ms), ..limit }
}

fn of_biz(limit: Limit) -> Limit {
    Limit { scope: Scope::Biz, ..limit }
}

/// A record of 5 uses at T0 whose rules have since changed.
fn changed(before: &Limit, after: &Limit) -> Record {
    let mut record = Record::new(std::slice::from_ref(before));
    assert!(!record.update(T0, 5).limited);
    record.reload(std::slice::from_ref(after));
    record
}

#[test]
fn another_max_goes_on_with_the_counts() {
    type WithMax = fn(u64) -> Limit;
    let policies: [WithMax; 5] = [
        |max| interval(HOUR, max, 0),
        |max| calendar(Unit::Day, "UTC", max, 0),
        |max| sliding(HOUR, max),
        |max| counter(HOUR, max),
        total,
    ];
    for with_max in policies {
        for with_max in [with_max, |max| of_biz(interval(HOUR, max, 0))] {
            let larger = changed(&with_max(5), &with_max(8));
            assert_eq!(larger.look(T0 + 1), (5, 3, false), "{:?}", with_max(8));
            let (used, remaining, limited) = changed(&with_max(5), &with_max(3)).look(T0 + 1);
            // A ring that has become smaller holds the newest three.
            assert!(used == 5 || (used == 3 && with_max(3) == sliding(HOUR, 3)));
            assert_eq!((remaining, limited), (0, true), "{:?}", with_max(3));
        }
    }
}

#[test]
fn another_debt_goes_on_with_the_counts() {
    let with_debt: [fn(u64) -> Limit; 2] =
        [|debt| interval(HOUR, 5, debt), |debt| calendar(Unit::Hour, "UTC", 5, debt)];
    for with_debt in with_debt {
        let mut borrowing = changed(&with_debt(0), &with_debt(4));
        assert_eq!(borrowing.look(T0 + 1), (5, 4, false));
        assert!(!borrowing.update(T0 + 1, 4).limited);
        assert_eq!(borrowing.look(T0 + HOUR).0, 4); // 9, and 5 settled
        let mut strict = borrowing.clone();
        strict.reload(&[with_debt(0)]);
        assert_eq!(strict.look(T0 + 2), (9, 0, true));
        assert_eq!(strict.look(T0 + HOUR), (0, 5, false));
    }
}

#[test]
fn another_burst_goes_on_with_the_level() {
    let larger = changed(&token(1, 1000, 5), &token(1, 1000, 8));
    assert_eq!(larger.look(T0), (5, 3, false));
    let smaller = changed(&token(1, 1000, 5), &token(1, 1000, 3));
    assert_eq!(smaller.look(T0), (3, 0, true));
    // A bucket of three must be refilled by five tokens.
    assert_eq!(smaller.ask(T0, 1).retry_ms, Some(3000));
    assert_eq!(smaller.ask(T0, 1).figures.reset_ms, Some(5000));
}

#[test]
fn another_rate_drains_the_same_level() {
    let faster = changed(&token(1, 1000, 5), &token(10, 1000, 5));
    assert_eq!(faster.ask(T0, 1).retry_ms, Some(100));
    let slower = changed(&token(1, 1000, 5), &token(1, 60_000, 5));
    assert_eq!(slower.ask(T0, 1).retry_ms, Some(60_000));
    let same = changed(&token(1, 1000, 5), &token(60, 60_000, 5));
    assert_eq!(same.ask(T0 + 400, 1).retry_ms, Some(600));
}

#[test]
fn a_ban_that_comes_leaves_the_counts() {
    for plain in [interval(HOUR, 5, 0), sliding(HOUR, 5), counter(HOUR, 5)] {
        let mut record = changed(&plain, &ban(plain.clone(), 2 * HOUR));
        assert_eq!(record.look(T0 + 1), (5, 0, true), "{plain:?}");
        let refused = record.update(T0 + 1, 1);
        assert_eq!((refused.banned, refused.retry_ms), (true, Some(2 * HOUR)));
        assert_eq!(record.look(T0 + 1), (5, 0, true));
        assert!(record.ask(T0 + 2 * HOUR, 0).banned);
        assert!(!record.ask(T0 + 2 * HOUR + 1, 0).limited);
    }
}

#[test]
fn a_ban_that_goes_ends_at_once_and_leaves_the_counts() {
    for plain in [interval(HOUR, 5, 0), sliding(HOUR, 5), counter(HOUR, 5)] {
        let mut record = Record::new(&[ban(plain.clone(), 2 * HOUR)]);
        record.update(T0, 5);
        assert!(record.update(T0 + 1, 1).banned);
        record.reload(std::slice::from_ref(&plain));
        let refused = record.ask(T0 + 2, 1);
        assert_eq!((refused.banned, refused.figures.used), (false, 5), "{plain:?}");
        assert!(!record.ask(T0 + 2, 0).limited);
        // A use in between erases the end, so a ban that returns starts without an old end.
        assert!(!record.update(T0 + 3, 0).limited);
        record.reload(&[ban(plain.clone(), 2 * HOUR)]);
        assert_eq!((record.look(T0 + 4).0, record.ask(T0 + 4, 0).banned), (5, false));
    }
}

#[test]
fn a_longer_ban_holds_those_that_run_and_a_shorter_one_ends_them() {
    let mut record = Record::new(&[ban(interval(1000, 1, 0), 10_000)]);
    record.update(T0, 1);
    assert!(record.update(T0, 1).banned);
    record.reload(&[ban(interval(1000, 1, 0), 60_000)]);
    assert_eq!(record.ask(T0 + 4000, 0).retry_ms, Some(6000));
    record.reload(&[ban(interval(1000, 1, 0), 3000)]);
    assert!(!record.ask(T0 + 4000, 0).limited);
    // Three seconds before its end, plus one of tolerance, these rules may have started it.
    assert_eq!(record.ask(T0 + 7000, 0).retry_ms, Some(3000));
}

#[test]
fn another_mode_goes_on_with_the_counts() {
    let mut record = Record::new(&[interval(HOUR, 5, 0)]);
    record.update(T0, 5);
    record.rules = Rules::new(&Biz { mode: Mode::Shadow, ..biz(&[interval(HOUR, 5, 0)]) });
    let shadow = record.update(T0 + 1, 1);
    assert_eq!((shadow.limited, shadow.shadow, shadow.figures.used), (false, true, 5));
    assert_eq!(shadow.retry_ms, None);
    record.reload(&[interval(HOUR, 5, 0)]);
    assert_eq!(record.look(T0 + 2), (5, 0, true));
}

#[test]
fn advice_in_the_place_of_refusal_goes_on_with_the_counts() {
    let advises = Limit { advice: Some(Arc::from("captcha")), ..interval(HOUR, 5, 0) };
    let mut record = changed(&interval(HOUR, 5, 0), &advises);
    let advised = record.update(T0 + 1, 1);
    assert_eq!((advised.limited, advised.advised, advised.figures.used), (false, 1, 6));
    record.reload(&[interval(HOUR, 5, 0)]);
    assert_eq!(record.look(T0 + 2), (6, 0, true));
}

#[test]
fn weights_go_by_the_counts_there_are() {
    let weights = vec![Weight { at: 0, thousandths: 1000 }, Weight { at: 10, thousandths: 0 }];
    let weighted = Limit { weights, ..interval(HOUR, 5, 0) };
    let record = changed(&interval(HOUR, 5, 0), &weighted);
    assert_eq!(record.ask(T0, 0).weight, Some(500));
}

#[test]
fn another_zone_goes_on_in_the_windows_that_are_the_same() {
    let day = |zone| calendar(Unit::Day, zone, 5, 0);
    let same = changed(&day("Asia/Shanghai"), &day("Asia/Singapore"));
    assert_eq!(same.look(T0), (5, 0, true));
    let other = changed(&day("Asia/Shanghai"), &day("UTC"));
    assert_eq!(other.look(T0), (0, 5, false));
    let mut late = calendar(Unit::Day, "Asia/Shanghai", 5, 0);
    if let Policy::Calendar(limit) = &mut late.policy {
        limit.turns.at_minutes = 60;
    }
    assert_eq!(changed(&day("Asia/Shanghai"), &late).look(T0), (0, 5, false));
}

#[test]
fn another_shape_starts_fresh_at_the_next_use() {
    let day = || turns(Unit::Day, "UTC", 0);
    let changes = [
        // The kind.
        (interval(HOUR, 5, 0), calendar(Unit::Hour, "UTC", 5, 0)),
        (interval(HOUR, 5, 0), counter(HOUR, 5)),
        (interval(HOUR, 5, 0), token(5, HOUR, 5)),
        (interval(HOUR, 5, 0), sliding(HOUR, 5)),
        (sliding(HOUR, 5), interval(HOUR, 5, 0)),
        (sliding(HOUR, 5), total(5)),
        (calendar(Unit::Day, "UTC", 5, 0), count(Some(day()))),
        (total(5), count(None)),
        // The interval.
        (interval(HOUR, 5, 0), interval(HOUR + 1, 5, 0)),
        (sliding(HOUR, 5), sliding(2 * HOUR, 5)),
        (counter(HOUR, 5), counter(HOUR / 2, 5)),
        // The unit.
        (calendar(Unit::Day, "UTC", 5, 0), calendar(Unit::Week, "UTC", 5, 0)),
        (count(Some(day())), count(Some(turns(Unit::Year, "UTC", 0)))),
        (count(Some(day())), count(None)),
        // The scope.
        (interval(HOUR, 5, 0), of_biz(interval(HOUR, 5, 0))),
        (of_biz(sliding(HOUR, 5)), sliding(HOUR, 5)),
    ];
    for (before, after) in changes {
        let mut record = changed(&before, &after);
        assert_eq!(record.look(T0 + 1).0, 0, "{before:?} to {after:?}");
        assert!(!record.update(T0 + 1, 5).limited);
        assert_eq!(record.look(T0 + 1).0, 5, "{before:?} to {after:?}");
    }
}

#[test]
fn another_position_starts_fresh() {
    let (first, second) = (interval(HOUR, 5, 0), sliding(HOUR, 5));
    let shape = |limits: &[Limit]| Rules::new(&biz(limits)).shape(Scope::Key);
    let base = shape(&[first.clone(), second.clone()]);
    assert_ne!(base, shape(&[second.clone(), first.clone()]));
    assert_ne!(base, shape(&[first.clone(), second.clone(), total(9)]));
    assert_ne!(base, shape(std::slice::from_ref(&first)));
    let mut record = Record::new(&[first.clone(), second.clone()]);
    record.update(T0, 4);
    record.reload(&[second.clone(), first.clone()]);
    assert_eq!(record.look(T0 + 1), (0, 5, false));
    // A limit of the whole biz has a node of its own: it comes and leaves the key's alone.
    let mut record = Record::new(&[first.clone(), second.clone()]);
    record.update(T0, 4);
    record.reload(&[of_biz(total(9)), first, second]);
    assert_eq!(record.look(T0 + 1), (4, 1, false));
}

#[test]
fn what_keeps_its_meaning_keeps_its_shape() {
    let shape = |limit: Limit| Rules::new(&biz(&[limit])).shape(Scope::Key);
    assert_eq!(shape(interval(HOUR, 5, 0)), shape(ban(interval(HOUR, 0, 7), 10)));
    assert_eq!(shape(sliding(HOUR, 5)), shape(ban(sliding(HOUR, 4096), 10)));
    assert_eq!(shape(token(1, 1000, 5)), shape(token(7, 60_000, 9)));
    assert_eq!(shape(counter(HOUR, 5)), shape(counter(HOUR, 9)));
    let (here, there) = (calendar(Unit::Day, "UTC", 1, 0), calendar(Unit::Day, "Asia/Tokyo", 2, 3));
    assert_eq!(shape(here), shape(there));
}

/// Six uses, one a second, under a max of six.
fn six_uses() -> Record {
    let mut record = Record::new(&[sliding(HOUR, 6)]);
    for second in 0..6 {
        assert!(!record.update(T0 + second * 1000, 1).limited);
    }
    record
}

#[test]
fn a_smaller_ring_keeps_the_newest() {
    let mut record = six_uses();
    record.reload(&[sliding(HOUR, 4)]);
    let refused = record.ask(T0 + 6000, 1);
    assert_eq!((refused.limited, refused.figures.used), (true, 4));
    // The oldest of the four was the third.
    assert_eq!(refused.retry_ms, Some(HOUR + 2000 - 6000));
    assert_eq!(refused.figures.reset_ms, Some(HOUR + 5000 - 6000));
    assert!(!record.update(T0 + HOUR + 2000, 1).limited);
    assert_eq!(record.ask(T0 + HOUR + 2000, 1).retry_ms, Some(1000));
    // None of the dropped uses is left.
    record.reload(&[sliding(HOUR, 6)]);
    assert_eq!(record.look(T0 + HOUR + 2000), (4, 2, false));
}

#[test]
fn a_larger_ring_keeps_all_in_their_order() {
    let mut record = six_uses();
    // Once round the ring, so that it begins in the middle.
    assert!(!record.update(T0 + HOUR + 1000, 2).limited);
    record.reload(&[sliding(HOUR, 9)]);
    assert_eq!(record.look(T0 + HOUR + 1000), (6, 3, false));
    assert!(!record.update(T0 + HOUR + 1500, 3).limited);
    assert_eq!(record.ask(T0 + HOUR + 1500, 1).retry_ms, Some(500));
    assert_eq!(record.ask(T0 + HOUR + 1500, 5).retry_ms, Some(HOUR - 500));
    // The last uses appended are the first given back.
    assert_eq!(record.update(T0 + HOUR + 1500, -4).figures.used, 5);
    assert_eq!(record.ask(T0 + HOUR + 1500, 9).retry_ms, Some(HOUR - 500));
    assert_eq!(record.ask(T0 + HOUR + 1500, 8).retry_ms, Some(3500));
}

#[test]
fn a_smaller_ring_of_one_that_goes_round_keeps_the_newest() {
    let mut record = six_uses();
    assert!(!record.update(T0 + HOUR + 1000, 2).limited);
    record.reload(&[sliding(HOUR, 3)]);
    assert_eq!(record.look(T0 + HOUR + 1000), (3, 0, true));
    assert_eq!(record.ask(T0 + HOUR + 1000, 1).retry_ms, Some(4000));
    assert_eq!(record.ask(T0 + HOUR + 1000, 2).retry_ms, Some(HOUR));
}

#[test]
fn the_ring_is_as_long_as_its_largest_limit_or_override() {
    let mut record = six_uses();
    let two = [sliding(HOUR, 3), sliding(2 * HOUR, 6)];
    // Another limit is another shape, whatever the ring.
    record.reload(&two);
    assert_eq!(record.look(T0 + 6000).0, 0);
    record.force(T0 + 6000, 6);
    assert_eq!(record.look(T0 + 6000), (6, 0, true));
    record.reload(&[sliding(HOUR, 8), sliding(2 * HOUR, 6)]);
    assert_eq!(record.ask(T0 + 6000, 1).limit, 2);
    assert_eq!(record.look(T0 + 6000).0, 6);

    let mut record = six_uses();
    let rule = ListRule::Override { limit: 0, max: 6 };
    let listed = vec![Listed { pattern: Pattern::Exact("app7".to_owned()), rule }];
    record.rules = Rules::new(&Biz { listed, ..biz(&[sliding(HOUR, 2)]) });
    assert_eq!(record.look(T0 + 6000), (6, 0, true));
}

#[test]
fn a_ban_comes_and_goes_before_a_ring() {
    let mut record = six_uses();
    record.reload(&[ban(sliding(HOUR, 6), 10_000)]);
    let refused = record.update(T0 + 6000, 1);
    assert_eq!((refused.banned, refused.figures.used), (true, 6));
    assert_eq!(refused.retry_ms, Some(HOUR - 6000));
    // At once the ban goes and the ring becomes smaller.
    record.reload(&[sliding(HOUR, 4)]);
    let refused = record.ask(T0 + 7000, 1);
    assert_eq!((refused.banned, refused.retry_ms), (false, Some(HOUR + 2000 - 7000)));
    assert!(!record.update(T0 + 7000, 0).limited);
    // At once the ban returns and the ring becomes larger.
    record.reload(&[ban(sliding(HOUR, 7), 10_000)]);
    let asked = record.ask(T0 + 8000, 0);
    assert_eq!((asked.limited, asked.figures.used, asked.figures.remaining), (false, 4, 3));
    assert_eq!(record.ask(T0 + 8000, 4).retry_ms, Some(HOUR + 2000 - 8000));
}

#[test]
fn a_ban_comes_and_goes_behind_states_of_other_policies() {
    let plain = [interval(HOUR, 9, 0), sliding(HOUR, 6), total(20), token(1, HOUR, 9)];
    let banning = [interval(HOUR, 9, 0), ban(sliding(HOUR, 6), 5000), total(20), token(1, HOUR, 9)];
    let mut record = Record::new(&plain);
    record.update(T0, 5);
    for limits in [&banning, &plain, &banning, &plain] {
        record.reload(limits);
        assert_eq!(record.update(T0, 0).figures.used, 5);
        for each in 0..4 {
            let mut one = record.clone();
            let mut limits = limits.clone();
            for (_, limit) in limits.iter_mut().enumerate().filter(|(at, _)| *at != each) {
                limit.policy = limit.policy.with_max(50).unwrap();
            }
            // The limit that keeps its max is the tightest.
            one.reload(&limits);
            assert_eq!(one.ask(T0, 0).figures.used, 5, "limit {}", each + 1);
        }
    }
}

#[derive(Debug, Clone)]
enum Change {
    Use { tick: u64, count: i32 },
    Reload { max: u64, bans: bool },
}

fn any_change() -> impl Strategy<Value = Change> {
    let tick = prop_oneof![5 => 0..40_u64, 1 => 0..1500_u64];
    prop_oneof![
        4 => (tick, -3..6_i32).prop_map(|(tick, count)| Change::Use { tick, count }),
        1 => (0_u64..12, any::<bool>()).prop_map(|(max, bans)| Change::Reload { max, bans }),
    ]
}

proptest! {
    /// A ring holds the newest uses that fit, through any changes of its length and of the ban
    /// before it. The total beside it loses nothing.
    #[test]
    fn a_ring_is_its_newest_uses_through_all_changes(changes in vec(any_change(), 1..60)) {
        let limits = |max, bans| {
            let last = sliding(1000, max);
            [total(1 << 40), if bans { ban(last, 1) } else { last }]
        };
        let mut record = Record::new(&limits(5, false));
        let (mut ring, mut most, mut all, mut now) = (Vec::new(), 5, 0_u64, T0);
        for change in changes {
            match change {
                Change::Use { tick, count } => {
                    now += tick;
                    ring.drain(..ring.len().saturating_sub(most));
                    ring.retain(|time| now - time < 1000);
                    ring.truncate(ring.len().saturating_sub(count.min(0).unsigned_abs() as usize));
                    ring.extend(std::iter::repeat_n(now, count.max(0) as usize));
                    ring.drain(..ring.len().saturating_sub(most));
                    all = all.saturating_add_signed(count.into());
                    record.force(now, count);
                    let before = record.clone();
                    prop_assert_eq!(before.look(now).0, ring.len() as u64);
                    prop_assert_eq!(total_of(&before), all);
                }
                Change::Reload { max, bans } => {
                    most = max as usize;
                    record.reload(&limits(max, bans));
                }
            }
        }
    }
}

/// The total's use in a record where it precedes a sliding limit.
fn total_of(record: &Record) -> u64 {
    record.key.words[0]
}
