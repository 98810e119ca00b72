//! The ring of the last uses, shared by all sliding limits of a biz and scope.
//!
//! ```text
//! word 0    the base: milliseconds since the epoch
//! word 1    bits 0..16 head: the slot of the oldest use; 16..32 length: how many uses there are;
//!           32..48 capacity in slots; the others 0
//! word 2..  the slots: a use each, u32 milliseconds since the base, two in a word, low half first
//! ```
//! Invariant: the uses are in the order of arrival, which is also the order of their times unless
//! the clock was set back. A ring is empty if words 0 and 1 are 0, whatever its slots hold. Words
//! that cannot be a ring are read as an empty one.
//!
//! A use changes its own word and word 1 and, if the ring was empty, the base. A transaction logs
//! each changed word.

use std::ops::Range;

use frs_conf::{MAX_RING_USES, RING_HEADER_BYTES, RING_USE_BYTES};

/// The most uses that a ring can hold.
pub(super) const MAX_USES: usize = MAX_RING_USES as usize;

/// How far before the first use the base is placed. Small differences between the clocks of
/// processes, and small steps back of a clock, then do not move the base.
const BACK_ROOM_MS: u64 = 3_600_000;

/// The largest distance of a use from the base.
const REACH_MS: u64 = u32::MAX as u64;

/// The settings of a ring.
#[derive(Debug, Clone, Copy)]
pub struct Ring {
    /// Uses that it can hold, 0..=4096.
    pub uses: u32,
    /// The longest interval of its limits.
    pub longest_ms: u64,
}

/// Drops the uses that no limit counts at `now`: uses that are too old and, after a step of the
/// clock, uses that are equally far in the future.
#[inline]
pub fn roll(ring: Ring, words: &mut [u64], now: u64) {
    let uses = Uses::of(words);
    if uses.is_empty() {
        RingPosition::EMPTY.store(words);
        return;
    }
    let counted = uses.count(now, ring.longest_ms);
    if counted < uses.len() {
        drop_uncounted(words, uses.place.offsets(now, ring.longest_ms), counted);
    }
}

/// Appends `count` uses; in a full ring they replace the oldest uses. A negative count removes the
/// newest uses.
#[inline]
pub fn charge(ring: Ring, words: &mut [u64], now: u64, count: i32) {
    let magnitude = count.unsigned_abs() as usize;
    if count > 0 {
        append(ring, words, now, magnitude);
    } else if count < 0 {
        let mut place = RingPosition::of(words);
        place.len = place.len.saturating_sub(magnitude);
        place.store(words);
    }
}

/// Whether the ring is empty.
#[inline]
pub fn is_fresh(words: &[u64]) -> bool {
    Uses::of(words).is_empty()
}

/// Words of a ring.
pub fn words(ring: Ring) -> usize {
    (RING_HEADER_BYTES + RING_USE_BYTES * ring.uses).div_ceil(8) as usize
}

/// Whether the ring is laid out for this number of uses, or empty.
#[inline]
pub(super) fn is_of(ring: Ring, words: &[u64]) -> bool {
    let place = RingPosition::of(words);
    place.len == 0 || place.capacity == ring.uses as usize
}

/// Lays out a ring again for another number of uses, in place. A smaller ring keeps the newest
/// uses. `words` reach from its first word to the end of the node.
pub(super) fn resize(ring: Ring, words: &mut [u64]) {
    let mut place = RingPosition::of(words);
    let capacity = capacity(ring, words);
    let dropped = place.len.saturating_sub(capacity);
    rotate(slots(words), place.slot(dropped), place.capacity);
    place = RingPosition { head: 0, len: place.len - dropped, capacity, ..place };
    place.store(words);
}

/// The uses in a ring's words, in order of arrival.
#[derive(Debug, Clone, Copy)]
pub struct Uses<'a> {
    place: RingPosition,
    slots: &'a [u64],
}

