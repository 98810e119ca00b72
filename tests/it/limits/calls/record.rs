//! What a record remembers besides its uses: ids that were charged, and holds.
//!
//! Invariant: an entry stands until it is erased or another takes its place.

use frs_conf::Once;

/// The ids of charged Updates, the oldest first.
#[derive(Debug, Clone, Default)]
pub struct Ids(Vec<Id>);

#[derive(Debug, Clone)]
struct Id {
    text: String,
    at: i128,
    /// A clock has been seen by which it was forgotten, or not yet charged. If the clock is then
    /// set so that the id counts again, a record may know it or not.
    is_doubtful: bool,
}

impl Ids {
    /// Whether an id was charged not long ago, by a clock that may have been set.
    pub fn know(&self, text: &str, now: i128, once: Once) -> bool {
        self.young(now, once).any(|id| id.text == text)
    }

    /// Whether nobody says if an id is known.
    pub fn doubts(&self, text: &str, now: i128, once: Once) -> bool {
        self.young(now, once).any(|id| id.text == text && id.is_doubtful)
    }

    fn young(&self, now: i128, once: Once) -> impl Iterator<Item = &Id> {
        let youngest = self.0.iter().rev().take(once.ids.into());
        youngest.filter(move |id| (now - id.at).abs() < once.for_ms.into())
    }

    /// Sees a clock.
    pub fn see(&mut self, now: i128, once: Once) {
        let counts = |id: &Id| (0..once.for_ms.into()).contains(&(now - id.at));
        self.0.iter_mut().for_each(|id| id.is_doubtful |= !counts(id));
    }

    /// Remembers an id, and forgets the oldest beyond those that are remembered.
    pub fn note(&mut self, text: &str, now: i128, once: Once) {
        self.0.retain(|known| known.text != text);
        self.0.push(Id { text: text.to_owned(), at: now, is_doubtful: false });
        self.0.drain(..self.0.len().saturating_sub(once.ids.into()));
    }

    pub fn times(&self) -> Vec<i128> {
        self.0.iter().map(|id| id.at).collect()
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum What {
    /// It holds its count.
    Held,
    /// It has lapsed, and what it charged stays charged.
    Kept,
    /// Its true cost is charged.
    Settled,
}

/// A hold.
#[derive(Debug, Clone)]
pub struct Hold {
    pub id: String,
    pub count: i128,
    pub made: i128,
    pub end: i128,
    pub what: What,
}

impl Hold {
    pub fn is_live(&self, now: i128) -> bool {
        self.what == What::Held && now < self.end
    }

    /// Settled, and its life is over: nobody knows it any more.
    pub fn is_done(&self, now: i128) -> bool {
        self.what == What::Settled && now >= self.end
    }
}
