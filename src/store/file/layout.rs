//! The word map of the files: the place of every field, in 64-bit little-endian words.
//!
//! Invariant: each offset derives from the one before it, and the sizes are asserted below. Each
//! header holds the mark of its file's layout, so a file of another layout is refused.
//!
//! ```text
//! GROUP.I.mmap
//!   page 0   header        0 magic | 1 version, layout digest | 2 group id | 3 files, file index
//!                          4 key-nodes, chain | 5 node bytes, key bytes | 6 hash kind
//!                          7..9 seeds | 9 created ms | 10..14 group name | 14 CRC over 0..14
//!                          outside the CRC: 16..18 boot id | 18 clean mark | 19 quarantine
//!                          20 last eviction logged (ms)
//!   then     key-nodes     head: 0 semaphore (u32), filter of kept keys (u32): two
//!                          periods of 16 bits | 1..8 tags, a byte a place
//!                          then `chain` nodes
//!   node                   0 CRC-32C (0..32; of the node, with 0 for
//!                          itself and the last use), shape (32..48), flags (48..64):
//!                          low bits of the biz's reset epoch (48..56), has a ban (56), has a
//!                          version (58)
//!                          1 biz id (0..32), key length (32..48), key form (48..56)
//!                          2 last use ms (outside the CRC) | 3.. key field | states | zero
//!                          with a version, the last two words: changes (0..32), takeovers
//!                          (32..64) | host (0..32), begun (32..64)
//! runtime.mmap
//!   page 0   header        0 magic | 1 version, layout digest | 2..4 boot id | 4 created ms
//!                          5..7 random id | 7 CRC over 0..7 | 64 generation of the configuration
//!                          65 a word of an extension, read with the generation
//!                          72 the last flush failed (0, 1) | 80 this server's start (ms)
//!                          81 restarts of workers | 82 of keepers | 83 reloads taken
//!                          84 refused | 85 last one taken (ms) | 86 last one refused (ms)
//!                          87 restarts of an extension's process | 88 of frs-envoys
//!                          89 the last reload of the files was refused (0, 1)
//!                          128..384 the keeper and workers 0.. by their places, last
//!                          frs-envoy and an extension's process: process id (0..32), how
//!                          often it was replaced (32..64)
//!                          384..392 words of an extension: see runtime/extension.rs
//!                          392 programs' doorbell to the reader of the mailboxes (u32), spare
//!                          (u32) | 400 workers' doorbell to it (u32), spare (u32)
//!                          408..412 slots with new letters, a bit each
//!                          416..420 words of an extension that outlive a boot: three, and a CRC
//!                          over them
//!                          424 checkpoints requested | 425 requests answered
//!                          426 of them, the last by a complete pass | 427 since when passes
//!                          fail (ms), 0: they do not | 428 sum of their times (us)
//!                          429..456 how many, by doublings
//!   page 1.. files         4096 entries of 16 words: 0 group id | 1 file index (0..32),
//!                          used (32), quarantine (33) | 2 device | 3 inode | 4..8 group name
//!                          8 birth of the file (ns) | 9 id of the group that this one grows
//!                          out of; 0: of none | 10 inode and 11 birth of the file that marks
//!                          its changed pages; 0: none | 12, of file 0: when the newest
//!                          complete checkpoint began (ms) | 13 syncs of the file that failed,
//!                          or whose end nobody saw | 14 lineage, xor the digest of 0..4 and 8.
//!                          Older binaries leave them 0
//!   then     256 slots     page 0: 0 state (0..32), epoch (32..64) | 1 pid, role | 2 generation
//!                          acknowledged | 3 phase | 4 intents | 5 transactions begun
//!                          6 epoch of the owner whose letters stand in the ring (0..32), how
//!                          their reader calls it: 0 futex, 1 eventfd (32..64)
//!                          7 letters begun | 16 the owner's doorbell (u32), spare (u32)
//!                          24 changes noted in the ring of changes
//!                          from 64 on words of an extension: watch/counter/extension.rs
//!                          page 1: counters: 0..16 of one word each | 16..27 errors of items
//!                          32..112 requests by kind and kind of answer
//!                          112 commands of clients that frs does not have
//!                          120 connections open | 121 rows of groups in use
//!                          122 rows of businesses in use | 123 clients parked
//!                          124..127 handshakes of TLS. Older binaries leave them 0
//!                          127 rows of clients by name in use
//!                          from 128 on 3 histograms of 128 words:
//!                          sum (us) | 1.. buckets
//!                          then 64 rows of groups of 80 words: 0..4 name | 4..11 counters
//!                          11 free | 12..15 nodes live, expired, free
//!                          15..72 key-nodes by length of their chain | 72 nodes seen at (ms);
//!                          row 0: all others
//!                          then 4096 intents of 2 words: group id | file (32..64), key-node
//!                          then 65536 undo entries of 3 words: group id |
//!                          file (48..64), word offset (0..48) | old value
//!                          then heads of 64 sketches of 32 words: 0 biz id (0..32), given
//!                          (32) | 1 sequence: odd while panes turn | 2 first pane of 10 s that
//!                          is not folded yet | 3 pane of 10 s in which it was given
//!                          4..11 numbers of its panes of 10 s | 11..18 of those of 10 min
//!                          then 4096 rows of businesses of 128 words: 0 biz id | 1..8 items of
//!                          Queries by outcome | 8..15 of Updates | 15 Updates refused by a ban
//!                          16..25 by each of nine limits | 25 by all other limits
//!                          26 times of requests: sum (us) | 27.. buckets; row 0: unknown ones,
//!                          row 1: all others; sparse, blocks are allocated as rows come into
//!                          use
//!                          then the ring of 1024 letters: their states, a word each: state
//!                          (0..8), reply (8..16), sequence (16..64); then their records of 40
//!                          words: 0 CRC-32C (0..32), kind (32..40) | 1..6 head, of whose first
//!                          word 32..48 are the bytes of the tail | 6.. tail; sparse, blocks are
//!                          allocated where an extension is configured
//!                          then the panes of the 64 sketches of refused keys, 7 of 10 s and 7
//!                          of 10 min each; the last sketch is that of all other businesses; a
//!                          pane has 64 entries of 12 words: 0 check of the key, 0: free | 1 key,
//!                          as in a node | 2..9 key field; of a key that was cut: digest,
//!                          then its first 40 bytes | 9 count | 10 error
//!                          11 refused last at (ms); sparse, blocks are allocated as a sketch
//!                          is given
//!                          then a page: those commands by their names; sparse, allocated where
//!                          there are any
//!                          then 512 rows of clients by name of 16 words: 0..8 name | 8..15
//!                          items by outcome | 15 Updates refused; row 0: all others; sparse,
//!                          blocks are allocated as rows come into use
//!                          then the ring of 16384 changes, a word each: key-node (0..32), place
//!                          (32..38), entry of the file in the register (38..50), used (63);
//!                          sparse, allocated where a group is mirrored
//! ```

