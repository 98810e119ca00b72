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
        items.fold(ItemCounts::default(), |all, one| ItemCounts {
            all: all.all + one.all,
            passed: all.passed + one.passed,
            refused: all.refused + one.refused,
            errors: all.errors + one.errors,
        })
    }

    /// The difference from an earlier count.
    pub fn since(self, before: ItemCounts) -> ItemCounts {
        ItemCounts {
            all: self.all.saturating_sub(before.all),
            passed: self.passed.saturating_sub(before.passed),
            refused: self.refused.saturating_sub(before.refused),
            errors: self.errors.saturating_sub(before.errors),
        }
    }
}

/// A counter for display: its sum over all slots since runtime.mmap was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedCount {
    pub name: &'static str,
    pub count: u64,
}

/// Number of answered requests.
pub fn requests(sums: &Sums) -> u64 {
    sums.requests.iter().flatten().sum()
}

/// All counters.
pub fn read(sums: &Sums) -> Vec<NamedCount> {
    let requests = NamedCount { name: "requests", count: requests(sums) };
    let items = NamedCount { name: "items", count: ItemCounts::of_all(sums).all };
    let of_groups = OF_GROUPS
        .iter()
        .map(|&(name, of)| (name, sums.groups.values().map(|group| group.count(of)).sum()))
        .map(|(name, count)| NamedCount { name, count });
    let of_processes =
        OF_PROCESSES.iter().map(|&(name, of)| NamedCount { name, count: sums.count(of) });
    [requests, items].into_iter().chain(of_groups).chain(of_processes).collect()
}
