//! Resets of other machines: the cluster stores the epoch of a biz, and this machine follows it.
//!
//! Invariant: the master is asked only for a step from the epoch in force. Where the step needs it,
//! void records were cleared under that epoch before. A repeated question does no harm, and a lost
//! one is repeated.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use frs_base::clock;
use frs_base::log_throttle::LogThrottle;
use frs_conf::{EpochRaise, EpochStep};
use frs_engine::{Service, VoidRecords};

use super::Courier;
use crate::courier::process::Process;
use crate::name;

/// Key-nodes in which void records are cleared at once.
const CLEAR_KEY_NODES: u32 = 128;
/// The pause if a key-node is held by another process.
const HELD_PAUSE: Duration = Duration::from_millis(20);
/// The log names a business whose void records could not be cleared for this long.
const HELD_PATIENCE: Duration = Duration::from_secs(5);
/// The pause before the master is asked again. It doubles each time.
const ASK_AGAIN: Duration = Duration::from_secs(2);
/// The longest pause between two questions to the master.
const ASK_AGAIN_MAX: Duration = Duration::from_secs(60);

/// The resets that are not followed yet.
#[derive(Debug, Default)]
pub struct Resets {
    behind: BTreeMap<u32, Behind>,
    /// Businesses with an invalid epoch in the cluster, which the log has named.
    bad: BTreeSet<u32>,
    /// When void records are cleared next. None if none have to be cleared.
    pub next_clear: Option<Instant>,
}

/// A business with a larger epoch in the cluster.
#[derive(Debug, Default)]
struct Behind {
    epoch: u64,
    void_records: VoidRecords,
    /// The epoch under which void records were cleared.
    cleared: Option<u64>,
    asked: Option<AskedStep>,
}

/// The step that the master was asked for last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AskedStep {
    from: u64,
    at: Instant,
    /// The pause before the master is asked again.
    pause: Duration,
}

impl Behind {
    /// The next question to the master about a step from this epoch. `None` if it is not due yet.
    fn next_ask(&self, from: u64, now: Instant) -> Option<AskedStep> {
        match self.asked.filter(|asked| asked.from == from) {
            None => Some(AskedStep { from, at: now, pause: ASK_AGAIN }),
            Some(AskedStep { at, pause, .. }) if now >= at + pause => {
                Some(AskedStep { from, at: now, pause: (2 * pause).min(ASK_AGAIN_MAX) })
            }
            Some(_) => None,
        }
    }

    /// Clears void records in the next key-nodes. Returns the pause before the next ones.
    fn clear(&mut self, service: &mut Service, biz: u32) -> Duration {
        let begun = clock::instant();
        match self.void_records.clear_next(service, biz, CLEAR_KEY_NODES) {
            Ok(cleared) => {
                self.cleared = cleared.or(self.cleared);
                // This takes half of a core.
                clock::since(begun)
            }
            Err(_) => HELD_PAUSE,
        }
    }
}

impl Resets {
    /// Notes the epoch of a biz on another machine, or in the cluster.
    pub fn note(&mut self, service: &Service, biz: u32, epoch: u64) {
        if service.epoch(biz).is_some_and(|own| own < epoch) {
            let behind = self.behind.entry(biz).or_default();
            behind.epoch = behind.epoch.max(epoch);
        }
    }

    /// Continues to follow the resets of other machines.
    pub fn follow(
        &mut self,
        service: &mut Service,
        process: &dyn Process,
        complaints: &mut LogThrottle,
    ) {
        if self.behind.is_empty() {
            return;
        }
        let now = clock::instant();
        let due = self.next_clear;
        // A turn clears one piece of one business.
        let mut may_clear = due.is_none_or(|next| next <= now);
        let mut next_clear = None;
        self.behind.retain(|&biz, behind| {
            let Some(from) = service.epoch(biz) else { return false };
            let Some(EpochStep { to, must_clear }) = EpochStep::towards(from, behind.epoch) else {
                return false;
            };
            if must_clear && behind.cleared != Some(from) {
                if may_clear {
                    let pause = behind.clear(service, biz);
                    next_clear = Some(clock::instant() + pause);
                    // A business with a held key-node does not delay the others.
                    may_clear = behind.void_records.held_since().is_some();
                }
                if let Some(since) = behind.void_records.held_since()
                    && now >= since + HELD_PATIENCE
                    && complaints.is_due(now)
                {
                    tracing::warn!(biz, "void records cannot be cleared: a reset is not followed");
                }
                if behind.cleared != Some(from) {
                    // Another business was cleared in this turn, or it is not time yet.
                    next_clear = next_clear.or(due);
                    return true;
                }
            }
            // If the channel is full the master is asked again. The next turn notices a closed
            // channel.
            if let Some(asked) = behind.next_ask(from, now)
                && process.follow_reset(EpochRaise { biz, from, to }).is_ok()
            {
                behind.asked = Some(asked);
            }
            true
        });
        self.next_clear = next_clear;
    }
}

impl Courier {
    /// Takes in the epoch of a biz from the cluster.
    pub(super) fn take_epoch(&mut self, biz: u64, epoch: u64) {
        let Ok(biz) = u32::try_from(biz) else { return };
        self.resets.bad.remove(&biz);
        self.resets.note(&self.nodes.service, biz, epoch);
    }

    /// Takes in an invalid epoch of a biz from the cluster. The log names it once.
    pub(super) fn take_bad_epoch(&mut self, biz: u64, found: &str) {
        let Ok(id) = u32::try_from(biz) else { return };
        if self.resets.bad.insert(id) {
            let key = name::epoch_key(&self.nodes.cluster, biz);
            tracing::error!(
                biz,
                key,
                found,
                "expected a reset epoch in the cluster, a number from 0 to 2^50: it is not followed"
            );
        }
    }
}
