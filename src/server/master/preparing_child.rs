//! The preparing child prepares the store before any other process is started.
//!
//! Invariant: the master maps no group, so a faulting page cannot kill it. The child holds the
//! directory's lock, too: if the master dies, no other master starts before the child has ended. It
//! holds no connection for requests, so the master alone decides when one ends.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

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
    #[error("{words}")]
    Refused {
        /// The kind of the reason.
        cause: Cause,
        /// The reason, one line or more.
        words: String,
    },
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
/// Starts each line about records that begin anew, before the answer.
const FRESH: &str = "fresh ";

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
pub(super) struct Refused {
    cause: Cause,
    /// A line or more.
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

/// Logs which records begin anew, and reports them to the master.
fn fresh_lines(conf: &Conf, work: Work) -> String {
    if work.how == How::AfterFault {
        return String::new();
    }
    let fresh = fresh_records(conf, clock::now(), PLUG).unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot tell which records begin anew");
        Vec::new()
    });
    fresh.iter().for_each(|biz| tracing::warn!("{biz}"));
    fresh.iter().map(|biz| format!("{FRESH}{biz}\n")).collect()
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

/// The result of waiting for a preparation.
pub struct PreparedAtStart {
    /// The child's answer.
    pub prepared: Prepared,
    /// A reload was requested meanwhile.
    pub reload_wanted: bool,
}

/// A child that prepares the store.
pub(super) struct Preparation {
    child: Pid,
    reader: PipeReader,
    /// The output of the child.
    text: Vec<u8>,
    /// Which records begin anew, a line each.
    fresh: Vec<String>,
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
                let (text, fresh) = (Vec::new(), Vec::new());
                Ok(Preparation { child, reader, text, fresh, exit: None })
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
        loop {
            let begins = |word: &str| self.text.starts_with(word.as_bytes());
            let Some(word) = [PROGRESS, FRESH].into_iter().find(|word| begins(word)) else { break };
            let Some(end) = self.text.iter().position(|&byte| byte == b'\n') else { break };
            let line: Vec<u8> = self.text.drain(..=end).collect();
            let words = String::from_utf8_lossy(&line[word.len()..end]).into_owned();
            match word {
                FRESH => self.fresh.push(words),
                _ => last = Some(words),
            }
        }
        last
    }

    /// Which records begin anew, a line each, once the answer [is complete](Preparation::is_done).
    pub fn take_fresh(&mut self) -> Vec<String> {
        self.take_progress();
        std::mem::take(&mut self.fresh)
    }

    /// The child's answer, once it [is complete](Preparation::is_done).
    pub fn answer(mut self) -> Result<Prepared, PrepareError> {
        while !self.is_done()? {
            let mut fds = [PollFd::new(self.reader.as_fd(), PollFlags::POLLIN)];
            process::poll(&mut fds, None)?;
        }
        self.take_progress();
        let text = String::from_utf8_lossy(&self.text);
        let exit = self.exit.map_or_else(|| process::wait_for(self.child), Ok)?;
        decode(&text).unwrap_or(Err(PrepareError::Died(exit)))
    }

    /// Breaks off the preparation, which is safe at any point.
    pub fn kill(self) -> io::Result<()> {
        if self.exit.is_none() {
            process::signal(self.child, Signal::SIGKILL)?;
            process::wait_for(self.child)?;
        }
        Ok(())
    }

    /// Waits for the answer, and reports progress. `None` if a signal to end broke it off.
    pub fn wait(
        mut self,
        signals: &Signals,
        tell: &dyn Fn(&str),
    ) -> Result<Option<PreparedAtStart>, PrepareError> {
        let mut reload_wanted = false;
        while !self.is_done()? {
            self.take_progress().iter().for_each(|words| tell(words));
            let mut fds = [
                PollFd::new(signals.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.reader.as_fd(), PollFlags::POLLIN),
            ];
            process::poll(&mut fds, None)?;
            if asked_to_end(signals, &mut reload_wanted)? {
                self.kill()?;
                return Ok(None);
            }
        }
        Ok(Some(PreparedAtStart { prepared: self.answer()?, reload_wanted }))
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
            let _ = (&*writer).write_all(fresh_lines(conf, work).as_bytes());
            encode(&work.run(conf, &progress))
        }
        Ok(false) => encode(&Err(Refused::fault("the master has ended"))),
        Err(error) => encode(&Err(Refused::fault(error))),
    }
}

