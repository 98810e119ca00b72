//! Checks each second the files that all processes need, and repairs what the master can.
//!
//! | what | repair |
//! | --- | --- |
//! | data/lock does not name this master | it is written again |
//! | LIVE/owner is not locked: an earlier master's processes had the lock | it is locked |
//! | runtime.mmap holds a wrong generation in force | it is written again |
//! | conf.active.G is missing or was overwritten | it is written again |
//! | data/control is missing or is not this master's socket | it is opened again |
//! | runtime.mmap is missing, cut, replaced or damaged | by the next start: this master ends |
//!
//! Invariant: each check examines runtime.mmap by file calls before it touches a word of it, so a
//! missing page costs the server a message and not a signal. While another binary takes over,
//! nothing is repaired that this one must not write.

use frs_base::causes::with_causes;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use super::control_socket::ControlSocket;
use super::error::MasterError;
use super::in_force::InForce;
use crate::process::data_lock::DataLock;
use crate::process::live_lock::LiveLock;
use crate::process::log::LogThrottle;
use frs_base::clock;
use frs_conf::active;
use frs_conf::{Conf, Group, Map};
use frs_store::{self as store, Closed, Damage, Runtime};

const LOOK_EVERY: Duration = Duration::from_secs(1);
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

/// When the master checks, and what it remembers of the last check.
pub(super) struct Files {
    /// The time of the next check.
    pub next: Instant,
    complaints: LogThrottle,
    /// conf.active.G when it was last found correct.
    sound: Option<Stamp>,
}

/// The generation of a file conf.active.G, and the properties that any change to the file alters.
#[derive(PartialEq, Eq)]
struct Stamp(u64, [i64; 7]);

impl Stamp {
    fn of(data_dir: &std::path::Path, generation: u64) -> Option<Stamp> {
        let there = fs::metadata(active::path(data_dir, generation)).ok()?;
        let (dev, ino, len) = (there.dev() as i64, there.ino() as i64, there.len() as i64);
        let (changed, nsec) = (there.ctime(), there.ctime_nsec());
        let all = [dev, ino, len, changed, nsec, there.mtime(), there.mtime_nsec()];
        Some(Stamp(generation, all))
    }
}

impl Files {
    /// Files that are checked at once.
    pub fn new(now: Instant) -> Files {
        Files { next: now, complaints: LogThrottle::new(COMPLAIN_EVERY), sound: None }
    }

    /// Checks the files and repairs what can be repaired. `control` is `None` while another binary
    /// may have written the files that this one would write.
    ///
    /// # Errors
    /// runtime.mmap is damaged: no process can attach any more.
    pub fn look(
        &mut self,
        in_force: &InForce,
        lock: Option<&mut DataLock>,
        live_lock: Option<&mut LiveLock>,
        control: Option<&mut ControlSocket>,
        now: Instant,
    ) -> Result<(), Damage> {
        self.next = now + LOOK_EVERY;
        in_force.runtime().look()?;
        self.look_at_lock(lock);
        if let Some(Err(error)) = live_lock.map(LiveLock::hold) {
            self.complain(&error, "the directory of live files is not locked");
        }
        if let Some(control) = control {
            look_at_generation(in_force);
            self.look_at_configuration(in_force);
            if let Err(error) = control.look(in_force.data_dir()) {
                self.complain(&error, "commands cannot reach this master: data/control");
            }
        }
        Ok(())
    }

    fn look_at_lock(&mut self, lock: Option<&mut DataLock>) {
        match lock.map_or(Ok(false), DataLock::keep_signed) {
            Ok(false) => {}
            Ok(true) => tracing::warn!("data/lock did not name this master; wrote it again"),
            Err(error) => self.complain(&error, "data/lock does not name this master"),
        }
    }

    fn look_at_configuration(&mut self, in_force: &InForce) {
        let generation = in_force.generation();
        let stamp = Stamp::of(in_force.data_dir(), generation);
        if stamp.is_some() && stamp == self.sound {
            return;
        }
        match in_force.put_right() {
            Ok(None) => self.sound = stamp,
            Ok(Some(reason)) => tracing::error!(
                reason,
                generation,
                "the configuration in force could not be read; wrote it again"
            ),
            Err(error) => {
                self.complain(&error, "the configuration in force cannot be written again");
            }
        }
    }

    fn complain(&mut self, error: &dyn std::error::Error, what: &str) {
        if self.complaints.is_due(clock::instant()) {
            tracing::error!(error = with_causes(error), "{what}");
        }
    }
}

fn look_at_generation(in_force: &InForce) {
    let (found, generation) = (in_force.runtime().generation(), in_force.generation());
    if found != generation {
        tracing::error!(
            found,
            generation,
            "runtime.mmap held a wrong generation, and items were answered \"store\"; wrote it \
             again"
        );
        in_force.runtime().publish(generation);
    }
}

/// Logs that no process can attach any more, and renames the file that replaced runtime.mmap.
pub(super) fn set_damaged_aside(damage: &Damage, runtime: &Runtime) {
    tracing::error!("{damage}: the server cannot start processes any more, and ends");
    if damage.is_replaced {
        // It may be whole but of another time: its undo logs do not match these files.
        match runtime.set_aside() {
            Ok(path) => {
                tracing::warn!(path = %path.display(), "moved the file that took its place")
            }
            Err(error) => tracing::error!(%error, "cannot move the file that took its place"),
        }
    }
}

/// Names every damaged group: the next process starts without it.
pub(super) fn check_lengths(conf: &Conf) {
    let alone = |group: &Group| Conf {
        srv: conf.srv.clone(),
        map: Map::new(vec![group.clone()], Vec::new()),
    };
    let mut sound = true;
    for group in &conf.map.groups {
        if let Err(error) = store::check_files(&alone(group)) {
            sound = false;
            let group = &group.name;
            tracing::error!(group, %error, "a process received SIGBUS; this group is not served");
        }
    }
    if sound {
        tracing::warn!("a process received SIGBUS; all files have their lengths");
    }
}

/// Ends a server whose runtime.mmap was damaged. A program still attached through it serves no
/// more.
pub(super) fn close_damaged(runtime: &Runtime) {
    if let Err(error) = runtime.retire() {
        tracing::warn!(%error, "attached programs cannot notice that runtime.mmap is damaged");
    }
    tracing::warn!("files are not marked clean: the next start scans all nodes");
}

/// Writes the files of a server that ends in order to the disk, and marks them clean.
///
/// # Errors
/// Not all is on the disk.
pub(super) fn close_clean(conf: &Conf) -> Result<(), MasterError> {
    match store::close_clean(conf)? {
        Closed::Clean => tracing::info!("files are written back and marked clean"),
        Closed::Attached => {
            tracing::warn!(
                "files are written back; a process is still attached: they are not marked clean"
            );
        }
        Closed::NotOnDisk(groups) => return Err(MasterError::NotOnDisk(groups)),
    }
    Ok(())
}
