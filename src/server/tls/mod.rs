//! TLS of the listeners: certificates, sessions and tickets.
//!
//! The master reads the files of every `<tls>` (`identity`), and hands them to the processes that
//! serve its listeners. A process makes a [`rustls::ServerConfig`] of them. No other room handles
//! bytes of TLS.
//!
//! | file | duty |
//! | --- | --- |
//! | `alert` | why a client is closed that gets no handshake |
//! | `board` | the files in force, in memory for the processes that need them |
//! | `bounds` | how much a connection may hold |
//! | `certificate` | what a certificate says: names and dates |
//! | `configs` | what a process serves with, by the name of the `<tls>` |
//! | `identity` | the files of a `<tls>`, checked |
//! | `session` | one connection: bytes in, bytes out |
//! | `tickets` | sessions that are resumed, and the keys of their tickets |
//! | `verifier` | clients' certificates, proved and bounded |

pub mod alert;
pub mod board;
pub mod bounds;
pub mod certificate;
pub mod configs;
pub mod identity;
pub mod session;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod tickets;
mod verifier;

pub use bounds::{CERTIFICATE_BYTES, TLS_BYTES};
