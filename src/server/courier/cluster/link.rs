//! The thread for one master: connects, checks the node, and sends pipelines, one at a time.
//!
//! Invariant: a master's answers count only if it is known whose data they are about: before the
//! first message of a connection, the node has said who it is, and whether it learns.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use frs::base::clock;
use frs::conf::ClusterNode;
use frs::store::counter::{ClusterFunction, ClusterResult};
use redis::{Cmd, Value, cmd};

use super::backoff::Backoff;
use super::functions;
use super::job::Job;
use super::message::Lost;
use super::report::{LinkNumber, Report, Reports};
use super::topology::Redirection;
use super::wire::{Access, Broken, Wire, is_not_allowed, words};
use crate::courier::ledger::{self, Heartbeat};

/// Loads of the library for one message.
const MAX_LOADS: u32 = 3;

/// The time of a master.
#[derive(Debug, Clone, Copy)]
pub(super) struct Beat {
    pub(super) now_ms: u64,
    /// When it was that, about.
    pub(super) at: Instant,
}

/// What a link is started with.
pub(super) struct LinkArgs {
    pub(super) number: LinkNumber,
    pub(super) node: ClusterNode,
    pub(super) access: Access,
    pub(super) learn_ms: u64,
    pub(super) batch: usize,
    pub(super) wait_replicas: u32,
    pub(super) seed: u64,
    pub(super) reports: Reports,
    /// The last time that any master has told.
    pub(super) beat: Arc<Mutex<Option<Beat>>>,
    /// Closed: the link ends.
    pub(super) jobs: Receiver<Vec<Job>>,
}

/// Runs a link until its jobs are closed.
pub(super) fn run(args: LinkArgs) {
    let backoff = Backoff::new(args.seed ^ args.number);
    let link = Link { args, backoff, identity: None, born_ms: None, said: None };
    link.run();
}

/// The owner has closed the link.
struct Closed;

struct Link {
    args: LinkArgs,
    backoff: Backoff,
    /// Whose data the node had when it was last asked.
    identity: Option<String>,
    /// When it began to learn, the last time.
    born_ms: Option<u64>,
    /// Why the link is down, as last reported.
    said: Option<Broken>,
}

impl Link {
    fn run(mut self) {
        loop {
            let broken = match self.connect() {
                Ok(wire) => {
                    self.said = None;
                    self.backoff.reset();
                    match self.serve(wire) {
                        Ok(Closed) => return,
                        Err(broken) => broken,
                    }
                }
                Err(broken) => broken,
            };
            self.say(broken);
            if let Some(Closed) = self.decline() {
                return;
            }
        }
    }

    /// Reports why the link is down, once for each reason.
    fn say(&mut self, broken: Broken) {
        if self.said.as_ref() == Some(&broken) {
            return;
        }
        if let Broken::Unfit(fault) = &broken {
            self.args.reports.tell(Report::Fault(fault.clone()));
        }
        self.args.reports.tell(Report::Down { link: self.args.number, why: broken.why() });
        self.said = Some(broken);
    }

