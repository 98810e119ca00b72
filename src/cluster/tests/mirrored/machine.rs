//! A machine with peers: what answers requests, and a courier whose sockets the test plays.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

use frs_base::clock;
use frs_conf::key::KeyField;
use frs_conf::{EpochRaise, EpochStep, Overlay, Scope};
use frs_engine::testing::{Ask, request};
use frs_engine::{
    Command, Exchange, ItemError, ItemMoment, Need, NeedEnd, NeedKind, RecordName, Request, Role,
    Service, Stage, StoredKey,
};
use frs_store::layout::node;
use frs_store::testing::World;
use frs_store::{LetterQueue, Ticket, Version};

use crate::PLUG;
use crate::mirror::core::{Mirror, To, TurnTime};
use crate::mirror::frame::{EpochOf, Frame};

/// The wall clock of a machine without skew when a test begins.
pub const START_MS: u64 = 1_700_000_000_000;
/// How long an answer of a peer is waited for.
pub const TIMEOUT_MS: u64 = 400;
/// How long an item waits at most.
const WAIT_MS: u64 = 5_000;

/// The time of a test: it only goes on when the test says so.
#[derive(Debug, Clone, Copy)]
pub struct Played {
    origin: Instant,
    /// Milliseconds since the beginning.
    pub ms: u64,
}

impl Played {
    /// The beginning.
    pub fn new() -> Played {
        Played { origin: clock::instant() + Duration::from_secs(60), ms: 0 }
    }

    /// Now, on a machine whose clock is ahead by so much.
    pub fn turn_time(&self, skew_ms: i64) -> TurnTime {
        let wall_ms = (START_MS + self.ms).saturating_add_signed(skew_ms);
        TurnTime { at: self.origin + Duration::from_millis(self.ms), wall_ms }
    }
}

/// What is stored of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// Its version. `None`: it has none.
    pub version: Option<Version>,
    /// The uses of its first limit.
    pub used: u64,
    /// Whether it is of the present limits and epoch, and not over.
    pub counts: bool,
    /// The low bits of its reset epoch.
    pub epoch: u8,
    /// Whether its ban runs.
    pub is_banned: bool,
}

/// An item that waits for peers.
#[derive(Debug)]
pub struct Waiting {
    pub exchange: Exchange,
    pub key: String,
    pub count: i32,
}

/// What became of an Update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Admitted,
    Refused,
    Failed(ItemError),
    /// It waits for peers.
    Waits,
}

/// A machine with peers.
pub struct Machine {
    pub world: World,
    pub service: Service,
    pub courier: Service,
    pub mirror: Mirror<Ticket>,
    queue: LetterQueue,
    peers: usize,
    map: String,
    pub generation: u64,
    pub overlay: Overlay,
    /// By how much its clock is ahead.
    pub skew_ms: i64,
    /// The items that wait.
    pub waiting: Vec<Waiting>,
    /// How many items have asked peers.
    pub asked: usize,
}

/// Begins a run whose number has these upper bits, so that seeds can be played again.
fn begin_run(world: &World, upper: u8) {
    let runtime = world.runtime();
    let now_ms = clock::now();
    let is_meant = |&at_ms: &u64| {
        runtime.set_started(at_ms);
        (runtime.run() >> 24) as u8 == upper
    };
    // From the present on: a machine learns for a while after its start.
    (now_ms..now_ms + 10_000).find(is_meant).expect("one in 256");
}

fn attach(world: &World) -> [Service; 2] {
    let mut both =
        [(); 2].map(|()| Service::attach(&world.dir, Role::Program, PLUG).expect("attached"));
    both[0].set_wait_room(1000);
    both
}

impl Machine {
    /// A machine with empty files. The run gets a number with these upper bits.
    pub fn new(map: &str, peers: usize, upper: u8, now: &Played) -> Machine {
        let world = World::mirrored(map);
        begin_run(&world, upper);
        let [service, courier] = attach(&world);
        let at = now.turn_time(0).at;
        let mut machine = Machine {
            mirror: Mirror::new(peers, 50 << 20, TIMEOUT_MS, at),
            world,
            service,
            courier,
            queue: LetterQueue::default(),
            peers,
            map: map.to_owned(),
            generation: 1,
            overlay: Overlay::default(),
            skew_ms: 0,
            waiting: Vec::new(),
            asked: 0,
        };
        machine.mirror.take_configuration(&machine.courier, at);
        machine
    }

