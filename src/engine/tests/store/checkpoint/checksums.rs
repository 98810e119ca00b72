//! The checksums find pages that the disk has lost, kept from earlier or misplaced: each count is
//! that of the newest pass, or its record is dropped and counted. Also, a reset after a pass holds
//! after a restore, however often it was made.

use std::cell::Cell;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use frs_conf::{Overlay, Texts, active};
use frs_store::Runtime;
use frs_store::insides::{bytes_of, header_crc, words_of};
use frs_store::layout::PAGE_BYTES;
use frs_store::{Pace, Pacer};

use super::{GroupPass, KEYS, Machine, RATE, after_two_passes, all_done, newest, of};

const FILES: [(&str, u32); 3] = [("small", 0), ("small", 1), ("large", 0)];

impl Machine {
    /// The newest checkpoint of a file, and the one before.
    fn newest_and_older(&self, name: &str, file: u32) -> [PathBuf; 2] {
        let side = newest(self, name);
        [side, side.other()].map(|side| of(self, name, file, side))
    }

    /// Starts from a damaged file, and restores it afterwards. Each key has all its uses, or its
    /// record was dropped and counted. Records of another place are dropped too. Returns the number
    /// of dropped records.
    fn expect_named(&mut self, path: &Path, damaged: &[u8], uses: u64, what: &str) -> u64 {
        let sound = fs::read(path).unwrap();
        fs::write(path, damaged).unwrap();
        self.go_down();
        let prepared = self.start(false);
        assert_eq!(prepared.restored.len(), 2, "{what}: {prepared:?}");
        let used = self.used();
        assert!(used.iter().all(|&found| found == uses || found == 0), "{what}: {used:?}");
        let lost = used.iter().filter(|&&found| found == 0).count() as u64;
        assert!(prepared.dropped_nodes >= lost, "{what}: {used:?} {prepared:?}");
        let brings_none = !what.starts_with("misplaced") && !what.starts_with("another file's");
        assert!(prepared.dropped_nodes == lost || !brings_none, "{what}: {used:?} {prepared:?}");
        fs::write(path, sound).unwrap();
        lost
    }

    /// Resets a business `times` times, as the master does.
    fn reset(&mut self, biz: u32, times: u64) {
        let mut overlay = Overlay::read(&self.data()).unwrap();
        for _ in 0..times {
            let epoch = overlay.epoch(biz);
            overlay.reset(biz, Some(epoch)).unwrap();
        }
        self.put(&overlay);
    }

    fn put(&mut self, overlay: &Overlay) {
        overlay.write(&self.data()).unwrap();
        self.generation += 1;
        let texts = Texts::of(self.srv.clone(), &*self.map);
        active::write_overlaid(&self.data(), self.generation, &texts, overlay).unwrap();
        Runtime::open(&self.data()).unwrap().publish(self.generation);
    }
}

/// The pages between the header and the checksums. The seeds decide which of them have records.
fn pages(machine: &Machine, name: &str) -> std::ops::Range<usize> {
    let group = machine.conf.map.groups.iter().find(|group| group.name == name).unwrap();
    1..(group.geometry.file_bytes() as usize).div_ceil(PAGE_BYTES)
}

fn page_mut(bytes: &mut [u8], page: usize) -> &mut [u8] {
    &mut bytes[page * PAGE_BYTES..][..PAGE_BYTES]
}

// Shows: checkpoints.
#[test]
fn a_page_that_is_zeroed_stale_or_misplaced_is_found_and_what_it_held_is_counted() {
    let mut machine = after_two_passes();
    let [mut zeroed, mut stale, mut misplaced, mut foreign] = [0; 4];
    for (name, file) in FILES {
        let [path, older] = machine.newest_and_older(name, file);
        let (sound, older) = (fs::read(&path).unwrap(), fs::read(older).unwrap());
        let other = of(&machine, "small", 1 - file, newest(&machine, "small"));
        let other = fs::read(other).unwrap();
        for page in pages(&machine, name) {
            let what = |kind| format!("{kind} page {page} of {name}.{file}");
            let mut with = |bytes: &[u8], kind| {
                let mut damaged = sound.clone();
                page_mut(&mut damaged, page).copy_from_slice(bytes);
                if damaged == sound {
                    return 0;
                }
                machine.expect_named(&path, &damaged, 2, &what(kind))
            };
            zeroed += with(&[0; PAGE_BYTES], "zeroed");
            stale += with(&older[page * PAGE_BYTES..][..PAGE_BYTES], "stale");
            let neighbour = if page == 1 { 2 } else { page - 1 };
            misplaced += with(&sound[neighbour * PAGE_BYTES..][..PAGE_BYTES], "misplaced");
            if other.len() > (page + 1) * PAGE_BYTES {
                foreign += with(&other[page * PAGE_BYTES..][..PAGE_BYTES], "another file's");
            }
        }
    }
    let all = [zeroed, stale, misplaced, foreign];
    assert!(all.iter().all(|&lost| lost >= 6), "{all:?}");
}

// Shows: checkpoints.
#[test]
fn a_tag_that_is_zeroed_is_found_and_its_record_is_counted() {
    let mut machine = after_two_passes();
    let mut lost = 0;
    for (name, file) in FILES {
        let [path, _] = machine.newest_and_older(name, file);
        let sound = fs::read(&path).unwrap();
        let group = machine.conf.map.groups.iter().find(|group| group.name == name).unwrap();
        let geometry = group.geometry;
        let head = |key_node: u32| {
            PAGE_BYTES + key_node as usize * (64 + (geometry.chain * geometry.node_bytes) as usize)
        };
        for at in (0..geometry.key_nodes).flat_map(|at| head(at) + 8..head(at) + 64) {
            if sound[at] != 0 {
                let mut damaged = sound.clone();
                damaged[at] = 0;
                lost += machine.expect_named(&path, &damaged, 2, &format!("tag at {at}"));
            }
        }
    }
    assert!(lost >= 6, "{lost}");
}

