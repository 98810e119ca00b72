//! A data directory for the tests of the engine and of the crates above, prepared as a master does
//! it.

pub mod kept;
pub mod members;
pub mod registers;

use std::ops::{Deref, DerefMut};
use std::path::Path;

use frs_conf::{Conf, Texts, active};
use frs_store::{Moves, Prepared, testing};

use crate::{
    Answer, Answers, Command, Exchange, ItemError, ItemOptions, MovePass, MoveStep, Plugged,
    RecordName, Request, Role, Service, Verdict, note_former_limits,
};

impl<'n> RecordName<'n> {
    /// The record of a key.
    pub fn of_key(biz: &'n str, key: &'n str) -> RecordName<'n> {
        RecordName { biz, key: Some(key) }
    }

    /// The record of a whole business.
    pub fn of_biz(biz: &'n str) -> RecordName<'n> {
        RecordName { biz, key: None }
    }
}

impl ItemOptions {
    /// As [`ItemOptions::ONE`], but the text sent is not a count.
    pub const NO_COUNT: ItemOptions = ItemOptions { count: None, ..ItemOptions::ONE };

    /// The same, with force.
    pub const fn forced(self) -> ItemOptions {
        ItemOptions { force: true, ..self }
    }

    /// The same, with the figures of every limit in the answer.
    pub const fn detailed(self) -> ItemOptions {
        ItemOptions { detail: true, ..self }
    }
}

/// A prepared data directory, with what only the service does there.
pub struct World {
    files: testing::World,
    plug: Plugged,
}

impl Deref for World {
    type Target = testing::World;

    fn deref(&self) -> &testing::World {
        &self.files
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut testing::World {
        &mut self.files
    }
}

impl World {
    /// [`testing::World::new`].
    pub fn new(map: &str) -> World {
        World::alone(testing::World::new(map))
    }

    fn alone(files: testing::World) -> World {
        World { files, plug: None }
    }

    /// [`testing::World::shared`], for services with this plug.
    pub fn shared(map: &str, plug: Plugged) -> World {
        World { files: testing::World::shared(map), plug }
    }

    /// The same world, for services with this plug.
    pub fn plugged(self, plug: Plugged) -> World {
        World { plug, ..self }
    }

    /// [`testing::World::with_lock_timeout`].
    pub fn with_lock_timeout(map: &str, lock_timeout: &'static str) -> World {
        World::alone(testing::World::with_lock_timeout(map, lock_timeout))
    }

    /// [`testing::World::on_disk`].
    pub fn on_disk(map: &str) -> Option<World> {
        testing::World::on_disk(map).map(World::alone)
    }

    /// [`testing::World::of`].
    pub fn of(dir: &Path, map: &str) -> World {
        World::alone(testing::World::of(dir, map))
    }

    /// Puts a map.xml in force whose groups have another geometry: they begin to move.
    pub fn begin_moves(&mut self, map: &str, generation: u64) -> Prepared {
        let srv = self.srv();
        let before = active::read(&self.dir, generation - 1);
        self.conf = Conf::parse("srv.xml", &srv, "map.xml", map)
            .unwrap_or_else(|faults| panic!("{faults}"));
        let begin = self.conf.map.groups.iter().map(|group| group.name.clone()).collect();
        let moves = Moves { begin, ..Moves::default() };
        let prepared = self.prepare_moving(&moves);
        let mut overlay = active::read_overlay(&self.dir, generation - 1).unwrap_or_default();
        if let Ok(before) = before {
            note_former_limits(&mut overlay, &before, &self.conf, self.plug);
        }
        overlay.set_moving(prepared.moving.clone());
        active::write_overlaid(&self.dir, generation, &Texts::of(srv, map), &overlay).unwrap();
        self.runtime().publish(generation);
        prepared
    }

    /// Like [`World::publish_shared`], after the generation before, as a reload does it.
    pub fn reload_shared(&self, map: &str, generation: u64) {
        let before = active::read(&self.dir, generation - 1).unwrap();
        let mut overlay = active::read_overlay(&self.dir, generation - 1).unwrap();
        note_former_limits(&mut overlay, &before, &self.shared_conf(map), self.plug);
        self.publish_overlaid(map, generation, &overlay);
    }

    pub fn attach(&self) -> Service {
        Service::attach(&self.dir, Role::Program, self.plug).unwrap()
    }
}

/// One item of a test.
#[derive(Debug, Clone)]
pub struct Ask<'a>(pub &'a str, pub &'a str, pub i32);

pub fn request(command: Command, atomic: bool, items: &[Ask<'_>]) -> Request {
    let mut request = Request::default();
    request.begin(command);
    request.atomic = atomic;
    for Ask(biz, key, count) in items {
        request.push(biz, key, ItemOptions::of(*count));
    }
    request
}

/// Moves all nodes of group `g`, which grows, as the keeper does.
pub fn move_all(service: &mut Service, now: u64) -> MovePass {
    let mut pass = MovePass::default();
    service.begin_tick();
    for _ in 0..100_000 {
        match service.move_nodes("g", &mut pass, 7, now).expect("it grows") {
            MoveStep::Over { left: 0, awaiting: 0 } => return pass,
            // It leaves what is on a disk once its copy is written.
            MoveStep::Over { left: 0, .. } => service.flush(),
            MoveStep::Over { left, .. } => panic!("{left} are left"),
            MoveStep::Going => {}
            MoveStep::Unsettled => panic!("nobody else is there"),
        }
    }
    panic!("no end");
}

impl Exchange {
    /// A request to run.
    pub fn of(request: Request) -> Exchange {
        Exchange { request, ..Exchange::default() }
    }

    /// The same in a lane.
    pub fn in_lane(self, lane: usize) -> Exchange {
        Exchange { lane, ..self }
    }
}

impl Service {
    /// Writes all groups on disk back, as the keeper does.
    pub fn flush(&mut self) {
        let mut flushing = self.begin_flush();
        let over = std::iter::from_fn(|| Some(self.flush_part(&mut flushing))).flatten().next();
        over.expect("it ends").expect("written");
    }

    pub fn answers(&mut self, request: &Request, now: u64) -> Answers {
        let mut answers = Answers::default();
        self.begin_tick();
        self.run(request, now, &mut answers);
        assert_eq!(answers.items.len(), request.items().len());
        answers
    }

    pub fn one(
        &mut self,
        command: Command,
        biz: &str,
        key: &str,
        count: i32,
        now: u64,
    ) -> Result<Verdict, ItemError> {
        let request = request(command, false, &[Ask(biz, key, count)]);
        let Answer { result, .. } = self.answers(&request, now).items.remove(0);
        result
    }

    pub fn update(&mut self, biz: &str, key: &str, now: u64) -> Verdict {
        self.one(Command::Update, biz, key, 1, now).unwrap()
    }

    pub fn used(&mut self, biz: &str, key: &str, now: u64) -> u64 {
        self.one(Command::Query, biz, key, 1, now).unwrap().figures.used
    }
}
