//! A checkpoint file: its format, and how it gets to the disk.
//!
//! Invariant: a header says that a pass is complete only after all writes of the pass are on the
//! disk. A pass first notes in every header that it is under way, before it writes anything else.
//!
//! ```text
//! DATA/GROUP.I.checkpoint.a and .b
//! DATA/GROUP.I.next.checkpoint.a and .b   of the files that the group moves to
//!   page 0   header     0 magic | 1 version, layout digest | 2..14 as in a group file
//!                       14 format | 15 complete (1); or a pass is under way (0), over what was
//!                       damaged before (2) | 16 random id of the pass, the same in all files of
//!                       the group | 17 its number | 18 when it began (ms) | 19 pages that it has
//!                       written | 20 id of the other files of a group that moves, or 0 | 21 CRC
//!                       over the checksums (0..32) and over the epochs (32..64) | 22 how many
//!                       epochs | 23 CRC over 0..23
//!   then     key-nodes  as in a group file; semaphores are 0
//!   then     checksums and epochs, as `checks` says
//! ```
//!
//! Format 1, of an earlier build, ends with the key-nodes, and its word 21 is the CRC over 0..21.
//! It is restored as it is, and the next pass over the file gives it this format.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use frs_base::sys;

use super::dirty::Side;
use super::tail::{self, Tail};
use crate::error::{Error, expect, io_error};
use crate::file::group::{FileSet, Header, header_words, open_regular, parse_header};
use crate::file::layout::{self, group as at};
use crate::file::words::{
    bytes_of, create_whole, header_crc, remove_if_there, sync_directory, words_of,
};
use crate::grow::staging::remove_numbered;

/// First word: "FRSCHKPT".
const MAGIC: u64 = u64::from_le_bytes(*b"FRSCHKPT");
/// Changes with the meaning or size of any field.
const FORMAT: u64 = 2;
/// Format 1, without checksums.
const UNCHECKED: u64 = 1;
pub(crate) const FORMAT_AT: usize = at::NAME + 4;
const STATE: usize = FORMAT_AT + 1;
const PASS: usize = STATE + 1;
const NUMBER: usize = PASS + 1;
const BEGUN: usize = NUMBER + 1;
const WRITTEN: usize = BEGUN + 1;
const PARTNER: usize = WRITTEN + 1;
const TAIL_CRCS: usize = PARTNER + 1;
const EPOCHS: usize = TAIL_CRCS + 1;
pub(crate) const CRC: usize = EPOCHS + 1;
pub(crate) const UNCHECKED_CRC: usize = PARTNER + 1;
const _: () = assert!(FORMAT_AT == 14 && CRC == 23 && (CRC + 1) * 8 <= layout::PAGE_BYTES);

/// The state of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassState {
    /// It is under way, or was broken off.
    UnderWay = 0,
    /// All writes of the pass are on the disk.
    Complete = 1,
    /// Like `UnderWay`, but the pass overwrites a damaged checkpoint that may have been the newest.
    OverDamage = 2,
}

impl PassState {
    fn of_word(word: u64) -> PassState {
        match word {
            1 => PassState::Complete,
            2 => PassState::OverDamage,
            _ => PassState::UnderWay,
        }
    }
}

/// The description of a pass in a header.
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
    /// The state of the pass.
    pub state: PassState,
    /// For a moving group: the id of the group whose files also belong to this pass.
    pub partner: Option<u64>,
}

/// Which of the checkpoints of a group a file belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The copied files: the named ones, or the next ones.
    pub set: FileSet,
    pub side: Side,
}

/// A checkpoint file whose header is sound.
#[derive(Debug)]
pub(crate) struct OpenCheckpoint {
    pub path: PathBuf,
    pub file: File,
    pub header: Header,
    pub facts: CheckpointFacts,
    /// None for format 1, which has no tail.
    pub tail: Option<Tail>,
}

/// The ending of file names of a part, after the number.
pub(super) fn end_of(Part { set, side }: Part) -> &'static str {
    match (set, side) {
        (FileSet::Named, Side::A) => ".checkpoint.a",
        (FileSet::Named, Side::B) => ".checkpoint.b",
        (FileSet::Next, Side::A) => ".next.checkpoint.a",
        (FileSet::Next, Side::B) => ".next.checkpoint.b",
    }
}

