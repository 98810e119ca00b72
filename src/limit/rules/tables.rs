//! The ids and the holds of a key's node: their place behind the histories, and what becomes of
//! them with time.
//!
//! Invariant: the ids come before the holds. Both have a head that says so, as histories have.

use std::ops::Range;

use frs_conf::{Biz, Scope};

use super::{Rule, Rules, States};
use crate::holds::{self, Hold, HoldState, HoldTable, Lapse, Place};
use crate::once_ids::OnceIds;
use crate::part::{self, Head};
use crate::{HoldTerms, Id, Terms};

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
        let fits = |head: Head, at: usize| words[at] == 0 || head.is_laid_out(&words[at..]);
        self.once.as_ref().is_none_or(|once| fits(once.table.head(), once.at.start))
            && self.holds.as_ref().is_none_or(|holds| fits(holds.table.head(), holds.at.start))
    }

    fn heads(&self) -> impl Iterator<Item = (Head, Range<usize>)> {
        let once = self.once.iter().map(|once| (once.table.head(), once.at.clone()));
        once.chain(self.holds.iter().map(|holds| (holds.table.head(), holds.at.clone())))
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

/// What a common item changes of the holds of its record.
#[derive(Debug, Clone, Copy)]
pub(super) enum HoldChange {
    /// Nothing: it has no hold.
    Nothing,
    /// It makes its hold.
    Make { place: Place, hold: Hold },
    /// It settles its hold, which was live and held so much.
    Settle { nth: usize, was: Hold, hold: Hold },
}

/// For items of a key with one limit.
impl Tables {
    /// Whether rolling would change nothing.
    #[inline]
    pub fn are_rolled(&self, words: &[u64], now: u64) -> bool {
        let is_rolled = |holds: &Placed<HoldTable>| {
            let words = &words[holds.at.clone()];
            holds.table.head().is_laid_out(words) && !holds.table.has_to_roll(words, now)
        };
        self.once.as_ref().is_none_or(|once| once.table.is_rolled(&words[once.at.clone()], now))
            && self.holds.as_ref().is_none_or(is_rolled)
    }

    /// Whether the record remembers an id.
    #[inline]
    pub fn knows(&self, words: &[u64], id: Id, now: u64) -> bool {
        let once = self.once.as_ref();
        once.is_some_and(|once| once.table.knows(&words[once.at.clone()], id, now))
    }

    /// Remembers an id that was charged.
    #[inline]
    pub fn note(&self, words: &mut [u64], id: Id, now: u64) {
        if let Some(once) = &self.once {
            once.table.note(&mut words[once.at.clone()], id, now);
        }
    }

    /// What an Update of this count changes, if it makes its hold or settles a live one. `None` if
    /// it does something else, or if there is no room.
    #[inline]
    pub fn change_of(
        &self,
        words: &[u64],
        terms: HoldTerms,
        count: i32,
        now: u64,
    ) -> Option<HoldChange> {
        let Placed { table, at } = self.holds.as_ref()?;
        let words = &words[at.clone()];
        let HoldTerms { id, ttl_ms, settles } = terms;
        let (count, end_ms) = (count.unsigned_abs(), now.saturating_add(ttl_ms));
        match holds::find(words, id) {
            None if !settles && count > 0 => {
                let hold = Hold { id, count, made_ms: now, end_ms, state: HoldState::Live };
                Some(HoldChange::Make { place: table.place(words)?, hold })
            }
            Some((nth, was)) if settles && was.state == HoldState::Live => {
                let end_ms = end_ms.max(was.end_ms);
                let hold = Hold { count, end_ms, state: HoldState::Settled, ..was };
                Some(HoldChange::Settle { nth, was, hold })
            }
            _ => None,
        }
    }

    /// Makes a change, and returns the sum of what is held then. `None`: there are no holds.
    #[inline]
    pub fn apply(&self, words: &mut [u64], change: HoldChange) -> Option<u64> {
        let words = &mut words[self.holds.as_ref()?.at.clone()];
        match change {
            HoldChange::Nothing => {}
            HoldChange::Make { place: Place::Free, hold } => holds::push(words, hold),
            HoldChange::Make { place: Place::Reused(nth), hold }
            | HoldChange::Settle { nth, hold, .. } => holds::put(words, nth, hold),
        }
        Some(holds::held(words))
    }
}

impl Rule {
    /// Charges the true cost of a live hold to the rolled state.
    #[inline]
    pub(super) fn settle(
        &self,
        state: &mut [u64],
        now: u64,
        (hold, cost): (Hold, i32),
        terms: &Terms<'_>,
    ) {
        match cost.unsigned_abs().checked_sub(hold.count) {
            Some(more) => self.policy.charge(state, now, more as i32, terms),
            None => {
                self.give_back(state, now, hold.count - cost.unsigned_abs(), hold.made_ms, terms)
            }
        }
    }

    /// Gives back uses that were charged at this time, if the window still runs.
    #[inline]
    fn give_back(&self, state: &mut [u64], now: u64, count: u32, made_ms: u64, terms: &Terms<'_>) {
        if self.policy.counts_since(state, made_ms) {
            let uses = i32::try_from(count).unwrap_or(i32::MAX);
            self.policy.charge(state, now, -uses, terms);
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
        if !table.has_to_roll(words, now) {
            return;
        }
        // A hold that lapses with its uses is found again until none is left.
        while let Some(lapsed) = table.lapse_one(&mut states.key[at.clone()], now) {
            self.give_back(states, now, lapsed.count, lapsed.made_ms);
        }
    }

    /// Gives back uses that were charged at this time, to each limit whose window still runs.
    pub(super) fn give_back(&self, states: &mut States<'_>, now: u64, count: u32, made_ms: u64) {
        let terms = states.terms;
        for rule in &self.rules {
            if states.node(rule.scope).is_empty() {
                // The worth of a key's node is asked without the node of the whole business.
                continue;
            }
            rule.give_back(states.of_mut(rule), now, count, made_ms, terms);
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
