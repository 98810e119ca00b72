//! The tags of a head: one byte for each place of the chain, 0 where it is free.
//!
//! Invariant: a tag only says where to look. The words of a node decide whether it is the node of a
//! key.

use crate::file::layout::{CHAIN_MAX, TAG_WORDS, tag};
use crate::file::region::Region;

/// Whether this place has this tag (0 if it is free) in the chain of this head.
#[inline(always)]
pub(crate) fn has_tag(region: &Region, head: usize, place: usize, tag: u8) -> bool {
    place < CHAIN_MAX && tag::of(region.load(head + 1 + place / 8), place) == tag
}

/// The places with this tag.
#[inline]
pub(crate) fn places_of(tags: &[u64; TAG_WORDS], tag: u8) -> impl Iterator<Item = usize> {
    let mut matches = tags.map(|word| bytes_equal(word, tag));
    let mut index = 0;
    std::iter::from_fn(move || {
        while matches[index] == 0 {
            index += 1;
            if index == TAG_WORDS {
                index = 0;
                return None;
            }
        }
        let place = index * 8 + matches[index].trailing_zeros() as usize / 8;
        matches[index] &= matches[index] - 1;
        Some(place)
    })
}

/// The bytes of `word` that equal `tag`, as their top bits. (The exact form of Mycroft's test: it
/// marks no byte above a match by mistake.)
#[inline]
pub(crate) fn bytes_equal(word: u64, tag: u8) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let x = word ^ (u64::from(tag) * 0x0101_0101_0101_0101);
    !((x & LOW).wrapping_add(LOW) | x | LOW)
}

/// The tag of a place whose node has moved to the group that grows out of this one. It is a wrong
/// tag, so no look-up finds the node, but a scan that repairs tags finds it again if its copy is
/// lost.
#[inline]
pub(crate) const fn moved_tag(tag: u8) -> u8 {
    tag % u8::MAX + 1
}

/// Gives a place another tag.
#[inline]
pub(crate) fn set_tag(tags: &mut [u64; TAG_WORDS], place: usize, tag: u8) {
    tags[place / 8] = tag::with(tags[place / 8], place, tag);
}
