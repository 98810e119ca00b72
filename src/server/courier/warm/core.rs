//! The records that are asked for, and those on their way to the cluster.
//!
//! Invariant: each ticket is finished once. A key has one message under way at most: what is
//! answered to an earlier one means nothing.

use std::collections::{HashMap, VecDeque};

use frs_engine::{
    Chain, ChainPlace, ChangedRecord, Inserted, ItemError, LeaseKey, Record, RecordPlace,
    Whereabouts,
};

use super::crowds::Crowds;
use super::message::{WarmAnswer, WarmCall};
use crate::courier::core::Fate;

/// Messages with records that may be under way.
const PUTS_MAX: usize = 1024;
/// Questions for records that may be under way: more wait for those.
const FETCHES_MAX: usize = 1024;

/// The records of this host.
pub trait Records {
    /// Where the record of a key is.
    fn whereabouts(&mut self, key: &LeaseKey) -> Result<Whereabouts, ItemError>;
    /// Takes in what the cluster has kept, unless there is one here.
    fn insert(&mut self, key: &LeaseKey, record: &Record) -> Result<Inserted, ItemError>;
    /// Notes that there is none anywhere, unless there is one here.
    fn insert_fresh(&mut self, key: &LeaseKey) -> Result<Inserted, ItemError>;
    /// Forgets a record.
    fn forget(&mut self, key: &LeaseKey) -> Result<(), ItemError>;
    /// Whether those of its business are spilled.
    fn spills(&self, key: &LeaseKey) -> bool;
    /// Whether the cluster has a copy of each of its business.
    fn backs_up(&self, key: &LeaseKey) -> bool;
    /// The chain that a key leads to.
    fn chain(&mut self, key: &LeaseKey) -> Result<Chain, ItemError>;
    /// Erases a record that the cluster has. False: it has changed since.
    fn erase_spilled(&mut self, spilled: &ChangedRecord) -> Result<bool, ItemError>;
}

/// What became of records that were spilled, or asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpillFigures {
    /// They are in the cluster, and here no more.
    pub spilled: u64,
    /// They were used meanwhile, and stay.
    pub stayed: u64,
    /// They stay, because the cluster did not answer.
    pub lost: u64,
    /// They were there, and came back.
    pub fetched: u64,
    /// They were not there: the filter was wrong.
    pub missed: u64,
}

/// What is to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sending {
    /// Names the message.
    pub id: u64,
    /// The key.
    pub key: LeaseKey,
    /// What is asked.
    pub call: WarmCall,
}

/// A want that is finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished<T> {
    /// The want.
    pub ticket: T,
    /// Its key.
    pub key: LeaseKey,
    /// What became of it.
    pub fate: Fate,
    /// The cluster has no record of the key, and nothing says so here yet.
    pub is_nowhere: bool,
}

/// What became of a record that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// The cluster has it.
    Kept(RecordPlace),
    /// It is another machine's, and was forgotten here.
    Moved(RecordPlace),
    /// It has to be sent again: the cluster may not have what is at this place.
    Again(RecordPlace),
}

/// Messages to records. `T` names a want.
#[derive(Debug)]
pub struct Warm<T> {
    pub(super) flights: HashMap<u64, Flight<T>>,
    pub(super) by_key: HashMap<LeaseKey, u64>,
    puts: usize,
    fetches: usize,
    /// Questions that wait, oldest first.
    queue: VecDeque<u64>,
    last_id: u64,
    sendings: Vec<Sending>,
    finished: Vec<Finished<T>>,
    pub(super) crowds: Crowds,
    pub(super) figures: SpillFigures,
}

#[derive(Debug)]
pub(super) struct Flight<T> {
    pub key: LeaseKey,
    pub what: What<T>,
}

#[derive(Debug)]
pub(super) enum What<T> {
    /// A record is kept in the cluster, too.
    Put(RecordPlace),
    /// A record is asked for.
    Fetch(Waiting<T>),
    /// A record waits for room. No message is under way.
    Room(Pending<T>),
    /// A record is spilled, for one that has no room in its chain.
    Spill(ChangedRecord, ChainPlace),
    /// A record is deleted.
    Drop,
}

/// A record, or a fresh one, that is to be taken in: at once, or when it has room.
#[derive(Debug)]
pub(super) struct Pending<T> {
    pub key: LeaseKey,
    pub waiting: Waiting<T>,
    pub record: Option<Record>,
}

