//! Looks into a live group: maps it for reading, takes no semaphore, and delays no process.
//!
//! Invariant: a copied node is returned only if its CRC holds and its key belongs where it is. So
//! some transaction wrote it whole. Whether that transaction was undone since cannot be known
//! without the semaphore.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use frs_base::sys;
use frs_conf::Geometry;
use frs_conf::key::{KeyNodeId, KeyRef};

use crate::chain::tags::places_of;
use crate::checkpoint;
use crate::checkpoint::{Checks, OpenCheckpoint};
use crate::commit::transaction::holds;
use crate::error::{Error, io_error};
use crate::file::group::{self, FileSet, Group, Header, MappedFiles, Marks, OpenFile, OpenGroup};
use crate::file::layout::{TAG_WORDS, node, tag};
use crate::file::region::Region;
use crate::lock::semaphore::Token;
use crate::recover::verify::{Fault, Finding, Report, Unproven};
use crate::watch::runtime::FileEntry;
use pass::Holder;

mod pass;

pub use pass::Pass;

/// Maximum number of looks at a node or key-node before it counts as damaged or in a transaction.
const LOOKS: u32 = 100;
/// The first of these looks, made without a pause. Most transactions end within them.
const QUICK_LOOKS: u32 = 20;
/// This many looks that find the same words while no process works on them are enough.
const STEADY_LOOKS: u32 = 5;
/// Looks at a node or key-node after the pass has used all its pauses.
const HASTY_LOOKS: u32 = STEADY_LOOKS + 1;

/// A group mapped for reading.
#[derive(Debug)]
pub struct LiveGroup {
    // Private, so that no semaphore of it can be taken.
    group: Group,
    /// Empty for a checkpoint, which has no marks of a server.
    marks: Vec<Marks>,
    set: FileSet,
    /// The checkpoint files that were opened instead of live files. Empty for live files.
    checkpoints: Vec<OpenCheckpoint>,
}

/// A key-node whose semaphore names a slot, or on which the owner of the slot works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedKeyNode {
    /// The key-node.
    pub at: KeyNodeId,
    /// The slot.
    pub slot: u32,
}

/// Why a node, or all of a key-node, cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unread<E> {
    /// A transaction was under way during all looks.
    InTransaction {
        /// The slot of the process that works on it.
        slot: u32,
    },
    /// A process died while it wrote. A recoverer undoes its words before another process uses
    /// them.
    HalfWritten {
        /// The slot of that process.
        slot: u32,
    },
    /// No transaction wrote this, and no process works on it.
    Damaged(E),
}

/// The result of a look at all key-nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LiveReport {
    /// Nodes and faults. A taken semaphore is no fault in a live group.
    pub report: Report,
    /// Key-nodes that could not be judged, with the slot of the process that works on them.
    pub in_transaction: Vec<NamedKeyNode>,
    /// Key-nodes that a process left half written when it died.
    pub half_written: Vec<NamedKeyNode>,
    /// Key-nodes whose semaphore names a slot that does not hold it.
    pub orphans: Vec<NamedKeyNode>,
    /// Files of a checkpoint with damaged checksums, and the damage.
    pub unread_checks: Vec<String>,
    /// Semaphores that dead processes held. They are freed when they are needed.
    pub held_by_dead: u64,
}

/// A fault, with a hash of the faulty words.
struct Off<E> {
    fault: E,
    print: u64,
}

/// The sound nodes of a key-node, and its faults.
pub struct SoundNodes {
    pub nodes: Vec<Vec<u64>>,
    pub findings: Vec<Finding>,
}

impl LiveGroup {
    /// Opens the files of a group for reading, and checks them against each other.
    ///
    /// # Errors
    /// A file is missing or wrong. The error names it, with the found and the expected value.
    pub fn open(live_dir: &Path, name: &str) -> Result<LiveGroup, Error> {
        Self::open_set(live_dir, name, FileSet::Named)
    }

    /// Like [`LiveGroup::open`], for one of the two file sets that a moving group has.
    ///
    /// # Errors
    /// As [`LiveGroup::open`].
    pub fn open_set(live_dir: &Path, name: &str, set: FileSet) -> Result<LiveGroup, Error> {
        let OpenGroup { header, files } =
            group::open_files_with(OpenOptions::new().read(true), live_dir, name, set)?;
        let in_memory = sys::is_file_in_memory(&files[0].file)
            .map_err(io_error(&files[0].path, "look at its disk"))?;
        let marks = files.iter().map(|OpenFile { path, file }| group::read_marks(path, file));
        let marks = marks.collect::<Result<_, _>>()?;
        let files = files.iter().map(|OpenFile { path, file }| (&**path, file));
        let group = Self::map(header, files, in_memory)?;
        Ok(LiveGroup { group, marks, set, checkpoints: Vec::new() })
    }

