//! Start-up leads from the configuration to a master that has yet to fork its first worker.
//!
//! Invariant: nothing is touched before the configuration is checked, and no file of the store
//! before the directory's lock is held.

use std::io;
use std::path::Path;
use std::time::Duration;

use super::change_notes::ChangeNotes;
use super::children::Children;
use super::conf_trust;
use super::conf_watch::{ConfWatch, Reading};
use super::control_socket::ControlSocket;
use super::data_directory;
use super::error::MasterError;
use super::files::Files;
use super::in_force::{Boards, InForce};
use super::inherit::{Inherited, Predecessor};
use super::preparing_child::{How, Preparation, PrepareError, Work, log_prepared};
use super::reload_queue::Reloads;
use super::reload_rules;
use super::run::{ClusterTies, Ended, Master, Moves};
use super::stale_processes;
use super::take_over::OlderMaster;
use super::upgrade::Upgrades;
use crate::account::Account;
use crate::buffer_sizes::BUFFER_SIZES;
use crate::net::listeners::{
    InheritedSocket, ListenError, ListeningSockets, OtherAddresses, ServedAddress,
};
use crate::process::bells::Bells;
use crate::process::conf_guard::ConfGuard;
use crate::process::control::Loss;
use crate::process::data_lock::{self, DataLock};
use crate::process::live_lock::LiveLock;
use crate::process::log;
use crate::process::pending_edit;
use crate::process::token_board::TokenBoard;
use crate::tls::board::{CheckedMaterial, TlsBoards, TlsMaterial};
use crate::tls::tickets::TicketBoard;
use frs_base::clock;
use frs_base::sys::process::{self, Channel, Signal, Signals};
use frs_cluster::PLUG;
use frs_conf::Machine;
use frs_conf::active;
use frs_conf::memory_bound::Memory;
use frs_conf::{ClusterKeys, Conf, LoadedConf, Overlay, Settings, Texts, report};
use frs_engine::access::TokenDigests;
use frs_engine::note_limits_in_force;
use frs_store::{self as store, LINGERING, Prepared, Runtime};

/// Time limit for the workers of a dead master to end.
const ORPHANS: Duration = Duration::from_secs(6);
/// Time limit for a change in progress to be taken or put back.
const CHANGES: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// How to start a server.
#[derive(Debug, Clone, Copy)]
pub struct Start<'a> {
    /// The directory of the configuration.
    pub conf_dir: &'a Path,
    /// Settings that are laid over srv.xml, now and at every reload.
    pub settings: &'a Settings,
    /// Whether to refuse to start if a group cannot be served.
    pub strict: bool,
    /// Whether a group begins empty whose live files and checkpoints are lost.
    pub accepts_loss: bool,
}

/// Starts a server and serves until asked to end. Also returns in each forked child.
///
/// # Errors
/// The server does not start, or ends; the error gives the reason.
pub fn serve(how: Start<'_>) -> Result<Ended, MasterError> {
    start(how).map_err(|error| after_edit(how, error)).inspect_err(|error| {
        // Log the error to the log's file as well.
        if log::file_path().is_some() {
            error.to_string().lines().for_each(|line| tracing::error!("{line}"));
        }
    })
}

/// Adds to the error a change that an earlier keeper has left, if there is one: no keeper runs that
/// could undo it.
fn after_edit(how: Start<'_>, error: MasterError) -> MasterError {
    let data_dir = Conf::data_dir(how.conf_dir, how.settings).ok();
    // A change of a running server is not left over.
    let left = data_dir.filter(|data_dir| data_lock::holder(data_dir).is_err());
    match left.map(|data_dir| pending_edit::path_in(&data_dir)).filter(|path| path.exists()) {
        Some(path) => MasterError::AfterEdit { source: Box::new(error), path },
        None => error,
    }
}

