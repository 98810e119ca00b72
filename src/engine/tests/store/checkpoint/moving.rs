//! Checkpoints of a group that moves to another geometry. Whatever moves during the copy, and
//! wherever the power is cut, each count is one that the key had.

use std::cell::{Cell, RefCell};
use std::fs;
use std::time::Duration;

use frs_conf::Conf;
use frs_store::group::Marks;
use frs_store::insides::fault;
use frs_store::{Moves, Preparing, Runtime, end_move, prepare_with};
use frs_store::{Pace, Pacer, is_checkpoint_of_move};

use super::{Machine, NOW, RATE, all_done};
use crate::inspect::{Look, Reader, plan_moves};
use crate::{MovePass, MoveStep, RecordName, Service};

fn map(geometry: &str) -> String {
    format!(
        "<map><group name='g' {geometry} key-bytes='24'/>
        <biz id='1' name='b' group='g' key='string'><limit policy='total' max='1000000'/></biz>
        </map>"
    )
}

/// Chains long enough to be full in one of a million groups only.
const SMALL: &str = "files='2' key-nodes='40' chain='12' node-size='128'";
pub(super) const LARGE: &str = "files='3' key-nodes='70' chain='16' node-size='192'";
const THIRD: &str = "files='1' key-nodes='64' chain='28' node-size='128'";
const KEYS: u64 = 120;

fn key(number: u64) -> String {
    format!("k{number}")
}

impl Machine {
    pub(super) fn begin_move(&mut self, geometry: &str) {
        self.map = map(geometry);
        self.conf = Conf::parse("srv.xml", &self.srv, "map.xml", &self.map).unwrap();
        let moves = Moves { begin: ["g".to_owned()].into(), ..Moves::default() };
        let prepared = prepare_with(&self.conf, Preparing::careful(&moves)).unwrap();
        assert!(prepared.moving.contains_key("g"), "{prepared:?}");
        self.publish(&prepared.moving);
    }

    fn live(&self) -> std::path::PathBuf {
        self.dir.path().join("live")
    }

    /// Moves all nodes, and puts the new geometry in force as the master does.
    pub(super) fn end_move(&mut self) {
        let mut service = self.attach();
        while !is_over(&mut service, &mut MovePass::default(), usize::MAX) {}
        drop(service);
        self.publish(&Default::default());
        end_move(&self.live(), "g", &Runtime::open(&self.data()).unwrap()).unwrap();
    }

    pub(super) fn counts(&self) -> Vec<u64> {
        let mut service = self.attach();
        (0..KEYS).map(|number| service.used("b", &key(number), NOW)).collect()
    }

    /// Uses every key once, and every third one twice.
    pub(super) fn use_keys(&self, counts: &mut [u64]) {
        let mut service = self.attach();
        for (number, count) in (0..).zip(counts) {
            for _ in 0..if number % 3 == 0 { 2 } else { 1 } {
                service.update("b", &key(number), NOW);
                *count += 1;
            }
        }
    }

    fn is_of_move(&self) -> bool {
        is_checkpoint_of_move(&self.data(), "g").unwrap()
    }

    fn has_next_checkpoints(&self) -> bool {
        let all = fs::read_dir(self.data()).unwrap();
        let mut names = all.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.any(|name| name.contains(".next.checkpoint"))
    }

    pub(super) fn expect_whole_passes(&self, passes: u32) {
        for _ in 0..passes {
            let made = self.pass();
            assert!(all_done(&made), "{made:?}");
        }
    }
}

pub(super) fn is_over(service: &mut Service, pass: &mut MovePass, most: usize) -> bool {
    service.begin_tick();
    match service.move_nodes("g", pass, most, NOW).unwrap() {
        MoveStep::Over { left, .. } => {
            assert_eq!(left, 0);
            true
        }
        MoveStep::Going => false,
        MoveStep::Unsettled => panic!("nobody else is there"),
    }
}

