//! Words for `frs check` about `backup` and `spill`: what records in the cluster cost and promise.
//!
//! Invariant: each text is one line and follows from the checked settings alone.

use frs_base::figures::grouped;

use super::describe::duration_words;
use crate::schema::{Biz, Group, OnFull, Scope};

/// Bytes that the courier remembers of each record that it sent: a CRC.
const SENT_BYTES: u64 = 4;

/// The costs of a group whose records the cluster keeps.
pub(super) fn group_lines(group: &Group) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(round_ms) = group.backup_ms {
        let bytes = group.geometry.nodes() * SENT_BYTES;
        lines.push(format!(
            "backup each {}: the courier remembers what it has sent in {} bytes",
            duration_words(round_ms),
            grouped(bytes)
        ));
    }
    if group.spill {
        let instead = match group.on_full {
            OnFull::Evict => "a record that refuses nothing is evicted, or the item is full",
            OnFull::Refuse => "the item is full",
        };
        lines.push(
            "spill: where a chain is full, the record used least lately goes to the cluster, and \
             its item waits for that"
                .to_owned(),
        );
        lines.push(format!("spill: where the cluster does not answer, {instead}"));
    }
    lines
}

/// The promises of a business whose records the cluster keeps.
pub(super) fn biz_lines(biz: &Biz, group: &Group) -> Vec<String> {
    if !group.keeps(biz) {
        return Vec::new();
    }
    let mut lines = Vec::new();
    if group.spill {
        lines.push(
            "a key whose record may have been spilled asks the cluster for it; where the cluster \
             does not answer the item is busy"
                .to_owned(),
        );
    }
    let Some(round_ms) = group.backup_ms else { return lines };
    lines.extend([
        format!(
            "kept in the cluster each {}: a machine lost: over by at most the uses since its last \
             round",
            duration_words(round_ms)
        ),
        "a key without a record here asks the cluster for it, once; where the cluster does not \
         answer it starts fresh"
            .to_owned(),
    ]);
    if biz.limits.iter().any(|limit| limit.scope == Scope::Biz) {
        lines.push("limits of scope biz count on each machine, and are not kept there".to_owned());
    }
    lines
}
