//! Makes checkpoints of all groups, for the keeper.
//!
//! Invariant: one process at a time makes passes over a data directory: the one that holds the
//! lock. A pass never writes the newest complete checkpoint, which stays untouched until the new
//! one is complete in all files of the group. For a moving group, a pass copies the former files
//! and then the next files. So a record is in one of the copies, or in both: as it was before the
//! move, and after it. Then the copy of the next files counts.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;

use frs_base::clock;
use frs_conf::Overlay;

use super::catalog::{self, Next};
use super::checks::{self, Checks};
use super::dirty::{DirtyPages, Side};
use super::file::{self, CheckpointFacts, OpenCheckpoint, Part, PassState};
use super::pass::{FilePass, FilePassEnd, Output, Pace, Pacer};
use super::tail::Tail;
use crate::error::{Error, io_error};
use crate::file::group::{FileSet, Group, Header};
use crate::watch::backing::CHECKPOINT_BYTE;
use crate::watch::runtime::{Runtime, try_lock_byte};

/// How long a pass waits for a group that is not served while its next files are prepared.
const UNSERVED: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Makes checkpoints of groups.
#[derive(Debug)]
pub struct Checkpointer {
    // Dropped first: groups point into the words of the runtime.
    groups: Vec<Group>,
    runtime: Runtime,
    data_dir: PathBuf,
    live_dir: PathBuf,
    /// Shows that no other process makes checkpoints here. The lock lives as long as it is open.
    _lock: File,
}

/// The result of a pass over one group.
#[derive(Debug)]
pub struct GroupPass {
    /// Its name.
    pub group: String,
    /// The checkpoint, or the error of the pass. `Ok(None)` if the pass was broken off.
    pub result: Result<Option<CheckpointFacts>, Error>,
}

/// The rate at which passes write.
#[derive(Debug, Clone, Copy)]
pub struct PassRate {
    /// Maximum bytes per second.
    pub bytes_per_second: u64,
}

impl Checkpointer {
    /// A checkpointer of the groups in `live_dir`, with checkpoints in `data_dir`. Returns None
    /// while another process makes checkpoints here.
    pub fn new(data_dir: &Path, live_dir: &Path) -> Result<Option<Checkpointer>, Error> {
        let runtime = Runtime::open(data_dir)?;
        let locked = try_lock_byte(runtime.path(), CHECKPOINT_BYTE, "lock it for checkpoints")?;
        Ok(locked.map(|lock| Checkpointer {
            groups: Vec::new(),
            runtime,
            data_dir: data_dir.to_owned(),
            live_dir: live_dir.to_owned(),
            _lock: lock,
        }))
    }

    /// Makes a checkpoint of each of these groups, in this order, from their live files. The pass
    /// over a group that is not served fails.
    pub fn pass(&mut self, names: &[String], rate: PassRate, pacer: &dyn Pacer) -> Vec<GroupPass> {
        self.groups.retain(|group| {
            names.contains(&group.header().name) && group.is_registered(&self.runtime)
        });
        let mut passes = Vec::new();
        for name in names {
            let result = self.pass_of(name, rate, pacer);
            if let Ok(Some(facts)) = &result {
                self.runtime.set_checkpoint_time(name, facts.begun_ms);
            }
            let is_broken_off = matches!(result, Ok(None));
            passes.push(GroupPass { group: name.clone(), result });
            if is_broken_off {
                break;
            }
        }
        passes
    }

    /// Makes a pass over the group of this name. If a move begins meanwhile, the pass starts again
    /// and includes the next files. A group that is not served may be in preparation, so the pass
    /// waits for it for a short time.
    fn pass_of(
        &mut self,
        name: &str,
        rate: PassRate,
        pacer: &dyn Pacer,
    ) -> Result<Option<CheckpointFacts>, Error> {
        let begun = clock::instant();
        loop {
            let members = self.members_of(name)?;
            if members.is_empty() {
                if clock::since(begun) >= UNSERVED {
                    return Err(Error::Quarantined { group: name.to_owned() });
                }
                if pacer.rest(LOOK_AGAIN) == Pace::BreakOff {
                    return Ok(None);
                }
                // A hurried pacer does not rest, so sleep here.
                std::thread::sleep(LOOK_AGAIN);
                continue;
            }
            match self.pass_over(&members, rate, pacer)? {
                Outcome::Made(facts) => return Ok(Some(facts)),
                Outcome::BrokenOff if self.are_all_of(name, &members) => return Ok(None),
                Outcome::BrokenOff | Outcome::Overtaken => {}
            }
        }
    }

    /// Whether `members` are all registered groups of this name.
    fn are_all_of(&self, name: &str, members: &[usize]) -> bool {
        let is_known = |id| members.iter().any(|&member| self.groups[member].header().id == id);
        self.runtime.named_groups(name).iter().all(|named| is_known(named.id))
    }

