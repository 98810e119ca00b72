//! The effect of an answer on a host.
//!
//! Invariant: a host accepts only the answer to the last binding of this incarnation, and only
//! while the message is in flight. The lease lasts as long as the ledger says that the window runs,
//! counted from the first sending under this seq, so a late answer does not lengthen it.

use super::{Granted, Holding, Kind, Settings, Take, Taken};

/// An answer as it arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Received {
    /// The settings of the limit, as the message named them.
    pub settings: Settings,
    /// The message that it answers.
    pub take: Take,
    /// The answer.
    pub taken: Taken,
    /// Milliseconds for which the ledger's master grants nothing.
    pub learning_ms: u64,
    /// The time, CLOCK_BOOTTIME.
    pub now_ms: u64,
}

/// The next step after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Next {
    /// The answer is to another binding: nothing has changed.
    Ignored,
    /// The ledger knows a later binding of this incarnation: the directory is a copy. The host
    /// needs another incarnation before it binds again.
    Copied,
    /// The waiting requests can run.
    Run,
    /// No use is available until the window turns, or until uses are returned.
    Refuse,
    /// Other hosts have the needed uses: recall them, and request again.
    Recall,
    /// The ledger grants nothing yet: request again.
    Wait,
}

impl Holding {
    /// Applies an answer.
    pub fn apply(&mut self, received: &Received) -> Next {
        let take = received.take;
        let lease = &mut self.lease;
        if !lease.in_flight || take.seq != lease.seq || take.host != lease.incarnation {
            return Next::Ignored;
        }
        lease.in_flight = false;
        match received.taken {
            Taken::Stale => {
                // The host that bound itself under the later number may spend the lease of this
                // node.
                *self = self.of_host(0);
                Next::Copied
            }
            Taken::Nothing => {
                // The ledger has counted nothing. A copy of the message may still arrive and be
                // granted, so `unanswered_since` stays.
                let uncounted = std::mem::take(&mut lease.sent_extra).max(0);
                lease.extra = lease.extra.max(0).saturating_add(uncounted);
                self.pause(received);
                if take.need == 0 { Next::Run } else { Next::Wait }
            }
            Taken::Granted(granted) => {
                self.enter(received, &granted);
                let floor = take.claim.floor.saturating_add(take.claim.extra.max(0) as u64);
                let more = granted.allowance.saturating_sub(granted.base.unwrap_or(floor));
                if more >= take.need {
                    self.lease.tries = 0;
                    self.lease.again_ms = 0;
                    return Next::Run;
                }
                self.missed_need(received, &granted)
            }
        }
    }

    /// Enters the window that the ledger names.
    fn enter(&mut self, received: &Received, granted: &Granted) {
        let settings = &received.settings;
        let reported = self.lease.sent_extra.max(0) as u64;
        if granted.window != self.lease.window {
            self.lease.noted = self.used_before(settings, granted.window);
            self.forget_returned();
        }
        self.used = match granted.base {
            // The log already holds the reported uses.
            Some(base) if matches!(settings.kind, Kind::Sliding { .. }) => {
                self.used.saturating_add(base.saturating_sub(reported))
            }
            None => self.used.saturating_add(reported),
            Some(base) => base,
        };
        if matches!(settings.kind, Kind::Sliding { .. }) {
            self.take_back(granted.back);
        }
        let lease = &mut self.lease;
        let after = |from_ms: u64| match granted.turn_ms {
            Some(turn_ms) => from_ms.saturating_add(turn_ms),
            None => u64::MAX,
        };
        lease.sent_extra = 0;
        lease.unanswered_since = 0;
        lease.window = granted.window;
        lease.allowance = granted.allowance;
        lease.end_ms = after(lease.sent_ms);
        lease.gone_ms = after(received.now_ms).saturating_add(rest_ms(settings, granted));
        lease.obtainable = (granted.pool.max(0) as u64).saturating_add(granted.others);
        lease.answered_ms = received.now_ms;
        if settings.kind.has_turns() && received.now_ms < lease.alone_end_ms {
            // Uses that the host admitted without a lease count in the window that it now knows.
            lease.alone_end_ms = lease.end_ms;
        }
    }

    /// The uses in the window before this one, if the host knows that window.
    fn used_before(&self, settings: &Settings, window: u64) -> u64 {
        match settings.kind {
            Kind::SlidingCounter { interval_ms }
                if self.lease.window != 0 && self.lease.window + interval_ms == window =>
            {
                self.used
            }
            _ => 0,
        }
    }

    /// The next step for a need that was not granted.
    fn missed_need(&mut self, received: &Received, granted: &Granted) -> Next {
        let lease = &mut self.lease;
        let missing = i128::from(received.take.need) - i128::from(granted.pool);
        if received.learning_ms > 0 || missing <= 0 {
            self.pause(received);
            Next::Wait
        } else if granted.others > 0 {
            self.pause(received);
            Next::Recall
        } else {
            lease.is_exhausted = true;
            let missing = u64::try_from(missing).unwrap_or(u64::MAX);
            let refusal_ms =
                received.settings.growth_ms(missing).unwrap_or(super::LONGEST_REFUSAL_MS);
            let refusal_ms = refusal_ms.min(super::LONGEST_REFUSAL_MS);
            lease.again_ms = received.now_ms.saturating_add(refusal_ms).min(lease.end_ms);
            Next::Refuse
        }
    }

    fn pause(&mut self, received: &Received) {
        let pause_ms = self.lease.pause_ms();
        let pause_ms = if received.learning_ms > 0 { received.learning_ms } else { pause_ms };
        let again_ms = received.now_ms.saturating_add(pause_ms);
        let is_live = self.is_live(received.now_ms);
        self.lease.again_ms = if is_live { again_ms.min(self.lease.end_ms) } else { again_ms };
    }
}

/// For how long uses still count after the lease has ended.
fn rest_ms(settings: &Settings, granted: &Granted) -> u64 {
    match settings.kind {
        Kind::Interval { .. } | Kind::Calendar { .. } | Kind::Total => 0,
        Kind::Sliding { interval_ms } | Kind::SlidingCounter { interval_ms } => interval_ms,
        // The lease is as long as the bucket takes to fill.
        Kind::Token { .. } => granted.turn_ms.unwrap_or(0),
    }
}
