//! Nodes that were written under former limits of a shared biz: the states of limits that still
//! exist, and the log and the ban that belong to them.
//!
//! Invariant: a state stays with the limit that wrote it, and with no other limit. All machines
//! name a shared limit by its number and the digest of its policy. So a limit keeps its state while
//! both are unchanged, whatever happens to the other limits. The rest of such a node is fresh: a
//! new limit has no uses yet, and the cluster counts what it granted to a removed limit as spent.

use std::sync::Arc;

use frs_conf::{Biz, SHARED_WORDS, Scope, SharedLimit, SharedLimits};

use super::adopt::MAX_NODE_WORDS;
use super::place::{NodeLayout, shape_of};
use super::{Rule, Rules};
use crate::ban::Ban;
use crate::shared_policy::SharedPolicy;

/// A shape of nodes that were written under former limits.
#[derive(Debug, Clone)]
pub(super) struct FormerNode {
    scope: Scope,
    shape: u16,
    /// Words before the word of a ban or the ring.
    pub fixed: usize,
    /// The states of limits that still exist; at least one.
    kept: Box<[KeptState]>,
    /// The log is kept, because one of its sliding limits still exists.
    pub keeps_log: bool,
    /// Whether each of the former limits, of either scope, still exists.
    stays: Box<[bool]>,
}

/// The place of a state that is kept.
#[derive(Debug, Clone, Copy)]
struct KeptState {
    /// Its first word in the former node.
    from: usize,
    /// Its first word in the node now.
    to: usize,
}

impl FormerNode {
    /// The former nodes of a biz, from its rules and the layouts of both scopes.
    pub fn all(biz: &Biz, rules: &[Rule], nodes: [&NodeLayout; 2]) -> Arc<[FormerNode]> {
        let mut all = Vec::new();
        for (scope, node) in [Scope::Key, Scope::Biz].into_iter().zip(nodes) {
            // Of two former sets of limits with one shape, the last one decides which bans stay.
            for former in biz.former.iter().rev() {
                let shape = former.shapes[scope as usize];
                // A shape of two different former sets of limits is ambiguous: neither is adopted.
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

    /// `None` if no limit of the scope still exists, or if the former states exceed a node.
    fn of(former: &SharedLimits, scope: Scope, rules: &[Rule]) -> Option<FormerNode> {
        let staying = |number: usize, limit: SharedLimit| {
            let rule = rules.get(number.checked_sub(1)?);
            rule.filter(|rule| rule.shared() == Some(limit))
        };
        let (mut kept, mut keeps_log) = (Vec::new(), false);
        for (nth, (number, digest)) in former.of_node(scope).enumerate() {
            let Some(rule) = staying(number, SharedLimit { scope, digest }) else { continue };
            kept.push(KeptState { from: nth * SHARED_WORDS, to: rule.from.into() });
            keeps_log |= rule.policy.properties().is_logged;
        }
        let fixed = former.of_node(scope).count() * SHARED_WORDS;
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

    /// Copies the kept states from the words of a node as written to its words of now.
    pub fn keep_states(&self, written: &[u64], now: &mut [u64]) {
        for &KeptState { from, to } in &self.kept {
            now[to..][..SHARED_WORDS].copy_from_slice(&written[from..][..SHARED_WORDS]);
        }
    }

    /// Whether a ban stays. It does if the limit that started it still exists.
    pub fn keeps_ban(&self, word: u64) -> bool {
        let starter = usize::from(Ban::of(word).limit).checked_sub(1);
        starter.and_then(|nth| self.stays.get(nth)).is_some_and(|&stays| stays)
    }
}

impl Rule {
    /// Its name in the cluster, without its number. `None` if machines do not share the limit.
    pub(super) fn shared(&self) -> Option<SharedLimit> {
        let digest = digest_of(self.scope, self.policy.shared()?);
        Some(SharedLimit { scope: self.scope, digest })
    }
}

/// The digest of a limit's policy in its name in the cluster.
pub(super) fn digest_of(scope: Scope, limit: &dyn SharedPolicy) -> u16 {
    shape_of(scope, [limit.identity()])
}

impl Rules {
    /// The former limits under which a node of this shape was written. `None` if there are none, or
    /// if no limit of them still exists.
    pub(super) fn former(&self, scope: Scope, shape: u16) -> Option<&FormerNode> {
        self.former.iter().find(|former| former.scope == scope && former.shape == shape)
    }

    /// Whether a node of this shape was written under former limits, and some of them still exist.
    pub fn is_former(&self, scope: Scope, shape: u16) -> bool {
        self.former(scope, shape).is_some()
    }

    /// The description by which these limits' nodes are recognised later, if machines share the
    /// limits.
    pub fn shared_limits(&self) -> Option<SharedLimits> {
        let limits: Option<Vec<SharedLimit>> = self.rules.iter().map(Rule::shared).collect();
        let shapes = [self.key.shape, self.biz.shape];
        Some(SharedLimits { shapes, limits: limits? })
    }
}