    /// The mapped groups of this name; if it moves, the former one first, so that a node that moves
    /// during the pass is in one of the copies. Empty if the group is not served.
    fn members_of(&mut self, name: &str) -> Result<Vec<usize>, Error> {
        loop {
            let mut named = self.runtime.named_groups(name);
            if !self.runtime.is_served(name) {
                // Its pages may be gone.
                self.groups.retain(|group| group.header().name != name);
                return Ok(Vec::new());
            }
            named.reverse();
            let opened: Result<Vec<usize>, Error> =
                named.iter().map(|group| self.index_of(name, group.id)).collect();
            named.reverse();
            // A move may have begun or ended meanwhile: then try again.
            if opened.is_ok() || self.runtime.named_groups(name) == named {
                return opened;
            }
        }
    }

    fn index_of(&mut self, name: &str, id: u64) -> Result<usize, Error> {
        if let Some(known) = self.groups.iter().position(|group| group.header().id == id) {
            return Ok(known);
        }
        self.groups.push(Group::open_id(&self.live_dir, name, id, &self.runtime)?);
        Ok(self.groups.len() - 1)
    }

    fn pass_over(
        &self,
        members: &[usize],
        rate: PassRate,
        pacer: &dyn Pacer,
    ) -> Result<Outcome, Error> {
        let groups: Vec<&Group> = members.iter().map(|&member| &self.groups[member]).collect();
        let (named, next) = (groups[0].header(), groups.get(1).map(|next| next.header().id));
        if !groups.iter().all(|group| group.has_checkpoints()) {
            // The marks of a group are being made.
            return Ok(Outcome::BrokenOff);
        }
        // The newest checkpoint may be of other files that had this name. It stays until these
        // files have a checkpoint.
        let Next { side, number, state, replaces_other } =
            catalog::next(&self.data_dir, &named.name)?;
        let before = checks::overlay(&self.data_dir)?;
        let facts = CheckpointFacts {
            id: file::random_id(&self.data_dir)?,
            number,
            begun_ms: clock::now(),
            written_pages: 0,
            state,
            partner: None,
        };
        file::settle(&self.data_dir, named, side, next)?;
        let mut copies = Vec::new();
        for (group, set) in groups.iter().zip([FileSet::Named, FileSet::Next]) {
            let mut others = groups.iter().filter(|other| other.header().id != group.header().id);
            let partner = others.next().map(|other| other.header().id);
            let facts = CheckpointFacts { partner, ..facts };
            let files = self.prepare_files(group, Part { set, side }, facts)?;
            copies.push(Copy { group, files, written: Vec::new() });
        }
        for nth in 0..copies.len() {
            if let Some(Ended { file, end }) = copies[nth].run(side, rate, pacer)? {
                // The files before this one have taken marks, and have written the marked pages.
                // The files after it have taken no marks.
                copies.iter().for_each(|copy| copy.end_pass(side, facts.id));
                return give_up(copies[nth].group, file, end);
            }
        }
        // Read after the copies, so no copied node is of a later epoch.
        let after = checks::overlay(&self.data_dir)?;
        copies.iter_mut().try_for_each(|copy| copy.note_epochs(&after))?;
        for OpenCheckpoint { path, file, .. } in copies.iter().flat_map(|copy| &copy.files) {
            file::sync(path, file)?;
        }
        if !self.are_all_of(&named.name, members) || after.has_cleared_since(&before) {
            // In the first case a node may have moved to files that were not copied. In the second
            // case void nodes of a business were cleared meanwhile, and some of them were copied
            // before.
            copies.iter().for_each(|copy| copy.end_pass(side, facts.id));
            return Ok(Outcome::Overtaken);
        }
        // Before the headers: beside a complete checkpoint, the damaged one would be taken for a
        // newer one.
        let replaced = match replaces_other {
            true => catalog::remove(&self.data_dir, &named.name, side.other()),
            false => Ok(()),
        };
        for copy in &copies {
            for (checkpoint, &pages) in copy.files.iter().zip(&copy.written) {
                let OpenCheckpoint { path, file, header, facts, tail } = checkpoint;
                let done =
                    CheckpointFacts { written_pages: pages, state: PassState::Complete, ..*facts };
                let tail = tail.expect("a pass gives it one");
                file::write_header(path, file, header, (done, tail))?;
                file::sync(path, file)?;
            }
        }
        copies.iter().for_each(|copy| copy.end_pass(side, facts.id));
        copies.iter().try_for_each(Copy::end_wait)?;
        replaced?;
        let written_pages = copies.iter().flat_map(|copy| &copy.written).sum();
        Ok(Outcome::Made(CheckpointFacts { written_pages, state: PassState::Complete, ..facts }))
    }

