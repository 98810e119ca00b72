//! A sweep: a slow look at all nodes of all groups. It counts live and expired nodes, free places,
//! and the lengths of the chains.
//!
//! Invariant: it takes no semaphore and writes nothing but its findings, and each step is bounded.
//! It trusts copies whose CRC holds. A node that stays torn is in use, so it counts as live.

use super::counter::Nodes;
use crate::chain::evict::{Judge, Rank};
use crate::file::group::{Group, is_whole};
use crate::file::layout::{node, tag};
use crate::handle::Handle;

/// Most copies made of a node that is being written, until one is whole.
const COPIES_MAX: usize = 100;

/// How far a sweep has come.
#[derive(Debug, Default)]
pub struct Sweep {
    group: usize,
    /// The sweep is in the group that its group grows out of.
    in_former: bool,
    /// The next key-node, by its number over all files.
    at: usize,
    nodes: Nodes,
    copy: Vec<u64>,
}

impl Sweep {
    /// Starts again, because the groups may have changed.
    pub fn restart(&mut self) {
        (self.group, self.in_former, self.at) = (0, false, 0);
        self.nodes = Nodes::default();
    }

    /// Looks at about `most` more heads and nodes. Stores the findings of each group that it has
    /// finished. True after the last group: the next step then starts again. Calls `live` for every
    /// live node, with the index of its group and a copy of its words as the judge has left them.
    pub fn step(
        &mut self,
        handle: &Handle,
        judge: &dyn Judge,
        live: &mut dyn FnMut(usize, &[u64]),
        most: usize,
        now: u64,
    ) -> bool {
        let mut looked = 0;
        while looked < most {
            if self.group >= handle.formers().start {
                self.restart();
                return true;
            }
            let index = if self.in_former { handle.former_of(self.group) } else { None };
            let index = index.unwrap_or(self.group);
            let group = &handle.groups()[index];
            // Its pages may be gone.
            if handle.runtime().is_quarantined(group.mark()) {
                self.next_group();
                continue;
            }
            looked += 1 + self.look(index, group, judge, live, now);
            self.at += 1;
            if self.at < group.geometry().all_key_nodes() {
                continue;
            }
            if !self.in_former && handle.former_of(self.group).is_some() {
                // Nodes that have not moved yet count for the same group.
                (self.in_former, self.at) = (true, 0);
                continue;
            }
            self.nodes.swept_ms = now;
            handle.set_nodes(self.group, &self.nodes);
            self.next_group();
        }
        false
    }

    fn next_group(&mut self) {
        let next = self.group + 1;
        self.restart();
        self.group = next;
    }

    /// Looks at a key-node. Returns the number of nodes in its chain.
    fn look(
        &mut self,
        index: usize,
        group: &Group,
        judge: &dyn Judge,
        each: &mut dyn FnMut(usize, &[u64]),
        now: u64,
    ) -> usize {
        let tags = group.tags(group.geometry().key_node_at(self.at));
        let chain = group.geometry().chain as usize;
        let is_taken = |&place: &usize| tag::of(tags[place / 8], place) != 0;
        let (mut live, mut taken) = (0, 0);
        for place in (0..chain).filter(is_taken) {
            match self.copy_live(index, (group, place, tag::of(tags[place / 8], place)), judge, now)
            {
                Copied::Moved => continue,
                Copied::Expired => {
                    taken += 1;
                    continue;
                }
                Copied::Live => each(index, &self.copy),
                Copied::Torn => {}
            }
            (taken, live) = (taken + 1, live + 1);
        }
        self.nodes.live += live;
        self.nodes.expired += taken as u64 - live;
        if !self.in_former {
            self.nodes.free += (chain - taken) as u64;
            self.nodes.chains[taken] += 1;
        }
        taken
    }

    /// Copies a node. The words of a live node stay in `copy`.
    fn copy_live(
        &mut self,
        index: usize,
        (group, place, tag): (&Group, usize, u8),
        judge: &dyn Judge,
        now: u64,
    ) -> Copied {
        let at = group.geometry().key_node_at(self.at);
        let copy = &mut self.copy;
        copy.resize(group.node_words(), 0);
        let mut copies = (0..COPIES_MAX).map(|_| {
            group.read_node(at, place, copy);
            is_whole(copy)
        });
        if !copies.any(|whole| whole) {
            return Copied::Torn;
        }
        if group.has_moved(tag, copy) {
            return Copied::Moved;
        }
        // A last use in the future counts as now.
        copy[node::LAST_USE] = copy[node::LAST_USE].min(now);
        let life = judge.life(index, copy[node::KEY]);
        let is_expired = life.is_over(copy[node::LAST_USE], now, |word| copy[word])
            || judge.rank(index, copy, now) == Rank::Expired;
        if is_expired { Copied::Expired } else { Copied::Live }
    }
}

/// The result of copying a node.
enum Copied {
    /// The node has moved, so it is not counted here.
    Moved,
    Live,
    Expired,
    /// The node was being written during all copies.
    Torn,
}
