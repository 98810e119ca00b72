//! Sends, ignores and reads signals.
//!
//! Invariant: no code runs in a signal handler. A signal that is not ignored is read like a file.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;

/// Sends a signal.
pub fn signal(pid: Pid, signal: Signal) -> io::Result<()> {
    Ok(nix::sys::signal::kill(pid, signal)?)
}

/// Asks the kernel to send this process `signal` when its parent dies. Then checks that `parent` is
/// still the parent: false if it died before. To be called after any change of user, which cancels
/// the request.
pub fn follow_parent(parent: Pid, signal: Signal) -> io::Result<bool> {
    nix::sys::prctl::set_pdeathsig(signal)?;
    Ok(nix::unistd::getppid() == parent)
}

/// Ignores a signal, in this process and its forked children.
pub fn ignore(signal: Signal) -> io::Result<()> {
    // SAFETY: SIG_IGN runs none of our code.
    unsafe { nix::sys::signal::signal(signal, SigHandler::SigIgn) }?;
    Ok(())
}

/// Restores the default action of a signal. Without this, an exec passes on that it is ignored.
pub fn stop_ignoring(signal: Signal) -> io::Result<()> {
    // SAFETY: SIG_DFL runs none of our code.
    unsafe { nix::sys::signal::signal(signal, SigHandler::SigDfl) }?;
    Ok(())
}

/// Signals that are read, not handled.
pub struct Signals(SignalFd);

impl Signals {
    /// Blocks exactly the signals of `read` and makes them readable here. Ignores those of
    /// `ignored`.
    pub fn take(read: &[Signal], ignored: &[Signal]) -> io::Result<Signals> {
        ignored.iter().try_for_each(|&signal| ignore(signal))?;
        let mut set = SigSet::empty();
        read.iter().for_each(|&signal| set.add(signal));
        nix::sys::signal::sigprocmask(SigmaskHow::SIG_SETMASK, Some(&set), None)?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        Ok(Signals(SignalFd::with_flags(&set, flags)?))
    }

    /// The next pending signal.
    pub fn next(&self) -> io::Result<Option<Signal>> {
        match self.0.read_signal()? {
            Some(info) => Ok(Signal::try_from(info.ssi_signo as i32).ok()),
            None => Ok(None),
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
