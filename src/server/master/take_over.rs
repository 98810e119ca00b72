//! The new binary's side of an upgrade: it asks the older master for the server, reports that its
//! processes serve, and waits until the older master lets go. [`upgrade`](super::upgrade) shows
//! both sides.
//!
//! Invariant: until the older master has let go, it owns the lock, files, sockets and the
//! connection to systemd.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::upgrade::{PREPARED, SERVING, YOURS};
use frs_base::clock;
use frs_base::sys::process::{self, Channel, Delivery, PollFd, PollFlags};

/// Time limit for the older master's answer.
const ANSWER: Duration = Duration::from_secs(10);

/// The older master, before it has let go.
pub(super) struct OlderMaster {
    channel: Channel,
    /// Whether this master has reported that its processes serve.
    said_serving: bool,
}

impl OlderMaster {
    /// Asks for the server, once nothing is left that this binary could fail at. If the older
    /// master has died, the server also passes to this one.
    pub fn ask(channel: Channel) -> io::Result<OlderMaster> {
        channel.send(PREPARED, &[]).or_else(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Ok(true),
            _ => Err(error),
        })?;
        let until = clock::instant() + ANSWER;
        loop {
            match channel.receive()? {
                Delivery::Message(word, _) if word != YOURS => {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                Delivery::Message(..) | Delivery::Closed => {
                    return Ok(OlderMaster { channel, said_serving: false });
                }
                Delivery::Nothing => {}
            }
            let left = until.saturating_duration_since(clock::instant());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            process::poll(&mut [PollFd::new(channel.as_fd(), PollFlags::POLLIN)], Some(left))?;
        }
    }

    /// The descriptor to wait on.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }

    /// Reports once that all processes of this master serve.
    pub fn say_serving(&mut self) {
        if !std::mem::replace(&mut self.said_serving, true) {
            let said = self.channel.send(SERVING, &[]);
            tracing::debug!(?said, "this master's processes serve");
        }
    }

    /// Whether the older master has let go or died.
    pub fn has_let_go(&self) -> bool {
        !matches!(self.channel.receive(), Ok(Delivery::Nothing))
    }
}
