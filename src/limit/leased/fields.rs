//! The fields of a leased limit's state, for tools.
//!
//! Invariant: nothing here judges.

use super::{Leased, words_of};
use crate::WordUnit;
use crate::lease::Holding;

/// A field of the state, for tools.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeaseField {
    pub name: &'static str,
    pub unit: WordUnit,
    pub value: u64,
}

impl Leased {
    /// All that the state holds, for tools.
    pub fn fields(state: &[u64]) -> Vec<LeaseField> {
        use WordUnit::{BootTime, Number, SignedUses, Time, Uses};
        let Holding { lease, used } = Holding::decode(words_of(state));
        let flags = u64::from(lease.in_flight) | u64::from(lease.is_exhausted) << 1;
        let named = [
            ("used", Uses, used),
            ("allowance", Uses, lease.allowance),
            ("lease-end", BootTime, lease.end_ms),
            ("window", Time, lease.window),
            ("elsewhere", Uses, lease.elsewhere),
            ("extra", SignedUses, lease.extra as u64),
            ("sent-extra", SignedUses, lease.sent_extra as u64),
            ("held", Uses, lease.held.into()),
            ("held-until", BootTime, lease.held_until_ms),
            ("last-use", BootTime, lease.used_ms),
            ("heard", BootTime, lease.heard_ms),
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
        named.map(|(name, unit, value)| LeaseField { name, unit, value }).into()
    }
}
