//! Publishes what the courier knows of its peers, in the counters of its slot.

use std::time::Instant;

use frs_store::counter::Counters;

use super::core::{Mirror, MirrorCounts, PeerFigures};
use super::push::Kept;
use crate::figures::{MirrorCounter, PeerState, PeersState};

/// Publishes the present state, and what was counted since the last call.
pub(super) fn publish<T: Copy>(counters: Counters<'_>, mirror: &mut Mirror<T>, now: Instant) {
    let words = counters.extension();
    let MirrorCounts { sent, installed, older, void, full, overruns } =
        std::mem::take(&mut mirror.counts);
    let Kept { kept, again, newer } = sent;
    let grown = [
        (MirrorCounter::Sent, kept),
        (MirrorCounter::Again, again),
        (MirrorCounter::Outdated, newer),
        (MirrorCounter::Installed, installed),
        (MirrorCounter::Older, older),
        (MirrorCounter::Void, void),
        (MirrorCounter::Full, full),
        (MirrorCounter::Overrun, overruns),
    ];
    for (counter, by) in grown {
        words.grow(counter.place(), by);
    }
    let peer = |figures: PeerFigures| PeerState {
        is_up: figures.is_up,
        is_compared: figures.is_compared,
        lag_ms: figures.lag.time.as_millis() as u64,
        lag_records: figures.lag.records as u64,
        skew_ms: figures.skew_ms,
    };
    let peers = mirror.figures(now).into_iter().map(peer).collect();
    PeersState { peers, is_learning: mirror.is_learning() }.store(words);
}
