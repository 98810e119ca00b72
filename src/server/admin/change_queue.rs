//! The change queue makes one change at a time: it edits, asks the master, and answers when all
//! living processes use the change.
//!
//! Invariant: a change begins only after the one before has ended. So each is whole and the last
//! one wins. A map.xml that the master refuses is put back, and a new binary never takes it. A
//! change that is not in the log does not begin, and its outcome is there before its answer. What a
//! keeper leaves when it dies, the next one finishes or takes back.

mod left;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Duration;

use self::left::LeftEdit;
use super::change_entry;
use super::growth;
use super::map_edit::{self, BizName, Edit, EditError, TextNames};
use super::map_file::{self, ReplaceError};
use super::response::{Addressed, Refusal, StatusDocument};
use super::route::{BizPut, Change, GrowthMode};
use crate::process::change_log::{
    self, Author, ChangeKind, ChangeLog, ChangeOutcome, Conclusion, Subject,
};
use crate::process::conf_guard::ConfGuard;
use crate::process::control::{Ask, Cause, Loss, ReloadOptions, Reloaded};
use crate::process::control_stream::ControlStream;
use crate::process::pending_edit::PendingEdit;
use crate::protocol::Code;
use crate::protocol::element_tree::Element;
use frs_base::clock;
use frs_cluster::PLUG;
use frs_conf::{Conf, LoadedConf, Machine, Texts, active, report};
use frs_engine::inspect;
use frs_store::Runtime;

/// Time limit for the master's answer: two seconds for laggards, the rest for a busy disk.
const BOUND_NS: u64 = 60_000_000_000;
/// How long to wait for another process that writes to the log.
const LOG_PATIENCE: Duration = Duration::from_secs(1);
/// The pause before outcomes are written again that could not be written.
const RETRY_NS: u64 = 1_000_000_000;

/// A change that a client waits for.
#[derive(Debug)]
pub struct WantedChange<W> {
    /// The client.
    pub requester: W,
    /// Its name, for the log.
    pub author: Author,
    /// The change.
    pub change: Change,
    /// The `<biz>` of a PUT.
    pub body: Vec<u8>,
    /// Of a reset: the epoch under which void records were cleared for it.
    pub cleared: Option<u64>,
}

/// The result of a change.
pub type Done = Result<StatusDocument, Refusal>;

/// All changes that are queued or in progress.
pub struct MapChanges<W> {
    conf_dir: PathBuf,
    data_dir: PathBuf,
    control: ControlStream,
    last_number: u64,
    queue: VecDeque<WantedChange<W>>,
    asked: Option<PendingAsk<W>>,
    /// An edit whose fate is not known.
    left: Option<LeftEdit>,
    resume_at_ns: u64,
    log: ChangeLog,
    retry_at_ns: u64,
}

/// A request to the master that has no answer yet.
#[derive(Debug)]
struct PendingAsk<W> {
    /// None: a keeper that has died began it.
    requester: Option<W>,
    number: u64,
    begun_ns: u64,
    /// The status of the answer if the master accepts.
    status: u16,
    files: Option<MapTexts>,
    /// The ids of the change in the log.
    ids: Vec<u64>,
    /// Of a reload, whose result is a generation: the one before.
    old_generation: Option<u64>,
}

/// map.xml before and after the change.
#[derive(Debug)]
struct MapTexts {
    path: PathBuf,
    edit: PendingEdit,
    /// Held until the fate of the change is known.
    _guard: ConfGuard,
}

impl<W> MapChanges<W> {
    /// An empty queue.
    pub fn new(conf_dir: PathBuf, data_dir: PathBuf, control: ControlStream) -> MapChanges<W> {
        let log = ChangeLog::new(&data_dir, LOG_PATIENCE);
        let left = PendingEdit::read(&data_dir).unwrap_or_else(|error| {
            tracing::error!(%error, "cannot read data/map.pending");
            None
        });
        MapChanges {
            conf_dir,
            data_dir,
            control,
            last_number: 0,
            queue: VecDeque::new(),
            asked: None,
            left: left.map(|edit| LeftEdit { edit, is_refused: false }),
            resume_at_ns: 0,
            log,
            retry_at_ns: 0,
        }
    }

