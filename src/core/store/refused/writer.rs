//! The owner's side: counts a refusal in the sketch of its business.
//!
//! Invariant: what was counted for the same key before costs a comparison and two stores. Nothing
//! is allocated after the begin, and no block of the file is written before it is allocated.

use super::summary;
use super::{
    BIZ, CHECK, COUNT, ERROR, FIELD, FOLDED, GIVEN, GIVEN_IN, HOUR, KEY, Kind, LAST, Pane,
    RefusedKey, SEQUENCE, SketchWords, Tally, long_pane, short_pane,
};
use crate::base::clock::Millis;
use crate::base::sync::{Ordering, fence};
use crate::store::counter::Counters;
use crate::store::layout::slot as at;

const ENTRIES: usize = at::SKETCH_ENTRIES;
/// The sketch of all businesses without one of their own.
const OTHERS: usize = at::SKETCHES.saturating_sub(1);
/// Checks that are compared at once.
const AT_ONCE: usize = 8;

/// What the owner of a slot knows of its sketches.
#[derive(Debug)]
pub struct RefusedSketches {
    /// The sketches of earlier owners are known.
    has_adopted: bool,
    known: Vec<Index>,
    /// The sketch that was used last.
    last: usize,
    /// In this pane no sketch was free.
    full_in: u64,
    /// In this pane there was no room for the sketch of all others.
    no_others_in: u64,
    /// A pane that is folded, and that into which it is.
    folded: [Pane; 2],
}

/// The current pane of a sketch, as its owner knows it.
#[derive(Debug)]
struct Index {
    biz_id: u32,
    sketch: usize,
    /// Number of the pane. 0: it is not known yet.
    pane: u64,
    used: usize,
    /// Where the last count was.
    last: usize,
    /// No count is lower.
    least: u64,
    /// All entries before it have counted more.
    cursor: usize,
    /// The upper halves of the checks.
    checks: [u32; ENTRIES],
    counts: [u64; ENTRIES],
}

impl Default for RefusedSketches {
    /// With memory for all that there may be.
    fn default() -> RefusedSketches {
        let pane = || Pane { tallies: Vec::with_capacity(2 * ENTRIES), is_full: false };
        RefusedSketches {
            has_adopted: false,
            known: Vec::with_capacity(at::SKETCHES),
            last: 0,
            full_in: 0,
            no_others_in: 0,
            folded: [pane(), pane()],
        }
    }
}

impl RefusedSketches {
    /// Counts a refusal. `allocate` is asked for the blocks of a sketch before it is written.
    /// Without them the key goes to the sketch of all others, or is not counted.
    pub fn count(
        &mut self,
        counters: Counters<'_>,
        key: &RefusedKey,
        now: Millis,
        allocate: impl FnMut(usize) -> bool,
    ) {
        let pane = short_pane(now);
        let Some(found) = self.find(counters, key.biz_id(), pane, allocate) else { return };
        let index = &mut self.known[found];
        let words = SketchWords::of(counters, index.sketch);
        if index.pane != pane {
            index.turn(&words, pane, &mut self.folded);
        }
        index.count(&words, key, now);
    }

    fn find(
        &mut self,
        counters: Counters<'_>,
        biz_id: u32,
        pane: u64,
        allocate: impl FnMut(usize) -> bool,
    ) -> Option<usize> {
        let is_its = |index: &Index| index.biz_id == biz_id && index.sketch != OTHERS;
        if self.known.get(self.last).is_some_and(is_its) {
            return Some(self.last);
        }
        let found = self.known.iter().position(is_its);
        self.last = match found {
            Some(found) => found,
            None => self.meet(counters, biz_id, pane, allocate)?,
        };
        Some(self.last)
    }

