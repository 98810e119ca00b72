//! A checkpoint file: its format, and which checkpoints there are of a group.
//!
//! Invariant: a header says that a pass is complete only after all that the pass has written is on
//! the disk. A pass counts if the headers of all files of the group name it as complete.
//!
//! ```text
//! DATA/GROUP.I.checkpoint.a and .b
//!   page 0   header     0 magic | 1 version, layout digest | 2..14 as in a group file
//!                       14 format | 15 complete (1), or a pass is under way (0) | 16 random id of
//!                       the pass, the same in all files of the group | 17 its number | 18 when it
//!                       began (ms) | 19 pages that it has written | 20 CRC over 0..20
//!   then     key-nodes  as in a group file; semaphores are 0
//! ```

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::base::sys;
use crate::conf::Geometry;
use crate::store::dirty::Side;
use crate::store::error::{Error, expect, io_error};
use crate::store::file_words::{bytes_of, create_draft, header_crc, sync_directory, words_of};
use crate::store::group::{Header, header_words, open_regular, parse_header};
use crate::store::layout::{self, group as at};

/// First word: "FRSCHKPT".
const MAGIC: u64 = u64::from_le_bytes(*b"FRSCHKPT");
/// Changes with the meaning or size of any field.
const FORMAT: u64 = 1;
const FORMAT_AT: usize = at::NAME + 4;
const COMPLETE: usize = FORMAT_AT + 1;
const PASS: usize = COMPLETE + 1;
const NUMBER: usize = PASS + 1;
const BEGUN: usize = NUMBER + 1;
const WRITTEN: usize = BEGUN + 1;
const CRC: usize = WRITTEN + 1;
const _: () = assert!(FORMAT_AT == 14 && CRC == 20 && (CRC + 1) * 8 <= layout::PAGE_BYTES);

/// What a header says of its pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointFacts {
    /// Random, and never 0.
    pub id: u64,
    /// Grows with each pass of the group.
    pub number: u64,
    /// When it began, in milliseconds.
    pub begun_ms: u64,
    /// Pages that it has written to this file.
    pub written_pages: u64,
    /// Whether all that it has written is on the disk.
    pub is_complete: bool,
}

/// A checkpoint file whose header is sound.
#[derive(Debug)]
pub(crate) struct OpenCheckpoint {
    pub path: PathBuf,
    pub file: File,
    pub header: Header,
    pub facts: CheckpointFacts,
}

/// The path of a checkpoint file.
pub(crate) fn path_of(data_dir: &Path, name: &str, file: u32, side: Side) -> PathBuf {
    let end = match side {
        Side::A => 'a',
        Side::B => 'b',
    };
    data_dir.join(format!("{name}.{file}.checkpoint.{end}"))
}

/// Writes a header. It is not yet on the disk.
pub(super) fn write_header(
    path: &Path,
    file: &File,
    header: &Header,
    facts: CheckpointFacts,
) -> Result<(), Error> {
    super::fault::point(path)?;
    let mut words = header_words(header).to_vec();
    words[at::MAGIC] = MAGIC;
    let CheckpointFacts { id, number, begun_ms, written_pages, is_complete } = facts;
    words.extend([FORMAT, u64::from(is_complete), id, number, begun_ms, written_pages]);
    words.push(header_crc(&words));
    debug_assert_eq!(words.len(), CRC + 1);
    file.write_all_at(&bytes_of(&words), 0).map_err(io_error(path, "write its header"))
}

/// Waits until all of a file is on the disk.
pub(super) fn sync(path: &Path, file: &File) -> Result<(), Error> {
    super::fault::point(path)?;
    file.sync_data().map_err(io_error(path, "sync it"))
}

