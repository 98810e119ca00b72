//! Makes a data directory ready before any process serves from it, and leaves it clean.
//!
//! Invariant: an undo log is replayed only over the very files it was written for, in the boot it
//! was written in. Every other group is scanned whole, or carries the mark of a clean end.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::path::Path;
use std::time::Duration;

use super::checkpoint::{self, Complete, Found, LiveState, Marking, Progress, Restored};
use super::counter::GroupCounter;
use super::dirty::Side;
use super::error::{Error, io_error};
use super::group::{self, FileSet, Group, Header, Marks, OpenFile, OpenGroup};
use super::growing;
use super::handle::Handle;
use super::places::{Places, ROLE_PREPARE, ROLE_PROGRAM, SlotRequest};
use super::runtime::{ByteSpan, LINGERING, Pairing, Runtime, SlotBlocks};
use super::staging;
use super::verify::{Fault, Report};
use crate::base::{clock, sys};
use crate::conf::{self, Conf, MoveMode, OtherSetting};

/// What [`prepare`] found and did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prepared {
    /// Names of new groups.
    pub created: Vec<String>,
    /// Names of groups scanned whole.
    pub scanned: Vec<String>,
    /// Names of groups restored from checkpoints.
    pub restored: Vec<String>,
    /// Dead slots whose transactions were undone.
    pub recovered_slots: usize,
    /// Nodes dropped by the scans.
    pub dropped_nodes: u64,
    /// Groups with damaged files. Their items answer `store`.
    pub unserved: Vec<Unserved>,
    /// Groups that move to another geometry, or begin to.
    pub moving: BTreeMap<String, MoveMode>,
}

/// What a preparation knows of groups that move to another geometry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Moves {
    /// Those that move in the configuration in force.
    pub in_force: BTreeMap<String, MoveMode>,
    /// Those that may begin to move. Of any other one, another geometry is an error.
    pub begin: BTreeSet<String>,
    /// How they move from now on.
    pub lossy: bool,
}

impl Moves {
    fn mode_of(&self, group: &str) -> MoveMode {
        match self.in_force.get(group) {
            _ if self.lossy => MoveMode::Lossy,
            Some(&mode) => mode,
            None => MoveMode::Lossless,
        }
    }
}

/// How a store is prepared, beside its configuration.
#[derive(Clone, Copy)]
pub struct Preparing<'a> {
    /// The groups that move.
    pub moves: &'a Moves,
    /// Whether a group begins empty whose live files and checkpoints are lost.
    pub accepts_loss: bool,
    /// Hears how far a restore is.
    pub progress: Progress<'a>,
}

impl Preparing<'_> {
    /// Nothing that was counted may be lost, and nobody hears.
    pub fn careful(moves: &Moves) -> Preparing<'_> {
        Preparing { moves, accepts_loss: false, progress: &|_: &str| {} }
    }
}

/// A group that cannot be served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unserved {
    /// Its name.
    pub group: String,
    /// What is wrong with its files.
    pub reason: String,
}

/// After this time the processes of a dead master have ended.
const ORPHANS: Duration = Duration::from_secs(6);

/// The directory of the live group files.
pub fn live_dir(conf: &Conf) -> &Path {
    conf.srv.data.live.as_deref().unwrap_or(&conf.srv.data.dir)
}

/// Creates, checks and registers every group of `conf`, recovers dead slots, and scans groups whose
/// undo logs cannot be trusted. It maps groups, so a forked child of the master runs it before any
/// worker uses this configuration. Groups already in use are left unchanged. A group with damaged
/// or unreadable files is quarantined and reported; the others are not affected.
/// A group whose files have another geometry than the configuration moves to that one, if `moves`
/// allows it: its next files are made beside those that it has. A group that moves already goes on.
pub fn prepare(conf: &Conf, moves: &Moves) -> Result<Prepared, Error> {
    prepare_with(conf, Preparing::careful(moves))
}

