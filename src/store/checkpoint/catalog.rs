//! Finds the passes of a group that its checkpoint files hold.
//!
//! Invariant: a pass counts if the headers of all files of the group, next files included, name it
//! as complete. The pass copied the next files last, so that no record is missing in both. An older
//! pass replaces a newer one only if the newer one was broken off. If the newer one is damaged, the
//! operator must accept that its records are lost.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use frs_conf::Geometry;

use super::dirty::Side;
use super::file::{
    CheckpointFacts, FILE_PARTS, OpenCheckpoint, Part, PassState, end_of, open, path_of, read_facts,
};
use crate::error::{Error, expect, io_error};
use crate::file::group::{FileSet, Header};
use crate::file::words::{remove_if_there, sync_directory};

/// The checkpoints of a group.
#[derive(Debug)]
pub(crate) enum Found {
    /// There is no checkpoint file.
    Nothing,
    /// The newest pass that is complete in all files, and the pass before it, or the reason why
    /// that one is not complete.
    Complete(Box<Complete>, Result<Box<Complete>, String>),
    /// A complete pass, and the damage of the other checkpoint, which may be newer.
    Older(Box<Complete>, String),
    /// There are files, but no pass is complete in all of them. The reason for each checkpoint.
    Unusable(Vec<String>),
}

/// A pass that is complete in all files of a group.
#[derive(Debug)]
pub(crate) struct Complete {
    pub side: Side,
    pub facts: CheckpointFacts,
    pub named: Copied,
    /// The copied next files, if the group moved.
    pub next: Option<Copied>,
}

/// The copies of the files of one geometry.
#[derive(Debug)]
pub(crate) struct Copied {
    /// The header of file 0.
    pub header: Header,
    /// In order of their indexes.
    pub files: Vec<OpenCheckpoint>,
}

impl Complete {
    /// The copies of the named files, and of the next files.
    pub fn copied(&self) -> impl Iterator<Item = (FileSet, &Copied)> {
        let next = self.next.iter().map(|next| (FileSet::Next, next));
        std::iter::once((FileSet::Named, &self.named)).chain(next)
    }

    /// The copies that define the geometry of the group: those of the next files, if it moved.
    pub fn newest(&self) -> &Copied {
        self.next.as_ref().unwrap_or(&self.named)
    }

    /// The error that this pass may not be the newest one.
    pub(crate) fn may_be_outdated(&self, why: String) -> Error {
        let group = self.named.header.name.clone();
        Error::NewestDamaged { group, why, number: self.facts.number }
    }
}

/// A checkpoint of a group that is not complete.
struct Incomplete {
    why: String,
    /// None if it has no file, or if its last pass was broken off.
    damage: Option<Damage>,
}

/// Damage of a checkpoint: its last pass may have ended, but a part of it is missing or wrong.
#[derive(Clone, Copy)]
struct Damage {
    /// The number of that pass, if a header tells it.
    number: Option<u64>,
}

impl Damage {
    fn may_be_newer_than(self, complete: &Complete) -> bool {
        self.number.is_none_or(|number| number > complete.facts.number)
    }
}

type Checkpoint = Result<Box<Complete>, Incomplete>;

/// The target of the next pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Next {
    pub side: Side,
    pub number: u64,
    /// The state that headers show until the pass is complete.
    pub state: PassState,
    /// The other checkpoint is damaged. It is removed when this pass is complete.
    pub replaces_other: bool,
}

/// Finds the newest complete pass of a group, and opens its files for reading.
///
/// # Errors
/// The directory cannot be read, or this process lacks something for now.
pub(crate) fn find(data_dir: &Path, name: &str) -> Result<Found, Error> {
    let files = files(data_dir, name)?;
    if files.is_empty() {
        return Ok(Found::Nothing);
    }
    Ok(match checkpoints(data_dir, name, &files)? {
        [Ok(a), Ok(b)] => {
            let (newest, older) = if a.facts.number >= b.facts.number { (a, b) } else { (b, a) };
            Found::Complete(newest, Ok(older))
        }
        [Ok(complete), Err(Incomplete { why, damage })]
        | [Err(Incomplete { why, damage }), Ok(complete)] => {
            match damage.is_some_and(|damage| damage.may_be_newer_than(&complete)) {
                true => Found::Older(complete, why),
                false => Found::Complete(complete, Err(why)),
            }
        }
        [Err(a), Err(b)] => Found::Unusable(vec![a.why, b.why]),
    })
}

