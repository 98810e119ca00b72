//! The semaphores of key-nodes: how they are taken, waited for, and freed.
//!
//! Contract: only the word of a semaphore decides who owns its key-node. A semaphore that its
//! slot's owner holds is never freed by another process while the owner lives.
//!
//! | file | duty |
//! | --- | --- |
//! | `semaphore` | the word, and each step of taking and releasing it |
//! | `waiter` | looks for a while, then sleeps |
//! | `orphan` | finds semaphores that name a living slot whose owner does not hold them |
//! | `freeing` | frees these, for a handle that waits |

pub(crate) mod orphan;
pub mod semaphore;

#[cfg(not(loom))]
pub(crate) mod freeing;
#[cfg(not(loom))]
pub(crate) mod waiter;