/// A size, for three kinds of build. Miri gets a smaller size, because each word of a list costs it
/// time. Loom has only the lists of transactions.
const fn of(serving: usize, miri: usize, loom: usize) -> usize {
    if cfg!(loom) {
        loom
    } else if cfg!(miri) {
        miri
    } else {
        serving
    }
}

/// Bytes of a page: the size of a header, and the alignment of slots.
pub const PAGE_BYTES: usize = of(4096, 4096, 64);
/// Words of a page.
pub const PAGE_WORDS: usize = PAGE_BYTES / 8;

/// First word of a group file: "FRSGROUP".
pub(crate) const GROUP_MAGIC: u64 = u64::from_le_bytes(*b"FRSGROUP");
/// First word of runtime.mmap: "FRSRUNTM".
pub(crate) const RUNTIME_MAGIC: u64 = u64::from_le_bytes(*b"FRSRUNTM");
/// Format number of group files and their checkpoints. It changes with the meaning or size of any
/// field.
pub(crate) const GROUP_VERSION: u32 = 6;
/// Format number of runtime.mmap.
pub(crate) const RUNTIME_VERSION: u32 = 11;

/// Words of a key-node's head.
pub const HEAD_WORDS: usize = 8;
/// Words of tags in a head.
pub const TAG_WORDS: usize = 7;
/// Most nodes in a chain: one tag byte each.
pub const CHAIN_MAX: usize = TAG_WORDS * 8;

