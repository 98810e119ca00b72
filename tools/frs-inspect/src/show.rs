//! Shows values to people: times, durations, bytes, ranks, keys.

use frs_base::figures::{self, grouped};
use frs_conf::key::KeyForm;
use frs_engine::inspect::{
    Hold, HoldState, KeptRegister, NodePlace, RefusedNode, SharedRecord, Skipped,
};
use frs_limit::LimitFigures;
use frs_store::{Fault, Rank, Version};

/// A time in milliseconds since the Unix epoch, as RFC 3339 in UTC. A number if no calendar has the
/// time.
pub fn time(ms: u64) -> String {
    figures::time(ms, 3)
}

/// The time of day in UTC.
pub fn time_of_day(ms: u64) -> String {
    let time = figures::time(ms, 0);
    time.split_once('T').map_or(time.clone(), |(_, of_day)| of_day.to_owned())
}

/// A duration, in the units that suit its length.
pub fn span(ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..120_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        120_000..7_200_000 => format!("{} m {} s", ms / 60_000, ms / 1000 % 60),
        7_200_000..172_800_000 => format!("{} h {} m", ms / 3_600_000, ms / 60_000 % 60),
        _ => format!("{} d {} h", grouped(ms / 86_400_000), ms / 3_600_000 % 24),
    }
}

/// The time since `ms`.
pub fn ago(ms: u64, now: u64) -> String {
    match now.checked_sub(ms) {
        Some(since) => format!("{} ago", span(since)),
        None => format!("{} ahead of this clock", span(ms - now)),
    }
}

/// A share in hundredths of a percent. A part other than 0 is never shown as 0.
pub fn share(part: u64, whole: u64) -> String {
    if part == 0 || whole == 0 {
        return "0 %".to_owned();
    }
    let hundredths = u128::from(part) * 10_000 / u128::from(whole);
    match hundredths {
        0 => "< 0.01 %".to_owned(),
        hundredths => format!("{}.{:02} %", hundredths / 100, hundredths % 100),
    }
}

/// The word for the cost of losing a node.
pub const fn rank(rank: Rank) -> &'static str {
    match rank {
        Rank::Expired => "expired",
        Rank::Idle => "idle",
        Rank::Limiting => "limiting",
        Rank::Banned => "banned",
        Rank::Kept => "kept",
    }
}

/// The owner of a mirrored record, and its version. `run` is the number of this run of this
/// machine, if it is known.
pub fn version(version: Version, run: Option<u32>) -> String {
    let Version { takeovers, changes, host, .. } = version;
    let owner = match run {
        Some(run) if run == host => "this machine".to_owned(),
        _ => format!("host {host:08x}: a copy, or from before the last start"),
    };
    format!(
        "{owner} (takeovers {}, changes {})",
        grouped(takeovers.into()),
        grouped(changes.into())
    )
}

/// The word for the stored form of a key.
pub const fn form(form: KeyForm) -> &'static str {
    match form {
        KeyForm::Text => "text",
        KeyForm::Integer => "integer",
        KeyForm::V4 => "IPv4 address",
        KeyForm::V6 => "IPv6 address",
        KeyForm::Digest => "digest",
        KeyForm::Biz => "the whole business",
    }
}

/// A key on a line of text: quoted, with escapes for characters that would break the line.
pub fn key(key: &str) -> String {
    format!("\"{}\"", key.escape_debug())
}

/// The key of a refused item. A key that was cut is shown as `"how it begins"… digest:…`.
pub fn refused_key(node: &RefusedNode) -> String {
    match &node.begins {
        Some(begins) => format!("{}… {}", key(begins), node.key),
        None => key(&node.key),
    }
}

/// A register: `"7", expires in 59.9 s`.
pub fn register(register: &KeptRegister, now: u64) -> String {
    let expires = match register.expires_ms {
        None => "never expires".to_owned(),
        Some(end) if end <= now => format!("expired {}", ago(end, now)),
        Some(end) => format!("expires in {}", span(end - now)),
    };
    format!("{}, {expires}", key(&register.value))
}

/// The totals of earlier windows: `before: 1,204, 998, 0`.
pub fn history(totals: &[u32]) -> String {
    let totals: Vec<String> = totals.iter().map(|&total| grouped(total.into())).collect();
    match totals.is_empty() {
        true => "no window before is known".to_owned(),
        false => format!("before: {}", totals.join(", ")),
    }
}

/// The figures of a limit: `3 of 5 used, 2 left, turns in 59.9 s`.
pub fn figures(limit: &LimitFigures) -> String {
    let figures = &limit.figures;
    let [used, max, remaining] = [figures.used, figures.max, figures.remaining].map(grouped);
    let mut text = match limit.policy {
        "count" => format!("{used} counted"),
        "distinct" => members(limit),
        _ => format!("{used} of {max} used, {remaining} left"),
    };
    match figures.reset_ms {
        Some(0) => {}
        Some(ms) => text.push_str(&format!(", fresh in {}", span(ms))),
        None => text.push_str(", never fresh again"),
    }
    if limit.limited {
        text.push_str(", limits");
    }
    text
}

