//! Versions of the records of a mirrored group: each change makes one larger version and one note
//! in the ring of changes, also if the process dies, the group grows, or another run goes on.

mod peers;

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command as Process;

use frs_base::testing::told;
use frs_conf::key::{KeyField, KeyNodeId};
use frs_conf::{Overlay, Scope};
use frs_store::layout::node;
use frs_store::{
    ChangedPlace, ChangesFound, ChangesRead, Group, Looked, Runtime, Version, crash, testing,
};

use peers::PLUG;

use crate::testing::{Ask, World, move_all, request};
use crate::{
    Command, Extras, ItemError, ItemMoment, ItemOptions, RecordName, Request, Role, Service,
    StoredKey,
};

const NOW: u64 = 1_700_000_000_000;

const SMALL: &str = r#"files="1" key-nodes="8" chain="16" node-size="320" key-bytes="24""#;
const LARGE: &str = r#"files="2" key-nodes="8" chain="20" node-size="384" key-bytes="40""#;
const MIRROR: &str = r#"mirror="200ms""#;

/// A map whose group `g` has this geometry and this `mirror`.
fn map(geometry: &str, mirror: &str) -> String {
    format!(
        r#"<map><group name="g" {geometry} {mirror}/>
        <group name="plain" files="1" key-nodes="4" chain="8" node-size="320" key-bytes="24"/>
        <biz id="1" name="window" group="g" key="string">
          <limit policy="interval" interval="1h" max="5"/></biz>
        <biz id="2" name="banned" group="g" key="string">
          <limit policy="interval" interval="1h" max="1" ban="1h"/></biz>
        <biz id="3" name="once" group="g" key="string" once="2" once-for="1h">
          <limit policy="interval" interval="1h" max="100"/></biz>
        <biz id="4" name="places" group="g" key="string" hold-ttl="10s">
          <limit policy="concurrent" max="3"/></biz>
        <biz id="5" name="loan" group="g" key="string" holds="2" hold-ttl="10s" on-lapse="free">
          <limit policy="interval" interval="1h" max="100"/></biz>
        <biz id="6" name="both" group="g" key="string">
          <limit policy="total" max="100"/><limit policy="total" scope="biz" max="100000"/></biz>
        <biz id="7" name="log" group="g" key="string">
          <limit policy="sliding" interval="1h" max="6"/><limit policy="token" rate="1/m" burst="9"/>
        </biz>
        <biz id="8" name="plain" group="plain" key="string">
          <limit policy="interval" interval="1h" max="5"/></biz></map>"#
    )
}

/// A machine with peers, and what one sees of its records and rings.
struct Machine {
    world: World,
    service: Service,
    reads: Vec<ChangesRead>,
}

/// The version and the states of a record.
type Record = Option<(Option<Version>, Vec<u64>)>;

impl Machine {
    fn new() -> Machine {
        Machine::of(testing::World::mirrored(&map(SMALL, MIRROR)))
    }

    fn of(files: testing::World) -> Machine {
        let mut world = World::new(&map(SMALL, "")).plugged(PLUG);
        *world = files;
        let service = world.attach();
        let reads = from_now(&world.runtime());
        Machine { world, service, reads }
    }

    fn run(&self) -> u32 {
        self.service.handle().run()
    }

    /// Ends the run of this machine, and begins another one.
    fn restart(&mut self, at_ms: u64) {
        self.world.runtime().set_started(at_ms);
        self.service = self.world.attach();
    }

    fn record(&mut self, biz: &str, key: &str) -> Record {
        record(&mut self.service, biz, key)
    }

    fn version(&mut self, biz: &str, key: &str) -> Option<Version> {
        self.record(biz, key)?.0
    }

    /// The changes since the last look.
    fn changes(&mut self) -> Vec<ChangedPlace> {
        noted(&self.world.runtime(), &mut self.reads)
    }

