//! The courier's counts: its messages, the leases, the cluster's nodes.
//!
//! Invariant: only a courier writes these words of its slot, and no other owner uses them. So the
//! sum over all slots is the total of all couriers. States come from the living courier only.

use frs_base::sync::Ordering;

use super::{Counters, Histogram, Timed, at};

/// A call that a courier sends to a node: a function of the ledger's library, or a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterFunction {
    /// A lease of an interval limit: wants, returns, reports, claims.
    Interval = 0,
    /// The same for a calendar limit.
    Calendar = 1,
    /// The same for a total.
    Total = 2,
    /// The same for a sliding limit.
    Sliding = 3,
    /// The same for a token bucket.
    Token = 4,
    /// The same for a sliding counter.
    SlidingCounter = 5,
    /// The hosts that hold uses of a key.
    Holders = 6,
    /// A look at slots, by which a master notices that they have become its own.
    Heartbeat = 7,
    /// The reset epoch of a business.
    Epoch = 8,
    /// The check of the secret.
    Secret = 9,
    /// Stores a record in the cluster.
    Put = 10,
    /// Fetches a stored record.
    Fetch = 11,
    /// Removes a record that was fetched.
    Drop = 12,
    /// The command that loads the library of functions.
    Load = 13,
    /// Publishes a recall, or news of one.
    Publish = 14,
    /// Subscribes to the messages of other hosts.
    Subscribe = 15,
    /// The masters of the cluster.
    Shards = 16,
    /// A node's description of itself.
    Info = 17,
    /// The last start of this server.
    Start = 18,
}

/// The result of such a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterResult {
    /// It was answered.
    Ok = 0,
    /// Another holder of this host's name has used a higher number.
    Stale = 1,
    /// The master is still learning, and grants nothing yet.
    Learning = 2,
    /// Another master has the key's slot.
    Moved = 3,
    /// The node answered with an error.
    Error = 4,
    /// No answer came in time.
    Timeout = 5,
    /// The node cannot be reached.
    Unreachable = 6,
    /// Too few replicas have acknowledged it.
    Unconfirmed = 7,
}

/// Events of leases and ledgers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseCounter {
    /// Wants of workers and programs that were taken from their rings.
    Wants = 0,
    /// Uses granted.
    Grants = 1,
    /// Uses given back.
    Returns = 2,
    /// Recalls published.
    Recalls = 3,
    /// Leases claimed after a failover.
    Claims = 4,
    /// Uses above the maximum, as reported by ledgers.
    Over = 5,
    /// Answers that show another configuration on another machine.
    Conflicts = 6,
}

/// States of the uses of leases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseState {
    /// Granted and not spent.
    Unspent = 0,
    /// Kept for parked requests.
    Held = 1,
    /// Spent and not reported yet.
    Unreported = 2,
}

/// Results of spilling a record to the cluster, or of fetching it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpillResult {
    /// The record is in the cluster, and no longer here.
    Spilled = 0,
    /// The record was used meanwhile, and stays here.
    Stayed = 1,
    /// The record stays here, because the cluster did not answer.
    Lost = 2,
    /// The record was in the cluster, and came back.
    Fetched = 3,
    /// The record was not in the cluster: the filter was wrong.
    Missed = 4,
}

impl SpillResult {
    /// All, in the order of their numbers.
    pub const ALL: [SpillResult; 5] = [
        SpillResult::Spilled,
        SpillResult::Stayed,
        SpillResult::Lost,
        SpillResult::Fetched,
        SpillResult::Missed,
    ];

    /// Its name in metrics.
    pub fn word(self) -> &'static str {
        ["spilled", "stayed", "lost", "fetched", "missed"][self as usize]
    }
}