    /// Finds or gives a business its sketch.
    #[cold]
    fn meet(
        &mut self,
        counters: Counters<'_>,
        biz_id: u32,
        pane: u64,
        mut allocate: impl FnMut(usize) -> bool,
    ) -> Option<usize> {
        if !std::mem::replace(&mut self.has_adopted, true)
            && let Some(own) = self.adopt(counters, biz_id, &mut allocate)
        {
            return Some(own);
        }
        if self.full_in != pane {
            if let Some(sketch) = choose(counters, pane)
                && allocate(sketch)
            {
                give(&SketchWords::of(counters, sketch), biz_id, pane);
                return Some(self.know(biz_id, sketch));
            }
            self.full_in = pane;
        }
        let others = self.known.iter().position(|index| index.sketch == OTHERS);
        if others.is_some() || at::SKETCHES == 0 || self.no_others_in == pane {
            return others;
        }
        if !allocate(OTHERS) {
            self.no_others_in = pane;
            return None;
        }
        Some(self.know(0, OTHERS))
    }

    /// Takes the sketches that earlier owners have given. Returns that of a business.
    fn adopt(
        &mut self,
        counters: Counters<'_>,
        biz_id: u32,
        allocate: &mut impl FnMut(usize) -> bool,
    ) -> Option<usize> {
        for sketch in 0..OTHERS {
            // A copy of the file may lack blocks that it had.
            if let Some(given) = SketchWords::of(counters, sketch).biz()
                && allocate(sketch)
            {
                self.know(given, sketch);
            }
        }
        self.known.iter().position(|index| index.biz_id == biz_id)
    }

    fn know(&mut self, biz_id: u32, sketch: usize) -> usize {
        let index = Index::new(biz_id, sketch);
        match self.known.iter().position(|known| known.sketch == sketch) {
            Some(known) => {
                self.known[known] = index;
                known
            }
            None => {
                self.known.push(index);
                self.known.len() - 1
            }
        }
    }
}

/// A sketch that is free, else one whose business was not refused for an hour.
fn choose(counters: Counters<'_>, pane: u64) -> Option<usize> {
    let all = || (0..OTHERS).map(|sketch| (sketch, SketchWords::of(counters, sketch)));
    let free = all().find(|(_, words)| words.biz().is_none());
    let is_idle = |words: &SketchWords<'_>| {
        let newest = words.numbers(Kind::Short).into_iter().max().unwrap_or(0);
        newest.abs_diff(pane) > HOUR + HOUR / 6
    };
    let idle = || all().find(|(_, words)| is_idle(words));
    free.or_else(idle).map(|(sketch, _)| sketch)
}

/// Gives a sketch to a business. It keeps nothing of another one.
fn give(words: &SketchWords<'_>, biz_id: u32, pane: u64) {
    let sequence = begin(words);
    words.set_head(BIZ, 0);
    forget(words);
    words.set_head(GIVEN_IN, pane);
    words.set_head(BIZ, u64::from(biz_id) | GIVEN);
    end(words, sequence);
}

/// Forgets all panes.
fn forget(words: &SketchWords<'_>) {
    for kind in [Kind::Short, Kind::Long] {
        (0..at::SKETCH_PANES)
            .for_each(|place| words.set_head(SketchWords::number_word(kind, place), 0));
    }
    words.set_head(FOLDED, 0);
}

/// Makes the sequence odd: panes turn.
fn begin(words: &SketchWords<'_>) -> u64 {
    let sequence = words.head(SEQUENCE) | 1;
    words.set_head(SEQUENCE, sequence);
    // Release: a reader that sees what is written after this sees the odd sequence, too. Pairs with
    // the reader's Acquire fence.
    fence(Ordering::Release);
    sequence
}

fn end(words: &SketchWords<'_>, sequence: u64) {
    // Release: pairs with the reader's Acquire load of the sequence.
    words.store_with(words.head + SEQUENCE, sequence.wrapping_add(1), Ordering::Release);
}

impl Index {
    fn new(biz_id: u32, sketch: usize) -> Index {
        Index {
            biz_id,
            sketch,
            pane: 0,
            used: 0,
            last: 0,
            least: 0,
            cursor: 0,
            checks: [0; ENTRIES],
            counts: [0; ENTRIES],
        }
    }

