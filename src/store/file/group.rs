//! A file group: creates, opens and checks its files, and locates a key-node and a node in them.
//!
//! Invariant: a group is served only from files whose length and every header field are correct. A
//! file that differs is reported and left unchanged.

mod memory;

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use frs_base::sync::Ordering;
use frs_base::sys;
use frs_conf::key::KeyNodeId;
use frs_conf::{self as conf, Geometry, HashKind};

use super::layout::{self, HEAD_WORDS, PAGE_WORDS, TAG_WORDS, group as at, runtime, tag};
use super::region::Region;
pub(crate) use super::set::committed_path;
pub use super::set::{FileSet, next_path_of, path_of};
pub use super::set::{is_next_there, is_there, is_unfinished};
use super::version::Versioned;
use super::words::{
    FilePlace, bytes_of, create_draft, header_crc, sync_directory, words_of, write_zeros,
};
pub use crate::chain::node_check::{is_whole, seal};
use crate::chain::tags::moved_tag;
use crate::checkpoint::dirty::DirtyPages;
use crate::checkpoint::dirty_file;
use crate::error::{Error, expect, io_error};
use crate::lock::semaphore::Semaphore;
use crate::watch::runtime::{FileEntry, Runtime};

/// A mapped group.
#[derive(Debug)]
pub struct Group {
    // Dropped before the regions that they point into.
    _watches: Vec<sys::Watch>,
    files: Vec<Region>,
    /// The register's entries of the files when they were opened.
    entries: Vec<FileEntry>,
    /// Their indexes in the register.
    indexes: Vec<u32>,
    header: Header,
    mark: usize,
    in_memory: bool,
    /// The marks of changed pages of each file. Empty where there are no checkpoints.
    dirty: Vec<DirtyPages>,
    dirty_places: Vec<FilePlace>,
    /// Huge pages asked for so far, over all files.
    huge_asked: usize,
    node_words: usize,
    key_node_words: usize,
    /// Another group grows out of it.
    is_former: bool,
    /// Whether its nodes have versions.
    versioned: Versioned,
}

/// The header of a group file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Random id of the group.
    pub id: u64,
    /// Name of the group.
    pub name: String,
    /// Its geometry.
    pub geometry: Geometry,
    /// Seeds of its hashes.
    pub seeds: [u64; 2],
    /// When it was created, in milliseconds.
    pub created_ms: u64,
    /// Index of this file.
    pub file: u32,
}

/// Marks of a group file outside its header's CRC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marks {
    pub boot: [u64; 2],
    pub clean: bool,
    pub quarantined: bool,
}

/// Opens a file, which must be a regular file.
pub(crate) fn open_regular(options: &OpenOptions, path: &Path) -> Result<File, Error> {
    sys::open_regular(options, path).map_err(io_error(path, "open it"))
}

/// Creates the files of a group that has none. True if it created them. An unfinished creation
/// (file 0 absent) is repeated.
pub fn create(live_dir: &Path, group: &conf::Group) -> Result<bool, Error> {
    let files = group.geometry.files;
    if is_there(live_dir, &group.name) {
        return Ok(false);
    }
    let first = path_of(live_dir, &group.name, 0);
    let [id, seeds @ ..]: [u64; 3] = sys::random().map_err(io_error(&first, "draw its seeds"))?;
    let header = Header {
        id,
        name: group.name.clone(),
        geometry: group.geometry,
        seeds,
        created_ms: frs_base::clock::now(),
        file: 0,
    };
    let drafts: Vec<(PathBuf, PathBuf)> = (0..files)
        .map(|file| {
            let path = path_of(live_dir, &group.name, file);
            (path.with_extension("mmap.new"), path)
        })
        .collect();
    let made = drafts.iter().enumerate().try_for_each(|(file, (staging, _))| {
        create_file(staging, &Header { file: file as u32, ..header.clone() })
    });
    if let Err(error) = made {
        // Free the blocks: the disk is full, or a later try will need them.
        for (staging, _) in &drafts {
            let _ = std::fs::remove_file(staging);
        }
        return Err(error);
    }
    // File 0 last: while it is absent, the group does not exist.
    for (staging, path) in drafts.iter().rev() {
        std::fs::rename(staging, path).map_err(io_error(path, "rename it into place"))?;
    }
    sync_directory(&first)?;
    Ok(true)
}

