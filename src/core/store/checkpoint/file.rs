//! A checkpoint file: its format, and which checkpoints there are of a group.
//!
//! Invariant: a header says that a pass is complete only after all that the pass has written is on
//! the disk. A pass counts if the headers of all files of the group name it as complete; of a group
//! that moves, those of the files that it moves to, too. The pass copied these last, so that no
//! record is missing in both.
//!
//! ```text
//! DATA/GROUP.I.checkpoint.a and .b
//! DATA/GROUP.I.next.checkpoint.a and .b   of the files that the group moves to
//!   page 0   header     0 magic | 1 version, layout digest | 2..14 as in a group file
//!                       14 format | 15 complete (1), or a pass is under way (0) | 16 random id of
//!                       the pass, the same in all files of the group | 17 its number | 18 when it
//!                       began (ms) | 19 pages that it has written | 20 id of the other
//!                       files of a group that moves, or 0 | 21 CRC over 0..21
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
use crate::store::file_words::{
    bytes_of, create_draft, header_crc, remove_if_there, sync_directory, words_of,
};
use crate::store::group::{FileSet, Header, header_words, open_regular, parse_header};
use crate::store::layout::{self, group as at};
use crate::store::staging::remove_numbered;

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
const PARTNER: usize = WRITTEN + 1;
const CRC: usize = PARTNER + 1;
const _: () = assert!(FORMAT_AT == 14 && CRC == 21 && (CRC + 1) * 8 <= layout::PAGE_BYTES);

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
    /// Of a group that moves: the id of the other files that belong to this pass.
    pub partner: Option<u64>,
}

/// Which of the checkpoints of a group a file belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    /// What is copied there: the named files, or those that the group moves to.
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
}

/// How the names of the files of a part end, behind the number.
fn end_of(Part { set, side }: Part) -> &'static str {
    match (set, side) {
        (FileSet::Named, Side::A) => ".checkpoint.a",
        (FileSet::Named, Side::B) => ".checkpoint.b",
        (FileSet::Next, Side::A) => ".next.checkpoint.a",
        (FileSet::Next, Side::B) => ".next.checkpoint.b",
    }
}

const PARTS: [Part; 4] = [
    Part { set: FileSet::Named, side: Side::A },
    Part { set: FileSet::Named, side: Side::B },
    Part { set: FileSet::Next, side: Side::A },
    Part { set: FileSet::Next, side: Side::B },
];

/// The path of a checkpoint file.
pub(crate) fn path_of(data_dir: &Path, name: &str, file: u32, part: Part) -> PathBuf {
    data_dir.join(format!("{name}.{file}{}", end_of(part)))
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
    let CheckpointFacts { id, number, begun_ms, written_pages, is_complete, partner } = facts;
    words.extend([FORMAT, u64::from(is_complete), id, number, begun_ms, written_pages]);
    words.push(partner.unwrap_or(0));
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
        partner: Some(words[PARTNER]).filter(|&id| id != 0),
    };
    Ok((header, facts))
}