/// The number of members that a `distinct` limit has noted, exact or estimated.
fn members(limit: &LimitFigures) -> String {
    let [used, max, remaining] =
        [limit.figures.used, limit.figures.max, limit.figures.remaining].map(grouped);
    let mut text = match limit.error_thousandths {
        None => format!("{used} of {max} members, {remaining} left"),
        Some(thousandths) => {
            let percent = format!("{}.{} %", thousandths / 10, thousandths % 10);
            format!("about {used} members, standard error {percent}")
        }
    };
    if limit.error_thousandths.is_some() && limit.figures.max > 0 {
        text.push_str(&format!(", advises above {max}"));
    }
    text
}

/// The figures of a lease, in two lines: what this machine holds; what it has heard.
pub fn lease(lease: &SharedRecord) -> [String; 2] {
    let window = lease.window_ms.map_or_else(|| "none".to_owned(), time);
    let ends = match lease.ends_ms {
        None => "never".to_owned(),
        Some(0) => "ended".to_owned(),
        Some(ms) => format!("in {} ms", grouped(ms)),
    };
    let (allowance, used) = (grouped(lease.allowance), grouped(lease.used));
    let void = if lease.is_void { ", void: of an earlier boot or another machine" } else { "" };
    let elsewhere = match (lease.elsewhere, lease.used_elsewhere) {
        (Some(uses), _) => format!("elsewhere {}", grouped(uses)),
        (None, Some(uses)) => format!("used elsewhere {}", grouped(uses)),
        (None, None) => "elsewhere not heard of".to_owned(),
    };
    let heard = lease
        .age_ms
        .map_or_else(String::new, |age_ms| format!(", heard {} ms ago", grouped(age_ms)));
    let in_flight = if lease.in_flight { "yes" } else { "no" };
    [
        format!("allowance {allowance}, used here {used}, window {window}, ends {ends}{void}"),
        format!("{elsewhere}{heard}, in flight {in_flight}"),
    ]
}

/// The holds of a record, counted: `2 live hold 1,323, 1 lapsed, 3 settled`.
pub fn holds(holds: &[Hold]) -> String {
    let of = |state: HoldState| holds.iter().filter(move |hold| hold.state == state);
    let held = of(HoldState::Live).map(|hold| u64::from(hold.count)).sum();
    let live = of(HoldState::Live).count() as u64;
    let verb = if live == 1 { "holds" } else { "hold" };
    let mut text = format!("{} live {verb} {}", grouped(live), grouped(held));
    for state in [HoldState::Lapsed, HoldState::Settled] {
        match of(state).count() as u64 {
            0 => {}
            count => text.push_str(&format!(", {} {}", grouped(count), state.word())),
        }
    }
    text
}

/// A hold: `9f86d081884c7d65  3 live, made 1.2 s ago, ends in 28.8 s`.
pub fn hold(hold: &Hold, now: u64) -> String {
    let (count, state, made) =
        (grouped(hold.count.into()), hold.state.word(), ago(hold.made_ms, now));
    let ends = match hold.end_ms.checked_sub(now) {
        Some(left) if left > 0 => format!("ends in {}", span(left)),
        _ => format!("ended {}", ago(hold.end_ms, now)),
    };
    format!("{}  {count} {state}, made {made}, {ends}", hold.id)
}

/// A place in a group.
pub fn place(place: &NodePlace) -> String {
    format!("file {} key-node {} place {}", place.file, place.key_node, place.place)
}

/// The fault of a place in a chain.
pub fn fault(fault: Fault) -> String {
    match fault {
        Fault::Crc => "the node's CRC fails".to_owned(),
        Fault::Misplaced => "the node's key belongs elsewhere, or is no key".to_owned(),
        Fault::Duplicate => "another place holds the same key, used later".to_owned(),
        Fault::Tag { expected } => format!("the tag is wrong: {expected} was expected"),
        Fault::Moved { .. } => "it has moved to the new geometry".to_owned(),
        Fault::Beyond => "a tag beyond the end of the chain".to_owned(),
    }
}

/// The words for a node that a dead process left half written.
pub fn half_written(slot: u32) -> String {
    format!("half written by slot {slot}, whose process died: undone at its next use or a start")
}

/// The words for a node that could not be read.
pub fn skipped(skipped: &Skipped) -> String {
    match skipped {
        Skipped::InTransaction { group, place: at, slot } => {
            format!("group {group}: {}: in transaction of slot {slot}", place(at))
        }
        Skipped::HalfWritten { group, place: at, slot } => {
            format!("group {group}: {}: {}", place(at), half_written(*slot))
        }
        Skipped::Damaged { group, place: at, fault: what } => {
            format!("group {group}: {}: {}", place(at), fault(*what))
        }
    }
}
