//! A transaction: locks key-nodes in one order, copies nodes out, changes them, writes them back.
//!
//! Invariant: until `commit`, only semaphores and the slot's own words have changed in shared
//! memory. At the commit point everything has changed. Dropping or unwinding leaves the old state.
//! The steps are those of [`super::protocol`].

mod kept;
mod look_ahead;
mod moving;
mod versions;

pub use moving::{FormerPlace, Sought};
use versions::VersionStep;

use frs_base::sync::Ordering;
use frs_conf::key::{KeyNodeId, KeyRef, Location};

use super::protocol::{Announced, Change, Changes, KeyNodes, Owner as _};
use super::undo_log::{LogFull, UndoLog};
use crate::chain::evict::{EvictionBuffers, FullChain, Judge, Rank, Victim};
use crate::chain::tags::{has_tag, places_of, set_tag};
use crate::file::group::{Group, is_whole, seal};
use crate::file::layout::{HEAD_WORDS, TAG_WORDS, node, tag};
use crate::file::region::Region;
use crate::file::version::tail_words;
use crate::handle::{Attached, Handle};
use crate::lock::semaphore::Semaphore;
use crate::recover::notice::Notice;
use crate::watch::counter::GroupCounter;
use crate::watch::slot::Intent;

/// A wanted key-node: the group's index in the handle, and the place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Index of the group.
    pub group: usize,
    /// File, key-node and tag.
    pub at: Location,
}

impl Wanted {
    /// A key-node, for work on no particular key.
    pub fn of_key_node(group: usize, KeyNodeId { file, key_node }: KeyNodeId) -> Wanted {
        Wanted { group, at: Location { file, key_node, tag: 1 } }
    }
}

/// Why a transaction did not begin. It holds no semaphore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// A semaphore was not free within the lock-timeout.
    Busy,
    /// A newer generation of the configuration is in force. Take it and start again.
    Newer,
    /// A group is quarantined, or this is a forked child.
    Unavailable,
}

/// The chain has no place for the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// The transaction would change more words than the undo log holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLarge;

impl From<LogFull> for TooLarge {
    fn from(_: LogFull) -> TooLarge {
        TooLarge
    }
}

/// A node of the transaction, by index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeIndex(usize);

/// Buffers of a transaction. An owner reuses them for all its transactions.
#[derive(Debug, Default)]
pub struct TransactionBuffers {
    list: Vec<KeyNodeAt>,
    copies: WorkingCopies,
}

#[derive(Debug, Default)]
struct WorkingCopies {
    key_nodes: Vec<KeyNodeCopy>,
    nodes: Vec<NodeCopy>,
    /// Number of working copies that are in the former group of a moving one.
    formers: usize,
    words: Vec<u64>,
    eviction: EvictionBuffers,
}

/// A key-node of the transaction, and where it is.
#[derive(Debug, Clone, Copy)]
struct KeyNodeAt {
    intent: Intent,
    /// Index of its group in the handle.
    group: usize,
    /// First word of its head in the file.
    head: usize,
}

/// All key-nodes of the transaction.
#[derive(Debug, Clone, Copy)]
struct AllKeyNodes<'h> {
    groups: &'h [Group],
    list: &'h [KeyNodeAt],
}

impl KeyNodes for AllKeyNodes<'_> {
    #[inline]
    fn len(&self) -> usize {
        self.list.len()
    }

    #[inline]
    fn intent(&self, index: usize) -> Intent {
        self.list[index].intent
    }

    #[inline]
    fn semaphore(&self, index: usize) -> Semaphore<'_> {
        let KeyNodeAt { intent, group, head } = self.list[index];
        Semaphore::of_head(self.groups[group].file(intent.file), head)
    }
}

/// The working copy of a key-node's tags.
#[derive(Debug, Default)]
struct KeyNodeCopy {
    tags: [u64; TAG_WORDS],
    dirty: bool,
    /// Index of the newest working copy of one of its nodes.
    newest: Option<usize>,
}

