//! The server's processes: receives their messages and carries out supervision's orders.
//!
//! Invariant: only [`supervise`](super::supervise) decides what is done. A child that is stopped
//! neither blocks the master nor loses a message.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::supervise::{ChildRequest, Event, Needs, Order, Supervisor};
use crate::process::child::ChildRole;
use crate::process::message::{ChildChannel, MovedGroup, ToChild, ToMaster};
use frs_base::clock;
use frs_base::sys::process::{
    self, Channel, ChildChange, Exit, Forked, Pid, PollFd, PollFlags, Signal,
};
use frs_conf::{EpochRaise, Srv};
use frs_store::{Runtime, SlotStatus};

/// Messages of one child that are received before anything else is done.
const MESSAGES_PER_TICK: usize = 256;

/// The children and their supervision.
pub(super) struct Children {
    pub supervisor: Supervisor,
    channels: BTreeMap<Pid, ChildChannel>,
    origin: Instant,
}

/// Reports of children to the master.
#[derive(Default)]
pub(super) struct ChildReports {
    /// Resets of other machines, reported by the cluster's child.
    pub raises: Vec<EpochRaise>,
    /// A group whose nodes have all moved, as the keeper reports.
    pub moved: Option<MovedGroup>,
}

/// The state of a child that was just forked, in that child.
pub(super) struct NewChild {
    pub role: ChildRole,
    pub sets: BTreeSet<u16>,
    pub channel: Channel,
    /// The keeper's connection for requests of the admin plane.
    pub control: Option<UnixStream>,
    pub master: Pid,
}

/// The process in which a fork returned.
pub(super) enum Spawned {
    /// With the master's end of the keeper's connection for requests.
    Parent(Event, Option<UnixStream>),
    Child(NewChild),
}

impl Children {
    /// The processes that a server of this configuration needs, none of them started.
    pub fn new(srv: &Srv, now: Instant) -> Children {
        let supervisor = Supervisor::new(Needs {
            workers: srv.workers,
            cluster: srv.has_mailboxes(),
            envoy: srv.rls.is_some(),
            last_pass: srv.data.checkpoint.is_some(),
        });
        Children { supervisor, channels: BTreeMap::new(), origin: now }
    }

    /// Whether the end was requested.
    pub fn is_ending(&self) -> bool {
        self.supervisor.is_ending()
    }

    /// The time until supervision is due if no event comes first.
    pub fn due(&self) -> Option<Duration> {
        let now_ms = self.now_ms();
        let due_ms = self.supervisor.due_ms().map(|due_ms| due_ms.saturating_sub(now_ms));
        due_ms.map(Duration::from_millis)
    }

    fn now_ms(&self) -> u64 {
        clock::since(self.origin).as_millis() as u64
    }

