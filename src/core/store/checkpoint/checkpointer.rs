//! Makes checkpoints of all groups, for the keeper.
//!
//! Invariant: one process at a time makes passes over a data directory: the one that holds the
//! lock. A pass writes the checkpoint that is not the newest complete one. That one is not touched
//! until the new one is complete in all files of the group.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use super::file::{self, CheckpointFacts, Found, OpenCheckpoint};
use super::pass::{FilePass, FilePassEnd, Output, Pace, Pacer};
use crate::base::{clock, sys};
use crate::store::backing::CHECKPOINT_BYTE;
use crate::store::dirty::Side;
use crate::store::error::{Error, io_error};
use crate::store::group::{Group, Header};
use crate::store::runtime::Runtime;

/// Shows that no other process makes checkpoints here. Lives as long as its file is open.
#[derive(Debug)]
pub struct CheckpointLock {
    _file: File,
}

/// Makes checkpoints of the groups of a configuration.
#[derive(Debug)]
pub struct Checkpointer {
    // Dropped first: groups point into the words of the runtime.
    groups: Vec<Group>,
    runtime: Runtime,
    data_dir: PathBuf,
    live_dir: PathBuf,
    _lock: CheckpointLock,
}

/// What became of a group in a pass.
#[derive(Debug)]
pub struct GroupPass {
    /// Its name.
    pub group: String,
    /// The checkpoint, or why there is none. `Ok(None)`: the pass was broken off.
    pub result: Result<Option<CheckpointFacts>, Error>,
}

/// How fast passes write.
#[derive(Debug, Clone, Copy)]
pub struct PassRate {
    /// The most bytes in a second.
    pub bytes_per_second: u64,
}

impl Checkpointer {
    /// For the groups in `live_dir`, with checkpoints in `data_dir`. None while another process
    /// makes checkpoints here.
    pub fn new(data_dir: &Path, live_dir: &Path) -> Result<Option<Checkpointer>, Error> {
        let runtime = Runtime::open(data_dir)?;
        let path = runtime.path().to_owned();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .map_err(io_error(&path, "open it"))?;
        let is_taken = sys::try_lock_range(&file, CHECKPOINT_BYTE, 1)
            .map_err(io_error(&path, "lock it for checkpoints"))?;
        Ok(is_taken.then(|| Checkpointer {
            groups: Vec::new(),
            runtime,
            data_dir: data_dir.to_owned(),
            live_dir: live_dir.to_owned(),
            _lock: CheckpointLock { _file: file },
        }))
    }

