//! Samples the files twice and computes the difference.
//!
//! Items and requests come from the server's counters. The uses of keys come from nodes: the use
//! now against the use at the previous look. A node that comes and goes between two looks is not
//! seen.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::time::Instant;

use frs::conf::Scope;
use frs::inspect::{Error, NodePlace, NodeRecord, Reader};
use frs::store::counter::BizKey;
use frs::store::{Rank, Runtime, Sums};

use crate::counters::{self, Items, NamedCount};

/// The number of hottest keys kept for a business.
const HOTTEST: usize = 50;

/// How full a group is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GroupLine {
    pub name: String,
    pub live: u64,
    pub limiting: u64,
    pub expired: u64,
    pub places: u64,
    /// Nodes move there from other files, and count.
    pub is_moving: bool,
}

/// One of the most used keys.
#[derive(Debug, Clone, PartialEq)]
pub struct Hot {
    pub key: String,
    pub used: u64,
    pub uses_per_s: f64,
    /// Requested since the previous look, even if refused.
    pub is_fresh: bool,
    pub rank: Rank,
    pub last_use_ms: u64,
}

/// A business.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BizLine {
    pub name: String,
    pub items_per_s: f64,
    /// Items since the previous look.
    pub items: Items,
    /// Keys with a node, and how many of them are limited now.
    pub keys: u64,
    pub limited: u64,
    pub uses_per_s: f64,
    pub hottest: Vec<Hot>,
}

/// A counter and its growth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CounterRate {
    pub name: &'static str,
    pub count: u64,
    pub per_s: f64,
}

/// The differences between two looks, per second.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rates {
    pub now_ms: u64,
    pub generation: u64,
    pub running: Option<i32>,
    /// Items of all businesses since the previous look.
    pub items: Items,
    pub counters: Vec<CounterRate>,
    pub groups: Vec<GroupLine>,
    pub bizs: Vec<BizLine>,
    pub skipped: usize,
    pub faults: Vec<String>,
}

/// The place and key of a node. A place given to another key is another node.
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
    before: Option<Before>,
}

struct Before {
    at: Instant,
    now_ms: u64,
    /// The use of nodes that were in use lately.
    used: HashMap<NodeIdentity, u64>,
    sums: Sums,
}

/// The result of one walk over all nodes.
#[derive(Default)]
struct Found {
    groups: BTreeMap<String, GroupLine>,
    bizs: BTreeMap<u32, BizLine>,
    used: HashMap<NodeIdentity, u64>,
}

impl Sampler {
    pub fn new(reader: Reader) -> Sampler {
        Sampler { reader, before: None }
    }

    pub fn sample(&mut self, now: u64, at: Instant) -> Result<Rates, Error> {
        if self.reader.refresh()? {
            self.before = None;
        }
        let seconds = self.before.as_ref().map_or(f64::INFINITY, |before| {
            at.saturating_duration_since(before.at).as_secs_f64().max(0.001)
        });
        let since = self.before.as_ref().map_or(u64::MAX, |before| before.now_ms);
        let mut found = Found::default();
        let used_before = self.before.take();
        let walked = self.reader.for_each_node(now, |record| {
            let earlier = used_before.as_ref().map(|before| &before.used);
            found.add(record, since, earlier, seconds);
            ControlFlow::Continue(())
        });
        let sums = self.reader.runtime().map_or_else(|_| Sums::default(), Runtime::sums);
        let sums_before = used_before.as_ref().map(|before| &before.sums);
        let rates = Rates {
            // A walk takes time: no node that it meets is from the future.
            now_ms: frs::base::clock::now().max(now),
            generation: self.reader.generation(),
            running: frs_server::process::lock::holder(self.reader.data_dir())
                .ok()
                .map(|pid| pid.as_raw()),
            items: Items::of_all(&sums).since(Items::of_all(sums_before.unwrap_or(&sums))),
            counters: with_rates(sums_before, &sums, seconds),
            groups: self.group_lines(&mut found),
            bizs: found.biz_lines(&self.reader, sums_before, &sums, seconds),
            skipped: walked.skipped.len(),
            faults: self.reader.faults().map(ToString::to_string).collect(),
        };
        self.before = Some(Before { at, now_ms: now, used: found.used, sums });
        Ok(rates)
    }

    fn group_lines(&self, found: &mut Found) -> Vec<GroupLine> {
        let mut lines: Vec<GroupLine> = Vec::new();
        for (name, group) in self.reader.groups() {
            let Ok(group) = group else { continue };
            if let Some(line) = lines.iter_mut().find(|line| line.name == name) {
                line.is_moving = true;
                continue;
            }
            let line = found.groups.remove(name).unwrap_or_default();
            let places = group.geometry().nodes();
            lines.push(GroupLine { name: name.to_owned(), places, ..line });
        }
        lines
    }
}

impl Found {
    fn add(
        &mut self,
        record: NodeRecord,
        since: u64,
        before: Option<&HashMap<NodeIdentity, u64>>,
        seconds: f64,
    ) {
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
        // The use since the previous look; all of it if that look did not see the node.
        let more = match (before, earlier) {
            (None, _) => 0,
            (Some(_), Some(earlier)) => used.saturating_sub(earlier),
            (Some(_), None) if record.last_use_ms >= since => used,
            (Some(_), None) => 0,
        };
        let uses_per_s = more as f64 / seconds;
        biz.uses_per_s += uses_per_s;
        let (rank, last_use_ms) = (record.rank, record.last_use_ms);
        let is_fresh = before.is_some() && last_use_ms >= since;
        biz.hottest.push(Hot {
            key: node.key.clone(),
            used,
            uses_per_s,
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
    fn biz_lines(
        &mut self,
        reader: &Reader,
        before: Option<&Sums>,
        sums: &Sums,
        seconds: f64,
    ) -> Vec<BizLine> {
        let line = |biz: &frs::conf::Biz| {
            let mut line = self.bizs.remove(&biz.id).unwrap_or_default();
            line.name.clone_from(&biz.name);
            line.items = items_of(sums, biz.id).since(items_of(before.unwrap_or(sums), biz.id));
            line.items_per_s = line.items.all as f64 / seconds;
            keep_hottest(&mut line.hottest);
            line
        };
        reader.conf().map.bizs.iter().map(line).collect()
    }
}

/// Keys requested since the previous look come first, the most used of them at the top. A key that
/// is always refused uses nothing more, and is just what the user is looking for.
fn keep_hottest(hottest: &mut Vec<Hot>) {
    hottest.sort_by_key(|hot| std::cmp::Reverse((hot.is_fresh, hot.used, hot.last_use_ms)));
    hottest.truncate(HOTTEST);
}

fn items_of(sums: &Sums, id: u32) -> Items {
    sums.bizs.get(&BizKey::Id(id)).map_or_else(Items::default, |sums| Items::of(&sums.items))
}

fn with_rates(before: Option<&Sums>, sums: &Sums, seconds: f64) -> Vec<CounterRate> {
    let now = counters::read(sums);
    let earlier = counters::read(before.unwrap_or(sums));
    let rate = |(NamedCount { name, count }, earlier): (NamedCount, NamedCount)| {
        let per_s = count.saturating_sub(earlier.count) as f64 / seconds;
        CounterRate { name, count, per_s }
    };
    now.into_iter().zip(earlier).map(rate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_refused_all_the_time_is_among_the_hottest() {
        let hot = |key: &str, used, is_fresh| Hot {
            key: key.to_owned(),
            used,
            uses_per_s: 0.0,
            is_fresh,
            rank: Rank::Idle,
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