    /// The descriptors to wait on, for the children's messages, and for room where messages did not
    /// fit.
    pub fn fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.channels.values().map(|channel| {
            let room = if channel.is_full() { PollFlags::POLLOUT } else { PollFlags::empty() };
            PollFd::new(channel.channel().as_fd(), PollFlags::POLLIN | room)
        })
    }

    /// Receives the messages of all children; returns the reports among them.
    pub fn receive(&mut self, events: &mut VecDeque<Event>) -> ChildReports {
        let mut reports = ChildReports::default();
        for (&pid, channel) in &mut self.channels {
            let messages = std::iter::from_fn(|| channel.receive()).take(MESSAGES_PER_TICK);
            for message in messages {
                match message {
                    ToMaster::Ready => events.push_back(Event::Ready(pid)),
                    ToMaster::Announced { has_round } => {
                        events.push_back(Event::Announced { has_round });
                    }
                    ToMaster::Follow(raise) => reports.raises.push(raise),
                    ToMaster::Moved(moved) => reports.moved = Some(moved),
                }
            }
            if let Err(error) = channel.flush() {
                tracing::debug!(%error, child = %pid, "cannot speak to a child");
            }
        }
        reports
    }

    /// The event for a change of a process; none if the process is not a supervised child.
    pub fn note_change(&mut self, pid: Pid, change: ChildChange) -> Option<Event> {
        let processes = self.supervisor.processes();
        let process = processes.iter().find(|process| process.pid == pid)?;
        let role = process.role;
        Some(match change {
            ChildChange::Ended(exit) => {
                let expected = process.leaving || self.supervisor.is_ending();
                if expected && exit == Exit::Status(0) {
                    tracing::info!(child = %pid, "{role} has ended");
                } else {
                    tracing::warn!(child = %pid, %exit, "{role} died");
                }
                self.channels.remove(&pid);
                Event::Ended(pid, exit)
            }
            ChildChange::Stopped => {
                match role {
                    ChildRole::Worker(_) => tracing::warn!(
                        child = %pid,
                        "{role} was stopped; another worker serves its queue"
                    ),
                    _ => tracing::warn!(child = %pid, "{role} was stopped"),
                }
                Event::Stopped(pid)
            }
            ChildChange::Continued => {
                tracing::info!(child = %pid, "{role} continues");
                Event::Continued(pid)
            }
        })
    }

    /// Asks supervision for orders. Restarts are counted in `runtime`, unless that is damaged.
    pub fn decide(&mut self, event: Event, runtime: Option<&Runtime>) -> Vec<Order> {
        let (mut orders, restarts) = (Vec::new(), self.supervisor.restarts());
        let role = match event {
            Event::Ended(pid, _) => self.supervisor.role_of(pid),
            _ => None,
        };
        if let (Event::Spawned(role, pid), Some(runtime)) = (event, runtime) {
            runtime.set_place(role.place(), pid.as_raw() as u32);
        }
        let now_ms = self.now_ms();
        self.supervisor.decide(event, now_ms, &mut orders);
        if let (Some(role), Some(runtime)) = (role, runtime)
            && self.supervisor.restarts() > restarts
        {
            runtime.count_restart(role.place());
        }
        orders
    }

    /// Forks a child.
    pub fn spawn(&mut self, role: ChildRole, sets: BTreeSet<u16>) -> io::Result<Spawned> {
        let (ours, channel) = Channel::pair()?;
        let plane = (role == ChildRole::Keeper).then(UnixStream::pair).transpose()?;
        let (plane, control) = plane.unzip();
        let master = Pid::this();
        match process::fork()? {
            Forked::Child => Ok(Spawned::Child(NewChild { role, sets, channel, control, master })),
            Forked::Parent(pid) => {
                tracing::info!(child = %pid, "{role} started");
                self.channels.insert(pid, ChildChannel::new(ours));
                Ok(Spawned::Parent(Event::Spawned(role, pid), plane))
            }
        }
    }

    /// Asks a child to end, or kills it.
    pub fn ask(&mut self, pid: Pid, request: ChildRequest) {
        let signal = match request {
            ChildRequest::Leave => return self.say(pid, ToChild::Leave),
            ChildRequest::LastPass => return self.say(pid, ToChild::LastPass),
            ChildRequest::Announce => return self.say(pid, ToChild::Announce),
            ChildRequest::Finish => Signal::SIGTERM,
            ChildRequest::Drain => Signal::SIGQUIT,
            ChildRequest::Kill => Signal::SIGKILL,
        };
        if request == ChildRequest::Kill {
            tracing::warn!(child = %pid, "killed a process that did not end");
        }
        if let Err(error) = process::signal(pid, signal) {
            tracing::warn!(%error, child = %pid, %signal, "cannot signal a child");
        }
    }

    /// Sends a message without descriptors to a child.
    pub fn say(&mut self, pid: Pid, message: ToChild) {
        self.send(pid, message, Vec::new());
    }

    /// Sends a message to all children.
    pub fn say_all(&mut self, message: ToChild) {
        let children: Vec<Pid> = self.channels.keys().copied().collect();
        children.into_iter().for_each(|pid| self.say(pid, message));
    }

    /// Sends a message to a child.
    pub fn send(&mut self, pid: Pid, message: ToChild, descriptors: Vec<RawFd>) {
        let Some(channel) = self.channels.get_mut(&pid) else { return };
        if let Err(error) = channel.send(message, descriptors) {
            // The child has just died. It is replaced when it is reaped.
            tracing::debug!(%error, child = %pid, "cannot speak to a child");
        }
    }

    /// Drops listeners that no child has taken yet, so that they can be closed.
    pub fn forget_listeners(&mut self) {
        self.channels.values_mut().for_each(ChildChannel::forget_listeners);
    }

    /// The attached processes that have not acknowledged a generation. A process that has yet to
    /// attach begins with that generation, and one that leaves does not matter.
    pub fn laggards(&self, slots: &[SlotStatus], generation: u64) -> Vec<String> {
        let behind = |pid: Pid| {
            let mut own = slots.iter().filter(|slot| slot.pid == pid.as_raw() as u32);
            own.any(|slot| slot.generation < generation)
        };
        let staying = self.supervisor.processes().iter().filter(|process| !process.leaving);
        let behind = staying.filter(|process| behind(process.pid));
        behind.map(|process| format!("{} (process {})", process.role, process.pid)).collect()
    }
}
