//! The layout of a biz's nodes: the place of the state of each limit.
//!
//! Invariant: the states of fixed length come first, in the order of the limits. The word of a ban
//! follows, then the histories in the order of their limits, then the ids and the holds, then the
//! ring of the sliding limits or the set of the exact `distinct` limit; a scope has one of the two
//! at most. So a change to the length of any of these moves no state of fixed length.

use std::ops::Range;

use frs_base::hash;
use frs_conf::key::DigestKey;
use frs_conf::{self as conf, Biz, DISTINCT_HEADER_WORDS, Scope, StatePlace};

use super::Rule;
use crate::any_policy::AnyPolicy;
use crate::history_ring::{Past, Remembered};
use crate::ring::{self, Ring};
use crate::shared_policy::{Log, SharedPolicies};

/// Marks the shape of a node that has parts: histories, ids, holds or a register. A number of its
/// own, as each policy has.
const WITH_PARTS: [u64; 2] = [9, 0];
/// Marks the shape of a node that is a register, whatever the length of its text.
const REGISTER: [u64; 2] = [17, 0];
/// Marks the shape of a node with a shared limit whose number is not its position in the node. The
/// number itself follows.
const NUMBERED: u64 = 13;
/// Marks the shape of a node with members that machines hash alike. The mark of the hash key
/// follows: under another key the members are unknown to the node.
const HASHED_ALIKE: u64 = 12;

/// The layout of all nodes of a biz in one scope.
#[derive(Debug, Clone, Copy)]
pub(super) struct NodeLayout {
    pub words: usize,
    /// First word after the states of fixed length: that of the ban, of a history or of the ring.
    pub fixed: usize,
    pub shape: u16,
    /// The shape of the same limits without parts if they have any, and with parts if they have
    /// none. Equal to `shape` if they cannot have any.
    pub sibling: u16,
    /// Something of configurable length follows: a part, a ring or a set.
    pub is_sized: bool,
    /// It has histories, ids or holds, or is a register.
    pub has_parts: bool,
    /// It is a register.
    pub is_register: bool,
    /// First word of these parts, and the word after the last one.
    pub parts_at: usize,
    pub parts_to: usize,
    pub life_ms: Option<u64>,
    /// Its ring. `None` if no limit needs a ring.
    pub ring: Option<Ring>,
    /// The capacity of its set, in members. `None` if no limit needs a set.
    pub set_room: Option<usize>,
}

/// What a node holds besides the states of its limits.
#[derive(Debug, Clone, Copy)]
pub(super) struct OtherRoom {
    /// Words of a ban.
    pub ban_words: usize,
    /// How long a ban, an id or a hold keeps the node after its last use, at most.
    pub life_ms: u64,
}

impl OtherRoom {
    pub const NONE: OtherRoom = OtherRoom { ban_words: 0, life_ms: 0 };
}

impl NodeLayout {
    pub fn new(
        biz: &Biz,
        rules: &[Rule],
        scope: Scope,
        other: OtherRoom,
        alike: Option<DigestKey>,
    ) -> NodeLayout {
        let own = || rules.iter().filter(|rule| rule.scope == scope);
        let fixed = biz.limits_of(scope).map(|(_, limit)| biz.state_words(limit)).sum();
        let has_past = own().any(|rule| rule.policy.remembered().is_some());
        let is_register = biz.register_words(scope) > 0;
        let has_parts = has_past || biz.table_words(scope) > 0 || is_register;
        let parts_at = fixed + other.ban_words;
        let parts_to = parts_at
            + biz.history_words(scope)
            + biz.table_words(scope)
            + biz.register_words(scope);
        let notes_members = own().any(Rule::notes_members);
        let register = is_register.then_some(REGISTER);
        let hashed = alike.filter(|_| notes_members).map(|key| [HASHED_ALIKE, key.mark()]);
        let shapes = || {
            let numbered = (1..).zip(rules).filter(|(_, rule)| rule.scope == scope);
            let placed = (1..).zip(numbered);
            placed
                .flat_map(|(position, (number, rule))| rule.shapes(position, number))
                .chain(hashed)
                .chain(register)
        };
        let plain = shape_of(scope, shapes());
        let with_parts = shape_of(scope, shapes().chain([WITH_PARTS]));
        let (shape, sibling) = match has_parts {
            true => (with_parts, plain),
            false => (plain, with_parts),
        };
        let ring = ring_of(biz, scope);
        let set_room = biz.set_room(scope).map(|room| room as usize);
        NodeLayout {
            words: parts_to + biz.ring_words(scope) + biz.set_words(scope),
            fixed,
            shape,
            sibling,
            is_sized: has_parts || ring.is_some() || set_room.is_some(),
            has_parts,
            is_register,
            parts_at,
            parts_to,
            // The words of a register alone tell when it expires.
            life_ms: own()
                .map(|rule| rule.policy.life_ms())
                .chain(is_register.then_some(None))
                .try_fold(other.life_ms, |longest_ms, life_ms| Some(longest_ms.max(life_ms?))),
            ring,
            set_room,
        }
    }

    /// First word of the set; without a set, the end of the words.
    #[inline]
    pub fn set_at(&self) -> usize {
        self.words - self.set_words()
    }

    /// Words of the set.
    pub fn set_words(&self) -> usize {
        self.set_room.map_or(0, |room| DISTINCT_HEADER_WORDS + room)
    }

