//! The records that are asked for, and those on their way to the cluster.
//!
//! Invariant: each ticket is finished once. A key has one message under way at most: what is
//! answered to an earlier one means nothing.

use std::collections::{HashMap, VecDeque};

use frs::service::{ChangedRecord, Inserted, ItemError, LeaseKey, Record, RecordPlace};

use super::message::{WarmAnswer, WarmCall};
use crate::courier::core::Fate;

/// Messages with records that may be under way.
const PUTS_MAX: usize = 1024;
/// Questions for records that may be under way: more wait for those.
const FETCHES_MAX: usize = 1024;

/// The records of this host.
pub trait Records {
    /// Whether a key has no record here.
    fn lacks(&mut self, key: &LeaseKey) -> Result<bool, ItemError>;
    /// Takes in what the cluster has kept, unless there is one here.
    fn insert(&mut self, key: &LeaseKey, record: &Record) -> Result<Inserted, ItemError>;
    /// Forgets a record.
    fn forget(&mut self, key: &LeaseKey) -> Result<(), ItemError>;
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
    flights: HashMap<u64, Flight<T>>,
    by_key: HashMap<LeaseKey, u64>,
    puts: usize,
    fetches: usize,
    /// Questions that wait, oldest first.
    queue: VecDeque<u64>,
    last_id: u64,
    sendings: Vec<Sending>,
    finished: Vec<Finished<T>>,
}

#[derive(Debug)]
struct Flight<T> {
    key: LeaseKey,
    what: What<T>,
}

#[derive(Debug)]
enum What<T> {
    Put(RecordPlace),
    Fetch {
        tickets: Vec<T>,
        /// When nobody waits for it any more, CLOCK_BOOTTIME.
        deadline_ms: u64,
    },
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

    /// How many more records may be sent now.
    pub fn room(&self) -> usize {
        PUTS_MAX.saturating_sub(self.puts)
    }

    /// An item waits for the record of its key.
    pub fn want(&mut self, host: &mut impl Records, key: LeaseKey, ticket: T, deadline_ms: u64) {
        let under_way = self.by_key.get(&key).copied();
        let flight = under_way.and_then(|id| self.flights.get_mut(&id));
        if let Some(Flight { what: What::Fetch { tickets, deadline_ms: latest }, .. }) = flight {
            tickets.push(ticket);
            *latest = deadline_ms.max(*latest);
            return;
        }
        match host.lacks(&key) {
            Ok(false) => self.finish(&key, vec![ticket], Fate::Answered),
            // The item says what is wrong when it runs.
            Err(ItemError::UnknownBiz | ItemError::BadKey) => {
                self.finish(&key, vec![ticket], Fate::Unserved);
            }
            // One that cannot be had now may be had when the answer is here.
            Ok(true) | Err(_) => {
                self.fetch(key, vec![ticket], deadline_ms);
            }
        }
    }

    fn fetch(&mut self, key: LeaseKey, tickets: Vec<T>, deadline_ms: u64) {
        let id = self.begin(key, What::Fetch { tickets, deadline_ms });
        if self.fetches >= FETCHES_MAX {
            self.queue.push_back(id);
        } else {
            self.ask(id, key);
        }
    }

    fn ask(&mut self, id: u64, key: LeaseKey) {
        self.fetches += 1;
        self.sendings.push(Sending { id, key, call: WarmCall::Fetch });
    }

    /// One question less is under way: the next one that somebody waits for may go.
    fn ask_next(&mut self, now_ms: u64) {
        self.fetches -= 1;
        while let Some(id) = self.queue.pop_front() {
            let Some(flight) = self.flights.get(&id) else { continue };
            let key = flight.key;
            match flight.what {
                What::Fetch { deadline_ms, .. } if now_ms < deadline_ms => {
                    return self.ask(id, key);
                }
                _ => {
                    if let Some(What::Fetch { tickets, .. }) = self.end(id).map(|end| end.what) {
                        self.finish(&key, tickets, Fate::Unreachable);
                    }
                }
            }
        }
    }

