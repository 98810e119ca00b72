//! A call: from the request to the items that it charges, and from the verdicts to the response.
//!
//! Invariant: the response has one status for each descriptor of the request, in order.

use std::sync::Arc;

use crate::callers::{Asked, Asker};
use crate::domains::{DescriptorTarget, DomainMatch, Domains};
use crate::keys::FittedKey;
use crate::messages::{
    Code, DescriptorStatus, Duration, HeaderValue, RateLimit, RateLimitDescriptor,
    RateLimitRequest, RateLimitResponse, Unit,
};
use crate::overrides::ItemNumbers;
use crate::status::Status;
use frs::Verdict;
use frs_engine::access::Carried;
use frs_server::protocol::Line;
use frs_server::protocol::response_head::{Single, write_fields};

/// The most descriptors of a call, limited or not, unless `max-items` allows more.
const DESCRIPTORS_MAX: usize = 1024;

/// An item to charge.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Charge {
    /// The id of the biz.
    pub biz: u32,
    /// The key in the biz.
    pub key: String,
    /// The count. Below 0 it gives uses back.
    pub count: i64,
    /// Whether it is charged even over a limit.
    pub force: bool,
    /// The limit sent by Envoy, if the biz takes it.
    pub numbers: Option<ItemNumbers>,
    /// The id of the hold that the count belongs to.
    pub hold: Option<String>,
    /// Whether the count is the true cost of the hold.
    pub settle: bool,
    /// Whether an unknown hold is not settled.
    pub only_known: bool,
    /// The id under which the item is charged once. An item of an atomic call has none: the call
    /// has it.
    pub once: Option<String>,
}

impl Charge {
    /// What it carries besides its count.
    fn carried(&self) -> Carried {
        match (&self.hold, &self.numbers, &self.once) {
            (Some(_), ..) => Carried::Hold,
            (None, None, None) => Carried::Nothing,
            (None, ..) => Carried::Extras,
        }
    }
}

/// A call whose request was understood.
#[derive(Debug, Default)]
pub struct Call {
    /// The items to charge, in the order of the limited descriptors.
    pub charges: Vec<Charge>,
    /// Whether all of them are charged or none.
    pub atomic: bool,
    /// The id under which an atomic call is charged once.
    pub once: Option<String>,
    /// Number of limits sent by Envoy that are ignored.
    pub overrides: usize,
    /// Number of keys that did not fit their business and were replaced.
    pub unfit_keys: usize,
    /// Numbers of the charges that leave their limit open if they are refused.
    open_if_refused: Vec<usize>,
    /// One part for each descriptor.
    parts: Vec<DescriptorOutcome>,
}

#[derive(Debug)]
enum DescriptorOutcome {
    Unmatched,
    Unlimited,
    /// The descriptor is charged to the biz of this name.
    Charged(Arc<str>),
}

