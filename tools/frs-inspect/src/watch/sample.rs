//! Samples the files repeatedly and computes the differences.
//!
//! Items and requests come from the server's counters. The uses of keys come from nodes: the use
//! now, less the use at the previous look. A node that appears and disappears between two looks is
//! not seen.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::time::Instant;

use frs_conf::Scope;
use frs_engine::inspect::{Error, NodePlace, NodeRecord, Reader, RefusedNode, Window};
use frs_server::process::data_lock::{self, LockError};
use frs_server::stats::snapshot::{self, Stats};
use frs_store::Sums;
use frs_store::counter::{BizKey, GroupCounter, GroupKey};

use super::figures::{BizLine, CounterGrowth, CounterLine, GroupLine, HotLine, WatchFigures};
use super::health::{MasterState, ServerHealth};
use crate::counters::{self, ItemCounts};

/// The most hottest keys kept for a business.
const HOTTEST: usize = 50;

/// The identity of a node: its place and key. If the place gets another key, it is another node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct NodeIdentity {
    group: String,
    place: NodePlace,
    biz_id: u32,
    key: String,
}

/// Looks at the files, and remembers the previous look.
pub struct Sampler {
    reader: Reader,
    before: Option<PreviousSample>,
}

struct PreviousSample {
    at: Instant,
    now_ms: u64,
    /// The uses of the nodes that were in use recently.
    used: HashMap<NodeIdentity, u64>,
    sums: Sums,
}

/// The result of one walk over all nodes.
#[derive(Default)]
struct WalkTotals {
    groups: BTreeMap<String, GroupLine>,
    bizs: BTreeMap<u32, BizLine>,
    used: HashMap<NodeIdentity, u64>,
}

impl Sampler {
    pub fn new(reader: Reader) -> Sampler {
        Sampler { reader, before: None }
    }

    pub fn sample(&mut self, now: u64, at: Instant) -> Result<WatchFigures, Error> {
        if self.reader.refresh()? {
            self.before = None;
        }
        let before = self.before.take();
        // Taken before the walk, which takes time: the counters are those of `at`.
        let stats = self.stats(now);
        let since = before.as_ref().map_or(u64::MAX, |before| before.now_ms);
        let mut found = WalkTotals::default();
        let walked = self.reader.for_each_node(now, |record| {
            found.add(record, since, before.as_ref().map(|before| &before.used));
            ControlFlow::Continue(())
        });
        let sums = &stats.sums;
        let earlier = before.as_ref().map_or(sums, |before| &before.sums);
        let seconds =
            |before: &PreviousSample| at.saturating_duration_since(before.at).as_secs_f64();
        let figures = WatchFigures {
            now_ms: now,
            generation: self.reader.generation(),
            seconds: before.as_ref().map(|before| seconds(before).max(0.001)),
            health: self.health(&stats, walked.skipped.len() as u64),
            requests: CounterGrowth::since(counters::requests(earlier), counters::requests(sums)),
            items: ItemCounts::of_all(sums).since(ItemCounts::of_all(earlier)),
            groups: self.group_lines(&mut found, earlier, sums),
            bizs: found.biz_lines(&self.reader, earlier, sums),
            counted: counts(earlier, sums),
            refused: self.refused(now),
        };
        self.before = Some(PreviousSample { at, now_ms: now, used: found.used, sums: stats.sums });
        Ok(figures)
    }

    /// The server's counts. Empty if runtime.mmap cannot be read, which is one of the faults.
    fn stats(&self, now: u64) -> Stats {
        let runtime = self.reader.runtime();
        runtime.map(|runtime| snapshot::of(runtime, self.reader.conf(), now)).unwrap_or_default()
    }

    /// The most refused keys. Empty if runtime.mmap cannot be read.
    fn refused(&mut self, now: u64) -> Vec<RefusedNode> {
        let found = self.reader.refused(None, Window::Minute, HOTTEST, now);
        found.map(|found| found.nodes).unwrap_or_default()
    }

    fn health(&self, stats: &Stats, unreadable_nodes: u64) -> ServerHealth {
        ServerHealth {
            master: match data_lock::holder(self.reader.data_dir()) {
                Ok(pid) => MasterState::Runs(pid.as_raw()),
                Err(LockError::Free { .. }) => MasterState::Ended,
                Err(_) => MasterState::Unknown,
            },
            faults: self.reader.faults().map(ToString::to_string).collect(),
            unreadable_nodes,
            ..ServerHealth::of(stats, self.reader.conf())
        }
    }