fn start(
    Start { conf_dir, settings, strict, accepts_loss }: Start<'_>,
) -> Result<Ended, MasterError> {
    let inherited = Inherited::take().map_err(MasterError::Inherited)?;
    // As early as possible: until then a signal to rotate or reload ends this process.
    let signals = take_signals()?;
    let Inherited { sockets, mut predecessor, mut notifier, environment } = inherited;
    // The processes of an older binary serve until this one is ready.
    let is_beside = predecessor.is_some();
    let (LoadedConf { conf, texts }, reading) = load(conf_dir, settings, is_beside)?;
    let account = find_account(conf.srv.user.as_deref())?;
    // From here on this process acts as the user of the workers, except in steps that need root.
    account.as_ref().map_or(Ok(()), Account::lower)?;
    log::start(&conf.srv.log).map_err(|source| {
        let path = conf.srv.log.file.clone().unwrap_or_default();
        MasterError::Log { path, source }
    })?;
    let _name = log::name_process("master");
    for setting in settings.iter() {
        let (name, value, from) = (setting.name(), setting.value(), setting.origin());
        tracing::info!(name, value, from, "replaces a setting of srv.xml");
    }
    look_at_machine(&conf)?;
    let data_dir = conf.srv.data.dir.clone();
    let cluster =
        Account::as_root(account.as_ref(), || tie_to_cluster(&conf, predecessor.as_mut()))?;
    let cluster_keys = cluster.as_ref().map(|ties| ties.secrets.secret.keys());
    match is_beside {
        true => data_directory::look(&conf)?,
        false => data_directory::make(&conf, account.as_ref())?,
    }
    let tickets = predecessor.as_mut().and_then(|predecessor| predecessor.tickets.take());
    let (mut lock, older) = take_lock(&data_dir, account.as_ref(), predecessor)?;
    // A server that takes over is refused below if its files name another directory.
    let has_live = !is_beside || store::live_dir(&conf).is_dir();
    let live_lock = if has_live { LiveLock::take(&conf)? } else { None };
    let tokens = TokenDigests::read(&conf.srv)?;
    let tokens = TokenBoard::new(&tokens).map_err(MasterError::Boards)?;
    let tls = Account::as_root(account.as_ref(), || make_tls_boards(&conf, tickets))?;
    let mut control = ControlSocket::default();
    let runtime = if is_beside {
        open_runtime_in_use(&data_dir, &conf, cluster_keys)?
    } else {
        let runtime = Runtime::create_or_open(&data_dir)?;
        lock.hold_runtime()?;
        // Commands wait there until the master serves, which tells why there is no socket.
        let _ = control.look(&data_dir);
        // Before any process of this start can attach.
        frs_cluster::newest_copy::begin(&runtime);
        end_stopped(&runtime, account.as_ref());
        runtime
    };
    let listeners = listen(&conf, &runtime, account.as_ref(), &sockets, is_beside)?;
    drop(sockets);
    let mut tell_progress = |words: &str| {
        // systemd does not know a process that takes over yet.
        if !is_beside {
            notifier.status(words);
        }
    };
    tell_progress("preparing the store");
    let how = if is_beside { How::Beside } else { How::AtStart };
    let work = Work { how, loss: Loss::Refused, accepts_loss };
    let mut reloads = Reloads::default();
    let prepared = prepare(&conf, work, account.as_ref(), &mut control, |preparation| {
        preparation.wait(&signals, &mut || reloads.note_signal(), &mut tell_progress)
    })?;
    let Some(prepared) = prepared else {
        tracing::info!("stopped while the store was being prepared");
        if !is_beside {
            listeners.remove_files(account.as_ref());
            control.remove(&data_dir);
        }
        return Ok(Ended::Stopped);
    };
    let (unserved, all) = (prepared.unserved.len(), conf.map.groups.len());
    if unserved > 0 && (strict || unserved == all) {
        return Err(MasterError::Unserved(prepared.unserved));
    }
    let older = older.map(OlderMaster::ask).transpose().map_err(MasterError::TakeOver)?;
    // Not earlier: until now the older master may have switched or reset something.
    let found = Overlay::read(&data_dir)?;
    let mut overlay = found.clone();
    overlay.set_moving(prepared.moving.clone());
    note_limits_in_force(&mut overlay, &data_dir, &conf, PLUG);
    if overlay != found {
        overlay.write(&data_dir)?;
    }
    if overlay.degrade {
        tracing::warn!("nothing is limited: degrade was on before this start");
    }
    if !is_beside {
        runtime.set_started(clock::now());
    }
    if let Some(keys) = cluster_keys {
        runtime.keep_words(keys.words());
    }
    store::give_access(&conf);
    let generation = publish(&conf, &runtime, &texts, &overlay, is_beside)?;
    tell(&conf, &listeners, &prepared, generation);
    let now = clock::instant();
    let boards = Boards { tokens, tls };
    let in_force = InForce::new(generation, conf, texts, overlay, runtime, boards);
    let master = Master {
        conf_dir: conf_dir.to_owned(),
        account,
        signals,
        lock: Some(lock),
        live_lock,
        listeners,
        control,
        children: Children::new(&in_force.conf().srv, now),
        reloads,
        changes: ChangeNotes::new(in_force.data_dir()),
        in_force,
        moves: Moves::default(),
        upgrades: Upgrades::new(environment),
        older,
        files: Files::new(now),
        watch: ConfWatch::new(reading, now),
        next_ticket_key: now,
        notifier,
        cluster,
        announced: false,
        failure: None,
        is_over: false,
    };
    master.run()
}

