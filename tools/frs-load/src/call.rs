//! What requests say of an item besides its key: a count, numbers for limits, an id, a hold.
//!
//! Invariant: all of it follows from the item's place in the run, so a request that is sent again
//! is the same one, and its answer is checked against what was asked.

use std::collections::hash_map::RandomState;
use std::fmt::Write;
use std::hash::BuildHasher;

use crate::arguments::Arguments;
use crate::keys::mix;

/// What the items of a run share.
#[derive(Debug, Clone)]
pub struct Call {
    count: u32,
    /// The numbers for limits with `per-call`.
    pub rate: Option<String>,
    /// The maximum for a limit with `per-call`.
    pub max: Option<u64>,
    /// Whether items take as much as fits.
    pub partial: bool,
    /// The begin of all ids of this thread. `None`: items have no id.
    run: Option<u64>,
    /// The number of holds of each key. `None`: items hold nothing.
    holds: Option<u32>,
}

/// What the item at a place says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemCall {
    /// Its uses; of a hold, what it shall hold from now on.
    pub count: u32,
    /// The number of its hold.
    pub hold: Option<u32>,
}

impl Call {
    /// What the items of these arguments share. Each call draws ids of its own.
    pub fn new(arguments: &Arguments) -> Call {
        let Arguments { count, partial, holds, .. } = *arguments;
        Call {
            count,
            rate: arguments.call_rate.clone(),
            max: arguments.call_max,
            partial,
            run: arguments.once.then(|| RandomState::new().hash_one(std::process::id())),
            holds,
        }
    }

    /// Whether items say no more than a key.
    pub fn is_plain(&self) -> bool {
        let Call { count, rate, max, partial, run, holds } = self;
        !partial
            && *count == 1
            && (rate.is_none() && max.is_none() && run.is_none() && holds.is_none())
    }

    /// Whether items have ids.
    pub fn has_ids(&self) -> bool {
        self.run.is_some()
    }

    /// What the item at a place of the run says. Half of the holds let go.
    pub fn item(&self, place: u64) -> ItemCall {
        let Some(holds) = self.holds else { return ItemCall { count: self.count, hold: None } };
        let drawn = mix(place.wrapping_mul(PLACES_APART));
        let count = if drawn.is_multiple_of(2) { self.count } else { 0 };
        ItemCall { count, hold: Some((drawn >> 32) as u32 % holds) }
    }

    /// Replaces `out` with the id of the item at a place. Returns whether it has one.
    pub fn write_id(&self, out: &mut String, place: u64) -> bool {
        out.clear();
        let Some(run) = self.run else { return false };
        // Writing to a String does not fail.
        let _ = write!(out, "{run:016x}-{place:x}");
        true
    }
}

/// An odd number, so that places next to each other differ in many bits.
const PLACES_APART: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn call(words: &str) -> Call {
        let words = format!("frs-load unix:a {words}");
        Call::new(&Arguments::parse_from(words.trim_end().split(' ')))
    }

    #[test]
    fn an_item_is_plain_unless_something_is_asked_for() {
        assert!(call("").is_plain());
        assert_eq!(call("").item(7), ItemCall { count: 1, hold: None });
        for words in
            ["--count 2", "--call-rate 5/m", "--call-max 5", "--partial", "--once", "--holds 1"]
        {
            assert!(!call(words).is_plain(), "{words}");
        }
    }

    #[test]
    fn ids_differ_by_place_and_by_run() {
        let (one, other) = (call("--once"), call("--once"));
        let id = |call: &Call, place| {
            let mut id = String::new();
            assert!(call.write_id(&mut id, place) && call.has_ids() && id.len() <= 64);
            id
        };
        assert_eq!(id(&one, 7), id(&one, 7));
        assert_ne!(id(&one, 7), id(&one, 8));
        assert_ne!(id(&one, 7), id(&other, 7));
        assert!(!call("").write_id(&mut String::new(), 7));
    }

    #[test]
    fn half_of_the_holds_let_go() {
        let call = call("--holds 3 --count 5");
        let items: Vec<ItemCall> = (0..3000).map(|place| call.item(place)).collect();
        for hold in 0..3 {
            for count in [0, 5] {
                let met =
                    items.iter().filter(|item| **item == ItemCall { count, hold: Some(hold) });
                assert!((400..600).contains(&met.count()));
            }
        }
    }
}
