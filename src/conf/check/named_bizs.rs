//! Checks the bizs that srv.xml names: in `throttle` and `registers` of `<resp>`, and in the
//! descriptors of `<rls>`.
//!
//! Invariant: CL.THROTTLE finds a biz that takes limits of calls, and commands of Redis find
//! registers. Envoy finds a biz with limits that counts no members and has what the ids of its
//! calls need.

use crate::read::{
    CALLS_BRING_LIMITS, Checked, Element, HAS_REGISTERS, Notes, REGISTERS, THROTTLE, nearest_words,
    shown,
};
use crate::schema::{Biz, ChargeTarget, Limit, Map, Policy, Resp, Rls};

/// What the attributes of `<resp>` name.
const NAMED: [NamedBiz; 2] = [
    NamedBiz {
        attribute: THROTTLE,
        name: |resp| resp.throttle.as_deref(),
        is_one: takes_limits_of_calls,
        one: CALLS_BRING_LIMITS,
    },
    NamedBiz {
        attribute: REGISTERS,
        name: |resp| resp.registers.as_deref(),
        is_one: |biz| biz.register.is_some(),
        one: HAS_REGISTERS,
    },
];

/// Notes each `throttle` whose biz does not exist or does not take limits of calls, and each
/// `registers` whose biz does not exist or has none. `root` is the element that `resps` come from.
pub(super) fn of_resps(
    notes: &mut Notes<'_>,
    root: &Element,
    resps: &[Resp],
    map: &Map,
) -> Checked<()> {
    let checked = NAMED.map(|named| named.check(notes, root, resps, map));
    checked.into_iter().collect()
}

/// The biz that an attribute of `<resp>` must name.
struct NamedBiz {
    attribute: &'static str,
    name: fn(&Resp) -> Option<&str>,
    is_one: fn(&Biz) -> bool,
    /// Such a biz, in words.
    one: &'static str,
}

impl NamedBiz {
    /// Notes each other biz that a `<resp>` names.
    fn check(
        &self,
        notes: &mut Notes<'_>,
        root: &Element,
        resps: &[Resp],
        map: &Map,
    ) -> Checked<()> {
        let NamedBiz { attribute, name, is_one, one } = *self;
        let mut fits = Ok(());
        for (element, resp) in root.children_named("resp").zip(resps) {
            let Some(named) = name(resp) else { continue };
            let biz = map.find_biz(named).and_then(|at| map.bizs.get(at));
            if biz.is_some_and(is_one) {
                continue;
            }
            let found = format!("{attribute}=\"{}\"", shown(named));
            let (found, expected) = match biz {
                Some(biz) => (format!("{found}, biz {}", has(biz)), one.to_owned()),
                None => {
                    let near = nearest_words(named, map.bizs.iter().map(|biz| biz.name.as_str()));
                    (found, format!("the name or id of {one}{near}"))
                }
            };
            fits = Err(notes.note(element.value_at(attribute), found, expected));
        }
        fits
    }
}

fn takes_limits_of_calls(biz: &Biz) -> bool {
    matches!(biz.limits.as_slice(), [Limit { policy: Policy::Gcra(_), per_call: Some(_), .. }])
}

/// A biz with its policies or its register: `1001 "login" with policy="interval"`.
fn has(biz: &Biz) -> String {
    if biz.register.is_some() {
        return format!("{} {:?} with <register>", biz.id, biz.name);
    }
    let limits = biz.limits.iter().map(|limit| {
        let without = match limit {
            Limit { policy: Policy::Gcra(_), per_call: None, .. } => " without per-call=\"true\"",
            _ => "",
        };
        format!("policy=\"{}\"{without}", limit.policy.name())
    });
    format!("{} {:?} with {}", biz.id, biz.name, limits.collect::<Vec<_>>().join(", "))
}

/// Notes each biz of a descriptor that map.xml lacks, or that does not fit the descriptor. `root`
/// is the element that `rls` comes from.
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
            let Some(target) = &descriptor.target else { continue };
            let misfit = match map.find_biz(&target.biz).map(|at| &map.bizs[at]) {
                Some(biz) => misfit(target, biz),
                None => {
                    let names = map.bizs.iter().map(|biz| biz.name.as_str());
                    let near = nearest_words(&target.biz, names);
                    Some(("biz", "", format!("the name or id of a biz of map.xml{near}")))
                }
            };
            if let Some((name, found, expected)) = misfit {
                let found = format!("{name}=\"{}\"{found}", shown(element.value_of(name)));
                fits = Err(notes.note(element.value_at(name), found, expected));
            }
        }
    }
    fits
}

/// The attribute of a descriptor that its biz does not fit, what was found, and what was expected.
fn misfit(target: &ChargeTarget, biz: &Biz) -> Option<(&'static str, &'static str, String)> {
    let has_hold = target.hold.is_some();
    let (name, found, expected) = if biz.register.is_some() {
        ("biz", ", which has registers", "a biz with limits")
    } else if biz.notes_members() {
        let expected = "a biz without a distinct limit: calls of Envoy bring no member";
        ("biz", ", which counts members", expected)
    } else if biz.is_concurrent() && !has_hold {
        ("biz", ", which has a concurrent limit", "hold with it: the id of what a call holds")
    } else if biz.is_concurrent() && target.settle {
        let expected = "none for a concurrent limit: a count of 0 lets a hold go";
        ("settle", " of a biz with a concurrent limit", expected)
    } else if has_hold && biz.holds.is_none() && !biz.is_concurrent() {
        ("hold", " of a biz without holds", "holds at the <biz>, or none here")
    } else if target.once.is_some() && biz.once.is_none() {
        ("once", " of a biz without once", "once at the <biz>, or none here")
    } else {
        return None;
    };
    Some((name, found, expected.to_owned()))
}
