//! The quotas of the limits that have judged an item, for faces that report them to clients.
//!
//! Invariant: the limit that decides is among them, if it has a quota.

use frs_limit::{Brought, Quota, Terms};

use super::{Answer, Item, Request, Service};

/// The most quotas of one answer. A business with more limits reports the quotas of the first
/// limits and of the deciding one.
pub const QUOTAS_MAX: usize = 8;

impl Service {
    /// The quotas behind an answer, in the order of the limits. Empty if there is no verdict, or if
    /// the figures of the deciding limit already tell its quota.
    #[inline]
    pub fn quotas(&self, request: &Request, item: &Item, answer: &Answer, quotas: &mut Vec<Quota>) {
        quotas.clear();
        let (Some(biz), Ok(verdict)) = (answer.biz, &answer.result) else { return };
        let has_more = |entry: &&super::table::Entry| entry.rules(None).have_more_quotas();
        if let (Some(entry), 1..) = (self.table.get(biz).filter(has_more), verdict.limit) {
            let rules = entry.rules(entry.listing(request.bytes(item).key));
            let mut brought = Brought::NOTHING;
            if let Some(numbers) = request.numbers(item) {
                rules.take_numbers(numbers, &mut brought.limits);
            }
            let terms = Terms { brought: Some(&brought), ..Terms::ASKING };
            for quota in rules.quotas(&terms) {
                if quotas.len() < QUOTAS_MAX {
                    quotas.push(quota);
                } else if quota.limit == verdict.limit {
                    quotas[QUOTAS_MAX - 1] = quota;
                }
            }
        }
    }
}