/// Wants that wait for one key.
#[derive(Debug)]
pub(super) struct Waiting<T> {
    pub tickets: Vec<T>,
    /// When nobody waits for it any more, CLOCK_BOOTTIME.
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
            crowds: Crowds::default(),
            figures: SpillFigures::default(),
        }
    }
}

impl<T> Warm<T> {
    /// What is to be sent.
    pub fn take_sendings(&mut self) -> Vec<Sending> {
        std::mem::take(&mut self.sendings)
    }

    /// Wants that are finished.
    pub fn take_finished(&mut self) -> Vec<Finished<T>> {
        std::mem::take(&mut self.finished)
    }

    /// What was counted since the last call.
    pub fn take_figures(&mut self) -> SpillFigures {
        std::mem::take(&mut self.figures)
    }

    /// How many more records may be sent now.
    pub fn room(&self) -> usize {
        PUTS_MAX.saturating_sub(self.puts)
    }

    /// An item waits for the record of its key.
    pub fn want(&mut self, host: &mut impl Records, key: LeaseKey, ticket: T, deadline_ms: u64) {
        let under_way = self.by_key.get(&key).copied();
        let flight = under_way.and_then(|id| self.flights.get_mut(&id));
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
        let waiting = Waiting { tickets: vec![ticket], deadline_ms, was_away };
        match whereabouts {
            Ok(Whereabouts::Here) => self.finish(&key, waiting, Fate::Answered),
            Ok(Whereabouts::Nowhere) => {
                let pending = Pending { key, waiting, record: None };
                if let Some(pending) = self.take_in(host, pending, false) {
                    self.wait_for_room(host, pending);
                }
            }
            // The item says what is wrong when it runs.
            Err(ItemError::UnknownBiz | ItemError::BadKey) => {
                self.finish(&key, waiting, Fate::Unserved);
            }
            // One that cannot be had now may be had when the answer is here.
            Ok(Whereabouts::MaybeInCluster) | Err(_) => self.fetch(key, waiting),
        }
    }

    pub(super) fn fetch(&mut self, key: LeaseKey, waiting: Waiting<T>) {
        let id = self.begin(key, What::Fetch(waiting));
        if self.fetches >= FETCHES_MAX {
            self.queue.push_back(id);
        } else {
            self.ask(id, key);
        }
    }

    fn ask(&mut self, id: u64, key: LeaseKey) {
        self.fetches += 1;
        self.send(id, key, WarmCall::Fetch);
    }

    pub(super) fn send(&mut self, id: u64, key: LeaseKey, call: WarmCall) {
        self.sendings.push(Sending { id, key, call });
    }

    /// One question less is under way: the next one that somebody waits for may go.
    fn ask_next(&mut self, now_ms: u64) {
        self.fetches -= 1;
        while let Some(id) = self.queue.pop_front() {
            let Some(flight) = self.flights.get(&id) else { continue };
            let key = flight.key;
            match &flight.what {
                What::Fetch(waiting) if now_ms < waiting.deadline_ms => return self.ask(id, key),
                _ => {
                    if let Some(What::Fetch(waiting)) = self.end(id).map(|end| end.what) {
                        self.finish(&key, waiting, Fate::Unreachable);
                    }
                }
            }
        }
    }

    pub(super) fn finish(&mut self, key: &LeaseKey, waiting: Waiting<T>, fate: Fate) {
        let finished = |ticket| Finished { ticket, key: *key, fate, is_nowhere: false };
        self.finished.extend(waiting.tickets.into_iter().map(finished));
    }

    /// The cluster has no record of the key, and nothing says so here.
    fn finish_nowhere(&mut self, key: LeaseKey, waiting: Waiting<T>) {
        let finished = |ticket| Finished { ticket, key, fate: Fate::Answered, is_nowhere: true };
        self.finished.extend(waiting.tickets.into_iter().map(finished));
    }

    /// A record has changed. If it cannot be sent now: where it is.
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