    /// Goes on to a pane; folds those that have ended. A clock that steps back by less than an hour
    /// stays in the newest pane, so that no pane is folded twice.
    #[cold]
    fn turn(&mut self, words: &SketchWords<'_>, pane: u64, [short, long]: &mut [Pane; 2]) {
        let newest = words.numbers(Kind::Short).into_iter().max().unwrap_or(0);
        let newest = newest.max(words.head(FOLDED));
        let is_back = pane < newest;
        let has_jumped = is_back && newest - pane > HOUR;
        let pane = if is_back && !has_jumped { newest } else { pane };
        if pane == self.pane {
            return;
        }
        let sequence = begin(words);
        if has_jumped {
            forget(words);
        }
        fold_ended(words, pane, short, long);
        if words.numbers(Kind::Short)[SketchWords::place(pane)] != pane {
            clear(words, Kind::Short, pane);
        }
        self.open(words, pane);
        end(words, sequence);
    }

    /// Takes a pane as it stands in the file: an earlier owner may have begun it.
    fn open(&mut self, words: &SketchWords<'_>, pane: u64) {
        *self = Index { pane, ..Index::new(self.biz_id, self.sketch) };
        for at in 0..ENTRIES {
            let entry = words.entry(Kind::Short, pane, at);
            let [check, count] = [CHECK, COUNT].map(|word| words.region.load(entry + word));
            if check != 0 || count != 0 {
                self.checks[at] = upper(check);
                self.counts[at] = count;
                self.used = at + 1;
            }
        }
        self.least = self.counts[..self.used].iter().copied().min().unwrap_or(0);
    }

    #[inline]
    fn count(&mut self, words: &SketchWords<'_>, key: &RefusedKey, now: Millis) {
        let check = key.check();
        match self.entry_of(words, key, check) {
            Some(at) => {
                self.last = at;
                self.counts[at] = self.counts[at].saturating_add(1);
                let entry = words.entry(Kind::Short, self.pane, at);
                words.store(entry + COUNT, self.counts[at]);
                words.store(entry + LAST, now);
            }
            None => self.insert(words, key, now),
        }
    }

