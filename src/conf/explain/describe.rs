//! What limits allow, in words for `frs check` and for pages.
//!
//! Invariant: each text is one line and follows from the checked settings alone.

use std::fmt::Write as _;

use frs_base::figures::grouped;

use crate::schema::{
    Biz, DURATION_UNITS, Distinct, DistinctCounting, Holds, Limit, ListRule, Mode, OnLapse, Once,
    PerCall, Policy, RATE_UNITS, RegisterRoom, Scope, Share, Sharing, Suffix, Turns, Unit, Weight,
    sketch_words,
};

/// The most weights that are listed. `…` stands for all later ones.
const MAX_WEIGHTS_LISTED: usize = 8;

/// What a biz allows: its name, each of its limits or its registers, the numbers of its listed
/// keys, how machines share it, and its mode unless it enforces: `login: 5 in 60 s from the first
/// use, then banned for 10 m`.
pub fn biz_words(biz: &Biz) -> String {
    let limits: Vec<String> = match biz.limits.as_slice() {
        [limit] => vec![limit_words(limit)],
        limits => (1..).zip(limits).map(|(nth, l)| format!("({nth}) {}", limit_words(l))).collect(),
    };
    let mut words = format!("{}: {}", biz.name, limits.join("; "));
    if let Some(room) = &biz.register {
        words.push_str(&register_words(room));
    }
    if let Some(Once { ids, for_ms }) = biz.once {
        let life = duration_words(for_ms);
        let ids = if ids == 1 { "id".to_owned() } else { format!("{ids} ids") };
        let _ = write!(words, "; retries charge once: the last {ids} for {life}");
    }
    if let Some(holds) = &biz.holds {
        let _ = write!(words, "; {}", holds_words(holds, biz.is_concurrent()));
    }
    let lists = lists_words(biz);
    if !lists.is_empty() {
        let _ = write!(words, "; listed keys: {lists}");
    }
    if let Some(sharing) = &biz.sharing {
        let _ = write!(words, "; {}", sharing_words(sharing));
    }
    words.push_str(match biz.mode {
        Mode::Enforce => "",
        Mode::Shadow => "; in shadow: judged, and nothing is refused",
        Mode::Off => "; off: nothing is judged",
    });
    words
}

/// What a register holds: `registers, each a number or a text of at most 40 bytes`.
fn register_words(room: &RegisterRoom) -> String {
    match room.text_bytes {
        0 => "registers, each a number".to_owned(),
        bytes => format!("registers, each a number or a text of at most {bytes} bytes"),
    }
}

/// What a limit allows: `3 in each natural day of Asia/Shanghai, turning at 00:00`.
pub fn limit_words(limit: &Limit) -> String {
    let mut words = policy_words(&limit.policy);
    if let Some(per_call) = &limit.per_call {
        words.push_str(&per_call_words(per_call));
    }
    match limit.history {
        0 => {}
        1 => words.push_str(", the window before is kept"),
        windows => {
            let _ = write!(words, ", the {windows} windows before are kept");
        }
    }
    if limit.scope == Scope::Biz {
        words.push_str(", for all keys together");
    }
    if let Some(ban_ms) = limit.ban_ms {
        let _ = write!(words, ", then banned for {}", duration_words(ban_ms));
    }
    if let Some(advice) = &limit.advice {
        let _ = write!(words, ", beyond that the word {advice}");
    }
    if !limit.weights.is_empty() {
        let _ = write!(words, ", weighing {}", weights_words(&limit.weights));
    }
    words
}

/// The bounds of what a call brings: `, or what the call brings, up to 200 in at most 24 h`.
fn per_call_words(PerCall { most, max_period_ms }: &PerCall) -> String {
    let mut words = ", or what the call brings".to_owned();
    let mut bounds = Vec::new();
    if *most < u64::MAX {
        bounds.push(format!("up to {}", grouped(*most)));
    }
    if *max_period_ms > 0 {
        bounds.push(format!("in at most {}", duration_words(*max_period_ms)));
    }
    if !bounds.is_empty() {
        let _ = write!(words, ", {}", bounds.join(" "));
    }
    words
}

/// What calls hold: `16 holds of at most 10 m, which stay charged when they lapse`.
fn holds_words(holds: &Holds, is_concurrent: bool) -> String {
    let (entries, life) = (grouped(holds.entries.into()), duration_words(holds.ttl_ms));
    let lapse = match (is_concurrent, holds.on_lapse) {
        (true, _) => "freed when they lapse",
        (false, OnLapse::Keep) => "which stay charged when they lapse",
        (false, OnLapse::Free) => "given back when they lapse",
    };
    let holds = if holds.entries == 1 { "hold" } else { "holds" };
    format!("{entries} {holds} of at most {life}, {lapse}")
}

