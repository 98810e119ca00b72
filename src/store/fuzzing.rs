//! The parts of the files that fuzz/, and the tests that replay its corpus, overwrite with hostile
//! input. Not part of the library's interface.

use crate::file::layout::{self, group, slot};

/// Words of the head of a key-node.
pub const HEAD_WORDS: usize = layout::HEAD_WORDS;

/// Word of the group's id in the header of its files.
pub const GROUP_ID: usize = group::ID;
/// Word of the first of two seeds there.
pub const GROUP_SEED: usize = group::SEED;
/// Word of the time of creation there.
pub const GROUP_CREATED: usize = group::CREATED;
/// Word of the CRC there, over all words before it.
pub const GROUP_CRC: usize = group::CRC;

/// Word of the format in the header of a checkpoint.
pub const CHECKPOINT_FORMAT: usize = crate::checkpoint::CHECKPOINT_FORMAT;
/// Word of the CRC there, over all words before it.
pub const CHECKPOINT_CRC: usize = crate::checkpoint::CHECKPOINT_CRC;
/// Word of the CRC in format 1.
pub const CHECKPOINT_FORMER_CRC: usize = crate::checkpoint::CHECKPOINT_FORMER_CRC;

/// First word of runtime.mmap's slots.
pub const SLOTS_START: usize = layout::runtime::SLOTS_START;
/// Words of a slot.
pub const SLOT_WORDS: usize = slot::WORDS;
/// Word of a slot's state and epoch.
pub const STATE: usize = slot::STATE;
/// Word of the phase of a slot's transaction.
pub const PHASE: usize = slot::PHASE;
/// Word of the number of its intents.
pub const INTENTS: usize = slot::INTENTS;
/// First word of the intents.
pub const INTENT_LIST: usize = slot::INTENT_LIST;
/// First word of the undo log.
pub const UNDO_LOG: usize = slot::UNDO_LOG;
