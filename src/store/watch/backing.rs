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

    /// Takes the slot's lock if it is free now.
    pub fn try_lock(&self, slot: u32) -> bool {
        match self {
            Backing::File(file) => sys::try_lock_range(file, slot_byte(slot), 1).unwrap_or(false),
            #[cfg(any(test, feature = "crash-points"))]
            Backing::Played(Played { locks, .. }) => locks.try_lock(slot),
        }
    }

    /// Releases the slot's lock.
    pub(crate) fn unlock(&self, slot: u32) -> io::Result<()> {
        match self {
            Backing::File(file) => sys::unlock_range(file, slot_byte(slot), 1),
            #[cfg(any(test, feature = "crash-points"))]
            Backing::Played(Played { locks, .. }) => {
                locks.unlock(slot);
                Ok(())
            }
        }
    }

    /// Takes the lock for freeing semaphores in the name of a slot, if it is free now.
    pub(crate) fn try_lock_freeing(&self, slot: u32) -> bool {
        match self {
            Backing::File(file) => {
                sys::try_lock_range(file, freeing_byte(slot), 1).unwrap_or(false)
            }
            #[cfg(any(test, feature = "crash-points"))]
            Backing::Played(Played { locks, .. }) => locks.try_lock(SLOTS as u32 + slot),
        }
    }

    /// Releases the lock for freeing.
    pub(crate) fn unlock_freeing(&self, slot: u32) -> io::Result<()> {
        match self {
            Backing::File(file) => sys::unlock_range(file, freeing_byte(slot), 1),
            #[cfg(any(test, feature = "crash-points"))]
            Backing::Played(Played { locks, .. }) => {
                locks.unlock(SLOTS as u32 + slot);
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

/// Lock byte for freeing semaphores in the name of a slot: one for each slot, after the end of the
/// file.
fn freeing_byte(slot: u32) -> u64 {
    WORDS as u64 * 8 + u64::from(slot)
}
