//! The sums of the counters of all slots.
//!
//! Invariant: of a table, only the rows in use are read. Reading more would cost blocks where the
//! files are in memory.

use std::collections::BTreeMap;

use frs_base::sync::Ordering;

use super::{
    BizRow, COMMAND_NAMES, COUNTERS, ClientKey, ClientSums, Counter, Counters, ExtensionSums,
    GROUP_COUNTERS, GroupCounter, GroupRow, HandshakeResult, Histogram, ITEM_ERRORS, OUTCOMES,
    REFUSERS, REQUEST_KINDS, RESPONSE_KINDS, Timed, at,
};
use crate::file::layout::{self, CHAIN_MAX};

/// The key of a row of businesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BizKey {
    /// The business of this id.
    Id(u32),
    /// Items that named no business.
    Unknown,
    /// Businesses beyond the table.
    Others,
}

/// The key of a row of groups.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupKey {
    /// The group of this name.
    Name(String),
    /// Groups beyond the table.
    Others,
}

/// The nodes of a group, as counted by a sweep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nodes {
    /// Nodes that are not expired.
    pub live: u64,
    /// Expired nodes, which wait to be reused.
    pub expired: u64,
    /// Free places.
    pub free: u64,
    /// Key-nodes by the nodes in their chains, live and expired: 0 to 56.
    pub chains: [u64; CHAIN_MAX + 1],
    /// When the sweep ended, in milliseconds.
    pub swept_ms: u64,
}

impl Default for Nodes {
    fn default() -> Nodes {
        Nodes { live: 0, expired: 0, free: 0, chains: [0; CHAIN_MAX + 1], swept_ms: 0 }
    }
}

/// The counts of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupSums {
    counts: [u64; GROUP_COUNTERS],
    /// Its nodes. None before the first sweep.
    pub nodes: Option<Nodes>,
}

impl GroupSums {
    /// How often this event happened.
    pub fn count(&self, counter: GroupCounter) -> u64 {
        self.counts[counter as usize]
    }
}

/// The counts of a business.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BizSums {
    /// Items of Queries and of Updates, by outcome.
    pub items: [[u64; OUTCOMES]; 2],
    /// Refused Updates, by their refuser: see [`refuser`](super::refuser).
    pub refusals: [u64; REFUSERS],
    /// Times of requests, each counted for the business of one item of its tick.
    pub times: Histogram,
}

/// The main counts of one slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SlotCounts {
    /// Requests answered.
    pub requests: u64,
    /// Connections open now, if the owner lives.
    pub connections: u64,
    /// Clients with a request that waits, if the owner lives.
    pub parked: u64,
}

/// The counts of all slots since runtime.mmap was made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sums {
    counts: [u64; COUNTERS],
    /// Requests, by their kind and the kind of their answer.
    pub requests: [[u64; RESPONSE_KINDS]; REQUEST_KINDS],
    /// Handshakes of TLS, by [`super::HandshakeResult`].
    pub handshakes: [u64; HandshakeResult::ALL.len()],
    /// Failed items, by error.
    pub item_errors: [u64; ITEM_ERRORS],
    /// Commands that frs does not have, by the numbers of their names. Empty if there were none.
    pub unknown_commands: Vec<u64>,
    /// Times of requests, from readable until written.
    pub request_times: Histogram,
    /// Times of flushes that succeeded.
    pub flush_times: Histogram,
    /// The counts of an extension.
    pub extension: ExtensionSums,
    /// Groups that ever counted something.
    pub groups: BTreeMap<GroupKey, GroupSums>,
    /// Businesses that have a row.
    pub bizs: BTreeMap<BizKey, BizSums>,
    /// Clients that have a row.
    pub clients: BTreeMap<ClientKey, ClientSums>,
}

impl Sums {
    /// How often this event happened.
    pub fn count(&self, counter: Counter) -> u64 {
        self.counts[counter as usize]
    }

