//! The register of a business that has no limits.
//!
//! Invariant: such a business has no node of scope biz, and nothing else in the node of a key.

use super::Rules;
use crate::RegisterLayout;

impl Rules {
    /// The register that the node of a key is. `None` if the business has limits.
    #[inline]
    pub fn register(&self) -> Option<RegisterLayout> {
        self.register
    }

    /// Whether the words of a key's node may stay: they hold no register, or one for which there is
    /// room.
    pub(super) fn is_register_laid_out(&self, words: &[u64]) -> bool {
        self.register.is_none_or(|register| register.is_laid_out(words))
    }
}