    /// The log of all changes.
    pub fn log(&mut self) -> &mut ChangeLog {
        &mut self.log
    }

    /// Writes the outcomes that could not be written, from time to time.
    pub fn retry_pending(&mut self, now_ns: u64) {
        if self.log.has_pending() && self.retry_at_ns <= now_ns {
            self.retry_at_ns = now_ns + RETRY_NS;
            // It was reported when the outcome came.
            let _ = self.log.write_pending();
        }
    }

    /// Notes the outcome of a change. Its edit of map.xml, if it is one, is in force or taken back.
    fn conclude(&mut self, ids: &[u64], conclusion: &Conclusion) {
        self.log.conclude(ids, conclusion);
        if self.left.is_none()
            && let Err(error) = PendingEdit::remove(&self.data_dir)
        {
            tracing::error!(%error, "cannot remove data/map.pending");
        }
    }

    /// Queues a change.
    pub fn push(&mut self, wanted: WantedChange<W>) {
        self.queue.push_back(wanted);
    }

    /// Whether a change is in progress or queued.
    pub fn is_busy(&self) -> bool {
        self.asked.is_some() || self.left.is_some() || !self.queue.is_empty()
    }

    /// Takes the next change, if none is in progress.
    pub fn take_next(&mut self) -> Option<WantedChange<W>> {
        if self.asked.is_some() { None } else { self.queue.pop_front() }
    }

    /// Begins a change of the configuration. Returns an answer if it fails at once.
    pub fn begin(
        &mut self,
        wanted: WantedChange<W>,
        runtime: &Runtime,
        now_ns: u64,
    ) -> Option<Addressed<W, Done>> {
        match self.try_begin(&wanted, runtime, now_ns) {
            Ok(asked) => {
                self.asked = Some(PendingAsk { requester: Some(wanted.requester), ..asked });
                None
            }
            Err(refusal) => Some(Addressed { requester: wanted.requester, content: Err(refusal) }),
        }
    }

    fn try_begin(
        &mut self,
        wanted: &WantedChange<W>,
        runtime: &Runtime,
        begun_ns: u64,
    ) -> Result<PendingAsk<W>, Refusal> {
        // Not later: the master may have published the next one by then.
        let old_generation = (wanted.change == Change::Reload).then(|| runtime.generation());
        let ReadyChange { ask, status, mut files, subjects } = self.make(wanted, runtime)?;
        let ids = self.log.begin(&wanted.author, &subjects).map_err(unlogged)?;
        if let Some(files) = &mut files {
            files.edit.ids.clone_from(&ids);
        }
        let number = self.ask(ask, files.as_ref()).inspect_err(|_| {
            if self.pending_ids() != ids {
                self.conclude(&ids, &ChangeOutcome::Failed.into());
            }
        });
        let (number, requester) = (number?, None);
        Ok(PendingAsk { requester, number, begun_ns, status, files, ids, old_generation })
    }

    /// Writes the changed map.xml, and asks the master under the number that it returns.
    fn ask(&mut self, ask: Ask, files: Option<&MapTexts>) -> Result<u64, Refusal> {
        if let Some(MapTexts { path, edit, .. }) = files {
            edit.write(&self.data_dir).map_err(|error| {
                Refusal::of_io(&error, format!("map.pending: {error}: nothing was changed"))
            })?;
            map_file::replace(path, &edit.old, &edit.new).map_err(|error| match error {
                ReplaceError::Changed => differs(path),
                ReplaceError::Io(error) => {
                    Refusal::of_io(&error, format!("{}: {error}", path.display()))
                }
            })?;
        }
        self.send(ask).map_err(|error| {
            let Undone { words, is_io } = self.undo(files);
            if let Some(files) = files.filter(|_| is_io) {
                // It is tried again: the next reload must not take the file.
                self.leave(files.edit.clone(), true);
            }
            Refusal::io(format!("cannot ask the master: {error}{words}"))
        })
    }

    /// Asks the master under the number that it returns.
    fn send(&mut self, ask: Ask) -> std::io::Result<u64> {
        self.last_number += 1;
        self.control.send(self.last_number, &ask.to_text())?;
        Ok(self.last_number)
    }

