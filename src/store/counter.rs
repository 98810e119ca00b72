//! Counters of a slot: relaxed stores by the owner only, kept when the owner dies.

/// What is counted; the number is the word's place in the slot's page of counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counter {
    /// A semaphore was not free at once.
    SemaphoreWaits = 0,
    /// A semaphore was not to be had within the lock-timeout.
    SemaphoreBusy = 1,
    /// A semaphore named an owner that was no more.
    SemaphoreOrphans = 2,
    /// A dead slot was recovered.
    Recoveries = 3,
    /// A node was created.
    Creates = 4,
    /// An expired node made room.
    EvictionsExpired = 5,
    /// A node that did not limit its key made room.
    EvictionsIdle = 6,
    /// A limiting node made room.
    EvictionsLimiting = 7,
    /// A node whose CRC failed was dropped.
    DroppedCrc = 8,
}
