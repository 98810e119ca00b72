//! The readers' side: the refused keys of all slots.
//!
//! Invariant: `refused` is never less than how often a key was refused since `since_ms`, and at
//! most `error` more, as far as no owner has died in a fold, or had no room for a sketch.

use std::collections::HashMap;

use super::writer::read_pane;
use super::{
    FOLDED, GIVEN_IN, Kind, Pane, RefusedKey, SEQUENCE, SHORT_MS, SHORT_OF_LONG, SketchWords,
    Tally, Window, long_pane, short_pane, summary,
};
use crate::base::clock::Millis;
use crate::base::sync::{Ordering, fence};
use crate::store::counter::Counters;
use crate::store::layout::slot as at;

/// The looks at a sketch whose panes turn. One whose owner died in a turn is read as it stands.
const LOOKS: usize = 100;

/// A key, and how often it was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusedCount {
    /// The key.
    pub key: RefusedKey,
    /// At most this often.
    pub refused: u64,
    /// At most this much less often.
    pub error: u64,
    /// The last time, in milliseconds.
    pub last_ms: Millis,
}

/// The keys that were refused most.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RefusedKeys {
    /// The time from which on they are counted.
    pub since_ms: Millis,
    /// The most refused one first.
    pub keys: Vec<RefusedCount>,
}

/// The sums of the panes that have been read.
pub(in crate::store) struct Gathered {
    window: Window,
    biz_id: Option<u32>,
    now_pane: u64,
    keys: HashMap<RefusedKey, Above>,
    /// What a key of a business was counted at most in the panes that it is not in.
    floors: HashMap<u32, u64>,
    others: Vec<OthersFloor>,
    /// In which pane a business got a sketch of its own in a slot.
    given: HashMap<Owned, u64>,
}

/// A sum over panes, above the floors of those panes.
#[derive(Debug, Default)]
struct Above {
    count: u64,
    error: i64,
    last_ms: Millis,
}

/// A business in a slot.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Owned {
    slot: u32,
    biz_id: u32,
}

/// The floor of a pane of the businesses without a sketch of their own.
#[derive(Debug)]
struct OthersFloor {
    slot: u32,
    /// The first short pane in it.
    from: u64,
    floor: u64,
}

/// A pane to be read.
#[derive(Debug, Clone, Copy)]
struct PaneAt {
    kind: Kind,
    number: u64,
}

impl Gathered {
    pub fn new(window: Window, biz_id: Option<u32>, now: Millis) -> Gathered {
        Gathered {
            window,
            biz_id,
            now_pane: short_pane(now),
            keys: HashMap::new(),
            floors: HashMap::new(),
            others: Vec::new(),
            given: HashMap::new(),
        }
    }

    /// Adds the sketches of a slot.
    pub fn add(&mut self, slot: u32, counters: Counters<'_>) {
        for sketch in 0..at::SKETCHES {
            let words = SketchWords::of(counters, sketch);
            let is_others = sketch == at::SKETCHES - 1;
            let biz_id = words.biz();
            let is_asked = self.biz_id.is_none_or(|asked| biz_id == Some(asked));
            if is_others || (biz_id.is_some() && is_asked) {
                self.add_sketch(slot, &words, biz_id.filter(|_| !is_others));
            }
        }
    }

    fn add_sketch(&mut self, slot: u32, words: &SketchWords<'_>, biz_id: Option<u32>) {
        let mut found = Vec::new();
        for look in 1..=LOOKS {
            // Acquire: pairs with the store that ends a turn.
            let sequence = words.region.word(words.head + SEQUENCE).load(Ordering::Acquire);
            found.clear();
            for pane in self.panes(words) {
                let mut read = Pane::default();
                read_pane(words, pane.kind, pane.number, &mut read);
                found.push((pane, read));
            }
            // Acquire: pairs with the fence that begins a turn.
            fence(Ordering::Acquire);
            if sequence.is_multiple_of(2) && words.head(SEQUENCE) == sequence {
                break;
            }
            if look % 10 == 0 {
                std::thread::yield_now();
            }
        }
        if let Some(biz_id) = biz_id {
            self.given.insert(Owned { slot, biz_id }, words.head(GIVEN_IN));
        }
        for (pane, read) in found {
            let floor = summary::floor(&read);
            match biz_id {
                Some(biz_id) => {
                    let sum = self.floors.entry(biz_id).or_default();
                    *sum = sum.saturating_add(floor);
                }
                None => self.others.push(OthersFloor { slot, from: pane.from(), floor }),
            }
            read.tallies.iter().for_each(|tally| self.add_tally(tally, floor));
        }
    }

