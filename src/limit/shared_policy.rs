//! The seam for limits that several machines share: what only such a limit is asked.
//!
//! Invariant: a limit of one machine alone never comes here. An item of a shared limit costs one
//! virtual call for each step.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use frs_conf::{self as conf, Biz, Limit};

use super::boot_clock::BootClock;
use super::policy::Policy;
use super::ring::Ring;
use super::state_word::StateField;
use super::{AnswerAge, Demand, Figures, SharedRecord};

/// Makes the policies of a biz whose limits machines share.
pub trait SharedPolicies {
    /// The clock by which the policies count.
    fn clock(&self) -> &Arc<BootClock>;

    /// The policy of a limit. `None` if machines cannot share it: then it is judged by this machine
    /// alone.
    fn policy(&self, biz: &Biz, limit: &Limit, log: Log) -> Option<Box<dyn SharedPolicy>>;
}

/// The log of a scope's sliding limits, as a shared limit of the scope meets it.
#[derive(Debug, Clone, Copy)]
pub struct Log {
    /// The ring of the scope. `None` if no limit needs one.
    pub ring: Option<Ring>,
    /// Of the limits with this log, this one alone reports uses that the log does not hold.
    pub reports: bool,
}

/// A policy whose uses several machines share. The state of a sliding limit extends to the end of
/// the ring, which is its log.
pub trait SharedPolicy: Policy + fmt::Debug + Send + Sync {
    /// A copy.
    fn boxed(&self) -> Box<dyn SharedPolicy>;

    /// Takes the settings of the same limit with another maximum, and keeps its sharing.
    fn resize(&mut self, settings: &conf::Policy);

    /// The policy itself, for the crate that made it.
    fn as_any(&self) -> &dyn Any;

    /// Whether it refuses uses beyond its maximum, so that a use may have to wait.
    fn refuses(&self) -> bool;

    /// Rolls the limit and, if it admits the demand, charges it (if the demand charges) and returns
    /// the figures. `None` if the limit does not admit the demand; then it is only rolled. Not for
    /// a log, which has its own function to charge it.
    fn pass(&self, state: &mut [u64], wall_ms: u64, demand: Demand<'_>) -> Option<Passed>;

    /// Whether the uses that `count` lacks may still come from other machines.
    fn may_come(&self, state: &[u64], count: u32) -> bool;

    /// Whether the limit can take back the uses of a negative `count` without asking first.
    fn takes_back(&self, state: &[u64], count: i32) -> bool;

    /// Milliseconds since the cluster last answered; `None` if it never did.
    fn age_ms(&self, state: &[u64]) -> Option<u64>;

    /// Whether nothing in the state counts any more.
    fn is_over(&self, state: &[u64]) -> bool;

    /// Whether a limit that refuses nothing has uses that no other machine knows.
    fn is_unreported(&self, state: &[u64]) -> bool;

    /// Identifies the limit for all machines: the number of its kind, and its interval or unit.
    fn identity(&self) -> [u64; 2];

    /// This machine's part in the limit with this index, for tools.
    fn record(&self, index: u16, state: &[u64]) -> SharedRecord;

    /// All that the state of the limit with this index holds, for tools.
    fn fields(&self, index: u16, state: &[u64]) -> Vec<StateField>;
}

impl Clone for Box<dyn SharedPolicy> {
    fn clone(&self) -> Box<dyn SharedPolicy> {
        self.boxed()
    }
}

/// The report of a lone shared limit on an item that passes.
#[derive(Debug, Clone, Copy)]
pub struct Passed {
    /// Its figures.
    pub figures: Figures,
    /// The length of its window.
    pub window_ms: Option<u64>,
    /// The time since the cluster last answered.
    pub answer_age: AnswerAge,
}
