//! What the courier needs of the process that it runs in.
//!
//! Invariant: none of it blocks.

use std::io;
use std::os::fd::BorrowedFd;

use frs_conf::{EpochRaise, LogLevel};
use frs_store::EventBell;

/// The process around the courier, a child of the server's master.
pub trait Process {
    /// Reports to the master that the courier serves.
    ///
    /// # Errors
    /// The channel to the master failed.
    fn send_ready(&self) -> io::Result<()>;

    /// Takes in signals and the master's messages. False: the courier is to end.
    ///
    /// # Errors
    /// A signal or a message cannot be read.
    fn goes_on(&self) -> io::Result<bool>;

    /// Whether the server ends, so that its peers have to know.
    fn is_leaving(&self) -> bool;

    /// Reports to the master that they know, and whether they get a last round of records when all
    /// other processes have ended.
    ///
    /// # Errors
    /// The channel to the master is full or closed.
    fn send_announced(&self, has_round: bool) -> io::Result<()>;

    /// The descriptors that are readable when a signal or a message of the master is there.
    fn fds(&self) -> [BorrowedFd<'_>; 2];

    /// Asks the master to put a reset of another machine in force.
    ///
    /// # Errors
    /// The channel to the master is full or closed.
    fn follow_reset(&self, raise: EpochRaise) -> io::Result<()>;

    /// Sets the level of the log.
    fn set_log_level(&self, level: LogLevel);

    /// Wakes the courier.
    fn bell(&self) -> &EventBell;

    /// Wakes the worker in a slot.
    fn bell_of_slot(&self, slot: u32) -> Option<&EventBell>;
}
