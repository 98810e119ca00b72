//! Writes the new files of a group beside those that they will replace.
//!
//! Invariant: at whatever step this is interrupted, either the old files serve as before (until
//! [`commit`]), or no process opens the group before [`complete`] has finished. The draft of file 0
//! under its committed name shows the second state; it is renamed last.
//!
//! ```text
//! NAME.I.mmap.migrating   written, flushed, not yet in force
//! NAME.0.mmap.migrated    all drafts are whole: complete() gives them their names
//! ```

use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};

use frs_conf::key::Location;

use crate::error::{Error, io_error};
use crate::file::group::{self, Group, Header, MappedFiles, committed_path};
use crate::file::layout::{TAG_WORDS, tag};
use crate::file::region::Region;
use crate::file::words::sync_directory;
use crate::recover::verify::{PlacedNode, Report};

/// The new files of a group, mapped.
#[derive(Debug)]
pub struct Draft {
    group: Group,
    paths: Vec<PathBuf>,
}

fn draft_path(live_dir: &Path, name: &str, file: u32) -> PathBuf {
    group::path_of(live_dir, name, file).with_extension("mmap.migrating")
}

impl Draft {
    /// Creates the files, empty as those of a new group, with the owner of the files that they
    /// replace.
    pub fn create(live_dir: &Path, header: &Header) -> Result<Draft, Error> {
        let files = 0..header.geometry.files;
        let paths: Vec<PathBuf> =
            files.map(|file| draft_path(live_dir, &header.name, file)).collect();
        let made = Self::create_at(live_dir, header, paths);
        if made.is_err() {
            // Free the blocks: the disk is full, or a later try will need them.
            remove_drafts(live_dir, &header.name)?;
        }
        made
    }

    /// Like [`Draft::create`], under these names. On an error some of the files may be there.
    pub(crate) fn create_at(
        live_dir: &Path,
        header: &Header,
        paths: Vec<PathBuf>,
    ) -> Result<Draft, Error> {
        Ok(Draft { group: Self::make(live_dir, header, &paths)?, paths })
    }

    fn make(live_dir: &Path, header: &Header, paths: &[PathBuf]) -> Result<Group, Error> {
        let first = group::path_of(live_dir, &header.name, 0);
        let old = fs::metadata(&first).map_err(io_error(&first, "look at its owner"))?;
        let words = header.geometry.file_bytes() as usize / 8;
        let mut regions = Vec::new();
        for (path, file) in paths.iter().zip(0..) {
            group::create_file(path, &Header { file, ..header.clone() })?;
            chown(path, Some(old.uid()), Some(old.gid()))
                .and_then(|()| fs::set_permissions(path, old.permissions()))
                .map_err(io_error(path, "give it to the owner of the old file"))?;
            let mut options = OpenOptions::new();
            let file =
                options.read(true).write(true).open(path).map_err(io_error(path, "open it"))?;
            regions.push(Region::map(&file, 0, words).map_err(io_error(path, "map it"))?);
        }
        // The register does not list it, and no other process writes to it.
        let (entries, watches) = (Vec::new(), Vec::new());
        let files = MappedFiles { regions, entries, watches, ..MappedFiles::default() };
        Ok(Group::of_files(header.clone(), 0, files))
    }

    /// Puts a sealed node into a free place. False if its chain is full.
    pub fn put(&self, at: &Location, words: &[u64]) -> bool {
        let chain = self.group.geometry().chain as usize;
        let Some(place) = (0..chain).find(|&place| self.tag(at, place) == 0) else {
            return false;
        };
        self.replace(at, place, words);
        true
    }

    /// Puts a sealed node into a place, and replaces any node there.
    pub fn replace(&self, at: &Location, place: usize, words: &[u64]) {
        let region = self.group.file(at.file);
        region.write(self.group.node(at.key_node, place), words);
        let word = self.group.head(at.key_node) + 1 + place / 8;
        region.store(word, tag::with(region.load(word), place, at.tag));
    }

    /// The nodes of a chain.
    pub fn chain(&self, at: &Location) -> Vec<PlacedNode> {
        let at = at.key_node_id();
        let copy = |place| PlacedNode { place, words: self.group.node_at(at, place) };
        self.group.taken_places(at).map(copy).collect()
    }

