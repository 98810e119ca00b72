//! Records of keys that the cluster keeps: finds those that have changed here since they were sent,
//! and takes those that come from the cluster.
//!
//! Invariant: a record from the cluster never replaces a record that is here. It counts only if its
//! CRC covers exactly the words that are read, and the key. A record here is sent again until the
//! cluster has its present content.

use std::collections::HashMap;

use frs_base::clock::Millis;
use frs_base::hash::crc32c_words;
use frs_conf::Scope;
use frs_engine::{Entry, ItemError, ItemMoment, ItemNodes, Remote, Service, StoredKey, Table};
use frs_store::layout::node;
use frs_store::{Rank, version};

/// Words before the states of a record, or before the time at which its ban began.
const HEAD_WORDS: usize = 3;
/// Flag in the first word of a record: the time at which its ban began follows.
const BEGUN: u64 = node::check_word(0, node::FLAG_BEGUN);

/// A key's node without the parts that belong to this machine: its place and its key field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptRecord {
    /// Shape and flags, as in a node; without a CRC.
    pub check: u64,
    /// The reset epoch under which it was written. The flags have only its low bits.
    pub epoch: u64,
    /// Milliseconds by the clock of the machine that used it.
    pub last_use_ms: u64,
    /// The earliest time at which its ban can have begun. If it is set, the word of the ban has no
    /// lifts.
    pub ban_begun_ms: Option<u64>,
    /// Without the zeros at the end.
    pub states: Vec<u64>,
}

impl KeptRecord {
    /// Its bytes, for the cluster: CRC, shape and flags | epoch | last use | begin of the ban, if
    /// the flags say so | states.
    pub fn encode(&self, key: &StoredKey) -> Vec<u8> {
        let begun = if self.ban_begun_ms.is_some() { BEGUN } else { 0 };
        let first = self.check | begun | u64::from(self.crc(key));
        let head = [first, self.epoch, self.last_use_ms].into_iter().chain(self.ban_begun_ms);
        head.chain(self.states.iter().copied()).flat_map(u64::to_le_bytes).collect()
    }

    /// The record of this key in these bytes. `None` if they are no record of this key.
    pub fn decode(bytes: &[u8], key: &StoredKey) -> Option<KeptRecord> {
        let (words, []) = bytes.as_chunks::<8>() else { return None };
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let (&[first, epoch, last_use_ms], mut states) = words.split_first_chunk::<HEAD_WORDS>()?;
        let mut ban_begun_ms = None;
        if first & BEGUN != 0 {
            let (&begun_ms, rest) = states.split_first()?;
            (ban_begun_ms, states) = (Some(begun_ms), rest);
        }
        let check = first & !0xffff_ffff & !BEGUN;
        let record =
            KeptRecord { check, epoch, last_use_ms, ban_begun_ms, states: states.to_vec() };
        (record.crc(key) == first as u32).then_some(record)
    }

    pub(crate) fn of_node(words: &[u64], entry: &Entry) -> KeptRecord {
        let (check, last_use_ms) = (words[node::CHECK], words[node::LAST_USE]);
        let (shape, flags) = (node::shape(check), node::flags(check) & !node::FLAG_VERSION);
        let end = words.len() - version::tail_words(words);
        let mut states = words[entry.states_at()..end].to_vec();
        let has_ban = flags & node::FLAG_BAN != 0;
        let ban_begun_ms =
            has_ban.then(|| entry.rules.keep_ban(&mut states, last_use_ms)).flatten();
        states.truncate(states.iter().rposition(|&word| word != 0).map_or(0, |last| last + 1));
        let check = node::check_word(shape, flags);
        KeptRecord { check, epoch: entry.epoch, last_use_ms, ban_begun_ms, states }
    }

    fn crc(&self, key: &StoredKey) -> u32 {
        let rest = key.field.iter().chain([&self.epoch]).chain(&self.states);
        let rest = rest.chain(&self.ban_begun_ms);
        let rest: Vec<u64> = rest.copied().collect();
        crc32c_words([self.check, key.key_word, self.last_use_ms], &rest)
    }
}

