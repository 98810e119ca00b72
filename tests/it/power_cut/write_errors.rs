//! A disk that fails and recovers: pages that could not be written are written again before any
//! process reports success, and before files are marked clean.
//!
//! The disk is an image on a full file system, where blocks that the image lacks cannot be written.
//! The blocks of group files are removed, those of the journal exist.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{charge_all, used_of_all};
use crate::common::files::{GROUP_CLEAN, load, open};
use crate::common::plane::Plane;
use crate::common::power::{Disk, FileSystem, forget_boot};
use crate::common::{Server, Settings, needs, text, wait_until};

const MAP: &str = r#"<map><group name="default" keys="20000"/>
<biz id="1" name="count" key="integer"><limit policy="total" max="1000"/></biz></map>"#;
const KEYS: std::ops::Range<u64> = 0..3000;
const IMAGE_BYTES: u64 = 40 << 20;
const SECTOR_BYTES: u64 = 512;

/// A server whose live files are on a disk that may fail.
struct Machine {
    // Dropped before the file system of its image.
    disk: Disk,
    under: UnderDisk,
    plane: Plane,
}

/// A small file system in memory.
struct UnderDisk {
    at: PathBuf,
}

impl UnderDisk {
    fn mount(at: &Path) -> Option<UnderDisk> {
        std::fs::create_dir(at).expect("created");
        let size = format!("size={}", IMAGE_BYTES + (8 << 20));
        let mut mount = Command::new("mount");
        let output = mount.args(["-t", "tmpfs", "-o", &size, "frs-test"]).arg(at).output();
        if !output.is_ok_and(|output| output.status.success()) {
            needs::skip("mounting a tmpfs is not permitted");
            return None;
        }
        Some(UnderDisk { at: at.to_owned() })
    }

    fn image(&self) -> PathBuf {
        self.at.join("image")
    }

    /// Fills the file system: no block that the image lacks has room.
    fn fill(&self) {
        let mut filler = File::create(self.at.join("filler")).expect("created");
        while filler.write_all(&[1; 4096]).is_ok() {}
    }

    /// Makes room for every block at once. If the filler were removed, room would come page by
    /// page, and a write could find room for its first part only.
    fn widen(&self) {
        let size = format!("remount,size={}", 4 * IMAGE_BYTES);
        let output = Command::new("mount").args(["-o", &size]).arg(&self.at).output();
        let output = output.expect("mount runs");
        assert!(output.status.success(), "{output:?}");
    }
}

impl Drop for UnderDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.at).output();
    }
}

impl Machine {
    #[track_caller]
    fn new(flush: &str) -> Option<Machine> {
        let plane = Plane::new(2);
        let under = UnderDisk::mount(&plane.setup.path("under"))?;
        let image = under.image();
        File::create(&image).expect("created").set_len(IMAGE_BYTES).expect("sparse");
        let disk = Disk::mount_image(FileSystem::Ext4, &plane.setup.path("live"), &image)?;
        // mkfs has left holes, also in the journal.
        allocate(&image, &["-l".to_owned(), IMAGE_BYTES.to_string()]);
        let address = plane.address;
        let more = format!(
            "<admin listen=\"{address}\" token-file=\"conf/token\"/>\
             <data live=\"live\" flush=\"{flush}\"/><log level=\"info\"/>"
        );
        plane.setup.write_srv(&Settings { more, ..Settings::default() });
        plane.setup.write_map(MAP);
        Some(Machine { disk, under, plane })
    }