impl Call {
    /// Finds the items of a request.
    ///
    /// # Errors
    /// There is no domain, no descriptor, a descriptor without entries, or too many descriptors.
    /// The descriptors of an atomic call have different ids of retries. The client that asks, where
    /// clients are told apart, may not charge one of the descriptors.
    pub fn new(
        request: &RateLimitRequest,
        domains: &Domains,
        asker: Option<Asker<'_>>,
    ) -> Result<Call, Status> {
        if request.domain.is_empty() {
            return Err(Status::invalid("found an empty domain, expected the name of one"));
        }
        if request.descriptors.is_empty() {
            return Err(Status::invalid("found no descriptor, expected at least one"));
        }
        let (found, most) = (request.descriptors.len(), domains.max_items.max(DESCRIPTORS_MAX));
        if found > most {
            let found = format!("found {found} descriptors, expected at most {most}");
            return Err(Status::invalid(found));
        }
        let mut call = Call::default();
        for (nth, descriptor) in request.descriptors.iter().enumerate() {
            if descriptor.entries.is_empty() {
                let found = format!("found no entry in descriptor {nth}, expected at least one");
                return Err(Status::invalid(found));
            }
            let part = match domains.find(&request.domain, &descriptor.entries) {
                DomainMatch::None => DescriptorOutcome::Unmatched,
                DomainMatch::Unlimited => DescriptorOutcome::Unlimited,
                DomainMatch::Target(target) => {
                    let FittedKey { key, is_whole } = target.key(&descriptor.entries);
                    call.unfit_keys += usize::from(!is_whole);
                    let mut charge = charge(request, descriptor, target, key);
                    if let Some(asker) = asker {
                        let (count, carried) = (charge.count, charge.carried());
                        let asked = Asked { at: target.at, biz: &target.name, count, carried };
                        asker.check(&asked)?;
                        charge.only_known = !asker.may_settle_unknown();
                    }
                    match charge.count {
                        0 if charge.hold.is_none() => target.note_check(),
                        1.. if target.stays_open_if_refused() => {
                            call.open_if_refused.push(call.charges.len())
                        }
                        _ => {}
                    }
                    call.charges.push(charge);
                    DescriptorOutcome::Charged(Arc::clone(&target.name))
                }
            };
            call.parts.push(part);
        }
        let sent = request.descriptors.iter().filter(|descriptor| descriptor.limit.is_some());
        let taken = call.charges.iter().filter(|charge| charge.numbers.is_some());
        call.overrides = sent.count() - taken.count();
        // A single item is the same either way.
        call.atomic = domains.all_or_none && call.charges.len() > 1;
        if call.atomic {
            call.share_once()?;
        }
        let (most, setting) = match call.atomic {
            true => (domains.max_atomic_items, "max-atomic-items"),
            false => (domains.max_items, "max-items"),
        };
        if call.charges.len() > most {
            let found = call.charges.len();
            return Err(Status::invalid(format!(
                "found {found} limited descriptors, expected at most {most} ({setting} of srv.xml)"
            )));
        }
        Ok(call)
    }

    /// Moves the id of retries from the charges of an atomic call to the call.
    fn share_once(&mut self) -> Result<(), Status> {
        let mut charges = self.charges.iter_mut();
        let first = charges.next().and_then(|charge| charge.once.take());
        for charge in charges {
            if charge.once.take() != first {
                return Err(Status::invalid(
                    "found limited descriptors with different ids (once) in a call that charges \
                     all or none, expected the same id in each of them, or none in any",
                ));
            }
        }
        self.once = first;
        Ok(())
    }

    /// The number of refused charges that should have been counted. Calls ask their limits with
    /// `hits_addend` 0 and charge them afterwards. As the refused charges are not counted, these
    /// limits never refuse a call.
    pub fn uncounted(&self, verdicts: &[Verdict]) -> usize {
        let refused = |&&nth: &&usize| verdicts.get(nth).is_some_and(Verdict::is_limited);
        self.open_if_refused.iter().filter(refused).count()
    }

    /// The number of costs that were settled for holds that are not known. They are charged in
    /// full, beside what was reserved.
    pub fn unknown_holds(&self, verdicts: &[Verdict]) -> usize {
        verdicts.iter().filter(|verdict| verdict.unknown_hold()).count()
    }

    /// The response. `verdicts` has one verdict for each charge.
    pub fn response(&self, verdicts: &[Verdict]) -> RateLimitResponse {
        let mut rest = verdicts.iter();
        let (mut statuses, mut shown) = (Vec::with_capacity(self.parts.len()), None);
        for part in &self.parts {
            statuses.push(match part {
                DescriptorOutcome::Unmatched => passing(0),
                DescriptorOutcome::Unlimited => passing(u32::MAX),
                DescriptorOutcome::Charged(name) => match rest.next() {
                    None => passing(0),
                    Some(verdict) => {
                        shown = more_restrictive(shown, (name, verdict));
                        status(name, verdict)
                    }
                },
            });
        }
        let is_over = statuses.iter().any(|status| status.code == Code::OverLimit as i32);
        RateLimitResponse {
            overall_code: if is_over { Code::OverLimit } else { Code::Ok }.into(),
            statuses,
            response_headers_to_add: shown.map_or(Vec::new(), |(name, v)| headers(name, v)),
        }
    }
}

