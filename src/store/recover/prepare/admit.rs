//! Admits the files of a group to be served: registers them, and scans them where undo logs do not
//! fit them.
//!
//! Invariant: files are quarantined from their registration until their scan has ended.

use std::path::Path;
use std::time::Duration;

use frs_base::{clock, sys};
use frs_conf::Conf;
use frs_conf::key::KeyNodeId;

use super::{ORPHANS, Prepared, live_dir};
use crate::checkpoint::dirty_file;
use crate::error::{Error, io_error};
use crate::file::group::{self, FileSet, Group, Header, Marks, OpenFile, OpenGroup};
use crate::file::owner;
use crate::grow::next_files;
use crate::handle::Handle;
use crate::recover::verify::{Fault, Report, Unproven};
use crate::watch::counter::GroupCounter;
use crate::watch::places::ROLE_PREPARE;
use crate::watch::runtime::{LINGERING, Pairing, Runtime};

/// The files of a group that are about to be served.
#[derive(Clone, Copy)]
pub(super) struct Admitting<'a> {
    pub name: &'a str,
    pub set: FileSet,
    pub pairing: Pairing,
    /// Whether nodes of it may have moved: its next files existed.
    pub has_moved: bool,
}

/// Checks a group's files and registers them. Scans them if necessary.
pub(super) fn admit(
    live: &Path,
    Admitting { name, set, pairing, has_moved }: Admitting<'_>,
    runtime: &Runtime,
    prepared: &mut Prepared,
) -> Result<(), Error> {
    let OpenGroup { header, files } = group::open_files_of(live, name, set)?;
    let boot = sys::boot_id().map_err(io_error(live, "read this boot's id"))?;
    let (mut trusted, mut clean, mut entries) = (true, true, Vec::new());
    let mut is_of_this_boot = true;
    let (mut is_doubted, mut was_served_in_boot) = (false, false);
    for (index, OpenFile { path, file }) in files.iter().enumerate() {
        owner::expect_own(path, file)?;
        let entry = group::entry_of(path, file, &header, index as u32)?;
        let marks = group::read_marks(path, file)?;
        let known = runtime.find_file(header.id, index as u32);
        let quarantined = marks.quarantined
            || known.as_ref().is_some_and(|known| runtime.is_quarantined(known.index));
        is_doubted |= known.as_ref().is_some_and(|known| runtime.doubts(known.index) > 0);
        was_served_in_boot |= marks.boot == boot;
        trusted &= known.is_some_and(|known| known.entry == entry) && marks.boot == boot;
        trusted &= !quarantined;
        clean &= marks.clean && !quarantined;
        is_of_this_boot &= marks.boot == boot;
        entries.push(entry);
    }
    if has_moved && matches!(pairing, Pairing::FormerOf(_)) {
        // A moved node counts here again unless its copy is on the disk.
        let OpenGroup { files, .. } = group::open_files_of(live, name, FileSet::Next)?;
        for OpenFile { path, file } in &files {
            clean &= group::read_marks(path, file)?.clean;
        }
    }
    if trusted {
        if let Pairing::NextOf(former) = pairing {
            // The last step of the move may have been interrupted.
            runtime.set_former(header.id, former);
        }
        // An older binary may have registered them.
        runtime.settle_lineage(header.id, pairing)?;
        if clean || is_doubted && !runtime.is_any_locked() {
            // This is a start after a clean end in the same boot. Or a clean mark may still be on
            // disk, because the last start was killed while it replaced the mark.
            write_marks(&files, &header, runtime, boot)?;
        }
        return Ok(());
    }
    let known = runtime.named_groups(name);
    let is_replaced = known.iter().any(|known| Some(known.id) != pairing.partner());
    if is_replaced && !is_alone(runtime, LINGERING) {
        // A scan needs the group for itself, and no process may continue with its former files.
        return Err(Error::Quarantined { group: name.to_owned() });
    }
    for entry in &entries {
        let index = runtime.register_file(entry, pairing)?;
        if was_served_in_boot && !clean {
            runtime.doubt(index);
        }
    }
    if !clean {
        // A page that fails from now on sets the quarantine mark again, so a mark found later is of
        // this scan.
        write_marks(&files, &header, runtime, boot)?;
        let report = scan(live, (set, pairing), &header, runtime)?;
        log_report(name, &report);
        if !is_of_this_boot {
            tracing::warn!(
                group = name,
                "the machine went down under its files: damaged records are dropped; a record that \
                 the disk never got is missing, and one of an earlier flush cannot be told from the \
                 newest"
            );
        }
        if !prepared.scanned.iter().any(|scanned| scanned == name) {
            prepared.scanned.push(name.to_owned());
        }
        prepared.dropped_nodes += report.dropped();
        count_dropped(live, runtime, name, &report)?;
    }
    write_marks(&files, &header, runtime, boot)?;
    // Last, so that an interrupted scan is repeated.
    entries.iter().for_each(|entry| runtime.release_file(entry));
    Ok(())
}

