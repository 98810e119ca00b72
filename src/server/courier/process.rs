//! The courier as a process: its attachment, the master's messages, its end.
//!
//! Invariant: the courier attaches to the store itself, after the fork. It ends when the master
//! asks it to, or is gone. An error ends the process, and the master replaces it.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use crate::process::child::ChildContext;
use crate::process::log;
use crate::process::message::{self, Received, ToChild};
use frs::base::sys::process::{self, PollFd, PollFlags};
use frs::service::{Role, Service};
use frs::store::counter::CourierCounters;

/// The longest wait: what a lost call costs.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Why the courier cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum CourierError {
    /// It cannot attach to the store.
    #[error("cannot attach to the store: {0}")]
    Attach(#[from] frs::store::Error),
    /// A call to the kernel failed that the courier needs.
    #[error("the courier's loop failed: {0}")]
    Loop(#[from] io::Error),
}

/// Serves until asked to end.
///
/// # Errors
/// The master replaces this courier with another.
pub fn run(child: ChildContext) -> Result<(), CourierError> {
    let mut service = Service::attach(&child.data_dir, Role::Courier)?;
    if let Some(counters) = service.handle().counters() {
        CourierCounters::of(counters).begin();
    }
    message::send_ready(&child.channel)?;
    while wait(&child, Some(LOOK_AGAIN))? {
        if service.begin_tick() {
            log::set_level(service.conf().srv.log.level);
        }
    }
    Ok(())
}

/// Waits for a call of a worker or a message of the master, at most for the limit; false if the
/// courier is to end.
fn wait(child: &ChildContext, limit: Option<Duration>) -> io::Result<bool> {
    let bell = child.bells.as_ref().map(|bells| bells.courier.as_fd());
    let ties = [child.signals.as_fd(), child.channel.as_fd()];
    let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
    let mut fds: Vec<PollFd<'_>> = ties.into_iter().chain(bell).map(readable).collect();
    process::poll(&mut fds, limit)?;
    if let Some(bells) = &child.bells {
        bells.courier.drain()?;
    }
    goes_on(child)
}

/// Receives signals and the master's messages; false if the courier is to end.
pub fn goes_on(child: &ChildContext) -> io::Result<bool> {
    if child.signals.next()?.is_some() {
        return Ok(false);
    }
    loop {
        match message::receive(&child.channel)? {
            Received::Message(ToChild::ReopenLog, _) => log::reopen(),
            // An older master's courier: the newer one answers the workers of both.
            Received::Message(ToChild::Leave, _) => return Ok(false),
            Received::Message(..) => {}
            Received::Nothing => return Ok(true),
            Received::MasterGone => {
                tracing::warn!("the master has ended: the courier ends");
                return Ok(false);
            }
        }
    }
}
