//! Runs the inputs kept from fuzzing, so that a change that breaks one is found without a fuzzer.
//! `just fuzz` searches for new ones.

use std::fs::File;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use tar::Archive;

#[path = "../../fuzz/src/lib.rs"]
mod targets;

fn corpus() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("tests/corpus")
}

/// The kept inputs of a target with their names.
fn inputs_of(target: &str) -> Vec<(String, Vec<u8>)> {
    let path = corpus().join(target).with_extension("tar");
    let file = File::open(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    let mut archive = Archive::new(file);
    let entries = archive.entries().expect("an archive");
    entries
        .map(|entry| {
            let mut entry = entry.expect("an entry");
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).expect("read");
            (entry.path().expect("a name").display().to_string(), bytes)
        })
        .collect()
}

// Shows: bad-input, inspection.
#[test]
fn every_kept_input_passes_its_target() {
    for targets::Target { name, run } in targets::TARGETS {
        let inputs = inputs_of(name);
        assert!(!inputs.is_empty(), "nothing is kept of {name}");
        for (input, bytes) in inputs {
            let passed = catch_unwind(AssertUnwindSafe(|| run(&bytes)));
            assert!(passed.is_ok(), "target {name}: {input}");
        }
    }
}

/// The corpus is part of the repository, and each `cargo test` reads it.
#[test]
fn the_corpus_is_small() {
    let (mut bytes, mut inputs) = (0, 0);
    for targets::Target { name, .. } in targets::TARGETS {
        for (_, input) in inputs_of(name) {
            bytes += input.len();
            inputs += 1;
        }
    }
    assert!(bytes <= 1 << 20 && inputs <= 3000, "{inputs} inputs of {bytes} bytes");
    let archives = std::fs::read_dir(corpus()).expect("a directory").count();
    assert_eq!(archives, targets::TARGETS.len(), "one archive for each target");
}
