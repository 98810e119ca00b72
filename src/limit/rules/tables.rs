//! The ids and the holds of a key's node: their place behind the histories, and what becomes of
//! them with time.
//!
//! Invariant: the ids come before the holds. Both have a head that says so, as histories have.

use std::ops::Range;

use frs_conf::{Biz, Scope};

use super::{Rules, States};
use crate::Hold;
use crate::holds::{self, HoldTable, Lapse};
use crate::once_ids::OnceIds;
use crate::part::{self, Head};

/// A table, and its words in the key's node.
#[derive(Debug, Clone)]
pub(super) struct Placed<T> {
    pub table: T,
    pub at: Range<usize>,
}

/// The tables of a business; at least one.
#[derive(Debug, Clone)]
pub(super) struct Tables {
    pub once: Option<Placed<OnceIds>>,
    pub holds: Option<Placed<HoldTable>>,
    /// A limit is `concurrent`.
    pub is_concurrent: bool,
}

impl Tables {
    /// The tables of a business, from the first word behind its histories on.
    pub fn of(biz: &Biz, from: usize) -> Option<Box<Tables>> {
        let is_concurrent = biz.is_concurrent();
        let holds_from = from + biz.once_words(Scope::Key);
        let once = biz.once.map(|once| Placed { table: OnceIds::of(once), at: from..holds_from });
        let holds = biz.holds.map(|holds| Placed {
            table: HoldTable::of(holds, is_concurrent),
            at: holds_from..holds_from + biz.hold_words(Scope::Key),
        });
        let has_any = once.is_some() || holds.is_some();
        has_any.then(|| Box::new(Tables { once, holds, is_concurrent }))
    }

    /// The longest time after its last use for which a table keeps a node.
    pub fn life_ms(&self) -> u64 {
        let once_ms = self.once.as_ref().map_or(0, |once| once.table.for_ms);
        let holds_ms = self.holds.as_ref().map_or(0, |holds| holds.table.ttl_ms);
        once_ms.max(holds_ms)
    }

    /// Whether both tables have their places. Words that were never rolled are zero.
    pub fn are_laid_out(&self, words: &[u64]) -> bool {
        self.heads().all(|(head, at)| words[at.start] == 0 || head.is_laid_out(&words[at]))
    }

    fn heads(&self) -> impl Iterator<Item = (Head, Range<usize>)> {
        let once = self.once.iter().map(|once| (once.table.head(), once.at.clone()));
        once.chain(self.holds.iter().map(|holds| (holds.table.head(), holds.at.clone())))
    }

    /// Words of both tables.
    pub fn words(&self) -> usize {
        self.heads().map(|(_, at)| at.len()).sum()
    }

    /// Takes over the tables of a node that was written under other settings. `old` begins with its
    /// parts.
    pub fn take_over(&self, words: &mut [u64], old: &[u64]) {
        for (head, at) in self.heads() {
            let Some(part) = part::parts(old).find(|part| part.position == head.position) else {
                head.lay_out(&mut words[at]);
                continue;
            };
            match (&self.once, &self.holds) {
                (Some(once), _) if once.at == at => {
                    once.table.take_over(&mut words[at], part.words);
                }
                (_, Some(holds)) => holds.table.take_over(&mut words[at], part.words),
                _ => {}
            }
        }
    }
}

impl Rules {
    /// The words of the holds. `None` if the business has none.
    pub(super) fn holds<'w>(&self, states: &'w States<'_>) -> Option<(HoldTable, &'w [u64])> {
        let holds = self.tables.as_ref()?.holds.as_ref()?;
        Some((holds.table, &states.key[holds.at.clone()]))
    }

    /// Brings the tables to `now`, and gives back what lapsed. The limits are rolled.
    pub(super) fn roll_tables(&self, states: &mut States<'_>, now: u64) {
        let Some(tables) = &self.tables else { return };
        if let Some(once) = &tables.once {
            once.table.roll(&mut states.key[once.at.clone()], now);
        }
        let Some(Placed { table, at }) = &tables.holds else { return };
        let words = &mut states.key[at.clone()];
        table.lay_out(words);
        // A hold that lapses with its uses is found again until none is left.
        while let Some(lapsed) = table.lapse_one(&mut states.key[at.clone()], now) {
            self.give_back(states, now, lapsed.count, lapsed.made_ms);
        }
    }

    /// Gives back uses that were charged at this time, to each limit whose window still runs.
    pub(super) fn give_back(&self, states: &mut States<'_>, now: u64, count: u32, made_ms: u64) {
        let terms = states.terms;
        let uses = i32::try_from(count).unwrap_or(i32::MAX);
        for rule in &self.rules {
            if states.node(rule.scope).is_empty() {
                // The worth of a key's node is asked without the node of the whole business.
                continue;
            }
            let state = states.of_mut(rule);
            if rule.policy.counts_since(state, made_ms) {
                rule.policy.charge(state, now, -uses, terms);
            }
        }
    }

    /// Whether the tables of a rolled node are empty.
    pub(super) fn are_tables_empty(&self, key: &[u64]) -> bool {
        let Some(tables) = &self.tables else { return true };
        let once = tables.once.as_ref();
        let holds = tables.holds.as_ref();
        once.is_none_or(|once| once.table.is_empty(&key[once.at.clone()]))
            && holds.is_none_or(|holds| holds::len(&key[holds.at.clone()]) == 0)
    }

    /// Whether a hold that lapses gives its uses back.
    pub fn gives_lapsed_back(&self) -> bool {
        let holds = self.tables.as_ref().and_then(|tables| tables.holds.as_ref());
        holds.is_some_and(|holds| holds.table.on_lapse == Lapse::GiveBack)
    }

    /// The number of holds of a node whose life is over, and was not ended yet.
    pub fn due_holds(&self, states: &States<'_>, now: u64) -> u32 {
        self.holds(states).map_or(0, |(table, words)| table.due(words, now))
    }

    /// The holds of a node.
    pub fn all_holds(&self, states: &States<'_>) -> impl Iterator<Item = Hold> {
        self.holds(states).into_iter().flat_map(|(_, words)| holds::all(words))
    }

    /// The number of ids that a rolled node of a key remembers. `None` if the business remembers
    /// none.
    pub fn known_ids(&self, states: &States<'_>, now: u64) -> Option<usize> {
        let once = self.tables.as_ref()?.once.as_ref()?;
        Some(once.table.known(&states.key[once.at.clone()], now))
    }

    /// The number of live holds in the node of a key. `words` are those after the key field.
    pub fn live_holds(&self, words: &[u64], now: u64) -> usize {
        let holds = self.tables.as_ref().and_then(|tables| tables.holds.as_ref());
        holds.map_or(0, |holds| holds.table.live(&words[holds.at.clone()], now))
    }

    /// The sum of what live holds hold. `None` if the business has no holds.
    #[inline]
    pub fn held(&self, states: &States<'_>) -> Option<u64> {
        self.holds(states).map(|(_, words)| holds::held(words))
    }
}
