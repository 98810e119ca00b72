//! The doorbells between workers and the reader of the mailboxes.
//!
//! Invariant: all processes of a server have the same bells, including the readers and workers of
//! both binaries of an upgrade. Each slot has a bell for its worker. So no two living processes
//! sleep by the same bell, and the reader finds the bell from the slot of a letter.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use frs_store::{EventBell, Runtime};

/// The bells of a server that has a cluster.
#[derive(Debug)]
pub struct Bells {
    /// Wakes the reader.
    pub reader: EventBell,
    /// Wakes the owner of a slot.
    slots: Vec<EventBell>,
}

/// The bells that a worker needs.
#[derive(Debug)]
pub struct WorkerBells {
    /// Wakes the reader.
    pub reader: EventBell,
    /// Wakes this worker.
    pub own: EventBell,
}

impl Bells {
    /// Makes new bells. The master calls this before its first fork.
    pub fn new() -> io::Result<Bells> {
        let slots = (0..Runtime::SLOTS).map(|_| EventBell::new()).collect::<io::Result<_>>()?;
        Ok(Bells { reader: EventBell::new()?, slots })
    }

    /// Takes the bells that an older master handed over, in the order of [`Bells::fds`]. Returns
    /// `None` if it handed over none.
    pub fn adopt(events: Vec<OwnedFd>) -> io::Result<Option<Bells>> {
        let mut bells = events.into_iter().map(EventBell::from);
        let Some(reader) = bells.next() else { return Ok(None) };
        let slots: Vec<EventBell> = bells.collect();
        if slots.len() != Runtime::SLOTS {
            return Err(io::Error::other(format!("{} doorbells of slots", slots.len())));
        }
        Ok(Some(Bells { reader, slots }))
    }

    /// All descriptors, in order, to be handed over.
    pub fn fds(&self) -> Vec<BorrowedFd<'_>> {
        std::iter::once(&self.reader).chain(&self.slots).map(AsFd::as_fd).collect()
    }

    /// The bell of the worker in this slot.
    pub fn of_slot(&self, slot: u32) -> Option<&EventBell> {
        self.slots.get(slot as usize)
    }

    /// Keeps the bells that the worker in this slot needs, and closes the others.
    pub fn into_worker_bells(mut self, slot: u32) -> Option<WorkerBells> {
        let own =
            ((slot as usize) < self.slots.len()).then(|| self.slots.swap_remove(slot as usize));
        Some(WorkerBells { reader: self.reader, own: own? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_handed_over_are_the_same_bells() {
        let bells = Bells::new().expect("made");
        let copies = bells.fds().into_iter().map(|fd| fd.try_clone_to_owned());
        let copies: Vec<OwnedFd> = copies.collect::<io::Result<_>>().expect("copied");
        let adopted = Bells::adopt(copies).expect("complete").expect("there");
        ring(adopted.of_slot(7).expect("a slot"));
        let is_rung = |bell: Option<&EventBell>| bell.expect("a slot").drain().expect("read");
        assert!(!is_rung(bells.of_slot(6)) && is_rung(bells.of_slot(7)));
        ring(&adopted.reader);
        assert!(bells.reader.drain().expect("read"));
        let worker = adopted.into_worker_bells(9).expect("a slot");
        ring(&worker.own);
        assert!(is_rung(bells.of_slot(9)) && !is_rung(bells.of_slot(255)));
    }

    #[test]
    fn no_bells_are_none_and_too_few_are_refused() {
        assert!(Bells::adopt(Vec::new()).expect("none").is_none());
        let bell = EventBell::new().expect("made");
        let one = bell.as_fd().try_clone_to_owned().expect("copied");
        assert!(Bells::adopt(vec![one]).is_err());
        let bells = Bells::new().expect("made");
        assert!(bells.of_slot(256).is_none() && bells.into_worker_bells(256).is_none());
    }

    /// Rings the bell as a peer does when the owner sleeps.
    fn ring(bell: &EventBell) {
        let file = std::fs::File::from(bell.as_fd().try_clone_to_owned().expect("copied"));
        io::Write::write_all(&mut &file, &1u64.to_ne_bytes()).expect("written");
    }
}