    fn tag(&self, at: &Location, place: usize) -> u8 {
        debug_assert!(place < TAG_WORDS * 8);
        let word = self.group.file(at.file).load(self.group.head(at.key_node) + 1 + place / 8);
        tag::of(word, place)
    }

    /// Fills all filters: any key may have a kept record.
    pub fn fill_filters(&self) {
        self.group.fill_filters();
    }

    /// Checks the draft. A draft with any fault must not be committed.
    pub fn verify(&self) -> Report {
        self.group.verify()
    }

    /// Writes all of it to disk.
    pub fn flush(&self) -> Result<(), Error> {
        for (region, path) in self.group.files().iter().zip(&self.paths) {
            region.flush().map_err(io_error(path, "flush it"))?;
            OpenOptions::new()
                .write(true)
                .open(path)
                .and_then(|file| file.sync_all())
                .map_err(io_error(path, "sync it"))?;
        }
        sync_directory(&self.paths[0])
    }
}

/// The point of no return: from here the draft is the group.
pub fn commit(live_dir: &Path, name: &str) -> Result<(), Error> {
    let committed = committed_path(live_dir, name);
    fs::rename(draft_path(live_dir, name, 0), &committed)
        .map_err(io_error(&committed, "rename it into place"))?;
    sync_directory(&committed)
}

/// Gives a committed draft its names, file 0 last. Then removes the files that the group no longer
/// has. Calls `go_on` before each step, and stops there if it returns false. Returns true if all
/// steps are done.
pub fn complete(
    live_dir: &Path,
    name: &str,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<bool, Error> {
    let committed = committed_path(live_dir, name);
    let file = group::open_regular(OpenOptions::new().read(true), &committed)?;
    let files = group::read_header(&committed, &file)?.geometry.files;
    for file in (1..files).rev() {
        if !go_on() {
            return Ok(false);
        }
        let path = group::path_of(live_dir, name, file);
        match fs::rename(draft_path(live_dir, name, file), &path) {
            // Renamed before an interruption.
            Err(error) if error.kind() == ErrorKind::NotFound && path.exists() => {}
            renamed => renamed.map_err(io_error(&path, "rename it into place"))?,
        }
    }
    if !go_on() {
        return Ok(false);
    }
    let first = group::path_of(live_dir, name, 0);
    sync_directory(&first)?;
    fs::rename(&committed, &first).map_err(io_error(&first, "rename it into place"))?;
    sync_directory(&first)?;
    if go_on() { remove_surplus(live_dir, name).map(|()| true) } else { Ok(false) }
}

/// Removes the files of a group with indexes above those in its header. An interrupted migration to
/// fewer files leaves such files.
pub fn remove_surplus(live_dir: &Path, name: &str) -> Result<(), Error> {
    let first = group::path_of(live_dir, name, 0);
    let file = group::open_regular(OpenOptions::new().read(true), &first)?;
    let files = group::read_header(&first, &file)?.geometry.files;
    // Do not stop at the first missing file: this step may have been interrupted too.
    remove_numbered(live_dir, name, ".mmap", |file| file >= files)?;
    remove_numbered(live_dir, name, ".dirty", |file| file >= files)?;
    sync_directory(&first)
}

/// Removes drafts that were not committed.
pub fn remove_drafts(live_dir: &Path, name: &str) -> Result<(), Error> {
    remove_numbered(live_dir, name, ".mmap.migrating", |_| true)
}

/// Removes each file `NAME.I` + `end` of a directory if `is_one` is true for its number I.
pub(crate) fn remove_numbered(
    live_dir: &Path,
    name: &str,
    end: &str,
    is_one: impl Fn(u32) -> bool,
) -> Result<(), Error> {
    let start = format!("{name}.");
    let entries = fs::read_dir(live_dir).map_err(io_error(live_dir, "read the directory"))?;
    for entry in entries {
        let path = entry.map_err(io_error(live_dir, "read the directory"))?.path();
        let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let number = file.strip_prefix(&start).and_then(|file| file.strip_suffix(end));
        if number.and_then(|number| number.parse().ok()).is_some_and(&is_one) {
            fs::remove_file(&path).map_err(io_error(&path, "remove it"))?;
        }
    }
    Ok(())
}