    /// First word of the ring.
    #[inline]
    pub fn ring_at(&self) -> usize {
        self.words - self.ring.map_or(0, ring::words)
    }
}

/// The ring of a scope's sliding limits.
fn ring_of(biz: &Biz, scope: Scope) -> Option<Ring> {
    let longest = biz.limits_of(scope).filter_map(|(_, limit)| match limit.state_place() {
        StatePlace::Ring(limit) => Some(limit.interval_ms),
        StatePlace::Own { .. } | StatePlace::Set { .. } | StatePlace::Holds => None,
    });
    let (uses, longest_ms) = biz.ring_uses(scope).zip(longest.max())?;
    Some(Ring { uses, longest_ms })
}

fn is_in_ring(limit: &conf::Limit) -> bool {
    matches!(limit.state_place(), StatePlace::Ring(_))
}

/// The sliding limit of a scope that reports uses which the log does not hold: the first limit that
/// refuses, or else the first one.
fn log_reporter(biz: &Biz, scope: Scope) -> Option<&conf::Limit> {
    let all = || biz.limits_of(scope).map(|(_, limit)| limit);
    let is_logged = |limit: &&conf::Limit| is_in_ring(limit);
    let refuses = |limit: &&conf::Limit| is_logged(limit) && limit.advice.is_none();
    all().find(refuses).or_else(|| all().find(is_logged))
}

/// Assigns words to each limit: consecutive words in its scope, or for sliding limits the ring.
pub(super) fn place(biz: &Biz, shared: Option<&dyn SharedPolicies>) -> Box<[Rule]> {
    let (mut next, mut next_past) = ([0, 0], [0, 0]);
    let fixed =
        |scope| -> usize { biz.limits_of(scope).map(|(_, limit)| biz.state_words(limit)).sum() };
    let mut position = [0_u16, 0];
    let mut per_call = 0;
    let ttl_ms = biz.holds.map_or(0, |holds| holds.ttl_ms);
    let place_one = |limit: &conf::Limit| {
        let scope = limit.scope;
        position[scope as usize] += 1;
        let ban = usize::from(scope == Scope::Key && biz.bans());
        let pasts_from = fixed(scope) + ban;
        let tables_from = pasts_from + biz.history_words(scope);
        let ring_from = tables_from + biz.table_words(scope);
        let ring_to = ring_from + biz.ring_words(scope);
        let (mut from, words) = match limit.state_place() {
            StatePlace::Ring(_) if biz.sharing.is_none() => (ring_from, ring_to - ring_from),
            StatePlace::Set { .. } => (ring_from, biz.set_words(scope)),
            StatePlace::Holds => (tables_from + biz.once_words(scope), biz.hold_words(scope)),
            StatePlace::Own { .. } | StatePlace::Ring(_) => {
                let words = biz.state_words(limit);
                let from = next[scope as usize];
                next[scope as usize] += words;
                (from, if is_in_ring(limit) { ring_to - from } else { words })
            }
        };
        let advises = limit.advice.is_some();
        let is_own = |reporter: &conf::Limit| std::ptr::eq(limit, reporter);
        let reports = !is_in_ring(limit) || log_reporter(biz, scope).is_some_and(is_own);
        let log = Log { ring: ring_of(biz, scope), reports };
        let mut policy = match shared.and_then(|shared| shared.policy(biz, limit, log)) {
            Some(policy) => AnyPolicy::Shared(policy),
            None => {
                debug_assert!(biz.sharing.is_none(), "nobody shares {limit:?} of {}", biz.name);
                let bounds = limit.per_call.map(|bounds| (bounds, per_call));
                per_call += usize::from(bounds.is_some());
                AnyPolicy::of_limit(&limit.policy, bounds, ttl_ms)
            }
        };
        let mut to = from + words;
        if limit.history > 0 {
            let past = Past { windows: limit.history, position: position[scope as usize] };
            let past_from = pasts_from + next_past[scope as usize];
            next_past[scope as usize] += past.words();
            let past_to = past_from + past.words();
            // The words of a set come behind the histories, and all others before.
            let whole = from.min(past_from)..to.max(past_to);
            let within = |part: Range<usize>| part.start - whole.start..part.end - whole.start;
            let remembered =
                Remembered { past, own: within(from..to), at: within(past_from..past_to) };
            policy = policy.with_history(remembered);
            (from, to) = (whole.start, whole.end);
        }
        Rule {
            policy,
            scope,
            name: limit.policy.name(),
            from: from as u16,
            to: to as u16,
            advises,
            ban_ms: limit.ban_ms.unwrap_or(0),
        }
    };
    biz.limits.iter().map(place_one).collect()
}

impl Rule {
    /// The limit's part of the shape of its node, in which it has this position. The name of a
    /// shared limit in the cluster also depends on its number in the biz.
    fn shapes(&self, position: u64, number: u64) -> impl Iterator<Item = [u64; 2]> {
        let is_shared = self.policy.shared().is_some();
        let numbered = (is_shared && number != position).then_some([NUMBERED, number]);
        std::iter::once(self.policy.shape()).chain(numbered)
    }
}

pub(super) fn shape_of(scope: Scope, shapes: impl IntoIterator<Item = [u64; 2]>) -> u16 {
    let hash = shapes
        .into_iter()
        .fold(1 + scope as u64, |hash, shape| hash::lookup3_words(&shape, 16, hash));
    (hash % 0xffff) as u16 + 1
}
