//! Random businesses, clients and clocks.

use std::sync::Arc;

use frs_conf::{
    Biz, Calendar, Count, Gcra, Interval, KeyType, Limit, ListRule, Listed, Mode, Pattern, Policy,
    Scope, Sliding, SlidingCounter, Token, Total, Turns, Unit, Weight,
};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use proptest::collection::vec;
use proptest::prelude::*;

use super::plain::Model;
use super::policies::{MOST_USED, turns};
use super::windows::window;

/// The keys of one biz, which share its wide limits.
pub const KEYS: usize = 2;
/// The clock starts here, so that no window begins before the epoch.
const FIRST_MS: i64 = 400 * DAY_MS;
/// The clock ends here, so that no window ends after the last year of a date.
pub const LAST_MS: i64 = 1 << 47;
const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 86_400_000;
const MOST: u64 = MOST_USED as u64;

/// Zones with turns of every kind: none, an hour at night or at midnight, half an hour, two hours,
/// quarters of an hour, a minute past, seconds, a skipped day, and a winter time.
const ZONES: [&str; 14] = [
    "UTC",
    "Asia/Shanghai",
    "Europe/Berlin",
    "America/New_York",
    "America/Sao_Paulo",
    "Australia/Lord_Howe",
    "Antarctica/Troll",
    "Pacific/Chatham",
    "America/St_Johns",
    "Africa/Monrovia",
    "Pacific/Apia",
    "Pacific/Kwajalein",
    "Africa/Casablanca",
    "Asia/Gaza",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    Query,
    Update,
    Force,
}

#[derive(Debug, Clone)]
pub struct Step {
    pub key: usize,
    pub command: Command,
    pub count: i32,
    pub tick: Tick,
}

/// How the clock moves before a step.
#[derive(Debug, Clone, Copy)]
pub enum Tick {
    By(i64),
    /// By thousandths of a limit's window, plus or minus a little.
    Windows {
        limit: usize,
        thousandths: i64,
        more: i64,
    },
    /// To a limit's turn, plus or minus a little.
    Turn {
        limit: usize,
        more: i64,
    },
    /// Back to where a limit's state is forgotten, plus or minus a little.
    Forget {
        limit: usize,
        more: i64,
    },
    /// To the end of the last wait, plus or minus a little.
    Retry {
        more: i64,
    },
}

/// A biz, and a time to begin at.
#[derive(Debug, Clone)]
pub struct Case {
    pub biz: Biz,
    pub begin: i64,
}

impl Case {
    /// Bounds the count if a window's debt is settled one turn at a time: millions would take too
    /// long.
    pub fn fit(&self, step: &Step) -> Step {
        let slow = |limit: &Limit| match &limit.policy {
            Policy::Calendar(limit) => limit.debt > 0 && limit.max < 1 << 28,
            _ => false,
        };
        let tame = self.biz.limits.iter().any(slow);
        let count = if tame { step.count.clamp(-100, 100) } else { step.count };
        Step { count, ..step.clone() }
    }
}

/// The time of a step.
pub fn advance(model: &Model, step: &Step, now: i64, retry: Option<i128>) -> i64 {
    let pick = |limit: usize| limit % model.biz.limits.len();
    let by = match step.tick {
        Tick::By(ms) => ms.into(),
        Tick::Windows { limit, thousandths, more } => {
            let length = window_ms(&model.biz.limits[pick(limit)].policy, now);
            length * i128::from(thousandths) / 1000 + i128::from(more)
        }
        Tick::Turn { limit, more } => {
            let reset = model.shown(pick(limit), step.key, now.into()).reset;
            reset.map_or(1, |reset| reset + i128::from(more))
        }
        Tick::Forget { limit, more } => {
            let then = model.forgetting(pick(limit), step.key, now.into());
            then.map_or(1, |then| then - i128::from(now) + i128::from(more))
        }
        Tick::Retry { more } => retry.unwrap_or(0) + i128::from(more),
    };
    (i128::from(now) + by).clamp(FIRST_MS.into(), LAST_MS.into()) as i64
}

