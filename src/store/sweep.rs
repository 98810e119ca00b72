//! A slow look at all nodes of all groups: how many live, are expired, are free, and how long the
//! chains are.
//!
//! Invariant: it takes no semaphore and writes nothing but its findings, and each step is bounded.
//! It believes copies whose CRC holds; what stays torn is in use by somebody, and counted as live.

use super::counter::Nodes;
use super::evict::{Judge, Rank};
use super::group::{Group, is_whole};
use super::handle::Handle;
use super::layout::{TAG_WORDS, node};

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
    /// it has come to the end of. True if that was the last one: the next step begins anew.
    pub fn step(&mut self, handle: &Handle, judge: &dyn Judge, most: usize, now: u64) -> bool {
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
            looked += 1 + self.look(group, judge, now);
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
    fn look(&mut self, group: &Group, judge: &dyn Judge, now: u64) -> usize {
        let mut tags = [0u64; TAG_WORDS];
        group.file(self.file).read(group.head(self.key_node) + 1, &mut tags);
        let chain = group.geometry().chain as usize;
        let is_taken = |place: &usize| (tags[place / 8] >> (place % 8 * 8)) as u8 != 0;
        let (mut live, mut taken) = (0, 0);
        for place in (0..chain).filter(is_taken) {
            taken += 1;
            live += u64::from(!self.is_expired(group, place, judge, now));
        }
        self.nodes.live += live;
        self.nodes.expired += taken as u64 - live;
        self.nodes.free += (chain - taken) as u64;
        self.nodes.chains[taken] += 1;
        taken
    }

    fn is_expired(&mut self, group: &Group, place: usize, judge: &dyn Judge, now: u64) -> bool {
        let (index, at) = (self.group, group.node(self.key_node, place));
        let copy = &mut self.copy;
        copy.resize(group.node_words(), 0);
        let mut copies = (0..COPIES_MAX).map(|_| {
            group.file(self.file).read(at, copy);
            is_whole(copy)
        });
        if !copies.any(|whole| whole) {
            return false;
        }
        // A last use in the future counts as now.
        let last_use = copy[node::LAST_USE].min(now);
        judge.is_expired(index, copy[node::KEY], last_use, now)
            || judge.rank(index, copy, now) == Rank::Expired
    }
}
