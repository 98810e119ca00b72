//! Limits against a plain model, written from the rules in words and not from the code: signed
//! 128-bit numbers, one turn of a window at a time, no shared helper.

use std::collections::BTreeMap;

use frs::conf::{Biz, Interval, KeyType, Limit, Policy, Scope, Total};
use frs::limit::{Judgement, LimitFigures, Rules, States, Verdict};
use frs::store::Rank;
use proptest::prelude::*;

const MOST_USED: i128 = (1 << 53) - 1;
/// Keys of one biz whose wide limits they share.
const KEYS: usize = 2;

/// A state in use: start (0 for a total) and used. Absent: fresh.
type State = Option<(i128, i128)>;

/// A limit and, if its scope is the key, the key.
type Place = (usize, Option<usize>);

/// The states of one biz by limit and, if its scope is the key, key; the bans by key.
#[derive(Debug, Clone, Default)]
struct Model {
    limits: Vec<Limit>,
    states: BTreeMap<Place, (i128, i128)>,
    bans: BTreeMap<usize, i128>,
}

/// One limit as an item meets it: with the clock it goes by.
#[derive(Debug, Clone, Copy)]
struct View {
    now: i128,
    state: State,
}

impl View {
    fn used(&self) -> i128 {
        self.state.map_or(0, |(_, used)| used)
    }
}

#[derive(Debug, PartialEq)]
struct Answer {
    limited: bool,
    banned: bool,
    limit: usize,
    used: i128,
    max: i128,
    remaining: i128,
    reset: Option<i128>,
    retry: Option<i128>,
}

fn most(policy: &Policy) -> i128 {
    match policy {
        Policy::Interval(limit) => i128::from(limit.max) + i128::from(limit.debt),
        Policy::Total(limit) => i128::from(limit.max),
    }
}

fn shown_max(policy: &Policy) -> i128 {
    match policy {
        Policy::Interval(limit) => i128::from(limit.max),
        Policy::Total(limit) => i128::from(limit.max),
    }
}

impl Model {
    fn place(&self, index: usize, key: usize) -> (usize, Option<usize>) {
        (index, (self.limits[index].scope == Scope::Key).then_some(key))
    }

    fn view(&self, index: usize, key: usize, now: i128) -> View {
        let state = self.states.get(&self.place(index, key)).copied();
        let (Policy::Interval(limit), Some((mut start, mut used))) =
            (self.limits[index].policy, state)
        else {
            return View { now, state };
        };
        let (interval, max) = (i128::from(limit.interval_ms), i128::from(limit.max));
        if now < start {
            let stands_still = start - now < interval;
            return if stands_still {
                View { now: start, state }
            } else {
                View { now, state: None }
            };
        }
        while now - start >= interval && used > 0 {
            start += interval;
            used = if limit.debt > 0 { (used - max).max(0) } else { 0 };
        }
        View { now, state: (used > 0).then_some((start, used)) }
    }

    fn refuses(&self, index: usize, view: View, count: i128) -> bool {
        count >= 0 && view.used() + count > most(&self.limits[index].policy)
    }

    fn reset(&self, index: usize, view: View) -> Option<i128> {
        match (self.limits[index].policy, view.state) {
            (_, None) => Some(0),
            (Policy::Interval(limit), Some((start, _))) => {
                Some(start + i128::from(limit.interval_ms) - view.now)
            }
            (Policy::Total(_), Some(_)) => None,
        }
    }

    fn retry(&self, index: usize, view: View, count: i128) -> Option<i128> {
        let Policy::Interval(limit) = self.limits[index].policy else {
            return None;
        };
        if count > most(&self.limits[index].policy) {
            return None;
        }
        let mut wait = self.reset(index, view)?;
        let settle = |used: i128| match limit.debt {
            0 => 0,
            _ => (used - i128::from(limit.max)).max(0),
        };
        let mut used = settle(view.used());
        while used + count > most(&self.limits[index].policy) {
            wait += i128::from(limit.interval_ms);
            used = settle(used);
        }
        Some(wait)
    }

    fn longest_ban(&self) -> i128 {
        self.limits.iter().filter_map(|limit| limit.ban_ms).max().unwrap_or(0).into()
    }

    fn ban_left(&self, key: usize, now: i128) -> i128 {
        match self.bans.get(&key) {
            // A second of leave for turns whose clocks were read out of order.
            Some(&until) if until > now && until <= now + self.longest_ban() + 1000 => {
                (until - now).min(self.longest_ban())
            }
            _ => 0,
        }
    }

