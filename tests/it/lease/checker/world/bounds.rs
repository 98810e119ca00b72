//! The parts of a world, how often each event may happen in it, and the rule that it leaves out.

use frs_cluster::lease::{Kind, RequestSize};

use super::super::super::ledger::Rule as LedgerRule;

/// A rule that a world leaves out.
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

/// The parts of a world, and how often each event may happen in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Bounds {
    pub kind: Kind,
    pub max: u64,
    /// The max of the last host, if its configuration differs.
    pub other_max: Option<u64>,
    pub hosts: usize,
    pub need: u64,
    pub request_size: RequestSize,
    pub tick_ms: u64,
    pub learn_ms: u64,
    pub ticks: u8,
    /// Bindings in all.
    pub binds: u8,
    /// Deliveries of a message after its first.
    pub doubles: u8,
    /// Messages that are sent again under the same seq.
    pub repeats: u8,
    /// Recalls and returns of idle leases.
    pub recalls: u8,
    /// Forced uses.
    pub forced: u8,
    /// Returned uses.
    pub returns: u8,
    pub evictions: u8,
    pub losses: u8,
    pub restores: u8,
    /// The copy of a directory is restored into the same files.
    pub in_place: bool,
    /// Times that a replica catches up with the master.
    pub replications: u8,
    pub failovers: u8,
    pub without: Option<Rule>,
}

impl Bounds {
    /// Two hosts, one window of three ticks, and only the network fails.
    pub const PLAIN: Bounds = Bounds {
        kind: Kind::Interval { interval_ms: 300 },
        max: 2,
        other_max: None,
        hosts: 2,
        need: 1,
        request_size: RequestSize::Largest,
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