// Shows: checkpoints.
#[test]
fn a_checkpoint_of_both_geometries_is_read_as_it_was_made() {
    let (mut machine, mut counts) = begun();
    machine.begin_move(LARGE);
    assert!(!is_over(&mut machine.attach(), &mut MovePass::default(), 40));
    machine.use_keys(&mut counts[..10]);
    machine.expect_whole_passes(1);
    machine.use_keys(&mut counts.clone());
    let mut reader = Reader::open_checkpoints(&machine.data(), None).unwrap();
    assert_eq!(reader.groups().filter(|(_, group)| group.is_ok()).count(), 2);
    for (number, count) in (0..).zip(&counts) {
        let look = reader.node("b", &key(number), NOW).unwrap();
        let Look::At(record) = look else { panic!("key {number}: {look:?}") };
        assert_eq!(record.limits[0].figures.used, *count, "key {number}");
    }
    let mut records = 0;
    let walked = reader.for_each_node(NOW, |_| {
        records += 1;
        std::ops::ControlFlow::Continue(())
    });
    assert_eq!((records, walked.skipped.len()), (KEYS, 0));
    for stats in reader.group_stats(NOW) {
        assert!(stats.live > 10, "some have moved, and some have not: {stats:?}");
    }
}

/// A server and its counts, which both checkpoints hold.
pub(super) fn begun() -> (Machine, Vec<u64>) {
    let mut machine = Machine::of(&map(SMALL));
    machine.start(false);
    let mut counts = vec![0; KEYS as usize];
    machine.use_keys(&mut counts);
    machine.expect_whole_passes(2);
    (machine, counts)
}

// Shows: checkpoints.
#[test]
fn a_group_is_restored_with_both_geometries_and_goes_on_to_move() {
    let (mut machine, mut counts) = begun();
    machine.begin_move(LARGE);
    let (mut service, mut pass) = (machine.attach(), MovePass::default());
    for round in 0..3 {
        assert!(!is_over(&mut service, &mut pass, 40));
        let mut service = machine.attach();
        for number in (round..KEYS).step_by(5) {
            service.update("b", &key(number), NOW);
            counts[number as usize] += 1;
        }
        machine.expect_whole_passes(1);
        assert!(machine.is_of_move());
        service.update("b", &format!("lost{round}"), NOW);
    }
    drop(service);
    for _ in 0..2 {
        machine.go_down();
        let prepared = machine.start(false);
        assert_eq!((&*prepared.restored, prepared.dropped_nodes), (&["g".to_owned()][..], 0));
        assert!(prepared.moving.contains_key("g"));
        assert_eq!(machine.counts(), counts);
        assert_eq!(machine.attach().used("b", "lost2", NOW), 0);
    }
    machine.end_move();
    assert_eq!(machine.counts(), counts);
    machine.go_down();
    assert!(machine.start(false).moving.contains_key("g"), "no pass came after the move");
    assert_eq!(machine.counts(), counts);
    machine.end_move();
    machine.expect_whole_passes(1);
    assert!(!machine.is_of_move());
    machine.use_keys(&mut counts);
    machine.expect_whole_passes(2);
    assert!(!machine.has_next_checkpoints());
    machine.go_down();
    assert!(machine.start(false).moving.is_empty());
    assert_eq!(machine.counts(), counts);
    // Once more, to fewer files.
    machine.begin_move(THIRD);
    machine.use_keys(&mut counts);
    machine.expect_whole_passes(3);
    machine.end_move();
    machine.use_keys(&mut counts);
    machine.expect_whole_passes(2);
    assert!(!machine.has_next_checkpoints());
    machine.go_down();
    assert!(machine.start(false).moving.is_empty());
    assert_eq!(machine.counts(), counts);
}

#[test]
fn what_was_erased_after_it_moved_is_not_restored() {
    let (mut machine, mut counts) = begun();
    machine.begin_move(LARGE);
    let mut service = machine.attach();
    // On a disk all nodes stay in the former files, because nothing is flushed.
    assert!(is_over(&mut service, &mut MovePass::default(), usize::MAX));
    for number in (0..KEYS).step_by(4) {
        let key = key(number);
        let erased = service.erase(RecordName::of_key("b", &key), NOW).expect("erased");
        assert!(erased.is_some(), "it was there");
        counts[number as usize] = 0;
    }
    drop(service);
    machine.expect_whole_passes(2);
    for _ in 0..2 {
        machine.go_down();
        let prepared = machine.start(false);
        assert_eq!((prepared.restored.len(), prepared.dropped_nodes), (1, 0), "{prepared:?}");
        assert_eq!(machine.counts(), counts);
        machine.expect_whole_passes(1);
    }
    machine.end_move();
    assert_eq!(machine.counts(), counts);
}

