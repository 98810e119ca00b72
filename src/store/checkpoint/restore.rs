//! Makes the live files of a group from a checkpoint, with all processors.
//!
//! Invariant: the files get their names only when all of them are copied and every node in them is
//! checked. The next files, if the group moved, are renamed first, and file 0 is renamed last. A
//! restore that breaks off leaves no group, and the next start begins again. A key-node that does
//! not match its checksum is dropped: no record in it is known to be the newest one.

use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use frs_base::{clock, sys};
use frs_conf::Overlay;
use frs_conf::key::KeyNodeId;

use super::catalog::{Complete, Copied};
use super::checks::{self, Checks};
use super::dirty::Side;
use super::fault;
use super::file::OpenCheckpoint;
use crate::error::{Error, io_error};
use crate::file::group::{self, FileSet, Group, Header, MappedFiles};
use crate::file::layout::PAGE_BYTES;
use crate::file::region::Region;
use crate::file::words::{remove_if_there, sync_directory, write_page};
use crate::grow::next_files;
use crate::recover::verify::{Moved, Report, Unproven};

/// Bytes copied at once.
const COPY_BYTES: usize = 4 << 20;
/// Key-nodes checked between two looks at the progress.
const PART: u32 = 256;

/// Called with the progress of a restore, in words.
pub type Progress<'a> = &'a (dyn Fn(&str) + Sync);

/// A group that was restored.
#[derive(Debug)]
pub(crate) struct Restored {
    pub report: Report,
    /// The checkpoint and the pass whose content the live files hold. None if anything had to be
    /// dropped or mended.
    pub holds: Option<(Side, u64)>,
}

