//! The preparing child prepares the store before any other process is started.
//!
//! Invariant: the master maps no group, so a faulting page cannot kill it. The child holds the
//! directory's lock, too: if the master dies, no other master starts before the child has ended. It
//! holds no connection for requests, so the master alone decides when one ends.

use std::collections::BTreeMap;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use serde_json::{Value, json};

use super::control_socket::ControlSocket;
use super::disk_room::lacking_room;
use crate::account::Account;
use crate::process::control::{Cause, Loss};
use frs_base::clock;
use frs_base::sys::EXIT_SIGBUS;
use frs_base::sys::process::{self, Exit, Forked, Pid, PollFd, PollFlags, Signal, Signals};
use frs_cluster::PLUG;
use frs_conf::{Conf, MoveMode, Overlay};
use frs_engine::inspect::{MovePlan, MoveRefusal, fresh_records, plan_moves};
use frs_store::{self as store, Moves, Prepared, Preparing, Unserved};

/// Why the store was not prepared.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// The store's reason.
    #[error("{}", .0.words)]
    Refused(Refused),
    /// The child ended without an answer.
    #[error("the process that prepares the store ended with {0}")]
    Died(Exit),
    /// The child could not be started or read from.
    #[error("cannot prepare the store: {0}")]
    Io(#[from] io::Error),
}

impl PrepareError {
    /// Whether the child met an unreadable page of a file.
    pub fn is_of_a_page(&self) -> bool {
        const SIGBUS: i32 = Signal::SIGBUS as i32;
        matches!(self, PrepareError::Died(Exit::Status(EXIT_SIGBUS) | Exit::Signal(SIGBUS)))
    }
}

/// Starts each line that reports progress, before the answer.
const PROGRESS: &str = "progress ";

/// When the child prepares the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// No other server has the directory.
    AtStart,
    /// Processes serve from it.
    Beside,
    /// A process has met a page that could not be read.
    AfterFault,
}

/// The child's work.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    /// When the child does it.
    pub how: How,
    /// Whether moving groups may lose nodes that do not fit.
    pub loss: Loss,
    /// Whether a group whose live files and checkpoints are lost begins empty.
    pub accepts_loss: bool,
}

impl Work {
    /// Prepares the store. A group with another geometry than its files begins to move if it loses
    /// nothing by that, or may lose nodes.
    fn run(self, conf: &Conf, progress: store::Progress<'_>) -> Result<Prepared, Refused> {
        let overlay = Overlay::read(&conf.srv.data.dir).map_err(Refused::fault)?;
        let mut in_force = overlay.moving().clone();
        if self.loss == Loss::Allowed {
            in_force.values_mut().for_each(|mode| *mode = MoveMode::Lossy);
        }
        let lossy = self.loss != Loss::Refused;
        let mut moves = Moves { in_force, lossy, ..Moves::default() };
        if self.how != How::AfterFault {
            let plans = plan_moves(conf, clock::now(), PLUG).map_err(Refused::fault)?;
            let faults: Vec<Refused> =
                plans.iter().filter_map(|plan| refusal(plan, self)).collect();
            if !faults.is_empty() {
                return Err(Refused::all(faults));
            }
            // At a start, a new group without room is left unserved. Groups with files stay sound.
            let is_refused = self.how == How::Beside || !plans.is_empty();
            if let Some(words) = lacking_room(conf, &plans).filter(|_| is_refused) {
                return Err(Refused { cause: Cause::NoRoom, words });
            }
            plans.iter().for_each(log_plan);
            moves.begin = plans.into_iter().map(|plan| plan.name).collect();
        }
        let how = Preparing { moves: &moves, accepts_loss: self.accepts_loss, progress };
        let prepared = match self.how {
            How::AtStart => store::prepare_at_start(conf, how),
            How::Beside => store::prepare_beside(conf, how),
            How::AfterFault => store::prepare_after_fault(conf, how),
        };
        prepared.map_err(Refused::of_store)
    }
}

/// Why a configuration is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The kind of the reason.
    pub cause: Cause,
    /// The reason, one line or more.
    pub words: String,
}

