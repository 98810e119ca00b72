//! What this machine has yet to send to one peer.
//!
//! Invariant: a change stays here until the peer has it, or a comparison is due that finds it. A
//! record is read when it is sent, so it goes once, however often it has changed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use frs_base::clock::Millis;
use frs_engine::{Service, StoredKey};
use frs_store::ChangedPlace;

use super::codec;
use super::copies::{self, Found, Looks, MappedFiles};
use super::frame::{Frame, Record};
use super::rate::Rate;

/// Frames of records that may be under way.
const WINDOW: usize = 8;
/// The pause before a record that could not be sent, or taken, is tried again.
const DELAY: Duration = Duration::from_millis(20);
/// A frame of records ends behind the record that reaches this.
const FRAME_BYTES: usize = 64 * 1024;
/// The most changes that are kept. A peer that is further behind is compared.
const CHANGES_MAX: usize = 1 << 20;

/// Where a record to send is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A place that was noted as changed.
    Changed(ChangedPlace),
    /// A place that a comparison has found.
    Compared(ChangedPlace),
    /// Wherever its key is.
    Key(Box<StoredKey>),
}

/// The changes of a group.
#[derive(Debug, Default)]
struct Waiting {
    places: BTreeSet<ChangedPlace>,
    /// When the first of them was noted.
    since: Option<Instant>,
}

/// A record that waits for a moment.
#[derive(Debug)]
struct Delayed {
    source: Source,
    due: Instant,
    since: Instant,
}

/// A frame of records under way.
#[derive(Debug)]
struct Flight {
    sources: Vec<Source>,
    since: Instant,
}

/// How far the peer is behind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lag {
    /// Records that have changed and are not acknowledged.
    pub records: usize,
    /// For how long the oldest of them has waited.
    pub time: Duration,
}

/// What a peer has answered about records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Kept {
    /// It has them.
    pub kept: u64,
    /// They are to be sent again.
    pub again: u64,
    /// It has newer ones.
    pub newer: u64,
}

/// What is to be sent to one peer.
#[derive(Debug)]
pub struct Push {
    /// By the index of the group among those that are mirrored.
    waiting: Vec<Waiting>,
    ready: BTreeSet<ChangedPlace>,
    ready_since: Option<Instant>,
    compared: VecDeque<ChangedPlace>,
    keys: VecDeque<StoredKey>,
    /// Records whose key-node is held here, or that the peer cannot take yet: they wait for a
    /// moment, and keep no other back.
    delayed: VecDeque<Delayed>,
    flights: BTreeMap<u64, Flight>,
    ordinal: u64,
    rate: Rate,
    /// The next frame begins with what a comparison has found.
    turn: bool,
}

impl Push {
    /// Nothing, at this rate in bytes per second.
    pub fn new(rate: u64, now: Instant) -> Push {
        Push {
            waiting: Vec::new(),
            ready: BTreeSet::new(),
            ready_since: None,
            compared: VecDeque::new(),
            keys: VecDeque::new(),
            delayed: VecDeque::new(),
            flights: BTreeMap::new(),
            ordinal: 0,
            rate: Rate::new(rate, now),
            turn: false,
        }
    }

    /// Forgets all: the groups are new ones, or the connection is. A comparison must follow.
    pub fn clear(&mut self, groups: usize) {
        self.waiting = (0..groups).map(|_| Waiting::default()).collect();
        self.ready.clear();
        self.ready_since = None;
        self.compared.clear();
        self.keys.clear();
        self.delayed.clear();
        self.flights.clear();
    }

    /// Notes a change. Returns false if there are too many: then all are forgotten, and a
    /// comparison must follow.
    pub fn note(&mut self, group: usize, place: ChangedPlace, now: Instant) -> bool {
        let Some(waiting) = self.waiting.get_mut(group) else { return true };
        if waiting.places.insert(place) {
            waiting.since.get_or_insert(now);
        }
        if self.waiting.iter().map(|waiting| waiting.places.len()).sum::<usize>() <= CHANGES_MAX {
            return true;
        }
        for waiting in &mut self.waiting {
            *waiting = Waiting::default();
        }
        false
    }

    /// Notes a record that a comparison has found.
    pub fn note_compared(&mut self, place: ChangedPlace) {
        self.compared.push_back(place);
    }

    /// Notes a record that the peer has an older version of.
    pub fn note_key(&mut self, key: StoredKey) {
        if self.keys.len() < CHANGES_MAX {
            self.keys.push_back(key);
        }
    }

    /// How many records that a comparison has found wait.
    pub fn compared_left(&self) -> usize {
        self.compared.len()
    }

    /// Whether the peer has all that comparisons have found.
    pub fn has_sent_compared(&self) -> bool {
        let is_compared = |source: &Source| matches!(source, Source::Compared(_));
        self.compared.is_empty()
            && !self.delayed.iter().any(|delayed| is_compared(&delayed.source))
            && !self.flights.values().any(|flight| flight.sources.iter().any(is_compared))
    }

    /// Whether the peer has all.
    pub fn is_empty(&self) -> bool {
        self.flights.is_empty()
            && self.ready.is_empty()
            && self.compared.is_empty()
            && self.keys.is_empty()
            && self.delayed.is_empty()
            && self.waiting.iter().all(|waiting| waiting.places.is_empty())
    }

