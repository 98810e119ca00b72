//! Converts nodes that were written under other limits: limits of the same shape, or former limits
//! of a shared biz.
//!
//! Invariant: state that belongs to both the old and the new limits is kept. The shape of a node
//! tells whether histories follow its states, and each history tells where the next one is.

use frs_conf::Scope;

use super::place::NodeLayout;
use super::{Rule, Rules};
use crate::history_ring;
use crate::part::{self, Head, Part};
use crate::{distinct, ring};

/// Words of the largest node.
pub(super) const MAX_NODE_WORDS: usize = 32_768 / 8;

/// The limits that a node was written under, as far as it tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Their [`Rules::shape`].
    pub shape: u16,
    /// It has a word for a ban.
    pub has_ban: bool,
}

impl Rules {
    /// A 16-bit digest of the meaning of a node's state words: kind and interval of each limit of
    /// the scope, in order, and whether any of them keeps a history. Never 0.
    #[inline]
    pub fn shape(&self, scope: Scope) -> u16 {
        self.node(scope).shape
    }

    /// Whether a node of this shape can be adopted: its limits had the same kinds and intervals,
    /// apart from histories, or one of its shared limits still exists.
    #[inline]
    pub fn adopts(&self, scope: Scope, shape: u16) -> bool {
        let node = self.node(scope);
        shape == node.shape || shape == node.sibling || self.former(scope, shape).is_some()
    }

    /// Converts the words of a node, from the end of its key field to its end, to these limits, if
    /// they adopt the shape under which it was written. Adds or removes a word for the ban. Adds,
    /// removes, lengthens or shortens histories and a ring. Of former limits, keeps the state of
    /// those that still exist. Erases a register whose text is longer than `text-bytes`.
    #[cold]
    #[inline(never)]
    pub fn adopt(&self, scope: Scope, written: Written, words: &mut [u64]) {
        let node = self.node(scope);
        if node.is_register {
            // A text that is too long for its business now is gone; no register is cut.
            if !self.is_register_laid_out(words) {
                words.fill(0);
            }
            return;
        }
        let has_ban = scope == Scope::Key && self.has_ban();
        // Any ring fits behind the states of former limits, however many there are.
        let mut copy = [0; 2 * MAX_NODE_WORDS];
        let len = words.len().min(MAX_NODE_WORDS);
        copy[..len].copy_from_slice(&words[..len]);
        let former = self.former(scope, written.shape);
        let fixed = match former {
            Some(former) => {
                words.fill(0);
                former.keep_states(&copy, words);
                former.fixed
            }
            None => {
                words[node.fixed..].fill(0);
                node.fixed
            }
        };
        let (ban, old) = copy[fixed..].split_at_mut(usize::from(written.has_ban));
        let stays = |ban: &&u64| former.is_none_or(|former| former.keeps_ban(**ban));
        if let (true, Some(&ban)) = (has_ban, ban.first().filter(stays)) {
            words[node.fixed] = ban;
        }
        let with_parts = if node.has_parts { node.shape } else { node.sibling };
        let (parts, uses) = match written.shape == with_parts {
            true => {
                let words = part::parts(old).map(|part| part.words.len()).sum();
                old.split_at_mut(words)
            }
            false => old.split_at_mut(0),
        };
        for PlacedPast { past, at } in self.with_past(scope) {
            let own = part::parts(parts).find(|part| part.position == past.position);
            let known = own.map_or(&[][..], |Part { words, .. }| words);
            past.take_over(&mut words[at], known);
        }
        if let Some(tables) = self.tables.as_ref().filter(|_| scope == Scope::Key) {
            tables.take_over(words, parts);
        }
        let keeps_log = former.is_none_or(|former| former.keeps_log);
        if let Some(ring) = node.ring.filter(|_| keeps_log) {
            ring::resize(ring, uses);
            let at = node.ring_at();
            words[at..][..ring::words(ring)].copy_from_slice(&uses[..ring::words(ring)]);
        }
        if let Some(room) = node.set_room {
            distinct::shrink(room, uses);
            let own = node.set_words();
            words[node.set_at()..][..own].copy_from_slice(&uses[..own]);
        }
    }

    /// Whether a node with the shape of these limits already has their layout.
    #[inline]
    pub fn is_adopted(&self, scope: Scope, had_ban: bool, words: &[u64]) -> bool {
        let node = self.node(scope);
        let has_ban = scope == Scope::Key && self.has_ban();
        had_ban == has_ban && (!node.is_sized || self.is_fitted(scope, node, words))
    }

    #[inline]
    fn is_fitted(&self, scope: Scope, node: &NodeLayout, words: &[u64]) -> bool {
        (!node.has_parts || self.are_laid_out(scope, node, words))
            && node.ring.is_none_or(|ring| ring::is_of(ring, &words[node.ring_at()..]))
            && node.set_room.is_none_or(|room| distinct::fits(room, &words[node.set_at()..]))
    }

    /// Whether the node has exactly the parts of these limits. Words that were never rolled are
    /// zero, and count as laid out.
    fn are_laid_out(&self, scope: Scope, node: &NodeLayout, words: &[u64]) -> bool {
        if node.is_register {
            return self.is_register_laid_out(words);
        }
        if words[node.parts_at] == 0 {
            return true;
        }
        let is_laid_out = |placed: PlacedPast| placed.past.is_laid_out(&words[placed.at]);
        let tables = self.tables.as_ref().filter(|_| scope == Scope::Key);
        self.with_past(scope).all(is_laid_out)
            && tables.is_none_or(|tables| tables.are_laid_out(words))
            && Head::of(&words[node.parts_to..]).is_none()
    }

    /// The histories of a scope, in the order of their words.
    fn with_past(&self, scope: Scope) -> impl Iterator<Item = PlacedPast> {
        let of_scope = self.rules.iter().filter(move |rule| rule.scope == scope);
        of_scope.filter_map(Rule::placed_past)
    }
}

/// A history, and its words in the node.
pub(super) struct PlacedPast {
    pub past: history_ring::Past,
    pub at: std::ops::Range<usize>,
}

impl Rule {
    /// The history of the limit.
    pub(super) fn placed_past(&self) -> Option<PlacedPast> {
        let remembered = self.policy.remembered()?;
        let from = usize::from(self.from) + remembered.at.start;
        let past = remembered.past;
        Some(PlacedPast { past, at: from..from + past.words() })
    }
}