/// The working copy of a node.
#[derive(Debug)]
struct NodeCopy {
    /// Index of its key-node.
    key_node: usize,
    /// Index of the next older working copy of a node of the same key-node.
    older: Option<usize>,
    tag: u8,
    /// Its place in the chain. None while it is not in the chain.
    place: Option<usize>,
    /// Whether it was found in the chain.
    found: bool,
    /// Index of the working copy of the same node in the former group.
    former: Option<usize>,
    evicts: Option<Rank>,
    dirty: bool,
    version: VersionStep,
    /// Positions in `words`: its first word, its first state word, and the end.
    start: usize,
    states: usize,
    end: usize,
}

impl KeyNodeCopy {
    /// The working copies of its nodes.
    #[inline]
    fn copies<'a>(&self, nodes: &'a [NodeCopy]) -> impl Iterator<Item = (NodeIndex, &'a NodeCopy)> {
        let copies = std::iter::successors(self.newest, |&index| nodes[index].older);
        copies.map(|index| (NodeIndex(index), &nodes[index]))
    }

    /// Whether one of them has this place.
    #[inline]
    fn uses(&self, nodes: &[NodeCopy], place: usize) -> bool {
        self.copies(nodes).any(|(_, node)| node.place == Some(place))
    }
}

/// An open transaction. It holds the semaphores of all its key-nodes.
#[derive(Debug)]
pub struct Transaction<'h> {
    announced: Announced<Attached<'h>, AllKeyNodes<'h>>,
    copies: &'h mut WorkingCopies,
}

impl Handle {
    /// Takes the semaphores of all wanted key-nodes in the global order, each once. Then checks
    /// that `generation` is still in force.
    #[inline]
    pub fn begin<'h>(
        &'h mut self,
        TransactionBuffers { list, copies }: &'h mut TransactionBuffers,
        wanted: &[Wanted],
        generation: u64,
    ) -> Result<Transaction<'h>, Refused> {
        if self.is_forked() {
            return Err(Refused::Unavailable);
        }
        list.clear();
        for wanted in wanted {
            let group = &self.groups[wanted.group];
            if self.runtime.is_quarantined(group.mark()) {
                return Err(Refused::Unavailable);
            }
            let (file, key_node) = (wanted.at.file, wanted.at.key_node);
            list.push(KeyNodeAt {
                intent: Intent { group: group.header().id, file, key_node },
                group: wanted.group,
                head: group.head(key_node),
            });
        }
        if wanted.len() > 1 {
            list.sort_unstable_by_key(|key_node| key_node.intent);
            list.dedup_by_key(|key_node| key_node.intent);
        }
        let handle = &*self;
        let all = AllKeyNodes { groups: &handle.groups, list };
        let mut announced = Announced::new(Attached::of(handle), all);
        let _held = announced.take_all().ok_or(Refused::Busy)?;
        if handle.runtime.generation() != generation {
            return Err(Refused::Newer);
        }
        let mut marks = all.list.iter().map(|at| handle.groups[at.group].mark());
        if marks.any(|mark| handle.runtime.is_quarantined(mark)) {
            // Quarantined since the check above: a recoverer could not open it.
            return Err(Refused::Unavailable);
        }
        let mut transaction = Transaction { announced, copies };
        transaction.reset();
        Ok(transaction)
    }

    /// Whether the group of a key-node is quarantined. No transaction over such a group begins.
    pub fn is_quarantined(&self, wanted: &Wanted) -> bool {
        self.runtime.is_quarantined(self.groups[wanted.group].mark())
    }

    /// Whether the group with this index is quarantined.
    pub fn is_group_quarantined(&self, group: usize) -> bool {
        self.runtime.is_quarantined(self.groups[group].mark())
    }
}

