//! Helpers of the tests of all floors: skips, sparse copies, variables of the environment.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

use nix::errno::Errno;
use nix::unistd::{Whence, lseek};

/// A variable that a test sets for the program it starts. Panics if it is not set.
pub fn told(name: &str) -> String {
    std::env::var(name)
        .unwrap_or_else(|_| panic!("no test: {name} is set by the one that starts it"))
}

/// Reports that this thread's test cannot run, and the reason. With FRS_REQUIRE_ALL=1 it fails
/// instead.
#[track_caller]
pub fn skip(why: &str) {
    let all_must_run = std::env::var_os("FRS_REQUIRE_ALL").is_some_and(|value| value == "1");
    assert!(!all_must_run, "{why}");
    say_skipped(why);
}

/// Reports that this thread's test leaves out a part that this machine cannot run. Never fails.
pub fn say_skipped(why: &str) {
    let thread = std::thread::current();
    // Not by a macro: the harness shows a macro's output for failed tests only.
    let _ = writeln!(std::io::stderr(), "SKIPPED {}: {why}", thread.name().unwrap_or("a test"));
}

/// The contents of a file without its holes. A runtime.mmap is gigabytes long and nearly all hole.
pub struct SparseCopy {
    len: u64,
    extents: Vec<(u64, Vec<u8>)>,
}

impl SparseCopy {
    /// Copies a file.
    pub fn of(path: &Path) -> SparseCopy {
        let file = File::open(path).expect("opened");
        let extents = extents(&file)
            .into_iter()
            .map(|(start, end)| {
                let mut bytes = vec![0; (end - start) as usize];
                file.read_exact_at(&mut bytes, start).expect("read");
                (start, bytes)
            })
            .collect();
        SparseCopy { len: file.metadata().expect("looked at").len(), extents }
    }

    /// Overwrites a file in place, or makes it.
    pub fn write_to(&self, path: &Path) {
        let mut options = OpenOptions::new();
        let file = options.write(true).read(true).create(true).truncate(false).open(path);
        let file = file.expect("opened");
        file.set_len(self.len).expect("sized");
        for (start, end) in extents(&file) {
            file.write_all_at(&vec![0; (end - start) as usize], start).expect("written");
        }
        for (start, bytes) in &self.extents {
            file.write_all_at(bytes, *start).expect("written");
        }
    }
}

/// Where a file has data: starts and ends.
fn extents(file: &File) -> Vec<(u64, u64)> {
    let mut extents = Vec::new();
    let mut end = 0;
    loop {
        let start = match lseek(file, end as i64, Whence::SeekData) {
            Ok(start) => start as u64,
            Err(Errno::ENXIO) => return extents,
            Err(error) => panic!("cannot look for data: {error}"),
        };
        end = lseek(file, start as i64, Whence::SeekHole).expect("an end") as u64;
        extents.push((start, end));
    }
}

/// Whether this process can act as other users. Reports it if not.
#[track_caller]
pub fn is_root() -> bool {
    let is_root = nix::unistd::Uid::effective().is_root();
    if !is_root {
        skip("it needs root, to act as other users");
    }
    is_root
}
