//! The master: listeners, supervision, reload, taking over, and the commands that ask it.
//!
//! It forks, reaps and tells; it serves no request and maps no group. Its decisions are values in,
//! values out ([`supervise`]); everything else carries them out. It stays a single thread.

pub mod command;
mod detached;
pub mod error;
mod inherit;
mod keep;
pub mod needs_restart;
pub mod notify;
mod orphans;
pub mod prepare;
mod reload;
mod run;
mod start;
pub mod supervise;
mod upgrade;

pub use error::MasterError;
pub use start::{Start, serve};

/// How [`serve`] returned.
pub enum Ended {
    /// In the master: stopped as asked.
    Stopped,
    /// In a child that has just been forked.
    Child(crate::process::child::ForkedChild),
}
