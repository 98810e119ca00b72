//! Supervision decides which process to start, to end or to kill, and which worker serves which
//! listener set.
//!
//! A listener set is one listener for each TCP address. The code is values in, values out: events
//! and times go in, orders come out. Nothing here forks, signals or reads a clock.
//!
//! Invariant: as long as one worker is ready, every listener set is served by its home worker or,
//! while that worker is starting, stopped or dead, by a neighbour.

use std::collections::{BTreeMap, BTreeSet};

use crate::process::child::ChildRole;
use frs_base::sys::EXIT_SIGBUS;
use frs_base::sys::process::{Exit, Pid, Signal};

const SIGBUS: i32 = Signal::SIGBUS as i32;
/// Wait before a dead process is replaced for the first time. It doubles with each death in a row.
const BACKOFF_FIRST_MS: u64 = 10;
/// The longest wait before a dead process is replaced.
const BACKOFF_MAX_MS: u64 = 10_000;
/// A process that lived this long was healthy: its back-off is reset.
const HEALTHY_MS: u64 = 10_000;
/// Workers that were asked to finish are killed after this. They should end earlier by themselves.
/// The cluster's child and the keeper get the rest of the five seconds.
const FINISH_MS: u64 = 4_500;
/// Workers that drain are killed after this. They end by themselves at 60 s.
const DRAIN_MS: u64 = 62_000;
/// Workers are asked to end when the cluster's child has announced the end, at the latest after
/// this.
const ANNOUNCE_MS: u64 = 300;
/// The cluster's child is killed this long after the request to end.
const CLUSTER_END_MS: u64 = 150;
/// The same, if it has a last round of records to send to peers.
const LAST_ROUND_MS: u64 = 2_500;
/// The keeper is killed this long after the request to end. During its last checkpoint it is killed
/// this long after it was stopped by a signal.
const KEEPER_END_MS: u64 = 300;

/// How the server is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Finish what has been read, close the rest; takes at most 5 s.
    Finish,
    /// Wait for clients to close; takes at most 60 s.
    Drain,
    /// As [`Ending::Drain`], while another master's processes serve.
    HandOver,
}

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Only time has passed.
    Tick,
    /// A process was started as ordered.
    Spawned(ChildRole, Pid),
    /// A process could not be started.
    SpawnFailed(ChildRole),
    /// A process serves.
    Ready(Pid),
    /// A process ended.
    Ended(Pid, Exit),
    /// A process was stopped by a signal.
    Stopped(Pid),
    /// A stopped process continues.
    Continued(Pid),
    /// There are at least this many listener sets.
    ListenerSets(u16),
    /// There must be this many workers, each with a listener set.
    Resize(u16),
    /// A cluster was added or taken away.
    Cluster(ClusterChange),
    /// The cluster's child has announced the end to the peers.
    Announced {
        /// It has a last round of records to send.
        has_round: bool,
    },
    /// All processes must end.
    End(Ending),
}

/// How a new configuration changes the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterChange {
    /// A cluster was added: there must be a child for it, and workers with its doorbells.
    Added,
    /// The cluster was removed.
    Removed,
    /// The user or password changed: there must be a child with the new one.
    Login,
}

/// A request to a process, by signal or by message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildRequest {
    /// SIGTERM.
    Finish,
    /// SIGQUIT.
    Drain,
    /// Drain while other processes serve in its place.
    Leave,
    /// Announce the end to the peers.
    Announce,
    /// Make a last checkpoint, then end.
    LastPass,
    /// SIGKILL.
    Kill,
}

/// An order. Orders are carried out in sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Start a process that serves these listener sets, then report `Spawned` or `SpawnFailed`.
    Spawn(ChildRole, BTreeSet<u16>),
    /// Signal a process.
    Ask(Pid, ChildRequest),
    /// Have a worker serve this listener set as well.
    Serve(Pid, u16),
    /// Have a worker stop serving this listener set.
    Yield(Pid, u16),
    /// Have the keeper recover the slots of dead processes.
    Recover(Pid),
    /// A process met a SIGBUS: check the lengths of all group files.
    CheckLengths,
    /// All processes have ended as asked.
    End,
}