    /// The master's answer to a request. Answers that come after the time limit are dropped.
    fn receive(&mut self, number: u64) -> Option<Reloaded> {
        while let Ok(Some(message)) = self.control.receive() {
            if message.number == number {
                return Reloaded::of_text(&message.text);
            }
        }
        None
    }

    /// Breaks off the change in progress, since this keeper ends and cannot receive its result.
    /// Puts map.xml back unless the change is in force by now.
    pub fn end(&mut self, runtime: &Runtime) {
        let Some(PendingAsk { files, ids, .. }) = self.asked.take() else { return };
        let outcome = match &files {
            None => ChangeOutcome::Unknown,
            Some(_) if !self.is_another(runtime.generation(), files.as_ref()) => {
                ChangeOutcome::Done
            }
            Some(_) => {
                let Undone { words, is_io } = self.undo(files.as_ref());
                tracing::warn!("admin: a change was not finished.{words}");
                if is_io {
                    // The next keeper goes on with it.
                    return;
                }
                ChangeOutcome::Failed
            }
        };
        self.conclude(&ids, &outcome.into());
    }

    /// The answer to the change in progress, once there is one.
    pub fn poll(&mut self, now_ns: u64) -> Option<Addressed<W, Done>> {
        let Addressed { requester, content } = self.poll_asked(now_ns)?;
        if requester.is_none() {
            match &content {
                Ok(_) => tracing::warn!("the change of map.xml is in force"),
                Err(refusal) => {
                    tracing::error!(error = refusal.words, "the change of map.xml is taken back");
                }
            }
        }
        Some(Addressed { requester: requester?, content })
    }

    fn poll_asked(&mut self, now_ns: u64) -> Option<Addressed<Option<W>, Done>> {
        let number = self.asked.as_ref()?.number;
        if let Some(result) = self.receive(number) {
            let PendingAsk { requester, status, files, ids, old_generation, .. } =
                self.asked.take()?;
            let generation = match (&result, old_generation) {
                (Reloaded::Taken { generation, .. }, Some(old)) => {
                    Some(self.log.tell_generation(old, *generation))
                }
                _ => None,
            };
            let (content, undone) = self.done(result, status, files.as_ref());
            if let Some(files) = files.filter(|_| undone.is_io) {
                // It is tried again: map.xml must not stay what is not in force.
                self.leave(files.edit, true);
                return Some(Addressed { requester, content });
            }
            let outcome = if content.is_ok() { ChangeOutcome::Done } else { ChangeOutcome::Failed };
            self.conclude(&ids, &Conclusion { new: generation, ..outcome.into() });
            return Some(Addressed { requester, content });
        }
        if now_ns.saturating_sub(self.asked.as_ref()?.begun_ns) > BOUND_NS {
            let words = "the master has not answered for 60 s: it may still make the change";
            let PendingAsk { requester, ids, files, .. } = self.asked.take()?;
            match files {
                Some(files) => self.leave(files.edit, false),
                None => self.log.conclude(&ids, &ChangeOutcome::Unknown.into()),
            }
            return Some(Addressed {
                requester,
                content: Err(Refusal::new(504, Code::NoAnswer, words)),
            });
        }
        None
    }

    fn done(&self, result: Reloaded, status: u16, files: Option<&MapTexts>) -> (Done, Undone) {
        let done = match result {
            Reloaded::Taken { generation, .. } if self.is_another(generation, files) => {
                let words = "map.xml has changed meanwhile: the file as it is now is in force, \
                             without this change";
                Err(Refusal::new(409, Code::Conflict, words))
            }
            Reloaded::Taken { generation, laggards, fresh } => {
                let status = if laggards.is_empty() { status } else { 202 };
                let laggards =
                    laggards.into_iter().map(|process| Element::text("laggard", process));
                let fresh = fresh.into_iter().map(|words| Element::text("note", words));
                let root = Element::new("done").with("generation", generation);
                let root = root.holding(laggards.chain(fresh));
                Ok(StatusDocument { status, root })
            }
            Reloaded::Refused { cause, mut faults } => {
                let undone = self.undo(files);
                let words = undone.words.trim_start();
                faults.extend((!words.is_empty()).then(|| words.to_owned()));
                return (Err(by_master(cause, faults.join("\n"))), undone);
            }
        };
        (done, Undone::default())
    }

