//! Handlers that run before a signal ends the process: they quarantine the group of a mapped file
//! that failed, and restore a terminal that was drawn on.
//!
//! Invariant: a handler calls only async-signal-safe functions, and reads only memory that is never
//! freed.

use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use nix::libc;

use super::set_once::InternList;
use super::signal_chain::SignalChain;

/// Exit status of a process that ended because a mapped file failed.
pub const EXIT_SIGBUS: i32 = 86;

/// A map known to the SIGBUS handler: its place, the words to mark, and its name.
struct WatchedRange {
    start: AtomicUsize,
    len: AtomicUsize,
    mark: AtomicUsize,
    bits: AtomicU64,
    header_mark: AtomicUsize,
    name: AtomicUsize,
    name_len: AtomicUsize,
}

const WATCHED_MAX: usize = 4096;
static WATCHED: [WatchedRange; WATCHED_MAX] = [const {
    WatchedRange {
        start: AtomicUsize::new(0),
        len: AtomicUsize::new(0),
        mark: AtomicUsize::new(0),
        bits: AtomicU64::new(0),
        header_mark: AtomicUsize::new(0),
        name: AtomicUsize::new(0),
        name_len: AtomicUsize::new(0),
    }
}; WATCHED_MAX];

/// The handler of SIGBUS, in front of the program's own action. It is in place while a map is
/// registered.
static SIGBUS: SignalChain = SignalChain::new(on_sigbus);

/// Keeps a map registered with the SIGBUS handler. Dropping it removes the map.
#[derive(Debug)]
pub struct Watch {
    index: usize,
    start: usize,
}

/// Registers a map of a file. If the file fails (a page is gone or cannot be read), the handler
/// sets `bits` in `mark`, sets the header's quarantine word, names the file on standard error, and
/// ends the process with [`EXIT_SIGBUS`].
///
/// `mark` and `header_mark` must stay mapped as long as the [`Watch`] lives. The caller keeps the
/// watch beside the regions they are in, and drops it first.
pub fn watch(
    addresses: Range<usize>,
    mark: &AtomicU64,
    bits: u64,
    header_mark: &AtomicU64,
    path: &Path,
) -> Option<Watch> {
    let name = kept_name(path);
    let (start, len) = (addresses.start, addresses.len());
    let index = WATCHED.iter().position(|entry| {
        entry.len.compare_exchange(0, usize::MAX, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    })?;
    let entry = &WATCHED[index];
    entry.start.store(start, Ordering::Relaxed);
    entry.mark.store(std::ptr::from_ref(mark) as usize, Ordering::Relaxed);
    entry.bits.store(bits, Ordering::Relaxed);
    entry.header_mark.store(std::ptr::from_ref(header_mark) as usize, Ordering::Relaxed);
    entry.name.store(name.as_ptr() as usize, Ordering::Relaxed);
    entry.name_len.store(name.len(), Ordering::Relaxed);
    // Release: pairs with the Acquire in the handler.
    entry.len.store(len, Ordering::Release);
    SIGBUS.hold();
    Some(Watch { index, start })
}

/// A path as text. The handler may read it at any time, so it is never freed. Reloads open the same
/// files again and again, so each path is kept once.
fn kept_name(path: &Path) -> &'static str {
    static NAMES: InternList<Box<str>> = InternList::new();
    let name = path.display().to_string();
    NAMES.intern(|kept| **kept == *name, || name.clone().into_boxed_str())
}

/// Like [`watch`], for a map for reading. The file is named and the process ends, but nothing is
/// marked.
pub fn watch_reading(addresses: Range<usize>, path: &Path) -> Option<Watch> {
    // Words of this process, for the handler to write to.
    static MARKS: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
    watch(addresses, &MARKS[0], 0, &MARKS[1], path)
}

impl Drop for Watch {
    fn drop(&mut self) {
        let entry = &WATCHED[self.index];
        if entry.start.load(Ordering::Relaxed) == self.start {
            entry.len.store(0, Ordering::Release);
        }
        SIGBUS.release();
    }
}

/// Does only what is async-signal-safe: atomics, write, tcsetattr, _exit, sigaction, raise.
extern "C" fn on_sigbus(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    give_terminal_back();
    // SAFETY: the kernel passes a valid siginfo to an SA_SIGINFO handler of SIGBUS. Only a signal
    // of the kernel's has an address: where a process sent it, the field holds something else.
    let address = unsafe { ((*info).si_code > 0).then(|| (*info).si_addr() as usize) };
    address.into_iter().for_each(end_if_watched);
    // SAFETY: the arguments are the kernel's, and the handler returns.
    unsafe { SIGBUS.pass_on(signal, info, context) };
}

