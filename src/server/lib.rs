//! frs-server serves the limits over HTTP, with a master, its workers and its keeper.
//!
//! | room | what it does |
//! | --- | --- |
//! | [`account`] | the user that a server started as root acts as |
//! | [`protocol`] | XML, JSON and HTTP: bytes to requests, answers to bytes |
//! | [`net`] | listeners, streams, timers |
//! | [`process`] | messages, locks, the log: what processes share |
//! | [`stats`] | the server's figures |
//! | [`worker`] | serves the clients' connections |
//! | [`admin`] | the admin plane: its connections, its calls, the page |
//! | [`keeper`] | flushes and sweeps, and serves the admin plane |
//! | [`courier`] | the child that talks to the cluster |
//! | [`master`] | starts, reloads, upgrades and replaces the others |
//! | [`buffer_sizes`] | the sizes of all buffers, for `frs check` |

pub mod account;
pub mod admin;
pub mod buffer_sizes;
pub mod courier;
pub mod keeper;
pub mod master;
pub mod net;
pub mod process;
pub mod protocol;
pub mod stats;
pub mod worker;

/// Compiles the Rust code in the documents.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../README.md")]
    struct Readme;
    #[doc = include_str!("../../docs/library.md")]
    struct Library;
}