/// The tags of a head. The tag of place `p` is byte `p % 8` of word `p / 8`, lowest byte first.
pub mod tag {
    /// The tag of a place, from the word that holds it.
    #[inline(always)]
    pub const fn of(word: u64, place: usize) -> u8 {
        (word >> (place % 8 * 8)) as u8
    }

    /// The word with another tag for the place.
    #[inline(always)]
    pub const fn with(word: u64, place: usize, tag: u8) -> u64 {
        let shift = place % 8 * 8;
        word & !(0xff << shift) | (tag as u64) << shift
    }
}

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
    /// Last use, in milliseconds.
    pub const LAST_USE: usize = 2;
    /// The key field.
    pub const FIELD: usize = 3;
    /// Flag: a word with a ban follows the states.
    pub const FLAG_BAN: u16 = 1 << 8;
    /// Flag of a record that is kept outside these files, never of a node: the record tells when
    /// its ban began.
    pub const FLAG_BEGUN: u16 = 1 << 9;
    /// Flag: the last words of the node are the version of its record.
    pub const FLAG_VERSION: u16 = 1 << 10;
    /// Words of a version.
    pub const VERSION_WORDS: usize = 2;

    /// The low 8 bits of the reset epoch of the node's business: the low bits of the flags.
    pub const fn epoch(check: u64) -> u8 {
        flags(check) as u8
    }

    /// Word 1 of a node.
    pub const fn key_word(biz_id: u32, form: u8, length: u16) -> u64 {
        biz_id as u64 | (length as u64) << 32 | (form as u64) << 48
    }

    /// Word 1 without the length of the key.
    pub const fn without_length(key_word: u64) -> u64 {
        key_word & !(0xffff << 32)
    }

    /// Bytes of the key, by word 1.
    pub const fn key_bytes(key_word: u64) -> u16 {
        (key_word >> 32) as u16
    }

    /// Form of the key, by word 1.
    pub const fn key_form(key_word: u64) -> u8 {
        (key_word >> 48) as u8
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
    pub(crate) const ID: usize = 5;
    pub(crate) const CRC: usize = 7;
    pub(crate) const GENERATION: usize = 64;
    /// On the same line: both are read often and hardly ever written.
    pub(crate) const EXTENSION_WORD: usize = GENERATION + 1;
    /// On a cache line of its own.
    pub(crate) const FLUSH_FAILED: usize = GENERATION + 8;
    /// Also on a line of its own: words that only the master writes.
    pub(crate) const STARTED: usize = FLUSH_FAILED + 8;
    pub(crate) const RESTARTS: usize = STARTED + 1;
    pub(crate) const RELOADS: usize = RESTARTS + 2;
    pub(crate) const RELOADED: usize = RELOADS + 2;
    pub(crate) const EXTENSION_RESTARTS: usize = RELOADED + 2;
    /// Older binaries leave it 0.
    pub(crate) const ENVOY_RESTARTS: usize = EXTENSION_RESTARTS + 1;
    pub(crate) const RELOAD_REFUSED: usize = ENVOY_RESTARTS + 1;
    /// The keeper, then the workers. The last place is that of an extension's process, the one
    /// before it frs-envoy's.
    pub(crate) const PLACES: usize = 128;
    pub(crate) const PLACES_MAX: usize = SLOTS;
    pub(crate) const EXTENSION_PLACE: usize = PLACES_MAX - 1;
    pub(crate) const ENVOY_PLACE: usize = EXTENSION_PLACE - 1;
    /// The words of an extension, each bell and the bits of asking slots have cache lines of their
    /// own, because different processes write them.
    pub(crate) const EXTENSION: usize = PLACES + PLACES_MAX;
    pub(crate) const EXTENSION_WORDS: usize = 8;
    pub(crate) const PROGRAMS_BELL: usize = EXTENSION + EXTENSION_WORDS;
    pub(crate) const WORKERS_BELL: usize = PROGRAMS_BELL + 8;
    pub(crate) const ASKING: usize = WORKERS_BELL + 8;
    pub(crate) const ASKING_WORDS: usize = SLOTS / 64;
    /// On a line of its own: only the master writes it.
    pub(crate) const KEPT: usize = ASKING + 8;
    /// Without the CRC behind them.
    pub(crate) const KEPT_WORDS: usize = 3;
    /// Older binaries leave these 0.
    pub(crate) const CHECKPOINTS_ASKED: usize = KEPT + 8;
    pub(crate) const CHECKPOINTS_ENDED: usize = CHECKPOINTS_ASKED + 1;
    pub(crate) const CHECKPOINTS_MADE: usize = CHECKPOINTS_ENDED + 1;
    pub(crate) const CHECKPOINTS_FAILING: usize = CHECKPOINTS_MADE + 1;
    pub(crate) const CHECKPOINT_TIMES: usize = CHECKPOINTS_FAILING + 1;
    pub(crate) const CHECKPOINT_DOUBLINGS: usize = 27;

    /// Most group files that can be registered.
    pub(crate) const FILES_MAX: usize = 4096;
    pub(crate) const FILE_WORDS: usize = 16;
    pub(crate) const FILE_CHECKPOINT: usize = 12;
    pub(crate) const FILE_DOUBTS: usize = 13;
    pub(crate) const FILE_LINEAGE: usize = 14;
    pub(crate) const FILES: usize = PAGE_WORDS;
    pub(crate) const FILE_FORMER: usize = 9;
    pub(crate) const FILE_USED: u64 = 1 << 32;
    pub(crate) const FILE_QUARANTINE: u64 = 1 << 33;

    /// Slots: most handles attached at once.
    pub const SLOTS: usize = 256;
    pub(crate) const SLOTS_START: usize = FILES + FILES_MAX * FILE_WORDS;
    /// Words of the whole file.
    pub const WORDS: usize = SLOTS_START + SLOTS * super::slot::WORDS;

    pub(crate) const SLOT_BYTES: u64 = super::slot::WORDS as u64 * 8;
    pub(crate) const SLOTS_START_BYTES: u64 = SLOTS_START as u64 * 8;

    /// First word of a slot.
    pub(crate) const fn slot_base(slot: u32) -> usize {
        SLOTS_START + slot as usize * super::slot::WORDS
    }

    /// First byte of a slot.
    pub(crate) const fn slot_byte(slot: u32) -> u64 {
        slot_base(slot) as u64 * 8
    }
}

