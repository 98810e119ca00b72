//! What shared limits promise and cost, in words for `frs check`.
//!
//! Invariant: figures are bounds that follow from the settings alone. Only the share of checks that
//! stay local is measured.

use frs_base::figures::grouped;

use super::describe::duration_words;
use crate::schema::{
    Biz, Cluster, Geometry, Limit, ListRule, Map, Mode, NodeCount, OnDown, OnMiss, Policy, Share,
    Sharing,
};

/// The least `max`, and the percentage of checks that stay local from it on; the largest first.
/// Measured with eight machines, keys distributed by Zipf's law and routed to their machine, and
/// windows of 60 s.
const LOCAL_SHARES: [(u64, u32); 3] = [(100, 94), (20, 90), (5, 86)];

/// The promises of a cluster as a whole.
pub(super) fn cluster_lines(cluster: &Cluster) -> Vec<String> {
    let Cluster { name, timeout_ms, learn_ms, wait_replicas, batch, max_parked, .. } = cluster;
    let [timeout, learn] = [timeout_ms, learn_ms].map(|&ms| duration_words(ms));
    let nodes: Vec<String> = cluster.nodes.iter().map(ToString::to_string).collect();
    let tls = if cluster.tls { ", over TLS" } else { "" };
    let minority = match wait_replicas {
        0 => "at most its grants until it steps down; wait-replicas prevents that".to_owned(),
        1 => "0 where each master has 1 replica".to_owned(),
        replicas => format!("0 where each master has {replicas} replicas"),
    };
    vec![
        format!("cluster {name}: {}{tls}", nodes.join(", ")),
        format!(
            "  timeout {timeout}, learn {learn}, wait-replicas {wait_replicas}, batch {batch}, \
             max-parked {} requests of each worker",
            grouped((*max_parked).into())
        ),
        format!(
            "  a failover: no leases for it and {learn}; 0 over if all holders claim in that time, \
             else by grants not replicated"
        ),
        format!("  an old master in a minority: over: {minority}"),
    ]
}

/// The promises of the limits of a biz. Empty if its limits are not shared.
pub(super) fn biz_lines(biz: &Biz) -> Vec<String> {
    let Some(sharing) = &biz.sharing else { return Vec::new() };
    if biz.mode == Mode::Off {
        return vec!["off: no lease is asked for".to_owned()];
    }
    let mut lines = Vec::new();
    for (nth, limit) in (1..).zip(&biz.limits) {
        let mut promises = limit_lines(limit, sharing).into_iter();
        lines.extend(promises.next().map(|line| format!("limit {nth}: {line}")));
        lines.extend(promises.map(|line| format!("  {line}")));
    }
    if !biz.limits.iter().all(is_leased) {
        lines.push(
            "what refuses nothing: a message a second for each key and machine in use; sums are \
             right within seconds; a machine lost: its last second is not counted"
                .to_owned(),
        );
    }
    if !biz.limits.iter().any(is_leased) {
        return lines;
    }
    let wait = duration_words(sharing.wait_ms);
    lines.push(match sharing.on_miss {
        OnMiss::Refuse => format!("no lease within {wait}: refused, 0 over"),
        OnMiss::Busy => format!("no lease within {wait}: answered busy, 0 over"),
        OnMiss::Admit => format!(
            "no lease within {wait}: admitted and counted; over by at most {} a machine and \
             window, then refused",
            missed(biz, sharing)
        ),
    });
    if sharing.share == Share::Cluster {
        lines.push(
            "a key costs a message a machine and window: those used once or twice are better off \
             with share=\"host\""
                .to_owned(),
        );
    }
    lines.push("any process killed: 0 over, 0 missing".to_owned());
    if biz.bans() {
        lines.push("a ban holds on the machine that refused".to_owned());
    }
    if biz.mode == Mode::Shadow {
        lines.push("in shadow: leases are asked for and waited for as if it enforced".to_owned());
    }
    lines
}

/// Whether a limit refuses, and so needs leases.
fn is_leased(limit: &Limit) -> bool {
    limit.advice.is_none() && limit.policy.max().is_some()
}

