//! Some hosts, a network and a ledger, and everything that can happen to them.
//!
//! Invariant: hosts do what the functions of `frs_cluster::lease` do, and nothing else, but for the
//! one rule that a world may be made without.
//!
//! A message that was sent stays in the network. It may be delivered at any time, several times, in
//! any order or never, and so may each answer. A process that dies between a binding and the
//! sending is a message that is never delivered. The clocks of the hosts differ by whole hours,
//! because CLOCK_BOOTTIME has no common zero.

mod bounds;
mod events;
mod invariants;

use std::rc::Rc;

use frs_cluster::lease::{Binding, Holding, Keep, Kind, Received, Settings, Take, Taken};

use super::super::ledger::Ledger;
use super::search;

pub use bounds::{Bounds, Rule};

/// The most hosts.
const HOSTS: usize = 3;

/// The most ticks of a world.
const TICKS: usize = 12;

const START_MS: u64 = 86_400_000;

/// Whether the host has claimed its holdings from the new master.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Claiming {
    Done,
    Due,
    Sent { seq: u64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Host {
    incarnation: u64,
    /// The last seq that was given, in runtime.mmap.
    seq: u64,
    node: Option<Holding>,
    /// For sliding limits: the uses of each tick.
    log: [u8; TICKS],
    saved: Option<Directory>,
    claiming: Claiming,
    /// A timeout has ended the node's in-flight mark, in a world without that rule.
    timed_out: bool,
}

/// A copy of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Directory {
    seq: u64,
    log: [u8; TICKS],
    node: Option<Holding>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Sent {
    order: u64,
    take: Take,
    settings: Settings,
    is_delivered: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Answered {
    order: u64,
    take: Take,
    taken: Taken,
    learning_ms: u64,
}

/// How often each bounded event may still happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Left {
    binds: u8,
    doubles: u8,
    repeats: u8,
    recalls: u8,
    forced: u8,
    returns: u8,
    evictions: u8,
    losses: u8,
    restores: u8,
    replications: u8,
    failovers: u8,
}

/// A world. All states of a search share the bounds.
#[derive(Debug, Clone, Hash)]
pub struct World {
    bounds: Rc<Bounds>,
    left: Left,
    tick: u8,
    ledger: Ledger,
    /// The tick in which the ledger's master became one.
    born: u8,
    /// The replica's state. It may become the master's.
    replica: Ledger,
    hosts: [Host; HOSTS],
    sent: Vec<Sent>,
    answers: Vec<Answered>,
    /// The uses admitted in each tick, with forced uses and without returned ones.
    admitted: [i8; TICKS],
    /// The forced uses among them.
    forced: [u8; TICKS],
    /// For sliding limits: returned uses that other hosts still have in their logs.
    given_back: u8,
    /// A bit for each tick in which a window began that admitted something.
    windows: u16,
    /// Uses of lost nodes.
    lost: u8,
    /// Forced uses that the ledger may never learn of, because their node is lost.
    unreported: u8,
    fault: Option<&'static str>,
}

impl World {
    /// A world in which nothing has happened yet.
    pub fn new(bounds: Bounds) -> World {
        let ledger_rule = match bounds.without {
            Some(Rule::Ledger(rule)) => Some(rule),
            _ => None,
        };
        let learn_ms = if bounds.without == Some(Rule::Learn) { 0 } else { bounds.learn_ms };
        let mut ledger = Ledger::without(learn_ms, ledger_rule);
        // The first master has learned before the world begins.
        ledger.learning_ms(START_MS - learn_ms);
        let host = |nth: usize| Host {
            incarnation: 1 + nth as u64,
            seq: 0,
            node: None,
            log: [0; TICKS],
            saved: None,
            claiming: Claiming::Done,
            timed_out: false,
        };
        let Bounds { binds, doubles, repeats, recalls, forced, returns, .. } = bounds;
        let Bounds { evictions, losses, restores, replications, failovers, .. } = bounds;
        let left = Left {
            binds,
            doubles,
            repeats,
            recalls,
            forced,
            returns,
            evictions,
            losses,
            restores,
            replications,
            failovers,
        };
        World {
            bounds: Rc::new(bounds),
            left,
            tick: 0,
            replica: Ledger::without(learn_ms, ledger_rule),
            ledger,
            born: 0,
            hosts: std::array::from_fn(host),
            sent: Vec::new(),
            answers: Vec::new(),
            admitted: [0; TICKS],
            given_back: 0,
            forced: [0; TICKS],
            windows: 0,
            lost: 0,
            unreported: 0,
            fault: None,
        }
    }

    fn is_without(&self, rule: Rule) -> bool {
        self.bounds.without == Some(rule)
    }

    fn now_ms(&self) -> u64 {
        START_MS + u64::from(self.tick) * self.bounds.tick_ms
    }

    /// The host's CLOCK_BOOTTIME.
    fn boot_ms(&self, host: usize) -> u64 {
        self.now_ms() + 3_600_000 * (1 + host as u64)
    }

    fn settings(&self, host: usize) -> Settings {
        let Bounds { kind, max, other_max, hosts, .. } = *self.bounds;
        let own = other_max.filter(|_| host + 1 == hosts);
        let kind = match kind {
            // Follows the wall clock, which is one tick late on the second host.
            Kind::Calendar { start_ms, end_ms, .. } => {
                let length_ms = end_ms - start_ms;
                let late_ms = if host == 1 { self.bounds.tick_ms } else { 0 };
                let now_ms = self.now_ms() - late_ms;
                let start_ms = now_ms - now_ms % length_ms;
                let end_ms = start_ms + length_ms;
                Kind::Calendar { start_ms, end_ms, next_end_ms: end_ms + length_ms }
            }
            kind => kind,
        };
        Settings { kind, max: own.unwrap_or(max), hosts: hosts as u64 }
    }

    fn node(&self, host: usize) -> Holding {
        let Host { node, incarnation, .. } = self.hosts[host];
        let mut node = node.unwrap_or_default();
        if self.is_sliding() {
            node.used = self.logged(host);
        }
        node.of_host(incarnation)
    }

    fn is_sliding(&self) -> bool {
        matches!(self.bounds.kind, Kind::Sliding { .. })
    }

    /// The uses in the log of a sliding limit that count now.
    fn logged(&self, host: usize) -> u64 {
        let tick = usize::from(self.tick);
        let since = (tick + 1).saturating_sub(self.length());
        self.hosts[host].log[since..=tick].iter().map(|n| u64::from(*n)).sum()
    }

    /// Returns the last use that a log would hold.
    fn take_out_the_last_use(&mut self) {
        let tick = usize::from(self.tick);
        let since = (tick + 1).saturating_sub(self.length());
        let last = (since..=tick).rev().find(|at| self.admitted[*at] > 0);
        last.into_iter().for_each(|at| self.admitted[at] -= 1);
    }

    /// Stores a node. For a sliding limit, uses above the log's are logged as used now, and uses
    /// below it are removed from the log, the newest first.
    fn put(&mut self, host: usize, mut node: Holding) {
        if self.is_sliding() {
            let incarnation = |node: Holding| node.lease.incarnation;
            if self.hosts[host].node.map(incarnation) != Some(incarnation(node)) {
                self.hosts[host].log = [0; TICKS];
            }
            let (before, tick) = (self.logged(host), usize::from(self.tick));
            let log = &mut self.hosts[host].log;
            log[tick] += node.used.saturating_sub(before) as u8;
            let mut less = before.saturating_sub(node.used) as u8;
            for logged in log[..=tick].iter_mut().rev() {
                let gone = less.min(*logged);
                *logged -= gone;
                less -= gone;
            }
            node.used = 0;
        }
        self.hosts[host].node = Some(node);
    }

    fn binding(&mut self, host: usize, keep: Keep, need: u64) -> Binding {
        let settings = self.settings(host);
        let now_ms = self.boot_ms(host);
        let seq = match self.is_without(Rule::SeqOfTheHost) {
            true => self.node(host).lease.seq + 1,
            false => self.hosts[host].seq + 1,
        };
        self.hosts[host].seq = seq;
        let request = if need > 0 { self.bounds.request_size.uses(&settings, need) } else { 0 };
        Binding { seq, now_ms, keep, need, request }
    }

    fn send(&mut self, host: usize, mut take: Take) {
        if self.is_without(Rule::ReportExtra) {
            take.claim.extra = 0;
        }
        if self.is_without(Rule::ClaimTheWindowBefore) {
            take.claim.noted = 0;
        }
        if let Claiming::Sent { seq } = &mut self.hosts[host].claiming {
            *seq = take.seq;
        }
        let settings = self.settings(host);
        let order = search::hash(&(take, settings));
        if let Err(at) = self.sent.binary_search_by_key(&order, |sent| sent.order) {
            self.sent.insert(at, Sent { order, take, settings, is_delivered: false });
        }
    }

    fn bind(&mut self, host: usize, keep: Keep, need: u64) {
        let mut node = self.node(host);
        let allowance = node.lease.allowance;
        let sent_extra = node.lease.sent_extra.min(0);
        let binding = self.binding(host, keep, need);
        if self.is_without(Rule::GiveBackOnce) {
            node.lease.extra += sent_extra;
        }
        let take = node.bind(&self.settings(host), &binding);
        if self.is_without(Rule::BindFirst) {
            node.lease.allowance = allowance;
        }
        self.put(host, node);
        self.hosts[host].timed_out = false;
        self.send(host, take);
    }

    fn repeat(&mut self, host: usize, need: u64) {
        let mut node = self.node(host);
        let now_ms = self.boot_ms(host);
        let request = self.bounds.request_size.uses(&self.settings(host), need);
        let take = node.repeat(now_ms, need, if need > 0 { request } else { 0 });
        if self.is_without(Rule::EndFromTheFirstSending) {
            node.lease.sent_ms = now_ms;
        }
        self.put(host, node);
        self.send(host, take);
    }

    fn notice(&mut self, host: usize) {
        let mut node = self.node(host);
        let now_ms = self.boot_ms(host);
        self.hosts[host].claiming = Claiming::Done;
        let is_left_out = self.is_without(Rule::Claim)
            || self.is_without(Rule::ClaimMarks) && !node.is_live(now_ms)
            || self.is_without(Rule::ClaimUntilTheTurn)
                && !node.is_live(now_ms)
                && !node.lease.in_flight
            || self.hosts[host].node.is_none();
        if is_left_out {
            return;
        }
        let binding = self.binding(host, Keep::All, 0);
        let before = node;
        let Some(take) = node.claim(&self.settings(host), binding.seq, now_ms) else {
            self.hosts[host].seq -= 1;
            return;
        };
        self.hosts[host].claiming = Claiming::Sent { seq: binding.seq };
        if self.is_without(Rule::ClaimUnderANewSeq) {
            node = before;
            node.lease.in_flight = true;
            self.hosts[host].seq -= 1;
            let take = node.repeat(now_ms, 0, 0);
            self.put(host, node);
            self.send(host, take);
            return;
        }
        self.put(host, node);
        self.hosts[host].timed_out = false;
        self.send(host, take);
    }

    fn deliver(&mut self, nth: usize) {
        let Sent { mut take, settings, is_delivered, .. } = self.sent[nth];
        self.sent[nth].is_delivered = true;
        if is_delivered {
            self.left.doubles -= 1;
        }
        let now_ms = self.now_ms();
        if self.is_without(Rule::AskWithoutAWindow) && take.claim.window == 0 {
            (take.claim.window, take.claim.floor) = (self.ledger.window().unwrap_or(0), 0);
        }
        let learning_ms = self.ledger.learning_ms(now_ms);
        let before = self.ledger.clone();
        let mut taken = self.ledger.take(now_ms, &settings, &take);
        let is_repeated =
            self.answers.iter().any(|answered| answered.take.seq == self.sent[nth].take.seq);
        if let Taken::Granted(granted) = &mut taken {
            if is_repeated && self.is_without(Rule::RepeatTheBase) {
                granted.base = None;
            }
            if self.ledger != before {
                self.check_grant(&take, granted.allowance, granted.base);
            }
        }
        for host in &mut self.hosts {
            if host.incarnation == take.host && host.claiming == (Claiming::Sent { seq: take.seq })
            {
                host.claiming = Claiming::Done;
            }
        }
        let take = self.sent[nth].take;
        let order = search::hash(&(take, taken, learning_ms));
        if let Err(at) = self.answers.binary_search_by_key(&order, |answered| answered.order) {
            self.answers.insert(at, Answered { order, take, taken, learning_ms });
        }
    }

    /// Checks that the least max sent decides what is granted.
    fn check_grant(&mut self, take: &Take, allowance: u64, base: Option<u64>) {
        let floor = base.unwrap_or(take.claim.floor + take.claim.extra.max(0) as u64);
        let [granted, unspent] = self.ledger.granted();
        let is_other = |take: &Take| (take.host - 1) as usize % HOSTS + 1 == self.bounds.hosts;
        let received = self.answers.iter().any(|answered| {
            is_other(&answered.take) && matches!(answered.taken, Taken::Granted(_))
        });
        let least = match self.bounds.other_max {
            Some(other_max) if received || is_other(take) => other_max.min(self.bounds.max),
            _ => self.bounds.max,
        };
        if allowance > floor && granted > least as i64 {
            self.fault = Some("the ledger has granted more than the least max");
        }
        if unspent < 0 || granted < unspent {
            self.fault = Some("the ledger has granted less than is unspent");
        }
    }

    fn apply(&mut self, nth: usize) {
        let Answered { take, taken, learning_ms, .. } = self.answers[nth];
        let Some(host) = self.hosts.iter().position(|host| host.incarnation == take.host) else {
            return;
        };
        if self.hosts[host].node.is_none() {
            return;
        }
        let mut node = self.node(host);
        if self.hosts[host].timed_out {
            node.lease.in_flight = true;
        }
        let now_ms = self.boot_ms(host);
        let before = node;
        let settings = self.settings(host);
        node.apply(&Received { settings, take, taken, learning_ms, now_ms });
        if node != before {
            self.hosts[host].timed_out = false;
            if self.is_sliding() {
                let taken_out = before.used.saturating_sub(node.used).min(self.given_back.into());
                self.given_back -= taken_out as u8;
                (0..taken_out).for_each(|_| self.take_out_the_last_use());
            }
            if self.is_without(Rule::EndFromTheSending) {
                node.lease.end_ms = node.lease.gone_ms;
            }
            if self.is_without(Rule::TakeBackOnce) {
                node.lease.noted = before.lease.noted;
            }
            let has_base = matches!(taken, Taken::Granted(granted) if granted.base.is_some());
            if has_base && self.is_without(Rule::TakeTheBase) {
                node.used = 0;
            }
        }
        self.put(host, node);
    }

    fn tick(&mut self) {
        self.tick += 1;
        if !self.is_without(Rule::KeepTheWindow) {
            return;
        }
        for host in 0..self.bounds.hosts {
            let mut node = self.node(host);
            if node.lease.window != 0 && !node.is_live(self.boot_ms(host)) {
                (node.used, node.lease.allowance) = (0, 0);
                self.put(host, node);
            }
        }
    }

    fn admit(&mut self, host: usize, change: impl FnOnce(&mut Holding, u64)) {
        let mut node = self.node(host);
        change(&mut node, self.boot_ms(host));
        self.put(host, node);
    }

    fn lose(&mut self, host: usize) {
        let used = self.node(host).used;
        let Some(_) = self.hosts[host].node.take() else { return };
        self.hosts[host].log = [0; TICKS];
        self.lost += used as u8;
        self.unreported = self.bounds.forced - self.left.forced;
        self.hosts[host].claiming = Claiming::Done;
    }

    fn restore(&mut self, host: usize) {
        let Some(saved) = self.hosts[host].saved else { return };
        let incarnation = self.hosts[host].incarnation;
        self.lose(host);
        // An older copy in the same files is found by later starts that the ledger knows of,
        // another directory by its files.
        let rule = match self.bounds.in_place {
            true => Rule::NewestDirectory,
            false => Rule::NewIncarnation,
        };
        let next = if self.is_without(rule) { 0 } else { HOSTS as u64 };
        let claiming = Claiming::Done;
        let Directory { seq, node, log } = saved;
        self.hosts[host] = Host {
            incarnation: incarnation + next,
            seq,
            node,
            log,
            saved: None,
            claiming,
            timed_out: false,
        };
    }

    fn fail_over(&mut self, to: Ledger) {
        self.ledger = to;
        self.ledger.fail_over();
        self.has_other_ledger();
    }

    /// The server loses all data, with its own state.
    fn flush(&mut self) {
        if self.bounds.without != Some(Rule::LearnEmptied) {
            self.ledger.fail_over();
        }
        self.ledger.flush();
        self.has_other_ledger();
    }

    fn has_other_ledger(&mut self) {
        // A courier's heartbeat has come at once.
        self.ledger.learning_ms(self.now_ms());
        self.born = self.tick;
        for host in self.hosts.iter_mut().filter(|host| host.node.is_some()) {
            host.claiming = Claiming::Due;
        }
        self.left.failovers -= 1;
    }

    /// Whether time may go on. A new master learns until it has received all claims.
    fn may_tick(&self) -> bool {
        if self.bounds.without == Some(Rule::LearnUntilClaimed) {
            return true;
        }
        let is_claimed = self.hosts.iter().all(|host| host.claiming == Claiming::Done);
        let learned_ms = u64::from(self.tick + 1 - self.born) * self.bounds.tick_ms;
        is_claimed || learned_ms < self.bounds.learn_ms
    }

    fn tick_of(&self, ledger_ms: u64) -> usize {
        (ledger_ms.saturating_sub(START_MS) / self.bounds.tick_ms) as usize
    }
}