/// Like [`prepare`], as told.
pub fn prepare_with(conf: &Conf, how: Preparing<'_>) -> Result<Prepared, Error> {
    prepare_groups(conf, how, admit)
}

/// Like [`prepare`], when no other server has the directory. The processes of a killed server end
/// by themselves; a group that must be scanned waits for that.
pub fn prepare_at_start(conf: &Conf, how: Preparing<'_>) -> Result<Prepared, Error> {
    prepare_groups(conf, how, |live, files, runtime, prepared| {
        let begun = clock::instant();
        loop {
            let admitted = admit(live, files, runtime, prepared);
            let is_hopeful = has_orphans_only(runtime) && clock::since(begun) < ORPHANS;
            if !matches!(admitted, Err(Error::Quarantined { .. })) || !is_hopeful {
                return admitted;
            }
        }
    })
}

/// Whether all living attached processes are those of a server. Programs may stay attached.
fn has_orphans_only(runtime: &Runtime) -> bool {
    !runtime.slots().iter().any(|slot| slot.alive && slot.role == ROLE_PROGRAM)
}

/// Like [`prepare`], after a run whose process hit a page that could not be read. The group of that
/// file is marked. It is given up, and not scanned again before the next start.
pub fn prepare_after_fault(conf: &Conf, how: Preparing<'_>) -> Result<Prepared, Error> {
    prepare_groups(conf, how, |live, admitting, runtime, prepared| {
        let OpenGroup { files, .. } = group::open_files_of(live, admitting.name, admitting.set)?;
        // The mark is in the first file, for all files.
        if group::read_marks(&files[0].path, &files[0].file)?.quarantined {
            return Err(Error::Unreadable { group: admitting.name.to_owned() });
        }
        admit(live, admitting, runtime, prepared)
    })
}

/// The files of a group that are about to be served.
#[derive(Clone, Copy)]
struct Admitting<'a> {
    name: &'a str,
    set: FileSet,
    pairing: Pairing,
}

