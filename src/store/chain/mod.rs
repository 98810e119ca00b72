//! The chain of a key-node: how a key is found in it, and which node leaves it when it is full.
//!
//! Contract: a tag or a filter only says where to look. A node is valid only if its CRC holds. A
//! node that must not be lost is never evicted.
//!
//! | file | duty |
//! | --- | --- |
//! | `tags` | one byte for each place of the chain |
//! | `node_check` | the CRC of a node's words |
//! | `kept_filter` | which keys may have a record that is kept outside the files |
//! | `evict` | chooses the node that leaves a full chain |

pub(crate) mod evict;
pub(crate) mod kept_filter;
pub(crate) mod node_check;
pub(crate) mod tags;

pub use evict::{Judge, Life, Rank};
