//! libfrs: [`frs_core::Client`] for C. frs.h describes it to its users.
//!
//! Invariant: no panic leaves a function of the library, and no caller's memory is touched beyond
//! the sizes that the caller states.

mod code;
mod entry;
mod guard;
mod layout;
mod memory;
