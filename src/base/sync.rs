//! Atomics: those of std, or loom's under `--cfg loom`.

#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence, fence};

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Loom has no compiler fence. No compiler reorders its steps.
#[cfg(loom)]
pub fn compiler_fence(_order: Ordering) {}

/// Adds a fence to the total order of SeqCst operations, under loom only. Loom implements that
/// order for fences alone. Production needs no fence here, because the SeqCst operations are
/// ordered themselves.
#[cfg(not(loom))]
#[inline(always)]
pub fn in_order() {}

/// As above.
#[cfg(loom)]
pub fn in_order() {
    fence(Ordering::SeqCst);
}