    /// Whether a map.xml other than `new` is in force. If the generation's file is gone, the answer
    /// is no.
    fn is_another(&self, generation: u64, files: Option<&MapTexts>) -> bool {
        let Some(MapTexts { edit, .. }) = files else { return false };
        active::read_texts(&self.data_dir, generation).is_ok_and(|texts| texts.map != edit.new)
    }

    /// Puts map.xml back unless another process has written it since. Returns what went wrong.
    fn undo(&self, files: Option<&MapTexts>) -> Undone {
        let Some(MapTexts { path, edit, .. }) = files else { return Undone::default() };
        match map_file::replace(path, &edit.new, &edit.old) {
            Ok(()) => Undone::default(),
            Err(ReplaceError::Changed) => {
                let words = " map.xml has changed meanwhile: it stays as it is".to_owned();
                Undone { words, is_io: false }
            }
            Err(ReplaceError::Io(error)) => {
                let words = format!(" map.xml cannot be put back as it was yet: {error}");
                Undone { words, is_io: true }
            }
        }
    }

    fn make(&self, wanted: &WantedChange<W>, runtime: &Runtime) -> Result<ReadyChange, Refusal> {
        let made = |ask, subject| {
            let subjects = vec![subject];
            ReadyChange { ask, status: 200, files: None, subjects }
        };
        match &wanted.change {
            Change::Reload => {
                let old = Some(runtime.generation().to_string());
                let subject = Subject { old, ..Subject::of(ChangeKind::Reload, None) };
                Ok(made(Ask::Reload(Loss::Refused.into()), subject))
            }
            Change::Degrade(on) => {
                let old = Some(self.degrade(*on, runtime)?.to_string());
                let new = Some(on.to_string());
                let subject = Subject { old, new, ..Subject::of(ChangeKind::Degrade, None) };
                Ok(made(Ask::Degrade(*on), subject))
            }
            Change::Reset(name) => {
                let conf = self.conf_in_force(runtime)?;
                let index = conf.map.find_biz(name).ok_or_else(|| Refusal::not_found(UNKNOWN))?;
                let biz = &conf.map.bizs[index];
                let subject = Subject::of(ChangeKind::Reset, Some(biz.name.clone()));
                Ok(made(Ask::Reset { biz: biz.id, cleared: wanted.cleared }, subject))
            }
            Change::PutBiz(put) => self.put(put, &wanted.body, runtime),
            Change::DeleteBiz(name) => {
                let guard = self.guard()?;
                let texts = self.texts_to_edit(runtime)?;
                let removed = map_edit::remove(&texts.map, biz_name(name)?, &texts.map_name);
                let edit = MapEdit::of(ChangeKind::Biz, removed.map_err(refused)?);
                self.check(texts, edit, runtime, guard)
            }
            Change::Undo(id) => self.undo_change(*id, runtime),
            Change::PutNode { .. } | Change::DeleteNode(_) => {
                Err(Refusal::bad("a record is no part of the configuration"))
            }
        }
    }

    /// Puts back what was there before a change of a biz.
    fn undo_change(&self, id: u64, runtime: &Runtime) -> Result<ReadyChange, Refusal> {
        let found = change_log::find(&self.data_dir, id)
            .map_err(|error| Refusal::io(format!("changes.log: {error}")))?;
        let change = found.ok_or_else(|| Refusal::not_found("the log has no such change"))?;
        let undone = change_entry::undone(&change)?;
        let guard = self.guard()?;
        let texts = self.texts_to_edit(runtime)?;
        let edit = map_edit::revert(&texts.map, undone, &texts.map_name);
        let edit = MapEdit::of(ChangeKind::Undo, edit.map_err(refused)?);
        self.check(texts, edit, runtime, guard)
    }

