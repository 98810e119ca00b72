//! The programs of other packages, built and found where these tests were built.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// A tool's program. Cargo builds it if it is missing or older than its sources, once per process.
pub fn tool(name: &str) -> PathBuf {
    built(name, &["--package", name]).join(name)
}

/// Builds packages with cargo, once. Returns the directory of the binaries.
pub fn built(name: &str, which: &[&str]) -> &'static Path {
    static BUILT: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let directory = Path::new(env!("CARGO_BIN_EXE_frs")).parent().expect("a directory of binaries");
    // After a panic the list is still complete: a build is added when it has ended.
    let mut built = BUILT.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if !built.iter().any(|known| known == name) {
        build(which, directory);
        built.push(name.to_owned());
    }
    directory
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