    fn add_tally(&mut self, tally: &Tally, floor: u64) {
        if self.biz_id.is_some_and(|asked| asked != tally.key.biz_id()) {
            return;
        }
        let above = self.keys.entry(tally.key).or_default();
        above.count = above.count.saturating_add(tally.count.saturating_sub(floor));
        let error = (tally.error as i64).saturating_sub(floor as i64);
        above.error = above.error.saturating_add(error);
        above.last_ms = above.last_ms.max(tally.last_ms);
    }

    /// The panes of the window that a sketch has: for an hour the long ones, and what is not
    /// folded into one yet.
    fn panes(&self, words: &SketchWords<'_>) -> Vec<PaneAt> {
        let now = self.now_pane;
        let (folded, long_now) = (words.head(FOLDED), long_pane(now));
        let held = |kind: Kind, is_in: &dyn Fn(u64) -> bool| {
            let numbers = words.numbers(kind).into_iter();
            let numbers = numbers.filter(|&number| number != 0 && is_in(number));
            numbers.map(|number| PaneAt { kind, number }).collect::<Vec<_>>()
        };
        let kept = at::SKETCH_PANES as u64;
        match self.window {
            Window::Minute => held(Kind::Short, &|number| number.saturating_add(kept) > now),
            Window::Hour => {
                let mut panes = held(Kind::Long, &|number| number.saturating_add(kept) > long_now);
                let before = long_now.saturating_sub(kept) * SHORT_OF_LONG;
                panes.extend(held(Kind::Short, &|number| number >= folded && number > before));
                panes
            }
        }
    }

    /// The keys that were refused most.
    pub fn finish(self, most: usize) -> RefusedKeys {
        let others = |biz_id: u32| -> u64 {
            let counts = |floor: &&OthersFloor| {
                let given = self.given.get(&Owned { slot: floor.slot, biz_id });
                given.is_none_or(|&given| floor.from <= given)
            };
            let floors = self.others.iter().filter(counts).map(|floor| floor.floor);
            floors.fold(0, u64::saturating_add)
        };
        let mut floors: HashMap<u32, u64> = HashMap::new();
        let mut keys = Vec::with_capacity(self.keys.len());
        for (key, above) in &self.keys {
            let biz_id = key.biz_id();
            let own = self.floors.get(&biz_id).copied().unwrap_or(0);
            let floor = *floors.entry(biz_id).or_insert_with(|| own.saturating_add(others(biz_id)));
            let error = above.error.saturating_add(floor as i64).max(0) as u64;
            let refused = above.count.saturating_add(floor);
            keys.push(RefusedCount { key: *key, refused, error, last_ms: above.last_ms });
        }
        keys.sort_unstable_by_key(|refused| {
            let RefusedCount { key, refused, error, .. } = *refused;
            (std::cmp::Reverse(refused), error, key)
        });
        keys.truncate(most);
        RefusedKeys { since_ms: self.since_ms(), keys }
    }

    fn since_ms(&self) -> Millis {
        let before = at::SKETCH_PANES as u64;
        match self.window {
            Window::Minute => self.now_pane.saturating_sub(before) * SHORT_MS,
            Window::Hour => {
                long_pane(self.now_pane).saturating_sub(before) * SHORT_OF_LONG * SHORT_MS
            }
        }
    }
}

impl PaneAt {
    /// The first short pane in it.
    fn from(&self) -> u64 {
        match self.kind {
            Kind::Short => self.number,
            Kind::Long => (self.number - 1).saturating_mul(SHORT_OF_LONG) + 1,
        }
    }
}
