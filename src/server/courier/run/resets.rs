//! Resets of other machines: the epoch of a biz stands in the cluster, and this machine follows.
//!
//! Invariant: the master is asked for a step from the epoch in force alone, under which void
//! records were cleared where the step needs that. Asking twice does no harm, and what is lost is
//! asked again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use frs::base::clock;
use frs::conf::{EpochRaise, EpochStep};
use frs::service::Clearing;

use super::Courier;
use crate::courier::name;
use crate::process::message;

/// Key-nodes in which void records are cleared at once.
const CLEAR_KEY_NODES: u32 = 128;
/// The pause where a key-node is held.
const HELD_PAUSE: Duration = Duration::from_millis(20);
/// The master is asked again after this time.
const ASK_AGAIN: Duration = Duration::from_secs(2);

/// The resets that are not followed yet.
#[derive(Debug)]
pub struct Resets {
    behind: BTreeMap<u32, Behind>,
    /// Businesses whose epoch in the cluster is none: the log has named them.
    bad: BTreeSet<u32>,
    /// When void records are cleared next. None: none are to be.
    next_clear: Option<Instant>,
}

/// A business whose epoch in the cluster is larger.
#[derive(Debug, Default)]
struct Behind {
    epoch: u64,
    clearing: Clearing,
    /// The epoch under which its void records were cleared.
    cleared: Option<u64>,
    asked: Option<Asked>,
}

/// The step that the master was asked for last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Asked {
    from: u64,
    at: Instant,
}

impl Resets {
    /// Of a courier that has heard nothing yet.
    pub fn new() -> Resets {
        Resets { behind: BTreeMap::new(), bad: BTreeSet::new(), next_clear: None }
    }

    /// When void records are to be cleared.
    pub fn due(&self) -> Option<Instant> {
        self.next_clear
    }
}

impl Courier {
    /// This epoch of a biz stands in the cluster.
    pub(super) fn hear_epoch(&mut self, biz: u64, epoch: u64) {
        let Ok(biz) = u32::try_from(biz) else { return };
        self.resets.bad.remove(&biz);
        if self.nodes.service.epoch(biz).is_some_and(|own| own < epoch) {
            self.resets.behind.entry(biz).or_default().epoch = epoch;
        }
    }

    /// What stands in the cluster is no epoch of a biz. The log names it once.
    pub(super) fn hear_bad_epoch(&mut self, biz: u64, found: &str) {
        let Ok(id) = u32::try_from(biz) else { return };
        if self.resets.bad.insert(id) {
            let key = name::epoch_key(self.nodes.cluster(), biz);
            tracing::error!(
                biz,
                key,
                found,
                "expected a reset epoch in the cluster, a number from 0 to 2^50: it is not followed"
            );
        }
    }

    /// Goes on to follow the resets of other machines.
    pub(super) fn follow_resets(&mut self) {
        let now = clock::instant();
        let may_clear = self.resets.next_clear.is_none_or(|next| next <= now);
        let mut cleared = None;
        let mut is_clearing = false;
        let service = &mut self.nodes.service;
        self.resets.behind.retain(|&biz, behind| {
            let Some(from) = service.epoch(biz) else { return false };
            let Some(EpochStep { to, must_clear }) = EpochStep::towards(from, behind.epoch) else {
                return false;
            };
            if must_clear && behind.cleared != Some(from) {
                is_clearing = true;
                if may_clear && cleared.is_none() {
                    let clearing = &mut behind.clearing;
                    let done = service.clear_void(biz, clearing, CLEAR_KEY_NODES, clock::now());
                    if done == Ok(true) {
                        tracing::info!(biz, erased = clearing.erased, "erased void records");
                        // What was cleared is what this tick knows.
                        behind.cleared = Some(from);
                        *clearing = Clearing::default();
                    }
                    cleared = Some(done);
                }
                if behind.cleared != Some(from) {
                    return true;
                }
            }
            let is_asked = |asked: Asked| asked.from == from && now < asked.at + ASK_AGAIN;
            if behind.asked.is_some_and(is_asked) {
                return true;
            }
            // A full channel: it is asked again. A closed one is noticed by the next turn.
            let raise = EpochRaise { biz, from, to };
            if message::send_follow(&self.child.channel, raise).is_ok() {
                behind.asked = Some(Asked { from, at: now });
            }
            true
        });
        let pause = match cleared {
            // Half of a core.
            Some(Ok(_)) => clock::since(now),
            Some(Err(_)) => HELD_PAUSE,
            None => Duration::ZERO,
        };
        if !is_clearing {
            self.resets.next_clear = None;
        } else if may_clear {
            self.resets.next_clear = Some(clock::instant() + pause);
        }
    }
}
