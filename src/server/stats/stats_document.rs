//! The figures as a document, in JSON or XML.
//!
//! Invariant: both formats are written from one tree, so they have the same content. In both,
//! U+FFFD replaces a character of a key that XML forbids.

use super::history_document::history;
use super::peers::{MirrorSnapshot, PeerSnapshot, RECORDS};
use super::snapshot::{
    BizSnapshot, ClientSnapshot, GroupSnapshot, HotKey, ProcessSnapshot, Rates, Stats, WAITS,
};
use std::collections::BTreeMap;

use crate::protocol::call::{Call, status_word};
use crate::protocol::element_tree::{Element, Layout, Value};
use crate::protocol::{Format, xml};
use frs_cluster::figures::{ClusterNodeState, LeaseCounter, LeaseState, MirrorCounter, MirrorSums};
use frs_conf::MoveMode;
use frs_engine::{ItemError, Outcome};
use frs_store::Counter;
use frs_store::counter::{GroupCounter, Histogram, OUTCOMES, REFUSERS};

/// The reported quantiles of latency: name and thousandths.
const QUANTILES: [(&str, u64); 4] =
    [("p50-us", 500), ("p90-us", 900), ("p99-us", 990), ("p999-us", 999)];

/// The document in one format.
pub fn stats_text(stats: &Stats, format: Format) -> String {
    root(stats).document(format, Layout::Dense)
}

fn root(stats: &Stats) -> Element {
    let root = Element::new("stats")
        .holding_one(server(stats))
        .holding_one(counters(stats))
        .holding_one(latency(&stats.sums.request_times))
        .listing("requests", requests(stats))
        .listing("errors", errors(stats))
        .listing("workers", stats.processes.iter().map(process))
        .listing("groups", stats.groups.iter().map(group))
        .listing("bizs", stats.bizs.iter().map(biz));
    let root = if stats.has_cluster { root.holding_one(cluster(stats)) } else { root };
    let root = match &stats.mirror {
        Some(mirror) => root.holding_one(peers(mirror, &stats.mirror_sums)),
        None => root,
    };
    let root = match &*stats.clients {
        [] => root,
        clients => root.listing("clients", clients.iter().map(client)),
    };
    let Some(past) = &stats.past else { return root };
    let name =
        |biz: &BizSnapshot| Some((biz.id()?, xml::replace_forbidden(&biz.label()).into_owned()));
    let names: BTreeMap<u32, String> = stats.bizs.iter().filter_map(name).collect();
    root.holding_one(history(past, &names))
}

fn server(stats: &Stats) -> Element {
    let master = &stats.master;
    let time = |at_ms: u64| Some(at_ms).filter(|&at_ms| at_ms > 0);
    Element::new("server")
        .with("version", stats.version)
        .with("now", stats.now_ms)
        .with("start", master.started_ms)
        .with("generation", stats.generation)
        .with("degraded", stats.degraded)
        .with("flush-failed", stats.flush_failed)
        .with("worker-restarts", master.restarts[0])
        .with("keeper-restarts", master.restarts[1])
        .with("courier-restarts", master.restarts[2])
        .with("envoy-restarts", master.restarts[3])
        .with("reloads-taken", master.reloads[0])
        .with("reloads-refused", master.reloads[1])
        .with("reload-refused", master.is_reload_refused)
        .with_some("last-taken", time(master.reloaded_ms[0]))
        .with_some("last-refused", time(master.reloaded_ms[1]))
}

/// The cluster that shares limits.
fn cluster(stats: &Stats) -> Element {
    let shared = stats.bizs.iter().filter(|biz| biz.is_shared).flat_map(|biz| &biz.items);
    let items: u64 = shared.flatten().sum();
    let state = stats.cluster.clone().unwrap_or_default();
    let waits = Element::new("waits")
        .with("now", stats.parked())
        .with_each(WAITS.map(|(name, of)| (name, stats.sums.count(of))));
    let leases = Element::new("leases")
        .with_each(LeaseCounter::ALL.map(|of| (of.word(), stats.cluster_sums.count(of))))
        .with_each(LeaseState::ALL.map(|of| (of.word(), state.uses(of))));
    let node = |node: &ClusterNodeState| {
        let address = xml::replace_forbidden(&node.address);
        Element::new("node").with("address", address).with("up", node.is_up)
    };
    Element::new("cluster")
        .with("courier", stats.processes_of("courier") > 0)
        .with("items", items)
        .holding_one(waits)
        .holding_one(leases)
        .listing("nodes", state.nodes.iter().map(node))
}