/// All parts that may exist.
pub(super) const FILE_PARTS: [Part; 4] = [
    Part { set: FileSet::Named, side: Side::A },
    Part { set: FileSet::Named, side: Side::B },
    Part { set: FileSet::Next, side: Side::A },
    Part { set: FileSet::Next, side: Side::B },
];

/// The path of a checkpoint file.
pub fn path_of(data_dir: &Path, name: &str, file: u32, part: Part) -> PathBuf {
    data_dir.join(format!("{name}.{file}{}", end_of(part)))
}

/// Writes a header. It is not yet on the disk.
pub(super) fn write_header(
    path: &Path,
    file: &File,
    header: &Header,
    (facts, tail): (CheckpointFacts, Tail),
) -> Result<(), Error> {
    super::fault::point(path)?;
    let mut words = header_words(header).to_vec();
    words[at::MAGIC] = MAGIC;
    let CheckpointFacts { id, number, begun_ms, written_pages, state, partner } = facts;
    words.extend([FORMAT, state as u64, id, number, begun_ms, written_pages]);
    words.push(partner.unwrap_or(0));
    words.push(u64::from(tail.checks_crc) | u64::from(tail.epochs_crc) << 32);
    words.push(tail.epochs.into());
    words.push(header_crc(&words));
    debug_assert_eq!(words.len(), CRC + 1);
    file.write_all_at(&bytes_of(&words), 0).map_err(io_error(path, "write its header"))
}

/// Waits until all of a file is on the disk.
pub(super) fn sync(path: &Path, file: &File) -> Result<(), Error> {
    super::fault::point(path)?;
    file.sync_data().map_err(io_error(path, "sync it"))
}

/// The description of the pass in a file's header, even if the rest of the file is damaged.
pub(super) fn read_facts(path: &Path) -> Result<CheckpointFacts, Error> {
    let file = open_file(OpenOptions::new().read(true), path)?;
    Ok(facts_of(&read_words(path, &file)?))
}

/// Reads the words of a header, and checks its magic, format and CRC.
fn read_words(path: &Path, file: &File) -> Result<Vec<u64>, Error> {
    let len = file.metadata().map_err(io_error(path, "read its length"))?.len();
    if len < layout::PAGE_BYTES as u64 {
        expect(path, "length", len, layout::PAGE_BYTES as u64)?;
    }
    let mut bytes = [0u8; (CRC + 1) * 8];
    file.read_exact_at(&mut bytes, 0).map_err(io_error(path, "read its header"))?;
    let words = words_of(&bytes);
    expect(path, "magic", words[at::MAGIC], MAGIC)?;
    expect(path, "version and layout", words[at::VERSION], layout::group_version_word())?;
    let crc_at = match words[FORMAT_AT] {
        UNCHECKED => UNCHECKED_CRC,
        format => {
            expect(path, "format", format, FORMAT)?;
            CRC
        }
    };
    expect(path, "header CRC", words[crc_at], header_crc(&words[..crc_at]))?;
    Ok(words)
}

fn tail_of(words: &[u64]) -> Option<Tail> {
    (words[FORMAT_AT] == FORMAT).then(|| Tail {
        checks_crc: words[TAIL_CRCS] as u32,
        epochs_crc: (words[TAIL_CRCS] >> 32) as u32,
        epochs: words[EPOCHS] as u32,
    })
}

fn facts_of(words: &[u64]) -> CheckpointFacts {
    CheckpointFacts {
        id: words[PASS],
        number: words[NUMBER],
        begun_ms: words[BEGUN],
        written_pages: words[WRITTEN],
        state: PassState::of_word(words[STATE]),
        partner: Some(words[PARTNER]).filter(|&id| id != 0),
    }
}

fn open_file(options: &OpenOptions, path: &Path) -> Result<File, Error> {
    super::fault::open(path).map_err(io_error(path, "open it"))?;
    open_regular(options, path)
}

