//! The courier's counts in its slot: its messages, the leases, the cluster's nodes; its peers.
//!
//! Invariant: only a courier writes the extension's words of its slot, and no other owner uses
//! them. So the sum over all slots is the total of all couriers. States come from the living
//! courier only.

mod peers;

use frs_base::named;
use frs_store::counter::{ExtensionSums, ExtensionWords, Histogram};

named! {
    /// A call that a courier sends to a node: a function of the ledger's library, or a command.
    ClusterFunction {
        /// A lease of an interval limit: needs, returns, reports, claims.
        Interval = 0 "interval",
        /// The same for a calendar limit.
        Calendar = 1 "calendar",
        /// The same for a total.
        Total = 2 "total",
        /// The same for a sliding limit.
        Sliding = 3 "sliding",
        /// The same for a token bucket.
        Token = 4 "token",
        /// The same for a sliding counter.
        SlidingCounter = 5 "sliding_counter",
        /// The hosts that hold uses of a key.
        Holders = 6 "holders",
        /// A look at slots, by which a master notices that they have become its own.
        Heartbeat = 7 "heartbeat",
        /// The reset epoch of a business.
        Epoch = 8 "epoch",
        /// The check of the secret.
        Secret = 9 "secret",
        /// Stores a record in the cluster.
        Put = 10 "put",
        /// Fetches a stored record.
        Fetch = 11 "fetch",
        /// Removes a record that was fetched.
        Drop = 12 "drop",
        /// The command that loads the library of functions.
        Load = 13 "load",
        /// Publishes a recall, or news of one.
        Publish = 14 "publish",
        /// Subscribes to the messages of other hosts.
        Subscribe = 15 "subscribe",
        /// The masters of the cluster.
        Shards = 16 "shards",
        /// A node's description of itself.
        Info = 17 "info",
        /// The last start of this server.
        Start = 18 "start",
    }
}

named! {
    /// The result of such a call.
    ClusterResult {
        /// It was answered.
        Ok = 0 "ok",
        /// Another holder of this host's name has used a higher number.
        Stale = 1 "stale",
        /// The master is still learning, and grants nothing yet.
        Learning = 2 "learning",
        /// Another master has the key's slot.
        Moved = 3 "moved",
        /// The node answered with an error.
        Error = 4 "error",
        /// No answer came in time.
        Timeout = 5 "timeout",
        /// The node cannot be reached.
        Unreachable = 6 "unreachable",
        /// Too few replicas have acknowledged it.
        Unconfirmed = 7 "unconfirmed",
    }
}

named! {
    /// Events of leases and ledgers.
    LeaseCounter at LEASES {
        /// Needs of workers and programs that were taken from their rings.
        Needs = 0 "wants",
        /// Answers that granted a need.
        Grants = 1 "grants",
        /// Messages that returned uses.
        Returns = 2 "returns",
        /// Recalls published.
        Recalls = 3 "recalls",
        /// Leases claimed from new masters.
        Claims = 4 "claims",
        /// Answers that reported uses beyond a maximum.
        Over = 5 "over",
        /// Answers that show another configuration on another machine.
        Conflicts = 6 "conflicts",
    }
}

named! {
    /// States of the uses of leases.
    LeaseState at STATES {
        /// Granted and not spent.
        Unspent = 0 "unspent",
        /// Kept for parked requests.
        Reserved = 1 "held",
        /// Spent and not reported yet.
        Unreported = 2 "unreported",
    }
}

named! {
    /// Results of spilling a record to the cluster, or of fetching it.
    SpillResult at SPILLS {
        /// The record is in the cluster, and no longer here.
        Spilled = 0 "spilled",
        /// The record was used meanwhile, and stays here.
        Stayed = 1 "stayed",
        /// The record stays here, because the cluster did not answer.
        Lost = 2 "lost",
        /// The record was in the cluster, and came back.
        Fetched = 3 "fetched",
        /// The record was not in the cluster: the filter was wrong.
        Missed = 4 "missed",
    }
}

const FUNCTIONS: usize = ClusterFunction::ALL.len();
const RESULTS: usize = ClusterResult::ALL.len();

/// Room for the functions and commands that a courier sends to nodes.
const FUNCTIONS_MAX: usize = 24;
// The places of the words. Each derives from the one before it.
const LEASES: usize = FUNCTIONS_MAX * RESULTS;
const STATES: usize = LEASES + 8;
const NODES_USED: usize = STATES + LeaseState::ALL.len();
const KEPT_SINCE: usize = NODES_USED + 1;
const NODES: usize = NODES_USED + 5;
const NODE_WORDS: usize = 8;
const NAME_BYTES: usize = (NODE_WORDS - 1) * 8;
/// Maximum number of nodes that are shown.
pub const CLUSTER_NODES: usize = 24;
const SPILLS: usize = NODES + CLUSTER_NODES * NODE_WORDS;
const PEERS: usize = SPILLS + SpillResult::ALL.len();
const WORDS: usize = PEERS + peers::WORDS;
const _: () = assert!(FUNCTIONS_MAX == ExtensionWords::TABLE && WORDS <= ExtensionWords::COUNT);
const _: () = assert!(FUNCTIONS <= FUNCTIONS_MAX && LEASES + LeaseCounter::ALL.len() <= STATES);

