//! A slow look at all nodes of all groups: how many live, are expired, are free, and how long the
//! chains are.
//!
//! Invariant: it takes no semaphore and writes nothing but its findings, and each step is bounded.
//! It believes copies whose CRC holds; what stays torn is in use by somebody, and counted as live.

use super::counter::Nodes;
use super::evict::{Judge, Rank};
use super::group::{Group, is_whole};
use super::handle::Handle;
use super::layout::{TAG_WORDS, node, tag};

/// Copies of a node that is being written, until one is whole.
const COPIES_MAX: usize = 100;

/// How far a look at all nodes has come.
#[derive(Debug, Default)]
pub struct Sweep {
    group: usize,
    file: u32,
    key_node: u32,
    nodes: Nodes,
    copy: Vec<u64>,
}

impl Sweep {
    /// Begins anew: the groups may be others.
    pub fn restart(&mut self) {
        (self.group, self.file, self.key_node) = (0, 0, 0);
        self.nodes = Nodes::default();
    }

    /// Looks at about so many nodes and heads more, and notes what it has found of each group that
    /// it has come to the end of. True if that was the last one: the next step begins anew. `live`
    /// is told of every live node: the index of its group, and a copy of its words as the judge
    /// has left them.
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
            let Some(group) = handle.groups().get(self.group) else {
                self.restart();
                return true;
            };
            // Its pages may be gone.
            if handle.runtime().is_quarantined(group.mark()) {
                self.next_group();
                continue;
            }
            looked += 1 + self.look(group, judge, live, now);
            if !self.advance(group) {
                self.nodes.swept_ms = now;
                handle.set_nodes(self.group, &self.nodes);
                self.next_group();
            }
        }
        false
    }

    /// Goes to the next key-node; false behind the last one.
    fn advance(&mut self, group: &Group) -> bool {
        self.key_node += 1;
        if self.key_node == group.geometry().key_nodes {
            (self.file, self.key_node) = (self.file + 1, 0);
        }
        self.file < group.geometry().files
    }

    fn next_group(&mut self) {
        let next = self.group + 1;
        self.restart();
        self.group = next;
    }

    /// Looks at a key-node; the nodes in its chain.
    fn look(
        &mut self,
        group: &Group,
        judge: &dyn Judge,
        each: &mut dyn FnMut(usize, &[u64]),
        now: u64,
    ) -> usize {
        let mut tags = [0u64; TAG_WORDS];
        group.file(self.file).read(group.head(self.key_node) + 1, &mut tags);
        let chain = group.geometry().chain as usize;
        let is_taken = |&place: &usize| tag::of(tags[place / 8], place) != 0;
        let (mut live, mut taken) = (0, 0);
        for place in (0..chain).filter(is_taken) {
            taken += 1;
            match self.copy_live(group, place, judge, now) {
                Copied::Expired => continue,
                Copied::Live => each(self.group, &self.copy),
                Copied::Torn => {}
            }
            live += 1;
        }
        self.nodes.live += live;
        self.nodes.expired += taken as u64 - live;
        self.nodes.free += (chain - taken) as u64;
        self.nodes.chains[taken] += 1;
        taken
    }

    /// Leaves the words of a live node in `copy`.
    fn copy_live(&mut self, group: &Group, place: usize, judge: &dyn Judge, now: u64) -> Copied {
        let (index, at) = (self.group, group.node(self.key_node, place));
        let copy = &mut self.copy;
        copy.resize(group.node_words(), 0);
        let mut copies = (0..COPIES_MAX).map(|_| {
            group.file(self.file).read(at, copy);
            is_whole(copy)
        });
        if !copies.any(|whole| whole) {
            return Copied::Torn;
        }
        // A last use in the future counts as now.
        copy[node::LAST_USE] = copy[node::LAST_USE].min(now);
        let is_expired = judge.is_expired(index, copy[node::KEY], copy[node::LAST_USE], now)
            || judge.rank(index, copy, now) == Rank::Expired;
        if is_expired { Copied::Expired } else { Copied::Live }
    }
}

/// What came of copying a node.
enum Copied {
    Live,
    Expired,
    /// In use by somebody for as long as was looked.
    Torn,
}
