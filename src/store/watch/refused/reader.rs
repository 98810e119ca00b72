//! The readers' side: the refused keys of all slots.
//!
//! Invariant: `refused` is at least the number of times that a key was refused since `since_ms`,
//! and at most `error` more. This holds unless an owner has died in a fold, or had no room for a
//! sketch.

use std::collections::HashMap;

use frs_base::clock::Millis;
use frs_base::sync::{Ordering, fence};

use super::{
    Kind, OTHERS, Pane, RefusedKey, SHORT_MS, SHORT_OF_LONG, SketchWords, Tally, Window, long_pane,
    short_pane, summary,
};
use crate::file::layout::slot as at;
use crate::watch::counter::Counters;

/// Attempts to read a sketch whose panes turn. The sketch of an owner that died in a turn is read
/// as it is.
const LOOKS: usize = 100;

/// A key, and the number of times that it was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusedCount {
    /// The key.
    pub key: RefusedKey,
    /// It was refused at most this often.
    pub refused: u64,
    /// It was refused at least `refused - error` times.
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
pub(crate) struct RefusedSums {
    window: Window,
    biz_id: Option<u32>,
    /// The last short pane before the window.
    before: u64,
    keys: HashMap<RefusedKey, AboveFloor>,
    /// The most that a key of a business can have been counted in panes without it.
    floors: HashMap<u32, u64>,
    others: Vec<OthersFloor>,
    /// The pane in which a business got its own sketch in a slot.
    given: HashMap<Owned, u64>,
}

/// A sum over panes, above the floors of those panes.
#[derive(Debug, Default)]
struct AboveFloor {
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

/// The floor of a pane in the sketch of all other businesses.
#[derive(Debug)]
struct OthersFloor {
    slot: u32,
    /// The first short pane in it.
    first: u64,
    floor: u64,
}

/// The read copy of a sketch.
#[derive(Debug, Default)]
struct ReadSketch {
    /// Its business. None for the sketch of all others.
    biz_id: Option<u32>,
    given_in: u64,
    panes: Vec<(PaneAt, Pane)>,
}

/// A pane to be read.
#[derive(Debug, Clone, Copy)]
struct PaneAt {
    kind: Kind,
    number: u64,
}

impl RefusedSums {
    pub fn new(window: Window, biz_id: Option<u32>, now: Millis) -> RefusedSums {
        let (now, kept) = (short_pane(now), at::SKETCH_PANES as u64);
        let before = match window {
            Window::Minute => now.saturating_sub(kept),
            Window::Hour => long_pane(now).saturating_sub(kept) * SHORT_OF_LONG,
        };
        RefusedSums {
            window,
            biz_id,
            before,
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
            if sketch == OTHERS || words.biz().is_some_and(|biz_id| self.is_asked(biz_id)) {
                self.add_sketch(slot, &words);
            }
        }
    }

    fn is_asked(&self, biz_id: u32) -> bool {
        self.biz_id.is_none_or(|asked| asked == biz_id)
    }

    fn add_sketch(&mut self, slot: u32, words: &SketchWords<'_>) {
        let ReadSketch { biz_id, given_in, panes } = self.read(words);
        if let Some(biz_id) = biz_id {
            self.given.insert(Owned { slot, biz_id }, given_in);
        }
        for (at, pane) in panes {
            let floor = summary::floor(&pane);
            match biz_id {
                Some(biz_id) => {
                    let sum = self.floors.entry(biz_id).or_default();
                    *sum = sum.saturating_add(floor);
                }
                None => self.others.push(OthersFloor { slot, first: at.first(), floor }),
            }
            pane.tallies.iter().for_each(|tally| self.add_tally(tally, floor));
        }
    }

    /// Reads a sketch between two turns of its panes.
    fn read(&self, words: &SketchWords<'_>) -> ReadSketch {
        let mut read = ReadSketch::default();
        for look in 1..=LOOKS {
            // Acquire: pairs with the store that ends a turn.
            let sequence = words.region.word(words.head + at::SKETCH_SEQUENCE);
            let before = sequence.load(Ordering::Acquire);
            read.biz_id = words.biz();
            read.given_in = words.head(at::SKETCH_GIVEN_IN);
            read.panes.clear();
            for at in self.panes(words) {
                let mut pane = Pane::default();
                words.read_pane(at.kind, at.number, &mut pane);
                read.panes.push((at, pane));
            }
            // Acquire: pairs with the fence that begins a turn.
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && sequence.load(Ordering::Relaxed) == before {
                break;
            }
            if look % 10 == 0 {
                std::thread::yield_now();
            }
        }
        read
    }

    fn add_tally(&mut self, tally: &Tally, floor: u64) {
        if !self.is_asked(tally.key.biz_id()) {
            return;
        }
        let above = self.keys.entry(tally.key).or_default();
        above.count = above.count.saturating_add(tally.count.saturating_sub(floor));
        let error = (tally.error as i64).saturating_sub(floor as i64);
        above.error = above.error.saturating_add(error);
        above.last_ms = above.last_ms.max(tally.last_ms);
    }

    /// The panes of a sketch in the window: for an hour the long panes, and the short ones that are
    /// not folded yet.
    fn panes(&self, words: &SketchWords<'_>) -> Vec<PaneAt> {
        let held = |kind: Kind| {
            let numbers = words.numbers(kind).into_iter().filter(|&number| number != 0);
            let panes = numbers.map(move |number| PaneAt { kind, number });
            panes.filter(|pane| pane.first() > self.before)
        };
        match self.window {
            Window::Minute => held(Kind::Short).collect(),
            Window::Hour => {
                let folded = words.head(at::SKETCH_FOLDED);
                let short = held(Kind::Short).filter(|pane| pane.number >= folded);
                held(Kind::Long).chain(short).collect()
            }
        }
    }

    /// The keys that were refused most.
    pub fn finish(self, most: usize) -> RefusedKeys {
        let others = |biz_id: u32| -> u64 {
            let counts = |floor: &&OthersFloor| {
                let given = self.given.get(&Owned { slot: floor.slot, biz_id });
                given.is_none_or(|&given| floor.first <= given)
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
        RefusedKeys { since_ms: self.before.saturating_mul(SHORT_MS), keys }
    }
}

impl PaneAt {
    /// The first short pane in it.
    fn first(&self) -> u64 {
        match self.kind {
            Kind::Short => self.number,
            Kind::Long => (self.number - 1).saturating_mul(SHORT_OF_LONG) + 1,
        }
    }
}
