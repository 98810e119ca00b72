//! Counters of a slot: relaxed stores by the owner only, kept when the owner dies.
//!
//! Invariant: a counter only grows, whoever owns its slot, and only the owner writes it, with a
//! load and a store. So the sum over all slots, free ones too, is what has happened since runtime.mmap
//! was made. A row of a table names a group or a business for good; what finds no row is counted in
//! the row of all others.

mod histogram;
mod sums;

use super::layout::{self, slot as at};
use super::region::Region;
use crate::base::sync::Ordering;

pub use histogram::{BUCKETS, Histogram, bucket_of, upper_us};
pub use sums::{BizKey, GroupKey, GroupSums, Nodes, SlotCounts, Sums};

/// What is counted by a word of its own; the number is the word's place.
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
    /// Dirty pages could not be written back.
    FlushErrors = 4,
    /// A connection was accepted.
    Connections = 5,
    /// One of them was refused, or closed without a word.
    ConnectionsRefused = 6,
    /// A connection was closed because its client was late, with a request or in taking answers.
    Timeouts = 7,
    /// Bytes read from clients.
    BytesIn = 8,
    /// Bytes written to clients.
    BytesOut = 9,
}

/// Words for [`Counter`]s.
pub(crate) const COUNTERS: usize = 10;
const _: () = assert!(Counter::BytesOut as usize == COUNTERS - 1 && COUNTERS <= at::REQUESTS);

/// What is counted of each group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupCounter {
    /// A node was created.
    Creates = 0,
    /// An expired node made room.
    EvictionsExpired = 1,
    /// A node that did not limit its key made room.
    EvictionsIdle = 2,
    /// A limiting node made room.
    EvictionsLimiting = 3,
    /// A node whose CRC failed was dropped.
    DroppedCrc = 4,
    /// A node in the wrong place was dropped.
    DroppedMisplaced = 5,
    /// A node of a key that has another one was dropped.
    DroppedDuplicate = 6,
}

/// Words for [`GroupCounter`]s.
pub(crate) const GROUP_COUNTERS: usize = 7;

/// What a request asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// Query, however it was asked.
    Query = 0,
    /// Update, likewise.
    Update = 1,
    /// Update for a gateway.
    Authz = 2,
    /// Is this worker serving.
    Health = 3,
    /// What could not be told apart.
    Other = 4,
}

impl Asked {
    /// All of them, in the order of their numbers.
    pub const ALL: [Asked; 5] =
        [Asked::Query, Asked::Update, Asked::Authz, Asked::Health, Asked::Other];

    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Asked::Query => "query",
            Asked::Update => "update",
            Asked::Authz => "authz",
            Asked::Health => "health",
            Asked::Other => "other",
        }
    }
}

/// Statuses that are counted each; another one, of a client's own `deny`, by its class.
const STATUSES: [&str; 16] = [
    "200", "400", "401", "403", "404", "405", "408", "413", "415", "429", "431", "501", "503",
    "505", "4xx", "5xx",
];
/// How many kinds of status are told apart.
pub const STATUS_KINDS: usize = STATUSES.len();

/// The kind of a status.
#[inline]
pub(crate) const fn status_kind(status: u16) -> usize {
    match status {
        200 => 0,
        400 => 1,
        401 => 2,
        403 => 3,
        404 => 4,
        405 => 5,
        408 => 6,
        413 => 7,
        415 => 8,
        429 => 9,
        431 => 10,
        501 => 11,
        503 => 12,
        505 => 13,
        500.. => 15,
        _ => 14,
    }
}

/// The word for a kind of status: three digits, or `4xx` and `5xx` for those that are rare.
pub fn status_word(kind: usize) -> &'static str {
    STATUSES.get(kind).copied().unwrap_or("5xx")
}

/// What became of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It passed.
    Allowed = 0,
    /// A limit refused it, or would.
    Limited = 1,
    /// A ban did.
    Banned = 2,
    /// It passed, but would be refused if its business were enforced.
    Shadowed = 3,
    /// It passed, for nothing is limited at the moment.
    Degraded = 4,
    /// A list decided.
    Listed = 5,
    /// It failed.
    Error = 6,
}

/// How many [`Outcome`]s there are.
pub const OUTCOMES: usize = 7;

impl Outcome {
    /// All of them, in the order of their numbers.
    pub const ALL: [Outcome; OUTCOMES] = [
        Outcome::Allowed,
        Outcome::Limited,
        Outcome::Banned,
        Outcome::Shadowed,
        Outcome::Degraded,
        Outcome::Listed,
        Outcome::Error,
    ];

    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Outcome::Allowed => "allowed",
            Outcome::Limited => "limited",
            Outcome::Banned => "banned",
            Outcome::Shadowed => "shadowed",
            Outcome::Degraded => "degraded",
            Outcome::Listed => "listed",
            Outcome::Error => "error",
        }
    }
}

/// Words for errors of items, in their order of precedence.
pub const ITEM_ERRORS: [&str; 6] = ["unknown-biz", "bad-key", "bad-count", "store", "busy", "full"];

/// What times are counted of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timed {
    /// A request, from readable to written.
    Request = 0,
    /// Writing the dirty pages of all groups back.
    Flush = 1,
    /// Writing a checkpoint of a group.
    Checkpoint = 2,
}

