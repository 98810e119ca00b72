//! The scope of a limit: each key's node has the states of one scope, that of the biz the others.

/// Whose uses a limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Those of each key.
    Key,
    /// Those of the whole biz, in a separate node.
    Biz,
}
