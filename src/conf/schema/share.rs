//! How a biz's limits hold over several machines: `share` of map.xml and what goes with it.
//!
//! Invariant: a machine that is cut off never allows itself more than its limit's max.

/// The settings of a biz whose limits several machines share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sharing {
    /// How uses come to a machine.
    pub share: Share,
    /// What becomes of an item whose lease has not come in time.
    pub on_miss: OnMiss,
    /// What a machine allows while it cannot reach the cluster, once it has used up what it holds.
    pub on_down: OnDown,
    /// How long an item may wait for a lease, 1 to 1000.
    pub wait_ms: u64,
    /// How many machines there are, 1 to 1024; 1 where map.xml need not say, as nothing is divided
    /// by it.
    pub hosts: u32,
}

/// How uses come to a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// In leases, which it spends on its own.
    Cluster,
    /// One by one: every use asks.
    Exact,
}

/// What becomes of an item whose lease has not come in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnMiss {
    /// It is refused.
    Refuse,
    /// It is admitted, and counted.
    Admit,
    /// It is answered `busy`.
    Busy,
}

/// What a machine allows while it cannot reach the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDown {
    /// Its part of the max in each window.
    Share,
    /// The whole max in each window.
    Local,
    /// Nothing.
    Refuse,
}

/// The largest amount of a limit that machines share: its max, its rate, an override. The ledger
/// counts in doubles, and sums of some amounts stay whole numbers.
pub const MAX_SHARED: u64 = 1 << 50;

/// The longest interval of a limit that machines share, 557 years: products of it in the ledger
/// stay whole numbers.
pub const MAX_SHARED_MS: u64 = 1 << 44;

/// The same of a `sliding-counter`, 34 years: its windows start at multiples of the interval, and
/// none that is not over may start at 0, which means that a window is not known.
pub const MAX_SHARED_COUNTER_MS: u64 = 1 << 40;

/// Below this max the ledger divides what is left among those who hold some of it.
const SMALL_MAX: u64 = 64;

/// Words of a node for one limit that machines share: its uses, its lease, and what the host allows
/// itself while it is cut off. The uses of a sliding limit are in the ring.
pub const SHARED_WORDS: usize = 14;

impl Sharing {
    /// Uses that a machine allows itself in a window while it is cut off.
    pub fn cut_off_max(&self, max: u64) -> u64 {
        match self.on_down {
            OnDown::Share => max / u64::from(self.hosts),
            OnDown::Local => max,
            OnDown::Refuse => 0,
        }
    }

    /// Uses that the ledger grants at a time at most to who needs one.
    pub fn largest_lease(&self, max: u64) -> u64 {
        let slice = match self.share {
            Share::Exact => 1,
            Share::Cluster if max < SMALL_MAX => max / 2,
            Share::Cluster => max / (2 * u64::from(self.hosts)),
        };
        slice.max(1).min(max)
    }
}
