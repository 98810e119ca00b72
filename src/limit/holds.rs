//! The holds of a record: who holds how much, until when.
//!
//! ```text
//! word 0    the head of the part
//! word 1    the base: milliseconds since the epoch
//! word 2..  the holds, three words each:
//!           0 the hash of the id
//!           1 0..32 count; 32..64 made, in tenths of a second since the base
//!           2 0..32 end of its life, in tenths of a second since the base; 32..34 state;
//!             40..48 and 48..56 the hundredths of a tenth of both times
//! ```
//! Invariant: the holds stand one after the other, in no order, each id once. A hold is over at the
//! end of its life, to the millisecond.

use frs_conf::{Holds, OnLapse};

use super::Id;
#[cfg(test)]
use super::part::words_of;
use super::part::{HOLDS, Head};

/// Words before the holds, and of each hold.
const HEADER: usize = 2;
const WORDS: usize = 3;

/// How far before the first hold the base is placed, so that small steps back of a clock do not
/// move it.
const BACK_ROOM_MS: u64 = 3_600_000;
const TENTH_MS: u64 = 100;

/// The settings of the holds of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HoldTable {
    pub capacity: usize,
    /// The longest life of a hold.
    pub ttl_ms: u64,
    pub on_lapse: Lapse,
}

/// What a hold does at the end of its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lapse {
    /// It frees its places: a limit is `concurrent`.
    Release,
    /// Its uses are given back.
    GiveBack,
    /// Its uses stay charged, and its entry stands.
    Keep,
}

/// The state of a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldState {
    /// It holds its count.
    Live = 1,
    /// Its life is over, and its uses stay charged.
    Lapsed = 2,
    /// Its true cost is charged. The entry recognises late copies.
    Settled = 3,
}

/// A hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold {
    /// Its id.
    pub id: Id,
    /// What it holds, or has cost.
    pub count: u32,
    /// When it was made, in milliseconds since the epoch.
    pub made_ms: u64,
    /// The end of its life.
    pub end_ms: u64,
    pub state: HoldState,
}

/// The place for a new hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Behind the others.
    Free,
    /// In place of this one.
    Reused(usize),
}

impl HoldState {
    /// The word for people.
    pub const fn word(self) -> &'static str {
        match self {
            HoldState::Live => "live",
            HoldState::Lapsed => "lapsed",
            HoldState::Settled => "settled",
        }
    }
}

impl HoldTable {
    pub fn of(holds: Holds, is_concurrent: bool) -> HoldTable {
        let on_lapse = match holds.on_lapse {
            _ if is_concurrent => Lapse::Release,
            OnLapse::Free => Lapse::GiveBack,
            OnLapse::Keep => Lapse::Keep,
        };
        HoldTable { capacity: holds.entries.into(), ttl_ms: holds.ttl_ms, on_lapse }
    }

    /// Words of the part.
    #[cfg(test)]
    pub const fn words(self) -> usize {
        words_of(HOLDS, self.capacity)
    }

    /// The head of an empty part.
    pub const fn head(self) -> Head {
        Head::empty(HOLDS, self.capacity)
    }

    /// Writes the layout into words without it.
    #[inline]
    pub fn lay_out(self, words: &mut [u64]) {
        if Head::of(words).is_none() || !self.head().is_laid_out(words) {
            self.head().lay_out(words);
        }
    }

    /// Whether a life is over, or longer than any life from now on can be.
    #[inline]
    pub fn has_to_roll(self, words: &[u64], now: u64) -> bool {
        let last_ms = now.saturating_add(self.ttl_ms);
        all(words).any(|hold| {
            hold.end_ms > last_ms || hold.end_ms <= now && hold.state != HoldState::Lapsed
        })
    }

    /// Ends the lives that are over, up to the first hold whose uses are to be given back: returns
    /// it. Settled holds whose life is over are forgotten. The order of the holds does not matter,
    /// because nothing is charged between two ends.
    #[inline]
    pub fn lapse_one(self, words: &mut [u64], now: u64) -> Option<Hold> {
        let mut nth = 0;
        while let Some(mut hold) = get(words, nth) {
            let last_ms = now.saturating_add(self.ttl_ms);
            if hold.end_ms > last_ms {
                // The clock was set back, or `hold-ttl` was longer.
                hold.end_ms = last_ms;
                put(words, nth, hold);
            }
            if hold.end_ms > now || hold.state == HoldState::Lapsed {
                nth += 1;
            } else if hold.state == HoldState::Live && self.on_lapse == Lapse::Keep {
                put(words, nth, Hold { state: HoldState::Lapsed, ..hold });
                nth += 1;
            } else {
                remove(words, nth);
                if hold.state == HoldState::Live && self.on_lapse == Lapse::GiveBack {
                    return Some(hold);
                }
            }
        }
        None
    }

