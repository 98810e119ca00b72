//! The next files of a moving group. They are made beside the files in force, and get their plain
//! names at the end.
//!
//! Invariant: the next files of a group exist as long as their file 0 exists. File 0 is the last to
//! get its name when they are made, and the last to get the plain name when the group has moved. So
//! at whatever step the work is interrupted, the files tell how far it was, and the step can be
//! repeated.
//!
//! ```text
//! NAME.I.next.mmap.new   written, not yet in force
//! NAME.I.next.mmap       the group moves there from NAME.I.mmap; both count
//! NAME.I.next.dirty      with checkpoints: which of its pages have changed
//! ```

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use frs_base::{clock, sys};
use frs_conf as conf;

use super::staging::{Draft, remove_numbered, remove_surplus};
use crate::checkpoint::dirty_file;
use crate::error::{Error, io_error};
use crate::file::group::{
    FileSet, Header, OpenFile, OpenGroup, is_next_there, next_path_of, open_files_of, path_of,
};
use crate::file::layout::{PAGE_WORDS, TAG_WORDS};
use crate::file::region::Region;
use crate::file::words::sync_directory;
use crate::watch::runtime::Runtime;

/// Makes the next files of a group: empty as those of a new group, with the seeds of the group in
/// force, so that digests stay the same. The filters of the new files are full if records of the
/// group may be kept outside.
pub(crate) fn create(
    live_dir: &Path,
    old: &Header,
    configured: &conf::Group,
    has_kept: bool,
) -> Result<(), Error> {
    remove(live_dir, &old.name)?;
    let first = next_path_of(live_dir, &old.name, 0);
    let [id] = sys::random().map_err(io_error(&first, "draw an id"))?;
    let (geometry, created_ms) = (configured.geometry, clock::now());
    let header = Header { id, geometry, created_ms, ..old.clone() };
    let files = 0..header.geometry.files;
    let paths: Vec<PathBuf> = files.map(|file| draft_path(live_dir, &old.name, file)).collect();
    let made = Draft::create_at(live_dir, &header, paths).and_then(|draft| {
        if has_kept || configured.keeps_outside() {
            draft.fill_filters();
        }
        draft.flush()
    });
    if let Err(error) = made {
        // Free the blocks: the disk is full, or a later try will need them.
        remove(live_dir, &old.name)?;
        return Err(error);
    }
    for file in (0..header.geometry.files).rev() {
        let path = next_path_of(live_dir, &old.name, file);
        fs::rename(draft_path(live_dir, &old.name, file), &path)
            .map_err(io_error(&path, "rename it into place"))?;
    }
    sync_directory(&first)
}

fn draft_path(live_dir: &Path, name: &str, file: u32) -> PathBuf {
    next_path_of(live_dir, name, file).with_extension("mmap.new")
}

/// Removes next files that were never in force, complete or not. Removes file 0 first: without it
/// the next files do not exist.
pub(crate) fn remove(live_dir: &Path, name: &str) -> Result<(), Error> {
    remove_files(live_dir, name)?;
    remove_numbered(live_dir, name, ".next.mmap.new", |_| true)
}

/// Removes next files, but not drafts that are being written.
pub(crate) fn remove_files(live_dir: &Path, name: &str) -> Result<(), Error> {
    let first = next_path_of(live_dir, name, 0);
    match fs::remove_file(&first) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        removed => {
            removed.map_err(io_error(&first, "remove it"))?;
            sync_directory(&first)?;
        }
    }
    remove_numbered(live_dir, name, ".next.mmap", |_| true)?;
    remove_numbered(live_dir, name, ".next.dirty", |_| true)
}

/// Writes next files to the disk before they get the plain names: after a power cut only they have
/// the counts.
fn sync(open: &OpenGroup, runtime: &Runtime) -> Result<(), Error> {
    for (index, OpenFile { path, file }) in (0..).zip(&open.files) {
        let sync = || file.sync_all().map_err(io_error(path, "sync it"));
        match runtime.find_file(open.header.id, index) {
            Some(known) => runtime.sync_file(known.index, sync)?,
            None => sync()?,
        }
    }
    Ok(())
}

/// Refuses a file in doubt: a sync of it proves nothing. Processes that serve from it write it
/// again.
fn expect_no_doubt(open: &OpenGroup, runtime: &Runtime) -> Result<(), Error> {
    for (index, OpenFile { path, .. }) in (0..).zip(&open.files) {
        let known = runtime.find_file(open.header.id, index);
        if known.is_some_and(|known| runtime.doubts(known.index) > 0) {
            return Err(Error::InDoubt { path: path.clone() });
        }
    }
    Ok(())
}

