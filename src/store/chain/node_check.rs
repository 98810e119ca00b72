//! The CRC of a node's words.
//!
//! Invariant: the CRC covers neither itself nor the last use, because a refused Update stamps the
//! last use with a single store.

use crate::file::layout::node;

/// CRC of a node's words. The CRC itself and the last use count as 0.
#[inline(always)]
fn node_crc(words: &[u64]) -> u32 {
    let first = [words[node::CHECK] & !0xffff_ffff, words[node::KEY], 0];
    frs_base::hash::crc32c_words(first, &words[node::FIELD..])
}

/// Writes the CRC of a node's copy into it.
#[inline(always)]
pub fn seal(words: &mut [u64]) {
    words[node::CHECK] = words[node::CHECK] & !0xffff_ffff | u64::from(node_crc(words));
}

/// Whether the CRC of a copied node is correct.
#[inline(always)]
pub fn is_whole(words: &[u64]) -> bool {
    words[node::CHECK] as u32 == node_crc(words)
}