/// Moves a few nodes at each write.
struct Moving<'a> {
    service: RefCell<&'a mut Service>,
    pass: RefCell<MovePass>,
    most: usize,
}

impl Pacer for Moving<'_> {
    fn rest(&self, _: Duration) -> Pace {
        is_over(&mut self.service.borrow_mut(), &mut self.pass.borrow_mut(), self.most);
        Pace::Steady
    }
}

// Shows: checkpoints.
#[test]
fn what_moves_while_it_is_copied_is_in_one_of_the_copies() {
    for most in [3, 40] {
        let (mut machine, mut counts) = begun();
        machine.begin_move(LARGE);
        // Some key-nodes are written, others are not.
        let mut service = machine.attach();
        for number in (0..KEYS).step_by(3) {
            service.update("b", &key(number), NOW);
            counts[number as usize] += 1;
        }
        drop(service);
        let mut service = machine.attach();
        let pacer = Moving { service: (&mut service).into(), pass: RefCell::default(), most };
        for _ in 0..2 {
            let made = machine.checkpointer().pass(&machine.names(), RATE, &pacer);
            assert!(all_done(&made), "{made:?}");
        }
        drop(service);
        machine.go_down();
        machine.start(false);
        assert_eq!(machine.counts(), counts, "{most} at once");
        machine.end_move();
        assert_eq!(machine.counts(), counts, "{most} at once");
    }
}

/// Begins the move at the first write, and moves all nodes.
struct Beginning<'a> {
    machine: RefCell<&'a mut Machine>,
    has_begun: Cell<bool>,
}

impl Pacer for Beginning<'_> {
    fn rest(&self, _: Duration) -> Pace {
        if !self.has_begun.replace(true) {
            self.machine.borrow_mut().begin_move(LARGE);
            let mut service = self.machine.borrow().attach();
            assert!(is_over(&mut service, &mut MovePass::default(), usize::MAX));
        }
        Pace::Steady
    }
}

// Shows: checkpoints.
#[test]
fn a_pass_that_a_move_begins_beside_begins_again_with_both_geometries() {
    let (mut machine, mut counts) = begun();
    machine.use_keys(&mut counts);
    let (mut checkpointer, names) = (machine.checkpointer(), machine.names());
    let pacer = Beginning { machine: RefCell::new(&mut machine), has_begun: Cell::new(false) };
    let made = checkpointer.pass(&names, RATE, &pacer);
    assert!(all_done(&made) && pacer.has_begun.get(), "{made:?}");
    drop(checkpointer);
    assert!(machine.is_of_move());
    machine.go_down();
    assert!(machine.start(false).moving.contains_key("g"));
    assert_eq!(machine.counts(), counts);
}

// Shows: growth.
#[test]
fn what_a_change_would_lose_of_a_group_that_is_restored_is_told_beforehand() {
    let (machine, _) = begun();
    machine.go_down();
    let plan = |geometry| {
        let conf = Conf::parse("srv.xml", &machine.srv, "map.xml", &map(geometry)).unwrap();
        plan_moves(&conf, NOW, None).unwrap()
    };
    assert_eq!(plan(SMALL), []);
    let [larger] = &plan(LARGE)[..] else { panic!("one group") };
    assert!(larger.loss().is_none() && larger.counts.carried == KEYS, "{larger:?}");
    let [smaller] = &plan("files='1' key-nodes='2' chain='12' node-size='128'")[..] else {
        panic!("one group")
    };
    assert_eq!(smaller.counts.carried + smaller.counts.crowded, KEYS);
    assert!(smaller.counts.crowded >= KEYS - 24, "{smaller:?}");
}

