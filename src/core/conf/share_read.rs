//! `share` of a `<biz>` and what goes with it, read: defaults and bounds.
//!
//! Invariant: figures of a limit that machines share are such that the ledger's floating-point
//! numbers hold them, and the sums of two of them, exactly.

use super::bounds::MAX_BURST;
use super::fault::{Checked, Notes};
use super::map::{Limit, ListRule, Listed, Policy};
use super::share::{OnDown, OnMiss, Share, Sharing};
use super::value::{duration, only_with, whole32, word};
use super::xml::Element;

/// The largest max, burst and interval of a limit that machines share.
const MAX_SHARED: u64 = 1 << 50;
const _: () = assert!(MAX_BURST <= MAX_SHARED, "bursts need no look");
const SHARES: [(&str, Option<Share>); 3] =
    [("host", None), ("cluster", Some(Share::Cluster)), ("exact", Some(Share::Exact))];
/// Settings that go with a share only.
const SETTINGS: [&str; 4] = ["on-miss", "on-down", "wait", "hosts"];

/// What a biz says of its share; none: its limits are each machine's own.
pub(super) fn sharing(notes: &mut Notes<'_>, biz: &Element) -> Checked<Option<Sharing>> {
    match biz.or(notes, "share", None, word(&SHARES)) {
        Ok(None) => alone(notes, biz).map(|()| None),
        Ok(Some(share)) => settings(notes, biz, share).map(Some),
        Err(faulty) => {
            // Of the other settings only what is wrong in itself can be told.
            let _noted = settings(notes, biz, Share::Exact);
            Err(faulty)
        }
    }
}

/// Notes each setting that goes with a share.
fn alone(notes: &mut Notes<'_>, biz: &Element) -> Checked<()> {
    let how = biz.attribute("share").map_or("without share", |_| "with share=\"host\"");
    let mut alone = Ok(());
    for attribute in SETTINGS.iter().filter_map(|name| biz.attribute(name)) {
        let found = format!("attribute {} {how}", attribute.name);
        let expected = only_with("share", &["cluster", "exact"]);
        alone = Err(notes.note(attribute.at, found, expected));
    }
    alone
}

fn settings(notes: &mut Notes<'_>, biz: &Element, share: Share) -> Checked<Sharing> {
    let misses =
        word(&[("refuse", OnMiss::Refuse), ("admit", OnMiss::Admit), ("busy", OnMiss::Busy)]);
    let on_miss = biz.or(notes, "on-miss", OnMiss::Refuse, misses);
    let default = match share {
        Share::Cluster => OnDown::Share,
        Share::Exact => OnDown::Refuse,
    };
    let downs =
        word(&[("share", OnDown::Share), ("local", OnDown::Local), ("refuse", OnDown::Refuse)]);
    let on_down = biz.or(notes, "on-down", default, downs);
    let wait = biz.or(notes, "wait", 20, duration(1, 1000));
    let hosts = match (share, on_down) {
        (Share::Cluster, _) | (_, Ok(OnDown::Share)) => {
            biz.required(notes, "hosts", whole32(1, 1024))
        }
        _ => biz.or(notes, "hosts", 1, whole32(1, 1024)),
    };
    Ok(Sharing { share, on_miss: on_miss?, on_down: on_down?, wait_ms: wait?, hosts: hosts? })
}

/// The share that a biz names, if it names one.
fn named_share(biz: &Element) -> Option<&str> {
    let share = biz.attribute("share")?.value.as_str();
    SHARES.iter().any(|(name, value)| *name == share && value.is_some()).then_some(share)
}

/// Notes what the limits of a biz and their overrides may not be if machines share them.
pub(super) fn limits_fit(
    notes: &mut Notes<'_>,
    biz: &Element,
    limits: &[Checked<Limit>],
    listed: &[Checked<Listed>],
) {
    let Some(share) = named_share(biz) else { return };
    let elements = biz.children_named("limit");
    for (element, limit) in elements.zip(limits) {
        if let Ok(limit) = limit {
            limit_fits(notes, element, limit, share);
        }
    }
    let lists = |element: &&Element| ["allow", "deny", "override"].contains(&&*element.name);
    for (element, listed) in biz.children.iter().filter(lists).zip(listed) {
        if let Ok(Listed { rule: ListRule::Override { max, .. }, .. }) = listed {
            bounded(notes, element, "max", *max, share);
        }
    }
}

fn limit_fits(notes: &mut Notes<'_>, element: &Element, limit: &Limit, share: &str) {
    if element.attribute("max").is_some() {
        bounded(notes, element, "max", limit.policy.max().unwrap_or(0), share);
    }
    let (interval_ms, debt) = match &limit.policy {
        Policy::Interval(limit) => (limit.interval_ms, limit.debt),
        Policy::Calendar(limit) => (0, limit.debt),
        Policy::SlidingCounter(limit) => (limit.interval_ms, 0),
        Policy::Sliding(_) | Policy::Token(_) | Policy::Total(_) | Policy::Count(_) => (0, 0),
    };
    bounded(notes, element, "interval", interval_ms, share);
    if debt > 0 {
        let expected =
            format!("none with share=\"{share}\": nothing can be lent of what is leased");
        notes.note(element.value_at("debt"), format!("debt=\"{debt}\""), expected);
    }
}

fn bounded(notes: &mut Notes<'_>, element: &Element, name: &str, value: u64, share: &str) {
    if value > MAX_SHARED {
        let unit = if name == "interval" { "ms" } else { "" };
        let expected = format!("at most {MAX_SHARED}{unit} with share=\"{share}\"");
        notes.note(element.value_at(name), format!("{name}=\"{value}{unit}\""), expected);
    }
}

/// Notes each biz that machines share, where srv.xml names no cluster.
pub(super) fn without_cluster<'e>(
    notes: &mut Notes<'_>,
    bizs: impl IntoIterator<Item = &'e Element>,
) {
    for biz in bizs {
        if let Some(share) = named_share(biz) {
            let expected = "a <cluster> in srv.xml, or share=\"host\"";
            notes.note(biz.value_at("share"), format!("share=\"{share}\""), expected);
        }
    }
}
