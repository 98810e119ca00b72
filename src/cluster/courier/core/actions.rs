//! The actions that the core asks of its loop, and the outcomes of messages that the loop reports.
//!
//! Invariant: each sent message is answered once, by its id.

use frs_engine::NeedEnd;

use super::news::News;
use super::nodes::{LedgerId, Nodes, Unserved};
use crate::lease::{Settings, Take};
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
    /// Finishes a need.
    Finish {
        /// The need.
        ticket: N::Ticket,
        /// How it ends. Never [`NeedEnd::Lost`].
        end: NeedEnd,
    },
}

impl From<Unserved> for NeedEnd {
    fn from(unserved: Unserved) -> NeedEnd {
        match unserved {
            Unserved::Full => NeedEnd::Full,
            Unserved::Unknown => NeedEnd::Unserved,
        }
    }
}

/// The outcome of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageOutcome {
    /// The ledger has answered.
    Replied(Reply),
    /// No answer is known. The ledger may have received the message.
    Lost,
    /// The slot's master is not connected; nothing was sent.
    Down,
    /// No ledger can keep the settings.
    Unfit,
}
