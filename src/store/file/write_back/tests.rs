//! After an error every page of a file is written again before it counts as written.

use std::fs::OpenOptions;

use super::*;
use crate::testing::World;
use crate::{Closed, Flush, Handle, Moves, close_clean, prepare};

const MIB: usize = 1 << 20;
/// Two files of 5.1 MiB.
const MAP: &str =
    "<map><group name='g' files='2' key-nodes='1500' chain='56' node-size='64'/></map>";

fn keeper_of(world: &World) -> Handle {
    world.handle(2)
}

fn doubts(handle: &Handle) -> Vec<u64> {
    let id = handle.groups()[0].header().id;
    let of = |file| handle.runtime().find_file(id, file).unwrap();
    (0..2).map(|file| handle.runtime().doubts(of(file).index)).collect()
}

/// A flush of all files, in which `sync` replaces the kernel's sync.
fn flush(handle: &Handle, sync: SyncPart<'_>) -> Result<(), Error> {
    let mut flush = Flush::new(handle);
    loop {
        if let Some(result) = flush.step_by(handle, sync) {
            return result;
        }
    }
}

/// The KiB of files on disk whose pages this thread has made dirty, regardless of who writes them
/// back.
fn kib_changed() -> usize {
    let io = std::fs::read_to_string("/proc/thread-self/io").unwrap();
    let bytes = io.lines().find_map(|line| line.strip_prefix("write_bytes: ")).unwrap();
    bytes.parse::<usize>().unwrap() / 1024
}

/// Fails like the kernel: the pages are clean afterwards, even though the write failed.
fn fail(region: &Region, from: usize, bytes: usize) -> io::Result<()> {
    region.flush_part(from, bytes)?;
    Err(io::Error::from_raw_os_error(nix::libc::EIO))
}

// Shows: failed-writes.
#[test]
fn after_an_error_every_page_of_the_file_is_written_again() {
    let Some(world) = World::on_disk(MAP) else {
        return;
    };
    let keeper = keeper_of(&world);
    let handle = &keeper;
    flush(handle, &mut Region::flush_part).unwrap();
    assert_eq!((doubts(handle), keeper.runtime().flush_failed()), (vec![0, 0], false));
    let first = handle.groups()[0].file(0).span().start;
    // The kernel reports the error in the sync of one part, after it has dropped the pages of
    // another.
    let is_second = |region: &Region, from| region.span().start == first && from == MIB;
    let failed = flush(handle, &mut |region, from, bytes| match is_second(region, from) {
        true => fail(region, from, bytes),
        false => region.flush_part(from, bytes),
    });
    assert!(failed.unwrap_err().to_string().contains("g.0.mmap"));
    assert_eq!((doubts(handle), keeper.runtime().flush_failed()), (vec![2, 0], true));
    let (mut rewritten, mut before) = ([0; 2], kib_changed());
    let mut sync = |region: &Region, from, bytes| {
        rewritten[usize::from(region.span().start != first)] += kib_changed() - before;
        let done = region.flush_part(from, bytes);
        before = kib_changed();
        done
    };
    flush(handle, &mut sync).unwrap();
    assert_eq!(doubts(handle), [0, 0]);
    let bytes = handle.groups()[0].file(0).bytes();
    // Whole pages.
    let all = bytes.next_multiple_of(4096) / 1024;
    // The doubts change pages too, and a page that the kernel writes back by itself may count
    // twice.
    assert!(rewritten[0] >= all && rewritten[1] < 64, "{rewritten:?} of {all}");
    let before = kib_changed();
    handle.groups()[0].touch_pages(0, 0, bytes);
    let changed = kib_changed() - before;
    assert!(changed >= all, "{changed} of {all}");
}

// Shows: failed-writes.
#[test]
fn an_error_while_it_is_written_again_begins_it_anew() {
    let Some(world) = World::on_disk(MAP) else { return };
    let keeper = keeper_of(&world);
    let handle = &keeper;
    flush(handle, &mut fail).unwrap_err();
    let mut parts = 0;
    let mut third_fails = |region: &Region, from: usize, bytes: usize| {
        parts += 1;
        if parts == 3 { fail(region, from, bytes) } else { region.flush_part(from, bytes) }
    };
    flush(handle, &mut third_fails).unwrap_err();
    assert_eq!(doubts(handle), [4, 0]);
    // A process that is killed in a sync leaves the doubt that it added before.
    let known = handle.runtime().find_file(handle.groups()[0].header().id, 1).unwrap();
    handle.runtime().doubt(known.index);
    // Another keeper continues with the doubts in runtime.mmap.
    drop(keeper);
    let keeper = keeper_of(&world);
    assert_eq!(doubts(&keeper), [4, 1]);
    flush(&keeper, &mut Region::flush_part).unwrap();
    assert_eq!(doubts(&keeper), [0, 0]);
}

