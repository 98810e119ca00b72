//! Checks the bizs that srv.xml names: in `<resp throttle>` and in the descriptors of `<rls>`.
//!
//! Invariant: CL.THROTTLE finds a biz that takes limits of calls, and Envoy finds a biz that counts
//! no members.

use crate::read::{CALLS_BRING_LIMITS, Checked, Element, Notes, THROTTLE, nearest_words, shown};
use crate::schema::{Biz, ChargeTarget, Gcra, Limit, Map, Policy, Resp, Rls};

/// Notes each `throttle` whose biz does not exist, or does not take limits of calls. `root` is the
/// element that `resps` come from.
pub(super) fn throttles(
    notes: &mut Notes<'_>,
    root: &Element,
    resps: &[Resp],
    map: &Map,
) -> Checked<()> {
    let mut fits = Ok(());
    for (element, resp) in root.children_named("resp").zip(resps) {
        let Some(named) = resp.throttle.as_deref() else { continue };
        let biz = map.find_biz(named).and_then(|at| map.bizs.get(at));
        if biz.is_some_and(takes_limits_of_calls) {
            continue;
        }
        let found = format!("{THROTTLE}=\"{}\"", shown(named));
        let (found, expected) = match biz {
            Some(biz) => (format!("{found}, biz {}", has(biz)), CALLS_BRING_LIMITS.to_owned()),
            None => {
                let near = nearest_words(named, map.bizs.iter().map(|biz| biz.name.as_str()));
                (found, format!("the name or id of {CALLS_BRING_LIMITS}{near}"))
            }
        };
        fits = Err(notes.note(element.value_at(THROTTLE), found, expected));
    }
    fits
}

fn takes_limits_of_calls(biz: &Biz) -> bool {
    let [Limit { policy, .. }] = biz.limits.as_slice() else { return false };
    policy.max_period_ms().is_some()
}

/// A biz with its policies: `1001 "login" with policy="interval"`.
fn has(biz: &Biz) -> String {
    let limits = biz.limits.iter().map(|limit| {
        let without = match limit.policy {
            Policy::Gcra(Gcra { max_period_ms: None, .. }) => " without per-call=\"true\"",
            _ => "",
        };
        format!("policy=\"{}\"{without}", limit.policy.name())
    });
    format!("{} {:?} with {}", biz.id, biz.name, limits.collect::<Vec<_>>().join(", "))
}

/// Notes each biz of a descriptor that map.xml lacks, or that counts members. `root` is the element
/// that `rls` comes from.
pub(super) fn targets(
    notes: &mut Notes<'_>,
    root: &Element,
    rls: Option<&Rls>,
    map: &Map,
) -> Checked<()> {
    let (Some(element), Some(rls)) = (root.child("rls"), rls) else { return Ok(()) };
    let mut fits: Checked<()> = Ok(());
    for (element, domain) in element.children_named("domain").zip(&rls.domains) {
        let descriptors = element.children_named("descriptor").zip(&domain.descriptors);
        for (element, descriptor) in descriptors {
            let Some(ChargeTarget { biz, .. }) = &descriptor.target else { continue };
            let found = format!("biz=\"{}\"", shown(biz));
            let (found, expected) = match map.find_biz(biz).map(|at| &map.bizs[at]) {
                Some(known) if known.notes_members() => (
                    format!("{found}, which counts members"),
                    "a biz without a distinct limit: calls of Envoy bring no member".to_owned(),
                ),
                Some(_) => continue,
                None => {
                    let near = nearest_words(biz, map.bizs.iter().map(|biz| biz.name.as_str()));
                    (found, format!("the name or id of a biz of map.xml{near}"))
                }
            };
            fits = Err(notes.note(element.value_at("biz"), found, expected));
        }
    }
    fits
}
