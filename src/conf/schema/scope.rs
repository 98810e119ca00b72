//! The scope of a limit. Each key's node has the states of the limits of scope key, and a node of
//! the biz has those of scope biz.

/// Whose uses a limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Those of each key.
    Key,
    /// Those of the whole biz, in a separate node.
    Biz,
}
