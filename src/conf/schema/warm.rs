//! Which records of a group the cluster keeps: those of `backup` and `spill`.
//!
//! Invariant: only records of keys of businesses that are each machine's own are kept there. A
//! shared limit has its ledger, and what counts a whole business is about one machine.

use super::map::{Biz, Group, Mode};
use super::scope::Scope;

impl Group {
    /// Whether the cluster keeps records of this group.
    pub fn has_warm_tier(&self) -> bool {
        self.backup_ms.is_some() || self.spill
    }

    /// Whether a record in use may leave a full chain, and is then kept outside the files.
    pub fn keeps_outside(&self) -> bool {
        self.spill
    }

    /// Whether it keeps those of a business of this group.
    pub fn keeps(&self, biz: &Biz) -> bool {
        let has_keys = biz.limits.iter().any(|limit| limit.scope == Scope::Key);
        self.has_warm_tier() && biz.sharing.is_none() && biz.mode != Mode::Off && has_keys
    }
}
