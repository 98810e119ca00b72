//! How several machines share the limits of a biz: `share` of map.xml and the settings that go with
//! it.
//!
//! Invariant: a machine that is cut off never allows itself more than the max of a limit.

/// The settings of a biz whose limits are shared by several machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sharing {
    /// How a machine gets uses.
    pub share: Share,
    /// What happens to an item whose lease does not arrive in time.
    pub on_miss: OnMiss,
    /// What a machine allows while it cannot reach the cluster, once it has spent its leases.
    pub on_down: OnDown,
    /// The longest time that an item may wait for a lease, 1 to 1000.
    pub wait_ms: u64,
    /// The number of machines, 1 to 1024. 1 if nothing is divided by it and map.xml leaves it out.
    pub hosts: u32,
}

/// How a machine gets uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// By leases, which it spends on its own.
    Cluster,
    /// One by one: every use asks the ledger.
    Exact,
}

/// What happens to an item whose lease does not arrive in time.
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

/// The largest max, rate or override of a shared limit. The ledger counts in doubles, which hold
/// the sums of several such amounts exactly.
pub const MAX_SHARED: u64 = 1 << 50;

/// The longest interval of a shared limit, 557 years. The ledger's products with it are exact.
pub const MAX_SHARED_MS: u64 = 1 << 44;

/// The longest interval of a shared `sliding-counter`, 34 years. Its windows start at multiples of
/// the interval, and a start of 0 means that no window is known. With this bound, the window that
/// started at 0 is over.
pub const MAX_SHARED_COUNTER_MS: u64 = 1 << 40;

/// Below this max the ledger divides the free uses by the number of holders, not by `hosts`.
const SMALL_MAX: u64 = 64;

/// Words of a node for one shared limit: its uses, its lease, and the uses that the host allows
/// itself while it is cut off. The uses of a sliding limit are in the ring.
pub const SHARED_WORDS: usize = 14;

impl Sharing {
    /// The uses that a machine allows itself in a window while it is cut off.
    pub fn cut_off_max(&self, max: u64) -> u64 {
        match self.on_down {
            OnDown::Share => max / u64::from(self.hosts),
            OnDown::Local => max,
            OnDown::Refuse => 0,
        }
    }

    /// The most uses that the ledger grants at a time to a machine that needs one.
    pub fn largest_lease(&self, max: u64) -> u64 {
        let slice = match self.share {
            Share::Exact => 1,
            Share::Cluster if max < SMALL_MAX => max / 2,
            Share::Cluster => max / (2 * u64::from(self.hosts)),
        };
        slice.max(1).min(max)
    }
}