/// Words of a slot, from its start.
pub mod slot {
    use super::{PAGE_WORDS, of};

    pub(crate) const STATE: usize = 0;
    pub(crate) const OWNER: usize = 1;
    pub(crate) const GENERATION: usize = 2;
    pub(crate) const PHASE: usize = 3;
    pub(crate) const INTENTS: usize = 4;
    pub(crate) const SEQUENCE: usize = 5;
    pub(crate) const RING_EPOCH: usize = 6;
    pub(crate) const RING_TAIL: usize = 7;
    #[cfg(not(loom))]
    pub(crate) const RETIRED: usize = 8;
    /// On a line of its own.
    #[cfg(not(loom))]
    pub(crate) const BELL: usize = 16;
    /// On a line of its own.
    pub(crate) const CHANGES_NOTED: usize = 24;
    pub(crate) const EXTENSION: usize = 64;
    pub(crate) const EXTENSION_WORDS: usize = of(448, 448, 0);
    /// The size of a table in the words of the extension, for the digest of this file.
    pub(crate) const EXTENSION_TABLE: usize = 24;
    pub(crate) const COUNTERS: usize = PAGE_WORDS;

    // Words in the page of counters, from its start.
    pub(crate) const ITEM_ERRORS: usize = 16;
    pub(crate) const REQUESTS: usize = 32;
    pub(crate) const UNKNOWN_COMMANDS: usize = 112;
    pub(crate) const OPEN: usize = 120;
    pub(crate) const GROUP_ROWS_USED: usize = 121;
    pub(crate) const BIZ_ROWS_USED: usize = 122;
    pub(crate) const PARKED: usize = 123;
    pub(crate) const HANDSHAKES: usize = 124;
    pub(crate) const CLIENT_ROWS_USED: usize = 127;
    pub(crate) const HISTOGRAMS: usize = 128;
    pub(crate) const HISTOGRAM_WORDS: usize = 128;

