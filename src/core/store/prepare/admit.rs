//! Admits the files of a group to be served: registers them, and scans them where their undo logs
//! cannot be trusted.
//!
//! Invariant: files are quarantined from their registration until their scan has ended.

use std::path::Path;
use std::time::Duration;

use super::{ORPHANS, Prepared, live_dir};
use crate::base::{clock, sys};
use crate::conf::Conf;
use crate::store::counter::GroupCounter;
use crate::store::dirty_file;
use crate::store::error::{Error, io_error};
use crate::store::group::{self, FileSet, Group, Header, Marks, OpenFile, OpenGroup};
use crate::store::growing;
use crate::store::handle::Handle;
use crate::store::places::ROLE_PREPARE;
use crate::store::runtime::{LINGERING, Pairing, Runtime};
use crate::store::verify::{Fault, Report};

/// The files of a group that are about to be served.
#[derive(Clone, Copy)]
pub(super) struct Admitting<'a> {
    pub name: &'a str,
    pub set: FileSet,
    pub pairing: Pairing,
}

/// Checks a group's files and registers them. Scans them if necessary.
pub(super) fn admit(
    live: &Path,
    Admitting { name, set, pairing }: Admitting<'_>,
    runtime: &Runtime,
    prepared: &mut Prepared,
) -> Result<(), Error> {
    let OpenGroup { header, files } = group::open_files_of(live, name, set)?;
    let boot = sys::boot_id().map_err(io_error(live, "read this boot's id"))?;
    let (mut trusted, mut clean, mut entries) = (true, true, Vec::new());
    for (index, OpenFile { path, file }) in files.iter().enumerate() {
        let entry = group::entry_of(path, file, &header, index as u32)?;
        let marks = group::read_marks(path, file)?;
        let known = runtime.find_file(header.id, index as u32);
        let quarantined = marks.quarantined
            || known.as_ref().is_some_and(|known| runtime.is_quarantined(known.index));
        trusted &= known.is_some_and(|known| known.entry == entry) && marks.boot == boot;
        trusted &= !quarantined;
        clean &= marks.clean && !quarantined;
        entries.push(entry);
    }
    if trusted {
        if let Pairing::NextOf(former) = pairing {
            // The last step of the move may have been interrupted.
            runtime.set_former(header.id, former);
        }
        if clean {
            // Started again after a clean end in the same boot.
            write_marks(&files, boot)?;
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
        runtime.register_file(entry, pairing)?;
    }
    if !clean {
        // A page that fails from now on sets the quarantine mark again, so a mark is from this
        // scan.
        write_marks(&files, boot)?;
        let report = scan(live, &header, runtime)?;
        log_report(name, &report);
        if !prepared.scanned.iter().any(|scanned| scanned == name) {
            prepared.scanned.push(name.to_owned());
        }
        prepared.dropped_nodes += report.dropped();
        count_dropped(live, runtime, name, &report)?;
    }
    write_marks(&files, boot)?;
    // Last, so that an interrupted scan is repeated.
    entries.iter().for_each(|entry| runtime.release_file(entry));
    Ok(())
}

/// Counts what a scan dropped, in a slot taken for this: no process was attached during the scan.
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
            Fault::Tag { .. } => continue,
            Fault::Crc => GroupCounter::DroppedCrc,
            Fault::Misplaced | Fault::Beyond => GroupCounter::DroppedMisplaced,
            Fault::Duplicate => GroupCounter::DroppedDuplicate,
        };
        handle.count_of_group(group, counter, 1);
    }
    Ok(())
}

/// Scans a registered group and writes its repairs to disk.
fn scan(live: &Path, header: &Header, runtime: &Runtime) -> Result<Report, Error> {
    let group = Group::open_id(live, &header.name, header.id, runtime)?;
    assert!(group.is_sized(), "a group mapped to its geometry");
    let report = group.scan();
    group.flush(live)?;
    Ok(report)
}

/// Scans a group whatever its marks say. The group is sound then, so its quarantine is lifted. The
/// caller holds the directory's lock, and [`recover_alone`] has succeeded before.
pub(crate) fn scan_group(conf: &Conf, name: &str) -> Result<Report, Error> {
    let live = live_dir(conf);
    let runtime = Runtime::open(&conf.srv.data.dir)?;
    growing::complete(live, name)?;
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
        entries.push(group::entry_of(path, file, &header, index as u32)?);
    }
    for entry in &entries {
        runtime.register_file(entry, pairing)?;
    }
    let report = scan(live, &header, runtime)?;
    if !matches!(pairing, Pairing::FormerOf(_)) {
        // All of it is scanned, and newer than any checkpoint.
        dirty_file::remove(&group::path_of(live, name, 0))?;
    }
    write_marks(&files, boot)?;
    entries.iter().for_each(|entry| runtime.release_file(entry));
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
fn write_marks(files: &[OpenFile], boot: [u64; 2]) -> Result<(), Error> {
    let marks = Marks { boot, clean: false, quarantined: false };
    files.iter().try_for_each(|file| group::write_marks(&file.path, marks))
}

pub(super) fn log_report(name: &str, report: &Report) {
    for finding in &report.findings {
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
    let (nodes, dropped, taken) = (report.nodes, report.dropped(), report.taken);
    tracing::info!(group = name, nodes, dropped, freed_semaphores = taken, "group scanned");
}

/// Undoes what dead processes left half done, for a caller that needs the files for itself. Returns
/// how many slots were recovered. The caller holds the directory's lock.
pub(crate) fn recover_alone(conf: &Conf) -> Result<usize, Error> {
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
