//! Repairs the files of a stopped server: drops what is damaged.
//!
//! Invariant: afterwards a start succeeds, or every obstacle is named, with the cost of its
//! removal.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use frs_base::causes::with_causes;
use frs_conf::{Conf, Overlay, active};
use frs_store::{self as store, Report, Runtime};

use super::Error;

/// What [`repair`] did.
#[derive(Debug, Default)]
pub struct Repaired {
    /// Dead slots whose transactions were undone.
    pub recovered_slots: usize,
    /// Each group of the configuration that has files: what was found and repaired, or why it
    /// cannot be.
    pub groups: Vec<(String, Result<Report, store::Error>)>,
}

/// A path that is faulty, and that is not repaired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    /// The path to remove.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: String,
    /// The loss that its removal causes.
    pub cost: &'static str,
}

/// Undoes the unfinished work of dead processes, then scans every group of a configuration. The
/// caller holds the lock of the data directory, so no server starts meanwhile.
///
/// # Errors
/// A process is still attached, or runtime.mmap is unavailable.
pub fn repair(conf: &Conf) -> Result<Repaired, Error> {
    let runtime = Runtime::create_or_open(&conf.srv.data.dir)?;
    let recovered_slots = store::recover_alone(conf)?;
    // No process may attach before the last group is repaired: a scan frees semaphores.
    let Some(_alone) = runtime.keep_alone()? else {
        let reason = "the files are to be repaired".to_owned();
        return Err(store::Error::Attached { path: runtime.path().to_owned(), reason }.into());
    };
    // Any entry with the name of its first file counts, even a link to nowhere.
    let is_there = |name: &str| store::group::is_there(store::live_dir(conf), name);
    let named = conf.map.groups.iter().filter(|group| is_there(&group.name));
    let scan = |group: &frs_conf::Group| (group.name.clone(), store::scan_group(conf, &group.name));
    Ok(Repaired { recovered_slots, groups: named.map(scan).collect() })
}

/// Writes the overlay again if it cannot be read: each published configuration holds it, too.
/// Returns whether it did. The caller holds the lock of the data directory.
///
/// # Errors
/// The overlay cannot be written.
pub fn restore_overlay(data_dir: &Path) -> Result<bool, Error> {
    let is_damaged = Overlay::read(data_dir).is_err();
    let Some(overlay) = is_damaged.then(|| published_overlay(data_dir)).flatten() else {
        return Ok(false);
    };
    // A rename cannot replace a directory.
    if Overlay::path_in(data_dir).is_dir() {
        return Ok(false);
    }
    overlay.write(data_dir)?;
    Ok(true)
}

/// The overlay of the latest generation, because an older one may lack changes.
fn published_overlay(data_dir: &Path) -> Option<Overlay> {
    let latest = active::latest(data_dir).ok()??;
    active::read_overlay(data_dir, latest).ok()
}

/// Everything in a data directory that keeps a server from starting, or a tool from reading what it
/// should, except the files of groups.
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
    const PASSING: [&str; 4] = ["lock", "overlay.new", "conf.active.tmp", "runtime.mmap.new"];
    for path in PASSING.map(|name| data_dir.join(name)) {
        if let Some(reason) = not_regular(&path) {
            add(path, reason, "nothing");
        }
    }
    found
}

/// The kind of a path that exists and is not a regular file.
fn not_regular(path: &Path) -> Option<String> {
    match frs_base::sys::open_to_read(path) {
        Ok(_) => None,
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => Some(error.to_string()),
    }
}

/// The words of an error about a file, without the path at their beginning.
fn without_path(error: &dyn std::error::Error, data_dir: &Path) -> String {
    let words = with_causes(error);
    let behind = words.strip_prefix(&*data_dir.to_string_lossy());
    let behind = behind.and_then(|words| Some(words.split_once(':')?.1.trim_start().to_owned()));
    behind.unwrap_or(words)
}
