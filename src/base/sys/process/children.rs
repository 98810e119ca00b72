//! Forks children, and reports their changes and ends.
//!
//! Invariant: a process forks only while it has one thread.

use std::io;

use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::{ForkResult, Pid};

/// The two sides of a fork.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forked {
    /// The old process, with the child's id.
    Parent(Pid),
    /// The new process.
    Child,
}

/// Forks. Panics if another thread runs: its locks would stay taken in the child.
pub fn fork() -> io::Result<Forked> {
    let threads = std::fs::read_dir("/proc/self/task")?.count();
    assert_eq!(threads, 1, "fork with {threads} threads");
    // SAFETY: this is the only thread (counted above), so the child's copy of the heap and of
    // every lock is whole, and it may run any code.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Parent { child } => Ok(Forked::Parent(child)),
        ForkResult::Child => Ok(Forked::Child),
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this status.
    Status(i32),
    /// By this signal.
    Signal(i32),
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Exit::Status(status) => write!(f, "exit status {status}"),
            Exit::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

/// A change of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildChange {
    /// It ended, and is reaped.
    Ended(Exit),
    /// It was stopped (SIGSTOP), or is traced.
    Stopped,
    /// It was continued.
    Continued,
}

/// The next change of any child, if there is one. Never waits.
pub fn next_change() -> io::Result<Option<(Pid, ChildChange)>> {
    let flags = WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED | WaitPidFlag::WCONTINUED;
    loop {
        return match waitpid(None, Some(flags)) {
            Ok(WaitStatus::Exited(pid, status)) => {
                Ok(Some((pid, ChildChange::Ended(Exit::Status(status)))))
            }
            Ok(WaitStatus::Signaled(pid, signal, _)) => {
                Ok(Some((pid, ChildChange::Ended(Exit::Signal(signal as i32)))))
            }
            Ok(WaitStatus::Stopped(pid, _)) => Ok(Some((pid, ChildChange::Stopped))),
            Ok(WaitStatus::Continued(pid)) => Ok(Some((pid, ChildChange::Continued))),
            Ok(WaitStatus::StillAlive) | Err(nix::errno::Errno::ECHILD) => Ok(None),
            Ok(_) | Err(nix::errno::Errno::EINTR) => continue,
            Err(errno) => Err(errno.into()),
        };
    }
}

/// Waits for the end of one child and reaps it.
pub fn wait_for(pid: Pid) -> io::Result<Exit> {
    loop {
        match waitid(Id::Pid(pid), WaitPidFlag::WEXITED) {
            Ok(WaitStatus::Exited(_, status)) => return Ok(Exit::Status(status)),
            Ok(WaitStatus::Signaled(_, signal, _)) => return Ok(Exit::Signal(signal as i32)),
            Ok(_) | Err(nix::errno::Errno::EINTR) => continue,
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Field `number` (from 3 on) of proc_pid_stat(5). None if there is no such process.
pub(in crate::sys) fn stat_field(pid: Pid, number: usize) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The process name before it may contain any character, also brackets.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(number - 3).map(str::to_owned)
}

/// Whether a process has ended, or the kernel is ending it.
pub fn is_ending(pid: Pid) -> bool {
    const PF_EXITING: u64 = 4;
    let flags = stat_field(pid, 9).and_then(|flags| flags.parse::<u64>().ok());
    flags.is_none_or(|flags| flags & PF_EXITING != 0)
}

/// The parent of a process.
pub fn parent_of(pid: Pid) -> Option<Pid> {
    stat_field(pid, 4)?.parse().ok().map(Pid::from_raw)
}
