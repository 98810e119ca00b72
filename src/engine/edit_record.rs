//! Changes single records by hand: sets the uses of a limit, erases a record, and clears records
//! that a reset has made void.
//!
//! Invariant: each change is an ordinary transaction of one key-node. So no concurrent request sees
//! half of it, and a death in the middle leaves the old record.

use frs_base::clock::Millis;
use frs_conf::Scope;
use frs_conf::key::{KeyField, KeyNodeId, KeyRef};
use frs_limit::{Rules, States, Terms};
use frs_store::layout::node;
use frs_store::{NodeIndex, Refused, Transaction, Wanted};

use super::table::Entry;
use super::{ItemError, RETRIES, Service};

/// Why a record was not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The same error as for an item.
    #[error(transparent)]
    Item(#[from] ItemError),
    /// The business has no such limit.
    #[error("the biz has no limit of this index")]
    UnknownLimit,
    /// The limit counts for each key, and no key is given.
    #[error("this limit counts for each key: expected the parameter key")]
    NoKey,
    /// The business has no record of this kind.
    #[error("the biz has no record of this kind: none of its limits has that scope")]
    NoRecord,
    /// The limit's state cannot hold such a count.
    #[error("the limit's state cannot hold so much")]
    TooMuch,
    /// The limit notes members, and a number names none.
    #[error("the limit counts distinct members: it can be set to 0, and to nothing else")]
    Members,
}

/// The progress of clearing, which visits the key-nodes of one group after another. Former groups
/// come first, because nodes move out of them. A new generation starts the clearing again, because
/// the groups may be different ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Clearing {
    generation: u64,
    group: usize,
    file: u32,
    key_node: u32,
    /// Records erased.
    pub erased: u64,
}

/// The uses of a limit in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitUse {
    /// The limit's index, from 1.
    pub limit: u16,
    /// Its uses.
    pub used: u64,
}

/// A record for people: the uses of its limits, and the end of a ban.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordFigures {
    /// The uses of each limit of its scope.
    pub uses: Vec<LimitUse>,
    /// The end of its ban, in milliseconds since the epoch.
    pub banned_until_ms: Option<u64>,
}

/// A record before and after a change by hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordEdit {
    /// Before. Uses are 0 if there was no record.
    pub old: RecordFigures,
    /// After.
    pub new: RecordFigures,
}

fn figures(rules: &Rules, states: &States<'_>, scope: Scope, now: Millis) -> RecordFigures {
    let uses = rules.used_by_limit(states, scope, now);
    RecordFigures {
        uses: uses.map(|(limit, used)| LimitUse { limit, used }).collect(),
        banned_until_ms: Some(rules.ban_until(states)).filter(|&until| until > now),
    }
}

/// A record and its place.
struct Target {
    biz: usize,
    scope: Scope,
    wanted: Wanted,
    key: KeyField,
    listing: Option<usize>,
}

/// A business, and the epoch that its last reset has begun.
#[derive(Debug, Clone, Copy)]
struct Reset {
    biz_id: u32,
    epoch: u64,
}

impl Reset {
    /// Whether these words belong to a record from before the reset.
    fn voids(self, words: &[u64]) -> bool {
        words[node::KEY] as u32 == self.biz_id
            && node::epoch(words[node::CHECK]) != self.epoch as u8
    }
}

impl Target {
    fn key(&self) -> KeyRef<'_> {
        match self.scope {
            Scope::Key => self.key.key(),
            Scope::Biz => KeyRef::BIZ,
        }
    }
}

/// The name of a record in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordName<'n> {
    /// The business: an id or a name.
    pub biz: &'n str,
    /// The key. None: the record of the whole business.
    pub key: Option<&'n str>,
}

#[cfg(any(test, feature = "testing"))]
impl<'n> RecordName<'n> {
    /// The record of a key.
    pub fn of_key(biz: &'n str, key: &'n str) -> RecordName<'n> {
        RecordName { biz, key: Some(key) }
    }

    /// The record of a whole business.
    pub fn of_biz(biz: &'n str) -> RecordName<'n> {
        RecordName { biz, key: None }
    }
}

