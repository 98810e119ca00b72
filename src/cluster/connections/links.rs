//! The owner of all threads: it sends each message to the master of its slot, follows changes of
//! masters, and reports the results.
//!
//! Invariant: nothing is sent before the cluster has confirmed the secret. A change of a slot's
//! master is reported once, as soon as the new master can be asked.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::ops::Range;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use frs_base::clock;
use frs_conf::{Cluster, ClusterNode, ClusterSecret, Password};

use super::channels::{self, ChannelArgs, Listening};
use super::fault::ClusterFault;
use super::job::Job;
use super::link_events::{Event, Id, Lost, Message, Wake};
use super::link_thread::{self, Beat, LinkArgs, NO_SLOT};
use super::message_counts::MessageCounts;
use super::scout::{self, Order};
use super::slot_map::{self, SlotMap};
use super::task::{Settled, Task};
use super::thread_reports::{Alive, LinkNumber, Report, Reports, Thread, spawn};
use super::topology::{Redirection, View};
use super::wire::Access;
use crate::name::{self, SlotKeys};
use crate::newest_copy::Starts;
use crate::warm::WarmMessage;

/// Most jobs that wait for one master.
const MAX_WAITING: usize = 4096;
/// Most slots in one call.
const SLOTS_AT_ONCE: usize = 128;
/// Most redirections of one message in a row.
const MAX_REDIRECTED: u32 = 5;
/// The longest wait of [`Links::start`] for the masters.
const START_MS: u64 = 2000;
/// Timeouts within which threads have to end.
const END_TIMEOUTS: u32 = 6;

/// All connections to the cluster.
pub struct Links {
    conf: Cluster,
    check: String,
    access: Access,
    reports: Reports,
    received: Receiver<Report>,
    map: SlotMap,
    links: Vec<MasterLink>,
    numbers: LinkNumber,
    scout: Sender<Order>,
    listening: Arc<Listening>,
    beat: Arc<Mutex<Option<Beat>>>,
    slots: SlotKeys,
    claims: Arc<AtomicU64>,
    secret: SecretState,
    has_view: bool,
    is_unreachable: bool,
    last_fault: Option<ClusterFault>,
    events: VecDeque<Event>,
    /// None only while the links are being dropped.
    alive: Option<Alive>,
    ended: Receiver<Infallible>,
}