impl ClusterFunction {
    /// All, in the order of their numbers.
    pub const ALL: [ClusterFunction; 19] = [
        ClusterFunction::Interval,
        ClusterFunction::Calendar,
        ClusterFunction::Total,
        ClusterFunction::Sliding,
        ClusterFunction::Token,
        ClusterFunction::SlidingCounter,
        ClusterFunction::Holders,
        ClusterFunction::Heartbeat,
        ClusterFunction::Epoch,
        ClusterFunction::Secret,
        ClusterFunction::Put,
        ClusterFunction::Fetch,
        ClusterFunction::Drop,
        ClusterFunction::Load,
        ClusterFunction::Publish,
        ClusterFunction::Subscribe,
        ClusterFunction::Shards,
        ClusterFunction::Info,
        ClusterFunction::Start,
    ];

    /// Its name in metrics: that of the function in the library, or of the command.
    pub fn word(self) -> &'static str {
        match self {
            ClusterFunction::Interval => "interval",
            ClusterFunction::Calendar => "calendar",
            ClusterFunction::Total => "total",
            ClusterFunction::Sliding => "sliding",
            ClusterFunction::Token => "token",
            ClusterFunction::SlidingCounter => "sliding_counter",
            ClusterFunction::Holders => "holders",
            ClusterFunction::Heartbeat => "heartbeat",
            ClusterFunction::Epoch => "epoch",
            ClusterFunction::Secret => "secret",
            ClusterFunction::Put => "put",
            ClusterFunction::Fetch => "fetch",
            ClusterFunction::Drop => "drop",
            ClusterFunction::Load => "load",
            ClusterFunction::Publish => "publish",
            ClusterFunction::Subscribe => "subscribe",
            ClusterFunction::Shards => "shards",
            ClusterFunction::Info => "info",
            ClusterFunction::Start => "start",
        }
    }
}

impl ClusterResult {
    /// All, in the order of their numbers.
    pub const ALL: [ClusterResult; 8] = [
        ClusterResult::Ok,
        ClusterResult::Stale,
        ClusterResult::Learning,
        ClusterResult::Moved,
        ClusterResult::Error,
        ClusterResult::Timeout,
        ClusterResult::Unreachable,
        ClusterResult::Unconfirmed,
    ];

    /// Its name in metrics.
    pub fn word(self) -> &'static str {
        ["ok", "stale", "learning", "moved", "error", "timeout", "unreachable", "unconfirmed"]
            [self as usize]
    }
}

const FUNCTIONS: usize = ClusterFunction::ALL.len();
const RESULTS: usize = ClusterResult::ALL.len();
const LEASE_COUNTERS: usize = 7;
const LEASE_STATES: usize = 3;

// Words from the start of the courier's part.
const LEASES: usize = at::CLUSTER_FUNCTIONS * RESULTS;
const STATES: usize = LEASES + 8;
const NODES_USED: usize = STATES + LEASE_STATES;
const KEPT_SINCE: usize = NODES_USED + 1;
const NODES: usize = NODES_USED + 5;
const NODE_WORDS: usize = 8;
const NAME_BYTES: usize = (NODE_WORDS - 1) * 8;
/// Maximum number of nodes that are shown.
const CLUSTER_NODES: usize = 24;
const SPILLS: usize = NODES + CLUSTER_NODES * NODE_WORDS;
const WORDS: usize = SPILLS + SpillResult::ALL.len();
#[cfg(not(any(loom, miri)))]
const _: () = assert!(at::CLUSTER + WORDS <= super::layout::PAGE_WORDS);
const _: () = assert!(FUNCTIONS <= at::CLUSTER_FUNCTIONS && LEASES + LEASE_COUNTERS <= STATES);

/// A node of the cluster, as the courier sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterNodeState {
    /// Its address; only the first 56 bytes of a longer one.
    pub address: String,
    /// Whether it answers.
    pub is_up: bool,
}

/// The sums of all couriers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterSums {
    /// Messages, by function and result.
    pub requests: [[u64; RESULTS]; FUNCTIONS],
    /// Times from messages about a key to their answers.
    pub times: Histogram,
    leases: [u64; LEASE_COUNTERS],
    spills: [u64; SpillResult::ALL.len()],
}