/// The peers that mirror records.
fn peers(mirror: &MirrorSnapshot, sums: &MirrorSums) -> Element {
    let peer = |PeerSnapshot { address, state }: &PeerSnapshot| {
        Element::new("peer")
            .with("address", xml::replace_forbidden(address))
            .with("up", state.is_up)
            .with("compared", state.is_compared)
            .with("lag", state.lag_ms)
            .with("lag-records", state.lag_records)
            .with_some("skew", state.skew_ms.map(|ms| ms as f64))
    };
    let records = Element::new("records").with_each(RECORDS.map(|of| (of.word(), sums.count(of))));
    Element::new("peers")
        .with("courier", mirror.is_served)
        .with("learning", mirror.is_learning)
        .with("overruns", sums.count(MirrorCounter::Overrun))
        .holding_one(records)
        .listing("machines", mirror.peers.iter().map(peer))
}

fn counters(stats: &Stats) -> Element {
    const COUNTERS: [(&str, Counter); 13] = [
        ("connections-accepted", Counter::Connections),
        ("connections-refused", Counter::ConnectionsRefused),
        ("timeouts", Counter::Timeouts),
        ("bytes-in", Counter::BytesIn),
        ("bytes-out", Counter::BytesOut),
        ("semaphore-waits", Counter::SemaphoreWaits),
        ("semaphore-busy", Counter::SemaphoreBusy),
        ("semaphore-orphans", Counter::SemaphoreOrphans),
        ("recoveries", Counter::Recoveries),
        ("flush-errors", Counter::FlushErrors),
        ("holds-made", Counter::HoldsMade),
        ("holds-ended", Counter::HoldsEnded),
        ("holds-lapsed", Counter::HoldsLapsed),
    ];
    Element::new("counters")
        .with("connections", stats.connections())
        .with_each(COUNTERS.map(|(name, counter)| (name, stats.sums.count(counter))))
}

fn latency(times: &Histogram) -> Element {
    let element = Element::new("latency").with("count", times.count()).with("sum-us", times.sum_us);
    QUANTILES.into_iter().fold(element, |element, (name, thousandths)| {
        element.with_some(name, times.quantile_us(thousandths))
    })
}

fn requests(stats: &Stats) -> impl Iterator<Item = Element> {
    let kinds = Call::ALL.iter().zip(&stats.sums.requests).flat_map(|(call, counts)| {
        counts.iter().enumerate().map(move |(kind, count)| (call.word(), kind, *count))
    });
    kinds.filter(|(_, _, count)| *count > 0).map(|(command, kind, count)| {
        let element = Element::new("request").with("command", command);
        element.with("status", status_word(kind)).with("count", count)
    })
}

fn errors(stats: &Stats) -> impl Iterator<Item = Element> {
    let errors = ItemError::ALL.iter().zip(stats.sums.item_errors);
    errors.filter(|(_, count)| *count > 0).map(|(error, count)| {
        Element::new("item-error").with("error", error.word()).with("count", count)
    })
}

fn process(process: &ProcessSnapshot) -> Element {
    Element::new("worker")
        .with("pid", process.pid)
        .with("role", process.role)
        .with_some("restarts", process.restarts)
        .with("generation", process.generation)
        .with_some("cpu", process.cpu_ms)
        .with_some("cpu-share", process.cpu_share)
        .with("connections", process.connections)
        .with("requests", process.requests)
        .with_some("requests-per-second", process.requests_per_s)
}

