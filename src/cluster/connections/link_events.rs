//! The messages of the courier to its links, and the events that they report.
//!
//! Invariant: each message is answered once, by its id, with a reply or with the reason why there
//! is none.

use std::ops::Range;

use super::fault::ClusterFault;
use crate::figures::ClusterFunction;
use crate::lease::{Incarnation, Settings, Take, Taken};
use crate::ledger::{Answer, BadReply, BadSettings, NoAnswer, Reply};
use crate::newest_copy::Starts;
use crate::warm::WarmAnswer;

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
    /// The host's report and request.
    pub take: Take,
}

/// Why no answer is known. The ledger may or may not have received the message, so the same message
/// may be repeated.
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
    /// The nodes of the cluster have redirected the message too often.
    #[error("{0} nodes in turn redirected the message")]
    Redirected(u32),
    /// The node has answered with an error.
    #[error("{node} answers: {error}")]
    Refused {
        /// The address of the node.
        node: String,
        /// Its error.
        error: String,
    },
    /// The answer is not one of the library's.
    #[error("{node}: {bad}")]
    Strange {
        /// The address of the node.
        node: String,
        /// The answer.
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

impl From<Lost> for NoAnswer {
    fn from(lost: Lost) -> NoAnswer {
        match lost {
            Lost::Unfit(_) => NoAnswer::Unfit,
            lost if lost.is_down() => NoAnswer::Down,
            _ => NoAnswer::Lost,
        }
    }
}

/// An event of the links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The answer to a message.
    Answered {
        /// The message.
        id: Id,
        /// The function to count it under. The courier's loop counts a stale answer: a later
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
    /// A master serves these slots that did not serve them before, or may have lost writes. All
    /// live leases and in-flight marks there must be claimed under new seqs (rule 8 of the host).
    /// The first contact with a master counts as such a change, as an earlier courier may have
    /// missed one.
    NewMaster {
        /// The slots.
        slots: Vec<Range<u16>>,
    },
    /// A host has published something on a channel.
    Published {
        /// The number of the channel, below 64.
        channel: u16,
        /// The payload.
        payload: Vec<u8>,
    },
    /// The subscription works again. Something may have been published in between.
    Listening,
    /// The answer to [`Links::ask_holders`](super::Links::ask_holders).
    Holders {
        /// The question.
        id: Id,
        /// Hosts with unspent uses.
        result: Result<Vec<Incarnation>, Lost>,
    },
    /// The answer to [`Links::ask_epoch`](super::Links::ask_epoch). A lost answer is not reported.
    Epoch {
        /// The biz.
        biz: u64,
        /// Its reset epoch.
        epoch: u64,
    },
    /// The reset epoch of a biz in the cluster is invalid.
    BadEpoch {
        /// The biz.
        biz: u64,
        /// The value found.
        found: String,
    },
    /// The answer to [`Links::ask_start`](super::Links::ask_start).
    Start {
        /// The question.
        starts: Starts,
        /// Whether the host's directory is the newest of its copies.
        result: Result<bool, Lost>,
    },
    /// A master is connected and fit.
    Up {
        /// Its address.
        node: String,
    },
    /// The connection to a master has ended.
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

/// Wakes the owner of the links, without blocking. It is called after an event was queued, from any
/// thread.
pub type Wake = std::sync::Arc<dyn Fn() + Send + Sync>;