impl<'h> Transaction<'h> {
    #[inline]
    fn handle(&self) -> &'h Handle {
        self.announced.owner().handle
    }

    #[inline]
    fn groups(&self) -> &'h [Group] {
        self.announced.key_nodes().groups
    }

    /// The held key-nodes, in the order of their working copies.
    #[inline]
    fn list(&self) -> &'h [KeyNodeAt] {
        self.announced.key_nodes().list
    }

    /// Starts again from the stored state and drops every working copy. The semaphores stay taken.
    #[inline]
    pub fn reset(&mut self) {
        let (groups, list) = (self.groups(), self.list());
        let WorkingCopies { nodes, formers, words, key_nodes, .. } = &mut *self.copies;
        *formers = 0;
        nodes.clear();
        words.clear();
        key_nodes.resize_with(list.len(), KeyNodeCopy::default);
        for (key_node, at) in key_nodes.iter_mut().zip(list) {
            groups[at.group].file(at.intent.file).read(at.head + 1, &mut key_node.tags);
            (key_node.dirty, key_node.newest) = (false, None);
        }
    }

    /// The node of a key: the working copy if this transaction has one, else the node in the chain,
    /// else a new node of zeros without a place.
    #[inline]
    pub fn node(&mut self, wanted: &Wanted, biz_id: u32, key: &KeyRef<'_>) -> NodeIndex {
        let key_word = node::key_word(biz_id, key.form() as u8, key.bytes());
        let key_node = self.key_node_of(wanted);
        if let Some(index) = self.known(key_node, key_word, key) {
            return index;
        }
        let start = self.copies.words.len();
        let place = self.find(key_node, wanted.at.tag, key_word, key);
        if place.is_none() {
            self.add_zeroed(key_node, key_word, key);
        }
        self.add_copy(key_node, wanted, place, start)
    }

    /// Adds the working copy of a node, whose words were added from `start` on.
    #[inline]
    fn add_copy(
        &mut self,
        key_node: usize,
        wanted: &Wanted,
        place: Option<usize>,
        start: usize,
    ) -> NodeIndex {
        let states = start + node::FIELD + self.groups()[wanted.group].field_words();
        let copies = &mut *self.copies;
        let end = copies.words.len();
        let index = copies.nodes.len();
        copies.nodes.push(NodeCopy {
            key_node,
            older: copies.key_nodes[key_node].newest.replace(index),
            tag: wanted.at.tag,
            place,
            found: place.is_some(),
            former: None,
            evicts: None,
            dirty: false,
            version: VersionStep::Next,
            start,
            states,
            end,
        });
        NodeIndex(index)
    }

    #[inline]
    fn key_node_of(&self, wanted: &Wanted) -> usize {
        let list = self.list();
        if list.len() == 1 {
            return 0;
        }
        let group = self.groups()[wanted.group].header().id;
        let (file, key_node) = (wanted.at.file, wanted.at.key_node);
        let intent = Intent { group, file, key_node };
        let found = list.binary_search_by_key(&intent, |known| known.intent);
        found.expect("a key-node that was wanted at the beginning")
    }

    #[inline]
    fn known(&self, key_node: usize, key_word: u64, key: &KeyRef<'_>) -> Option<NodeIndex> {
        let WorkingCopies { key_nodes, nodes, words, .. } = &*self.copies;
        let same = |node: &NodeCopy| holds(&words[node.start..node.end], key_word, key);
        key_nodes[key_node].copies(nodes).find(|(_, node)| same(node)).map(|(index, _)| index)
    }

    /// Searches the places with the tag for the key, and appends its node to the copies. Returns
    /// the place.
    #[inline]
    fn find(&mut self, key_node: usize, tag: u8, key_word: u64, key: &KeyRef<'_>) -> Option<usize> {
        // The tags before `read_if_same` drops any of them.
        let tags = self.copies.key_nodes[key_node].tags;
        places_of(&tags, tag).find(|&place| self.read_if_same(key_node, place, key_word, key))
    }

    #[inline]
    fn read_if_same(
        &mut self,
        index: usize,
        place: usize,
        key_word: u64,
        key: &KeyRef<'_>,
    ) -> bool {
        let KeyNodeAt { intent, group: group_index, head } = self.list()[index];
        let group = &self.groups()[group_index];
        let WorkingCopies { key_nodes, nodes, words, .. } = &mut *self.copies;
        let key_node = &mut key_nodes[index];
        // If this transaction uses a place, its working copy counts, not the stored node.
        if key_node.uses(nodes, place) || place >= group.geometry().chain as usize {
            return false;
        }
        let start = words.len();
        let at = head + HEAD_WORDS + place * group.node_words();
        let stored = group.file(intent.file).words(at, group.node_words());
        words.extend(stored.iter().map(|word| word.load(Ordering::Relaxed)));
        let copy = &words[start..];
        if is_whole(copy) {
            if holds(copy, key_word, key) {
                return true;
            }
        } else {
            // A damaged node: it is dropped and counted, never trusted.
            set_tag(&mut key_node.tags, place, 0);
            key_node.dirty = true;
            words.truncate(start);
            self.handle().count_at(group_index, GroupCounter::DroppedCrc);
            return false;
        }
        words.truncate(start);
        false
    }

    fn add_zeroed(&mut self, key_node: usize, key_word: u64, key: &KeyRef<'_>) {
        let words = self.groups()[self.list()[key_node].group].node_words();
        let copies = &mut *self.copies;
        let start = copies.words.len();
        copies.words.resize(start + words, 0);
        copies.words[start + node::KEY] = key_word;
        let field = start + node::FIELD;
        copies.words[field..field + key.words().len()].copy_from_slice(key.words());
    }

    /// Whether the node has a place in its chain: it was found there, or was given one.
    #[inline]
    fn is_placed(&self, index: NodeIndex) -> bool {
        self.copies.nodes[index.0].place.is_some()
    }

    /// How many nodes it works on.
    #[inline]
    pub fn nodes(&self) -> usize {
        self.copies.nodes.len() - self.copies.formers
    }

    /// All words of a node's working copy.
    #[inline]
    pub fn words(&mut self, index: NodeIndex) -> &mut [u64] {
        let WorkingCopies { nodes, words, .. } = &mut *self.copies;
        let node = &nodes[index.0];
        &mut words[node.start..node.end]
    }

    /// The state words of one or two nodes at once: the words behind the key field.
    #[inline]
    pub fn states(&mut self, of: [Option<NodeIndex>; 2]) -> [&mut [u64]; 2] {
        let WorkingCopies { nodes, words, .. } = &mut *self.copies;
        let range = |index: NodeIndex| {
            let node = &nodes[index.0];
            node.states..node.end - tail_words(&words[node.start..node.end])
        };
        match of {
            [Some(one), None] => {
                let one = range(one);
                [&mut words[one], &mut []]
            }
            [None, Some(two)] => {
                let two = range(two);
                [&mut [], &mut words[two]]
            }
            [None, None] => [&mut [], &mut []],
            [Some(one), Some(two)] => {
                let ranges = [range(one), range(two)];
                let both = words.get_disjoint_mut(ranges);
                both.expect("two nodes of a transaction never overlap")
            }
        }
    }

    /// Makes sure that the node has a place in its chain, so that it can be written. The place is
    /// its home, else the next free place, else that of the least useful node, of rank `most` or
    /// lower.
    #[inline]
    pub fn place(
        &mut self,
        index: NodeIndex,
        judge: &dyn Judge,
        most: Rank,
        now: u64,
    ) -> Result<(), Full> {
        if self.is_placed(index) {
            return Ok(());
        }
        let victim = self.choose_place(index, judge, most, now).ok_or(Full)?;
        let WorkingCopies { nodes, key_nodes, .. } = &mut *self.copies;
        let node = &mut nodes[index.0];
        node.place = Some(victim.place);
        node.evicts = victim.rank;
        let key_node = &mut key_nodes[node.key_node];
        set_tag(&mut key_node.tags, victim.place, node.tag);
        key_node.dirty = true;
        Ok(())
    }

    fn choose_place(
        &mut self,
        index: NodeIndex,
        judge: &dyn Judge,
        most: Rank,
        now: u64,
    ) -> Option<Victim> {
        let NodeCopy { key_node: index, tag, .. } = self.copies.nodes[index.0];
        let KeyNodeAt { intent, group: group_index, .. } = self.list()[index];
        let group = &self.groups()[group_index];
        let WorkingCopies { key_nodes, nodes, eviction, .. } = &mut *self.copies;
        let key_node = &key_nodes[index];
        let tags = &key_node.tags;
        let chain = group.geometry().chain as usize;
        let is_used = |place: usize| key_node.uses(nodes, place);
        let home = group.home(tag);
        let mut places = (home..chain).chain(0..home);
        let free = places.find(|&place| tag::of(tags[place / 8], place) == 0 && !is_used(place));
        if let Some(place) = free {
            return Some(Victim { place, rank: None });
        }
        let candidates = (0..chain).filter(|&place| !is_used(place));
        let full = FullChain { group_index, group, file: intent.file, key_node: intent.key_node };
        full.choose(candidates, judge, most, now, eviction)
    }

    /// Marks a node to be written at the commit, with `now` as its last use. The node has a place.
    #[inline]
    pub fn touch(&mut self, index: NodeIndex, now: u64) {
        if let Some(former) = self.former(index) {
            self.leave(former);
        }
        let WorkingCopies { nodes, words, .. } = &mut *self.copies;
        let node = &mut nodes[index.0];
        debug_assert!(node.place.is_some());
        node.dirty = true;
        words[node.start + node::LAST_USE] = now;
    }

    /// Marks a node to be removed from its chain at the commit. Its state is lost.
    pub fn erase(&mut self, index: NodeIndex) {
        if let Some(former) = self.former(index) {
            self.erase(former);
        }
        let WorkingCopies { nodes, key_nodes, .. } = &mut *self.copies;
        let node = &mut nodes[index.0];
        let Some(place) = node.place.take() else { return };
        // A place that it gets after this is a new one.
        (node.found, node.dirty) = (false, false);
        let key_node = &mut key_nodes[node.key_node];
        set_tag(&mut key_node.tags, place, 0);
        key_node.dirty = true;
    }

    /// Stores the last use of a found node at once: a refused Update changes nothing else. It is
    /// one word, outside the CRC, and nothing depends on it.
    pub fn stamp(&mut self, index: NodeIndex, now: u64) {
        let former = self.former(index).filter(|_| !self.is_placed(index));
        let node = &self.copies.nodes[former.unwrap_or(index).0];
        if let (true, Some(place)) = (node.found, node.place) {
            let KeyNodeAt { intent, group, .. } = self.list()[node.key_node];
            let group = &self.groups()[group];
            let at = group.node(intent.key_node, place) + node::LAST_USE;
            let region = group.file(intent.file);
            // The last use never goes back, even if the clock does: the states are no older than
            // before.
            region.store(at, now.max(region.load(at)));
            group.mark_dirty(intent.file, at);
        }
    }

    /// Writes all touched nodes and changed heads, or none of them. Then releases the semaphores.
    #[inline]
    pub fn commit(self, now: u64) -> Result<(), TooLarge> {
        let Transaction { mut announced, copies } = self;
        let (handle, all) = (announced.owner().handle, *announced.key_nodes());
        if handle.has_mirrored {
            copies.note_changes(handle, announced.owner().slot(), all);
        }
        copies.seal();
        let changes = Touched { copies, all };
        let held = announced.take_all().expect("all were taken when it began");
        if held.log(changes)?.commit() {
            changes.count(handle, now);
        }
        Ok(())
    }
}