    /// The number of holds whose life is over, and was not ended yet.
    pub fn due(self, words: &[u64], now: u64) -> u32 {
        let is_due = |hold: &Hold| hold.state == HoldState::Live && hold.end_ms <= now;
        all(words).filter(is_due).count() as u32
    }

    /// The number of live holds. 0 if the words were written under another layout.
    pub fn live(self, words: &[u64], now: u64) -> usize {
        let is_live = |hold: &Hold| hold.state == HoldState::Live && hold.end_ms > now;
        let is_own = self.head().is_laid_out(words);
        all(words).filter(|hold| is_own && is_live(hold)).count()
    }

    /// The place for a new hold: a free one; else that of the settled hold that ends first; else
    /// that of the lapsed one that ended first.
    pub fn place(self, words: &[u64]) -> Option<Place> {
        if self.has_room(words) {
            return Some(Place::Free);
        }
        let first = |state| {
            let holds = all(words).enumerate().filter(move |(_, hold)| hold.state == state);
            let order = |(_, hold): &(usize, Hold)| (hold.end_ms, hold.made_ms);
            holds.min_by_key(order).map(|(nth, _)| Place::Reused(nth))
        };
        first(HoldState::Settled).or_else(|| first(HoldState::Lapsed))
    }

    /// Whether there is a free place.
    pub fn has_room(self, words: &[u64]) -> bool {
        len(words) < self.capacity
    }

    /// Takes over the holds of a part with another capacity. If they do not all fit, live ones stay
    /// before others, and of each kind those that end last.
    #[cold]
    pub fn take_over(self, words: &mut [u64], old: &[u64]) {
        self.head().lay_out(words);
        let kept = |hold: &Hold| {
            let rank = |hold: &Hold| (hold.state == HoldState::Live, hold.end_ms, hold.id.word());
            let later = |other: &Hold| rank(other) > rank(hold);
            len(old) <= self.capacity || all(old).filter(later).count() < self.capacity
        };
        for hold in all(old).filter(kept) {
            push(words, hold);
        }
    }
}

/// The number of holds.
#[inline]
pub(super) fn len(words: &[u64]) -> usize {
    head_of(words).map_or(0, |head| head.len)
}

/// The head of a table of holds.
#[inline]
fn head_of(words: &[u64]) -> Option<Head> {
    Head::of(words).filter(|head| head.position == HOLDS)
}

/// All holds.
#[inline]
pub(super) fn all(words: &[u64]) -> impl Iterator<Item = Hold> {
    let base_ms = words.get(1).copied().unwrap_or(0);
    let (entries, _) = words.get(HEADER..).unwrap_or_default().as_chunks();
    entries[..len(words).min(entries.len())].iter().filter_map(move |entry| read(base_ms, entry))
}

/// The hold of an id, and its place.
#[inline]
pub(super) fn find(words: &[u64], id: Id) -> Option<(usize, Hold)> {
    let is_it = |&nth: &usize| words[HEADER + WORDS * nth] == id.word();
    let nth = (0..len(words)).find(is_it)?;
    Some((nth, get(words, nth)?))
}

/// The sum of what live holds hold.
#[inline]
pub(super) fn held(words: &[u64]) -> u64 {
    let live = all(words).filter(|hold| hold.state == HoldState::Live);
    live.map(|hold| u64::from(hold.count)).sum()
}

/// The end of the last live hold.
pub(super) fn last_end_ms(words: &[u64]) -> Option<u64> {
    let live = all(words).filter(|hold| hold.state == HoldState::Live);
    live.map(|hold| hold.end_ms).max()
}

/// What the live hold of an id holds.
pub(super) fn held_by(words: &[u64], id: Id) -> u64 {
    let live = find(words, id).filter(|(_, hold)| hold.state == HoldState::Live);
    live.map_or(0, |(_, hold)| hold.count.into())
}

/// When live holds other than this one hold at most `room`, if none is renewed: the end of one of
/// them, or `now`.
pub(super) fn falls_to_ms(words: &[u64], except: Option<Id>, room: u64, now: u64) -> u64 {
    let is_live = move |hold: &Hold| hold.state == HoldState::Live && Some(hold.id) != except;
    let live = || all(words).filter(is_live);
    let left_at = |at_ms: u64| -> u64 {
        live().filter(|hold| hold.end_ms > at_ms).map(|hold| u64::from(hold.count)).sum()
    };
    let (mut early, mut late) = (now, last_end_ms(words).unwrap_or(now).max(now));
    while early < late {
        let between = early + (late - early) / 2;
        if left_at(between) <= room { late = between } else { early = between + 1 }
    }
    late
}

