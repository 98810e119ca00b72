//! The change queue makes one change at a time: it edits, asks the master, and answers when all
//! living processes use the change.
//!
//! Invariant: a change begins only after the one before has ended. So each is whole and the last
//! one wins. A map.xml that the master refuses is put back, and a new binary never takes it.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use super::files::{self, ReplaceError};
use super::growth;
use super::map_edit::{self, BizName, EditError, TextNames};
use super::response::{Addressed, Refusal, StatusDocument};
use super::route::{Change, Growth};
use crate::process::conf_guard::Guard;
use crate::process::message::{self, Ask, Loss};
use crate::process::result_files::{ReloadOutcome, Reloaded};
use crate::protocol::Code;
use crate::protocol::element::Element;
use frs::base::sys::process::Channel;
use frs::conf::{LoadedConf, Machine, Texts, active, report};
use frs::store::Runtime;

/// Time limit for the master's answer: two seconds for laggards, the rest for a busy disk.
const BOUND_NS: u64 = 60_000_000_000;

/// A change that a client waits for.
#[derive(Debug)]
pub struct WantedChange<W> {
    /// The client.
    pub who: W,
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
        let (queue, asked) = (VecDeque::new(), None);
        MapChanges { conf_dir, data_dir, channel, last_number: 0, queue, asked }
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
        let made = self.make(&wanted, runtime);
        let who = wanted.who;
        match made {
            Ok(Made { ask, status, files }) => {
                let number = now_ns.max(self.last_number + 1);
                self.last_number = number;
                match message::send_ask(&self.channel, number, ask) {
                    Ok(()) => {
                        let begun_ns = now_ns;
                        self.asked = Some(PendingAsk { who, number, begun_ns, status, files });
                        None
                    }
                    Err(error) => {
                        let undone = self.undo(files.as_ref());
                        let words = format!("cannot ask the master: {error}{undone}");
                        Some(Addressed { who, what: Err(Refusal::io(words)) })
                    }
                }
            }
            Err(refusal) => Some(Addressed { who, what: Err(refusal) }),
        }
    }

    /// Breaks off the change in progress, since this keeper ends and cannot receive its result.
    /// Puts map.xml back unless the change is in force by now.
    pub fn end(&mut self, runtime: &Runtime) {
        let Some(PendingAsk { files: Some(files), .. }) = self.asked.take() else { return };
        if self.is_another(runtime.generation(), Some(&files)) {
            let undone = self.undo(Some(&files));
            tracing::warn!("admin: a change was not finished.{undone}");
        }
    }

    /// The answer to the change in progress, once there is one.
    pub fn poll(&mut self, now_ns: u64) -> Option<Addressed<W, Done>> {
        let number = self.asked.as_ref()?.number;
        let outcome = ReloadOutcome::read_asked(&self.data_dir).ok().flatten();
        let result = outcome.filter(|outcome| outcome.begun_ns == number);
        if let Some(outcome) = result {
            let PendingAsk { who, status, files, .. } = self.asked.take()?;
            let what = self.done(outcome.result, status, files.as_ref());
            return Some(Addressed { who, what });
        }
        if now_ns.saturating_sub(self.asked.as_ref()?.begun_ns) > BOUND_NS {
            let words = "the master has not answered for 60 s: it may still make the change";
            let who = self.asked.take()?.who;
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

    fn make(&self, wanted: &WantedChange<W>, runtime: &Runtime) -> Result<Made, Refusal> {
        let made = |ask| Made { ask, status: 200, files: None };
        match &wanted.change {
            Change::Reload => Ok(made(Ask::Reload(Loss::Refused))),
            Change::Degrade(on) => self.degrade(*on, runtime).map(|()| made(Ask::Degrade(*on))),
            Change::Reset(biz) => {
                let (biz, cleared) = (self.reset(biz, runtime)?, wanted.cleared);
                Ok(made(Ask::Reset { biz, cleared }))
            }
            Change::PutBiz { biz, growth } => self.put(biz, &wanted.body, runtime, *growth),
            Change::DeleteBiz(name) => {
                let guard = self.guard()?;
                let texts = self.texts_in_force(runtime)?;
                let removed = map_edit::remove(&texts.map, biz_name(name)?, &texts.map_name);
                // What is left may need shorter nodes, and nothing is lost with them.
                let growth = Growth::Allowed(Loss::Refused);
                let edit = MapEdit { map: removed.map_err(refused)?, status: 200, growth };
                self.write(texts, edit, runtime, guard)
            }
            Change::PutNode { .. } | Change::DeleteNode(_) => {
                Err(Refusal::bad("a record is no part of the configuration"))
            }
        }
    }

    fn put(
        &self,
        name: &str,
        body: &[u8],
        runtime: &Runtime,
        growth: Growth,
    ) -> Result<Made, Refusal> {
        let body = std::str::from_utf8(body)
            .map_err(|_| Refusal::new(415, Code::BadContentType, "expected a document in UTF-8"))?;
        let guard = self.guard()?;
        let texts = self.texts_in_force(runtime)?;
        let names = TextNames { map: &texts.map_name, biz: "body" };
        let biz = biz_name(name)?;
        let put = map_edit::put(&texts.map, body, biz, names).map_err(refused)?;
        let status = if put.is_new { 201 } else { 200 };
        let mut map = put.text;
        let new = Texts { map: map.clone(), ..texts.clone() };
        if let Err(faults) = new.parse()
            && let Some(raised) = growth::raise_node_size(&new, biz).map_err(refused)?
        {
            if growth == Growth::Refused {
                let words = format!(
                    "{faults}\n?grow=true writes node-size=\"{}\" and moves the group {} to such \
                     nodes while it serves",
                    raised.node_bytes, raised.group
                );
                return Err(Refusal::new(422, Code::Faulty, words));
            }
            map = raised.map;
        }
        self.write(texts, MapEdit { map, status, growth }, runtime, guard)
    }

    /// Held from before the files are read until the fate of the change is known.
    fn guard(&self) -> Result<Guard, Refusal> {
        let guard = Guard::to_change(&self.conf_dir);
        let guard =
            guard.map_err(|error| Refusal::io(format!("{}: {error}", self.conf_dir.display())))?;
        guard.ok_or_else(|| Refusal::busy("a new binary reads the configuration: try again"))
    }

    /// Checks a new value of the switch. It cannot turn off what srv.xml has turned on.
    fn degrade(&self, on: bool, runtime: &Runtime) -> Result<(), Refusal> {
        if on {
            return Ok(());
        }
        let texts = active::read_texts(&self.data_dir, runtime.generation())
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
        Ok(())
    }

    fn reset(&self, biz: &str, runtime: &Runtime) -> Result<u32, Refusal> {
        let conf = active::read(&self.data_dir, runtime.generation())
            .map_err(|error| Refusal::io(error.to_string()))?;
        let index = conf.map.find_biz(biz).ok_or_else(|| Refusal::not_found(UNKNOWN))?;
        Ok(conf.map.bizs[index].id)
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

    /// Checks a new map as `frs check` does, and writes it.
    fn write(
        &self,
        texts: Texts,
        MapEdit { map, status, growth }: MapEdit,
        runtime: &Runtime,
        guard: Guard,
    ) -> Result<Made, Refusal> {
        let faulty = |words: String| Refusal::new(422, Code::Faulty, words);
        let new = Texts { map, ..texts.clone() };
        let conf = new.parse().map_err(|faults| faulty(faults.to_string()))?;
        let faults = report::faults(&Machine::look(&conf));
        if !faults.is_empty() {
            return Err(faulty(faults.join("\n")));
        }
        let in_force = active::read(&self.data_dir, runtime.generation())
            .map_err(|error| Refusal::io(error.to_string()))?;
        growth::check(LoadedConf { conf, texts: new.clone() }, &in_force, growth)?;
        let path = self.conf_dir.join("map.xml");
        files::replace(&path, &texts.map, &new.map).map_err(|error| match error {
            ReplaceError::Changed => differs(&path),
            ReplaceError::Io(error) => Refusal::io(format!("{}: {error}", path.display())),
        })?;
        let files = MapTexts { old: texts.map, new: new.map, _guard: guard };
        let loss = match growth {
            Growth::Allowed(loss) => loss,
            Growth::Refused => Loss::Refused,
        };
        Ok(Made { ask: Ask::Reload(loss), status, files: Some(files) })
    }
}

/// A changed map, and what may come of it.
struct MapEdit {
    map: String,
    /// The status of the answer if it is taken.
    status: u16,
    growth: Growth,
}

struct Made {
    ask: Ask,
    status: u16,
    files: Option<MapTexts>,
}

pub(super) const UNKNOWN: &str = "map.xml has no such biz";

fn biz_name(name: &str) -> Result<BizName<'_>, Refusal> {
    BizName::of(name).ok_or_else(|| Refusal::not_found(UNKNOWN))
}

fn differs(path: &Path) -> Refusal {
    let words = "differs from the configuration in force: reload it, or put it back";
    Refusal::new(409, Code::Conflict, format!("{} {words}", path.display()))
}

fn refused(error: EditError) -> Refusal {
    match error {
        EditError::Faults(faults) => Refusal::new(422, Code::Faulty, faults.to_string()),
        EditError::Another => Refusal::bad(error.to_string()),
        EditError::Unknown => Refusal::not_found(error.to_string()),
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
            let change = Change::PutBiz { biz: "1".into(), growth: Growth::Refused };
            let wanted = WantedChange { who: (), change, body: BIZ.to_vec(), cleared: None };
            let runtime = self.world.runtime();
            assert!(self.changes.begin(wanted, &runtime, 7).is_none());
            let Some(ToMaster::Ask(NumberedAsk { number, ask: Ask::Reload(Loss::Refused) })) =
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
        let wanted = WantedChange { who: (), change: change(), body: Vec::new(), cleared: None };
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