fn policy_words(policy: &Policy) -> String {
    match policy {
        Policy::Interval(limit) => format!(
            "{} in {} from the first use",
            lent_words(limit.max, limit.debt),
            duration_words(limit.interval_ms)
        ),
        Policy::Calendar(limit) => {
            format!("{} in {}", lent_words(limit.max, limit.debt), turns_words(&limit.turns))
        }
        Policy::Sliding(limit) => {
            format!("{} in any {}", grouped(limit.max), duration_words(limit.interval_ms))
        }
        Policy::SlidingCounter(limit) => {
            format!("about {} in any {}", grouped(limit.max), duration_words(limit.interval_ms))
        }
        Policy::Token(limit) => bucket_words(limit.rate, limit.per_ms, limit.burst),
        Policy::Gcra(limit) => bucket_words(limit.rate, limit.per_ms, limit.burst),
        Policy::Total(limit) => format!("{} in all", grouped(limit.max)),
        Policy::Count(limit) => match &limit.turns {
            Some(turns) => format!("counted in {}, never refused", turns_words(turns)),
            None => "counted for ever, never refused".to_owned(),
        },
        Policy::Distinct(limit) => distinct_words(limit),
        Policy::Concurrent(limit) => format!("{} held at once", grouped(limit.max)),
    }
}

fn distinct_words(limit: &Distinct) -> String {
    let window = match &limit.turns {
        Some(turns) => format!("in {}", turns_words(turns)),
        None => "for ever".to_owned(),
    };
    match limit.counting {
        DistinctCounting::Exact { max } => format!("{} different members {window}", grouped(max)),
        DistinctCounting::Sketch { precision, max } => {
            let bytes = grouped(sketch_words(precision) as u64 * 8);
            let sketch = format!("by a sketch of {bytes} bytes");
            match max {
                Some(max) => format!("about {} different members {window}, {sketch}", grouped(max)),
                None => format!("different members counted {window}, {sketch}, never refused"),
            }
        }
    }
}

fn bucket_words(rate: u64, per_ms: u64, burst: u64) -> String {
    let unit = match RATE_UNITS.iter().find(|unit| unit.factor == per_ms) {
        Some(unit) => unit.name.to_owned(),
        None => format!("{per_ms} ms"),
    };
    format!("{}/{unit}, bursts of {}", grouped(rate), grouped(burst))
}

fn lent_words(max: u64, debt: u64) -> String {
    let max = grouped(max);
    if debt == 0 { max } else { format!("{max} and {} on credit", grouped(debt)) }
}

fn turns_words(turns: &Turns) -> String {
    let (unit, day) = match turns.unit {
        Unit::Minute => ("minute", None),
        Unit::Hour => ("hour", None),
        Unit::Day => ("day", Some("")),
        Unit::Week => ("week", Some("on Mondays ")),
        Unit::Month => ("month", Some("on the 1st ")),
        Unit::Year => ("year", Some("on 1 January ")),
    };
    let zone = turns.zone.iana_name().unwrap_or("UTC");
    let mut words = format!("each natural {unit} of {zone}");
    if let Some(day) = day {
        let (hours, minutes) = (turns.at_minutes / 60, turns.at_minutes % 60);
        let _ = write!(words, ", turning {day}at {hours:02}:{minutes:02}");
    }
    words
}

fn weights_words(weights: &[Weight]) -> String {
    let listed = weights.iter().take(MAX_WEIGHTS_LISTED);
    let mut listed: Vec<String> = listed
        .map(|weight| {
            format!("{} at {}", thousandths_words(weight.thousandths), grouped(weight.at))
        })
        .collect();
    if weights.len() > MAX_WEIGHTS_LISTED {
        listed.push("…".to_owned());
    }
    listed.join(", ")
}

/// How limits are shared: `shared by 8 machines, in leases`.
fn sharing_words(sharing: &Sharing) -> String {
    match sharing.share {
        Share::Cluster => {
            format!("shared by {} machines, in leases", grouped(sharing.hosts.into()))
        }
        Share::Exact => "shared by all machines, one by one".to_owned(),
    }
}

fn lists_words(biz: &Biz) -> String {
    let kind_of = |rule: &ListRule| match rule {
        ListRule::Allow => "allow",
        ListRule::Deny => "deny",
        ListRule::Override { .. } => "override",
    };
    let counted = ["allow", "deny", "override"].into_iter().filter_map(|kind| {
        let count = biz.listed.iter().filter(|listed| kind_of(&listed.rule) == kind).count();
        (count > 0).then(|| format!("{} {kind}", grouped(count as u64)))
    });
    counted.collect::<Vec<_>>().join(", ")
}

/// The most readable text of a duration: `60 s`, `10 m`, `24 h`. A minute is 60 s and a day is
/// 24 h, because `day` would mean a calendar day.
pub(super) fn duration_words(ms: u64) -> String {
    let fits = |unit: &&Suffix| {
        let least = if ["d", "m"].contains(&unit.name) { 2 } else { 1 };
        ms.is_multiple_of(unit.factor) && ms / unit.factor >= least
    };
    match DURATION_UNITS.iter().find(fits) {
        Some(unit) => format!("{} {}", grouped(ms / unit.factor), unit.name),
        None => format!("{} ms", grouped(ms)),
    }
}

fn thousandths_words(thousandths: u32) -> String {
    let text = format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests;
