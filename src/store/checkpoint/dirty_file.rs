//! The file beside a group file that marks its changed pages, and names the passes in its
//! checkpoints.
//!
//! Invariant: a file is used only if its header names its very group file, and the register names
//! the file. If it names no pass of a checkpoint, all pages count as changed since.
//!
//! ```text
//! LIVE/GROUP.I.dirty
//! LIVE/GROUP.I.next.dirty   of the file that the group moves to
//!   page 0   header   0 magic | 1 format | 2 group id | 3 file index | 4 device and 5 inode and
//!                     6 birth of the group file | 7 its pages | 8 CRC over 0..8
//!                     outside the CRC: 16 id of the pass that checkpoint a holds, 17 of b; 0:
//!                     unknown, or a pass into it is under way | 18 is 1 until a pass has ended
//!                     since checkpoints were switched on: those there are may be years old
//!   page 1.. bits     of each 64 pages a word for a and a word for b
//! ```

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use frs_base::sync::{Ordering, compiler_fence};
use frs_base::sys;

use super::dirty::{DirtyPages, Side};
use crate::error::{Error, expect, io_error};
use crate::file::layout::{PAGE_BYTES, PAGE_WORDS};
use crate::file::region::Region;
use crate::file::words::{
    FilePlace, bytes_of, create_whole, header_crc, remove_if_there, sync_directory, words_of,
};
use crate::watch::runtime::FileEntry;

/// First word: "FRSDIRTY".
const MAGIC: u64 = u64::from_le_bytes(*b"FRSDIRTY");
/// Changes with the meaning or size of any field.
const FORMAT: u64 = 1;
const GROUP: usize = 2;
const CRC: usize = 8;
const PASSES: usize = 16;
const AWAITS: usize = PASSES + 2;
const _: () = assert!(CRC < PASSES && AWAITS < PAGE_WORDS);

/// Its path, from that of the group file.
pub(crate) fn path_of(group_file: &Path) -> PathBuf {
    group_file.with_extension("dirty")
}

/// The other name that the file may have at the end of a move, while it and the group file are
/// renamed.
fn while_renamed(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let named = name.strip_suffix(".next.dirty").map(|file| format!("{file}.dirty"));
    let next = || Some(format!("{}.next.dirty", name.strip_suffix(".dirty")?));
    Some(path.with_file_name(named.or_else(next)?))
}

/// Bytes of the file beside a group file of `file_bytes` bytes.
pub(crate) fn bytes_for(file_bytes: u64) -> u64 {
    let pages = file_bytes.div_ceil(PAGE_BYTES as u64) as usize;
    let bits = DirtyPages::words_of(pages) as u64 * 8;
    (PAGE_BYTES as u64 + bits).next_multiple_of(PAGE_BYTES as u64)
}

/// The header of the file beside the group file of `entry`.
fn header_of(file_bytes: u64, entry: &FileEntry) -> [u64; CRC] {
    let pages = file_bytes.div_ceil(PAGE_BYTES as u64);
    let place = [entry.device, entry.inode, entry.birth_ns];
    [MAGIC, FORMAT, entry.group, entry.file.into(), place[0], place[1], place[2], pages]
}

/// Whether the existing checkpoints were made from these files, or the files from the checkpoints.
/// Otherwise the files were changed without checkpoints, and no pass has ended since. `groups` are
/// the ids of the group and of the group that it moves to: the file may be renamed already.
pub(crate) fn has_own_checkpoints(group_file: &Path, groups: &[u64]) -> Result<bool, Error> {
    let path = path_of(group_file);
    let mut head = [0u8; (AWAITS + 1) * 8];
    let opened = sys::open_regular(OpenOptions::new().read(true), &path);
    match opened.and_then(|file| file.read_exact_at(&mut head, 0)) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => match io_error(&path, "read its header")(error) {
            error if error.is_transient() => return Err(error),
            // A damaged file existed when the machine went down.
            _ => return Ok(true),
        },
    }
    let words = words_of(&head);
    let is_sound = words[CRC] == header_crc(&words[..CRC]);
    Ok(!is_sound || groups.contains(&words[GROUP]) && words[AWAITS] == 0)
}

