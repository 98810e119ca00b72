//! The reports of the threads to the owner of the links.
//!
//! Invariant: the owner is woken after each report that it has to act on.

use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::Sender;
use std::time::Duration;
use std::{fmt, io, thread};

use super::fault::ClusterFault;
use super::link_events::Wake;
use super::task::Settled;
use super::topology::View;

/// The number of a link. Successive links to the same node have different numbers.
pub(super) type LinkNumber = u64;

/// A report of a thread.
#[derive(Debug)]
pub(super) enum Report {
    /// A job of a link is settled.
    Settled { link: LinkNumber, settled: Settled },
    /// A link works. `is_changed`: its master may have lost writes since this link last worked.
    /// `learns`: the master may have only just begun to learn.
    Up { link: LinkNumber, is_changed: bool, learns: bool },
    /// A link does not work.
    Down { link: LinkNumber, why: String },
    /// The master of a link that works may have lost writes.
    Changed { link: LinkNumber },
    /// A link has found that the topology is out of date.
    Outdated,
    /// A fault that somebody has to repair.
    Fault(ClusterFault),
    /// A node's view of the cluster.
    View(View),
    /// No node gives a view of the cluster.
    NoView(String),
    /// A record was published on a channel.
    Published { channel: u16, payload: Vec<u8> },
    /// The subscription works, maybe after a gap.
    Listening,
    /// A thread has ended by a bug.
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
    pub(super) sender: Sender<Report>,
    pub(super) wake: Wake,
}

impl Reports {
    pub(super) fn send(&self, report: Report) {
        self.add(report);
        self.ring();
    }

    /// Queues a report without waking the owner: [`Reports::ring`] does that.
    pub(super) fn add(&self, report: Report) {
        // It fails only if the owner is gone.
        let _ = self.sender.send(report);
    }

    /// Wakes the owner.
    pub(super) fn ring(&self) {
        (self.wake)();
    }
}

/// A sender that each thread keeps. When all of them are dropped the owner learns that all threads
/// have ended.
pub(super) type Alive = Sender<Infallible>;

/// The pause before a dead thread is replaced, so that a bug does not use up a processor.
const REPLACED_AFTER: Duration = Duration::from_secs(1);

/// Starts a thread, which reports a panic.
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
            reports.send(Report::Died(thread));
        }
    };
    thread::Builder::new().name(format!("frs-{thread}")).spawn(run)?;
    Ok(())
}