/// A running process, as `frs status` and the log show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its role.
    pub role: ChildRole,
    /// Its id.
    pub pid: Pid,
    /// It has reported that it serves.
    pub ready: bool,
    /// It is stopped by a signal.
    pub stopped: bool,
    /// Its place was removed: it drains.
    pub leaving: bool,
    since_ms: u64,
    kill_at_ms: Option<u64>,
    sets: BTreeSet<u16>,
}

#[derive(Debug, Clone, Copy)]
struct Vacancy {
    role: ChildRole,
    until_ms: u64,
}

/// What a server needs besides its keeper.
#[derive(Debug, Clone, Copy, Default)]
pub struct Needs {
    /// The number of workers.
    pub workers: u16,
    /// The cluster's child.
    pub cluster: bool,
    /// An frs-envoy.
    pub envoy: bool,
    /// A last checkpoint, which the keeper makes when all others have ended, however long that
    /// takes. A second request to finish skips it.
    pub last_pass: bool,
}

impl Needs {
    /// The needed processes.
    fn roles(self) -> impl Iterator<Item = ChildRole> {
        let workers = (0..self.workers).map(ChildRole::Worker);
        let cluster = self.cluster.then_some(ChildRole::Cluster);
        let envoy = self.envoy.then_some(ChildRole::Envoy);
        std::iter::once(ChildRole::Keeper).chain(workers).chain(cluster).chain(envoy)
    }
}

/// All processes but the master, and the decisions about them.
#[derive(Debug)]
pub struct Supervisor {
    needs: Needs,
    /// The keeper died in its last checkpoint.
    lost_last_pass: bool,
    sets: u16,
    processes: Vec<Process>,
    vacancies: Vec<Vacancy>,
    deaths_in_a_row: BTreeMap<ChildRole, u32>,
    restarts: u64,
    ending: Option<Ending>,
    /// Until when the announcement of the end is waited for. `None`: it is over, or nothing ends.
    announcing_until_ms: Option<u64>,
    /// The cluster's child sends a last round of records at the end.
    has_last_round: bool,
    ended: bool,
}

impl Supervisor {
    /// The processes of a server, none of them started.
    pub fn new(needs: Needs) -> Self {
        let vacancy = |role| Vacancy { role, until_ms: 0 };
        Supervisor {
            needs,
            lost_last_pass: false,
            sets: needs.workers,
            processes: Vec::new(),
            vacancies: needs.roles().map(vacancy).collect(),
            deaths_in_a_row: BTreeMap::new(),
            restarts: 0,
            ending: None,
            announcing_until_ms: None,
            has_last_round: false,
            ended: false,
        }
    }

    /// Skips the last checkpoint, because the store is damaged.
    pub fn forgo_last_pass(&mut self) {
        self.needs.last_pass = false;
    }

    /// Whether the keeper died before its last checkpoint was made.
    pub fn lost_last_pass(&self) -> bool {
        self.lost_last_pass
    }