    /// The figures without what they decide: limited, banned, retry, and the limits that refuse.
    fn judge(&self, key: usize, now: i128, count: i128) -> (bool, bool, Option<i128>, Vec<usize>) {
        let view = |index| self.view(index, key, now);
        let refusing: Vec<usize> =
            (0..self.limits.len()).filter(|&i| self.refuses(i, view(i), count)).collect();
        let ban_left = if count < 0 { 0 } else { self.ban_left(key, now) };
        let mut waits: Vec<Option<i128>> =
            refusing.iter().map(|&i| self.retry(i, view(i), count)).collect();
        if ban_left > 0 {
            waits.push(Some(ban_left));
        }
        let limited = !waits.is_empty();
        let retry = if waits.contains(&None) { None } else { waits.into_iter().flatten().max() };
        (limited, ban_left > 0, retry, refusing)
    }

    fn charge(&mut self, key: usize, now: i128, count: i128) {
        for index in 0..self.limits.len() {
            let view = self.view(index, key, now);
            let used = (view.used() + count).clamp(0, MOST_USED);
            let opened = match self.limits[index].policy {
                Policy::Interval(_) => view.now,
                Policy::Total(_) => 0,
            };
            let start = view.state.map_or(opened, |(start, _)| start);
            let place = self.place(index, key);
            if used > 0 {
                self.states.insert(place, (start, used));
            } else {
                self.states.remove(&place);
            }
        }
        if self.ban_left(key, now) == 0 {
            self.bans.remove(&key);
        }
    }

    fn start_ban(&mut self, key: usize, now: i128, refusing: &[usize]) -> Option<i128> {
        let longest = refusing.iter().filter_map(|&i| self.limits[i].ban_ms).max()?;
        self.bans.insert(key, now + i128::from(longest));
        Some(longest.into())
    }

    fn run(&mut self, step: &Step, now: i128) -> Answer {
        let count = i128::from(step.count);
        let (limited, mut banned, mut retry, refusing) = self.judge(step.key, now, count);
        match step.command {
            Command::Query => {}
            Command::Force => self.charge(step.key, now, count),
            Command::Update if !limited => self.charge(step.key, now, count),
            Command::Update if banned => {}
            Command::Update => {
                if let Some(ban) = self.start_ban(step.key, now, &refusing) {
                    banned = true;
                    retry = retry.map(|retry| retry.max(ban));
                }
            }
        }
        let remaining = |index: usize| {
            (most(&self.limits[index].policy) - self.view(index, step.key, now).used()).max(0)
        };
        let with_ban = || self.limits.iter().position(|limit| limit.ban_ms.is_some()).unwrap();
        let decider = match (limited, refusing.first()) {
            (true, Some(&first)) => first,
            (true, None) => with_ban(),
            (false, _) => (0..self.limits.len()).min_by_key(|&index| remaining(index)).unwrap(),
        };
        let view = self.view(decider, step.key, now);
        Answer {
            limited,
            banned,
            limit: decider + 1,
            used: view.used(),
            max: shown_max(&self.limits[decider].policy),
            remaining: remaining(decider),
            reset: self.reset(decider, view),
            retry: retry.filter(|_| limited),
        }
    }

    fn rank(&self, key: usize, now: i128) -> Rank {
        let of_key = |index: &usize| self.limits[*index].scope == Scope::Key;
        let views: Vec<(usize, View)> = (0..self.limits.len())
            .filter(of_key)
            .map(|index| (index, self.view(index, key, now)))
            .filter(|(_, view)| view.state.is_some())
            .collect();
        if views.iter().any(|&(index, _)| matches!(self.limits[index].policy, Policy::Total(_))) {
            Rank::Kept
        } else if self.ban_left(key, now) > 0 {
            Rank::Banned
        } else if views.iter().any(|&(index, view)| self.refuses(index, view, 1)) {
            Rank::Limiting
        } else if !views.is_empty() {
            Rank::Idle
        } else {
            Rank::Expired
        }
    }
}

/// The code under test, with words kept for each key as a store would.
#[derive(Debug, Clone)]
struct Real {
    rules: Rules,
    keys: Vec<(Vec<u64>, u64)>,
    biz: Vec<u64>,
}