    fn map<'f>(
        header: Header,
        files: impl Iterator<Item = (&'f Path, &'f File)>,
        in_memory: bool,
    ) -> Result<Group, Error> {
        let words = header.geometry.file_bytes() as usize / 8;
        let mut mapped = MappedFiles { in_memory, ..MappedFiles::default() };
        for (index, (path, file)) in (0..).zip(files) {
            let region = Region::map_for_reading(file, words).map_err(io_error(path, "map it"))?;
            mapped.watches.extend(sys::watch_reading(region.span(), path));
            mapped.entries.push(group::entry_of(path, file, &header, index)?);
            mapped.regions.push(region);
        }
        // Reads through it never use its index in the register.
        Ok(Group::of_files(header, 0, mapped))
    }

    /// Opens the newest complete checkpoint of a group for reading. If the group moved: the copies
    /// of the next files, then those of the former ones.
    ///
    /// # Errors
    /// There is no complete checkpoint. The error names the damage of each.
    pub fn open_checkpoint(
        data_dir: &Path,
        name: &str,
    ) -> Result<(LiveGroup, Option<LiveGroup>), Error> {
        let complete = match checkpoint::find(data_dir, name)? {
            checkpoint::Found::Complete(complete, _) | checkpoint::Found::Older(complete, _) => {
                complete
            }
            checkpoint::Found::Nothing => {
                return Err(Error::NoCheckpoint { group: name.to_owned(), why: Vec::new() });
            }
            checkpoint::Found::Unusable(why) => {
                return Err(Error::NoCheckpoint { group: name.to_owned(), why });
            }
        };
        let named = Self::of_copies(complete.named)?;
        Ok(match complete.next {
            Some(next) => (Self::of_copies(next)?, Some(named.into_former())),
            None => (named, None),
        })
    }

    fn of_copies(
        checkpoint::Copied { header, files: checkpoints }: checkpoint::Copied,
    ) -> Result<LiveGroup, Error> {
        let files = checkpoints.iter().map(|copy| (&*copy.path, &copy.file));
        let group = Self::map(header, files, false)?;
        Ok(LiveGroup { group, marks: Vec::new(), set: FileSet::Named, checkpoints })
    }

    /// The group's header.
    pub fn header(&self) -> &Header {
        self.group.header()
    }

    /// Notes that another group grows out of it, so that moved nodes do not count as its nodes.
    pub fn into_former(mut self) -> LiveGroup {
        self.group.set_former(true);
        self
    }

    /// Whether it has no node.
    pub fn has_no_node(&self) -> bool {
        self.group.key_nodes().all(|at| self.group.tags(at) == [0; TAG_WORDS])
    }

    /// Whether any of its keys may have a kept record.
    pub fn has_kept(&self) -> bool {
        self.group.has_kept()
    }

    /// The group's geometry.
    pub fn geometry(&self) -> &Geometry {
        self.group.geometry()
    }

    /// Words of a node.
    pub fn node_words(&self) -> usize {
        self.group.node_words()
    }

    /// Whether its files are in memory.
    pub fn is_in_memory(&self) -> bool {
        self.group.is_in_memory()
    }

    /// Whether its last server ended cleanly, by the marks in the files when they were opened.
    pub fn is_clean(&self) -> bool {
        self.marks.iter().all(|marks| marks.clean)
    }

    /// Whether the files were marked as quarantined when they were opened.
    pub fn is_quarantined(&self) -> bool {
        self.marks.iter().any(|marks| marks.quarantined)
    }

    /// Whether the directory now has other files of this name.
    pub fn is_replaced(&self, live_dir: &Path) -> bool {
        self.is_replaced_in(live_dir, self.set)
    }

    fn is_replaced_in(&self, live_dir: &Path, set: FileSet) -> bool {
        let is_replaced = |entry: &FileEntry| {
            let now = std::fs::metadata(set.path_of(live_dir, &entry.name, entry.file));
            now.map_or(true, |now| (now.dev(), now.ino()) != (entry.device, entry.inode))
        };
        // No process replaces a checkpoint while it is read.
        self.checkpoints.is_empty() && self.group.entries().iter().any(is_replaced)
    }

    /// Whether its nodes move, or have moved, to files that did not exist when it was opened.
    pub fn begins_to_move(&self, live_dir: &Path) -> bool {
        if self.marks.is_empty() {
            // A checkpoint has no marks, and never moves.
            return false;
        }
        let name = &self.header().name;
        match self.set {
            FileSet::Named => group::is_next_there(live_dir, name) || self.is_replaced(live_dir),
            FileSet::Next if !self.is_replaced(live_dir) => false,
            // The next files have got the plain names since.
            FileSet::Next => {
                group::is_next_there(live_dir, name)
                    || self.is_replaced_in(live_dir, FileSet::Named)
            }
        }
    }

    /// The key in a node's words, if it is valid.
    pub fn key_of<'a>(&self, words: &'a [u64]) -> Option<KeyRef<'a>> {
        self.group.key_of(words)
    }

    /// The holder that a key-node's semaphore names now.
    fn named(&self, at: KeyNodeId) -> Option<Token> {
        Token::of_word(self.group.semaphore(at.file, at.key_node).word())
    }

    /// The places of a key-node's chain that are in use now.
    pub fn taken_places(&self, at: KeyNodeId) -> impl Iterator<Item = usize> + use<> {
        self.group.taken_places(at)
    }

    /// Copies the node of a place. `words` is as long as one node. Returns false if the place is
    /// free.
    ///
    /// # Errors
    /// The node cannot be read.
    pub fn copy(
        &self,
        pass: &Pass<'_>,
        at: KeyNodeId,
        place: usize,
        words: &mut [u64],
    ) -> Result<bool, Unread<Fault>> {
        self.look(pass, at, || {
            let tag = tag::of(self.group.tags(at)[place / 8], place);
            if tag == 0 {
                return Ok(false);
            }
            let copied = self.copy_once(at, place, tag, words);
            if self.is_moved(tag, copied) {
                return Ok(false);
            }
            let off = |fault| Off { fault, print: print_of(u64::from(tag), words) };
            copied.map(|()| true).map_err(off)
        })
    }

    /// Searches for the node of a key, and copies it to `words` if it exists. Returns its place in
    /// the chain.
    ///
    /// # Errors
    /// A node that may be the key's cannot be read. If it is damaged, the error names its place.
    pub fn find(
        &self,
        pass: &Pass<'_>,
        biz_id: u32,
        key: &KeyRef<'_>,
        words: &mut [u64],
    ) -> Result<Option<usize>, Unread<(usize, Fault)>> {
        let location =
            key.locate(biz_id, self.geometry(), frs_conf::key::Seed(self.header().seeds));
        let (at, tag) = (location.key_node_id(), location.tag);
        let key_word = node::key_word(biz_id, key.form() as u8, key.bytes());
        self.look(pass, at, || {
            let mut damaged = None;
            for place in places_of(&self.group.tags(at), tag) {
                if place >= self.geometry().chain as usize {
                    continue;
                }
                match self.copy_once(at, place, tag, words) {
                    Ok(()) if holds(words, key_word, key) => return Ok(Some(place)),
                    Ok(()) => {}
                    copied if self.is_moved(tag, copied) => {}
                    Err(fault) => {
                        let print = print_of(place as u64, words);
                        damaged = Some(Off { fault: (place, fault), print });
                    }
                }
            }
            damaged.map_or(Ok(None), Err)
        })
    }

    fn copy_once(
        &self,
        at: KeyNodeId,
        place: usize,
        tag: u8,
        words: &mut [u64],
    ) -> Result<(), Fault> {
        self.group.read_node(at, place, words);
        match self.group.judge_node(words, at)? {
            expected if expected != tag => Err(Fault::Tag { expected }),
            _ => Ok(()),
        }
    }

    /// Whether the copied node of a place with this tag has moved.
    fn is_moved(&self, tag: u8, copied: Result<(), Fault>) -> bool {
        matches!(copied, Err(Fault::Tag { expected }) if self.group.is_moved(tag, expected))
    }

    /// Looks until there is no fault. Otherwise returns the process that works on the key-node, or
    /// the last fault if a fault was seen while no process worked on it. If the faulty words stay
    /// the same while no process works on them, it stops early.
    fn look<T, E>(
        &self,
        pass: &Pass<'_>,
        at: KeyNodeId,
        mut once: impl FnMut() -> Result<T, Off<E>>,
    ) -> Result<T, Unread<E>> {
        let (mut off_while_idle, mut at_work) = (false, None);
        let (mut steady, mut last_print) = (0, None);
        for look in 1.. {
            let before = self.named(at);
            let Off { fault, print } = match once() {
                Ok(found) => return Ok(found),
                Err(off) => off,
            };
            let is_changing = self.named(at) != before;
            let holder = pass.holder(&self.group, at);
            let is_idle = !is_changing && !matches!(holder, Holder::Living(_));
            off_while_idle |= is_idle;
            let is_same = last_print.replace(print) == Some(print);
            steady = if is_idle && is_same { steady + 1 } else { 0 };
            if steady == STEADY_LOOKS {
                return Err(match holder {
                    Holder::Dead { slot, was_writing: true } => Unread::HalfWritten { slot },
                    _ => Unread::Damaged(fault),
                });
            }
            at_work = match holder {
                Holder::Living(slot) => Some(slot),
                _ => at_work.or(before.filter(|_| is_changing).map(Token::slot)),
            };
            let pauses = look >= QUICK_LOOKS && (at_work.is_some() || look % QUICK_LOOKS == 0);
            let is_enough = look >= HASTY_LOOKS && pass.is_over();
            if look == LOOKS || is_enough || pauses && !pass.pause() {
                return Err(match at_work.filter(|_| !off_while_idle) {
                    Some(slot) => Unread::InTransaction { slot },
                    None => Unread::Damaged(fault),
                });
            }
        }
        unreachable!("the loop ends after LOOKS")
    }

    /// Checks every key-node, as [`Group::verify`] does where no process writes. Key-nodes of a
    /// checkpoint are also compared with their checksums.
    pub fn verify(&self, pass: &Pass<'_>) -> LiveReport {
        let mut live = LiveReport::default();
        for file in 0..self.geometry().files {
            let checks = match self.checkpoints.get(file as usize).map(Checks::read) {
                Some(Ok(checks)) => checks,
                Some(Err(error)) => {
                    live.unread_checks.push(error.to_string());
                    None
                }
                None => None,
            };
            for key_node in 0..self.geometry().key_nodes {
                let at = KeyNodeId { file, key_node };
                let check = checks.as_ref().map(|checks| checks.of(key_node));
                if let Some(check) = check.filter(|&check| !self.group.holds(at, check)) {
                    live.report.unproven.push(Unproven { at, records: check.records() });
                }
                self.verify_one(pass, at, &mut live);
            }
        }
        live
    }

    /// Whether it is a checkpoint of format 1, which has no checksums.
    pub fn lacks_checks(&self) -> bool {
        self.checkpoints.iter().any(|checkpoint| checkpoint.tail.is_none())
    }

    /// Checks one key-node and adds the result to `live`.
    fn verify_one(&self, pass: &Pass<'_>, at: KeyNodeId, live: &mut LiveReport) {
        let mut report = Report::default();
        let looked = self.look(pass, at, || {
            report = Report::default();
            self.group.examine(at, &mut report);
            match report.findings.is_empty() {
                true => Ok(()),
                false => Err(Off { fault: (), print: self.print_of_key_node(at) }),
            }
        });
        let unjudged = match looked {
            Ok(()) | Err(Unread::Damaged(())) => None,
            Err(Unread::InTransaction { slot }) => Some((&mut live.in_transaction, slot)),
            Err(Unread::HalfWritten { slot }) => Some((&mut live.half_written, slot)),
        };
        if let Some((unjudged, slot)) = unjudged {
            unjudged.push(NamedKeyNode { at, slot });
            report.findings.clear();
        }
        if report.taken > 0 {
            match pass.holder(&self.group, at) {
                Holder::Orphan(slot) => live.orphans.push(NamedKeyNode { at, slot }),
                Holder::Dead { .. } => live.held_by_dead += 1,
                Holder::Nobody | Holder::Living(_) => {}
            }
        }
        live.report.nodes += report.nodes;
        live.report.taken += report.taken;
        live.report.findings.extend(report.findings);
    }

    /// A hash of a key-node's tags and nodes.
    fn print_of_key_node(&self, at: KeyNodeId) -> u64 {
        let places = 0..self.geometry().chain as usize;
        places.fold(print_of(0, &self.group.tags(at)), |print, place| {
            print_of(print, &self.group.node_at(at, place))
        })
    }

    /// Copies the sound nodes of a key-node, where no process writes. Of duplicates, only the one
    /// used last.
    pub fn sound_nodes(&self, at: KeyNodeId) -> SoundNodes {
        let mut report = Report::default();
        self.group.examine(at, &mut report);
        let is_lost = |place| {
            let mut findings = report.findings.iter().filter(|finding| finding.place == place);
            findings.any(|finding| !matches!(finding.fault, Fault::Tag { .. }))
        };
        let sound = self.taken_places(at).filter(|&place| !is_lost(place));
        let nodes = sound.map(|place| self.group.node_at(at, place)).collect();
        SoundNodes { nodes, findings: report.findings }
    }
}

/// A hash of words, continued from the hash `begun`. It shows whether a process wrote to them.
fn print_of(begun: u64, words: &[u64]) -> u64 {
    const K: u64 = 0x9e37_79b9_7f4a_7c15;
    words.iter().fold(begun, |print, word| (print.rotate_left(5) ^ word).wrapping_mul(K))
}
