//! The owner's side: counts a refusal in the sketch of its business.
//!
//! Invariant: for a key that has an entry, the tags of all entries are compared at once, then its
//! words, and two words are stored. Only a new key searches for the least entry. No memory is
//! allocated after the start, and no block of the file is written before it is allocated.

use frs_base::clock::Millis;
use frs_base::sync::{Ordering, fence};

use super::summary;
use super::{
    HOUR, Kind, OTHERS, Pane, RefusedKey, SHORT_OF_LONG, SketchWords, Tally, long_pane, short_pane,
};
use crate::file::layout::slot as at;
use crate::watch::counter::Counters;

const ENTRIES: usize = at::SKETCH_ENTRIES;
/// Marks the sketch of all others, in place of the id of a business, which is never 0.
const NO_BIZ: u32 = 0;
/// Tags of a row, and also the number of rows, so that one word has a bit for each tag.
const ROW: usize = 8;
const _: () = assert!(ENTRIES == ROW * ROW && ENTRIES == u64::BITS as usize);

/// The owner's view of the sketches in its slot.
#[derive(Debug)]
pub struct RefusedSketches {
    /// Whether the sketches of earlier owners were taken over.
    has_adopted: bool,
    known: Vec<Index>,
    /// Businesses of the sketches, by the same index, read for each refusal. 0 for the sketch of
    /// all others.
    bizs: Vec<u32>,
    /// The place of the sketch that was used last.
    last: usize,
    /// The pane in which no sketch was free.
    full_in: u64,
    /// The pane in which the disk had no room for the sketch of all others.
    no_others_in: u64,
    /// Buffers for a pane, and for the pane that it is folded into.
    folded: [Pane; 2],
}

/// The current pane of a sketch, as its owner knows it.
#[derive(Debug)]
struct Index {
    sketch: usize,
    /// Number of the pane; 0 while it is not known.
    pane: u64,
    /// The first word of the pane, in its sketch.
    start: usize,
    used: usize,
    /// The entry that was counted last.
    last: usize,
    /// A lower bound of all counts.
    least: u64,
    /// All entries before this one have counts above `least`.
    cursor: usize,
    /// Tags of the checks; 0 if the entry has no check, or is free.
    tags: [u16; ENTRIES],
    counts: [u64; ENTRIES],
}

impl Default for RefusedSketches {
    /// Allocates the memory for all sketches in advance.
    fn default() -> RefusedSketches {
        let pane = || Pane { tallies: Vec::with_capacity(2 * ENTRIES), is_full: false };
        RefusedSketches {
            has_adopted: false,
            known: Vec::with_capacity(at::SKETCHES),
            bizs: Vec::with_capacity(at::SKETCHES),
            last: 0,
            full_in: 0,
            no_others_in: 0,
            folded: [pane(), pane()],
        }
    }
}

impl RefusedSketches {
    /// Counts a refusal. Calls `allocate` for the blocks of a sketch before it is written. If the
    /// disk has no room, the key goes to the sketch of all others, or is not counted.
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
        if self.bizs.get(self.last) == Some(&biz_id) {
            return Some(self.last);
        }
        self.last = match self.place_of(biz_id) {
            Some(place) => place,
            None => self.assign(counters, biz_id, pane, allocate)?,
        };
        Some(self.last)
    }

    fn place_of(&self, biz_id: u32) -> Option<usize> {
        self.bizs.iter().position(|&known| known == biz_id)
    }

    /// Assigns a sketch to a business: its own, a new one, or that of all others.
    #[cold]
    fn assign(
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
                return Some(self.insert(biz_id, sketch));
            }
            self.full_in = pane;
        }
        let others = self.place_of(NO_BIZ);
        if others.is_some() || at::SKETCHES == 0 || self.no_others_in == pane {
            return others;
        }
        if !allocate(OTHERS) {
            self.no_others_in = pane;
            return None;
        }
        Some(self.insert(NO_BIZ, OTHERS))
    }

    /// Takes over the sketches that earlier owners have assigned. Returns the sketch of a business.
    fn adopt(
        &mut self,
        counters: Counters<'_>,
        biz_id: u32,
        allocate: &mut impl FnMut(usize) -> bool,
    ) -> Option<usize> {
        for sketch in 0..OTHERS {
            // A copy of the file may lack blocks that the file had.
            if let Some(given) = SketchWords::of(counters, sketch).biz()
                && allocate(sketch)
            {
                self.insert(given, sketch);
            }
        }
        self.place_of(biz_id)
    }

    fn insert(&mut self, biz_id: u32, sketch: usize) -> usize {
        let index = Index::new(sketch);
        match self.known.iter().position(|known| known.sketch == sketch) {
            Some(place) => {
                (self.known[place], self.bizs[place]) = (index, biz_id);
                place
            }
            None => {
                self.known.push(index);
                self.bizs.push(biz_id);
                self.known.len() - 1
            }
        }
    }
}