fn window_ms(policy: &Policy, now: i64) -> i128 {
    match policy {
        Policy::Interval(limit) => limit.interval_ms.into(),
        Policy::Sliding(limit) => limit.interval_ms.into(),
        Policy::SlidingCounter(limit) => limit.interval_ms.into(),
        Policy::Token(limit) => {
            i128::from(limit.burst) * i128::from(limit.per_ms) / i128::from(limit.rate)
        }
        Policy::Gcra(limit) => {
            i128::from(limit.burst) * i128::from(limit.per_ms) / i128::from(limit.rate)
        }
        _ => turns(policy).map_or(100, |turns| {
            let (start, turn) = window(turns, now.into());
            turn - start
        }),
    }
}

/// Numbers of every size up to `most`.
fn any_size(low: u64, most: u64) -> impl Strategy<Value = u64> {
    let bits = most.ilog2();
    prop_oneof![
        6 => (0..=bits, any::<u64>()).prop_map(move |(bits, number)| {
            (number & ((2 << bits) - 1)).clamp(low, most)
        }),
        1 => Just(most),
        1 => Just(low),
    ]
}

fn any_interval() -> impl Strategy<Value = Policy> {
    let small = (1_u64..300, 0_u64..12, prop_oneof![Just(0), 0_u64..15]);
    let large = (any_size(1, MOST), any_size(0, MOST), prop_oneof![Just(0), any_size(0, MOST)]);
    prop_oneof![4 => small.boxed(), 1 => large.boxed()].prop_map(|(interval_ms, max, debt)| {
        // As in the configuration: a debt needs a max, and is paid back within some duration.
        let turns = debt.checked_div(max).unwrap_or(0) + 2;
        let fits = max > 0 && turns.saturating_mul(interval_ms) <= MOST;
        Policy::Interval(Interval { interval_ms, max, debt: if fits { debt } else { 0 } })
    })
}

fn any_turns() -> impl Strategy<Value = Turns> {
    turns_in(prop::sample::select(&ZONES[..]))
}

fn turns_in(zones: impl Strategy<Value = &'static str>) -> impl Strategy<Value = Turns> {
    use Unit::{Day, Hour, Minute, Month, Week, Year};
    let units = prop::sample::select(vec![Minute, Hour, Day, Day, Week, Month, Year]);
    let at =
        prop_oneof![2 => Just(0), 2 => (0_u16..24).prop_map(|half| half * 30), 1 => 0_u16..1440];
    (units, zones, at).prop_map(|(unit, zone, at)| Turns {
        unit,
        zone: TimeZone::get(zone).unwrap(),
        at_minutes: if matches!(unit, Minute | Hour) { 0 } else { at },
    })
}

fn any_calendar() -> impl Strategy<Value = Policy> {
    let small = (0_u64..12, prop_oneof![Just(0), 0_u64..15]);
    let large = (any_size(1 << 28, MOST), prop_oneof![Just(0), any_size(0, MOST)]);
    (any_turns(), prop_oneof![4 => small.boxed(), 1 => large.boxed()]).prop_map(
        |(turns, (max, debt))| {
            Policy::Calendar(Calendar { turns, max, debt: if max > 0 { debt } else { 0 } })
        },
    )
}

fn any_sliding() -> impl Strategy<Value = Policy> {
    let interval = prop_oneof![4 => 1_u64..300, 1 => any_size(1, 45 * DAY_MS as u64)];
    let max = prop_oneof![20 => 0_u64..12, 4 => 0_u64..60, 1 => 0_u64..=4096];
    (interval, max).prop_map(|(interval_ms, max)| Policy::Sliding(Sliding { interval_ms, max }))
}

fn any_counter() -> impl Strategy<Value = Policy> {
    let small = (1_u64..300, 0_u64..12);
    let large = (any_size(1, MOST), any_size(0, MOST));
    prop_oneof![4 => small.boxed(), 1 => large.boxed()]
        .prop_map(|(interval_ms, max)| Policy::SlidingCounter(SlidingCounter { interval_ms, max }))
}

fn any_token() -> impl Strategy<Value = Policy> {
    let units = || prop::sample::select(vec![1_u64, 1000, 60_000, 3_600_000, 86_400_000]);
    let small = (1_u64..60, prop_oneof![3 => Just(1000).boxed(), 1 => units().boxed()], 1_u64..12);
    let large = (any_size(1, MOST), units(), any_size(1, MOST_BURST));
    prop_oneof![4 => small.boxed(), 1 => large.boxed()]
        .prop_map(|(rate, per_ms, burst)| Policy::Token(Token { rate, per_ms, burst }))
}

