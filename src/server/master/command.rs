//! The commands that ask a running master: reload, stop, status.
//!
//! Invariant: a command finds its master by the data directory's lock, never by a process id in a
//! file. It signals or asks only the process that it has checked. From the configuration it reads
//! only the path of that directory, unless a setting from outside names it. So a server can be
//! stopped, inspected and reloaded whatever else the files contain.

use frs_base::causes::with_causes;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::stale_processes;
use crate::process::control::{Ask, Loss, Reloaded};
use crate::process::control_stream::{ControlStream, NAME};
use crate::process::data_lock::{self, LockError};
use crate::stats::peers::{self, PeerSnapshot};
use crate::stats::snapshot::role_word;
use frs_base::clock;
use frs_base::sys::process::{Pid, Signal, pidfd_open, pidfd_send_signal};
use frs_conf::active::{self, ActiveError};
use frs_conf::{Conf, Faults, Listen, Settings, Srv};
use frs_engine::Role;
use frs_store::{self as store, CheckpointFacts, RequestedPass, Runtime, SlotStatus};

/// Time limit for the answer to a reload: two seconds for laggards, the rest for new groups.
const RELOAD: Duration = Duration::from_secs(60);
/// Time limit for the faults of a refused reload in a status.
const REFUSAL: Duration = Duration::from_secs(1);
/// How long the socket of a running master may be missing, or that of another process: the master
/// has just started or taken over.
const NO_SOCKET: Duration = Duration::from_secs(5);
/// Time limit for the end. The master ends within five seconds, except for writing files back and
/// for the last checkpoint.
const STOP: Duration = Duration::from_secs(300);
/// Time limit for a checkpoint: the present one may have to end before the requested one.
const CHECKPOINT: Duration = Duration::from_secs(3600);
/// How long the keeper may be stopped by a signal while a command waits for it.
const KEEPER_STOPPED: Duration = Duration::from_secs(2);
/// How long there may be no keeper. A keeper that dies repeatedly is started again after 10 s at
/// most.
const KEEPER_ABSENT: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// The role with which the child that prepares the store attaches.
const PREPARE: u32 = 0;

/// Why a command got no answer.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// srv.xml does not give the data directory.
    #[error("{0}\nwithout the data directory frs cannot find the server")]
    Faults(#[from] Faults),
    /// There is no master, or the command cannot find it.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The master cannot be signalled.
    #[error("cannot signal the master (process {pid}): {source}")]
    Signal {
        /// The master.
        pid: Pid,
        /// The reason.
        source: io::Error,
    },
    /// There is no way to ask the master.
    #[error(
        "cannot ask the master (process {pid}) over {}: {source}: it may be of an earlier version, \
         or its log says why; kill -HUP {pid} has it reload as well",
        path.display()
    )]
    Control {
        /// The master.
        pid: Pid,
        /// The socket.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The user of the command may not ask the master.
    #[error(
        "cannot ask the master (process {pid}) over {}: only root and the server's user may",
        path.display()
    )]
    Denied {
        /// The master.
        pid: Pid,
        /// The socket.
        path: PathBuf,
    },
    /// The master ended meanwhile.
    #[error("the master (process {pid}) has ended")]
    Ended {
        /// The master.
        pid: Pid,
    },
    /// The master does not answer.
    #[error("the master (process {pid}) has not answered for {} s", waited.as_secs())]
    Silent {
        /// The master.
        pid: Pid,
        /// The time waited.
        waited: Duration,
    },
    /// The server makes no checkpoints.
    #[error("srv.xml has no <data checkpoint>: this server makes no checkpoints")]
    NoCheckpoints,
    /// The keeper, which makes checkpoints, is stopped by a signal.
    #[error(
        "no checkpoint: the keeper (process {pid}) is stopped by a signal and does not answer: \
         continue it (kill -CONT {pid}), or kill it and the server starts another one"
    )]
    KeeperStopped {
        /// The keeper.
        pid: u32,
    },
    /// There is no keeper.
    #[error(
        "no checkpoint: for {} s the server has had no keeper, which makes them: the log says why",
        waited.as_secs()
    )]
    NoKeeper {
        /// The time waited.
        waited: Duration,
    },
    /// A checkpoint was not made.
    #[error("no checkpoint of {}: the log says why", groups.join(", "))]
    NotMade {
        /// The groups.
        groups: Vec<String>,
    },
    /// The last checkpoint was not made.
    #[error(
        "process {pid} has stopped, and its last checkpoint was not made: the log says why; what \
         was used since the one before is in the live files only"
    )]
    NotSaved {
        /// The master.
        pid: Pid,
    },
    /// The files could not be written to the disk.
    #[error(
        "process {pid} has stopped, but not all that was counted is on the disk: the log says why; \
         after a loss of power, what was used since the last complete flush may be missing"
    )]
    NotOnDisk {
        /// The master.
        pid: Pid,
    },
    /// Nobody is there to take the keys over.
    #[error(
        "process {pid} runs on: no peer can take its keys over: {}; `frs stop` stops it all the same",
        found.join(", ")
    )]
    NoHeir {
        /// The master.
        pid: Pid,
        /// What is known of each peer.
        found: Vec<String>,
    },
    /// The store's status cannot be read.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The configuration in force cannot be read.
    #[error("{}", with_causes(.0))]
    Active(#[from] ActiveError),
}

