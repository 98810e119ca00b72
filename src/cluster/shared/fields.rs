//! The fields of a leased limit's state, for tools.
//!
//! Invariant: nothing here judges.

use frs_limit::{SharedRecord, StateField, StateWord, WordUnit};

use super::Shared;
use crate::lease::Holding;

impl Shared {
    /// The holding of the limit with this index.
    pub(super) fn record_of(&self, index: u16, &Holding { lease, used }: &Holding) -> SharedRecord {
        let boot_ms = self.clock.boot_ms();
        let is_answered = lease.answered_ms > 0;
        let is_tally = self.refuses_nothing();
        SharedRecord {
            index,
            allowance: lease.allowance,
            used,
            window_ms: Some(lease.window).filter(|&start_ms| start_ms > 0),
            ends_ms: (lease.end_ms != u64::MAX).then(|| lease.end_ms.saturating_sub(boot_ms)),
            elsewhere: (is_answered && !is_tally).then_some(lease.obtainable),
            used_elsewhere: (is_answered && is_tally)
                .then(|| Holding { lease, used }.used_by_others(&self.settings.kind))
                .flatten(),
            age_ms: is_answered.then(|| boot_ms.saturating_sub(lease.answered_ms)),
            in_flight: lease.in_flight,
            is_void: lease.incarnation != 0 && lease.incarnation != self.clock.host(),
        }
    }
}

/// All that the holding of the limit with this index has.
pub(super) fn of(limit: u16, &Holding { lease, used }: &Holding) -> Vec<StateField> {
    use WordUnit::{BootTime, Number, SignedUses, Time, Uses};
    let flags = u64::from(lease.in_flight) | u64::from(lease.is_exhausted) << 1;
    let named = [
        ("used", Uses, used),
        ("allowance", Uses, lease.allowance),
        ("lease-end", BootTime, lease.end_ms),
        ("window", Time, lease.window),
        ("elsewhere", Uses, lease.obtainable),
        ("extra", SignedUses, lease.extra as u64),
        ("sent-extra", SignedUses, lease.sent_extra as u64),
        ("held", Uses, lease.reserved.into()),
        ("held-until", BootTime, lease.reserved_until_ms),
        ("last-use", BootTime, lease.used_ms),
        ("heard", BootTime, lease.answered_ms),
        ("sent", BootTime, lease.sent_ms),
        ("ask-again", BootTime, lease.again_ms),
        ("tries", Number, lease.tries.into()),
        ("in-flight-or-exhausted", Number, flags),
        ("gone", BootTime, lease.gone_ms),
        ("incarnation", Number, lease.incarnation),
        ("seq", Number, lease.seq),
        ("alone-end", BootTime, lease.alone_end_ms),
        ("alone-used", Uses, lease.alone_used),
    ];
    let word = |name, unit| StateWord { limit, name, unit };
    named.map(|(name, unit, value)| StateField { word: word(name, unit), value }).into()
}
