//! The change queue makes one change at a time: it edits, asks the master, and answers when all
//! living processes use the change.
//!
//! Invariant: a change begins only after the one before has ended. So each is whole and the last
//! one wins. A map.xml that the master refuses is put back, and a new binary never takes it. A
//! change that is not in the log does not begin, and its outcome is there before its answer.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::files::{self, ReplaceError};
use super::growth;
use super::map_edit::{self, BizName, Edit, EditError, TextNames};
use super::response::{Addressed, Refusal, StatusDocument};
use super::route::{BizPut, Change, Growth};
use super::subject;
use crate::process::change_log::{self, Author, ChangeLog, Conclusion, Outcome, Subject, What};
use crate::process::conf_guard::Guard;
use crate::process::message::{self, Ask, Loss, ReloadOptions};
use crate::process::result_files::{ReloadOutcome, Reloaded};
use crate::protocol::Code;
use crate::protocol::element::Element;
use frs::base::sys::process::Channel;
use frs::conf::{LoadedConf, Machine, Texts, active, report};
use frs::store::Runtime;

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
    pub who: W,
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
    channel: Channel,
    last_number: u64,
    queue: VecDeque<WantedChange<W>>,
    asked: Option<PendingAsk<W>>,
    log: ChangeLog,
    retry_at_ns: u64,
}

/// A request to the master that has no answer yet.
#[derive(Debug)]
struct PendingAsk<W> {
    who: W,
    number: u64,
    begun_ns: u64,
    /// The status of the answer if the master accepts.
    status: u16,
    files: Option<MapTexts>,
    /// The ids of the change in the log.
    ids: Vec<u64>,
    /// It is a reload, whose result is a generation.
    reloads: bool,
}

/// map.xml before and after the change.
#[derive(Debug)]
struct MapTexts {
    old: String,
    new: String,
    /// Held until the fate of the change is known.
    _guard: Guard,
}