    /// Waits for the next attempt. What comes meanwhile is lost at once.
    fn decline(&mut self) -> Option<Closed> {
        let until = clock::instant() + self.backoff.wait();
        loop {
            match self.args.jobs.recv_timeout(until.saturating_duration_since(clock::instant())) {
                Ok(jobs) => jobs.into_iter().for_each(|job| {
                    let slot = job.task().slot();
                    job.lose(Lost::Down { slot });
                }),
                Err(RecvTimeoutError::Timeout) => return None,
                Err(RecvTimeoutError::Disconnected) => return Some(Closed),
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
        let born_ms = self.born_ms(&beat);
        let is_other = self.identity.as_ref() != Some(&identity);
        let learns_anew = born_ms.is_some() && born_ms != self.born_ms;
        self.identity = Some(identity);
        self.born_ms = born_ms.or(self.born_ms);
        let is_changed = is_other || learns_anew;
        self.args.reports.tell(Report::Up { link: self.args.number, is_changed });
        Ok(wire)
    }

    /// Whose data the node has. The node must be fit to hold ledgers.
    fn identify(&self, wire: &mut Wire) -> Result<String, Broken> {
        let facts = functions::facts(wire, self.args.access.timeout)?;
        match facts.fault(&self.args.node.to_string()) {
            Some(fault) => Err(Broken::Unfit(fault)),
            None => Ok(facts.identity),
        }
    }

    /// A heartbeat; none: the library is not there.
    fn ask_beat(&self, wire: &mut Wire) -> Result<Option<Heartbeat>, Broken> {
        let begun = clock::instant();
        let answers = wire.exchange(&[self.heartbeat()], self.args.access.timeout);
        if answers.is_err() {
            self.count_beat(ClusterResult::Timeout);
        }
        match answers?.first() {
            Some(Value::ServerError(error)) if ledger::is_library_missing(&words(error)) => {
                Ok(None)
            }
            Some(Value::ServerError(error)) => Err(self.refused_beat(wire, &words(error))),
            Some(value) => self.heard(value, begun).map(Some),
            None => Err(Broken::Lost("no answer".to_owned())),
        }
    }

    /// A master that became a replica refuses heartbeats.
    fn refused_beat(&self, wire: &Wire, error: &str) -> Broken {
        self.count_beat(ClusterResult::Error);
        self.args.reports.tell(Report::Outdated);
        wire.refusal(error)
    }

    /// Counts a heartbeat; one that finds no library is repeated and counted then.
    fn count_beat(&self, result: ClusterResult) {
        self.args.access.count(ClusterFunction::Heartbeat, result);
    }

    fn heartbeat(&self) -> Cmd {
        let mut command = cmd("FCALL");
        command.arg(ledger::HEARTBEAT).arg(0).arg(&ledger::heartbeat_arguments(self.args.learn_ms));
        command
    }

    fn heard(&self, value: &Value, begun: Instant) -> Result<Heartbeat, Broken> {
        let numbers: Vec<i64> =
            redis::from_redis_value_ref(value).map_err(|error| Broken::Lost(error.to_string()))?;
        let beat =
            ledger::decode_heartbeat(&numbers).map_err(|bad| Broken::Lost(bad.to_string()))?;
        let is_learning = beat.learning_ms > 0;
        self.count_beat(if is_learning { ClusterResult::Learning } else { ClusterResult::Ok });
        let at = begun + clock::since(begun) / 2;
        let mut last = self.args.beat.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *last = Some(Beat { now_ms: beat.now_ms, at });
        Ok(beat)
    }

    /// When the master began to learn; none: it does not learn now.
    fn born_ms(&self, beat: &Heartbeat) -> Option<u64> {
        let is_learning = beat.learning_ms > 0;
        is_learning.then(|| (beat.now_ms + beat.learning_ms).saturating_sub(self.args.learn_ms))
    }

    fn serve(&mut self, mut wire: Wire) -> Result<Closed, Broken> {
        let between = Duration::from_millis((self.args.learn_ms / 4).max(1));
        let mut beaten = clock::instant();
        let mut waiting = VecDeque::new();
        loop {
            if waiting.is_empty() {
                let left = between.saturating_sub(clock::since(beaten));
                match self.args.jobs.recv_timeout(left) {
                    Ok(jobs) => waiting.extend(jobs),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return Ok(Closed),
                }
            }
            self.args.jobs.try_iter().for_each(|jobs| waiting.extend(jobs));
            let unbeaten = clock::since(beaten);
            let is_due = unbeaten >= between;
            if is_due {
                beaten = clock::instant();
            }
            // The thread was stopped for long: what the master learned may be over already.
            if unbeaten >= 3 * between && self.identify(&mut wire)? != *self.identity() {
                self.note_change(&mut wire)?;
            }
            let count = waiting.len().min(self.args.batch);
            let jobs = waiting.drain(..count).collect();
            self.pipeline(&mut wire, jobs, is_due)?.into_iter().rev().for_each(|job| {
                waiting.push_front(job);
            });
        }
    }

    fn identity(&self) -> &String {
        self.identity.as_ref().expect("a link serves after it has identified the node")
    }

    fn note_change(&mut self, wire: &mut Wire) -> Result<(), Broken> {
        self.identity = Some(self.identify(wire)?);
        self.args.reports.tell(Report::Changed { link: self.args.number });
        Ok(())
    }

    /// Sends jobs in one pipeline, and a heartbeat if one is due. What is to be sent again.
    fn pipeline(
        &mut self,
        wire: &mut Wire,
        jobs: Vec<Job>,
        is_beat_due: bool,
    ) -> Result<Vec<Job>, Broken> {
        let Pipeline { commands, jobs, waits } = self.pack(jobs, is_beat_due);
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        let begun = clock::instant();
        let timeout = self.args.access.timeout;
        let longest = if waits { 2 * timeout } else { timeout };
        let answers = match wire.exchange(&commands, longest) {
            Ok(answers) => answers,
            Err(broken) => {
                jobs.into_iter().for_each(|job| job.lose(self.broken(&broken)));
                if is_beat_due {
                    self.count_beat(ClusterResult::Timeout);
                }
                return Err(broken);
            }
        };
        let mut answers = answers.into_iter();
        let values: Vec<Value> = jobs
            .iter()
            .filter_map(|job| {
                if job.asking {
                    answers.next();
                }
                answers.next()
            })
            .collect();
        let beat = if is_beat_due { answers.next() } else { None };
        let acknowledged = if waits { answers.next() } else { None };
        let again = self.settle(jobs, values, acknowledged);
        let is_beat_missing = match &beat {
            Some(Value::ServerError(error)) if ledger::is_library_missing(&words(error)) => true,
            Some(Value::ServerError(error)) => return Err(self.refused_beat(wire, &words(error))),
            Some(value) => {
                let beat = self.heard(value, begun)?;
                self.look_at(wire, &beat)?;
                false
            }
            None => false,
        };
        if is_beat_missing || !again.is_empty() {
            functions::load(wire, timeout)?;
            if let Some(beat) = self.ask_beat(wire)? {
                self.look_at(wire, &beat)?;
            }
        }
        Ok(again)
    }

    /// Reports when the master learns anew.
    fn look_at(&mut self, wire: &mut Wire, beat: &Heartbeat) -> Result<(), Broken> {
        let born_ms = self.born_ms(beat);
        if born_ms.is_some() && born_ms != self.born_ms {
            self.born_ms = born_ms;
            self.note_change(wire)?;
        }
        Ok(())
    }

    fn pack(&self, jobs: Vec<Job>, is_beat_due: bool) -> Pipeline {
        let mut pipeline = Pipeline { commands: Vec::new(), jobs: Vec::new(), waits: false };
        for job in jobs {
            let command = match job.task().command(self.args.learn_ms) {
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
            pipeline.commands.push(self.heartbeat());
        }
        if pipeline.waits {
            let mut wait = cmd("WAIT");
            let timeout_ms = self.args.access.timeout.as_millis() as u64;
            wait.arg(self.args.wait_replicas).arg(timeout_ms.max(1));
            pipeline.commands.push(wait);
        }
        pipeline
    }

    /// Settles what was answered. What was not, as the library is missing.
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
            "READONLY" | "CLUSTERDOWN" | "MASTERDOWN" => self.args.reports.tell(Report::Outdated),
            _ if is_not_allowed(&error) => {
                let broken = super::wire::not_allowed(&self.args.node, &error);
                if let Broken::Unfit(fault) = broken {
                    self.args.reports.tell(Report::Fault(fault));
                }
            }
            _ => {}
        }
        job.lose(Lost::Refused { node, error });
    }

    fn broken(&self, broken: &Broken) -> Lost {
        Lost::Broken { node: self.args.node.to_string(), why: broken.why() }
    }
}

struct Pipeline {
    commands: Vec<Cmd>,
    jobs: Vec<Job>,
    /// Replicas have to acknowledge what it writes.
    waits: bool,
}
