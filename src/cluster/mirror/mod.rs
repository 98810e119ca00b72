//! Records that two or three machines have copies of, without a cluster.
//!
//! Contract: [`run`] is the courier's loop. [`core`] decides what is sent and what is taken in; it
//! has no socket. A record has a version (`frs_store::Version`), which each change makes larger:
//! so frames may be lost, late, or come twice.
//!
//! | file | duty |
//! | --- | --- |
//! | `frame`, `codec` | what peers say to each other, as bytes |
//! | `handshake` | both have the secret |
//! | `stream`, `links` | connections; the sockets of all of them |
//! | `copies` | reads records that have changed, takes in copies |
//! | `push`, `rate` | what one peer has yet to get, and how fast |
//! | `compare` | which records a peer may lack |
//! | `asks` | items that wait for what peers know |
//! | `core` | all of these together; in `core/` comparisons, links, the beginning and the end |
//! | `figures` | what metrics and `frs status` tell of the peers |
//! | `run` | the loop |

mod asks;
pub mod codec;
mod compare;
mod copies;
pub mod core;
mod figures;
pub mod frame;
pub mod handshake;
mod links;
mod push;
mod rate;
mod run;
mod stream;

pub use run::run;