    /// Rows of groups. One row counts all groups beyond the table; each other row counts one group.
    pub(crate) const GROUP_ROWS: usize = of(64, 2, 0);
    pub(crate) const GROUP_ROW_WORDS: usize = 80;
    pub(crate) const GROUP_ROWS_START: usize = COUNTERS + PAGE_WORDS;
    pub(crate) const GROUP_COUNTS: usize = 4;
    pub(crate) const GROUP_NODES: usize = 12;
    pub(crate) const GROUP_SWEPT: usize = GROUP_NODES + 3 + super::CHAIN_MAX + 1;

    /// Most key-nodes of one transaction.
    pub const INTENTS_MAX: usize = of(4096, 4, 4);
    pub(crate) const INTENT_WORDS: usize = 2;
    pub(crate) const INTENT_LIST: usize = GROUP_ROWS_START + GROUP_ROWS * GROUP_ROW_WORDS;

    /// Most words that one transaction may change.
    pub const UNDO_MAX: usize = of(64 * 1024, 8, 8);
    pub(crate) const UNDO_ENTRY_WORDS: usize = 3;
    pub(crate) const UNDO_LOG: usize = INTENT_LIST + INTENTS_MAX * INTENT_WORDS;

    /// Sketches of refused keys. The last sketch is that of all businesses without their own.
    pub const SKETCHES: usize = of(64, 0, 0);
    pub(crate) const SKETCH_HEADS: usize = UNDO_LOG + UNDO_MAX * UNDO_ENTRY_WORDS;
    pub(crate) const SKETCH_HEAD_WORDS: usize = 32;
    pub(crate) const SKETCH_BIZ: usize = 0;
    pub(crate) const SKETCH_GIVEN: u64 = 1 << 32;
    pub(crate) const SKETCH_SEQUENCE: usize = 1;
    pub(crate) const SKETCH_FOLDED: usize = 2;
    pub(crate) const SKETCH_GIVEN_IN: usize = 3;
    pub(crate) const SKETCH_NUMBERS: usize = 4;
    /// Panes of each kind.
    pub(crate) const SKETCH_PANES: usize = 7;
    pub(crate) const SKETCH_ENTRIES: usize = 64;
    pub(crate) const SKETCH_ENTRY_WORDS: usize = 12;
    pub(crate) const ENTRY_CHECK: usize = 0;
    pub(crate) const ENTRY_KEY: usize = 1;
    pub(crate) const ENTRY_FIELD: usize = 2;
    /// Words of the key field of an entry.
    pub(crate) const ENTRY_FIELD_WORDS: usize = 7;
    pub(crate) const ENTRY_COUNT: usize = ENTRY_FIELD + ENTRY_FIELD_WORDS;
    pub(crate) const ENTRY_ERROR: usize = ENTRY_COUNT + 1;
    pub(crate) const ENTRY_LAST: usize = ENTRY_ERROR + 1;
    pub(crate) const PANE_WORDS: usize = SKETCH_ENTRIES * SKETCH_ENTRY_WORDS;
    /// Words of the panes of a sketch.
    pub(crate) const SKETCH_WORDS: usize = 2 * SKETCH_PANES * PANE_WORDS;

