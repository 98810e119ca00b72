//! Workers: the event loop, and the connections it serves.
//!
//! A worker is forked by the master, attaches itself to the store, and serves its listeners until
//! the master asks it to end, or dies.
//!
//! | file | duty |
//! | --- | --- |
//! | `run` | a worker from its attachment to its end |
//! | `tick` | one round of the loop: read, answer, expire, accept |
//! | `accept` | what it listens on, and how many are let in |
//! | `client` | a client's socket, and what is kept of it between ticks |
//! | `connection` | bytes in, bytes out, no socket |
//! | `request_handler` | what requests are answered with |
//! | `buffers` `pool` | memory that clients share |
//! | `overload_log` | how many were turned away |

mod accept;
pub(crate) mod buffer_pool;
pub(crate) mod buffers;
pub(crate) mod client;
pub mod connection;
mod overload_log;
mod request_handler;
mod run;
pub(crate) mod tick;

pub use run::{WorkerError, run};