/// Gives the next files, which are on disk, the plain names, file 0 last, and removes the files
/// that the group no longer has. The former files have no nodes left.
fn put_in_place(live_dir: &Path, name: &str, header: &Header) -> Result<(), Error> {
    let first = path_of(live_dir, name, 0);
    for file in (0..header.geometry.files).rev() {
        let (next, path) = (next_path_of(live_dir, name, file), path_of(live_dir, name, file));
        if file == 0 {
            // On disk before the rename of file 0 ends the move.
            sync_directory(&first)?;
        }
        // Before the file itself: once file 0 has its plain name, no step is repeated.
        let [marks, marked] = [&next, &path].map(|path| dirty_file::path_of(path));
        rename_if_there(&marks, &marked)?;
        match fs::rename(&next, &path) {
            // Renamed before an interruption.
            Err(error) if error.kind() == ErrorKind::NotFound && file > 0 => {}
            renamed => renamed.map_err(io_error(&path, "rename it into place"))?,
        }
    }
    sync_directory(&first)?;
    remove_surplus(live_dir, name)
}

fn rename_if_there(from: &Path, to: &Path) -> Result<(), Error> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        renamed => renamed.map_err(io_error(to, "rename it into place")),
    }
}

/// Finishes an interrupted `put_in_place`: some of the next files have their plain names already,
/// or the move has ended and no file has. In both cases the former files have no nodes left. A file
/// in doubt is no reason to wait, because it is written again before it is served.
pub fn complete(live_dir: &Path, name: &str, runtime: &Runtime) -> Result<(), Error> {
    if !is_next_there(live_dir, name) {
        return Ok(());
    }
    let open = open_files_of(live_dir, name, FileSet::Next)?;
    let all = (0..open.header.geometry.files).map(|file| next_path_of(live_dir, name, file));
    let is_begun = all.zip(&open.files).any(|(next, open)| open.path != next);
    if !is_begun && !has_ended(live_dir, name, &open.header, runtime)? {
        return Ok(());
    }
    sync(&open, runtime)?;
    put_in_place(live_dir, name, &open.header)
}

/// Whether [`end_move`] has removed the former group, which is empty, from the register.
fn has_ended(live: &Path, name: &str, next: &Header, runtime: &Runtime) -> Result<bool, Error> {
    let is_known = |header: &Header| runtime.find_file(header.id, 0).is_some();
    let Ok(former) = open_files_of(live, name, FileSet::Named) else { return Ok(false) };
    Ok(is_known(next) && !is_known(&former.header) && is_empty(&former)?)
}

/// Whether a group has no node.
pub(crate) fn is_empty(open: &OpenGroup) -> Result<bool, Error> {
    let geometry = &open.header.geometry;
    let words = geometry.file_bytes() as usize / 8;
    for OpenFile { path, file } in &open.files {
        let region = Region::map_for_reading(file, words).map_err(io_error(path, "map it"))?;
        let key_node_words = (words - PAGE_WORDS) / geometry.key_nodes as usize;
        let mut tags = [0; TAG_WORDS];
        for key_node in 0..geometry.key_nodes as usize {
            region.read(PAGE_WORDS + key_node * key_node_words + 1, &mut tags);
            if tags != [0; TAG_WORDS] {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Ends a move, once a generation names only the new group: the former group is empty, and no
/// process takes its key-nodes any more. Removes the former files, and gives the next files the
/// plain names. Uses file calls only, because the master maps no group.
///
/// # Errors
/// A file cannot be renamed; or a file is in doubt, and then nothing has changed. The call can be
/// repeated, now or at the next start.
pub fn end_move(live_dir: &Path, name: &str, runtime: &Runtime) -> Result<(), Error> {
    let next = match is_next_there(live_dir, name) {
        true => Some(open_files_of(live_dir, name, FileSet::Next)?),
        false => None,
    };
    if let Some(next) = &next {
        expect_no_doubt(next, runtime)?;
        sync(next, runtime)?;
    }
    // First, so that no process opens files that are about to be replaced.
    for group in runtime.named_groups(name) {
        if let Some(former) = group.former {
            runtime.forget_group(former);
            runtime.forget_former(group.id);
        }
    }
    next.map_or(Ok(()), |next| put_in_place(live_dir, name, &next.header))
}
