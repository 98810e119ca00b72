//! Files of the store before they are mapped: drafts, headers as words, and durable renames.
//!
//! Invariant: a draft is a new file of this process. Any file with its name is removed first.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::error::{Error, io_error};
use crate::file::layout::PAGE_BYTES;

/// The properties by which a runtime.mmap differs from every other one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileFacts {
    /// The random id in it.
    pub id: [u64; 2],
    /// Where it is, and since when.
    pub place: FilePlace,
}

/// Identifies a file among all files of this boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FilePlace {
    /// Its device.
    pub device: u64,
    /// Its inode.
    pub inode: u64,
    /// Its time of birth, in nanoseconds; 0 if the file system keeps none. Needed because inode
    /// numbers are reused.
    pub birth_ns: u64,
}

impl FilePlace {
    /// The place of an open file.
    pub(crate) fn of(file: &File) -> std::io::Result<FilePlace> {
        let metadata = file.metadata()?;
        let birth = metadata.created().ok();
        let since = birth.and_then(|birth| birth.duration_since(std::time::UNIX_EPOCH).ok());
        Ok(FilePlace {
            device: metadata.dev(),
            inode: metadata.ino(),
            birth_ns: since.map_or(0, |since| since.as_nanos() as u64),
        })
    }
}

/// Permissions of the files.
pub(crate) const FILE_MODE: u32 = 0o600;

/// Removes a file, if it is there. True if it was.
pub(crate) fn remove_if_there(path: &Path) -> Result<bool, Error> {
    match std::fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(io_error(path, "remove it")(error)),
    }
}

/// Creates a file. A draft left by a dead writer is removed first: it may belong to another user,
/// or be a link to a foreign file.
pub(crate) fn create_draft(path: &Path) -> Result<File, Error> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(io_error(path, "remove what was left of it")(error));
        }
        _ => {}
    }
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(FILE_MODE)
        .open(path)
        .map_err(io_error(path, "create it"))
}

/// Creates a file that has its name only once it is whole: `write` fills a draft, which is renamed
/// then. A draft that fails is removed.
pub(crate) fn create_whole(
    path: &Path,
    draft: &Path,
    write: impl FnOnce(&File) -> Result<(), Error>,
) -> Result<File, Error> {
    let made = create_draft(draft).and_then(|file| {
        write(&file)?;
        std::fs::rename(draft, path).map_err(io_error(path, "rename it into place"))?;
        sync_directory(path)?;
        Ok(file)
    });
    made.inspect_err(|_| {
        // Free the blocks: the disk is full, or a later try will need them.
        let _ = std::fs::remove_file(draft);
    })
}

/// CRC-32 of header words.
pub fn header_crc(words: &[u64]) -> u64 {
    u64::from(crc32fast::hash(&bytes_of(words)))
}

/// Words as the bytes of a file.
pub fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The words of a file's bytes.
pub fn words_of(bytes: &[u8]) -> Vec<u64> {
    bytes
        .chunks_exact(8)
        .map(|chunk| u64::from_le_bytes(chunk.try_into().expect("chunks of 8")))
        .collect()
}

/// Makes renames in the directory of `path` durable.
pub(crate) fn sync_directory(path: &Path) -> Result<(), Error> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(io_error(directory, "sync the directory"))
}

/// Writes zeros to all of a new file.
pub(crate) fn write_zeros(file: &File, len: u64) -> io::Result<()> {
    let zeros = [0; PAGE_BYTES];
    (0..len).step_by(PAGE_BYTES).try_for_each(|at| {
        let rest = (len - at).min(PAGE_BYTES as u64);
        write_page(file, &zeros[..rest as usize], at)
    })
}

/// Writes one page of a file that processes map. The page cache keeps the bytes of one call
/// together, in one folio, and the first store into a folio after a flush marks all of it dirty.
/// Small folios make that fault quick and the next flush small.
pub(crate) fn write_page(file: &File, page: &[u8], at: u64) -> io::Result<()> {
    debug_assert!(page.len() <= PAGE_BYTES);
    file.write_all_at(page, at)
}
