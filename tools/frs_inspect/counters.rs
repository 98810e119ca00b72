//! What the slots of runtime.mmap count, by the names it is shown under: the one place that knows
//! which counters there are.

use frs::store::{Counter, Runtime};

const COUNTERS: [(&str, Counter); 9] = [
    ("nodes created", Counter::Creates),
    ("evicted: expired", Counter::EvictionsExpired),
    ("evicted: idle", Counter::EvictionsIdle),
    ("evicted: limiting", Counter::EvictionsLimiting),
    ("dropped: CRC failed", Counter::DroppedCrc),
    ("semaphore waits", Counter::SemaphoreWaits),
    ("semaphore busy", Counter::SemaphoreBusy),
    ("semaphore orphans", Counter::SemaphoreOrphans),
    ("slots recovered", Counter::Recoveries),
];

/// Names and sums over all slots, since runtime.mmap was made.
pub fn read(runtime: &Runtime) -> Vec<(&'static str, u64)> {
    COUNTERS.iter().map(|&(name, counter)| (name, runtime.count(counter))).collect()
}

/// Transactions begun by those who are attached now.
pub fn transactions(runtime: &Runtime) -> Vec<(u32, u64)> {
    let slots = runtime.slots();
    slots.iter().map(|slot| (slot.slot, runtime.slot(slot.slot).sequence())).collect()
}