pub(crate) fn create_file(path: &Path, header: &Header) -> Result<(), Error> {
    let file = create_draft(path)?;
    let len = header.geometry.file_bytes();
    sys::allocate(&file, 0, len).map_err(io_error(path, "allocate its blocks"))?;
    if sys::must_be_filled(&file).map_err(io_error(path, "look at its disk"))? {
        write_zeros(&file, len).map_err(io_error(path, "write its blocks"))?;
    }
    let mut words = [0u64; at::QUARANTINE + 1];
    words[..at::NAME + 4].copy_from_slice(&header_words(header));
    // Parsing these words gives the same header. (A geometry out of bounds is an error there.)
    debug_assert!(parse_header(path, &words).map_or(true, |read| read == *header));
    words[at::CRC] = header_crc(&words[..at::CRC]);
    // A file of zeros is clean: free places and free semaphores.
    words[at::CLEAN] = 1;
    file.write_all_at(&bytes_of(&words), 0).map_err(io_error(path, "write its header"))?;
    file.sync_all().map_err(io_error(path, "sync it"))
}

pub(crate) fn header_words(header: &Header) -> [u64; at::NAME + 4] {
    let geometry = &header.geometry;
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let mut words = [0u64; at::NAME + 4];
    words[at::MAGIC] = layout::GROUP_MAGIC;
    words[at::VERSION] = layout::group_version_word();
    words[at::ID] = header.id;
    words[at::FILES] = pair(geometry.files, header.file);
    words[at::KEY_NODES] = pair(geometry.key_nodes, geometry.chain);
    words[at::SIZES] = pair(geometry.node_bytes, geometry.key_bytes);
    words[at::HASH] = match geometry.hash {
        HashKind::Bob => 1,
        HashKind::Siphash => 2,
    };
    words[at::SEED] = header.seeds[0];
    words[at::SEED + 1] = header.seeds[1];
    words[at::CREATED] = header.created_ms;
    words[at::NAME..].copy_from_slice(&layout::name_words(&header.name));
    words
}

/// Reads and checks the header of a group file, and checks the file's length against it.
pub(crate) fn read_header(path: &Path, file: &File) -> Result<Header, Error> {
    let len = file.metadata().map_err(io_error(path, "read its length"))?.len();
    let mut bytes = [0u8; (at::CRC + 1) * 8];
    if len < layout::PAGE_BYTES as u64 {
        expect(path, "length", len, layout::PAGE_BYTES as u64)?;
    }
    file.read_exact_at(&mut bytes, 0).map_err(io_error(path, "read its header"))?;
    let words = words_of(&bytes);
    expect(path, "magic", words[at::MAGIC], layout::GROUP_MAGIC)?;
    expect(path, "version and layout", words[at::VERSION], layout::group_version_word())?;
    expect(path, "header CRC", words[at::CRC], header_crc(&words[..at::CRC]))?;
    let header = parse_header(path, &words)?;
    expect(path, "length", len, header.geometry.file_bytes())?;
    Ok(header)
}

pub(crate) fn parse_header(path: &Path, words: &[u64]) -> Result<Header, Error> {
    let low = |at: usize| words[at] as u32;
    let high = |at: usize| (words[at] >> 32) as u32;
    let bad = |field, found: String, expected: &str| Error::Mismatch {
        path: path.to_path_buf(),
        field,
        found,
        expected: expected.to_string(),
    };
    let hash = match words[at::HASH] {
        1 => HashKind::Bob,
        2 => HashKind::Siphash,
        other => return Err(bad("hash", other.to_string(), "1 (bob) or 2 (siphash)")),
    };
    let geometry = Geometry {
        files: low(at::FILES),
        key_nodes: low(at::KEY_NODES),
        chain: high(at::KEY_NODES),
        node_bytes: low(at::SIZES),
        key_bytes: high(at::SIZES),
        hash,
    };
    let sound = (1..=runtime::FILES_MAX as u32).contains(&geometry.files)
        && geometry.key_nodes >= 1
        && (1..=layout::CHAIN_MAX as u32).contains(&geometry.chain)
        && (64..=32768).contains(&geometry.node_bytes)
        && geometry.node_bytes.is_multiple_of(64)
        && (8..=256).contains(&geometry.key_bytes)
        && geometry.key_bytes.is_multiple_of(8)
        && geometry.key_bytes + 24 <= geometry.node_bytes;
    if !sound {
        return Err(bad("geometry", format!("{geometry:?}"), "numbers within their bounds"));
    }
    let name = [words[at::NAME], words[at::NAME + 1], words[at::NAME + 2], words[at::NAME + 3]];
    let name = layout::name_of(name)
        .ok_or_else(|| bad("group name", format!("{name:x?}"), "[a-z0-9-]{1,32}"))?;
    Ok(Header {
        id: words[at::ID],
        name,
        geometry,
        seeds: [words[at::SEED], words[at::SEED + 1]],
        created_ms: words[at::CREATED],
        file: high(at::FILES),
    })
}