/// Reads the secret files, as root if the server starts as root, and makes the doorbells or adopts
/// those of the older master's processes.
fn tie_to_cluster(
    conf: &Conf,
    predecessor: Option<&mut Predecessor>,
) -> Result<Option<ClusterTies>, MasterError> {
    let secrets = conf.srv.shared_secrets().map_err(MasterError::Secret)?;
    let Some(secrets) = secrets else { return Ok(None) };
    let adopted = predecessor.and_then(|predecessor| predecessor.bells.take());
    let bells = adopted.map_or_else(Bells::new, Ok).map_err(MasterError::Bells)?;
    Ok(Some(ClusterTies { secrets, bells }))
}

/// Reads the files of every `<tls>`, and keeps them for the processes that need them, with the keys
/// of tickets of the older master. A certificate that is not valid now does not keep the other
/// listeners from their work.
fn make_tls_boards(conf: &Conf, tickets: Option<TicketBoard>) -> Result<TlsBoards, MasterError> {
    let now = clock::now();
    let CheckedMaterial { material, out_of_date } = TlsMaterial::read(&conf.srv, now)?;
    out_of_date.iter().for_each(|fault| tracing::error!("{fault}"));
    let tickets = tickets.map_or_else(|| TicketBoard::new(now), Ok);
    let boards = tickets.and_then(|tickets| TlsBoards::new(&conf.srv, &material, tickets));
    boards.map_err(MasterError::Boards)
}

/// Reads the configuration, and what `<watch>` compares later looks with. While an older binary
/// serves, it waits for a change that the older master may still refuse.
fn load(
    conf_dir: &Path,
    settings: &Settings,
    is_in_use: bool,
) -> Result<(LoadedConf, Option<Reading>), MasterError> {
    conf_trust::look(conf_dir)?;
    let data_dir = Conf::data_dir(conf_dir, settings)?;
    // If the files name another directory by now, nobody changes them under the guard of this one.
    // What needs a restart is reported later.
    let guard = || {
        // As the server's user: root could be led out of the data directory.
        let account = find_account(Conf::user(conf_dir)?.as_deref())?;
        Account::as_user(account.as_ref(), || ConfGuard::to_read(&data_dir, CHANGES))
            .map_err(MasterError::Change)
    };
    let _guard = (is_in_use && data_dir.is_dir()).then(guard).transpose()?;
    let reading = Reading::of(conf_dir, settings, false, clock::now());
    Ok((store::settled(Conf::load_texts(conf_dir, settings)?, &[])?, reading))
}