    /// Handles an event and appends the resulting orders.
    pub fn decide(&mut self, event: Event, now_ms: u64, orders: &mut Vec<Order>) {
        match event {
            Event::Tick => {}
            Event::Spawned(role, pid) => self.spawned(role, pid, now_ms),
            Event::SpawnFailed(role) => self.vacate(role, 0, now_ms),
            Event::Ready(pid) => self.with(pid, |process| process.ready = true),
            Event::Ended(pid, exit) => self.process_ended(pid, exit, now_ms, orders),
            Event::Stopped(pid) => self.set_stopped(pid, true, now_ms),
            Event::Continued(pid) => self.set_stopped(pid, false, now_ms),
            Event::ListenerSets(sets) => self.sets = self.sets.max(sets),
            Event::Resize(workers) => self.resize(workers, now_ms),
            Event::Cluster(change) => self.change_cluster(change, now_ms),
            Event::Announced { has_round } => {
                self.has_last_round = has_round;
                self.announcing_until_ms = self.announcing_until_ms.map(|_| 0);
            }
            Event::End(ending) => self.end(ending, now_ms, orders),
        }
        self.end_announcement(now_ms, orders);
        self.fill_vacancies(now_ms, orders);
        self.share_sets(orders);
        self.ask_the_leaving(now_ms, event, orders);
        self.kill_the_late(now_ms, orders);
        self.finish_ending(now_ms, orders);
    }

    /// When [`Event::Tick`] is due if no other event comes first.
    pub fn due_ms(&self) -> Option<u64> {
        let vacancies = self.vacancies.iter().map(|vacancy| vacancy.until_ms);
        let vacancies = vacancies.filter(|_| self.ending.is_none());
        let kills = self.processes.iter().filter_map(|process| process.kill_at_ms);
        vacancies.chain(kills).chain(self.announcing_until_ms).min()
    }

    /// The running processes.
    pub fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// The number of listener sets needed.
    #[cfg(test)]
    pub fn sets(&self) -> u16 {
        self.sets
    }

    /// The number of processes replaced since the start.
    pub fn restarts(&self) -> u64 {
        self.restarts
    }

    /// The role of a running process.
    pub fn role_of(&self, pid: Pid) -> Option<ChildRole> {
        self.processes.iter().find(|process| process.pid == pid).map(|process| process.role)
    }

    /// Whether the end was requested.
    pub fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// Whether all needed processes serve.
    pub fn is_complete(&self) -> bool {
        self.needs.roles().all(|role| self.find(role).is_some_and(|process| process.ready))
    }

    /// When a vacant place gets a process; none if the place is not vacant.
    pub fn vacant_until_ms(&self, role: ChildRole) -> Option<u64> {
        self.vacancies.iter().find(|vacancy| vacancy.role == role).map(|found| found.until_ms)
    }

    fn with(&mut self, pid: Pid, change: impl FnOnce(&mut Process)) {
        if let Some(process) = self.processes.iter_mut().find(|process| process.pid == pid) {
            change(process);
        }
    }

    fn set_stopped(&mut self, pid: Pid, stopped: bool, now_ms: u64) {
        let is_in_last_pass = self.is_in_last_pass();
        self.with(pid, |process| {
            process.stopped = stopped;
            if is_in_last_pass {
                process.kill_at_ms = stopped.then_some(now_ms + KEEPER_END_MS);
            }
        });
    }

    /// Whether only the keeper is left, and it makes the last checkpoint.
    fn is_in_last_pass(&self) -> bool {
        let is_last =
            matches!(&self.processes[..], [only] if only.role == ChildRole::Keeper && only.leaving);
        is_last && self.needs.last_pass && self.ending.is_some_and(|how| how != Ending::HandOver)
    }

    fn spawned(&mut self, role: ChildRole, pid: Pid, now_ms: u64) {
        let sets = self.home_sets(role);
        self.processes.push(Process {
            role,
            pid,
            ready: false,
            stopped: false,
            leaving: false,
            since_ms: now_ms,
            kill_at_ms: None,
            sets,
        });
    }

    fn process_ended(&mut self, pid: Pid, exit: Exit, now_ms: u64, orders: &mut Vec<Order>) {
        let Some(index) = self.processes.iter().position(|process| process.pid == pid) else {
            return;
        };
        self.lost_last_pass |= self.is_in_last_pass() && exit != Exit::Status(0);
        let process = self.processes.remove(index);
        // The exit status of the SIGBUS handler, or the signal itself if the handler met a second
        // SIGBUS.
        if matches!(exit, Exit::Status(EXIT_SIGBUS) | Exit::Signal(SIGBUS)) {
            orders.push(Order::CheckLengths);
        }
        if let Some(keeper) = self.find(ChildRole::Keeper) {
            orders.push(Order::Recover(keeper.pid));
        }
        if !process.leaving && self.ending.is_none() {
            self.restarts += 1;
            self.vacate(process.role, now_ms.saturating_sub(process.since_ms), now_ms);
        }
    }

