//! Where the states of a biz's limits are in its nodes.
//!
//! Invariant: the states of fixed length come first, in the order of the limits; then the word of a
//! ban, then the ring of the sliding limits or the set of the exact `distinct` limit: a scope has
//! one of them.

use std::sync::Arc;

use super::Rule;
use crate::base::hash;
use crate::conf::{self, Biz, Scope, Tally};
use crate::limit::leased::{LeaseClock, Leased};
use crate::limit::policy::{self, Policy};
use crate::limit::ring::{self, Ring};

/// What all nodes of a biz in one scope have in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct NodeLayout {
    pub words: usize,
    /// First word after the states of fixed length: that of the ban or of the ring.
    pub fixed: usize,
    pub shape: u16,
    pub life_ms: Option<u64>,
    /// Its ring. None: no limit needs one.
    pub ring: Option<Ring>,
    /// Members that its set has room for. None: no limit needs one.
    pub set_room: Option<usize>,
}

/// What bans mean for the nodes of a scope.
#[derive(Debug, Clone, Copy)]
pub(super) struct BanRoom {
    pub words: usize,
    /// How long a ban keeps a node after its last use, at most.
    pub life_ms: u64,
}

impl BanRoom {
    pub const NONE: BanRoom = BanRoom { words: 0, life_ms: 0 };
}

impl NodeLayout {
    pub fn new(biz: &Biz, rules: &[Rule], scope: Scope, ban: BanRoom) -> NodeLayout {
        let own = || rules.iter().filter(|rule| rule.scope == scope);
        let fixed = biz.limits_of(scope).map(|(_, limit)| biz.state_words(limit)).sum();
        NodeLayout {
            words: fixed + ban.words + biz.ring_words(scope) + biz.set_words(scope),
            fixed,
            shape: shape(scope, own().map(|rule| &rule.policy)),
            life_ms: own()
                .map(|rule| policy::life_ms(&rule.policy))
                .try_fold(ban.life_ms, |longest_ms, life_ms| Some(longest_ms.max(life_ms?))),
            ring: ring_of(biz, scope),
            set_room: biz.set_room(scope).map(|room| room as usize),
        }
    }

    /// First word of the ring.
    #[inline]
    pub fn ring_at(&self) -> usize {
        self.words - self.ring.map_or(0, ring::words)
    }
}

/// The ring of a scope's sliding limits.
fn ring_of(biz: &Biz, scope: Scope) -> Option<Ring> {
    let longest = biz.limits_of(scope).filter_map(|(_, limit)| match limit.policy {
        conf::Policy::Sliding(limit) => Some(limit.interval_ms),
        _ => None,
    });
    let (uses, longest_ms) = biz.ring_uses(scope).zip(longest.max())?;
    Some(Ring { uses, longest_ms })
}

/// Assigns words to each limit: consecutive words in its scope, or for sliding limits the ring.
pub(super) fn place(biz: &Biz, clock: &Arc<LeaseClock>) -> Box<[Rule]> {
    let mut next = [0, 0];
    let fixed =
        |scope| -> usize { biz.limits_of(scope).map(|(_, limit)| biz.state_words(limit)).sum() };
    let place_one = |limit: &conf::Limit| {
        let scope = limit.scope;
        let ban = usize::from(scope == Scope::Key && biz.bans());
        let ring_from = fixed(scope) + ban;
        let ring_to = ring_from + biz.ring_words(scope);
        let (from, words) = match limit.policy {
            conf::Policy::Sliding(_) if biz.sharing.is_none() => (ring_from, ring_to - ring_from),
            conf::Policy::Distinct(conf::Distinct { tally: Tally::Exact { .. }, .. }) => {
                (ring_from, biz.set_words(scope))
            }
            _ => {
                let words = biz.state_words(limit);
                let from = next[scope as usize];
                next[scope as usize] += words;
                let is_logged = matches!(limit.policy, conf::Policy::Sliding(_));
                (from, if is_logged { ring_to - from } else { words })
            }
        };
        let advises = limit.advice.is_some();
        let leased = biz.sharing.map(|sharing| {
            Leased::new(&limit.policy, advises, sharing, ring_of(biz, scope), clock)
        });
        Rule {
            policy: match leased {
                Some(leased) => Policy::Leased(Box::new(leased)),
                None => Policy::new(&limit.policy),
            },
            scope,
            name: limit.policy.name(),
            from: from as u16,
            to: (from + words) as u16,
            advises,
            ban_ms: limit.ban_ms.unwrap_or(0),
        }
    };
    biz.limits.iter().map(place_one).collect()
}

fn shape<'a>(scope: Scope, policies: impl Iterator<Item = &'a Policy>) -> u16 {
    shape_of(scope, policies.map(policy::shape))
}

pub(super) fn shape_of(scope: Scope, shapes: impl IntoIterator<Item = [u64; 2]>) -> u16 {
    let hash = shapes
        .into_iter()
        .fold(1 + scope as u64, |hash, shape| hash::lookup3_words(&shape, 16, hash));
    (hash % 0xffff) as u16 + 1
}