    /// How many of the notes name the record of the key in this version.
    fn named(&self, notes: &[ChangedPlace], (biz, key): (&str, &str), version: Version) -> usize {
        let key = stored_key(&self.service, biz, key);
        let found = Some((key.key_word, version));
        notes.iter().filter(|&&note| version_at(&self.service, note) == found).count()
    }

    /// Asserts that the work changes the record of the key, once.
    fn changes_once(
        &mut self,
        what: &str,
        (biz, key): (&str, &str),
        work: impl FnOnce(&mut Service),
    ) {
        self.changes();
        let (before, run) = (self.version(biz, key), self.run());
        self.service.begin_tick();
        work(&mut self.service);
        let after = self.version(biz, key).expect(what);
        let before = before.unwrap_or(Version { begun: after.begun, ..Version::default() });
        let expected = match before.host == run {
            true => Version { changes: before.changes + 1, ..before },
            false => Version { takeovers: before.takeovers + 1, changes: 1, host: run, ..before },
        };
        assert_eq!(after, expected, "{what}");
        let notes = self.changes();
        assert_eq!(self.named(&notes, (biz, key), after), 1, "{what}: {notes:?}");
        // The record of a whole business counts on this machine alone.
        let most = if biz == "both" { 2 } else { 1 };
        assert!(notes.len() <= most, "{what}: {notes:?}");
    }

    /// Asserts that the work changes nothing that a peer needs.
    fn changes_nothing(
        &mut self,
        what: &str,
        keys: &[(&str, &str)],
        work: impl FnOnce(&mut Service),
    ) {
        self.changes();
        let all = |machine: &mut Machine| -> Vec<Record> {
            keys.iter().map(|(biz, key)| machine.record(biz, key)).collect()
        };
        let before = all(self);
        self.service.begin_tick();
        work(&mut self.service);
        assert_eq!(all(self), before, "{what}");
        assert_eq!(self.changes(), [], "{what}");
    }
}

fn from_now(runtime: &Runtime) -> Vec<ChangesRead> {
    (0..Runtime::SLOTS as u32).map(|slot| runtime.changes_from_now(slot)).collect()
}

fn noted(runtime: &Runtime, reads: &mut [ChangesRead]) -> Vec<ChangedPlace> {
    let mut notes = Vec::new();
    for slot in runtime.used_slots() {
        let read = &mut reads[slot as usize];
        assert_eq!(runtime.take_changes(slot, read, |at| notes.push(at)), ChangesFound::All);
    }
    notes
}

/// The key word and the version of the node at a noted place.
fn version_at(service: &Service, note: ChangedPlace) -> Option<(u64, Version)> {
    let files = |group: &Group| {
        (0..group.geometry().files).find(|&file| group.register_index(file) == note.file)
    };
    let groups = service.handle().groups().iter();
    let (group, file) = groups.filter_map(|group| Some((group, files(group)?))).next()?;
    let mut words = vec![0; group.node_words()];
    let at = KeyNodeId { file, key_node: note.key_node };
    match group.look_at(at, note.place as usize, &mut words) {
        Looked::Node => Some((words[node::KEY], Version::of_node(&words)?)),
        Looked::Held | Looked::Nothing => None,
    }
}

fn stored_key(service: &Service, biz: &str, key: &str) -> StoredKey {
    let index = service.conf().map.find_biz(biz).expect("in the map");
    let entry = service.table().entry(index);
    let mut field = KeyField::default();
    entry.encode(key.as_bytes(), &mut field).expect("a key");
    StoredKey::of_key(entry.id, field.key())
}

fn record(service: &mut Service, biz: &str, key: &str) -> Record {
    service.begin_tick();
    let key = stored_key(service, biz, key);
    let found = service.on_node(&key, ItemMoment::at(NOW), |nodes| {
        if !nodes.is_here(Scope::Key) {
            return Ok(None);
        }
        let version = nodes.version(Scope::Key);
        let states = nodes.with_states(|_, states| states.key.to_vec());
        Ok(Some((version, states)))
    });
    found.expect("available")
}

