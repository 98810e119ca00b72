//! The word map of the files: what stands where, in 64-bit little-endian words.
//!
//! Invariant: each offset derives from the one before it, the sizes are asserted below, and the
//! digest of all of them stands in each header, so that a file of another layout is refused.
//!
//! ```text
//! GROUP.I.mmap
//!   page 0   header        0 magic | 1 version, layout digest | 2 group id | 3 files, file index
//!                          4 key-nodes, chain | 5 node bytes, key bytes | 6 hash kind
//!                          7..9 seeds | 9 created ms | 10..14 group name | 14 CRC over 0..14
//!                          outside the CRC: 16..18 boot id | 18 clean mark | 19 quarantine
//!                          20 last eviction logged (ms)
//!   then     key-nodes     head: 0 semaphore (u32), spare (u32) | 1..8 tags, a byte a place
//!                          then `chain` nodes
//!   node                   0 CRC-32C (0..32; of the node, with 0 for
//!                          itself and the last use), shape (32..48), flags (48..64):
//!                          reset epoch of the biz (48..56), has a ban (56)
//!                          1 biz id (0..32), key length (32..48), key form (48..56)
//!                          2 last use ms (outside the CRC) | 3.. key field | states | zero
//! runtime.mmap
//!   page 0   header        0 magic | 1 version, layout digest | 2..4 boot id | 4 created ms
//!                          5 CRC over 0..5 | 64 generation of the configuration
//!                          72 the last flush failed (0, 1)
//!   page 1.. files         4096 entries of 16 words: 0 group id | 1 file index (0..32),
//!                          used (32), quarantine (33) | 2 device | 3 inode | 4..8 group name
//!                          8 birth of the file (ns)
//!   then     256 slots     page 0: 0 state (0..32), epoch (32..64) | 1 pid, role | 2 generation
//!                          acknowledged | 3 phase | 4 intents | 5 transactions begun
//!                          page 1: counters
//!                          then 4096 intents of 2 words: group id | file (32..64), key-node
//!                          then 65536 undo entries of 3 words: group id |
//!                          file (48..64), word offset (0..48) | old value
//! ```

/// Bytes of a page: headers, and the unit slots are aligned to. The model checker gets a small one.
pub const PAGE_BYTES: usize = if cfg!(loom) { 64 } else { 4096 };
/// Words of a page.
pub const PAGE_WORDS: usize = PAGE_BYTES / 8;

/// First word of a group file: "FRSGROUP".
pub const GROUP_MAGIC: u64 = u64::from_le_bytes(*b"FRSGROUP");
/// First word of runtime.mmap: "FRSRUNTM".
pub const RUNTIME_MAGIC: u64 = u64::from_le_bytes(*b"FRSRUNTM");
/// Format number; changes with the meaning or size of any field.
pub const VERSION: u32 = 2;

/// Words of a key-node's head.
pub const HEAD_WORDS: usize = 8;
/// Words of tags in a head.
pub const TAG_WORDS: usize = 7;
/// Most nodes of a chain: one tag byte each.
pub const CHAIN_MAX: usize = TAG_WORDS * 8;

/// Header words of a group file.
pub mod group {
    pub(crate) const MAGIC: usize = 0;
    pub(crate) const VERSION: usize = 1;
    pub(crate) const ID: usize = 2;
    pub(crate) const FILES: usize = 3;
    pub(crate) const KEY_NODES: usize = 4;
    pub(crate) const SIZES: usize = 5;
    pub(crate) const HASH: usize = 6;
    pub(crate) const SEED: usize = 7;
    pub(crate) const CREATED: usize = 9;
    pub(crate) const NAME: usize = 10;
    pub(crate) const CRC: usize = 14;
    pub(crate) const BOOT: usize = 16;
    pub(crate) const CLEAN: usize = 18;
    pub(crate) const QUARANTINE: usize = 19;
    pub(crate) const EVICTION_LOGGED: usize = 20;
}

/// Words of a node.
pub mod node {
    /// CRC-32C, shape, flags.
    pub const CHECK: usize = 0;
    /// Biz id, key length, key form.
    pub const KEY: usize = 1;
    /// Last use, milliseconds.
    pub const LAST_USE: usize = 2;
    /// The key field.
    pub const FIELD: usize = 3;
    /// Flag: a word with the end of a ban stands behind the states.
    pub const FLAG_BAN: u16 = 1 << 8;

    /// The reset epoch of the node's business, the low bits of its flags.
    pub const fn epoch(check: u64) -> u8 {
        flags(check) as u8
    }

    /// Word 1 of a node.
    pub const fn key_word(biz_id: u32, form: u8, length: u16) -> u64 {
        biz_id as u64 | (length as u64) << 32 | (form as u64) << 48
    }

    /// Word 0 without its CRC.
    pub const fn check_word(shape: u16, flags: u16) -> u64 {
        (shape as u64) << 32 | (flags as u64) << 48
    }

    /// The shape of word 0.
    pub const fn shape(check: u64) -> u16 {
        (check >> 32) as u16
    }

