//! The thread for calls of attached programs, which call by a futex that poll cannot wait on.
//!
//! Invariant: a call wakes the loop once. Then the thread waits until the loop has looked at the
//! rings.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use frs_store::Runtime;

use super::CourierError;
use super::wake::Caller;

/// The longest sleep: it bounds the time until needs that a dead program left are found.
const LONGEST: Duration = Duration::from_secs(1);

/// The thread.
#[derive(Debug)]
pub struct Programs {
    thread: Option<JoinHandle<()>>,
    is_ending: Arc<AtomicBool>,
    data_dir: PathBuf,
}

impl Programs {
    /// Starts it.
    pub fn start(data_dir: &Path, caller: Arc<Caller>) -> Result<Programs, CourierError> {
        let runtime = Runtime::open(data_dir)?;
        let is_ending = Arc::new(AtomicBool::new(false));
        let ends = is_ending.clone();
        let listen = move || {
            // Relaxed: the bell repeats it, or the longest sleep ends.
            while !ends.load(Ordering::Relaxed) {
                let bell = runtime.programs_bell();
                let rest = bell.lie_down();
                if !runtime.asking().is_any() {
                    bell.sleep(rest, LONGEST);
                }
                bell.get_up();
                if runtime.asking().is_any() {
                    caller.call();
                    thread::park_timeout(LONGEST);
                }
            }
        };
        let thread = thread::Builder::new().name("programs".to_owned()).spawn(listen)?;
        Ok(Programs { thread: Some(thread), is_ending, data_dir: data_dir.to_owned() })
    }

    /// Notes that the rings have been looked at. Needs that come from now on are another call.
    pub fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        // Relaxed: the ring of the bell comes after it.
        self.is_ending.store(true, Ordering::Relaxed);
        if let Ok(runtime) = Runtime::open(&self.data_dir) {
            runtime.programs_bell().ring();
        }
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
