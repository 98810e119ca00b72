//! A request with its answers, and how far it has come.
//!
//! Invariant: an exchange keeps its buffers, so the steady state allocates nothing.

use frs_store::Ticket;

use crate::need::{NeedEnd, NeedKind};
use crate::{Answers, Request};

/// A request and room for its answers.
#[derive(Debug, Clone, Default)]
pub struct Exchange {
    /// The request.
    pub request: Request,
    /// The answers.
    pub answers: Answers,
    /// The client. Exchanges of one lane that run together run in order: an exchange does not begin
    /// while an earlier one of its lane waits.
    pub lane: usize,
    /// The progress of the exchange.
    pub stage: Stage,
    /// Milliseconds from now on after which a waiting exchange is late.
    pub wait_ms: u64,
    /// Its items that wait.
    pub(super) waits: Vec<ItemWait>,
    /// It has waited: its answers may hold indices of several configurations.
    pub(super) has_waited: bool,
}

/// The progress of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stage {
    /// Not run, or run and answered.
    #[default]
    Answered,
    /// Some of its items wait for shared uses or for a record. Run it again when these have come,
    /// or when the exchange is late. The answers of its other items stay.
    Waiting,
    /// Not begun: an earlier exchange of its lane waits.
    Behind,
}

/// An item that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ItemWait {
    /// The position of the item in its request.
    pub item: usize,
    /// What it waits for.
    pub kind: NeedKind,
    pub phase: Phase,
    /// When it is late, CLOCK_BOOTTIME.
    pub late_ms: u64,
}

/// How far the wait of an item has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Its need is not answered yet.
    Asked(Ticket),
    /// The cluster has answered on its uses.
    Answered,
    /// It waits no longer, but must ask again for its uses if it still lacks some.
    Unanswered,
    /// The cluster cannot be reached.
    CutOff,
    /// Its node has no room.
    Full,
}

impl Phase {
    /// The phase after the end of a need.
    pub fn after(kind: NeedKind, end: NeedEnd) -> Phase {
        match end {
            NeedEnd::Answered if kind != NeedKind::Fetch => Phase::Answered,
            NeedEnd::Answered | NeedEnd::Unserved | NeedEnd::Lost => Phase::Unanswered,
            NeedEnd::Unreachable => Phase::CutOff,
            NeedEnd::Full => Phase::Full,
        }
    }
}