    /// The number of its run.
    pub fn run(&self) -> u32 {
        self.courier.handle().run()
    }

    fn at(&self, now: &Played) -> TurnTime {
        now.turn_time(self.skew_ms)
    }

    /// Its courier dies, and another one takes its place.
    pub fn replace_courier(&mut self, now: &Played) {
        let at = self.at(now).at;
        self.mirror = Mirror::new(self.peers, 50 << 20, TIMEOUT_MS, at);
        self.queue = LetterQueue::default();
        self.mirror.take_configuration(&self.courier, at);
    }

    /// All its processes end, and others begin another run. With `files`, on older files.
    pub fn restart(&mut self, upper: u8, files: Option<&Files>, now: &Played) {
        self.waiting.iter_mut().for_each(|one| self.service.give_up(&mut one.exchange));
        self.waiting.clear();
        if let Some(files) = files {
            // The services that are attached do nothing any more.
            files.restore();
        }
        begin_run(&self.world, upper);
        [self.service, self.courier] = attach(&self.world);
        self.replace_courier(now);
    }

    /// A copy of its files.
    pub fn files(&self) -> Files {
        let groups = &self.world.conf.map.groups;
        let paths = groups.iter().flat_map(|group| {
            let of = |file| frs_store::path_of(&self.world.dir, &group.name, file);
            (0..group.geometry.files).map(of)
        });
        Files(paths.map(|path| (std::fs::read(&path).expect("read"), path)).collect())
    }

    /// Puts another map in force.
    pub fn publish(&mut self, map: &str) {
        self.map = map.to_owned();
        self.generation += 1;
        self.world.publish_overlaid(map, self.generation, &self.overlay);
    }

    /// Resets a biz.
    pub fn reset(&mut self, biz: u32) {
        self.overlay.reset(biz, None).expect("an epoch");
        self.publish(&self.map.clone());
    }

    /// Begins to move group `g` to the geometry of this map.
    pub fn begin_move(&mut self, map: &str) {
        let srv = self.world.srv();
        let conf = frs_conf::Conf::parse("srv.xml", &srv, "map.xml", map);
        self.world.conf = conf.unwrap_or_else(|faults| panic!("{faults}"));
        let begin = ["g".to_owned()].into();
        let prepared = self.world.prepare_moving(&frs_store::Moves { begin, ..Default::default() });
        self.overlay.set_moving(prepared.moving);
        self.publish(map);
    }

    /// Ends the move.
    pub fn end_move(&mut self) {
        self.overlay.end_move("g").expect("it moved");
        self.publish(&self.map.clone());
        frs_store::end_move(&self.world.dir, "g", &self.world.runtime()).expect("ended");
    }

    /// What the courier does between two sleeps, without its sockets.
    pub fn turn(&mut self, now: &Played) -> Vec<(To, Frame)> {
        let time = self.at(now);
        self.courier.begin_tick();
        for epoch in std::mem::take(&mut self.mirror.epochs) {
            self.follow(epoch);
        }
        let slot = self.courier.handle().runtime().open_rings().next().expect("a ring is open");
        while let Some(taken) = self.queue.take_next(self.courier.handle().runtime().slot(slot)) {
            let need = Need::of_letter(&taken.letter).expect("a need");
            assert_eq!(need.kind, NeedKind::Fetch);
            self.asked += 1;
            self.mirror.ask(need.stored_key(), taken.ticket, now.ms + WAIT_MS, now.ms);
        }
        let frames = self.mirror.turn(&mut self.courier, |_| true, time);
        let runtime = self.courier.handle().runtime();
        for ticket in self.mirror.finished(now.ms) {
            LetterQueue::reply(runtime.slot(slot), ticket, NeedEnd::Answered.reply());
        }
        frames
    }

    /// Follows a reset of a peer, as the master does.
    fn follow(&mut self, EpochOf { biz, epoch }: EpochOf) {
        let from = self.overlay.epoch(biz);
        if let Some(EpochStep { to, must_clear: false }) = EpochStep::towards(from, epoch)
            && self.overlay.follow(EpochRaise { biz, from, to })
        {
            self.publish(&self.map.clone());
        }
    }

    /// Takes in a frame.
    pub fn take(&mut self, from: To, frame: Frame, now: &Played) {
        let (time, kind) = (self.at(now), frame.kind_name());
        let has_place = match from {
            To::Peer(peer) => self.mirror.pushed(peer, frame, &mut self.courier, time),
            To::Link(link) => self.mirror.linked(link, frame, &mut self.courier, time),
        };
        assert!(has_place, "{kind} is out of place");
    }

