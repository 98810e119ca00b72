//! The Python package beside real servers: the tests of `bindings/python/tests`, each module of
//! them in one interpreter, and the first use as docs/python.md shows it.
//!
//! They need python3 and what `.ci/python` builds: FRS_PYTHON names another folder with the
//! package.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use crate::common::{needs, text};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The folder of the installed package. It is newer than all that it is made of.
#[track_caller]
fn site() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("FRS_PYTHON") {
        return Some(PathBuf::from(named));
    }
    let site = Path::new(ROOT).join("target/python/site");
    let Ok(built) = modified(&site.join("frs/_frs.abi3.so")) else {
        needs::skip("the Python package is not built: run .ci/python");
        return None;
    };
    let sources = ["bindings/python/src", "bindings/python/python/frs", "src/core"];
    let newer = sources.iter().find_map(|source| newer(&Path::new(ROOT).join(source), built));
    if let Some(newer) = newer {
        let newer = newer.display();
        needs::skip(&format!("the Python package is older than {newer}: run .ci/python"));
        return None;
    }
    Some(site)
}

fn modified(path: &Path) -> std::io::Result<SystemTime> {
    path.metadata()?.modified()
}

/// A source below a folder that is newer than this.
fn newer(folder: &Path, built: SystemTime) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("readable").flatten();
    entries.map(|entry| entry.path()).find_map(|path| {
        if path.is_dir() {
            return newer(&path, built);
        }
        let is_source =
            ["rs", "py", "pyi"].iter().any(|kind| path.extension() == Some(kind.as_ref()));
        (is_source && modified(&path).expect("a time") > built).then_some(path)
    })
}

/// A Python that imports the package; none if there is none.
#[track_caller]
fn python(folder: &str) -> Option<Command> {
    let site = site()?;
    let asks = "import sys; sys.exit(sys.version_info < (3, 11))";
    let version = needs::output(Command::new("python3").args(["-c", asks]))?;
    if !version.status.success() {
        needs::skip("python3 is older than 3.11");
        return None;
    }
    let mut command = Command::new("python3");
    command
        .current_dir(Path::new(ROOT).join(folder))
        .env("PYTHONPATH", site)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("FRS", env!("CARGO_BIN_EXE_frs"));
    Some(command)
}

/// Runs a module of tests. All of them pass, and none is left out.
#[track_caller]
fn run(module: &str) {
    let Some(mut python) = python("bindings/python/tests") else { return };
    let output = python.args(["-m", "unittest", module]).output().expect("python3 starts");
    let said = text(&output.stderr);
    assert!(output.status.success() && said.contains("\nRan "), "{said}{}", text(&output.stdout));
    if said.contains("skipped=") {
        needs::say_skipped(&said);
    }
}

#[test]
fn a_session_and_every_attribute_of_a_verdict() {
    run("test_session");
}

#[test]
fn each_error_has_its_class_its_word_and_a_text() {
    run("test_errors");
}

#[test]
fn threads_and_tasks_admit_exactly_what_is_allowed() {
    run("test_threads");
}

#[test]
fn a_client_attached_before_a_fork_works_after_it_and_under_gunicorn() {
    run("test_fork");
}

#[test]
fn a_client_outlives_stops_kills_upgrades_and_its_files() {
    run("test_life");
}

#[test]
fn the_manual_and_the_example_do_what_they_show() {
    run("test_docs");
}

#[test]
fn the_types_are_those_of_the_module() {
    run("test_types");
}