/// Marks the group of the map that contains the address, names its file and ends the process.
/// Returns if no map contains it.
fn end_if_watched(address: usize) {
    for entry in &WATCHED {
        let len = entry.len.load(Ordering::Acquire);
        let start = entry.start.load(Ordering::Relaxed);
        if len == 0 || len == usize::MAX || address < start || address - start >= len {
            continue;
        }
        write_error(b"frs: SIGBUS: cannot read ");
        let name = entry.name.load(Ordering::Relaxed) as *const u8;
        // SAFETY: `watch` stored the address and length of a leaked str.
        write_error(unsafe {
            std::slice::from_raw_parts(name, entry.name_len.load(Ordering::Relaxed))
        });
        let bits = entry.bits.load(Ordering::Relaxed);
        write_error(if bits == 0 { b"\n" } else { b"; its group is quarantined\n" });
        let mark = entry.mark.load(Ordering::Relaxed) as *const AtomicU64;
        // SAFETY: `watch` requires that the word outlives the registration.
        unsafe { (*mark).fetch_or(bits, Ordering::Relaxed) };
        let header_mark = entry.header_mark.load(Ordering::Relaxed) as *const AtomicU64;
        // SAFETY: as above. If this page is gone too, the kernel ends the process here. The master
        // treats both ends alike.
        unsafe { (*header_mark).store(1, Ordering::Relaxed) };
        // SAFETY: ends the process without running any more of its code.
        unsafe { libc::_exit(EXIT_SIGBUS) };
    }
}

/// The state of a terminal before a program drew on it.
struct Terminal {
    settings: libc::termios,
    undo: &'static [u8],
}

static TERMINAL: AtomicPtr<Terminal> = AtomicPtr::new(std::ptr::null_mut());

/// Stores the present settings of the terminal of standard output. Before a signal ends this
/// process, SIGBUS included, `undo` is written to the terminal and the settings are restored. A
/// full-screen program calls this once, before it begins to draw.
pub fn keep_terminal(undo: &'static [u8]) -> io::Result<()> {
    // SAFETY: a zeroed termios is valid, and the call fills it.
    let (kept, settings) = unsafe {
        let mut settings: libc::termios = std::mem::zeroed();
        (libc::tcgetattr(libc::STDOUT_FILENO, &raw mut settings), settings)
    };
    if kept != 0 {
        return Err(io::Error::last_os_error());
    }
    // Never freed, because a handler may read it at any time. Release: pairs with the Acquire
    // there.
    TERMINAL.store(Box::into_raw(Box::new(Terminal { settings, undo })), Ordering::Release);
    // For good.
    SIGBUS.hold();
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT] {
        // SAFETY: the handler does only what is async-signal-safe (write, tcsetattr, signal,
        // raise).
        unsafe { libc::signal(signal, on_end as *const () as libc::sighandler_t) };
    }
    Ok(())
}

extern "C" fn on_end(signal: libc::c_int) {
    give_terminal_back();
    // SAFETY: restores the default action, for good.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

fn give_terminal_back() {
    let terminal = TERMINAL.load(Ordering::Acquire);
    if terminal.is_null() {
        return;
    }
    // SAFETY: `keep_terminal` stored a box that is never freed. write and tcsetattr are
    // async-signal-safe. TTOU is ignored, because it would stop this process in the background.
    unsafe {
        libc::signal(libc::SIGTTOU, libc::SIG_IGN);
        let undo = (*terminal).undo;
        libc::write(libc::STDOUT_FILENO, undo.as_ptr().cast(), undo.len());
        libc::tcsetattr(libc::STDOUT_FILENO, libc::TCSANOW, &raw const (*terminal).settings);
    }
}

fn write_error(bytes: &[u8]) {
    // SAFETY: writes a slice to standard error; write is async-signal-safe.
    unsafe { libc::write(io::stderr().as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_path_is_kept_once() {
        let kept = |path: &str| super::kept_name(path.as_ref()).as_ptr();
        assert_eq!(kept("a/file"), kept("a/file"));
        assert_ne!(kept("a/file"), kept("another"));
    }
}
