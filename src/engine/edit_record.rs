//! Changes single records by hand: sets the uses of a limit, erases a record, and clears records
//! that a reset has made void.
//!
//! Invariant: each change is an ordinary transaction of one key-node. So no concurrent request sees
//! half of it, and a death in the middle leaves the old record.

use frs_base::clock::Millis;
use frs_conf::key::{KeyField, KeyNodeId};
use frs_conf::{Conf, Scope};
use frs_limit::{Rules, States, Terms};
use frs_store::layout::node;
use frs_store::{Refused, Wanted};

use super::item_path::{FoundItem, ItemNodes};
use super::table::Table;
use super::{ItemError, ItemMoment, Service, StoredKey};

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
    /// The next key-node, by its number over all files.
    at: usize,
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

/// The name of a record in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordName<'n> {
    /// The business: an id or a name.
    pub biz: &'n str,
    /// The key. None: the record of the whole business.
    pub key: Option<&'n str>,
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
        self.on_record(RecordName { biz, key }, now, |nodes| {
            let edit = nodes.with_states_on(&Terms::LOOKING, |rules, states| {
                let old = figures(rules, states, scope, now);
                if !rules.set_used(states, now, position, used) {
                    return Err(match rules.notes_members(position) {
                        true => RecordError::Members,
                        false => RecordError::TooMuch,
                    });
                }
                rules.forgive(states, now);
                Ok(RecordEdit { old, new: figures(rules, states, scope, now) })
            })?;
            if nodes.is_here(scope) || used > 0 {
                nodes.insert(scope, nodes.entry().evicts(false), now)?;
            }
            Ok(edit)
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
        let scope = if record.key.is_some() { Scope::Key } else { Scope::Biz };
        self.on_record(record, now, |nodes| {
            let there = nodes.is_here(scope).then(|| {
                nodes.with_states_on(&Terms::LOOKING, |rules, states| {
                    figures(rules, states, scope, now)
                })
            });
            let Some(remote) = nodes.entry().remote.filter(|_| scope == Scope::Key) else {
                nodes.erase(scope)?;
                return Ok(there);
            };
            let is_elsewhere = remote.copies || remote.is_mirrored;
            if there.is_none() && !is_elsewhere && !nodes.may_be_kept(scope) {
                return Ok(None);
            }
            // A fresh record: without one the copy of the cluster, or of another machine, would
            // come back.
            nodes.make_fresh(scope)?;
            nodes.insert(scope, nodes.entry().evicts(false), now)?;
            Ok(there)
        })
    }

    /// Runs `work` on the node of a record within a transaction, and commits.
    fn on_record<T>(
        &mut self,
        RecordName { biz, key }: RecordName<'_>,
        now: Millis,
        work: impl FnMut(&mut ItemNodes<'_, '_>) -> Result<T, RecordError>,
    ) -> Result<T, RecordError> {
        let text = key.map(str::as_bytes);
        let find = |conf: &Conf, table: &Table| {
            let biz = conf.map.find_biz(biz).ok_or(ItemError::UnknownBiz)?;
            let entry = table.entry(biz);
            if !entry.is_available() {
                return Err(ItemError::Store.into());
            }
            let mut field = KeyField::default();
            let wanted = match text {
                Some(text) => {
                    entry.encode(text, &mut field).map_err(|_| ItemError::BadKey)?;
                    [entry.locate(&field.key()), None]
                }
                None => [None, entry.whole],
            };
            match wanted {
                [None, None] => Err(RecordError::NoRecord),
                _ => Ok(FoundItem { biz, key: StoredKey::of_key(entry.id, field.key()), wanted }),
            }
        };
        self.on_nodes(text, ItemMoment::at(now), find, work)
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
            let at = geometry.key_node_at(clearing.at);
            self.clear_one(Reset { biz_id, epoch }, group, at, &mut clearing.erased, now)?;
            clearing.at += 1;
            if clearing.at >= geometry.all_key_nodes() {
                (clearing.group, clearing.at) = (clearing.group + 1, 0);
            }
        }
        Ok(false)
    }

    fn clear_one(
        &mut self,
        reset: Reset,
        index: usize,
        at: KeyNodeId,
        erased: &mut u64,
        now: Millis,
    ) -> Result<(), ItemError> {
        for place in self.handle.groups()[index].taken_places(at) {
            let group = &self.handle.groups()[index];
            let mut words = vec![0; node::FIELD];
            group.read_node(at, place, &mut words);
            if !reset.voids(&words) {
                continue;
            }
            words.resize(group.node_words(), 0);
            group.read_node(at, place, &mut words);
            // Read without the semaphore. A torn node is read again below, or belongs to another
            // business.
            let (Some(key), Some(place)) = (group.key_of(&words), group.locate(&words)) else {
                continue;
            };
            if place.key_node_id() != at {
                continue;
            }
            let wanted = Wanted { group: index, at: place };
            let begun = self.handle.begin(&mut self.buffers, &[wanted], self.generation);
            let mut transaction = begun.map_err(|refused| match refused {
                Refused::Busy | Refused::Newer => ItemError::Busy,
                Refused::Unavailable => ItemError::Store,
            })?;
            let index = transaction.node(&wanted, reset.biz_id, &key);
            if transaction.is_there(index) && reset.voids(transaction.words(index)) {
                transaction.erase(index);
                transaction.commit(now).map_err(|_| ItemError::Store)?;
                *erased += 1;
            }
        }
        Ok(())
    }
}
