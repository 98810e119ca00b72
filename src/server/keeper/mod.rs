//! The keeper is a supervised process that writes dirty pages back, recovers the slots of dead
//! processes, and looks at all nodes from time to time.
//!
//! Contract: it serves no request, so waiting for a disk delays no client. The admin plane is a
//! thread of it with its own attachment, and checkpoints are made by another one.
//!
//! | file | duty |
//! | --- | --- |
//! | `checkpoints` | a checkpoint now and then, in a thread of its own |
//! | `flusher` | writes files on disk back, part by part |
//! | `run` | the loop: recoveries, huge pages |
//! | `mover` | moves the nodes of groups that grow |
//! | `sweeper` | the slow look at all nodes |

mod checkpoints;
mod flusher;
mod mover;
mod run;
mod sweeper;

pub use run::{KeeperError, run};
pub use sweeper::Sweeper;