/// Opens a checkpoint file. `options` is at least for reading.
pub(super) fn open(
    data_dir: &Path,
    name: &str,
    (file, part): (u32, Part),
    options: &OpenOptions,
) -> Result<OpenCheckpoint, Error> {
    let path = path_of(data_dir, name, file, part);
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
    part: Part,
    facts: CheckpointFacts,
) -> Result<OpenCheckpoint, Error> {
    let path = path_of(data_dir, &header.name, header.file, part);
    let end = if part.side == Side::A { "a.new" } else { "b.new" };
    let draft = path.with_extension(end);
    let made = (|| {
        super::fault::point(&draft)?;
        let file = create_draft(&draft)?;
        // All blocks now: a full disk breaks off no pass later.
        sys::allocate(&file, 0, header.geometry.file_bytes())
            .map_err(io_error(&draft, "allocate its blocks"))?;
        write_header(&draft, &file, header, facts)?;
        super::fault::point(&draft)?;
        file.sync_all().map_err(io_error(&draft, "sync it"))?;
        super::fault::point(&path)?;
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
    let facts = CheckpointFacts {
        id,
        number: 1,
        begun_ms,
        written_pages: 0,
        is_complete: true,
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
    let mut bytes = [0; 8];
    sys::random(&mut bytes).map_err(io_error(data_dir, "draw the id of a pass"))?;
    Ok(u64::from_le_bytes(bytes).max(1))
}

/// The checkpoints of a group.
#[derive(Debug)]
pub(crate) enum Found {
    /// There is no file of any.
    Nothing,
    /// The newest pass that is complete in all files, and the one before, or why that is not
    /// complete.
    Complete(Box<Complete>, Result<Box<Complete>, String>),
    /// There are files, and no pass is complete in all of them. For each checkpoint, why.
    Unusable(Vec<String>),
}

/// A pass that is complete in all files of a group.
#[derive(Debug)]
pub(crate) struct Complete {
    pub side: Side,
    pub facts: CheckpointFacts,
    pub named: Copied,
    /// If the group moved, the files that it moved to.
    pub next: Option<Copied>,
}

/// What was copied of the files of one geometry.
#[derive(Debug)]
pub(crate) struct Copied {
    /// The header of file 0.
    pub header: Header,
    /// In order of their indexes.
    pub files: Vec<OpenCheckpoint>,
}

impl Complete {
    /// The named files, and those that the group moved to.
    pub fn copied(&self) -> impl Iterator<Item = (FileSet, &Copied)> {
        let next = self.next.iter().map(|next| (FileSet::Next, next));
        std::iter::once((FileSet::Named, &self.named)).chain(next)
    }

    /// What the group has its geometry from: of one that moved, the files that it moved to.
    pub fn newest(&self) -> &Copied {
        self.next.as_ref().unwrap_or(&self.named)
    }
}

/// Finds the newest complete pass of a group, and opens its files for reading.
pub(crate) fn find(data_dir: &Path, name: &str) -> Result<Found, Error> {
    if !is_any_there(data_dir, name)? {
        return Ok(Found::Nothing);
    }
    let [a, b] = Side::BOTH.map(|side| complete(data_dir, name, side));
    let number = |found: &Result<Complete, String>| found.as_ref().map_or(0, |c| c.facts.number);
    let (newest, older) = if number(&a) >= number(&b) { (a, b) } else { (b, a) };
    match (newest, older) {
        (Ok(newest), older) => Ok(Found::Complete(Box::new(newest), older.map(Box::new))),
        (Err(one), Err(two)) => Ok(Found::Unusable(vec![one, two])),
        (Err(_), Ok(_)) => unreachable!("the one with a number is the newest"),
    }
}

fn complete(data_dir: &Path, name: &str, side: Side) -> Result<Complete, String> {
    let (named, facts) = copied(data_dir, name, Part { set: FileSet::Named, side })?;
    let part = Part { set: FileSet::Next, side };
    let first = path_of(data_dir, name, 0, part);
    let next = first.exists().then(|| copied(data_dir, name, part)).transpose()?;
    let differs = |field: &str, found: u64, expected: u64| {
        let path = first.display();
        format!("{path}: {field}: found {found:016x}, expected {expected:016x}, as in file 0")
    };
    let found = next.as_ref().map(|(next, _)| next.header.id);
    if found != facts.partner {
        let [found, expected] = [found, facts.partner].map(Option::unwrap_or_default);
        return Err(differs("group id", found, expected));
    }
    if let Some((_, of_next)) = &next
        && of_next.id != facts.id
    {
        return Err(differs("id of the pass", of_next.id, facts.id));
    }
    Ok(Complete { side, facts, named, next: next.map(|(next, _)| next) })
}

fn copied(data_dir: &Path, name: &str, part: Part) -> Result<(Copied, CheckpointFacts), String> {
    let open = |file| {
        let options = OpenOptions::new().read(true).clone();
        let opened = open(data_dir, name, (file, part), &options).map_err(|e| e.to_string())?;
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
    Ok((Copied { header, files }, facts))
}

/// Prepares the checkpoint that is to be written next for the files with these ids. Where a move
/// has ended, the copies of the next files become those of the named ones, file 0 last; copies of
/// files that are no more are removed. Whatever this interrupts, the checkpoint is not complete
/// then.
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
    // First, since without it there are none.
    super::fault::point(&first)?;
    remove_if_there(&first)?;
    super::fault::point(&first)?;
    remove_numbered(data_dir, name, end_of(of_next), |_| true)?;
    super::fault::point(&first)?;
    remove_numbered(data_dir, name, end_of(of_named), |file| file >= named.geometry.files)
}

/// The newest complete pass of a group, if there is one, without its files.
pub fn checkpoint_facts(data_dir: &Path, name: &str) -> Option<CheckpointFacts> {
    restorable(data_dir, name).ok().flatten()
}

/// The pass that a start restores a group from which has no live files. `None`: there is no
/// checkpoint.
///
/// # Errors
/// There are checkpoints, and none is complete.
pub fn restorable(data_dir: &Path, name: &str) -> Result<Option<CheckpointFacts>, Error> {
    match find(data_dir, name)? {
        Found::Nothing => Ok(None),
        Found::Complete(complete, _) => {
            // Each file says how many of its own pages were written.
            let files = complete.copied().flat_map(|(_, copied)| &copied.files);
            let written_pages = files.map(|file| file.facts.written_pages).sum();
            Ok(Some(CheckpointFacts { written_pages, ..complete.facts }))
        }
        Found::Unusable(why) => Err(Error::Lost { group: name.to_owned(), why }),
    }
}

/// The geometry of the newest complete pass of a group, if there is one. Of one that moved, that to
/// which it moved.
pub(crate) fn geometry(data_dir: &Path, name: &str) -> Option<Geometry> {
    match find(data_dir, name) {
        Ok(Found::Complete(complete, _)) => Some(complete.newest().header.geometry),
        _ => None,
    }
}

/// Whether the group moved in its newest complete pass.
pub(crate) fn is_checkpoint_of_move(data_dir: &Path, name: &str) -> bool {
    checkpoint_facts(data_dir, name).is_some_and(|facts| facts.partner.is_some())
}

/// Removes a checkpoint of a group.
pub(crate) fn remove(data_dir: &Path, name: &str, side: Side) -> Result<(), Error> {
    for (part, path) in paths(data_dir, name)? {
        if part.side == side {
            remove_if_there(&path)?;
        }
    }
    Ok(())
}

fn is_any_there(data_dir: &Path, name: &str) -> Result<bool, Error> {
    Ok(!paths(data_dir, name)?.is_empty())
}

/// The paths of all checkpoint files of a group, whatever their numbers.
fn paths(data_dir: &Path, name: &str) -> Result<Vec<(Part, PathBuf)>, Error> {
    let start = format!("{name}.");
    let part_of = |file: &str| {
        let middle = file.strip_prefix(&start)?;
        let is_its = |part: &Part| {
            middle.strip_suffix(end_of(*part)).is_some_and(|number| number.parse::<u32>().is_ok())
        };
        PARTS.into_iter().find(is_its)
    };
    let entries = std::fs::read_dir(data_dir).map_err(io_error(data_dir, "read the directory"))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(io_error(data_dir, "read the directory"))?.path();
        if let Some(part) = path.file_name().and_then(|name| name.to_str()).and_then(part_of) {
            found.push((part, path));
        }
    }
    Ok(found)
}