/// Where the record of a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whereabouts {
    /// It is here.
    Here,
    /// It is not here, and the cluster has none.
    Nowhere,
    /// It is not here, and the cluster may have one.
    MaybeInCluster,
}

/// The result of inserting a record that came from the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inserted {
    /// It is here now.
    Yes,
    /// The key has a record here.
    Present,
    /// It was written under other limits, or before a reset, and does not count.
    Void,
    /// It has no room until another record is spilled.
    NoRoom,
}

/// A place of a group, by its number over all files and key-nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RecordPlace {
    /// The group's random id.
    pub group: u64,
    /// The number of the place.
    pub place: usize,
}

/// A record whose present content the cluster does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedRecord {
    /// Its biz and key.
    pub key: StoredKey,
    /// Its content.
    pub record: KeptRecord,
    /// For how long it counts. None: forever.
    pub life_ms: Option<u64>,
    /// Its place.
    pub place: RecordPlace,
}

/// The mark of the node that the cluster has for each place. 0: nothing is known.
#[derive(Debug, Default)]
pub struct SentRecords(HashMap<u64, Vec<u32>>);

impl SentRecords {
    /// Forgets a place: the cluster may not have the record that was sent.
    pub fn forget(&mut self, place: RecordPlace) {
        let known = self.0.get_mut(&place.group).and_then(|sent| sent.get_mut(place.place));
        if let Some(crc) = known {
            *crc = 0;
        }
    }

    /// Forgets all places: the cluster may have lost any record.
    pub fn forget_all(&mut self) {
        self.0.values_mut().for_each(|sent| sent.fill(0));
    }
}

/// A part of a group, for a step of a round.
#[derive(Debug, Clone, Copy)]
pub struct StepBounds {
    /// The first key-node, by its number over all files.
    pub from: usize,
    /// Key-nodes to look at, at most.
    pub most: usize,
    /// The most records to report; at least the length of a chain.
    pub room: usize,
}

/// The result of a step of a round.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// The group's random id.
    pub group: u64,
    /// Records that are to be sent.
    pub changed: Vec<ChangedRecord>,
    /// The next key-node. None: that was the last one.
    pub next: Option<usize>,
    /// Nodes that were being written all the time.
    pub torn: usize,
}

/// Continues a round over a group: returns the records that have changed since they were sent,
/// and notes them as sent. `None` if the group is not here, or is not served.
pub fn changed_records(
    service: &mut Service,
    group_name: &str,
    sent: &mut SentRecords,
    bounds: StepBounds,
    now: Millis,
) -> Option<Step> {
    let StepBounds { from, most, room } = bounds;
    service.set_wall_clock(now);
    let at = service.handle().index_of(group_name)?;
    let group = &service.handle().groups()[at];
    if service.handle().is_group_quarantined(at) {
        return None;
    }
    let (id, geometry) = (group.header().id, group.geometry());
    let (key_nodes, chain) = (geometry.all_key_nodes(), geometry.chain as usize);
    let known = sent.0.entry(id).or_default();
    known.resize(key_nodes * chain, 0);
    let to = from.saturating_add(most).min(key_nodes);
    let next = (to < key_nodes).then_some(to);
    let mut step = Step { group: id, next, ..Step::default() };
    let mut words = vec![0; group.node_words()];
    for key_node in from..to {
        if step.changed.len() + chain > room {
            step.next = Some(key_node);
            break;
        }
        let places = service.look_at_chain(at, geometry.key_node_at(key_node));
        let known = &mut known[key_node * chain..][..chain];
        for ((place, live), known) in places.enumerate().zip(known) {
            let Some(live) = live else {
                *known = 0;
                continue;
            };
            if mark_of(service.table(), at, |word| live.word(word)) == *known {
                continue;
            }
            if !live.copy(&mut words) {
                step.torn += 1;
                continue;
            }
            *known = mark_of(service.table(), at, |word| words.get(word).copied());
            let place = RecordPlace { group: id, place: key_node * chain + place };
            step.changed.extend(changed(service.table(), at, &words, place, now));
        }
    }
    Some(step)
}

/// A chain, by the number of its key-node over all files of its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChainPlace {
    /// The group's random id.
    pub group: u64,
    /// The key-node.
    pub key_node: usize,
}

