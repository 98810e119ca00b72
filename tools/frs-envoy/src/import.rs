//! The configuration of envoyproxy/ratelimit, as map.xml and `<rls>`.
//!
//! Each limit becomes a biz with a fixed window as long as its unit. The values of entries that the
//! file leaves open become the key, so that each of them is counted on its own, as there.
//!
//! Invariant: what is written passes `frs check`. What has no counterpart is named with its place,
//! and nothing is left out in silence.

mod read;
mod write;

use std::fmt;

pub use read::read;
pub use write::{Imported, import};

/// A place in a file: line and column, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A file that envoyproxy/ratelimit would refuse.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: found {found}, expected {expected}")]
pub struct Fault {
    /// Where.
    pub place: Place,
    /// What is there.
    pub found: String,
    /// What should be there.
    pub expected: String,
}

/// A file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// The domain.
    pub domain: String,
    /// Its descriptors.
    pub descriptors: Vec<Node>,
}

/// A descriptor, and what is nested in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Where it begins.
    pub place: Place,
    /// The name of the entry.
    pub key: String,
    /// The value of the entry. None: any.
    pub value: Option<String>,
    /// What is counted where nothing is nested.
    pub limit: Option<Limit>,
    /// Count, and refuse nothing.
    pub shadow_mode: bool,
    /// Count what exceeds the limit, and refuse only what exceeds all such limits of a call.
    pub quota_mode: bool,
    /// All values that match a wildcard are counted together.
    pub share_threshold: bool,
    /// Settings without a counterpart, which are set.
    pub others: Vec<(&'static str, Place)>,
    /// What the next entry may be.
    pub descriptors: Vec<Node>,
}

/// `rate_limit`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Limit {
    /// Nothing is counted.
    Unlimited,
    /// So many in a unit.
    Limited {
        /// How many.
        requests: u32,
        /// In this time, as map.xml has it.
        interval: &'static str,
        /// The name that it is given, if any.
        name: Option<String>,
    },
}

#[cfg(test)]
mod tests;