    /// A message takes the place of an earlier one for the same key.
    pub(super) fn begin(&mut self, key: LeaseKey, what: What<T>) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.flights.insert(id, Flight { key, what });
        // A record that was under way stays known by its number alone.
        self.by_key.insert(key, id);
        id
    }

    pub(super) fn end(&mut self, id: u64) -> Option<Ended<T>> {
        let Flight { key, what } = self.flights.remove(&id)?;
        let is_last = self.by_key.get(&key) == Some(&id);
        if is_last {
            self.by_key.remove(&key);
        }
        Some(Ended { key, what, is_last })
    }

    /// What became of a message, or why that is not known. Some: of one with a record that changed.
    pub fn answered(
        &mut self,
        host: &mut impl Records,
        now_ms: u64,
        id: u64,
        answer: Result<WarmAnswer, NoAnswer>,
    ) -> Option<Done> {
        let Ended { key, what, is_last } = self.end(id)?;
        match what {
            What::Put(place) => {
                self.puts -= 1;
                return Some(kept(host, &key, place, is_last, answer));
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
        key: LeaseKey,
        waiting: Waiting<T>,
        answer: Result<WarmAnswer, NoAnswer>,
    ) {
        let is_late = now_ms >= waiting.deadline_ms;
        let record = match answer {
            Ok(WarmAnswer::Record(bytes)) => Record::decode(&bytes, &key),
            Ok(_) => None,
            Err(NoAnswer::Lost) if !is_late => return self.fetch(key, waiting),
            Err(_) => return self.finish(&key, waiting, Fate::Unreachable),
        };
        if host.spills(&key) {
            self.figures.fetched += u64::from(record.is_some());
            self.figures.missed += u64::from(record.is_none());
        } else if record.is_none() {
            return self.finish_nowhere(key, waiting);
        }
        if let Some(pending) = self.take_in(host, Pending { key, waiting, record }, is_late) {
            self.wait_for_room(host, pending);
        }
    }

    /// Takes in a record that came from the cluster, or a fresh one. One that came too late
    /// replaces what was made without it: the uses since are few, and those in the record may be
    /// many. It replaces nothing that may have been here before: that is newer. Back: it has no
    /// room.
    pub(super) fn take_in(
        &mut self,
        host: &mut impl Records,
        pending: Pending<T>,
        is_late: bool,
    ) -> Option<Pending<T>> {
        let replaces = is_late && pending.waiting.was_away;
        let inserted = insert(host, &pending.key, pending.record.as_ref(), replaces);
        if inserted == Ok(Inserted::Crowded) && !is_late {
            return Some(pending);
        }
        let Pending { key, waiting, record } = pending;
        match inserted {
            Err(ItemError::Busy) if !is_late => self.fetch(key, waiting),
            // What is wrong with the group the item says when it runs, or that it is late.
            inserted => {
                let is_here = inserted == Ok(Inserted::Yes) && record.is_some();
                self.finish(&key, waiting, Fate::Answered);
                if is_here && host.spills(&key) && !host.backs_up(&key) {
                    let id = self.begin(key, What::Drop);
                    self.send(id, key, WarmCall::Drop);
                }
            }
        }
        None
    }
}

/// A message that is under way no more.
pub(super) struct Ended<T> {
    pub key: LeaseKey,
    pub what: What<T>,
    /// No later message for its key has begun.
    is_last: bool,
}

/// Why no answer is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoAnswer {
    /// The message, or its answer, was lost.
    Lost,
    /// The master is not connected.
    Down,
}

fn insert(
    host: &mut impl Records,
    key: &LeaseKey,
    record: Option<&Record>,
    replaces: bool,
) -> Result<Inserted, ItemError> {
    let Some(record) = record else { return host.insert_fresh(key) };
    match host.insert(key, record)? {
        // Where records are spilled none is made without what the cluster has.
        Inserted::Present if replaces && host.backs_up(key) && !host.spills(key) => {
            host.forget(key)?;
            host.insert(key, record)
        }
        Inserted::Void if host.spills(key) => host.insert_fresh(key),
        inserted => Ok(inserted),
    }
}

fn kept(
    host: &mut impl Records,
    key: &LeaseKey,
    place: RecordPlace,
    is_last: bool,
    answer: Result<WarmAnswer, NoAnswer>,
) -> Done {
    match answer {
        Ok(WarmAnswer::Kept) => Done::Kept(place),
        // Of one that was fetched since, nothing is known.
        Ok(WarmAnswer::Moved) if is_last && host.forget(key).is_ok() => Done::Moved(place),
        _ => Done::Again(place),
    }
}

#[cfg(test)]
mod tests;