/// An Update of one item with options.
fn call(service: &mut Service, biz: &str, count: i32, extras: Extras<&str>, now: u64) {
    let mut request = Request::default();
    request.begin(Command::Update);
    request.push(biz, "k", ItemOptions::of(count));
    request.bring(extras);
    let answers = service.answers(&request, now);
    assert!(!answers.items[0].result.expect("answered").limited, "{biz}");
}

const NONE: Extras<&str> = Extras::NONE;

// Shows: mirrored-changes.
#[test]
fn each_kind_of_change_makes_one_larger_version_and_one_note() {
    let mut machine = Machine::new();
    let m = &mut machine;
    for biz in ["window", "banned", "once", "places", "loan", "both", "log"] {
        m.changes_once(&format!("a create in {biz}"), (biz, "k"), |service| {
            call(service, biz, 1, Extras { hold: (biz == "places").then_some("0"), ..NONE }, NOW);
        });
    }
    for biz in ["window", "once", "both", "log"] {
        m.changes_once(&format!("an Update in {biz}"), (biz, "k"), |service| {
            service.update(biz, "k", NOW);
        });
    }
    m.changes_once("an Update with details", ("window", "k"), |service| {
        let mut request = Request::default();
        request.begin(Command::Update);
        request.push("window", "k", ItemOptions::ONE.detailed());
        service.answers(&request, NOW);
    });
    m.changes_once("uses given back", ("window", "k"), |service| {
        service.one(Command::Update, "window", "k", -1, NOW).expect("given back");
    });
    m.changes_once("uses with force", ("window", "k"), |service| {
        let mut request = Request::default();
        request.begin(Command::Update);
        request.push("window", "k", ItemOptions::of(7).forced());
        service.answers(&request, NOW);
    });
    m.changes_once("a ban", ("banned", "k"), |service| {
        assert!(service.update("banned", "k", NOW).banned);
    });
    m.changes_once("a use with an id", ("once", "k"), |service| {
        call(service, "once", 1, Extras { once: Some("1"), ..NONE }, NOW);
    });
    for biz in ["places", "loan"] {
        let hold = Extras { hold: Some("1"), ..NONE };
        m.changes_once(&format!("a hold in {biz}"), (biz, "k"), |service| {
            call(service, biz, 1, hold, NOW);
        });
        m.changes_once(&format!("its settle in {biz}"), (biz, "k"), |service| {
            call(service, biz, 0, Extras { settle: biz == "loan", ..hold }, NOW);
        });
    }
    let name = RecordName::of_key("window", "k");
    for used in [3, 0] {
        m.changes_once("a count set by hand", ("window", "k"), |service| {
            service.set_used(name, 1, used, NOW).expect("set");
        });
    }
    m.changes_once("an erased record", ("window", "k"), |service| {
        service.erase(name, NOW).expect("erased").expect("it was there");
    });
    assert!(m.record("window", "k").is_some(), "it keeps the copy from coming back");
    m.changes_once("an erased record that was never here", ("window", "other"), |service| {
        service.erase(RecordName::of_key("window", "other"), NOW).expect("erased");
    });
    machine.world.verify();
}

// Shows: mirrored-changes.
#[test]
fn an_atomic_request_changes_each_of_its_records_once() {
    let mut m = Machine::new();
    let keys = [("window", "a"), ("window", "b"), ("log", "a")];
    let mut asks: Vec<Ask<'_>> = keys.iter().map(|(biz, key)| Ask(biz, key, 1)).collect();
    // The same key twice is one change.
    asks.push(Ask("window", "a", 1));
    for round in 1..3 {
        let answers = m.service.answers(&request(Command::Update, true, &asks), NOW);
        assert!(!answers.refused);
        let notes = m.changes();
        assert_eq!(notes.len(), 3, "{round}: {notes:?}");
        for &(biz, key) in &keys {
            let version = m.version(biz, key).expect("a version");
            let of = (version.takeovers, version.changes, version.host);
            assert_eq!(of, (1, round, m.run()));
            assert!(m.named(&notes, (biz, key), version) > 0, "{round} {biz} {key}");
        }
    }
    m.changes_nothing("a refused atomic request", &keys, |service| {
        let too_many = [Ask("window", "a", 1), Ask("window", "b", 5)];
        assert!(service.answers(&request(Command::Update, true, &too_many), NOW).refused);
        let unknown = [Ask("window", "a", 1), Ask("nothing", "b", 1)];
        assert!(service.answers(&request(Command::Update, true, &unknown), NOW).refused);
    });
}