/// Finds the target of the next pass of a group: the checkpoint that is not the newest complete
/// one.
pub(super) fn next(data_dir: &Path, name: &str) -> Result<Next, Error> {
    let files = files(data_dir, name)?;
    let known = files.iter().filter_map(|file| file.facts);
    let number = known.map(|facts| facts.number).max().unwrap_or(0) + 1;
    let checkpoints = checkpoints(data_dir, name, &files)?;
    let numbers =
        checkpoints.each_ref().map(|of| of.as_ref().ok().map(|complete| complete.facts.number));
    let side = match numbers {
        [Some(a), b] if Some(a) >= b => Side::B,
        _ => Side::A,
    };
    let [own, other] = [side, side.other()].map(|side| &checkpoints[side as usize]);
    let damage = |of: &Checkpoint| of.as_ref().err().and_then(|incomplete| incomplete.damage);
    let hides_damage = damage(own).is_some_and(|damage| {
        other.as_ref().map_or(true, |complete| damage.may_be_newer_than(complete))
    });
    let state = if hides_damage { PassState::OverDamage } else { PassState::UnderWay };
    Ok(Next { side, number, state, replaces_other: damage(other).is_some() })
}

/// Both checkpoints of a group that has these files.
fn checkpoints(data_dir: &Path, name: &str, files: &[Known]) -> Result<[Checkpoint; 2], Error> {
    let checkpoint = |side: Side| match complete(data_dir, name, side) {
        Ok(complete) => Ok(Ok(Box::new(complete))),
        Err(error) if error.is_transient() => Err(error),
        Err(error) => {
            let of_side = files.iter().filter(|file| file.part.side == side);
            Ok(Err(Incomplete { why: error.to_string(), damage: damage_of(of_side) }))
        }
    };
    let [a, b] = Side::BOTH.map(checkpoint);
    Ok([a?, b?])
}

/// The damage of a checkpoint, if there is any. The headers of these files do not all name its last
/// pass as complete.
fn damage_of<'f>(files: impl Iterator<Item = &'f Known> + Clone) -> Option<Damage> {
    files.clone().next()?;
    let known = || files.clone().filter_map(|file| file.facts);
    let number = known().map(|facts| facts.number).max();
    let is_broken_off =
        known().any(|facts| Some(facts.number) == number && facts.state == PassState::UnderWay);
    (!is_broken_off).then_some(Damage { number })
}

fn complete(data_dir: &Path, name: &str, side: Side) -> Result<Complete, Error> {
    let (named, facts) = copied(data_dir, name, Part { set: FileSet::Named, side })?;
    let part = Part { set: FileSet::Next, side };
    let first = path_of(data_dir, name, 0, part);
    let next = first.exists().then(|| copied(data_dir, name, part)).transpose()?;
    let found = next.as_ref().map(|(next, _)| next.header.id);
    expect(&first, "group id", shown(found.unwrap_or(0)), shown(facts.partner.unwrap_or(0)))?;
    if let Some((_, of_next)) = &next {
        expect(&first, "id of the pass", shown(of_next.id), shown(facts.id))?;
    }
    Ok(Complete { side, facts, named, next: next.map(|(next, _)| next) })
}

fn copied(data_dir: &Path, name: &str, part: Part) -> Result<(Copied, CheckpointFacts), Error> {
    let open = |file| {
        let opened = open(data_dir, name, (file, part), &reading())?;
        match opened.facts.state {
            PassState::Complete => Ok(opened),
            PassState::UnderWay | PassState::OverDamage => Err(Error::Mismatch {
                path: opened.path,
                field: "state of its last pass",
                found: "broken off".to_owned(),
                expected: "complete".to_owned(),
            }),
        }
    };
    let first = open(0)?;
    let (header, facts) = (first.header.clone(), first.facts);
    let mut files = vec![first];
    for index in 1..header.geometry.files {
        let opened = open(index)?;
        expect(&opened.path, "id of the pass", shown(opened.facts.id), shown(facts.id))?;
        if (Header { file: 0, ..opened.header.clone() }) != header {
            return Err(Error::Mismatch {
                path: opened.path,
                field: "header",
                found: format!("{:?}", opened.header),
                expected: format!("that of file 0: {header:?}"),
            });
        }
        files.push(opened);
    }
    Ok((Copied { header, files }, facts))
}