impl Refused {
    fn fault(error: impl std::fmt::Display) -> Refused {
        Refused { cause: Cause::Fault, words: error.to_string() }
    }

    fn of_store(error: store::Error) -> Refused {
        let cause = match &error {
            store::Error::Moving { .. } => Cause::Moving,
            error if error.is_no_room() => Cause::NoRoom,
            _ => Cause::Fault,
        };
        Refused { cause, words: error.to_string() }
    }

    /// All reasons, under their common cause.
    fn all(refused: Vec<Refused>) -> Refused {
        let first = refused.first().map_or(Cause::Fault, |refused| refused.cause);
        let is_shared = refused.iter().all(|refused| refused.cause == first);
        let lines: Vec<String> = refused.into_iter().map(|refused| refused.words).collect();
        Refused { cause: if is_shared { first } else { Cause::Fault }, words: lines.join("\n") }
    }
}

/// How to accept the loss of records that a start refuses to lose.
const LOSE_AFTER_A_START: &str =
    "write the former settings back, start, and then run: frs reload --lossy";

/// Why a group does not begin to move.
pub(super) fn refusal(plan: &MovePlan, work: Work) -> Option<Refused> {
    if let Some(refusal) = &plan.refusal {
        let cause = match refusal {
            MoveRefusal::UnderWay { .. } | MoveRefusal::NoCheckpoint { .. } => Cause::Moving,
            MoveRefusal::Hash { .. } | MoveRefusal::KnownKeys { .. } => Cause::Fault,
        };
        return Some(Refused { cause, words: refusal.to_string() });
    }
    let loss = plan.loss().filter(|_| work.loss == Loss::Refused)?;
    let cure = match work.how {
        How::AtStart => LOSE_AFTER_A_START,
        How::Beside | How::AfterFault => "run: frs reload --lossy, or say lossy=true with the PUT",
    };
    Some(Refused::fault(format!("{loss}: to lose them, {cure}")))
}

/// Finds and logs which records begin anew, a line each.
fn fresh_lines(conf: &Conf, work: Work) -> Vec<String> {
    if work.how == How::AfterFault {
        return Vec::new();
    }
    let fresh = fresh_records(conf, clock::now(), PLUG).unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot tell which records begin anew");
        Vec::new()
    });
    fresh.iter().for_each(|biz| tracing::warn!("{biz}"));
    fresh.iter().map(ToString::to_string).collect()
}

fn log_plan(plan: &MovePlan) {
    let MovePlan { name, counts, needed_bytes, .. } = plan;
    tracing::info!(
        group = name,
        nodes = counts.carried,
        expired = counts.expired,
        without_place = counts.crowded,
        needed_bytes,
        "the group is to move to another geometry"
    );
}

/// The answer of a child that has prepared the store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub prepared: Prepared,
    /// Which records begin anew, a line each.
    pub fresh: Vec<String>,
}

/// A child that prepares the store.
pub(super) struct Preparation {
    child: Pid,
    reader: PipeReader,
    /// The output of the child.
    text: Vec<u8>,
    exit: Option<Exit>,
}

impl Preparation {
    /// Forks a child to do this work, as the user of `account` if there is one. The child closes
    /// its copy of `control`.
    pub fn start(
        conf: &Conf,
        work: Work,
        account: Option<&Account>,
        control: &mut ControlSocket,
    ) -> io::Result<Preparation> {
        let (reader, writer) = io::pipe()?;
        let master = Pid::this();
        match process::fork()? {
            Forked::Child => {
                drop(reader);
                *control = ControlSocket::default();
                let text = in_child(conf, work, master, account, &writer);
                let told = (&writer).write_all(text.as_bytes());
                std::process::exit(i32::from(told.is_err()));
            }
            Forked::Parent(child) => {
                Ok(Preparation { child, reader, text: Vec::new(), exit: None })
            }
        }
    }

    /// Notes that a child was reaped.
    pub fn note_end(&mut self, pid: Pid, exit: Exit) {
        if pid == self.child {
            self.exit = Some(exit);
        }
    }

