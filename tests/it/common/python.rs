//! The Python package, and an interpreter that imports it.
//!
//! Needs python3 and the package that `.ci/python` builds. FRS_PYTHON names another folder with the
//! package.

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
    let sources = floors.iter().chain(&["bindings/python/src", "bindings/python/python/frs"]);
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
