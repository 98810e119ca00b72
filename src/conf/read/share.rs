//! `share` of a `<biz>` and the settings that go with it, read: defaults and bounds.
//!
//! Invariant: the ledger's floating-point numbers hold the figures of a shared limit, the sums of
//! several of them, and the products that the ledger computes, exactly.

use super::faults::{Checked, Notes, checked, shown};
use super::scalar::{duration, only_with, whole32, word};
use super::xml::{Attribute, Element};
use crate::schema::{
    Calendar, Interval, Limit, ListRule, Listed, MAX_BURST, MAX_SHARED, MAX_SHARED_COUNTER_MS,
    MAX_SHARED_MS, OnDown, OnMiss, Policy, Share, Sharing, SlidingCounter, Token, most_rate,
};

/// The shortest life of a ledger of tokens: two leases of 2 s. If its bucket takes longer than that
/// to fill twice, the ledger lives that long.
const TOKEN_LIFE_MS: u64 = 4000;
// At most the rate times the ledger's life flows back. For the shortest life, the assertion bounds
// this product. For a longer life, it is twice a burst. So bursts need no check of their own.
const _: () = assert!(TOKEN_LIFE_MS * most_rate(1) <= MAX_SHARED && 2 * MAX_BURST <= MAX_SHARED);
/// Why holds are this machine's.
pub(crate) const HOLDS_STAY: &str = "holds are not shared over machines yet; route by key";
const SHARES: [(&str, Option<Share>); 3] =
    [("host", None), ("cluster", Some(Share::Cluster)), ("exact", Some(Share::Exact))];
/// Settings that are allowed only with a share.
const SETTINGS: [&str; 4] = ["on-miss", "on-down", "wait", "hosts"];

/// The share of a biz. `None` if its limits are each machine's own.
pub(super) fn sharing(notes: &mut Notes<'_>, biz: &Element) -> Checked<Option<Sharing>> {
    match biz.or(notes, "share", None, word(&SHARES)) {
        Ok(None) => alone(notes, biz).map(|()| None),
        Ok(Some(share)) => settings(notes, biz, share).map(Some),
        Err(faulty) => {
            // Only faults of the other settings that do not depend on the share are noted.
            let _noted = settings(notes, biz, Share::Exact);
            Err(faulty)
        }
    }
}

/// Notes each setting that is allowed only with a share.
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
    let default = match share {
        Share::Cluster => OnDown::Share,
        Share::Exact => OnDown::Refuse,
    };
    let downs =
        word(&[("share", OnDown::Share), ("local", OnDown::Local), ("refuse", OnDown::Refuse)]);
    Ok(checked!(Sharing {
        share: Checked::Ok(share),
        on_miss: biz.or(notes, "on-miss", OnMiss::Refuse, misses),
        on_down: biz.or(notes, "on-down", default, downs),
        wait_ms: biz.or(notes, "wait", 20, duration(1, 1000)),
        hosts: match (share, on_down) {
            (Ok(Share::Cluster), _) | (_, Ok(OnDown::Share)) => {
                biz.required(notes, "hosts", whole32(1, 1024))
            }
            _ => biz.or(notes, "hosts", 1, whole32(1, 1024)),
        },
    }))
}

/// The name of the share of a biz, if its limits are shared.
pub(crate) fn named_share(biz: &Element) -> Option<&str> {
    let share = biz.attribute("share")?.value.as_str();
    SHARES.iter().any(|(name, value)| *name == share && value.is_some()).then_some(share)
}

