//! Counters of a slot. Only the owner writes them, with relaxed stores; they stay when the owner
//! dies.
//!
//! Invariant: a counter only grows, whichever process owns its slot, and only the owner writes it,
//! with a load and a store. So the sum over all slots, free ones included, is the total since
//! runtime.mmap was made. A row of a table names a group or a business for good. A group or
//! business without a row is counted in the row of all others. The layers above define what the
//! numbers of requests, answers, outcomes and errors mean.

mod clients;
mod extension;
mod histogram;
mod sums;

use frs_base::named;
use frs_base::sync::Ordering;

use crate::file::layout::{self, slot as at};
use crate::file::region::Region;

pub use clients::{CLIENT_NAME_BYTES, ClientKey, ClientRow, ClientSums};
pub use extension::{ExtensionSums, ExtensionWords};
pub(crate) use histogram::upper_us;
pub use histogram::{BUCKETS, Doubling, Histogram, bucket_of};
pub use sums::{BizKey, BizSums, GroupKey, GroupSums, Nodes, SlotCounts, Sums};

/// Events that have a word each. The number is the place of the word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counter {
    /// A semaphore was not free at once.
    SemaphoreWaits = 0,
    /// A semaphore was not free within the lock-timeout.
    SemaphoreBusy = 1,
    /// A semaphore named an owner that did not hold it.
    SemaphoreOrphans = 2,
    /// A dead slot was recovered.
    Recoveries = 3,
    /// Dirty pages could not be written back.
    FlushErrors = 4,
    /// A connection was accepted.
    Connections = 5,
    /// A connection was refused, or closed without an answer.
    ConnectionsRefused = 6,
    /// A connection was closed because its client was late to send a request or to read answers.
    Timeouts = 7,
    /// Bytes read from clients.
    BytesIn = 8,
    /// Bytes written to clients.
    BytesOut = 9,
    /// A waiting item got its answer.
    WaitsAnswered = 10,
    /// A waiting item reached its deadline before an answer.
    WaitsMissed = 11,
    /// A waiting item got no answer, because the extension could not be asked.
    WaitsUnreachable = 12,
    /// A hold was made.
    HoldsMade = 13,
    /// A hold was settled or let go.
    HoldsEnded = 14,
    /// The life of a hold was over before it was settled or let go.
    HoldsLapsed = 15,
}

/// Words for [`Counter`]s.
const COUNTERS: usize = 16;
const _: () = assert!(Counter::HoldsLapsed as usize == COUNTERS - 1 && COUNTERS <= at::ITEM_ERRORS);

named! {
    /// How a handshake of TLS ended. The number is the place of its word.
    HandshakeResult {
        /// With the proof of the certificates.
        Full "full",
        /// By a ticket of an earlier session.
        Resumed "resumed",
        /// Without a session.
        Failed "failed",
    }
}

/// Events counted for each group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupCounter {
    /// A node was created.
    Creates = 0,
    /// An expired node was evicted.
    EvictionsExpired = 1,
    /// A node that did not limit its key was evicted.
    EvictionsIdle = 2,
    /// A limiting node was evicted.
    EvictionsLimiting = 3,
    /// A node whose CRC failed was dropped.
    DroppedCrc = 4,
    /// A node in the wrong place was dropped.
    DroppedMisplaced = 5,
    /// A node was dropped because its key has another node.
    DroppedDuplicate = 6,
}

/// Words for [`GroupCounter`]s.
const GROUP_COUNTERS: usize = 7;

/// Kinds of requests that are counted separately.
pub const REQUEST_KINDS: usize = 5;

/// Kinds of answers to a request that are counted separately.
pub const RESPONSE_KINDS: usize = 16;

/// Outcomes of an item that are counted separately.
pub const OUTCOMES: usize = 7;

/// Errors of an item that are counted separately.
pub const ITEM_ERRORS: usize = 12;

/// Names of commands that frs does not have and that are counted separately.
pub use layout::slot::COMMAND_NAMES;