fn asked_to_end(signals: &Signals, reload_wanted: &mut bool) -> io::Result<bool> {
    while let Some(signal) = signals.next()? {
        match signal {
            Signal::SIGTERM | Signal::SIGINT | Signal::SIGQUIT => return Ok(true),
            Signal::SIGCHLD => {}
            Signal::SIGHUP => *reload_wanted = true,
            Signal::SIGUSR1 => crate::process::log::reopen(),
            other => {
                tracing::info!(signal = %other, "ignored a signal: the store is being prepared")
            }
        }
    }
    Ok(false)
}

fn encode(result: &Result<Prepared, Refused>) -> String {
    match result {
        Err(Refused { cause, words }) => format!("error {} {words}\n", cause.word()),
        Ok(prepared) => {
            let moving: Vec<String> = prepared.moving.iter().map(moving_word).collect();
            let unserved = prepared.unserved.iter();
            let unserved = unserved.map(|Unserved { group, reason }| {
                // A path may hold any characters.
                format!("{group} {}\n", reason.replace('\n', " "))
            });
            format!(
                "ok {} {}\n{}\n{}\n{}\n{}\n{}",
                prepared.recovered_slots,
                prepared.dropped_nodes,
                prepared.created.join(" "),
                prepared.scanned.join(" "),
                prepared.restored.join(" "),
                moving.join(" "),
                unserved.collect::<String>(),
            )
        }
    }
}

/// The name of a group that moves, with a mark if it may lose nodes.
fn moving_word((name, mode): (&String, &MoveMode)) -> String {
    let mark = if *mode == MoveMode::Lossy { "!" } else { "" };
    format!("{name}{mark}")
}

fn moving_of(word: &str) -> (String, MoveMode) {
    match word.strip_suffix('!') {
        Some(name) => (name.to_owned(), MoveMode::Lossy),
        None => (word.to_owned(), MoveMode::Lossless),
    }
}

fn decode(text: &str) -> Option<Result<Prepared, PrepareError>> {
    let text = text.strip_suffix('\n')?;
    if let Some(error) = text.strip_prefix("error ") {
        let (cause, words) = error.split_once(' ')?;
        let (cause, words) = (Cause::of(cause)?, words.to_owned());
        return Some(Err(PrepareError::Refused { cause, words }));
    }
    let mut lines = text.strip_prefix("ok ")?.split('\n');
    let (recovered_slots, dropped_nodes) = lines.next()?.split_once(' ')?;
    let mut names = || Some(lines.next()?.split_whitespace().map(str::to_owned).collect());
    let (created, scanned) = (names()?, names()?);
    let (restored, moving): (_, Vec<String>) = (names()?, names()?);
    let unserved = lines.map(|line| {
        let (group, reason) = line.split_once(' ')?;
        Some(Unserved { group: group.to_owned(), reason: reason.to_owned() })
    });
    Some(Ok(Prepared {
        recovered_slots: recovered_slots.parse().ok()?,
        dropped_nodes: dropped_nodes.parse().ok()?,
        created,
        scanned,
        restored,
        unserved: unserved.collect::<Option<_>>()?,
        moving: moving.iter().map(|word| moving_of(word)).collect(),
    }))
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
        for prepared in [prepared, Prepared::default()] {
            let text = encode(&Ok(prepared.clone()));
            assert_eq!(decode(&text).expect("whole").expect("no error"), prepared);
            assert!(decode(text.trim_end()).is_none(), "cut off");
        }
        let refused = Refused { cause: Cause::NoRoom, words: "a\nb c".into() };
        let Some(Err(PrepareError::Refused { cause, words })) = decode(&encode(&Err(refused)))
        else {
            panic!("a refusal");
        };
        assert_eq!((cause, &*words), (Cause::NoRoom, "a\nb c"));
        assert!(decode("").is_none());
    }
}
