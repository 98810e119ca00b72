//! The thread for one master: it connects, checks the node, and sends one pipeline at a time.
//!
//! Invariant: a master's answers count only if it is known whose data they are about. Before the
//! first message of a connection the node has given its identity, and has reported whether it
//! learns in a slot.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use frs_base::clock;
use frs_conf::ClusterNode;
use redis::{Cmd, Value, cmd};

use super::backoff::Backoff;
use super::functions;
use super::job::Job;
use super::link_events::Lost;
use super::task::Task;
use super::thread_reports::{LinkNumber, Report, Reports};
use super::topology::Redirection;
use super::wire::{Access, Broken, Wire, is_not_allowed, words};
use crate::figures::{ClusterFunction, ClusterResult};
use crate::ledger::{self, Heartbeat};
use crate::name::SlotKeys;

/// Stands for no slot: the master is not known to have one.
pub(super) const NO_SLOT: u16 = u16::MAX;
/// Timeouts after which a connection with missing answers is given up.
const LATE_TIMEOUTS: u32 = 4;
/// Most late pipelines in a row: a node that is always late cannot be used.
const LATE_IN_TURN: u32 = 4;
/// Most loads of the library for one message.
const MAX_LOADS: u32 = 3;

/// The time of a master.
#[derive(Debug, Clone, Copy)]
pub(super) struct Beat {
    pub(super) now_ms: u64,
    /// The local time, about, at which the master had that time.
    pub(super) at: Instant,
}

/// The arguments of a link.
pub(super) struct LinkArgs {
    pub(super) number: LinkNumber,
    pub(super) node: ClusterNode,
    pub(super) access: Access,
    pub(super) learn_ms: u64,
    pub(super) batch: usize,
    pub(super) wait_replicas: u32,
    pub(super) seed: u64,
    pub(super) reports: Reports,
    /// The last time that any master has reported.
    pub(super) beat: Arc<Mutex<Option<Beat>>>,
    /// The slot of heartbeats: one of the master's, or [`NO_SLOT`].
    pub(super) slot: Arc<AtomicU16>,
    pub(super) slots: SlotKeys,
    /// Odd while the host has unsent claims. Each change of that adds 1.
    pub(super) claims: Arc<AtomicU64>,
    /// The jobs. The link ends when this is closed.
    pub(super) jobs: Receiver<Vec<Job>>,
}

/// Runs a link until its jobs are closed.
pub(super) fn run(args: LinkArgs) {
    let link = Link {
        backoff: Backoff::new(args.seed ^ args.number),
        args,
        identity: None,
        since: None,
        reported: None,
        is_near: false,
        claims_left: 0,
        claims_seen: 0,
        late_in_turn: 0,
    };
    link.run();
}

struct Link {
    args: LinkArgs,
    backoff: Backoff,
    /// Whose data the node had when it was last asked.
    identity: Option<String>,
    /// When the master got the slot of the last heartbeat.
    since: Option<Since>,
    /// The reason last reported why the link is down.
    reported: Option<Broken>,
    /// The node is about to serve, and starts to learn then: the holders must be connected by then.
    is_near: bool,
    /// Jobs to be sent up to the host's last claim.
    claims_left: usize,
    claims_seen: u64,
    /// Pipelines since the last one that was answered in time.
    late_in_turn: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Since {
    slot: u16,
    ms: u64,
}

impl Link {
    fn run(mut self) {
        loop {
            let served = self.connect().and_then(|wire| {
                self.reported = None;
                self.backoff.reset();
                self.serve(wire)
            });
            let Err(broken) = served else { return };
            self.report_broken(broken);
            if !self.decline() {
                return;
            }
        }
    }

    /// Reports why the link is down, once for each reason.
    fn report_broken(&mut self, broken: Broken) {
        if self.reported.as_ref() == Some(&broken) {
            return;
        }
        if let Broken::Unfit(fault) = &broken {
            self.args.reports.send(Report::Fault(fault.clone()));
        }
        self.args.reports.send(Report::Down { link: self.args.number, why: broken.why() });
        self.reported = Some(broken);
    }

