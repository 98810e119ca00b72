//! The numbers that a call brings, laid over the limits of its business.
//!
//! Invariant: `None` stands for numbers that the business does not take.

use frs_conf::{
    Biz, Calendar, Distinct, DistinctCounting, Gcra, Interval, Limit, ListRule, Pattern, PerCall,
    Policy, Sliding, SlidingCounter, Token, Total, Unit,
};

use super::plan::{KEYS, Numbers, PERIOD_UNITS, Word};

const DAY_MS: u64 = 86_400_000;

/// The policies by which an item of a key is judged.
pub fn policies(biz: &Biz, key: usize, numbers: &Numbers) -> Option<Vec<Policy>> {
    let mut policies: Vec<Policy> = biz.limits.iter().map(|limit| limit.policy.clone()).collect();
    let takers: Vec<(usize, PerCall)> = biz
        .limits
        .iter()
        .enumerate()
        .filter_map(|(at, limit)| Some((at, limit.per_call?)))
        .collect();
    match numbers {
        Numbers { rates: None, burst: None, max: None } => {}
        Numbers { rates: None, burst: None, max: Some(max) } => {
            let [(at, per_call)] = takers[..] else { return None };
            policies[at] = with_max(&policies[at], per_call, (*max)?)?;
        }
        Numbers { rates: Some(rates), burst, max: None } => {
            let burst = match burst {
                Some(burst) => Some((*burst)?),
                None => None,
            };
            if rates.is_empty() || rates.len() > takers.len() {
                return None;
            }
            let addressed = &takers[..rates.len()];
            let is_bucket = |(at, _): &&(usize, PerCall)| {
                matches!(policies[*at], Policy::Token(_) | Policy::Gcra(_))
            };
            if burst.is_some() && addressed.iter().filter(is_bucket).count() != 1 {
                return None;
            }
            for (rate, &(at, per_call)) in rates.iter().zip(addressed) {
                policies[at] = with_rate(&policies[at], per_call, *rate, burst)?;
            }
        }
        _ => return None,
    }
    for (at, policy) in policies.iter_mut().enumerate() {
        if let Some(max) = override_of(biz, at, key) {
            *policy = with(policy, max);
        }
    }
    Some(policies)
}

/// The maximum that an override gives a key.
fn override_of(biz: &Biz, at: usize, key: usize) -> Option<u64> {
    biz.listed.iter().find_map(|listed| match (&listed.pattern, listed.rule) {
        (Pattern::Exact(text), ListRule::Override { limit, max })
            if limit == at && text == KEYS[key] =>
        {
            Some(max)
        }
        _ => None,
    })
}

/// The largest maximum that any key of a limit can have.
pub fn largest(biz: &Biz, at: usize, limit: &Limit, own: u64) -> u64 {
    let overrides = biz.listed.iter().filter_map(|listed| match listed.rule {
        ListRule::Override { limit, max } if limit == at => Some(max),
        _ => None,
    });
    let own = limit.per_call.map_or(own, |per_call| per_call.most);
    overrides.chain([own]).max().unwrap()
}

fn with_max(policy: &Policy, per_call: PerCall, max: u64) -> Option<Policy> {
    let least = match policy {
        Policy::Token(_) | Policy::Gcra(_) | Policy::Distinct(_) => 1,
        _ => 0,
    };
    (least <= max && max <= per_call.most).then(|| with(policy, max))
}

/// The same with another maximum.
fn with(policy: &Policy, max: u64) -> Policy {
    match policy.clone() {
        Policy::Interval(limit) => Policy::Interval(Interval { max, ..limit }),
        Policy::Calendar(limit) => Policy::Calendar(Calendar { max, ..limit }),
        Policy::Sliding(limit) => Policy::Sliding(Sliding { max, ..limit }),
        Policy::SlidingCounter(limit) => Policy::SlidingCounter(SlidingCounter { max, ..limit }),
        Policy::Token(limit) => Policy::Token(Token { burst: max, ..limit }),
        Policy::Gcra(limit) => Policy::Gcra(Gcra { burst: max, ..limit }),
        Policy::Total(_) => Policy::Total(Total { max }),
        Policy::Distinct(limit) => {
            let counting = DistinctCounting::Exact { max };
            Policy::Distinct(Distinct { counting, ..limit })
        }
        Policy::Concurrent(_) => Policy::Concurrent(frs_conf::Concurrent { max }),
        Policy::Count(limit) => Policy::Count(limit),
    }
}

fn with_rate(policy: &Policy, per_call: PerCall, rate: Word, burst: Option<u64>) -> Option<Policy> {
    if let (Policy::Calendar(limit), Word::Unit { uses: max, unit }) = (policy, rate) {
        let (_, unit) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
        let fits = max <= per_call.most && longest_ms(unit) <= per_call.max_period_ms;
        let turns = frs_conf::Turns { unit, ..limit.turns.clone() };
        return fits.then_some(Policy::Calendar(Calendar { turns, max, ..*limit }));
    }
    let Word::Period { uses, units, unit } = rate else { return None };
    let (_, unit_ms) = PERIOD_UNITS.into_iter().find(|(name, _)| *name == unit)?;
    let period_ms = units.unwrap_or(1).checked_mul(unit_ms)?;
    if !(1..=per_call.max_period_ms).contains(&period_ms) {
        return None;
    }
    let is_max = uses <= per_call.most;
    let burst = burst.unwrap_or(uses);
    let is_burst = uses >= 1 && (1..=per_call.most).contains(&burst);
    match policy {
        Policy::Interval(limit) if is_max => {
            Some(Policy::Interval(Interval { interval_ms: period_ms, max: uses, ..*limit }))
        }
        Policy::Sliding(_) if is_max => {
            Some(Policy::Sliding(Sliding { interval_ms: period_ms, max: uses }))
        }
        Policy::SlidingCounter(_) if is_max => {
            Some(Policy::SlidingCounter(SlidingCounter { interval_ms: period_ms, max: uses }))
        }
        Policy::Token(_) if is_burst && DAY_MS.is_multiple_of(period_ms) => {
            Some(Policy::Token(Token { rate: uses, per_ms: period_ms, burst }))
        }
        Policy::Gcra(_) if is_burst && uses <= period_ms * 1_000_000 => {
            Some(Policy::Gcra(Gcra { rate: uses, per_ms: period_ms, burst }))
        }
        _ => None,
    }
}

const UNITS: [(&str, Unit); 6] = [
    ("minute", Unit::Minute),
    ("hour", Unit::Hour),
    ("day", Unit::Day),
    ("week", Unit::Week),
    ("month", Unit::Month),
    ("year", Unit::Year),
];

/// The longest window of a unit. A place that moves across the date line may have a day twice.
fn longest_ms(unit: Unit) -> u64 {
    match unit {
        Unit::Minute => 60_000,
        Unit::Hour => 3_600_000,
        Unit::Day => 2 * DAY_MS,
        Unit::Week => 8 * DAY_MS,
        Unit::Month => 32 * DAY_MS,
        Unit::Year => 367 * DAY_MS,
    }
}
