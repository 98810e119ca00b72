//! The keeper's handle on the admin plane: a thread to start, wake and end.
//!
//! Invariant: the thread ends before the value is dropped. [`AdminPlane::check`] detects a thread
//! that ended by itself.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use mio::{Poll, Waker};

use super::accept::PlaneListeners;
use super::change_queue::MapChanges;
use super::error::AdminError;
use super::handler::{Handler, HandlerParts};
use super::inspections::InspectQueue;
use super::keeper_pulse::Pulse;
use super::recording::Recording;
use super::server::{self, Server};
use crate::process::control::ANSWER_BYTES_MAX;
use crate::process::control_stream::ControlStream;
use crate::process::log;
use crate::stats::hottest::Hottest;
use frs_base::clock;
use frs_base::sys::process::Pid;
use frs_engine::Role;
use frs_store as store;

/// The arguments of the plane.
pub struct AdminArgs {
    /// The listener of the plane, and those of metrics.
    pub listeners: PlaneListeners,
    /// The connection for requests to the master.
    pub control: UnixStream,
    /// The master's process id.
    pub master: Pid,
    /// The directory of the configuration.
    pub conf_dir: PathBuf,
    /// The directory of the store.
    pub data_dir: PathBuf,
    /// The hottest keys of the keeper's last complete sweep.
    pub hottest: Arc<Mutex<Hottest>>,
}

/// The running plane.
pub struct AdminPlane {
    thread: Option<JoinHandle<io::Result<()>>>,
    waker: Arc<Waker>,
    ending: Arc<AtomicBool>,
    /// The keeper's reports to the plane.
    pub pulse: Arc<Pulse>,
}

impl AdminPlane {
    /// Attaches to the store and starts the thread.
    ///
    /// # Errors
    /// The plane cannot attach to the store, or the kernel lacks resources.
    pub fn start(args: AdminArgs) -> Result<AdminPlane, AdminError> {
        let AdminArgs { listeners, control, master, conf_dir, data_dir, hottest } = args;
        let service = frs_cluster::attach(&data_dir, Role::Admin)?;
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), server::WAKER)?);
        let (ending, pulse) = (Arc::new(AtomicBool::new(false)), Arc::new(Pulse::default()));
        let control = ControlStream::over(control, ANSWER_BYTES_MAX)?;
        let changes = MapChanges::new(conf_dir, data_dir.clone(), control);
        let inspections = InspectQueue::start(data_dir.clone(), Arc::clone(&waker))?;
        // The file is opened before the plane is announced as ready, so that its blocks are
        // allocated by then. Listeners of metrics do not serve the history.
        let has_plane = listeners.admin.is_some();
        let recording = has_plane.then(|| Recording::open(&data_dir, clock::instant()));
        store::give_access_to_history(service.conf());
        let told = Arc::clone(&pulse);
        let parts = HandlerParts {
            service,
            changes,
            inspections,
            data_dir,
            master,
            pulse: told,
            hottest,
            recording,
        };
        let is_ending = Arc::clone(&ending);
        let thread = std::thread::Builder::new().name("frs-admin".to_owned()).spawn(move || {
            let _name = log::name_process("admin");
            Server::new(poll, listeners, Handler::new(parts), is_ending)?.run()
        })?;
        Ok(AdminPlane { thread: Some(thread), waker, ending, pulse })
    }

    /// Reports a new configuration to the plane.
    ///
    /// # Errors
    /// The kernel cannot wake the thread.
    pub fn wake(&self) -> io::Result<()> {
        self.waker.wake()
    }

    /// Checks that the thread still runs.
    ///
    /// # Errors
    /// The thread has ended. A new keeper must start another one.
    pub fn check(&self) -> io::Result<()> {
        match self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
            true => Err(io::Error::other("the admin plane has ended")),
            false => Ok(()),
        }
    }
}

impl Drop for AdminPlane {
    fn drop(&mut self) {
        // Release: pairs with the loop's Acquire load.
        self.ending.store(true, Ordering::Release);
        let _ = self.waker.wake();
        if let Some(thread) = self.thread.take() {
            match thread.join() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::error!(%error, "the admin plane has ended"),
                Err(_) => tracing::error!("the admin plane has panicked"),
            }
        }
    }
}
