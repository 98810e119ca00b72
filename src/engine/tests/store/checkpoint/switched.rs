//! Live files on a disk that survive a reboot, beside older checkpoints, made before the files
//! changed without checkpoints.

use frs_conf::{Conf, HashKind};
use frs_store::group::{Marks, write_marks};
use frs_store::{Closed, Moves, Preparing, Runtime, close_clean, prepare_with};

use super::moving::{LARGE, begun};
use super::{KEYS, Machine, NOW, after_two_passes, all_done, fault, newest, of};
use crate::inspect::{Migration, Step};

/// Whether the machine ended its files cleanly before it went down.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Clean,
    PowerCut,
}

impl Machine {
    /// Ends this boot. The live files do not change.
    fn reboot(&self, end: End) {
        let live = self.dir.path().join("live");
        for path in std::fs::read_dir(live).unwrap().map(|entry| entry.unwrap().path()) {
            if path.extension().is_some_and(|end| end == "mmap") {
                let clean = end == End::Clean;
                write_marks(&path, Marks { boot: [1, 2], clean, quarantined: false }).unwrap();
            }
        }
        std::fs::remove_file(Runtime::path_in(&self.data())).unwrap();
    }

    /// Starts again with or without checkpoints.
    fn switch(&mut self, on: bool) {
        let without = self.srv.replace(" checkpoint='60s'", "");
        let text =
            if on { without.replace("/></srv>", " checkpoint='60s'/></srv>") } else { without };
        self.srv = text;
        self.conf = Conf::parse("srv.xml", &self.srv, "map.xml", &self.map).unwrap();
        assert_eq!(self.conf.srv.data.checkpoint.is_some(), on);
        let prepared = self.start(false);
        assert!(prepared.restored.is_empty() && prepared.created.is_empty(), "{prepared:?}");
    }

    fn expect(&self, used: u64) {
        assert_eq!(self.used(), vec![used; KEYS.len()]);
    }
}

// Shows: newest-checkpoint.
#[test]
fn a_checkpoint_of_a_time_before_others_without_is_not_restored_over_newer_files() {
    for reboots in [&[][..], &[End::Clean], &[End::PowerCut]] {
        let mut machine = Machine::new();
        machine.use_all(1);
        assert!(all_done(&machine.pass()));
        machine.switch(false);
        machine.use_all(1);
        for &end in reboots {
            machine.reboot(end);
            machine.switch(false);
            machine.use_all(1);
        }
        machine.switch(true);
        machine.use_all(1);
        let used = 3 + reboots.len() as u64;
        // Also on a later start with checkpoints.
        for _ in 0..2 {
            machine.reboot(End::PowerCut);
            let prepared = machine.start(false);
            assert!(prepared.restored.is_empty() && prepared.scanned.len() == 2, "{prepared:?}");
            machine.expect(used);
        }
        // From its first pass on a checkpoint counts.
        assert!(all_done(&machine.pass()));
        machine.use_all(1);
        machine.reboot(End::PowerCut);
        assert_eq!(machine.start(false).restored.len(), 2);
        machine.expect(used);
    }
}

#[test]
fn files_that_are_lost_are_restored_however_old_the_checkpoint_is() {
    let mut machine = Machine::new();
    machine.use_all(1);
    assert!(all_done(&machine.pass()));
    machine.switch(false);
    machine.use_all(1);
    machine.switch(true);
    machine.go_down();
    assert_eq!(machine.start(false).restored.len(), 2);
    machine.expect(1);
}

// Shows: newest-checkpoint.
#[test]
fn a_checkpoint_of_the_boot_before_counts_until_the_next_pass() {
    let mut machine = Machine::new();
    for end in [End::Clean, End::PowerCut, End::Clean] {
        let before = machine.used()[0];
        machine.use_all(1);
        assert!(all_done(&machine.pass()));
        machine.reboot(end);
        machine.start(false);
        machine.use_all(1);
        machine.reboot(End::PowerCut);
        assert_eq!(machine.start(false).restored.len(), 2);
        machine.expect(before + 1);
    }
}