/// The row of a business in the table of businesses, as its first word in the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BizRow(u32);

impl BizRow {
    /// Where items are counted that name no business.
    pub const UNKNOWN: BizRow = BizRow::of(at::BIZ_UNKNOWN);
    /// Where businesses are counted that found no row.
    pub const OTHERS: BizRow = BizRow::of(at::BIZ_OTHERS);

    pub(super) const fn of(row: usize) -> BizRow {
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
    /// Where groups are counted that found no row.
    pub const OTHERS: GroupRow = GroupRow(0);

    pub(super) const fn of(row: usize) -> GroupRow {
        GroupRow(row)
    }

    const fn word(self) -> usize {
        at::GROUP_ROWS_START + self.0 * at::GROUP_ROW_WORDS
    }
}

/// The counters of a slot: `base` is the slot's first word in the region.
///
/// Its owner counts; everybody else only reads.
#[derive(Debug, Clone, Copy)]
pub struct Counters<'a> {
    region: &'a Region,
    base: usize,
}

impl<'a> Counters<'a> {
    pub(super) fn at(region: &'a Region, base: usize) -> Counters<'a> {
        Counters { region, base }
    }

    #[inline]
    fn load(self, word: usize) -> u64 {
        self.region.load(self.base + word)
    }

    /// Only the owner writes, so a load and a store do.
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

    /// Counts many.
    #[inline]
    pub fn add(self, counter: Counter, by: u64) {
        self.grow(at::COUNTERS + counter as usize, by);
    }

    /// Counts something of a group.
    #[inline]
    pub fn add_to_group(self, row: GroupRow, counter: GroupCounter, by: u64) {
        self.grow(row.word() + at::GROUP_COUNTS + counter as usize, by);
    }

    /// Counts a request that was answered.
    #[inline]
    pub fn count_request(self, asked: Asked, status: u16) {
        let column = asked as usize * STATUS_KINDS + status_kind(status);
        self.grow(at::COUNTERS + at::REQUESTS + column, 1);
    }

    /// Counts an item of a business: of an Update, or of a Query.
    #[inline]
    pub fn count_item(self, row: BizRow, is_update: bool, outcome: Outcome) {
        let column = usize::from(is_update) * OUTCOMES + outcome as usize;
        self.grow(row.word() + at::BIZ_COUNTS + column, 1);
    }

    /// Counts the error of an item: its place in [`ITEM_ERRORS`].
    pub fn count_item_error(self, error: usize) {
        self.grow(at::COUNTERS + at::ITEM_ERRORS + error.min(ITEM_ERRORS.len() - 1), 1);
    }

    /// Counts how long something took, so often.
    #[inline]
    pub fn add_time(self, timed: Timed, us: u64, times: u64) {
        let start = at::COUNTERS + at::HISTOGRAMS + timed as usize * at::HISTOGRAM_WORDS;
        self.grow(start, us.wrapping_mul(times));
        self.grow(start + 1 + bucket_of(us), times);
    }

    /// Notes how many connections are open.
    #[inline]
    pub fn set_open(self, connections: u64) {
        self.set(at::COUNTERS + at::OPEN, connections);
    }

    /// Notes what a look at all nodes of a group has found.
    pub fn set_nodes(self, row: GroupRow, nodes: &Nodes) {
        let start = row.word() + at::GROUP_NODES;
        let figures = [nodes.live, nodes.expired, nodes.free];
        for (word, figure) in (start..).zip(figures.into_iter().chain(nodes.chains)) {
            self.set(word, figure);
        }
        // Release: who reads this time reads figures as new as it, at least.
        self.region
            .word(self.base + row.word() + at::GROUP_SWEPT)
            .store(nodes.swept_ms, Ordering::Release);
    }

    /// The row of a group, which gets one if there is one left.
    pub(super) fn group_row(self, name: &str) -> GroupRow {
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
        // Release: its name is there before it counts.
        self.region.store_release(self.base + at::COUNTERS + at::GROUP_ROWS_USED, used as u64 + 1);
        row
    }

    /// Rows of groups in use, that of all others among them.
    fn group_rows(self) -> usize {
        let used = self.region.word(self.base + at::COUNTERS + at::GROUP_ROWS_USED);
        (used.load(Ordering::Acquire) as usize).clamp(1, at::GROUP_ROWS)
    }

    fn group_name(self, row: GroupRow) -> [u64; 4] {
        std::array::from_fn(|part| self.load(row.word() + part))
    }

    /// The rows of businesses by their ids. Those without one get one while there are any:
    /// `allocate` is asked for room for so many rows, and says for how many there is.
    pub(super) fn biz_rows(
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

    /// Rows of businesses in use: those of the unknown and of all others, and then the others'.
    fn biz_rows_used(self) -> usize {
        let used = self.region.word(self.base + at::COUNTERS + at::BIZ_ROWS_USED);
        (used.load(Ordering::Acquire) as usize).clamp(at::BIZ_FIRST, at::BIZ_ROWS)
    }

    fn biz_id(self, row: usize) -> u32 {
        self.load(BizRow::of(row).word()) as u32
    }
}