    fn put(&self, put: &BizPut, body: &[u8], runtime: &Runtime) -> Result<ReadyChange, Refusal> {
        let BizPut { biz: name, growth, lifts_bans, begins_anew } = put;
        let body = std::str::from_utf8(body)
            .map_err(|_| Refusal::new(415, Code::BadContentType, "expected a document in UTF-8"))?;
        let guard = self.guard()?;
        let texts = self.texts_to_edit(runtime)?;
        let names = TextNames { map: &texts.map_name, biz: "body" };
        let biz = biz_name(name)?;
        let mut edit = map_edit::put(&texts.map, body, biz, names).map_err(refused)?;
        let new = Texts { map: edit.text.clone(), ..texts.clone() };
        if let Err(faults) = new.parse()
            && let Some(raised) = growth::raise_node_size(&new, biz).map_err(refused)?
        {
            if *growth == GrowthMode::Refused {
                let words = format!(
                    "{faults}\n?grow=true writes node-size=\"{}\" and moves the group {} to such \
                     nodes while it serves",
                    raised.node_bytes, raised.group
                );
                return Err(Refusal::new(422, Code::Faulty, words));
            }
            edit.text = raised.map;
        }
        let edit = MapEdit {
            growth: *growth,
            lifts_bans: *lifts_bans,
            begins_anew: *begins_anew,
            ..MapEdit::of(ChangeKind::Biz, edit)
        };
        self.check(texts, edit, runtime, guard)
    }

    /// Held from before the files are read until the fate of the change is known.
    fn guard(&self) -> Result<ConfGuard, Refusal> {
        let guard = ConfGuard::to_change(&self.data_dir);
        let guard =
            guard.map_err(|error| Refusal::io(format!("{}: {error}", self.data_dir.display())))?;
        guard.ok_or_else(|| Refusal::busy("a new binary reads the configuration: try again"))
    }

    /// Checks a new value of the switch; returns the one in force. It cannot turn off what srv.xml
    /// has turned on.
    fn degrade(&self, on: bool, runtime: &Runtime) -> Result<bool, Refusal> {
        let in_force = self.conf_in_force(runtime)?;
        if on {
            return Ok(in_force.srv.degrade);
        }
        let texts = self.texts_in_force(runtime)?;
        let conf = texts.parse().map_err(Refusal::io)?;
        if conf.srv.degrade {
            let outside = texts.settings.iter().find(|setting| setting.name() == "degrade");
            let words = match outside {
                Some(setting) => format!("the server was started with {}=true", setting.origin()),
                None => format!(
                    "{} says <degrade>true</degrade>: change it there, and reload",
                    texts.srv_name
                ),
            };
            return Err(Refusal::new(409, Code::Conflict, words));
        }
        Ok(in_force.srv.degrade)
    }

    fn conf_in_force(&self, runtime: &Runtime) -> Result<Conf, Refusal> {
        active::read(&self.data_dir, runtime.generation()).map_err(Refusal::io)
    }

    fn texts_in_force(&self, runtime: &Runtime) -> Result<Texts, Refusal> {
        active::read_texts(&self.data_dir, runtime.generation()).map_err(Refusal::io)
    }

    /// Both texts in force, which must equal the files.
    fn texts_to_edit(&self, runtime: &Runtime) -> Result<Texts, Refusal> {
        let texts = self.texts_in_force(runtime)?;
        let map = self.map_path(&texts)?;
        for (path, text) in [(self.conf_dir.join("srv.xml"), &texts.srv), (map, &texts.map)] {
            let found = map_file::read(&path)
                .map_err(|error| Refusal::io(format!("{}: {error}", path.display())))?;
            if found != *text {
                return Err(differs(&path));
            }
        }
        Ok(texts)
    }

    /// Where the map.xml of these texts is.
    fn map_path(&self, texts: &Texts) -> Result<PathBuf, Refusal> {
        let conf = texts.parse().map_err(Refusal::io)?;
        Ok(conf.srv.map_file.unwrap_or_else(|| self.conf_dir.join("map.xml")))
    }

