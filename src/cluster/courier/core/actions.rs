//! The actions that the core asks of its loop, and the outcomes of messages that the loop reports.
//!
//! Invariant: each sent message is answered once, by its id.

use crate::lease::{Settings, Take};

use super::news::News;
use super::nodes::{LedgerId, Nodes, Unserved};
use crate::ledger::Reply;

/// An action for the loop.
#[derive(Debug, Clone, PartialEq)]
pub enum Action<N: Nodes> {
    /// Sends a message to a ledger.
    Send {
        /// To be answered by this.
        id: u64,
        /// The ledger.
        ledger: LedgerId,
        /// The settings of the limit.
        settings: Settings,
        /// The content.
        take: Take,
    },
    /// Asks a ledger for the hosts with unspent uses.
    AskHolders {
        /// To be answered by this.
        id: u64,
        /// The ledger.
        ledger: LedgerId,
    },
    /// Publishes this to all hosts.
    Publish(News<N::Key>),
    /// Finishes a want.
    Finish {
        /// The want.
        ticket: N::Ticket,
        /// Its fate.
        fate: Fate,
    },
}

/// How a want ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The ledgers' answers are in the nodes: the item runs again.
    Answered,
    /// The cluster cannot be reached: `on-down` decides.
    Unreachable,
    /// Its node has no room: leases fill the chain.
    Full,
    /// The courier cannot serve it, or too many wants wait.
    Unserved,
}

impl From<Unserved> for Fate {
    fn from(unserved: Unserved) -> Fate {
        match unserved {
            Unserved::Full => Fate::Full,
            Unserved::Unknown => Fate::Unserved,
        }
    }
}

/// The outcome of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The ledger has answered.
    Replied(Reply),
    /// No answer is known. The ledger may have received the message.
    Lost,
    /// The slot's master is not connected; nothing was sent.
    Down,
    /// No ledger can keep the settings.
    Unfit,
}