/// Refusers of Updates that are counted separately: a ban, each of the first limits, all other
/// limits.
pub const REFUSERS: usize = 11;

/// The number of a refuser: 0 for a ban, otherwise the number of the limit, from 1. The last number
/// stands for all limits from there on.
#[inline]
pub fn refuser(limit: Option<u16>) -> usize {
    limit.map_or(0, |limit| usize::from(limit).clamp(1, REFUSERS - 1))
}

/// Events whose duration is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timed {
    /// A request, from readable until written.
    Request = 0,
    /// Writing back the dirty pages of all groups.
    Flush = 1,
    /// A message of an extension, from its sending to its answer.
    Extension = 2,
}

// Each table ends before the next one begins.
#[cfg(not(any(loom, miri)))]
const _: () = {
    assert!(at::ITEM_ERRORS + ITEM_ERRORS <= at::REQUESTS);
    assert!(at::REQUESTS + REQUEST_KINDS * RESPONSE_KINDS <= at::UNKNOWN_COMMANDS);
    assert!(at::UNKNOWN_COMMANDS < at::OPEN);
    assert!(at::HANDSHAKES + HandshakeResult::ALL.len() <= at::CLIENT_ROWS_USED);
    assert!(at::CLIENT_ROWS_USED < at::HISTOGRAMS);
    assert!(BUCKETS < at::HISTOGRAM_WORDS);
    assert!(
        at::HISTOGRAMS + (Timed::Extension as usize + 1) * at::HISTOGRAM_WORDS
            <= layout::PAGE_WORDS
    );
    assert!(at::GROUP_COUNTS + GROUP_COUNTERS < at::GROUP_NODES);
    assert!(at::BIZ_COUNTS + 2 * OUTCOMES == at::BIZ_REFUSALS);
    assert!(at::BIZ_REFUSALS + REFUSERS == at::BIZ_TIMES);
    assert!(at::BIZ_TIMES + 1 + BUCKETS == at::BIZ_ROW_WORDS);
};

/// The row of a business in the table of businesses, as its first word in the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BizRow(u32);

impl BizRow {
    /// The row for items that name no business.
    pub const UNKNOWN: BizRow = BizRow::of(at::BIZ_UNKNOWN);
    /// The row for businesses without a row of their own.
    pub const OTHERS: BizRow = BizRow::of(at::BIZ_OTHERS);

    pub(crate) const fn of(row: usize) -> BizRow {
        BizRow((at::BIZ_ROWS_START + row * at::BIZ_ROW_WORDS) as u32)
    }

    const fn word(self) -> usize {
        self.0 as usize
    }
}

/// The row of a group in the table of groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupRow(usize);

impl GroupRow {
    /// The row for groups without a row of their own.
    pub const OTHERS: GroupRow = GroupRow(0);

    pub(crate) const fn of(row: usize) -> GroupRow {
        GroupRow(row)
    }

    const fn word(self) -> usize {
        at::GROUP_ROWS_START + self.0 * at::GROUP_ROW_WORDS
    }
}

/// The counters of a slot: `base` is the slot's first word in the region.
///
/// Only its owner counts. All other processes only read.
#[derive(Debug, Clone, Copy)]
pub struct Counters<'a> {
    pub(crate) region: &'a Region,
    pub(crate) base: usize,
}