    fn group_lines(&self, found: &mut WalkTotals, earlier: &Sums, sums: &Sums) -> Vec<GroupLine> {
        let mut lines: Vec<GroupLine> = Vec::new();
        for (name, group) in self.reader.groups() {
            let Ok(group) = group else { continue };
            if let Some(line) = lines.iter_mut().find(|line| line.name == name) {
                line.is_moving = true;
                continue;
            }
            let line = found.groups.remove(name).unwrap_or_default();
            let places = group.geometry().nodes();
            let evicted = [earlier, sums].map(|sums| evicted_limiting(sums, name));
            let evicted_limiting = CounterGrowth::since(evicted[0], evicted[1]);
            lines.push(GroupLine { name: name.to_owned(), places, evicted_limiting, ..line });
        }
        lines
    }
}

impl WalkTotals {
    fn add(&mut self, record: NodeRecord, since: u64, before: Option<&HashMap<NodeIdentity, u64>>) {
        let group = self.groups.entry(record.group.clone()).or_default();
        if record.is_expired() {
            group.expired += 1;
        } else {
            group.live += 1;
            group.limiting += u64::from(record.is_limiting());
        }
        if record.scope == Scope::Biz || record.biz.is_none() || record.is_expired() {
            return;
        }
        let biz = self.bizs.entry(record.biz_id).or_default();
        biz.keys += 1;
        biz.limited += u64::from(record.is_limiting());
        let used = record.used();
        let NodeRecord { group, place, biz_id, key, .. } = record;
        let node = NodeIdentity { group, place, biz_id, key };
        let earlier = before.and_then(|before| before.get(&node)).copied();
        // The use since the previous look. If that look did not see the node, its whole use.
        let more = match (before, earlier) {
            (None, _) => 0,
            (Some(_), Some(earlier)) => used.saturating_sub(earlier),
            (Some(_), None) if record.last_use_ms >= since => used,
            (Some(_), None) => 0,
        };
        biz.uses += more;
        let (rank, last_use_ms) = (record.rank, record.last_use_ms);
        let is_fresh = before.is_some() && last_use_ms >= since;
        biz.hottest.push(HotLine {
            key: node.key.clone(),
            used,
            more,
            is_fresh,
            rank,
            last_use_ms,
        });
        if biz.hottest.len() > 4 * HOTTEST {
            keep_hottest(&mut biz.hottest);
        }
        self.used.insert(node, used);
    }

    /// The businesses in the order of map.xml.
    fn biz_lines(&mut self, reader: &Reader, earlier: &Sums, sums: &Sums) -> Vec<BizLine> {
        let line = |biz: &frs_conf::Biz| {
            let mut line = self.bizs.remove(&biz.id).unwrap_or_default();
            line.name.clone_from(&biz.name);
            line.items = items_of(sums, biz.id).since(items_of(earlier, biz.id));
            keep_hottest(&mut line.hottest);
            line
        };
        reader.conf().map.bizs.iter().map(line).collect()
    }
}

/// Keeps the hottest keys. Keys requested since the previous look come first, and of these the most
/// used. A key that is always refused gains no use, and is the very key that the user looks for.
fn keep_hottest(hottest: &mut Vec<HotLine>) {
    hottest.sort_by_key(|hot| std::cmp::Reverse((hot.is_fresh, hot.used, hot.last_use_ms)));
    hottest.truncate(HOTTEST);
}

fn items_of(sums: &Sums, id: u32) -> ItemCounts {
    sums.bizs
        .get(&BizKey::Id(id))
        .map_or_else(ItemCounts::default, |sums| ItemCounts::of(&sums.items))
}

fn evicted_limiting(sums: &Sums, group: &str) -> u64 {
    let sums = sums.groups.get(&GroupKey::Name(group.to_owned()));
    sums.map_or(0, |sums| sums.count(GroupCounter::EvictionsLimiting))
}

/// All counters.
fn counts(earlier: &Sums, sums: &Sums) -> Vec<CounterLine> {
    let pairs = counters::read(sums).into_iter().zip(counters::read(earlier));
    pairs
        .map(|((name, now), (_, earlier))| CounterLine {
            name,
            growth: CounterGrowth::since(earlier, now),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_refused_all_the_time_is_among_the_hottest() {
        let hot = |key: &str, used, is_fresh| HotLine {
            key: key.to_owned(),
            used,
            more: 0,
            is_fresh,
            rank: frs_store::Rank::Idle,
            last_use_ms: 0,
        };
        let refused = hot("refused", 1000, true);
        let mut hottest = vec![
            hot("once", 1, true),
            hot("yesterday", 2000, false),
            refused,
            hot("twice", 2, true),
        ];
        hottest.extend((0..HOTTEST).map(|_| hot("others", 0, false)));
        keep_hottest(&mut hottest);
        let keys: Vec<&str> = hottest.iter().map(|hot| hot.key.as_str()).collect();
        assert_eq!(keys[..4], ["refused", "twice", "once", "yesterday"]);
        assert_eq!(keys.len(), HOTTEST);
    }
}
