//! Atomics: those of std, or loom's under `--cfg loom`.

#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence, fence};

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Loom has no compiler fence. No compiler reorders its steps.
#[cfg(loom)]
pub fn compiler_fence(_order: Ordering) {}

/// Part of the one order of SeqCst operations. Loom knows that order of fences only, so the model
/// gets a fence where the processor has none: production relies on the order of the operations.
#[cfg(not(loom))]
#[inline(always)]
pub fn in_order() {}

/// As above.
#[cfg(loom)]
pub fn in_order() {
    fence(Ordering::SeqCst);
}
