//! The node of a key whose group grows: found where it is, written where it belongs.
//!
//! Invariant: a key has its node in one of the two groups. A transaction that looks in both holds
//! both key-nodes, and one that finds the node in the new group needs no other. So a transaction of
//! an older generation in the former group either comes before this transaction or does not begin,
//! because it reads the generation under the former key-node's semaphore (model.rs shows it). The
//! commit writes the node to the new group and removes it from the former one, or does neither. On
//! a disk the words stay in the former group until the copy is on disk. After a power cut a key may
//! have both nodes; the one in the new group counts. A node that finds no place in the new group is
//! changed in the former one, and stays there.

use frs_conf::key::{KeyNodeId, KeyRef, Location};

use super::{NodeCopy, NodeIndex, Transaction, Wanted, WorkingCopies};
use crate::chain::tags::{moved_tag, set_tag};
use crate::file::group::is_whole;
use crate::file::layout::{CHAIN_MAX, node, tag};
use crate::file::version::tail_words;
use crate::watch::counter::GroupCounter;
use crate::{Judge, Rank};

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
    /// The key-nodes that a transaction over the node takes.
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
        if self.copies.nodes[index.0].former.is_none() {
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
        let former = self.add_copy(key_node, wanted, Some(place), start);
        let copies = &mut *self.copies;
        let old = copies.words[start..].to_vec();
        let node = &mut copies.nodes[index.0];
        node.former = Some(former.0);
        copies.formers += 1;
        if node.place.is_some() {
            // The node has moved, and the power failed before it was removed here. The node in the
            // new group counts.
            return;
        }
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

    /// Writes a node that is still in the former group to its place there, because it finds no
    /// place in its new chain. Returns false if it is not in the former group, or has words for
    /// which there is no room.
    pub fn stay(&mut self, index: NodeIndex, now: u64) -> bool {
        let Some(former) = self.former(index) else { return false };
        let WorkingCopies { nodes, words, .. } = &mut *self.copies;
        let [new, old] = [index, former].map(|NodeIndex(at)| &nodes[at]);
        let end_of = |node: &NodeCopy| node.end - tail_words(&words[node.start..node.end]);
        let mut states = words[new.states..end_of(new)].to_vec();
        let room = end_of(old) - old.states;
        if states.iter().skip(room).any(|&word| word != 0) {
            return false;
        }
        states.resize(room, 0);
        words[old.states..old.states + room].copy_from_slice(&states);
        // A node without a version may have no room for one.
        let version = node::check_word(0, node::FLAG_VERSION);
        let check = words[new.start + node::CHECK] & !version;
        words[old.start + node::CHECK] = check | words[old.start + node::CHECK] & version;
        self.touch(former, now);
        true
    }

    /// Takes a node that has moved out of the former group. On a disk its words stay until its copy
    /// is on disk, under a tag that no look-up finds: the kernel may write the two in any order.
    pub fn leave(&mut self, index: NodeIndex) {
        let node = &self.copies.nodes[index.0];
        let (key_node, tag, place) = (node.key_node, node.tag, node.place);
        let is_in_memory = self.groups()[self.list()[key_node].group].is_in_memory();
        self.erase(index);
        if let Some(place) = place.filter(|_| !is_in_memory) {
            set_tag(&mut self.copies.key_nodes[key_node].tags, place, moved_tag(tag));
        }
    }

    /// The places of a key-node whose nodes have moved, as bits.
    pub fn moved_places(&self, wanted: &Wanted) -> u64 {
        let (key_node, id) = (self.key_node_of(wanted), wanted.at.key_node_id());
        let group = &self.groups()[wanted.group];
        let tags = &self.copies.key_nodes[key_node].tags;
        let mut words = vec![0; group.node_words()];
        let mut is_moved = |place: usize| {
            let tag = tag::of(tags[place / 8], place);
            tag != 0 && {
                group.read_node(id, place, &mut words);
                let expected = group.judge_node(&words, id);
                expected.is_ok_and(|expected| group.is_moved(tag, expected))
            }
        };
        let places = 0..group.geometry().chain as usize;
        places.filter(|&place| is_moved(place)).fold(0, |places, place| places | 1 << place)
    }

    /// Frees the given places whose nodes have moved. Returns their number.
    pub fn free_moved(&mut self, wanted: &Wanted, places: u64) -> u32 {
        let places = self.moved_places(wanted) & places;
        let key_node = self.key_node_of(wanted);
        let copy = &mut self.copies.key_nodes[key_node];
        for place in (0..CHAIN_MAX).filter(|place| places >> place & 1 != 0) {
            set_tag(&mut copy.tags, place, 0);
            copy.dirty = true;
        }
        places.count_ones()
    }

    /// Calls `keep` with each whole node that belongs to a key-node, and drops the node if the
    /// result is false. Drops damaged nodes, too. Must be called before anything else is done with
    /// the key-node. Returns the number of nodes that have moved: they stay, and `keep` is not
    /// called for them.
    pub fn keep_stored(
        &mut self,
        wanted: &Wanted,
        mut keep: impl FnMut(&[u64], Location) -> bool,
    ) -> u64 {
        let (groups, key_node) = (self.groups(), self.key_node_of(wanted));
        let group = &groups[wanted.group];
        let id = wanted.at.key_node_id();
        let mut words = vec![0; group.node_words()];
        let mut moved = 0;
        for place in 0..CHAIN_MAX {
            let tags = &self.copies.key_nodes[key_node].tags;
            let tag = tag::of(tags[place / 8], place);
            if tag == 0 {
                continue;
            }
            let at = (place < group.geometry().chain as usize)
                .then(|| {
                    group.read_node(id, place, &mut words);
                    self.judge_stored(wanted.group, &words, id)
                })
                .flatten();
            if at.is_some_and(|at| group.is_moved(tag, at.tag)) {
                moved += 1;
            } else if !at.is_some_and(|at| keep(&words, at)) {
                let copy = &mut self.copies.key_nodes[key_node];
                set_tag(&mut copy.tags, place, 0);
                copy.dirty = true;
            }
        }
        moved
    }

    /// The place of a node, if the node is sound and in its key-node. Otherwise counts the damage.
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

    /// Erases a node in use because it has no place, and counts it as evicted.
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
