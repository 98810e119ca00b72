//! frs: a frequency-limit server on shared memory.
//!
//! A program that wants to ask without a network starts at [`service::Service::attach`]; README.md
//! tells how to run the server, ARCHITECTURE.md how a request travels through it.
//!
//! This is the map of the house, lowest layer first; a layer uses only what stands above it in the
//! list below.
//!
//! | layer | modules |
//! | --- | --- |
//! | floor: values, hashes, the kernel | [`clock`], [`conf`], [`hash`], [`key`], `scan`, [`sync`], [`sys`] |
//! | store: files, semaphores, transactions, recovery | [`store`] |
//! | limits: what a policy computes | [`limit`] |
//! | service: Query and Update; looking into live files | [`service`], [`inspect`] |
//! | faces: HTTP, XML and JSON, and the processes | [`protocol`], [`worker`], [`keeper`], [`master`] |
//!
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
#[cfg(not(loom))]
mod scan;
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
pub mod inspect;
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

#[cfg(not(loom))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(all(test, not(loom)))]
mod testing;

/// The Rust of README.md compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
