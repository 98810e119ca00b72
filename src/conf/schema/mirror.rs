//! Which records are mirrored, and the room that their versions take.
//!
//! Invariant: either all nodes of a group end with a version, or none does.

use super::map::Group;

/// 64-bit words at the end of each node of a mirrored group: the version of its record.
pub const VERSION_WORDS: usize = 2;

impl Group {
    /// Whether peers hold copies of its records.
    pub const fn is_mirrored(&self) -> bool {
        self.mirror_ms.is_some()
    }

    /// Bytes of the version at the end of each node. 0 if the group is not mirrored.
    pub const fn version_bytes(&self) -> u32 {
        version_bytes(self.mirror_ms)
    }
}

/// Bytes of the version at the end of each node of a group with this `mirror`.
pub(crate) const fn version_bytes(mirror_ms: Option<u64>) -> u32 {
    if mirror_ms.is_some() { 8 * VERSION_WORDS as u32 } else { 0 }
}
