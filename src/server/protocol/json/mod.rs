//! The JSON format, both directions: a request document to a
//! [`Request`](frs::service::Request), [`Answers`](frs::service::Answers) to a response
//! document.
//!
//! It says what the XML format says, in members of the same names; numbers and flags are JSON's
//! own. Faults are found in the order of the document; the first one is answered. `bad-json` is
//! what is not JSON (RFC 8259), and null and members that stand more than once, which are not
//! taken; `bad-request` is JSON that says something else than a request. Written are compact
//! documents: no white space, one line end at the end.

mod fault;
mod read;
mod write;

pub use read::read;
pub use write::{write, write_error, write_string};

#[cfg(test)]
mod tests;