    /// The flags of word 0.
    pub const fn flags(check: u64) -> u16 {
        (check >> 48) as u16
    }
}

/// Words of runtime.mmap.
pub mod runtime {
    use super::PAGE_WORDS;

    pub(crate) const MAGIC: usize = 0;
    pub(crate) const VERSION: usize = 1;
    pub(crate) const BOOT: usize = 2;
    pub(crate) const CREATED: usize = 4;
    pub(crate) const CRC: usize = 5;
    pub(crate) const GENERATION: usize = 64;
    /// On a line of its own.
    pub(crate) const FLUSH_FAILED: usize = GENERATION + 8;

    /// Group files that can be registered.
    pub const FILES_MAX: usize = 4096;
    pub(crate) const FILE_WORDS: usize = 16;
    pub(crate) const FILES: usize = PAGE_WORDS;
    pub(crate) const FILE_USED: u64 = 1 << 32;
    pub(crate) const FILE_QUARANTINE: u64 = 1 << 33;

    /// Slots: handles attached at once.
    pub const SLOTS: usize = 256;
    pub(crate) const SLOTS_START: usize = FILES + FILES_MAX * FILE_WORDS;
    /// Words of the whole file.
    pub const WORDS: usize = SLOTS_START + SLOTS * super::slot::WORDS;
}

/// Words of a slot, from its start.
pub mod slot {
    use super::PAGE_WORDS;

    pub(crate) const STATE: usize = 0;
    pub(crate) const OWNER: usize = 1;
    pub(crate) const GENERATION: usize = 2;
    pub(crate) const PHASE: usize = 3;
    pub(crate) const INTENTS: usize = 4;
    pub(crate) const SEQUENCE: usize = 5;
    pub(crate) const COUNTERS: usize = PAGE_WORDS;

    /// Key-nodes of one transaction.
    pub const INTENTS_MAX: usize = if cfg!(loom) { 4 } else { 4096 };
    pub(crate) const INTENT_WORDS: usize = 2;
    pub(crate) const INTENT_LIST: usize = 2 * PAGE_WORDS;

    /// Words that one transaction may change.
    pub const UNDO_MAX: usize = if cfg!(loom) { 8 } else { 64 * 1024 };
    pub(crate) const UNDO_WORDS: usize = 3;
    pub(crate) const UNDO_LOG: usize = INTENT_LIST + INTENTS_MAX * INTENT_WORDS;

    /// Words of a slot.
    pub const WORDS: usize = UNDO_LOG + UNDO_MAX * UNDO_WORDS;
}

#[cfg(not(loom))]
const _: () = assert!(runtime::SLOTS_START.is_multiple_of(PAGE_WORDS));
#[cfg(not(loom))]
const _: () = assert!(slot::WORDS.is_multiple_of(PAGE_WORDS));
#[cfg(not(loom))]
const _: () = assert!(slot::WORDS * 8 == 402 * PAGE_BYTES);
#[cfg(not(loom))]
const _: () = assert!(runtime::WORDS * 8 == (129 + 256 * 402) * PAGE_BYTES);

// What `frs check` counts with.
#[cfg(not(loom))]
const _: () = {
    use crate::conf::memory::{RUNTIME_BYTES, SLOT_BYTES};
    assert!(SLOT_BYTES as usize == (slot::WORDS - PAGE_WORDS) * 8);
    assert!(RUNTIME_BYTES as usize == (runtime::SLOTS_START + runtime::SLOTS * PAGE_WORDS) * 8);
};

/// Digest of the field sizes: differs between builds that would read each other's files wrongly.
pub const fn digest() -> u32 {
    let parts = [
        HEAD_WORDS,
        TAG_WORDS,
        PAGE_BYTES,
        node::FIELD,
        group::CRC,
        group::QUARANTINE,
        runtime::FILES_MAX,
        runtime::FILE_WORDS,
        slot::INTENT_LIST,
        slot::UNDO_LOG,
        slot::WORDS,
    ];
    let mut digest: u32 = 0x811c_9dc5;
    let mut at = 0;
    while at < parts.len() {
        digest = (digest ^ parts[at] as u32).wrapping_mul(0x0100_0193);
        at += 1;
    }
    digest
}

/// The version word of both kinds of header.
pub const fn version_word() -> u64 {
    VERSION as u64 | (digest() as u64) << 32
}

/// Packs a name of up to 32 bytes, zero padded.
pub fn name_words(name: &str) -> [u64; 4] {
    let mut bytes = [0u8; 32];
    let len = name.len().min(32);
    bytes[..len].copy_from_slice(&name.as_bytes()[..len]);
    std::array::from_fn(|i| u64::from_le_bytes(std::array::from_fn(|b| bytes[i * 8 + b])))
}

/// The name in four words, if it is one.
pub fn name_of(words: [u64; 4]) -> Option<String> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let len = bytes.iter().position(|&byte| byte == 0).unwrap_or(32);
    let ok = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
    (len > 0 && bytes[..len].iter().all(ok) && bytes[len..].iter().all(|&byte| byte == 0))
        .then(|| String::from_utf8_lossy(&bytes[..len]).into_owned())
}
