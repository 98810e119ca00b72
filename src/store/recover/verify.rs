//! Checks every key-node of a group, and repairs it before it is served.
//!
//! Invariant: tests, start-up and tools use the same check, `examine`. The scan at start applies
//! what it finds.

use frs_conf::key::{KeyNodeId, KeyRef, Location, Seed};

use crate::file::group::{Group, is_whole};
use crate::file::layout::{PAGE_WORDS, TAG_WORDS, node, tag};

/// A fault at a place of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The node's CRC fails.
    Crc,
    /// The node's key belongs elsewhere, or is not a valid key.
    Misplaced,
    /// Another place of the chain has the same key, used later.
    Duplicate,
    /// The tag is not that of the node's key. The key is sound.
    Tag {
        /// The correct tag.
        expected: u8,
    },
    /// A tag behind the end of the chain.
    Beyond,
    /// In the former group of a pair: the node has moved, and its copy may not be on disk. This is
    /// no fault, and reports leave it out.
    Moved {
        /// The tag that it had.
        expected: u8,
    },
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
    /// The fault at this place.
    pub fault: Fault,
}

/// A key-node of a checkpoint that does not match its checksum. It was restored empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unproven {
    /// The key-node.
    pub at: KeyNodeId,
    /// The number of its records by its checksum, or of those found in it, whichever is larger.
    pub records: u64,
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
    /// Of a checkpoint: key-nodes that do not match their checksums.
    pub unproven: Vec<Unproven>,
    /// Of a checkpoint: records of businesses that were reset since.
    pub void: u64,
    /// In the former group of a pair: nodes that have moved, and stay until their copies are on
    /// disk. Of a scan: the moved nodes that it has found.
    pub moved: u64,
}

impl Report {
    /// Whether there is no fault and no semaphore is taken.
    pub fn is_clean(&self) -> bool {
        self.has_changed_nothing() && self.taken == 0
    }

    /// Whether a scan had nothing to mend or to drop.
    pub(crate) fn has_changed_nothing(&self) -> bool {
        self.findings.is_empty() && self.unproven.is_empty() && self.void == 0
    }

    /// Adds the report of other files.
    pub(crate) fn add(&mut self, more: Report) {
        self.nodes += more.nodes;
        self.taken += more.taken;
        self.findings.extend(more.findings);
        self.unproven.extend(more.unproven);
        self.void += more.void;
        self.moved += more.moved;
    }

    /// Removes moved nodes from the findings, from this one on, and only counts them: a group may
    /// have as many of them as it has nodes.
    fn forget_moved(&mut self, from: usize) {
        let mut at = from;
        while at < self.findings.len() {
            match self.findings[at].fault {
                Fault::Moved { .. } => {
                    self.findings.remove(at);
                    self.moved += 1;
                }
                _ => at += 1,
            }
        }
    }

    /// Nodes that a scan drops, without void records.
    pub fn dropped(&self) -> u64 {
        let dropped = |finding: &&Finding| !matches!(finding.fault, Fault::Tag { .. });
        self.findings.iter().filter(dropped).count() as u64 + self.unproven_records()
    }

    /// Records of key-nodes that do not match their checksums.
    pub(crate) fn unproven_records(&self) -> u64 {
        self.unproven.iter().map(|unproven| unproven.records).sum()
    }
}

/// How a scan treats a node that has moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moved {
    /// It is a node again, because its copy may be lost. The next move finds both nodes, or this
    /// one.
    ComesBack,
    /// It is dropped: its copy exists, or was erased.
    IsDropped,
}

/// Words of a node, and its place in the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedNode {
    pub place: usize,
    pub words: Vec<u64>,
}

impl Group {
    /// Checks every key-node without taking semaphores. The result is exact where no process
    /// writes.
    pub fn verify(&self) -> Report {
        let mut report = Report::default();
        self.key_nodes().for_each(|at| self.examine(at, &mut report));
        report
    }

    /// Like [`Group::verify`], but also repairs: frees semaphores, drops nodes that cannot be
    /// trusted, and writes the tags of sound nodes again. No other process may be attached.
    pub fn scan(&self) -> Report {
        let mut report = Report::default();
        self.key_nodes().for_each(|at| self.scan_one(at, Moved::ComesBack, &mut report));
        report
    }