    fn vacate(&mut self, role: ChildRole, lived_ms: u64, now_ms: u64) {
        let deaths = self.deaths_in_a_row.entry(role).or_insert(0);
        if lived_ms >= HEALTHY_MS {
            *deaths = 0;
        }
        let wait_ms = BACKOFF_FIRST_MS << (*deaths).min(16);
        *deaths += 1;
        let until_ms = now_ms + wait_ms.min(BACKOFF_MAX_MS);
        self.vacancies.push(Vacancy { role, until_ms });
    }

    fn resize(&mut self, workers: u16, now_ms: u64) {
        if self.ending.is_some() {
            return;
        }
        self.needs.workers = workers;
        self.sets = self.sets.max(workers);
        let is_over = |role| matches!(role, ChildRole::Worker(number) if number >= workers);
        self.vacancies.retain(|vacancy| !is_over(vacancy.role));
        self.deaths_in_a_row.retain(|&role, _| !is_over(role));
        self.replace(is_over, now_ms);
    }

    fn change_cluster(&mut self, change: ClusterChange, now_ms: u64) {
        if self.ending.is_some() {
            return;
        }
        self.needs.cluster = change != ClusterChange::Removed;
        self.vacancies.retain(|vacancy| vacancy.role != ChildRole::Cluster);
        self.deaths_in_a_row.remove(&ChildRole::Cluster);
        // Doorbells are made before the fork of the processes that use them, and another cluster
        // has other doorbells.
        let is_over = |role| match role {
            ChildRole::Cluster => true,
            ChildRole::Worker(_) => change == ClusterChange::Added,
            ChildRole::Keeper | ChildRole::Envoy => false,
        };
        self.replace(is_over, now_ms);
    }

    /// Has processes leave, and fills all places that are empty then.
    fn replace(&mut self, is_over: impl Fn(ChildRole) -> bool, now_ms: u64) {
        self.processes.iter_mut().filter(|process| is_over(process.role)).for_each(|process| {
            process.leaving = true;
        });
        for role in self.needs.roles() {
            if self.find(role).is_none() && self.vacant_until_ms(role).is_none() {
                self.vacancies.push(Vacancy { role, until_ms: now_ms });
            }
        }
    }

    fn end(&mut self, ending: Ending, now_ms: u64, orders: &mut Vec<Order>) {
        // A repeated request to end skips the last checkpoint, which is the only step that may take
        // long.
        let is_in_it = self.ending.is_some_and(|ending| ending != Ending::HandOver)
            && self.processes.iter().all(|process| process.leaving);
        if ending == Ending::Finish && (self.ending == Some(ending) || is_in_it) {
            self.skip_last_pass(now_ms, orders);
        }
        // Finishing is stricter than draining: it overrides draining, never the reverse.
        if self.ending == Some(ending) || self.ending == Some(Ending::Finish) {
            return;
        }
        let is_first = self.ending.is_none();
        self.ending = Some(ending);
        self.vacancies.clear();
        // The peers hear of the end before a client is turned away. A second request does not wait.
        let child = self.find(ChildRole::Cluster).filter(|process| process.ready);
        if let Some(child) = child.filter(|_| is_first && ending != Ending::HandOver) {
            orders.push(Order::Ask(child.pid, ChildRequest::Announce));
            self.announcing_until_ms = Some(now_ms + ANNOUNCE_MS);
            return;
        }
        self.announcing_until_ms = None;
        self.end_clients(ending, now_ms, orders);
    }

