//! Forks of this process: the number of forks that led to it, and work that no fork interrupts.
//!
//! Invariant: the count changes in the child, once for each fork, before the child runs anything
//! else. At a fork no other thread is in work that [`between_forks`] runs.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use nix::libc;

use super::futex::{futex_wait, futex_wake_all};

static FORKS: AtomicU64 = AtomicU64::new(0);

/// The number of threads inside, and [`SHUT`] while a thread forks.
static GATE: AtomicU32 = AtomicU32::new(0);
const SHUT: u32 = 1 << 31;

/// After a wait of this length the gate is looked at again in any case.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

thread_local! {
    /// This thread forks. The handlers may be registered twice; the flag makes the second ones do
    /// nothing.
    static FORKING: Cell<bool> = const { Cell::new(false) };
    /// How often this thread is inside.
    static INSIDE: Cell<u32> = const { Cell::new(0) };
}

/// Starts counting for [`forks`]. One call is enough.
pub fn count_forks() {
    // A fork by another thread may copy the flag before it is set, so the child registers once
    // more. A `Once` would stay half done in that child for ever.
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if REGISTERED.load(Ordering::Acquire) {
        return;
    }
    // SAFETY: the handlers use atomics, thread-locals without destructors and futexes, which a
    // thread that forks and its child may use.
    unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    // Release: pairs with the Acquire above.
    REGISTERED.store(true, Ordering::Release);
}

/// The number of forks that led to this process. A child reads another number than its parent
/// stored before the fork.
#[inline]
pub fn forks() -> u64 {
    FORKS.load(Ordering::Relaxed)
}

/// Runs short work that a fork by another thread must not interrupt, because it takes locks of
/// other libraries or holds a descriptor that no child may inherit: that fork waits for its end.
pub fn between_forks<T>(work: impl FnOnce() -> T) -> T {
    count_forks();
    let _inside = Inside::enter();
    work()
}

/// While this lives, no other thread forks.
struct Inside;

impl Inside {
    fn enter() -> Inside {
        let depth = INSIDE.replace(INSIDE.get() + 1);
        // A thread that is inside already goes on, because a fork waits for its end.
        if depth == 0 {
            change_open_gate(|seen| seen + 1);
        }
        Inside
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(INSIDE.get() - 1);
        // Release: all work inside is over before the fork.
        if INSIDE.get() == 0 && GATE.fetch_sub(1, Ordering::Release) == SHUT + 1 {
            futex_wake_all(&GATE);
        }
    }
}

/// Waits while another thread forks, then changes the gate.
fn change_open_gate(change: impl Fn(u32) -> u32) {
    loop {
        let seen = GATE.load(Ordering::Relaxed);
        if seen & SHUT != 0 {
            futex_wait(&GATE, seen, LOOK_AGAIN);
            continue;
        }
        // Acquire: pairs with the Release of each thread that left before.
        let changed = change(seen);
        if GATE.compare_exchange_weak(seen, changed, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return;
        }
    }
}

extern "C" fn before() {
    if FORKING.replace(true) || INSIDE.get() != 0 {
        return;
    }
    change_open_gate(|seen| seen | SHUT);
    loop {
        match GATE.load(Ordering::Acquire) {
            SHUT => return,
            seen => futex_wait(&GATE, seen, LOOK_AGAIN),
        }
    }
}

extern "C" fn in_parent() {
    if FORKING.replace(false) && INSIDE.get() == 0 {
        GATE.fetch_and(!SHUT, Ordering::Release);
        futex_wake_all(&GATE);
    }
}

extern "C" fn in_child() {
    if FORKING.replace(false) {
        FORKS.fetch_add(1, Ordering::Relaxed);
        // The threads that wait at the parent's gate are not here.
        GATE.store(u32::from(INSIDE.get() != 0), Ordering::Relaxed);
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::sync::mpsc;

    use nix::sys::wait::{WaitStatus, waitpid};
    use nix::unistd::{ForkResult, fork};

    use super::*;

    /// Forks a child that ends at once, with the result of `status`.
    fn status_of_child(status: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child only computes and ends.
        match unsafe { fork() }.unwrap() {
            ForkResult::Child => {
                let code = i32::from(!status());
                // SAFETY: ends the child without running any more of its code.
                unsafe { libc::_exit(code) }
            }
            ForkResult::Parent { child } => {
                waitpid(child, None).unwrap() == WaitStatus::Exited(child, 0)
            }
        }
    }

    // Shows: forks.
    #[test]
    fn a_fork_waits_for_work_that_it_must_not_interrupt() {
        let (begun, has_begun) = mpsc::channel();
        let (goes_on, go_on) = mpsc::channel::<()>();
        static OVER: AtomicBool = AtomicBool::new(false);
        let working = std::thread::spawn(move || {
            between_forks(|| {
                // A thread that is inside may enter again.
                between_forks(|| begun.send(()).unwrap());
                go_on.recv().unwrap();
                OVER.store(true, Ordering::Relaxed);
            });
        });
        has_begun.recv().unwrap();
        let forking = std::thread::spawn(|| {
            status_of_child(|| OVER.load(Ordering::Relaxed) && between_forks(|| true))
        });
        // The fork comes to the gate before the work is over.
        while GATE.load(Ordering::Relaxed) & SHUT == 0 {
            std::thread::yield_now();
        }
        goes_on.send(()).unwrap();
        assert!(forking.join().unwrap(), "the child finds the work done and the gate open");
        working.join().unwrap();
        between_forks(|| ());
    }

    // Shows: forks.
    #[test]
    fn handlers_that_are_registered_twice_count_once() {
        count_forks();
        // SAFETY: as in `count_forks`.
        unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
        let own = forks();
        assert!(status_of_child(|| forks() == own + 1));
        assert_eq!(forks(), own);
    }

    #[test]
    fn work_that_forks_itself_goes_on() {
        let inside = || status_of_child(|| between_forks(|| true));
        assert!(between_forks(inside));
        assert!(status_of_child(|| true));
    }
}