/// Reads and checks the header of a checkpoint file, and the file's length.
pub(crate) fn read_header(path: &Path, file: &File) -> Result<(Header, CheckpointFacts), Error> {
    let len = file.metadata().map_err(io_error(path, "read its length"))?.len();
    if len < layout::PAGE_BYTES as u64 {
        expect(path, "length", len, layout::PAGE_BYTES as u64)?;
    }
    let mut bytes = [0u8; (CRC + 1) * 8];
    file.read_exact_at(&mut bytes, 0).map_err(io_error(path, "read its header"))?;
    let words = words_of(&bytes);
    expect(path, "magic", words[at::MAGIC], MAGIC)?;
    expect(path, "version and layout", words[at::VERSION], layout::version_word())?;
    expect(path, "format", words[FORMAT_AT], FORMAT)?;
    expect(path, "header CRC", words[CRC], header_crc(&words[..CRC]))?;
    let header = parse_header(path, &words)?;
    expect(path, "length", len, header.geometry.file_bytes())?;
    let facts = CheckpointFacts {
        id: words[PASS],
        number: words[NUMBER],
        begun_ms: words[BEGUN],
        written_pages: words[WRITTEN],
        is_complete: words[COMPLETE] == 1,
    };
    Ok((header, facts))
}

/// Opens a checkpoint file. `options` is at least for reading.
pub(super) fn open(
    data_dir: &Path,
    name: &str,
    (file, side): (u32, Side),
    options: &OpenOptions,
) -> Result<OpenCheckpoint, Error> {
    let path = path_of(data_dir, name, file, side);
    let opened = open_regular(options, &path)?;
    let (header, facts) = read_header(&path, &opened)?;
    expect(&path, "group name", header.name.as_str(), name)?;
    expect(&path, "file index", header.file, file)?;
    Ok(OpenCheckpoint { path, file: opened, header, facts })
}

/// Creates a checkpoint file whose data is that of an empty group: zeros.
pub(super) fn create(
    data_dir: &Path,
    header: &Header,
    side: Side,
    facts: CheckpointFacts,
) -> Result<OpenCheckpoint, Error> {
    let path = path_of(data_dir, &header.name, header.file, side);
    let draft = path.with_extension(format!("{}.new", if side == Side::A { 'a' } else { 'b' }));
    let made = (|| {
        let file = create_draft(&draft)?;
        // All blocks now: a full disk breaks off no pass later.
        sys::allocate(&file, 0, header.geometry.file_bytes())
            .map_err(io_error(&draft, "allocate its blocks"))?;
        write_header(&draft, &file, header, facts)?;
        file.sync_all().map_err(io_error(&draft, "sync it"))?;
        std::fs::rename(&draft, &path).map_err(io_error(&path, "rename it into place"))?;
        sync_directory(&path)?;
        Ok(file)
    })();
    if made.is_err() {
        // Free the blocks: the disk is full, or a later try will need them.
        let _ = std::fs::remove_file(&draft);
    }
    Ok(OpenCheckpoint { path, file: made?, header: header.clone(), facts })
}

/// Creates both checkpoints of a new group, complete and empty. Returns the id of their pass.
pub(crate) fn create_empty(data_dir: &Path, header: &Header) -> Result<u64, Error> {
    let id = random_id(data_dir)?;
    let begun_ms = crate::base::clock::now();
    let facts = CheckpointFacts { id, number: 1, begun_ms, written_pages: 0, is_complete: true };
    for side in Side::BOTH {
        for file in 0..header.geometry.files {
            create(data_dir, &Header { file, ..header.clone() }, side, facts)?;
        }
    }
    Ok(id)
}

/// An id for a pass, never 0.
pub(super) fn random_id(data_dir: &Path) -> Result<u64, Error> {
    let mut bytes = [0; 8];
    sys::random(&mut bytes).map_err(io_error(data_dir, "draw the id of a pass"))?;
    Ok(u64::from_le_bytes(bytes).max(1))
}

/// The checkpoints of a group.
#[derive(Debug)]
pub(crate) enum Found {
    /// There is no file of any.
    Nothing,
    /// The newest pass that is complete in all files.
    Complete(Complete),
    /// There are files, and no pass is complete in all of them. For each checkpoint, why.
    Unusable(Vec<String>),
}

/// A pass that is complete in all files of a group.
#[derive(Debug)]
pub(crate) struct Complete {
    pub side: Side,
    /// The header of file 0.
    pub header: Header,
    pub facts: CheckpointFacts,
    /// In order of their indexes.
    pub files: Vec<OpenCheckpoint>,
    /// Why the other checkpoint is not, if it is not complete.
    pub other: Option<String>,
}