fn any_gcra() -> impl Strategy<Value = Policy> {
    let units = || prop::sample::select(vec![1_u64, 1000, 60_000, 3_600_000, 86_400_000]);
    let small = (1_u64..60, prop_oneof![3 => Just(1000).boxed(), 1 => units().boxed()], 1_u64..12);
    let large = (any_size(1, MOST), units(), any_size(1, MOST));
    prop_oneof![4 => small.boxed(), 1 => large.boxed()].prop_map(|(rate, per_ms, burst)| {
        // As in the configuration: a use takes a nanosecond at least, and a bucket 2^62 at most.
        let rate = rate.min(per_ms * 1_000_000);
        let burst = burst.min((1 << 62) / (per_ms * 1_000_000 / rate));
        Policy::Gcra(Gcra { rate, per_ms, burst })
    })
}

/// The largest level.
const MOST_BURST: u64 = u64::MAX / 86_400_000;

fn any_policy() -> impl Strategy<Value = Policy> {
    prop_oneof![
        4 => any_interval(),
        3 => any_calendar(),
        5 => any_sliding(),
        3 => any_counter(),
        3 => any_token(),
        3 => any_gcra(),
        1 => prop_oneof![0_u64..60, any_size(0, MOST)]
            .prop_map(|max| Policy::Total(Total { max })),
        2 => prop::option::weighted(0.7, any_turns())
            .prop_map(|turns| Policy::Count(Count { turns })),
    ]
}

/// The windows that a limit with a calendar remembers.
fn any_history() -> impl Strategy<Value = u16> {
    prop_oneof![3 => Just(0), 4 => 1..5_u16, 1 => 1..=366_u16]
}

/// A limit that advises does not ban.
fn any_limit() -> impl Strategy<Value = Limit> {
    let scope = prop_oneof![3 => Just(Scope::Key), 1 => Just(Scope::Biz)];
    let ban = prop_oneof![3 => 1_u64..400, 1 => any_size(1, MOST)];
    let ban = prop_oneof![6 => Just(None).boxed(), 2 => ban.prop_map(Some).boxed()];
    let advises = prop::bool::weighted(0.2);
    let limit = (scope, any_policy(), ban, advises, any_history());
    limit.prop_map(|(scope, policy, ban_ms, advises, history)| {
        let advice = advises.then(|| Arc::from("captcha"));
        let history = if turns(&policy).is_some() { history } else { 0 };
        Limit { ban_ms: ban_ms.filter(|_| !advises), advice, history, ..Limit::new(scope, policy) }
    })
}

fn any_weights() -> impl Strategy<Value = Vec<Weight>> {
    let at = prop_oneof![3 => 0_u64..20, 1 => any_size(0, MOST)];
    let points = prop::collection::btree_map(at, 0_u32..=1_000_000, 1..4);
    let weight = |(at, thousandths)| Weight { at, thousandths };
    points.prop_map(move |points| points.into_iter().map(weight).collect())
}

fn any_biz() -> impl Strategy<Value = Biz> {
    let mode = prop_oneof![5 => Just(Mode::Enforce), 1 => Just(Mode::Shadow)];
    let weights = prop::option::weighted(0.25, (any::<prop::sample::Index>(), any_weights()));
    let larger = prop::option::weighted(0.2, (any::<prop::sample::Index>(), 0_u64..30));
    (vec(any_limit(), 1..5), mode, weights, larger).prop_map(|(limits, mode, weights, larger)| {
        let mut biz = Biz { mode, ..Biz::new(1, "biz", KeyType::String, limits) };
        if let Some((limit, weights)) = weights {
            let limit = limit.index(biz.limits.len());
            biz.limits[limit].weights = weights;
        }
        if let Some((limit, max)) = larger {
            let limit = limit.index(biz.limits.len());
            if !matches!(biz.limits[limit].policy, Policy::Count(_)) {
                let pattern = Pattern::Exact("another".to_owned());
                biz.listed.push(Listed { pattern, rule: ListRule::Override { limit, max } });
            }
        }
        biz
    })
}

/// Half of the cases begin near a change of a calendar's zone.
pub fn any_case() -> impl Strategy<Value = Case> {
    let near = prop_oneof![Just(0), -3..3_i64, -5_000_000..5_000_000_i64, -3 * DAY_MS..DAY_MS];
    let time = FIRST_MS..45_000 * DAY_MS;
    (any_biz(), time, prop::option::of(near)).prop_map(|(biz, time, near)| {
        let zone =
            biz.limits.iter().find_map(|limit| turns(&limit.policy)).map(|turns| &turns.zone);
        let change = zone.and_then(|zone| change_after(zone, time));
        let begin = change.zip(near).map_or(time, |(change, near)| change + near);
        Case { biz, begin: begin.max(FIRST_MS) }
    })
}