impl WorkingCopies {
    /// Seals each touched node with its CRC.
    #[inline]
    fn seal(&mut self) {
        for node in self.nodes.iter().filter(|node| node.dirty) {
            seal(&mut self.words[node.start..node.end]);
        }
        // A place is only taken for a node that is written. A tag alone would lead to a missing
        // node.
        debug_assert!(
            self.nodes.iter().all(|node| node.found || node.place.is_none() || node.dirty)
        );
    }
}

/// The touched nodes, then the tags. A place belongs to its key only once the whole node is there.
#[derive(Clone, Copy)]
struct Touched<'s> {
    copies: &'s WorkingCopies,
    all: AllKeyNodes<'s>,
}

impl<'s> Touched<'s> {
    #[inline(always)]
    fn group(self, at: &KeyNodeAt) -> (&'s Group, &'s Region) {
        let group = &self.all.groups[at.group];
        (group, group.file(at.intent.file))
    }

    #[inline(always)]
    fn node(self, node: &NodeCopy, place: usize) -> Change<'s> {
        let at = &self.all.list[node.key_node];
        let ((group, region), new) = (self.group(at), &self.copies.words[node.start..node.end]);
        let first = at.head + HEAD_WORDS + place * group.node_words();
        let stored = region.words(first, new.len());
        Change { intent: at.intent, at: first, stored, new, dirty: group.dirty(at.intent.file) }
    }

    /// Whether the node's place is free. No process reads the words of a free place before its tag
    /// is set.
    #[inline(always)]
    fn is_free(self, node: &NodeCopy, place: usize) -> bool {
        let at = &self.all.list[node.key_node];
        !node.found && has_tag(self.group(at).1, at.head, place, 0)
    }

    #[inline(always)]
    fn head(self, key_node: &'s KeyNodeCopy, at: &KeyNodeAt) -> Change<'s> {
        let (first, new) = (at.head + 1, &key_node.tags);
        let (group, region) = self.group(at);
        let (stored, dirty) = (region.words(first, TAG_WORDS), group.dirty(at.intent.file));
        Change { intent: at.intent, at: first, stored, new, dirty }
    }

    /// Counts the events of a transaction after its commit.
    #[inline]
    fn count(self, handle: &Handle, now: u64) {
        for node in &self.copies.nodes {
            if !node.dirty || node.found {
                continue;
            }
            let index = self.all.list[node.key_node].group;
            if node.former.is_none() {
                handle.count_at(index, GroupCounter::Creates);
            }
            let counter = match node.evicts {
                None => continue,
                Some(Rank::Expired) => GroupCounter::EvictionsExpired,
                Some(Rank::Idle) => GroupCounter::EvictionsIdle,
                Some(_) => GroupCounter::EvictionsLimiting,
            };
            handle.count_at(index, counter);
            let group = &handle.groups[index];
            if node.evicts != Some(Rank::Expired) && group.may_log_eviction(now) {
                handle.note(Notice::Eviction { group: group.header().id });
            }
        }
    }
}

