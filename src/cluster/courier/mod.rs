//! The courier: the process of a host that alone talks to the cluster.
//!
//! Contract: [`core`] decides when each message is sent, and how waiting items end. [`run`] is the
//! loop around it. The program that starts the loop offers it a [`Process`].
//!
//! Invariant: only the loop reads clocks and sleeps.

pub mod core;
mod process;
mod run;
mod telemetry;

pub use process::Process;
pub use run::{CourierError, run};
pub(crate) use run::{Programs, Resets, RingTicket, Rings, Waker};