/// A free sketch, else one whose panes are all older than any window.
fn choose(counters: Counters<'_>, pane: u64) -> Option<usize> {
    let all = || (0..OTHERS).map(|sketch| (sketch, SketchWords::of(counters, sketch)));
    let free = all().find(|(_, words)| words.biz().is_none());
    let is_idle = |words: &SketchWords<'_>| {
        let newest = words.numbers(Kind::Short).into_iter().max().unwrap_or(0);
        newest.abs_diff(pane) > at::SKETCH_PANES as u64 * SHORT_OF_LONG
    };
    let idle = || all().find(|(_, words)| is_idle(words));
    free.or_else(idle).map(|(sketch, _)| sketch)
}

/// Gives a sketch to a business. All panes of an earlier business are forgotten.
fn give(words: &SketchWords<'_>, biz_id: u32, pane: u64) {
    let sequence = begin(words);
    words.set_head(at::SKETCH_BIZ, 0);
    forget(words);
    words.set_head(at::SKETCH_GIVEN_IN, pane);
    words.set_head(at::SKETCH_BIZ, u64::from(biz_id) | at::SKETCH_GIVEN);
    end(words, sequence);
}

/// Forgets all panes.
fn forget(words: &SketchWords<'_>) {
    for kind in [Kind::Short, Kind::Long] {
        (0..at::SKETCH_PANES)
            .for_each(|place| words.set_head(SketchWords::number_word(kind, place), 0));
    }
    words.set_head(at::SKETCH_FOLDED, 0);
}

/// Makes the sequence odd: panes turn.
fn begin(words: &SketchWords<'_>) -> u64 {
    let sequence = words.head(at::SKETCH_SEQUENCE) | 1;
    words.set_head(at::SKETCH_SEQUENCE, sequence);
    // Release: a reader that sees a later write also sees the odd sequence. Pairs with the reader's
    // Acquire fence.
    fence(Ordering::Release);
    sequence
}

fn end(words: &SketchWords<'_>, sequence: u64) {
    // Release: pairs with the reader's Acquire load of the sequence.
    words.store_with(words.head + at::SKETCH_SEQUENCE, sequence.wrapping_add(1), Ordering::Release);
}

impl Index {
    fn new(sketch: usize) -> Index {
        Index {
            sketch,
            pane: 0,
            start: 0,
            used: 0,
            last: 0,
            least: 0,
            cursor: 0,
            tags: [0; ENTRIES],
            counts: [0; ENTRIES],
        }
    }