    /// Checks a new map as `frs check` does. Nothing is written yet.
    fn check(
        &self,
        texts: Texts,
        MapEdit { kind, edit, growth, lifts_bans, begins_anew }: MapEdit,
        runtime: &Runtime,
        guard: ConfGuard,
    ) -> Result<ReadyChange, Refusal> {
        let faulty = |words: String| Refusal::new(422, Code::Faulty, words);
        let subjects = change_entry::of_edit(kind, &edit, lifts_bans);
        let status = if edit.old.is_none() { 201 } else { 200 };
        let new = Texts { map: edit.text, ..texts.clone() };
        let conf = new.parse().map_err(|faults| faulty(faults.to_string()))?;
        let faults = report::faults(&Machine::look(&conf));
        if !faults.is_empty() {
            return Err(faulty(faults.join("\n")));
        }
        let in_force = self.conf_in_force(runtime)?;
        let put = lifts_bans.then(|| conf.map.find_biz(&edit.name)).flatten();
        let lift_bans = put.map(|index| conf.map.bizs[index].id);
        if !begins_anew {
            keeps_records(&conf)?;
        }
        growth::check(LoadedConf { conf, texts: new.clone() }, &in_force, growth)?;
        let path = self.map_path(&texts)?;
        let loss = match growth {
            GrowthMode::Allowed(loss) => loss,
            GrowthMode::Refused => Loss::Refused,
        };
        let options = ReloadOptions { loss, lift_bans, is_edit: true };
        let edit = PendingEdit { options, ids: Vec::new(), old: texts.map, new: new.map };
        let files = Some(MapTexts { path, edit, _guard: guard });
        Ok(ReadyChange { ask: Ask::Reload(options), status, files, subjects })
    }
}

/// What became of taking an edit back.
#[derive(Debug, Default)]
struct Undone {
    /// What went wrong.
    words: String,
    /// map.xml still has the edit: a file could not be written.
    is_io: bool,
}

/// A changed map, and what may come of it.
struct MapEdit {
    kind: ChangeKind,
    edit: Edit,
    growth: GrowthMode,
    lifts_bans: bool,
    begins_anew: bool,
}

impl MapEdit {
    /// An edit after which the group may need shorter nodes, or longer ones again, and records may
    /// begin anew. Nothing else is lost.
    fn of(kind: ChangeKind, edit: Edit) -> MapEdit {
        MapEdit {
            kind,
            edit,
            growth: GrowthMode::Allowed(Loss::Refused),
            lifts_bans: false,
            begins_anew: true,
        }
    }
}

/// Refuses a map by which live records would begin anew.
fn keeps_records(conf: &Conf) -> Result<(), Refusal> {
    let fresh = inspect::fresh_records(conf, clock::now(), PLUG).map_err(Refusal::io)?;
    if fresh.is_empty() {
        return Ok(());
    }
    let mut words: Vec<String> = fresh.iter().map(ToString::to_string).collect();
    words.push("?fresh=true begins them anew".to_owned());
    Err(Refusal::new(409, Code::Conflict, words.join("\n")))
}

/// A change that is checked, and not begun.
struct ReadyChange {
    ask: Ask,
    /// The status of the answer if it is taken.
    status: u16,
    files: Option<MapTexts>,
    /// What it is in the log.
    subjects: Vec<Subject>,
}

pub(super) const UNKNOWN: &str = "map.xml has no such biz";

fn biz_name(name: &str) -> Result<BizName<'_>, Refusal> {
    BizName::of(name).ok_or_else(|| Refusal::not_found(UNKNOWN))
}

fn differs(path: &Path) -> Refusal {
    let words = "differs from the configuration in force: reload it, or put it back";
    Refusal::new(409, Code::Conflict, format!("{} {words}", path.display()))
}

/// What the master has refused.
fn by_master(cause: Cause, words: String) -> Refusal {
    match cause {
        Cause::Fault => Refusal::new(422, Code::Refused, words),
        Cause::NoRoom => Refusal::new(507, Code::NoRoom, words),
        Cause::Moving => Refusal::new(409, Code::Conflict, words),
        Cause::NotNow => Refusal::busy(words),
    }
}

/// A change must not begin that the log does not have.
pub(super) fn unlogged(error: std::io::Error) -> Refusal {
    if error.kind() == std::io::ErrorKind::WouldBlock {
        return Refusal::busy("another process writes to changes.log: try again");
    }
    tracing::error!(%error, "changes.log: cannot write: changes are refused");
    Refusal::of_io(&error, format!("changes.log: {error}: nothing was changed"))
}

fn refused(error: EditError) -> Refusal {
    match error {
        EditError::Faults(faults) => Refusal::new(422, Code::Faulty, faults.to_string()),
        EditError::Another => Refusal::bad(error.to_string()),
        EditError::Unknown => Refusal::not_found(error.to_string()),
        EditError::Changed => Refusal::new(409, Code::Conflict, error.to_string()),
    }
}

#[cfg(test)]
mod tests;
