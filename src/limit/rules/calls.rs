//! What a call brings besides its count: numbers for limits with `per-call`, a partial grant, the
//! id of a retry, a hold.
//!
//! Invariant: the states are rolled. What refuses an item has not changed them.

use std::cmp::Ordering;

use frs_conf::CallRate;

use super::{Rule, Rules, States};
use crate::any_policy::AnyPolicy;
use crate::call_numbers::CallNumber;
use crate::holds::{self, Hold, HoldState, Place};
use crate::per_call::PerCall;
use crate::{CallLimits, CallNumbers, HoldTerms, Id, Noted, Verdict};

/// What a count means for its hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldStep {
    /// The hold is settled, or does not exist and shall hold nothing.
    Nothing {
        /// It was settled before.
        repeated: bool,
    },
    /// The hold holds as much already, and lives on.
    Renew,
    /// The hold shall hold so much more: the limits judge that.
    Grow(u32),
    /// The hold gives so much back.
    Shrink(u32),
    /// The true cost of the hold, which ends.
    Settle,
    /// The true cost of a hold that the record does not know.
    SettleUnknown,
}

impl HoldStep {
    /// The count that the limits judge. Below 0: none.
    pub const fn judged(self) -> i32 {
        match self {
            HoldStep::Grow(more) => more as i32,
            _ => -1,
        }
    }
}

impl Rules {
    /// Prepares the numbers of a call. False: they are out of the bounds of their limits, or no
    /// limit takes them.
    pub fn take_numbers(&self, numbers: CallNumbers<'_>, limits: &mut CallLimits) -> bool {
        limits.clear();
        match numbers {
            CallNumbers::Bad => false,
            CallNumbers::Max(max) => self.take_max(max, limits),
            CallNumbers::Rates { rates, burst } => self.take_rates(rates, burst, limits),
        }
    }

    /// A maximum alone is for the only limit that takes numbers.
    fn take_max(&self, max: u64, limits: &mut CallLimits) -> bool {
        let mut per_call = self.per_call();
        let (Some(limit), None) = (per_call.next(), per_call.next()) else { return false };
        limit.take(CallNumber::Max(max)).is_some_and(|limit| limits.push(limit))
    }

    /// The rates are for the limits in their order, the burst is for the only bucket among them.
    fn take_rates(&self, rates: &[CallRate], burst: Option<u64>, limits: &mut CallLimits) -> bool {
        let (mut per_call, mut buckets) = (self.per_call(), 0);
        for &rate in rates {
            let Some(limit) = per_call.next() else { return false };
            let is_bucket = limit.is_bucket();
            buckets += u32::from(is_bucket);
            let burst = burst.filter(|_| is_bucket);
            match limit.take(CallNumber::Rate { rate, burst }) {
                Some(limit) if limits.push(limit) => {}
                _ => return false,
            }
        }
        burst.is_none() || buckets == 1
    }

    /// Whether the state of a limit names a window whose length calls choose.
    pub fn have_named_windows(&self) -> bool {
        self.per_call().any(PerCall::is_named)
    }

    /// The limits that take numbers from a call, in their order.
    fn per_call(&self) -> impl Iterator<Item = &PerCall> {
        self.rules.iter().filter_map(|rule| match &rule.policy {
            AnyPolicy::PerCall(limit) => Some(&**limit),
            _ => None,
        })
    }

    /// Whether records have ids or holds.
    #[inline]
    pub fn has_tables(&self) -> bool {
        self.tables.is_some()
    }

    /// Adds to a verdict what the item has noted, and what is held now.
    #[cold]
    pub fn complete(&self, verdict: &mut Verdict, states: &States<'_>, noted: Noted) {
        verdict.noted = noted.holding(self.held(states));
    }

    /// The most uses, up to `count`, that every limit that refuses would admit.
    pub fn most_admitted(&self, states: &States<'_>, now: u64, count: u32) -> u32 {
        let most = |rule: &Rule| rule.most_admitted(states.of(rule), now, count, states);
        self.rules.iter().map(most).min().unwrap_or(count)
    }

    /// Whether the record remembers an id.
    pub fn remembers(&self, states: &States<'_>, now: u64, id: Id) -> bool {
        let once = self.tables.as_ref().and_then(|tables| tables.once.as_ref());
        once.is_some_and(|once| once.table.knows(&states.key[once.at.clone()], id, now))
    }

    /// Remembers an id that was charged.
    pub fn note_once(&self, states: &mut States<'_>, now: u64, id: Id) {
        let once = self.tables.as_ref().and_then(|tables| tables.once.as_ref());
        if let Some(once) = once {
            once.table.note(&mut states.key[once.at.clone()], id, now);
        }
    }

