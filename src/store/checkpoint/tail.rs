//! The places of the parts after the key-nodes of a checkpoint file, and their description in its
//! header.
//!
//! Invariant: a file is at least as long as its header says that these parts are.

use frs_base::hash::crc32c_words;

use crate::file::group::Header;
use crate::file::layout::PAGE_BYTES;

/// The header's description of the parts after the key-nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tail {
    /// CRC over the checksums.
    pub checks_crc: u32,
    /// CRC over the epochs.
    pub epochs_crc: u32,
    /// The number of businesses with an epoch.
    pub epochs: u32,
}

/// Where the checksums begin.
pub(super) fn tail_start(header: &Header) -> u64 {
    header.geometry.file_bytes().next_multiple_of(PAGE_BYTES as u64)
}

pub(super) fn epochs_start(header: &Header) -> u64 {
    header.geometry.checkpoint_file_bytes()
}

/// The minimum length of a file with this many epochs.
pub(super) fn file_bytes(header: &Header, epochs: u32) -> u64 {
    epochs_start(header) + u64::from(epochs) * 16
}

pub(super) fn crc_of(header: &Header, words: &[u64]) -> u32 {
    crc32c_words([header.id, header.file.into(), words.len() as u64], words)
}

/// The parts of a new file: no record and no epoch.
pub(super) fn empty_tail(header: &Header) -> Tail {
    let checks_crc = crc_of(header, &vec![0; header.geometry.key_nodes as usize]);
    Tail { checks_crc, epochs: 0, epochs_crc: crc_of(header, &[]) }
}
