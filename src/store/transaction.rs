//! A transaction: key-nodes locked in one order, nodes copied out, worked on, written back whole.
//!
//! Invariant: until `commit` nothing in shared memory has changed but semaphores and the slot's own
//! words; at its commit point everything has; and dropping or unwinding it leaves the old state.

use super::counter::Counter;
use super::evict::{self, Judge, Rank};
use super::group::{Group, is_whole, node_crc};
use super::handle::Handle;
use super::layout::{HEAD_WORDS, TAG_WORDS, node, slot::UNDO_MAX};
use super::region::put;
use super::slot::{Intent, Undo};
use crate::conf::OnFull;
use crate::key::{KeyRef, Location};
use crate::sync::{AtomicU64, Ordering};

/// A key-node wanted: the group's index in the handle, and the place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Index of the group.
    pub group: usize,
    /// File, key-node and tag.
    pub at: Location,
}

/// Why a transaction did not begin. It holds nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// A semaphore was not to be had within the lock-timeout.
    Busy,
    /// A newer generation of the configuration is in force: take it, start again.
    Newer,
    /// A group is quarantined, or this is a forked child.
    Unavailable,
}

/// No place of the chain may be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// The transaction would change more words than the undo log holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLarge;

/// A node of the transaction, by index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeIndex(usize);

/// Buffers of a handle's transactions, reused.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    intents: Vec<(Intent, usize)>,
    key_nodes: Vec<KeyNode>,
    nodes: Vec<Node>,
    words: Vec<u64>,
    order: Vec<(u64, usize)>,
    copy: Vec<u64>,
}

/// The working copy of a key-node's head.
#[derive(Debug)]
struct KeyNode {
    group: usize,
    file: u32,
    key_node: u32,
    tags: [u64; TAG_WORDS],
    dirty: bool,
}

/// The working copy of a node: `start` is its first word in the scratch.
#[derive(Debug)]
struct Node {
    key_node: usize,
    tag: u8,
    /// Where it stands; none: it is not in the chain (yet).
    place: Option<usize>,
    /// Was found in the chain.
    found: bool,
    evicts: Option<Rank>,
    start: usize,
    dirty: bool,
}

/// An open transaction: it holds the semaphores of its key-nodes.
#[derive(Debug)]
pub struct Transaction<'h> {
    handle: &'h mut Handle,
    held: usize,
}

impl Handle {
    /// Takes the semaphores of all key-nodes wanted, in the global order, each once, and looks
    /// whether `generation` is still the one in force.
    #[inline]
    pub fn begin(
        &mut self,
        wanted: &[Wanted],
        generation: u64,
    ) -> Result<Transaction<'_>, Refused> {
        if self.is_forked() {
            return Err(Refused::Unavailable);
        }
        self.scratch.clear();
        for wanted in wanted {
            let group = &self.groups[wanted.group];
            if self.runtime.is_quarantined(group.mark()) {
                return Err(Refused::Unavailable);
            }
            let (file, key_node) = (wanted.at.file, wanted.at.key_node);
            let intent = Intent { group: group.header().id, file, key_node };
            self.scratch.intents.push((intent, wanted.group));
        }
        self.scratch.sort_intents();
        let intents = self.scratch.intents.iter().map(|(intent, _)| *intent);
        self.slot().words().announce(intents);
        let mut transaction = Transaction { handle: self, held: 0 };
        // From here on dropping the transaction releases what it holds.
        transaction.take_all()?;
        if transaction.handle.runtime.generation() != generation {
            return Err(Refused::Newer);
        }
        transaction.read_heads();
        Ok(transaction)
    }

    /// Is the group of a key-node quarantined: then no transaction over it begins.
    pub fn is_quarantined(&self, wanted: &Wanted) -> bool {
        self.runtime.is_quarantined(self.groups[wanted.group].mark())
    }

    /// Asks the processor to fetch the head that a key leads to.
    #[inline]
    pub fn prefetch_head(&self, wanted: &Wanted) {
        let group = &self.groups[wanted.group];
        group.file(wanted.at.file).prefetch(group.head(wanted.at.key_node));
    }

    /// Asks the processor to fetch the node that the key's tag points to, a good while after the
    /// head. Reads tags without the semaphore: what it finds is a guess.
    #[inline]
    pub fn prefetch_node(&self, wanted: &Wanted) {
        let group = &self.groups[wanted.group];
        if self.runtime.is_quarantined(group.mark()) {
            // Its pages may be gone.
            return;
        }
        let region = group.file(wanted.at.file);
        let tags = region.words(group.head(wanted.at.key_node) + 1, TAG_WORDS);
        let places = tags.iter().enumerate().find_map(|(index, word)| {
            let matches = bytes_equal(word.load(Ordering::Relaxed), wanted.at.tag);
            (matches != 0).then(|| index * 8 + matches.trailing_zeros() as usize / 8)
        });
        if let Some(place) = places {
            let node = group.node(wanted.at.key_node, place);
            region.prefetch(node);
            if group.node_words() > HEAD_WORDS {
                region.prefetch(node + HEAD_WORDS);
            }
        }
    }
}

