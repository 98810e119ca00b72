//! Every call to the kernel that std and mio do not offer.
#![allow(unsafe_code)]

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::time::Duration;

use memmap2::MmapRaw;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use nix::sys::mman::{MapFlags, ProtFlags, mmap};
use rustix::thread::futex;

/// Exit status of a process that a mapped file failed under.
pub const EXIT_SIGBUS: i32 = 86;

/// The register of CRC-32C after three words and the rest, by the processor's own instruction; none
/// where it has none.
#[inline(always)]
pub fn crc32c_words(state: u32, [a, b, c]: [u64; 3], rest: &[u64]) -> Option<u32> {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has SSE4.2, the only thing the function asks for.
        return Some(unsafe { crc32c_words_sse42(state, a, b, c, rest) });
    }
    let _ = (state, a, b, c, rest);
    None
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
// Words by themselves come in registers: an array would be stored to be loaded again.
fn crc32c_words_sse42(state: u32, a: u64, b: u64, c: u64, rest: &[u64]) -> u32 {
    use std::arch::x86_64::_mm_crc32_u64;
    let mut state = u64::from(state);
    for word in [a, b, c] {
        state = _mm_crc32_u64(state, word);
    }
    if let [a, b, c, d, e] = *rest {
        // The rest of most nodes, without a loop.
        for word in [a, b, c, d, e] {
            state = _mm_crc32_u64(state, word);
        }
        return state as u32;
    }
    for &word in rest {
        state = _mm_crc32_u64(state, word);
    }
    state as u32
}

/// The time that a process has spent on processors, milliseconds; none if that cannot be told.
/// (Fields 14 and 15 of proc_pid_stat(5), in ticks.)
pub fn cpu_ms(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it may hold anything, brackets too.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut ticks = rest.split_ascii_whitespace().skip(11);
    let (user, system): (u64, u64) = (ticks.next()?.parse().ok()?, ticks.next()?.parse().ok()?);
    let per_s = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok()??;
    user.saturating_add(system).saturating_mul(1000).checked_div(u64::try_from(per_s).ok()?)
}

/// Sleeps while the word is `seen`, at most `limit`; woken by any process. Returns early at any
/// doubt.
pub fn futex_wait(word: &AtomicU32, seen: u32, limit: Duration) {
    let limit = futex::Timespec {
        tv_sec: limit.as_secs() as i64,
        tv_nsec: i64::from(limit.subsec_nanos()),
    };
    // No PRIVATE flag: the word is shared between processes. Every error means: look again.
    let _ = futex::wait(word, futex::Flags::empty(), seen, Some(&limit));
}

/// Wakes one process that sleeps on the word.
pub fn futex_wake_one(word: &AtomicU32) {
    let _ = futex::wake(word, futex::Flags::empty(), 1);
}

fn byte_range(kind: libc::c_int, start: u64, len: u64) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start as libc::off_t,
        l_len: len as libc::off_t,
        l_pid: 0,
    }
}

/// Takes an open-file-description lock on a byte range without blocking; false if another
/// description holds part of it.
pub fn try_lock_range(file: &File, start: u64, len: u64) -> io::Result<bool> {
    let range = byte_range(libc::F_WRLCK, start, len);
    match fcntl(file, FcntlArg::F_OFD_SETLK(&range)) {
        Ok(_) => Ok(true),
        Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Gives a lock of [`try_lock_range`] back.
pub fn unlock_range(file: &File, start: u64, len: u64) -> io::Result<()> {
    fcntl(file, FcntlArg::F_OFD_SETLK(&byte_range(libc::F_UNLCK, start, len)))?;
    Ok(())
}

/// Would [`try_lock_range`] find the range locked by another description.
pub fn is_range_locked(file: &File, start: u64, len: u64) -> io::Result<bool> {
    let mut range = byte_range(libc::F_WRLCK, start, len);
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut range))?;
    Ok(libc::c_int::from(range.l_type) != libc::F_UNLCK)
}

