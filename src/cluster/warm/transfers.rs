//! The records that are requested, and the records on their way to the cluster.
//!
//! Invariant: each ticket is finished once. At most one message for a key is current: an answer to
//! an earlier one has no effect on the record.

use std::collections::{HashMap, VecDeque};

use frs_engine::{ItemError, NeedEnd, StoredKey};

use super::full_chains::FullChains;
use super::record_message::{WarmAnswer, WarmCall};
use crate::figures::SpillResult;
use crate::ledger::NoAnswer;
use crate::nodes::{
    ChainPlace, ChangedRecord, Inserted, KeptRecord, RecordPlace, Records, Whereabouts,
};

/// Most messages with records under way.
const PUTS_MAX: usize = 1024;
/// Most requests for records under way. Further requests wait.
const FETCHES_MAX: usize = 1024;

/// How many spilled or requested records had each [`SpillResult`].
pub type SpillCounts = [u64; SpillResult::ALL.len()];

/// A message to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sending {
    /// Names the message.
    pub id: u64,
    /// The key.
    pub key: StoredKey,
    /// The question.
    pub call: WarmCall,
}

/// A need that is finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished<T> {
    /// The need.
    pub ticket: T,
    /// Its key.
    pub key: StoredKey,
    /// Its end.
    pub end: NeedEnd,
    /// The cluster has no record of the key, and no fresh record here notes that yet.
    pub is_nowhere: bool,
}

/// The result for a record that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// Its place.
    pub place: RecordPlace,
    /// The cluster has it, or another machine owns it, and it was forgotten here. Otherwise it must
    /// be sent again.
    pub is_kept: bool,
}

/// Messages to records. `T` names a need.
#[derive(Debug)]
pub struct Warm<T> {
    pub(super) flights: HashMap<u64, Flight<T>>,
    pub(super) by_key: HashMap<StoredKey, u64>,
    puts: usize,
    fetches: usize,
    /// Waiting requests, oldest first.
    queue: VecDeque<u64>,
    last_id: u64,
    /// Messages to send.
    pub sendings: Vec<Sending>,
    /// Needs that are finished.
    pub finished: Vec<Finished<T>>,
    pub(super) full_chains: FullChains,
    /// The results since they were last taken.
    pub counts: SpillCounts,
}

#[derive(Debug)]
pub(super) struct Flight<T> {
    pub key: StoredKey,
    pub what: What<T>,
}

#[derive(Debug)]
pub(super) enum What<T> {
    /// A changed record is sent to the cluster.
    Put(RecordPlace),
    /// A record is requested.
    Fetch(WaitingNeeds<T>),
    /// A record waits for room. No message is under way.
    Room(Pending<T>),
    /// A record is spilled, to make room in its chain for another.
    Spill(ChangedRecord, ChainPlace),
    /// A record is deleted.
    Drop,
}

/// A record from the cluster, or a fresh one, that is to be inserted at once, or when it has room.
#[derive(Debug)]
pub(super) struct Pending<T> {
    pub key: StoredKey,
    pub waiting: WaitingNeeds<T>,
    pub record: Option<KeptRecord>,
}

/// Needs that wait for one key.
#[derive(Debug)]
pub(super) struct WaitingNeeds<T> {
    pub tickets: Vec<T>,
    /// When nobody waits any more, CLOCK_BOOTTIME.
    pub deadline_ms: u64,
    /// There was no record here when the cluster was asked for it.
    pub was_away: bool,
}

impl<T> Default for Warm<T> {
    fn default() -> Warm<T> {
        Warm {
            flights: HashMap::new(),
            by_key: HashMap::new(),
            puts: 0,
            fetches: 0,
            queue: VecDeque::new(),
            last_id: 0,
            sendings: Vec::new(),
            finished: Vec::new(),
            full_chains: FullChains::default(),
            counts: SpillCounts::default(),
        }
    }
}

impl<T> Warm<T> {
    pub(super) fn count(&mut self, result: SpillResult) {
        self.counts[result as usize] += 1;
    }

    /// How many more records may be sent now.
    pub fn room(&self) -> usize {
        PUTS_MAX.saturating_sub(self.puts)
    }