fn get(words: &[u64], nth: usize) -> Option<Hold> {
    if nth >= len(words) {
        return None;
    }
    read(words[1], words.get(HEADER + WORDS * nth..)?.first_chunk()?)
}

#[inline]
fn read(base_ms: u64, &[id, made, end]: &[u64; WORDS]) -> Option<Hold> {
    let state = match end >> 32 & 3 {
        1 => HoldState::Live,
        2 => HoldState::Lapsed,
        _ => HoldState::Settled,
    };
    let time = |tenths: u64, rest: u64| {
        base_ms.saturating_add((tenths & 0xffff_ffff) * TENTH_MS + (rest & 0xff))
    };
    Some(Hold {
        id: Id::of_word(id)?,
        count: made as u32,
        made_ms: time(made >> 32, end >> 40),
        end_ms: time(end, end >> 48),
        state,
    })
}

/// Removes all holds.
pub(super) fn clear(words: &mut [u64]) {
    if let Some(head) = head_of(words) {
        head.lay_out(words);
    }
}

/// Stores a hold in place of the `nth`.
pub(super) fn put(words: &mut [u64], nth: usize, hold: Hold) {
    let reaches = |time_ms: u64| {
        time_ms.checked_sub(words[1]).is_some_and(|ms| ms / TENTH_MS <= u32::MAX.into())
    };
    if !reaches(hold.made_ms) || !reaches(hold.end_ms) {
        move_base(words, hold.made_ms.min(hold.end_ms));
    }
    write(words, nth, hold, words[1]);
}

fn write(words: &mut [u64], nth: usize, hold: Hold, base_ms: u64) {
    let since = |time_ms: u64| {
        let offset_ms = time_ms.saturating_sub(base_ms);
        (u32::try_from(offset_ms / TENTH_MS).unwrap_or(u32::MAX), offset_ms % TENTH_MS)
    };
    let ((made, made_rest), (end, end_rest)) = (since(hold.made_ms), since(hold.end_ms));
    let at = HEADER + WORDS * nth;
    words[at] = hold.id.word();
    words[at + 1] = u64::from(made) << 32 | u64::from(hold.count);
    words[at + 2] = u64::from(end) | (hold.state as u64) << 32 | made_rest << 40 | end_rest << 48;
}

/// Moves the base, so that this time and those of all holds are within reach.
#[cold]
fn move_base(words: &mut [u64], time_ms: u64) {
    let times = all(words).map(|hold| hold.made_ms.min(hold.end_ms));
    let first_ms = times.fold(time_ms, u64::min);
    let base_ms = first_ms.saturating_sub(BACK_ROOM_MS);
    for nth in 0..len(words) {
        if let Some(hold) = get(words, nth) {
            write(words, nth, hold, base_ms);
        }
    }
    words[1] = base_ms;
}

/// Adds a hold. There is room for it.
pub(super) fn push(words: &mut [u64], hold: Hold) {
    let Some(mut head) = head_of(words).filter(|head| head.len < head.capacity) else { return };
    if head.len == 0 {
        words[1] = hold.made_ms.saturating_sub(BACK_ROOM_MS);
    }
    let nth = head.len;
    head.len += 1;
    put(words, nth, hold);
    words[0] = head.word();
}

