//! Whether this machine, since its start, has yet to hear from its peers what they know of its
//! records, or waits for a peer that leaves.
//!
//! Invariant: it learns until the courier says that it has learnt, in this run of the server. The
//! word of the extension belongs to the peers, because a server has a cluster or peers.

use frs_base::clock::{self, Millis};
use frs_base::sync::Ordering;
use frs_engine::Learning;
use frs_store::Runtime;

/// Above the number of a run, so that the word of a new file says nothing.
const LEARNT: u64 = 1 << 32;
const PARKS: u64 = 1 << 33;
/// From this bit on: the second in which the wait for a machine that leaves is over.
const UNTIL_AT: u32 = 34;
const UNTIL_MASK: u64 = (1 << (64 - UNTIL_AT)) - 1;
/// A machine has learnt, or its courier does not live, this long after its start.
const LONGEST: Millis = 15_000;
/// The longest wait for a machine that leaves.
#[cfg(feature = "courier")]
pub(crate) const LONGEST_LEAVE: Millis = 10_000;

/// A run of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Its number.
    pub number: u32,
    /// When it has begun, by the wall clock.
    pub started_ms: Millis,
}

impl Run {
    /// The present one.
    pub fn of(runtime: &Runtime) -> Run {
        Run { number: runtime.run(), started_ms: runtime.master_counts().started_ms }
    }
}

/// Whether later records than those that are here may be elsewhere.
pub fn state(runtime: &Runtime) -> Learning {
    state_in(runtime, Run::of(runtime))
}

/// The same, in this run of the server. What nobody ends is over after a while.
#[inline]
pub fn state_in(runtime: &Runtime, run: Run) -> Learning {
    // Acquire: pairs with `set`. What was installed before is seen.
    let word = runtime.extension_word().load(Ordering::Acquire);
    if word == LEARNT | u64::from(run.number) { Learning::No } else { unlearnt(word, run) }
}

#[cold]
fn unlearnt(word: u64, run: Run) -> Learning {
    let now = clock::now();
    if word as u32 == run.number && word & PARKS != 0 {
        // A word of 30 bits of seconds, which turn after 34 years.
        let left = (word >> UNTIL_AT).wrapping_sub(now / 1000) & UNTIL_MASK;
        return if left <= UNTIL_MASK / 2 { Learning::Parks } else { Learning::No };
    }
    if now > run.started_ms.saturating_add(LONGEST) { Learning::No } else { Learning::Asks }
}

/// Stores it, for all processes.
#[cfg(feature = "courier")]
pub fn set(runtime: &Runtime, state: Learning) {
    let until = ((clock::now() + LONGEST_LEAVE) / 1000 + 1) & UNTIL_MASK;
    let of_state = match state {
        Learning::No => LEARNT,
        Learning::Parks => PARKS | until << UNTIL_AT,
        Learning::Asks => 0,
    };
    runtime.extension_word().store(of_state | u64::from(runtime.run()), Ordering::Release);
}

#[cfg(all(test, not(miri)))]
mod tests {
    use frs_store::testing::World;

    use super::*;

    #[test]
    fn a_machine_learns_until_it_has_learnt_in_this_run_or_for_a_while() {
        let map = "<map><group name='g' files='1' key-nodes='1' chain='1' node-size='64'/></map>";
        let world = World::new(map);
        let runtime = world.runtime();
        let started = clock::now();
        runtime.set_started(started);
        assert_eq!(state(&runtime), Learning::Asks, "a new file");
        for stored in [Learning::No, Learning::Parks, Learning::Asks, Learning::No] {
            set(&runtime, stored);
            assert_eq!(state(&runtime), stored);
        }
        runtime.set_started(started + 1);
        assert_eq!(state(&runtime), Learning::Asks, "another run");
        runtime.set_started(started - 2 * LONGEST);
        assert_eq!(state(&runtime), Learning::No, "nobody has ended it");
        let run = Run::of(&runtime);
        let parks = |until_s: u64| {
            let word = PARKS | u64::from(run.number) | (until_s & UNTIL_MASK) << UNTIL_AT;
            unlearnt(word, run)
        };
        let now_s = clock::now() / 1000;
        assert_eq!((parks(now_s + 2), parks(now_s - 2)), (Learning::Parks, Learning::No));
    }
}
