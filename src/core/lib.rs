//! frs: frequency limits in shared memory, for programs that attach to a running server's files.
//!
//! A program starts at [`service::Service::attach`]. The server, with its formats and processes, is
//! the package frs-server; README.md tells how to run it, ARCHITECTURE.md how a request travels
//! through it.
//!
//! Floors, lowest first; a floor uses only those above it in this list.
//!
//! | floor | modules |
//! | --- | --- |
//! | base: clocks, hashes, the kernel | [`base`] |
//! | values: configuration, keys | [`conf`], [`key`] |
//! | store: files, semaphores, transactions, recovery | [`store`] |
//! | limits: what a policy computes | [`limit`] |
//! | service: Query and Update; looking into live files | [`service`], [`inspect`] |
//!
//! Under `--cfg loom` only what the model checker looks at is built.

pub mod base;
#[cfg(not(loom))]
pub mod conf;
#[cfg(not(loom))]
pub mod inspect;
#[cfg(not(loom))]
pub mod key;
#[cfg(not(loom))]
pub mod limit;
#[cfg(not(loom))]
pub mod service;
pub mod store;

#[cfg(not(loom))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(all(any(test, feature = "testing"), not(loom)))]
#[doc(hidden)]
pub mod testing;
