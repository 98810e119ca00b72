//! How a worker calls the courier, and is called by it.
//!
//! Invariant: no call is lost. The worker says that it sleeps before it looks once more whether
//! what its clients wait for has come (store/watch/mailbox/doorbell.rs).

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};

use crate::process::bells::{Bells, WorkerBells};
use frs_engine::Service;
use frs_store::EventBell;

/// The bells of a worker.
#[derive(Debug)]
pub struct CourierBells {
    courier: EventBell,
    own: EventBell,
}

impl CourierBells {
    /// Those of the worker in this slot, whose own one is polled under this token.
    pub fn of_worker(
        bells: Bells,
        slot: u32,
        registry: &Registry,
        token: Token,
    ) -> io::Result<Option<CourierBells>> {
        let Some(WorkerBells { courier, own }) = bells.into_worker_bells(slot) else {
            return Ok(None);
        };
        registry.register(&mut SourceFd(&own.as_fd().as_raw_fd()), token, Interest::READABLE)?;
        Ok(Some(CourierBells { courier, own }))
    }

    /// The courier is called: something was asked.
    pub fn call(&self, service: &Service) {
        self.courier.ring(service.handle().runtime().workers_bell());
    }

    /// The worker is about to sleep. Afterwards it looks once more for what it waits for.
    pub fn lie_down(&self, service: &Service) {
        if let Some(mailbox) = service.handle().mailbox() {
            mailbox.bell().lie_down();
        }
    }

    /// The worker has been woken, or has not slept.
    pub fn get_up(&self, service: &Service) -> io::Result<()> {
        if let Some(mailbox) = service.handle().mailbox() {
            mailbox.bell().get_up();
        }
        self.own.drain().map(drop)
    }
}