    /// Rows of businesses. All but two count a single business each.
    pub const BIZ_ROWS: usize = of(4096, 4, 0);
    pub(crate) const BIZ_ROW_WORDS: usize = 128;
    pub(crate) const BIZ_ROWS_START: usize = SKETCH_HEADS + SKETCHES * SKETCH_HEAD_WORDS;
    pub(crate) const BIZ_COUNTS: usize = 1;
    pub(crate) const BIZ_REFUSALS: usize = 15;
    pub(crate) const BIZ_TIMES: usize = 26;
    pub(crate) const BIZ_UNKNOWN: usize = 0;
    pub(crate) const BIZ_OTHERS: usize = 1;
    pub(crate) const BIZ_FIRST: usize = 2;

    /// Letters of an owner that wait for their replies.
    pub(crate) const LETTERS: usize = of(1024, 4, 1);
    pub(crate) const LETTER_STATES: usize = BIZ_ROWS_START + BIZ_ROWS * BIZ_ROW_WORDS;
    pub(crate) const LETTER_RECORDS: usize = LETTER_STATES + LETTERS;
    pub(crate) const LETTER_CHECK: usize = 0;
    pub(crate) const LETTER_HEAD: usize = 1;
    /// Words of the head of a letter.
    pub(crate) const LETTER_HEAD_WORDS: usize = 5;
    pub(crate) const LETTER_TAIL: usize = LETTER_HEAD + LETTER_HEAD_WORDS;
    /// Words of the longest tail of a letter.
    pub const LETTER_TAIL_WORDS: usize = of(32, 32, 1);
    pub(crate) const LETTER_WORDS: usize = of(40, 40, LETTER_TAIL + LETTER_TAIL_WORDS);
    pub(crate) const MAILBOX_BYTES: u64 = (SKETCHES_START - LETTER_STATES) as u64 * 8;

    pub(crate) const SKETCHES_START: usize =
        (LETTER_RECORDS + LETTERS * LETTER_WORDS).next_multiple_of(PAGE_WORDS);

    pub(crate) const COMMANDS_START: usize = SKETCHES_START + SKETCHES * SKETCH_WORDS;
    /// Names of commands that are counted.
    pub const COMMAND_NAMES: usize = of(512, 0, 0);

    /// Rows of clients by name. The first one counts all clients beyond the table.
    pub const CLIENT_ROWS: usize = of(512, 4, 0);
    pub(crate) const CLIENT_ROW_WORDS: usize = 16;
    pub(crate) const CLIENT_ROWS_START: usize = COMMANDS_START + COMMAND_NAMES;
    /// Words of the name of a client.
    pub(crate) const CLIENT_NAME_WORDS: usize = 8;
    pub(crate) const CLIENT_COUNTS: usize = CLIENT_NAME_WORDS;
    pub(crate) const CLIENT_REFUSED: usize = 15;

    /// Changes that the ring of changes holds.
    pub const CHANGES: usize = of(16 * 1024, 8, 2);
    pub(crate) const CHANGES_START: usize =
        (CLIENT_ROWS_START + CLIENT_ROWS * CLIENT_ROW_WORDS).next_multiple_of(PAGE_WORDS);

