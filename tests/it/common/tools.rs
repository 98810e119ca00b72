//! The programs and libraries of other packages, built and found where these tests were built.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::SystemTime;

/// All that programs are made of.
const SOURCES: [&str; 5] = ["src", "tools", "bindings/c", "Cargo.toml", "Cargo.lock"];

/// A tool's program.
pub fn tool(name: &str) -> PathBuf {
    built(name, &["--package", name])
}

/// A product of cargo, named from the directory of the binaries on. `cargo test` makes most of
/// them. One that is missing or older than any source is built, once per process.
pub fn built(product: &str, which: &[&str]) -> PathBuf {
    static BUILT: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let directory = Path::new(env!("CARGO_BIN_EXE_frs")).parent().expect("a directory of binaries");
    let path = directory.join(product);
    // A panic while it was locked leaves nothing half done.
    let mut built = BUILT.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if !built.iter().any(|known| known == product) {
        if !is_fresh(&path) {
            build(which, directory);
        }
        built.push(product.to_owned());
    }
    path
}

/// Whether no source has changed since a file was made.
fn is_fresh(path: &Path) -> bool {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let made = fs::metadata(path).and_then(|made| made.modified());
    made.is_ok_and(|made| SOURCES.iter().all(|source| is_older(&root.join(source), made)))
}

/// Whether a file, or each file below a directory, is older than a time.
fn is_older(path: &Path, time: SystemTime) -> bool {
    match fs::read_dir(path) {
        Ok(entries) => entries.flatten().all(|entry| is_older(&entry.path(), time)),
        Err(_) => {
            let changed = fs::metadata(path).and_then(|found| found.modified());
            changed.is_ok_and(|changed| changed < time)
        }
    }
}

fn build(which: &[&str], directory: &Path) {
    let profile = directory.file_name().and_then(|name| name.to_str()).expect("a profile");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .args(["build", "--quiet"])
        .args(which)
        .args(["--profile", if profile == "debug" { "dev" } else { profile }])
        .arg("--target-dir")
        .arg(directory.parent().expect("a target directory"))
        .output()
        .expect("cargo runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{which:?} is not built: {said}");
}
