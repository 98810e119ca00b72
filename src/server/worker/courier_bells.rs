//! The doorbells between a worker and the courier.
//!
//! Invariant: no ring is lost. The worker first marks itself as asleep, then checks once more
//! whether the leases that its clients wait for have come (store/watch/mailbox/doorbell.rs).

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
    /// The bells of the worker in this slot. The worker's own bell is polled with `token`.
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

    /// Rings the courier after the worker has published a want.
    pub fn call(&self, service: &Service) {
        self.courier.ring(service.handle().runtime().workers_bell());
    }

    /// Marks the worker as asleep. The caller then checks once more for work before it sleeps.
    pub fn lie_down(&self, service: &Service) {
        if let Some(wants) = service.handle().wants() {
            wants.bell().lie_down();
        }
    }

    /// Marks the worker as awake, whether or not it slept.
    pub fn get_up(&self, service: &Service) -> io::Result<()> {
        if let Some(wants) = service.handle().wants() {
            wants.bell().get_up();
        }
        self.own.drain().map(drop)
    }
}