    fn start(&self) -> Server<'_> {
        self.plane.setup.start()
    }

    /// A server that has counted a use of each key, but can write none of them.
    fn start_and_break(&self) -> Server<'_> {
        let server = self.start();
        self.wait_for_health(200);
        self.break_disk();
        charge_all(&mut server.client(), "count", KEYS);
        self.wait_for_health(503);
        server
    }

    /// Ends the server, which then writes the pages that its flushes could not.
    fn stop(&self, mut server: Server<'_>) {
        let stopped = self.plane.setup.frs(&["stop"]);
        assert!(stopped.status.success(), "{}", text(&stopped.stderr));
        assert!(server.wait().success());
    }

    fn group_files(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.plane.setup.path("live")).expect("readable");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        let files: Vec<_> =
            paths.filter(|path| path.to_string_lossy().ends_with(".mmap")).collect();
        assert!(!files.is_empty());
        files
    }

    /// From now on no page of a group file can be written. The holes cover whole files, because a
    /// loop device reports success for a write of which only the first part finds room.
    fn break_disk(&self) {
        for path in self.group_files() {
            for [start, bytes] in extents_of(&path) {
                let hole = ["-p", "-o", &start.to_string(), "-l", &bytes.to_string()];
                allocate(&self.under.image(), &hole.map(str::to_owned));
            }
        }
        self.under.fill();
    }

    fn health(&self) -> u16 {
        self.plane.get("/health").status
    }

    fn wait_for_health(&self, status: u16) {
        wait_until("health is as the disk", || (self.health() == status).then_some(()));
    }

    /// Cuts the power after the server has ended. Returns the number of keys that are there.
    fn keys_after_a_cut(&self) -> usize {
        self.disk.stop_writing();
        self.disk.start_again();
        forget_boot(&self.plane.setup.path("data"));
        let server = self.start();
        let used = used_of_all(&mut server.client(), "count", KEYS);
        assert!(used.values().all(|&used| used == 1));
        used.len()
    }

    /// Whether any group file is marked clean.
    fn is_any_clean(&self) -> bool {
        self.group_files().iter().any(|path| load(&open(path), GROUP_CLEAN) == 1)
    }
}

fn allocate(image: &Path, arguments: &[String]) {
    let output = Command::new("fallocate").args(arguments).arg(image).output();
    let output = output.expect("fallocate runs");
    assert!(output.status.success(), "{output:?}");
}

/// The extents of a file in the image, each as its first byte and its number of bytes.
fn extents_of(path: &Path) -> Vec<[u64; 2]> {
    let output = Command::new("xfs_io").args(["-r", "-c", "fiemap"]).arg(path).output();
    let output = output.expect("xfs_io runs");
    // `0: [0..15]: 2048..2063`, in sectors.
    let range = |text: &str| {
        let (from, to) = text.trim_matches(['[', ']', ':']).split_once("..")?;
        Some([from.parse::<u64>().ok()?, to.parse::<u64>().ok()?])
    };
    let lines = text(&output.stdout);
    let extents = lines.lines().filter_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (_logical, [from, to]) = (fields.next()?, range(fields.next()?)?);
        Some([from, to + 1 - from].map(|sectors| sectors * SECTOR_BYTES))
    });
    let extents: Vec<_> = extents.collect();
    assert!(!extents.is_empty(), "{lines}");
    extents
}

// Shows: failed-writes.
#[test]
fn what_could_not_be_written_is_written_before_health_is_good() {
    let Some(machine) = Machine::new("100ms") else { return };
    let mut server = machine.start_and_break();
    machine.under.widen();
    machine.wait_for_health(200);
    machine.disk.stop_writing();
    server.kill_all_and_wait();
    assert_eq!(machine.keys_after_a_cut(), 3000, "{}", machine.plane.setup.log());
}

// Shows: failed-writes.
#[test]
fn a_keeper_that_is_killed_passes_on_what_could_not_be_written() {
    let Some(machine) = Machine::new("100ms") else { return };
    let mut server = machine.start_and_break();
    // The server starts again in the same boot, with pages that the kernel takes for clean.
    server.kill_all_and_wait();
    drop(server);
    machine.under.widen();
    let mut server = machine.start();
    machine.wait_for_health(200);
    machine.disk.stop_writing();
    server.kill_all_and_wait();
    assert_eq!(machine.keys_after_a_cut(), 3000, "{}", machine.plane.setup.log());
}

// Shows: failed-writes.
#[test]
fn a_stop_that_leaves_something_unwritten_fails_and_marks_nothing_clean() {
    let Some(machine) = Machine::new("100ms") else { return };
    let mut server = machine.start_and_break();
    let stopped = machine.plane.setup.frs(&["stop"]);
    let said = text(&stopped.stderr);
    assert!(!stopped.status.success() && said.contains("not all that was counted"), "{said}");
    assert!(!server.wait().success());
    drop(server);
    assert!(!machine.is_any_clean());
    // The disk has room again, and the next end writes these pages.
    machine.under.widen();
    machine.stop(machine.start());
    assert!(machine.is_any_clean());
    assert_eq!(machine.keys_after_a_cut(), 3000, "{}", machine.plane.setup.log());
}

// Shows: failed-writes.
#[test]
fn the_end_writes_what_a_flush_could_not() {
    let Some(machine) = Machine::new("100ms") else { return };
    let server = machine.start_and_break();
    machine.under.widen();
    machine.stop(server);
    assert_eq!(machine.keys_after_a_cut(), 3000, "{}", machine.plane.setup.log());
}
