//! Leaves a data directory clean, and checks its files, with file calls only: the master, which
//! maps no group, calls both.

use std::fs::OpenOptions;
use std::path::Path;

use super::live_dir;
use crate::base::sys;
use crate::conf::Conf;
use crate::store::error::{Error, io_error};
use crate::store::group::{self, FileSet, Marks, OpenFile, OpenGroup};
use crate::store::runtime::{ByteSpan, Runtime};

/// Writes all files of `conf` to disk and sets their clean marks, if no slot is in use. True if it
/// did. A group with damaged files is skipped; the next start scans or refuses it. It uses file
/// calls only: this is the master's last step.
pub fn close_clean(conf: &Conf) -> Result<bool, Error> {
    let path = Runtime::path_in(&conf.srv.data.dir);
    let runtime = Runtime::open(&conf.srv.data.dir)?;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .map_err(io_error(&path, "open it"))?;
    let ByteSpan { start, len } = Runtime::slots_span();
    // Held until `file` is dropped, so that no process attaches meanwhile.
    let locked =
        sys::try_lock_range(&file, start, len).map_err(io_error(&path, "lock its slots"))?;
    if !locked || !runtime.slots().is_empty() {
        return Ok(false);
    }
    let boot = sys::boot_id().map_err(io_error(&path, "read this boot's id"))?;
    for configured in &conf.map.groups {
        if let Err(error) = close_group(live_dir(conf), &configured.name, &runtime, boot) {
            tracing::error!(group = configured.name, %error, "the group is not marked clean");
        }
    }
    // No process can attach without a server.
    runtime.publish(0);
    Ok(true)
}

fn close_group(live: &Path, name: &str, runtime: &Runtime, boot: [u64; 2]) -> Result<(), Error> {
    close_files(group::open_files(live, name)?, runtime, boot)?;
    if !group::is_next_there(live, name) {
        return Ok(());
    }
    close_files(group::open_files_of(live, name, FileSet::Next)?, runtime, boot)
}

fn close_files(open: OpenGroup, runtime: &Runtime, boot: [u64; 2]) -> Result<(), Error> {
    let OpenGroup { header, files } = open;
    let known = runtime.find_file(header.id, 0);
    let is_served = known.is_some_and(|known| !runtime.is_quarantined(known.index));
    for OpenFile { path, file } in &files {
        file.sync_all().map_err(io_error(path, "sync it"))?;
        let quarantined = !is_served || group::read_marks(path, file)?.quarantined;
        group::write_marks(path, Marks { boot, clean: !quarantined, quarantined })?;
    }
    Ok(())
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
