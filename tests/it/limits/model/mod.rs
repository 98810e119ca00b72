//! Limits against a simple model, written from the rules in words and not from the code. It uses
//! signed 128-bit numbers, lists of times, waits found by search, and no shared helper.
//!
//! A normal run takes some thousands of steps. At night, millions: `PROPTEST_CASES=100000 cargo
//! test --release --test it limits::model`, or `just model 100000`.

pub(super) mod plain;
pub(super) mod policies;
mod real;
mod steps;
pub(super) mod windows;

use frs_conf::{Biz, KeyType, Limit, Policy, Scope, Sliding};
use frs_limit::Worth;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

use plain::Model;
use real::Real;
use steps::{
    Case, Command, KEYS, LAST_MS, Step, Tick, advance, any_case, any_change, any_step,
    any_step_at_a_change,
};

/// Seeds of failures are saved beside this file.
const SAVED: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/it/limits/model/regressions.txt");

/// The number of cases, unless the environment sets another.
fn cases(cases: u32) -> ProptestConfig {
    let saved = Box::new(FileFailurePersistence::Direct(SAVED));
    let config = ProptestConfig {
        max_shrink_iters: 20_000,
        failure_persistence: Some(saved),
        ..ProptestConfig::default()
    };
    match std::env::var_os("PROPTEST_CASES") {
        None => ProptestConfig { cases, ..config },
        Some(_) => config,
    }
}

/// Times for cases where the clock is not set back.
fn forward(now: i64, next: i64) -> i64 {
    (now + (next - now).abs()).min(LAST_MS)
}

proptest! {
    #![proptest_config(cases(300))]

    // Shows: exactly-m, bans-are-counted, history-of-limits.
    #[test]
    fn every_answer_is_the_models(case in any_case(), steps in vec(any_step(), 1..100)) {
        assert_agreement(&case, &steps)?;
    }

    /// Hours in which the offset changes, days without a midnight, debts over both.
    #[test]
    fn calendars_turn_as_the_models_do_where_offsets_change(
        case in any_change(), steps in vec(any_step_at_a_change(), 1..40),
    ) {
        assert_agreement(&case, &steps)?;
    }

    /// Retry is exact: a millisecond earlier the item would still be refused.
    #[test]
    fn an_item_passes_exactly_after_its_retry(
        case in any_case(), steps in vec(any_step(), 1..60),
    ) {
        let model = Model::new(case.biz.clone());
        let mut real = Real::new(&case.biz);
        let (mut now, mut last) = (case.begin, None);
        for step in &steps {
            let step = case.fit(step);
            now = forward(now, advance(&model, &step, now, last));
            let (verdict, ..) = real.run(&step, now as u64);
            last = verdict.retry_ms.map(i128::from);
            let refused = verdict.limited && step.command != Command::Force;
            match verdict.retry_ms {
                // No ban ends later: its record has 44 bits for that.
                Some(wait) if refused && now.saturating_add_unsigned(wait) < (1 << 44) - 1 => {
                    prop_assert!(wait > 0);
                    let passes = |wait| real.would_pass(&step, now as u64, wait);
                    prop_assert!(passes(wait), "{:?} at {} in {}", step, now, wait);
                    prop_assert!(!passes(wait - 1), "{:?} at {} in {}", step, now, wait);
                }
                None if refused => {
                    prop_assert!(!real.would_pass(&step, now as u64, 1 << 40));
                }
                _ => {}
            }
        }
    }

    /// A node that a quick look at its last use calls expired is also expired by a full look. If
    /// the clock may be set back, this holds only for charged uses and limits without bans: a
    /// refusal far back leaves states that count again later, though they were fresh at the time of
    /// the last use.
    #[test]
    fn no_node_outlives_its_longest_life(
        case in any_case(), steps in vec(any_step(), 1..60), back in any::<bool>(),
    ) {
        let model = Model::new(case.biz.clone());
        let mut real = Real::new(&case.biz);
        let back = back && !real.has_ban();
        let (mut now, mut last_use) = (case.begin, case.begin);
        for step in &steps {
            let step = Step { key: 0, ..case.fit(step) };
            let next = advance(&model, &step, now, None);
            now = if back { next } else { forward(now, next) };
            assert_long_lives(&real, last_use, now)?;
            let (verdict, ..) = real.run(&step, now as u64);
            let charged = step.command == Command::Force || !(verdict.limited || verdict.shadow);
            if step.command != Command::Query && (charged || !back) {
                last_use = now;
            }
        }
        assert_long_lives(&real, last_use, LAST_MS)?;
    }

    /// However uses are spread, exactly max of a sliding limit pass in any interval.
    // Shows: exactly-m.
    #[test]
    fn exactly_max_pass_in_any_interval(
        (max, interval_ms) in (0_u64..50, 1_u64..300), ticks in vec(0_i64..20, 100..200),
    ) {
        let policy = Policy::Sliding(Sliding { interval_ms, max });
        let biz = Biz::new(1, "biz", KeyType::String, vec![Limit::new(Scope::Key, policy)]);
        let (mut real, mut now) = (Real::new(&biz), 1_000_000_000);
        let step = Step { key: 0, command: Command::Update, count: 1, tick: Tick::By(0) };
        let mut passed: Vec<i64> = Vec::new();
        for tick in ticks {
            now += tick;
            let before = passed.iter().filter(|&&time| now - time < interval_ms as i64).count();
            let limited = real.run(&step, now as u64).0.limited;
            prop_assert_eq!(limited, before as u64 >= max);
            if !limited {
                passed.push(now);
            }
        }
    }
}

/// Checks that a node has expired as soon as its longest life is over, and at `now` if that is
/// later.
fn assert_long_lives(real: &Real, last_use: i64, now: i64) -> Result<(), TestCaseError> {
    for scope in [Scope::Key, Scope::Biz] {
        let Some(life_ms) = real.longest_life_ms(scope) else { continue };
        let over = (last_use as u64).saturating_add(life_ms).saturating_add(1);
        if over > LAST_MS as u64 {
            continue;
        }
        for then in [over, (now as u64).max(over)] {
            prop_assert_eq!(
                real.rank(scope, 0, then),
                Worth::Expired,
                "{:?} in {}",
                scope,
                life_ms
            );
        }
    }
    Ok(())
}

/// Every figure of every answer, and the worth of the nodes, agrees with the model.
fn assert_agreement(case: &Case, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut model = Model::new(case.biz.clone());
    let mut real = Real::new(&case.biz);
    let (mut now, mut retry) = (case.begin, None);
    for step in steps {
        let step = case.fit(step);
        now = advance(&model, &step, now, retry);
        let (answer, details) = model.run(&step, now.into());
        let outcome = real.run(&step, now as u64);
        prop_assert_eq!(&real::answer(&outcome), &answer, "{:?} at {}", step, now);
        prop_assert_eq!(real::details(&outcome), details, "{:?} at {}", step, now);
        retry = answer.retry;
        for (scope, key) in (0..KEYS).map(|key| (Scope::Key, key)).chain([(Scope::Biz, 0)]) {
            let rank = model.rank(scope, key, now.into());
            prop_assert_eq!(real.rank(scope, key, now as u64), rank, "{:?} at {}", step, now);
            let fresh = real.is_fresh(scope, key, now as u64);
            prop_assert_eq!(fresh, rank == Worth::Expired, "{:?} at {}", step, now);
        }
    }
    Ok(())
}