/// The charge of a descriptor: its own hits, else those of the request, else one.
fn charge(
    request: &RateLimitRequest,
    descriptor: &RateLimitDescriptor,
    target: &DescriptorTarget,
    key: String,
) -> Charge {
    let hits = match (&descriptor.hits_addend, request.hits_addend) {
        // A number beyond the largest count is not cut down. It becomes an error of the item.
        (Some(own), _) => i64::try_from(own.value).unwrap_or(i64::MAX),
        (None, 0) => 1,
        (None, hits) => i64::from(hits),
    };
    let count = if descriptor.is_negative_hits { -hits } else { hits };
    let limit = target.call_limit.as_ref().zip(descriptor.limit.as_ref());
    Charge {
        biz: target.biz,
        key,
        count,
        force: target.force,
        numbers: limit.and_then(|(limit, sent)| limit.numbers(sent)),
        hold: target.hold(&descriptor.entries),
        settle: target.settle,
        only_known: false,
        once: target.once(&descriptor.entries),
    }
}

/// The status of a descriptor that no limit judges.
fn passing(limit_remaining: u32) -> DescriptorStatus {
    DescriptorStatus { code: Code::Ok.into(), limit_remaining, ..Default::default() }
}

/// Whether a verdict has a maximum to report. `count` has none.
fn has_quota(verdict: &Verdict) -> bool {
    verdict.is_limited() || verdict.max().is_some_and(|max| max > 0)
}

fn status(name: &str, verdict: &Verdict) -> DescriptorStatus {
    if !has_quota(verdict) {
        return passing(u32::MAX);
    }
    let code = if verdict.is_limited() { Code::OverLimit } else { Code::Ok };
    let saturating = |figure: u64| u32::try_from(figure).unwrap_or(u32::MAX);
    DescriptorStatus {
        code: code.into(),
        current_limit: verdict.max().map(|max| RateLimit {
            requests_per_unit: saturating(max),
            unit: unit(verdict.judged().verdict.window_ms).into(),
            name: name.to_owned(),
        }),
        limit_remaining: saturating(verdict.remaining().unwrap_or(0)),
        duration_until_reset: verdict.reset_ms().map(|reset_ms| Duration {
            seconds: i64::try_from(reset_ms.div_ceil(1000)).unwrap_or(i64::MAX),
            nanos: 0,
        }),
    }
}

/// The unit that is as long as a window. `Unknown` if there is none.
fn unit(window_ms: Option<u64>) -> Unit {
    match window_ms {
        Some(1000) => Unit::Second,
        Some(60_000) => Unit::Minute,
        Some(3_600_000) => Unit::Hour,
        Some(86_400_000) => Unit::Day,
        Some(604_800_000) => Unit::Week,
        _ => Unit::Unknown,
    }
}

type NamedVerdict<'v> = (&'v Arc<str>, &'v Verdict);

/// The verdict that the header fields report: the one that refuses for longest, else the one with
/// the least left.
fn more_restrictive<'v>(
    one: Option<NamedVerdict<'v>>,
    other: NamedVerdict<'v>,
) -> Option<NamedVerdict<'v>> {
    let rank = |verdict: &Verdict| {
        let retry = verdict.is_limited().then(|| verdict.retry_ms().unwrap_or(u64::MAX));
        let left = verdict.remaining().filter(|_| has_quota(verdict)).unwrap_or(u64::MAX);
        (retry, std::cmp::Reverse(left))
    };
    match one {
        Some(one) if rank(one.1) >= rank(other.1) => Some(one),
        _ => Some(other),
    }
}

/// The header fields that frs would answer over HTTP.
fn headers(name: &str, verdict: &Verdict) -> Vec<HeaderValue> {
    let (mut text, mut line) = (Vec::new(), Line::default());
    let verdict = verdict.judged().verdict;
    let single = Single { name: Some(name), verdict, quotas: &[], proxied: false };
    write_fields(&mut text, &mut line, &single);
    let text = String::from_utf8_lossy(&text);
    let fields = text.lines().filter_map(|line| line.split_once(": "));
    fields.map(|(key, value)| HeaderValue { key: key.into(), value: value.into() }).collect()
}

#[cfg(test)]
mod tests;
