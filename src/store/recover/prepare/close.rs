//! Closes a data directory cleanly, and checks its files. Both use file calls only, because the
//! master, which maps no group, calls them.
//!
//! Invariant: a file is marked clean only after all files of its group, next files included, were
//! written to the disk without an error: during a move some nodes are only in the next files. A
//! file in doubt is first written again as a whole.

use std::path::Path;

use frs_base::sys;
use frs_conf::Conf;

use super::live_dir;
use crate::error::{Error, io_error};
use crate::file::group::{self, FileSet, Marks, OpenFile, OpenGroup};
use crate::file::write_back::write_again;
use crate::watch::runtime::Runtime;

/// How a data directory was left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Closed {
    /// All files that can be opened are on disk, and marked clean.
    Clean,
    /// The files are on disk, but a process is still attached, so they are not marked clean.
    Attached,
    /// The files of these groups are not on disk as a whole, and not marked clean.
    NotOnDisk(Vec<String>),
}

/// Writes all files of `conf` to disk, and sets their clean marks if no slot is in use. A group
/// with damaged files is skipped; the next start scans or refuses it. This is the master's last
/// step, so it uses file calls only.
///
/// # Errors
/// runtime.mmap cannot be used. Nothing is marked clean.
pub fn close_clean(conf: &Conf) -> Result<Closed, Error> {
    let runtime = Runtime::open(&conf.srv.data.dir)?;
    let boot = sys::boot_id().map_err(io_error(runtime.path(), "read this boot's id"))?;
    // Held to the end, so that no process attaches meanwhile.
    let alone = runtime.keep_alone()?;
    let is_alone = alone.is_some();
    let closing = Closing { runtime: &runtime, is_alone, boot };
    let mut not_on_disk = Vec::new();
    for configured in &conf.map.groups {
        let name = &configured.name;
        let sets = open_all(live_dir(conf), name).unwrap_or_else(|error| {
            tracing::error!(group = name, %error, "the group is not marked clean");
            Vec::new()
        });
        if let Err(error) = closing.close(&sets) {
            tracing::error!(group = name, %error, "the group is not on disk");
            not_on_disk.push(name.clone());
        }
    }
    runtime.set_flush_failed(!not_on_disk.is_empty());
    if is_alone {
        // No process can attach without a server.
        runtime.publish(0);
    }
    if !not_on_disk.is_empty() {
        return Ok(Closed::NotOnDisk(not_on_disk));
    }
    Ok(if is_alone { Closed::Clean } else { Closed::Attached })
}

/// Opens the next files of a group, if it moves, and its named files.
fn open_all(live: &Path, name: &str) -> Result<Vec<OpenGroup>, Error> {
    let mut sets = Vec::new();
    if group::is_next_there(live, name) {
        sets.push(group::open_files_of(live, name, FileSet::Next)?);
    }
    sets.push(group::open_files(live, name)?);
    Ok(sets)
}

struct Closing<'a> {
    runtime: &'a Runtime,
    /// No process stores into a file.
    is_alone: bool,
    boot: [u64; 2],
}

impl Closing<'_> {
    fn close(&self, sets: &[OpenGroup]) -> Result<(), Error> {
        for OpenGroup { header, files } in sets {
            for (index, OpenFile { path, file }) in (0..).zip(files) {
                self.sync(path, file, self.runtime.find_file(header.id, index).map(|at| at.index))?;
            }
        }
        let marked = if self.is_alone { sets } else { &[] };
        marked.iter().try_for_each(|files| self.mark(files))
    }

    fn mark(&self, OpenGroup { header, files }: &OpenGroup) -> Result<(), Error> {
        let known = self.runtime.find_file(header.id, 0);
        let is_served = known.is_some_and(|known| !self.runtime.is_quarantined(known.index));
        for OpenFile { path, file } in files {
            let quarantined = !is_served || group::read_marks(path, file)?.quarantined;
            let marks = Marks { boot: self.boot, clean: !quarantined, quarantined };
            group::write_marks(path, marks)?;
        }
        Ok(())
    }

    /// Writes a file to the disk. `known` is the index of its entry in the register.
    fn sync(&self, path: &Path, file: &std::fs::File, known: Option<usize>) -> Result<(), Error> {
        let sync = || file.sync_all().map_err(io_error(path, "sync it"));
        let Some(index) = known else { return sync() };
        let doubts = self.runtime.doubts(index);
        if doubts == 0 {
            return self.runtime.sync_file(index, sync);
        }
        if !self.is_alone {
            return Err(Error::InDoubt { path: path.to_owned() });
        }
        let len = file.metadata().map_err(io_error(path, "read its length"))?.len();
        write_again(file, len).map_err(io_error(path, "write it again"))?;
        self.runtime.sync_file(index, sync)?;
        self.runtime.dispel(index, doubts);
        Ok(())
    }
}

/// Checks length and header of every file of `conf`'s groups, with file calls only. The master does
/// this before it restarts a process after a SIGBUS.
pub fn check_files(conf: &Conf) -> Result<(), Error> {
    for configured in &conf.map.groups {
        let (live, name) = (live_dir(conf), &configured.name);
        let mut open = group::open_files(live, name)?;
        if group::is_next_there(live, name) {
            open = group::open_files_of(live, name, FileSet::Next)?;
        }
        group::check_geometry(&open.header, configured)?;
    }
    Ok(())
}