    fn finish(&mut self, key: &LeaseKey, tickets: Vec<T>, fate: Fate) {
        let finished = tickets.into_iter().map(|ticket| Finished { ticket, key: *key, fate });
        self.finished.extend(finished);
    }

    /// A record has changed. If it cannot be sent now: where it is.
    pub fn put(&mut self, changed: ChangedRecord) -> Result<(), RecordPlace> {
        let ChangedRecord { key, record, life_ms, place } = changed;
        if self.by_key.contains_key(&key) || self.room() == 0 {
            return Err(place);
        }
        self.puts += 1;
        let call = WarmCall::Put { life_ms, bytes: record.encode(&key) };
        let id = self.begin(key, What::Put(place));
        self.sendings.push(Sending { id, key, call });
        Ok(())
    }

    /// A message takes the place of an earlier one for the same key.
    fn begin(&mut self, key: LeaseKey, what: What<T>) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.flights.insert(id, Flight { key, what });
        // A record that was under way stays known by its number alone.
        self.by_key.insert(key, id);
        id
    }

    fn end(&mut self, id: u64) -> Option<Ended<T>> {
        let Flight { key, what } = self.flights.remove(&id)?;
        let is_last = self.by_key.get(&key) == Some(&id);
        if is_last {
            self.by_key.remove(&key);
        }
        Some(Ended { key, what, is_last })
    }

    /// What became of a message, or why that is not known. Some: of one with a record.
    pub fn answered(
        &mut self,
        host: &mut impl Records,
        now_ms: u64,
        id: u64,
        answer: Result<WarmAnswer, NoAnswer>,
    ) -> Option<Done> {
        let ended = self.end(id)?;
        match ended.what {
            What::Put(place) => {
                self.puts -= 1;
                Some(kept(host, &ended.key, place, ended.is_last, answer))
            }
            What::Fetch { tickets, deadline_ms } => {
                let again = self.fetched(host, now_ms, &ended.key, deadline_ms, answer);
                match again {
                    Ok(fate) => self.finish(&ended.key, tickets, fate),
                    Err(Again) => self.fetch(ended.key, tickets, deadline_ms),
                }
                self.ask_next(now_ms);
                None
            }
        }
    }

    fn fetched(
        &self,
        host: &mut impl Records,
        now_ms: u64,
        key: &LeaseKey,
        deadline_ms: u64,
        answer: Result<WarmAnswer, NoAnswer>,
    ) -> Result<Fate, Again> {
        let is_late = now_ms >= deadline_ms;
        match answer {
            Ok(WarmAnswer::Record(bytes)) => {
                let record = Record::decode(&bytes, key);
                let taken = record.map(|record| take_in(host, key, &record, is_late));
                match taken {
                    Some(Err(ItemError::Busy)) if !is_late => Err(Again),
                    // What is wrong with the group the item says when it runs.
                    _ => Ok(Fate::Answered),
                }
            }
            Ok(_) => Ok(Fate::Answered),
            Err(NoAnswer::Lost) if !is_late => Err(Again),
            Err(_) => Ok(Fate::Unreachable),
        }
    }
}

/// A message that is under way no more.
struct Ended<T> {
    key: LeaseKey,
    what: What<T>,
    /// No later message for its key has begun.
    is_last: bool,
}

/// The record has to be asked for again.
struct Again;

/// Why no answer is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoAnswer {
    /// The message, or its answer, was lost.
    Lost,
    /// The master is not connected.
    Down,
}

/// Takes a record in. One that came too late replaces what was made without it: the uses since are
/// few, and those in the record may be many.
fn take_in(
    host: &mut impl Records,
    key: &LeaseKey,
    record: &Record,
    is_late: bool,
) -> Result<(), ItemError> {
    if host.insert(key, record)? == Inserted::Present && is_late {
        host.forget(key)?;
        host.insert(key, record)?;
    }
    Ok(())
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