    /// Words of a slot.
    pub const WORDS: usize = (CHANGES_START + CHANGES).next_multiple_of(PAGE_WORDS);
}

#[cfg(not(any(loom, miri)))]
const _: () = {
    assert!(runtime::SLOTS_START.is_multiple_of(PAGE_WORDS));
    assert!(runtime::KEPT + runtime::KEPT_WORDS < PAGE_WORDS);
    assert!(slot::WORDS.is_multiple_of(PAGE_WORDS));
    assert!(slot::WORDS * 8 == 2915 * PAGE_BYTES);
    assert!(runtime::WORDS * 8 == (129 + 256 * 2915) * PAGE_BYTES);
    assert!(slot::EXTENSION + slot::EXTENSION_WORDS == PAGE_WORDS);
    assert!(slot::HISTOGRAMS + 3 * slot::HISTOGRAM_WORDS == PAGE_WORDS);
    assert!(slot::GROUP_SWEPT < slot::GROUP_ROW_WORDS);
    assert!(slot::BIZ_ROWS_START.is_multiple_of(PAGE_WORDS));
    assert!(slot::BIZ_ROW_WORDS * 8 == 1024);
    assert!(slot::CLIENT_REFUSED < slot::CLIENT_ROW_WORDS);
    assert!(slot::SKETCH_WORDS.is_multiple_of(PAGE_WORDS));
    assert!(slot::SKETCH_NUMBERS + 2 * slot::SKETCH_PANES <= slot::SKETCH_HEAD_WORDS);
    assert!(slot::ENTRY_LAST + 1 == slot::SKETCH_ENTRY_WORDS);
    assert!(slot::LETTER_STATES.is_multiple_of(PAGE_WORDS) && slot::BELL < PAGE_WORDS);
    assert!(slot::LETTER_TAIL + slot::LETTER_TAIL_WORDS <= slot::LETTER_WORDS);
    assert!(slot::LETTER_TAIL_WORDS == frs_conf::key::MAX_KEY_WORDS);
};

// The constants that `frs check` calculates with.
#[cfg(not(any(loom, miri)))]
const _: () = {
    use frs_conf::memory_bound::{
        BIZ_ROW_BYTES, BIZ_ROWS, CHANGES_BYTES, CLIENT_ROW_BYTES, MAILBOX_BYTES, RUNTIME_BYTES,
        SKETCH_BYTES, SKETCHES, SLOT_BYTES,
    };
    use frs_conf::{SLOTS, UNDO_WORDS};
    assert!(SLOTS as usize == runtime::SLOTS);
    assert!(UNDO_WORDS as usize == slot::UNDO_MAX);
    assert!(SLOT_BYTES as usize == (slot::BIZ_ROWS_START - PAGE_WORDS) * 8);
    assert!(BIZ_ROWS as usize == slot::BIZ_ROWS);
    assert!(BIZ_ROW_BYTES as usize == slot::BIZ_ROW_WORDS * 8);
    assert!(CLIENT_ROW_BYTES as usize == slot::CLIENT_ROW_WORDS * 8);
    assert!(frs_conf::MAX_PLACES < slot::CLIENT_ROWS);
    assert!(SKETCHES as usize == slot::SKETCHES);
    assert!(SKETCH_BYTES as usize == slot::SKETCH_WORDS * 8);
    assert!(MAILBOX_BYTES == slot::MAILBOX_BYTES);
    assert!(CHANGES_BYTES as usize == slot::CHANGES * 8);
    assert!(RUNTIME_BYTES as usize == (runtime::SLOTS_START + runtime::SLOTS * PAGE_WORDS) * 8);
};

/// Digest of the field sizes of a group file. A test checks that it changes only with the format
/// number.
#[cfg(all(test, not(any(loom, miri))))]
const fn group_digest() -> u32 {
    digest_of(&[HEAD_WORDS, TAG_WORDS, PAGE_BYTES, node::FIELD, group::CRC, group::QUARANTINE])
}

