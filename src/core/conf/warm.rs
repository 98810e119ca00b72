//! `backup` of a `<group>`: its records are kept in the cluster, too. Read, and in the words of
//! `frs check`.
//!
//! Invariant: only records of keys of businesses that are each machine's own are kept there. A
//! shared limit has its ledger, and what counts a whole business is about one machine.

use super::describe::duration_words;
use super::fault::{Checked, Notes};
use super::map::{Biz, Group, Mode, Scope};
use super::value::duration;
use super::xml::Element;
use crate::base::figures::grouped;

/// Between two rounds: from a second to an hour.
const ROUND_MS: (u64, u64) = (1000, 3_600_000);
/// Bytes that the courier remembers of each record: a CRC.
const SENT_BYTES: u64 = 4;

/// Reads the pause between two rounds of a group; none: its records stay on their machine.
pub(super) fn backup_ms(notes: &mut Notes<'_>, group: &Element) -> Checked<Option<u64>> {
    let (least, most) = ROUND_MS;
    let read = duration(least, most);
    group.or(notes, "backup", None, move |text: &str| read(text).map(Some))
}

/// Notes each group with records in the cluster, where srv.xml names none.
pub(super) fn without_cluster<'e>(
    notes: &mut Notes<'_>,
    groups: impl IntoIterator<Item = &'e Element>,
) {
    for group in groups {
        if let Some(backup) = group.attribute("backup") {
            let found = format!("backup=\"{}\"", backup.value);
            notes.note(group.value_at("backup"), found, "a <cluster> in srv.xml, or no backup");
        }
    }
}

impl Group {
    /// Whether the records of a business of this group are kept in the cluster.
    pub fn backs_up(&self, biz: &Biz) -> bool {
        let has_keys = biz.limits.iter().any(|limit| limit.scope == Scope::Key);
        self.backup_ms.is_some() && biz.sharing.is_none() && biz.mode != Mode::Off && has_keys
    }
}

/// What a group costs whose records are kept in the cluster.
pub(super) fn group_lines(group: &Group) -> Vec<String> {
    let Some(round_ms) = group.backup_ms else { return Vec::new() };
    let bytes = group.geometry.nodes() * SENT_BYTES;
    vec![format!(
        "backup each {}: the courier remembers what it has sent in {} bytes",
        duration_words(round_ms),
        grouped(bytes)
    )]
}

/// What the records of a business promise that are kept in the cluster.
pub(super) fn biz_lines(biz: &Biz, group: &Group) -> Vec<String> {
    let Some(round_ms) = group.backup_ms.filter(|_| group.backs_up(biz)) else {
        return Vec::new();
    };
    let mut lines = vec![
        format!(
            "kept in the cluster each {}: a machine lost: over by at most the uses since its last \
             round",
            duration_words(round_ms)
        ),
        "a key without a record here asks the cluster for it, once; where the cluster does not \
         answer it starts fresh"
            .to_owned(),
    ];
    if biz.limits.iter().any(|limit| limit.scope == Scope::Biz) {
        lines.push("limits of scope biz count on each machine, and are not kept there".to_owned());
    }
    lines
}
