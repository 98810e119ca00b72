//! Start-up: from the configuration to a master that has yet to fork its first worker.
//!
//! Invariant: nothing is touched before the configuration is checked, and no file of the store
//! before the directory's lock is held.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::account::Account;
use super::listeners::{ListenError, Listeners};
use super::lock::{DataLock, LockError};
use super::outcome::Outcome;
use super::prepare::{Preparation, PrepareError};
use super::run::{Basis, Master};
use super::{Ended, log};
use crate::clock;
use crate::conf::Machine;
use crate::conf::active::{self, ActiveError};
use crate::conf::memory::Memory;
use crate::conf::{Conf, Faults, Overlay, OverlayError, report};
use crate::store::{self, Prepared, Runtime};
use crate::sys::process::{self, Signal, Signals};

/// The workers of a dead master have ended by then.
const ORPHANS: Duration = Duration::from_secs(6);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Why the master cannot start, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum MasterError {
    /// The configuration is faulty.
    #[error("{0}")]
    Faults(#[from] Faults),
    /// This machine cannot do what the configuration asks; one line each.
    #[error("{}", .0.join("\n"))]
    Machine(Vec<String>),
    /// The data directory is another master's.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// An address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The store is not to be had.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// It cannot be prepared.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    /// The configuration cannot be published.
    #[error("{}", with_sources(.0))]
    Active(#[from] ActiveError),
    /// What was switched and reset before is not known.
    #[error(transparent)]
    Overlay(#[from] OverlayError),
    /// The directory of the data cannot be made.
    #[error("{}: {source}", path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The user cannot be dropped to.
    #[error("<user>{user}</user>: {source}")]
    User {
        /// Who.
        user: String,
        /// Why.
        source: io::Error,
    },
    /// A call to the kernel failed that the master cannot do without.
    #[error("the master's loop failed: {0}")]
    Loop(#[from] io::Error),
}

/// An error and its sources on one line.
pub fn with_sources(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(error.source(), |error| error.source());
    sources.fold(error.to_string(), |text, source| format!("{text}: {source}"))
}

/// Starts a server and serves until it is asked to end. Returns in each forked child, too.
///
/// # Errors
/// The server is not started, or ends: the master says why.
pub fn serve(conf_dir: &Path) -> Result<Ended, MasterError> {
    let (conf, texts) = Conf::load_texts(conf_dir)?;
    log::start(&conf.srv.log);
    let _name = log::name_process("master");
    let report = report::report(&conf, &Machine::look(&conf));
    report.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    if !report.faults.is_empty() {
        return Err(MasterError::Machine(report.faults));
    }
    let account = find_account(&conf)?;
    let data_dir = conf.srv.data.dir.clone();
    make_directories(&conf, account.as_ref())?;
    let signals = Signals::take(
        &[
            Signal::SIGCHLD,
            Signal::SIGHUP,
            Signal::SIGTERM,
            Signal::SIGINT,
            Signal::SIGQUIT,
            Signal::SIGUSR1,
            Signal::SIGUSR2,
        ],
        &[],
    )?;
    let lock = DataLock::take(&data_dir)?;
    account.as_ref().map_or(Ok(()), Account::lower)?;
    Outcome::forget(&data_dir)?;
    let runtime = Runtime::create_or_open(&data_dir)?;
    account.as_ref().map_or(Ok(()), Account::raise)?;
    let listeners = listen(&conf, &runtime)?;
    account.as_ref().map_or(Ok(()), Account::lower)?;
    let preparation = Preparation::start(&conf, || become_for_good(account.as_ref()))?;
    let Some(prepared) = preparation.wait(&signals)? else {
        tracing::info!("asked to end while the store was being prepared");
        listeners.remove_files();
        return Ok(Ended::Stopped);
    };
    let overlay = Overlay::read(&data_dir)?;
    if overlay.degrade {
        tracing::warn!("nothing is limited: it was degraded before this start");
    }
    let generation = runtime.generation() + 1;
    active::write_overlaid(&data_dir, generation, &texts, &overlay)?;
    runtime.set_started(clock::now());
    runtime.publish(generation);
    tell(&conf, &listeners, &prepared, generation);
    let conf_dir = conf_dir.to_owned();
    Master::new(Basis { conf_dir, conf, overlay, account, signals, lock, listeners, runtime }).run()
}

/// In a child: gives root up, where there is a user to become.
pub(super) fn become_for_good(account: Option<&Account>) -> io::Result<()> {
    account.map_or(Ok(()), Account::become_for_good)
}

/// Opens all listeners. Workers whose master was killed hold its addresses until they notice, which
/// whoever starts the server again should not have to know.
fn listen(conf: &Conf, runtime: &Runtime) -> Result<Listeners, ListenError> {
    let begun = clock::instant();
    loop {
        match open(conf) {
            Err(error) if error.is_in_use() && begun.elapsed() < ORPHANS => {
                if !runtime.slots().iter().any(|slot| slot.alive) {
                    return Err(error);
                }
                std::thread::sleep(LOOK_AGAIN);
            }
            result => return result,
        }
    }
}

fn open(conf: &Conf) -> Result<Listeners, ListenError> {
    let mut listeners = Listeners::open(&conf.srv.listen, conf.srv.workers)?;
    conf.srv.admin.as_ref().map_or(Ok(()), |admin| listeners.open_admin(&admin.listen))?;
    Ok(listeners)
}

fn find_account(conf: &Conf) -> Result<Option<Account>, MasterError> {
    let Some(user) = &conf.srv.user else { return Ok(None) };
    Account::find(user).map_err(|source| MasterError::User { user: user.clone(), source })
}

fn make_directories(conf: &Conf, account: Option<&Account>) -> Result<(), MasterError> {
    let data = &conf.srv.data;
    for path in std::iter::once(&data.dir).chain(&data.live) {
        make_directory(path, account)
            .map_err(|source| MasterError::Directory { path: path.clone(), source })?;
    }
    Ok(())
}

fn make_directory(path: &Path, account: Option<&Account>) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    std::fs::DirBuilder::new().recursive(true).mode(0o755).create(path)?;
    // One that was there keeps its owner: whoever made it knows why.
    account.map_or(Ok(()), |account| account.give(path))
}

fn tell(conf: &Conf, listeners: &Listeners, prepared: &Prepared, generation: u64) {
    for group in &conf.map.groups {
        let bytes = u64::from(group.geometry.files) * group.geometry.file_bytes();
        tracing::info!(group = %group.name, files = group.geometry.files, bytes, "has a group");
    }
    tell_prepared(prepared);
    let memory = Memory::of(conf);
    let files_max = process::raise_file_limit().unwrap_or(0);
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        addresses = listeners.addresses().join(" "),
        workers = conf.srv.workers,
        groups_bytes = memory.groups,
        worst_case_bytes = memory.total(),
        generation,
        files_max,
        data = %conf.srv.data.dir.display(),
        "frs starts"
    );
}

/// Logs what the preparation of the store found and did.
pub(super) fn tell_prepared(prepared: &Prepared) {
    let Prepared { created, scanned, recovered_slots, dropped_nodes } = prepared;
    let (created, scanned) = (created.join(" "), scanned.join(" "));
    tracing::info!(created, scanned, recovered_slots, dropped_nodes, "the store is prepared");
    if *dropped_nodes > 0 {
        tracing::warn!(dropped_nodes, "nodes were damaged: they are dropped");
    }
}