pub(crate) fn read_marks(path: &Path, file: &File) -> Result<Marks, Error> {
    let mut bytes = [0u8; 32];
    file.read_exact_at(&mut bytes, at::BOOT as u64 * 8)
        .map_err(io_error(path, "read its marks"))?;
    let words = words_of(&bytes);
    Ok(Marks { boot: [words[0], words[1]], clean: words[2] == 1, quarantined: words[3] != 0 })
}

/// Writes boot id, clean mark and quarantine word, and waits until they are on disk.
pub fn write_marks(path: &Path, marks: Marks) -> Result<(), Error> {
    let file = open_regular(OpenOptions::new().write(true), path)?;
    let words =
        [marks.boot[0], marks.boot[1], u64::from(marks.clean), u64::from(marks.quarantined)];
    file.write_all_at(&bytes_of(&words), at::BOOT as u64 * 8)
        .map_err(io_error(path, "write its marks"))?;
    file.sync_all().map_err(io_error(path, "sync it"))
}

/// The mapped files of a group.
#[derive(Debug, Default)]
pub(crate) struct MappedFiles {
    /// In order of their indexes.
    pub regions: Vec<Region>,
    /// The register's entries, or the entries that registering the files would make.
    pub entries: Vec<FileEntry>,
    /// Their indexes in the register.
    pub indexes: Vec<u32>,
    pub watches: Vec<sys::Watch>,
    pub in_memory: bool,
    /// The marks of changed pages of each file. Empty where there are no checkpoints.
    pub dirty: Vec<DirtyPages>,
    /// The files that hold these marks.
    pub dirty_places: Vec<FilePlace>,
}

/// An opened group file.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub path: PathBuf,
    pub file: File,
}

/// The files of a group, opened and checked against each other, not mapped.
#[derive(Debug)]
pub(crate) struct OpenGroup {
    pub header: Header,
    pub files: Vec<OpenFile>,
}

/// Opens the files of a group for reading and writing.
pub(crate) fn open_files(live_dir: &Path, name: &str) -> Result<OpenGroup, Error> {
    open_files_of(live_dir, name, FileSet::Named)
}

/// Like [`open_files`], for one of the two file sets that a moving group has.
pub(crate) fn open_files_of(live_dir: &Path, name: &str, set: FileSet) -> Result<OpenGroup, Error> {
    open_files_with(OpenOptions::new().read(true).write(true), live_dir, name, set)
}

/// Like [`open_files`], for the group with this name and this id.
pub(crate) fn open_files_with_id(live_dir: &Path, name: &str, id: u64) -> Result<OpenGroup, Error> {
    let mut opened = open_files_of(live_dir, name, FileSet::Named);
    // The plain names twice: in between, the next files may have been renamed to them.
    for set in [FileSet::Next, FileSet::Named] {
        if opened.as_ref().is_ok_and(|open| open.header.id == id) {
            break;
        }
        if set == FileSet::Named || is_next_there(live_dir, name) {
            opened = open_files_of(live_dir, name, set);
        }
    }
    let opened = opened?;
    expect(&opened.files[0].path, "group id", opened.header.id, id)?;
    Ok(opened)
}