/// Counts the nodes that a scan dropped, in a slot taken for this purpose: no process was attached
/// during the scan.
pub(super) fn count_dropped(
    live: &Path,
    runtime: &Runtime,
    group: &str,
    report: &Report,
) -> Result<(), Error> {
    if report.dropped() == 0 {
        return Ok(());
    }
    let data_dir = runtime.path().parent().unwrap_or(Path::new("."));
    let handle = Handle::attach(data_dir, live, ROLE_PREPARE)?;
    for finding in &report.findings {
        let counter = match finding.fault {
            Fault::Tag { .. } | Fault::Moved { .. } => continue,
            Fault::Crc => GroupCounter::DroppedCrc,
            Fault::Misplaced | Fault::Beyond => GroupCounter::DroppedMisplaced,
            Fault::Duplicate => GroupCounter::DroppedDuplicate,
        };
        handle.count_of_group(group, counter, 1);
    }
    handle.count_of_group(group, GroupCounter::DroppedCrc, report.unproven_records());
    Ok(())
}

/// Scans a registered group and writes its repairs to disk. A node that has moved out of a former
/// group counts there again, because its copy may be lost; if the copy exists, the copy counts
/// instead. A lost copy may have changed since, so the pair gets a new lineage.
fn scan(
    live: &Path,
    (set, pairing): (FileSet, Pairing),
    header: &Header,
    runtime: &Runtime,
) -> Result<Report, Error> {
    let mut group = Group::open_id(live, &header.name, header.id, runtime)?;
    let is_former = matches!(pairing, Pairing::FormerOf(_));
    if is_former {
        // Before any node counts again.
        runtime.renew_lineage(header.id, pairing)?;
    }
    group.set_former(is_former);
    assert!(group.is_sized(), "a group mapped to its geometry");
    let report = group.scan();
    group.write_back(live, set, runtime)?;
    Ok(report)
}

/// Scans a group regardless of its marks. The group is sound afterwards, so its quarantine is
/// lifted. The caller holds the directory's lock, and [`recover_alone`] has succeeded before.
pub fn scan_group(conf: &Conf, name: &str) -> Result<Report, Error> {
    let live = live_dir(conf);
    let runtime = Runtime::open(&conf.srv.data.dir)?;
    next_files::complete(live, name, &runtime)?;
    let former = group::open_files(live, name)?.header.id;
    if !group::is_next_there(live, name) {
        return scan_files(live, name, &runtime, FileSet::Named, Pairing::Alone);
    }
    let next = group::open_files_of(live, name, FileSet::Next)?.header.id;
    let mut report = scan_files(live, name, &runtime, FileSet::Named, Pairing::FormerOf(next))?;
    let more = scan_files(live, name, &runtime, FileSet::Next, Pairing::NextOf(former))?;
    report.add(more);
    Ok(report)
}