fn change_after(zone: &TimeZone, time: i64) -> Option<i64> {
    let from = Timestamp::from_millisecond(time).unwrap();
    zone.following(from).next().map(|change| change.timestamp().as_millisecond())
}

fn any_tick() -> impl Strategy<Value = Tick> {
    let little = || prop_oneof![2 => Just(0), 3 => -2..=2_i64];
    let limit = 0..4_usize;
    prop_oneof![
        20 => (0..40_i64).prop_map(Tick::By),
        2 => (-60..0_i64).prop_map(Tick::By),
        1 => (-1500..0_i64).prop_map(Tick::By),
        3 => (limit.clone(), 0..4000_i64, little())
            .prop_map(|(limit, thousandths, more)| Tick::Windows { limit, thousandths, more }),
        2 => (limit.clone(), prop::sample::select(vec![-2000, -1000, 1000, 2000_i64]), little())
            .prop_map(|(limit, thousandths, more)| Tick::Windows { limit, thousandths, more }),
        1 => (limit.clone(), -2500..0_i64, little())
            .prop_map(|(limit, thousandths, more)| Tick::Windows { limit, thousandths, more }),
        3 => (limit.clone(), little()).prop_map(|(limit, more)| Tick::Turn { limit, more }),
        1 => (limit, little()).prop_map(|(limit, more)| Tick::Forget { limit, more }),
        2 => little().prop_map(|more| Tick::Retry { more }),
        1 => (-40 * DAY_MS..4000 * DAY_MS).prop_map(Tick::By),
    ]
}

pub fn any_step() -> impl Strategy<Value = Step> {
    let command = prop_oneof![
        2 => Just(Command::Query),
        8 => Just(Command::Update),
        1 => Just(Command::Force)
    ];
    let count = prop_oneof![
        24 => 0..5_i32,
        6 => -6..0_i32,
        3 => 5..60_i32,
        1 => any::<i32>(),
        1 => prop::sample::select(vec![i32::MIN, i32::MAX]),
    ];
    (0..KEYS, command, count, any_tick()).prop_map(|(key, command, count, tick)| Step {
        key,
        command,
        count,
        tick,
    })
}

/// A calendar limit, within days of a change of its zone's offset.
pub fn any_change() -> impl Strategy<Value = Case> {
    let near = prop_oneof![-3 * DAY_MS..2 * DAY_MS, -2 * HOUR_MS..HOUR_MS];
    let time = FIRST_MS..25_000 * DAY_MS;
    // Zones with half hours, which cut hours, are rare.
    let zones =
        prop_oneof![2 => prop::sample::select(&ZONES[..]), 1 => Just("Australia/Lord_Howe")];
    let calendar = (turns_in(zones), 1_u64..6, prop_oneof![Just(0), 0_u64..15]);
    (calendar, time, near, any_history()).prop_map(|((turns, max, debt), time, near, history)| {
        let change = change_after(&turns.zone, time).unwrap_or(time);
        let policy = Policy::Calendar(Calendar { turns, max, debt });
        let limits = vec![Limit { history, ..Limit::new(Scope::Key, policy) }];
        let biz = Biz::new(1, "biz", KeyType::String, limits);
        Case { biz, begin: (change + near).max(FIRST_MS) }
    })
}

pub fn any_step_at_a_change() -> impl Strategy<Value = Step> {
    let minutes = |minutes: i64| (0..minutes).prop_map(|minutes| Tick::By(minutes * 60_000));
    let tick = prop_oneof![
        minutes(40),
        minutes(200),
        minutes(3000),
        (-3 * HOUR_MS..0).prop_map(Tick::By),
        (-2..=2_i64).prop_map(|more| Tick::Turn { limit: 0, more }),
        (-2..=2_i64).prop_map(|more| Tick::Forget { limit: 0, more }),
        (-2..=2_i64).prop_map(|more| Tick::Retry { more }),
    ];
    (any_step(), tick).prop_map(|(step, tick)| Step { tick, key: 0, ..step })
}
