//! Makes the live files of a group from a checkpoint, with all processors.
//!
//! Invariant: the files get their names, file 0 last, only when all of them are copied and every
//! node in them is checked; of a group that moved, those that it moved to first. A restore that
//! breaks off leaves no group, and the next start begins again.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::catalog::{Complete, Copied};
use super::fault;
use super::file::OpenCheckpoint;
use crate::base::{clock, sys};
use crate::key::KeyNodeId;
use crate::store::dirty::Side;
use crate::store::error::{Error, io_error};
use crate::store::file_words::{remove_if_there, sync_directory};
use crate::store::group::{self, FileSet, Group, Header, MappedFiles};
use crate::store::growing;
use crate::store::layout::PAGE_BYTES;
use crate::store::region::Region;
use crate::store::verify::Report;

/// Bytes copied at once.
const COPY_BYTES: usize = 4 << 20;
/// Key-nodes checked between two looks at the progress.
const PART: u32 = 256;

/// Hears how far a restore is, in words.
pub type Progress<'a> = &'a (dyn Fn(&str) + Sync);

/// A group that was restored.
#[derive(Debug)]
pub(crate) struct Restored {
    pub report: Report,
    /// What the live files hold, if nothing had to be dropped or mended.
    pub holds: Option<(Side, u64)>,
}

/// Copies a checkpoint into new live files.
pub(crate) fn restore(
    live_dir: &Path,
    complete: &Complete,
    progress: Progress<'_>,
) -> Result<Restored, Error> {
    let all: Vec<Draft<'_>> =
        complete.copied().map(|(set, copied)| Draft::of(live_dir, set, copied)).collect();
    let mut report = Report::default();
    for draft in &all {
        match draft.make(progress) {
            Ok(made) => report.add(made),
            Err(error) => {
                // Free the blocks: the disk is full, or a later try will need them.
                for path in all.iter().flat_map(|draft| &draft.paths) {
                    let _ = std::fs::remove_file(path);
                }
                return Err(error);
            }
        }
    }
    // Files that the group moved to when its machine went down. Without those that it moved from
    // they are nothing.
    growing::remove_files(live_dir, &complete.named.header.name)?;
    // The named ones last: without them there is no group. Nor may there be one of files of which
    // some are new.
    let first = &all[0].names[0];
    fault::point(first)?;
    remove_if_there(first)?;
    sync_directory(first)?;
    all.iter().rev().try_for_each(Draft::put_in_place)?;
    let holds = report.findings.is_empty().then_some((complete.side, complete.facts.id));
    Ok(Restored { report, holds })
}

/// Live files of one geometry that are being made.
struct Draft<'a> {
    copied: &'a Copied,
    /// Where they are made.
    paths: Vec<PathBuf>,
    /// Their names in the end.
    names: Vec<PathBuf>,
}

