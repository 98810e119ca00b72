//! The Python packages, and an interpreter that imports them.
//!
//! Needs python3 and the packages that `.ci/python` builds. FRS_PYTHON names another folder with
//! the package frs-limiter, beside which the folder `limits` holds frs-limits.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use super::needs;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The folder of the installed package. The package must be newer than its sources.
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
    let floors = [
        "src/base",
        "src/conf",
        "src/store",
        "src/limit",
        "src/engine",
        "src/cluster",
        "src/client",
    ];
    let packages =
        ["bindings/python/src", "bindings/python/python/frs", "bindings/frs-limits/frs_limits"];
    let sources = floors.iter().chain(&packages);
    let newer = sources.into_iter().find_map(|source| newer(&Path::new(ROOT).join(source), built));
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

/// A source below a folder that is newer than `built`.
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

/// A Python that imports the package, in a folder of the repository. `None` if there is no Python.
#[track_caller]
pub fn python(folder: &str) -> Option<Command> {
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

/// A Python that also imports frs-limits and what its tests need, in the folder of these tests.
#[track_caller]
pub fn limits() -> Option<Command> {
    let mut command = python("bindings/frs-limits/tests")?;
    let site = site()?;
    let limits = site.with_file_name("limits");
    let path = std::env::join_paths([&limits, &site]).expect("folders without a colon");
    command.env("PYTHONPATH", path).env("FRS_LIMITS_SOURCE", limits.join("limits-source"));
    Some(command)
}