/// Like [`open_files`], with these `options`. Tools open files for reading only.
pub(crate) fn open_files_with(
    options: &OpenOptions,
    live_dir: &Path,
    name: &str,
    set: FileSet,
) -> Result<OpenGroup, Error> {
    if is_unfinished(live_dir, name) {
        return Err(Error::Unfinished { group: name.to_string() });
    }
    let open = |index: u32| -> Result<OpenFile, Error> {
        let path = set.path_of(live_dir, name, index);
        let file = open_regular(options, &path)?;
        Ok(OpenFile { path, file })
    };
    let first = open(0)?;
    let header = read_header(&first.path, &first.file)?;
    expect(&first.path, "group name", header.name.as_str(), name)?;
    expect(&first.path, "file index", header.file, 0)?;
    let mut files = vec![first];
    for index in 1..header.geometry.files {
        let OpenFile { path, file } = match open(index) {
            Err(Error::Io { path, source, .. }) if source.kind() == ErrorKind::NotFound => {
                return Err(Error::Missing { group: name.to_string(), missing: path });
            }
            opened => opened?,
        };
        let other = read_header(&path, &file)?;
        expect(&path, "file index", other.file, index)?;
        expect(&path, "group id", other.id, header.id)?;
        if (Header { file: 0, ..other.clone() }) != header {
            return Err(Error::Mismatch {
                path,
                field: "header",
                found: format!("{other:?}"),
                expected: format!("that of file 0: {header:?}"),
            });
        }
        files.push(OpenFile { path, file });
    }
    Ok(OpenGroup { header, files })
}

/// Compares the geometry of existing files with that of the configuration.
pub(crate) fn check_geometry(header: &Header, group: &conf::Group) -> Result<(), Error> {
    header.geometry.differences(&group.geometry).next().map_or(Ok(()), |other| {
        let conf::OtherSetting { field, found, expected } = other;
        Err(Error::Geometry { group: group.name.clone(), field, found, expected })
    })
}

/// The register's entry of a group file.
pub(crate) fn entry_of(
    path: &Path,
    file: &File,
    header: &Header,
    index: u32,
) -> Result<FileEntry, Error> {
    let FilePlace { device, inode, birth_ns } =
        FilePlace::of(file).map_err(io_error(path, "read its inode"))?;
    Ok(FileEntry {
        group: header.id,
        file: index,
        device,
        inode,
        birth_ns,
        name: header.name.clone(),
    })
}

impl Group {
    /// Maps a group that `prepare` has registered. The group must not outlive the map of the
    /// runtime.
    pub fn open(live_dir: &Path, name: &str, runtime: &Runtime) -> Result<Group, Error> {
        Self::map(open_files(live_dir, name)?, runtime)
    }

    /// Like [`Group::open`], for the group with this name and this id: while a group moves, two
    /// groups have its name.
    pub fn open_id(
        live_dir: &Path,
        name: &str,
        id: u64,
        runtime: &Runtime,
    ) -> Result<Group, Error> {
        #[cfg(any(test, feature = "crash-points"))]
        if let Some(shared) = runtime.shared() {
            return shared.open(id, runtime);
        }
        Self::map(open_files_with_id(live_dir, name, id)?, runtime)
    }

    pub(crate) fn map(open: OpenGroup, runtime: &Runtime) -> Result<Group, Error> {
        let OpenGroup { header, files } = open;
        let (mut mark, mut entries, mut indexes) = (None, Vec::new(), Vec::new());
        let (mut dirty, mut dirty_places) = (Vec::new(), Vec::new());
        for (index, OpenFile { path, file }) in files.iter().enumerate() {
            let found = entry_of(path, file, &header, index as u32)?;
            let known = runtime.find_file(header.id, index as u32);
            let Some(known) = known.filter(|known| known.entry == found) else {
                return Err(Error::Mismatch {
                    path: path.clone(),
                    field: "device and inode",
                    found: format!("{}:{}", found.device, found.inode),
                    expected: "those in runtime.mmap: it was swapped, restart the server".into(),
                });
            };
            if let Some(place) = runtime.dirty_place(known.index) {
                dirty.push(dirty_file::open(path, header.geometry.file_bytes(), &found, place)?);
                dirty_places.push(place);
            }
            mark.get_or_insert(known.index);
            indexes.push(known.index as u32);
            entries.push(found);
        }
        if dirty.len() < files.len() {
            // The marks are being made. A process that changes the group later maps it again.
            (dirty, dirty_places) = (Vec::new(), Vec::new());
        }
        let words = header.geometry.file_bytes() as usize / 8;
        let regions = files
            .iter()
            .map(|OpenFile { path, file }| {
                Region::map(file, 0, words).map_err(io_error(path, "map it"))
            })
            .collect::<Result<Vec<Region>, Error>>()?;
        let mark = mark.expect("a group has a file");
        let watch = |region: &Region, path: &Path| {
            let header_mark = regions[0].word(at::QUARANTINE);
            let bits = runtime::FILE_QUARANTINE;
            sys::watch(region.span(), runtime.mark_of(mark), bits, header_mark, path)
        };
        let of_files = files.iter().zip(&regions).map(|(file, region)| watch(region, &file.path));
        let of_marks = files.iter().zip(&dirty);
        let of_marks =
            of_marks.map(|(file, dirty)| watch(dirty.region(), &dirty_file::path_of(&file.path)));
        let watches = of_files.chain(of_marks).flatten().collect();
        let in_memory = sys::is_file_in_memory(&files[0].file)
            .map_err(io_error(&files[0].path, "look at its disk"))?;
        let files =
            MappedFiles { regions, entries, indexes, watches, in_memory, dirty, dirty_places };
        let is_former = runtime.is_former(&header.name, header.id);
        Ok(Group { is_former, ..Group::of_files(header, mark, files) })
    }

