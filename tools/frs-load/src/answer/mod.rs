//! Answers as they come: bytes to what they say, and whether they may say it.
//!
//! Invariant: whatever a server sends is either understood wholly and agrees with the protocol, or
//! is a fault in words; nothing panics and nothing is taken on trust.

mod check;
mod head;
mod json;
mod said;
mod xml;

pub use check::{Checker, Outcome, VERDICTS};
pub use head::Reply;
