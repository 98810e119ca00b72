//! Whether this machine, since its start, has yet to hear from its peers what they know of its
//! records.
//!
//! Invariant: it learns until the courier says that it has learnt, in this run of the server. The
//! word of the extension belongs to the peers, because a server has a cluster or peers.

use frs_base::sync::Ordering;
use frs_store::Runtime;

/// Above the number of a run, so that the word of a new file says nothing.
const LEARNT: u64 = 1 << 32;

/// Whether later records than those that are here may be elsewhere.
#[inline]
pub fn is_learning(runtime: &Runtime) -> bool {
    // Acquire: pairs with `set_learnt`. What was installed before is seen.
    runtime.extension_word().load(Ordering::Acquire) != LEARNT | u64::from(runtime.run())
}

/// Notes that this machine has learnt all that its peers know.
#[cfg(feature = "courier")]
pub fn set_learnt(runtime: &Runtime) {
    runtime.extension_word().store(LEARNT | u64::from(runtime.run()), Ordering::Release);
}