    /// A group over its files. `mark` is the index of the first file in the register.
    pub(crate) fn of_files(header: Header, mark: usize, files: MappedFiles) -> Group {
        let MappedFiles {
            regions: files,
            entries,
            indexes,
            watches,
            in_memory,
            dirty,
            dirty_places,
        } = files;
        assert!(dirty.is_empty() || dirty.len() == files.len(), "marks of all files, or of none");
        let node_words = header.geometry.node_bytes as usize / 8;
        let key_node_words = HEAD_WORDS + header.geometry.chain as usize * node_words;
        Group {
            _watches: watches,
            files,
            entries,
            indexes,
            header,
            mark,
            in_memory,
            dirty,
            dirty_places,
            huge_asked: 0,
            node_words,
            key_node_words,
            is_former: false,
            versioned: Versioned::No,
        }
    }

    /// Notes whether its nodes have versions.
    pub(crate) fn set_versioned(&mut self, versioned: Versioned) {
        self.versioned = versioned;
    }

    /// Whether its nodes have versions.
    #[inline]
    pub(crate) fn versioned(&self) -> Versioned {
        self.versioned
    }

    /// Whether changes of its nodes are noted for other machines.
    #[inline]
    pub fn is_mirrored(&self) -> bool {
        self.versioned != Versioned::No
    }

    /// Notes whether another group grows out of it.
    pub(crate) fn set_former(&mut self, is_former: bool) {
        self.is_former = is_former;
    }

    /// Whether the node of a place with this tag has moved to the group that grows out of this one.
    /// `expected` is the tag of the node's key. A moved node stays until its copy is on disk.
    #[inline]
    pub(crate) fn is_moved(&self, tag: u8, expected: u8) -> bool {
        self.is_former && tag == moved_tag(expected)
    }

    /// Like `is_moved`, with a copy of the place's node.
    pub(crate) fn has_moved(&self, tag: u8, words: &[u64]) -> bool {
        self.is_former && self.locate(words).is_some_and(|at| self.is_moved(tag, at.tag))
    }

    /// Whether the mapped files, and the files that mark their changes, are still the registered
    /// ones.
    pub(crate) fn is_registered(&self, runtime: &Runtime) -> bool {
        self.entries.iter().enumerate().all(|(file, entry)| {
            runtime.find_file(entry.group, entry.file).is_some_and(|known| {
                let marks = self.dirty_places.get(file).copied();
                known.entry == *entry && runtime.dirty_place(known.index) == marks
            })
        })
    }

    /// The entries of its files in the register when they were opened.
    pub(crate) fn entries(&self) -> &[FileEntry] {
        &self.entries
    }

    /// The group's header.
    #[inline]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The group's geometry.
    #[inline]
    pub fn geometry(&self) -> &Geometry {
        &self.header.geometry
    }

    /// Words of a node.
    #[inline]
    pub fn node_words(&self) -> usize {
        self.node_words
    }

    /// Words of a key-node.
    pub(crate) fn key_node_words(&self) -> usize {
        self.key_node_words
    }

    /// Words of the key field.
    #[inline]
    pub fn field_words(&self) -> usize {
        self.header.geometry.key_bytes as usize / 8
    }

    /// The words of a file.
    #[inline]
    pub fn file(&self, file: u32) -> &Region {
        &self.files[file as usize]
    }

    /// The files.
    pub fn files(&self) -> &[Region] {
        &self.files
    }