/// Creates the file without marks and without known passes. `awaits`: all checkpoints are older
/// than the group file, until the first pass ends. Returns the place of the file.
pub(crate) fn create(
    group_file: &Path,
    file_bytes: u64,
    entry: &FileEntry,
    awaits: bool,
) -> Result<FilePlace, Error> {
    let path = path_of(group_file);
    let draft = path.with_extension("dirty.new");
    let file = create_whole(&path, &draft, |file| {
        let bytes = bytes_for(file_bytes);
        sys::allocate(file, 0, bytes).map_err(io_error(&draft, "allocate its blocks"))?;
        let mut words = header_of(file_bytes, entry).to_vec();
        words.push(header_crc(&words));
        words.resize(AWAITS, 0);
        words.push(awaits.into());
        file.write_all_at(&bytes_of(&words), 0).map_err(io_error(&draft, "write its header"))?;
        // After a crash of the machine this file tells whether checkpoints were on.
        file.sync_all().map_err(io_error(&draft, "sync it"))
    })?;
    FilePlace::of(&file).map_err(io_error(&path, "read its inode"))
}

/// Maps the file beside the group file of `entry`. The file must be the one at `place`.
pub(crate) fn open(
    group_file: &Path,
    file_bytes: u64,
    entry: &FileEntry,
    place: FilePlace,
) -> Result<DirtyPages, Error> {
    let mut path = path_of(group_file);
    let look = |path: &Path| {
        let file = sys::open_regular(OpenOptions::new().read(true).write(true), path)
            .map_err(io_error(path, "open it"))?;
        let found = FilePlace::of(&file).map_err(io_error(path, "read its inode"))?;
        Ok((file, found))
    };
    let mut opened = look(&path);
    if !opened.as_ref().is_ok_and(|(_, found)| *found == place)
        && let Some(other) = while_renamed(&path)
        && let Ok((file, found)) = look(&other)
        && found == place
    {
        (path, opened) = (other, Ok((file, found)));
    }
    let (file, found) = opened?;
    if found != place {
        return Err(Error::Mismatch {
            path,
            field: "device and inode",
            found: format!("{}:{}", found.device, found.inode),
            expected: "those in runtime.mmap: it was swapped, restart the server".into(),
        });
    }
    let bytes = bytes_for(file_bytes);
    let len = file.metadata().map_err(io_error(&path, "read its length"))?.len();
    expect(&path, "length", len, bytes)?;
    let mut head = [0u8; (CRC + 1) * 8];
    file.read_exact_at(&mut head, 0).map_err(io_error(&path, "read its header"))?;
    let (words, expected) = (words_of(&head), header_of(file_bytes, entry));
    expect(&path, "header CRC", words[CRC], header_crc(&words[..CRC]))?;
    const FIELDS: [&str; CRC] = [
        "magic",
        "format",
        "group id",
        "file index",
        "device of the group file",
        "inode of the group file",
        "birth of the group file",
        "pages",
    ];
    for ((field, &found), expected) in FIELDS.into_iter().zip(&words).zip(expected) {
        expect(&path, field, found, expected)?;
    }
    let region = Region::map(&file, 0, bytes as usize / 8).map_err(io_error(&path, "map it"))?;
    Ok(DirtyPages::new(region, PAGE_WORDS, expected[CRC - 1] as usize))
}

/// Removes the file durably: no changes are marked any more.
pub(crate) fn remove(group_file: &Path) -> Result<(), Error> {
    let path = path_of(group_file);
    if remove_if_there(&path)? {
        sync_directory(&path)?;
    }
    Ok(())
}

/// The passes in the checkpoints. Only the keeper writes these words.
impl DirtyPages {
    /// The id of the pass that the checkpoint holds, except for marked pages. None if its content
    /// is not known, so that every page must be written.
    pub(crate) fn known_pass(&self, side: Side) -> Option<u64> {
        Some(self.region().load(PASSES + side as usize)).filter(|&pass| pass != 0)
    }

    /// Notes that a pass begins to take marks. If its keeper dies, the taken marks are not known,
    /// so the checkpoint has no known pass until the pass ends.
    pub(crate) fn begin_pass(&self, side: Side) {
        // Release, with the fence below: this store must not come after the exchanges of `take`.
        self.region().store_release(PASSES + side as usize, 0);
        compiler_fence(Ordering::SeqCst);
    }

    /// Notes that the checkpoint holds the pages of this pass, and that all others are marked.
    pub(crate) fn end_pass(&self, side: Side, pass: u64) {
        self.region().store_release(PASSES + side as usize, pass);
    }

    /// Notes that a pass has ended. From now on a start after a crash of the machine restores the
    /// group from its checkpoint.
    pub(crate) fn end_wait(&self) -> std::io::Result<()> {
        if self.region().load(AWAITS) == 0 {
            return Ok(());
        }
        self.region().store_release(AWAITS, 0);
        let flushed = self.region().flush_part(0, PAGE_BYTES);
        if flushed.is_err() {
            // The next pass tries again.
            self.region().store_release(AWAITS, 1);
        }
        flushed
    }
}