// Shows: mirrored-changes.
#[test]
fn what_changes_nothing_makes_no_version_and_no_note() {
    let mut m = Machine::new();
    (0..5).for_each(|_| _ = m.service.update("window", "k", NOW));
    m.service.update("banned", "k", NOW);
    m.service.update("banned", "k", NOW);
    call(&mut m.service, "once", 1, Extras { once: Some("1"), ..NONE }, NOW);
    call(&mut m.service, "places", 3, Extras { hold: Some("1"), ..NONE }, NOW);
    for biz in ["window", "banned", "once", "places"] {
        m.changes_nothing("a Query", &[(biz, "k"), (biz, "new")], |service| {
            service.used(biz, "k", NOW + 1);
            service.used(biz, "new", NOW + 1);
        });
    }
    m.changes_nothing("an atomic Query", &[("window", "k"), ("log", "k")], |service| {
        let asks = [Ask("window", "k", 1), Ask("log", "k", 1)];
        service.answers(&request(Command::Query, true, &asks), NOW + 1);
    });
    m.changes_nothing("a refused item", &[("window", "k")], |service| {
        assert!(service.update("window", "k", NOW + 1).limited);
    });
    m.changes_nothing("a refused item with details", &[("window", "k")], |service| {
        let mut request = Request::default();
        request.begin(Command::Update);
        request.push("window", "k", ItemOptions::ONE.detailed());
        assert!(service.answers(&request, NOW + 1).items[0].result.unwrap().limited);
    });
    m.changes_nothing("a refused item of a banned key", &[("banned", "k")], |service| {
        assert!(service.update("banned", "k", NOW + 1).banned);
    });
    m.changes_nothing("a refused first use", &[("window", "new")], |service| {
        assert!(service.one(Command::Update, "window", "new", 6, NOW + 1).unwrap().limited);
    });
    m.changes_nothing("a refused place", &[("places", "k")], |service| {
        let mut request = Request::default();
        request.begin(Command::Update);
        request.push("places", "k", ItemOptions::ONE);
        request.bring(Extras { hold: Some("2"), ..NONE });
        assert!(service.answers(&request, NOW + 1).items[0].result.unwrap().limited);
    });
    m.changes_nothing("a repeated id", &[("once", "k")], |service| {
        call(service, "once", 1, Extras { once: Some("1"), ..NONE }, NOW + 1);
    });
    m.changes_nothing("an unknown limit", &[("window", "k")], |service| {
        let name = RecordName::of_key("window", "k");
        assert!(service.set_used(name, 7, 1, NOW).is_err());
    });
    m.changes_nothing("an item with an error", &[("window", "k")], |service| {
        let failed = service.one(Command::Update, "window", &"x".repeat(5000), 1, NOW);
        assert_eq!(failed, Err(ItemError::BadKey));
    });
}

// Shows: mirrored-changes.
#[test]
fn another_run_takes_over_with_its_first_change() {
    let mut m = Machine::new();
    for takeovers in 1..4 {
        let run = m.run();
        for changes in 1..3 {
            m.changes_once("an Update", ("log", "k"), |service| {
                service.update("log", "k", NOW);
            });
            let version = m.version("log", "k").expect("a version");
            assert_eq!(
                (version.takeovers, version.changes, version.host),
                (takeovers, changes, run)
            );
        }
        m.restart(NOW + u64::from(takeovers));
        assert_ne!(m.run(), run);
        m.changes_nothing("a Query", &[("log", "k")], |service| {
            service.used("log", "k", NOW);
        });
    }
}