// Plain loops: a single iterator chain for both is not inlined, and makes a create 3 % slower.
impl Changes for Touched<'_> {
    #[inline]
    fn log(&self, log: &mut UndoLog<'_>) -> Result<(), LogFull> {
        for node in &self.copies.nodes {
            if let (true, Some(place)) = (node.dirty, node.place)
                && !self.is_free(node, place)
            {
                self.node(node, place).log(log)?;
            }
        }
        for (key_node, at) in self.copies.key_nodes.iter().zip(self.all.list) {
            if key_node.dirty {
                self.head(key_node, at).log(log)?;
            }
        }
        Ok(())
    }

    #[inline]
    fn write(&self) {
        for node in &self.copies.nodes {
            if let (true, Some(place)) = (node.dirty, node.place) {
                let words = &self.copies.words[node.start..node.end];
                debug_assert!(is_whole(words), "what is written is believed when it is read");
                self.node(node, place).write();
            }
        }
        for (key_node, at) in self.copies.key_nodes.iter().zip(self.all.list) {
            if key_node.dirty {
                self.head(key_node, at).write();
            }
        }
    }

    #[inline]
    fn mark(&self) {
        if !self.all.list.iter().any(|at| self.all.groups[at.group].has_checkpoints()) {
            return;
        }
        for node in &self.copies.nodes {
            if let (true, Some(place)) = (node.dirty, node.place) {
                self.node(node, place).mark();
            }
        }
        for (key_node, at) in self.copies.key_nodes.iter().zip(self.all.list) {
            if key_node.dirty {
                self.head(key_node, at).mark();
            }
        }
    }
}

/// Whether this is the node of the key.
#[inline(always)]
pub(crate) fn holds(words: &[u64], key_word: u64, key: &KeyRef<'_>) -> bool {
    // Word by word: a call to memcmp costs more than the few words of a key.
    let mut field = words[node::FIELD..].iter().zip(key.words());
    words[node::KEY] == key_word && field.all(|(stored, asked)| stored == asked)
}