impl<'a> Draft<'a> {
    fn of(live_dir: &Path, set: FileSet, copied: &'a Copied) -> Draft<'a> {
        let header = &copied.header;
        let name = |file| match set {
            FileSet::Named => group::path_of(live_dir, &header.name, file),
            FileSet::Next => group::next_path_of(live_dir, &header.name, file),
        };
        let names: Vec<PathBuf> = (0..header.geometry.files).map(name).collect();
        let paths = names.iter().map(|name| name.with_extension("mmap.new")).collect();
        Draft { copied, paths, names }
    }

    fn make(&self, progress: Progress<'_>) -> Result<Report, Error> {
        let (header, drafts) = (&self.copied.header, &self.paths);
        let mut regions = Vec::new();
        for (file, draft) in (0..).zip(drafts) {
            fault::point(draft)?;
            group::create_file(draft, &Header { file, ..header.clone() })?;
            let options = std::fs::OpenOptions::new().read(true).write(true).clone();
            let live = group::open_regular(&options, draft)?;
            copy(&self.copied.files[file as usize], (draft, &live), progress)?;
            let words = header.geometry.file_bytes() as usize / 8;
            regions.push(Region::map(&live, 0, words).map_err(io_error(draft, "map it"))?);
        }
        let files = MappedFiles { regions, ..Default::default() };
        let group = Group::of_files(header.clone(), 0, files);
        let report = check(&group, progress);
        if group.has_spilled() {
            // A key-node may be older than the record that was spilled from it.
            group.fill_filters();
        }
        for (region, draft) in group.files().iter().zip(drafts) {
            if !sys::is_in_memory(draft).map_err(io_error(draft, "look at its disk"))? {
                region.flush().map_err(io_error(draft, "flush it"))?;
            }
        }
        Ok(report)
    }

    fn put_in_place(&self) -> Result<(), Error> {
        for (draft, name) in self.paths.iter().zip(&self.names).rev() {
            fault::point(name)?;
            std::fs::rename(draft, name).map_err(io_error(name, "rename it into place"))?;
        }
        sync_directory(&self.names[0])
    }
}

fn threads() -> u64 {
    std::thread::available_parallelism().map_or(1, |count| count.get() as u64)
}

/// Copies all but the header.
fn copy(
    from: &OpenCheckpoint,
    (draft, to): (&Path, &std::fs::File),
    progress: Progress<'_>,
) -> Result<(), Error> {
    let (group, end) = (&from.header.name, from.header.geometry.file_bytes());
    let (next, begun) = (AtomicU64::new(PAGE_BYTES as u64), clock::instant());
    let told_s = AtomicU64::new(0);
    let work = || {
        let mut buffer = vec![0u8; COPY_BYTES];
        loop {
            let at = next.fetch_add(COPY_BYTES as u64, Ordering::Relaxed);
            if at >= end {
                return Ok(());
            }
            let part = &mut buffer[..(end - at).min(COPY_BYTES as u64) as usize];
            fault::read(&from.path).and_then(|()| from.file.read_exact_at(part, at)).map_err(
                |source| Error::UnreadableCheckpoint {
                    group: group.clone(),
                    path: from.path.clone(),
                    source,
                },
            )?;
            // Zeros are there already, and need no page.
            if part.iter().any(|&byte| byte != 0) {
                fault::point(draft)?;
                to.write_all_at(part, at).map_err(io_error(draft, "write it"))?;
            }
            let seconds = clock::since(begun).as_secs();
            if told_s.fetch_max(seconds, Ordering::Relaxed) < seconds {
                let percent = at * 100 / end;
                let file = from.header.file;
                progress(&format!("restoring group {group}: file {file}, {percent} % copied"));
            }
        }
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads()).map(|_| scope.spawn(work)).collect();
        let results = all.into_iter().map(|one| one.join().expect("a copy does not panic"));
        results.collect()
    })
}

/// Checks every node, and drops what is not sound.
fn check(group: &Group, progress: Progress<'_>) -> Report {
    let (key_nodes, files) = (group.geometry().key_nodes, group.geometry().files);
    let parts = key_nodes.div_ceil(PART);
    let (next, begun, told_s) = (AtomicU32::new(0), clock::instant(), AtomicU64::new(0));
    let work = || {
        let mut report = Report::default();
        loop {
            let part = next.fetch_add(1, Ordering::Relaxed);
            let (file, from) = (part / parts, part % parts * PART);
            if file >= files {
                return report;
            }
            for key_node in from..from.saturating_add(PART).min(key_nodes) {
                group.scan_one(KeyNodeId { file, key_node }, &mut report);
            }
            let seconds = clock::since(begun).as_secs();
            if told_s.fetch_max(seconds, Ordering::Relaxed) < seconds {
                let percent = u64::from(part) * 100 / (u64::from(parts) * u64::from(files));
                let name = &group.header().name;
                progress(&format!("restoring group {name}: {percent} % of its nodes checked"));
            }
        }
    };
    let mut whole = Report::default();
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads()).map(|_| scope.spawn(work)).collect();
        for one in all {
            whole.add(one.join().expect("a check does not panic"));
        }
    });
    whole.findings.sort_by_key(|found| (found.file, found.key_node, found.place));
    whole
}
