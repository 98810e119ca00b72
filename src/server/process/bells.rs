//! The doorbells of a host with a cluster: eventfds by which workers wake the courier, and the
//! courier wakes workers.
//!
//! Invariant: the master makes them before it forks whoever sleeps or rings, and keeps them as long
//! as it has a cluster. A new binary gets them, so couriers and workers of both masters wake each
//! other during an upgrade. Then two workers of one number sleep with one bell: each registers it
//! edge-triggered and never reads it, as one that read it could take the other's call.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use frs::store::EventBell;

/// The bells of a host.
#[derive(Debug)]
pub struct Bells {
    /// Rung by workers.
    pub courier: EventBell,
    /// Rung by the courier: the workers' by their numbers.
    pub workers: Vec<EventBell>,
}

impl Bells {
    /// New ones, for this many workers.
    pub fn new(workers: u16) -> io::Result<Bells> {
        let mut bells = Bells { courier: EventBell::new()?, workers: Vec::new() };
        bells.grow(workers)?;
        Ok(bells)
    }

    /// Makes bells for more workers; whether it had to.
    pub fn grow(&mut self, workers: u16) -> io::Result<bool> {
        let before = self.workers.len();
        while self.workers.len() < usize::from(workers) {
            self.workers.push(EventBell::new()?);
        }
        Ok(self.workers.len() > before)
    }

    /// All of them, to be handed over: the courier's is first.
    pub fn all(&self) -> Vec<BorrowedFd<'_>> {
        std::iter::once(&self.courier).chain(&self.workers).map(AsFd::as_fd).collect()
    }

    /// As an older master handed them over; none: it had none.
    pub fn of_all(all: impl IntoIterator<Item = OwnedFd>) -> Option<Bells> {
        let mut all = all.into_iter().map(EventBell::from);
        Some(Bells { courier: all.next()?, workers: all.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frs::base::sys::process::{PollFd, PollFlags, poll};
    use frs::store::Runtime;
    use std::time::Duration;

    fn is_rung(bell: &EventBell) -> bool {
        let mut fds = [PollFd::new(bell.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, Some(Duration::ZERO)).expect("polled");
        fds[0].any().unwrap_or(false)
    }

    #[test]
    fn bells_that_were_handed_over_wake_the_same_sleepers() {
        let dir = tempfile::tempdir().expect("a directory");
        let runtime = Runtime::create_or_open(dir.path()).expect("made");
        let mut bells = Bells::new(2).expect("made");
        let copies = bells.all().into_iter().map(|fd| fd.try_clone_to_owned().expect("copied"));
        let theirs = Bells::of_all(copies.collect::<Vec<_>>()).expect("handed over");
        assert_eq!(theirs.workers.len(), 2);
        runtime.workers_bell().lie_down();
        assert!(theirs.courier.ring(runtime.workers_bell()));
        assert!(is_rung(&bells.courier) && !is_rung(&bells.workers[0]));
        assert!(bells.workers[1].ring(runtime.workers_bell()) && is_rung(&theirs.workers[1]));
        assert!(!bells.grow(1).expect("none is needed") && bells.grow(3).expect("grown"));
        assert_eq!((bells.workers.len(), bells.all().len()), (3, 4));
        assert!(Bells::of_all([]).is_none());
    }
}