    /// The marks of changed pages of a file, where there are checkpoints.
    #[inline]
    pub(crate) fn dirty(&self, file: u32) -> Option<&DirtyPages> {
        self.dirty.get(file as usize)
    }

    /// The marks of changed pages of all files, in order. Empty where there are no checkpoints.
    pub(crate) fn all_dirty(&self) -> &[DirtyPages] {
        &self.dirty
    }

    /// Whether changed pages are marked.
    #[inline]
    pub(crate) fn has_checkpoints(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Marks the page of a word that was written outside of a commit.
    #[inline]
    pub(crate) fn mark_dirty(&self, file: u32, at: usize) {
        if let Some(dirty) = self.dirty(file) {
            dirty.mark(at, 1);
        }
    }

    /// Index of the register entry that has the group's quarantine bit.
    #[inline]
    pub fn mark(&self) -> usize {
        self.mark
    }

    /// The index of a file in the register.
    #[inline]
    pub fn register_index(&self, file: u32) -> u32 {
        self.indexes[file as usize]
    }

    /// First word of a key-node.
    #[inline]
    pub fn head(&self, key_node: u32) -> usize {
        PAGE_WORDS + key_node as usize * self.key_node_words
    }

    /// First word of a node in a key-node.
    #[inline]
    pub fn node(&self, key_node: u32, place: usize) -> usize {
        self.head(key_node) + HEAD_WORDS + place * self.node_words
    }

    /// The place in a chain where a node of this tag goes if the place is free. So a look-up knows
    /// the most probable place of a node before it has read the head.
    #[inline]
    pub fn home(&self, tag: u8) -> usize {
        usize::from(tag.saturating_sub(1)) * self.header.geometry.chain as usize / 255
    }

    /// Its key-nodes, file by file.
    pub fn key_nodes(&self) -> impl Iterator<Item = KeyNodeId> + use<> {
        let geometry = *self.geometry();
        (0..geometry.all_key_nodes()).map(move |number| geometry.key_node_at(number))
    }

    /// The tags of a key-node; 0 for a free place.
    pub fn tags(&self, at: KeyNodeId) -> [u64; TAG_WORDS] {
        let mut tags = [0; TAG_WORDS];
        self.file(at.file).read(self.head(at.key_node) + 1, &mut tags);
        tags
    }

    /// The places of a key-node's chain that are in use now.
    pub fn taken_places(&self, at: KeyNodeId) -> impl Iterator<Item = usize> + use<> {
        let tags = self.tags(at);
        let chain = self.geometry().chain as usize;
        (0..chain).filter(move |&place| tag::of(tags[place / 8], place) != 0)
    }

    /// Reads the words of a node as they are stored.
    pub fn read_node(&self, at: KeyNodeId, place: usize, words: &mut [u64]) {
        self.file(at.file).read(self.node(at.key_node, place), words);
    }

    /// The words of a node as they are stored.
    pub fn node_at(&self, at: KeyNodeId, place: usize) -> Vec<u64> {
        let mut words = vec![0; self.node_words];
        self.read_node(at, place, &mut words);
        words
    }

    /// The semaphore of a key-node.
    #[inline]
    pub fn semaphore(&self, file: u32, key_node: u32) -> Semaphore<'_> {
        Semaphore::of_head(self.file(file), self.head(key_node))
    }

    /// Whether there is such a key-node.
    pub(crate) fn has(&self, file: u32, key_node: u32) -> bool {
        file < self.geometry().files && key_node < self.geometry().key_nodes
    }

    /// The key-node whose tags or nodes include this word of a file. None if it is a word of the
    /// header or of a semaphore, or if there is no such word.
    pub(crate) fn key_node_of(&self, file: u32, word: u64) -> Option<u32> {
        if file >= self.geometry().files {
            return None;
        }
        let behind = usize::try_from(word).ok()?.checked_sub(PAGE_WORDS)?;
        let (key_node, at) = (behind / self.key_node_words, behind % self.key_node_words);
        let is_there = key_node < self.geometry().key_nodes as usize && at > 0;
        is_there.then_some(key_node as u32)
    }

    /// Whether an eviction may be logged now: at most one a minute over all processes.
    pub(crate) fn may_log_eviction(&self, now: u64) -> bool {
        let word = self.files[0].word(at::EVICTION_LOGGED);
        let last = word.load(Ordering::Relaxed);
        let due = last == 0 || now < last || now - last >= 60_000;
        due && word.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}