impl Service {
    /// Sets the uses of a limit, counted from 1: in the key's record or, if the limit counts for
    /// the whole business, in the record of the business. A ban of the record ends if none of its
    /// limits refuses one more use.
    ///
    /// # Errors
    /// There is no such record or limit, it is unavailable now, or it cannot have used so much.
    pub fn set_used(
        &mut self,
        record: RecordName<'_>,
        limit: usize,
        used: u32,
        now: Millis,
    ) -> Result<RecordEdit, RecordError> {
        let RecordName { biz, key } = record;
        let index = self.conf.map.find_biz(biz).ok_or(ItemError::UnknownBiz)?;
        let position = limit.checked_sub(1).ok_or(RecordError::UnknownLimit)?;
        let limits = &self.conf.map.bizs[index].limits;
        let scope = limits.get(position).ok_or(RecordError::UnknownLimit)?.scope;
        if scope == Scope::Key && key.is_none() {
            return Err(RecordError::NoKey);
        }
        let key = key.filter(|_| scope == Scope::Key);
        self.on_record(RecordName { biz, key }, now, |entry, target, transaction, index, place| {
            let rules = entry.rules(target.listing);
            entry.adopt(transaction.words(index), scope);
            let mut other = rules.fresh_other(scope);
            let [own, _] = transaction.states([Some(index), None]);
            let terms = &Terms::ASKING;
            let mut states =
                States::of_record(scope, &mut own[..rules.words(scope)], &mut other, terms);
            rules.roll(&mut states, now);
            let old = figures(rules, &states, scope, now);
            if !rules.set_used(&mut states, now, position, used) {
                return Err(match rules.notes_members(position) {
                    true => RecordError::Members,
                    false => RecordError::TooMuch,
                });
            }
            rules.forgive(&mut states, now);
            let new = figures(rules, &states, scope, now);
            if transaction.is_there(index) || used > 0 {
                place(transaction, index)?;
                transaction.touch(index, now);
            }
            Ok(RecordEdit { old, new })
        })
    }

    /// Erases a record, and returns its figures. `None` if there was no record.
    ///
    /// # Errors
    /// There can be no such record, or it is unavailable now.
    pub fn erase(
        &mut self,
        record: RecordName<'_>,
        now: Millis,
    ) -> Result<Option<RecordFigures>, RecordError> {
        self.on_record(record, now, |entry, target, transaction, index, place| {
            let there = transaction.is_there(index).then(|| {
                let (rules, scope) = (entry.rules(target.listing), target.scope);
                let mut words = transaction.words(index).to_vec();
                entry.adopt(&mut words, scope);
                let (mut other, terms) = (rules.fresh_other(scope), Terms::ASKING);
                let own = &mut words[entry.states_at()..][..rules.words(scope)];
                let mut states = States::of_record(scope, own, &mut other, &terms);
                rules.roll(&mut states, now);
                figures(rules, &states, scope, now)
            });
            if entry.remote.is_none() || target.scope == Scope::Biz {
                transaction.erase(index);
                return Ok(there);
            }
            let copies = entry.remote.is_some_and(|remote| remote.copies);
            if there.is_none() && !copies && !transaction.may_be_kept(index) {
                return Ok(None);
            }
            // A fresh record: without one the cluster's copy would come back.
            entry.adopt(transaction.words(index), Scope::Key);
            let [states, _] = transaction.states([Some(index), None]);
            states.fill(0);
            place(transaction, index)?;
            transaction.touch(index, now);
            Ok(there)
        })
    }

    /// Runs `work` on a record within a transaction, and commits.
    fn on_record<T>(
        &mut self,
        record: RecordName<'_>,
        now: Millis,
        work: impl Fn(
            &Entry,
            &Target,
            &mut Transaction<'_>,
            NodeIndex,
            &dyn Fn(&mut Transaction<'_>, NodeIndex) -> Result<(), RecordError>,
        ) -> Result<T, RecordError>,
    ) -> Result<T, RecordError> {
        for _ in 0..RETRIES {
            self.set_now(now);
            let target = self.find_record(record)?;
            let entry = self.table.entry(target.biz);
            let mut field = KeyField::default();
            let text = record.key.map(str::as_bytes);
            let sought = entry.sought(target.wanted, target.key(), text, &mut field);
            let wanted: Vec<Wanted> = sought.wanted().collect();
            let refused = match self.handle.begin(&mut self.buffers, &wanted, self.generation) {
                Err(refused) => refused,
                Ok(mut transaction) => {
                    let index = transaction.sought(&sought, entry.id, &self.table);
                    let place = |transaction: &mut Transaction<'_>, index| {
                        let placed =
                            transaction.place(index, &self.table, entry.evicts(false), now);
                        placed.map_err(|_| ItemError::Full.into())
                    };
                    let result = work(entry, &target, &mut transaction, index, &place)?;
                    transaction.commit(now).map_err(|_| ItemError::Store)?;
                    return Ok(result);
                }
            };
            match refused {
                Refused::Newer if self.take_newer() => {}
                Refused::Busy => return Err(ItemError::Busy.into()),
                Refused::Newer | Refused::Unavailable => return Err(ItemError::Store.into()),
            }
        }
        Err(ItemError::Busy.into())
    }

