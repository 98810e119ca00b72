//! Files by which the master tells all processes which configuration is in force.
//!
//! Invariant: a file is complete and on disk before it gets its name. Every process that reads a
//! generation gets the same configuration from it.
//!
//! | file | duty |
//! | --- | --- |
//! | [`active`] | a generation: both texts as checked, and the overlay |
//! | `overlay` | what was switched, reset and begun while the server runs |
//! | `former` | limits that shared businesses had before |
//! | `durable` | writes files that are on disk before others learn of them |

pub mod active;
mod durable;
mod former;
mod overlay;

#[cfg(test)]
pub(super) use durable::write_durably;
pub use overlay::{EpochError, EpochRaise, Overlay, OverlayError};
