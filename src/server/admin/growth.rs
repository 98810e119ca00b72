//! The effect of a changed map on the geometry of its groups: the groups that would move, and the
//! `node-size` that a new business needs.
//!
//! Invariant: the master checks again all that is decided here. A written `node-size` is only ever
//! raised, and no other byte of map.xml changes.

use std::ops::Range;

use super::map_edit::{self, BizName, EditError};
use super::response::Refusal;
use super::route::GrowthMode;
use crate::protocol::Code;
use frs_conf::{Conf, Geometry, LoadedConf, OtherSetting, Texts};
use frs_store as store;

/// Checks the effect of a changed configuration on the groups in force.
///
/// # Errors
/// 409 if a group that would move is already moving. 422 if a group would have to move but may not,
/// or if the text does not fit the files that stay.
pub(super) fn check(
    changed: LoadedConf,
    in_force: &Conf,
    growth: GrowthMode,
) -> Result<(), Refusal> {
    let settled = store::settled(changed, &in_force.map.groups)
        .map_err(|faults| Refusal::new(422, Code::Faulty, faults.to_string()))?;
    for group in &settled.conf.map.groups {
        let mut served = in_force.map.groups.iter();
        let Some(served) = served.find(|served| served.name == group.name) else { continue };
        let (from, to) = (served.geometry, group.geometry);
        if from == to {
            continue;
        }
        if served.moving.is_some() {
            let words = format!("group {}: it moves to another geometry: try later", group.name);
            return Err(Refusal::new(409, Code::Conflict, words));
        }
        if growth == GrowthMode::Refused {
            let words = format!(
                "group {}: its files do not hold this map: {}: ?grow=true moves the group to such \
                 files while it serves",
                group.name,
                differences(&from, &to)
            );
            return Err(Refusal::new(422, Code::Faulty, words));
        }
    }
    Ok(())
}

/// The settings of the group's files, and their needed values. Some may be derived from `keys`.
fn differences(from: &Geometry, to: &Geometry) -> String {
    let words = from.differences(to).map(|OtherSetting { field, found, expected }| {
        format!("{field} is {found}, needed {expected}")
    });
    words.collect::<Vec<_>>().join("; ")
}

/// The map with a written `node-size` raised to hold this business. `None` if the size is not the
/// fault, or is not written.
///
/// # Errors
/// The text is not well-formed.
pub(super) fn raise_node_size(
    texts: &Texts,
    biz: BizName<'_>,
) -> Result<Option<RaisedMap>, EditError> {
    let Some(size) = map_edit::node_size_of(&texts.map, biz, &texts.map_name)? else {
        return Ok(None);
    };
    let without = |at: &Range<usize>| [&texts.map[..at.start], &texts.map[at.end..]].concat();
    let derived = Texts { map: without(&size.attribute), ..texts.clone() };
    let Ok(conf) = derived.parse() else { return Ok(None) };
    let group = conf.map.groups.iter().find(|group| group.name == size.group);
    let needed = group.map_or(0, |group| group.derived.node_bytes);
    let is_larger = texts.map[size.value.clone()].trim().parse().is_ok_and(|now: u32| now < needed);
    Ok(is_larger.then(|| {
        let Range { start, end } = size.value;
        let map = [&texts.map[..start], &needed.to_string(), &texts.map[end..]].concat();
        RaisedMap { map, group: size.group, node_bytes: needed }
    }))
}

/// A map in which the nodes of a group are longer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RaisedMap {
    pub map: String,
    pub group: String,
    pub node_bytes: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    const BIZ: &str = "<biz id='1' name='a' group='g' key='integer'>\
                       <limit policy='sliding' interval='1m' max='50'/></biz>";

    fn texts(group: &str) -> Texts {
        Texts::of("<srv/>", format!("<map><group name='f' keys='9'/>{group}{BIZ}</map>"))
    }

    fn raised(group: &str) -> Option<RaisedMap> {
        raise_node_size(&texts(group), BizName::Name("a")).unwrap()
    }

    #[test]
    fn only_the_number_changes_and_it_is_enough() {
        let group = "<group\n name='g' chain = \"8\" node-size= \"64\" files='1'\tkey-nodes='9' />";
        let RaisedMap { map, group: name, node_bytes } = raised(group).unwrap();
        assert_eq!((&*name, node_bytes), ("g", 320));
        assert_eq!(map, texts(&group.replace("\"64\"", "\"320\"")).map);
        assert!(Texts::of("<srv/>", map).parse().is_ok());
    }

    #[test]
    fn what_a_longer_node_does_not_cure_is_left() {
        // Long enough, not written, another fault.
        assert_eq!(raised("<group name='g' keys='9' node-size='320'/>"), None);
        assert_eq!(raised("<group name='g' keys='9'/>"), None);
        assert_eq!(raised("<group name='g' keys='9' node-size='64' hash='x'/>"), None);
    }

    fn loaded(texts: &Texts) -> LoadedConf {
        LoadedConf { conf: texts.parse().unwrap(), texts: texts.clone() }
    }

    #[test]
    fn a_group_moves_only_where_it_may_and_once_at_a_time() {
        let group = |size| format!("<group name='g' files='1' key-nodes='9' node-size='{size}'/>");
        let mut served = texts(&group(320)).parse().unwrap();
        served.srv.data.dir = "none".into();
        let status = |map: &str, served: &Conf, growth| {
            check(loaded(&texts(map)), served, growth).map_err(|refusal| refusal.status)
        };
        let other = group(384).replace("'1' key-nodes='9'", "'2' key-nodes='8'");
        let refusal = check(loaded(&texts(&other)), &served, GrowthMode::Refused).unwrap_err();
        let words = "group g: its files do not hold this map: files is 1, needed 2; key-nodes is \
                     9, needed 8; node-size is 320, needed 384: ?grow=true moves";
        assert!(refusal.words.starts_with(words), "{}", refusal.words);
        let allowed = GrowthMode::Allowed(crate::process::control::Loss::Refused);
        assert_eq!(status(&group(320), &served, GrowthMode::Refused), Ok(()));
        assert_eq!(status(&group(384), &served, GrowthMode::Refused), Err(422));
        assert_eq!(status(&group(384), &served, allowed), Ok(()));
        served.map.groups[1].moving = Some(frs_conf::MoveMode::Lossless);
        assert_eq!(status(&group(384), &served, allowed), Err(409));
        assert_eq!(status(&group(320), &served, allowed), Ok(()));
    }
}