// Shows: mirrored-changes.
#[test]
fn a_record_keeps_its_version_and_its_states_when_its_group_grows() {
    let mut m = Machine::new();
    let keys: Vec<String> = (0..20).map(|key| format!("k{key}")).collect();
    for biz in ["window", "log"] {
        for (nth, key) in keys.iter().enumerate() {
            (0..=nth % 3).for_each(|_| _ = m.service.update(biz, key, NOW));
        }
    }
    let all = |m: &mut Machine| -> Vec<Record> {
        let of = |m: &mut Machine, biz: &str| -> Vec<Record> {
            keys.iter().map(|key| m.record(biz, key)).collect()
        };
        [of(m, "window"), of(m, "log")].concat()
    };
    let before = all(&mut m);
    assert!(before.iter().all(|record| record.as_ref().is_some_and(|one| one.0.is_some())));
    m.world.begin_moves(&map(LARGE, MIRROR), 2);
    m.service.begin_tick();
    assert_eq!(all(&mut m), before, "before they move");
    // Some move with their next use.
    for key in &keys[..5] {
        m.changes_once("an Update that moves", ("log", key), |service| {
            service.update("log", key, NOW);
        });
        m.changes_nothing("a Query", &[("window", key)], |service| {
            service.used("window", key, NOW);
        });
    }
    let before = all(&mut m);
    move_all(&mut m.service, NOW);
    assert_eq!(all(&mut m), before, "after they have moved");
    for key in &keys[3..8] {
        m.changes_once("an Update after the move", ("log", key), |service| {
            service.update("log", key, NOW);
        });
    }
    let before = all(&mut m);
    m.world.end_moves(&map(LARGE, MIRROR), 3);
    m.service.begin_tick();
    assert_eq!(all(&mut m), before, "after the end");
    m.world.verify();
}

// Shows: mirrored-changes.
#[test]
fn a_record_without_a_version_gets_one_when_it_moves_into_a_mirrored_group() {
    let mut m = Machine::of(testing::World::mirrored(&map(SMALL, "")));
    (0..10).for_each(|key| _ = m.service.update("log", &format!("k{key}"), NOW));
    assert_eq!(m.changes(), []);
    m.world.begin_moves(&map(LARGE, MIRROR), 2);
    m.service.begin_tick();
    move_all(&mut m.service, NOW);
    let notes = m.changes();
    let first = Version { takeovers: 0, changes: 1_700_000_000, ..Version::new(NOW) };
    let first = Version { host: m.run(), ..first };
    for key in 0..10 {
        assert_eq!(m.version("log", &format!("k{key}")), Some(first), "{key}");
    }
    let named = notes.iter().map(|&at| version_at(&m.service, at).map(|(_, version)| version));
    assert_eq!(named.collect::<Vec<_>>(), vec![Some(first); 10], "each is sent");
    m.world.verify();
}

// Shows: mirrored-changes.
#[test]
fn a_group_without_mirror_has_no_versions_and_notes_nothing() {
    let mut m = Machine::of(testing::World::mirrored(&map(SMALL, "")));
    let keys = [("window", "k"), ("log", "k"), ("both", "k"), ("plain", "k")];
    for (biz, key) in keys {
        (0..2).for_each(|_| _ = m.service.update(biz, key, NOW));
        assert_eq!(m.version(biz, key), None, "{biz}");
    }
    let asks = [Ask("window", "k", 1), Ask("plain", "k", 1)];
    m.service.answers(&request(Command::Update, true, &asks), NOW);
    m.service.erase(RecordName::of_key("window", "k"), NOW).expect("erased");
    assert_eq!(m.record("window", "k"), None, "no copy of it can come back");
    assert_eq!(m.changes(), []);
}