fn group(group: &GroupSnapshot) -> Element {
    const COUNTERS: [(&str, GroupCounter); 7] = [
        ("creates", GroupCounter::Creates),
        ("evictions-expired", GroupCounter::EvictionsExpired),
        ("evictions-idle", GroupCounter::EvictionsIdle),
        ("evictions-limiting", GroupCounter::EvictionsLimiting),
        ("dropped-crc", GroupCounter::DroppedCrc),
        ("dropped-misplaced", GroupCounter::DroppedMisplaced),
        ("dropped-duplicate", GroupCounter::DroppedDuplicate),
    ];
    let mut element = Element::new("group").with("name", xml::replace_forbidden(group.name()));
    if let Some(geometry) = &group.geometry {
        element = element
            .with("files", geometry.files)
            .with("key-nodes", geometry.key_nodes)
            .with("chain", geometry.chain)
            .with("node-size", geometry.node_bytes)
            .with("key-bytes", geometry.key_bytes)
            .with("bytes", geometry.group_bytes())
            .with("served", group.served)
            .with_some("moving", group.moving.map(move_word))
            .with_some("checkpoint", group.checkpoint_ms);
    }
    element = element.with_each(COUNTERS.map(|(name, of)| (name, group.sums.count(of))));
    match &group.sums.nodes {
        None => element,
        Some(nodes) => element
            .with("live", nodes.live)
            .with("expired", nodes.expired)
            .with("free", nodes.free)
            .with("looked", nodes.swept_ms)
            .numbers("chains", &nodes.chains),
    }
}

fn move_word(mode: MoveMode) -> &'static str {
    match mode {
        MoveMode::Lossless => "lossless",
        MoveMode::Lossy => "lossy",
    }
}

fn biz(biz: &BizSnapshot) -> Element {
    let [queries, updates] = &biz.items;
    let limit = |words: &String| Element::new("limit").with("words", xml::replace_forbidden(words));
    Element::new("biz")
        .with_some("id", biz.id())
        .with("name", xml::replace_forbidden(&biz.label()))
        .with_some("removed", biz.is_removed().then_some(true))
        .with_some("holds", biz.holds)
        .with_some("registers", biz.registers)
        .holding_one(with_outcomes(Element::new("queries"), queries.iter().copied()))
        .holding_one(with_outcomes(Element::new("updates"), updates.iter().copied()))
        .holding_one(latency(&biz.times))
        .numbers("refusals", refusals(biz))
        .listing("limits", biz.limits.iter().map(limit))
        .listing("rates", rates(&biz.rates))
        .listing("hottest", biz.hottest.iter().map(hot))
}

fn client(client: &ClientSnapshot) -> Element {
    let element = Element::new("client")
        .with("name", xml::replace_forbidden(client.name()))
        .with_some("removed", (!client.is_known).then_some(true))
        .with("items", client.items())
        .with("refused", client.sums.refused);
    with_outcomes(element, client.sums.items.into_iter())
}

/// Refused Updates by each limit, in order. The tenth figure sums up the tenth and all later
/// limits.
fn refusals(biz: &BizSnapshot) -> &[u64] {
    &biz.refusals[1..=biz.limits.len().min(REFUSERS - 1)]
}

fn with_outcomes(element: Element, counts: impl Iterator<Item = impl Into<Value>>) -> Element {
    element.with_each(Outcome::ALL.map(Outcome::word).into_iter().zip(counts))
}

/// The rates of items over each known period. `over` is the period in milliseconds.
fn rates(rates: &Rates) -> impl Iterator<Item = Element> {
    let known = [(1000, rates.second), (60_000, rates.minute), (600_000, rates.ten_minutes)];
    let known = known.into_iter().filter_map(|(over_ms, rates)| Some((over_ms, rates?)));
    known.map(|(over_ms, rates): (u32, [f64; OUTCOMES])| {
        with_outcomes(Element::new("rate").with("over", over_ms), rates.into_iter())
    })
}

fn hot(hot: &HotKey) -> Element {
    Element::new("node")
        .with("key", xml::replace_forbidden(&hot.key))
        .with("used", hot.used)
        .with("last", hot.last_ms)
}

#[cfg(test)]
mod tests;