/// Opens a checkpoint file, and checks its header and length. `options` is at least for reading.
pub(super) fn open(
    data_dir: &Path,
    name: &str,
    (index, part): (u32, Part),
    options: &OpenOptions,
) -> Result<OpenCheckpoint, Error> {
    let path = path_of(data_dir, name, index, part);
    let file = open_file(options, &path)?;
    let words = read_words(&path, &file)?;
    let header = parse_header(&path, &words)?;
    let tail = tail_of(&words);
    let len = file.metadata().map_err(io_error(&path, "read its length"))?.len();
    let least = match tail {
        Some(tail) => tail::file_bytes(&header, tail.epochs),
        None => header.geometry.file_bytes(),
    };
    // A pass that is broken off may leave the file longer.
    if len < least {
        expect(&path, "length", len, least)?;
    }
    expect(&path, "group name", header.name.as_str(), name)?;
    expect(&path, "file index", header.file, index)?;
    Ok(OpenCheckpoint { facts: facts_of(&words), path, file, header, tail })
}

/// Creates a checkpoint file whose data is that of an empty group: zeros.
pub(super) fn create(
    data_dir: &Path,
    header: &Header,
    part: Part,
    facts: CheckpointFacts,
) -> Result<OpenCheckpoint, Error> {
    let path = path_of(data_dir, &header.name, header.file, part);
    let end = if part.side == Side::A { "a.new" } else { "b.new" };
    let draft = path.with_extension(end);
    let tail = tail::empty_tail(header);
    super::fault::point(&draft)?;
    let file = create_whole(&path, &draft, |file| {
        // Allocate all blocks now, so that a full disk breaks off no pass later.
        sys::allocate(file, 0, tail::file_bytes(header, 0))
            .map_err(io_error(&draft, "allocate its blocks"))?;
        write_header(&draft, file, header, (facts, tail))?;
        super::fault::point(&draft)?;
        file.sync_all().map_err(io_error(&draft, "sync it"))?;
        super::fault::point(&path)
    })?;
    Ok(OpenCheckpoint { path, file, header: header.clone(), facts, tail: Some(tail) })
}

/// Creates both checkpoints of a new group, complete and empty. Returns the id of their pass.
pub(crate) fn create_empty(data_dir: &Path, header: &Header) -> Result<u64, Error> {
    let id = random_id(data_dir)?;
    let begun_ms = frs_base::clock::now();
    let facts = CheckpointFacts {
        id,
        number: 1,
        begun_ms,
        written_pages: 0,
        state: PassState::Complete,
        partner: None,
    };
    for side in Side::BOTH {
        settle(data_dir, header, side, None)?;
        for file in 0..header.geometry.files {
            let part = Part { set: FileSet::Named, side };
            create(data_dir, &Header { file, ..header.clone() }, part, facts)?;
        }
    }
    Ok(id)
}

/// An id for a pass, never 0.
pub(super) fn random_id(data_dir: &Path) -> Result<u64, Error> {
    let [id] = sys::random().map_err(io_error(data_dir, "draw the id of a pass"))?;
    Ok(id.max(1))
}

/// Prepares the checkpoint that the next pass writes, for the files with these ids. After a move,
/// the copies of the next files become those of the named ones, file 0 last. Removes copies of
/// files that no longer exist. If this is interrupted at any step, the checkpoint does not count as
/// complete.
pub(super) fn settle(
    data_dir: &Path,
    named: &Header,
    side: Side,
    next: Option<u64>,
) -> Result<(), Error> {
    let name = &named.name;
    let [of_named, of_next] = [FileSet::Named, FileSet::Next].map(|set| Part { set, side });
    let first = path_of(data_dir, name, 0, of_next);
    let options = OpenOptions::new().read(true).clone();
    let found = open(data_dir, name, (0, of_next), &options).ok().map(|open| open.header.id);
    if found.is_some() && found == next {
        return Ok(());
    }
    if found == Some(named.id) {
        for file in (0..named.geometry.files).rev() {
            let [from, to] = [of_next, of_named].map(|part| path_of(data_dir, name, file, part));
            super::fault::point(&to)?;
            match std::fs::rename(&from, &to) {
                // Renamed before an interruption.
                Err(error) if error.kind() == ErrorKind::NotFound && file > 0 => {}
                renamed => renamed.map_err(io_error(&to, "rename it into place"))?,
            }
        }
        sync_directory(&first)?;
    }
    // First, since without file 0 there are no copies.
    super::fault::point(&first)?;
    remove_if_there(&first)?;
    super::fault::point(&first)?;
    remove_numbered(data_dir, name, end_of(of_next), |_| true)?;
    super::fault::point(&first)?;
    remove_numbered(data_dir, name, end_of(of_named), |file| file >= named.geometry.files)
}
