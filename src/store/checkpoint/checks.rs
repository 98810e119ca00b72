//! The parts of a checkpoint file after its key-nodes: a checksum of each key-node, and the reset
//! epochs of the businesses.
//!
//! Invariant: in a complete checkpoint, a key-node that does not match its checksum differs from
//! what the pass wrote. The header has a CRC over all checksums of the file.
//!
//! A pass copies key-nodes, not pages: a page may have parts of several key-nodes, each copied at
//! another moment. So each checksum covers one whole key-node, on all pages that it lies on.
//!
//! ```text
//! from the first page behind the key-nodes on
//!   a word for each key-node   0..32 CRC-32C over group id, file, key-node, the stamp of the pass
//!                              that wrote it, its records, its tags, and the first words of its
//!                              nodes, which hold their CRCs and reset epochs
//!                              32..40 its records | 40..64 the stamp, from the pass's number
//!                              0: empty since the file was made
//!   two words for each biz     its id, and its epoch when the pass had copied all; of those that
//!                              were reset once
//! ```
//!
//! The checksum leaves out the last use of a node (as the node's own CRC does), places without a
//! tag, and the semaphore's word: these may change without a mark.

use std::os::unix::fs::FileExt;
use std::path::Path;

use frs_base::hash::crc32c_words;
use frs_base::sys;
use frs_conf::key::KeyNodeId;
use frs_conf::{Overlay, OverlayError};

use super::file::OpenCheckpoint;
use super::tail::{Tail, crc_of, empty_tail, epochs_start, file_bytes, tail_start};
use crate::error::{Error, expect, io_error};
use crate::file::group::{Group, Header};
use crate::file::layout::{CHAIN_MAX, HEAD_WORDS, PAGE_BYTES, PAGE_WORDS, TAG_WORDS, node, tag};
use crate::file::words::{bytes_of, words_of};

/// A stamp is the number of a pass, reduced to 24 bits, and never 0.
const STAMPS: u64 = (1 << 24) - 1;
const RECORDS: u32 = 32;
const STAMP: u32 = 40;
const _: () = assert!(CHAIN_MAX < 256 && STAMPS << STAMP >> STAMP == STAMPS);

/// The checksums of the key-nodes of a file.
#[derive(Debug)]
pub(crate) struct Checks {
    words: Vec<u64>,
    /// The pages of checksums that differ from the file.
    changed: Vec<bool>,
}

/// A checksum of a key-node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Check(u64);

impl Check {
    fn of(
        header: &Header,
        at: KeyNodeId,
        tags: &[u64; TAG_WORDS],
        first_word: impl Fn(usize) -> u64,
        stamp: u64,
    ) -> Check {
        let mut words = [0; TAG_WORDS + CHAIN_MAX];
        words[..TAG_WORDS].copy_from_slice(tags);
        let taken = (0..header.geometry.chain as usize)
            .filter(|&place| tag::of(tags[place / 8], place) != 0);
        let mut records = 0;
        for place in taken {
            words[TAG_WORDS + records] = first_word(place);
            records += 1;
        }
        let place = u64::from(at.file) << 32 | u64::from(at.key_node);
        let upper = stamp << STAMP | (records as u64) << RECORDS;
        let crc = crc32c_words([header.id, place, upper], &words[..TAG_WORDS + records]);
        Check(upper | u64::from(crc))
    }

    /// The records of the key-node.
    pub fn records(self) -> u64 {
        self.0 >> RECORDS & 0xff
    }
}

impl Checks {
    /// The checksums of a file whose content is not known. All of them will be written.
    pub fn unknown(key_nodes: u32) -> Checks {
        let words = vec![0; key_nodes as usize];
        let changed = vec![true; words.len().div_ceil(PAGE_WORDS)];
        Checks { words, changed }
    }

    /// Reads the checksums of a file. Returns None for a file of format 1, which has no checksums.
    pub fn read(checkpoint: &OpenCheckpoint) -> Result<Option<Checks>, Error> {
        let Some(tail) = checkpoint.tail else { return Ok(None) };
        let OpenCheckpoint { path, file, header, .. } = checkpoint;
        let mut bytes = vec![0; header.geometry.key_nodes as usize * 8];
        super::fault::read(path)
            .and_then(|()| file.read_exact_at(&mut bytes, tail_start(header)))
            .map_err(io_error(path, "read its checksums"))?;
        let words = words_of(&bytes);
        expect(path, "CRC of its checksums", tail.checks_crc, crc_of(header, &words))?;
        let changed = vec![false; words.len().div_ceil(PAGE_WORDS)];
        Ok(Some(Checks { words, changed }))
    }

    pub fn of(&self, key_node: u32) -> Check {
        Check(self.words[key_node as usize])
    }

