//! Which records of a group the cluster keeps by `backup` and `spill`.
//!
//! Invariant: the cluster keeps only records of keys, and only those of businesses that are not
//! shared. A shared limit has its ledger, and the record of a whole business counts one machine's
//! uses.

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
