//! A prepared data directory. An input may overwrite its files, and they are restored afterwards.
//!
//! Invariant: an input finds the same bytes in every process and after any other inputs, so that a
//! finding is reproducible. The directory is in memory if possible.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use frs_conf::{Conf, Texts, active};
use frs_engine::{Answers, Command, ItemOptions, Request, Role, Service};
use frs_store::fuzzing as at;
use frs_store::{Runtime, group, testing};

/// The time of all calls, in milliseconds.
pub const NOW: u64 = 1_800_000_000_000;
/// Files of the group.
pub const FILES: usize = 2;
/// Key-nodes of a file.
pub const KEY_NODES: usize = 2;
/// Nodes of a chain.
pub const CHAIN: usize = 4;
/// Words of a node.
pub const NODE_WORDS: usize = 24;
/// The most bytes of one piece of an input.
const PIECE_MAX: usize = 64;
/// Words of a page.
pub const PAGE_WORDS: usize = 512;
/// Words of a group file.
pub const FILE_WORDS: usize = PAGE_WORDS + KEY_NODES * KEY_NODE_WORDS;
const KEY_NODE_WORDS: usize = at::HEAD_WORDS + CHAIN * NODE_WORDS;

/// Every policy, in records of keys and of a whole business.
pub const MAP: &str = r#"<map>
  <group name="g" files="2" key-nodes="2" chain="4" node-size="192"/>
  <biz id="1" name="login" key="string">
    <limit policy="interval" interval="60s" max="5" debt="3" ban="10m"/>
    <limit policy="sliding" interval="1m" max="6"/>
    <limit policy="sliding-counter" interval="1m" max="6"/>
  </biz>
  <biz id="2" name="sale" key="ip">
    <limit policy="total" scope="biz" max="100"/>
    <limit policy="calendar" unit="day" max="3" debt="1"/>
    <limit policy="token" rate="10/s" burst="20"/>
    <limit policy="count"/>
  </biz>
</map>"#;

/// Keys with nodes.
pub const KEYS: [BizKey<'_>; 4] = [
    BizKey { biz: "login", key: "alice" },
    BizKey { biz: "login", key: "bob" },
    BizKey { biz: "sale", key: "::1" },
    BizKey { biz: "sale", key: "10.0.0.1" },
];

/// A key of a business.
#[derive(Clone, Copy)]
pub struct BizKey<'k> {
    pub biz: &'k str,
    pub key: &'k str,
}

/// The first word of a key-node.
pub const fn head(key_node: usize) -> usize {
    PAGE_WORDS + key_node * KEY_NODE_WORDS
}

/// The first word of a node.
pub const fn node(key_node: usize, place: usize) -> usize {
    head(key_node) + at::HEAD_WORDS + place * NODE_WORDS
}

/// The first byte of a word of a slot.
pub const fn slot_byte(slot: usize, word: usize) -> u64 {
    ((at::SLOTS_START + slot * at::SLOT_WORDS + word) * 8) as u64
}

/// Words as a file holds them.
pub fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A prepared data directory.
pub struct World {
    dir: tempfile::TempDir,
    pub conf: Conf,
    /// Files of the group, runtime.mmap, the configuration.
    pub files: [Kept; FILES + 2],
}

/// An open file, and its original contents in part.
pub struct Kept {
    pub path: PathBuf,
    pub file: File,
    len: u64,
    inode: u64,
    parts: Vec<KeptPart>,
}

/// The original bytes of a part of a file.
struct KeptPart {
    from: u64,
    bytes: Vec<u8>,
}

/// A range of bytes of a file.
struct Part {
    from: u64,
    len: usize,
}

impl Kept {
    fn of(path: PathBuf, parts: &[Part]) -> Kept {
        let file = File::options().read(true).write(true).open(&path).expect("it is there");
        let metadata = file.metadata().expect("it is there");
        let (len, inode) = (metadata.len(), metadata.ino());
        let read = |part: &Part| {
            let mut bytes = vec![0; part.len];
            file.read_exact_at(&mut bytes, part.from).expect("so long it is");
            KeptPart { from: part.from, bytes }
        };
        let parts = parts.iter().map(read).collect();
        Kept { path, file, len, inode, parts }
    }

    /// Keeps a whole file.
    pub fn whole(path: PathBuf) -> Kept {
        let bytes = std::fs::metadata(&path).expect("it is there").len();
        Kept::of(path, &[Part { from: 0, len: bytes as usize }])
    }