    /// Goes on to a pane, and folds the panes that have ended. A clock that steps back by less than
    /// an hour stays in the newest pane, so that no pane is folded twice.
    #[cold]
    fn turn(&mut self, words: &SketchWords<'_>, pane: u64, [short, long]: &mut [Pane; 2]) {
        let newest = words.numbers(Kind::Short).into_iter().max().unwrap_or(0);
        let newest = newest.max(words.head(at::SKETCH_FOLDED));
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

    /// Reads a pane from the file, because an earlier owner may have begun it.
    fn open(&mut self, words: &SketchWords<'_>, pane: u64) {
        let start = SketchWords::pane_start(Kind::Short, pane);
        *self = Index { pane, start, ..Index::new(self.sketch) };
        for at in 0..ENTRIES {
            let entry = words.entry(Kind::Short, pane, at);
            let [check, count] =
                [at::ENTRY_CHECK, at::ENTRY_COUNT].map(|word| words.region.load(entry + word));
            if check != 0 || count != 0 {
                self.tags[at] = if check == 0 { 0 } else { tag(check) };
                self.counts[at] = count;
                self.used = at + 1;
            }
        }
        self.least = self.find_least();
    }

    #[inline]
    fn count(&mut self, words: &SketchWords<'_>, key: &RefusedKey, now: Millis) {
        let check = key.check();
        match self.entry_of(words, key, tag(check)) {
            Some(at) => {
                self.last = at;
                self.counts[at] = self.counts[at].saturating_add(1);
                let entry = words.entry_of(self.start, at);
                words.store(entry + at::ENTRY_COUNT, self.counts[at]);
                words.store(entry + at::ENTRY_LAST, now);
            }
            None => self.insert(words, key, check, now),
        }
    }

    #[inline]
    fn entry_of(&self, words: &SketchWords<'_>, key: &RefusedKey, tag: u16) -> Option<usize> {
        let is_it = |at: usize| words.holds(words.entry_of(self.start, at), key);
        if self.tags[self.last] == tag && is_it(self.last) {
            return Some(self.last);
        }
        let mut found = bits_of(&self.tags, tag);
        while found != 0 {
            let at = place_of(found);
            if is_it(at) {
                return Some(at);
            }
            found &= found - 1;
        }
        None
    }

    /// Takes a free entry, or one with the lowest count. Out of line, because a key that has an
    /// entry does not need it.
    #[inline(never)]
    fn insert(&mut self, words: &SketchWords<'_>, key: &RefusedKey, check: u64, now: Millis) {
        let (at, error) = if self.used < ENTRIES {
            self.used += 1;
            self.least = 1;
            (self.used - 1, 0)
        } else {
            let at = self.lowest();
            (at, self.counts[at])
        };
        let count = error.saturating_add(1);
        (self.tags[at], self.counts[at], self.last) = (tag(check), count, at);
        let entry = words.entry_of(self.start, at);
        write(words, entry, &Tally { key: *key, count, error, last_ms: now }, check);
    }

    /// An entry with the lowest count. Counts only grow, so no entry before the cursor has it.
    fn lowest(&mut self) -> usize {
        loop {
            let rest = &self.counts[self.cursor..];
            if let Some(at) = rest.iter().position(|&count| count == self.least) {
                self.cursor += at + 1;
                return self.cursor - 1;
            }
            self.cursor = 0;
            self.least = self.find_least();
        }
    }

    /// Out of line. Otherwise the compiler computes it before the loop, for every new key.
    #[cold]
    #[inline(never)]
    fn find_least(&self) -> u64 {
        self.counts[..self.used].iter().copied().min().unwrap_or(0)
    }
}

/// The tag of a check: its upper bits. Never 0, so that no key has the tag of an entry without a
/// check.
const fn tag(check: u64) -> u16 {
    let upper = (check >> 48) as u16;
    if upper == 0 { 1 } else { upper }
}

/// The entries with this tag, a bit each. Bit r of byte c stands for place c of row r. Without a
/// branch the compiler compares whole rows.
#[inline]
fn bits_of(tags: &[u16; ENTRIES], wanted: u16) -> u64 {
    let mut is_it = [0_u8; ENTRIES];
    is_it.iter_mut().zip(tags).for_each(|(is_it, tag)| *is_it = u8::from(*tag == wanted));
    let (rows, _) = is_it.as_chunks::<ROW>();
    (0..).zip(rows).fold(0, |bits, (row, is_it)| bits | u64::from_le_bytes(*is_it) << row)
}

/// The entry of the lowest bit.
#[inline]
fn place_of(bits: u64) -> usize {
    let bit = bits.trailing_zeros() as usize;
    bit % ROW * ROW + bit / ROW
}

/// Folds each short pane that has ended into its long one. A pane whose fold has begun is never
/// folded again.
fn fold_ended(words: &SketchWords<'_>, pane: u64, short: &mut Pane, long: &mut Pane) {
    let mut numbers = words.numbers(Kind::Short);
    numbers.sort_unstable();
    let from = words.head(at::SKETCH_FOLDED).max(1);
    for number in numbers.into_iter().filter(|number| (from..pane).contains(number)) {
        words.set_head(at::SKETCH_FOLDED, number + 1);
        let to = long_pane(number);
        if words.numbers(Kind::Long)[SketchWords::place(to)] != to {
            clear(words, Kind::Long, to);
        }
        words.read_pane(Kind::Short, number, short);
        words.read_pane(Kind::Long, to, long);
        summary::fold(long, short, ENTRIES);
        write_pane(words, to, &long.tallies);
    }
    words.set_head(at::SKETCH_FOLDED, pane.max(from));
}

/// Empties the place of a pane, and gives it this number.
fn clear(words: &SketchWords<'_>, kind: Kind, number: u64) {
    let word = SketchWords::number_word(kind, SketchWords::place(number));
    words.set_head(word, 0);
    (0..ENTRIES).for_each(|at| free(words, words.entry(kind, number, at)));
    words.set_head(word, number);
}

/// Frees an entry. It has no count then, unlike an entry that is being replaced.
fn free(words: &SketchWords<'_>, entry: usize) {
    words.store(entry + at::ENTRY_CHECK, 0);
    words.store(entry + at::ENTRY_COUNT, 0);
}

/// Writes a long pane. It has no number until it is whole. So an owner that dies here loses the
/// pane, but leaves no key in it twice.
fn write_pane(words: &SketchWords<'_>, number: u64, tallies: &[Tally]) {
    let word = SketchWords::number_word(Kind::Long, SketchWords::place(number));
    words.set_head(word, 0);
    for at in 0..ENTRIES {
        let entry = words.entry(Kind::Long, number, at);
        match tallies.get(at) {
            Some(tally) => write(words, entry, tally, tally.key.check()),
            None => free(words, entry),
        }
    }
    words.set_head(word, number);
}

/// Writes an entry. `check` is the check of its key.
#[inline]
fn write(words: &SketchWords<'_>, entry: usize, tally: &Tally, check: u64) {
    words.store(entry + at::ENTRY_CHECK, 0);
    // Release: a reader that sees a word of the new key also sees that the old check is gone. Pairs
    // with the reader's Acquire fence.
    fence(Ordering::Release);
    words.store(entry + at::ENTRY_KEY, tally.key.word);
    for (word, part) in (entry + at::ENTRY_FIELD..).zip(tally.key.field) {
        words.store(word, part);
    }
    words.store(entry + at::ENTRY_COUNT, tally.count);
    words.store(entry + at::ENTRY_ERROR, tally.error);
    words.store(entry + at::ENTRY_LAST, tally.last_ms);
    // Release: pairs with the reader's Acquire load of the check.
    words.store_with(entry + at::ENTRY_CHECK, check, Ordering::Release);
}
