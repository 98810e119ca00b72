//! Every call to the kernel that std and mio do not offer.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use rustix::thread::futex;

/// Exit status of a process that a mapped file failed under.
pub const EXIT_SIGBUS: i32 = 86;

/// The register of CRC-32C after two runs of words, by the processor's own instruction; none where
/// it has none.
#[inline]
pub fn crc32c_words(state: u32, first: &[u64], rest: &[u64]) -> Option<u32> {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has SSE4.2, the only thing the function asks for.
        return Some(unsafe { crc32c_words_sse42(state, first, rest) });
    }
    let _ = (state, first, rest);
    None
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn crc32c_words_sse42(state: u32, first: &[u64], rest: &[u64]) -> u32 {
    use std::arch::x86_64::_mm_crc32_u64;
    let mut state = u64::from(state);
    for &word in first {
        state = _mm_crc32_u64(state, word);
    }
    for &word in rest {
        state = _mm_crc32_u64(state, word);
    }
    state as u32
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

/// Allocates the blocks of a byte range, so that a full disk is an error now and no SIGBUS later.
pub fn allocate(file: &File, start: u64, len: u64) -> io::Result<()> {
    rustix::fs::fallocate(file.as_fd(), rustix::fs::FallocateFlags::empty(), start, len)
        .map_err(io::Error::from)
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
pub struct Watch {
    index: usize,
    start: usize,
}

/// Registers a map of a file: when the file fails under it (a page that is gone or cannot be
/// read), `bits` are set in `mark`, the header's quarantine word is set, the file is named on
/// standard error and the process ends with [`EXIT_SIGBUS`].
///
/// `mark` and `header_mark` must stay mapped as long as the [`Watch`] lives: the caller keeps the
/// watch beside the regions they stand in, dropped first.
pub fn watch(
    span: (usize, usize),
    mark: &AtomicU64,
    bits: u64,
    header_mark: &AtomicU64,
    path: &Path,
) -> Option<Watch> {
    install_sigbus_handler();
    // The handler may read the name at any time, so it is never freed; a process opens a bounded
    // number of files.
    let name: &'static str = Box::leak(path.display().to_string().into_boxed_str());
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
        say(b"; its group is quarantined\n");
        let mark = entry.mark.load(Ordering::Relaxed) as *const AtomicU64;
        // SAFETY: `watch` demands that the word outlives the registration.
        unsafe { (*mark).fetch_or(entry.bits.load(Ordering::Relaxed), Ordering::Relaxed) };
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

fn say(bytes: &[u8]) {
    // SAFETY: writes a slice to standard error; write is async-signal-safe.
    unsafe { libc::write(io::stderr().as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
}
