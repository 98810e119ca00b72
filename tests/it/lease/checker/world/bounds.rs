//! What a world consists of, how much may happen in it, and which rule it is made without.

use frs_cluster::lease::{Appetite, Kind};

use super::super::super::ledger::Rule as LedgerRule;

/// A rule that a world is made without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    BindFirst,
    SeqOfTheHost,
    EndFromTheFirstSending,
    EndFromTheSending,
    KeepTheWindow,
    TakeTheBase,
    KeepTheMark,
    KeepLeasedNodes,
    KeepMarkedNodes,
    KeepUntilTheTurn,
    AskWithoutAWindow,
    NewIncarnation,
    NewestDirectory,
    ReportExtra,
    GiveBackOnce,
    TakeBackOnce,
    Claim,
    ClaimMarks,
    ClaimUntilTheTurn,
    ClaimUnderANewSeq,
    ClaimTheWindowBefore,
    Learn,
    LearnEmptied,
    LearnUntilClaimed,
    RepeatTheBase,
    Ledger(LedgerRule),
}

/// What a world consists of, and how much may happen in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Bounds {
    pub kind: Kind,
    pub max: u64,
    /// The max of the last host, where its configuration is another one.
    pub other_max: Option<u64>,
    pub hosts: usize,
    pub need: u64,
    pub appetite: Appetite,
    pub tick_ms: u64,
    pub learn_ms: u64,
    pub ticks: u8,
    /// Bindings, in all.
    pub binds: u8,
    /// Deliveries of a message that has been delivered before.
    pub doubles: u8,
    /// Messages sent once more under the same seq.
    pub repeats: u8,
    /// Recalls and returns of idle leases.
    pub recalls: u8,
    /// Uses by force.
    pub forced: u8,
    /// Uses given back.
    pub returns: u8,
    pub evictions: u8,
    pub losses: u8,
    pub restores: u8,
    /// A copy of a directory is restored into the same files.
    pub in_place: bool,
    /// Times that a replica catches up with the master.
    pub replications: u8,
    pub failovers: u8,
    pub without: Option<Rule>,
}

impl Bounds {
    /// Two hosts, one window of three ticks, and nothing that goes wrong but the network.
    pub const PLAIN: Bounds = Bounds {
        kind: Kind::Interval { interval_ms: 300 },
        max: 2,
        other_max: None,
        hosts: 2,
        need: 1,
        appetite: Appetite::Most,
        tick_ms: 100,
        learn_ms: 100,
        ticks: 0,
        binds: 4,
        doubles: 1,
        repeats: 0,
        recalls: 0,
        forced: 0,
        returns: 0,
        evictions: 0,
        losses: 0,
        restores: 0,
        in_place: false,
        replications: 0,
        failovers: 0,
        without: None,
    };
}