/// Copies a checkpoint into new live files.
pub(crate) fn restore(
    live_dir: &Path,
    complete: &Complete,
    overlay: &Overlay,
    progress: Progress<'_>,
) -> Result<Restored, Error> {
    let has_next = complete.next.is_some();
    let all: Vec<Draft<'_>> =
        complete.copied().map(|(set, copied)| Draft::of(live_dir, set, copied, has_next)).collect();
    let mut report = Report::default();
    // The next files come first. The pass copied them after the former files, so a node that is
    // marked as moved in the former files is in their copy, or was erased before they were copied.
    // If anything of them was dropped, the moved nodes come back.
    for draft in all.iter().rev() {
        let moved = match report.dropped() {
            0 => Moved::IsDropped,
            _ => Moved::ComesBack,
        };
        match draft.make(moved, overlay, progress) {
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
    // Next files that were left when the machine went down. Without the former files they are
    // useless.
    next_files::remove_files(live_dir, &complete.named.header.name)?;
    // The named files last: without them there is no group. Their old file 0 is removed first, so
    // that no group of old and new files ever exists.
    let first = &all[0].names[0];
    fault::point(first)?;
    remove_if_there(first)?;
    sync_directory(first)?;
    all.iter().rev().try_for_each(Draft::put_in_place)?;
    let is_as_copied = report.has_changed_nothing() && report.moved == 0;
    let holds = is_as_copied.then_some((complete.side, complete.facts.id));
    Ok(Restored { report, holds })
}

/// Live files of one geometry under construction.
struct Draft<'a> {
    copied: &'a Copied,
    /// Whether they are the former files of a move.
    is_former: bool,
    /// The paths under which they are made.
    paths: Vec<PathBuf>,
    /// Their final paths.
    names: Vec<PathBuf>,
}

impl<'a> Draft<'a> {
    fn of(live_dir: &Path, set: FileSet, copied: &'a Copied, has_next: bool) -> Draft<'a> {
        let header = &copied.header;
        let name = |file| match set {
            FileSet::Named => group::path_of(live_dir, &header.name, file),
            FileSet::Next => group::next_path_of(live_dir, &header.name, file),
        };
        let names: Vec<PathBuf> = (0..header.geometry.files).map(name).collect();
        let paths = names.iter().map(|name| name.with_extension("mmap.new")).collect();
        let is_former = has_next && matches!(set, FileSet::Named);
        Draft { copied, is_former, paths, names }
    }

    fn make(
        &self,
        moved: Moved,
        overlay: &Overlay,
        progress: Progress<'_>,
    ) -> Result<Report, Error> {
        let (header, drafts) = (&self.copied.header, &self.paths);
        let proof = Proof::read(self.copied, overlay)?;
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
        let mut group = Group::of_files(header.clone(), 0, files);
        group.set_former(self.is_former);
        let report = check(&group, (&proof, moved), progress);
        if group.has_kept() {
            // A key-node in the checkpoint may be older than a record that left it and is kept.
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

/// The checksums and epochs by which copied key-nodes are checked.
struct Proof {
    /// The checksums of each file. None for format 1, which has no checksums.
    checks: Vec<Option<Checks>>,
    /// Businesses whose records are void.
    reset: Vec<u32>,
}

impl Proof {
    fn read(copied: &Copied, overlay: &Overlay) -> Result<Proof, Error> {
        let unreadable = |open: &OpenCheckpoint, error: Error| match error {
            Error::Io { source, .. } => unreadable(open, source),
            error => {
                unreadable(open, io::Error::new(io::ErrorKind::InvalidData, error.to_string()))
            }
        };
        let mut checks = Vec::new();
        for open in &copied.files {
            checks.push(Checks::read(open).map_err(|error| unreadable(open, error))?);
        }
        let first = &copied.files[0];
        let reset =
            checks::reset_since(first, overlay).map_err(|error| unreadable(first, error))?;
        if checks.iter().any(Option::is_none) {
            let group = &copied.header.name;
            tracing::warn!(group, "the checkpoint is of an earlier build: it has no checksums");
        }
        Ok(Proof { checks, reset })
    }

    /// Drops a key-node that does not match its checksum, and void records.
    fn apply(&self, group: &Group, at: KeyNodeId, report: &mut Report) {
        let check = self.checks[at.file as usize].as_ref().map(|checks| checks.of(at.key_node));
        if let Some(check) = check.filter(|&check| !group.holds(at, check)) {
            let records = group.drop_all(at).max(check.records());
            report.unproven.push(Unproven { at, records });
        }
        if !self.reset.is_empty() {
            report.void += group.drop_of_bizs(at, &self.reset);
        }
    }
}

fn unreadable(from: &OpenCheckpoint, source: io::Error) -> Error {
    let (group, path) = (from.header.name.clone(), from.path.clone());
    Error::UnreadableCheckpoint { group, path, source }
}

/// Runs `work` on all processors at the same time. Returns each result.
fn on_all_processors<T: Send>(work: impl Fn() -> T + Sync) -> Vec<T> {
    let count = std::thread::available_parallelism().map_or(1, |count| count.get());
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..count).map(|_| scope.spawn(&work)).collect();
        all.into_iter().map(|one| one.join().expect("the work does not panic")).collect()
    })
}

/// Copies all key-nodes, without the header.
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
            fault::read(&from.path)
                .and_then(|()| from.file.read_exact_at(part, at))
                .map_err(|source| unreadable(from, source))?;
            // The new file has zeros already, and they need no page.
            let pages = (at..).step_by(PAGE_BYTES).zip(part.chunks(PAGE_BYTES));
            for (at, page) in pages.filter(|(_, page)| page.iter().any(|&byte| byte != 0)) {
                fault::point(draft)?;
                write_page(to, page, at).map_err(io_error(draft, "write it"))?;
            }
            let seconds = clock::since(begun).as_secs();
            if told_s.fetch_max(seconds, Ordering::Relaxed) < seconds {
                let percent = at * 100 / end;
                let file = from.header.file;
                progress(&format!("restoring group {group}: file {file}, {percent} % copied"));
            }
        }
    };
    on_all_processors(work).into_iter().collect()
}

/// Checks every node, and drops those that are not sound.
fn check(group: &Group, (proof, moved): (&Proof, Moved), progress: Progress<'_>) -> Report {
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
                let at = KeyNodeId { file, key_node };
                proof.apply(group, at, &mut report);
                group.scan_one(at, moved, &mut report);
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
    on_all_processors(work).into_iter().for_each(|report| whole.add(report));
    whole.unproven.sort_by_key(|found| (found.at.file, found.at.key_node));
    whole.findings.sort_by_key(|found| (found.file, found.key_node, found.place));
    whole
}
