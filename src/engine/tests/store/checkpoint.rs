//! Checkpoints over real files: a restore after a pass that was interrupted at any step.

mod checksums;
mod killed;
mod moving;
mod newest;
mod switched;
mod unreadable;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use frs_conf::{Conf, MoveMode, Overlay, Texts, active};
use frs_store::Error;
use frs_store::group::FileSet;
use frs_store::insides::Side;
use frs_store::insides::{Part, checkpoint_path as path_of, fault};
use frs_store::{Checkpointer, GroupPass, Pace, Pacer, PassRate, Unpaced};
use frs_store::{Moves, Prepared, Preparing, Runtime, prepare_with};

use crate::{Command, ItemError, Role, Service};

const NOW: u64 = 1_700_000_000_000;
const RATE: PassRate = PassRate { bytes_per_second: u64::MAX };
/// Key-nodes that share pages, and key-nodes of several pages. A business has at most as many keys
/// as a chain has places.
const MAP: &str = "<map>
    <group name='small' files='2' key-nodes='40' chain='9' node-size='64' key-bytes='16'/>
    <group name='large' files='1' key-nodes='3' chain='56' node-size='192'/>
    <biz id='1' name='s' group='small' key='string'>
        <limit policy='total' max='1000000000000'/></biz>
    <biz id='2' name='l' group='large' key='string'>
        <limit policy='total' max='1000000000000'/></biz>
    </map>";
const KEYS: [(&str, &str); 6] =
    [("s", "a"), ("s", "b"), ("s", "c"), ("l", "a"), ("l", "b"), ("l", "c")];

/// A machine whose memory is lost when it goes down, but not its disk.
struct Machine {
    dir: tempfile::TempDir,
    conf: Conf,
    srv: String,
    map: String,
    generation: u64,
    moving: BTreeMap<String, MoveMode>,
}

fn srv_in(dir: &Path) -> String {
    format!(
        "<srv><workers>1</workers><listen>127.0.0.1:1</listen><data dir='{}' live='{}' \
         checkpoint='60s'/></srv>",
        dir.join("data").display(),
        dir.join("live").display()
    )
}

impl Machine {
    fn new() -> Machine {
        let mut machine = Machine::of(MAP);
        assert_eq!(machine.start(false).created, ["small", "large"]);
        machine
    }