/// Digest of the field sizes of runtime.mmap. It differs between builds that would misread each
/// other's file.
const fn runtime_digest() -> u32 {
    let parts = [
        PAGE_BYTES,
        node::FIELD,
        runtime::FILES_MAX,
        runtime::FILE_WORDS,
        runtime::CRC,
        runtime::EXTENSION,
        runtime::ASKING,
        runtime::KEPT,
        runtime::KEPT_WORDS + 1,
        slot::RING_TAIL,
        slot::EXTENSION,
        slot::EXTENSION_TABLE,
        slot::REQUESTS,
        slot::HISTOGRAMS,
        slot::HISTOGRAM_WORDS,
        slot::GROUP_ROW_WORDS,
        slot::GROUP_SWEPT,
        slot::INTENT_LIST,
        slot::UNDO_LOG,
        slot::SKETCH_HEADS,
        slot::SKETCH_HEAD_WORDS,
        slot::SKETCH_NUMBERS,
        slot::SKETCH_PANES,
        slot::ENTRY_COUNT,
        slot::SKETCH_ENTRY_WORDS,
        slot::BIZ_ROWS_START,
        slot::BIZ_ROW_WORDS,
        slot::BIZ_REFUSALS,
        slot::BIZ_TIMES,
        slot::LETTER_STATES,
        slot::LETTER_TAIL,
        slot::LETTER_WORDS,
        slot::SKETCHES_START,
        slot::UNKNOWN_COMMANDS,
        slot::CLIENT_ROWS_START,
        slot::CLIENT_ROW_WORDS,
        slot::CLIENT_COUNTS,
        slot::CLIENT_REFUSED,
        slot::CHANGES_NOTED,
        slot::CHANGES_START,
        slot::WORDS,
    ];
    digest_of(&parts)
}

const fn digest_of(parts: &[usize]) -> u32 {
    let mut digest: u32 = 0x811c_9dc5;
    let mut at = 0;
    while at < parts.len() {
        digest = (digest ^ parts[at] as u32).wrapping_mul(0x0100_0193);
        at += 1;
    }
    digest
}

/// The mark of format 6, from a time when one digest covered runtime.mmap as well.
const GROUP_MARK: u32 = 0x21a6_a911;

/// The version word of a group file and of a checkpoint.
pub(crate) const fn group_version_word() -> u64 {
    GROUP_VERSION as u64 | (GROUP_MARK as u64) << 32
}

/// The version word of runtime.mmap.
pub(crate) const fn runtime_version_word() -> u64 {
    RUNTIME_VERSION as u64 | (runtime_digest() as u64) << 32
}

/// Packs a name of up to 32 bytes, padded with zeros.
pub fn name_words(name: &str) -> [u64; 4] {
    let mut bytes = [0u8; 32];
    let len = name.len().min(32);
    bytes[..len].copy_from_slice(&name.as_bytes()[..len]);
    std::array::from_fn(|i| u64::from_le_bytes(std::array::from_fn(|b| bytes[i * 8 + b])))
}

/// The name in four words, if it is a valid name.
pub fn name_of(words: [u64; 4]) -> Option<String> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let len = bytes.iter().position(|&byte| byte == 0).unwrap_or(32);
    let ok = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
    (len > 0 && bytes[..len].iter().all(ok) && bytes[len..].iter().all(|&byte| byte == 0))
        .then(|| String::from_utf8_lossy(&bytes[..len]).into_owned())
}

#[cfg(all(test, not(any(loom, miri))))]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_that_of_its_format_number() {
        const NEW: &str = "a new layout needs a new format number";
        assert_eq!((GROUP_VERSION, group_digest()), (6, 0xb934_a0e2), "{NEW}");
        assert_eq!((RUNTIME_VERSION, runtime_digest()), (11, 0xcc50_b5d6), "{NEW}");
    }
}
