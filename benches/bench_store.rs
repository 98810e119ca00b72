//! A store for a bench: files on tmpfs if there is one, a configuration in force, and no server.

use std::path::PathBuf;

use frs_conf::Texts;
use frs_store::Runtime;
use frs_store::testing::put_in_force;

// Crash points slow every store.
const _: () = assert!(!frs_store::HAS_CRASH_POINTS);

/// A directory for the files, below `FRS_BENCH_DIR`, /dev/shm or the directory of temporary files.
pub fn directory() -> tempfile::TempDir {
    let parent = std::env::var_os("FRS_BENCH_DIR").map(PathBuf::from).unwrap_or_else(|| {
        let memory = PathBuf::from("/dev/shm");
        if memory.is_dir() { memory } else { std::env::temp_dir() }
    });
    tempfile::tempdir_in(parent).expect("a directory for the files")
}

/// Makes the files for this map and puts it in force. `more` holds further elements of srv.xml.
/// `begin` is called before the groups are made.
pub fn fill(dir: &tempfile::TempDir, map: &str, more: &str, begin: impl FnOnce(&Runtime)) {
    fill_of(dir, map, &format!("<srv><data dir=\"{}\"/>{more}</srv>", dir.path().display()), begin);
}

/// Like [`fill`], with the whole srv.xml.
pub fn fill_of(dir: &tempfile::TempDir, map: &str, srv: &str, begin: impl FnOnce(&Runtime)) {
    begin(&Runtime::create_or_open(dir.path()).expect("a runtime"));
    put_in_force(dir.path(), &Texts::of(srv, map));
}