/// Two keepers write back at once, as during an upgrade.
#[test]
fn two_that_write_a_file_back_take_no_doubt_away_twice() {
    let world = World::new(MAP);
    let keeper = keeper_of(&world);
    let (handle, group) = (&keeper, &keeper.groups()[0]);
    let (runtime, whole) = (handle.runtime(), group.file(0).bytes());
    let index = runtime.find_file(group.header().id, 0).unwrap().index;
    let step = |one: &mut WriteBack, bytes, sync: SyncPart<'_>| {
        one.step(group, 0, runtime, (bytes, sync)).unwrap()
    };
    let done = &mut |_: &Region, _, _| Ok(());
    // The other write-back runs between two parts, or in the sync of one.
    for is_in_sync in [false, true] {
        runtime.doubt(index);
        let mut one = WriteBack::default();
        let other = || assert!(step(&mut WriteBack::default(), whole, &mut |_, _, _| Ok(())));
        assert!(!step(&mut one, MIB, done));
        if !is_in_sync {
            other();
        }
        let mut last = |_: &Region, _, _| {
            if is_in_sync {
                other();
            }
            Ok(())
        };
        assert!(step(&mut one, whole, &mut last));
        assert_eq!(runtime.doubts(index), 0);
    }
    // A write-back clears no doubts if another one was added since it began.
    runtime.doubt(index);
    let mut one = WriteBack::default();
    assert!(!step(&mut one, MIB, done));
    runtime.doubt(index);
    assert!(step(&mut one, whole, done));
    assert_eq!(runtime.doubts(index), 2);
    // An error that follows after the other sync has cleared the doubt.
    let error = runtime.sync_file(index, || {
        assert!(step(&mut WriteBack::default(), whole, &mut |_, _, _| Ok(())));
        Err(())
    });
    assert!(error.is_err() && runtime.doubts(index) > 0);
}

// Shows: failed-writes.
#[test]
fn stores_of_others_stay_while_pages_are_written_again() {
    let world = World::new(MAP);
    let keeper = keeper_of(&world);
    let other = keeper_of(&world);
    let (group, region) = (&keeper.groups()[0], other.groups()[0].file(0));
    // The touched word of a page, and a part of the others.
    let at = PAGE_WORDS * 2;
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                group.touch_pages(0, 0, 4 * PAGE_WORDS * 8);
            }
        });
        for value in 0..100_000 {
            region.store(at, value);
            assert_eq!(region.load(at), value);
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

// Shows: failed-writes.
#[test]
fn a_file_in_doubt_is_marked_clean_only_after_all_of_it_was_written_again() {
    let Some(world) = World::on_disk(MAP) else { return };
    let keeper = keeper_of(&world);
    flush(&keeper, &mut fail).unwrap_err();
    // Beside an attached process the file is not written again.
    assert_eq!(close_clean(&world.conf).unwrap(), Closed::NotOnDisk(vec!["g".to_owned()]));
    assert!(keeper.runtime().flush_failed());
    assert_eq!(doubts(&keeper), [2, 0]);
    drop(keeper);
    assert_eq!(close_clean(&world.conf).unwrap(), Closed::Clean);
    let runtime = world.runtime();
    assert!(!runtime.flush_failed());
    for file in 0..2 {
        let group = runtime.first_files().next().unwrap().entry.group;
        assert_eq!(runtime.doubts(runtime.find_file(group, file).unwrap().index), 0);
    }
}

// Shows: failed-writes.
#[test]
fn a_scan_in_the_same_boot_writes_everything_again() {
    let Some(world) = World::on_disk(MAP) else { return };
    let keeper = keeper_of(&world);
    flush(&keeper, &mut Region::flush_part).unwrap();
    drop(keeper);
    // The doubts are lost.
    std::fs::remove_file(Runtime::path_in(&world.dir)).unwrap();
    Runtime::create_or_open(&world.dir).unwrap();
    let before = written_kib();
    let prepared = prepare(&world.conf, &Moves::default()).unwrap();
    assert_eq!(prepared.scanned, ["g"]);
    let bytes = 2 * std::fs::metadata(world.dir.join("g.0.mmap")).unwrap().len();
    assert!((written_kib() - before) * 1024 >= bytes, "{}", written_kib() - before);
    let runtime = world.runtime();
    let group = runtime.first_files().next().unwrap().entry.group;
    assert_eq!(runtime.doubts(runtime.find_file(group, 0).unwrap().index), 0);
}

/// The KiB that this process has made the kernel write. Other tests may add to them.
fn written_kib() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap();
    let bytes = io.lines().find_map(|line| line.strip_prefix("write_bytes: ")).unwrap();
    bytes.parse::<u64>().unwrap() / 1024
}

// Shows: failed-writes.
#[test]
fn all_of_a_file_is_written_again_by_file_calls() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let bytes: Vec<u8> = (0..3 * MIB + 4096).map(|at| (at * 7 + at / 4096) as u8).collect();
    std::fs::write(file.path(), &bytes).unwrap();
    let open = OpenOptions::new().read(true).write(true).open(file.path()).unwrap();
    write_again(&open, bytes.len() as u64).unwrap();
    assert!(std::fs::read(file.path()).unwrap() == bytes);
    let error = write_again(&open, bytes.len() as u64 + 1).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
}