/// The cluster as the living courier sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterState {
    /// The nodes that it knows.
    pub nodes: Vec<ClusterNodeState>,
    /// The wall-clock time up to which all changed records are in the cluster. None if the cluster
    /// keeps no records.
    pub kept_since_ms: Option<u64>,
    uses: [u64; LEASE_STATES],
}

impl ClusterSums {
    /// How often this event happened.
    pub fn count(&self, counter: LeaseCounter) -> u64 {
        self.leases[counter as usize]
    }

    /// How often records had this result.
    pub fn spills(&self, result: SpillResult) -> u64 {
        self.spills[result as usize]
    }

    pub(super) fn add(&mut self, slot: Counters<'_>) {
        let requests = self.requests.as_flattened_mut().iter_mut().enumerate();
        requests.for_each(|(nth, sum)| *sum += slot.load(at::CLUSTER + nth));
        let leases = self.leases.iter_mut().enumerate();
        leases.for_each(|(nth, sum)| *sum += slot.load(at::CLUSTER + LEASES + nth));
        let spills = self.spills.iter_mut().enumerate();
        spills.for_each(|(nth, sum)| *sum += slot.load(at::CLUSTER + SPILLS + nth));
        slot.add_times(Timed::Cluster, &mut self.times);
    }
}

impl ClusterState {
    /// The uses of all leases in this state.
    pub fn uses(&self, state: LeaseState) -> u64 {
        self.uses[state as usize]
    }

    pub(crate) fn of(slot: Counters<'_>) -> ClusterState {
        // Acquire: pairs with `set_nodes`.
        let used = slot.region.word(slot.base + at::CLUSTER + NODES_USED).load(Ordering::Acquire);
        let nodes = (0..(used as usize).min(CLUSTER_NODES)).map(|nth| {
            let start = at::CLUSTER + NODES + nth * NODE_WORDS;
            let bytes: Vec<u8> = (start + 1..start + NODE_WORDS)
                .flat_map(|at| slot.load(at).to_le_bytes())
                .collect();
            let address = String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned();
            ClusterNodeState { address, is_up: slot.load(start) == 1 }
        });
        let uses = std::array::from_fn(|nth| slot.load(at::CLUSTER + STATES + nth));
        let kept_since_ms = Some(slot.load(at::CLUSTER + KEPT_SINCE)).filter(|&ms| ms > 0);
        ClusterState { nodes: nodes.collect(), kept_since_ms, uses }
    }
}

/// The counters that a courier writes in its slot.
#[derive(Debug, Clone, Copy)]
pub struct CourierCounters<'a>(Counters<'a>);