    /// Opens or creates the checkpoint files of one side, and notes in each header that a pass is
    /// under way. Marks every page whose copy there is not known.
    fn prepare_files(
        &self,
        group: &Group,
        part: Part,
        facts: CheckpointFacts,
    ) -> Result<Vec<OpenCheckpoint>, Error> {
        let (side, mut files) = (part.side, Vec::new());
        for (index, dirty) in (0..).zip(group.all_dirty()) {
            let header = Header { file: index, ..group.header().clone() };
            let options = OpenOptions::new().read(true).write(true).clone();
            let known = file::open(&self.data_dir, &header.name, (index, part), &options);
            let known = known.ok().filter(|known| known.header == header);
            let is_known = known.as_ref().is_some_and(|known| {
                known.tail.is_some() && dirty.known_pass(side) == Some(known.facts.id)
            });
            dirty.begin_pass(side);
            if !is_known {
                dirty.fill(side);
            }
            let open = match known {
                Some(known) => {
                    let tail = known.tail.map_or_else(|| checks::append_empty(&known), Ok)?;
                    file::write_header(&known.path, &known.file, &header, (facts, tail))?;
                    file::sync(&known.path, &known.file)?;
                    OpenCheckpoint { tail: Some(tail), ..known }
                }
                None => file::create(&self.data_dir, &header, part, facts)?,
            };
            files.push(OpenCheckpoint { facts, ..open });
        }
        Ok(files)
    }

    /// The runtime that the groups are registered in.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }
}

/// The copy of the files of one geometry, under way.
struct Copy<'a> {
    group: &'a Group,
    files: Vec<OpenCheckpoint>,
    /// The number of written pages of each copied file.
    written: Vec<u64>,
}

/// The outcome of a pass over a group.
enum Outcome {
    Made(CheckpointFacts),
    BrokenOff,
    /// A move or a cleared business overtook the pass, so it starts again.
    Overtaken,
}

/// The file at which a copy ended early, and the reason.
struct Ended {
    file: u32,
    end: FilePassEnd,
}

impl Copy<'_> {
    fn run(
        &mut self,
        side: Side,
        rate: PassRate,
        pacer: &dyn Pacer,
    ) -> Result<Option<Ended>, Error> {
        for ((file, checkpoint), dirty) in (0..).zip(&mut self.files).zip(self.group.all_dirty()) {
            let number = checkpoint.facts.number;
            let pass = FilePass { group: self.group, file, dirty, side, number };
            let mut checks = known_checks(checkpoint, dirty, side)?;
            let to = (&*checkpoint.path, &checkpoint.file);
            let mut output = Output::new(to, &mut checks, rate.bytes_per_second, pacer);
            match pass.run(&mut output)? {
                FilePassEnd::Written { pages } => self.written.push(pages),
                end => return Ok(Some(Ended { file, end })),
            }
            let checks_crc = checks.write(checkpoint)?;
            let OpenCheckpoint { path, file, header, facts, tail } = checkpoint;
            let all = tail.insert(Tail { checks_crc, ..tail.expect("a pass gives it one") });
            // If the pass breaks off in another file, the next pass finds the checksums of this
            // file.
            file::write_header(path, file, header, (*facts, *all))?;
        }
        Ok(None)
    }

    /// Notes the present epochs of its businesses, after all files are copied.
    fn note_epochs(&mut self, overlay: &Overlay) -> Result<(), Error> {
        for checkpoint in &mut self.files {
            let tail = checkpoint.tail.expect("a pass gives it one");
            checkpoint.tail = Some(checks::write_epochs(checkpoint, tail, overlay)?);
        }
        Ok(())
    }

    /// Notes that the checkpoint holds this pass; every page that it lacks is marked.
    fn end_pass(&self, side: Side, id: u64) {
        self.group.all_dirty().iter().for_each(|dirty| dirty.end_pass(side, id));
    }

    /// Notes that these files have a checkpoint from now on.
    fn end_wait(&self) -> Result<(), Error> {
        for (OpenCheckpoint { path, .. }, dirty) in self.files.iter().zip(self.group.all_dirty()) {
            dirty.end_wait().map_err(io_error(path, "note that it is complete"))?;
        }
        Ok(())
    }
}

/// The checksums of a file. If they are damaged, the whole file is written again.
fn known_checks(
    checkpoint: &OpenCheckpoint,
    dirty: &DirtyPages,
    side: Side,
) -> Result<Checks, Error> {
    match Checks::read(checkpoint) {
        Ok(Some(checks)) => Ok(checks),
        Err(error) if error.is_transient() => Err(error),
        Ok(None) | Err(_) => {
            dirty.fill(side);
            Ok(Checks::unknown(checkpoint.header.geometry.key_nodes))
        }
    }
}

/// Ends a pass early.
fn give_up(group: &Group, file: u32, end: FilePassEnd) -> Result<Outcome, Error> {
    match end {
        FilePassEnd::Held { key_node, slot } => {
            Err(Error::Held { group: group.header().name.clone(), file, key_node, slot })
        }
        FilePassEnd::BrokenOff | FilePassEnd::Written { .. } => Ok(Outcome::BrokenOff),
    }
}
