//! The ids of the last Updates that a record was charged for, so that a retry charges nothing.
//!
//! ```text
//! word 0    the head of the part; its head is the slot of the newest id
//! word 1    the base: milliseconds since the epoch
//! word 2..  the ids, a word each: the hash of the text
//! then      when each was charged: u32 milliseconds since the base, two in a word, low half first
//! ```
//! Invariant: the ids are a ring in the order of arrival. An id counts while its time is less than
//! `once-for` away from `now`, in either direction: a clock that is set back by less keeps it.

use frs_conf::Once;

use super::Id;
#[cfg(test)]
use super::part::words_of;
use super::part::{Head, ONCE};
use super::ring::{get, set};

/// Words before the ids.
const HEADER: usize = 2;

/// How far before the first id the base is placed: the longest `once-for`.
const BACK_ROOM_MS: u64 = 3_600_000;

/// The settings of the ids of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OnceIds {
    pub capacity: usize,
    pub for_ms: u64,
}

impl OnceIds {
    pub fn of(once: Once) -> OnceIds {
        OnceIds { capacity: once.ids.into(), for_ms: once.for_ms }
    }

    /// Words of the part.
    #[cfg(test)]
    pub const fn words(self) -> usize {
        words_of(ONCE, self.capacity)
    }

    /// The head of an empty part.
    pub const fn head(self) -> Head {
        Head::empty(ONCE, self.capacity)
    }

    /// Writes the layout into words without it, and forgets all ids if none counts any more.
    #[inline]
    pub fn roll(self, words: &mut [u64], now: u64) {
        if self.is_rolled(words, now) {
            return;
        }
        // The newest one counts longest, unless the clock was set back.
        let counts =
            |head: Head| (0..head.len).any(|age| self.counts(words, head, slot(head, age), now));
        if !self.own(words).is_some_and(counts) {
            self.head().lay_out(words);
        }
    }

    /// Whether words have the layout, and no id, or a newest one that still counts: then
    /// [`OnceIds::roll`] changes nothing.
    #[inline]
    pub fn is_rolled(self, words: &[u64], now: u64) -> bool {
        self.own(words)
            .is_some_and(|head| head.len == 0 || self.counts(words, head, head.head, now))
    }

    /// Whether no id is known.
    #[inline]
    pub fn is_empty(self, words: &[u64]) -> bool {
        self.own(words).is_none_or(|head| head.len == 0)
    }

    /// Whether an id was charged.
    #[inline]
    pub fn knows(self, words: &[u64], id: Id, now: u64) -> bool {
        let Some(head) = self.own(words) else { return false };
        // A place without an id is 0.
        let ids = &words[HEADER..HEADER + head.capacity];
        let is_it =
            |(slot, &word): (usize, &u64)| word == id.word() && self.counts(words, head, slot, now);
        ids.iter().enumerate().any(is_it)
    }

    /// The number of ids that still count.
    pub fn known(self, words: &[u64], now: u64) -> usize {
        let Some(head) = self.own(words) else { return 0 };
        (0..head.len).filter(|&age| self.counts(words, head, slot(head, age), now)).count()
    }

    /// Remembers an id, in place of the oldest one if there is no room.
    pub fn note(self, words: &mut [u64], id: Id, now: u64) {
        let mut head = self.own(words).unwrap_or(self.head());
        let reached = now.checked_sub(words[1]).and_then(|ms| u32::try_from(ms).ok());
        let offset = match reached.filter(|_| head.len > 0) {
            Some(offset) => offset,
            None => self.move_base(words, head, now),
        };
        head.head = head.head.checked_sub(1).unwrap_or(head.capacity - 1);
        head.len = (head.len + 1).min(head.capacity);
        words[HEADER + head.head] = id.word();
        set(&mut words[HEADER + head.capacity..], head.head, offset);
        words[0] = head.word();
    }

    /// Moves the base so that `now` and the ids that count are within reach, and forgets the other
    /// ids. Returns the offset of `now`.
    #[cold]
    fn move_base(self, words: &mut [u64], head: Head, now: u64) -> u32 {
        let base_ms = now.saturating_sub(BACK_ROOM_MS);
        for slot in 0..head.capacity {
            let time_ms = self.time_ms(words, head, slot);
            let counts = now.abs_diff(time_ms) < self.for_ms;
            let offset = u32::try_from(time_ms.saturating_sub(base_ms)).ok().filter(|_| counts);
            if offset.is_none() {
                words[HEADER + slot] = 0;
            }
            set(&mut words[HEADER + head.capacity..], slot, offset.unwrap_or(0));
        }
        words[1] = base_ms;
        (now - base_ms) as u32
    }

    /// Takes over the ids of a part with another capacity: the newest ones that fit.
    #[cold]
    pub fn take_over(self, words: &mut [u64], old: &[u64]) {
        self.head().lay_out(words);
        let Some(from) = Head::of(old) else { return };
        let len = from.len.min(self.capacity);
        words[1] = old[1];
        for age in 0..len {
            let at = slot(from, age);
            words[HEADER + age] = old[HEADER + at];
            set(&mut words[HEADER + self.capacity..], age, get(&old[HEADER + from.capacity..], at));
        }
        words[0] = Head { len, ..self.head() }.word();
    }