/// Opens what must be a regular file, without waiting: a pipe in its place might have no other end.
pub fn open_regular(options: &std::fs::OpenOptions, path: &Path) -> io::Result<File> {
    use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = options.clone().custom_flags(flags).open(path)?;
    let found = match file.metadata()?.file_type() {
        kind if kind.is_file() => return Ok(file),
        kind if kind.is_dir() => "a directory",
        kind if kind.is_fifo() => "a pipe",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    };
    let words = format!("found {found}, expected a regular file");
    Err(io::Error::new(io::ErrorKind::InvalidInput, words))
}

/// As [`open_regular`], for reading.
pub fn open_to_read(path: &Path) -> io::Result<File> {
    open_regular(std::fs::OpenOptions::new().read(true), path)
}

/// Allocates the blocks of a byte range, so that a full disk is an error now and no SIGBUS later.
/// A range that has its blocks is no error on a full disk.
pub fn allocate(file: &File, start: u64, len: u64) -> io::Result<()> {
    use rustix::io::Errno;
    match rustix::fs::fallocate(file.as_fd(), rustix::fs::FallocateFlags::empty(), start, len) {
        // XFS asks for as much room again, before it looks whether there are blocks to allocate.
        Err(Errno::NOSPC | Errno::DQUOT) if has_blocks(file, start, len).unwrap_or(false) => Ok(()),
        result => result.map_err(io::Error::from),
    }
}

/// Extents that the kernel is asked for at once.
const EXTENTS: usize = 32;

/// `struct fiemap_extent` of linux/fiemap.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

/// `struct fiemap` of linux/fiemap.h, with room for extents.
#[repr(C)]
#[derive(Default)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [Extent; EXTENTS],
}

/// `FS_IOC_FIEMAP` of linux/fs.h: `_IOWR('f', 11, struct fiemap)`, whose size is without extents.
const FS_IOC_FIEMAP: u32 = 0xc020_660b;
const _: () = assert!(size_of::<Fiemap>() == 32 + 56 * EXTENTS);

/// Has every byte of a range a block on the disk, written or not; an error where the file system
/// cannot tell.
fn has_blocks(file: &File, start: u64, len: u64) -> io::Result<bool> {
    let (mut at, end) = (start, start + len);
    while at < end {
        let mut map =
            Fiemap { start: at, length: end - at, count: EXTENTS as u32, ..Fiemap::default() };
        // SAFETY: the kernel reads the head of the struct, and writes it and at most `count`
        // extents behind it, for which there is room.
        let told =
            unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP as libc::Ioctl, &raw mut map) };
        if told != 0 {
            return Err(io::Error::last_os_error());
        }
        let before = at;
        for extent in &map.extents[..EXTENTS.min(map.mapped as usize)] {
            if extent.logical > at {
                return Ok(false);
            }
            at = at.max(extent.logical.saturating_add(extent.length));
        }
        if at == before {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Fills a buffer from the kernel's random source.
pub fn random(bytes: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        let got =
            rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
        filled += got;
    }
    Ok(())
}

/// Identifies this boot of this machine (`/proc/sys/kernel/random/boot_id`).
pub fn boot_id() -> io::Result<[u64; 2]> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    parse_boot_id(&text).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("boot_id: expected a UUID, found {text:?}"),
        )
    })
}

fn parse_boot_id(text: &str) -> Option<[u64; 2]> {
    let digits: String = text.trim().chars().filter(|c| *c != '-').collect();
    let id = u128::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 32)?;
    Some([(id >> 64) as u64, id as u64])
}

/// Is the file system of this path in memory (tmpfs).
pub fn is_in_memory(path: &Path) -> io::Result<bool> {
    const TMPFS_MAGIC: i64 = 0x0102_1994;
    Ok(rustix::fs::statfs(path)?.f_type as i64 == TMPFS_MAGIC)
}

