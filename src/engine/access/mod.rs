//! Who asks, and what that caller may do: tokens, certificates, rights, and the brake of those who
//! guess tokens.
//!
//! A face finds the [`Caller`] of a connection or of a head once, by [`Access`], and marks each
//! request with [`Access::mark`] before it runs. The service answers `forbidden` to an item that
//! may not run.
//!
//! Invariant: nothing here reads a file, a socket or a clock. A token is compared by its digest, in
//! a time that reveals nothing of it.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `digest` | tokens as SHA-256, and their form between processes |
//! | `resolve` | which caller shows this token or this certificate |
//! | `rights` | what a caller may do with an item |
//! | `brake` | makes addresses wait that show wrong tokens |

mod brake;
mod digest;
mod resolve;
mod rights;
#[cfg(test)]
mod tests;

pub use brake::Brake;
pub use digest::{TokenDigest, TokenDigests};
pub use resolve::{Access, Caller};
pub use rights::{Carried, LastBiz, needed};