impl<W> MapChanges<W> {
    /// An empty queue.
    pub fn new(conf_dir: PathBuf, data_dir: PathBuf, channel: Channel) -> MapChanges<W> {
        let log = ChangeLog::new(&data_dir, LOG_PATIENCE);
        MapChanges {
            conf_dir,
            data_dir,
            channel,
            last_number: 0,
            queue: VecDeque::new(),
            asked: None,
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

    /// Queues a change.
    pub fn push(&mut self, wanted: WantedChange<W>) {
        self.queue.push_back(wanted);
    }

    /// Whether a change is in progress or queued.
    pub fn is_busy(&self) -> bool {
        self.asked.is_some() || !self.queue.is_empty()
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
        let begun = self.make(&wanted, runtime).and_then(|ready| {
            let ids = self.log.begin(&wanted.author, &ready.subjects).map_err(unlogged)?;
            let asked = self.ask(&ready, now_ns);
            let asked = asked.inspect_err(|_| self.log.conclude(&ids, &Outcome::Failed.into()));
            Ok(Begun { number: asked?, ids, ready })
        });
        let who = wanted.who;
        match begun {
            Ok(Begun { number, ids, ready: ReadyChange { status, files, .. } }) => {
                let (begun_ns, reloads) = (now_ns, wanted.change == Change::Reload);
                self.asked =
                    Some(PendingAsk { who, number, begun_ns, status, files, ids, reloads });
                None
            }
            Err(refusal) => Some(Addressed { who, what: Err(refusal) }),
        }
    }

    /// Writes the changed map.xml, and asks the master under the number that it returns.
    fn ask(&mut self, ready: &ReadyChange, now_ns: u64) -> Result<u64, Refusal> {
        let files = ready.files.as_ref();
        if let Some(MapTexts { old, new, .. }) = files {
            let path = self.conf_dir.join("map.xml");
            files::replace(&path, old, new).map_err(|error| match error {
                ReplaceError::Changed => differs(&path),
                ReplaceError::Io(error) => Refusal::io(format!("{}: {error}", path.display())),
            })?;
        }
        let number = now_ns.max(self.last_number + 1);
        self.last_number = number;
        message::send_ask(&self.channel, number, ready.ask).map_err(|error| {
            let undone = self.undo(files);
            Refusal::io(format!("cannot ask the master: {error}{undone}"))
        })?;
        Ok(number)
    }

    /// Breaks off the change in progress, since this keeper ends and cannot receive its result.
    /// Puts map.xml back unless the change is in force by now.
    pub fn end(&mut self, runtime: &Runtime) {
        let Some(PendingAsk { files, ids, .. }) = self.asked.take() else { return };
        let outcome = match &files {
            None => Outcome::Unknown,
            Some(_) if !self.is_another(runtime.generation(), files.as_ref()) => Outcome::Done,
            Some(_) => {
                let undone = self.undo(files.as_ref());
                tracing::warn!("admin: a change was not finished.{undone}");
                Outcome::Failed
            }
        };
        self.log.conclude(&ids, &outcome.into());
    }

    /// The answer to the change in progress, once there is one.
    pub fn poll(&mut self, now_ns: u64) -> Option<Addressed<W, Done>> {
        let number = self.asked.as_ref()?.number;
        let outcome = ReloadOutcome::read_asked(&self.data_dir).ok().flatten();
        let result = outcome.filter(|outcome| outcome.begun_ns == number);
        if let Some(outcome) = result {
            let PendingAsk { who, status, files, ids, reloads, .. } = self.asked.take()?;
            let generation = match outcome.result {
                Reloaded::Taken { generation, .. } if reloads => Some(generation.to_string()),
                _ => None,
            };
            let what = self.done(outcome.result, status, files.as_ref());
            let outcome = if what.is_ok() { Outcome::Done } else { Outcome::Failed };
            self.log.conclude(&ids, &Conclusion { new: generation, ..outcome.into() });
            return Some(Addressed { who, what });
        }
        if now_ns.saturating_sub(self.asked.as_ref()?.begun_ns) > BOUND_NS {
            let words = "the master has not answered for 60 s: it may still make the change";
            let PendingAsk { who, ids, .. } = self.asked.take()?;
            self.log.conclude(&ids, &Outcome::Unknown.into());
            return Some(Addressed { who, what: Err(Refusal::new(504, Code::NoAnswer, words)) });
        }
        None
    }

    fn done(&self, result: Reloaded, status: u16, files: Option<&MapTexts>) -> Done {
        match result {
            Reloaded::Taken { generation, .. } if self.is_another(generation, files) => {
                let words = "map.xml has changed meanwhile: the file as it is now is in force, \
                             without this change";
                Err(Refusal::new(409, Code::Conflict, words))
            }
            Reloaded::Taken { generation, laggards } => {
                let status = if laggards.is_empty() { status } else { 202 };
                let laggards = laggards.into_iter().map(|who| Element::text("laggard", who));
                let root = Element::new("done").with("generation", generation).holding(laggards);
                Ok(StatusDocument { status, root })
            }
            Reloaded::Refused { mut faults } => {
                let undone = self.undo(files);
                faults.extend((!undone.is_empty()).then(|| undone.trim_start().to_owned()));
                Err(Refusal::new(422, Code::Refused, faults.join("\n")))
            }
        }
    }

    /// Whether a map.xml other than `new` is in force. If the generation's file is gone, the answer
    /// is no.
    fn is_another(&self, generation: u64, files: Option<&MapTexts>) -> bool {
        let Some(MapTexts { new, .. }) = files else { return false };
        active::read_texts(&self.data_dir, generation).is_ok_and(|texts| texts.map != *new)
    }

    /// Puts map.xml back unless another process has written it since. Returns what went wrong.
    fn undo(&self, files: Option<&MapTexts>) -> String {
        let Some(MapTexts { old, new, .. }) = files else { return String::new() };
        match files::replace(&self.conf_dir.join("map.xml"), new, old) {
            Ok(()) => String::new(),
            Err(ReplaceError::Changed) => {
                " map.xml has changed meanwhile: it stays as it is".to_owned()
            }
            Err(error) => format!(" map.xml cannot be put back as it was: {error}"),
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
                let subject = Subject { old, ..Subject::of(What::Reload, None) };
                Ok(made(Ask::Reload(Loss::Refused.into()), subject))
            }
            Change::Degrade(on) => {
                let old = Some(self.degrade(*on, runtime)?.to_string());
                let new = Some(on.to_string());
                let subject = Subject { old, new, ..Subject::of(What::Degrade, None) };
                Ok(made(Ask::Degrade(*on), subject))
            }
            Change::Reset(biz) => {
                let (NamedBiz { id: biz, name }, cleared) =
                    (self.reset(biz, runtime)?, wanted.cleared);
                Ok(made(Ask::Reset { biz, cleared }, Subject::of(What::Reset, Some(name))))
            }
            Change::PutBiz(put) => self.put(put, &wanted.body, runtime),
            Change::DeleteBiz(name) => {
                let guard = self.guard()?;
                let texts = self.texts_in_force(runtime)?;
                let removed = map_edit::remove(&texts.map, biz_name(name)?, &texts.map_name);
                let edit = MapEdit::of(What::Biz, removed.map_err(refused)?);
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
        let undone = subject::undone(&change)?;
        let guard = self.guard()?;
        let texts = self.texts_in_force(runtime)?;
        let edit = map_edit::revert(&texts.map, undone, &texts.map_name);
        let edit = MapEdit::of(What::Undo, edit.map_err(refused)?);
        self.check(texts, edit, runtime, guard)
    }

    fn put(&self, put: &BizPut, body: &[u8], runtime: &Runtime) -> Result<ReadyChange, Refusal> {
        let BizPut { biz: name, growth, lifts_bans } = put;
        let body = std::str::from_utf8(body)
            .map_err(|_| Refusal::new(415, Code::BadContentType, "expected a document in UTF-8"))?;
        let guard = self.guard()?;
        let texts = self.texts_in_force(runtime)?;
        let names = TextNames { map: &texts.map_name, biz: "body" };
        let biz = biz_name(name)?;
        let mut edit = map_edit::put(&texts.map, body, biz, names).map_err(refused)?;
        let new = Texts { map: edit.text.clone(), ..texts.clone() };
        if let Err(faults) = new.parse()
            && let Some(raised) = growth::raise_node_size(&new, biz).map_err(refused)?
        {
            if *growth == Growth::Refused {
                let words = format!(
                    "{faults}\n?grow=true writes node-size=\"{}\" and moves the group {} to such \
                     nodes while it serves",
                    raised.node_bytes, raised.group
                );
                return Err(Refusal::new(422, Code::Faulty, words));
            }
            edit.text = raised.map;
        }
        let edit =
            MapEdit { growth: *growth, lifts_bans: *lifts_bans, ..MapEdit::of(What::Biz, edit) };
        self.check(texts, edit, runtime, guard)
    }

    /// Held from before the files are read until the fate of the change is known.
    fn guard(&self) -> Result<Guard, Refusal> {
        let guard = Guard::to_change(&self.conf_dir);
        let guard =
            guard.map_err(|error| Refusal::io(format!("{}: {error}", self.conf_dir.display())))?;
        guard.ok_or_else(|| Refusal::busy("a new binary reads the configuration: try again"))
    }

    /// Checks a new value of the switch; returns the one in force. It cannot turn off what srv.xml
    /// has turned on.
    fn degrade(&self, on: bool, runtime: &Runtime) -> Result<bool, Refusal> {
        let generation = runtime.generation();
        let in_force = active::read(&self.data_dir, generation)
            .map_err(|error| Refusal::io(error.to_string()))?;
        if on {
            return Ok(in_force.srv.degrade);
        }
        let texts = active::read_texts(&self.data_dir, generation)
            .map_err(|error| Refusal::io(error.to_string()))?;
        let conf = texts.parse().map_err(|faults| Refusal::io(faults.to_string()))?;
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

    fn reset(&self, biz: &str, runtime: &Runtime) -> Result<NamedBiz, Refusal> {
        let conf = active::read(&self.data_dir, runtime.generation())
            .map_err(|error| Refusal::io(error.to_string()))?;
        let index = conf.map.find_biz(biz).ok_or_else(|| Refusal::not_found(UNKNOWN))?;
        let biz = &conf.map.bizs[index];
        Ok(NamedBiz { id: biz.id, name: biz.name.clone() })
    }

    /// Both texts in force, which must equal the files.
    fn texts_in_force(&self, runtime: &Runtime) -> Result<Texts, Refusal> {
        let texts = active::read_texts(&self.data_dir, runtime.generation())
            .map_err(|error| Refusal::io(error.to_string()))?;
        for (name, text) in [("srv.xml", &texts.srv), ("map.xml", &texts.map)] {
            let path = self.conf_dir.join(name);
            let found = files::read(&path)
                .map_err(|error| Refusal::io(format!("{}: {error}", path.display())))?;
            if found != *text {
                return Err(differs(&path));
            }
        }
        Ok(texts)
    }

    /// Checks a new map as `frs check` does. Nothing is written yet.
    fn check(
        &self,
        texts: Texts,
        MapEdit { what, edit, growth, lifts_bans }: MapEdit,
        runtime: &Runtime,
        guard: Guard,
    ) -> Result<ReadyChange, Refusal> {
        let faulty = |words: String| Refusal::new(422, Code::Faulty, words);
        let subjects = subject::of_edit(what, &edit, lifts_bans);
        let status = if edit.old.is_none() { 201 } else { 200 };
        let new = Texts { map: edit.text, ..texts.clone() };
        let conf = new.parse().map_err(|faults| faulty(faults.to_string()))?;
        let faults = report::faults(&Machine::look(&conf));
        if !faults.is_empty() {
            return Err(faulty(faults.join("\n")));
        }
        let in_force = active::read(&self.data_dir, runtime.generation())
            .map_err(|error| Refusal::io(error.to_string()))?;
        let put = lifts_bans.then(|| conf.map.find_biz(&edit.name)).flatten();
        let lift_bans = put.map(|index| conf.map.bizs[index].id);
        growth::check(LoadedConf { conf, texts: new.clone() }, &in_force, growth)?;
        let files = MapTexts { old: texts.map, new: new.map, _guard: guard };
        let loss = match growth {
            Growth::Allowed(loss) => loss,
            Growth::Refused => Loss::Refused,
        };
        let ask = Ask::Reload(ReloadOptions { loss, lift_bans });
        Ok(ReadyChange { ask, status, files: Some(files), subjects })
    }
}

/// A changed map, and what may come of it.
struct MapEdit {
    what: What,
    edit: Edit,
    growth: Growth,
    lifts_bans: bool,
}

impl MapEdit {
    /// An edit after which the group may need shorter nodes, or longer ones again. Nothing is lost
    /// with them.
    fn of(what: What, edit: Edit) -> MapEdit {
        MapEdit { what, edit, growth: Growth::Allowed(Loss::Refused), lifts_bans: false }
    }
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

/// A change that the master was asked for.
struct Begun {
    number: u64,
    ids: Vec<u64>,
    ready: ReadyChange,
}

struct NamedBiz {
    id: u32,
    name: String,
}

pub(super) const UNKNOWN: &str = "map.xml has no such biz";

fn biz_name(name: &str) -> Result<BizName<'_>, Refusal> {
    BizName::of(name).ok_or_else(|| Refusal::not_found(UNKNOWN))
}

fn differs(path: &Path) -> Refusal {
    let words = "differs from the configuration in force: reload it, or put it back";
    Refusal::new(409, Code::Conflict, format!("{} {words}", path.display()))
}

/// A change must not begin that the log does not have.
pub(super) fn unlogged(error: std::io::Error) -> Refusal {
    if error.kind() == std::io::ErrorKind::WouldBlock {
        return Refusal::busy("another process writes to changes.log: try again");
    }
    tracing::error!(%error, "changes.log: cannot write: changes are refused");
    Refusal::io(format!("changes.log: {error}: nothing was changed"))
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
mod tests {
    use super::*;
    use crate::process::message::{ChildChannel, NumberedAsk, ToMaster};
    use frs::testing::World;

    const MAP: &str =
        "<map><group name='g' files='1' key-nodes='1' chain='1' node-size='64'/></map>";
    const BIZ: &[u8] = b"<biz id='1' name='a' key='integer'><limit policy='total' max='1'/></biz>";

    struct Handler {
        world: World,
        changes: MapChanges<()>,
        master: ChildChannel,
    }

    impl Handler {
        fn new() -> Handler {
            let world = World::new(MAP);
            let texts = active::read_texts(&world.dir, 1).unwrap();
            std::fs::write(world.dir.join("srv.xml"), texts.srv).unwrap();
            std::fs::write(world.dir.join("map.xml"), MAP).unwrap();
            let (master, channel) = Channel::pair().unwrap();
            let changes = MapChanges::new(world.dir.clone(), world.dir.clone(), channel);
            Handler { world, changes, master: ChildChannel::new(master) }
        }

        fn map(&self) -> String {
            std::fs::read_to_string(self.world.dir.join("map.xml")).unwrap()
        }

        /// Puts a biz; the number of the reload request to the master.
        fn put(&mut self) -> u64 {
            let put = BizPut { biz: "1".into(), growth: Growth::Refused, lifts_bans: false };
            self.begin(Change::PutBiz(put), BIZ)
        }

        /// Begins a change; the number of the reload request to the master.
        fn begin(&mut self, change: Change, body: &[u8]) -> u64 {
            let (author, body) = (Author::named("alice"), body.to_vec());
            let wanted = WantedChange { who: (), author, change, body, cleared: None };
            let runtime = self.world.runtime();
            assert!(self.changes.begin(wanted, &runtime, 7).is_none());
            let Some(ToMaster::Ask(NumberedAsk { number, ask: Ask::Reload(_) })) =
                self.master.receive()
            else {
                panic!("the master is asked for nothing");
            };
            number
        }

        fn answer(&mut self, begun_ns: u64, result: Reloaded) -> Done {
            assert!(self.changes.poll(8).is_none(), "there is no answer yet");
            ReloadOutcome { master: 1, begun_ns, result }.write_asked(&self.world.dir).unwrap();
            self.changes.poll(9).expect("an answer").what
        }
    }

    #[test]
    fn what_is_in_force_is_said_to_be() {
        let mut handler = Handler::new();
        let number = handler.put();
        let made = handler.map();
        assert_ne!(made, MAP);
        handler.world.publish(&made, 2);
        let done = handler.answer(number, Reloaded::Taken { generation: 2, laggards: vec![] });
        assert_eq!(done.unwrap().status, 201);
    }

    #[test]
    fn a_change_that_somebody_wrote_over_is_not_said_to_be_in_force() {
        let mut handler = Handler::new();
        let number = handler.put();
        // An edit by hand, before the master has read the file.
        let other = MAP.replace("<map>", "<map><!-- by hand -->");
        std::fs::write(handler.world.dir.join("map.xml"), &other).unwrap();
        handler.world.publish(&other, 2);
        let done = handler.answer(number, Reloaded::Taken { generation: 2, laggards: vec![] });
        assert_eq!(done.unwrap_err().status, 409);
        assert_eq!(handler.map(), other);
    }

    #[test]
    fn a_change_that_nobody_will_hear_of_is_undone_unless_it_is_in_force() {
        for in_force in [false, true] {
            let mut handler = Handler::new();
            handler.put();
            let made = handler.map();
            if in_force {
                handler.world.publish(&made, 2);
            }
            let runtime = handler.world.runtime();
            handler.changes.end(&runtime);
            assert_eq!(handler.map(), if in_force { &*made } else { MAP });
        }
    }

    #[test]
    fn nothing_is_written_while_a_new_binary_reads_and_none_reads_in_the_middle() {
        let mut handler = Handler::new();
        let soon = std::time::Duration::from_millis(10);
        let read = Guard::to_read(&handler.world.dir, soon).unwrap();
        let change = || Change::DeleteBiz("1".into());
        let author = Author::named("alice");
        let wanted =
            WantedChange { who: (), author, change: change(), body: Vec::new(), cleared: None };
        let runtime = handler.world.runtime();
        let done = handler.changes.begin(wanted, &runtime, 7).expect("an answer").what;
        assert_eq!(done.unwrap_err().status, 503);
        drop(read);
        let number = handler.put();
        assert!(Guard::to_read(&handler.world.dir, soon).is_err());
        handler.answer(number, Reloaded::Refused { faults: vec!["no".into()] }).unwrap_err();
        assert!(Guard::to_read(&handler.world.dir, soon).is_ok());
    }

    #[test]
    fn a_refused_change_is_undone_but_not_what_somebody_wrote_over_it() {
        for by_hand in [None, Some("<map><!-- half -->")] {
            let mut handler = Handler::new();
            let number = handler.put();
            if let Some(text) = by_hand {
                std::fs::write(handler.world.dir.join("map.xml"), text).unwrap();
            }
            let done = handler.answer(number, Reloaded::Refused { faults: vec!["no".into()] });
            let refusal = done.unwrap_err();
            assert_eq!(refusal.status, 422);
            assert_eq!(refusal.words.contains("has changed meanwhile"), by_hand.is_some());
            assert_eq!(handler.map(), by_hand.unwrap_or(MAP));
        }
    }
}
