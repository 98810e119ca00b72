//! What the slots of runtime.mmap count, by the names it is shown under: the one place that knows
//! which counters there are.

use frs::store::{Counter, GroupCounter, Runtime};

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

/// Names and sums over all slots, since runtime.mmap was made.
pub fn read(runtime: &Runtime) -> Vec<(&'static str, u64)> {
    let groups = OF_GROUPS.iter().map(|&(name, of)| (name, runtime.count_of_groups(of)));
    let processes = OF_PROCESSES.iter().map(|&(name, of)| (name, runtime.count(of)));
    groups.chain(processes).collect()
}

/// Transactions begun by those who are attached now.
pub fn transactions(runtime: &Runtime) -> Vec<(u32, u64)> {
    let slots = runtime.slots();
    slots.iter().map(|slot| (slot.slot, runtime.slot(slot.slot).sequence())).collect()
}