/// The master that holds the lock of a data directory.
pub struct RunningMaster {
    data_dir: PathBuf,
    pid: Pid,
}

/// A checkpoint that was made.
#[derive(Debug)]
pub struct MadeCheckpoint {
    /// The group's name.
    pub name: String,
    /// The number of the checkpoint in its group.
    pub number: u64,
    /// Pages that were written for it.
    pub written_pages: u64,
}

impl RunningMaster {
    /// Finds the master of the data directory that the configuration names.
    ///
    /// # Errors
    /// The directory is unknown, or no master holds its lock.
    pub fn find(conf_dir: &Path, settings: &Settings) -> Result<RunningMaster, CommandError> {
        let data_dir = Conf::data_dir(conf_dir, settings)?;
        let pid = data_lock::holder(&data_dir)?;
        Ok(RunningMaster { data_dir, pid })
    }

    /// Has the master reload its configuration. `lossy`: nodes that do not fit a changed geometry
    /// may be lost.
    ///
    /// # Errors
    /// There is no answer. A refused configuration is an answer.
    pub fn reload(&self, lossy: bool) -> Result<Reloaded, CommandError> {
        let loss = if lossy { Loss::Allowed } else { Loss::Refused };
        self.ask(RELOAD, Ask::Reload(loss.into()))
    }

    /// Has the keeper make a checkpoint of all groups, and waits until it is on the disk.
    ///
    /// # Errors
    /// The server makes no checkpoints, or a group has no new checkpoint.
    pub fn checkpoint(&self) -> Result<Vec<MadeCheckpoint>, CommandError> {
        let runtime = Runtime::open(&self.data_dir)?;
        let conf = active::read(&self.data_dir, runtime.generation())?;
        if conf.srv.data.checkpoint.is_none() {
            return Err(CommandError::NoCheckpoints);
        }
        let names = || conf.map.groups.iter().map(|group| group.name.clone());
        let facts = |name: &str| store::checkpoint_facts(&self.data_dir, name);
        let before: Vec<u64> = names().map(|name| facts(&name).map_or(0, |of| of.number)).collect();
        let request = runtime.request_checkpoint();
        let mut keeper = KeeperWatch::default();
        let result = self.wait(CHECKPOINT, || match runtime.requested_pass(request) {
            Some(result) => Ok(Some(result)),
            None => keeper.look(&runtime, clock::instant()).map(|()| None),
        })?;
        let (mut made, mut not_made) = (Vec::new(), Vec::new());
        for (name, before) in names().zip(before) {
            match facts(&name).filter(|of| of.number > before) {
                Some(CheckpointFacts { number, written_pages, .. }) => {
                    made.push(MadeCheckpoint { name, number, written_pages });
                }
                None => not_made.push(name),
            }
        }
        match result {
            RequestedPass::Made if not_made.is_empty() => Ok(made),
            RequestedPass::Made | RequestedPass::Failed => {
                Err(CommandError::NotMade { groups: not_made })
            }
        }
    }

