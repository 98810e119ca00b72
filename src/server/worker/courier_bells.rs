//! How a worker calls the courier, and is called by it.
//!
//! Invariant: no call is lost. The worker says that it sleeps before it looks once more whether
//! what its clients wait for has come (store/doorbell.rs). One of an earlier server may be called
//! by the number of another worker, so no sleep with something parked is longer than
//! [`LOOK_MS`].

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};

use crate::process::bells::Bells;
use frs::service::Service;
use frs::store::EventBell;

/// The longest sleep while a client waits for a lease.
pub const LOOK_MS: u64 = 50;

/// The bells of a worker.
#[derive(Debug)]
pub struct CourierBells {
    courier: EventBell,
    own: EventBell,
}

impl CourierBells {
    /// Those of the worker of this number, whose own one is polled under this token.
    pub fn of_worker(
        bells: Bells,
        number: u16,
        registry: &Registry,
        token: Token,
    ) -> io::Result<Option<CourierBells>> {
        let Bells { courier, workers } = bells;
        let Some(own) = workers.into_iter().nth(number.into()) else { return Ok(None) };
        registry.register(&mut SourceFd(&own.as_fd().as_raw_fd()), token, Interest::READABLE)?;
        Ok(Some(CourierBells { courier, own }))
    }

    /// The courier is called: something was asked.
    pub fn call(&self, service: &Service) {
        self.courier.ring(service.handle().runtime().workers_bell());
    }

    /// The worker is about to sleep. Afterwards it looks once more for what it waits for.
    pub fn lie_down(&self, service: &Service) {
        if let Some(wants) = service.handle().wants() {
            wants.bell().lie_down();
        }
    }

    /// The worker has been woken, or has not slept.
    pub fn get_up(&self, service: &Service) -> io::Result<()> {
        if let Some(wants) = service.handle().wants() {
            wants.bell().get_up();
        }
        self.own.drain().map(drop)
    }
}
