//! Checks the parts of map.xml that need other machines: shared bizs and groups whose records the
//! cluster keeps need a cluster, mirrored groups need peers.
//!
//! Invariant: a missing cluster is a fault of map.xml only if srv.xml was read to its end. The same
//! holds for missing peers.

use crate::read::{HOLDS_STAY, Notes, REGISTER, RawBiz, RawGroup, RawMap, WrittenGroup};
use crate::read::{named_share, shown};

/// Notes each biz and each group that needs a cluster. Called if srv.xml names none.
pub(super) fn without_cluster(notes: &mut Notes<'_>, map: &RawMap<'_>) {
    for RawBiz { element: biz, .. } in &map.bizs {
        if let Some(share) = named_share(biz) {
            let expected = "a <cluster> in srv.xml, or share=\"host\"";
            notes.note(biz.value_at("share"), format!("share=\"{share}\""), expected);
        }
    }
    for RawGroup { element: group, .. } in &map.groups {
        if let Some(backup) = group.attribute_value("backup") {
            let found = format!("backup=\"{backup}\"");
            notes.note(group.value_at("backup"), found, "a <cluster> in srv.xml, or no backup");
        }
        if group.attribute_value("spill") == Some("true") {
            let expected = "a <cluster> in srv.xml, or no spill";
            notes.note(group.value_at("spill"), "spill=\"true\"", expected);
        }
    }
}

/// Notes each mirrored group. Called if srv.xml names no peers.
pub(super) fn without_peers(notes: &mut Notes<'_>, map: &RawMap<'_>) {
    for RawGroup { element, group, .. } in &map.groups {
        if group.as_ref().is_ok_and(|group| group.mirror_ms.is_some()) {
            let found = format!("mirror=\"{}\"", element.value_of("mirror"));
            notes.note(element.value_at("mirror"), found, "<peers> in srv.xml, or no mirror");
        }
    }
}

/// Notes each shared biz in a group that spills, because a lease cannot leave its machine.
pub(super) fn shared_bizs(notes: &mut Notes<'_>, map: &RawMap<'_>) {
    for RawBiz { element: biz, group, sharing, .. } in &map.bizs {
        let group = group.as_ref().ok().and_then(|&at| map.groups.get(at)?.group.as_ref().ok());
        if let (Some(group), Ok(Some(_))) = (group.filter(|group| group.spill), sharing) {
            let (share, name) = (biz.value_of("share"), &group.name);
            let found = format!("share=\"{share}\" in the group {name:?} with spill=\"true\"");
            notes.note(biz.value_at("share"), found, "another group, or share=\"host\"");
        }
    }
}

/// Notes each biz with holds in a group whose records go to the cluster.
pub(super) fn bizs_with_holds(notes: &mut Notes<'_>, map: &RawMap<'_>) {
    for RawBiz { element: biz, group, holds, .. } in &map.bizs {
        let group = group.as_ref().ok().and_then(|&at| map.groups.get(at)?.group.as_ref().ok());
        let (Some(group), Ok(Some(_))) = (group, holds) else { continue };
        let Some(with) = warm_setting(group) else { continue };
        // Without `holds` they are those of a `concurrent` limit.
        let named = biz.attribute("holds").or_else(|| {
            let mut policies = biz.children_named("limit").filter_map(|it| it.attribute("policy"));
            policies.find(|policy| policy.value == "concurrent")
        });
        let Some(named) = named else { continue };
        let (name, value) = (&named.name, shown(&named.value));
        let found = format!("{name}=\"{value}\" in the group {:?} with {with}", group.name);
        notes.note(named.value_at, found, format!("another group: {HOLDS_STAY}"));
    }
}

/// Notes each biz with registers in a group whose records go to the cluster.
pub(super) fn bizs_with_registers(notes: &mut Notes<'_>, map: &RawMap<'_>) {
    for RawBiz { element: biz, group, register, .. } in &map.bizs {
        let group = group.as_ref().ok().and_then(|&at| map.groups.get(at)?.group.as_ref().ok());
        let (Some(group), Ok(Some(_))) = (group, register) else { continue };
        let (Some(with), Some(element)) = (warm_setting(group), biz.child(REGISTER)) else {
            continue;
        };
        let found = format!("<register> in the group {:?} with {with}", group.name);
        notes.note(element.at, found, "another group: registers stay on this machine");
    }
}

/// The setting by which records of a group go to the cluster.
fn warm_setting(group: &WrittenGroup) -> Option<&'static str> {
    match (group.spill, group.backup_ms) {
        (true, _) => Some("spill=\"true\""),
        (false, Some(_)) => Some("backup"),
        (false, None) => None,
    }
}