    /// Whether a peer has all records, so that it can take the keys over.
    ///
    /// # Errors
    /// There is none, or the server's files cannot be read.
    pub fn expect_heir(&self) -> Result<(), CommandError> {
        let runtime = Runtime::open_for_reading(&self.data_dir)?;
        let conf = active::read(&self.data_dir, runtime.generation())?;
        let peers = peers::of(&runtime, &conf).map_or(Vec::new(), |mirror| mirror.peers);
        if peers.iter().any(|peer| peer.state.is_up && peer.state.is_compared) {
            return Ok(());
        }
        let found = peers.iter().map(|PeerSnapshot { address, state }| match state.is_up {
            true => format!("{address} is being compared"),
            false => format!("{address} does not answer"),
        });
        let mut found: Vec<String> = found.collect();
        if found.is_empty() {
            found.push("srv.xml has no <peers>".to_owned());
        }
        Err(CommandError::NoHeir { pid: self.pid, found })
    }

    /// Has the master stop, waits until it has, and returns its process id.
    ///
    /// # Errors
    /// It does not stop, or it has stopped without a last checkpoint or without all files on the
    /// disk.
    pub fn stop(&self) -> Result<Pid, CommandError> {
        let pid = self.pid;
        let open = || Runtime::open_for_reading(&self.data_dir).ok();
        let conf =
            open().and_then(|runtime| active::read(&self.data_dir, runtime.generation()).ok());
        let is_to_save = conf.is_some_and(|conf| conf.srv.data.checkpoint.is_some());
        self.signal(Signal::SIGTERM)?;
        let ended = self.wait(STOP, || Ok(None));
        // Opened again: a start may have replaced the file meanwhile.
        let runtime = open();
        let has_failed = |failed: fn(&Runtime) -> bool| runtime.as_ref().is_some_and(failed);
        match ended {
            Ok(_) | Err(CommandError::Ended { .. })
                if is_to_save && has_failed(|of| of.checkpoints_failing_since().is_some()) =>
            {
                Err(CommandError::NotSaved { pid })
            }
            Err(CommandError::Ended { .. }) if has_failed(Runtime::flush_failed) => {
                Err(CommandError::NotOnDisk { pid })
            }
            Err(CommandError::Ended { .. }) => Ok(pid),
            other => other,
        }
    }

    /// Describes the running server in lines of text.
    ///
    /// # Errors
    /// Its files cannot be read.
    pub fn status(&self) -> Result<String, CommandError> {
        let runtime = Runtime::open_for_reading(&self.data_dir)?;
        let generation = runtime.generation();
        // Its addresses may differ from those in the files now.
        let conf = active::read(&self.data_dir, generation)?;
        let mut text = format!("master       process {}\ngeneration   {generation}\n", self.pid);
        addresses(&conf.srv).for_each(|(what, listen)| {
            text += &format!("{what:<12} {listen}\n");
        });
        if runtime.is_reload_refused() {
            text += &refused_lines(self.ask(REFUSAL, Ask::Refusal), generation);
        }
        runtime.slots().iter().for_each(|slot| text += &slot_line(slot, generation));
        let mirror = peers::of(&runtime, &conf);
        text += &mirror.map_or(String::new(), |mirror| mirror.lines());
        Ok(text)
    }

    /// Asks the master, and waits for its answer.
    fn ask(&self, bound: Duration, ask: Ask) -> Result<Reloaded, CommandError> {
        let (mut stream, mut failing_since) = (None, None);
        self.wait(bound, || {
            let source = match self.look_for_answer(&mut stream, ask) {
                Ok(answer) => return Ok(answer),
                // Many other commands wait for the master.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => error,
            };
            let (pid, path) = (self.pid, self.data_dir.join(NAME));
            let since = *failing_since.get_or_insert_with(clock::instant);
            match source.kind() {
                io::ErrorKind::PermissionDenied => Err(CommandError::Denied { pid, path }),
                // A master that starts has no socket yet. One that ends closes its connections
                // before it gives up its lock.
                kind if kind != io::ErrorKind::InvalidData && clock::since(since) < NO_SOCKET => {
                    Ok(None)
                }
                _ => Err(CommandError::Control { pid, path, source }),
            }
        })
    }

