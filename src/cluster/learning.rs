//! Whether this machine, since its start, has yet to hear from its peers what they know of its
//! records, or waits for a peer that leaves.
//!
//! Invariant: it learns until the courier says that it has learnt, in this run of the server. The
//! word of the extension belongs to the peers, because a server has a cluster or peers.

use frs_base::sync::Ordering;
use frs_engine::Learning;
use frs_store::Runtime;

/// Above the number of a run, so that the word of a new file says nothing.
const LEARNT: u64 = 1 << 32;
const PARKS: u64 = 1 << 33;

/// Whether later records than those that are here may be elsewhere.
pub fn state(runtime: &Runtime) -> Learning {
    state_in(runtime, runtime.run())
}

/// The same, in this run of the server.
#[inline]
pub fn state_in(runtime: &Runtime, run: u32) -> Learning {
    // Acquire: pairs with `set`. What was installed before is seen.
    let word = runtime.extension_word().load(Ordering::Acquire);
    match word ^ u64::from(run) {
        LEARNT => Learning::No,
        PARKS => Learning::Parks,
        _ => Learning::Asks,
    }
}

/// Stores it, for all processes.
#[cfg(feature = "courier")]
pub fn set(runtime: &Runtime, state: Learning) {
    let of_state = match state {
        Learning::No => LEARNT,
        Learning::Parks => PARKS,
        Learning::Asks => 0,
    };
    let word = of_state | u64::from(runtime.run());
    if runtime.extension_word().swap(word, Ordering::Release) != word {
        tracing::debug!(?state, "what peers know");
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use frs_store::testing::World;

    use super::*;

    #[test]
    fn a_machine_learns_until_it_has_learnt_in_this_run() {
        let map = "<map><group name='g' files='1' key-nodes='1' chain='1' node-size='64'/></map>";
        let world = World::new(map);
        let runtime = world.runtime();
        assert_eq!(state(&runtime), Learning::Asks, "a new file");
        for stored in [Learning::No, Learning::Parks, Learning::Asks, Learning::No] {
            set(&runtime, stored);
            assert_eq!(state(&runtime), stored);
        }
        runtime.set_started(runtime.master_counts().started_ms + 1);
        assert_eq!(state(&runtime), Learning::Asks, "another run");
    }
}
