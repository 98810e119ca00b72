//! Nodes that were written under former limits of a shared biz: their leases, and what goes with
//! them.
//!
//! Invariant: a lease stays with the ledger that has granted it, and with no other one. The name of
//! a ledger has the limit's number and the digest of its policy. So a limit keeps its lease as long
//! as both stay, whatever happens to the other limits. All else of such a node is fresh: a limit
//! that was not there has no lease yet, and what the ledger of one that has gone has granted counts
//! there as spent.

use std::sync::Arc;

use frs_conf::{Biz, LEASED_WORDS, Scope, SharedLimit, SharedLimits};

use super::adopt::MAX_NODE_WORDS;
use super::place::{NodeLayout, shape_of};
use super::{Rule, Rules};
use crate::ban::Ban;
use crate::leased::Leased;

/// A shape of nodes that were written under former limits.
#[derive(Debug, Clone)]
pub(super) struct FormerNode {
    scope: Scope,
    shape: u16,
    /// Words before the word of a ban or the ring.
    pub fixed: usize,
    /// The leases of limits that stay. There is one at least.
    kept: Box<[KeptLease]>,
    /// The log of sliding limits stays: one of them does.
    pub keeps_log: bool,
    /// Which of the former limits stay, of either scope.
    stays: Box<[bool]>,
}

/// Where the lease of a limit that stays is.
#[derive(Debug, Clone, Copy)]
struct KeptLease {
    /// Its first word in the former node.
    from: usize,
    /// The same now.
    to: usize,
}

impl FormerNode {
    /// Those of a biz whose rules these are, with the nodes of both scopes.
    pub fn all(biz: &Biz, rules: &[Rule], nodes: [&NodeLayout; 2]) -> Arc<[FormerNode]> {
        let mut all = Vec::new();
        for (scope, node) in [Scope::Key, Scope::Biz].into_iter().zip(nodes) {
            // Of two with one shape the one left last tells which bans stay.
            for former in biz.former.iter().rev() {
                let shape = former.shapes[scope as usize];
                // Of two that cannot be told apart none is believed.
                let is_other = |other: &SharedLimits| {
                    other.shapes[scope as usize] == shape
                        && other.of_node(scope).ne(former.of_node(scope))
                };
                if shape != node.shape && !biz.former.iter().any(is_other) {
                    all.extend(FormerNode::of(former, scope, rules));
                }
            }
        }
        all.into()
    }

    /// None: no limit of the scope stays.
    fn of(former: &SharedLimits, scope: Scope, rules: &[Rule]) -> Option<FormerNode> {
        let staying = |number: usize, limit: SharedLimit| {
            let rule = rules.get(number.checked_sub(1)?);
            rule.filter(|rule| rule.shared() == Some(limit))
        };
        let (mut kept, mut keeps_log) = (Vec::new(), false);
        for (nth, (number, ledger)) in former.of_node(scope).enumerate() {
            let Some(rule) = staying(number, SharedLimit { scope, ledger }) else { continue };
            kept.push(KeptLease { from: nth * LEASED_WORDS, to: rule.from.into() });
            keeps_log |= rule.policy.is_logged();
        }
        let fixed = former.of_node(scope).count() * LEASED_WORDS;
        let numbered = (1..).zip(&former.limits);
        (!kept.is_empty() && fixed <= MAX_NODE_WORDS).then(|| FormerNode {
            scope,
            shape: former.shapes[scope as usize],
            fixed,
            kept: kept.into(),
            keeps_log,
            stays: numbered.map(|(number, &limit)| staying(number, limit).is_some()).collect(),
        })
    }

    /// Copies the leases that stay from the states of a node, as they were written, to those of
    /// now.
    pub fn keep_leases(&self, written: &[u64], now: &mut [u64]) {
        for &KeptLease { from, to } in &self.kept {
            now[to..][..LEASED_WORDS].copy_from_slice(&written[from..][..LEASED_WORDS]);
        }
    }

    /// Whether a ban stays: it does as long as the limit that started it.
    pub fn keeps_ban(&self, word: u64) -> bool {
        let starter = usize::from(Ban::of(word).limit).checked_sub(1);
        starter.and_then(|nth| self.stays.get(nth)).is_some_and(|&stays| stays)
    }
}

impl Rule {
    /// What names its ledger, but for its number. None: machines do not share it.
    pub(super) fn shared(&self) -> Option<SharedLimit> {
        let ledger = ledger_digest(self.scope, self.policy.leased()?);
        Some(SharedLimit { scope: self.scope, ledger })
    }
}

/// The digest of a limit's policy in the name of its ledger.
pub(super) fn ledger_digest(scope: Scope, limit: &Leased) -> u16 {
    shape_of(scope, [limit.ledger_shape()])
}

impl Rules {
    /// The former limits that a node of this shape was written under. None: it was not, or none of
    /// them stays.
    pub(super) fn former(&self, scope: Scope, shape: u16) -> Option<&FormerNode> {
        self.former.iter().find(|former| former.scope == scope && former.shape == shape)
    }

    /// Whether a node of this shape was written under former limits of which some stay.
    pub fn is_former(&self, scope: Scope, shape: u16) -> bool {
        self.former(scope, shape).is_some()
    }

    /// What tells its nodes later, if machines share these limits.
    pub fn shared_limits(&self) -> Option<SharedLimits> {
        let limits: Option<Vec<SharedLimit>> = self.rules.iter().map(Rule::shared).collect();
        let shapes = [self.key.shape, self.biz.shape];
        Some(SharedLimits { shapes, limits: limits? })
    }
}

#[cfg(test)]
mod tests;