    /// Whether the answer is complete: the child has ended. Does not wait.
    pub fn is_done(&mut self) -> io::Result<bool> {
        loop {
            let mut fds = [PollFd::new(self.reader.as_fd(), PollFlags::POLLIN)];
            if process::poll(&mut fds, Some(Duration::ZERO))? == 0 {
                return Ok(false);
            }
            let mut part = [0; 4096];
            let bytes = self.reader.read(&mut part)?;
            if bytes == 0 {
                return Ok(true);
            }
            self.text.extend_from_slice(&part[..bytes]);
        }
    }

    /// The child's progress, if it has reported some since the last call.
    fn take_progress(&mut self) -> Option<String> {
        let mut last = None;
        while self.text.starts_with(PROGRESS.as_bytes())
            && let Some(end) = self.text.iter().position(|&byte| byte == b'\n')
        {
            let line: Vec<u8> = self.text.drain(..=end).collect();
            last = Some(String::from_utf8_lossy(&line[PROGRESS.len()..end]).into_owned());
        }
        last
    }

    /// The child's answer, once it [is complete](Preparation::is_done).
    pub fn answer(mut self) -> Result<Answer, PrepareError> {
        self.take_progress();
        let text = String::from_utf8_lossy(&self.text);
        let exit = self.exit.map_or_else(|| process::wait_for(self.child), Ok)?;
        decode(&text).ok_or(PrepareError::Died(exit))?.map_err(PrepareError::Refused)
    }

    /// Breaks off the preparation, which is safe at any point.
    pub fn kill(self) -> io::Result<()> {
        if self.exit.is_none() {
            process::signal(self.child, Signal::SIGKILL)?;
            process::wait_for(self.child)?;
        }
        Ok(())
    }

    /// Waits for the answer, and reports progress and signals to reload. `None` if a signal to end
    /// broke it off.
    pub(super) fn wait(
        mut self,
        signals: &Signals,
        note_reload: &mut dyn FnMut(),
        tell: &mut dyn FnMut(&str),
    ) -> Result<Option<Prepared>, PrepareError> {
        while !self.is_done()? {
            self.take_progress().iter().for_each(|words| tell(words));
            let mut fds = [
                PollFd::new(signals.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.reader.as_fd(), PollFlags::POLLIN),
            ];
            process::poll(&mut fds, None)?;
            if asked_to_end(signals, note_reload)? {
                self.kill()?;
                return Ok(None);
            }
        }
        Ok(Some(self.answer()?.prepared))
    }
}

impl AsFd for Preparation {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}

/// Logs what the preparation found and did.
pub(super) fn log_prepared(prepared: &Prepared) {
    let Prepared { created, scanned, restored, recovered_slots, dropped_nodes, unserved, moving } =
        prepared;
    for group in moving.keys() {
        tracing::info!(group, "the group moves to another geometry while it serves");
    }
    for Unserved { group, reason } in unserved {
        tracing::error!(group, error = reason, "the group is not served: its items answer `store`");
    }
    let [created, scanned, restored] = [created, scanned, restored].map(|names| names.join(" "));
    tracing::info!(
        created,
        scanned,
        restored,
        recovered_slots,
        dropped_nodes,
        "the store is prepared"
    );
    if *dropped_nodes > 0 {
        tracing::warn!(dropped_nodes, "nodes were damaged: they are dropped");
    }
}

fn in_child(
    conf: &Conf,
    work: Work,
    master: Pid,
    account: Option<&Account>,
    writer: &PipeWriter,
) -> String {
    let _name = crate::process::log::name_process("prepare");
    let user = account.map_or(Ok(()), Account::become_for_good);
    let ready = user.and_then(|()| process::follow_parent(master, Signal::SIGKILL));
    match ready {
        Ok(true) => {
            // A lost line does no harm. A line is short enough to arrive in one piece.
            let progress = |words: &str| {
                tracing::info!("{words}");
                let _ = (&*writer).write_all(format!("{PROGRESS}{words}\n").as_bytes());
            };
            // First, because the preparation changes the files.
            let fresh = fresh_lines(conf, work);
            encode(work.run(conf, &progress).map(|prepared| Answer { prepared, fresh }))
        }
        Ok(false) => encode(Err(Refused::fault("the master has ended"))),
        Err(error) => encode(Err(Refused::fault(error))),
    }
}

