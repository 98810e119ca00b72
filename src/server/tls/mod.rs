//! TLS of the listeners: certificates, sessions and tickets.
//!
//! The master reads the files of every `<tls>` (`identity`), and hands them to the processes that
//! serve its listeners. A process makes a [`rustls::ServerConfig`] of them. No other room handles
//! bytes of TLS.
//!
//! | file | duty |
//! | --- | --- |
//! | `bounds` | how much a connection may hold |
//! | `certificate` | what a certificate says: names and dates |
//! | `identity` | the files of a `<tls>`, checked |
//! | `verifier` | clients' certificates, proved and bounded |

pub mod bounds;
pub mod certificate;
pub mod identity;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod verifier;

pub use bounds::{CERTIFICATE_BYTES, TLS_BYTES};