impl<'a> Uses<'a> {
    #[inline]
    pub fn of(words: &'a [u64]) -> Uses<'a> {
        Uses { place: RingPosition::of(words), slots: words.get(2..).unwrap_or(&[]) }
    }

    #[inline]
    pub fn len(self) -> usize {
        self.place.len
    }

    #[inline]
    pub fn is_empty(self) -> bool {
        self.place.len == 0
    }

    /// The number of uses whose time is less than `interval_ms` away from `now`.
    #[inline]
    pub fn count(self, now: u64, interval_ms: u64) -> usize {
        self.place.offsets(now, interval_ms).map_or(0, |offsets| self.count_in(offsets))
    }

    /// The latest time of the uses that `count` counts.
    #[inline]
    pub fn latest(self, now: u64, interval_ms: u64) -> Option<u64> {
        let counted = self.place.offsets(now, interval_ms)?;
        let Offsets { first, span } = counted;
        let last = get(self.slots, self.place.slot(self.len().checked_sub(1)?));
        let after_last = span.checked_sub(last.wrapping_sub(first));
        // Unless the clock was set back, the last use to arrive is the latest, and counting is
        // quick.
        if after_last.is_some_and(|more| {
            more == 0 || { self.count_in(Offsets { first: last + 1, span: more - 1 }) == 0 }
        }) {
            return Some(self.place.time(last));
        }
        let later = |latest: Option<u32>, offset: u32| {
            let after = offset.wrapping_sub(first);
            if after <= span { latest.max(Some(after)) } else { latest }
        };
        self.fold(None, later).map(|after| self.place.time(first + after))
    }

    /// The number of uses with one of these offsets.
    #[inline]
    fn count_in(self, offsets: Offsets) -> usize {
        let one_more = |sum: u32, offset: u32| sum + u32::from(offsets.holds(offset));
        self.fold(0, one_more) as usize
    }

    /// Whether the uses arrived in the order of their times.
    pub fn are_in_order(self) -> bool {
        let next = |(ordered, last): (bool, u32), offset| (ordered & (last <= offset), offset);
        self.fold((true, 0), next).0
    }

    /// The time of the `nth` use to arrive, from 0.
    #[inline]
    pub fn time(self, nth: usize) -> u64 {
        self.place.time(get(self.slots, self.place.slot(nth)))
    }

    /// Sorts their times. `times` has room for [`MAX_USES`].
    pub fn sort_into(self, times: &mut [u64; MAX_USES]) -> &[u64] {
        let times = &mut times[..self.len()];
        for (nth, time) in times.iter_mut().enumerate() {
            *time = self.time(nth);
        }
        times.sort_unstable();
        times
    }

    /// Folds the offsets from the base, without a division or a branch for each.
    #[inline]
    fn fold<T>(self, start: T, each: impl Fn(T, u32) -> T) -> T {
        let RingPosition { head, len, capacity, .. } = self.place;
        let wrapped = (head + len).saturating_sub(capacity);
        let folded = fold_slots(self.slots, head..head + len - wrapped, start, &each);
        fold_slots(self.slots, 0..wrapped, folded, &each)
    }
}

/// Consecutive offsets from a ring's base.
#[derive(Debug, Clone, Copy)]
struct Offsets {
    first: u32,
    /// How many more follow the first.
    span: u32,
}

impl Offsets {
    #[inline]
    const fn holds(self, offset: u32) -> bool {
        offset.wrapping_sub(self.first) <= self.span
    }
}

/// The position of the uses: words 0 and 1.
#[derive(Debug, Clone, Copy)]
struct RingPosition {
    base_ms: u64,
    /// Below the capacity, or 0.
    head: usize,
    /// At most the capacity.
    len: usize,
    /// At most the existing slots, and at most [`MAX_USES`].
    capacity: usize,
}

impl RingPosition {
    const EMPTY: RingPosition = RingPosition { base_ms: 0, head: 0, len: 0, capacity: 0 };

    #[inline]
    fn of(words: &[u64]) -> RingPosition {
        let [base_ms, packed, slots @ ..] = words else {
            return RingPosition::EMPTY;
        };
        let [head, len, capacity] = [0, 16, 32].map(|bit| usize::from((packed >> bit) as u16));
        let possible = capacity <= MAX_USES.min(2 * slots.len())
            && head < capacity
            && len <= capacity
            && packed >> 48 == 0;
        if possible && len > 0 {
            RingPosition { base_ms: *base_ms, head, len, capacity }
        } else {
            RingPosition::EMPTY
        }
    }

    #[inline]
    fn store(self, words: &mut [u64]) {
        if let [base_ms, packed, ..] = words {
            let RingPosition { head, len, capacity, .. } = self;
            let parts = (capacity as u64) << 32 | (len as u64) << 16 | head as u64;
            (*base_ms, *packed) = if len == 0 { (0, 0) } else { (self.base_ms, parts) };
        }
    }

    /// The slot of the `nth` use, 0..=capacity.
    #[inline]
    fn slot(&self, nth: usize) -> usize {
        let slot = self.head + nth;
        if slot < self.capacity { slot } else { slot - self.capacity }
    }

    #[inline]
    fn time(&self, offset: u32) -> u64 {
        self.base_ms.saturating_add(offset.into())
    }

    /// The offset of a time within reach of the base; for any other time the nearest possible one.
    #[inline]
    fn offset(&self, time: u64) -> u32 {
        time.saturating_sub(self.base_ms).min(REACH_MS) as u32
    }

    /// Whether the base reaches a use of this time.
    #[inline]
    fn reaches(&self, time: u64) -> bool {
        time.checked_sub(self.base_ms).is_some_and(|offset| offset <= REACH_MS)
    }

    /// The offsets less than `interval_ms` away from `now`.
    #[inline]
    fn offsets(&self, now: u64, interval_ms: u64) -> Option<Offsets> {
        let away = interval_ms.checked_sub(1)?;
        let first = now.saturating_sub(away).saturating_sub(self.base_ms);
        let last = now.saturating_add(away).checked_sub(self.base_ms)?.min(REACH_MS);
        (first <= last).then(|| Offsets { first: first as u32, span: (last - first) as u32 })
    }