fn shown(id: u64) -> String {
    format!("{id:016x}")
}

fn reading() -> OpenOptions {
    OpenOptions::new().read(true).clone()
}

/// The newest complete pass of a group, if there is one, without its files.
pub fn checkpoint_facts(data_dir: &Path, name: &str) -> Option<CheckpointFacts> {
    restorable(data_dir, name).ok().flatten()
}

/// The pass from which a start restores a group without live files. `None` if there is no
/// checkpoint.
///
/// # Errors
/// There are checkpoints, but none is complete, or the newest one is damaged.
pub fn restorable(data_dir: &Path, name: &str) -> Result<Option<CheckpointFacts>, Error> {
    match find(data_dir, name)? {
        Found::Nothing => Ok(None),
        Found::Complete(complete, _) => {
            // Each file says how many of its own pages were written.
            let files = complete.copied().flat_map(|(_, copied)| &copied.files);
            let written_pages = files.map(|file| file.facts.written_pages).sum();
            Ok(Some(CheckpointFacts { written_pages, ..complete.facts }))
        }
        Found::Older(older, why) => Err(older.may_be_outdated(why)),
        Found::Unusable(why) => Err(Error::Lost { group: name.to_owned(), why }),
    }
}

/// The geometry of the newest complete pass of a group, if there is one. If the group moved, the
/// geometry that it moved to.
pub(crate) fn geometry(data_dir: &Path, name: &str) -> Option<Geometry> {
    match find(data_dir, name) {
        Ok(Found::Complete(complete, _) | Found::Older(complete, _)) => {
            Some(complete.newest().header.geometry)
        }
        _ => None,
    }
}

/// Whether the group moved in its newest complete pass.
pub fn is_checkpoint_of_move(data_dir: &Path, name: &str) -> Result<bool, Error> {
    Ok(match find(data_dir, name)? {
        Found::Complete(complete, _) | Found::Older(complete, _) => complete.next.is_some(),
        Found::Nothing | Found::Unusable(_) => false,
    })
}

/// Removes a checkpoint of a group.
pub(crate) fn remove(data_dir: &Path, name: &str, side: Side) -> Result<(), Error> {
    let mut removed = None;
    for (part, path) in paths(data_dir, name)? {
        if part.side == side {
            remove_if_there(&path)?;
            removed = Some(path);
        }
    }
    // Otherwise the file might reappear after a power cut.
    removed.map_or(Ok(()), |path| sync_directory(&path))
}

/// A checkpoint file of a group, with any number.
struct Known {
    part: Part,
    /// None if its header is damaged, or cannot be read.
    facts: Option<CheckpointFacts>,
}

/// All checkpoint files of a group.
fn files(data_dir: &Path, name: &str) -> Result<Vec<Known>, Error> {
    let known = |(part, path): (Part, PathBuf)| match read_facts(&path) {
        Ok(facts) => Ok(Known { part, facts: Some(facts) }),
        Err(error) if error.is_transient() => Err(error),
        Err(_) => Ok(Known { part, facts: None }),
    };
    paths(data_dir, name)?.into_iter().map(known).collect()
}

/// The paths of all checkpoint files of a group, with any numbers.
fn paths(data_dir: &Path, name: &str) -> Result<Vec<(Part, PathBuf)>, Error> {
    let start = format!("{name}.");
    let part_of = |file: &str| {
        let middle = file.strip_prefix(&start)?;
        let is_its = |part: &Part| {
            middle.strip_suffix(end_of(*part)).is_some_and(|number| number.parse::<u32>().is_ok())
        };
        FILE_PARTS.into_iter().find(is_its)
    };
    let entries = std::fs::read_dir(data_dir).map_err(io_error(data_dir, "read the directory"))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(io_error(data_dir, "read the directory"))?.path();
        if let Some(part) = path.file_name().and_then(|name| name.to_str()).and_then(part_of) {
            found.push((part, path));
        }
    }
    Ok(found)
}
