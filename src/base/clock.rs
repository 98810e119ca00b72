//! Time as a value. Only this file reads a clock.
//!
//! Invariant: all other code takes the time as an argument. So tests can set it, and a worker reads
//! the clock once a tick.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Milliseconds since the Unix epoch, UTC.
pub type Millis = u64;

/// Reads the wall clock. A clock before 1970 reads as 0.
#[allow(clippy::disallowed_methods)]
pub fn now() -> Millis {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as Millis)
}

/// Reads the monotonic clock, for time-outs and waits. Its value is never stored.
pub fn instant() -> Instant {
    #[cfg(any(test, feature = "played-clock"))]
    if let Some(played) = PLAYED.get() {
        return played;
    }
    Instant::now()
}

#[cfg(any(test, feature = "played-clock"))]
std::thread_local! {
    static PLAYED: std::cell::Cell<Option<Instant>> = const { std::cell::Cell::new(None) };
}

/// Sets the monotonic clock of this thread for a test. `None` is the clock of the machine.
#[cfg(any(test, feature = "played-clock"))]
pub fn play(instant: Option<Instant>) {
    PLAYED.set(instant);
}

/// Time since an instant of the monotonic clock.
#[inline]
pub fn since(then: Instant) -> Duration {
    instant().saturating_duration_since(then)
}

/// The monotonic clock in nanoseconds. All processes of a boot share it.
pub fn monotonic_ns() -> u64 {
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC)
        .map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

/// CLOCK_BOOTTIME in milliseconds: it goes on while the machine sleeps. All processes of a boot
/// share it.
pub fn boot_ms() -> u64 {
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME)
        .map_or(0, |time| time.tv_sec() as u64 * 1_000 + time.tv_nsec() as u64 / 1_000_000)
}