impl<'a> CourierCounters<'a> {
    /// The counters of the courier that has this slot.
    pub fn of(slot: Counters<'a>) -> CourierCounters<'a> {
        CourierCounters(slot)
    }

    /// Clears the states that an earlier courier in this slot has stored. Its counts stay.
    pub fn begin(self) {
        self.set_nodes(&[]);
        self.set_kept_since(None);
        (0..LEASE_STATES).for_each(|nth| self.0.set(at::CLUSTER + STATES + nth, 0));
    }

    /// Counts messages that have their result.
    pub fn add_requests(self, function: ClusterFunction, result: ClusterResult, by: u64) {
        self.0.grow(at::CLUSTER + function as usize * RESULTS + result as usize, by);
    }

    /// Counts times from messages to their answers.
    pub fn add_times(self, times: &Histogram) {
        self.0.grow_times(Timed::Cluster, times);
    }

    /// Counts events of leases.
    pub fn add(self, counter: LeaseCounter, by: u64) {
        self.0.grow(at::CLUSTER + LEASES + counter as usize, by);
    }

    /// Counts results of spilled and fetched records.
    pub fn add_spills(self, result: SpillResult, by: u64) {
        self.0.grow(at::CLUSTER + SPILLS + result as usize, by);
    }

    /// Stores how many uses are in a state.
    pub fn set_uses(self, state: LeaseState, uses: u64) {
        self.0.set(at::CLUSTER + STATES + state as usize, uses);
    }

    /// Stores the time up to which all changed records are in the cluster.
    pub fn set_kept_since(self, kept_since_ms: Option<u64>) {
        self.0.set(at::CLUSTER + KEPT_SINCE, kept_since_ms.unwrap_or(0));
    }

    /// Stores the nodes of the cluster, at most the first [`CLUSTER_NODES`] of them.
    pub fn set_nodes(self, nodes: &[ClusterNodeState]) {
        let nodes = &nodes[..nodes.len().min(CLUSTER_NODES)];
        for (nth, node) in nodes.iter().enumerate() {
            let start = at::CLUSTER + NODES + nth * NODE_WORDS;
            let mut name = [0; NAME_BYTES];
            let length = node.address.len().min(NAME_BYTES);
            name[..length].copy_from_slice(&node.address.as_bytes()[..length]);
            for (word, bytes) in name.as_chunks::<8>().0.iter().enumerate() {
                self.0.set(start + 1 + word, u64::from_le_bytes(*bytes));
            }
            self.0.set(start, u64::from(node.is_up));
        }
        // Release: a process that reads this number also reads these nodes; pairs with
        // `ClusterState::of`.
        let used = self.0.region.word(self.0.base + at::CLUSTER + NODES_USED);
        used.store(nodes.len() as u64, Ordering::Release);
    }
}

#[cfg(all(test, not(any(loom, miri))))]
mod tests {
    use super::*;
    use crate::testing::World;

    const COURIER: u32 = 5;

    #[test]
    fn what_a_courier_writes_is_read_by_others() {
        let world = World::new(
            "<map><group name='g' files='1' key-nodes='1' chain='1' node-size='64'/></map>",
        );
        let handle = world.handle(COURIER);
        let courier = CourierCounters::of(handle.counters().unwrap());
        courier.begin();
        courier.add_requests(ClusterFunction::Info, ClusterResult::Unconfirmed, 1);
        courier.add_requests(ClusterFunction::Interval, ClusterResult::Ok, 1);
        let mut times = Histogram::default();
        times.add(100, 1);
        courier.add_times(&times);
        courier.add(LeaseCounter::Conflicts, 7);
        courier.add_spills(SpillResult::Missed, 3);
        courier.set_uses(LeaseState::Unreported, 9);
        courier.set_kept_since(Some(5));
        let many = "h".repeat(80);
        let address = |nth: usize| format!("{nth}-{many}");
        let node = |nth| ClusterNodeState { address: address(nth), is_up: nth % 2 == 1 };
        let nodes: Vec<_> = (0..CLUSTER_NODES + 1).map(node).collect();
        courier.set_nodes(&nodes);
        let runtime = handle.runtime();
        let sums = runtime.sums().cluster;
        assert_eq!((sums.requests[17][7], sums.requests[0][0]), (1, 1));
        assert_eq!(sums.requests.as_flattened().iter().sum::<u64>(), 2);
        assert_eq!((sums.times.count(), sums.times.sum_us), (1, 100));
        assert_eq!(sums.count(LeaseCounter::Conflicts), 7);
        assert_eq!(sums.count(LeaseCounter::Wants), 0);
        assert_eq!(SpillResult::ALL.map(|one| sums.spills(one)), [0, 0, 0, 0, 3]);
        let slots = runtime.slots();
        let slot = slots.iter().find(|slot| slot.role == COURIER).unwrap().slot;
        let state = runtime.cluster_state(slot);
        assert_eq!((state.uses(LeaseState::Unreported), state.kept_since_ms), (9, Some(5)));
        assert_eq!(state.nodes.len(), CLUSTER_NODES);
        assert_eq!(state.nodes[3].address, address(3)[..NAME_BYTES]);
        assert!(state.nodes[3].is_up && !state.nodes[4].is_up);
        courier.begin();
        assert_eq!(runtime.cluster_state(slot), ClusterState::default());
        assert_eq!(runtime.sums().cluster, sums, "what was counted stays");
    }
}