/// The uses that a machine admits by each limit in a window in which no lease arrives in time.
fn missed(biz: &Biz, sharing: &Sharing) -> String {
    let of_limit = |limit: &Limit| {
        let max = limit.policy.max().filter(|_| is_leased(limit))?;
        // One interval may overlap two windows of the machine.
        let windows = match limit.policy {
            Policy::Sliding(_) | Policy::Token(_) => 2,
            Policy::Interval(_)
            | Policy::Calendar(_)
            | Policy::SlidingCounter(_)
            | Policy::Gcra(_)
            | Policy::Total(_)
            | Policy::Count(_)
            | Policy::Distinct(_)
            | Policy::Concurrent(_) => 1,
        };
        Some(grouped(windows * sharing.largest_lease(max)))
    };
    let mut all: Vec<String> = biz.limits.iter().filter_map(of_limit).collect();
    all.dedup();
    all.join(" and ")
}

fn limit_lines(limit: &Limit, sharing: &Sharing) -> Vec<String> {
    match limit.policy.max() {
        Some(max) if is_leased(limit) => vec![
            cost_line(max, sharing),
            lost_line(&limit.policy, sharing),
            cut_off_line(&limit.policy, max, sharing),
        ],
        _ => vec![
            "refuses nothing, so it needs no lease: counted at once, and told to the cluster each \
             second"
                .to_owned(),
        ],
    }
}

fn cost_line(max: u64, sharing: &Sharing) -> String {
    let lease = sharing.largest_lease(max);
    if lease <= 1 {
        return "each use asks the cluster: a message and a wait".to_owned();
    }
    let local = match LOCAL_SHARES.iter().find(|&&(least, _)| max >= least) {
        Some((_, percent)) => {
            format!("about {percent} % of the checks stay local where keys are routed")
        }
        None => "most uses ask the cluster".to_owned(),
    };
    format!("leases of up to {}; {local}", grouped(lease))
}

const COUNTED: &str = "as long as they count";

/// The uses and leases that are missing after a machine was lost.
fn lost_line(policy: &Policy, sharing: &Sharing) -> String {
    let (uses, leases) = match policy {
        Policy::Total(_) => ("for good", "for good (share=\"exact\" loses next to none)"),
        Policy::Sliding(_) => (COUNTED, "until they and the interval end"),
        Policy::SlidingCounter(_) => (COUNTED, "until the next window ends"),
        Policy::Token(_) => (COUNTED, "until they end and are refilled"),
        Policy::Interval(_)
        | Policy::Calendar(_)
        | Policy::Gcra(_)
        | Policy::Count(_)
        | Policy::Distinct(_)
        | Policy::Concurrent(_) => (COUNTED, "until the window turns"),
    };
    let missing = match sharing.share {
        Share::Exact => format!("the uses that it had just asked for, {uses}"),
        Share::Cluster => format!("its unspent leases, {leases}"),
    };
    format!("a machine lost: 0 over; missing: {missing}")
}

/// Without the cluster, a machine counts in its own windows, which begin with a use.
const MEET: &str = ", up to twice that where two such windows meet";

/// The uses that are admitted while a machine cannot reach the cluster.
fn cut_off_line(policy: &Policy, max: u64, sharing: &Sharing) -> String {
    let hosts = grouped(sharing.hosts.into());
    // The log of a sliding limit and the calendar continue as with the cluster.
    let (times, meet) = match policy {
        Policy::Interval(_) | Policy::SlidingCounter(_) => ("in each window", MEET),
        Policy::Calendar(_)
        | Policy::Token(_)
        | Policy::Gcra(_)
        | Policy::Count(_)
        | Policy::Distinct(_)
        | Policy::Concurrent(_) => ("in each window", ""),
        Policy::Sliding(_) => ("in any interval", ""),
        Policy::Total(_) => ("in all", ""),
    };
    let bound = match (sharing.on_down, policy) {
        (OnDown::Refuse, _) => "refused once its leases are used up; 0 over".to_owned(),
        (OnDown::Share, Policy::Token(_)) => format!(
            "1/{hosts} of rate and burst a machine; over by at most k/{hosts} of both for k \
             machines{MEET}"
        ),
        (OnDown::Local, Policy::Token(_)) => format!(
            "the whole rate and burst a machine; over by at most k times both for k machines{MEET}"
        ),
        (OnDown::Share | OnDown::Local, _) => {
            let cut_off = grouped(sharing.cut_off_max(max));
            let part = match sharing.on_down {
                OnDown::Share => format!("{cut_off} ({} / {hosts})", grouped(max)),
                _ => cut_off.clone(),
            };
            format!("{part} {times} a machine; over by at most k × {cut_off} for k machines{meet}")
        }
    };
    format!("cluster not reached: {bound}")
}

