//! Supervision: passes events to the supervisor and carries out its orders.
//!
//! Invariant: a forked child keeps nothing of the master but what is named here.

use std::collections::VecDeque;

use super::Master;
use crate::master::children::{NewChild, Spawned};
use crate::master::files;
use crate::master::in_force::Boards;
use crate::master::supervise::{Event, Order};
use crate::net::listeners::ListenerShare;
use crate::process::child::{ChildRole, ForkedChild, Inheritance};
use crate::process::message::ToChild;
use frs_base::clock;
use frs_base::sys::process::{ChildChange, Pid};

impl Master {
    pub(super) fn take_change(
        &mut self,
        pid: Pid,
        change: ChildChange,
        events: &mut VecDeque<Event>,
    ) {
        if let ChildChange::Ended(exit) = change {
            self.reloads.note_end(pid, exit);
        }
        let Some(event) = self.children.note_change(pid, change) else { return };
        if matches!(event, Event::Ended(..)) {
            // A damaged file may have caused the death.
            self.files.next = clock::instant();
        }
        events.push_back(event);
    }

    /// Passes an event to the supervisor and carries out its orders and those that follow from
    /// them. In a new child it returns that child.
    pub(super) fn tell(&mut self, event: Event) -> Option<NewChild> {
        let mut orders = VecDeque::from(self.decide(event));
        while let Some(order) = orders.pop_front() {
            let Order::Spawn(role, sets) = order else {
                self.carry_out(order);
                continue;
            };
            let event = match self.children.spawn(role, sets) {
                Ok(Spawned::Parent(event, plane)) => {
                    plane.into_iter().for_each(|plane| self.control.add(plane, None));
                    event
                }
                Ok(Spawned::Child(child)) => return Some(child),
                Err(error) => {
                    tracing::error!(%error, "cannot start {role}");
                    Event::SpawnFailed(role)
                }
            };
            orders.extend(self.decide(event));
        }
        None
    }

    fn decide(&mut self, event: Event) -> Vec<Order> {
        // A damaged runtime.mmap is not touched.
        let runtime = self.failure.is_none().then_some(self.in_force.runtime());
        self.children.decide(event, runtime)
    }

    fn carry_out(&mut self, order: Order) {
        match order {
            Order::Spawn(..) => {}
            Order::Ask(pid, request) => self.children.ask(pid, request),
            Order::Serve(pid, set) => {
                self.children.send(pid, ToChild::Serve(set), self.listeners.set_fds(set));
            }
            Order::Yield(pid, set) => self.children.say(pid, ToChild::Yield(set)),
            Order::Recover(pid) => self.children.say(pid, ToChild::Recover),
            // A damaged runtime.mmap is the known cause of the signal, and no group needs a check.
            Order::CheckLengths if self.failure.is_some() => {}
            Order::CheckLengths => files::check_lengths(self.in_force.conf()),
            Order::End => self.is_over = true,
        }
    }

    /// Drops the rest of the master, which closes its descriptors.
    pub(super) fn into_forked_child(self, child: NewChild) -> ForkedChild {
        let (bells, secrets) = self.cluster.map(|ties| (ties.bells, ties.secrets)).unzip();
        let data_dir = self.in_force.data_dir().to_owned();
        let Boards { tokens, tls } = self.in_force.into_boards();
        let inherited = Inheritance {
            channel: child.channel,
            control: child.control,
            share: match child.role {
                ChildRole::Worker(_) => self.listeners.into_share(&child.sets),
                ChildRole::Keeper => self.listeners.into_admin_share(),
                ChildRole::Envoy => self.listeners.into_envoy_share(),
                ChildRole::Cluster => ListenerShare::default(),
            },
            data_dir,
            tokens,
            tls: match child.role {
                ChildRole::Worker(_) => Some(tls.into_worker_share()),
                ChildRole::Keeper => Some(tls.into_keeper_share()),
                ChildRole::Envoy => Some(tls.into_envoy_share()),
                ChildRole::Cluster => None,
            },
            conf_dir: self.conf_dir,
            master: child.master,
            bells: bells
                .filter(|_| matches!(child.role, ChildRole::Worker(_) | ChildRole::Cluster)),
            secrets: secrets.filter(|_| child.role == ChildRole::Cluster).map(Box::new),
        };
        ForkedChild { role: child.role, account: self.account, inherited }
    }
}
