//! Items that bring an id or a hold, or that take a part of what they ask for.
//!
//! Invariant: an id that the record remembers charges nothing. The limits judge only what a hold
//! asks for beyond what it has. Nothing of an item that fails is charged.

use frs_conf::Mode;
use frs_limit::{Brought, Details, HoldState, HoldStep, HoldTerms, Judgement, Mark, Noted, States};

use super::one::{Done, ItemTransaction};
use crate::{Command, Grant, ItemError};

impl ItemTransaction<'_> {
    /// Whether the item is judged here.
    #[inline]
    pub(super) fn is_call(&self) -> bool {
        let is_any = |brought: &Brought| brought.once.is_some() | brought.hold.is_some();
        self.resolved.is_partial | self.terms.brought.is_some_and(is_any)
    }

    /// Applies a command to the rolled working copies, except for a refusal.
    #[inline(never)]
    pub(super) fn judge_call(
        &self,
        command: Command,
        states: &mut States<'_>,
        details: &mut Details,
    ) -> Done {
        let brought = self.terms.brought.unwrap_or(&Brought::NOTHING);
        if self.is_repeat(command, states) {
            self.detail(states, -1, details);
            return Done::repeated();
        }
        let mut done = match brought.hold {
            Some(hold) => self.judge_hold(command, states, hold, details),
            None if self.resolved.is_partial => self.judge_part(command, states, details),
            None => self.judge_count(command, states, self.count(), details),
        };
        if let Some(id) = brought.once.filter(|_| done.charged) {
            // In an atomic request, another item of the same record may have noted it.
            if !self.is_atomic || !self.remembers(states) {
                self.rules.note_once(states, self.now, id);
            }
        }
        if self.resolved.is_partial {
            done.noted = done.noted.granting(self.granted(&done));
        }
        done
    }

    /// Whether the Update was charged under its id. The id of an atomic request is looked up before
    /// its first item is judged.
    fn is_repeat(&self, command: Command, states: &States<'_>) -> bool {
        command == Command::Update && !self.is_atomic && self.remembers(states)
    }

    /// Whether the record remembers the id of the item.
    pub(super) fn remembers(&self, states: &States<'_>) -> bool {
        let once = self.terms.brought.and_then(|brought| brought.once);
        once.is_some_and(|id| self.rules.remembers(states, self.now, id))
    }

    fn judge_part(&self, command: Command, states: &mut States<'_>, details: &mut Details) -> Done {
        let (count, from) = (self.count(), details.len());
        let whole = self.judge_count(command, states, count, details);
        if !whole.judgement.limited || whole.may_wait && !self.resolved.waited.has_waited() {
            return whole;
        }
        details.truncate(from);
        let most = self.rules.most_admitted(states, self.now, count.unsigned_abs());
        let part = most.max(1) as i32;
        Done { part: Some(part), ..self.judge_count(command, states, part, details) }
    }

    /// The uses that a partial item gets. In shadow mode nothing is refused.
    fn granted(&self, done: &Done) -> u32 {
        let count = self.count().unsigned_abs();
        match (self.entry.mode, done.judgement.limited) {
            (Mode::Shadow, _) => count,
            (_, true) => 0,
            (_, false) => done.part.map_or(count, i32::unsigned_abs),
        }
    }

    fn judge_hold(
        &self,
        command: Command,
        states: &mut States<'_>,
        hold: HoldTerms,
        details: &mut Details,
    ) -> Done {
        let (rules, now) = (self.rules, self.now);
        let count = self.count().unsigned_abs();
        let step = rules.hold_step(states, count, hold);
        self.detail(states, step.judged(), details);
        let judgement = rules.judge(states, now, step.judged());
        let is_held_back = self.is_held_back(&judgement);
        let error = if self.item.grant == Grant::KnownHolds && step == HoldStep::SettleUnknown {
            Some(ItemError::Forbidden)
        } else {
            (!is_held_back && !rules.has_hold_room(states, step, hold))
                .then_some(ItemError::FullHolds)
        };
        let changes = command == Command::Update
            && !is_held_back
            && error.is_none()
            && !matches!(step, HoldStep::Nothing { .. });
        let known = rules.hold_state(states, hold);
        // A hold that has lapsed was counted then.
        let is_live = known == Some(HoldState::Live);
        if changes {
            rules.charge_hold(states, now, (step, count), hold);
        }
        let settles = matches!(step, HoldStep::Settle | HoldStep::SettleUnknown);
        let repeated = matches!(step, HoldStep::Renew | HoldStep::Nothing { repeated: true });
        let noted = Noted::NOTHING
            .with(Mark::Repeated, repeated)
            .with(Mark::UnknownHold, step == HoldStep::SettleUnknown)
            .with(Mark::Made, changes && known.is_none() && !settles)
            .with(Mark::Ended, changes && is_live && (settles || count == 0));
        Done { judgement, charged: changes, noted, error, ..Done::PASSED }
    }
}

impl Done {
    /// The result of an Update that was charged before.
    pub(super) fn repeated() -> Done {
        let noted = Noted::NOTHING.with(Mark::Repeated, true);
        Done { judgement: Judgement::ADMITTED, charged: false, noted, ..Done::PASSED }
    }
}