fn asked_to_end(signals: &Signals, note_reload: &mut dyn FnMut()) -> io::Result<bool> {
    while let Some(signal) = signals.next()? {
        match signal {
            Signal::SIGTERM | Signal::SIGINT | Signal::SIGQUIT => return Ok(true),
            Signal::SIGCHLD => {}
            Signal::SIGHUP => note_reload(),
            Signal::SIGUSR1 => crate::process::log::reopen(),
            other => {
                tracing::info!(signal = %other, "ignored a signal: the store is being prepared")
            }
        }
    }
    Ok(false)
}

/// The answer as a line of JSON.
fn encode(result: Result<Answer, Refused>) -> String {
    let value = match result {
        Err(Refused { cause, words }) => json!({ "cause": cause.word(), "words": words }),
        Ok(Answer { prepared, fresh }) => {
            let moving = prepared.moving.iter();
            let moving = moving.map(|(name, mode)| (name, *mode == MoveMode::Lossy));
            // A path may hold any characters, and a reason is one line.
            let words = |of: &Unserved| [of.group.clone(), of.reason.replace('\n', " ")];
            json!({
                "fresh": fresh,
                "recovered_slots": prepared.recovered_slots,
                "dropped_nodes": prepared.dropped_nodes,
                "created": prepared.created,
                "scanned": prepared.scanned,
                "restored": prepared.restored,
                "moving": moving.collect::<BTreeMap<_, _>>(),
                "unserved": prepared.unserved.iter().map(words).collect::<Vec<_>>(),
            })
        }
    };
    format!("{value}\n")
}

fn decode(text: &str) -> Option<Result<Answer, Refused>> {
    let value: Value = serde_json::from_str(text.strip_suffix('\n')?).ok()?;
    let word = |value: &Value| value.as_str().map(str::to_owned);
    if let Some(cause) = value["cause"].as_str() {
        return Some(Err(Refused { cause: Cause::of(cause)?, words: word(&value["words"])? }));
    }
    let names = |key| -> Option<Vec<String>> { value[key].as_array()?.iter().map(word).collect() };
    let moving = value["moving"].as_object()?.iter().map(|(name, is_lossy)| {
        let mode = if *is_lossy == true { MoveMode::Lossy } else { MoveMode::Lossless };
        (name.clone(), mode)
    });
    let unserved = value["unserved"].as_array()?.iter();
    let unserved =
        unserved.map(|of| Some(Unserved { group: word(&of[0])?, reason: word(&of[1])? }));
    let prepared = Prepared {
        recovered_slots: value["recovered_slots"].as_u64()?.try_into().ok()?,
        dropped_nodes: value["dropped_nodes"].as_u64()?,
        created: names("created")?,
        scanned: names("scanned")?,
        restored: names("restored")?,
        unserved: unserved.collect::<Option<_>>()?,
        moving: moving.collect(),
    };
    Some(Ok(Answer { prepared, fresh: names("fresh")? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_child_says_is_understood() {
        let prepared = Prepared {
            created: vec!["default".into(), "log".into()],
            recovered_slots: 3,
            scanned: vec!["log".into()],
            restored: vec!["default".into(), "log".into()],
            dropped_nodes: 17,
            moving: [("a".into(), MoveMode::Lossy), ("b-".into(), MoveMode::Lossless)].into(),
            unserved: ["log", "second"]
                .map(|group| Unserved { group: group.into(), reason: "a b: c".into() })
                .into(),
        };
        let answer = Answer { prepared, fresh: vec!["biz a: 1 live record".into()] };
        for answer in [answer, Answer::default()] {
            let text = encode(Ok(answer.clone()));
            assert_eq!(decode(&text).expect("whole").expect("no error"), answer);
            assert!(decode(text.trim_end()).is_none(), "cut off");
        }
        let refused = Refused { cause: Cause::NoRoom, words: "a\nb c".into() };
        assert_eq!(decode(&encode(Err(refused.clone()))), Some(Err(refused)));
        assert!(decode("").is_none());
    }
}