    /// Restores the file. Returns `false` if the directory holds another file by now.
    pub fn restore(&self) -> bool {
        let there = std::fs::metadata(&self.path);
        if there.map_or(true, |there| there.ino() != self.inode) {
            return false;
        }
        let len = self.file.metadata().expect("it is open").len();
        if len != self.len {
            self.file.set_len(self.len).expect("as it was");
        }
        let write = |part: &KeptPart| self.file.write_all_at(&part.bytes, part.from).is_ok();
        self.parts.iter().all(write)
    }
}

impl World {
    /// Prepares a new directory.
    pub fn new() -> World {
        let dir = directory();
        let data = dir.path();
        let srv = format!(
            "<srv><workers>1</workers><listen>127.0.0.1:1</listen><data dir=\"{}\"/>\
             <http lock-timeout=\"1ms\"/></srv>",
            data.display()
        );
        let conf = Conf::parse("srv.xml", &srv, "map.xml", MAP).expect("sound");
        Runtime::create_or_open(data).expect("made");
        group::create(data, &conf.map.groups[0]).expect("made");
        (0..FILES).for_each(|file| settle(&group::path_of(data, "g", file as u32)));
        let conf = put_in_force(data, srv);
        let page = PAGE_WORDS * 8;
        // The header and the register's first page; of the first slots the state, the counters, and
        // a part of the intents and of the undo log.
        let mut parts = vec![Part { from: 0, len: 2 * page }];
        for slot in 0..4 {
            parts.push(Part { from: slot_byte(slot, 0), len: 2 * page });
            parts.push(Part { from: slot_byte(slot, at::INTENT_LIST), len: 256 });
            parts.push(Part { from: slot_byte(slot, at::UNDO_LOG), len: 512 });
        }
        let files = [
            Kept::whole(group::path_of(data, "g", 0)),
            Kept::whole(group::path_of(data, "g", 1)),
            Kept::of(Runtime::path_in(data), &parts),
            Kept::whole(active::path(data, 1)),
        ];
        World { conf, files, dir }
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Restores everything, or makes a new directory if a file is missing.
    pub fn restore(&mut self) {
        if !self.files.iter().all(Kept::restore) {
            *self = World::new();
        }
    }
}

/// A new directory, in memory if possible.
pub fn directory() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    dir.expect("a directory")
}

/// Puts a srv.xml and [`MAP`] in force, and charges a use of each key.
pub fn put_in_force(data: &Path, srv: String) -> Conf {
    let (conf, _) = testing::put_in_force(data, &Texts::of(srv, MAP));
    let mut service = Service::attach(data, Role::Program, None).expect("attached");
    KEYS.into_iter().for_each(|key| ask(&mut service, Command::Update, key, NOW));
    conf
}

/// Writes the pieces of an input over a file. Each is an offset, a length and its bytes.
pub fn write_pieces(file: &File, mut pieces: &[u8], place: impl Fn(u64) -> u64) {
    while let Some(([low, high, len], rest)) = pieces.split_first_chunk::<3>() {
        let at = u64::from(u16::from_le_bytes([*low, *high]));
        let (piece, rest) = rest.split_at(rest.len().min(usize::from(*len) % PIECE_MAX));
        pieces = rest;
        file.write_all_at(piece, place(at)).expect("written");
    }
}

/// Asks for one key, and checks only that there is an answer.
pub fn ask(service: &mut Service, command: Command, key: BizKey<'_>, now: u64) {
    let (mut request, mut answers) = (Request::default(), Answers::default());
    request.begin(command);
    request.push(key.biz, key.key, ItemOptions::ONE.detailed());
    service.begin_tick();
    service.run(&request, now, &mut answers);
    assert_eq!(answers.items.len(), 1);
}

/// Makes a new group file equal in each process, so that keys lead to the same places.
fn settle(path: &Path) {
    let file = File::options().read(true).write(true).open(path).expect("it is there");
    let mut header = [0; at::GROUP_CRC * 8];
    file.read_exact_at(&mut header, 0).expect("so long it is");
    for (word, value) in [
        (at::GROUP_ID, 0x1111_2222_3333_4444u64),
        (at::GROUP_SEED, 5),
        (at::GROUP_SEED + 1, 6),
        (at::GROUP_CREATED, NOW),
    ] {
        header[word * 8..][..8].copy_from_slice(&value.to_le_bytes());
    }
    file.write_all_at(&header, 0).expect("written");
    seal_header(&file);
}

/// Writes a valid CRC into a group file's header.
pub fn seal_header(file: &File) {
    let mut header = [0; at::GROUP_CRC * 8];
    file.read_exact_at(&mut header, 0).expect("so long it is");
    let crc = u64::from(crc32fast::hash(&header));
    file.write_all_at(&crc.to_le_bytes(), at::GROUP_CRC as u64 * 8).expect("written");
}
