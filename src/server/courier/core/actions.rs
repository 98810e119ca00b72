//! What the core has its loop do, and how the loop says what became of a message.
//!
//! Invariant: each message that is sent is answered once, by its id.

use frs_limit::lease::{Settings, Take};

use super::news::News;
use super::nodes::{LedgerId, Nodes, Unserved};
use crate::courier::ledger::Reply;

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Action<N: Nodes> {
    /// A message to a ledger.
    Send {
        /// To be answered by this.
        id: u64,
        /// The ledger.
        ledger: LedgerId,
        /// The settings of the limit.
        settings: Settings,
        /// What it says.
        take: Take,
    },
    /// The ledger is to name the hosts with unspent uses.
    AskHolders {
        /// To be answered by this.
        id: u64,
        /// The ledger.
        ledger: LedgerId,
    },
    /// All hosts are to hear this.
    Publish(News<N::Key>),
    /// A want is finished.
    Finish {
        /// The want.
        ticket: N::Ticket,
        /// What became of it.
        fate: Fate,
    },
}

/// What became of a want.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The nodes hold what the ledgers have answered: the item runs again.
    Answered,
    /// The cluster cannot be reached: `on-down` decides.
    Unreachable,
    /// Its node has no room: leases fill the chain.
    Full,
    /// It is none that the courier can serve, or too many wait.
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

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The ledger has answered.
    Replied(Reply),
    /// No answer is known. It may have been heard.
    Lost,
    /// The slot's master is not connected; nothing was sent.
    Down,
    /// The settings are none that a ledger can keep.
    Unfit,
}
