//! The ring of the last uses, that all sliding limits of a biz and scope share.

/// The settings of a ring.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ring {
    /// Uses that it holds, 0..=4096.
    pub uses: u32,
    /// The longest interval of its limits.
    pub longest_ms: u64,
}

/// Drops the uses that no limit counts at `now`.
pub(super) fn roll(ring: Ring, words: &mut [u64], now: u64) {
    todo!()
}

/// Appends `count` uses, or takes the last ones back if it is negative.
pub(super) fn charge(ring: Ring, words: &mut [u64], now: u64, count: i32) {
    todo!()
}

/// Is nothing in the ring?
pub(super) fn is_fresh(words: &[u64]) -> bool {
    todo!()
}

/// Words of a ring.
pub(super) fn words(ring: Ring) -> usize {
    todo!()
}

/// Is the ring laid out for this number of uses, or empty?
pub(super) fn is_of(ring: Ring, words: &[u64]) -> bool {
    todo!()
}

/// Lays a ring of another number of uses out anew, in place: a smaller one keeps the newest. `words`
/// are all from its first one to the end of the node.
pub(super) fn resize(ring: Ring, words: &mut [u64]) {
    todo!()
}
