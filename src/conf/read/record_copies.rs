//! Reads `backup` and `spill` of a `<group>`: whether the cluster keeps copies of its records, and
//! whether it keeps the records for which the group has no room.
//!
//! Invariant: a group with neither setting keeps its records on their machine.

use super::faults::{Checked, Notes};
use super::scalar::{boolean, duration};
use super::xml::Element;

/// The bounds of the pause between two rounds: a second and an hour.
const ROUND_MS: (u64, u64) = (1000, 3_600_000);

/// Reads the pause between two rounds of a group. `None` if its records stay on their machine.
pub(super) fn backup_ms(notes: &mut Notes<'_>, group: &Element) -> Checked<Option<u64>> {
    let (least, most) = ROUND_MS;
    let read = duration(least, most);
    group.or(notes, "backup", None, move |text: &str| read(text).map(Some))
}

/// Reads whether records in use go to the cluster if their group has no room for them.
pub(super) fn spill(notes: &mut Notes<'_>, group: &Element) -> Checked<bool> {
    group.or(notes, "spill", false, boolean)
}