/// A warning about the settings of a cluster.
pub(super) fn cluster_warning(cluster: &Cluster) -> Option<String> {
    /// A new master is noticed within a quarter of `learn`, and a claim may take several messages.
    const TIMEOUTS: u64 = 4;
    let Cluster { timeout_ms, learn_ms, .. } = cluster;
    (learn_ms / TIMEOUTS < *timeout_ms).then(|| {
        let [timeout, learn] = [*timeout_ms, *learn_ms].map(duration_words);
        let least = duration_words(timeout_ms * TIMEOUTS);
        format!(
            "cluster {:?}: learn is {learn} and timeout {timeout}: after a failover leases may be \
             claimed too late, and go over; write a learn of {least} or more",
            cluster.name
        )
    })
}

/// A warning about a group that may hold more leases than a machine can claim in time.
pub(super) fn group_warning(map: &Map, group: usize) -> Option<String> {
    /// The longest time that a master waits for claims.
    const LONGEST_MS: u64 = 10_000;
    /// Leases that a machine claims in a second. 50,000 took 4.4 s on two cores, which also ran
    /// three masters and the machine's own processes.
    const CLAIMS: u64 = 10_000;
    let of_group = map.bizs.iter().filter(|biz| biz.group == group && biz.sharing.is_some());
    let leases = of_group.map(|biz| biz.limits.iter().filter(|limit| is_leased(limit)).count());
    let Geometry { files, key_nodes, chain, .. } = map.groups[group].geometry;
    let keys = match map.groups[group].written.room {
        NodeCount::Keys(keys) => keys,
        NodeCount::Files { .. } => u64::from(files) * u64::from(key_nodes) * u64::from(chain),
    };
    let leases = keys.saturating_mul(leases.max().unwrap_or(0) as u64);
    let in_time = CLAIMS * LONGEST_MS / 1000;
    (leases > in_time).then(|| {
        format!(
            "group {:?} is for {} leases: after the cluster was emptied a machine claims \
             about {} of them in the ten seconds that a master waits, the largest first, and the \
             uses of the others may be granted once more",
            map.groups[group].name,
            grouped(leases),
            grouped(in_time)
        )
    })
}

/// Warnings about limits of which a machine that is cut off admits nothing, though it should have a
/// part.
pub(super) fn biz_warnings(biz: &Biz) -> Vec<String> {
    let Some(sharing @ Sharing { on_down: OnDown::Share, hosts, .. }) = &biz.sharing else {
        return Vec::new();
    };
    let own = |at: usize, limit: &Limit| {
        limit.policy.max().filter(|_| is_leased(limit)).map(|max| (at, max))
    };
    let limits = biz.limits.iter().enumerate().filter_map(|(at, limit)| own(at, limit));
    let overrides = biz.listed.iter().filter_map(|listed| match listed.rule {
        ListRule::Override { limit, max } => {
            biz.limits.get(limit).filter(|limit| is_leased(limit)).map(|_| (limit, max))
        }
        ListRule::Allow | ListRule::Deny => None,
    });
    let limits = limits.map(|(at, max)| (format!("limit {}", at + 1), max));
    let overrides = overrides.map(|(at, max)| (format!("an override of limit {}", at + 1), max));
    let divided = limits.chain(overrides);
    let nothing = divided.filter(|&(_, max)| max > 0 && sharing.cut_off_max(max) == 0);
    let warning = |(what, max): (String, u64)| {
        format!(
            "biz {} {:?}: {what}: max {max} / hosts {hosts} is 0: a machine that cannot reach the \
             cluster admits nothing; write on-down=\"refuse\" to say so, or \"local\"",
            biz.id, biz.name
        )
    };
    nothing.map(warning).collect()
}

#[cfg(test)]
mod tests;
