//! Makes a data directory ready before any process serves from it, and leaves it clean.
//!
//! Invariant: an undo log is replayed only over the very files it was written for, in the boot it
//! was written in. Every other group is scanned whole, or carries the mark of a clean end.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use frs_base::clock;
use frs_conf::{self as conf, Clients, Conf, MoveMode};

use crate::checkpoint::Progress;
use crate::error::{Error, io_error};
use crate::file::group::{self, FileSet, OpenGroup};
use crate::grow::staging;
use crate::handle::Handle;
use crate::watch::places::{Places, ROLE_PREPARE, ROLE_PROGRAM, SlotRequest};
use crate::watch::runtime::{Pairing, Runtime, SlotBlocks};
use admit::{Admitting, admit};
use ready::{NextFiles, Pair, begin_or_go_on, make_ready, mark_changes};

mod admit;
mod close;
mod ready;
mod take_back;
#[cfg(all(test, not(loom), not(miri)))]
mod tests;

pub use admit::{recover_alone, scan_group};
pub use close::{Closed, check_files, close_clean};
pub use take_back::{FilesBefore, left_bytes};

/// The results of a preparation.
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

/// The groups that move to another geometry, or may begin to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Moves {
    /// The groups that move in the configuration in force, and the mode of each move.
    pub in_force: BTreeMap<String, MoveMode>,
    /// The groups that may begin to move. For any other group a new geometry is an error.
    pub begin: BTreeSet<String>,
    /// Whether a group that begins to move may lose nodes that do not fit.
    pub lossy: bool,
}

impl Moves {
    fn mode_of(&self, group: &str) -> MoveMode {
        match self.in_force.get(group) {
            Some(&mode) => mode,
            None if self.lossy => MoveMode::Lossy,
            None => MoveMode::Lossless,
        }
    }
}

/// How a store is prepared, apart from its configuration.
#[derive(Clone, Copy)]
pub struct Preparing<'a> {
    /// The groups that move.
    pub moves: &'a Moves,
    /// Whether a group begins empty whose live files and checkpoints are lost.
    pub accepts_loss: bool,
    /// Called with the progress of a restore.
    pub progress: Progress<'a>,
}

/// A group that cannot be served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unserved {
    /// Its name.
    pub group: String,
    /// The fault of its files.
    pub reason: String,
}

/// Within this time the processes of a dead master end.
const ORPHANS: Duration = Duration::from_secs(6);

/// The directory of the live group files.
pub fn live_dir(conf: &Conf) -> &Path {
    conf.srv.data.live.as_deref().unwrap_or(&conf.srv.data.dir)
}

/// Prepares. If new files cannot be made, only their group is not served.
#[cfg(any(test, feature = "testing"))]
pub fn prepare_with(conf: &Conf, how: Preparing<'_>) -> Result<Prepared, Error> {
    prepare_groups(conf, how, Unmade::CostsGroup, admit)
}

/// Prepares beside a server that serves from the directory. A group with damaged files is not
/// served. If new files cannot be made, that is an error, and no group is lost: the configuration
/// in force does not need them. [`FilesBefore`] removes the files made by then.
pub fn prepare_beside(conf: &Conf, how: Preparing<'_>) -> Result<Prepared, Error> {
    prepare_groups(conf, how, Unmade::IsRefused, admit)
}

/// The consequence if new files of a configuration cannot be made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unmade {
    /// The configuration is in force without the group.
    CostsGroup,
    /// The configuration is in force without the group, if the group has no files yet. If it has
    /// files and only cannot move, it is sound, and the configuration is refused.
    CostsNewGroup,
    /// The configuration is refused.
    IsRefused,
}

/// The reason why a group is not ready.
struct Unready {
    error: Error,
    /// The error is about new files, not about those that the group has.
    is_of_making: bool,
    /// The group has files.
    has_files: bool,
}

impl Unready {
    fn of_making(error: Error) -> Unready {
        Unready { error, is_of_making: true, has_files: false }
    }

    fn beside_files(self) -> Unready {
        Unready { has_files: true, ..self }
    }

    /// Whether the configuration is refused, so that no group is lost.
    fn refuses(&self, unmade: Unmade) -> bool {
        let refuses = match unmade {
            Unmade::CostsGroup => false,
            Unmade::CostsNewGroup => self.is_of_making && self.has_files,
            Unmade::IsRefused => self.is_of_making,
        };
        refuses || !self.error.is_of_files()
    }
}

impl From<Error> for Unready {
    fn from(error: Error) -> Unready {
        // Existing files need no room, so the error is about new ones.
        let is_of_making = error.is_no_room();
        Unready { error, is_of_making, has_files: false }
    }
}

