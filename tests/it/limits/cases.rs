//! The worked cases of the policies, of bans and of the clock, by name.
//!
//! [`Record`] replaces service and store: it keeps the words of one key and writes back only what a
//! command may change.

use super::record::{HOUR, T0, brief};
use frs_conf::{Biz, Interval, KeyType, Limit, Policy, Scope, Total};
use frs_limit::Worth;
use frs_limit::{Details, Judgement, LimitFigures, MAX_USED, Rules, States, Terms, Verdict};

fn interval(interval_ms: u64, max: u64, debt: u64) -> Limit {
    let policy = Policy::Interval(Interval { interval_ms, max, debt });
    Limit::new(Scope::Key, policy)
}

fn total(max: u64) -> Limit {
    Limit::new(Scope::Key, Policy::Total(Total { max }))
}

trait With {
    fn of_biz(self) -> Limit;
    fn ban(self, ban_ms: u64) -> Limit;
}

impl With for Limit {
    fn of_biz(self) -> Limit {
        Limit { scope: Scope::Biz, ..self }
    }

    fn ban(self, ban_ms: u64) -> Limit {
        Limit { ban_ms: Some(ban_ms), ..self }
    }
}

fn rules(limits: &[Limit]) -> Rules {
    Rules::new(&Biz::new(1, "biz", KeyType::String, limits.to_vec()))
}

#[derive(Debug, Clone)]
struct Record {
    rules: Rules,
    key: Vec<u64>,
    biz: Vec<u64>,
}

impl Record {
    fn new(limits: &[Limit]) -> Record {
        let rules = rules(limits);
        let key = vec![0; rules.words(Scope::Key)];
        let biz = vec![0; rules.words(Scope::Biz)];
        Record { rules, key, biz }
    }

