//! Reads `<limit>`: the settings of each policy, their defaults and their bounds.
//!
//! Invariant: a setting that belongs to another policy is a fault that names that policy.

use std::sync::Arc;

use super::distinct::REFUSE;
use super::faults::{Checked, Notes, checked};
use super::per_call::{WITH_PER_CALL, WITH_PERIOD, per_call};
use super::scalar::{Parsed, duration, is_word, only_with, rate, whole, word};
use super::walk::ElementSchema;
use super::xml::Element;
use super::{calendar, distinct, weight};
use crate::schema::{
    Calendar, Concurrent, Count, Credit, Gcra, Interval, Limit, MAX_BURST, MAX_COUNT,
    MAX_DURATION_MS, MAX_HISTORY, MAX_SLIDING, MAX_SLIDING_MS, Policy, Rate, Scope, Sliding,
    SlidingCounter, Token, Total, duration_text, most_burst, most_gcra_burst, most_gcra_rate,
    most_rate,
};

const LIMIT: ElementSchema = ElementSchema {
    attributes: &[
        "policy",
        "scope",
        "max",
        "interval",
        "unit",
        "tz",
        "at",
        "history",
        "rate",
        "burst",
        "debt",
        "ban",
        "on-exceed",
        "per-call",
        "most",
        "max-period",
        "precision",
    ],
    many: &["weight"],
    ..ElementSchema::EMPTY
};

