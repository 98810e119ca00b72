//! Files that stay although map.xml derives other numbers now. They are a part of each published
//! generation.
//!
//! Invariant: only numbers that map.xml leaves to frs are replaced, and only by numbers that
//! [`keeps_files`](crate::schema::Group::keeps_files) accepts under the same text. So a reader of
//! a generation gets the geometry of the files without looking at them.
//!
//! In `conf.active.G` these numbers are text, a line for each group: its name, files, key-nodes
//! and node-size.
//!
//! ```text
//! users 1 35729 128
//! ```

use std::fmt::Write as _;

use crate::schema::{Geometry, Map};

/// The geometry of a group's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveGeometry {
    /// The name of the group.
    pub group: String,
    /// The geometry of its files.
    pub geometry: Geometry,
}

/// The numbers of the files that stay, by group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeptFiles {
    groups: Vec<KeptGroup>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct KeptGroup {
    name: String,
    files: u32,
    key_nodes: u32,
    node_bytes: u32,
}

impl KeptFiles {
    /// The files among `live` that stay under a map.
    pub(super) fn of(map: &Map, live: &[LiveGeometry]) -> KeptFiles {
        let groups = map.groups.iter().filter_map(|group| {
            let LiveGeometry { geometry, .. } = live.iter().find(|it| it.group == group.name)?;
            let stays = *geometry != group.derived && group.keeps_files(geometry);
            let Geometry { files, key_nodes, node_bytes, .. } = *geometry;
            stays.then(|| KeptGroup { name: group.name.clone(), files, key_nodes, node_bytes })
        });
        KeptFiles { groups: groups.collect() }
    }

    /// Replaces derived numbers by those of the files, if the files may stay.
    pub(super) fn lay_over(&self, map: &mut Map) {
        for kept in &self.groups {
            let Some(group) = map.groups.iter_mut().find(|group| group.name == kept.name) else {
                continue;
            };
            let KeptGroup { files, key_nodes, node_bytes, .. } = *kept;
            let geometry = Geometry { files, key_nodes, node_bytes, ..group.derived };
            if group.keeps_files(&geometry) {
                group.geometry = geometry;
            }
        }
    }

    pub(crate) fn to_text(&self) -> String {
        self.groups.iter().fold(String::new(), |mut text, group| {
            let KeptGroup { name, files, key_nodes, node_bytes } = group;
            let _ = writeln!(text, "{name} {files} {key_nodes} {node_bytes}");
            text
        })
    }

    /// Reads the result of [`KeptFiles::to_text`]. `None` if the text is something else.
    pub(crate) fn from_text(text: &str) -> Option<KeptFiles> {
        let group = |line: &str| {
            let mut words = line.split(' ');
            let name = words.next()?.to_owned();
            let mut number = || words.next()?.parse().ok();
            let (files, key_nodes, node_bytes) = (number()?, number()?, number()?);
            words.next().is_none().then_some(KeptGroup { name, files, key_nodes, node_bytes })
        };
        text.lines().map(group).collect::<Option<_>>().map(|groups| KeptFiles { groups })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{LoadedConf, Texts};
    use super::*;

    const LONG: &str = "<biz id='2' name='b' key='ip'>\
                        <limit policy='sliding' interval='1m' max='10'/></biz>";

    fn loaded(srv: &str, bizs: &str) -> LoadedConf {
        let map = format!(
            "<map><group name='g' keys='1000'/><group name='h' files='1' key-nodes='9'/>\
             <group name='i' files='1' key-nodes='9' node-size='64'/>{bizs}\
             <biz id='1' name='a' key='ip'><limit policy='total' max='1'/></biz></map>"
        );
        let texts = Texts::of(srv, map);
        LoadedConf { conf: texts.parse().unwrap(), texts }
    }

    fn live(conf: &LoadedConf) -> Vec<LiveGeometry> {
        let groups = conf.conf.map.groups.iter();
        groups.map(|it| LiveGeometry { group: it.name.clone(), geometry: it.geometry }).collect()
    }

    #[test]
    fn longer_nodes_stay_and_every_reader_knows() {
        let files = live(&loaded("<srv/>", LONG));
        assert_eq!(files[0].geometry.node_bytes, 128);
        let removed = loaded("<srv/>", "").over(&files).unwrap();
        let group = &removed.conf.map.groups[0];
        assert_eq!((group.geometry, group.derived.node_bytes), (files[0].geometry, 64));
        assert_eq!(removed.texts.kept.to_text(), "g 1 37 128\n");
        assert_eq!(removed.texts.parse().unwrap(), removed.conf);
        assert_eq!(
            KeptFiles::from_text(&removed.texts.kept.to_text()),
            Some(removed.texts.kept.clone())
        );
        // With the business added again, the geometry is the derived one.
        let back = loaded("<srv/>", LONG).over(&files).unwrap();
        assert_eq!(
            (back.conf, back.texts.kept),
            (loaded("<srv/>", LONG).conf, KeptFiles::default())
        );
        // Over other files, the decision is made anew.
        let shorter = live(&loaded("<srv/>", ""));
        assert_eq!(removed.over(&shorter).unwrap(), loaded("<srv/>", ""));
    }

    #[test]
    fn what_is_written_or_does_not_fit_is_not_replaced() {
        let conf = loaded("<srv/>", "");
        let mut files = live(&conf);
        files[0].geometry.node_bytes = 192;
        files[1].geometry.key_nodes = 10;
        files[2].geometry.node_bytes = 128;
        files.push(LiveGeometry { group: "gone".into(), geometry: files[0].geometry });
        assert_eq!(conf.clone().over(&files).unwrap(), conf);
        files[1] = LiveGeometry { group: "h".into(), geometry: conf.conf.map.groups[1].geometry };
        files[1].geometry.node_bytes = 128;
        assert_eq!(conf.clone().over(&files).unwrap().texts.kept.to_text(), "h 1 9 128\n");
        // Laid over a text that it was not made for, it does not replace nodes that must be larger.
        let kept = KeptFiles::from_text("g 1 37 64\nnone 1 1 64\n").unwrap();
        let longer = Texts { kept, ..loaded("<srv/>", LONG).texts };
        assert_eq!(longer.parse().unwrap(), loaded("<srv/>", LONG).conf);
    }

    #[test]
    fn what_does_not_fit_the_undo_log_is_a_fault() {
        let long = LONG.replace("max='10'", "max='700'");
        let srv = "<srv><http max-atomic-items='200'/></srv>";
        let files = live(&loaded("<srv/>", &long));
        assert_eq!(files[0].geometry.node_bytes, 2880);
        let shorter = loaded(srv, &LONG.replace("max='10'", "max='350'"));
        assert_eq!(shorter.conf.map.groups[0].geometry.node_bytes, 1472);
        let faults = shorter.over(&files).unwrap_err().to_string();
        assert!(faults.starts_with("srv.xml:1:30: found max-atomic-items=\"200\""), "{faults}");
    }

    #[test]
    fn other_text_is_none() {
        for text in ["g", "g 1 2", "g 1 2 3 4", "g 1 2 x", "\n", "g 1 2 3\n\n", "g -1 2 3"] {
            assert_eq!(KeptFiles::from_text(text), None, "{text:?}");
        }
        assert_eq!(KeptFiles::from_text(""), Some(KeptFiles::default()));
    }
}