    /// What a count means for its hold.
    pub fn hold_step(&self, states: &States<'_>, count: u32, terms: HoldTerms) -> HoldStep {
        let found = self.holds(states).and_then(|(_, words)| holds::find(words, terms.id));
        let Some((_, hold)) = found else {
            return match (terms.settles, count) {
                (true, _) => HoldStep::SettleUnknown,
                (false, 0) => HoldStep::Nothing { repeated: false },
                (false, _) => HoldStep::Grow(count),
            };
        };
        match (hold.state, count.cmp(&hold.count)) {
            (HoldState::Settled, _) => HoldStep::Nothing { repeated: true },
            (_, _) if terms.settles => HoldStep::Settle,
            (_, Ordering::Equal) => HoldStep::Renew,
            (_, Ordering::Greater) => HoldStep::Grow(count - hold.count),
            (_, Ordering::Less) => HoldStep::Shrink(hold.count - count),
        }
    }

    /// The state of a hold. `None`: the record does not know it.
    pub fn hold_state(&self, states: &States<'_>, terms: HoldTerms) -> Option<HoldState> {
        let (_, hold) = holds::find(self.holds(states)?.1, terms.id)?;
        Some(hold.state)
    }

    /// Whether the record has room for what a step makes.
    pub fn has_hold_room(&self, states: &States<'_>, step: HoldStep, terms: HoldTerms) -> bool {
        let Some((table, words)) = self.holds(states) else { return false };
        !matches!(step, HoldStep::Grow(_))
            || holds::find(words, terms.id).is_some()
            || table.place(words).is_some()
    }

    /// Charges a step, and makes, renews or ends its hold, which shall hold `count`.
    pub fn charge_hold(
        &self,
        states: &mut States<'_>,
        now: u64,
        (step, count): (HoldStep, u32),
        terms: HoldTerms,
    ) {
        let Some(tables) = &self.tables else { return };
        let Some(placed) = &tables.holds else { return };
        let found = holds::find(&states.key[placed.at.clone()], terms.id);
        let made_ms = found.map_or(now, |(_, hold)| hold.made_ms);
        match (step, found) {
            (HoldStep::Grow(more), _) => self.charge(states, now, more as i32),
            (HoldStep::SettleUnknown, _) => self.charge(states, now, count as i32),
            (HoldStep::Shrink(less), _) if !tables.is_concurrent => {
                self.give_back(states, now, less, made_ms);
            }
            (HoldStep::Settle, Some((_, hold))) => match count.checked_sub(hold.count) {
                Some(more) => self.charge(states, now, more as i32),
                None => self.give_back(states, now, hold.count - count, made_ms),
            },
            _ => {}
        }
        let settles = matches!(step, HoldStep::Settle | HoldStep::SettleUnknown);
        let state = if settles { HoldState::Settled } else { HoldState::Live };
        let mut end_ms = now.saturating_add(terms.ttl_ms);
        if settles {
            end_ms = end_ms.max(found.map_or(0, |(_, hold)| hold.end_ms));
        }
        let hold = Hold { id: terms.id, count, made_ms, end_ms, state };
        let words = &mut states.key[placed.at.clone()];
        match (step, found) {
            (HoldStep::Nothing { .. }, _) => {}
            (HoldStep::Shrink(_), Some((nth, _))) if count == 0 => holds::remove(words, nth),
            (_, Some((nth, _))) => holds::put(words, nth, hold),
            (HoldStep::SettleUnknown, None) if !placed.table.has_room(words) => {}
            (_, None) => match placed.table.place(words) {
                Some(Place::Free) => holds::push(words, hold),
                Some(Place::Reused(nth)) => holds::put(words, nth, hold),
                None => {}
            },
        }
    }
}

impl Rule {
    /// The most uses, up to `count`, that the limit admits. A limit that refuses nothing admits
    /// all.
    fn most_admitted(&self, state: &[u64], now: u64, count: u32, states: &States<'_>) -> u32 {
        let terms = states.terms;
        if self.advises || self.policy.properties().only_counts {
            return count;
        }
        if self.policy.shared().is_none() {
            let remaining = self.policy.remaining(state, now, terms);
            return u32::try_from(remaining).map_or(count, |remaining| remaining.min(count));
        }
        // Shared: `remaining` counts uses of all machines; only what this machine holds can be
        // spent.
        let (mut most, mut beyond) = (0, u64::from(count) + 1);
        while u64::from(most) + 1 < beyond {
            let between = most + ((beyond - u64::from(most)) / 2) as u32;
            if self.policy.admits(state, now, between, terms) {
                most = between;
            } else {
                beyond = between.into();
            }
        }
        most
    }
}
