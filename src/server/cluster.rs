//! The courier as a child of the master.
//!
//! Invariant: the courier attaches to the store itself, after the fork. It ends when the master
//! asks it to, or is gone. An error ends the process, and the master replaces it.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use frs_base::sys::process::{Channel, Signals};
use frs_cluster::courier::{self, CourierError, Process};
use frs_conf::{EpochRaise, LogLevel};
use frs_store::EventBell;

use crate::process::bells::Bells;
use crate::process::child::{ChildContext, Inheritance};
use crate::process::log;
use crate::process::message::{self, Received, ToChild, ToMaster};

/// Serves until asked to end.
///
/// # Errors
/// The master replaces this courier with another.
pub fn run(child: ChildContext) -> Result<(), CourierError> {
    let ChildContext { inherited, signals, .. } = child;
    let Inheritance { channel, data_dir, bells, secrets, .. } = inherited;
    let (bells, secrets) = bells.zip(secrets).ok_or(CourierError::NoCluster)?;
    let process =
        Box::new(CourierProcess { channel, signals, bells, is_leaving: Cell::new(false) });
    courier::run(process, &data_dir, *secrets)
}

struct CourierProcess {
    channel: Channel,
    signals: Signals,
    bells: Bells,
    /// The server ends.
    is_leaving: Cell<bool>,
}

impl Process for CourierProcess {
    fn send_ready(&self) -> io::Result<()> {
        message::send_ready(&self.channel)
    }

    fn goes_on(&self) -> io::Result<bool> {
        if self.signals.next()?.is_some() {
            return Ok(false);
        }
        loop {
            match message::receive(&self.channel)? {
                Received::Message(ToChild::ReopenLog, _) => log::reopen(),
                Received::Message(ToChild::Announce, _) => self.is_leaving.set(true),
                // The courier of a newer master serves the workers of both.
                Received::Message(ToChild::Leave, _) => return Ok(false),
                // A turn takes over a new generation by itself.
                Received::Message(..) => {}
                Received::Nothing => return Ok(true),
                Received::MasterGone => {
                    tracing::warn!("the master has ended: the courier ends");
                    return Ok(false);
                }
            }
        }
    }

    fn is_leaving(&self) -> bool {
        self.is_leaving.get()
    }

    fn send_announced(&self, has_round: bool) -> io::Result<()> {
        message::send(&self.channel, ToMaster::Announced { has_round })
    }

    fn fds(&self) -> [BorrowedFd<'_>; 2] {
        [self.signals.as_fd(), self.channel.as_fd()]
    }

    fn follow_reset(&self, raise: EpochRaise) -> io::Result<()> {
        message::send(&self.channel, ToMaster::Follow(raise))
    }

    fn set_log_level(&self, level: LogLevel) {
        log::set_level(level);
    }

    fn bell(&self) -> &EventBell {
        &self.bells.reader
    }

    fn bell_of_slot(&self, slot: u32) -> Option<&EventBell> {
        self.bells.of_slot(slot)
    }
}
