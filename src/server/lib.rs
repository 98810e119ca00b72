//! The frs server: serves the limits over HTTP and RESP, with a master, workers, a keeper and a
//! child for the cluster.
//!
//! | room | duty |
//! | --- | --- |
//! | [`account`] | the user that a server started as root acts as |
//! | [`protocol`] | HTTP and RESP, XML and JSON: bytes to requests, answers to bytes |
//! | [`net`] | listeners, streams, timers |
//! | [`process`] | the shared state of processes: messages, locks, the log |
//! | [`stats`] | the server's figures |
//! | [`worker`] | serves the clients' connections |
//! | [`admin`] | the admin plane: its connections, its calls, the page |
//! | [`keeper`] | flushes, sweeps and recovers, and runs the admin plane |
//! | [`cluster`] | the child that talks to the cluster |
//! | [`master`] | starts, reloads, upgrades and replaces the others |
//! | [`buffer_sizes`] | the sizes of all buffers, for `frs check` |

pub mod account;
pub mod admin;
pub mod buffer_sizes;
pub mod cluster;
pub mod keeper;
pub mod master;
pub mod net;
pub mod process;
pub mod protocol;
pub mod stats;
pub mod tls;
pub mod worker;

/// Compiles the Rust code in the documents.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../README.md")]
    struct Readme;
    #[doc = include_str!("../../docs/library.md")]
    struct Library;
}