/// Maps a file, from an offset on, into a part of the addresses that a raw map has reserved; all of
/// them are given back with it.
///
/// # Errors
/// What the kernel has against it.
///
/// # Panics
/// If the part ends behind the room.
pub fn map_into(
    room: MmapRaw,
    part: Range<usize>,
    (file, offset): (&File, u64),
    access: ProtFlags,
) -> io::Result<MmapRaw> {
    assert!(part.start <= part.end && part.end <= room.len(), "{part:?} of {}", room.len());
    let address = NonZeroUsize::new(room.as_ptr().addr() + part.start);
    let len = NonZeroUsize::new(part.len()).ok_or(io::ErrorKind::InvalidInput)?;
    let flags = MapFlags::MAP_SHARED | MapFlags::MAP_FIXED;
    // SAFETY: takes the place of addresses of the room alone, as was asserted; also with both ends
    // rounded up to pages, for it begins at one or is refused. The room is a raw map, handed over:
    // there is no reference to what stood there.
    let mapped = unsafe { mmap(address, len, access, flags, file, offset as libc::off_t) };
    match mapped {
        Ok(_) => Ok(room),
        // The access is looked at before anything is taken away.
        Err(Errno::EACCES) => Err(Errno::EACCES.into()),
        Err(error) => {
            // What fails later can leave a hole (Linux before 6.12), where another thread may have
            // mapped something by now: that is not given back.
            std::mem::forget(room);
            Err(error.into())
        }
    }
}

/// Has the kernel (Linux 6.1 on) gather a part of a map in huge pages, for all who map the file.
pub fn collapse(map: &MmapRaw, part: Range<usize>) -> io::Result<()> {
    assert!(part.start <= part.end && part.end <= map.len(), "{part:?} of {}", map.len());
    let start = map.as_mut_ptr().wrapping_byte_add(part.start);
    // SAFETY: inside the map, as was asserted; the advice leaves what stands there as it is.
    let done = unsafe { libc::madvise(start.cast(), part.len(), libc::MADV_COLLAPSE) };
    Errno::result(done).map(drop).map_err(io::Error::from)
}

static FORKS: AtomicU64 = AtomicU64::new(0);

extern "C" fn count_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Begins to count for [`forks`]; once is enough.
pub fn count_forks() {
    static REGISTER: Once = Once::new();
    REGISTER.call_once(|| {
        // SAFETY: the handler only adds to an atomic, which is allowed in a forked child.
        unsafe { libc::pthread_atfork(None, None, Some(count_fork)) };
    });
}

/// How often this process is a forked child of itself: what was noted before a fork differs from
/// what the child reads.
#[inline]
pub fn forks() -> u64 {
    FORKS.load(Ordering::Relaxed)
}

/// A map that the SIGBUS handler knows: where it is, what to mark and what to call it.
struct Watched {
    start: AtomicUsize,
    len: AtomicUsize,
    mark: AtomicUsize,
    bits: AtomicU64,
    header_mark: AtomicUsize,
    name: AtomicUsize,
    name_len: AtomicUsize,
}

const WATCHED_MAX: usize = 4096;
static WATCHED: [Watched; WATCHED_MAX] = [const {
    Watched {
        start: AtomicUsize::new(0),
        len: AtomicUsize::new(0),
        mark: AtomicUsize::new(0),
        bits: AtomicU64::new(0),
        header_mark: AtomicUsize::new(0),
        name: AtomicUsize::new(0),
        name_len: AtomicUsize::new(0),
    }
}; WATCHED_MAX];

/// Keeps a map in the register of the SIGBUS handler; dropping it takes the map out.
#[derive(Debug)]
pub(crate) struct Watch {
    index: usize,
    start: usize,
}

/// Registers a map of a file: when the file fails under it (a page that is gone or cannot be
/// read), `bits` are set in `mark`, the header's quarantine word is set, the file is named on
/// standard error and the process ends with [`EXIT_SIGBUS`].
///
/// `mark` and `header_mark` must stay mapped as long as the [`Watch`] lives: the caller keeps the
/// watch beside the regions they stand in, dropped first.
pub(crate) fn watch(
    span: (usize, usize),
    mark: &AtomicU64,
    bits: u64,
    header_mark: &AtomicU64,
    path: &Path,
) -> Option<Watch> {
    install_sigbus_handler();
    let name = kept_name(path);
    let (start, len) = span;
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
    Some(Watch { index, start })
}