    fn of(map: &str) -> Machine {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        std::fs::create_dir(&data).unwrap();
        let srv = srv_in(dir.path());
        let conf = Conf::parse("srv.xml", &srv, "map.xml", map).unwrap();
        Machine { dir, conf, srv, map: map.to_owned(), generation: 0, moving: BTreeMap::new() }
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn start(&mut self, accepts_loss: bool) -> Prepared {
        Runtime::create_or_open(&self.data()).unwrap();
        let moves = Moves { in_force: self.moving.clone(), ..Moves::default() };
        let how = Preparing { accepts_loss, ..Preparing::careful(&moves) };
        let prepared = prepare_with(&self.conf, how).unwrap();
        self.publish(&prepared.moving);
        prepared
    }

    fn publish(&mut self, moving: &BTreeMap<String, MoveMode>) {
        self.generation += 1;
        self.moving = moving.clone();
        let mut overlay = Overlay::default();
        overlay.set_moving(moving.clone());
        let texts = Texts::of(self.srv.clone(), &*self.map);
        active::write_overlaid(&self.data(), self.generation, &texts, &overlay).unwrap();
        Runtime::open(&self.data()).unwrap().publish(self.generation);
    }

    fn attach(&self) -> Service {
        Service::attach(&self.data(), Role::Program, None).unwrap()
    }

    /// Tries again, because a process that another test has just forked shares the lock of a former
    /// checkpointer until it runs its program.
    fn checkpointer(&self) -> Checkpointer {
        let live = self.dir.path().join("live");
        for _ in 0..1000 {
            if let Some(made) = Checkpointer::new(&self.data(), &live).unwrap() {
                return made;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("somebody keeps the lock");
    }

    fn pass(&self) -> Vec<GroupPass> {
        self.checkpointer().pass(&self.names(), RATE, &Unpaced)
    }

    fn names(&self) -> Vec<String> {
        self.conf.map.groups.iter().map(|group| group.name.clone()).collect()
    }

    /// Cuts the power.
    fn go_down(&self) {
        std::fs::remove_dir_all(self.dir.path().join("live")).unwrap();
        std::fs::remove_file(Runtime::path_in(&self.data())).unwrap();
    }

    fn used(&self) -> Vec<u64> {
        let mut service = self.attach();
        KEYS.map(|(biz, key)| service.used(biz, key, NOW)).to_vec()
    }

    fn use_all(&self, times: u32) {
        let mut service = self.attach();
        for (biz, key) in KEYS {
            (0..times).for_each(|_| _ = service.update(biz, key, NOW));
        }
    }
}

fn of(machine: &Machine, name: &str, file: u32, side: Side) -> PathBuf {
    path_of(&machine.data(), name, file, Part { set: FileSet::Named, side })
}

/// The side that a restore reads next.
fn newest(machine: &Machine, name: &str) -> Side {
    let number = |side| std::fs::read(of(machine, name, 0, side)).unwrap()[17 * 8];
    Side::BOTH.into_iter().max_by_key(|&side| number(side)).unwrap()
}

/// A machine with two passes. All counts rose after each.
fn after_two_passes() -> Machine {
    let machine = Machine::new();
    for _ in 0..2 {
        machine.use_all(1);
        assert!(all_done(&machine.pass()));
    }
    machine
}

fn all_done(passes: &[GroupPass]) -> bool {
    passes.iter().all(|pass| matches!(pass.result, Ok(Some(_))))
}

// Shows: checkpoints.
#[test]
fn what_a_pass_wrote_is_there_after_the_machine_went_down() {
    let mut machine = Machine::new();
    machine.go_down();
    assert_eq!(machine.start(false).restored, ["small", "large"], "a new group has checkpoints");
    let mut expected = 0;
    for round in 1..5 {
        machine.use_all(round);
        expected += u64::from(round);
        let passes = machine.pass();
        assert!(all_done(&passes), "{passes:?}");
        machine.attach().update("s", "lost", NOW);
        machine.go_down();
        let prepared = machine.start(false);
        assert_eq!((prepared.restored.len(), prepared.dropped_nodes), (2, 0));
        assert_eq!(machine.used(), vec![expected; KEYS.len()], "round {round}");
        assert_eq!(machine.attach().used("s", "lost", NOW), 0);
    }
}

// Shows: checkpoints.
#[test]
fn a_pass_writes_what_has_changed_since_the_last_one_into_its_file() {
    let machine = Machine::new();
    machine.use_all(1);
    let pages = |passes: Vec<GroupPass>| -> Vec<u64> {
        passes.iter().map(|pass| pass.result.as_ref().unwrap().unwrap().written_pages).collect()
    };
    let first = pages(machine.pass());
    assert_eq!(pages(machine.pass()), first, "the other file has nothing of it yet");
    assert_eq!(pages(machine.pass()), [0, 0]);
    machine.attach().update("l", "a", NOW);
    let of_one_node = pages(machine.pass());
    // The seeds decide the place of the key's node, which may begin in one page and end in the
    // next.
    assert!(matches!(of_one_node[..], [0, 1 | 2]), "{of_one_node:?}");
    assert_eq!(pages(machine.pass()), of_one_node);
    assert_eq!(pages(machine.pass()), [0, 0]);
}

// Shows: checkpoints.
#[test]
fn a_node_that_was_made_since_the_last_pass_is_in_the_next_one() {
    // Heads and nodes are on different pages. Nodes of the second size take general transactions.
    for bytes in [192, 1024] {
        let mut machine =
            Machine::of(&MAP.replace("node-size='192'", &format!("node-size='{bytes}'")));
        machine.start(false);
        assert!(all_done(&machine.pass()) && all_done(&machine.pass()));
        let mut service = machine.attach();
        let keys: Vec<String> = (0..100).map(|key| format!("new{key}")).collect();
        keys.iter().for_each(|key| _ = service.update("l", key, NOW));
        drop(service);
        assert!(all_done(&machine.pass()));
        machine.go_down();
        let prepared = machine.start(false);
        assert_eq!((prepared.restored.len(), prepared.dropped_nodes), (2, 0), "{prepared:?}");
        let mut service = machine.attach();
        let lost = keys.iter().filter(|key| service.used("l", key, NOW) != 1).count();
        assert_eq!(lost, 0, "of nodes of {bytes} bytes");
    }
}

// Shows: checkpoints.
#[test]
fn wherever_a_pass_breaks_off_the_other_checkpoint_is_valid() {
    let mut nth = 0;
    loop {
        nth += 1;
        let mut machine = Machine::new();
        machine.use_all(1);
        assert!(all_done(&machine.pass()) && all_done(&machine.pass()));
        machine.use_all(1);
        fault::fail_at(nth);
        let is_done = all_done(&machine.pass());
        let calls = fault::calls();
        fault::fail_at(0);
        if nth % 2 == 0 {
            // A new keeper takes over, and the next pass is whole.
            assert!(all_done(&machine.pass()));
            machine.go_down();
            machine.start(false);
            assert_eq!(machine.used(), vec![2; KEYS.len()], "call {nth}");
        } else {
            machine.go_down();
            assert_eq!(machine.start(false).restored.len(), 2, "call {nth}");
            for (key, used) in KEYS.iter().zip(machine.used()) {
                assert!((1..=2).contains(&used), "call {nth}: {key:?} has {used}");
            }
        }
        if is_done {
            assert!(nth > 12 && calls < nth, "{nth}");
            return;
        }
    }
}

// Shows: checkpoints.
#[test]
fn a_checkpoint_that_is_cut_swapped_or_scribbled_is_named_and_not_served() {
    type Damage = fn(&Machine);
    let damages: [(&str, Damage); 4] = [
        ("length", |machine| {
            for side in Side::BOTH {
                let path = of(machine, "small", 1, side);
                let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
                file.set_len(5000).unwrap();
            }
        }),
        ("file index", |machine| {
            for side in Side::BOTH {
                let [one, two] = [0, 1].map(|file| of(machine, "small", file, side));
                std::fs::copy(two, one).unwrap();
            }
        }),
        ("header CRC", |machine| {
            use std::os::unix::fs::FileExt;
            for side in Side::BOTH {
                let path = of(machine, "small", 0, side);
                let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
                file.write_all_at(&[7], 17 * 8).unwrap();
            }
        }),
        ("id of the pass", |machine| {
            let [a, b] = Side::BOTH.map(|side| of(machine, "small", 1, side));
            let text = std::fs::read(&a).unwrap();
            std::fs::copy(&b, &a).unwrap();
            std::fs::write(&b, text).unwrap();
        }),
    ];
    for (field, damage) in damages {
        let mut machine = Machine::new();
        machine.use_all(3);
        assert!(all_done(&machine.pass()));
        damage(&machine);
        machine.go_down();
        let prepared = machine.start(false);
        assert_eq!(prepared.restored, ["large"], "{field}");
        let [unserved] = &*prepared.unserved else { panic!("{field}: {prepared:?}") };
        assert!(unserved.group == "small" && unserved.reason.contains(field), "{unserved:?}");
        assert!(unserved.reason.contains("--accept-loss"), "{unserved:?}");
        assert!(of(&machine, "small", 0, Side::A).exists(), "nothing is overwritten");
        let prepared = machine.start(true);
        assert_eq!((prepared.created, prepared.unserved), (vec!["small".to_owned()], vec![]));
        assert_eq!(machine.used(), [0, 0, 0, 3, 3, 3]);
        machine.use_all(1);
        assert!(all_done(&machine.pass()));
    }
}

// Shows: checkpoints.
#[test]
fn a_scribbled_node_of_a_checkpoint_is_dropped_and_counted() {
    use std::os::unix::fs::FileExt;
    let mut machine = Machine::new();
    machine.use_all(3);
    assert!(all_done(&machine.pass()));
    let path = of(&machine, "large", 0, Side::A);
    let (live, other) = (std::fs::read(&path).unwrap(), of(&machine, "large", 0, Side::B));
    let newest = [path, other].into_iter().max_by_key(|path| std::fs::read(path).unwrap()[17 * 8]);
    let newest = newest.unwrap();
    let bytes = std::fs::read(&newest).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&newest).unwrap();
    // Finds a node, by a key word that names biz 2, and damages its key.
    let at = (4096..bytes.len()).step_by(64).find(|&at| bytes[at + 8] == 2).unwrap();
    file.write_all_at(&[bytes[at + 40] ^ 1], at as u64 + 40).unwrap();
    assert_eq!(live.len(), bytes.len());
    machine.go_down();
    assert_eq!(machine.start(false).dropped_nodes, 1);
    assert_eq!(machine.used()[3..].iter().sum::<u64>(), 6);
    // The repaired node is in no checkpoint yet.
    assert!(all_done(&machine.pass()));
    machine.go_down();
    assert_eq!(machine.start(false).dropped_nodes, 0);
}

// Shows: checkpoints.
#[test]
fn live_files_of_the_same_boot_go_on_whatever_the_checkpoints_hold() {
    let mut machine = Machine::new();
    machine.use_all(1);
    assert!(all_done(&machine.pass()));
    machine.use_all(1);
    let prepared = machine.start(false);
    assert_eq!((prepared.restored.len(), prepared.created.len()), (0, 0));
    assert_eq!(machine.used(), vec![2; KEYS.len()]);
    assert!(all_done(&machine.pass()), "the marks are valid still");
    machine.go_down();
    machine.start(false);
    assert_eq!(machine.used(), vec![2; KEYS.len()]);
}

// Shows: checkpoints.
#[test]
fn a_group_whose_marks_are_being_made_has_no_pass_yet() {
    for missing in [0..1, 1..2, 0..2] {
        let mut machine = Machine::new();
        machine.use_all(1);
        let runtime = Runtime::open(&machine.data()).unwrap();
        let id = runtime.named_groups("small")[0].id;
        let files = missing.map(|file| runtime.find_file(id, file).unwrap().index);
        let places: Vec<_> = files.map(|index| (index, runtime.dirty_place(index))).collect();
        places.iter().for_each(|&(index, _)| runtime.set_dirty_place(index, None));
        let passes = machine.pass();
        assert!(matches!(&passes[..], [GroupPass { result: Ok(None), .. }]), "{passes:?}");
        places.iter().for_each(|&(index, place)| runtime.set_dirty_place(index, place));
        assert!(all_done(&machine.pass()));
        machine.go_down();
        machine.start(false);
        assert_eq!(machine.used(), vec![1; KEYS.len()]);
    }
}

/// Pauses at each write, so that writers run.
struct Restful;

impl Pacer for Restful {
    fn rest(&self, _: Duration) -> Pace {
        std::thread::sleep(Duration::from_micros(200));
        Pace::Steady
    }
}

/// Ends the threads, even after a panic.
struct Ending<'f>(&'f AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The power is cut at random moments of a loaded run. `FRS_CHECKPOINT_CUTS` sets the number of
/// cuts.
// Shows: checkpoints.
#[test]
fn each_count_is_between_its_last_pass_and_its_last_use() {
    let cuts = std::env::var("FRS_CHECKPOINT_CUTS").map_or(5, |cuts| cuts.parse().unwrap());
    let mut machine = Machine::new();
    let used: BTreeMap<_, _> = KEYS.into_iter().map(|key| (key, AtomicU64::new(0))).collect();
    let charge = |service: &mut Service, biz: &str, key: &str| {
        service.one(Command::Update, biz, key, 1, NOW)
    };
    for cut in 0..cuts {
        let is_over = AtomicBool::new(false);
        let counts = || used.values().map(|used| used.load(Ordering::SeqCst)).collect::<Vec<_>>();
        let mut least = counts();
        std::thread::scope(|scope| {
            for writer in 0..2 {
                let (machine, used, is_over) = (&machine, &used, &is_over);
                scope.spawn(move || {
                    let mut service = machine.attach();
                    while !is_over.load(Ordering::SeqCst) {
                        // Each key has one writer, so that its uses are known exactly.
                        for (nth, (&(biz, key), count)) in used.iter().enumerate() {
                            if nth % 2 == writer {
                                // On a busy machine the other process may be suspended in a
                                // transaction. Only acknowledged uses count.
                                if charge(&mut service, biz, key).is_ok() {
                                    count.fetch_add(1, Ordering::SeqCst);
                                }
                            }
                            let other = format!("{nth}{writer}");
                            let done = charge(&mut service, biz, &other);
                            assert!(matches!(done, Ok(_) | Err(ItemError::Busy)), "{done:?}");
                        }
                    }
                });
            }
            let _ending = Ending(&is_over);
            let names = ["small", "large"].map(str::to_owned);
            for _ in 0..1 + cut % 4 {
                let before = counts();
                let passes = machine.checkpointer().pass(&names, RATE, &Restful);
                assert!(all_done(&passes), "{passes:?}");
                least = before;
            }
            // Another pass, which is interrupted by the cut.
            fault::fail_at(1 + cut * 7 % 13);
            let before = counts();
            if all_done(&machine.checkpointer().pass(&names, RATE, &Restful)) {
                least = before;
            }
            fault::fail_at(0);
        });
        let most = counts();
        machine.go_down();
        let prepared = machine.start(false);
        assert_eq!((prepared.restored.len(), prepared.dropped_nodes), (2, 0));
        let mut service = machine.attach();
        for (((biz, key), used), (least, most)) in used.iter().zip(least.into_iter().zip(most)) {
            let found = service.used(biz, key, NOW);
            assert!((least..=most).contains(&found), "{biz} {key}: {least} {found} {most}");
            used.store(found, Ordering::SeqCst);
        }
    }
}

// Shows: checkpoints.
#[test]
fn a_group_that_is_not_served_is_named_and_the_others_have_their_checkpoints() {
    let machine = after_two_passes();
    let runtime = Runtime::open(&machine.data()).unwrap();
    let small = runtime.named_groups("small")[0].id;
    runtime.quarantine_groups(|id| id == small);
    let passes = machine.pass();
    let [small, large] = &passes[..] else { panic!("{passes:?}") };
    assert!(matches!(small.result, Err(Error::Quarantined { .. })), "{small:?}");
    assert!(matches!(large.result, Ok(Some(_))), "{large:?}");
}