// Shows: checkpoints.
#[test]
fn a_restore_over_files_of_another_geometry_begins_again_wherever_it_breaks_off() {
    for nth in 1.. {
        let (mut machine, counts) = begun();
        machine.begin_move(LARGE);
        machine.end_move();
        // The machine went down before the first pass after the move. Its live files are on a disk.
        for file in 0..3 {
            let path = frs_store::group::path_of(&machine.live(), "g", file);
            let marks = Marks { boot: [1, 1], clean: false, quarantined: false };
            frs_store::group::write_marks(&path, marks).unwrap();
        }
        fs::remove_file(Runtime::path_in(&machine.data())).unwrap();
        Runtime::create_or_open(&machine.data()).unwrap();
        let moves = Moves { begin: ["g".to_owned()].into(), ..Moves::default() };
        fault::fail_at(nth);
        let broken_off = prepare_with(&machine.conf, Preparing::careful(&moves));
        fault::fail_at(0);
        let prepared = prepare_with(&machine.conf, Preparing::careful(&moves)).unwrap();
        assert!(prepared.unserved.is_empty(), "{nth}: {prepared:?}");
        assert!(prepared.moving.contains_key("g"), "{nth}: {prepared:?}");
        machine.publish(&prepared.moving);
        assert_eq!(machine.counts(), counts, "{nth}");
        if broken_off.is_ok_and(|prepared| prepared.unserved.is_empty()) {
            break;
        }
    }
}

// Shows: checkpoints.
#[test]
fn wherever_a_pass_of_a_move_breaks_off_each_count_is_one_that_the_key_had() {
    let step = if std::env::var_os("FRS_CHECKPOINT_CUTS").is_some() { 1 } else { 7 };
    // The interrupted pass is the first of a move, a later one, or the first after it.
    for stage in 0..3 {
        for nth in (1 + u64::from(stage)..).step_by(step) {
            let (mut machine, mut counts) = begun();
            machine.begin_move(LARGE);
            if stage > 0 {
                is_over(&mut machine.attach(), &mut MovePass::default(), 60);
                machine.use_keys(&mut counts);
                machine.expect_whole_passes(stage);
            }
            if stage == 2 {
                machine.end_move();
            }
            let least = counts.clone();
            machine.use_keys(&mut counts);
            fault::fail_at(nth);
            let is_done = all_done(&machine.pass());
            fault::fail_at(0);
            let goes_on = nth % 2 == 0;
            if goes_on {
                // A new keeper takes over, and the next pass is whole.
                machine.expect_whole_passes(1);
            }
            machine.go_down();
            let prepared = machine.start(false);
            assert_eq!((prepared.restored.len(), prepared.dropped_nodes), (1, 0), "{prepared:?}");
            let found = machine.counts();
            let least = if goes_on { &counts } else { &least };
            for ((found, least), most) in found.iter().zip(least).zip(&counts) {
                assert!((least..=most).contains(&found), "{stage}, call {nth}");
            }
            if is_done {
                break;
            }
        }
    }
}

// Shows: checkpoints.
#[test]
fn a_move_whose_last_step_was_interrupted_keeps_its_marks_or_marks_all() {
    let steps = 2 * 3;
    for done in 0..=steps {
        let (mut machine, mut counts) = begun();
        machine.begin_move(LARGE);
        machine.use_keys(&mut counts);
        machine.expect_whole_passes(2);
        let mut service = machine.attach();
        while !is_over(&mut service, &mut MovePass::default(), usize::MAX) {}
        drop(service);
        machine.use_keys(&mut counts);
        let runtime = Runtime::open(&machine.data()).unwrap();
        for group in runtime.named_groups("g") {
            if let Some(former) = group.former {
                runtime.forget_group(former);
                runtime.forget_former(group.id);
            }
        }
        let names = (0..3).rev().flat_map(|file| [(file, "dirty"), (file, "mmap")]);
        for (file, end) in names.take(done) {
            let [from, to] = ["next.", ""].map(|next| format!("g.{file}.{next}{end}"));
            fs::rename(machine.live().join(from), machine.live().join(to)).unwrap();
        }
        machine.start(false);
        assert_eq!(machine.counts(), counts, "{done} steps");
        machine.use_keys(&mut counts);
        machine.expect_whole_passes(1);
        machine.go_down();
        machine.start(false);
        assert_eq!(machine.counts(), counts, "{done} steps");
    }
}
