//! Which records are mirrored, and the room that their versions take.
//!
//! Invariant: either all nodes of a group end with a version, or none does.

use super::map::{Biz, Group, Mode};
use super::scope::Scope;

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

    /// Whether peers hold copies of a business's records of keys.
    pub fn mirrors(&self, biz: &Biz) -> bool {
        let has_keys = biz.register.is_some() || biz.limits_of(Scope::Key).next().is_some();
        self.is_mirrored() && biz.mode != Mode::Off && has_keys
    }
}

/// Bytes of the version at the end of each node of a group with this `mirror`.
pub(crate) const fn version_bytes(mirror_ms: Option<u64>) -> u32 {
    if mirror_ms.is_some() { 8 * VERSION_WORDS as u32 } else { 0 }
}