impl<'a> Counters<'a> {
    pub(crate) fn at(region: &'a Region, base: usize) -> Counters<'a> {
        Counters { region, base }
    }

    #[inline]
    fn load(self, word: usize) -> u64 {
        self.region.load(self.base + word)
    }

    /// Only the owner writes, so a load and a store are enough.
    #[inline]
    fn grow(self, word: usize, by: u64) {
        let word = self.region.word(self.base + word);
        word.store(word.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
    }

    #[inline]
    fn set(self, word: usize, value: u64) {
        self.region.word(self.base + word).store(value, Ordering::Relaxed);
    }

    /// Counts one.
    #[inline]
    pub fn count(self, counter: Counter) {
        self.add(counter, 1);
    }

    /// Counts a handshake of TLS.
    pub fn count_handshake(self, result: HandshakeResult) {
        self.grow(at::COUNTERS + at::HANDSHAKES + result as usize, 1);
    }

    /// Counts many.
    #[inline]
    pub fn add(self, counter: Counter, by: u64) {
        self.grow(at::COUNTERS + counter as usize, by);
    }

    /// Counts events of a group.
    #[inline]
    pub(crate) fn add_to_group(self, row: GroupRow, counter: GroupCounter, by: u64) {
        self.grow(row.word() + at::GROUP_COUNTS + counter as usize, by);
    }

    /// Counts an answered request. Its kind is below [`REQUEST_KINDS`], that of its answer below
    /// [`RESPONSE_KINDS`].
    #[inline]
    pub fn count_request(self, request: usize, response: usize) {
        debug_assert!(request < REQUEST_KINDS && response < RESPONSE_KINDS);
        self.grow(at::COUNTERS + at::REQUESTS + request * RESPONSE_KINDS + response, 1);
    }

    /// Counts an item of a business, in an Update or a Query. Its outcome is below [`OUTCOMES`].
    #[inline]
    pub fn count_item(self, row: BizRow, is_update: bool, outcome: usize) {
        debug_assert!(outcome < OUTCOMES);
        let column = usize::from(is_update) * OUTCOMES + outcome;
        self.grow(row.word() + at::BIZ_COUNTS + column, 1);
    }

    /// Counts a refused Update of a business by its refuser: see [`refuser`].
    pub fn count_refusal(self, row: BizRow, refuser: usize) {
        debug_assert!(refuser < REFUSERS);
        self.grow(row.word() + at::BIZ_REFUSALS + refuser, 1);
    }

    /// Counts a duration of a business's requests `times` times.
    #[inline]
    pub fn add_biz_time(self, row: BizRow, us: u64, times: u64) {
        self.grow_time(row.word() + at::BIZ_TIMES, us, times);
    }

    /// Counts the error of an item. Its number is below [`ITEM_ERRORS`].
    pub fn count_item_error(self, error: usize) {
        debug_assert!(error < ITEM_ERRORS);
        self.grow(at::COUNTERS + at::ITEM_ERRORS + error, 1);
    }

    /// Counts a command that frs does not have. Its name's number is below [`COMMAND_NAMES`].
    #[cold]
    pub fn count_unknown_command(self, name: usize) {
        debug_assert!(name < COMMAND_NAMES);
        self.grow(at::COMMANDS_START + name, 1);
        self.grow(at::COUNTERS + at::UNKNOWN_COMMANDS, 1);
    }

    /// Counts a duration `times` times.
    #[inline]
    pub fn add_time(self, timed: Timed, us: u64, times: u64) {
        self.grow_time(Self::histogram(timed), us, times);
    }

    /// Counts a duration in the histogram that begins with this word.
    #[inline]
    fn grow_time(self, start: usize, us: u64, times: u64) {
        self.grow(start, us.wrapping_mul(times));
        self.grow(start + 1 + bucket_of(us), times);
    }

    /// The first word of a histogram.
    const fn histogram(timed: Timed) -> usize {
        at::COUNTERS + at::HISTOGRAMS + timed as usize * at::HISTOGRAM_WORDS
    }

    /// Counts durations.
    pub(crate) fn grow_times(self, timed: Timed, times: &Histogram) {
        let start = Self::histogram(timed);
        self.grow(start, times.sum_us);
        for (word, &count) in (start + 1..).zip(&times.buckets).filter(|(_, count)| **count > 0) {
            self.grow(word, count);
        }
    }

    /// Stores the number of open connections.
    #[inline]
    pub fn set_open(self, connections: u64) {
        self.set(at::COUNTERS + at::OPEN, connections);
    }

    /// A new owner has no connection yet.
    pub(crate) fn forget_clients(self) {
        self.set_open(0);
        self.set_parked(0);
    }

    /// Stores the number of clients with a request that waits.
    #[inline]
    pub fn set_parked(self, clients: u64) {
        self.set(at::COUNTERS + at::PARKED, clients);
    }

    /// Stores the findings of a sweep over all nodes of a group.
    pub fn set_nodes(self, row: GroupRow, nodes: &Nodes) {
        let start = row.word() + at::GROUP_NODES;
        let figures = [nodes.live, nodes.expired, nodes.free];
        for (word, figure) in (start..).zip(figures.into_iter().chain(nodes.chains)) {
            self.set(word, figure);
        }
        // Release: a process that reads this time reads figures at least as new.
        self.region
            .word(self.base + row.word() + at::GROUP_SWEPT)
            .store(nodes.swept_ms, Ordering::Release);
    }

    /// The row of a group. A group without a row gets one if one is left.
    pub(crate) fn group_row(self, name: &str) -> GroupRow {
        let name = layout::name_words(name);
        let used = self.group_rows();
        let known = (1..used).find(|&row| self.group_name(GroupRow(row)) == name);
        if let Some(row) = known {
            return GroupRow(row);
        }
        if used == at::GROUP_ROWS {
            return GroupRow::OTHERS;
        }
        let row = GroupRow(used);
        for (word, part) in (row.word()..).zip(name) {
            self.set(word, part);
        }
        // Release: the name is there before its row counts.
        self.region.store_release(self.base + at::COUNTERS + at::GROUP_ROWS_USED, used as u64 + 1);
        row
    }

    /// Rows of groups in use, the row of all others included.
    fn group_rows(self) -> usize {
        let used = self.region.word(self.base + at::COUNTERS + at::GROUP_ROWS_USED);
        (used.load(Ordering::Acquire) as usize).clamp(1, at::GROUP_ROWS)
    }

    fn group_name(self, row: GroupRow) -> [u64; 4] {
        std::array::from_fn(|part| self.load(row.word() + part))
    }

    /// The rows of businesses by their ids. A business without a row gets one while any are left.
    /// `allocate` gets a number of rows to allocate, and returns the number of rows that have room.
    pub(crate) fn biz_rows(
        self,
        ids: &[u32],
        allocate: impl FnOnce(usize) -> usize,
    ) -> Vec<BizRow> {
        let mut used = self.biz_rows_used();
        let mut known: Vec<(u32, usize)> =
            (at::BIZ_FIRST..used).map(|row| (self.biz_id(row), row)).collect();
        known.sort_unstable();
        let find = |id: u32| {
            let found = known.binary_search_by_key(&id, |(known, _)| *known).ok()?;
            Some(known[found].1)
        };
        let new = ids.iter().filter(|&&id| find(id).is_none()).count();
        let room = match (used + new).min(at::BIZ_ROWS) {
            wanted if new > 0 => allocate(wanted).min(wanted),
            _ => used,
        };
        let mut row_of = |id: u32| {
            find(id).map(BizRow::of).unwrap_or_else(|| {
                if used >= room {
                    return BizRow::OTHERS;
                }
                let row = BizRow::of(used);
                self.set(row.word(), u64::from(id));
                used += 1;
                row
            })
        };
        let rows = ids.iter().map(|&id| row_of(id)).collect();
        // Release: the ids are there before their rows count.
        self.region.store_release(self.base + at::COUNTERS + at::BIZ_ROWS_USED, used as u64);
        rows
    }

    /// Rows of businesses in use: the unknown, all others, then one for each business.
    fn biz_rows_used(self) -> usize {
        let used = self.region.word(self.base + at::COUNTERS + at::BIZ_ROWS_USED);
        (used.load(Ordering::Acquire) as usize).clamp(at::BIZ_FIRST, at::BIZ_ROWS)
    }

    fn biz_id(self, row: usize) -> u32 {
        self.load(BizRow::of(row).word()) as u32
    }
}