    /// Goes on with the end once it is announced, or nobody is there to announce it.
    fn end_announcement(&mut self, now_ms: u64, orders: &mut Vec<Order>) {
        let (Some(until_ms), Some(ending)) = (self.announcing_until_ms, self.ending) else {
            return;
        };
        if until_ms <= now_ms || self.find(ChildRole::Cluster).is_none() {
            self.announcing_until_ms = None;
            self.end_clients(ending, now_ms, orders);
        }
    }

    /// Asks the processes that have clients to end.
    fn end_clients(&mut self, ending: Ending, now_ms: u64, orders: &mut Vec<Order>) {
        let (request, bound_ms) = match ending {
            Ending::Finish => (ChildRequest::Finish, FINISH_MS),
            Ending::Drain => (ChildRequest::Drain, DRAIN_MS),
            Ending::HandOver => (ChildRequest::Leave, DRAIN_MS),
        };
        if ending == Ending::HandOver {
            // From now on the other master's keeper recovers and writes back, and its cluster's
            // child answers these workers as well.
            self.finish(ChildRole::Cluster, now_ms + CLUSTER_END_MS, orders);
            self.finish(ChildRole::Keeper, now_ms + KEEPER_END_MS, orders);
        }
        for process in self.processes.iter_mut().filter(|process| has_clients(process.role)) {
            process.kill_at_ms = Some(now_ms + bound_ms);
            orders.push(Order::Ask(process.pid, request));
        }
    }

    fn fill_vacancies(&mut self, now_ms: u64, orders: &mut Vec<Order>) {
        let due = self.vacancies.extract_if(.., |vacancy| vacancy.until_ms <= now_ms);
        let due: Vec<Vacancy> = due.collect();
        let spawn = |vacancy: &Vacancy| Order::Spawn(vacancy.role, self.home_sets(vacancy.role));
        orders.extend(due.iter().map(spawn));
    }

    fn home(&self, set: u16) -> u16 {
        set % self.needs.workers.max(1)
    }

    fn home_sets(&self, role: ChildRole) -> BTreeSet<u16> {
        match role {
            ChildRole::Worker(number) => {
                (0..self.sets).filter(|&set| self.home(set) == number).collect()
            }
            ChildRole::Keeper | ChildRole::Cluster | ChildRole::Envoy => BTreeSet::new(),
        }
    }

    fn find(&self, role: ChildRole) -> Option<&Process> {
        self.processes.iter().find(|process| process.role == role && !process.leaving)
    }

    /// The worker that substitutes for `number`: the next one in the ring that can serve.
    fn neighbour(&self, number: u16) -> Option<Pid> {
        let workers = self.needs.workers;
        let ring = (1..workers).map(|step| (number + step) % workers);
        ring.filter_map(|next| self.find(ChildRole::Worker(next)))
            .find(|process| process.ready && !process.stopped)
            .map(|process| process.pid)
    }

    fn share_sets(&mut self, orders: &mut Vec<Order>) {
        if self.ending.is_some() {
            return;
        }
        let mut wanted: BTreeMap<Pid, BTreeSet<u16>> = BTreeMap::new();
        for set in 0..self.sets {
            let home = self.find(ChildRole::Worker(self.home(set)));
            let serves = home.is_some_and(|process| process.ready && !process.stopped);
            let neighbour = if serves { None } else { self.neighbour(self.home(set)) };
            for pid in home.map(|process| process.pid).into_iter().chain(neighbour) {
                wanted.entry(pid).or_default().insert(set);
            }
        }
        // New workers serve all the sets before an old worker is told to release one.
        let mut yields = Vec::new();
        let is_worker = |process: &&mut Process| matches!(process.role, ChildRole::Worker(_));
        for process in self.processes.iter_mut().filter(is_worker) {
            let wanted = wanted.remove(&process.pid).unwrap_or_default();
            let pid = process.pid;
            orders.extend(wanted.difference(&process.sets).map(|&set| Order::Serve(pid, set)));
            yields.extend(process.sets.difference(&wanted).map(|&set| Order::Yield(pid, set)));
            process.sets = wanted;
        }
        orders.append(&mut yields);
    }

