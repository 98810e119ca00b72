//! Hooks for tests at each store to shared memory. They count the stores, kill or stop the process
//! at one of them, or play several processes in one thread.
//!
//! Invariant: a dead played process stores nothing. Code that it still runs, to its end or while it
//! unwinds, has no effect on the others.

#[cfg(loom)]
pub use modelled::{die_after, lives, look, point};
#[cfg(not(loom))]
pub use real::{Step, arm, arm_stop, die_after, disarm, figure, lives, look, play, point, sleeps};

#[cfg(not(loom))]
mod real {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use nix::sys::signal::{Signal, kill, raise};
    use nix::unistd::getpid;

    /// Stores left until death; 0 for no death.
    static LEFT: AtomicU64 = AtomicU64::new(0);
    /// The process is stopped at that store instead, until it is continued.
    static STOPS: AtomicBool = AtomicBool::new(false);
    /// Stores so far.
    static SEEN: AtomicU64 = AtomicU64::new(0);

    /// The next step of a played process.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Step {
        /// A store to shared memory.
        Store,
        /// A look at a semaphore.
        Look,
        /// A sleep of at most a slice.
        Sleep,
    }

    /// Called for each step. Returns whether the step has an effect.
    type Player = fn(Step) -> bool;

    thread_local! {
        /// The player of this thread's processes.
        static PLAYER: Cell<Option<Player>> = const { Cell::new(None) };
    }

    /// From here on, calls `player` for each step of this thread.
    pub fn play(player: Option<Player>) {
        PLAYER.set(player);
    }

    thread_local! {
        /// Stores of this thread that still have an effect.
        static EFFECTIVE: Cell<Option<usize>> = const { Cell::new(None) };
        /// Whether every store of this thread had an effect.
        static LIVES: Cell<bool> = const { Cell::new(true) };
    }

    /// Makes this thread die after `stores` stores: later stores have no effect. With None it
    /// lives.
    pub fn die_after(stores: Option<usize>) {
        EFFECTIVE.set(stores);
        LIVES.set(true);
    }

    /// Whether every store since [`die_after`] had an effect.
    pub fn lives() -> bool {
        LIVES.get()
    }

    /// Called before each store of a figure that no transaction holds. Only [`die_after`] counts
    /// such stores: players and kills do not.
    pub fn figure() -> bool {
        match EFFECTIVE.get() {
            None => true,
            Some(_) => point(),
        }
    }

    /// Called before each store to shared memory. Returns whether it has an effect.
    pub fn point() -> bool {
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
                // To this thread: it must not go on until another thread has taken the signal.
                let _ = raise(Signal::SIGSTOP);
                return true;
            }
            // The process is killed as from outside: no more of its code runs.
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

    /// Called before each sleep. True if the sleep was only played.
    pub fn sleeps() -> bool {
        PLAYER.get().is_some_and(|player| {
            player(Step::Sleep);
            true
        })
    }

    /// From here on this process dies at its `stores`-th store. 0: never.
    pub fn arm(stores: u64) {
        SEEN.store(0, Ordering::Relaxed);
        LEFT.store(stores, Ordering::Relaxed);
    }

    /// Like [`arm`], but stops the process instead.
    pub fn arm_stop(stores: u64) {
        STOPS.store(true, Ordering::Relaxed);
        arm(stores);
    }

    /// Ends [`arm`]. Returns how many stores there were.
    pub fn disarm() -> u64 {
        LEFT.store(0, Ordering::Relaxed);
        SEEN.load(Ordering::Relaxed)
    }
}

#[cfg(loom)]
mod modelled {
    use std::cell::Cell;

    loom::thread_local! {
        /// Stores that still have an effect.
        static EFFECTIVE: Cell<Option<usize>> = Cell::new(None);
        /// Whether every store of this thread had an effect.
        static LIVES: Cell<bool> = Cell::new(true);
    }

    /// Makes this thread die after `stores` stores: later stores have no effect. With None it
    /// lives.
    pub fn die_after(stores: Option<usize>) {
        EFFECTIVE.with(|effective| effective.set(stores));
        LIVES.with(|lives| lives.set(true));
    }

    /// Called before each store. Returns whether it has an effect.
    pub fn point() -> bool {
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

    /// Whether every store since [`die_after`] had an effect.
    pub fn lives() -> bool {
        LIVES.with(Cell::get)
    }

    /// Called before each look at a semaphore.
    pub fn look() {}
}