    pub fn set(&mut self, key_node: u32, Check(word): Check) {
        let at = key_node as usize;
        if std::mem::replace(&mut self.words[at], word) != word {
            self.changed[at / PAGE_WORDS] = true;
        }
    }

    /// Writes the checksums that have changed. Returns the CRC over all of them, for the header.
    pub fn write(&self, checkpoint: &OpenCheckpoint) -> Result<u32, Error> {
        let OpenCheckpoint { path, file, header, .. } = checkpoint;
        for (words, at) in
            self.words.chunks(PAGE_WORDS).zip((tail_start(header)..).step_by(PAGE_BYTES))
        {
            let page = (at - tail_start(header)) as usize / PAGE_BYTES;
            if self.changed[page] {
                super::fault::point(path)?;
                file.write_all_at(&bytes_of(words), at)
                    .map_err(io_error(path, "write its checksums"))?;
            }
        }
        Ok(crc_of(header, &self.words))
    }
}

/// Extends a file of format 1 by empty parts of checksums and epochs.
pub(super) fn append_empty(checkpoint: &OpenCheckpoint) -> Result<Tail, Error> {
    let OpenCheckpoint { path, file, header, .. } = checkpoint;
    let start = tail_start(header);
    super::fault::point(path)?;
    sys::allocate(file, start, file_bytes(header, 0) - start)
        .map_err(io_error(path, "allocate its blocks"))?;
    Ok(empty_tail(header))
}

/// Reads the overlay, which has the present epochs of the businesses.
pub(crate) fn overlay(data_dir: &Path) -> Result<Overlay, Error> {
    let wrong = |error: OverlayError| Error::Configuration {
        path: data_dir.to_owned(),
        message: error.to_string(),
    };
    Overlay::read(data_dir).map_err(wrong)
}

/// Writes the epochs of businesses, and returns their description for the header.
pub(super) fn write_epochs(
    checkpoint: &OpenCheckpoint,
    tail: Tail,
    overlay: &Overlay,
) -> Result<Tail, Error> {
    let OpenCheckpoint { path, file, header, .. } = checkpoint;
    let words: Vec<u64> = overlay.epochs().flat_map(|(biz, epoch)| [biz.into(), epoch]).collect();
    let tail =
        Tail { epochs: (words.len() / 2) as u32, epochs_crc: crc_of(header, &words), ..tail };
    if words.is_empty() {
        return Ok(tail);
    }
    super::fault::point(path)?;
    sys::allocate(file, epochs_start(header), words.len() as u64 * 8)
        .map_err(io_error(path, "allocate its blocks"))?;
    file.write_all_at(&bytes_of(&words), epochs_start(header))
        .map_err(io_error(path, "write the epochs of its businesses"))?;
    Ok(tail)
}

/// The businesses that were reset after a pass: their records in the checkpoint are void. A
/// checkpoint of format 1 has no epochs, so none is found.
pub(super) fn reset_since(
    checkpoint: &OpenCheckpoint,
    overlay: &Overlay,
) -> Result<Vec<u32>, Error> {
    let Some(tail) = checkpoint.tail else { return Ok(Vec::new()) };
    let OpenCheckpoint { path, file, header, .. } = checkpoint;
    let mut bytes = vec![0; tail.epochs as usize * 16];
    super::fault::read(path)
        .and_then(|()| file.read_exact_at(&mut bytes, epochs_start(header)))
        .map_err(io_error(path, "read the epochs of its businesses"))?;
    let words = words_of(&bytes);
    expect(path, "CRC of its epochs", tail.epochs_crc, crc_of(header, &words))?;
    let epoch_then = |biz: u32| {
        let mut pairs = words.chunks_exact(2);
        pairs.find(|pair| pair[0] == u64::from(biz)).map_or(0, |pair| pair[1])
    };
    let raised = overlay.epochs().filter(|&(biz, epoch)| epoch > epoch_then(biz));
    Ok(raised.map(|(biz, _)| biz).collect())
}

impl Group {
    /// The checksum of a key-node's copy, which this pass writes.
    pub(super) fn check_of(&self, at: KeyNodeId, copy: &[u64], pass: u64) -> Check {
        let (head, nodes) = copy.split_at(HEAD_WORDS);
        let tags = head[1..].try_into().expect("a head is a word and the tags");
        let first_word = |place| nodes[place * self.node_words() + node::CHECK];
        Check::of(self.header(), at, tags, first_word, pass % STAMPS + 1)
    }

    /// Whether a key-node matches its checksum.
    pub(crate) fn holds(&self, at: KeyNodeId, check: Check) -> bool {
        let KeyNodeId { file, key_node } = at;
        let tags = self.tags(at);
        let first_word = |place| self.file(file).load(self.node(key_node, place) + node::CHECK);
        match check {
            Check(0) => tags == [0; TAG_WORDS],
            Check(word) => Check::of(self.header(), at, &tags, first_word, word >> STAMP) == check,
        }
    }
}