    /// Waits for the next attempt. Jobs that come meanwhile are lost at once. False if the owner
    /// has closed the link.
    fn decline(&mut self) -> bool {
        let wait = self.backoff.wait();
        let is_near = std::mem::take(&mut self.is_near);
        let until = clock::instant() + if is_near { wait.min(self.between()) } else { wait };
        loop {
            match self.args.jobs.recv_timeout(until.saturating_duration_since(clock::instant())) {
                Ok(jobs) => jobs.into_iter().for_each(|job| {
                    let slot = job.task().slot();
                    job.lose(Lost::Down { slot });
                }),
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    fn connect(&mut self) -> Result<Wire, Broken> {
        let mut wire = self.args.access.open(&self.args.node)?;
        let identity = self.identify(&mut wire)?;
        let beat = match self.ask_beat(&mut wire)? {
            Some(beat) => beat,
            None => {
                functions::load(&mut wire, self.args.access.timeout)?;
                let missing = || Broken::Lost("the library is not there".to_owned());
                self.ask_beat(&mut wire)?.ok_or_else(missing)?
            }
        };
        let is_other = self.identity.as_ref() != Some(&identity);
        self.identity = Some(identity);
        let is_changed = self.is_changed(&beat) || is_other;
        let learns = beat.beat.learning_ms > 0 || beat.slot == NO_SLOT;
        self.args.reports.send(Report::Up { link: self.args.number, is_changed, learns });
        Ok(wire)
    }

    /// The identity of the node's data. The node must be fit to hold ledgers.
    fn identify(&self, wire: &mut Wire) -> Result<String, Broken> {
        let info = functions::info(wire, LATE_TIMEOUTS * self.args.access.timeout)?;
        match info.fault(&self.args.node.to_string()) {
            Some(fault) => Err(Broken::Unfit(fault)),
            None => Ok(info.identity),
        }
    }

    /// Sends a heartbeat. `None` if the library is missing.
    fn ask_beat(&mut self, wire: &mut Wire) -> Result<Option<SlotBeat>, Broken> {
        loop {
            let begun = clock::instant();
            let (slot, command) = self.heartbeat();
            let answer = wire.one(command, self.args.access.timeout);
            let answer = answer.inspect_err(|_| self.count_beat(ClusterResult::Timeout))?;
            match self.read_beat(wire, &answer, slot, begun)? {
                BeatAnswer::Beat(beat) => return Ok(Some(beat)),
                BeatAnswer::LibraryMissing => return Ok(None),
                // A heartbeat without a slot is never redirected.
                BeatAnswer::Redirected => {}
            }
        }
    }

    fn read_beat(
        &mut self,
        wire: &Wire,
        answer: &Value,
        slot: u16,
        begun: Instant,
    ) -> Result<BeatAnswer, Broken> {
        let Value::ServerError(error) = answer else {
            return self.read_numbers(answer, slot, begun).map(BeatAnswer::Beat);
        };
        let error = words(error);
        if ledger::is_library_missing(&error) {
            Ok(BeatAnswer::LibraryMissing)
        } else if self.is_redirected(slot, &error) {
            Ok(BeatAnswer::Redirected)
        } else {
            Err(self.refused_beat(wire, &error))
        }
    }

    /// Whether the heartbeat was redirected, as its slot has another master. Then heartbeats go
    /// without a slot until the next view shows which slots the master has.
    fn is_redirected(&self, slot: u16, error: &str) -> bool {
        let is_redirected = Redirection::read(error, &self.args.node).is_some();
        if is_redirected {
            self.count_beat(ClusterResult::Moved);
            // The owner may have set another slot already.
            let _ = self.args.slot.compare_exchange(
                slot,
                NO_SLOT,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            self.args.reports.send(Report::Outdated);
        }
        is_redirected
    }

    /// The end of a connection whose heartbeat was refused: a master that became a replica refuses
    /// them.
    fn refused_beat(&mut self, wire: &Wire, error: &str) -> Broken {
        self.count_beat(ClusterResult::Error);
        self.args.reports.send(Report::Outdated);
        let code = error.split(' ').next().unwrap_or_default();
        self.is_near = matches!(code, "CLUSTERDOWN" | "LOADING");
        wire.refusal(error)
    }

    /// Counts a heartbeat. If the library is missing the heartbeat is repeated, and only that one
    /// counts.
    fn count_beat(&self, result: ClusterResult) {
        self.args.access.counts.count(ClusterFunction::Heartbeat, result);
    }

    fn heartbeat(&self) -> (u16, Cmd) {
        let slot = self.args.slot.load(Ordering::Relaxed);
        let mut command = cmd("FCALL");
        command.arg(ledger::HEARTBEAT);
        match slot {
            NO_SLOT => command.arg(0),
            slot => command.arg(1).arg(self.args.slots.of(slot)),
        };
        let claims = self.claims_left > 0;
        command.arg(&ledger::heartbeat_arguments(self.args.learn_ms, claims));
        (slot, command)
    }

    fn read_numbers(&self, value: &Value, slot: u16, begun: Instant) -> Result<SlotBeat, Broken> {
        let numbers: Vec<i64> =
            redis::from_redis_value_ref(value).map_err(|error| Broken::Lost(error.to_string()))?;
        let beat =
            ledger::decode_heartbeat(&numbers).map_err(|bad| Broken::Lost(bad.to_string()))?;
        let is_learning = beat.learning_ms > 0;
        self.count_beat(if is_learning { ClusterResult::Learning } else { ClusterResult::Ok });
        let at = begun + clock::since(begun) / 2;
        let mut last = self.args.beat.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *last = Some(Beat { now_ms: beat.now_ms, at });
        Ok(SlotBeat { beat, slot })
    }

    /// Whether the master has got the slot since the last heartbeat.
    fn is_changed(&mut self, beat: &SlotBeat) -> bool {
        let SlotBeat { beat, slot } = *beat;
        if slot == NO_SLOT {
            return false;
        }
        let since = Since { slot, ms: beat.since_ms };
        match self.since.replace(since) {
            Some(before) if before.slot == slot => before != since,
            _ => beat.learning_ms > 0,
        }
    }

    /// The time between two heartbeats.
    fn between(&self) -> Duration {
        Duration::from_millis((self.args.learn_ms / 4).max(1))
    }

    /// Sends jobs and heartbeats until the owner closes the link.
    fn serve(&mut self, mut wire: Wire) -> Result<(), Broken> {
        let between = self.between();
        let mut beaten = clock::instant();
        let mut waiting = JobQueue::default();
        (self.claims_left, self.late_in_turn) = (0, 0);
        loop {
            if waiting.is_empty() {
                let left = between.saturating_sub(clock::since(beaten));
                match self.args.jobs.recv_timeout(left) {
                    Ok(jobs) => waiting.add(jobs),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return Ok(()),
                }
            }
            // Acquire: partner of the store in `set_claims`. Claims were queued before the host
            // reported that it has no more.
            let claims = self.args.claims.load(Ordering::Acquire);
            self.args.jobs.try_iter().for_each(|jobs| waiting.add(jobs));
            let is_other = claims != std::mem::replace(&mut self.claims_seen, claims);
            let has_claims = claims % 2 == 1;
            if has_claims || is_other {
                self.claims_left = waiting.jobs.len().max(usize::from(has_claims));
            }
            // A learning master must learn of the claims before its learning ends.
            let is_due = is_other && has_claims || clock::since(beaten) >= between;
            if is_due {
                beaten = clock::instant();
            }
            let jobs = waiting.take(self.args.batch);
            let again = self.pipeline(&mut wire, jobs, is_due)?;
            again.into_iter().rev().for_each(|job| waiting.jobs.push_front(job));
        }
    }

    /// Reports whether the master has got the slot anew.
    fn note_change(&mut self, wire: &mut Wire, beat: &SlotBeat) -> Result<(), Broken> {
        if self.is_changed(beat) {
            // Reports the change first: if the connection breaks the change is not seen again.
            self.args.reports.send(Report::Changed { link: self.args.number });
            self.identity = Some(self.identify(wire)?);
        }
        Ok(())
    }

    /// Sends jobs in one pipeline, and a heartbeat if one is due. Returns the jobs that must be
    /// sent again.
    fn pipeline(
        &mut self,
        wire: &mut Wire,
        jobs: Vec<Job>,
        is_beat_due: bool,
    ) -> Result<Vec<Job>, Broken> {
        let given = jobs.iter().filter(|job| !matches!(job.task(), Task::Slots(_))).count();
        let Pipeline { commands, jobs, waits, slot } = self.pack(jobs, is_beat_due);
        self.claims_left = self.claims_left.saturating_sub(given.max(1));
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        let begun = clock::instant();
        let timeout = self.args.access.timeout;
        let in_time = if waits { 2 * timeout } else { timeout };
        let mut jobs = Some(jobs);
        let mut lose = |broken: &Broken| {
            for job in jobs.take().into_iter().flatten() {
                job.lose(Lost::Broken { node: self.args.node.to_string(), why: broken.why() });
            }
        };
        let late = Broken::Lost(format!("no answer within {} ms", in_time.as_millis()));
        let answers =
            wire.exchange_or_late(&commands, [in_time, LATE_TIMEOUTS * timeout], || lose(&late));
        let answers = answers.inspect_err(|broken| {
            lose(broken);
            if is_beat_due {
                self.count_beat(ClusterResult::Timeout);
            }
        })?;
        // Jobs with late answers were lost, and are sent again.
        self.late_in_turn = if jobs.is_some() { 0 } else { self.late_in_turn + 1 };
        let jobs = jobs.unwrap_or_default();
        let mut values = answers;
        let acknowledged = if waits { values.pop() } else { None };
        let beat = if is_beat_due { values.pop() } else { None };
        let mut values = values.into_iter();
        let values: Vec<Value> = jobs
            .iter()
            .filter_map(|job| {
                if job.asking {
                    values.next();
                }
                values.next()
            })
            .collect();
        let again = self.settle(jobs, values, acknowledged);
        let beat = beat.map(|beat| self.read_beat(wire, &beat, slot, begun)).transpose()?;
        if let Some(BeatAnswer::Beat(beat)) = &beat {
            self.note_change(wire, beat)?;
        }
        if self.late_in_turn >= LATE_IN_TURN {
            return Err(late);
        }
        if matches!(beat, Some(BeatAnswer::LibraryMissing)) || !again.is_empty() {
            functions::load(wire, timeout)?;
            if let Some(beat) = self.ask_beat(wire)? {
                self.note_change(wire, &beat)?;
            }
        }
        Ok(again)
    }

    fn pack(&self, jobs: Vec<Job>, is_beat_due: bool) -> Pipeline {
        let mut pipeline =
            Pipeline { commands: Vec::new(), jobs: Vec::new(), waits: false, slot: NO_SLOT };
        for job in jobs {
            let command = match job.task().command(self.args.learn_ms, &self.args.slots, job.asking)
            {
                Ok(command) => command,
                Err(unfit) => {
                    job.lose(Lost::Unfit(unfit));
                    continue;
                }
            };
            if job.asking {
                pipeline.commands.push(cmd("ASKING"));
            }
            pipeline.waits |= self.args.wait_replicas > 0 && job.task().writes();
            pipeline.commands.push(command);
            pipeline.jobs.push(job);
        }
        if is_beat_due {
            let (slot, command) = self.heartbeat();
            pipeline.slot = slot;
            pipeline.commands.push(command);
        }
        if pipeline.waits {
            let mut wait = cmd("WAIT");
            let timeout_ms = self.args.access.timeout.as_millis() as u64;
            wait.arg(self.args.wait_replicas).arg(timeout_ms.max(1));
            pipeline.commands.push(wait);
        }
        pipeline
    }

    /// Settles the jobs by their answers. Returns the jobs that were not run because the library is
    /// missing.
    fn settle(&self, jobs: Vec<Job>, values: Vec<Value>, acknowledged: Option<Value>) -> Vec<Job> {
        let expected = self.args.wait_replicas;
        let acknowledged = match acknowledged {
            Some(Value::Int(replicas)) => u32::try_from(replicas).unwrap_or(0),
            Some(_) => 0,
            None => expected,
        };
        let mut again = Vec::new();
        for (mut job, value) in jobs.into_iter().zip(values) {
            let error = match &value {
                Value::ServerError(error) => words(error),
                _ if job.task().writes() && acknowledged < expected => {
                    job.lose(Lost::NotAcknowledged { acknowledged, expected });
                    continue;
                }
                value => {
                    job.answer(value, &self.args.node);
                    continue;
                }
            };
            if ledger::is_library_missing(&error) && job.loaded < MAX_LOADS {
                job.loaded += 1;
                again.push(job);
            } else if matches!(job.task(), Task::Slots(_)) {
                // The master that gets the slots begins to learn in them then.
                self.refuse(job, error);
            } else if let Some(redirection) = Redirection::read(&error, &self.args.node) {
                job.redirect(redirection);
            } else {
                self.refuse(job, error);
            }
        }
        self.args.reports.ring();
        again
    }

    fn refuse(&self, job: Job, error: String) {
        let node = self.args.node.to_string();
        match error.split(' ').next().unwrap_or_default() {
            "READONLY" | "CLUSTERDOWN" | "MASTERDOWN" | "MOVED" => {
                self.args.reports.send(Report::Outdated)
            }
            _ if is_not_allowed(&error) => {
                let broken = super::wire::not_allowed(&self.args.node, &error);
                if let Broken::Unfit(fault) = broken {
                    self.args.reports.send(Report::Fault(fault));
                }
            }
            _ => {}
        }
        job.lose(Lost::Refused { node, error });
    }
}

/// Jobs to send. There are many jobs of slots, so they never delay the others.
#[derive(Default)]
struct JobQueue {
    jobs: VecDeque<Job>,
    slots: VecDeque<Job>,
}

impl JobQueue {
    fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.slots.is_empty()
    }

    fn add(&mut self, jobs: Vec<Job>) {
        for job in jobs {
            let is_of_slots = matches!(job.task(), Task::Slots(_));
            if is_of_slots { self.slots.push_back(job) } else { self.jobs.push_back(job) }
        }
    }

    /// The next pipeline.
    fn take(&mut self, batch: usize) -> Vec<Job> {
        let count = self.jobs.len().min(batch);
        self.jobs.drain(..count).chain(self.slots.pop_front()).collect()
    }
}

struct Pipeline {
    commands: Vec<Cmd>,
    jobs: Vec<Job>,
    /// Replicas have to acknowledge the writes of the pipeline.
    waits: bool,
    /// The slot of the heartbeat, if one is due.
    slot: u16,
}

enum BeatAnswer {
    Beat(SlotBeat),
    LibraryMissing,
    /// Its slot has another master.
    Redirected,
}

/// The answer to a heartbeat about a slot.
struct SlotBeat {
    beat: Heartbeat,
    slot: u16,
}
