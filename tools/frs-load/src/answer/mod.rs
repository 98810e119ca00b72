//! Answers: from bytes to attributes, and whether the protocol allows them.
//!
//! Invariant: whatever a server sends is either fully understood and agrees with the protocol, or
//! is reported as a fault. Nothing panics and nothing is trusted.

mod check;
mod head;
mod json;
mod plain_xml;
mod resp;
mod said;
mod xml;

pub use check::{Asked, Checker, Noted, Outcome, Turn, VERDICTS, Verdict};
pub use head::Reply;
