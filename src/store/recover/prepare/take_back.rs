//! Removes the files that a preparation has made, if its configuration is refused.
//!
//! Invariant: removes only files that did not exist before the preparation, and uses file calls
//! only, because the master, which maps no group, calls it.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use frs_conf::Conf;

use super::live_dir;
use crate::checkpoint;
use crate::checkpoint::dirty::Side;
use crate::error::Error;
use crate::file::group::{self, FileSet};
use crate::file::words::remove_if_there;
use crate::grow::next_files;
use crate::grow::staging::remove_numbered;
use crate::watch::runtime::Runtime;

/// The files that the groups of a configuration lacked before it was prepared.
#[derive(Debug, Default)]
pub struct FilesBefore {
    live: PathBuf,
    data: PathBuf,
    makes_checkpoints: bool,
    /// Groups without files that the configuration in force does not name.
    absent: Vec<Absent>,
    /// Groups without next files.
    unmoved: Vec<String>,
}

/// A group that has no live files.
#[derive(Debug)]
struct Absent {
    name: String,
    has_checkpoint: bool,
}

impl FilesBefore {
    /// Looks at the files of the groups of `conf`. `in_force` is the configuration that is served.
    pub fn look(conf: &Conf, in_force: &Conf) -> FilesBefore {
        let (live, data) = (live_dir(conf), &conf.srv.data.dir);
        let names = || conf.map.groups.iter().map(|group| &group.name);
        let is_served =
            |name: &&String| in_force.map.groups.iter().any(|served| served.name == **name);
        let has_files =
            |name: &str| group::is_there(live, name) || group::is_unfinished(live, name);
        let is_absent = |name: &&String| !is_served(name) && !has_files(name);
        let has_checkpoint = |name: &str| {
            conf.srv.data.checkpoint.is_some()
                && !matches!(checkpoint::find(data, name), Ok(checkpoint::Found::Nothing))
        };
        let absent = names().filter(is_absent);
        let absent =
            absent.map(|name| Absent { name: name.clone(), has_checkpoint: has_checkpoint(name) });
        let unmoved = names().filter(|name| !group::is_next_there(live, name));
        FilesBefore {
            live: live.to_owned(),
            data: data.clone(),
            makes_checkpoints: conf.srv.data.checkpoint.is_some(),
            absent: absent.collect(),
            unmoved: unmoved.cloned().collect(),
        }
    }

    /// Removes the files that were made since, and their entries in the register. The preparation
    /// must have ended.
    ///
    /// # Errors
    /// A file cannot be removed. The others are removed.
    pub fn take_back(&self, runtime: &Runtime) -> Result<(), Error> {
        let moves = self.unmoved.iter().map(|name| remove_next(&self.live, name, runtime));
        let groups = self.absent.iter().map(|absent| self.remove(absent, runtime));
        // Tries all of them before it returns the first error.
        moves.chain(groups).collect::<Vec<_>>().into_iter().collect()
    }

    fn remove(&self, absent: &Absent, runtime: &Runtime) -> Result<(), Error> {
        let Absent { name, has_checkpoint } = absent;
        // First, so that no process opens files that are about to go.
        runtime.forget_named(name);
        remove_if_there(&group::path_of(&self.live, name, 0))?;
        for end in [".mmap", ".mmap.new", ".dirty", ".dirty.new"] {
            remove_numbered(&self.live, name, end, |_| true)?;
        }
        if *has_checkpoint || !self.makes_checkpoints {
            return Ok(());
        }
        Side::BOTH.into_iter().try_for_each(|side| checkpoint::remove(&self.data, name, side))
    }
}

/// Disk space, in bytes, of next files that an interrupted preparation has left for a group that
/// does not move. The next preparation removes them first.
pub fn left_bytes(live: &Path, name: &str) -> u64 {
    let start = format!("{name}.");
    let is_left = |path: &Path| {
        let file = path.file_name().and_then(|file| file.to_str()).unwrap_or_default();
        let rest = file.strip_prefix(&start).unwrap_or_default();
        [".next.mmap", ".mmap.new"].iter().any(|end| rest.ends_with(end))
    };
    let entries = std::fs::read_dir(live).into_iter().flatten().flatten();
    let files = entries.filter(|entry| is_left(&entry.path()));
    files.filter_map(|entry| entry.metadata().ok()).map(|there| there.blocks() * 512).sum()
}

/// Removes the next files of a group.
fn remove_next(live: &Path, name: &str, runtime: &Runtime) -> Result<(), Error> {
    // First, so that no process opens files that are about to go.
    if group::is_next_there(live, name)
        && let Ok(next) = group::open_files_of(live, name, FileSet::Next)
    {
        runtime.forget_group(next.header.id);
    }
    next_files::remove(live, name)?;
    remove_numbered(live, name, ".next.dirty.new", |_| true)
}