type PolicyReader = fn(&mut Notes<'_>, &Element) -> Checked<Policy>;
/// The policies, each with the reader of its settings.
const POLICIES: [(&str, PolicyReader); 10] = [
    ("interval", |notes, limit| interval(notes, limit).map(Policy::Interval)),
    ("calendar", |notes, limit| calendar(notes, limit).map(Policy::Calendar)),
    ("sliding", |notes, limit| sliding(notes, limit).map(Policy::Sliding)),
    ("sliding-counter", |notes, limit| sliding_counter(notes, limit).map(Policy::SlidingCounter)),
    ("token", |notes, limit| token(notes, limit).map(Policy::Token)),
    ("gcra", |notes, limit| gcra(notes, limit).map(Policy::Gcra)),
    ("total", |notes, limit| Ok(Policy::Total(Total { max: max(notes, limit)? }))),
    ("count", |notes, limit| Ok(Policy::Count(Count { turns: calendar::optional(notes, limit)? }))),
    ("distinct", |notes, limit| distinct::distinct(notes, limit).map(Policy::Distinct)),
    ("concurrent", |notes, limit| concurrent(notes, limit).map(Policy::Concurrent)),
];
/// What other systems call some policies, and what these are called here.
const OTHER_NAMES: [(&[&str], &str); 7] = [
    (
        &["fixed-window", "fixed", "window", "fixed-window-counter"],
        "policy=\"interval\", whose window opens at the first use, or policy=\"calendar\", whose \
         windows turn by the clock",
    ),
    (
        &["sliding-window", "sliding-window-log", "sliding-log", "rolling-window", "moving-window"],
        "policy=\"sliding\", which is exact, or policy=\"sliding-counter\", which needs 24 bytes \
         whatever its max is",
    ),
    (&["sliding-window-counter"], "policy=\"sliding-counter\""),
    (&["token-bucket", "bucket"], "policy=\"token\""),
    (&["leaky-bucket", "cell", "throttle"], "policy=\"gcra\", or policy=\"token\""),
    (&["quota", "daily", "monthly"], "policy=\"calendar\" with unit, or policy=\"total\""),
    (
        &["concurrency", "in-flight", "inflight", "semaphore", "parallel"],
        "policy=\"concurrent\", which counts what calls hold",
    ),
];
const REFUSING: &[&str] = &[
    "interval",
    "calendar",
    "sliding",
    "sliding-counter",
    "token",
    "gcra",
    "total",
    "distinct",
    "concurrent",
];
/// The policies with calendar windows, which a history can remember.
const WITH_WINDOWS: &[&str] = &["calendar", "count", "distinct"];
/// Settings that only some policies have, each with these policies.
const SETTINGS: [(&str, &[&str]); 15] = [
    (
        "max",
        &["interval", "calendar", "sliding", "sliding-counter", "total", "distinct", "concurrent"],
    ),
    ("interval", &["interval", "sliding", "sliding-counter"]),
    ("unit", WITH_WINDOWS),
    ("tz", WITH_WINDOWS),
    ("at", WITH_WINDOWS),
    ("history", WITH_WINDOWS),
    ("rate", &["token", "gcra"]),
    ("burst", &["token", "gcra"]),
    ("per-call", WITH_PER_CALL),
    ("most", WITH_PER_CALL),
    ("max-period", WITH_PERIOD),
    ("precision", &["distinct"]),
    ("debt", &["interval", "calendar"]),
    ("ban", REFUSING),
    ("on-exceed", REFUSING),
];
const BEYOND_SLIDING: &str = "beyond that policy=\"sliding-counter\"";

/// Reads a `<limit>` and notes its faults.
pub(super) fn limit(notes: &mut Notes<'_>, element: &Element) -> Checked<Limit> {
    LIMIT.check(notes, element);
    let scopes = word(&[("key", Scope::Key), ("biz", Scope::Biz)]);
    let scope = element.or(notes, "scope", Scope::Key, scopes);
    let policy = element.required(notes, "policy", policy);
    let name = policy.map(|(name, _)| name);
    if let Ok(name) = name {
        no_others(notes, element, name);
    }
    let exceeded = if name == Ok("count") { Ok((None, None)) } else { exceeded(notes, element) };
    let weights = weight::weights(notes, element);
    let history = match name {
        Ok(name) if !WITH_WINDOWS.contains(&name) => Ok(0),
        _ => element.or(notes, "history", 0, history),
    };
    let policy = match policy {
        Ok((_, read)) => read(notes, element),
        Err(faulty) => {
            look(notes, element);
            Err(faulty)
        }
    };
    let per_call = per_call(notes, element, name, &policy);
    let (ban_ms, advice) = exceeded?;
    let (weights, history, per_call) = (weights?, history?, per_call?);
    Ok(Limit { ban_ms, advice, weights, history, per_call, ..Limit::new(scope?, policy?) })
}

/// Reads the name of a policy.
fn policy(text: &str) -> Parsed<(&'static str, PolicyReader)> {
    word(&POLICIES.map(|policy| (policy.0, policy)))(text).map_err(|expected| {
        let plain = text.trim().to_lowercase().replace(['_', ' '], "-");
        match OTHER_NAMES.iter().find(|(names, _)| names.contains(&plain.as_str())) {
            Some((_, ours)) => {
                format!("{ours} (all: {})", POLICIES.map(|(name, _)| name).join(", "))
            }
            None => expected,
        }
    })
}

/// Notes each setting that only other policies have.
fn no_others(notes: &mut Notes<'_>, element: &Element, policy: &str) {
    for (name, policies) in SETTINGS {
        if let (Some(attribute), false) = (element.attribute(name), policies.contains(&policy)) {
            let found = format!("attribute {name} with policy=\"{policy}\"");
            notes.note(attribute.at, found, only_with("policy", policies));
        }
    }
}

/// A word of advice. `None` if the limit refuses.
type Advice = Option<Arc<str>>;

/// What happens over a limit: at most one of a ban, in milliseconds, and a word of advice.
fn exceeded(notes: &mut Notes<'_>, element: &Element) -> Checked<(Option<u64>, Advice)> {
    let ban_ms = element.optional(notes, "ban", duration(1, MAX_DURATION_MS));
    let advice = element.or(notes, "on-exceed", None, advice)?;
    if let (Some(advice), true) = (&advice, element.attribute("ban").is_some()) {
        let at = element.attribute("on-exceed").map_or(element.at, |attribute| attribute.at);
        let found = format!("on-exceed=\"{advice}\" with a ban");
        return Err(notes.note(at, found, "one of them: a limit with on-exceed refuses nothing"));
    }
    Ok((ban_ms?, advice))
}

/// The number of windows that a limit remembers.
fn history(text: &str) -> Parsed<u16> {
    whole(1, MAX_HISTORY.into())(text).map(|windows| windows as u16)
}

fn advice(text: &str) -> Parsed<Advice> {
    match text {
        REFUSE => Ok(None),
        text if is_word(text, 32) => Ok(Some(text.into())),
        _ => Err(format!("{REFUSE}, or a word of 1 to 32 of A-Z, a-z, 0-9, ., _ and -")),
    }
}

/// Notes the faults of all settings if the policy is unknown, and with it the settings that it
/// needs.
fn look(notes: &mut Notes<'_>, element: &Element) {
    let _noted = element.optional(notes, "interval", duration(1, MAX_DURATION_MS));
    let _noted = element.optional(notes, "max", whole(0, MAX_COUNT));
    let _noted = element.optional(notes, "debt", whole(0, MAX_COUNT));
    let _noted = element.optional(notes, "rate", rate(most_rate));
    let _noted = element.optional(notes, "burst", whole(1, MAX_BURST));
    let _noted = element.optional(notes, "precision", distinct::precision);
    calendar::look(notes, element);
}

fn max(notes: &mut Notes<'_>, element: &Element) -> Checked<u64> {
    element.required(notes, "max", whole(0, MAX_COUNT))
}

fn debt(notes: &mut Notes<'_>, element: &Element) -> Checked<u64> {
    element.or(notes, "debt", 0, whole(0, MAX_COUNT))
}

fn interval(notes: &mut Notes<'_>, element: &Element) -> Checked<Interval> {
    let limit = checked!(Interval {
        interval_ms: element.required(notes, "interval", duration(1, MAX_DURATION_MS)),
        max: max(notes, element),
        debt: debt(notes, element),
    });
    pays_back(notes, element, Credit::of_interval(&limit), limit.max)?;
    Ok(limit)
}

fn calendar(notes: &mut Notes<'_>, element: &Element) -> Checked<Calendar> {
    let limit = checked!(Calendar {
        turns: calendar::required(notes, element),
        max: max(notes, element),
        debt: debt(notes, element),
    });
    pays_back(notes, element, Credit::of_calendar(&limit), limit.max)?;
    Ok(limit)
}

/// Notes a debt that is never paid back, or not in time.
fn pays_back(notes: &mut Notes<'_>, element: &Element, credit: Credit, max: u64) -> Checked<()> {
    let at = element.value_at("debt");
    let debt = credit.debt;
    if debt > 0 && max == 0 {
        let found = format!("debt=\"{debt}\" with max=\"0\"");
        return Err(notes.note(at, found, "a max of at least 1, or no debt"));
    }
    if !credit.is_paid_back(max) {
        let turns = credit.turns(max);
        let found = format!("debt=\"{debt}\", which takes {turns} windows to pay back");
        let expected = format!("at most {} for that", duration_text(credit.most_ms));
        return Err(notes.note(at, found, expected));
    }
    Ok(())
}

fn sliding(notes: &mut Notes<'_>, element: &Element) -> Checked<Sliding> {
    fn bounded(read: impl Fn(&str) -> Parsed<u64>) -> impl Fn(&str) -> Parsed<u64> {
        move |text| read(text).map_err(|expected| format!("{expected}; {BEYOND_SLIDING}"))
    }
    Ok(checked!(Sliding {
        interval_ms: element.required(notes, "interval", bounded(duration(1, MAX_SLIDING_MS))),
        max: element.required(notes, "max", bounded(whole(0, MAX_SLIDING))),
    }))
}

fn sliding_counter(notes: &mut Notes<'_>, element: &Element) -> Checked<SlidingCounter> {
    Ok(checked!(SlidingCounter {
        interval_ms: element.required(notes, "interval", duration(1, MAX_DURATION_MS)),
        max: max(notes, element),
    }))
}

/// Reads `concurrent`. Its holds are in the record of a key, so it counts no other uses.
fn concurrent(notes: &mut Notes<'_>, element: &Element) -> Checked<Concurrent> {
    let max = max(notes, element);
    if element.attribute_value("scope") == Some("biz") {
        let found = "scope=\"biz\" with policy=\"concurrent\"";
        let expected = "scope=\"key\"; for a maximum over all calls, a key that all of them share";
        return Err(notes.note(element.value_at("scope"), found, expected));
    }
    Ok(Concurrent { max: max? })
}

fn token(notes: &mut Notes<'_>, element: &Element) -> Checked<Token> {
    let (Rate { number: rate, per_ms }, burst) = bucket(notes, element, most_rate, most_burst)?;
    Ok(Token { rate, per_ms, burst })
}

fn gcra(notes: &mut Notes<'_>, element: &Element) -> Checked<Gcra> {
    let (Rate { number: rate, per_ms }, burst) =
        bucket(notes, element, most_gcra_rate, most_gcra_burst)?;
    Ok(Gcra { rate, per_ms, burst })
}

/// Reads the rate and the burst of a bucket. `highest` takes the milliseconds of the rate's unit,
/// and `largest` the rate and these milliseconds.
fn bucket(
    notes: &mut Notes<'_>,
    element: &Element,
    highest: fn(u64) -> u64,
    largest: fn(u64, u64) -> u64,
) -> Checked<(Rate, u64)> {
    let read = element.required(notes, "rate", rate(highest));
    let most = read.map_or(MAX_BURST, |rate| largest(rate.number, rate.per_ms));
    let burst = element.optional(notes, "burst", whole(1, most));
    let (rate, burst) = (read?, burst?);
    if burst.is_none() && rate.number > most {
        let found = format!("rate=\"{}\" without burst", element.value_of("rate"));
        let expected = format!("burst: a whole number from 1 to {most}");
        return Err(notes.note(element.value_at("rate"), found, expected));
    }
    Ok((rate, burst.unwrap_or(rate.number)))
}