    /// Whether the id in this slot still counts.
    #[inline]
    fn counts(self, words: &[u64], head: Head, slot: usize, now: u64) -> bool {
        now.abs_diff(self.time_ms(words, head, slot)) < self.for_ms
    }

    /// When the id in this slot was charged.
    #[inline]
    fn time_ms(self, words: &[u64], head: Head, slot: usize) -> u64 {
        words[1].saturating_add(get(&words[HEADER + head.capacity..], slot).into())
    }

    /// The head, if the words have the layout of these settings.
    #[inline]
    fn own(self, words: &[u64]) -> Option<Head> {
        let is_own = |head: &Head| head.position == ONCE && head.capacity == self.capacity;
        Head::of(words).filter(is_own)
    }
}

/// The slot of the id of this age, 0 for the newest.
#[inline]
fn slot(head: Head, age: usize) -> usize {
    let slot = head.head + age;
    if slot < head.capacity { slot } else { slot - head.capacity }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000_000;
    const KEY: [u64; 2] = [1, 2];

    fn id(number: u32) -> Id {
        Id::of(&number.to_le_bytes(), KEY)
    }

    fn fresh(ids: OnceIds) -> Vec<u64> {
        let mut words = vec![0; ids.words()];
        ids.roll(&mut words, NOW);
        words
    }

    fn known(ids: OnceIds, words: &[u64], now: u64) -> Vec<u32> {
        (0..100).filter(|&number| ids.knows(words, id(number), now)).collect()
    }

    // Shows: retries.
    #[test]
    fn the_newest_ids_are_known_for_their_time() {
        let ids = OnceIds { capacity: 3, for_ms: 60_000 };
        let mut words = fresh(ids);
        assert!(ids.is_empty(&words));
        for number in 0..5 {
            ids.note(&mut words, id(number), NOW + u64::from(number) * 1000);
        }
        assert_eq!(known(ids, &words, NOW + 4000), [2, 3, 4]);
        assert_eq!(ids.known(&words, NOW + 62_000), 2);
        let mut one = fresh(ids);
        ids.note(&mut one, id(1), NOW);
        assert_eq!(ids.known(&one, NOW), 1);
        assert_eq!(known(ids, &words, NOW + 61_999), [2, 3, 4]);
        assert_eq!(known(ids, &words, NOW + 62_000), [3, 4]);
        assert_eq!(known(ids, &words, NOW + 63_999), [4]);
        ids.roll(&mut words, NOW + 63_999);
        assert!(!ids.is_empty(&words));
        ids.roll(&mut words, NOW + 64_000);
        assert!(ids.is_empty(&words));
    }

    // Shows: retries.
    #[test]
    fn a_clock_set_back_by_less_keeps_them() {
        let ids = OnceIds { capacity: 2, for_ms: 60_000 };
        let mut words = fresh(ids);
        ids.note(&mut words, id(1), NOW);
        assert_eq!(known(ids, &words, NOW - 59_999), [1]);
        assert_eq!(known(ids, &words, NOW - 60_000), [0; 0]);
        // A key that is used all the time keeps its ids, however far the base is.
        let hour = OnceIds { capacity: 3, for_ms: BACK_ROOM_MS };
        let mut always = fresh(hour);
        for number in 0..3000 {
            let now = NOW + u64::from(number) * 1_800_000;
            hour.note(&mut always, id(number), now);
            assert!(number == 0 || hour.knows(&always, id(number - 1), now), "{number}");
            assert!(number < 2 || !hour.knows(&always, id(number - 2), now), "{number}");
        }
        // The clock steps back twice, in all by more than an hour.
        let mut back = fresh(hour);
        for (number, at) in [(1, NOW), (2, NOW - 3_599_500), (3, NOW - 3_600_500)] {
            hour.note(&mut back, id(number), at);
        }
        assert_eq!(known(hour, &back, NOW - 3_600_500), [2, 3]);
        for now in [NOW - 2 * BACK_ROOM_MS, NOW + (1 << 33)] {
            let mut words = words.clone();
            ids.note(&mut words, id(2), now);
            assert_eq!(known(ids, &words, now), [2]);
        }
    }

    #[test]
    fn another_capacity_keeps_the_newest() {
        let (small, large) =
            (OnceIds { capacity: 2, for_ms: 60_000 }, OnceIds { capacity: 5, for_ms: 60_000 });
        let mut words = fresh(large);
        (0..7).for_each(|number| large.note(&mut words, id(number), NOW));
        let mut fewer = vec![0; small.words()];
        small.take_over(&mut fewer, &words);
        assert_eq!(known(small, &fewer, NOW), [5, 6]);
        small.note(&mut fewer, id(7), NOW);
        assert_eq!(known(small, &fewer, NOW), [6, 7]);
        let mut more = vec![0; large.words()];
        large.take_over(&mut more, &fewer);
        large.note(&mut more, id(8), NOW);
        assert_eq!(known(large, &more, NOW), [6, 7, 8]);
    }
}