// Shows: mirrored-changes.
#[test]
fn a_group_without_mirror_beside_a_mirrored_one_has_no_versions() {
    let beside = |m: &mut Machine, what: &str, key: &str, notes: usize| {
        assert_eq!(m.version("plain", key), None, "{what}");
        assert_eq!(m.changes().len(), notes, "{what}");
    };
    let mut m = Machine::new();
    m.service.update("plain", "k", NOW);
    m.service.update("plain", "k", NOW);
    beside(&mut m, "an Update", "k", 0);
    m.service.set_used(RecordName::of_key("plain", "k"), 1, 2, NOW).expect("set");
    beside(&mut m, "a count set by hand", "k", 0);
    m.service.erase(RecordName::of_key("plain", "k"), NOW).expect("erased");
    assert_eq!(m.record("plain", "k"), None);
    let asks = [Ask("window", "k", 1), Ask("plain", "atomic", 1)];
    m.service.answers(&request(Command::Update, true, &asks), NOW);
    beside(&mut m, "an atomic request", "atomic", 1);
    // More keys than places: some evict others.
    for key in 0..100 {
        let key = format!("k{key}");
        m.service.update("plain", &key, NOW);
        beside(&mut m, "a create", &key, 0);
    }
    m.world.verify();
}

// Shows: mirrored-changes.
#[test]
fn a_node_without_room_for_a_version_beside_a_mirrored_group_keeps_its_states() {
    // The ring of the log ends with the node.
    let map = map(SMALL, MIRROR).replace(
        r#"<biz id="8" name="plain" group="plain" key="string">
          <limit policy="interval" interval="1h" max="5"/></biz>"#,
        r#"<biz id="8" name="plain" group="plain" key="string">
          <limit policy="sliding" interval="1h" max="64"/></biz>"#,
    );
    assert!(map.contains("max=\"64\""));
    let mut m = Machine::of(testing::World::mirrored(&map));
    for used in 1..=64 {
        let asks = [Ask("plain", "k", 1)];
        let answers = m.service.answers(&request(Command::Update, true, &asks), NOW + used);
        let verdict = answers.items[0].result.expect("answered");
        assert_eq!((verdict.limited, verdict.figures.used), (false, used));
    }
    assert!(m.service.update("plain", "k", NOW + 65).limited);
    m.world.verify();
}

// Shows: mirrored-changes.
#[test]
fn a_record_keeps_its_version_while_mirror_is_switched_off_and_on() {
    let mut m = Machine::new();
    let publish = |m: &mut Machine, mirror: &str, generation: u64| {
        m.world.publish_overlaid(&map(SMALL, mirror), generation, &Overlay::default());
        assert!(m.service.begin_tick());
    };
    (0..3).for_each(|_| _ = m.service.update("log", "k", NOW));
    let before = m.record("log", "k");
    publish(&mut m, "", 2);
    m.changes_nothing("a Query", &[("log", "k")], |service| _ = service.used("log", "k", NOW));
    m.service.update("window", "new", NOW);
    assert_eq!(m.version("window", "new"), None, "it was made without mirror");
    assert_eq!(m.changes(), []);
    publish(&mut m, MIRROR, 3);
    assert_eq!(m.record("log", "k"), before);
    for (biz, key) in [("log", "k"), ("window", "new")] {
        m.changes_once("an Update after the switch", (biz, key), |service| {
            service.update(biz, key, NOW);
        });
    }
    m.world.verify();
}

/// What a process is killed in.
const CASES: [&str; 4] = ["hit", "create", "atomic", "erase"];

fn keys_of(case: &str, nth: u64) -> Vec<(&'static str, String)> {
    let key = format!("k{nth}");
    match case {
        "create" => vec![("window", key)],
        "atomic" => [("both", "k"), ("once", "k"), ("both", "other")]
            .map(|(biz, key)| (biz, key.to_owned()))
            .to_vec(),
        _ => vec![("both", "k".to_owned())],
    }
}