pub use peers::{MirrorCounter, MirrorSums, PeerState, PeersState};

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
    words: ExtensionSums,
}

/// The cluster as the living courier sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterState {
    /// The nodes that it knows.
    pub nodes: Vec<ClusterNodeState>,
    /// The wall-clock time up to which all changed records are in the cluster. None if the cluster
    /// keeps no records.
    pub kept_since_ms: Option<u64>,
    /// The uses of all leases, by [`LeaseState`].
    pub(crate) uses: LeaseUses,
}

/// Uses in all leases of the host, by [`LeaseState`].
pub type LeaseUses = [u64; LeaseState::ALL.len()];

impl ClusterSums {
    /// How often this event happened.
    pub fn count(&self, counter: LeaseCounter) -> u64 {
        self.words.word(counter.place())
    }

    /// How often records had this result.
    pub fn spills(&self, result: SpillResult) -> u64 {
        self.words.word(result.place())
    }

    /// Times from messages about a key to their answers.
    pub fn times(&self) -> &Histogram {
        &self.words.times
    }

    /// The sums in the words of all slots.
    pub fn of(sums: &ExtensionSums) -> ClusterSums {
        let requests = ClusterFunction::ALL
            .map(|function| ClusterResult::ALL.map(|result| sums.word(function.place(result))));
        ClusterSums { requests, words: sums.clone() }
    }
}

impl ClusterFunction {
    /// The word in a slot of the calls with this result.
    pub const fn place(self, result: ClusterResult) -> usize {
        self as usize * RESULTS + result as usize
    }
}

impl ClusterState {
    /// The uses of all leases in this state.
    pub fn uses(&self, state: LeaseState) -> u64 {
        self.uses[state as usize]
    }

    /// The state that the words of a courier's slot show.
    pub fn of(slot: ExtensionWords<'_>) -> ClusterState {
        // The nodes are stored before their number.
        let used = slot.load_published(NODES_USED);
        let nodes = (0..(used as usize).min(CLUSTER_NODES)).map(|nth| {
            let start = NODES + nth * NODE_WORDS;
            let words = start + 1..start + NODE_WORDS;
            let bytes: Vec<u8> = words.flat_map(|word| slot.load(word).to_le_bytes()).collect();
            let address = String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned();
            ClusterNodeState { address, is_up: slot.load(start) == 1 }
        });
        let kept_since_ms = Some(slot.load(KEPT_SINCE)).filter(|&ms| ms > 0);
        let uses = LeaseState::ALL.map(|state| slot.load(state.place()));
        ClusterState { nodes: nodes.collect(), kept_since_ms, uses }
    }

    /// Stores the state in the words of the courier's own slot, at most the first
    /// [`CLUSTER_NODES`] of its nodes. The counts there stay.
    pub fn store(&self, slot: ExtensionWords<'_>) {
        slot.set(KEPT_SINCE, self.kept_since_ms.unwrap_or(0));
        LeaseState::ALL.into_iter().for_each(|state| slot.set(state.place(), self.uses(state)));
        let nodes = &self.nodes[..self.nodes.len().min(CLUSTER_NODES)];
        for (nth, node) in nodes.iter().enumerate() {
            let start = NODES + nth * NODE_WORDS;
            let mut name = [0; NAME_BYTES];
            let length = node.address.len().min(NAME_BYTES);
            name[..length].copy_from_slice(&node.address.as_bytes()[..length]);
            for (word, bytes) in name.as_chunks::<8>().0.iter().enumerate() {
                slot.set(start + 1 + word, u64::from_le_bytes(*bytes));
            }
            slot.set(start, u64::from(node.is_up));
        }
        // A process that reads this number also reads these nodes.
        slot.publish(NODES_USED, nodes.len() as u64);
    }
}

/// What a courier has counted since it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CourierFigures {
    events: [u64; LeaseCounter::ALL.len()],
    /// Answers that show the directory to be a copy.
    pub stale: u64,
}

impl CourierFigures {
    /// How often this event happened.
    pub fn count(&self, counter: LeaseCounter) -> u64 {
        self.events[counter as usize]
    }

    /// Counts events.
    pub fn add(&mut self, counter: LeaseCounter, by: u64) {
        self.events[counter as usize] += by;
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
