//! The events that are possible next, and their effects.
//!
//! Invariant: an event does what one call of a host, the network or the ledger does.

use frs_cluster::lease::{Keep, Lease};

use super::super::search;
use super::{Answered, Claiming, Directory, Host, Left, Rule, World};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    Tick,
    Use(usize),
    Force(usize),
    GiveBack(usize),
    Ask(usize),
    Repeat(usize),
    TimeOut(usize),
    Recall(usize),
    ReturnIdle(usize),
    Deliver(usize),
    Hear(usize),
    Evict(usize),
    Lose(usize),
    Save(usize),
    Restore(usize),
    Replicate,
    FailOver,
    Flush,
    Notice(usize),
}

impl search::World for World {
    type Event = Event;

    fn events(&self, into: &mut Vec<Event>) {
        let Left { binds, repeats, recalls, forced, returns, .. } = self.left;
        let Left { evictions, losses, restores, replications, failovers, .. } = self.left;
        if self.tick < self.bounds.ticks && self.may_tick() {
            into.push(Event::Tick);
        }
        for nth in 0..self.bounds.hosts {
            let (host, node, now_ms) = (&self.hosts[nth], self.node(nth), self.boot_ms(nth));
            let mut push = |can: bool, event: Event| {
                if can {
                    into.push(event);
                }
            };
            let lease: Lease = node.lease;
            let unspent = node.unspent(now_ms);
            let is_there = host.node.is_some();
            push(unspent >= self.bounds.need, Event::Use(nth));
            push(forced > 0, Event::Force(nth));
            let takes_back = node.takes_back(&self.bounds.kind, 1, now_ms);
            push(returns > 0 && takes_back, Event::GiveBack(nth));
            let lacks = unspent < self.bounds.need || node.must_report(now_ms);
            push(binds > 0 && !lease.in_flight && lacks, Event::Ask(nth));
            push(repeats > 0 && lease.in_flight, Event::Repeat(nth));
            let times_out = self.is_without(Rule::KeepTheMark) && lease.in_flight;
            push(times_out, Event::TimeOut(nth));
            push(recalls > 0 && is_there, Event::Recall(nth));
            push(recalls > 0 && unspent > 0 && !lease.in_flight, Event::ReturnIdle(nth));
            let may_go = node.is_evictable(now_ms)
                || self.is_without(Rule::KeepLeasedNodes) && !lease.in_flight
                || self.is_without(Rule::KeepMarkedNodes) && !node.is_live(now_ms)
                || self.is_without(Rule::KeepUntilTheTurn)
                    && !lease.in_flight
                    && !node.is_live(now_ms);
            push(evictions > 0 && is_there && may_go, Event::Evict(nth));
            push(losses > 0 && is_there, Event::Lose(nth));
            push(restores > 0 && is_there && host.saved.is_none(), Event::Save(nth));
            push(restores > 0 && host.saved.is_some(), Event::Restore(nth));
            push(host.claiming == Claiming::Due, Event::Notice(nth));
        }
        let doubles = self.left.doubles;
        let may_come = |nth: &usize| doubles > 0 || !self.sent[*nth].is_delivered;
        into.extend((0..self.sent.len()).filter(may_come).map(Event::Deliver));
        into.extend((0..self.answers.len()).map(Event::Hear));
        if failovers > 0 {
            into.extend([Event::FailOver, Event::Flush]);
        }
        if failovers > 0 && replications > 0 {
            into.push(Event::Replicate);
        }
    }

    fn after(&self, event: Event) -> World {
        let mut world = self.clone();
        let left = &mut world.left;
        let (tick, need) = (usize::from(self.tick), self.bounds.need);
        match event {
            Event::Tick => world.tick(),
            Event::Use(host) => {
                world.admitted[tick] += need as i8;
                world.windows |= 1 << world.tick_of(world.node(host).lease.window).min(15);
                world.admit(host, |node, now_ms| node.spend(need, now_ms));
            }
            Event::Force(host) => {
                left.forced -= 1;
                world.admitted[tick] += 1;
                world.forced[tick] += 1;
                let kind = world.bounds.kind;
                world.admit(host, |node, now_ms| node.overspend(&kind, 1, now_ms));
            }
            Event::GiveBack(host) => {
                left.returns -= 1;
                // Uses in the logs of other hosts count until those hosts have removed them.
                if !self.is_sliding() {
                    world.admitted[tick] -= 1;
                } else if self.logged(host) > 0 {
                    world.take_out_the_last_use();
                } else {
                    world.given_back += 1;
                }
                let kind = world.bounds.kind;
                world.admit(host, |node, now_ms| node.return_uses(&kind, 1, now_ms));
            }
            Event::Ask(host) => {
                left.binds -= 1;
                let lacks = need.saturating_sub(self.node(host).unspent(self.boot_ms(host)));
                world.bind(host, Keep::All, lacks);
            }
            Event::Repeat(host) => {
                left.repeats -= 1;
                world.repeat(host, need);
            }
            Event::TimeOut(host) => {
                let mut node = world.node(host);
                node.lease.in_flight = false;
                world.put(host, node);
                world.hosts[host].timed_out = true;
            }
            Event::Recall(host) => {
                left.recalls -= 1;
                world.bind(host, Keep::Quarter, 0);
            }
            Event::ReturnIdle(host) => {
                left.recalls -= 1;
                world.bind(host, Keep::Reserved, 0);
            }
            Event::Deliver(nth) => world.deliver(nth),
            Event::Hear(nth) => world.apply(nth),
            Event::Evict(host) => {
                left.evictions -= 1;
                world.hosts[host].node = None;
                world.hosts[host].log = [0; super::TICKS];
            }
            Event::Lose(host) => {
                left.losses -= 1;
                world.lose(host);
            }
            Event::Save(host) => {
                let Host { seq, node, log, .. } = world.hosts[host];
                world.hosts[host].saved = Some(Directory { seq, node, log });
            }
            Event::Restore(host) => {
                left.restores -= 1;
                world.restore(host);
            }
            Event::Replicate => {
                left.replications -= 1;
                world.replica = self.ledger.clone();
            }
            Event::FailOver => world.fail_over(self.replica.clone()),
            Event::Flush => {
                world.flush();
            }
            Event::Notice(host) => world.notice(host),
        }
        world
    }

    fn fault(&self) -> Option<String> {
        let fault = self.fault.map(str::to_owned);
        fault
            .or_else(|| self.too_many())
            .or_else(|| self.not_debited())
            .or_else(|| self.counted_unused())
    }

    fn tell(&self, event: Event) -> String {
        let told = match event {
            Event::Deliver(nth) => format!("Deliver {:?}", self.sent[nth].take),
            Event::Hear(nth) => {
                let Answered { take, taken, .. } = self.answers[nth];
                format!("Hear {}/{}: {taken:?}", take.host, take.seq)
            }
            event => format!("{event:?}"),
        };
        format!("{:2} {told}", self.tick)
    }
}
