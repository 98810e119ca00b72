//! Runs the inputs that fuzzing kept, so a change that breaks one is noticed without a fuzzer.
//! `just fuzz` looks for new ones.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

#[path = "../../fuzz/src/lib.rs"]
mod targets;

fn corpus() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("tests/corpus")
}

fn files_of(directory: &Path) -> Vec<PathBuf> {
    let entries =
        std::fs::read_dir(directory).unwrap_or_else(|error| panic!("{directory:?}: {error}"));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files
}

// Shows: bad-input, inspection.
#[test]
fn every_kept_input_passes_its_target() {
    for targets::Target { name, run } in targets::TARGETS {
        let files = files_of(&corpus().join(name));
        assert!(!files.is_empty(), "nothing is kept of {name}");
        for path in files {
            let bytes = std::fs::read(&path).expect("read");
            let passed = catch_unwind(AssertUnwindSafe(|| run(&bytes)));
            assert!(passed.is_ok(), "target {name}: {}", path.display());
        }
    }
}

/// The corpus is kept in the repository, and is read at each `cargo test`.
#[test]
fn the_corpus_is_small() {
    let (mut bytes, mut files) = (0, 0);
    for targets::Target { name, .. } in targets::TARGETS {
        for path in files_of(&corpus().join(name)) {
            bytes += path.metadata().expect("it is there").len();
            files += 1;
        }
    }
    assert!(bytes <= 1 << 20 && files <= 3000, "{files} files of {bytes} bytes");
    let kept: Vec<PathBuf> = files_of(&corpus());
    assert_eq!(kept.len(), targets::TARGETS.len(), "directories of no target: {kept:?}");
}
