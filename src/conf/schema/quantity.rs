//! Quantities: the units of time and size, the largest numbers, and rates.
//!
//! Invariant: the sum of two quantities within these bounds does not overflow. The text of a
//! duration or a size reads back as the same number.

use super::map::Unit;

/// The largest count. Integers up to it are exact everywhere, even in JSON.
pub const MAX_COUNT: u64 = (1 << 53) - 1;

/// The longest duration. The sum of two durations and the time is far from overflow.
pub(crate) const MAX_DURATION_MS: u64 = (1 << 53) - 1;

/// A unit as written, and its size in the smallest unit: milliseconds or bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Suffix {
    pub name: &'static str,
    pub factor: u64,
}

impl Suffix {
    pub const fn new(name: &'static str, factor: u64) -> Suffix {
        Suffix { name, factor }
    }
}

const DAY: Suffix = Suffix::new("d", 86_400_000);
const HOUR: Suffix = Suffix::new("h", 3_600_000);
const MINUTE: Suffix = Suffix::new("m", 60_000);
const SECOND: Suffix = Suffix::new("s", 1000);
const MILLISECOND: Suffix = Suffix::new("ms", 1);

/// Units of a duration, the longest first.
pub(crate) const DURATION_UNITS: [Suffix; 5] = [DAY, HOUR, MINUTE, SECOND, MILLISECOND];
/// Units of time in a rate.
pub(crate) const RATE_UNITS: [Suffix; 5] = [MILLISECOND, SECOND, MINUTE, HOUR, DAY];
const GIB: Suffix = Suffix::new("GiB", 1 << 30);
const MIB: Suffix = Suffix::new("MiB", 1 << 20);
const KIB: Suffix = Suffix::new("KiB", 1 << 10);
/// Units of a size, the largest first.
pub(crate) const SIZE_UNITS: [Suffix; 4] = [GIB, MIB, KIB, Suffix::new("", 1)];

/// A rate as it is written: a number of events per unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// The number, at least 1.
    pub number: u64,
    /// The unit: 1 ms, or the milliseconds of a second, a minute, an hour or a day.
    pub per_ms: u64,
}

/// A rate as a call brings it: `5/90s` or `1000/month`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallRate {
    /// Uses in each window.
    pub uses: u64,
    /// The window.
    pub window: CallWindow,
}

/// The window of a rate that a call brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallWindow {
    /// Nanoseconds, at least 1.
    Period(u64),
    /// A natural minute, hour, day, week, month or year.
    Unit(Unit),
}

impl CallRate {
    /// `uses` in each `period_ns` nanoseconds.
    pub const fn per(uses: u64, period_ns: u64) -> CallRate {
        CallRate { uses, window: CallWindow::Period(period_ns) }
    }
}

/// The shortest text of a duration: `60000` is `1m`.
pub(crate) fn duration_text(ms: u64) -> String {
    let fits = |unit: &&Suffix| ms >= unit.factor && ms.is_multiple_of(unit.factor);
    match DURATION_UNITS.iter().find(fits) {
        Some(Suffix { name, factor }) => format!("{}{name}", ms / factor),
        None => format!("{ms}ms"),
    }
}

/// The shortest text of a size: `65536` is `64KiB`.
pub(crate) fn size_text(bytes: u64) -> String {
    let fits = |unit: &&Suffix| bytes >= unit.factor && bytes.is_multiple_of(unit.factor);
    match SIZE_UNITS.iter().find(fits) {
        Some(Suffix { name, factor }) => format!("{}{name}", bytes / factor),
        None => bytes.to_string(),
    }
}