impl Scratch {
    #[inline]
    fn clear(&mut self) {
        self.intents.clear();
        self.key_nodes.clear();
        self.nodes.clear();
        self.words.clear();
    }

    #[inline]
    fn sort_intents(&mut self) {
        if self.intents.len() > 1 {
            self.intents.sort_unstable();
            self.intents.dedup();
        }
    }
}

impl Transaction<'_> {
    #[inline]
    fn take_all(&mut self) -> Result<(), Refused> {
        for index in 0..self.handle.scratch.intents.len() {
            let (intent, group) = self.handle.scratch.intents[index];
            if !self.handle.take(group, intent.file, intent.key_node) {
                return Err(Refused::Busy);
            }
            self.held += 1;
        }
        Ok(())
    }

    /// Copies the heads out, forgetting every working copy made so far.
    #[inline]
    fn read_heads(&mut self) {
        let Handle { scratch, groups, .. } = &mut *self.handle;
        scratch.key_nodes.clear();
        scratch.nodes.clear();
        scratch.words.clear();
        for &(Intent { file, key_node, .. }, group) in &scratch.intents {
            let mut tags = [0; TAG_WORDS];
            groups[group].file(file).read(groups[group].head(key_node) + 1, &mut tags);
            scratch.key_nodes.push(KeyNode { group, file, key_node, tags, dirty: false });
        }
    }

    /// Gives up all changes made so far and starts from the stored state again, still holding the
    /// semaphores.
    pub fn reset(&mut self) {
        self.read_heads();
    }

    /// The node of a key: the one this transaction works on already, the one of the chain, or a new
    /// one of zeros that stands nowhere yet.
    #[inline]
    pub fn node(&mut self, wanted: &Wanted, biz_id: u32, key: &KeyRef<'_>) -> NodeIndex {
        let key_word = node::key_word(biz_id, key.form() as u8, key.bytes());
        let key_node = self.key_node_of(wanted);
        if let Some(index) = self.known(key_node, key_word, key) {
            return index;
        }
        let found = self.find(key_node, wanted.at.tag, key_word, key);
        let index = found.unwrap_or_else(|| self.add_zeroed(key_node, key_word, key));
        let scratch = &mut self.handle.scratch;
        let node = Node {
            key_node,
            tag: wanted.at.tag,
            place: index.1,
            found: index.1.is_some(),
            evicts: None,
            start: index.0,
            dirty: false,
        };
        scratch.nodes.push(node);
        NodeIndex(scratch.nodes.len() - 1)
    }

    #[inline]
    fn key_node_of(&self, wanted: &Wanted) -> usize {
        let key_nodes = &self.handle.scratch.key_nodes;
        if key_nodes.len() == 1 {
            return 0;
        }
        let wants = |known: &KeyNode| {
            known.group == wanted.group
                && known.file == wanted.at.file
                && known.key_node == wanted.at.key_node
        };
        key_nodes.iter().position(wants).expect("a key-node that was wanted at the beginning")
    }

    #[inline]
    fn known(&self, key_node: usize, key_word: u64, key: &KeyRef<'_>) -> Option<NodeIndex> {
        let scratch = &self.handle.scratch;
        let same = |known: &Node| {
            known.key_node == key_node && holds(&scratch.words[known.start..], key_word, key)
        };
        scratch.nodes.iter().position(same).map(NodeIndex)
    }

    /// Looks for the key among the places with its tag: (start in the scratch, place).
    #[inline]
    fn find(
        &mut self,
        key_node: usize,
        tag: u8,
        key_word: u64,
        key: &KeyRef<'_>,
    ) -> Option<(usize, Option<usize>)> {
        for tag_word in 0..TAG_WORDS {
            let mut matches =
                bytes_equal(self.handle.scratch.key_nodes[key_node].tags[tag_word], tag);
            while matches != 0 {
                let place = tag_word * 8 + matches.trailing_zeros() as usize / 8;
                matches &= matches - 1;
                if let Some(start) = self.read_if_same(key_node, place, key_word, key) {
                    return Some((start, Some(place)));
                }
            }
        }
        None
    }

    #[inline]
    fn read_if_same(
        &mut self,
        key_node: usize,
        place: usize,
        key_word: u64,
        key: &KeyRef<'_>,
    ) -> Option<usize> {
        let Handle { scratch, groups, slot, .. } = &mut *self.handle;
        let head = &mut scratch.key_nodes[key_node];
        let group = &groups[head.group];
        if place >= group.geometry().chain as usize
            || scratch.nodes.iter().any(|n| n.key_node == key_node && n.place == Some(place))
        {
            return None;
        }
        let start = scratch.words.len();
        let stored =
            group.file(head.file).words(group.node(head.key_node, place), group.node_words());
        scratch.words.extend(stored.iter().map(|word| word.load(Ordering::Relaxed)));
        let copy = &scratch.words[start..];
        if !is_whole(copy) {
            // Scribbled: dropped, counted, never believed.
            set_tag(&mut head.tags, place, 0);
            head.dirty = true;
            if let Some(slot) = slot {
                slot.count(Counter::DroppedCrc);
            }
        } else if holds(copy, key_word, key) {
            return Some(start);
        }
        scratch.words.truncate(start);
        None
    }

    fn add_zeroed(
        &mut self,
        key_node: usize,
        key_word: u64,
        key: &KeyRef<'_>,
    ) -> (usize, Option<usize>) {
        let Handle { scratch, groups, .. } = &mut *self.handle;
        let start = scratch.words.len();
        let words = groups[scratch.key_nodes[key_node].group].node_words();
        scratch.words.resize(start + words, 0);
        scratch.words[start + node::KEY] = key_word;
        let field = start + node::FIELD;
        scratch.words[field..field + key.words().len()].copy_from_slice(key.words());
        (start, None)
    }

    /// Has the node a place in its chain: it was found there, or was given one.
    #[inline]
    pub fn is_placed(&self, index: NodeIndex) -> bool {
        self.handle.scratch.nodes[index.0].place.is_some()
    }

    fn group_of(&self, index: NodeIndex) -> &Group {
        let scratch = &self.handle.scratch;
        &self.handle.groups[scratch.key_nodes[scratch.nodes[index.0].key_node].group]
    }

    /// All words of a node's working copy.
    #[inline]
    pub fn words(&mut self, index: NodeIndex) -> &mut [u64] {
        let len = self.group_of(index).node_words();
        let start = self.handle.scratch.nodes[index.0].start;
        &mut self.handle.scratch.words[start..start + len]
    }

    /// The state words of one or two nodes at once: what stands behind the key field.
    #[inline]
    pub fn states(
        &mut self,
        one: Option<NodeIndex>,
        two: Option<NodeIndex>,
    ) -> (&mut [u64], &mut [u64]) {
        let range = |index: Option<NodeIndex>| {
            index.map_or(0..0, |index| {
                let group = self.group_of(index);
                let start = self.handle.scratch.nodes[index.0].start;
                start + node::FIELD + group.field_words()..start + group.node_words()
            })
        };
        let (one, two) = (range(one), range(two));
        if two.is_empty() {
            // By far the most: one node.
            return (&mut self.handle.scratch.words[one], &mut []);
        }
        match self.handle.scratch.words.get_disjoint_mut([one, two]) {
            Ok([one, two]) => (one, two),
            Err(_) => unreachable!("two nodes of a transaction never overlap"),
        }
    }

    /// Makes sure that the node has a place in its chain, so that it can be written: a free one,
    /// else that of the node least missed.
    #[inline]
    pub fn place(
        &mut self,
        index: NodeIndex,
        judge: &dyn Judge,
        on_full: OnFull,
        now: u64,
    ) -> Result<(), Full> {
        if self.handle.scratch.nodes[index.0].place.is_some() {
            return Ok(());
        }
        let victim = self.choose_place(index, judge, on_full, now).ok_or(Full)?;
        let scratch = &mut self.handle.scratch;
        let node = &mut scratch.nodes[index.0];
        node.place = Some(victim.place);
        node.evicts = victim.rank;
        let head = &mut scratch.key_nodes[node.key_node];
        set_tag(&mut head.tags, victim.place, node.tag);
        head.dirty = true;
        Ok(())
    }

    fn choose_place(
        &mut self,
        index: NodeIndex,
        judge: &dyn Judge,
        on_full: OnFull,
        now: u64,
    ) -> Option<evict::Victim> {
        let Handle { scratch, groups, .. } = &mut *self.handle;
        let Scratch { key_nodes, nodes, order, copy, .. } = scratch;
        let key_node = nodes[index.0].key_node;
        let head = &key_nodes[key_node];
        let group = &groups[head.group];
        let chain = group.geometry().chain as usize;
        let is_used = |place: usize| {
            nodes.iter().any(|node| node.key_node == key_node && node.place == Some(place))
        };
        let free = (0..chain).find(|&place| tag_at(&head.tags, place) == 0 && !is_used(place));
        if let Some(place) = free {
            return Some(evict::Victim { place, rank: None });
        }
        let candidates = (0..chain).filter(|&place| !is_used(place));
        let place = (head.file, head.key_node);
        evict::choose(group, place, candidates, (judge, on_full, now), (order, copy))
    }

    /// Notes that a node is to be written at the commit, used at `now`. It has a place.
    #[inline]
    pub fn touch(&mut self, index: NodeIndex, now: u64) {
        let node = &mut self.handle.scratch.nodes[index.0];
        debug_assert!(node.place.is_some());
        node.dirty = true;
        let at = node.start + node::LAST_USE;
        self.handle.scratch.words[at] = now;
    }

    /// Stamps the last use of a node found, at once: a refused Update changes nothing else. It is
    /// one word, outside the CRC, that nothing depends on.
    pub fn stamp(&mut self, index: NodeIndex, now: u64) {
        let node = &self.handle.scratch.nodes[index.0];
        if let (true, Some(place)) = (node.found, node.place) {
            let head = &self.handle.scratch.key_nodes[node.key_node];
            let group = &self.handle.groups[head.group];
            let at = group.node(head.key_node, place) + node::LAST_USE;
            group.file(head.file).store(at, now);
        }
    }

    /// Writes every node touched and every head changed, whole or not at all, and releases.
    #[inline]
    pub fn commit(mut self, now: u64) -> Result<(), TooLarge> {
        self.seal();
        let logged = self.log()?;
        if logged > 0 {
            self.handle.slot().words().begin(logged);
            self.write();
            self.handle.slot().words().commit();
            self.count(now);
        }
        Ok(())
    }

    /// Writes the CRC of each node touched into its working copy.
    #[inline]
    fn seal(&mut self) {
        let Handle { scratch, groups, .. } = &mut *self.handle;
        for node in scratch.nodes.iter().filter(|node| node.dirty) {
            let len = groups[scratch.key_nodes[node.key_node].group].node_words();
            let words = &mut scratch.words[node.start..node.start + len];
            words[node::CHECK] = words[node::CHECK] & !0xffff_ffff | u64::from(node_crc(words));
        }
    }

    /// Logs every word about to change with its old value; how many.
    #[inline]
    fn log(&self) -> Result<usize, TooLarge> {
        let slot = self.handle.slot().words();
        let mut logged = 0;
        let mut overflow = false;
        self.for_each_change(Side::Log, |group, file, at, _, old, _| {
            if logged == UNDO_MAX {
                overflow = true;
                return;
            }
            slot.log(logged, Undo { group: group.header().id, file, at: at as u64, old });
            logged += 1;
        });
        if overflow { Err(TooLarge) } else { Ok(logged) }
    }

    #[inline]
    fn write(&self) {
        self.for_each_change(Side::Write, |_, _, _, word, _, new| put(word, new));
    }

    /// Calls `change(group, file, at, word, old, new)` for each word that differs: those of nodes
    /// first, tags last. Contents of a place that is free need no log.
    #[inline]
    fn for_each_change(
        &self,
        side: Side,
        mut change: impl FnMut(&Group, u32, usize, &AtomicU64, u64, u64),
    ) {
        let Handle { scratch, groups, .. } = &*self.handle;
        let mut compare = |group: &Group, file: u32, at: usize, copy: &[u64]| {
            let stored = group.file(file).words(at, copy.len());
            for (offset, (word, &new)) in stored.iter().zip(copy).enumerate() {
                let old = word.load(Ordering::Relaxed);
                if old != new {
                    change(group, file, at + offset, word, old, new);
                }
            }
        };
        for node in scratch.nodes.iter().filter(|node| node.dirty) {
            let Some(place) = node.place else { continue };
            let head = &scratch.key_nodes[node.key_node];
            let group = &groups[head.group];
            if side == Side::Log && !node.found {
                let tags = group.file(head.file).load(group.head(head.key_node) + 1 + place / 8);
                if tags >> (place % 8 * 8) & 0xff == 0 {
                    continue;
                }
            }
            let copy = &scratch.words[node.start..node.start + group.node_words()];
            compare(group, head.file, group.node(head.key_node, place), copy);
        }
        for head in scratch.key_nodes.iter().filter(|head| head.dirty) {
            let group = &groups[head.group];
            compare(group, head.file, group.head(head.key_node) + 1, &head.tags);
        }
    }

    #[inline]
    fn count(&self, now: u64) {
        let Handle { scratch, groups, .. } = &*self.handle;
        for node in scratch.nodes.iter().filter(|node| node.dirty && !node.found) {
            let slot = self.handle.slot();
            slot.count(Counter::Creates);
            let counter = match node.evicts {
                None => continue,
                Some(Rank::Expired) => Counter::EvictionsExpired,
                Some(Rank::Idle) => Counter::EvictionsIdle,
                Some(_) => Counter::EvictionsLimiting,
            };
            slot.count(counter);
            let group = &groups[scratch.key_nodes[node.key_node].group];
            if node.evicts != Some(Rank::Expired) && group.may_log_eviction(now) {
                let name = &group.header().name;
                tracing::warn!(group = name, "a node in use was evicted: the group is too small");
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Log,
    Write,
}

impl Drop for Transaction<'_> {
    #[inline]
    fn drop(&mut self) {
        let slot = self.handle.slot().words();
        if slot.phase() != 0 {
            // Unwinding from between `begin` and `commit`.
            self.handle.roll_back();
        }
        for (intent, group) in self.handle.scratch.intents[..self.held].iter().rev() {
            self.handle.groups[*group].semaphore(intent.file, intent.key_node).release();
        }
        slot.withdraw();
    }
}

/// Is this the node of the key.
#[inline]
fn holds(words: &[u64], key_word: u64, key: &KeyRef<'_>) -> bool {
    // Word by word: a call to memcmp costs more than the few words of a key.
    let mut field = words[node::FIELD..].iter().zip(key.words());
    words[node::KEY] == key_word && field.all(|(stored, asked)| stored == asked)
}

/// The bytes of `word` that equal `tag`, as their top bits. (Mycroft's test in the exact form that
/// marks no byte above a match by mistake.)
#[inline]
fn bytes_equal(word: u64, tag: u8) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let x = word ^ (u64::from(tag) * 0x0101_0101_0101_0101);
    !((x & LOW).wrapping_add(LOW) | x | LOW)
}

#[inline]
fn tag_at(tags: &[u64; TAG_WORDS], place: usize) -> u8 {
    (tags[place / 8] >> (place % 8 * 8)) as u8
}

#[inline]
fn set_tag(tags: &mut [u64; TAG_WORDS], place: usize, tag: u8) {
    let shift = place % 8 * 8;
    tags[place / 8] = tags[place / 8] & !(0xff << shift) | u64::from(tag) << shift;
}
