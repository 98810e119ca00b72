//! Chooses the node of a full chain to evict: expired, idle, limiting, banned, in that order,
//! oldest last use first.
//!
//! Invariant: never chooses a node that must not be lost: the node of a whole biz, of a total in
//! use, or one that this transaction uses.

use crate::file::group::{Group, is_whole};
use crate::file::layout::node;

/// Maximum number of candidates of a chain that are judged fully.
const JUDGED_MAX: usize = 8;

/// How much a key would lose with its node. A lower rank is evicted first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rank {
    /// Each limit would roll to fresh, and no ban runs: nothing is lost.
    Expired,
    /// In use, and no limit of the key refuses.
    Idle,
    /// A limit of the key refuses a count of 1.
    Limiting,
    /// A ban runs.
    Banned,
    /// Never evicted: a total in use, or a whole biz's node in use.
    Kept,
}

/// How long nodes count, as far as a word of them tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// Not at all: their business is not configured.
    Over,
    /// Milliseconds after their last use, at most.
    Ms(u64),
    /// Up to the time in the word with this index, in milliseconds since the epoch. 0: no bound.
    Until(usize),
    /// There is no bound.
    Unbounded,
}

impl Life {
    /// Whether a node with this last use and these words is certainly expired.
    #[inline]
    pub fn is_over(self, last_use: u64, now: u64, word: impl FnOnce(usize) -> u64) -> bool {
        match self {
            Life::Over => true,
            Life::Ms(life_ms) => last_use.saturating_add(life_ms) < now,
            Life::Until(index) => (1..=now).contains(&word(index)),
            Life::Unbounded => false,
        }
    }
}

/// The knowledge of the layer above about nodes.
pub trait Judge {
    /// The life of a node of group `group` with this key word. The length of the key does not
    /// matter. A word that tells it is one of the node's.
    fn life(&self, group: usize, key_word: u64) -> Life;
    /// The rank of a whole node. `words` is a copy and may be changed.
    fn rank(&self, group: usize, words: &mut [u64], now: u64) -> Rank;
    /// Converts a whole node of group `group` for the new group that grows out of it. `words` has
    /// the node length of the new group and holds the key; the rest is zero.
    fn convert(&self, group: usize, old: &[u64], words: &mut [u64]);
}

/// A place to reuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Victim {
    pub place: usize,
    /// The rank of the node that is lost. None if its CRC failed, so that it belonged to no key.
    pub rank: Option<Rank>,
}

/// Buffers for choosing.
#[derive(Debug, Default)]
pub(crate) struct EvictionBuffers {
    order: Vec<UsedPlace>,
    copy: Vec<u64>,
}

/// A candidate, ordered by last use, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct UsedPlace {
    last_use_ms: u64,
    place: usize,
}

/// A chain in which a node must be evicted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FullChain<'g> {
    pub group_index: usize,
    pub group: &'g Group,
    pub file: u32,
    pub key_node: u32,
}

impl FullChain<'_> {
    /// Chooses among `candidates`: the places with a tag that the transaction does not use. The
    /// chosen node has the rank `most` or a lower one.
    #[cold]
    pub fn choose(
        self,
        candidates: impl Iterator<Item = usize>,
        judge: &dyn Judge,
        most: Rank,
        now: u64,
        EvictionBuffers { order, copy }: &mut EvictionBuffers,
    ) -> Option<Victim> {
        let FullChain { group_index: index, group, file, key_node } = self;
        let region = group.file(file);
        order.clear();
        // Most nodes of a chain have the same business.
        let mut last: Option<(u64, Life)> = None;
        for place in candidates {
            let at = group.node(key_node, place);
            let key_word = region.load(at + node::KEY);
            // A last use in the future counts as now.
            let last_use = region.load(at + node::LAST_USE).min(now);
            let kind = node::without_length(key_word);
            let life = match last {
                Some((known, life)) if known == kind => life,
                _ => judge.life(index, key_word),
            };
            last = Some((kind, life));
            if life.is_over(last_use, now, |index| region.load(at + index)) {
                return Some(Victim { place, rank: Some(Rank::Expired) });
            }
            order.push(UsedPlace { last_use_ms: last_use, place });
        }
        order.sort_unstable();
        copy.resize(group.node_words(), 0);
        let (mut best, mut judged): (Option<Victim>, usize) = (None, 0);
        for &UsedPlace { place, .. } in order.iter() {
            region.read(group.node(key_node, place), copy);
            if !is_whole(copy) {
                return Some(Victim { place, rank: None });
            }
            let rank = judge.rank(index, copy, now);
            match rank {
                Rank::Expired => return Some(Victim { place, rank: Some(rank) }),
                // Not counted as judged: `full` means that only such nodes are left.
                Rank::Kept => continue,
                // Not counted either: only nodes up to idle may be evicted here, and this one has a
                // higher rank.
                _ if most == Rank::Idle && rank > most => continue,
                _ if best.and_then(|best| best.rank).is_none_or(|least| rank < least) => {
                    best = Some(Victim { place, rank: Some(rank) });
                }
                _ => {}
            }
            judged += 1;
            if judged == JUDGED_MAX {
                break;
            }
        }
        best.filter(|best| best.rank.is_none_or(|rank| rank <= most))
    }
}
