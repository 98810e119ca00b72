//! The doorbells between a worker and the reader of its mailbox.
//!
//! Invariant: no ring is lost. The worker first marks itself as asleep, then checks once more
//! whether replies that its clients wait for have come (store/watch/mailbox/doorbell.rs).

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};

use crate::process::bells::{Bells, WorkerBells};
use frs_engine::Service;
use frs_store::EventBell;

/// The bells of a worker.
#[derive(Debug)]
pub struct MailboxBells {
    reader: EventBell,
    own: EventBell,
}

impl MailboxBells {
    /// The bells of the worker in this slot. The worker's own bell is polled with `token`.
    pub fn of_worker(
        bells: Bells,
        slot: u32,
        registry: &Registry,
        token: Token,
    ) -> io::Result<Option<MailboxBells>> {
        let Some(WorkerBells { reader, own }) = bells.into_worker_bells(slot) else {
            return Ok(None);
        };
        registry.register(&mut SourceFd(&own.as_fd().as_raw_fd()), token, Interest::READABLE)?;
        Ok(Some(MailboxBells { reader, own }))
    }

    /// Rings the reader after the worker has pushed a letter.
    pub fn call(&self, service: &Service) {
        self.reader.ring(service.handle().runtime().workers_bell());
    }

    /// Marks the worker as asleep. The caller then checks once more for work before it sleeps.
    pub fn mark_asleep(&self, service: &Service) {
        if let Some(mailbox) = service.handle().mailbox() {
            mailbox.bell().lie_down();
        }
    }

    /// Marks the worker as awake, whether or not it slept.
    pub fn mark_awake(&self, service: &Service) -> io::Result<()> {
        if let Some(mailbox) = service.handle().mailbox() {
            mailbox.bell().get_up();
        }
        self.own.drain().map(drop)
    }
}