    fn find_record(&self, record: RecordName<'_>) -> Result<Target, RecordError> {
        let biz = self.conf.map.find_biz(record.biz).ok_or(ItemError::UnknownBiz)?;
        let entry = self.table.entry(biz);
        if !entry.is_available() {
            return Err(ItemError::Store.into());
        }
        let mut key = KeyField::default();
        let (scope, wanted, listing) = match record.key {
            Some(text) => {
                entry.encode(text.as_bytes(), &mut key).map_err(|_| ItemError::BadKey)?;
                (Scope::Key, entry.locate(&key.key()), entry.listing(text.as_bytes()))
            }
            None => (Scope::Biz, entry.whole, None),
        };
        let wanted = wanted.ok_or(RecordError::NoRecord)?;
        Ok(Target { biz, scope, wanted, key, listing })
    }

    /// The reset epoch of a business in the configuration of this tick.
    pub fn epoch(&self, biz_id: u32) -> Option<u64> {
        self.table.index_of(biz_id).map(|index| self.table.entry(index).epoch)
    }

    /// Erases the records of a business that a reset has made void, in the next key-nodes. True
    /// when all groups are done. A record whose key-node is busy, or whose group is not served, is
    /// an error: it may still be there.
    ///
    /// # Errors
    /// The same as for items. The clearing can go on.
    pub fn clear_void(
        &mut self,
        biz_id: u32,
        clearing: &mut Clearing,
        key_nodes: u32,
        now: Millis,
    ) -> Result<bool, ItemError> {
        let epoch = self.epoch(biz_id).ok_or(ItemError::UnknownBiz)?;
        if clearing.generation != self.generation {
            let (generation, erased) = (self.generation, clearing.erased);
            *clearing = Clearing { generation, erased, ..Clearing::default() };
        }
        for _ in 0..key_nodes {
            let (all, formers) = (self.handle.groups().len(), self.handle.formers());
            if clearing.group >= all {
                return Ok(true);
            }
            let group = (formers.start + clearing.group) % all;
            let geometry = *self.handle.groups()[group].geometry();
            let (files, all) = (geometry.files, geometry.key_nodes);
            self.clear_one(Reset { biz_id, epoch }, group, clearing, now)?;
            clearing.key_node += 1;
            if clearing.key_node >= all {
                (clearing.file, clearing.key_node) = (clearing.file + 1, 0);
            }
            if clearing.file >= files {
                (clearing.group, clearing.file) = (clearing.group + 1, 0);
            }
        }
        Ok(false)
    }

    fn clear_one(
        &mut self,
        reset: Reset,
        at: usize,
        clearing: &mut Clearing,
        now: Millis,
    ) -> Result<(), ItemError> {
        let &mut Clearing { file, key_node, .. } = clearing;
        for place in self.handle.groups()[at].taken_places(KeyNodeId { file, key_node }) {
            let group = &self.handle.groups()[at];
            let first = group.node(key_node, place);
            let mut words = vec![0; node::FIELD];
            group.file(file).read(first, &mut words);
            if !reset.voids(&words) {
                continue;
            }
            words.resize(group.node_words(), 0);
            group.file(file).read(first, &mut words);
            // Read without the semaphore. A torn node is read again below, or belongs to another
            // business.
            let (Some(key), Some(place)) = (group.key_of(&words), group.locate(&words)) else {
                continue;
            };
            if place.key_node_id() != (KeyNodeId { file, key_node }) {
                continue;
            }
            let key_words = key.words().to_vec();
            let Some(key) = KeyRef::from_stored(&key_words, key.bytes(), key.form() as u8) else {
                continue;
            };
            let wanted = Wanted { group: at, at: place };
            let begun = self.handle.begin(&mut self.buffers, &[wanted], self.generation);
            let mut transaction = begun.map_err(|refused| match refused {
                Refused::Busy | Refused::Newer => ItemError::Busy,
                Refused::Unavailable => ItemError::Store,
            })?;
            let index = transaction.node(&wanted, reset.biz_id, &key);
            if transaction.is_there(index) && reset.voids(transaction.words(index)) {
                transaction.erase(index);
                transaction.commit(now).map_err(|_| ItemError::Store)?;
                clearing.erased += 1;
            }
        }
        Ok(())
    }
}
