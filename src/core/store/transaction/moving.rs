//! The node of a key whose group grows: found where it is, written where it belongs.
//!
//! Invariant: a key has its node in one of the two groups. A transaction that looks in both holds
//! both key-nodes, and one that finds the node in the new group needs no other. So whatever an
//! older generation still does in the former group comes before this transaction or, because the
//! generation is read under the former's semaphore, does not begin (model.rs shows it). The move is
//! part of the commit: the node here, its tag there cleared, or neither.

use super::{NodeCopy, NodeIndex, Transaction, Wanted};
use crate::key::{KeyNodeId, KeyRef, Location};
use crate::store::counter::GroupCounter;
use crate::store::group::is_whole;
use crate::store::layout::{CHAIN_MAX, node, tag};
use crate::store::tags::set_tag;
use crate::store::{Judge, Rank};

/// Where the node of a key belongs, and where it is if it has not moved yet.
#[derive(Debug, Clone, Copy)]
pub struct Sought<'k> {
    /// Where it belongs.
    pub wanted: Wanted,
    /// The key as it is stored there.
    pub key: KeyRef<'k>,
    /// Where it was before its group grew.
    pub former: Option<FormerPlace<'k>>,
}

/// Where a node was before its group grew.
#[derive(Debug, Clone, Copy)]
pub struct FormerPlace<'k> {
    /// The key-node there.
    pub wanted: Wanted,
    /// The key as it is stored there.
    pub key: KeyRef<'k>,
}

impl<'k> Sought<'k> {
    /// The key-nodes that a transaction over it takes.
    pub fn wanted(&self) -> impl Iterator<Item = Wanted> + use<> {
        std::iter::once(self.wanted).chain(self.former.map(|former| former.wanted))
    }
}

impl Transaction<'_> {
    /// Like [`Transaction::node`], for a group that may be moving: a node that is still in the
    /// former group is copied, and `judge` converts it. The first [`Transaction::touch`] moves it.
    pub fn sought(&mut self, sought: &Sought<'_>, biz_id: u32, judge: &dyn Judge) -> NodeIndex {
        let index = self.node(&sought.wanted, biz_id, &sought.key);
        let Some(former) = &sought.former else { return index };
        if !self.is_there(index) {
            self.find_former(index, former, biz_id, judge);
        }
        index
    }

    #[cold]
    fn find_former(
        &mut self,
        index: NodeIndex,
        FormerPlace { wanted, key }: &FormerPlace<'_>,
        biz_id: u32,
        judge: &dyn Judge,
    ) {
        let key_word = node::key_word(biz_id, key.form() as u8, key.bytes());
        let key_node = self.key_node_of(wanted);
        let start = self.copies.words.len();
        let Some(place) = self.find(key_node, wanted.at.tag, key_word, key) else { return };
        let states = start + node::FIELD + self.groups()[wanted.group].field_words();
        let copies = &mut *self.copies;
        let (end, former) = (copies.words.len(), copies.nodes.len());
        copies.nodes.push(NodeCopy {
            key_node,
            older: copies.key_nodes[key_node].newest.replace(former),
            tag: wanted.at.tag,
            place: Some(place),
            found: true,
            former: None,
            evicts: None,
            dirty: false,
            start,
            states,
            end,
        });
        let old = copies.words[start..end].to_vec();
        let node = &mut copies.nodes[index.0];
        node.former = Some(former);
        copies.formers += 1;
        judge.convert(wanted.group, &old, &mut copies.words[node.start..node.end]);
    }

    /// Whether the node is stored: in its chain, or still in the former group.
    #[inline]
    pub fn is_there(&self, index: NodeIndex) -> bool {
        let node = &self.copies.nodes[index.0];
        node.place.is_some() || self.former(index).is_some()
    }

    /// The node in the former group, if it is still there.
    #[inline]
    pub(super) fn former(&self, index: NodeIndex) -> Option<NodeIndex> {
        let former = self.copies.nodes[index.0].former?;
        self.copies.nodes[former].place.map(|_| NodeIndex(former))
    }

    /// Calls `keep` with each whole node of a key-node that belongs there, and drops it if the
    /// result is false. Drops what is damaged, too. To be called before anything else is done with
    /// the key-node.
    pub fn keep_stored(&mut self, wanted: &Wanted, mut keep: impl FnMut(&[u64], Location) -> bool) {
        let (groups, key_node) = (self.groups(), self.key_node_of(wanted));
        let group = &groups[wanted.group];
        let (file, id) = (wanted.at.file, wanted.at.key_node_id());
        let mut words = vec![0; group.node_words()];
        for place in 0..CHAIN_MAX {
            let tags = &self.copies.key_nodes[key_node].tags;
            if tag::of(tags[place / 8], place) == 0 {
                continue;
            }
            let is_kept = place < group.geometry().chain as usize && {
                group.file(file).read(group.node(id.key_node, place), &mut words);
                self.judge_stored(wanted.group, &words, id).is_some_and(|at| keep(&words, at))
            };
            if !is_kept {
                let copy = &mut self.copies.key_nodes[key_node];
                set_tag(&mut copy.tags, place, 0);
                copy.dirty = true;
            }
        }
    }

    /// Where a node belongs, if it is sound and in its key-node. Counts it if not.
    fn judge_stored(&self, group: usize, words: &[u64], id: KeyNodeId) -> Option<Location> {
        if !is_whole(words) {
            self.handle().count_at(group, GroupCounter::DroppedCrc);
            return None;
        }
        let at = self.groups()[group].locate(words).filter(|at| at.key_node_id() == id);
        if at.is_none() {
            self.handle().count_at(group, GroupCounter::DroppedMisplaced);
        }
        at
    }

    /// Erases a node in use for want of a place, and counts it as evicted.
    pub fn give_up(&mut self, index: NodeIndex, rank: Rank) {
        let group = self.list()[self.copies.nodes[index.0].key_node].group;
        let counter = match rank {
            Rank::Expired => GroupCounter::EvictionsExpired,
            Rank::Idle => GroupCounter::EvictionsIdle,
            Rank::Limiting | Rank::Banned | Rank::Kept => GroupCounter::EvictionsLimiting,
        };
        self.handle().count_at(group, counter);
        self.erase(index);
    }
}
