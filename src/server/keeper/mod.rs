//! The keeper is a supervised process that writes dirty pages back, recovers the slots of dead
//! processes, and visits all nodes from time to time.
//!
//! Contract: the keeper serves no request, so its waits for a disk delay no client. The admin plane
//! is a thread of the keeper with its own attachment, and another thread makes checkpoints.
//!
//! | file | duty |
//! | --- | --- |
//! | `checkpoints` | makes checkpoints in a thread of its own |
//! | `flusher` | writes files on disk back, part by part |
//! | `keeper_process` | the loop: recoveries, huge pages |
//! | `mover` | moves the nodes of groups that grow |
//! | `sweeper` | visits all nodes slowly |

mod checkpoints;
mod flusher;
mod keeper_process;
mod mover;
mod sweeper;

pub use keeper_process::{KeeperError, run};
pub use sweeper::Sweeper;
