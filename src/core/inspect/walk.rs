//! Visits all nodes, one after another.

use std::ops::ControlFlow;

use super::reader::Reader;
use super::record::{NodePlace, NodeRecord};
use crate::key::KeyNodeId;
use crate::store::inspect::{Copied, LiveGroup};
use crate::store::{Fault, Pass};

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
}

impl Reader {
    /// Calls `each` with every node of every readable group, including expired ones. Nodes that are
    /// created, dropped or moved meanwhile may be missed or visited twice.
    pub fn for_each_node(
        &mut self,
        now: u64,
        mut each: impl FnMut(NodeRecord) -> ControlFlow<()>,
    ) -> Walked {
        self.set_now(now);
        let mut walked = Walked::default();
        let Walked { nodes, skipped } = &mut walked;
        let pass = self.pass();
        // Nodes move on from the last ones: what is visited twice is better than what is missed.
        let named = self.conf.map.groups.len();
        for index in (named..self.groups.len()).chain(0..named) {
            let flow = self.walk_group(
                &pass,
                index,
                |place| skipped.push(place),
                |place, words| {
                    *nodes += 1;
                    each(self.record(index, place, words.to_vec(), now))
                },
            );
            if flow.is_break() {
                break;
            }
        }
        walked
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
        for file in 0..group.geometry().files {
            for key_node in 0..group.geometry().key_nodes {
                let at = KeyNodeId { file, key_node };
                walk_chain(group, pass, at, &mut words, &mut skip, &mut each)?;
            }
        }
        ControlFlow::Continue(())
    }
}

fn walk_chain(
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
            Copied::Free => {}
            Copied::Whole => each(place, words)?,
            Copied::InTransaction { slot } => {
                skip(Skipped::InTransaction { group: name(), place, slot });
            }
            Copied::HalfWritten { slot } => {
                skip(Skipped::HalfWritten { group: name(), place, slot });
            }
            Copied::Damaged(fault) => {
                skip(Skipped::Damaged { group: name(), place, fault });
            }
        }
    }
    ControlFlow::Continue(())
}