impl Real {
    fn new(limits: &[Limit]) -> Real {
        let rules = Rules::new(&Biz::new(1, "biz", KeyType::String, limits.to_vec()));
        let keys = vec![(vec![0; rules.words(Scope::Key)], 0); KEYS];
        let biz = vec![0; rules.words(Scope::Biz)];
        Real { rules, keys, biz }
    }

    fn on_states<T>(&mut self, key: usize, work: impl FnOnce(&Rules, &mut States<'_>) -> T) -> T {
        let (key, ban_until) = &mut self.keys[key];
        work(&self.rules, &mut States { key, biz: &mut self.biz, ban_until })
    }

    fn judge(&mut self, step: &Step, now: u64) -> (Judgement, Vec<LimitFigures>) {
        self.on_states(step.key, |rules, states| {
            let mut details = Vec::new();
            rules.roll(states, now);
            rules.details(states, now, step.count, &mut details);
            (rules.judge(states, now, step.count), details)
        })
    }

    fn run(&mut self, step: &Step, now: u64) -> (Verdict, Vec<LimitFigures>) {
        let mut copy = self.clone();
        let (mut judgement, mut details) = copy.judge(step, now);
        let charged = match step.command {
            Command::Query => false,
            Command::Force => true,
            Command::Update => !judgement.limited,
        };
        copy.on_states(step.key, |rules, states| {
            if charged {
                rules.charge(states, now, step.count);
            } else if step.command == Command::Update {
                rules.start_ban(states, now, &mut judgement);
            }
        });
        let verdict = copy.on_states(step.key, |rules, states| {
            rules.refigure(states, now, &mut details);
            rules.verdict(states, now, &judgement)
        });
        if charged {
            *self = copy;
        } else if judgement.banned && step.command == Command::Update {
            self.keys[step.key].1 = copy.keys[step.key].1;
        }
        (verdict, details)
    }

    fn rank(&self, key: usize, now: u64) -> Rank {
        let (words, ban_until) = &self.keys[key];
        self.rules.rank(Scope::Key, &mut words.clone(), *ban_until, now)
    }

    /// Would the item pass `wait` milliseconds from `now`?
    fn would_pass(&self, step: &Step, now: u64, wait: u64) -> bool {
        !self.clone().judge(step, now + wait).0.limited
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Command {
    Query,
    Update,
    Force,
}

#[derive(Debug, Clone)]
struct Step {
    key: usize,
    command: Command,
    count: i32,
    /// Milliseconds the clock goes before it.
    tick: i64,
}

fn any_policy() -> impl Strategy<Value = Policy> {
    let interval = |debts: std::ops::Range<u64>| {
        (1_u64..300, 0_u64..12, debts).prop_map(|(interval_ms, max, debt)| {
            let max = if debt > 0 { max.max(1) } else { max };
            Policy::Interval(Interval { interval_ms, max, debt })
        })
    };
    prop_oneof![
        4 => interval(0..1),
        4 => interval(1..15),
        1 => (0_u64..60).prop_map(|max| Policy::Total(Total { max })),
    ]
}

fn any_limit() -> impl Strategy<Value = Limit> {
    let scope = prop_oneof![3 => Just(Scope::Key), 1 => Just(Scope::Biz)];
    let ban = prop_oneof![3 => Just(None), 1 => (1_u64..400).prop_map(Some)];
    (scope, any_policy(), ban)
        .prop_map(|(scope, policy, ban_ms)| Limit { ban_ms, ..Limit::new(scope, policy) })
}

fn any_step() -> impl Strategy<Value = Step> {
    let command = prop_oneof![2 => Just(Command::Query), 8 => Just(Command::Update), 1 => Just(Command::Force)];
    let count = prop_oneof![8 => 0..5_i32, 2 => -6..0_i32, 1 => 5..60_i32];
    let tick = prop_oneof![12 => 0..40_i64, 2 => 40..900_i64, 1 => -60..0_i64, 1 => -1500..0_i64];
    (0..KEYS, command, count, tick).prop_map(|(key, command, count, tick)| Step {
        key,
        command,
        count,
        tick,
    })
}

fn answer_of(verdict: &Verdict) -> Answer {
    Answer {
        limited: verdict.limited,
        banned: verdict.banned,
        limit: verdict.limit.into(),
        used: verdict.figures.used.into(),
        max: verdict.figures.max.into(),
        remaining: verdict.figures.remaining.into(),
        reset: verdict.figures.reset_ms.map(i128::from),
        retry: verdict.retry_ms.map(i128::from),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_answer_is_the_models(
        limits in prop::collection::vec(any_limit(), 1..5),
        steps in prop::collection::vec(any_step(), 1..200),
    ) {
        let mut model = Model { limits: limits.clone(), ..Model::default() };
        let mut real = Real::new(&limits);
        let mut now = 1_000_000_i64;
        for step in &steps {
            now += step.tick;
            let (time, count) = (i128::from(now), i128::from(step.count));
            let (_, _, _, refusing) = model.judge(step.key, time, count);
            let retries: Vec<_> = (0..limits.len())
                .map(|i| refusing.contains(&i).then(|| {
                    model.retry(i, model.view(i, step.key, time), count)
                }).flatten())
                .collect();
            let expected = model.run(step, time);
            let (verdict, details) = real.run(step, now as u64);
            prop_assert_eq!(answer_of(&verdict), expected, "{:?} at {}", step, now);
            prop_assert_eq!(details.len(), limits.len());
            for (i, detail) in details.iter().enumerate() {
                let view = model.view(i, step.key, time);
                prop_assert_eq!(usize::from(detail.index), i + 1);
                prop_assert_eq!(i128::from(detail.figures.used), view.used());
                prop_assert_eq!(detail.figures.reset_ms.map(i128::from), model.reset(i, view));
                prop_assert_eq!(detail.limited, refusing.contains(&i));
                prop_assert_eq!(detail.retry_ms.map(i128::from), retries[i]);
            }
            for key in 0..KEYS {
                prop_assert_eq!(real.rank(key, now as u64), model.rank(key, time));
            }
        }
    }

    /// Retry means what it says: a millisecond earlier the item would still be refused.
    #[test]
    fn an_item_passes_exactly_after_its_retry(
        limits in prop::collection::vec(any_limit(), 1..5),
        steps in prop::collection::vec(any_step(), 1..100),
    ) {
        let mut real = Real::new(&limits);
        let mut now = 1_000_000_u64;
        for step in &steps {
            now += step.tick.unsigned_abs();
            let (verdict, _) = real.run(step, now);
            let left_as_judged = step.command != Command::Force;
            if let (Some(retry), true) = (verdict.retry_ms, left_as_judged) {
                prop_assert!(retry > 0);
                prop_assert!(real.would_pass(step, now, retry), "{:?} at {}", step, now);
                prop_assert!(!real.would_pass(step, now, retry - 1), "{:?} at {}", step, now);
            } else if verdict.limited && left_as_judged {
                prop_assert!(!real.would_pass(step, now, 1 << 40));
            }
        }
    }

    /// What a quick look at the last use calls expired, a full look does too. (With bans, only
    /// if the clock goes forward: a ban that starts after the clock was set back far can leave
    /// a state that the clock meets again, but that was fresh at the ban's start.)
    #[test]
    fn no_node_outlives_its_longest_life(
        limits in prop::collection::vec(any_limit(), 1..5),
        steps in prop::collection::vec(any_step(), 1..60),
    ) {
        let mut real = Real::new(&limits);
        let (mut now, mut last_use) = (1_000_000_i64, 1_000_000);
        let banning = real.rules.has_ban();
        for step in &steps {
            now += if banning { step.tick.abs() } else { step.tick };
            let before = real.keys[0].clone();
            real.run(&Step { key: 0, ..step.clone() }, now as u64);
            if before != real.keys[0] {
                last_use = now as u64;
            }
        }
        if let Some(life) = real.rules.longest_life_ms(Scope::Key) {
            prop_assert_eq!(real.rank(0, last_use.saturating_add(life)), Rank::Expired);
        }
    }

    /// However uses fall within one window, exactly max of them pass.
    #[test]
    fn exactly_max_pass_in_a_window(
        max in 0_u64..50, ticks in prop::collection::vec(0_u64..5, 100..200),
    ) {
        let policy = Policy::Interval(Interval { interval_ms: 10_000, max, debt: 0 });
        let mut real = Real::new(&[Limit::new(Scope::Key, policy)]);
        let mut now = 1_000_000;
        let passed = ticks.iter().filter(|&&tick| {
            now += tick;
            let step = Step { key: 0, command: Command::Update, count: 1, tick: 0 };
            !real.run(&step, now).0.limited
        });
        prop_assert_eq!(passed.count() as u64, max);
    }
}
