//! What the courier tells its links to the cluster, and what it hears from them.
//!
//! Invariant: each message is answered once, by its id, with a reply or with the reason why none is
//! known.

use std::fmt;
use std::ops::Range;

use frs_limit::lease::{Incarnation, Settings, Take, Taken};
use frs_store::Starts;
use frs_store::counter::ClusterFunction;

use super::fault::ClusterFault;
use crate::courier::ledger::{Answer, BadReply, BadSettings, Reply};
use crate::courier::warm::WarmAnswer;

/// Names a message or a question. The courier chooses it.
pub type Id = u64;

/// A message to a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its name.
    pub id: Id,
    /// The key of the ledger.
    pub ledger: String,
    /// The settings of the limit.
    pub settings: Settings,
    /// What the host says and asks for.
    pub take: Take,
}

/// Why no answer is known. The ledger may have heard the message or not: the same message may be
/// repeated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// The master did not answer in time, or the connection broke.
    #[error("the connection to {node} broke: {why}")]
    Broken {
        /// The address of the master.
        node: String,
        /// What happened.
        why: String,
    },
    /// No connection to the slot's master exists. The message was not sent.
    #[error("no master of slot {slot} is connected")]
    Down {
        /// The slot.
        slot: u16,
    },
    /// Too many messages wait for this master. The message was not sent.
    #[error("{0} messages wait for the same master")]
    Full(usize),
    /// Too few replicas have acknowledged it.
    #[error("{acknowledged} of {expected} replicas have acknowledged the write")]
    NotAcknowledged {
        /// Replicas that have it.
        acknowledged: u32,
        /// `wait-replicas`.
        expected: u32,
    },
    /// The cluster has sent the message from node to node.
    #[error("{0} nodes in turn sent the message elsewhere")]
    Redirected(u32),
    /// The node has answered with an error.
    #[error("{node} answers: {error}")]
    Refused {
        /// The address of the node.
        node: String,
        /// Its words.
        error: String,
    },
    /// No function of the library gives such an answer.
    #[error("{node}: {bad}")]
    Strange {
        /// The address of the node.
        node: String,
        /// What came.
        bad: BadReply,
    },
    /// No ledger can keep the settings. The message was not sent, and never will be.
    #[error(transparent)]
    Unfit(#[from] BadSettings),
}

impl Lost {
    /// Whether the cluster cannot be reached, as far as the message is concerned: it was not sent,
    /// no node serves its slot now, or the user may not send it.
    pub fn is_down(&self) -> bool {
        const DOWN: [&str; 4] = ["CLUSTERDOWN ", "MASTERDOWN ", "NOPERM ", "NOAUTH "];
        match self {
            Lost::Down { .. } => true,
            Lost::Refused { error, .. } => DOWN.iter().any(|kind| error.starts_with(kind)),
            _ => false,
        }
    }
}

/// What the links report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The answer to a message.
    Answered {
        /// The message.
        id: Id,
        /// What it is counted as. An answer that it is stale is counted by who hears it: a later
        /// message of this host may have overtaken it.
        function: ClusterFunction,
        /// The answer, or why there is none.
        result: Result<Reply, Lost>,
    },
    /// The answer to a message to a record.
    Warm {
        /// The message.
        id: Id,
        /// The answer, or why there is none.
        result: Result<WarmAnswer, Lost>,
    },
    /// A master serves these slots that did not before, or that may have lost writes. All live
    /// leases and in-flight marks there must be claimed under new numbers (rule 8 of the host). The
    /// first sight of a master is such a change, as an earlier courier may have missed one.
    NewMaster {
        /// The slots.
        slots: Vec<Range<u16>>,
    },
    /// A host has published something on a channel.
    Published {
        /// The number of the channel, below 64.
        channel: u16,
        /// What it said.
        payload: Vec<u8>,
    },
    /// The channels are heard again. Something may have been published in between.
    Listening,
    /// The answer to [`Links::ask_holders`](super::Links::ask_holders).
    Holders {
        /// The question.
        id: Id,
        /// Hosts with unspent uses.
        result: Result<Vec<Incarnation>, Lost>,
    },
    /// The answer to [`Links::ask_epoch`](super::Links::ask_epoch); a lost one is not reported.
    Epoch {
        /// The biz.
        biz: u64,
        /// Its reset epoch.
        epoch: u64,
    },
    /// What stands in the place of the reset epoch of a biz is none.
    BadEpoch {
        /// The biz.
        biz: u64,
        /// What is there instead.
        found: String,
    },
    /// The answer to [`Links::ask_start`](super::Links::ask_start).
    Start {
        /// What was asked.
        starts: Starts,
        /// Whether the host's directory is the newest of its copies.
        result: Result<bool, Lost>,
    },
    /// A master is connected and fit.
    Up {
        /// Its address.
        node: String,
    },
    /// A master is not connected any more.
    Down {
        /// Its address.
        node: String,
        /// Why.
        why: String,
    },
    /// The cluster cannot be used as it is.
    Fault(ClusterFault),
}

impl Event {
    /// Whether a ledger knows a later message of this host.
    pub fn is_stale(&self) -> bool {
        let Event::Answered { result: Ok(reply), .. } = self else { return false };
        reply.answer == Answer::Taken(Taken::Stale)
    }
}

/// Called after an event was queued, from any thread: it wakes the owner of the links.
#[derive(Clone)]
pub struct Wake(std::sync::Arc<dyn Fn() + Send + Sync>);

impl Wake {
    /// Calls this function, which must not block.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Wake {
        Wake(std::sync::Arc::new(wake))
    }

    pub(super) fn ring(&self) {
        (self.0)();
    }
}

impl fmt::Debug for Wake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wake(..)")
    }
}