/// Finds the newest complete pass of a group, and opens its files for reading.
pub(crate) fn find(data_dir: &Path, name: &str) -> Result<Found, Error> {
    if !is_any_there(data_dir, name)? {
        return Ok(Found::Nothing);
    }
    let [a, b] = Side::BOTH.map(|side| complete(data_dir, name, side));
    let number = |found: &Result<Complete, String>| found.as_ref().map_or(0, |c| c.facts.number);
    let (newest, other) = if number(&a) >= number(&b) { (a, b) } else { (b, a) };
    match (newest, other) {
        (Ok(newest), other) => Ok(Found::Complete(Complete { other: other.err(), ..newest })),
        (Err(one), Err(two)) => Ok(Found::Unusable(vec![one, two])),
        (Err(_), Ok(_)) => unreachable!("the one with a number is the newest"),
    }
}

fn complete(data_dir: &Path, name: &str, side: Side) -> Result<Complete, String> {
    let open = |file| {
        let options = OpenOptions::new().read(true).clone();
        let opened = open(data_dir, name, (file, side), &options).map_err(|e| e.to_string())?;
        match opened.facts.is_complete {
            true => Ok(opened),
            false => Err(format!("{}: its last pass was broken off", opened.path.display())),
        }
    };
    let first = open(0)?;
    let (header, facts) = (first.header.clone(), first.facts);
    let mut files = vec![first];
    for index in 1..header.geometry.files {
        let opened = open(index)?;
        let differs = |field: &str, found: String, expected: String| {
            format!("{}: {field}: found {found}, expected {expected}", opened.path.display())
        };
        if opened.facts.id != facts.id {
            let ids = [opened.facts.id, facts.id].map(|id| format!("{id:016x}"));
            let [found, expected] = ids;
            return Err(differs("id of the pass", found, format!("{expected}, as in file 0")));
        }
        if (Header { file: 0, ..opened.header.clone() }) != header {
            let (found, expected) = (format!("{:?}", opened.header), format!("{header:?}"));
            return Err(differs("header", found, format!("that of file 0: {expected}")));
        }
        files.push(opened);
    }
    Ok(Complete { side, header, facts, files, other: None })
}

/// The newest complete pass of a group, if there is one, without its files.
pub fn checkpoint_facts(data_dir: &Path, name: &str) -> Option<CheckpointFacts> {
    match find(data_dir, name) {
        Ok(Found::Complete(complete)) => {
            // Each file says how many of its own pages were written.
            let written_pages = complete.files.iter().map(|file| file.facts.written_pages).sum();
            Some(CheckpointFacts { written_pages, ..complete.facts })
        }
        _ => None,
    }
}

/// The geometry of the newest complete pass of a group, if there is one.
pub(crate) fn geometry(data_dir: &Path, name: &str) -> Option<Geometry> {
    match find(data_dir, name) {
        Ok(Found::Complete(complete)) => Some(complete.header.geometry),
        _ => None,
    }
}

/// Removes all checkpoint files of a group.
pub(crate) fn remove(data_dir: &Path, name: &str) -> Result<(), Error> {
    for path in paths(data_dir, name)? {
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(io_error(&path, "remove it")(error));
            }
            _ => {}
        }
    }
    Ok(())
}

fn is_any_there(data_dir: &Path, name: &str) -> Result<bool, Error> {
    Ok(!paths(data_dir, name)?.is_empty())
}

/// The paths of all checkpoint files of a group, whatever their numbers.
fn paths(data_dir: &Path, name: &str) -> Result<Vec<PathBuf>, Error> {
    let start = format!("{name}.");
    let is_one = |file: &str| {
        let middle = file.strip_prefix(&start)?;
        let number =
            ["a", "b"].iter().find_map(|end| middle.strip_suffix(&format!(".checkpoint.{end}")))?;
        number.parse::<u32>().ok()
    };
    let entries = std::fs::read_dir(data_dir).map_err(io_error(data_dir, "read the directory"))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(io_error(data_dir, "read the directory"))?.path();
        if path.file_name().and_then(|name| name.to_str()).and_then(is_one).is_some() {
            found.push(path);
        }
    }
    Ok(found)
}
