//! Putting the files of a stopped server right: what cannot be believed is dropped.
//!
//! Invariant: afterwards a start serves, or everything that is in its way is named, and what its
//! removal costs.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::Error;
use super::error::with_sources;
use crate::conf::{Conf, Overlay, active};
use crate::store::{self, Report, Runtime};

/// What [`repair`] did.
#[derive(Debug, Default)]
pub struct Repaired {
    /// Dead slots whose transactions were undone.
    pub recovered_slots: usize,
    /// Each group of the configuration that has files: what was found and put right, or why it
    /// cannot be.
    pub groups: Vec<(String, Result<Report, store::Error>)>,
}

/// What is not what it must be, and is not repaired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    /// What is to be removed.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: String,
    /// What is lost with it.
    pub cost: &'static str,
}

/// Undoes what the dead left half done, then scans every group of a configuration. The caller
/// holds the lock of the data directory, so that no server starts meanwhile.
///
/// # Errors
/// A process is still attached, or runtime.mmap is not to be had.
pub fn repair(conf: &Conf) -> Result<Repaired, Error> {
    let runtime = Runtime::create_or_open(&conf.srv.data.dir)?;
    let recovered_slots = store::recover_alone(conf)?;
    // Nobody attaches before the last group is right: a scan frees semaphores.
    let Some(_alone) = runtime.keep_alone()? else {
        let reason = "the files are to be repaired".to_owned();
        return Err(store::Error::Attached { path: runtime.path().to_owned(), reason }.into());
    };
    let exists = |name: &str| {
        let first: &Path = &store::group::path_of(store::live_dir(conf), name, 0);
        first.exists()
    };
    let named = conf.map.groups.iter().filter(|group| exists(&group.name));
    let scan =
        |group: &crate::conf::Group| (group.name.clone(), store::scan_group(conf, &group.name));
    Ok(Repaired { recovered_slots, groups: named.map(scan).collect() })
}

/// Writes down again what was switched and reset, where that cannot be read: each published
/// configuration holds it, too. Whether it did. The caller holds the lock of the data directory.
///
/// # Errors
/// It cannot be written.
pub fn restore_overlay(data_dir: &Path) -> Result<bool, Error> {
    let is_damaged = Overlay::read(data_dir).is_err();
    let Some(overlay) = is_damaged.then(|| published_overlay(data_dir)).flatten() else {
        return Ok(false);
    };
    // A directory would not give way.
    if Overlay::path_in(data_dir).is_dir() {
        return Ok(false);
    }
    overlay.write(data_dir)?;
    Ok(true)
}

/// That of the latest generation, for an older one may know less.
fn published_overlay(data_dir: &Path) -> Option<Overlay> {
    let latest = active::latest(data_dir).ok()??;
    active::read_overlay(data_dir, latest).ok()
}

/// Everything in a data directory that keeps a server from starting, or a tool from reading what it
/// should, but for the files of groups.
pub fn obstacles(data_dir: &Path) -> Vec<Obstacle> {
    let mut found = Vec::new();
    let mut add = |path: PathBuf, reason: String, cost| {
        found.push(Obstacle { path, reason, cost });
    };
    if let Err(error) = Overlay::read(data_dir) {
        let cost = "what businesses have counted since they were reset (records from before that \
                    count again), and `degrade` if it was switched on";
        add(Overlay::path_in(data_dir), without_path(&error, data_dir), cost);
    }
    for generation in active::all(data_dir).unwrap_or_default() {
        if let Err(error) = active::read(data_dir, generation) {
            let cost = "nothing: a start writes another from srv.xml and map.xml";
            add(active::path(data_dir, generation), without_path(&error, data_dir), cost);
        }
    }
    let runtime = Runtime::path_in(data_dir);
    if let Some(reason) = not_regular(&runtime) {
        let cost = "what was counted for metrics, and what is open is not undone: a start looks \
                    at all nodes and drops those that are half written";
        add(runtime, reason, cost);
    }
    const PASSING: [&str; 8] = [
        "lock",
        "reload",
        "asked",
        "reload.new",
        "asked.new",
        "overlay.new",
        "conf.active.tmp",
        "runtime.mmap.new",
    ];
    for path in PASSING.map(|name| data_dir.join(name)) {
        if let Some(reason) = not_regular(&path) {
            add(path, reason, "nothing");
        }
    }
    found
}

/// What a path is, if there is anything and no regular file.
fn not_regular(path: &Path) -> Option<String> {
    match crate::base::sys::open_to_read(path) {
        Ok(_) => None,
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => Some(error.to_string()),
    }
}

/// The words of an error about a file, but for the path that they begin with.
fn without_path(error: &dyn std::error::Error, data_dir: &Path) -> String {
    let words = with_sources(error);
    let behind = words.strip_prefix(&*data_dir.to_string_lossy());
    let behind = behind.and_then(|words| Some(words.split_once(':')?.1.trim_start().to_owned()));
    behind.unwrap_or(words)
}