    #[inline]
    fn entry_of(&self, words: &SketchWords<'_>, key: &RefusedKey, check: u64) -> Option<usize> {
        let is_it = |at: usize| {
            let entry = words.entry(Kind::Short, self.pane, at);
            self.checks[at] == upper(check) && read_key(words, entry) == *key
        };
        if self.last < self.used && is_it(self.last) {
            return Some(self.last);
        }
        let wanted = upper(check);
        let (parts, _) = self.checks.as_chunks::<AT_ONCE>();
        for (part, checks) in parts.iter().enumerate().take(self.used.div_ceil(AT_ONCE)) {
            // Without a branch inside, the compiler compares them together.
            if !checks.iter().fold(false, |found, check| found | (*check == wanted)) {
                continue;
            }
            let first = part * AT_ONCE;
            let found = (first..self.used.min(first + AT_ONCE)).find(|at| is_it(*at));
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Takes a free entry, or that with the lowest count.
    fn insert(&mut self, words: &SketchWords<'_>, key: &RefusedKey, now: Millis) {
        let (at, error) = if self.used < ENTRIES {
            self.used += 1;
            self.least = 1;
            (self.used - 1, 0)
        } else {
            let at = self.lowest();
            (at, self.counts[at])
        };
        let count = error.saturating_add(1);
        (self.checks[at], self.counts[at], self.last) = (upper(key.check()), count, at);
        let entry = words.entry(Kind::Short, self.pane, at);
        write(words, entry, &Tally { key: *key, count, error, last_ms: now });
    }

    /// An entry with the lowest count. Counts only grow, so none before the cursor has it.
    fn lowest(&mut self) -> usize {
        loop {
            let rest = &self.counts[self.cursor..];
            if let Some(at) = rest.iter().position(|&count| count == self.least) {
                self.cursor += at + 1;
                return self.cursor - 1;
            }
            self.cursor = 0;
            self.least = self.counts.iter().copied().min().unwrap_or(0);
        }
    }
}

const fn upper(check: u64) -> u32 {
    (check >> 32) as u32
}

/// Folds each short pane that has ended into its long one. One whose fold has begun is never
/// folded again.
fn fold_ended(words: &SketchWords<'_>, pane: u64, short: &mut Pane, long: &mut Pane) {
    let mut numbers = words.numbers(Kind::Short);
    numbers.sort_unstable();
    let from = words.head(FOLDED).max(1);
    for number in numbers.into_iter().filter(|number| (from..pane).contains(number)) {
        words.set_head(FOLDED, number + 1);
        let to = long_pane(number);
        if words.numbers(Kind::Long)[SketchWords::place(to)] != to {
            clear(words, Kind::Long, to);
        }
        read_pane(words, Kind::Short, number, short);
        read_pane(words, Kind::Long, to, long);
        summary::fold(long, short, ENTRIES);
        write_pane(words, to, &long.tallies);
    }
    words.set_head(FOLDED, pane.max(from));
}

/// Empties the place of a pane, and gives it this number.
fn clear(words: &SketchWords<'_>, kind: Kind, number: u64) {
    let word = SketchWords::number_word(kind, SketchWords::place(number));
    words.set_head(word, 0);
    (0..ENTRIES).for_each(|at| free(words, words.entry(kind, number, at)));
    words.set_head(word, number);
}

/// Makes an entry one that was never taken: it has no count, unlike one that is being replaced.
fn free(words: &SketchWords<'_>, entry: usize) {
    words.store(entry + CHECK, 0);
    words.store(entry + COUNT, 0);
}

/// Writes a long pane. It has no number until it is whole, so whoever dies here loses it and leaves
/// no key in it twice.
fn write_pane(words: &SketchWords<'_>, number: u64, tallies: &[Tally]) {
    let word = SketchWords::number_word(Kind::Long, SketchWords::place(number));
    words.set_head(word, 0);
    for at in 0..ENTRIES {
        let entry = words.entry(Kind::Long, number, at);
        match tallies.get(at) {
            Some(tally) => write(words, entry, tally),
            None => free(words, entry),
        }
    }
    words.set_head(word, number);
}

fn write(words: &SketchWords<'_>, entry: usize, tally: &Tally) {
    words.store(entry + CHECK, 0);
    // Release: a reader that sees a word of the new key sees that the old one has gone. Pairs with
    // the reader's Acquire fence.
    fence(Ordering::Release);
    words.store(entry + KEY, tally.key.word);
    for (word, part) in (entry + FIELD..).zip(tally.key.field) {
        words.store(word, part);
    }
    words.store(entry + COUNT, tally.count);
    words.store(entry + ERROR, tally.error);
    words.store(entry + LAST, tally.last_ms);
    // Release: pairs with the reader's Acquire load of the check.
    words.store_with(entry + CHECK, tally.key.check(), Ordering::Release);
}

pub(super) fn read_key(words: &SketchWords<'_>, entry: usize) -> RefusedKey {
    let word = |at: usize| words.region.load(entry + at);
    RefusedKey { word: word(KEY), field: std::array::from_fn(|part| word(FIELD + part)) }
}

/// Reads a pane. An entry that is being replaced is left out, and the pane is full all the same:
/// none is replaced while another one is free.
pub(super) fn read_pane(words: &SketchWords<'_>, kind: Kind, number: u64, pane: &mut Pane) {
    pane.tallies.clear();
    let mut free = 0;
    let region = words.region;
    for at in 0..ENTRIES {
        let entry = words.entry(kind, number, at);
        // Acquire: pairs with the writer's last store of an entry.
        let check = region.word(entry + CHECK).load(Ordering::Acquire);
        let key = read_key(words, entry);
        let [count, error, last_ms] = [COUNT, ERROR, LAST].map(|at| region.load(entry + at));
        // Acquire: pairs with the writer's fence.
        fence(Ordering::Acquire);
        if check != 0 && check == key.check() && region.load(entry + CHECK) == check {
            pane.tallies.push(Tally { key, count, error: error.min(count), last_ms });
        }
        free += usize::from(check == 0 && count == 0);
    }
    pane.is_full = free == 0;
}
