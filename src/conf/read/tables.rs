//! Reads the tables of a biz's records: the ids of retries by `once`, and holds by `holds`.
//!
//! Invariant: a biz with a `concurrent` limit has holds. A hold stands only beside limits that can
//! take back what it was charged, or that charge it once.

use super::faults::{Checked, Faulty, Notes};
use super::scalar::{duration, whole, word};
use super::xml::Element;
use crate::schema::{Holds, Limit, ListRule, Listed, MAX_HOLDS, MAX_ONCE, OnLapse, Once, Policy};

const SECOND_MS: u64 = 1000;
const HOUR_MS: u64 = 3_600_000;
/// The default of `once-for` and of `hold-ttl`.
const DEFAULT_LIFE_MS: u64 = 60_000;
/// The longest life of a hold.
const MAX_HOLD_MS: u64 = 7 * 24 * HOUR_MS;
/// Settings that are allowed only where calls hold something.
const WITH_HOLDS: [&str; 2] = ["hold-ttl", "on-lapse"];

/// The ids that a record remembers. `None` if it remembers none.
pub(super) fn once(notes: &mut Notes<'_>, biz: &Element) -> Checked<Option<Once>> {
    let ids = biz.optional(notes, "once", whole(1, MAX_ONCE.into()));
    let for_ms = biz.or(notes, "once-for", DEFAULT_LIFE_MS, duration(SECOND_MS, HOUR_MS));
    if let (Ok(None), Some(attribute)) = (ids, biz.attribute("once-for")) {
        let expected = "it with once only";
        return Err(notes.note(attribute.at, "attribute once-for without once", expected));
    }
    let (ids, for_ms) = (ids?, for_ms?);
    Ok(ids.map(|ids| Once { ids: ids as u8, for_ms }))
}

/// The holds of a record. `None` if calls hold nothing.
pub(super) fn holds(
    notes: &mut Notes<'_>,
    biz: &Element,
    limits: &[Checked<Limit>],
    listed: &[Checked<Listed>],
) -> Checked<Option<Holds>> {
    let entries = biz.optional(notes, "holds", whole(1, MAX_HOLDS.into()));
    let ttl_ms = biz.or(notes, "hold-ttl", DEFAULT_LIFE_MS, duration(SECOND_MS, MAX_HOLD_MS));
    let lapses = word(&[("keep", OnLapse::Keep), ("free", OnLapse::Free)]);
    let on_lapse = biz.or(notes, "on-lapse", OnLapse::Keep, lapses);
    let is_concurrent = limits.iter().flatten().any(is_concurrent);
    // A limit with a fault may be meant to be `concurrent`.
    let is_known = is_concurrent || limits.iter().all(Result::is_ok);
    let entries = match entries? {
        Some(entries) => {
            if is_known && !is_concurrent {
                gives_back(notes, biz, limits)?;
            }
            entries
        }
        None if is_concurrent => largest_max(limits, listed)?.clamp(1, MAX_HOLDS.into()),
        None if is_known => return without_holds(notes, biz).map(|()| None),
        None => return Err(Faulty),
    };
    if is_concurrent {
        no_members(notes, biz, limits)?;
        if on_lapse == Ok(OnLapse::Free) {
            let found = "on-lapse=\"free\" with policy=\"concurrent\"";
            let expected = "no on-lapse: there a hold that lapses always frees its places";
            return Err(notes.note(biz.value_at("on-lapse"), found, expected));
        }
    }
    Ok(Some(Holds { entries: entries as u16, ttl_ms: ttl_ms?, on_lapse: on_lapse? }))
}

fn is_concurrent(limit: &Limit) -> bool {
    matches!(limit.policy, Policy::Concurrent(_))
}

/// The largest max of the `concurrent` limits, overrides included.
fn largest_max(limits: &[Checked<Limit>], listed: &[Checked<Listed>]) -> Checked<u64> {
    let mut largest = 0;
    for limit in limits {
        let limit = limit.as_ref().map_err(|&faulty| faulty)?;
        if let Policy::Concurrent(concurrent) = &limit.policy {
            largest = largest.max(concurrent.max);
        }
    }
    for listed in listed {
        let listed = listed.as_ref().map_err(|&faulty| faulty)?;
        if let ListRule::Override { limit, max } = listed.rule
            && limits.get(limit).is_some_and(|limit| limit.as_ref().is_ok_and(is_concurrent))
        {
            largest = largest.max(max);
        }
    }
    Ok(largest)
}

/// Notes each setting of holds of a biz that has none.
fn without_holds(notes: &mut Notes<'_>, biz: &Element) -> Checked<()> {
    let mut without = Ok(());
    for attribute in WITH_HOLDS.iter().filter_map(|name| biz.attribute(name)) {
        let found = format!("attribute {} without holds", attribute.name);
        let expected = "it with holds or a limit of policy=\"concurrent\" only";
        without = Err(notes.note(attribute.at, found, expected));
    }
    without
}

/// Notes `holds` beside a limit that keeps each use or each member: it cannot take back those of a
/// hold.
fn gives_back(notes: &mut Notes<'_>, biz: &Element, limits: &[Checked<Limit>]) -> Checked<()> {
    let keeps_each = |policy: &Policy| matches!(policy, Policy::Sliding(_) | Policy::Distinct(_));
    let beside = limits.iter().flatten().find(|limit| keeps_each(&limit.policy));
    let Some(limit) = beside else { return Ok(()) };
    let (name, holds) = (limit.policy.name(), biz.value_of("holds"));
    let found = format!("holds=\"{holds}\" beside policy=\"{name}\"");
    let expected = "limits of policy=\"interval\", \"calendar\", \"sliding-counter\", \"token\", \
                    \"gcra\", \"total\" and \"count\" only, or one of policy=\"concurrent\"";
    Err(notes.note(biz.value_at("holds"), found, expected))
}

/// Notes a `distinct` limit beside a `concurrent` one.
fn no_members(notes: &mut Notes<'_>, biz: &Element, limits: &[Checked<Limit>]) -> Checked<()> {
    let mut alone = Ok(());
    for (element, limit) in biz.children_named("limit").zip(limits) {
        if let Ok(Limit { policy: Policy::Distinct(_), .. }) = limit {
            let found = "policy=\"distinct\" beside policy=\"concurrent\"";
            let expected = "another biz for it: what is held has no member";
            alone = Err(notes.note(element.value_at("policy"), found, expected));
        }
    }
    alone
}
