//! What a table knows of records that other machines have copies of.

use frs_store::layout::node;
use frs_store::{Judge as _, Life, version};

use super::{Entry, Table};
use crate::plug::Learning;

/// How long an item waits for a machine that leaves.
const PARK_MS: u64 = 5_000;

impl Table {
    /// How long an item waits for the record of its key. `None`: no other machine has one.
    pub(crate) fn wait_for_record_ms(&self, entry: &Entry) -> Option<u64> {
        let remote = entry.remote?;
        let parks = remote.is_mirrored && self.learning == Learning::Parks;
        Some(if parks { PARK_MS } else { remote.wait_ms })
    }

    /// Whether other machines may have later records than this one, so that the first use of a
    /// mirrored record asks them.
    #[inline]
    pub fn learning(&self) -> Learning {
        self.learning
    }

    /// Sets whether they may.
    pub(crate) fn set_learning(&mut self, learning: Learning) {
        self.learning = learning;
    }

    /// Whether a node of a key matters now. An erased record, which holds nothing, matters for as
    /// long as any of its business: it keeps an older copy from coming back.
    pub fn may_matter(&self, entry: &Entry, words: &[u64], now: u64) -> bool {
        let end = words.len() - version::tail_words(words);
        let is_erased = words[entry.states_at()..end].iter().all(|&word| word == 0);
        let Some(group) = entry.group else { return false };
        match self.life(group, words[node::KEY]) {
            Life::Over => false,
            Life::Until(at) => is_erased || words[at] == 0 || words[at] > now,
            Life::Ms(ms) if is_erased => words[node::LAST_USE].saturating_add(ms) >= now,
            Life::Unbounded if is_erased => true,
            Life::Ms(_) | Life::Unbounded => entry.left_ms(words, now) != Some(0),
        }
    }
}