fn look_at_machine(conf: &Conf) -> Result<(), MasterError> {
    let report = report::report(conf, &Machine::look(conf), &BUFFER_SIZES);
    report.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    if report.faults.is_empty() { Ok(()) } else { Err(MasterError::Machine(report.faults)) }
}

fn take_signals() -> io::Result<Signals> {
    use Signal::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ};
    let read = [SIGCHLD, SIGHUP, SIGTERM, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2];
    // In all processes, a write beyond the file limit is an error and not a signal.
    Signals::take(&read, &[SIGXFSZ])
}

/// Takes the directory's lock, or adopts it from the older master, with the channel to that master.
fn take_lock(
    data_dir: &Path,
    account: Option<&Account>,
    predecessor: Option<Predecessor>,
) -> Result<(DataLock, Option<Channel>), MasterError> {
    if let Some(of) = account {
        Account::as_root(account, || {
            data_lock::give_file(data_dir, of).map_err(MasterError::from)
        })?;
    }
    match predecessor {
        None => Ok((DataLock::take(data_dir)?, None)),
        Some(Predecessor { channel, lock, .. }) => {
            Ok((DataLock::adopt(lock, data_dir)?, Some(channel)))
        }
    }
}

/// Opens runtime.mmap while an older binary's processes use it. Refuses a configuration that
/// conflicts with the one they have in force.
fn open_runtime_in_use(
    data_dir: &Path,
    conf: &Conf,
    keys: Option<ClusterKeys>,
) -> Result<Runtime, MasterError> {
    let runtime = Runtime::open(data_dir)?;
    let old = active::read(data_dir, runtime.generation())?;
    let new = active::placed(conf.clone(), data_dir, &std::env::current_dir()?);
    let mut refused = reload_rules::refused_to_a_new_binary(&old, &new);
    if old.srv.has_mailboxes()
        && keys.is_some()
        && runtime.kept_words() != keys.map(ClusterKeys::words)
    {
        refused.push(reload_rules::other_secret());
    }
    if !refused.is_empty() {
        return Err(MasterError::Changes(refused));
    }
    let (used, needed) = (runtime.slots().len(), usize::from(conf.srv.needed_slots()));
    let most = Runtime::SLOTS;
    if used + needed > most {
        return Err(MasterError::Slots { used, needed, most });
    }
    Ok(runtime)
}

/// Publishes the configuration; returns its generation. If an older binary has it in force already,
/// it is left as it is: the older processes may not understand what this one would write.
fn publish(
    conf: &Conf,
    runtime: &Runtime,
    texts: &Texts,
    overlay: &Overlay,
    is_in_use: bool,
) -> Result<u64, MasterError> {
    let data_dir = &conf.srv.data.dir;
    let mut generation = runtime.generation();
    if is_in_use && active::is_of(data_dir, generation, texts, overlay)? {
        return Ok(generation);
    }
    // A killed server left this generation. The number in its last file counts, not the one in
    // runtime.mmap.
    if !is_in_use && (generation != 0 || runtime.is_any_locked()) {
        generation = active::latest(data_dir)?.unwrap_or(generation);
    }
    let mut next = generation.saturating_add(1);
    match active::write_overlaid(data_dir, next, texts, overlay) {
        Err(error) if error.is_no_room() => {
            // The last server's file may hold the same configuration.
            let latest = active::latest(data_dir)?;
            let is_same = |&latest: &u64| active::is_of(data_dir, latest, texts, overlay);
            next = latest.filter(|latest| is_same(latest).unwrap_or(false)).ok_or(error)?;
        }
        written => written?,
    }
    store::give_access_to_generation(conf, next);
    runtime.publish(next);
    Ok(next)
}

