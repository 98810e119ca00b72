//! Checks every key-node of a group, and repairs it before it is served.
//!
//! Invariant: tests, start-up and tools use the same check, `examine`. The scan at start applies
//! what it finds.

use super::group::{Group, is_whole};
use super::layout::{PAGE_WORDS, TAG_WORDS, node, tag};
use crate::key::{KeyNodeId, KeyRef, Location, Seed};

/// What is wrong at a place of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The node's CRC fails.
    Crc,
    /// The node's key belongs elsewhere, or is not a valid key.
    Misplaced,
    /// Another place of the chain has the same key with a later use.
    Duplicate,
    /// The tag is not that of the node's key. The key is sound.
    Tag {
        /// The correct tag.
        expected: u8,
    },
    /// A tag behind the end of the chain.
    Beyond,
}

/// A fault and where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finding {
    /// File of the group.
    pub file: u32,
    /// Key-node of the file.
    pub key_node: u32,
    /// Place in the chain.
    pub place: usize,
    /// What is wrong there.
    pub fault: Fault,
}

/// The result of checking a whole group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Sound nodes.
    pub nodes: u64,
    /// Taken semaphores.
    pub taken: u64,
    /// All faults.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Whether there is no fault and no semaphore is taken.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty() && self.taken == 0
    }

    /// Adds what was found in other files.
    pub(crate) fn add(&mut self, more: Report) {
        self.nodes += more.nodes;
        self.taken += more.taken;
        self.findings.extend(more.findings);
    }

    /// Nodes that a scan drops.
    pub fn dropped(&self) -> u64 {
        let dropped = |finding: &&Finding| !matches!(finding.fault, Fault::Tag { .. });
        self.findings.iter().filter(dropped).count() as u64
    }
}

/// Words of a node, and its place in the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlacedNode {
    pub place: usize,
    pub words: Vec<u64>,
}

impl Group {
    /// Checks every key-node without taking semaphores. The result is exact where no process
    /// writes.
    pub fn verify(&self) -> Report {
        let mut report = Report::default();
        self.for_each_key_node(|at| self.examine(at, &mut report));
        report
    }

    /// Like [`Group::verify`], and repairs what it finds: frees semaphores, drops what cannot be
    /// trusted, writes the tags of sound nodes again. No other process is attached.
    pub(crate) fn scan(&self) -> Report {
        let mut report = Report::default();
        self.for_each_key_node(|at| self.scan_one(at, &mut report));
        report
    }

    /// Does to one key-node what [`Group::scan`] does to all.
    pub(super) fn scan_one(&self, at: KeyNodeId, report: &mut Report) {
        let before = report.findings.len();
        self.examine(at, report);
        self.semaphore(at.file, at.key_node).release();
        for finding in &report.findings[before..] {
            self.mend(finding);
        }
    }

    fn for_each_key_node(&self, mut look: impl FnMut(KeyNodeId)) {
        for file in 0..self.geometry().files {
            for key_node in 0..self.geometry().key_nodes {
                look(KeyNodeId { file, key_node });
            }
        }
    }

    /// Checks one key-node and adds what it finds.
    pub(super) fn examine(&self, at: KeyNodeId, report: &mut Report) {
        let KeyNodeId { file, key_node } = at;
        report.taken += u64::from(self.semaphore(file, key_node).word() != 0);
        let mut tags = [0u64; TAG_WORDS];
        self.file(file).read(self.head(key_node) + 1, &mut tags);
        if tags == [0; TAG_WORDS] {
            return;
        }
        let chain = self.geometry().chain as usize;
        let mut sound: Vec<PlacedNode> = Vec::new();
        for place in 0..TAG_WORDS * 8 {
            let tag = tag::of(tags[place / 8], place);
            if tag == 0 {
                continue;
            }
            let at = |fault| Finding { file, key_node, place, fault };
            if place >= chain {
                report.findings.push(at(Fault::Beyond));
                continue;
            }
            let mut words = vec![0u64; self.node_words()];
            self.file(file).read(self.node(key_node, place), &mut words);
            match self.judge_node(&words, file, key_node) {
                Err(fault) => report.findings.push(at(fault)),
                Ok(expected) => {
                    if expected != tag {
                        report.findings.push(at(Fault::Tag { expected }));
                    }
                    sound.push(PlacedNode { place, words });
                }
            }
        }
        report.nodes += sound.len() as u64;
        self.find_duplicates(&sound, |place| {
            report.nodes -= 1;
            report.findings.push(Finding { file, key_node, place, fault: Fault::Duplicate });
        });
    }

    /// The tag of a node, if the node is sound.
    pub(super) fn judge_node(&self, words: &[u64], file: u32, key_node: u32) -> Result<u8, Fault> {
        if !is_whole(words) {
            return Err(Fault::Crc);
        }
        match self.locate(words) {
            Some(at) if at.key_node_id() == (KeyNodeId { file, key_node }) => Ok(at.tag),
            _ => Err(Fault::Misplaced),
        }
    }

    /// Where a node's words belong, if they have a valid key.
    pub fn locate(&self, words: &[u64]) -> Option<Location> {
        let key = self.key_of(words)?;
        let seed = Seed(self.header().seeds);
        Some(key.locate(words[node::KEY] as u32, self.geometry(), seed))
    }

    /// The key of a node's words, if it is valid.
    pub fn key_of<'a>(&self, words: &'a [u64]) -> Option<KeyRef<'a>> {
        let field = &words[node::FIELD..node::FIELD + self.field_words()];
        let (length, form) = ((words[node::KEY] >> 32) as u16, (words[node::KEY] >> 48) as u8);
        KeyRef::from_stored(field, length, form)
    }

    /// Of nodes with the same key, keeps the one used last.
    fn find_duplicates(&self, sound: &[PlacedNode], mut drop: impl FnMut(usize)) {
        let end = node::FIELD + self.field_words();
        let same = |a: &[u64], b: &[u64]| {
            a[node::KEY] == b[node::KEY] && a[node::FIELD..end] == b[node::FIELD..end]
        };
        for (index, PlacedNode { words, place }) in sound.iter().enumerate() {
            let outlived =
                sound.iter().enumerate().any(|(other_index, PlacedNode { words: other, .. })| {
                    let (mine, theirs) = (words[node::LAST_USE], other[node::LAST_USE]);
                    other_index != index
                        && same(words, other)
                        && (theirs > mine || theirs == mine && other_index < index)
                });
            if outlived {
                drop(*place);
            }
        }
    }

    fn mend(&self, finding: &Finding) {
        let tag = match finding.fault {
            Fault::Tag { expected } => expected,
            _ => 0,
        };
        let at = self.head(finding.key_node) + 1 + finding.place / 8;
        let region = self.file(finding.file);
        region.store(at, tag::with(region.load(at), finding.place, tag));
        self.mark_dirty(finding.file, at);
    }

    /// Whether its length in words is that of its geometry. Asserted where regions are made.
    pub(super) fn is_sized(&self) -> bool {
        let words = self.geometry().file_bytes() as usize / 8;
        words >= PAGE_WORDS && self.files().iter().all(|region| region.len() == words)
    }
}
