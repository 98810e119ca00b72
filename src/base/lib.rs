//! The lowest floor. It knows nothing of limits, files or requests.
#![allow(missing_docs, reason = "for the crates above; programs see what `frs` exports")]

#[cfg(not(loom))]
pub mod causes;
#[cfg(not(loom))]
pub mod clock;
#[cfg(not(loom))]
pub mod figures;
#[cfg(not(loom))]
pub mod hash;
#[cfg(not(loom))]
pub mod log_throttle;
mod named;
#[cfg(not(loom))]
pub mod scan;
pub mod sync;
#[cfg(not(loom))]
pub mod sys;
#[cfg(all(any(test, feature = "testing"), not(loom)))]
pub mod testing;
