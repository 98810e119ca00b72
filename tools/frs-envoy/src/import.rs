//! The configuration of envoyproxy/ratelimit, as map.xml and `<rls>`.
//!
//! Each limit becomes a biz with a fixed window as long as its unit. The values of entries that the
//! file leaves open become the key, so each value is counted on its own, as in
//! envoyproxy/ratelimit.
//!
//! Invariant: the written configuration passes `frs check`. Settings without a counterpart are
//! named with their places, and nothing is left out silently.

mod read;
mod write;

use std::fmt;

pub use read::read;
pub use write::{Imported, import};

/// A place in a file: line and column, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourcePlace {
    /// Number of the line.
    pub line: usize,
    /// Number of the column.
    pub column: usize,
}

impl fmt::Display for SourcePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// The fault of a file that envoyproxy/ratelimit would refuse.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: found {found}, expected {expected}")]
pub struct ImportFault {
    /// The place of the fault.
    pub place: SourcePlace,
    /// What was found there.
    pub found: String,
    /// What was expected there.
    pub expected: String,
}

/// The content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainFile {
    /// The domain.
    pub domain: String,
    /// Its descriptors.
    pub descriptors: Vec<DescriptorNode>,
}

/// A descriptor, with the descriptors nested in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescriptorNode {
    /// The place where it begins.
    pub place: SourcePlace,
    /// The name of the entry.
    pub key: String,
    /// The value of the entry. `None` for any value.
    pub value: Option<String>,
    /// The limit of calls whose entries end here. `None` if they have none.
    pub limit: Option<ImportedLimit>,
    /// Whether it counts and refuses nothing.
    pub shadow_mode: bool,
    /// Whether it counts uses over the limit, and refuses only those that exceed all such limits of
    /// a call.
    pub quota_mode: bool,
    /// Whether all values that match a wildcard are counted together.
    pub share_threshold: bool,
    /// The settings in use that have no counterpart.
    pub others: Vec<(&'static str, SourcePlace)>,
    /// The descriptors for the next entry.
    pub descriptors: Vec<DescriptorNode>,
}

/// `rate_limit`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImportedLimit {
    /// Nothing is counted.
    Unlimited,
    /// A number of uses in a unit of time.
    Limited {
        /// The number of uses.
        requests: u32,
        /// The unit, written as in map.xml.
        interval: &'static str,
        /// The name of the limit. `None` if it has none.
        name: Option<String>,
    },
}

#[cfg(test)]
mod tests;
