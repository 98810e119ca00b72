//! The keeper: one supervised process that writes dirty pages back and recovers the slots of the
//! dead, and looks at all nodes now and then.
//!
//! Contract: it serves no request, so that waiting for a disk delays nobody; the admin plane is a
//! thread of it, with an attachment of its own.
//!
//! | file | duty |
//! | --- | --- |
//! | `run` | the loop: flushes, recoveries, huge pages |
//! | `sweeper` | the slow look at all nodes |

mod run;
mod sweeper;

pub use run::{KeeperError, run};
pub use sweeper::Sweeper;
