//! What tests do to who stores to shared memory: count the stores, end or stop the process at one
//! of them, or play several processes in one thread.
//!
//! Invariant: a played process that is dead stores nothing any more; whatever it still runs, to its
//! end or to unwind, has no effect on the others.

#[cfg(loom)]
pub(crate) use modelled::{die_after, lives, look, point};
#[cfg(not(loom))]
pub(crate) use real::{
    Step, arm, arm_stop, die_after, disarm, instant, lives, look, play, point, set_instant, sleeps,
};

#[cfg(not(loom))]
mod real {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::time::Instant;

    use nix::sys::signal::{Signal, kill, raise};
    use nix::unistd::getpid;

    /// Stores left until death; 0: nobody dies.
    static LEFT: AtomicU64 = AtomicU64::new(0);
    /// At that store it is stopped, and goes on when it is continued.
    static STOPS: AtomicBool = AtomicBool::new(false);
    /// Stores so far.
    static SEEN: AtomicU64 = AtomicU64::new(0);

    /// What a played process is about to do.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum Step {
        /// A store to shared memory.
        Store,
        /// A look at a semaphore.
        Look,
        /// A sleep of at most a slice.
        Sleep,
    }

    /// Is told of each step; answers whether it has an effect.
    type Player = fn(Step) -> bool;

    thread_local! {
        /// Who plays the processes of this thread.
        static PLAYER: Cell<Option<Player>> = const { Cell::new(None) };
    }

    /// Has `player` told of each step of this thread from here on.
    pub(crate) fn play(player: Option<Player>) {
        PLAYER.set(player);
    }

    thread_local! {
        /// Stores of this thread that have an effect still.
        static EFFECTIVE: Cell<Option<usize>> = const { Cell::new(None) };
        /// No store of this thread was without effect.
        static LIVES: Cell<bool> = const { Cell::new(true) };
    }

    /// This thread dies after so many stores: those that come later have no effect. It lives, till
    /// then.
    pub(crate) fn die_after(stores: Option<usize>) {
        EFFECTIVE.set(stores);
        LIVES.set(true);
    }

    /// Has every store had its effect since [`die_after`].
    pub(crate) fn lives() -> bool {
        LIVES.get()
    }

    thread_local! {
        /// What the monotonic clock of this thread shows, if it is played.
        static INSTANT: Cell<Option<Instant>> = const { Cell::new(None) };
    }

    /// Sets the monotonic clock of this thread; none: it is the machine's.
    pub(crate) fn set_instant(instant: Option<Instant>) {
        INSTANT.set(instant);
    }

    /// The monotonic clock of this thread, if it is played.
    pub(crate) fn instant() -> Option<Instant> {
        INSTANT.get()
    }

    /// Called before each store to shared memory: has it an effect.
    pub(crate) fn point() -> bool {
        if let Some(player) = PLAYER.get() {
            return player(Step::Store);
        }
        match EFFECTIVE.get() {
            None => {}
            Some(0) => {
                LIVES.set(false);
                return false;
            }
            Some(left) => {
                EFFECTIVE.set(Some(left - 1));
                return true;
            }
        }
        SEEN.fetch_add(1, Ordering::Relaxed);
        if LEFT.load(Ordering::Relaxed) != 0 && LEFT.fetch_sub(1, Ordering::Relaxed) == 1 {
            if STOPS.load(Ordering::Relaxed) {
                // To this thread: it must not run on till another one has taken the signal.
                let _ = raise(Signal::SIGSTOP);
                return true;
            }
            // The process is killed as from outside: nothing of it runs any more.
            let _ = kill(getpid(), Signal::SIGKILL);
            loop {
                std::thread::park();
            }
        }
        true
    }

    /// Called before each look at a semaphore.
    pub fn look() {
        if let Some(player) = PLAYER.get() {
            player(Step::Look);
        }
    }

    /// Called before each sleep: true if it was only played.
    pub(crate) fn sleeps() -> bool {
        PLAYER.get().is_some_and(|player| {
            player(Step::Sleep);
            true
        })
    }

    /// From here on this process dies at its `stores`-th store; never, if that is 0.
    pub(crate) fn arm(stores: u64) {
        SEEN.store(0, Ordering::Relaxed);
        LEFT.store(stores, Ordering::Relaxed);
    }

    /// As [`arm`], but it is stopped there instead.
    pub(crate) fn arm_stop(stores: u64) {
        STOPS.store(true, Ordering::Relaxed);
        arm(stores);
    }

    /// No more; how many stores there were.
    pub(crate) fn disarm() -> u64 {
        LEFT.store(0, Ordering::Relaxed);
        SEEN.load(Ordering::Relaxed)
    }
}

#[cfg(loom)]
mod modelled {
    use std::cell::Cell;

    loom::thread_local! {
        /// Stores that have an effect still.
        static EFFECTIVE: Cell<Option<usize>> = Cell::new(None);
        /// No store of this thread was without effect.
        static LIVES: Cell<bool> = Cell::new(true);
    }

    /// This thread dies after so many stores: those that come later have no effect. It lives, till
    /// then.
    pub(crate) fn die_after(stores: Option<usize>) {
        EFFECTIVE.with(|effective| effective.set(stores));
        LIVES.with(|lives| lives.set(true));
    }

    /// Called before each store: has it an effect.
    pub(crate) fn point() -> bool {
        EFFECTIVE.with(|effective| match effective.get() {
            None => true,
            Some(0) => {
                LIVES.with(|lives| lives.set(false));
                false
            }
            Some(left) => {
                effective.set(Some(left - 1));
                true
            }
        })
    }

    /// Has every store had its effect since [`die_after`].
    pub(crate) fn lives() -> bool {
        LIVES.with(Cell::get)
    }

    /// Called before each look at a semaphore.
    pub fn look() {}
}