/// Notes the limits and overrides of a biz that cannot be shared.
pub(super) fn limits_fit(
    notes: &mut Notes<'_>,
    biz: &Element,
    limits: &[Checked<Limit>],
    listed: &[Checked<Listed>],
) {
    let Some(share) = named_share(biz) else { return };
    if let Some(Attribute { value, value_at, .. }) = biz.attribute("holds") {
        let expected = format!("none with share=\"{share}\": {HOLDS_STAY}");
        notes.note(*value_at, format!("holds=\"{}\"", shown(value)), expected);
    }
    let elements = biz.children_named("limit");
    for (element, limit) in elements.zip(limits) {
        if let Ok(limit) = limit {
            limit_fits(notes, element, limit, share);
        }
    }
    let lists = |element: &&Element| ["allow", "deny", "override"].contains(&&*element.name);
    for (element, listed) in biz.children.iter().filter(lists).zip(listed) {
        if let Ok(Listed { rule: ListRule::Override { max, .. }, .. }) = listed {
            figure_fits(notes, element, share, "max", *max, MAX_SHARED);
        }
    }
}

fn limit_fits(notes: &mut Notes<'_>, element: &Element, limit: &Limit, share: &str) {
    if element.attribute("max").is_some() {
        let max = limit.policy.max().unwrap_or(0);
        figure_fits(notes, element, share, "max", max, MAX_SHARED);
    }
    match &limit.policy {
        Policy::Interval(Interval { interval_ms, .. }) => {
            figure_fits(notes, element, share, "interval", *interval_ms, MAX_SHARED_MS);
        }
        Policy::SlidingCounter(SlidingCounter { interval_ms, .. }) => {
            figure_fits(notes, element, share, "interval", *interval_ms, MAX_SHARED_COUNTER_MS);
        }
        Policy::Token(Token { rate, .. }) => {
            figure_fits(notes, element, share, "rate", *rate, MAX_SHARED);
        }
        Policy::Gcra(_) => {
            let expected = format!("another policy, such as token, with share=\"{share}\"");
            notes.note(element.value_at("policy"), "policy=\"gcra\"", expected);
        }
        Policy::Distinct(_) => {
            let expected = format!("another policy with share=\"{share}\", or share=\"host\"");
            notes.note(element.value_at("policy"), "policy=\"distinct\"", expected);
        }
        Policy::Concurrent(_) => {
            let expected =
                format!("another policy with share=\"{share}\", or share=\"host\": {HOLDS_STAY}");
            notes.note(element.value_at("policy"), "policy=\"concurrent\"", expected);
        }
        // The bound of a `sliding` interval is below that of a shared one.
        Policy::Calendar(_) | Policy::Sliding(_) | Policy::Total(_) | Policy::Count(_) => {}
    }
    if let Policy::Interval(Interval { debt, .. }) | Policy::Calendar(Calendar { debt, .. }) =
        &limit.policy
        && *debt > 0
    {
        let expected =
            format!("none with share=\"{share}\": nothing can be lent of what is leased");
        notes.note(element.value_at("debt"), format!("debt=\"{debt}\""), expected);
    }
    if limit.per_call.is_some() {
        let expected =
            format!("none with share=\"{share}\": what machines lease is the maximum of map.xml");
        let at = element.attribute("per-call").map_or(element.at, |attribute| attribute.at);
        notes.note(at, "per-call=\"true\"", expected);
    }
    if limit.history > 0 {
        let expected =
            format!("none with share=\"{share}\": a machine knows its own uses of a window only");
        notes.note(element.value_at("history"), format!("history=\"{}\"", limit.history), expected);
    }
}

/// Notes a figure above its bound. The bound is shown in milliseconds for an interval, and in the
/// written unit for anything else.
fn figure_fits(
    notes: &mut Notes<'_>,
    element: &Element,
    share: &str,
    name: &str,
    value: u64,
    most: u64,
) {
    if value > most {
        let text = element.value_of(name);
        let unit = match name {
            "interval" => "ms",
            _ => text.trim_start_matches(|digit: char| digit.is_ascii_digit()),
        };
        let expected = format!("at most {most}{unit} with share=\"{share}\"");
        notes.note(element.value_at(name), format!("{name}=\"{text}\""), expected);
    }
}
