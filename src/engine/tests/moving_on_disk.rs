//! A group on disk grows, and the power fails: the kernel has written some of its files, but not
//! others. No flushed count is lost, and none counts twice.

use std::path::PathBuf;

use frs_store::group::{next_path_of, path_of};
use frs_store::{Closed, Error, Group, Report, Runtime, close_clean, end_move};

use crate::testing::{World, move_all};
use crate::{MovePass, MoveStep, RecordName, Service};

const NOW: u64 = 1_700_000_000_000;
const KEYS: u64 = 60;

fn map(key_nodes: u32) -> String {
    format!(
        r#"<map><group name="g" files="2" key-nodes="{key_nodes}" chain="28" node-size="64"/>
        <biz id="7" name="a" group="g" key="integer"><limit policy="total" max="100"/></biz></map>"#
    )
}

/// A group on disk that begins to move. Each of its keys was used once, and flushed.
struct Growing {
    world: World,
    service: Service,
    former: Vec<PathBuf>,
    next: Vec<PathBuf>,
}

impl Growing {
    /// `None` if nothing is on disk.
    fn begin() -> Option<Growing> {
        let mut world = World::on_disk(&map(16))?;
        let mut service = world.attach();
        for key in 0..KEYS {
            service.update("a", &key.to_string(), NOW);
        }
        service.flush();
        world.begin_moves(&map(32), 2);
        service.begin_tick();
        let former = (0..2).map(|file| path_of(&world.dir, "g", file)).collect();
        let next = (0..2).map(|file| next_path_of(&world.dir, "g", file)).collect();
        Some(Growing { world, service, former, next })
    }

    /// Moves all nodes. They stay in the former files.
    fn move_all(&mut self) {
        let mut pass = MovePass::default();
        let step = loop {
            match self.service.move_nodes("g", &mut pass, 7, NOW).expect("it grows") {
                MoveStep::Going => {}
                step => break step,
            }
        };
        assert_eq!(step, MoveStep::Over { left: 0, awaiting: KEYS });
    }

    fn report_of(&self, former: bool) -> Report {
        let runtime = self.world.runtime();
        let next = runtime.named_groups("g")[0];
        let id = if former { next.former.expect("it grows") } else { next.id };
        Group::open_id(&self.world.dir, "g", id, &runtime).expect("open").verify()
    }

    /// Cuts the power. The disk then has `bytes` in `files`, and the other files unchanged.
    fn cut(self, files: &[PathBuf], bytes: &[Vec<u8>]) -> Growing {
        self.cut_after(files, bytes, |_| {})
    }

    /// Cuts the power after the server has ended and `act` was called.
    fn cut_after(self, files: &[PathBuf], bytes: &[Vec<u8>], act: impl FnOnce(&World)) -> Growing {
        let Growing { mut world, service, former, next } = self;
        drop(service);
        act(&world);
        for (path, bytes) in files.iter().zip(bytes) {
            std::fs::write(path, bytes).expect("written");
        }
        std::fs::remove_file(Runtime::path_in(&world.dir)).expect("removed");
        Runtime::create_or_open(&world.dir).expect("created");
        let prepared = world.begin_moves(&map(32), 3);
        assert_eq!((prepared.dropped_nodes, prepared.unserved.len()), (0, 0), "{prepared:?}");
        let service = world.attach();
        Growing { world, service, former, next }
    }

    fn used(&mut self, key: u64) -> u64 {
        self.service.used("a", &key.to_string(), NOW)
    }

    /// Completes the move. At the end each key has one node.
    fn end(mut self, expected: impl Fn(u64) -> u64) {
        let all = |growing: &mut Growing| {
            (0..KEYS).for_each(|key| assert_eq!(growing.used(key), expected(key), "{key}"));
        };
        all(&mut self);
        move_all(&mut self.service, NOW);
        all(&mut self);
        let nodes = (0..KEYS).filter(|&key| expected(key) > 0).count() as u64;
        assert_eq!(self.report_of(false).nodes, nodes);
        let former = self.report_of(true);
        assert_eq!((former.nodes, former.moved), (0, 0));
        self.world.verify();
        self.world.end_moves(&map(32), 4);
        self.service.begin_tick();
        all(&mut self);
    }
}

fn bytes_of(files: &[PathBuf]) -> Vec<Vec<u8>> {
    files.iter().map(|path| std::fs::read(path).expect("readable")).collect()
}

