//! libfrs: [`frs_core::Client`] for C. frs.h describes it to its users.
//!
//! Invariant: no panic leaves a function of the library, and the library touches no memory of the
//! caller beyond the sizes that the caller states.

mod code;
mod entry;
mod guard;
mod layout;
mod memory;
