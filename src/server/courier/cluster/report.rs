//! What the threads tell the owner of the links.
//!
//! Invariant: the owner is woken after each report that it has to act on.

use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::Sender;
use std::time::Duration;
use std::{fmt, io, thread};

use super::fault::ClusterFault;
use super::message::Wake;
use super::task::Settled;
use super::topology::View;

/// Tells links apart, also those to the same node one after the other.
pub(super) type LinkNumber = u64;

/// What a thread has to say.
#[derive(Debug)]
pub(super) enum Report {
    /// A job of a link has come to its end.
    Settled { link: LinkNumber, settled: Settled },
    /// A link works; `is_changed`: its master may have lost writes since this link last worked.
    /// `learns`: it may have begun to learn just now.
    Up { link: LinkNumber, is_changed: bool, learns: bool },
    /// A link does not work.
    Down { link: LinkNumber, why: String },
    /// The master of a link that works may have lost writes.
    Changed { link: LinkNumber },
    /// The cluster looks different from a link.
    Outdated,
    /// Somebody has to mend something.
    Fault(ClusterFault),
    /// How a node sees the cluster.
    View(View),
    /// No node says how it sees the cluster.
    NoView(String),
    /// Published on a channel.
    Published { channel: u16, payload: Vec<u8> },
    /// The channels are heard, maybe with a gap before.
    Listening,
    /// A thread has ended by a defect.
    Died(Thread),
}

/// The threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Thread {
    Link(LinkNumber),
    Scout,
    Channels,
}

impl fmt::Display for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Thread::Link(number) => write!(f, "link-{number}"),
            Thread::Scout => f.write_str("scout"),
            Thread::Channels => f.write_str("channels"),
        }
    }
}

/// Where threads report.
#[derive(Clone)]
pub(super) struct Reports {
    sender: Sender<Report>,
    wake: Wake,
}

impl Reports {
    pub(super) fn new(sender: Sender<Report>, wake: Wake) -> Reports {
        Reports { sender, wake }
    }

    pub(super) fn tell(&self, report: Report) {
        self.add(report);
        self.ring();
    }

    /// Adds a report to those that the owner is woken for by [`Reports::ring`].
    pub(super) fn add(&self, report: Report) {
        // It fails only where the owner is gone.
        let _ = self.sender.send(report);
    }

    /// Wakes the owner.
    pub(super) fn ring(&self) {
        self.wake.ring();
    }
}

/// The owner learns that all threads have ended when all of these are gone.
pub(super) type Alive = Sender<Infallible>;

/// A thread that died is replaced this much later, so that a defect does not use up a processor.
const REPLACED_AFTER: Duration = Duration::from_secs(1);

/// Starts a thread, which does not die silently.
pub(super) fn spawn(
    thread: Thread,
    alive: Alive,
    reports: Reports,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let run = move || {
        let ended = catch_unwind(AssertUnwindSafe(body));
        drop(alive);
        if ended.is_err() {
            thread::sleep(REPLACED_AFTER);
            reports.tell(Report::Died(thread));
        }
    };
    thread::Builder::new().name(format!("frs-{thread}")).spawn(run)?;
    Ok(())
}
