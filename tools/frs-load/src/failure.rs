//! Failures: why a run ends early.
//!
//! Invariant: each names what was found, and a wrong answer is shown with its request.

use std::io;
use std::time::Duration;

use crate::target::Target;

/// The longest silence of all connections of a thread while answers are outstanding.
pub const SILENCE: Duration = Duration::from_secs(10);

/// The reason for which a run ends early.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The server cannot be reached.
    #[error("cannot connect to {target}: {source}")]
    Connect { target: Target, source: io::Error },
    /// The server accepts connections and does not answer.
    #[error("no answer for {} s", SILENCE.as_secs())]
    Silent,
    /// The server closed every connection without an answer.
    #[error("no request was answered: {items} items were lost with their connections")]
    Unanswered { items: u64 },
    /// The server sent an answer that the protocol forbids.
    #[error("wrong answer: {what}\n--- asked\n{asked}\n--- answered\n{answered}")]
    Wrong { what: String, asked: String, answered: String },
    /// A server closed a connection of prepared requests, whose answers nobody can count then.
    #[error("the server closed a connection with {unanswered} unanswered requests")]
    Closed { unanswered: u64 },
    /// A server does not keep up with prepared bursts.
    #[error("not kept up with: {unsent} requests were due and not sent")]
    Late { unsent: u64 },
    /// The drawing cannot be written.
    #[error("cannot write the plot: {0}")]
    Plot(io::Error),
    /// The latencies cannot be written.
    #[error("cannot write the latencies: {0}")]
    Latencies(io::Error),
    /// A system call failed that every run needs.
    #[error("{0}")]
    Kernel(#[from] io::Error),
}

/// The beginning of a request or an answer, line by line.
pub fn shown(bytes: &[u8]) -> String {
    const SHOWN: usize = 2048;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]);
    let plain = |c: char| if c == '\n' || !c.is_control() { c } else { '\u{FFFD}' };
    let lines: String = text.replace("\r\n", "\n").chars().map(plain).collect();
    format!("{}{}", lines.trim_end(), if bytes.len() > SHOWN { " …" } else { "" })
}