    /// Keeps, in order, the uses with an offset that `is_kept` accepts. The uses before a dropped
    /// use move up. Usually the dropped use is very old, and few uses precede it.
    fn retain(&mut self, slots: &mut [u64], is_kept: impl Fn(u32) -> bool) {
        let mut to = self.len;
        for nth in (0..self.len).rev() {
            let offset = get(slots, self.slot(nth));
            if is_kept(offset) {
                to -= 1;
                if to != nth {
                    set(slots, self.slot(to), offset);
                }
            }
        }
        self.head = self.slot(to);
        self.len -= to;
    }
}

/// Drops all but the `counted` uses with these offsets. Unless the clock was set back, these uses
/// are the newest, and only the head moves.
fn drop_uncounted(words: &mut [u64], offsets: Option<Offsets>, counted: usize) {
    let is_counted = |offset: u32| offsets.is_some_and(|offsets| offsets.holds(offset));
    let mut place = RingPosition::of(words);
    let slots = slots(words);
    while place.len > counted && !is_counted(get(slots, place.head)) {
        place.head = place.slot(1);
        place.len -= 1;
    }
    if place.len > counted {
        place.retain(slots, is_counted);
    }
    place.store(words);
}

fn append(ring: Ring, words: &mut [u64], now: u64, count: usize) {
    let mut place = RingPosition::of(words);
    if place.len > 0 && !place.reaches(now) {
        rebase(ring, words, now);
        place = RingPosition::of(words);
    }
    if place.len == 0 {
        let base_ms = now.saturating_sub(BACK_ROOM_MS);
        place = RingPosition { base_ms, capacity: capacity(ring, words), ..RingPosition::EMPTY };
    }
    let offset = place.offset(now);
    let slots = slots(words);
    for _ in 0..count.min(place.capacity) {
        set(slots, place.slot(place.len), offset);
        if place.len < place.capacity {
            place.len += 1;
        } else {
            place.head = place.slot(1);
        }
    }
    place.store(words);
}

/// Moves the base so that it reaches a use at `now`, and converts all uses.
///
/// All uses fit: they are all before or all after `now`, and each use that a limit counts is less
/// than 45 days away from `now`, while offsets reach over 49 days.
#[cold]
fn rebase(ring: Ring, words: &mut [u64], now: u64) {
    roll(ring, words, now);
    let old = RingPosition::of(words);
    let first = Uses::of(words).fold(now, |first, offset| first.min(old.time(offset)));
    let place = RingPosition { base_ms: first.saturating_sub(BACK_ROOM_MS), ..old };
    let slots = slots(words);
    for slot in (0..place.len).map(|nth| place.slot(nth)) {
        let time = old.time(get(slots, slot));
        set(slots, slot, place.offset(time));
    }
    place.store(words);
}

/// Slots of a ring with these settings, at most those that the words have room for.
fn capacity(ring: Ring, words: &[u64]) -> usize {
    (ring.uses as usize).min(MAX_USES).min(2 * words.len().saturating_sub(2))
}

#[inline]
fn slots(words: &mut [u64]) -> &mut [u64] {
    words.get_mut(2..).unwrap_or_default()
}

#[inline]
pub(super) fn get(slots: &[u64], slot: usize) -> u32 {
    (slots[slot / 2] >> half(slot)) as u32
}

#[inline]
pub(super) fn set(slots: &mut [u64], slot: usize, offset: u32) {
    let word = &mut slots[slot / 2];
    *word = *word & !(REACH_MS << half(slot)) | u64::from(offset) << half(slot);
}

/// The first bit of a slot in its word.
#[inline]
fn half(slot: usize) -> usize {
    slot % 2 * 32
}

#[inline]
fn fold_slots<T>(slots: &[u64], range: Range<usize>, start: T, each: impl Fn(T, u32) -> T) -> T {
    let Range { start: mut from, end: to } = range;
    let mut folded = start;
    if from % 2 == 1 && from < to {
        folded = each(folded, get(slots, from));
        from += 1;
    }
    for &word in &slots[from / 2..to / 2] {
        folded = each(each(folded, word as u32), (word >> 32) as u32);
    }
    if to % 2 == 1 && from < to {
        folded = each(folded, get(slots, to - 1));
    }
    folded
}

/// Rotates the first `count` slots so that slot `first` comes first.
fn rotate(slots: &mut [u64], first: usize, count: usize) {
    if first > 0 {
        reverse(slots, 0, first);
        reverse(slots, first, count);
        reverse(slots, 0, count);
    }
}

fn reverse(slots: &mut [u64], mut from: usize, mut to: usize) {
    while from + 1 < to {
        to -= 1;
        let (low, high) = (get(slots, from), get(slots, to));
        set(slots, from, high);
        set(slots, to, low);
        from += 1;
    }
}

#[cfg(test)]
mod tests;