    /// Scans one key-node as [`Group::scan`] scans all, or drops its moved nodes, as `moved` says.
    pub(crate) fn scan_one(&self, at: KeyNodeId, moved: Moved, report: &mut Report) {
        let before = report.findings.len();
        self.examine_all(at, report);
        self.semaphore(at.file, at.key_node).release();
        for finding in &report.findings[before..] {
            self.mend(finding, moved);
        }
        report.forget_moved(before);
    }

    /// Frees all places of a key-node. Returns how many were in use.
    pub(crate) fn drop_all(&self, at: KeyNodeId) -> u64 {
        let first = self.head(at.key_node) + 1;
        let region = self.file(at.file);
        let words = (first..first + TAG_WORDS).map(|word| (word, region.load(word)));
        let mut taken = 0;
        for (word, tags) in words.filter(|&(_, tags)| tags != 0) {
            taken += (0..8).filter(|&place| tag::of(tags, place) != 0).count() as u64;
            region.store(word, 0);
            self.mark_dirty(at.file, word);
        }
        taken
    }

    /// Frees the places of a key-node whose nodes belong to these businesses. Returns their number.
    pub(crate) fn drop_of_bizs(&self, at: KeyNodeId, bizs: &[u32]) -> u64 {
        let (first, region) = (self.head(at.key_node) + 1, self.file(at.file));
        let mut dropped = 0;
        for place in 0..self.geometry().chain as usize {
            let word = first + place / 8;
            let tags = region.load(word);
            let biz = || region.load(self.node(at.key_node, place) + node::KEY) as u32;
            if tag::of(tags, place) != 0 && bizs.contains(&biz()) {
                region.store(word, tag::with(tags, place, 0));
                self.mark_dirty(at.file, word);
                dropped += 1;
            }
        }
        dropped
    }

    /// Checks one key-node and adds its findings to the report.
    pub(crate) fn examine(&self, at: KeyNodeId, report: &mut Report) {
        let before = report.findings.len();
        self.examine_all(at, report);
        report.forget_moved(before);
    }

    /// Like [`Group::examine`], but moved nodes are in the findings, and not counted among the
    /// nodes.
    fn examine_all(&self, at: KeyNodeId, report: &mut Report) {
        let KeyNodeId { file, key_node } = at;
        report.taken += u64::from(self.semaphore(file, key_node).word() != 0);
        let tags = self.tags(at);
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
            let found = |fault| Finding { file, key_node, place, fault };
            if place >= chain {
                report.findings.push(found(Fault::Beyond));
                continue;
            }
            let words = self.node_at(at, place);
            match self.judge_node(&words, at) {
                Err(fault) => report.findings.push(found(fault)),
                Ok(expected) if self.is_moved(tag, expected) => {
                    report.findings.push(found(Fault::Moved { expected }));
                }
                Ok(expected) => {
                    if expected != tag {
                        report.findings.push(found(Fault::Tag { expected }));
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
    pub(crate) fn judge_node(&self, words: &[u64], id: KeyNodeId) -> Result<u8, Fault> {
        if !is_whole(words) {
            return Err(Fault::Crc);
        }
        match self.locate(words) {
            Some(at) if at.key_node_id() == id => Ok(at.tag),
            _ => Err(Fault::Misplaced),
        }
    }

    /// The key-node and tag of a node by its key, if the key is valid.
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

    fn mend(&self, finding: &Finding, moved: Moved) {
        let tag = match finding.fault {
            Fault::Tag { expected } => expected,
            Fault::Moved { expected } if moved == Moved::ComesBack => expected,
            _ => 0,
        };
        let at = self.head(finding.key_node) + 1 + finding.place / 8;
        let region = self.file(finding.file);
        region.store(at, tag::with(region.load(at), finding.place, tag));
        self.mark_dirty(finding.file, at);
    }

    /// Whether each file has the length in words that the geometry needs. Asserted where regions
    /// are made.
    pub(crate) fn is_sized(&self) -> bool {
        let words = self.geometry().file_bytes() as usize / 8;
        words >= PAGE_WORDS && self.files().iter().all(|region| region.len() == words)
    }
}