/// A path in words. The handler may read it at any time, so it is never freed; files are opened
/// again and again by reloads, so each path is kept once.
fn kept_name(path: &Path) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let name = path.display().to_string();
    if let Some(kept) = names.get(name.as_str()) {
        return kept;
    }
    let kept: &'static str = Box::leak(name.into_boxed_str());
    names.insert(kept);
    kept
}

/// As [`watch`], of a map for reading: the file is named and the process ends, nothing is marked.
pub(crate) fn watch_reading(span: (usize, usize), path: &Path) -> Option<Watch> {
    // Words of this process, for the handler to write to.
    static MARKS: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
    watch(span, &MARKS[0], 0, &MARKS[1], path)
}

impl Drop for Watch {
    fn drop(&mut self) {
        let entry = &WATCHED[self.index];
        if entry.start.load(Ordering::Relaxed) == self.start {
            entry.len.store(0, Ordering::Release);
        }
    }
}

fn install_sigbus_handler() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        // SAFETY: a zeroed sigaction is a valid one; the handler only does what is
        // async-signal-safe (atomics, write, _exit, signal, raise).
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_sigbus as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigemptyset(&raw mut action.sa_mask);
            libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
        }
    });
}

extern "C" fn on_sigbus(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    _context: *mut libc::c_void,
) {
    give_terminal_back();
    // SAFETY: the kernel passes a valid siginfo to an SA_SIGINFO handler of SIGBUS.
    let address = unsafe { (*info).si_addr() } as usize;
    for entry in &WATCHED {
        let len = entry.len.load(Ordering::Acquire);
        let start = entry.start.load(Ordering::Relaxed);
        if len == 0 || len == usize::MAX || address < start || address - start >= len {
            continue;
        }
        say(b"frs: SIGBUS: cannot read ");
        let name = entry.name.load(Ordering::Relaxed) as *const u8;
        // SAFETY: `watch` stored the address and length of a leaked str.
        say(unsafe { std::slice::from_raw_parts(name, entry.name_len.load(Ordering::Relaxed)) });
        let bits = entry.bits.load(Ordering::Relaxed);
        say(if bits == 0 { b"\n" } else { b"; its group is quarantined\n" });
        let mark = entry.mark.load(Ordering::Relaxed) as *const AtomicU64;
        // SAFETY: `watch` demands that the word outlives the registration.
        unsafe { (*mark).fetch_or(bits, Ordering::Relaxed) };
        let header_mark = entry.header_mark.load(Ordering::Relaxed) as *const AtomicU64;
        // SAFETY: as above. Should this page be gone too, the kernel ends the process here: the
        // master takes both ends alike.
        unsafe { (*header_mark).store(1, Ordering::Relaxed) };
        // SAFETY: ends the process without running anything of it.
        unsafe { libc::_exit(EXIT_SIGBUS) };
    }
    // SAFETY: no file of ours: the default action, again and for good.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// How a terminal was before a program drew on it.
struct Terminal {
    settings: libc::termios,
    undo: &'static [u8],
}

static TERMINAL: AtomicPtr<Terminal> = AtomicPtr::new(std::ptr::null_mut());

/// Keeps how the terminal of standard output is set now. A signal that ends this process, a SIGBUS
/// too, first gives it back so, after `undo` was written to it. For a program that draws full screen,
/// once, before it begins.
pub fn keep_terminal(undo: &'static [u8]) -> io::Result<()> {
    // SAFETY: a zeroed termios is a valid one, and the call fills it.
    let (kept, settings) = unsafe {
        let mut settings: libc::termios = std::mem::zeroed();
        (libc::tcgetattr(libc::STDOUT_FILENO, &raw mut settings), settings)
    };
    if kept != 0 {
        return Err(io::Error::last_os_error());
    }
    // Never freed: a handler may read it at any time. Release: pairs with the Acquire there.
    TERMINAL.store(Box::into_raw(Box::new(Terminal { settings, undo })), Ordering::Release);
    install_sigbus_handler();
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT] {
        // SAFETY: the handler only does what is async-signal-safe (write, tcsetattr, signal, raise).
        unsafe { libc::signal(signal, on_end as *const () as libc::sighandler_t) };
    }
    Ok(())
}

