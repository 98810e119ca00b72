//! frs: a frequency-limit server on shared memory.
//!
//! The map of the house, lowest layer first; a layer uses only what stands above it in this list.

// floor
pub mod clock;
pub mod conf;
pub mod hash;
pub mod key;
pub mod sync;
pub mod sys;
// store
pub mod store;
// limits
pub mod limit;
// service
pub mod service;
// faces
pub mod keeper;
pub mod master;
pub mod protocol;
pub mod worker;
