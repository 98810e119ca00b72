//! Transactions: the only way to change a node.
//!
//! Contract: a transaction is announced, held, logged and committed, in this order. At whatever
//! instruction its process dies, all of it is stored or the undo log restores the words of before.
//!
//! | file | duty |
//! | --- | --- |
//! | `protocol` | the four steps, as types that can only be used in order |
//! | `undo_log` | logs the old words, marks the commit point, undoes |
//! | `transaction` | the general case: many key-nodes, groups that move |
//! | `fast_path` | one key-node, and a node that is there and whole |
//! | `new_node` | one key-node, and a new node in a free place |
//! | `note` | tells what was changed, for other machines |
//! | `look` | reads a record beside its users |

pub(crate) mod protocol;
pub mod undo_log;

#[cfg(not(loom))]
pub(crate) mod fast_path;
#[cfg(not(loom))]
mod look;
#[cfg(not(loom))]
pub(crate) mod new_node;
#[cfg(not(loom))]
mod note;
#[cfg(not(loom))]
pub(crate) mod transaction;

#[cfg(not(loom))]
pub use {
    fast_path::{Keep, Lead, Moment, NodeOwner, Worked},
    look::Looked,
    transaction::{
        FormerPlace, Full, NodeIndex, Refused, Sought, TooLarge, Transaction, TransactionBuffers,
        Wanted,
    },
};