fn run_case(service: &mut Service, case: &str, nth: u64) {
    let keys = keys_of(case, nth);
    if case == "erase" {
        service.erase(RecordName::of_key("both", "k"), NOW).expect("erased");
        return;
    }
    let asks: Vec<Ask<'_>> = keys.iter().map(|(biz, key)| Ask(biz, key, 1)).collect();
    let answers = service.answers(&request(Command::Update, case == "atomic", &asks), NOW);
    assert!(answers.items.iter().all(|item| item.result.is_ok_and(|verdict| !verdict.limited)));
}

/// Not a test: the process that is killed.
#[test]
#[ignore = "a program that death_at_every_store_of_a_change starts"]
fn victim() {
    let [case, dir, kill_at] = ["FRS_CRASH_CASE", "FRS_CRASH_DIR", "FRS_CRASH_AT"].map(told);
    let kill_at = kill_at.parse().unwrap();
    let mut service = Service::attach(Path::new(&dir), Role::Program, PLUG).unwrap();
    service.begin_tick();
    crash::arm(kill_at);
    run_case(&mut service, &case, kill_at);
}

// Shows: mirrored-changes, deaths-lose-nothing.
#[test]
fn death_at_every_store_of_a_change() {
    for case in CASES {
        let files = testing::World::mirrored_with_lock_timeout(&map(SMALL, MIRROR), "10s");
        let mut world = World::new(&map(SMALL, "")).plugged(PLUG);
        *world = files;
        for (biz, key) in [("both", "k"), ("once", "k"), ("both", "other")] {
            world.attach().update(biz, key, NOW);
        }
        let mut seen = [0, 0];
        for kill_at in 1.. {
            let keys = keys_of(case, kill_at);
            let all = |world: &World| -> Vec<Record> {
                let mut service = world.attach();
                keys.iter().map(|(biz, key)| record(&mut service, biz, key)).collect()
            };
            let (before, mut reads) = (all(&world), from_now(&world.runtime()));
            let status = Process::new(std::env::current_exe().unwrap())
                .args(["--ignored", "--exact", "tests::versions::victim"])
                .env("FRS_CRASH_CASE", case)
                .env("FRS_CRASH_DIR", &world.dir)
                .env("FRS_CRASH_AT", kill_at.to_string())
                .stdout(std::process::Stdio::null())
                .status()
                .unwrap();
            let mut keeper = Service::attach(&world.dir, Role::Keeper, PLUG).unwrap();
            keeper.recover_dead();
            let (after, notes) = (all(&world), noted(&world.runtime(), &mut reads));
            let is_new: Vec<bool> =
                before.iter().zip(&after).map(|(old, new)| old != new).collect();
            for ((old, new), key) in before.iter().zip(&after).zip(&keys) {
                assert_eq!(old != new, is_new[0], "{case} at {kill_at}: all or none: {key:?}");
                if old == new {
                    continue;
                }
                let of = |one: &Record| one.as_ref().and_then(|one| one.0);
                let (old, new) = (of(old), of(new).unwrap_or_default());
                let old = old.unwrap_or(Version { begun: new.begun, ..Version::default() });
                assert_eq!(new, old.changed_by(keeper.handle().run()), "{case} at {kill_at}");
                let key_word = stored_key(&keeper, key.0, &key.1).key_word;
                let named = |&at: &ChangedPlace| version_at(&keeper, at) == Some((key_word, new));
                assert!(notes.iter().any(named), "{case} at {kill_at}: {key:?}: {notes:?}");
            }
            seen[usize::from(is_new[0])] += 1;
            world.verify();
            if status.success() {
                assert!(is_new[0], "{case}: nothing changed");
                break;
            }
            assert_eq!(status.signal(), Some(9), "{case} at {kill_at}");
        }
        assert!(seen[0] > 3 && seen[1] > 1, "{case}: deaths before and after the commit: {seen:?}");
    }
}
