//! frs: a frequency-limit server on shared memory.
//!
//! The map of the house, lowest layer first; a layer uses only what stands above it in this list.
//! Under `--cfg loom` only what the model checker looks at is built.

// floor
#[cfg(not(loom))]
pub mod clock;
#[cfg(not(loom))]
pub mod conf;
#[cfg(not(loom))]
pub mod hash;
#[cfg(not(loom))]
pub mod key;
pub mod sync;
#[cfg(not(loom))]
pub mod sys;
// store
pub mod store;
// limits
#[cfg(not(loom))]
pub mod limit;
// service
#[cfg(not(loom))]
pub mod service;
// faces
#[cfg(not(loom))]
pub mod keeper;
#[cfg(not(loom))]
pub mod master;
#[cfg(not(loom))]
pub mod protocol;
#[cfg(not(loom))]
pub mod worker;

#[cfg(all(test, not(loom)))]
mod testing;
