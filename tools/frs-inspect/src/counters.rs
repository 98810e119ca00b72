//! The counters in the slots of runtime.mmap, and their display names. No other file of this tool
//! lists the counters.

use frs_engine::Outcome;
use frs_store::counter::OUTCOMES;
use frs_store::{Counter, GroupCounter, Sums};

const OF_GROUPS: [(&str, GroupCounter); 7] = [
    ("nodes created", GroupCounter::Creates),
    ("evicted: expired", GroupCounter::EvictionsExpired),
    ("evicted: idle", GroupCounter::EvictionsIdle),
    ("evicted: limiting", GroupCounter::EvictionsLimiting),
    ("dropped: CRC failed", GroupCounter::DroppedCrc),
    ("dropped: misplaced", GroupCounter::DroppedMisplaced),
    ("dropped: duplicate", GroupCounter::DroppedDuplicate),
];

const OF_PROCESSES: [(&str, Counter); 4] = [
    ("semaphore waits", Counter::SemaphoreWaits),
    ("semaphore busy", Counter::SemaphoreBusy),
    ("semaphore orphans", Counter::SemaphoreOrphans),
    ("slots recovered", Counter::Recoveries),
];

/// Items of a business, by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ItemCounts {
    pub all: u64,
    /// Allowed items, including those allowed because limits only shadow or are switched off.
    pub passed: u64,
    /// Items refused by a limit or a ban.
    pub refused: u64,
    pub errors: u64,
}

impl ItemCounts {
    /// Items of Queries and Updates together.
    pub fn of(counts: &[[u64; OUTCOMES]; 2]) -> ItemCounts {
        let count = |outcome: Outcome| counts.iter().map(|of| of[outcome as usize]).sum::<u64>();
        ItemCounts {
            all: counts.iter().flatten().sum(),
            passed: count(Outcome::Allowed) + count(Outcome::Shadowed) + count(Outcome::Degraded),
            refused: count(Outcome::Limited) + count(Outcome::Banned),
            errors: count(Outcome::Error),
        }
    }

    /// Items of all businesses together.
    pub fn of_all(sums: &Sums) -> ItemCounts {
        let items = sums.bizs.values().map(|sums| ItemCounts::of(&sums.items));
        items.fold(ItemCounts::default(), |all, one| all.with(one, u64::saturating_add))
    }

    /// The difference from an earlier count.
    pub fn since(self, before: ItemCounts) -> ItemCounts {
        self.with(before, u64::saturating_sub)
    }

    fn with(self, other: ItemCounts, combine: fn(u64, u64) -> u64) -> ItemCounts {
        ItemCounts {
            all: combine(self.all, other.all),
            passed: combine(self.passed, other.passed),
            refused: combine(self.refused, other.refused),
            errors: combine(self.errors, other.errors),
        }
    }
}

/// Number of answered requests.
pub fn requests(sums: &Sums) -> u64 {
    sums.requests.iter().flatten().sum()
}

/// All counters by name: the sums over all slots since runtime.mmap was created.
pub fn read(sums: &Sums) -> Vec<(&'static str, u64)> {
    let mut counts = vec![("requests", requests(sums)), ("items", ItemCounts::of_all(sums).all)];
    let of_group = |of| sums.groups.values().map(|group| group.count(of)).sum();
    counts.extend(OF_GROUPS.map(|(name, of)| (name, of_group(of))));
    counts.extend(OF_PROCESSES.map(|(name, of)| (name, sums.count(of))));
    counts
}