fn scan_files(
    live: &Path,
    name: &str,
    runtime: &Runtime,
    set: FileSet,
    pairing: Pairing,
) -> Result<Report, Error> {
    let OpenGroup { header, files } = group::open_files_of(live, name, set)?;
    let boot = sys::boot_id().map_err(io_error(live, "read this boot's id"))?;
    let mut entries = Vec::new();
    for (index, OpenFile { path, file }) in files.iter().enumerate() {
        let is_of_boot = group::read_marks(path, file)?.boot == boot;
        entries.push((group::entry_of(path, file, &header, index as u32)?, is_of_boot));
    }
    for (entry, is_of_boot) in &entries {
        let index = runtime.register_file(entry, pairing)?;
        if *is_of_boot {
            runtime.doubt(index);
        }
    }
    let report = scan(live, (set, pairing), &header, runtime)?;
    if !matches!(pairing, Pairing::FormerOf(_)) {
        // The whole group is scanned, and newer than any checkpoint.
        dirty_file::remove(&group::path_of(live, name, 0))?;
    }
    write_marks(&files, &header, runtime, boot)?;
    entries.iter().for_each(|(entry, _)| runtime.release_file(entry));
    Ok(report)
}

/// Whether no living process is attached. The lock of a killed process may last some 100 ms.
pub(super) fn is_alone(runtime: &Runtime, within: Duration) -> bool {
    let start = clock::instant();
    while runtime.is_any_locked() {
        if clock::since(start) > within {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

/// Marks the files as of this boot and no longer clean, on disk before the first write to a node.
fn write_marks(
    files: &[OpenFile],
    header: &Header,
    runtime: &Runtime,
    boot: [u64; 2],
) -> Result<(), Error> {
    let marks = Marks { boot, clean: false, quarantined: false };
    (0..).zip(files).try_for_each(|(index, file)| {
        let write = || group::write_marks(&file.path, marks);
        match runtime.find_file(header.id, index) {
            Some(known) => runtime.sync_file(known.index, write),
            None => write(),
        }
    })
}

/// The maximum number of log lines about nodes of a group, and also of those about its key-nodes.
const LINES: usize = 100;

pub(super) fn log_report(name: &str, report: &Report) {
    for finding in report.findings.iter().take(LINES) {
        let (file, key_node, place) = (finding.file, finding.key_node, finding.place);
        match finding.fault {
            Fault::Tag { .. } => {
                tracing::warn!(group = name, file, key_node, place, "tag rewritten");
            }
            fault => {
                tracing::warn!(group = name, file, key_node, place, reason = ?fault, "node dropped");
            }
        }
    }
    for unproven in report.unproven.iter().take(LINES) {
        let Unproven { at: KeyNodeId { file, key_node }, records } = unproven;
        tracing::warn!(
            group = name,
            file,
            key_node,
            records,
            "key-node dropped: its checksum fails, a part of it is not what the checkpoint wrote"
        );
    }
    let more = |count: usize| count.saturating_sub(LINES);
    let (nodes, key_nodes) = (more(report.findings.len()), more(report.unproven.len()));
    if nodes + key_nodes > 0 {
        tracing::warn!(
            group = name,
            nodes,
            key_nodes,
            "more were mended or dropped than are logged"
        );
    }
    if report.void > 0 {
        let records = report.void;
        tracing::info!(group = name, records, "records dropped: their businesses were reset since");
    }
    if report.moved > 0 {
        let nodes = report.moved;
        tracing::info!(group = name, nodes, "nodes had moved, and move again: their copies count");
    }
    let (nodes, dropped, taken) = (report.nodes, report.dropped(), report.taken);
    tracing::info!(group = name, nodes, dropped, freed_semaphores = taken, "group scanned");
}

/// Undoes unfinished transactions of dead processes, for a caller that needs the files for itself.
/// Returns the number of recovered slots. The caller holds the directory's lock.
pub fn recover_alone(conf: &Conf) -> Result<usize, Error> {
    let (data, live) = (&conf.srv.data.dir, live_dir(conf));
    let mut handle = Handle::attach(data, live, ROLE_PREPARE)?;
    let recovered = handle.recover_dead();
    drop(handle);
    let runtime = Runtime::open(data)?;
    // The processes of a killed master may take some time to end.
    if is_alone(&runtime, ORPHANS) {
        return Ok(recovered);
    }
    let reason = "the files are to be rewritten".to_owned();
    Err(Error::Attached { path: runtime.path().to_owned(), reason })
}