extern "C" fn on_end(signal: libc::c_int) {
    give_terminal_back();
    // SAFETY: the default action, for good.
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
    // SAFETY: `keep_terminal` stored a box that is never freed; write and tcsetattr are
    // async-signal-safe. In the background, where it would stop this process, TTOU is ignored.
    unsafe {
        libc::signal(libc::SIGTTOU, libc::SIG_IGN);
        let undo = (*terminal).undo;
        libc::write(libc::STDOUT_FILENO, undo.as_ptr().cast(), undo.len());
        libc::tcsetattr(libc::STDOUT_FILENO, libc::TCSANOW, &raw const (*terminal).settings);
    }
}

fn say(bytes: &[u8]) {
    // SAFETY: writes a slice to standard error; write is async-signal-safe.
    unsafe { libc::write(io::stderr().as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
}

/// Processes: fork, reaping, signals, credentials, and the channel between master and child.
pub mod process {
    use std::ffi::OsString;
    use std::io::{self, IoSlice, IoSliceMut};
    use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use nix::fcntl::{FcntlArg, FdFlag, fcntl};
    use nix::sys::signal::{SigHandler, SigSet, SigmaskHow};
    use nix::sys::signalfd::{SfdFlags, SignalFd};
    use nix::sys::socket::{
        AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg,
        sendmsg, socketpair,
    };
    use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
    use nix::unistd::ForkResult;

    pub use nix::poll::{PollFd, PollFlags};
    pub use nix::sys::signal::Signal;
    pub use nix::unistd::Pid;

    /// Descriptors that one message of a [`Channel`] carries at most.
    pub const DESCRIPTORS_MAX: usize = 64;

    /// Which side of a fork this is.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Forked {
        /// The old process; the child's id.
        Parent(Pid),
        /// The new process.
        Child,
    }

    /// Forks. Panics where another thread runs: its locks would stay taken in the child.
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

    /// What became of a child.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Change {
        /// It ended, and is reaped.
        Ended(Exit),
        /// It was stopped (SIGSTOP), or is traced.
        Stopped,
        /// It goes on.
        Continued,
    }

    /// The next change of any child, if there is one; never waits.
    pub fn next_change() -> io::Result<Option<(Pid, Change)>> {
        let flags = WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED | WaitPidFlag::WCONTINUED;
        loop {
            return match waitpid(None, Some(flags)) {
                Ok(WaitStatus::Exited(pid, status)) => {
                    Ok(Some((pid, Change::Ended(Exit::Status(status)))))
                }
                Ok(WaitStatus::Signaled(pid, signal, _)) => {
                    Ok(Some((pid, Change::Ended(Exit::Signal(signal as i32)))))
                }
                Ok(WaitStatus::Stopped(pid, _)) => Ok(Some((pid, Change::Stopped))),
                Ok(WaitStatus::Continued(pid)) => Ok(Some((pid, Change::Continued))),
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

    /// Field `number` (from 3 on) of proc_pid_stat(5); none if there is no such process.
    fn stat_field(pid: Pid, number: usize) -> Option<String> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name before it may hold anything, brackets too.
        let (_, rest) = stat.rsplit_once(')')?;
        rest.split_ascii_whitespace().nth(number - 3).map(str::to_owned)
    }

    /// Has a process ended, or is the kernel taking it down.
    pub fn is_ending(pid: Pid) -> bool {
        const PF_EXITING: u64 = 4;
        let flags = stat_field(pid, 9).and_then(|flags| flags.parse::<u64>().ok());
        flags.is_none_or(|flags| flags & PF_EXITING != 0)
    }

    /// The parent of a process.
    pub fn parent_of(pid: Pid) -> Option<Pid> {
        stat_field(pid, 4)?.parse().ok().map(Pid::from_raw)
    }

    /// Sends a signal.
    pub fn signal(pid: Pid, signal: Signal) -> io::Result<()> {
        Ok(nix::sys::signal::kill(pid, signal)?)
    }

    /// Has the kernel send this process `signal` when its parent dies, then looks whether `parent`
    /// still is the parent: false if it died before. After any change of user, which undoes it.
    pub fn follow_parent(parent: Pid, signal: Signal) -> io::Result<bool> {
        nix::sys::prctl::set_pdeathsig(signal)?;
        Ok(nix::unistd::getppid() == parent)
    }

    /// Ignores a signal, in this process and all that it forks.
    pub fn ignore(signal: Signal) -> io::Result<()> {
        // SAFETY: SIG_IGN runs no code of ours.
        unsafe { nix::sys::signal::signal(signal, SigHandler::SigIgn) }?;
        Ok(())
    }

    /// Leaves a signal to its default action again: an exec passes on what is ignored.
    pub fn stop_ignoring(signal: Signal) -> io::Result<()> {
        // SAFETY: SIG_DFL runs no code of ours.
        unsafe { nix::sys::signal::signal(signal, SigHandler::SigDfl) }?;
        Ok(())
    }

    /// Signals that are read, not handled.
    pub struct Signals(SignalFd);

    impl Signals {
        /// Blocks exactly `read` and makes them readable here; ignores all of `ignored`.
        pub fn take(read: &[Signal], ignored: &[Signal]) -> io::Result<Signals> {
            ignored.iter().try_for_each(|&signal| ignore(signal))?;
            let mut set = SigSet::empty();
            read.iter().for_each(|&signal| set.add(signal));
            nix::sys::signal::sigprocmask(SigmaskHow::SIG_SETMASK, Some(&set), None)?;
            let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
            Ok(Signals(SignalFd::with_flags(&set, flags)?))
        }

        /// The next one that is pending.
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

    /// Waits until one of `fds` is ready or `timeout` is over; none: for ever. A caught signal ends
    /// the wait early.
    pub fn poll(fds: &mut [PollFd<'_>], timeout: Option<Duration>) -> io::Result<usize> {
        let timeout = timeout.map_or(-1, |timeout| {
            // Rounded up: a wait that ends before its time would be repeated at full speed.
            timeout.as_micros().div_ceil(1000).min(i32::MAX as u128) as i32
        });
        let timeout = nix::poll::PollTimeout::try_from(timeout).map_err(io::Error::other)?;
        match nix::poll::poll(fds, timeout) {
            Ok(ready) => Ok(ready as usize),
            Err(nix::errno::Errno::EINTR) => Ok(0),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The monotonic clock in nanoseconds; one clock for all processes of a boot.
    pub fn monotonic_ns() -> u64 {
        nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC)
            .map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
    }

    /// Raises the limit of open files to the hard limit; what it is now.
    pub fn raise_file_limit() -> io::Result<u64> {
        use nix::sys::resource::{Resource, getrlimit, setrlimit};
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
        Ok(hard)
    }

    /// Takes a variable out of the environment, so that no child inherits it.
    pub fn take_variable(name: &str) -> io::Result<Option<OsString>> {
        let value = std::env::var_os(name);
        if value.is_some() {
            let threads = std::fs::read_dir("/proc/self/task")?.count();
            assert_eq!(threads, 1, "the environment is changed with {threads} threads");
            // SAFETY: this is the only thread (counted above), so nobody reads the environment
            // meanwhile.
            unsafe { std::env::remove_var(name) };
        }
        Ok(value)
    }

    /// Makes descriptors this process's own that whoever started it has left open for it; all at
    /// once, and once only. They are closed by an exec from now on.
    pub fn adopt(fds: &[RawFd]) -> io::Result<Vec<OwnedFd>> {
        static DONE: AtomicBool = AtomicBool::new(false);
        let wrong = |text: String| io::Error::new(io::ErrorKind::InvalidInput, text);
        if DONE.swap(true, Ordering::Relaxed) {
            return Err(wrong("descriptors are taken over once".to_owned()));
        }
        for (index, &fd) in fds.iter().enumerate() {
            if fd <= io::stderr().as_raw_fd() || fds[..index].contains(&fd) {
                return Err(wrong(format!("descriptor {fd} is not to be had, or named twice")));
            }
            // SAFETY: borrowed for this one call, which fails on a number that is not open.
            let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
            fcntl(borrowed, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))
                .map_err(|error| wrong(format!("descriptor {fd}: {error}")))?;
        }
        // SAFETY: all are open (looked at above), each is named once, and this is done once, for
        // numbers that were open before this process opened anything: nobody else here owns them.
        Ok(fds.iter().map(|&fd| unsafe { OwnedFd::from_raw_fd(fd) }).collect())
    }

    /// Leaves a descriptor open over an exec.
    pub fn pass_on(fd: BorrowedFd<'_>) -> io::Result<()> {
        fcntl(fd, FcntlArg::F_SETFD(FdFlag::empty()))?;
        Ok(())
    }

    /// One end of a two-way row of messages between the master and one child. A message is at most
    /// 16 bytes and [`DESCRIPTORS_MAX`] descriptors.
    pub struct Channel(OwnedFd);

    /// What [`Channel::receive`] got.
    #[derive(Debug)]
    pub enum Delivery {
        /// A message: its bytes and its descriptors.
        Message(Vec<u8>, Vec<OwnedFd>),
        /// Nothing yet.
        Nothing,
        /// The other end is gone.
        Closed,
    }

    impl Channel {
        /// Both ends.
        pub fn pair() -> io::Result<(Channel, Channel)> {
            let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
            let (a, b) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags)?;
            Ok((Channel(a), Channel(b)))
        }

        /// Another handle of the same end.
        pub fn try_clone(&self) -> io::Result<Channel> {
            self.0.try_clone().map(Channel)
        }

        /// The end that another process has left open for this one.
        pub fn from_inherited(fd: OwnedFd) -> Channel {
            Channel(fd)
        }

        /// Sends a message; false if there is no room for it yet.
        pub fn send(&self, bytes: &[u8], descriptors: &[RawFd]) -> io::Result<bool> {
            let rights = [ControlMessage::ScmRights(descriptors)];
            let rights = if descriptors.is_empty() { &rights[..0] } else { &rights[..] };
            let flags = MsgFlags::MSG_NOSIGNAL;
            match sendmsg::<()>(self.0.as_raw_fd(), &[IoSlice::new(bytes)], rights, flags, None) {
                Ok(_) => Ok(true),
                Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::ENOBUFS) => Ok(false),
                Err(errno) => Err(errno.into()),
            }
        }

        /// The next message.
        pub fn receive(&self) -> io::Result<Delivery> {
            let mut bytes = [0; 16];
            let mut room = nix::cmsg_space!([RawFd; DESCRIPTORS_MAX]);
            let mut slices = [IoSliceMut::new(&mut bytes)];
            let flags = MsgFlags::MSG_CMSG_CLOEXEC;
            let message =
                match recvmsg::<()>(self.0.as_raw_fd(), &mut slices, Some(&mut room), flags) {
                    Ok(message) => message,
                    Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EINTR) => {
                        return Ok(Delivery::Nothing);
                    }
                    Err(nix::errno::Errno::ECONNRESET) => return Ok(Delivery::Closed),
                    Err(errno) => return Err(errno.into()),
                };
            let length = message.bytes;
            let mut descriptors = Vec::new();
            for control in message.cmsgs()? {
                if let ControlMessageOwned::ScmRights(raw) = control {
                    // SAFETY: the kernel has just made these descriptors for this process, and
                    // nobody else knows them.
                    let owned = raw.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
                    descriptors.extend(owned);
                }
            }
            if length == 0 {
                return Ok(Delivery::Closed);
            }
            Ok(Delivery::Message(bytes[..length].to_vec(), descriptors))
        }
    }

    impl AsFd for Channel {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }
    }
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
