//! The JSON format, both directions: a request document to a [`Request`](frs_engine::Request),
//! [`Answers`](frs_engine::Answers) to a response document.
//!
//! It says what the XML format says, in members of the same names. Numbers and flags are JSON's
//! own. Faults are found in the order of the document, and the first one is answered. `bad-json`
//! means that the body is not JSON (RFC 8259), or has null or a repeated member, which frs rejects.
//! `bad-request` means JSON that is not a request. Documents are written compactly: no white space,
//! one line end at the end.

mod fault;
mod read;
mod write;

pub use read::{DOCUMENT_MEMBERS, ITEM_MEMBERS, not_json, offset, read, text_of};
pub use write::{Json, write_string};

#[cfg(test)]
mod tests;