    /// Makes a checkpoint of each of these groups, in this order, from what is in their live files.
    /// Groups that are not served are left out.
    pub fn pass(&mut self, names: &[String], rate: PassRate, pacer: &dyn Pacer) -> Vec<GroupPass> {
        self.groups.retain(|group| {
            names.contains(&group.header().name) && group.is_registered(&self.runtime)
        });
        let mut passes = Vec::new();
        for name in names {
            let result = match self.index_of(name) {
                Ok(Some(group)) => self.pass_over(&self.groups[group], rate, pacer),
                Ok(None) => continue,
                Err(error) => Err(error),
            };
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

    /// The group of this name, mapped. None if it is not served.
    fn index_of(&mut self, name: &str) -> Result<Option<usize>, Error> {
        if !self.runtime.is_served(name) {
            // Its pages may be gone.
            self.groups.retain(|group| group.header().name != name);
            return Ok(None);
        }
        let known = self.groups.iter().position(|group| group.header().name == name);
        if known.is_some() {
            return Ok(known);
        }
        self.groups.push(Group::open(&self.live_dir, name, &self.runtime)?);
        Ok(Some(self.groups.len() - 1))
    }

    fn pass_over(
        &self,
        group: &Group,
        rate: PassRate,
        pacer: &dyn Pacer,
    ) -> Result<Option<CheckpointFacts>, Error> {
        let name = &group.header().name;
        let newest = match file::find(&self.data_dir, name)? {
            // Of another group that had the name: not a checkpoint of this one.
            Found::Complete(found) if found.header.id == group.header().id => Some(found),
            _ => None,
        };
        let side = newest.as_ref().map_or(Side::A, |newest| newest.side.other());
        let facts = CheckpointFacts {
            id: file::random_id(&self.data_dir)?,
            number: newest.as_ref().map_or(0, |newest| newest.facts.number) + 1,
            begun_ms: clock::now(),
            written_pages: 0,
            is_complete: false,
        };
        drop(newest);
        let files = self.prepare_files(group, side, facts)?;
        let mut written = Vec::new();
        for (index, checkpoint) in (0..).zip(&files) {
            let Some(dirty) = group.dirty(index) else { return Ok(None) };
            let pass = FilePass { group, file: index, dirty, side };
            let to = (&*checkpoint.path, &checkpoint.file);
            let mut output = Output::new(to, rate.bytes_per_second, pacer);
            match pass.run(&mut output)? {
                FilePassEnd::Written { pages } => written.push(pages),
                end => return give_up(group, (side, facts.id), index, end),
            }
        }
        for checkpoint in &files {
            file::sync(&checkpoint.path, &checkpoint.file)?;
        }
        let done =
            |pages: u64| CheckpointFacts { written_pages: pages, is_complete: true, ..facts };
        for (checkpoint, &pages) in files.iter().zip(&written) {
            let OpenCheckpoint { path, file, header, .. } = checkpoint;
            file::write_header(path, file, header, done(pages))?;
            file::sync(path, file)?;
        }
        for index in 0..group.geometry().files {
            group.dirty(index).into_iter().for_each(|dirty| dirty.end_pass(side, facts.id));
        }
        Ok(Some(done(written.iter().sum())))
    }

    /// Opens or creates the checkpoint files of one side, and says in each that a pass is under
    /// way. Whatever is not known to be in them is marked.
    fn prepare_files(
        &self,
        group: &Group,
        side: Side,
        facts: CheckpointFacts,
    ) -> Result<Vec<OpenCheckpoint>, Error> {
        let mut files = Vec::new();
        for index in 0..group.geometry().files {
            let Some(dirty) = group.dirty(index) else { break };
            let header = Header { file: index, ..group.header().clone() };
            let options = OpenOptions::new().read(true).write(true).clone();
            let known = file::open(&self.data_dir, &header.name, (index, side), &options);
            let known = known.ok().filter(|known| known.header == header);
            let is_known =
                known.as_ref().is_some_and(|known| dirty.known_pass(side) == Some(known.facts.id));
            dirty.begin_pass(side);
            if !is_known {
                dirty.fill(side);
            }
            let open = match known {
                Some(known) => {
                    file::write_header(&known.path, &known.file, &header, facts)?;
                    file::sync(&known.path, &known.file)?;
                    known
                }
                None => file::create(&self.data_dir, &header, side, facts)?,
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

/// A pass ends early, and what it took is marked again: so all that its files lack is marked.
fn give_up(
    group: &Group,
    (side, id): (Side, u64),
    file: u32,
    end: FilePassEnd,
) -> Result<Option<CheckpointFacts>, Error> {
    // The files before it have taken marks, and what they stand for is written. Those behind it
    // have taken none.
    for index in 0..group.geometry().files {
        group.dirty(index).into_iter().for_each(|dirty| dirty.end_pass(side, id));
    }
    match end {
        FilePassEnd::Held { key_node, slot } => {
            Err(Error::Held { group: group.header().name.clone(), file, key_node, slot })
        }
        FilePassEnd::BrokenOff | FilePassEnd::Written { .. } => Ok(None),
    }
}

/// A pacer for passes that go as fast as the disk.
#[derive(Debug, Clone, Copy)]
pub struct Unpaced;

impl Pacer for Unpaced {
    fn rest(&self, _: std::time::Duration) -> Pace {
        Pace::Hurried
    }
}
