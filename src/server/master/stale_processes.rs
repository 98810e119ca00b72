//! Stale processes: a killed master left them and they are stopped (SIGSTOP). They cannot notice
//! that the master is gone, and hold their addresses, slots and key-nodes until they are continued.
//!
//! Invariant: a process is killed only if it is stopped, has a slot of the data directory whose
//! lock this master holds, maps its runtime.mmap, and has lost its master: its parent does not map
//! that file, as every master does. Programs are left alone: only their owners know their purpose.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use frs_base::sys::process::{Pid, PollFd, PollFlags, Signal, pidfd_open, pidfd_send_signal, poll};
use frs_engine::Role;
use frs_store::{LINGERING, Runtime, SlotStatus};

/// Kills every stopped child of an earlier master. Call it only while the directory's lock is held
/// and there is no older master to take over from.
pub(super) fn end_stopped(runtime: &Runtime) {
    const OURS: [Role; 5] = [Role::Worker, Role::Keeper, Role::Admin, Role::Cluster, Role::Envoy];
    let is_ours =
        |slot: &SlotStatus| slot.alive && OURS.map(|role| role as u32).contains(&slot.role);
    for slot in runtime.slots().into_iter().filter(is_ours) {
        match end_if_stopped(runtime, &slot) {
            Ok(true) => tracing::warn!(
                pid = slot.pid,
                slot = slot.slot,
                "killed a stopped process of a dead master"
            ),
            Ok(false) => {}
            Err(error) => {
                tracing::debug!(pid = slot.pid, %error, "cannot look at a process that is attached");
            }
        }
    }
}

/// Whether a process is stopped by a signal.
pub(super) fn is_stopped(pid: u32) -> bool {
    OrphanProcess::of(pid).is_ok_and(|process| process.state == 'T')
}

/// Returns whether it killed the process.
fn end_if_stopped(runtime: &Runtime, slot: &SlotStatus) -> io::Result<bool> {
    let Some(pid) = i32::try_from(slot.pid).ok().filter(|&pid| pid > 0) else {
        return Ok(false);
    };
    // Opened before any check. Either the checks describe the process that is killed. Or that
    // process is gone and they describe a later one with its id, but then the signal reaches no
    // process.
    let handle = pidfd_open(Pid::from_raw(pid))?;
    let process = OrphanProcess::of(slot.pid)?;
    if process.state != 'T' {
        return Ok(false);
    }
    // A master that has handed over lives until its processes have ended.
    if is_master(process.parent, runtime.path()) || !maps(slot.pid, runtime.path())? {
        return Ok(false);
    }
    let is_same = |now: &SlotStatus| now.slot == slot.slot && now.pid == slot.pid && now.alive;
    if !runtime.slots().iter().any(is_same) {
        return Ok(false);
    }
    pidfd_send_signal(&handle, Signal::SIGKILL)?;
    // Its addresses and locks are released when it ends.
    poll(&mut [PollFd::new(handle.as_fd(), PollFlags::POLLIN)], Some(LINGERING))?;
    Ok(true)
}

/// Whether the parent of a process is another master of the store with this file. A process may
/// have another name than its master: it may be another program.
fn is_master(parent: u32, path: &Path) -> bool {
    // This master has not forked yet, so a child of it was adopted.
    if parent == std::process::id() {
        return false;
    }
    maps(parent, path).unwrap_or_else(|_| {
        // Its maps belong to another user: usually root's init, which is not frs.
        let name = |pid: u32| OrphanProcess::of(pid).map(|process| process.name);
        matches!((name(parent), name(std::process::id())), (Ok(one), Ok(this)) if one == this)
    })
}

/// A process as /proc describes it.
#[derive(Debug, PartialEq, Eq)]
struct OrphanProcess {
    name: String,
    state: char,
    parent: u32,
}

impl OrphanProcess {
    fn of(pid: u32) -> io::Result<OrphanProcess> {
        let stat = std::fs::read(format!("/proc/{pid}/stat"))?;
        let stat = String::from_utf8_lossy(&stat);
        Self::parse(&stat).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Parses a line `PID (NAME) STATE PARENT …`. The name may hold any characters.
    fn parse(stat: &str) -> Option<OrphanProcess> {
        let (before, rest) = stat.rsplit_once(") ")?;
        let mut fields = rest.split(' ');
        let name = before.split_once('(')?.1.to_owned();
        let state = fields.next()?.chars().next()?;
        Some(OrphanProcess { name, state, parent: fields.next()?.parse().ok()? })
    }
}

/// Whether a process maps this file.
fn maps(pid: u32, path: &Path) -> io::Result<bool> {
    let inode = std::fs::metadata(path)?.ino().to_string();
    let maps = std::fs::read(format!("/proc/{pid}/maps"))?;
    // ADDRESSES PERMISSIONS OFFSET DEVICE INODE PATH: some file systems give another device here.
    let maps = String::from_utf8_lossy(&maps);
    Ok(maps.lines().any(|line| line.split_ascii_whitespace().nth(4) == Some(&inode)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name_is() {
        for (stat, name, state, parent) in [
            ("17 (frs) T 1 17 17 0", "frs", 'T', 1),
            ("17 (a) S 9 (b) S 12 17 17 0", "a) S 9 (b", 'S', 12),
        ] {
            let expected = OrphanProcess { name: name.to_owned(), state, parent };
            assert_eq!(OrphanProcess::parse(stat), Some(expected));
        }
        for stat in ["", "17 frs T 1", "17 (frs)", "17 (frs) T", "17 (frs) T x 1"] {
            assert_eq!(OrphanProcess::parse(stat), None, "{stat:?}");
        }
        let me = OrphanProcess::of(std::process::id()).expect("there");
        assert_eq!(me.parent, std::os::unix::process::parent_id());
    }

    #[test]
    fn a_file_that_is_mapped_is_told_from_others() {
        let dir = tempfile::tempdir().expect("a directory");
        let runtime = Runtime::create_or_open(dir.path()).expect("made");
        let other = dir.path().join("other");
        std::fs::write(&other, "here").expect("written");
        assert!(maps(std::process::id(), runtime.path()).expect("read"));
        assert!(!maps(std::process::id(), &other).expect("read"));
    }
}