    /// Takes in the need of an item that waits for the record of its key.
    pub fn need(&mut self, host: &mut impl Records, key: StoredKey, ticket: T, deadline_ms: u64) {
        let flight = self.by_key.get(&key).and_then(|id| self.flights.get_mut(id));
        let joined = flight.and_then(|flight| match &mut flight.what {
            What::Fetch(waiting) => Some(waiting),
            What::Room(pending) => Some(&mut pending.waiting),
            What::Put(_) | What::Spill(..) | What::Drop => None,
        });
        if let Some(waiting) = joined {
            waiting.tickets.push(ticket);
            waiting.deadline_ms = deadline_ms.max(waiting.deadline_ms);
            return;
        }
        let whereabouts = host.whereabouts(&key);
        let was_away = whereabouts == Ok(Whereabouts::MaybeInCluster);
        let waiting = WaitingNeeds { tickets: vec![ticket], deadline_ms, was_away };
        match whereabouts {
            Ok(Whereabouts::Here) => self.finish(&key, waiting, NeedEnd::Answered),
            Ok(Whereabouts::Nowhere) => {
                let pending = Pending { key, waiting, record: None };
                if let Some(pending) = self.take_in(host, pending, false) {
                    self.wait_for_room(host, pending);
                }
            }
            // The item reports the fault when it runs.
            Err(ItemError::UnknownBiz | ItemError::BadKey) => {
                self.finish(&key, waiting, NeedEnd::Unserved);
            }
            // A record that cannot be read now may be readable when the answer arrives.
            Ok(Whereabouts::MaybeInCluster) | Err(_) => self.fetch(key, waiting),
        }
    }

    pub(super) fn fetch(&mut self, key: StoredKey, waiting: WaitingNeeds<T>) {
        let id = self.begin(key, What::Fetch(waiting));
        if self.fetches >= FETCHES_MAX {
            self.queue.push_back(id);
        } else {
            self.ask(id, key);
        }
    }

    fn ask(&mut self, id: u64, key: StoredKey) {
        self.fetches += 1;
        self.send(id, key, WarmCall::Fetch);
    }

    pub(super) fn send(&mut self, id: u64, key: StoredKey, call: WarmCall) {
        self.sendings.push(Sending { id, key, call });
    }

    /// Sends the next request that somebody waits for, as one less is under way.
    fn ask_next(&mut self, now_ms: u64) {
        self.fetches -= 1;
        while let Some(id) = self.queue.pop_front() {
            let Some(flight) = self.flights.get(&id) else { continue };
            let key = flight.key;
            match &flight.what {
                What::Fetch(waiting) if now_ms < waiting.deadline_ms => return self.ask(id, key),
                _ => {
                    if let Some(What::Fetch(waiting)) = self.end(id).map(|end| end.what) {
                        self.finish(&key, waiting, NeedEnd::Unreachable);
                    }
                }
            }
        }
    }

    pub(super) fn finish(&mut self, key: &StoredKey, waiting: WaitingNeeds<T>, end: NeedEnd) {
        self.finish_all(key, waiting, end, false);
    }

    fn finish_all(
        &mut self,
        key: &StoredKey,
        waiting: WaitingNeeds<T>,
        end: NeedEnd,
        is_nowhere: bool,
    ) {
        let finished = |ticket| Finished { ticket, key: *key, end, is_nowhere };
        self.finished.extend(waiting.tickets.into_iter().map(finished));
    }

    /// Sends a changed record. If it cannot be sent now, returns its place as the error.
    pub fn put(&mut self, changed: ChangedRecord) -> Result<(), RecordPlace> {
        let ChangedRecord { key, record, life_ms, place } = changed;
        if self.by_key.contains_key(&key) || self.room() == 0 {
            return Err(place);
        }
        self.puts += 1;
        let call = WarmCall::Put { life_ms, bytes: record.encode(&key), takes_over: false };
        let id = self.begin(key, What::Put(place));
        self.send(id, key, call);
        Ok(())
    }

