//! The doorbells between a worker and the reader of its mailbox.
//!
//! Invariant: no ring is lost. The worker first marks itself as asleep, then checks once more
//! whether replies that its clients wait for have come (store/watch/mailbox/doorbell.rs).

use std::io;

use crate::process::bells::WorkerBells;
use frs_engine::Service;

impl WorkerBells {
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