// Shows: newest-checkpoint.
#[test]
fn files_that_went_on_without_a_restore_are_newer_than_the_checkpoint_before() {
    for [breaks_off, is_put_back, is_disturbed] in
        [[false; 3], [true, false, false], [false, true, false], [false, true, true]]
    {
        let mut machine = after_two_passes();
        machine.use_all(1);
        let side = newest(&machine, "small");
        let (path, away) = (of(&machine, "small", 1, side), machine.dir.path().join("away"));
        std::fs::rename(&path, &away).unwrap();
        machine.reboot(End::PowerCut);
        // The first start fails after its scan, because it cannot make the marks.
        let draft = machine.dir.path().join("live/small.0.dirty.new");
        if is_disturbed {
            std::fs::create_dir(&draft).unwrap();
        }
        let prepared = machine.start(false);
        assert_eq!(
            (prepared.restored, prepared.scanned, prepared.unserved.len()),
            (vec!["large".into()], vec!["small".into()], usize::from(is_disturbed))
        );
        if is_disturbed {
            std::fs::remove_dir(&draft).unwrap();
            assert!(machine.start(false).unserved.is_empty());
        }
        assert_eq!(machine.used(), [3, 3, 3, 2, 2, 2]);
        machine.use_all(1);
        if breaks_off {
            fault::fail_at(4);
            assert!(!all_done(&machine.pass()));
            fault::fail_at(0);
        }
        if is_put_back {
            std::fs::rename(&away, &path).unwrap();
        }
        machine.reboot(End::PowerCut);
        let prepared = machine.start(false);
        assert!(!prepared.restored.contains(&"small".to_owned()), "{prepared:?}");
        assert_eq!(machine.used()[..3], [4, 4, 4]);
        assert!(all_done(&machine.pass()));
        machine.reboot(End::PowerCut);
        assert_eq!(machine.start(false).restored.len(), 2);
        assert_eq!(machine.used()[..3], [4, 4, 4]);
    }
}

// Shows: newest-checkpoint.
#[test]
fn live_files_go_on_where_the_disk_does_not_give_the_newest_checkpoint_back() {
    for accepts_loss in [false, true] {
        let mut machine = after_two_passes();
        machine.use_all(1);
        let path = of(&machine, "small", 1, newest(&machine, "small"));
        fault::make_unreadable(&path);
        machine.reboot(End::PowerCut);
        let prepared = machine.start(accepts_loss);
        fault::make_readable(&path);
        assert_eq!((prepared.restored, prepared.unserved), (vec!["large".to_owned()], vec![]));
        assert_eq!(machine.used(), [3, 3, 3, 2, 2, 2]);
    }
}

// Shows: newest-checkpoint.
#[test]
fn marks_that_cannot_be_read_take_no_group_out_of_service() {
    for on in [false, true] {
        let mut machine = Machine::new();
        machine.use_all(1);
        assert!(all_done(&machine.pass()));
        let marks = machine.dir.path().join("live/small.0.dirty");
        std::fs::remove_file(&marks).unwrap();
        std::os::unix::fs::symlink("/", &marks).unwrap();
        machine.switch(on);
        machine.expect(1);
        assert!(machine.start(false).unserved.is_empty());
    }
}

#[test]
fn the_files_that_a_group_has_moved_to_have_its_checkpoints() {
    let (mut machine, _) = begun();
    machine.begin_move(LARGE);
    machine.end_move();
    machine.reboot(End::PowerCut);
    Runtime::create_or_open(&machine.data()).unwrap();
    let moves = Moves { begin: ["g".to_owned()].into(), ..Moves::default() };
    let prepared = prepare_with(&machine.conf, Preparing::careful(&moves)).unwrap();
    assert_eq!(prepared.restored, ["g"], "as its last pass found it: before it moved");
}

// Shows: newest-checkpoint.
#[test]
fn the_checkpoints_of_files_before_a_migration_are_not_restored_over_those_after_it() {
    let mut machine = Machine::new();
    machine.use_all(1);
    assert!(all_done(&machine.pass()));
    machine.use_all(1);
    assert_eq!(close_clean(&machine.conf).unwrap(), Closed::Clean);
    machine.map = machine.map.replace("key-nodes='40'", "key-nodes='40' hash='bob'");
    machine.conf = Conf::parse("srv.xml", &machine.srv, "map.xml", &machine.map).unwrap();
    assert_eq!(machine.conf.map.groups[0].geometry.hash, HashKind::Bob);
    let mut go_on = |_: Step<'_>| true;
    let migration = Migration::begin(&machine.conf, NOW, None, &mut go_on).unwrap();
    let plans = migration.plan(&mut go_on).unwrap();
    migration.run(&plans, &mut go_on).unwrap();
    drop(migration);
    machine.start(false);
    machine.reboot(End::PowerCut);
    let prepared = machine.start(false);
    assert_eq!((prepared.restored, prepared.unserved), (vec!["large".to_owned()], vec![]));
    assert_eq!(machine.used(), [2, 2, 2, 1, 1, 1]);
}
