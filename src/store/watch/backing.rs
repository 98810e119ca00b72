//! The file behind the words of runtime.mmap: the locks of its slots, and its blocks on the disk.
//!
//! Invariant: no call waits for a lock. A lock whose state cannot be read counts as held.

use std::fs::File;
use std::io;

use frs_base::sys;

use crate::file::layout::runtime::{SLOT_BYTES, SLOTS, SLOTS_START_BYTES, WORDS, slot_byte};
#[cfg(any(test, feature = "crash-points"))]
use crate::simulated::Played;

/// A file. In the simulation, locks and words that the played processes share.
#[derive(Debug)]
pub(crate) enum Backing {
    File(File),
    #[cfg(any(test, feature = "crash-points"))]
    Played(Played),
}

/// A lock of a slot.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SlotLock {
    /// Held by the owner of the slot while it lives, then by the process that recovers the slot.
    Owner(u32),
    /// Held while semaphores are freed in the name of the slot.
    Freeing(u32),
}

impl SlotLock {
    /// Its byte. The bytes for freeing follow the end of the file.
    fn byte(self) -> u64 {
        match self {
            SlotLock::Owner(slot) => slot_byte(slot),
            SlotLock::Freeing(slot) => WORDS as u64 * 8 + u64::from(slot),
        }
    }

    /// Its number in the simulation.
    #[cfg(any(test, feature = "crash-points"))]
    fn number(self) -> u32 {
        match self {
            SlotLock::Owner(slot) => slot,
            SlotLock::Freeing(slot) => SLOTS as u32 + slot,
        }
    }
}

impl Backing {
    /// The file.
    pub fn file(&self) -> &File {
        match self {
            Backing::File(file) => file,
            #[cfg(any(test, feature = "crash-points"))]
            Backing::Played(_) => unreachable!("nobody asks a played store for its file"),
        }
    }

    /// Whether another process holds the slot's lock.
    pub fn is_locked(&self, slot: u32) -> bool {
        match self {
            Backing::File(file) => sys::is_range_locked(file, slot_byte(slot), 1).unwrap_or(true),
            #[cfg(any(test, feature = "crash-points"))]
            Backing::Played(Played { locks, .. }) => locks.is_locked(slot),
        }
    }

    /// Whether another process holds the lock of any slot.
    pub fn is_any_locked(&self) -> bool {
        match self {
            Backing::File(file) => {
                let all = SLOTS as u64 * SLOT_BYTES;
                sys::is_range_locked(file, SLOTS_START_BYTES, all).unwrap_or(true)
            }
            #[cfg(any(test, feature = "crash-points"))]
            Backing::Played(Played { locks, .. }) => {
                (0..SLOTS as u32).any(|slot| locks.is_locked(slot))
            }
        }
    }

    /// Takes a lock of a slot if it is free now.
    pub fn try_lock(&self, lock: SlotLock) -> bool {
        match self {
            Backing::File(file) => sys::try_lock_range(file, lock.byte(), 1).unwrap_or(false),
            #[cfg(any(test, feature = "crash-points"))]
            Backing::Played(Played { locks, .. }) => locks.try_lock(lock.number()),
        }
    }

    /// Releases a lock of a slot.
    pub fn unlock(&self, lock: SlotLock) -> io::Result<()> {
        match self {
            Backing::File(file) => sys::unlock_range(file, lock.byte(), 1),
            #[cfg(any(test, feature = "crash-points"))]
            Backing::Played(Played { locks, .. }) => {
                locks.unlock(lock.number());
                Ok(())
            }
        }
    }

    /// Allocates blocks.
    pub fn allocate(&self, start: u64, len: u64) -> io::Result<()> {
        match self {
            Backing::File(file) => sys::allocate(file, start, len),
            #[cfg(any(test, feature = "crash-points"))]
            Backing::Played(_) => Ok(()),
        }
    }
}

/// Lock byte of the reader of the mailboxes. It follows the bytes for freeing.
pub(crate) const MAILBOXES_BYTE: u64 = WORDS as u64 * 8 + SLOTS as u64;

/// Lock byte of the keeper that makes checkpoints. It follows that one.
pub(crate) const CHECKPOINT_BYTE: u64 = MAILBOXES_BYTE + 1;

/// Lock byte of the master. It follows that of checkpoints.
pub(crate) const MASTER_BYTE: u64 = CHECKPOINT_BYTE + 1;
