//! `backup` and `spill` of a `<group>`: records that the cluster keeps too, or for which there is
//! no room here. Read, and in the words of `frs check`.
//!
//! Invariant: only records of keys of businesses that are each machine's own are kept there. A
//! shared limit has its ledger, and what counts a whole business is about one machine.

use frs_base::figures::grouped;

use super::derive::WrittenGroup;
use super::describe::duration_words;
use super::fault::{Checked, Notes};
use super::map::{Biz, Group, Mode, OnFull, Scope};
use super::value::{boolean, duration};
use super::xml::Element;

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

/// Reads whether records in use go to the cluster where a group has no room for them.
pub(super) fn spill(notes: &mut Notes<'_>, group: &Element) -> Checked<bool> {
    group.or(notes, "spill", false, boolean)
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
        if let Some(spill) = group.attribute("spill").filter(|spill| spill.value == "true") {
            let found = format!("spill=\"{}\"", spill.value);
            notes.note(group.value_at("spill"), found, "a <cluster> in srv.xml, or no spill");
        }
    }
}

/// Notes a shared biz if its group spills: a lease cannot leave its machine.
pub(super) fn shared_biz(notes: &mut Notes<'_>, biz: &Element, group: &WrittenGroup) {
    if group.spill {
        let share = biz.attribute("share").map_or("", |share| &share.value);
        let found = format!("share=\"{share}\" in the group {:?} with spill=\"true\"", group.name);
        notes.note(biz.value_at("share"), found, "another group, or share=\"host\"");
    }
}

impl Group {
    /// Whether the cluster keeps records of this group.
    pub fn has_warm_tier(&self) -> bool {
        self.backup_ms.is_some() || self.spill
    }

    /// Whether it keeps those of a business of this group.
    pub fn keeps(&self, biz: &Biz) -> bool {
        let has_keys = biz.limits.iter().any(|limit| limit.scope == Scope::Key);
        self.has_warm_tier() && biz.sharing.is_none() && biz.mode != Mode::Off && has_keys
    }
}

/// What a group costs whose records are kept in the cluster.
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

/// What the records of a business promise that are kept in the cluster.
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