// Shows: checkpoints.
#[test]
fn damaged_checksums_are_named_and_the_checkpoint_before_waits_for_consent() {
    let mut machine = after_two_passes();
    let [path, _] = machine.newest_and_older("small", 1);
    let len = fs::metadata(&path).unwrap().len();
    OpenOptions::new().write(true).open(&path).unwrap().write_all_at(&[1, 2], len - 9).unwrap();
    machine.go_down();
    let prepared = machine.start(false);
    let [unserved] = &*prepared.unserved else { panic!("{prepared:?}") };
    for word in [path.to_str().unwrap(), "CRC of its checksums", "--accept-loss"] {
        assert!(unserved.reason.contains(word), "{word}: {}", unserved.reason);
    }
    assert!(machine.start(true).unserved.is_empty());
    assert_eq!(machine.used(), [1, 1, 1, 2, 2, 2]);
}

// Shows: checkpoints.
#[test]
fn checksums_that_are_damaged_beside_the_server_are_written_again() {
    for pass in [1, 2] {
        let mut machine = after_two_passes();
        for path in machine.newest_and_older("large", 0) {
            let len = fs::metadata(&path).unwrap().len();
            let file = OpenOptions::new().write(true).open(&path).unwrap();
            file.write_all_at(&[1, 2], len - 9).unwrap();
        }
        machine.use_all(1);
        (0..pass).for_each(|_| assert!(all_done(&machine.pass())));
        machine.go_down();
        let prepared = machine.start(false);
        assert_eq!((prepared.restored.len(), prepared.dropped_nodes), (2, 0));
        assert_eq!(machine.used(), vec![3; KEYS.len()]);
    }
}

/// Makes a file as an earlier build would have written it.
fn to_format_1(path: &Path, file_bytes: u64) {
    let mut words = words_of(&fs::read(path).unwrap()[..22 * 8]);
    words[14] = 1;
    words[21] = header_crc(&words[..21]);
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(file_bytes).unwrap();
    file.write_all_at(&bytes_of(&words), 0).unwrap();
}

// Shows: checkpoints.
#[test]
fn a_checkpoint_of_the_format_before_is_restored_and_the_next_passes_have_checksums() {
    for restores in [true, false] {
        let mut machine = after_two_passes();
        for (name, file) in FILES {
            let group = machine.conf.map.groups.iter().find(|group| group.name == name).unwrap();
            let file_bytes = group.geometry.file_bytes();
            let both = machine.newest_and_older(name, file);
            both.iter().for_each(|path| to_format_1(path, file_bytes));
        }
        if restores {
            machine.go_down();
            let prepared = machine.start(false);
            assert_eq!((prepared.restored.len(), prepared.dropped_nodes), (2, 0));
            assert_eq!(machine.used(), vec![2; KEYS.len()]);
        }
        machine.use_all(1);
        assert!(all_done(&machine.pass()));
        machine.go_down();
        assert_eq!(machine.start(false).dropped_nodes, 0);
        assert_eq!(machine.used(), vec![3; KEYS.len()]);
        let [path, _] = machine.newest_and_older("large", 0);
        let mut damaged = fs::read(&path).unwrap();
        (1..8).for_each(|page| page_mut(&mut damaged, page).fill(0));
        assert_eq!(machine.expect_named(&path, &damaged, 3, "zeroed"), 3);
    }
}

// Shows: checkpoints.
#[test]
fn what_was_reset_after_a_pass_stays_reset_whatever_the_low_bits_of_its_epoch() {
    for times in [1, 255, 256, 512, 513] {
        let mut machine = Machine::new();
        machine.reset(1, 3);
        machine.use_all(2);
        assert!(all_done(&machine.pass()));
        machine.reset(1, times);
        machine.go_down();
        let overlay = Overlay::read(&machine.data()).unwrap();
        let prepared = machine.start(false);
        machine.put(&overlay);
        assert_eq!((prepared.restored.len(), prepared.dropped_nodes), (2, 0), "{times}");
        assert_eq!(machine.used(), [0, 0, 0, 2, 2, 2], "after {times} resets");
        // From the next pass on it is like any other.
        machine.use_all(1);
        assert!(all_done(&machine.pass()));
        machine.go_down();
        assert_eq!(machine.start(false).restored.len(), 2);
        machine.put(&overlay);
        assert_eq!(machine.used(), [1, 1, 1, 3, 3, 3], "after {times} resets");
    }
}

/// Clears the void nodes of a business once, while a pass copies.
struct Clearing {
    data: PathBuf,
    is_due: Cell<bool>,
}

impl Pacer for Clearing {
    fn rest(&self, _: Duration) -> Pace {
        if self.is_due.replace(false) {
            let mut overlay = Overlay::read(&self.data).unwrap();
            (0..128).for_each(|_| overlay.reset(1, Some(overlay.epoch(1))).unwrap());
            overlay.write(&self.data).unwrap();
        }
        Pace::Steady
    }
}

// Shows: checkpoints.
#[test]
fn a_pass_begins_again_where_void_nodes_were_cleared_while_it_copied() {
    let machine = Machine::new();
    let pacer = Clearing { data: machine.data(), is_due: Cell::new(true) };
    let number_of = || {
        machine.use_all(1);
        let passes = machine.checkpointer().pass(&["small".to_owned()], RATE, &pacer);
        let [GroupPass { result: Ok(Some(facts)), .. }] = &passes[..] else { panic!("{passes:?}") };
        facts.number
    };
    assert_eq!([number_of(), number_of()], [3, 4], "the first one was begun twice");
}
