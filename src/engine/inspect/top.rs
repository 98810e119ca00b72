//! The most used keys of a business.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

use frs_store::layout::node;

use super::error::Error;
use super::reader::Reader;
use super::record::{NodePlace, NodeRecord};

/// The order of the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// By current use in the limit that has most. Among equals, the latest use comes first.
    Used,
    /// By the latest use.
    Last,
}

/// The rank of a node in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rating {
    first: u64,
    /// Decides between nodes with the same first value.
    second: u64,
    /// The place, so that no two nodes are equal.
    place: Reverse<NodePlace>,
}

impl Reader {
    /// The first `n` nodes of a business's keys, most used or latest used first, without expired
    /// nodes. Takes one walk over its group.
    ///
    /// # Errors
    /// There is no such business, or its group cannot be read.
    pub fn top(&mut self, biz: &str, n: usize, by: By, now: u64) -> Result<Vec<NodeRecord>, Error> {
        let index = self.biz(biz)?;
        let biz = &self.conf.map.bizs[index];
        let (id, group) = (biz.id, biz.group);
        self.group_at(group)?;
        self.set_now(now);
        let mut best: BTreeMap<Rating, NodeRecord> = BTreeMap::new();
        // Damaged nodes are not reported, so none is kept, however many there are.
        let _ = self.walk_group(&self.pass(), group, drop, |place, words| {
            if words[node::KEY] as u32 != id {
                return ControlFlow::Continue(());
            }
            let record = self.record(group, place, words.to_vec(), now);
            if record.scope == frs_conf::Scope::Key && !record.is_expired() {
                best.insert(rate(&record, by), record);
                if best.len() > n {
                    best.pop_first();
                }
            }
            ControlFlow::Continue(())
        });
        Ok(best.into_values().rev().collect())
    }
}

fn rate(record: &NodeRecord, by: By) -> Rating {
    let (used, last) = (record.used(), record.last_use_ms);
    let (first, second) = match by {
        By::Used => (used, last),
        By::Last => (last, used),
    };
    Rating { first, second, place: Reverse(record.place) }
}