// Shows: power-cut-in-a-move.
#[test]
fn what_has_moved_leaves_the_former_files_once_it_is_written() {
    let Some(mut growing) = Growing::begin() else { return };
    growing.service.update("a", "7", NOW);
    let former = growing.report_of(true);
    assert_eq!((former.nodes, former.moved), (KEYS - 1, 1));
    growing.move_all();
    let former = growing.report_of(true);
    assert_eq!((former.nodes, former.moved), (0, KEYS));
    assert!(former.is_clean());
    growing.service.flush();
    assert_eq!(growing.report_of(true).moved, 0);
    growing.end(|key| 1 + u64::from(key == 7));
}

// Shows: power-cut-in-a-move.
#[test]
fn a_power_cut_that_left_the_new_files_empty_loses_nothing() {
    let Some(mut growing) = Growing::begin() else { return };
    let (next, empty) = (growing.next.clone(), bytes_of(&growing.next));
    growing.move_all();
    growing.cut(&next, &empty).end(|_| 1);
}

// Shows: power-cut-in-a-move.
#[test]
fn a_power_cut_that_left_the_former_files_full_doubles_nothing() {
    let Some(mut growing) = Growing::begin() else { return };
    let (former, full) = (growing.former.clone(), bytes_of(&growing.former));
    growing.move_all();
    // The use counts where the node is now.
    growing.service.update("a", "7", NOW);
    growing.cut(&former, &full).end(|key| 1 + u64::from(key == 7));
}

// Shows: power-cut-in-a-move.
#[test]
fn a_power_cut_in_a_clean_end_that_left_the_new_files_empty_loses_nothing() {
    let Some(mut growing) = Growing::begin() else { return };
    let (next, empty) = (growing.next.clone(), bytes_of(&growing.next));
    growing.move_all();
    let ends = |world: &World| assert_eq!(close_clean(&world.conf).unwrap(), Closed::Clean);
    growing.cut_after(&next, &empty, ends).end(|_| 1);
}

// Shows: power-cut-in-a-move.
#[test]
fn what_is_charged_or_reset_after_a_power_cut_does_not_come_back() {
    let Some(mut growing) = Growing::begin() else { return };
    let (former, full) = (growing.former.clone(), bytes_of(&growing.former));
    growing.move_all();
    let mut growing = growing.cut(&former, &full);
    growing.service.update("a", "7", NOW);
    let erased = growing.service.erase(RecordName::of_key("a", "8"), NOW).expect("erased");
    assert!(erased.is_some(), "it was there");
    growing.end(|key| match key {
        7 => 2,
        8 => 0,
        _ => 1,
    });
}

// Shows: power-cut-in-a-move.
#[test]
fn a_flush_that_fails_frees_nothing() {
    let Some(mut growing) = Growing::begin() else { return };
    let (next, empty) = (growing.next.clone(), bytes_of(&growing.next));
    growing.move_all();
    let mut flushing = growing.service.begin_flush();
    flushing.fail();
    let over = std::iter::from_fn(|| Some(growing.service.flush_part(&mut flushing))).flatten();
    assert!(over.take(1).all(|over| over.is_err()));
    assert_eq!(growing.report_of(true).moved, KEYS);
    growing.cut(&next, &empty).end(|_| 1);
}

// Shows: power-cut-in-a-move.
#[test]
fn processes_that_die_in_a_move_leave_what_has_moved_where_it_is() {
    let Some(mut growing) = Growing::begin() else { return };
    growing.move_all();
    // All processes die. Their files are of this boot, so nothing is scanned.
    drop(growing.service);
    let prepared = growing.world.begin_moves(&map(32), 3);
    assert_eq!(prepared.scanned, [""; 0]);
    growing.service = growing.world.attach();
    let former = growing.report_of(true);
    assert_eq!((former.nodes, former.moved), (0, KEYS));
    growing.end(|_| 1);
}

#[test]
fn files_in_doubt_get_their_names_after_they_were_written_again() {
    let Some(mut growing) = Growing::begin() else { return };
    growing.move_all();
    growing.service.flush();
    let runtime = growing.world.runtime();
    let next = runtime.named_groups("g")[0].id;
    runtime.doubt(runtime.find_file(next, 1).expect("known").index);
    let ended = end_move(&growing.world.dir, "g", &runtime);
    assert!(matches!(ended, Err(Error::InDoubt { path }) if path == growing.next[1]));
    assert!(growing.next.iter().all(|path| path.exists()));
    assert!(runtime.named_groups("g")[0].former.is_some(), "it can be repeated");
    growing.service.flush();
    growing.end(|_| 1);
}