/// Prepares when no other server has the directory. The processes of a killed server end by
/// themselves; a group that must be scanned waits for that. If the next files of a group that has
/// files cannot be made, that is an error.
pub fn prepare_at_start(conf: &Conf, how: Preparing<'_>) -> Result<Prepared, Error> {
    prepare_groups(conf, how, Unmade::CostsNewGroup, |live, files, runtime, prepared| {
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

/// Prepares after a preparation that was killed by a page that could not be read. The group of that
/// file is marked: it is not served, and not scanned again before the next start.
pub fn prepare_after_fault(conf: &Conf, how: Preparing<'_>) -> Result<Prepared, Error> {
    prepare_groups(conf, how, Unmade::CostsGroup, |live, admitting, runtime, prepared| {
        let OpenGroup { files, .. } = group::open_files_of(live, admitting.name, admitting.set)?;
        // The mark is in the first file, for all files.
        if group::read_marks(&files[0].path, &files[0].file)?.quarantined {
            return Err(Error::Unreadable { group: admitting.name.to_owned() });
        }
        admit(live, admitting, runtime, prepared)
    })
}

/// Makes one group ready. Arguments: directory of the live files, files of the group, register,
/// results.
type Admit = fn(&Path, Admitting<'_>, &Runtime, &mut Prepared) -> Result<(), Error>;

/// Creates, checks and registers every group of `conf`, recovers dead slots, and scans groups whose
/// undo logs cannot be trusted. It maps groups, so a forked child of the master runs it before any
/// worker uses this configuration. Groups already in use are left unchanged. A group with damaged
/// or unreadable files is quarantined and reported; the others are not affected. A group whose
/// files have another geometry than the configuration moves to the configured one, if `moves`
/// allows that: its next files are made beside the present ones. A group that moves already goes
/// on.
fn prepare_groups(
    conf: &Conf,
    how: Preparing<'_>,
    unmade: Unmade,
    admit: Admit,
) -> Result<Prepared, Error> {
    let live = live_dir(conf);
    std::fs::create_dir_all(live).map_err(io_error(live, "create the directory"))?;
    let mut prepared = Prepared::default();
    let runtime = Runtime::open(&conf.srv.data.dir)?;
    let places = Places::of(&conf.srv);
    let mailbox = conf.srv.has_mailboxes();
    let changes = conf.map.groups.iter().any(|group| group.mirror_ms.is_some());
    let clients = conf.srv.clients.as_ref().map_or(0, Clients::places);
    let bizs = conf.map.bizs.len();
    runtime.reserve(&places, SlotBlocks { bizs, mailbox, changes, clients })?;
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
        match prepare_group(conf, configured, how, admit, &runtime, &mut prepared) {
            Err(unready) if !unready.refuses(unmade) => {
                quarantine(&runtime, name);
                let (group, reason) = (name.clone(), unready.error.to_string());
                prepared.unserved.push(Unserved { group, reason });
            }
            ready => ready.map_err(|unready| unready.error)?,
        }
    }
    Ok(prepared)
}

/// Makes one group ready, and the files that it moves to.
fn prepare_group(
    conf: &Conf,
    configured: &conf::Group,
    how: Preparing<'_>,
    admit: Admit,
    runtime: &Runtime,
    prepared: &mut Prepared,
) -> Result<(), Unready> {
    let (live, moves, name) = (live_dir(conf), how.moves, &configured.name);
    let markings = make_ready(conf, configured, how, runtime, prepared)?;
    let is_restored = prepared.restored.contains(name);
    let may_begin = moves.begin.contains(name)
        // The group was moving when the machine went down.
        || moves.in_force.contains_key(name)
        // The move was planned from a newer checkpoint, which is lost.
        || how.accepts_loss && is_restored;
    let Pair { next, former } = begin_or_go_on(live, configured, runtime, moves, may_begin)
        .map_err(Unready::beside_files)?;
    let has_moved = matches!(next, NextFiles::There(_));
    let files = |set, pairing| Admitting { name, set, pairing, has_moved };
    let (pairing, next) = match next {
        NextFiles::None => (Pairing::Alone, None),
        NextFiles::There(id) | NextFiles::Made(id) => (Pairing::FormerOf(id), Some(next)),
    };
    admit(live, files(FileSet::Named, pairing), runtime, prepared)?;
    let mut marked = vec![(FileSet::Named, markings.named)];
    if let Some(next) = next {
        let next_files = files(FileSet::Next, Pairing::NextOf(former));
        admit(live, next_files, runtime, prepared).map_err(|error| match next {
            NextFiles::Made(_) => Unready::of_making(error).beside_files(),
            _ => error.into(),
        })?;
        prepared.moving.insert(name.clone(), moves.mode_of(name));
        marked.push((FileSet::Next, markings.next));
    }
    mark_changes(conf, name, runtime, &marked)
}

/// Quarantines a group until a start has found its files sound. Until then no process serves from
/// it, even one that has its files mapped.
fn quarantine(runtime: &Runtime, name: &str) {
    let named = runtime.named_groups(name);
    runtime.quarantine_groups(|id| named.iter().any(|known| known.id == id));
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