    fn ask_the_leaving(&mut self, now_ms: u64, event: Event, orders: &mut Vec<Order>) {
        if !matches!(event, Event::Resize(_) | Event::Cluster(_)) {
            return;
        }
        let asked = |process: &&mut Process| process.leaving && process.kill_at_ms.is_none();
        for process in self.processes.iter_mut().filter(asked) {
            // The cluster's child has no client to wait for.
            let bound_ms =
                if process.role == ChildRole::Cluster { CLUSTER_END_MS } else { DRAIN_MS };
            process.kill_at_ms = Some(now_ms + bound_ms);
            orders.push(Order::Ask(process.pid, ChildRequest::Leave));
        }
    }

    fn kill_the_late(&mut self, now_ms: u64, orders: &mut Vec<Order>) {
        for process in &mut self.processes {
            if process.kill_at_ms.is_some_and(|at| at <= now_ms) {
                process.kill_at_ms = None;
                orders.push(Order::Ask(process.pid, ChildRequest::Kill));
            }
        }
    }

    fn finish_ending(&mut self, now_ms: u64, orders: &mut Vec<Order>) {
        if self.ending.is_none() || self.ended {
            return;
        }
        let is_left =
            |found: fn(ChildRole) -> bool| self.processes.iter().any(|process| found(process.role));
        if self.processes.is_empty() {
            self.ended = true;
            orders.push(Order::End);
        } else if is_left(has_clients) {
            // Requests of their clients may still need the cluster.
        } else if is_left(|role| role == ChildRole::Cluster) {
            let bound_ms = if self.has_last_round { LAST_ROUND_MS } else { CLUSTER_END_MS };
            self.finish(ChildRole::Cluster, now_ms + bound_ms, orders);
        } else if self.needs.last_pass && self.ending != Some(Ending::HandOver) {
            // The keeper has unlimited time, unless it is stopped by a signal. A second request to
            // end skips the checkpoint.
            for process in self.processes.iter_mut().filter(|process| !process.leaving) {
                process.leaving = true;
                process.kill_at_ms = process.stopped.then_some(now_ms + KEEPER_END_MS);
                orders.push(Order::Ask(process.pid, ChildRequest::LastPass));
            }
        } else {
            // The keeper recovers the slots of all others, so it ends last.
            self.finish(ChildRole::Keeper, now_ms + KEEPER_END_MS, orders);
        }
    }

    /// Ends the keeper without a last checkpoint, or in the middle of it, because the end was
    /// requested again.
    fn skip_last_pass(&mut self, now_ms: u64, orders: &mut Vec<Order>) {
        if !std::mem::take(&mut self.needs.last_pass) {
            return;
        }
        let is_in_it =
            |process: &&mut Process| process.role == ChildRole::Keeper && process.leaving;
        for process in self.processes.iter_mut().filter(is_in_it) {
            process.kill_at_ms = Some(now_ms + KEEPER_END_MS);
            orders.push(Order::Ask(process.pid, ChildRequest::Finish));
        }
    }

    fn finish(&mut self, role: ChildRole, kill_at_ms: u64, orders: &mut Vec<Order>) {
        let staying = |process: &&mut Process| process.role == role && !process.leaving;
        for process in self.processes.iter_mut().filter(staying) {
            process.leaving = true;
            process.kill_at_ms = Some(kill_at_ms);
            orders.push(Order::Ask(process.pid, ChildRequest::Finish));
        }
    }
}

/// Whether clients wait for such a process to finish.
fn has_clients(role: ChildRole) -> bool {
    matches!(role, ChildRole::Worker(_) | ChildRole::Envoy)
}

#[cfg(test)]
mod tests;