    /// An Update of one key.
    pub fn update(&mut self, biz: &'static str, key: &str, count: i32, now: &Played) -> Outcome {
        let mut exchange = Exchange::of(request(Command::Update, false, &[Ask(biz, key, count)]));
        let outcome = self.run_exchange(&mut exchange, now);
        if outcome == Outcome::Waits {
            self.waiting.push(Waiting { exchange, key: key.to_owned(), count });
        }
        outcome
    }

    /// Runs an exchange of one item.
    pub fn run_exchange(&mut self, exchange: &mut Exchange, now: &Played) -> Outcome {
        self.service.begin_tick();
        let wall_ms = self.at(now).wall_ms;
        self.service.run_all(std::slice::from_mut(exchange), wall_ms);
        if exchange.stage == Stage::Waiting {
            return Outcome::Waits;
        }
        match &exchange.answers.items[0].result {
            Ok(verdict) if verdict.limited => Outcome::Refused,
            Ok(_) => Outcome::Admitted,
            Err(error) => Outcome::Failed(*error),
        }
    }

    /// The first waiting item that may go on now.
    pub fn next_answered(&mut self) -> Option<Waiting> {
        let service = &self.service;
        let at = self.waiting.iter().position(|one| service.may_go_on(&one.exchange))?;
        Some(self.waiting.remove(at))
    }

    /// Uses of many keys at once, which change many records between two turns.
    pub fn update_many(&mut self, biz: &str, keys: impl Iterator<Item = String>, now: &Played) {
        let wall_ms = self.at(now).wall_ms;
        self.service.begin_tick();
        for key in keys {
            let answers = self.service.answers(&single(biz, &key), wall_ms);
            answers.items[0].result.expect("answered");
        }
    }

    /// The key as it is stored.
    pub fn stored_key(&self, biz: &str, key: &str) -> StoredKey {
        let index = self.courier.conf().map.find_biz(biz).expect("in the map");
        let entry = self.courier.table().entry(index);
        let mut field = KeyField::default();
        entry.encode(key.as_bytes(), &mut field).expect("a key");
        StoredKey::of_key(entry.id, field.key())
    }

    /// What is stored of a key. `None`: nothing.
    pub fn stored(&mut self, biz: &str, key: &str, now: &Played) -> Option<Stored> {
        let (key, wall_ms) = (self.stored_key(biz, key), self.at(now).wall_ms);
        let found = self.courier.on_node(&key, ItemMoment::at(wall_ms), |nodes| {
            if !nodes.is_here(Scope::Key) {
                return Ok(None);
            }
            let version = nodes.version(Scope::Key);
            let epoch = nodes.read(Scope::Key, |words, _| node::epoch(words[node::CHECK]))?;
            let counts = nodes.counts(Scope::Key, wall_ms)?;
            let (used, is_banned) = nodes.with_states(|rules, states| {
                let used = rules.used_by_limit(states, Scope::Key, wall_ms).next();
                (used.map_or(0, |(_, used)| used), rules.ban_until(states) > wall_ms)
            });
            Ok(Some(Stored { version, used, counts, epoch, is_banned }))
        });
        found.expect("available")
    }

    /// The versions and uses of the keys that count.
    pub fn all(
        &mut self,
        biz: &str,
        keys: impl Iterator<Item = String>,
        now: &Played,
    ) -> BTreeMap<String, (Option<Version>, u64)> {
        let mut all = BTreeMap::new();
        for key in keys {
            if let Some(stored) = self.stored(biz, &key, now).filter(|stored| stored.counts) {
                all.insert(key, (stored.version, stored.used));
            }
        }
        all
    }

    /// Erases a record by hand.
    pub fn erase(&mut self, biz: &str, key: &str, now: &Played) {
        let wall_ms = self.at(now).wall_ms;
        self.service.begin_tick();
        self.service.erase(RecordName::of_key(biz, key), wall_ms).expect("erased");
    }
}

fn single(biz: &str, key: &str) -> Request {
    request(Command::Update, false, &[Ask(biz, key, 1)])
}

/// A copy of the files of a machine's groups.
pub struct Files(Vec<(Vec<u8>, std::path::PathBuf)>);

impl Files {
    fn restore(&self) {
        for (bytes, path) in &self.0 {
            let file = std::fs::OpenOptions::new().write(true).open(path).expect("opened");
            file.write_all_at(bytes, 0).expect("written");
        }
    }
}
