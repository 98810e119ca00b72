//! Workers: the event loop and its connections.
//!
//! The master forks a worker. The worker attaches to the store, and serves its listeners until the
//! master asks it to end or dies.
//!
//! | file | duty |
//! | --- | --- |
//! | `worker_process` | a worker from its attachment to its end |
//! | `tick` | one round of the loop: read, answer, expire, accept |
//! | `accept` | the listeners, and the bound of accepted clients |
//! | `client` | a client's socket, and its state between ticks |
//! | `connection` | HTTP: bytes in, bytes out, no socket |
//! | `resp_connection` | the same for RESP |
//! | `request_handler` | answers requests |
//! | `conf_in_use` | srv.xml in force, and its clients |
//! | `buffers` `buffer_pool` | memory that clients share |
//! | `overload_log` | counts refused connections for the log |
//! | `unknown_commands` | counts commands that frs does not have, for the log |

mod accept;
pub(crate) mod buffer_pool;
pub(crate) mod buffers;
pub(crate) mod client;
mod conf_in_use;
pub mod connection;
mod mailbox_bells;
mod overload_log;
mod parked_clients;
mod request_handler;
pub mod resp_connection;
pub(crate) mod tick;
mod unknown_commands;
mod worker_process;

pub use worker_process::{WorkerError, run};
