//! The files by which the master tells all processes which configuration is in force.
//!
//! Invariant: a file is complete and on disk before it gets its name. Every process that reads a
//! generation gets the same configuration from it.
//!
//! | file | duty |
//! | --- | --- |
//! | [`active`] | a generation: both texts as checked, and the overlay |
//! | `overlay` | switches, resets and moves made while the server runs |
//! | `former_limits` | former limits of shared businesses |
//! | `durable` | writes files that are on disk before other processes learn of them |

pub mod active;
mod durable;
mod former_limits;
mod overlay;

#[cfg(test)]
pub(super) use durable::write_durably;
pub use overlay::{EpochError, EpochRaise, Overlay, OverlayError};
