//! The fields of a leased limit's state, for tools.
//!
//! Invariant: nothing here judges.

use frs_limit::{SharedField, WordUnit};

use crate::lease::Holding;

/// All that a holding has.
pub(super) fn of(&Holding { lease, used }: &Holding) -> Vec<SharedField> {
    use WordUnit::{BootTime, Number, SignedUses, Time, Uses};
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
    named.map(|(name, unit, value)| SharedField { name, unit, value }).into()
}