    /// How far the peer is behind.
    pub fn lag(&self, now: Instant) -> Lag {
        let waiting = self.waiting.iter().map(|waiting| waiting.places.len()).sum::<usize>();
        let flying = self.flights.values().map(|flight| flight.sources.len()).sum::<usize>();
        let since = self.waiting.iter().filter_map(|waiting| waiting.since);
        let since = since.chain(self.ready_since);
        let since = since.chain(self.flights.values().map(|flight| flight.since));
        let since = since.chain(self.delayed.iter().map(|delayed| delayed.since)).min();
        let ready = self.ready.len() + self.compared.len() + self.keys.len() + self.delayed.len();
        Lag {
            records: waiting + flying + ready,
            time: since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since)),
        }
    }

    /// When something is due. `periods` are those of the groups.
    pub fn due(&self, periods: &[Duration], now: Instant) -> Option<Instant> {
        if self.flights.len() >= WINDOW {
            return None;
        }
        if !self.nothing_is_ready() {
            return Some(self.rate.due(now));
        }
        let due = |(waiting, period): (&Waiting, &Duration)| Some(waiting.since? + *period);
        let waiting = self.waiting.iter().zip(periods).filter_map(due);
        waiting.chain(self.delayed.front().map(|delayed| delayed.due)).min()
    }

    /// Lets all changes go at once.
    pub fn hurry(&mut self) {
        (0..self.waiting.len()).for_each(|group| self.make_ready(group));
    }

    fn make_ready(&mut self, group: usize) {
        let Waiting { places, since } = std::mem::take(&mut self.waiting[group]);
        self.ready.extend(places);
        self.ready_since = self.ready_since.into_iter().chain(since).min();
    }

    /// The next frames of records that are due.
    pub fn next_frames(
        &mut self,
        service: &mut Service,
        files: &MappedFiles,
        looks: &mut Looks,
        periods: &[Duration],
        (now, wall_ms): (Instant, Millis),
    ) -> Vec<Frame> {
        for (group, period) in periods.iter().enumerate() {
            let since = self.waiting.get(group).and_then(|waiting| waiting.since);
            if since.is_some_and(|since| now >= since + *period) {
                self.make_ready(group);
            }
        }
        while self.delayed.front().is_some_and(|delayed| delayed.due <= now)
            && let Some(Delayed { source, since, .. }) = self.delayed.pop_front()
        {
            self.put_back(source, since);
        }
        let mut frames = Vec::new();
        while self.flights.len() < WINDOW && self.rate.may_send(now) && !self.nothing_is_ready() {
            let since = self.ready_since.unwrap_or(now);
            let (records, sources, bytes) = self.take(service, files, looks, (now, wall_ms));
            if records.is_empty() {
                continue;
            }
            self.rate.sent(bytes);
            self.ordinal += 1;
            self.flights.insert(self.ordinal, Flight { sources, since });
            frames.push(Frame::Records { ordinal: self.ordinal, records });
        }
        frames
    }

    fn nothing_is_ready(&self) -> bool {
        self.ready.is_empty() && self.compared.is_empty() && self.keys.is_empty()
    }

    /// The records of a frame. What is held is delayed.
    fn take(
        &mut self,
        service: &mut Service,
        files: &MappedFiles,
        looks: &mut Looks,
        (now, wall_ms): (Instant, Millis),
    ) -> (Vec<Record>, Vec<Source>, usize) {
        let (mut records, mut sources, mut bytes) = (Vec::new(), Vec::new(), 0);
        while bytes < FRAME_BYTES {
            let since = self.ready_since.unwrap_or(now);
            let Some(source) = self.next_source() else { break };
            let found = match &source {
                Source::Changed(place) | Source::Compared(place) => {
                    looks.record_at(service, files, *place, wall_ms)
                }
                Source::Key(key) => match copies::record_of_key(service, key, wall_ms) {
                    Ok(Some(record)) => Found::Record(Box::new(record)),
                    Ok(None) => Found::Nothing,
                    Err(_) => Found::Held,
                },
            };
            match found {
                Found::Record(record) => {
                    bytes += codec::record_bytes(&record);
                    records.push(*record);
                    sources.push(source);
                }
                Found::Held => {
                    self.delayed.push_back(Delayed { source, due: now + DELAY, since });
                }
                Found::Nothing => {}
            }
        }
        self.turn = !self.turn;
        (records, sources, bytes)
    }

    fn next_source(&mut self) -> Option<Source> {
        if let Some(key) = self.keys.pop_front() {
            return Some(Source::Key(Box::new(key)));
        }
        let compared = |push: &mut Push| push.compared.pop_front().map(Source::Compared);
        if self.turn
            && let Some(source) = compared(self)
        {
            return Some(source);
        }
        let changed = self.ready.pop_first().map(Source::Changed);
        if self.ready.is_empty() {
            self.ready_since = None;
        }
        changed.or_else(|| compared(self))
    }

    fn put_back(&mut self, source: Source, since: Instant) {
        match source {
            Source::Changed(place) => {
                self.ready.insert(place);
                self.ready_since = Some(self.ready_since.map_or(since, |one| one.min(since)));
            }
            Source::Compared(place) => self.compared.push_back(place),
            Source::Key(key) => self.keys.push_back(*key),
        }
    }

    /// Takes in the answer to a frame of records.
    pub fn answered(&mut self, ordinal: u64, newer: u32, again: &[u32], now: Instant) -> Kept {
        let Some(Flight { sources, since }) = self.flights.remove(&ordinal) else {
            return Kept::default();
        };
        let again: BTreeSet<usize> = again.iter().map(|&at| at as usize).collect();
        let all = sources.len() as u64;
        let sources = sources.into_iter().enumerate().filter(|(at, _)| again.contains(at));
        let delayed = sources.map(|(_, source)| Delayed { source, due: now + DELAY, since });
        self.delayed.extend(delayed);
        let (again, newer) = (again.len() as u64, u64::from(newer));
        Kept { kept: all.saturating_sub(again + newer), again, newer }
    }
}
