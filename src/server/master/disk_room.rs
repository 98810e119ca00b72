//! Whether the disk has room for the new files of a configuration.
//!
//! Invariant: it only reads. `frs check` and the reload use the same checks.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use frs_base::figures::bytes;
use frs_conf::memory_bound::runtime_bytes;
use frs_conf::{Conf, Group};
use frs_engine::inspect::MovePlan;
use frs_store::{self as store, Runtime};

/// The groups that have no files.
pub(super) fn new_groups(conf: &Conf) -> Vec<&Group> {
    let live = store::live_dir(conf);
    let is_there = |group: &&Group| {
        store::live_geometry(live, &group.name).is_some()
            || store::path_of(live, &group.name, 0).exists()
    };
    conf.map.groups.iter().filter(|group| !is_there(group)).collect()
}

/// A directory, and the bytes that new files in it need.
struct Need<'d> {
    dir: &'d Path,
    bytes: u64,
}

/// Why there is too little room for the new files of a configuration: those of new groups, those
/// that groups move to, and the places of processes. `None` if there is room, or if the free space
/// is unknown.
pub(super) fn lacking_room(conf: &Conf, plans: &[MovePlan]) -> Option<String> {
    let (live, data) = (store::live_dir(conf), &conf.srv.data.dir);
    let new = new_groups(conf);
    let made: u64 = new.iter().map(|group| group.geometry.group_bytes()).sum();
    let plans = || plans.iter().filter(|plan| plan.refusal.is_none());
    let moved: u64 = plans().map(|plan| plan.needed_bytes).sum();
    let names = new.iter().map(|group| &group.name).chain(plans().map(|plan| &plan.name));
    let left: u64 = names.map(|name| store::left_bytes(live, name)).sum();
    let files = Need { dir: live, bytes: (made + moved).saturating_sub(left) };
    // Bytes of the places of processes that are not allocated yet.
    let there = std::fs::metadata(Runtime::path_in(data)).map_or(0, |there| there.blocks() * 512);
    let places = Need { dir: data, bytes: runtime_bytes(conf).saturating_sub(there) };
    let needs = match (disk_of(live), disk_of(data)) {
        (Some(one), Some(other)) if one == other => {
            vec![Need { bytes: files.bytes + places.bytes, ..files }]
        }
        _ => vec![files, places],
    };
    needs.into_iter().find_map(|Need { dir, bytes: needed }| {
        let free = free_bytes(dir, conf).filter(|&free| free < needed)?;
        let (free, needed) = (bytes(free), bytes(needed));
        Some(format!("{}: {free} free, and the new files need {needed}", dir.display()))
    })
}

/// Why there is too little room for the checkpoints of new files, even if the files themselves fit.
/// Both checkpoints of each file are counted. A growing group keeps its present checkpoints until
/// it has moved.
pub(super) fn lacking_checkpoint_room(conf: &Conf, plans: &[MovePlan]) -> Option<String> {
    let (live, data) = (store::live_dir(conf), &conf.srv.data);
    data.checkpoint?;
    let is_empty = |group: &&Group| matches!(store::restorable(&data.dir, &group.name), Ok(None));
    let new: Vec<&Group> = new_groups(conf).into_iter().filter(is_empty).collect();
    let moved =
        |group: &&Group| plans.iter().any(|plan| plan.name == group.name && plan.needed_bytes > 0);
    let grown = conf.map.groups.iter().filter(moved);
    let both = new.iter().copied().chain(grown).map(|group| group.geometry.checkpoint_bytes());
    let checkpoints: u64 = both.sum();
    let is_shared = disk_of(live).is_some() && disk_of(live) == disk_of(&data.dir);
    let made = new.iter().map(|group| group.geometry.group_bytes());
    let files: u64 = made.chain(plans.iter().map(|plan| plan.needed_bytes)).sum();
    let (needed, what) = match is_shared {
        true => (files + checkpoints, "the new files and their checkpoints"),
        false => (checkpoints, "the checkpoints of the new files"),
    };
    let free = free_bytes(&data.dir, conf).filter(|&free| checkpoints > 0 && free < needed)?;
    let (dir, free, needed) = (data.dir.display(), bytes(free), bytes(needed));
    Some(format!("{dir}: {free} free, and {what} need {needed}"))
}

/// The device of a directory, or of the one in which it would be made.
fn disk_of(dir: &Path) -> Option<u64> {
    Some(std::fs::metadata(existing(dir)?).ok()?.dev())
}

/// The nearest directory that exists.
fn existing(dir: &Path) -> Option<&Path> {
    let named = |dir: &'_ Path| !dir.as_os_str().is_empty();
    let mut all = dir.ancestors().map(|dir| if named(dir) { dir } else { Path::new(".") });
    all.find(|dir| dir.exists())
}

/// Bytes of the disk that the server's processes may still use. Root may also use the reserved
/// blocks.
pub(super) fn free_bytes(dir: &Path, conf: &Conf) -> Option<u64> {
    let disk = nix::sys::statvfs::statvfs(existing(dir)?).ok()?;
    let is_root = nix::unistd::geteuid().is_root() && conf.srv.user.is_none();
    let blocks = if is_root { disk.blocks_free() } else { disk.blocks_available() };
    Some(blocks.saturating_mul(disk.fragment_size()))
}