/// The records of a chain that can be spilled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// The place of the chain.
    pub place: ChainPlace,
    /// Nodes that it has room for.
    pub length: usize,
    /// The least recently used first.
    pub records: Vec<ChangedRecord>,
}

/// The records of this host.
pub trait Records {
    /// Where the record of a key is, for a business with records in the cluster.
    ///
    /// # Errors
    /// Here and below: the node of the key is unavailable now, or has no room.
    fn whereabouts(&mut self, key: &StoredKey) -> Result<Whereabouts, ItemError>;
    /// Inserts a record that came from the cluster, if the key has no record here.
    fn insert(&mut self, key: &StoredKey, record: &KeptRecord) -> Result<Inserted, ItemError>;
    /// Inserts a fresh record to note that the cluster has no record of a key: for an item that has
    /// asked and does not wait for the answer, and for groups that spill. Evicts no record in use.
    fn insert_fresh(&mut self, key: &StoredKey) -> Result<Inserted, ItemError>;
    /// Forgets a record: another machine has taken it over.
    fn forget(&mut self, key: &StoredKey) -> Result<(), ItemError>;
    /// Whether the records of its business are spilled.
    fn spills(&self, key: &StoredKey) -> bool;
    /// Whether the cluster keeps a copy of each record of its business.
    fn backs_up(&self, key: &StoredKey) -> bool;
    /// The chain that a key leads to.
    fn chain(&mut self, key: &StoredKey) -> Result<Chain, ItemError>;
    /// Erases a record that the cluster has. Returns false, and keeps the record, if it has changed
    /// since.
    fn erase_spilled(&mut self, spilled: &ChangedRecord) -> Result<bool, ItemError>;
}

/// The records in the store, at a time by the wall clock.
#[derive(Debug)]
pub struct StoredRecords<'s> {
    /// The attachment to the store.
    pub service: &'s mut Service,
    /// The time.
    pub now: Millis,
}

impl Records for StoredRecords<'_> {
    fn whereabouts(&mut self, key: &StoredKey) -> Result<Whereabouts, ItemError> {
        let scope = key.scope();
        self.on_record(key, |nodes, remote| {
            let is_kept = || scope == Scope::Key && (remote.copies || nodes.may_be_kept(scope));
            Ok(match nodes.is_here(scope) {
                true => Whereabouts::Here,
                false if is_kept() => Whereabouts::MaybeInCluster,
                false => Whereabouts::Nowhere,
            })
        })
    }

    fn insert(&mut self, key: &StoredKey, record: &KeptRecord) -> Result<Inserted, ItemError> {
        let (scope, now) = (key.scope(), self.now);
        self.on_record(key, |nodes, remote| {
            if nodes.is_here(scope) {
                return Ok(Inserted::Present);
            }
            let entry = nodes.entry();
            if record.epoch != entry.epoch || entry.is_outdated(record.check, Scope::Key) {
                return Ok(Inserted::Void);
            }
            let evicts = entry.evicts(false);
            let KeptRecord { check, states, ban_begun_ms, .. } = record;
            nodes.take_states(scope, *check, states, *ban_begun_ms)?;
            // A record that was spilled must stay for a while. A last use by a clock that is ahead
            // counts as now.
            let last_use_ms = if remote.makes_room { now } else { record.last_use_ms };
            inserted(remote, nodes.insert(scope, evicts, last_use_ms.min(now)))
        })
    }

    fn insert_fresh(&mut self, key: &StoredKey) -> Result<Inserted, ItemError> {
        let (scope, now) = (key.scope(), self.now);
        self.on_record(key, |nodes, remote| {
            if nodes.is_here(scope) {
                return Ok(Inserted::Present);
            }
            nodes.adopt(scope);
            inserted(remote, nodes.insert(scope, Rank::Expired, now))
        })
    }

    fn forget(&mut self, key: &StoredKey) -> Result<(), ItemError> {
        self.on_record(key, |nodes, _| nodes.erase(key.scope()))
    }

    fn spills(&self, key: &StoredKey) -> bool {
        entry_of(self.service, key).is_ok_and(Entry::makes_room)
    }

    fn backs_up(&self, key: &StoredKey) -> bool {
        let entry = entry_of(self.service, key);
        entry.is_ok_and(|entry| entry.remote.is_some_and(|remote| remote.copies))
    }

    fn chain(&mut self, key: &StoredKey) -> Result<Chain, ItemError> {
        self.chain_of(key)
    }

    fn erase_spilled(&mut self, spilled: &ChangedRecord) -> Result<bool, ItemError> {
        let ChangedRecord { key, record, .. } = spilled;
        let scope = key.scope();
        self.on_record(key, |nodes, _| {
            if !nodes.is_here(scope) {
                return Ok(false);
            }
            let found = nodes.read(scope, KeptRecord::of_node)?;
            let is_same = (found.check, &found.states) == (record.check, &record.states);
            if is_same {
                nodes.erase_kept(scope)?;
            }
            Ok(is_same)
        })
    }
}