/// Makes one group ready. Arguments: directory of the live files, its files, register, results.
type Admit = fn(&Path, Admitting<'_>, &Runtime, &mut Prepared) -> Result<(), Error>;

fn prepare_groups(conf: &Conf, how: Preparing<'_>, admit: Admit) -> Result<Prepared, Error> {
    let moves = how.moves;
    let live = live_dir(conf);
    std::fs::create_dir_all(live).map_err(io_error(live, "create the directory"))?;
    let mut prepared = Prepared::default();
    let runtime = Runtime::open(&conf.srv.data.dir)?;
    let places = Places::of(&conf.srv);
    let wants = conf.srv.cluster.is_some();
    runtime.reserve(&places, SlotBlocks { bizs: conf.map.bizs.len(), wants })?;
    // Undo first, and only where it is valid: recovery skips groups whose files are not the
    // registered ones.
    let mut handle = Handle::attach_at(
        &conf.srv.data.dir,
        live,
        SlotRequest { role: ROLE_PREPARE, places: &places },
    )?;
    prepared.recovered_slots = handle.recover_dead();
    drop(handle);
    for configured in &conf.map.groups {
        let name = &configured.name;
        // Drafts of a migration that was interrupted before its commit only waste blocks.
        if !group::is_unfinished(live, name)
            && let Err(error) = staging::remove_drafts(live, name)
        {
            tracing::warn!(group = name, %error, "cannot remove the files that a migration left");
        }
        let made = make_ready(conf, configured, how, &runtime, &mut prepared);
        let admitted = made.and_then(|markings| {
            let may_begin = moves.begin.contains(name)
                // It moved when its machine went down, or its configuration changed since. No node
                // is lost: what has no place stays where it is.
                || moves.in_force.contains_key(name)
                || prepared.restored.contains(name);
            let Pair { next, former } =
                begin_or_go_on(live, configured, &runtime, moves, may_begin)?;
            let files = |set, pairing| Admitting { name, set, pairing };
            let Some(next) = next else {
                admit(live, files(FileSet::Named, Pairing::Alone), &runtime, &mut prepared)?;
                return mark_changes(conf, name, &runtime, &[(FileSet::Named, markings.named)]);
            };
            let former_files = files(FileSet::Named, Pairing::FormerOf(next));
            admit(live, former_files, &runtime, &mut prepared)?;
            let next_files = files(FileSet::Next, Pairing::NextOf(former));
            admit(live, next_files, &runtime, &mut prepared)?;
            prepared.moving.insert(name.clone(), moves.mode_of(name));
            let all = [(FileSet::Named, markings.named), (FileSet::Next, markings.next)];
            mark_changes(conf, name, &runtime, &all)
        });
        match admitted {
            Err(error) if error.is_of_files() => {
                quarantine(&runtime, name);
                let (group, reason) = (name.clone(), error.to_string());
                prepared.unserved.push(Unserved { group, reason });
            }
            admitted => admitted?,
        }
    }
    Ok(prepared)
}

/// Sees to it that changes of a group are marked, or are not.
fn mark_changes(
    conf: &Conf,
    name: &str,
    runtime: &Runtime,
    markings: &[(FileSet, Marking)],
) -> Result<(), Error> {
    for &(set, marking) in markings {
        let open = group::open_files_of(live_dir(conf), name, set)?;
        checkpoint::admit_marks(&open, runtime, marking)?;
    }
    if conf.srv.data.checkpoint.is_some()
        && let Some(facts) = checkpoint::checkpoint_facts(&conf.srv.data.dir, name)
    {
        runtime.set_checkpoint_time(name, facts.begun_ms);
    }
    Ok(())
}

/// What is known of the checkpoints of a group's files, and of those that it moves to.
struct Markings {
    named: Marking,
    next: Marking,
}

impl Markings {
    /// The group does not move yet. If it begins to, nothing is known of its next files.
    fn of_named(named: Marking) -> Markings {
        let next = if named == Marking::Off { Marking::Off } else { Marking::On };
        Markings { named, next }
    }
}

/// Creates or restores the live files of a group that lacks them. Returns what is known of its
/// checkpoints then.
fn make_ready(
    conf: &Conf,
    configured: &conf::Group,
    how: Preparing<'_>,
    runtime: &Runtime,
    prepared: &mut Prepared,
) -> Result<Markings, Error> {
    let (data, live, name) = (&conf.srv.data.dir, live_dir(conf), &configured.name);
    let state = checkpoint::live_state(live, configured)?;
    if conf.srv.data.checkpoint.is_none() {
        if group::create(live, configured)? {
            prepared.created.push(name.clone());
        }
        return Ok(Markings::of_named(Marking::Off));
    }
    if state == LiveState::GoOn {
        return Ok(Markings::of_named(Marking::On));
    }
    let why = match checkpoint::find(data, name)? {
        Found::Nothing => Vec::new(),
        Found::Unusable(why) => why,
        Found::Complete(newest, older) => {
            let (older, why_no_older) = match older {
                Ok(older) => (Some(older), None),
                Err(why) => (None, Some(why)),
            };
            if let Some(why) = &why_no_older {
                tracing::warn!(group = name, why, "the other checkpoint is not complete");
            }
            let all = std::iter::once(newest).chain(older);
            match restore_one_of(all, conf, how, runtime, prepared)? {
                Ok(markings) => return Ok(markings),
                Err(why) => why.into_iter().chain(why_no_older).collect(),
            }
        }
    };
    if state == LiveState::Unclean {
        // They are scanned, as without checkpoints.
        return Ok(Markings::of_named(Marking::On));
    }
    if !why.is_empty() {
        if !how.accepts_loss {
            return Err(Error::Lost { group: name.clone(), why });
        }
        let why = why.join("; ");
        tracing::error!(group = name, why, "all that was counted is lost, as accepted");
        for side in Side::BOTH {
            checkpoint::remove(data, name, side)?;
        }
    }
    group::create(live, configured)?;
    prepared.created.push(name.clone());
    let header = group::open_files(live, name)?.header;
    Ok(Markings::of_named(match checkpoint::create_empty(data, &header) {
        Ok(pass) => Marking::Holding { side: None, pass },
        Err(error) => {
            tracing::error!(group = name, %error, "no checkpoint can be made yet");
            Marking::On
        }
    }))
}

/// Restores a group from the first one of its complete checkpoints. If what the disk does not give
/// back may be lost, from the first one that can be read; if there is none, says why.
fn restore_one_of(
    all: impl Iterator<Item = Box<Complete>>,
    conf: &Conf,
    how: Preparing<'_>,
    runtime: &Runtime,
    prepared: &mut Prepared,
) -> Result<Result<Markings, Vec<String>>, Error> {
    let (data, live) = (&conf.srv.data.dir, live_dir(conf));
    let (mut unread, mut why) = (Vec::new(), Vec::new());
    for complete in all {
        let (facts, name) = (complete.facts, &*complete.named.header.name);
        if !runtime.named_groups(name).is_empty() && !is_alone(runtime, LINGERING) {
            // No process may go on with its former files.
            return Err(Error::Quarantined { group: name.to_owned() });
        }
        let (number, begun_ms) = (facts.number, facts.begun_ms);
        tracing::warn!(group = name, number, begun_ms, "restoring the group from a checkpoint");
        let Restored { report, holds } = match checkpoint::restore(live, &complete, how.progress) {
            Err(error @ Error::UnreadableCheckpoint { .. })
                if how.accepts_loss && !error.is_transient() =>
            {
                tracing::error!(%error, "what this checkpoint held is lost, as accepted");
                unread.push(complete.side);
                why.push(error.to_string());
                continue;
            }
            restored => restored?,
        };
        log_report(name, &report);
        prepared.restored.push(name.to_owned());
        prepared.dropped_nodes += report.dropped();
        count_dropped(live, runtime, name, &report)?;
        for side in unread {
            // Otherwise the next pass would be written over the one that can be read.
            checkpoint::remove(data, name, side)?;
        }
        let marking =
            holds.map_or(Marking::On, |(side, pass)| Marking::Holding { side: Some(side), pass });
        return Ok(Ok(match complete.next {
            Some(_) => Markings { named: marking, next: marking },
            None => Markings::of_named(marking),
        }));
    }
    Ok(Err(why))
}

/// Quarantines a group until a start has found its files sound. Until then no process serves from
/// it, even one that has its files mapped.
fn quarantine(runtime: &Runtime, name: &str) {
    let named = runtime.named_groups(name);
    runtime.quarantine_groups(|id| named.iter().any(|known| known.id == id));
}

/// The ids of a group's files, and of those that it moves to.
struct Pair {
    former: u64,
    next: Option<u64>,
}

/// Finds out whether a group moves to the configured geometry. Where it is to begin, makes the
/// files that it moves to.
fn begin_or_go_on(
    live: &Path,
    configured: &conf::Group,
    runtime: &Runtime,
    moves: &Moves,
    may_begin: bool,
) -> Result<Pair, Error> {
    let name = &configured.name;
    growing::complete(live, name)?;
    let open = group::open_files(live, name)?;
    let former = open.header.id;
    if group::is_next_there(live, name) {
        let next = group::open_files_of(live, name, FileSet::Next)?;
        let Some(other) = next.header.geometry.differences(&configured.geometry).next() else {
            return Ok(Pair { former, next: Some(next.header.id) });
        };
        if moves.in_force.contains_key(name) || !growing::is_empty(&next)? {
            let OtherSetting { field, found: moving, expected } = other;
            return Err(Error::Moving { group: name.clone(), field, moving, expected });
        }
        // They were made for a configuration that never was in force.
        runtime.forget_group(next.header.id);
        growing::remove(live, name)?;
    }
    let is_other = open.header.geometry != configured.geometry;
    let is_hash = open.header.geometry.hash != configured.geometry.hash;
    if !is_other || is_hash || !may_begin {
        group::check_geometry(&open.header, configured)?;
        return Ok(Pair { former, next: None });
    }
    let has_spilled = Group::map(open, runtime).is_ok_and(|group| group.has_spilled());
    let open = group::open_files(live, name)?;
    growing::create(live, &open.header, configured, has_spilled)?;
    let next = group::open_files_of(live, name, FileSet::Next)?.header.id;
    Ok(Pair { former, next: Some(next) })
}

impl Runtime {
    /// Whether the group of this name is registered and not quarantined.
    pub fn is_served(&self, name: &str) -> bool {
        let named = self.named_groups(name);
        let first = |id| self.find_file(id, 0);
        let is_sound = |id| first(id).is_some_and(|file| !self.is_quarantined(file.index));
        !named.is_empty() && named.iter().all(|group| is_sound(group.id))
    }
}

/// Checks a group's files and registers them. Scans them if necessary.
fn admit(
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
fn count_dropped(
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
    write_marks(&files, boot)?;
    entries.iter().for_each(|entry| runtime.release_file(entry));
    Ok(report)
}

/// Whether no living process is attached. The lock of a killed process may last some 100 ms.
fn is_alone(runtime: &Runtime, within: Duration) -> bool {
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

fn log_report(name: &str, report: &Report) {
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

/// Writes all files of `conf` to disk and sets their clean marks, if no slot is in use. True if it
/// did. A group with damaged files is skipped; the next start scans or refuses it. It uses file
/// calls only: this is the master's last step.
pub fn close_clean(conf: &Conf) -> Result<bool, Error> {
    let path = Runtime::path_in(&conf.srv.data.dir);
    let runtime = Runtime::open(&conf.srv.data.dir)?;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .map_err(io_error(&path, "open it"))?;
    let ByteSpan { start, len } = Runtime::slots_span();
    // Held until `file` is dropped, so that no process attaches meanwhile.
    let locked =
        sys::try_lock_range(&file, start, len).map_err(io_error(&path, "lock its slots"))?;
    if !locked || !runtime.slots().is_empty() {
        return Ok(false);
    }
    let boot = sys::boot_id().map_err(io_error(&path, "read this boot's id"))?;
    for configured in &conf.map.groups {
        if let Err(error) = close_group(live_dir(conf), &configured.name, &runtime, boot) {
            tracing::error!(group = configured.name, %error, "the group is not marked clean");
        }
    }
    // No process can attach without a server.
    runtime.publish(0);
    Ok(true)
}

fn close_group(live: &Path, name: &str, runtime: &Runtime, boot: [u64; 2]) -> Result<(), Error> {
    close_files(group::open_files(live, name)?, runtime, boot)?;
    if !group::is_next_there(live, name) {
        return Ok(());
    }
    close_files(group::open_files_of(live, name, FileSet::Next)?, runtime, boot)
}

fn close_files(open: OpenGroup, runtime: &Runtime, boot: [u64; 2]) -> Result<(), Error> {
    let OpenGroup { header, files } = open;
    let known = runtime.find_file(header.id, 0);
    let is_served = known.is_some_and(|known| !runtime.is_quarantined(known.index));
    for OpenFile { path, file } in &files {
        file.sync_all().map_err(io_error(path, "sync it"))?;
        let quarantined = !is_served || group::read_marks(path, file)?.quarantined;
        group::write_marks(path, Marks { boot, clean: !quarantined, quarantined })?;
    }
    Ok(())
}

/// Checks length and header of every file of `conf`'s groups, with file calls only. The master does
/// this before it restarts a process after a SIGBUS.
pub fn check_files(conf: &Conf) -> Result<(), Error> {
    for configured in &conf.map.groups {
        let (live, name) = (live_dir(conf), &configured.name);
        let mut open = group::open_files(live, name)?;
        if group::is_next_there(live, name) {
            open = group::open_files_of(live, name, FileSet::Next)?;
        }
        group::check_geometry(&open.header, configured)?;
    }
    Ok(())
}
