//! Checks the parts of map.xml that need a cluster: shared bizs, and groups whose records the
//! cluster keeps.
//!
//! Invariant: a missing cluster is a fault of map.xml only if srv.xml was read to its end.

use crate::read::{Element, Notes, RawBiz, RawMap, WrittenGroup, named_share};

/// Notes each biz and each group that needs a cluster. Called if srv.xml names none.
pub(super) fn without_cluster(notes: &mut Notes<'_>, map: &RawMap<'_>) {
    bizs_without(notes, map.bizs.iter().map(|biz| biz.element));
    groups_without(notes, map.groups.iter().map(|group| group.element));
}

/// Notes each shared biz in a group that spills.
pub(super) fn shared_bizs(notes: &mut Notes<'_>, map: &RawMap<'_>) {
    for RawBiz { element, group, sharing, .. } in &map.bizs {
        let group = group.as_ref().ok().and_then(|&at| map.groups.get(at)?.group.as_ref().ok());
        if let (Some(group), Ok(Some(_))) = (group, sharing) {
            shared_biz(notes, element, group);
        }
    }
}

/// Notes each shared biz. Called if srv.xml names no cluster.
fn bizs_without<'e>(notes: &mut Notes<'_>, bizs: impl IntoIterator<Item = &'e Element>) {
    for biz in bizs {
        if let Some(share) = named_share(biz) {
            let expected = "a <cluster> in srv.xml, or share=\"host\"";
            notes.note(biz.value_at("share"), format!("share=\"{share}\""), expected);
        }
    }
}

/// Notes each group with records in the cluster. Called if srv.xml names no cluster.
fn groups_without<'e>(notes: &mut Notes<'_>, groups: impl IntoIterator<Item = &'e Element>) {
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

/// Notes a shared biz if its group spills, because a lease cannot leave its machine.
fn shared_biz(notes: &mut Notes<'_>, biz: &Element, group: &WrittenGroup) {
    if group.spill {
        let share = biz.attribute("share").map_or("", |share| &share.value);
        let found = format!("share=\"{share}\" in the group {:?} with spill=\"true\"", group.name);
        notes.note(biz.value_at("share"), found, "another group, or share=\"host\"");
    }
}