    /// Sends a request if there is no connection yet, and looks for the answer. A connection that
    /// has ended is not replaced, so the request is sent once.
    fn look_for_answer(
        &self,
        stream: &mut Option<ControlStream>,
        ask: Ask,
    ) -> io::Result<Option<Reloaded>> {
        let stream = match stream {
            Some(stream) => stream,
            none => {
                let stream = none.insert(ControlStream::connect(&self.data_dir, self.pid)?);
                stream.send(0, &ask.to_text())?;
                stream
            }
        };
        let Some(message) = stream.receive()? else { return Ok(None) };
        let answer = Reloaded::of_text(&message.text);
        answer.map(Some).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    fn signal(&self, signal: Signal) -> Result<(), CommandError> {
        let pid = self.pid;
        let failed = |source| CommandError::Signal { pid, source };
        let process = pidfd_open(pid).map_err(failed)?;
        // The id may be another process's by now. The process that was opened held the lock after
        // it was opened, or it gets no signal.
        if data_lock::holder(&self.data_dir)? != pid {
            return Err(CommandError::Ended { pid });
        }
        pidfd_send_signal(&process, signal).map_err(failed)
    }

    /// Looks for an answer until there is one, the master has ended, or the time limit has passed.
    fn wait<T>(
        &self,
        bound: Duration,
        mut look: impl FnMut() -> Result<Option<T>, CommandError>,
    ) -> Result<T, CommandError> {
        let (pid, begun) = (self.pid, clock::instant());
        loop {
            // Read before the look: an answer is then seen even if the master ends right after
            // writing it.
            let holder = data_lock::holder(&self.data_dir);
            if let Some(answer) = look()? {
                return Ok(answer);
            }
            match holder {
                Ok(holder) if holder == pid => {}
                Ok(_) | Err(LockError::Free { .. }) => return Err(CommandError::Ended { pid }),
                // The master empties the file as its last step: it is about to end.
                Err(_) => {}
            }
            let waited = clock::since(begun);
            if waited > bound {
                return Err(CommandError::Silent { pid, waited });
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

/// Notices a keeper that cannot answer.
#[derive(Default)]
struct KeeperWatch {
    stopped_since: Option<Instant>,
    absent_since: Option<Instant>,
}

impl KeeperWatch {
    fn look(&mut self, runtime: &Runtime, now: Instant) -> Result<(), CommandError> {
        let slots = runtime.slots();
        let is_keeper = |slot: &&SlotStatus| slot.alive && slot.role == Role::Keeper as u32;
        let keeper = slots.iter().find(is_keeper).map(|slot| slot.pid);
        let stopped = keeper.filter(|&pid| stale_processes::is_stopped(pid));
        let since = |since: &mut Option<Instant>, is_so: bool| {
            *since = is_so.then(|| since.unwrap_or(now));
            since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
        };
        let waited = since(&mut self.absent_since, keeper.is_none());
        if waited > KEEPER_ABSENT {
            return Err(CommandError::NoKeeper { waited });
        }
        let for_long = since(&mut self.stopped_since, stopped.is_some()) > KEEPER_STOPPED;
        match stopped.filter(|_| for_long) {
            Some(pid) => Err(CommandError::KeeperStopped { pid }),
            None => Ok(()),
        }
    }
}

/// The lines of a reload that was refused: the files are others than those in force.
fn refused_lines(last: Result<Reloaded, CommandError>, generation: u64) -> String {
    let mut text = format!("reload       refused: generation {generation} stays in force\n");
    let faults = match last {
        Ok(Reloaded::Refused { faults, .. }) => faults,
        Ok(Reloaded::Taken { .. }) => Vec::new(),
        Err(error) => vec![format!("the log has its faults: {error}")],
    };
    faults.iter().for_each(|fault| text += &format!("             {fault}\n"));
    text
}

/// All addresses, each with the service on it.
fn addresses(srv: &Srv) -> impl Iterator<Item = (&'static str, &Listen)> {
    let listens = srv.listen.iter().map(|endpoint| ("listens on", &endpoint.listen));
    let resps = srv.resps.iter().map(|resp| ("RESP on", &resp.listen));
    let rls = srv.rls.iter().map(|rls| ("Envoy on", &rls.listen));
    let admin = srv.admins.iter().map(|admin| ("admin plane", &admin.listen));
    let metrics = srv.metrics.iter().map(|endpoint| ("metrics", &endpoint.listen));
    listens.chain(resps).chain(rls).chain(admin).chain(metrics)
}

/// The line of an attached process. `generation` is the one in force.
fn slot_line(slot: &SlotStatus, generation: u64) -> String {
    let role = role_word(slot.role);
    let state = match slot.generation {
        _ if !slot.alive => ", dead".to_owned(),
        // It works on groups that are not in force yet.
        _ if slot.role == PREPARE => String::new(),
        0 => ", starting".to_owned(),
        acknowledged if acknowledged < generation => format!(", generation {acknowledged}, behind"),
        acknowledged => format!(", generation {acknowledged}"),
    };
    let retired = match slot.retired {
        0 => String::new(),
        _ if !slot.alive => String::new(),
        1 => ", 1 former group mapped".to_owned(),
        groups => format!(", {groups} former groups mapped"),
    };
    format!("{role:<12} process {}{state}{retired}\n", slot.pid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::control::Cause;

    #[test]
    fn a_refused_reload_is_told_with_its_faults() {
        let faults = vec!["map.xml:1:2: a".to_owned(), "b".to_owned()];
        let last = Reloaded::Refused { cause: Cause::Fault, faults };
        let text = refused_lines(Ok(last), 7);
        let lines: Vec<&str> = text.lines().collect();
        let first = "reload       refused: generation 7 stays in force";
        assert_eq!(lines, [first, "             map.xml:1:2: a", "             b"]);
    }

    // Shows: former-files.
    #[test]
    fn lines_show_role_generation_and_who_is_dead() {
        let line = |role, generation, alive| {
            slot_line(&SlotStatus { slot: 3, pid: 17, role, generation, alive, retired: 0 }, 5)
        };
        let (worker, keeper) = (Role::Worker as u32, Role::Keeper as u32);
        assert_eq!(line(worker, 5, true), "worker       process 17, generation 5\n");
        assert_eq!(line(worker, 4, true), "worker       process 17, generation 4, behind\n");
        assert_eq!(line(worker, 0, true), "worker       process 17, starting\n");
        assert_eq!(line(worker, 5, false), "worker       process 17, dead\n");
        assert_eq!(line(keeper, 5, true), "keeper       process 17, generation 5\n");
        assert_eq!(line(Role::Program as u32, 5, true), "program      process 17, generation 5\n");
        assert_eq!(line(Role::Admin as u32, 5, true), "admin        process 17, generation 5\n");
        let envoy = Role::Envoy as u32;
        assert_eq!(line(envoy, 5, true), "envoy        process 17, generation 5\n");
        assert_eq!(line(PREPARE, 0, true), "prepare      process 17\n");
        assert_eq!(line(PREPARE, 0, false), "prepare      process 17, dead\n");
        let retired = |retired, alive| {
            let (slot, pid, generation) = (3, 17, 5);
            slot_line(&SlotStatus { slot, pid, role: worker, generation, alive, retired }, 5)
        };
        assert_eq!(
            retired(1, true),
            "worker       process 17, generation 5, 1 former group mapped\n"
        );
        assert_eq!(
            retired(2, true),
            "worker       process 17, generation 5, 2 former groups mapped\n"
        );
        assert_eq!(retired(2, false), "worker       process 17, dead\n");
        assert_eq!(line(77, 5, true), "unknown      process 17, generation 5\n");
    }
}