    /// Begins a message, which replaces an earlier one for the same key.
    pub(super) fn begin(&mut self, key: StoredKey, what: What<T>) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.flights.insert(id, Flight { key, what });
        // An earlier message stays known by its id alone.
        self.by_key.insert(key, id);
        id
    }

    pub(super) fn end(&mut self, id: u64) -> Option<Flight<T>> {
        let flight = self.flights.remove(&id)?;
        if self.is_current(&flight.key, id) {
            self.by_key.remove(&flight.key);
        }
        Some(flight)
    }

    fn is_current(&self, key: &StoredKey, id: u64) -> bool {
        self.by_key.get(key) == Some(&id)
    }

    /// Takes in the outcome of a message. Returns the result for a changed record, if the message
    /// carried one.
    pub fn answered(
        &mut self,
        host: &mut impl Records,
        now_ms: u64,
        id: u64,
        answer: Result<WarmAnswer, NoAnswer>,
    ) -> Option<Done> {
        let is_current =
            self.flights.get(&id).is_some_and(|flight| self.is_current(&flight.key, id));
        let Flight { key, what } = self.end(id)?;
        match what {
            What::Put(place) => {
                self.puts -= 1;
                let is_kept = match answer {
                    Ok(WarmAnswer::Kept) => true,
                    // If the record was requested since, its owner is not known.
                    Ok(WarmAnswer::Moved) => is_current && host.forget(&key).is_ok(),
                    _ => false,
                };
                return Some(Done { place, is_kept });
            }
            What::Fetch(waiting) => {
                self.fetched(host, now_ms, key, waiting, answer);
                self.ask_next(now_ms);
            }
            What::Spill(changed, chain) => self.spilled(host, now_ms, &changed, chain, answer),
            What::Room(..) | What::Drop => {}
        }
        None
    }

    fn fetched(
        &mut self,
        host: &mut impl Records,
        now_ms: u64,
        key: StoredKey,
        waiting: WaitingNeeds<T>,
        answer: Result<WarmAnswer, NoAnswer>,
    ) {
        let is_late = now_ms >= waiting.deadline_ms;
        let record = match answer {
            Ok(WarmAnswer::Record(bytes)) => KeptRecord::decode(&bytes, &key),
            Ok(_) => None,
            Err(NoAnswer::Lost) if !is_late => return self.fetch(key, waiting),
            Err(_) => return self.finish(&key, waiting, NeedEnd::Unreachable),
        };
        if host.spills(&key) {
            let is_there = record.is_some();
            self.count(if is_there { SpillResult::Fetched } else { SpillResult::Missed });
        } else if record.is_none() {
            return self.finish_all(&key, waiting, NeedEnd::Answered, true);
        }
        if let Some(pending) = self.take_in(host, Pending { key, waiting, record }, is_late) {
            self.wait_for_room(host, pending);
        }
    }

    /// Inserts a record from the cluster, or a fresh one. A late record replaces a record that was
    /// made without it: the uses since are few, and those in the late record may be many. It never
    /// replaces a record that may have been here before, which is newer. Returns the record if it
    /// has no room.
    pub(super) fn take_in(
        &mut self,
        host: &mut impl Records,
        pending: Pending<T>,
        is_late: bool,
    ) -> Option<Pending<T>> {
        let replaces = is_late && pending.waiting.was_away;
        let inserted = insert(host, &pending.key, pending.record.as_ref(), replaces);
        if inserted == Ok(Inserted::NoRoom) && !is_late {
            return Some(pending);
        }
        let Pending { key, waiting, record } = pending;
        match inserted {
            Err(ItemError::Busy) if !is_late => self.fetch(key, waiting),
            // The item reports a fault of the group, or that it is late, when it runs.
            inserted => {
                let is_here = inserted == Ok(Inserted::Yes) && record.is_some();
                self.finish(&key, waiting, NeedEnd::Answered);
                if is_here && host.spills(&key) && !host.backs_up(&key) {
                    let id = self.begin(key, What::Drop);
                    self.send(id, key, WarmCall::Drop);
                }
            }
        }
        None
    }
}

fn insert(
    host: &mut impl Records,
    key: &StoredKey,
    record: Option<&KeptRecord>,
    replaces: bool,
) -> Result<Inserted, ItemError> {
    let Some(record) = record else { return host.insert_fresh(key) };
    match host.insert(key, record)? {
        // Where records are spilled no record is made without that of the cluster.
        Inserted::Present if replaces && host.backs_up(key) && !host.spills(key) => {
            host.forget(key)?;
            host.insert(key, record)
        }
        Inserted::Void if host.spills(key) => host.insert_fresh(key),
        inserted => Ok(inserted),
    }
}

#[cfg(test)]
mod tests;
