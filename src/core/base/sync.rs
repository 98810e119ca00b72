//! Atomics: those of std, or loom's under `--cfg loom`.

#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence, fence};

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Loom has no compiler fence. No compiler reorders its steps.
#[cfg(loom)]
pub fn compiler_fence(_order: Ordering) {}
