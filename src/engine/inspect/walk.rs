//! Visits all nodes, one after another.

use std::collections::HashSet;
use std::ops::ControlFlow;

use frs_base::hash::siphash_digest;
use frs_conf::key::{KeyField, KeyNodeId, KeyRef};
use frs_store::inspect::{LiveGroup, Unread};
use frs_store::layout::node;
use frs_store::{Fault, Pass, live_dir};

use super::reader::Reader;
use super::record::{NodePlace, NodeRecord};

/// A place whose node could not be returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Skipped {
    /// A process works on it.
    InTransaction {
        /// Its group.
        group: String,
        /// Its place.
        place: NodePlace,
        /// The slot of that process.
        slot: u32,
    },
    /// A process died while it wrote the node. What it wrote is undone before any process uses it.
    HalfWritten {
        /// Its group.
        group: String,
        /// Its place.
        place: NodePlace,
        /// The slot of that process.
        slot: u32,
    },
    /// It is damaged.
    Damaged {
        /// Its group.
        group: String,
        /// Its place.
        place: NodePlace,
        /// What is wrong.
        fault: Fault,
    },
}

/// The result of a walk over all nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Walked {
    /// Nodes that were returned.
    pub nodes: u64,
    /// Places that were skipped.
    pub skipped: Vec<Skipped>,
    /// Groups that began to move to another geometry meanwhile: some of their nodes may have been
    /// missed or visited twice.
    pub changed: Vec<String>,
}

/// A key as its group stores it, of fixed length.
type KeyPrint = [u64; 2];

impl Reader {
    /// Calls `each` with every node of every readable group, including expired ones. Nodes that are
    /// created or dropped meanwhile may be missed. A node that moves meanwhile is visited once,
    /// where it is found first, unless its group is among those that have changed.
    pub fn for_each_node(
        &mut self,
        now: u64,
        mut each: impl FnMut(NodeRecord) -> ControlFlow<()>,
    ) -> Walked {
        self.set_now(now);
        let mut walked = Walked::default();
        let Walked { nodes, skipped, changed } = &mut walked;
        let pass = self.pass();
        // Former groups come first: nodes move out of them, so none is missed. Nodes that were
        // visited there are known, and are skipped in the new group.
        let named = self.conf.map.groups.len();
        let mut visited: HashSet<KeyPrint> = HashSet::new();
        for index in (named..self.groups.len()).chain(0..named) {
            let flow = self.walk_group(
                &pass,
                index,
                |place| skipped.push(place),
                |place, words| {
                    let is_known = match index < named {
                        true => {
                            !visited.is_empty()
                                && self
                                    .print_of(index, words)
                                    .is_some_and(|at| visited.contains(&at))
                        }
                        false => self.note_former(&pass, index, words, &mut visited),
                    };
                    if is_known {
                        return ControlFlow::Continue(());
                    }
                    *nodes += 1;
                    each(self.record(index, place, words.to_vec(), now))
                },
            );
            if flow.is_break() {
                break;
            }
        }
        let all = self.groups[..named].iter().zip(&self.conf.map.groups);
        let has_changed = |group: &LiveGroup| group.begins_to_move(live_dir(&self.conf));
        let now_moving = all.filter(|(group, _)| group.as_ref().is_ok_and(has_changed));
        changed.extend(now_moving.map(|(_, conf)| conf.name.clone()));
        walked
    }

    /// Notes a node of a former group. True if its key has a node in the new group: that node
    /// counts.
    fn note_former(
        &self,
        pass: &Pass<'_>,
        index: usize,
        words: &[u64],
        visited: &mut HashSet<KeyPrint>,
    ) -> bool {
        let next = self.grown[index - self.conf.map.groups.len()];
        let (Ok(former), Ok(group)) = (&self.groups[index], &self.groups[next]) else {
            return false;
        };
        let entry = self.table.of_key_word(index, words[node::KEY]).map(|(entry, _)| entry);
        let mut field = KeyField::default();
        let key = former.key_of(words).and_then(|key| entry?.moved_key(key, &mut field));
        // No request can name a key that the new geometry cannot store.
        let Some(key) = key else { return false };
        let biz_id = words[node::KEY] as u32;
        let found = group.find(pass, biz_id, &key, &mut vec![0; group.node_words()]);
        let is_there = matches!(found, Ok(Some(_)));
        if !is_there {
            visited.insert(print_of(next, biz_id, &key));
        }
        is_there
    }

    fn print_of(&self, index: usize, words: &[u64]) -> Option<KeyPrint> {
        let key = self.groups[index].as_ref().ok()?.key_of(words)?;
        Some(print_of(index, words[node::KEY] as u32, &key))
    }

    /// Calls `each` with the words of every node of a group, and `skip` with every place whose node
    /// could not be read. A damaged group may have as many of those as it has nodes.
    pub(super) fn walk_group(
        &self,
        pass: &Pass<'_>,
        index: usize,
        mut skip: impl FnMut(Skipped),
        mut each: impl FnMut(NodePlace, &[u64]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let Ok(group) = &self.groups[index] else { return ControlFlow::Continue(()) };
        let mut words = vec![0; group.node_words()];
        let geometry = group.geometry();
        for at in (0..geometry.all_key_nodes()).map(|number| geometry.key_node_at(number)) {
            walk_chain(group, pass, at, &mut words, &mut skip, &mut each)?;
        }
        ControlFlow::Continue(())
    }
}

pub(super) fn walk_chain(
    group: &LiveGroup,
    pass: &Pass<'_>,
    at: KeyNodeId,
    words: &mut [u64],
    skip: &mut impl FnMut(Skipped),
    each: &mut impl FnMut(NodePlace, &[u64]) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let name = || group.header().name.clone();
    for nth in group.taken_places(at) {
        let place = NodePlace { file: at.file, key_node: at.key_node, place: nth };
        match group.copy(pass, at, nth, words) {
            Ok(false) => {}
            Ok(true) => each(place, words)?,
            Err(Unread::InTransaction { slot }) => {
                skip(Skipped::InTransaction { group: name(), place, slot });
            }
            Err(Unread::HalfWritten { slot }) => {
                skip(Skipped::HalfWritten { group: name(), place, slot });
            }
            Err(Unread::Damaged(fault)) => {
                skip(Skipped::Damaged { group: name(), place, fault });
            }
        }
    }
    ControlFlow::Continue(())
}

fn print_of(group: usize, biz_id: u32, key: &KeyRef<'_>) -> KeyPrint {
    let head = [group as u64, node::key_word(biz_id, key.form() as u8, key.bytes())];
    let bytes: Vec<u8> =
        head.iter().chain(key.words()).flat_map(|word| word.to_le_bytes()).collect();
    siphash_digest(&bytes, head)
}