    fn on_states<T>(&mut self, work: impl FnOnce(&Rules, &mut States<'_>) -> T) -> T {
        let Record { rules, key, biz } = self;
        work(rules, &mut States { key, biz, terms: &Terms::NEW })
    }

    fn ban_until(&self) -> u64 {
        self.clone().on_states(|rules, states| rules.ban_until(states))
    }

    fn set_ban_until(&mut self, until: u64) {
        self.on_states(|rules, states| rules.set_ban_word(states, until));
    }

    fn judge(&mut self, now: u64, count: i32) -> Judgement {
        self.on_states(|rules, states| {
            rules.roll(states, now);
            rules.judge(states, now, count)
        })
    }

    fn query(&self, now: u64, count: i32) -> Verdict {
        let mut copy = self.clone();
        let judgement = copy.judge(now, count);
        copy.on_states(|rules, states| rules.verdict(states, now, &judgement))
    }

    fn update(&mut self, now: u64, count: i32) -> Verdict {
        let mut copy = self.clone();
        let mut judgement = copy.judge(now, count);
        let banned = copy.on_states(|rules, states| {
            if !judgement.limited {
                rules.charge(states, now, count);
                return None;
            }
            rules.start_ban(states, now, &mut judgement)
        });
        let verdict = copy.on_states(|rules, states| rules.verdict(states, now, &judgement));
        if !judgement.limited {
            *self = copy;
        } else if let Some(until) = banned {
            self.set_ban_until(until);
        }
        verdict
    }

    fn force(&mut self, now: u64, count: i32) -> Verdict {
        let judgement = self.judge(now, count);
        self.on_states(|rules, states| {
            rules.charge(states, now, count);
            rules.verdict(states, now, &judgement)
        })
    }

    fn details(&mut self, now: u64, count: i32) -> Vec<LimitFigures> {
        let mut details = Details::default();
        self.on_states(|rules, states| {
            rules.roll(states, now);
            rules.details(states, now, count, &mut details);
        });
        details.limits
    }

    fn rank(&self, scope: Scope, now: u64) -> Worth {
        let mut words = if scope == Scope::Key { self.key.clone() } else { self.biz.clone() };
        self.rules.worth(scope, &mut words, now)
    }

    fn is_untouched(&mut self) -> bool {
        self.on_states(|rules, states| {
            rules.is_fresh(states, Scope::Key) && rules.is_fresh(states, Scope::Biz)
        })
    }
}

#[test]
fn interval_opens_at_the_first_use_and_turns_an_interval_later() {
    let mut record = Record::new(&[interval(60_000, 3, 0)]);
    assert_eq!(brief(&record.query(T0, 1)), (0, 3, Some(0), None));
    assert_eq!(brief(&record.update(T0 + 7, 1)), (1, 2, Some(60_000), None));
    assert_eq!(brief(&record.update(T0 + 50_000, 2)), (3, 0, Some(10_007), None));
    let refused = record.update(T0 + 60_006, 1);
    assert!(refused.limited);
    assert_eq!(brief(&refused), (3, 0, Some(1), Some(1)));
    let passed = record.update(T0 + 60_007, 1);
    assert!(!passed.limited);
    assert_eq!(brief(&passed), (1, 2, Some(60_000), None));
    assert_eq!(passed.window_ms, Some(60_000));
    assert_eq!((passed.limit, passed.figures.max), (1, 3));
}

#[test]
fn interval_is_not_lengthened_by_hammering() {
    let mut record = Record::new(&[interval(1000, 1, 0)]);
    assert!(!record.update(T0, 1).limited);
    for ms in 1..1000 {
        assert_eq!(record.update(T0 + ms, 1).retry_ms, Some(1000 - ms));
    }
    assert!(!record.update(T0 + 1000, 1).limited);
}

#[test]
fn interval_with_debt_settles_max_uses_a_turn() {
    let mut record = Record::new(&[interval(HOUR, 1000, 300)]);
    let hour_1 = record.update(T0, 1200);
    assert_eq!((hour_1.limited, brief(&hour_1)), (false, (1200, 100, Some(HOUR), None)));

    assert_eq!(brief(&record.query(T0 + HOUR, 0)), (200, 1100, Some(HOUR), None));
    let hour_2 = record.update(T0 + HOUR + 5, 700);
    assert_eq!((hour_2.limited, brief(&hour_2)), (false, (900, 400, Some(HOUR - 5), None)));

    let hour_3 = record.query(T0 + 2 * HOUR, 0);
    assert_eq!(brief(&hour_3), (0, 1300, Some(0), None));
}

#[test]
fn interval_retry_with_debt_counts_the_turns_until_the_count_fits() {
    let mut record = Record::new(&[interval(1000, 10, 5)]);
    record.force(T0, 38);
    let retry = |count| record.query(T0 + 400, count).retry_ms;
    assert_eq!(retry(0), Some(600 + 2000)); // 38 - 3*10 = 8
    assert_eq!(retry(7), Some(600 + 2000));
    assert_eq!(retry(8), Some(600 + 3000));
    assert_eq!(retry(15), Some(600 + 3000));
    assert_eq!(retry(16), None); // above max and debt
}

#[test]
fn interval_without_debt_forgets_forced_use_at_the_turn() {
    let mut record = Record::new(&[interval(1000, 10, 0)]);
    record.force(T0, 5000);
    assert_eq!(brief(&record.query(T0, 10)), (5000, 0, Some(1000), Some(1000)));
    assert_eq!(brief(&record.query(T0 + 1000, 10)), (0, 10, Some(0), None));
}

#[test]
fn a_count_over_max_and_debt_never_passes() {
    let fresh = Record::new(&[interval(1000, 10, 0)]).query(T0, 11);
    assert_eq!((fresh.limited, brief(&fresh)), (true, (0, 10, Some(0), None)));
    let indebted = Record::new(&[interval(1000, 10, 5)]);
    assert!(!indebted.query(T0, 15).limited);
    assert!(indebted.query(T0, 16).limited);
}

#[test]
fn max_0_admits_only_a_check() {
    let mut record = Record::new(&[interval(1000, 0, 0)]);
    assert!(!record.update(T0, 0).limited);
    let refused = record.update(T0, 1);
    assert_eq!((refused.limited, refused.retry_ms), (true, None));
    assert!(record.is_untouched());
}

#[test]
fn count_0_is_a_check_that_fails_above_the_maximum() {
    let mut record = Record::new(&[interval(1000, 2, 0)]);
    assert!(!record.update(T0, 0).limited);
    assert!(record.is_untouched());
    record.force(T0, 2);
    assert!(!record.update(T0, 0).limited);
    record.force(T0, 1);
    assert_eq!((record.update(T0, 0).limited, record.update(T0, 0).retry_ms), (true, Some(1000)));
}

#[test]
fn giving_back_stops_at_nothing_used_and_makes_the_window_fresh() {
    let mut record = Record::new(&[interval(1000, 5, 0)]);
    record.update(T0, 3);
    assert_eq!(brief(&record.update(T0 + 10, -2)), (1, 4, Some(990), None));
    assert_eq!(brief(&record.update(T0 + 20, -2)), (0, 5, Some(0), None));
    assert!(record.is_untouched());
    assert_eq!(brief(&record.update(T0 + 500, 1)), (1, 4, Some(1000), None));
    assert_eq!(brief(&record.update(T0 + 500, i32::MIN)), (0, 5, Some(0), None));
    assert_eq!(brief(&record.update(T0 + 2000, -1)), (0, 5, Some(0), None));
    assert!(record.is_untouched());
}

#[test]
fn used_saturates() {
    let top = MAX_USED;
    let mut record = Record::new(&[interval(1000, 5, 0), total(top)]);
    record.key.copy_from_slice(&[T0, top - 3, top - 3]);
    let forced = record.force(T0, i32::MAX);
    assert_eq!((forced.limited, forced.figures.used), (true, top));
    assert_eq!(record.key, [T0, top, top]);
    assert_eq!(record.force(T0, -1).figures.used, top - 1);
}

#[test]
fn force_charges_beyond_the_limit_and_says_what_would_have_refused() {
    let mut record = Record::new(&[interval(1000, 2, 0)]);
    assert!(!record.force(T0, 2).limited);
    let forced = record.force(T0, 2);
    assert_eq!(
        (forced.limited, forced.limit, brief(&forced)),
        (true, 1, (4, 0, Some(1000), Some(1000)))
    );
    assert!(record.query(T0, 1).limited);
    assert_eq!(record.query(T0, 1).figures.used, 4);
}

#[test]
fn total_never_resets_and_has_no_retry() {
    let mut record = Record::new(&[total(3)]);
    assert_eq!(brief(&record.query(T0, 1)), (0, 3, Some(0), None));
    assert_eq!(brief(&record.update(T0, 3)), (3, 0, None, None));
    let refused = record.update(T0 + 1000 * HOUR, 1);
    assert_eq!((refused.limited, brief(&refused)), (true, (3, 0, None, None)));
    assert_eq!(refused.window_ms, None);
    assert!(!record.update(T0, 0).limited);
    assert_eq!(brief(&record.update(T0, -3)), (0, 3, Some(0), None));
}

// Shows: refused-changes-nothing.
#[test]
fn an_update_charges_all_limits_or_none() {
    let mut record = Record::new(&[total(3).of_biz(), interval(1000, 2, 0)]);
    assert!(!record.update(T0, 2).limited);
    let refused = record.update(T0, 1);
    assert_eq!((refused.limited, refused.limit), (true, 2));
    assert_eq!((record.biz[0], record.key[1]), (2, 2));
    // Another window for the key, the same total for the biz.
    let both = record.update(T0 + 1000, 2);
    assert_eq!((both.limited, both.limit, both.retry_ms), (true, 1, None));
    assert_eq!(record.biz[0], 2);
}

#[test]
fn the_first_refusing_limit_decides_and_the_largest_retry_counts() {
    let mut record = Record::new(&[interval(100, 2, 0), interval(1000, 3, 0), interval(500, 2, 0)]);
    record.update(T0, 2);
    let refused = record.query(T0 + 10, 2);
    assert_eq!((refused.limit, refused.figures.max), (1, 2));
    assert_eq!((refused.figures.reset_ms, refused.retry_ms), (Some(90), Some(990)));
    // A limit that never passes leaves no retry.
    assert_eq!(record.query(T0 + 10, 3).retry_ms, None);
}

#[test]
fn the_smallest_remaining_decides_an_admitted_item_and_of_ties_the_first() {
    let mut record = Record::new(&[interval(100, 9, 0), total(5), interval(1000, 5, 0)]);
    assert_eq!(record.update(T0, 1).limit, 2);
    assert_eq!(record.update(T0 + 100, 1).limit, 2);
    assert_eq!(record.update(T0 + 1000, -1).limit, 2); // 1 of 5, and 0 of 5
    let mut tie = Record::new(&[total(7), total(6), total(6)]);
    assert_eq!(tie.update(T0, 6).limit, 2);
}

#[test]
fn details_are_of_the_judgement_and_their_figures_after_the_command() {
    let mut record = Record::new(&[interval(1000, 2, 0), total(9)]);
    record.update(T0, 2);
    let mut details = record.details(T0 + 1, 1);
    record.force(T0 + 1, 1);
    record.on_states(|rules, states| rules.refigure(states, T0 + 1, &mut details));
    let shown: Vec<_> = details
        .iter()
        .map(|d| (d.index, d.policy, d.limited, d.retry_ms, d.figures.used, d.figures.remaining))
        .collect();
    let expected = [(1, "interval", true, Some(999), 3, 0), (2, "total", false, None, 3, 6)];
    assert_eq!(shown, expected);
    assert!(record.details(T0 + 1, -1).iter().all(|detail| !detail.limited));
}

#[test]
fn a_refused_update_starts_the_longest_ban_of_the_refusing_limits() {
    let limits = [
        interval(1000, 1, 0).ban(5000),
        interval(1000, 1, 0).ban(7000),
        interval(1000, 2, 0).ban(9000),
        interval(1000, 1, 0),
    ];
    let mut record = Record::new(&limits);
    assert!(!record.update(T0, 1).limited);
    let refused = record.update(T0 + 100, 1);
    assert_eq!((refused.banned, refused.limit, refused.retry_ms), (true, 1, Some(7000)));
    assert_eq!(record.ban_until(), T0 + 7100);
    assert_eq!(record.update(T0 + 200, 5).retry_ms, None); // never fits
    assert_eq!(record.ban_until(), T0 + 7100); // a running ban is not renewed
    let banned = record.update(T0 + 7099, 1);
    assert_eq!((banned.limited, banned.banned, banned.retry_ms), (true, true, Some(1)));
    assert!(!record.update(T0 + 7100, 1).limited);
}

#[test]
fn under_a_ban_alone_the_first_limit_with_one_decides() {
    let limits = [interval(1000, 9, 0), interval(1000, 1, 0).ban(5000), total(9).ban(50)];
    let mut record = Record::new(&limits);
    record.update(T0, 1);
    assert_eq!(record.update(T0, 1).limit, 2);
    let banned = record.query(T0 + 2000, 1);
    assert_eq!((banned.limited, banned.banned, banned.limit), (true, true, 2));
    assert_eq!(brief(&banned), (0, 1, Some(0), Some(3000)));
    assert_eq!(record.query(T0 + 2000, 10).limit, 1);
}

#[test]
fn query_and_force_start_no_ban_and_giving_back_passes_one() {
    let mut record = Record::new(&[interval(1000, 1, 0).ban(5000)]);
    record.update(T0, 1);
    assert_eq!((record.query(T0, 1).limited, record.query(T0, 1).banned), (true, false));
    assert_eq!((record.force(T0, 1).limited, record.ban_until()), (true, 0));
    assert!(record.update(T0, 1).banned);
    let back = record.update(T0, -2);
    assert_eq!((back.limited, back.banned, back.figures.used), (false, false, 0));
    assert!(!record.is_untouched()); // the ban
    let forced = record.force(T0, 1);
    assert_eq!((forced.limited, forced.banned, forced.figures.used), (true, true, 1));
    let zero = record.query(T0 + 2000, 0);
    assert_eq!((zero.limited, zero.banned), (true, true));
}

#[test]
fn a_limit_of_the_biz_bans_the_key() {
    let mut record = Record::new(&[total(1).of_biz().ban(5000)]);
    assert_eq!((record.rules.words(Scope::Key), record.rules.has_ban()), (1, true));
    assert!(record.rules.needs(Scope::Key));
    record.update(T0, 1);
    assert!(record.update(T0, 1).banned);
    let mut other = record.clone();
    other.set_ban_until(0);
    assert!(!other.update(T0, 0).limited);
    assert!(record.update(T0, 0).banned);
}

#[test]
fn a_ban_that_ends_later_than_the_longest_from_now_is_none() {
    let mut record = Record::new(&[interval(1000, 1, 0).ban(5000)]);
    record.update(T0, 1);
    record.update(T0, 1);
    assert!(record.query(T0 - 1000, 0).limited);
    assert!(!record.query(T0 - 1001, 0).limited);
    // The ban in the map was shortened.
    let mut shorter = Record::new(&[interval(1000, 1, 0).ban(1000)]);
    shorter.set_ban_until(record.ban_until());
    assert!(!shorter.query(T0, 1).limited);
}

#[test]
fn a_ban_holds_for_a_turn_that_read_its_clock_a_little_earlier() {
    let mut record = Record::new(&[interval(1000, 1, 0).ban(5000)]);
    record.update(T0, 1);
    record.update(T0, 1);
    let earlier = record.update(T0 - 50, 0);
    assert_eq!((earlier.banned, earlier.retry_ms), (true, Some(5000)));
    assert!(record.query(T0 + 4999, 0).banned);
}

#[test]
fn a_clock_set_back_by_less_than_the_interval_stands_still_at_the_start() {
    let mut record = Record::new(&[interval(1000, 2, 0)]);
    record.update(T0, 1);
    let second = record.update(T0 - 999, 1);
    assert_eq!(brief(&second), (2, 0, Some(1000), None));
    assert_eq!(record.key, [T0, 2]);
    assert_eq!(brief(&record.update(T0 - 999, 1)), (2, 0, Some(1000), Some(1000)));
    assert!(record.query(T0 + 999, 1).limited);
    assert!(!record.query(T0 + 1000, 1).limited);
}

#[test]
fn a_clock_set_back_by_the_interval_or_more_makes_the_state_fresh() {
    let mut record = Record::new(&[interval(1000, 1, 0), interval(1000, 1, 3)]);
    record.update(T0, 1);
    assert_eq!(record.query(T0 - 1000, 0).figures.used, 0);
    assert!(!record.update(T0 - 1000, 1).limited);
    assert_eq!(record.key, [T0 - 1000, 1, T0 - 1000, 1]);
}

#[test]
fn total_knows_no_clock() {
    let mut record = Record::new(&[total(1)]);
    record.update(T0, 1);
    assert!(record.query(0, 1).limited);
    assert!(record.query(u64::MAX, 1).limited);
}

#[test]
fn nothing_overflows_at_the_bounds() {
    let limits = [
        interval(u64::MAX, MAX_USED, MAX_USED).ban(u64::MAX),
        interval(1, 1, MAX_USED),
        interval(u64::MAX, 1, 1),
        total(MAX_USED).of_biz(),
    ];
    for words in [[0; 6], [u64::MAX; 6], [1 << 63, MAX_USED, T0, u64::MAX, T0, 9]] {
        for now in [0, 1, T0, 1 << 63, u64::MAX] {
            for count in [i32::MIN, -1, 0, 1, i32::MAX] {
                let mut record = Record::new(&limits);
                record.key[..6].copy_from_slice(&words);
                record.biz[0] = words[0];
                record.set_ban_until(words[5]);
                record.query(now, count);
                record.details(now, count);
                record.update(now, count);
                record.force(now, count);
                record.rank(Scope::Key, now);
            }
        }
    }
}

#[test]
fn rank_orders_nodes_by_what_is_lost_with_them() {
    let limits = [interval(1000, 2, 0).ban(5000), interval(2000, 9, 0), total(100).of_biz()];
    let mut record = Record::new(&limits);
    assert_eq!(record.rank(Scope::Key, T0), Worth::Expired);
    record.update(T0, 1);
    assert_eq!(record.rank(Scope::Key, T0), Worth::Idle);
    record.update(T0, 1);
    assert_eq!(record.rank(Scope::Key, T0), Worth::Limiting);
    assert_eq!(record.rank(Scope::Key, T0 + 1000), Worth::Idle);
    assert_eq!(record.rank(Scope::Key, T0 + 2000), Worth::Expired);
    record.update(T0, 1);
    assert_eq!(record.rank(Scope::Key, T0 + 4999), Worth::Banned);
    assert_eq!(record.rank(Scope::Key, T0 + 5000), Worth::Expired);
    assert_eq!(record.rank(Scope::Biz, T0 + 5000), Worth::Kept);
    let mut counted = Record::new(&[total(5)]);
    counted.update(T0, 1);
    assert_eq!(counted.rank(Scope::Key, T0), Worth::Kept);
    counted.update(T0, -1);
    assert_eq!(counted.rank(Scope::Key, T0), Worth::Expired);
    assert!(Worth::Expired < Worth::Idle && Worth::Idle < Worth::Limiting);
    assert!(Worth::Limiting < Worth::Banned && Worth::Banned < Worth::Kept);
}

#[test]
fn a_node_last_used_a_longest_life_ago_is_expired() {
    let of = |limits: &[Limit], scope| rules(limits).longest_life_ms(scope);
    let plain = [interval(5000, 1, 0), interval(60_000, 9, 0), total(3).of_biz()];
    assert_eq!(of(&plain, Scope::Key), Some(120_000));
    assert_eq!(of(&plain, Scope::Biz), None);
    assert_eq!(of(&[total(3)], Scope::Key), None);
    let banning = of(&[interval(1000, 1, 0).ban(HOUR)], Scope::Key).unwrap();
    assert!((HOUR..HOUR + 2000).contains(&banning));

    // The worst case: the clock was set back at the last use.
    let mut record = Record::new(&plain);
    record.update(T0, 1);
    let last_use = T0 - 59_999;
    record.update(last_use, 1);
    assert_eq!(record.rank(Scope::Key, T0 + 59_999), Worth::Idle);
    assert_eq!(record.rank(Scope::Key, last_use + 120_000), Worth::Expired);
}

#[test]
fn the_shape_is_of_kinds_intervals_and_order_alone() {
    let shape = |limits: &[Limit]| rules(limits).shape(Scope::Key);
    let base = shape(&[interval(1000, 5, 0), total(3)]);
    assert_eq!(base, shape(&[interval(1000, 7, 2).ban(10), total(4)]));
    assert_eq!(base, shape(&[total(1).of_biz(), interval(1000, 5, 0), total(3)]));
    let others = [
        shape(&[interval(1001, 5, 0), total(3)]),
        shape(&[total(3), interval(1000, 5, 0)]),
        shape(&[interval(1000, 5, 0)]),
        shape(&[interval(1000, 5, 0), total(3), total(3)]),
        shape(&[interval(1000, 5, 0), interval(1000, 5, 0)]),
        rules(&[interval(1000, 5, 0).of_biz(), total(3).of_biz()]).shape(Scope::Biz),
    ];
    assert!(others.iter().all(|&other| other != base && other != 0));
}

#[test]
fn shapes_are_never_0_and_the_file_format_fixes_them() {
    let shape = |interval_ms| rules(&[interval(interval_ms, 1, 0)]).shape(Scope::Key);
    assert!((1..200_000).all(|interval_ms| shape(interval_ms) != 0));
    assert_eq!(shape(60_000), 40_397);
}
