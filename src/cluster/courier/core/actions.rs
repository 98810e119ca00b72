//! The actions that the core asks of its loop.
//!
//! Invariant: each sent message is answered once, by its id.

use frs_engine::NeedEnd;

use super::nodes::Nodes;
use crate::lease::{Settings, Take};
use crate::name::LedgerId;
use crate::news::News;

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