/// A master as the owner knows it.
struct MasterLink {
    number: LinkNumber,
    node: ClusterNode,
    state: LinkState,
    /// Jobs that are not settled yet.
    waiting: usize,
    /// Jobs for the next flush.
    batch: Vec<Job>,
    jobs: Sender<Vec<Job>>,
    /// The slot of its heartbeats.
    slot: Arc<AtomicU16>,
    /// A change of master is to be reported when the link works.
    owes: bool,
    /// Some slots may not have begun to learn, as the link broke.
    is_unmet: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinkState {
    /// It has not reported yet. Messages wait for it.
    Connecting,
    Up,
    Down,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SecretState {
    Unknown,
    Asked,
    Right,
    Wrong,
}

impl Links {
    /// Starts the threads, and waits a bounded time until each master has reported. A cluster that
    /// does not answer is not an error: it is tried again and again. All messages are counted in
    /// the counts.
    ///
    /// # Errors
    /// A node cannot hold ledgers, the cluster has another secret, the user is refused, or a thread
    /// cannot be started.
    pub fn start(
        conf: &Cluster,
        secret: &ClusterSecret,
        password: Option<&Password>,
        wake: Wake,
        counts: Arc<MessageCounts>,
    ) -> Result<Links, ClusterFault> {
        let (sender, received) = channel();
        let (alive, ended) = channel();
        let (scout, orders) = channel();
        let mut links = Links {
            conf: conf.clone(),
            check: name::secret_check(secret),
            access: Access::new(conf, password, counts)?,
            reports: Reports { sender, wake },
            received,
            map: SlotMap::new(),
            links: Vec::new(),
            numbers: 0,
            scout,
            listening: Arc::default(),
            beat: Arc::default(),
            slots: SlotKeys::new(&conf.name),
            claims: Arc::default(),
            secret: SecretState::Unknown,
            has_view: false,
            is_unreachable: false,
            last_fault: None,
            events: VecDeque::new(),
            alive: Some(alive),
            ended,
        };
        links.set_nodes(conf.nodes.clone());
        links.start_scout(orders).map_err(start_fault)?;
        links.start_channels().map_err(start_fault)?;
        links.wait_for_masters()?;
        Ok(links)
    }

    fn wait_for_masters(&mut self) -> Result<(), ClusterFault> {
        let begun = clock::instant();
        let longest = Duration::from_millis(START_MS.max(4 * self.conf.timeout_ms));
        loop {
            let left = longest.saturating_sub(clock::since(begun));
            match self.received.recv_timeout(left) {
                Ok(report) => self.take_report(report),
                Err(_) => return Ok(()),
            }
            self.flush();
            let fault = self.events.iter().find_map(|event| match event {
                Event::Fault(ClusterFault::Unreachable(_)) => None,
                Event::Fault(fault) => Some(fault.clone()),
                _ => None,
            });
            if let Some(fault) = fault {
                return Err(fault);
            }
            let has_reported = |link: &MasterLink| link.state != LinkState::Connecting;
            let is_over = self.links.iter().all(has_reported) && self.secret == SecretState::Right;
            if self.is_unreachable || self.has_view && is_over {
                return Ok(());
            }
        }
    }

    /// Sends a message with the next [`Links::flush`].
    pub fn send(&mut self, message: Message) {
        self.route(Task::Message(message));
    }

    /// Sends a message to a record with the next [`Links::flush`]; the answer is [`Event::Warm`].
    pub fn send_warm(&mut self, message: WarmMessage) {
        self.route(Task::Warm(message));
    }

    /// Publishes on the channel of a ledger. There is no answer.
    pub fn publish(&mut self, ledger: &str, payload: Vec<u8>) {
        let channel = name::channel(&self.conf.name, ledger.as_bytes());
        self.route(Task::Publish { ledger: ledger.to_owned(), channel, payload });
    }

    /// Asks for the hosts with unspent uses. The answer is [`Event::Holders`].
    pub fn ask_holders(&mut self, id: Id, ledger: &str) {
        self.route(Task::Holders { id, ledger: ledger.to_owned() });
    }

    /// Asks for the reset epoch of a biz, and reports the local one. The answer is the larger one,
    /// as [`Event::Epoch`].
    pub fn ask_epoch(&mut self, biz: u64, known: u64) {
        let key = name::epoch_key(&self.conf.name, biz);
        self.route(Task::Epoch { biz, known, key });
    }

    /// Asks whether the host's directory is the newest of its copies, and reports its last start.
    /// The answer is [`Event::Start`].
    pub fn ask_start(&mut self, starts: Starts) {
        let key = name::start_key(&self.conf.name, starts.host);
        self.route(Task::Start { starts, key });
    }

    /// Hands all messages to the threads.
    pub fn flush(&mut self) {
        for link in &mut self.links {
            if !link.batch.is_empty() {
                // A job settles itself if its thread is dead.
                let _ = link.jobs.send(std::mem::take(&mut link.batch));
            }
        }
    }

    /// Sets whether this host has unsent claims: masters learn until it has none. It is called
    /// after [`Links::flush`].
    pub fn set_claims(&self, has_claims: bool) {
        let claims = self.claims.load(Ordering::Relaxed);
        if has_claims != (claims % 2 == 1) {
            // Release: partner of the load in `serve`. The flushed jobs are in the queues by then.
            self.claims.store(claims + 1, Ordering::Release);
        }
    }

    /// Takes the events. This may send messages again, and flushes them.
    pub fn events(&mut self) -> impl Iterator<Item = Event> {
        while let Ok(report) = self.received.try_recv() {
            self.take_report(report);
        }
        self.flush();
        std::mem::take(&mut self.events).into_iter()
    }

    /// The time at `at` of the master that has last reported its time.
    pub fn ledger_now_ms(&self, at: Instant) -> Option<u64> {
        let beat = (*self.beat.lock().unwrap_or_else(PoisonError::into_inner))?;
        Some(beat.now_ms + at.saturating_duration_since(beat.at).as_millis() as u64)
    }

    /// The masters with slots. `None` if there is no view of the cluster yet.
    pub fn masters(&self) -> Option<Vec<ClusterNode>> {
        self.has_view.then(|| self.map.masters())
    }

    /// Whether the master of a slot can be asked now.
    #[cfg(any(test, feature = "testing"))]
    pub fn is_reachable(&self, slot: u16) -> bool {
        let link_to = |node: &ClusterNode| self.links.iter().find(|link| link.node == *node);
        let is_up = |node| link_to(node).is_some_and(|link| link.state == LinkState::Up);
        self.secret == SecretState::Right && self.map.master(slot).is_some_and(is_up)
    }

    fn link(&mut self, number: LinkNumber) -> Option<&mut MasterLink> {
        self.links.iter_mut().find(|link| link.number == number)
    }

    fn route(&mut self, task: Task) {
        let slot = task.slot();
        let is_own = matches!(task, Task::Secret { .. } | Task::Slots(_));
        let may_go = self.secret == SecretState::Right || is_own;
        let master = self.map.master(slot).filter(|_| may_go).cloned();
        let at = master.and_then(|node| self.links.iter().position(|link| link.node == node));
        match at {
            Some(at) => self.push(at, task, false, 0),
            None => self.lose(task, Lost::Down { slot }),
        }
    }

    /// Settles a task that no link carries.
    fn lose(&mut self, task: Task, why: Lost) {
        let function = task.function();
        let (settled, result) = task.settle(Err(why));
        self.access.counts.count(function, result);
        self.settle(settled);
    }

    fn push(&mut self, at: usize, task: Task, asking: bool, redirected: u32) {
        let link = &mut self.links[at];
        if link.state == LinkState::Down {
            let slot = task.slot();
            self.lose(task, Lost::Down { slot });
        } else if link.waiting >= MAX_WAITING {
            self.lose(task, Lost::Full(MAX_WAITING));
        } else {
            let (reports, counts) = (self.reports.clone(), Arc::clone(&self.access.counts));
            link.waiting += 1;
            link.batch.push(Job {
                task: Some(task),
                asking,
                redirected,
                loaded: 0,
                link: link.number,
                reports,
                counts,
                given: clock::instant(),
            });
        }
    }

    fn take_report(&mut self, report: Report) {
        match report {
            Report::Settled { link, settled } => {
                if let Some(link) = self.link(link) {
                    link.waiting = link.waiting.saturating_sub(1);
                }
                self.settle(settled);
            }
            Report::Up { link, is_changed, learns } => self.come_up(link, is_changed, learns),
            Report::Down { link, why } => self.go_down(link, why),
            Report::Changed { link } => {
                if let Some(link) = self.link(link) {
                    let node = link.node.clone();
                    let slots = self.map.slots_of(&node);
                    self.meet(&slots);
                    self.report_new_master(slots);
                    self.ask_secret();
                }
            }
            Report::Outdated => self.look(),
            Report::Fault(fault) => self.report_fault(fault),
            Report::View(view) => self.see(&view),
            Report::NoView(why) => {
                if !std::mem::replace(&mut self.is_unreachable, true) {
                    self.report_fault(ClusterFault::Unreachable(why));
                }
            }
            Report::Published { channel, payload } => {
                self.listening.untaken.fetch_sub(1, Ordering::Relaxed);
                self.events.push_back(Event::Published { channel, payload });
            }
            Report::Listening => self.events.push_back(Event::Listening),
            Report::Died(thread) => self.replace(thread),
        }
    }

    fn settle(&mut self, settled: Settled) {
        match settled {
            Settled::Event(event) => self.events.push_back(event),
            Settled::Silent => {}
            Settled::Unmet { slots, is_redirected } => self.meet_again(&slots, is_redirected),
            Settled::Secret(result) => self.take_secret_answer(result),
            Settled::Redirected { task, redirection, redirected } => {
                self.redirect(task, &redirection, redirected);
            }
        }
    }

    fn redirect(&mut self, task: Task, redirection: &Redirection, redirected: u32) {
        let Redirection { slot, node, asks } = redirection;
        if redirected > MAX_REDIRECTED {
            self.look();
            return self.settle(task.settle(Err(Lost::Redirected(redirected))).0);
        }
        let is_new = !asks && self.map.redirect(*slot, node);
        let at = match self.ensure_link(node) {
            Ok(at) => at,
            Err(fault) => {
                self.report_fault(fault);
                return self.settle(task.settle(Err(Lost::Down { slot: *slot })).0);
            }
        };
        if is_new {
            self.change_masters(vec![*slot..*slot + 1]);
        }
        if !asks {
            self.look();
        }
        self.push(at, task, *asks, redirected);
    }

    fn look(&self) {
        // It fails only if the scout has died, and is about to be replaced.
        let _ = self.scout.send(Order::Look);
    }

    fn see(&mut self, view: &View) {
        (self.has_view, self.is_unreachable) = (true, false);
        let changed = self.map.learn(view);
        let masters = self.map.masters();
        self.links.retain(|link| self.map.is_master(&link.node));
        for node in &masters {
            if let Err(fault) = self.ensure_link(node) {
                self.report_fault(fault);
            }
        }
        self.set_beat_slots();
        if !changed.is_empty() {
            self.change_masters(changed);
            let seeds = self.conf.nodes.iter().chain(&view.replicas);
            let mut nodes = masters;
            for node in seeds {
                if !nodes.contains(node) {
                    nodes.push(node.clone());
                }
            }
            self.set_nodes(nodes);
        }
        if self.secret == SecretState::Unknown {
            self.ask_secret();
        }
    }

    /// Sets the nodes that are asked for the topology, and listened to.
    fn set_nodes(&mut self, nodes: Vec<ClusterNode>) {
        let mut listened = self.listening.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        listened.clone_from(&nodes);
        drop(listened);
        let _ = self.scout.send(Order::Nodes(nodes));
    }

    /// Reports that slots have other masters: now, or when their master can be asked.
    fn change_masters(&mut self, changed: Vec<Range<u16>>) {
        let mut reachable: Vec<Range<u16>> = Vec::new();
        for slot in changed.into_iter().flatten() {
            let Some(node) = self.map.master(slot) else { continue };
            let Some(link) = self.links.iter_mut().find(|link| link.node == *node) else {
                continue;
            };
            if link.state != LinkState::Up {
                link.owes = true;
                continue;
            }
            slot_map::add(&mut reachable, slot);
        }
        self.meet(&reachable);
        self.report_new_master(reachable);
    }

    fn report_new_master(&mut self, slots: Vec<Range<u16>>) {
        if !slots.is_empty() {
            self.events.push_back(Event::NewMaster { slots });
        }
    }

    /// Has masters start to learn in all slots that are new to them. Without this a slot would
    /// start at its first use, perhaps hours later, and refuse without need.
    fn meet(&mut self, slots: &[Range<u16>]) {
        let all: Vec<u16> = slots.iter().cloned().flatten().collect();
        let is_of_one = |one: &u16, next: &u16| self.map.master(*one) == self.map.master(*next);
        let parts = all.chunk_by(is_of_one).flat_map(|of_one| of_one.chunks(SLOTS_AT_ONCE));
        let parts: Vec<Vec<u16>> = parts.map(<[u16]>::to_vec).collect();
        parts.into_iter().for_each(|part| self.route(Task::Slots(part)));
    }

    /// Handles slots that may not have begun to learn. A first slot with another master does not
    /// hold up the others.
    fn meet_again(&mut self, slots: &[u16], is_redirected: bool) {
        let Some(node) = slots.first().and_then(|&slot| self.map.master(slot)) else { return };
        let Some(link) = self.links.iter_mut().find(|link| link.node == *node) else { return };
        if is_redirected && link.state == LinkState::Up {
            if slots.len() > 1 {
                self.route(Task::Slots(slots[1..].to_vec()));
            }
        } else {
            link.is_unmet = true;
        }
    }

    /// Gives each link a slot of its master for heartbeats, and keeps it while the master has it.
    fn set_beat_slots(&self) {
        for link in &self.links {
            let slot = link.slot.load(Ordering::Relaxed);
            let is_its = slot != NO_SLOT && self.map.master(slot) == Some(&link.node);
            if !is_its {
                link.slot.store(self.beat_slot(&link.node), Ordering::Relaxed);
            }
        }
    }

    fn beat_slot(&self, node: &ClusterNode) -> u16 {
        // The last slot, as slots are usually moved away from the first on.
        self.map.slots_of(node).last().map_or(NO_SLOT, |slots| slots.end - 1)
    }

    fn come_up(&mut self, number: LinkNumber, is_changed: bool, learns: bool) {
        let Some(link) = self.link(number) else { return };
        let is_first = link.state == LinkState::Connecting;
        link.state = LinkState::Up;
        let owes = std::mem::take(&mut link.owes);
        let is_unmet = std::mem::take(&mut link.is_unmet);
        let is_reported = owes || is_changed;
        let node = link.node.clone();
        self.events.push_back(Event::Up { node: node.to_string() });
        self.last_fault = None;
        let slots = if is_reported || is_unmet { self.map.slots_of(&node) } else { Vec::new() };
        // If a master is new to this host and no longer learns, another host has already met its
        // slots.
        if is_unmet || is_reported && (learns || !is_first) {
            self.meet(&slots);
        }
        if is_reported {
            self.report_new_master(slots);
        }
        if is_reported || self.secret != SecretState::Right {
            self.ask_secret();
        }
    }

    fn go_down(&mut self, number: LinkNumber, why: String) {
        let Some(link) = self.link(number) else { return };
        link.state = LinkState::Down;
        let node = link.node.to_string();
        self.events.push_back(Event::Down { node, why });
        self.look();
    }

    /// Asks for the check of the secret. A secret that is known to be right stays right meanwhile.
    fn ask_secret(&mut self) {
        let key = name::secret_key(&self.conf.name);
        if matches!(self.secret, SecretState::Unknown) {
            self.secret = SecretState::Asked;
        }
        self.route(Task::Secret { key, check: self.check.clone() });
    }

    fn take_secret_answer(&mut self, result: Result<String, Lost>) {
        match result {
            Ok(known) if known == self.check => self.secret = SecretState::Right,
            Ok(_) => {
                self.secret = SecretState::Wrong;
                let key = name::secret_key(&self.conf.name);
                let node = self.map.master(name::slot(key.as_bytes()));
                let node = node.map_or_else(String::new, ToString::to_string);
                let cluster = self.conf.name.clone();
                self.report_fault(ClusterFault::OtherSecret { cluster, node });
            }
            // The next view asks again.
            Err(_) if self.secret == SecretState::Asked => self.secret = SecretState::Unknown,
            Err(_) => {}
        }
    }

    /// Reports a fault, but not the same one twice in a row.
    fn report_fault(&mut self, fault: ClusterFault) {
        if self.last_fault.as_ref() != Some(&fault) {
            self.last_fault = Some(fault.clone());
            self.events.push_back(Event::Fault(fault));
        }
    }

    fn ensure_link(&mut self, node: &ClusterNode) -> Result<usize, ClusterFault> {
        if let Some(at) = self.links.iter().position(|link| link.node == *node) {
            return Ok(at);
        }
        let (sender, jobs) = channel();
        let number = self.numbers;
        self.numbers += 1;
        let slot = Arc::new(AtomicU16::new(self.beat_slot(node)));
        let args = LinkArgs {
            number,
            node: node.clone(),
            access: self.access.clone(),
            learn_ms: self.conf.learn_ms,
            batch: self.conf.batch as usize,
            wait_replicas: self.conf.wait_replicas,
            seed: random(),
            reports: self.reports.clone(),
            beat: Arc::clone(&self.beat),
            slot: Arc::clone(&slot),
            slots: self.slots.clone(),
            claims: Arc::clone(&self.claims),
            jobs,
        };
        self.spawn(Thread::Link(number), || link_thread::run(args)).map_err(start_fault)?;
        self.links.push(MasterLink {
            number,
            node: node.clone(),
            state: LinkState::Connecting,
            waiting: 0,
            batch: Vec::new(),
            jobs: sender,
            slot,
            owes: true,
            is_unmet: false,
        });
        Ok(self.links.len() - 1)
    }

    fn start_scout(&mut self, orders: Receiver<Order>) -> std::io::Result<()> {
        let (access, reports) = (self.access.clone(), self.reports.clone());
        let nodes = self.listening.nodes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let between = Duration::from_millis((self.conf.learn_ms / 2).clamp(50, 1000));
        let run = move || scout::run(access, nodes, between, &reports, &orders);
        self.spawn(Thread::Scout, run)
    }

    fn start_channels(&self) -> std::io::Result<()> {
        let args = ChannelArgs {
            cluster: self.conf.name.clone(),
            access: self.access.clone(),
            seed: random(),
            reports: self.reports.clone(),
            listening: Arc::clone(&self.listening),
        };
        self.spawn(Thread::Channels, || channels::run(args))
    }

    fn spawn(&self, thread: Thread, body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        let alive = self.alive.clone().expect("the links have not ended");
        spawn(thread, alive, self.reports.clone(), body)
    }

    /// Replaces a thread that has died.
    fn replace(&mut self, thread: Thread) {
        self.report_fault(ClusterFault::ThreadDied(thread.to_string()));
        let started = match thread {
            Thread::Link(number) => {
                match self.links.iter().position(|link| link.number == number) {
                    Some(at) => {
                        let node = self.links.remove(at).node;
                        self.ensure_link(&node).map(|_| ())
                    }
                    None => Ok(()),
                }
            }
            Thread::Scout => {
                let (scout, orders) = channel();
                self.scout = scout;
                self.start_scout(orders).map_err(start_fault)
            }
            Thread::Channels => self.start_channels().map_err(start_fault),
        };
        if let Err(fault) = started {
            self.report_fault(fault);
        }
    }
}

/// Ends all threads. A thread that waits for a name server is left behind after some timeouts.
impl Drop for Links {
    fn drop(&mut self) {
        self.listening.is_over.store(true, Ordering::Relaxed);
        self.links.clear();
        self.scout = channel().0;
        self.alive = None;
        let longest = END_TIMEOUTS * self.access.timeout + Duration::from_millis(500);
        // Nothing is ever sent. It returns when all threads have dropped their senders.
        let _ = self.ended.recv_timeout(longest);
    }
}

fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

fn start_fault(error: impl std::fmt::Display) -> ClusterFault {
    ClusterFault::Start(error.to_string())
}