    /// Adds the counts of a slot.
    pub(crate) fn add(&mut self, slot: Counters<'_>) {
        slot.add_words(at::COUNTERS, &mut self.counts);
        slot.add_words(at::COUNTERS + at::REQUESTS, self.requests.as_flattened_mut());
        slot.add_words(at::COUNTERS + at::HANDSHAKES, &mut self.handshakes);
        slot.add_words(at::COUNTERS + at::ITEM_ERRORS, &mut self.item_errors);
        slot.add_unknown_commands(&mut self.unknown_commands);
        slot.add_times(Timed::Request, &mut self.request_times);
        slot.add_times(Timed::Flush, &mut self.flush_times);
        self.extension.add(slot);
        for row in 0..slot.group_rows() {
            slot.add_group(GroupRow::of(row), &mut self.groups);
        }
        for row in 0..slot.biz_rows_used() {
            slot.add_biz(row, &mut self.bizs);
        }
        slot.add_clients(&mut self.clients);
    }
}

impl Counters<'_> {
    /// The main counts of this slot.
    pub(crate) fn short(self) -> SlotCounts {
        let start = at::COUNTERS + at::REQUESTS;
        let requests =
            (start..start + REQUEST_KINDS * RESPONSE_KINDS).map(|word| self.load(word)).sum();
        let [connections, parked] =
            [at::OPEN, at::PARKED].map(|word| self.load(at::COUNTERS + word));
        SlotCounts { requests, connections, parked }
    }

    pub(super) fn add_times(self, timed: Timed, sum: &mut Histogram) {
        self.add_histogram(Self::histogram(timed), sum);
    }

    fn add_histogram(self, start: usize, sum: &mut Histogram) {
        sum.sum_us = sum.sum_us.wrapping_add(self.load(start));
        self.add_words(start + 1, &mut sum.buckets);
    }

    pub(super) fn add_words(self, start: usize, sums: &mut [u64]) {
        for (word, sum) in (start..).zip(sums) {
            *sum += self.load(word);
        }
    }

    fn add_unknown_commands(self, sums: &mut Vec<u64>) {
        if self.load(at::COUNTERS + at::UNKNOWN_COMMANDS) > 0 {
            sums.resize(COMMAND_NAMES, 0);
            self.add_words(at::COMMANDS_START, sums);
        }
    }

    fn add_group(self, row: GroupRow, groups: &mut BTreeMap<GroupKey, GroupSums>) {
        let key = match row {
            GroupRow::OTHERS => GroupKey::Others,
            _ => match layout::name_of(self.group_name(row)) {
                Some(name) => GroupKey::Name(name),
                None => return,
            },
        };
        let start = row.word() + at::GROUP_COUNTS;
        let counts: [u64; GROUP_COUNTERS] = std::array::from_fn(|at| self.load(start + at));
        if key == GroupKey::Others && counts == [0; GROUP_COUNTERS] {
            return;
        }
        let sums = groups.entry(key).or_default();
        for (sum, count) in sums.counts.iter_mut().zip(counts) {
            *sum += count;
        }
        let nodes = self.nodes(row);
        // If several keepers have swept, the last sweep counts.
        if nodes.as_ref().map(|nodes| nodes.swept_ms) > sums.nodes.as_ref().map(|n| n.swept_ms) {
            sums.nodes = nodes;
        }
    }

    fn nodes(self, row: GroupRow) -> Option<Nodes> {
        let swept = self.region.word(self.base + row.word() + at::GROUP_SWEPT);
        // Acquire: pairs with `set_nodes`.
        let swept_ms = Some(swept.load(Ordering::Acquire)).filter(|&at| at > 0)?;
        let start = row.word() + at::GROUP_NODES;
        let chains = std::array::from_fn(|length| self.load(start + 3 + length));
        let [live, expired, free] = std::array::from_fn(|nth| self.load(start + nth));
        Some(Nodes { live, expired, free, chains, swept_ms })
    }

    fn add_biz(self, row: usize, bizs: &mut BTreeMap<BizKey, BizSums>) {
        let key = match row {
            at::BIZ_UNKNOWN => BizKey::Unknown,
            at::BIZ_OTHERS => BizKey::Others,
            _ => BizKey::Id(self.biz_id(row)),
        };
        let row = BizRow::of(row).word();
        let mut items = [[0; OUTCOMES]; 2];
        self.add_words(row + at::BIZ_COUNTS, items.as_flattened_mut());
        if !matches!(key, BizKey::Id(_)) && items == [[0; OUTCOMES]; 2] {
            return;
        }
        let sums = bizs.entry(key).or_default();
        self.add_words(row + at::BIZ_COUNTS, sums.items.as_flattened_mut());
        self.add_words(row + at::BIZ_REFUSALS, &mut sums.refusals);
        self.add_histogram(row + at::BIZ_TIMES, &mut sums.times);
    }
}