/// Opens all listeners. Processes of a killed master hold its addresses until they notice its death
/// and the kernel has removed their maps. This waits for them, so that an operator need not. It
/// does not matter whether they have slots: a process that was just forked has none yet, and an
/// ending one may lose its sockets long after its slot.
fn listen(
    conf: &Conf,
    runtime: &Runtime,
    account: Option<&Account>,
    given: &[InheritedSocket],
    is_in_use: bool,
) -> Result<ListeningSockets, ListenError> {
    // An orderly end leaves no generation and no process.
    let is_after_kill = !is_in_use && runtime.generation() != 0;
    let (begun, mut is_told) = (clock::instant(), false);
    let (served, others) = (ServedAddress::all(&conf.srv), OtherAddresses::of(&conf.srv));
    loop {
        match ListeningSockets::open(account, &served, others, conf.srv.workers, given) {
            Err(error) if error.is_in_use() => {
                let has_orphans = || runtime.slots().iter().any(|slot| slot.alive);
                if !may_end_soon(clock::since(begun), is_after_kill, has_orphans) {
                    return Err(error);
                }
                if !std::mem::replace(&mut is_told, true) {
                    tracing::warn!("{error}: waiting until it ends");
                }
                if !is_in_use {
                    // A process may have been stopped since the last check.
                    end_stopped(runtime, account);
                }
                std::thread::sleep(LOOK_AGAIN);
            }
            result => return result,
        }
    }
}

/// Whether the holder of an address may be a process of an earlier server that is about to end.
fn may_end_soon(waited: Duration, is_after_kill: bool, has_orphans: impl FnOnce() -> bool) -> bool {
    waited < LINGERING || waited < ORPHANS && (is_after_kill || has_orphans())
}

/// Ends stopped processes of a dead master. They may be root's, if it was started without a user.
fn end_stopped(runtime: &Runtime, account: Option<&Account>) {
    let ended = Account::as_root(account, || {
        stale_processes::end_stopped(runtime);
        io::Result::Ok(())
    });
    if let Err(error) = ended {
        tracing::warn!(%error, "cannot look for stopped processes as root");
    }
}

fn find_account(user: Option<&str>) -> Result<Option<Account>, MasterError> {
    let Some(user) = user else { return Ok(None) };
    Account::find(user).map_err(|source| MasterError::User { user: user.to_owned(), source })
}

fn tell(conf: &Conf, listeners: &ListeningSockets, prepared: &Prepared, generation: u64) {
    for group in &conf.map.groups {
        let bytes = u64::from(group.geometry.files) * group.geometry.file_bytes();
        tracing::info!(group = %group.name, files = group.geometry.files, bytes, "serves a group");
    }
    log_prepared(prepared);
    let memory = Memory::of(conf, &BUFFER_SIZES);
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

/// Has a child prepare the store. If the child meets an unreadable page of a group, another child
/// prepares it. `None` if `wait` broke it off.
fn prepare(
    conf: &Conf,
    work: Work,
    account: Option<&Account>,
    control: &mut ControlSocket,
    mut wait: impl FnMut(Preparation) -> Result<Option<Prepared>, PrepareError>,
) -> Result<Option<Prepared>, PrepareError> {
    let mut attempt = |work| wait(Preparation::start(conf, work, account, control)?);
    let mut result = attempt(work);
    for _ in &conf.map.groups {
        match &result {
            Err(error) if error.is_of_a_page() => tracing::error!("{error}: a file cannot be read"),
            _ => break,
        }
        result = attempt(Work { how: How::AfterFault, ..work });
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows: address-after-a-kill.
    #[test]
    fn after_a_kill_an_address_is_waited_for_whoever_has_a_slot() {
        let (soon, later) = (LINGERING / 2, LINGERING * 2);
        assert!(may_end_soon(soon, false, || false) && !may_end_soon(later, false, || false));
        assert!(may_end_soon(later, true, || false) && may_end_soon(later, false, || true));
        assert!(!may_end_soon(ORPHANS, true, || true), "not without end");
    }
}