impl StoredRecords<'_> {
    /// Runs `work` on the node of a key whose business has records in the cluster. A key of another
    /// business is an error before its node is looked at, so that it stays the same error while the
    /// node is unavailable.
    fn on_record<T>(
        &mut self,
        key: &StoredKey,
        mut work: impl FnMut(&mut ItemNodes<'_, '_>, Remote) -> Result<T, ItemError>,
    ) -> Result<T, ItemError> {
        let scope = key.scope();
        remote_of(entry_of(self.service, key)?, scope)?;
        self.service.on_node(key, ItemMoment::at(self.now), |nodes| {
            // Anew, because the transaction may have taken another configuration.
            let remote = remote_of(nodes.entry(), scope)?;
            work(nodes, remote)
        })
    }
}

/// The business of a key.
pub(super) fn entry_of<'s>(service: &'s Service, key: &StoredKey) -> Result<&'s Entry, ItemError> {
    let biz = service.table().index_of(key.biz_id()).ok_or(ItemError::UnknownBiz)?;
    Ok(service.table().entry(biz))
}

/// The records of a business that the cluster keeps. The node may be that of a whole business where
/// records are spilled, because it needs room as well.
pub(super) fn remote_of(entry: &Entry, scope: Scope) -> Result<Remote, ItemError> {
    let remote = entry.remote.ok_or(ItemError::UnknownBiz)?;
    let has_records = scope == Scope::Key || remote.makes_room;
    has_records.then_some(remote).ok_or(ItemError::BadKey)
}

/// The result of an insertion. A node without room gets some where records are spilled.
fn inserted(remote: Remote, done: Result<(), ItemError>) -> Result<Inserted, ItemError> {
    match done {
        Ok(()) => Ok(Inserted::Yes),
        Err(ItemError::Full) if remote.makes_room => Ok(Inserted::NoRoom),
        Err(error) => Err(error),
    }
}

/// The mark by which a node differs from the one that was sent before: its CRC, inverted once its
/// ban is lifted. A lift changes the record, but not the node. `read` returns a word of the node,
/// or `None` beyond its end.
fn mark_of(table: &Table, group: usize, read: impl Fn(usize) -> Option<u64>) -> u32 {
    let check = read(node::CHECK).unwrap_or(0);
    let has_ban = node::flags(check) & node::FLAG_BAN != 0;
    let entry = || Some(table.of_key_word(group, read(node::KEY)?)?.0);
    let is_lifted = has_ban && entry().is_some_and(|entry| entry.has_lifted(&read));
    if is_lifted { !(check as u32) } else { check as u32 }
}

/// The record in a node, if the cluster must have it.
pub(super) fn changed(
    table: &Table,
    group: usize,
    words: &[u64],
    place: RecordPlace,
    now: Millis,
) -> Option<ChangedRecord> {
    let (entry, scope) = table.of_key_word(group, words[node::KEY])?;
    entry.remote?;
    let counts = scope == Scope::Key && !entry.is_outdated(words[node::CHECK], scope);
    if !counts {
        return None;
    }
    let life_ms = entry.left_ms(words, now);
    if life_ms == Some(0) {
        return None;
    }
    let key = StoredKey::of_node(entry, words);
    key.key()?;
    Some(ChangedRecord { key, record: KeptRecord::of_node(words, entry), life_ms, place })
}
