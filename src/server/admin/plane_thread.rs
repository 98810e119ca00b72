//! The keeper's handle on the admin plane: a thread to start, wake and end.
//!
//! Invariant: the thread ends before the value is dropped. [`AdminPlane::check`] detects a thread
//! that ended by itself.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use mio::{Poll, Waker};

use super::accept::PlaneListeners;
use super::handler::{AdminArgs, AdminError, Handler};
use super::keeper_pulse::Pulse;
use super::server::{self, Server};
use crate::process::log;

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
    pub fn start(listeners: PlaneListeners, args: AdminArgs) -> Result<AdminPlane, AdminError> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), server::WAKER)?);
        let (ending, pulse) = (Arc::new(AtomicBool::new(false)), Arc::new(Pulse::default()));
        let (told, woken) = (Arc::clone(&pulse), Arc::clone(&waker));
        let mut handler = Handler::attach(args, &listeners, told, woken)?;
        let is_ending = Arc::clone(&ending);
        let thread = std::thread::Builder::new().name("frs-admin".to_owned()).spawn(move || {
            let _name = log::name_process("admin");
            handler.begin();
            Server::new(poll, listeners, handler, is_ending)?.run()
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