/// Removes a hold. The last one takes its place.
pub(super) fn remove(words: &mut [u64], nth: usize) {
    let Some(mut head) = head_of(words).filter(|head| nth < head.len) else { return };
    head.len -= 1;
    let (at, last) = (HEADER + WORDS * nth, HEADER + WORDS * head.len);
    words.copy_within(last..last + WORDS, at);
    words[last..last + WORDS].fill(0);
    words[0] = head.word();
    if head.len == 0 {
        words[1] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000_000;

    fn table(on_lapse: Lapse) -> HoldTable {
        HoldTable { capacity: 4, ttl_ms: 60_000, on_lapse }
    }

    fn hold(number: u8, count: u32, made_ms: u64, ttl_ms: u64) -> Hold {
        let (id, state) = (Id::of(&[number], [1, 2]), HoldState::Live);
        Hold { id, count, made_ms, end_ms: made_ms + ttl_ms, state }
    }

    fn filled(on_lapse: Lapse, holds: &[Hold]) -> Vec<u64> {
        let mut words = vec![0; table(on_lapse).words()];
        table(on_lapse).lay_out(&mut words);
        holds.iter().for_each(|&hold| push(&mut words, hold));
        words
    }

    fn counts(words: &[u64]) -> Vec<u32> {
        all(words).map(|hold| hold.count).collect()
    }

    #[test]
    fn what_is_stored_is_read_to_the_millisecond() {
        let holds = [hold(1, 7, NOW + 123, 59_999), hold(2, u32::MAX, NOW + 1, 1)];
        let words = filled(Lapse::Keep, &holds);
        assert_eq!(all(&words).collect::<Vec<_>>(), holds);
        assert_eq!(find(&words, holds[1].id), Some((1, holds[1])));
        assert_eq!(find(&words, Id::of(&[9], [1, 2])), None);
        assert_eq!(held(&words), 7 + u64::from(u32::MAX));
    }

    #[test]
    fn a_base_moves_with_a_clock_that_jumps() {
        for jumped in [NOW - 30 * BACK_ROOM_MS, NOW + (1 << 40)] {
            let holds = [hold(1, 1, NOW, 60_000), hold(2, 2, jumped, 77)];
            let words = filled(Lapse::Keep, &holds);
            let (_, later) = find(&words, holds[1].id).expect("it was made");
            assert_eq!((later.made_ms.min(jumped), later.count), (later.made_ms, 2));
            if jumped < NOW {
                assert_eq!(all(&words).collect::<Vec<_>>(), holds);
            }
        }
    }

    // Shows: lapses.
    #[test]
    fn lives_end_to_the_millisecond() {
        let holds = [hold(1, 1, NOW, 10), hold(2, 2, NOW, 20), hold(3, 4, NOW, 30)];
        for (on_lapse, left, given) in [
            (Lapse::Release, &[4, 2][..], 0),
            (Lapse::GiveBack, &[4, 2], 1),
            (Lapse::Keep, &[1, 2, 4], 0),
        ] {
            let mut words = filled(on_lapse, &holds);
            assert_eq!(table(on_lapse).lapse_one(&mut words, NOW + 9), None);
            assert_eq!(held(&words), 7);
            assert_eq!(table(on_lapse).due(&words, NOW + 10), 1);
            let mut back = 0;
            while let Some(hold) = table(on_lapse).lapse_one(&mut words, NOW + 10) {
                back += hold.count;
            }
            assert_eq!((counts(&words), back, held(&words)), (left.to_vec(), given, 6));
            assert_eq!(table(on_lapse).due(&words, NOW + 10), 0, "it was ended");
        }
    }

    #[test]
    fn no_life_is_longer_than_the_longest() {
        let mut words = filled(Lapse::Release, &[hold(1, 1, NOW + 500_000, 60_000)]);
        assert_eq!(table(Lapse::Release).lapse_one(&mut words, NOW), None);
        assert_eq!(last_end_ms(&words), Some(NOW + 60_000));
    }

    #[test]
    fn places_in_order() {
        let settled = |hold: Hold| Hold { state: HoldState::Settled, ..hold };
        let lapsed = |hold: Hold| Hold { state: HoldState::Lapsed, ..hold };
        let place = |holds: &[Hold]| table(Lapse::Keep).place(&filled(Lapse::Keep, holds));
        let live = hold(1, 1, NOW, 10);
        assert_eq!(place(&[live]), Some(Place::Free));
        assert_eq!(
            place(&[hold(2, 1, NOW, 1), hold(3, 1, NOW, 1), live, hold(4, 1, NOW, 1)]),
            None
        );
        let late = settled(hold(2, 1, NOW, 30));
        let early = settled(hold(3, 1, NOW, 20));
        assert_eq!(place(&[live, late, early, lapsed(hold(4, 1, NOW, 1))]), Some(Place::Reused(2)));
        let other = hold(5, 1, NOW, 9);
        let gone = lapsed(hold(4, 1, NOW, 1));
        assert_eq!(place(&[live, other, lapsed(hold(6, 1, NOW, 2)), gone]), Some(Place::Reused(3)));
    }

    #[test]
    fn places_are_free_when_enough_has_lapsed() {
        let words = filled(
            Lapse::Release,
            &[hold(1, 5, NOW, 30), hold(2, 3, NOW, 10), hold(3, 2, NOW, 20)],
        );
        let falls = |room| falls_to_ms(&words, None, room, NOW) - NOW;
        assert_eq!(
            [falls(10), falls(9), falls(7), falls(6), falls(5), falls(0)],
            [0, 10, 10, 20, 20, 30]
        );
    }

    #[test]
    fn another_capacity_keeps_those_that_end_last() {
        let holds: Vec<Hold> = (1..5).map(|n| hold(n, n.into(), NOW, 100 - u64::from(n))).collect();
        let words = filled(Lapse::Keep, &holds);
        let small = HoldTable { capacity: 2, ..table(Lapse::Keep) };
        let mut fewer = vec![0; small.words()];
        small.take_over(&mut fewer, &words);
        assert_eq!(counts(&fewer), [1, 2]);
        let mut more = vec![0; table(Lapse::Keep).words()];
        table(Lapse::Keep).take_over(&mut more, &fewer);
        assert_eq!(counts(&more), [1, 2]);
        remove(&mut more, 0);
        assert_eq!(counts(&more), [2]);
    }
}
