//! Reads `per-call` of a `<limit>`, and the settings that bound what a call may bring.
//!
//! Invariant: the bounds admit the numbers of map.xml, and no number that the state of the limit
//! cannot hold.

use super::faults::{Checked, Notes};
use super::scalar::{Parsed, boolean, duration, whole};
use super::xml::Element;
use crate::schema::{
    Distinct, DistinctCounting, Limit, MAX_COUNT, MAX_DURATION_MS, MAX_PER_CALL, PerCall, Policy,
    call_max, call_period_ms, duration_text,
};

/// The policies that take numbers from a call.
pub(super) const WITH_PER_CALL: &[&str] =
    &["interval", "calendar", "sliding", "sliding-counter", "token", "gcra", "total", "distinct"];
/// Those that take a rate from it.
pub(super) const WITH_PERIOD: &[&str] =
    &["interval", "calendar", "sliding", "sliding-counter", "token", "gcra"];
/// The least default of `max-period`.
const DAY_MS: u64 = 86_400_000;

/// What a call may bring for a limit of the policy of this name. `None` if it brings nothing.
pub(super) fn per_call(
    notes: &mut Notes<'_>,
    element: &Element,
    name: Checked<&str>,
    policy: &Checked<Policy>,
) -> Checked<Option<PerCall>> {
    // A policy without `per-call` has noted each of these settings.
    if name.is_ok_and(|name| !WITH_PER_CALL.contains(&name)) {
        return Ok(None);
    }
    let policy = policy.as_ref().ok();
    let is_per_call = element.or(notes, "per-call", false, boolean);
    let most = element.optional(notes, "most", most(policy));
    let max_period_ms = match name {
        Ok(name) if !WITH_PERIOD.contains(&name) => Ok(None),
        _ => element.optional(notes, "max-period", period(policy)),
    };
    let is_per_call = is_per_call?;
    if let Some(policy) = policy {
        no_sketch(notes, element, policy)?;
    }
    if !is_per_call {
        return alone(notes, element, name).map(|()| None);
    }
    let (most, max_period_ms) = (most?, max_period_ms?);
    Ok(policy.map(|policy| PerCall {
        most: most.unwrap_or_else(|| default_most(policy)),
        max_period_ms: max_period_ms.unwrap_or_else(|| default_period_ms(policy)),
    }))
}

/// A reader of `most`.
fn most(policy: Option<&Policy>) -> impl Fn(&str) -> Parsed<u64> {
    let own = policy.and_then(call_max);
    let what = match policy {
        Some(Policy::Token(_) | Policy::Gcra(_)) => "burst",
        _ => "max",
    };
    move |text| {
        let Some(own) = &own else { return whole(0, MAX_COUNT)(text) };
        let (least, most) = (*own.start(), *own.end());
        whole(least, most)(text)
            .map_err(|expected| format!("{expected}; the {what} of the limit itself is {least}"))
    }
}

/// A reader of `max-period`.
fn period(policy: Option<&Policy>) -> impl Fn(&str) -> Parsed<u64> {
    let own = policy.and_then(call_period_ms).unwrap_or(1..=MAX_DURATION_MS);
    move |text| {
        let (least, most) = (*own.start(), *own.end());
        duration(least, most)(text).map_err(|expected| match least {
            1 => expected,
            _ => {
                let window = duration_text(least);
                format!("{expected}; a window of the limit itself takes up to {window}")
            }
        })
    }
}

/// The default of `most`. CL.THROTTLE brings its own limit, so that of `gcra` has no bound.
fn default_most(policy: &Policy) -> u64 {
    match policy {
        Policy::Gcra(_) => u64::MAX,
        policy => policy.max().unwrap_or(0),
    }
}

/// The default of `max-period`. 0 if no rate of a call has a place in the limit.
fn default_period_ms(policy: &Policy) -> u64 {
    call_period_ms(policy).map_or(0, |own| DAY_MS.max(*own.start()))
}

/// Notes `per-call` of a sketch, whose max refuses nothing.
fn no_sketch(notes: &mut Notes<'_>, element: &Element, policy: &Policy) -> Checked<()> {
    match (policy, element.attribute("per-call")) {
        (
            Policy::Distinct(Distinct { counting: DistinctCounting::Sketch { .. }, .. }),
            Some(attribute),
        ) => {
            let expected = "precision=\"exact\" with it: a sketch refuses nothing";
            Err(notes.note(attribute.at, "attribute per-call with a sketch", expected))
        }
        _ => Ok(()),
    }
}

/// Notes each setting that is allowed only with `per-call="true"`.
fn alone(notes: &mut Notes<'_>, element: &Element, policy: Checked<&str>) -> Checked<()> {
    let mut alone = Ok(());
    for (name, policies) in [("most", WITH_PER_CALL), ("max-period", WITH_PERIOD)] {
        let is_own = policy.is_ok_and(|policy| policies.contains(&policy));
        if let Some(attribute) = element.attribute(name).filter(|_| is_own) {
            let found = format!("attribute {name} without per-call=\"true\"");
            let expected = format!("per-call=\"true\", or no {name}");
            alone = Err(notes.note(attribute.at, found, expected));
        }
    }
    alone
}

/// Notes the first limit of a biz with which too many take numbers from a call.
pub(super) fn few_enough(notes: &mut Notes<'_>, biz: &Element, limits: &[Checked<Limit>]) {
    let mut taking = biz
        .children_named("limit")
        .zip(limits)
        .filter(|(_, limit)| limit.as_ref().is_ok_and(|limit| limit.per_call.is_some()));
    if let Some((element, _)) = taking.nth(MAX_PER_CALL) {
        let at = element.attribute("per-call").map_or(element.at, |attribute| attribute.at);
        let found = format!("per-call in more than {MAX_PER_CALL} limits");
        notes.note(at, found, format!("it in at most {MAX_PER_CALL} limits of a biz"));
    }
}
