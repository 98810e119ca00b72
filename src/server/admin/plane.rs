//! The admin plane as the keeper has it: a thread that is started, woken and ended.
//!
//! Invariant: the thread ends before the value is dropped; one that ended by itself is noticed by
//! [`Admin::check`].

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use mio::{Poll, Waker};

use super::change_queue::MapChanges;
use super::error::AdminError;
use super::handler::{Handler, HandlerParts};
use super::inspections::InspectQueue;
use super::pulse::Pulse;
use super::server::{self, Server};
use crate::net::listeners::AdminListener;
use crate::process::log;
use crate::stats::hottest::Hottest;
use frs::base::sys::process::{Channel, Pid};
use frs::service::{Role, Service};

/// What the plane needs of the keeper.
pub struct AdminArgs {
    /// Its listener.
    pub listener: AdminListener,
    /// To the master.
    pub channel: Channel,
    /// The master.
    pub master: Pid,
    /// Where the configuration is.
    pub conf_dir: PathBuf,
    /// Where the store is.
    pub data_dir: PathBuf,
    /// The hottest keys, as the keeper's last look at all nodes found them.
    pub hottest: Arc<Mutex<Hottest>>,
}

/// The running plane.
pub struct Admin {
    thread: Option<JoinHandle<io::Result<()>>>,
    waker: Arc<Waker>,
    ending: Arc<AtomicBool>,
    /// What the keeper tells it.
    pub pulse: Arc<Pulse>,
}

impl Admin {
    /// Attaches to the store and starts the thread.
    ///
    /// # Errors
    /// It cannot attach, or the kernel has no room for it.
    pub fn start(args: AdminArgs) -> Result<Admin, AdminError> {
        let AdminArgs { listener, channel, master, conf_dir, data_dir, hottest } = args;
        let service = Service::attach(&data_dir, Role::Admin)?;
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), server::WAKER)?);
        let (ending, pulse) = (Arc::new(AtomicBool::new(false)), Arc::new(Pulse::default()));
        let changes = MapChanges::new(conf_dir, data_dir.clone(), channel);
        let inspections = InspectQueue::start(data_dir.clone(), Arc::clone(&waker))?;
        let told = Arc::clone(&pulse);
        let parts =
            HandlerParts { service, changes, inspections, data_dir, master, pulse: told, hottest };
        let is_ending = Arc::clone(&ending);
        let thread = std::thread::Builder::new().name("frs-admin".to_owned()).spawn(move || {
            let _name = log::name_process("admin");
            Server::new(poll, listener, Handler::new(parts), is_ending)?.run()
        })?;
        Ok(Admin { thread: Some(thread), waker, ending, pulse })
    }

    /// There is a new configuration.
    ///
    /// # Errors
    /// The kernel does not let it be told.
    pub fn wake(&self) -> io::Result<()> {
        self.waker.wake()
    }

    /// Is it still there.
    ///
    /// # Errors
    /// It has ended: another keeper is to start another one.
    pub fn check(&self) -> io::Result<()> {
        match self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
            true => Err(io::Error::other("the admin plane has ended")),
            false => Ok(()),
        }
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        // Release: pairs with the loop's look at it.
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
