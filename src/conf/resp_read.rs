//! `<resp>`, read: its shape, its bounds, and the biz and the file that it names.
//!
//! Invariant: nothing else of srv.xml listens on its address, and CL.THROTTLE finds a biz that
//! takes the limits of calls.

use super::access_token::AccessToken;
use super::fault::{Checked, Notes, shown};
use super::listen_read::{Addresses, listen_address, token_file};
use super::map::{Biz, Gcra, Limit, Map, Policy};
use super::srv::Resp;
use super::suggest::nearest;
use super::walk::Shape;
use super::xml::Element;

const RESP: Shape = Shape { attributes: &["listen", "token-file", "throttle"], ..Shape::EMPTY };
const MAX_RESPS: usize = 16;
const THROTTLE: &str = "throttle";
const CALLS_BRING_LIMITS: &str =
    "a biz of map.xml whose only limit is policy=\"gcra\" with per-call=\"true\"";

/// Reads every `<resp>` and notes its faults.
pub(super) fn resps(
    notes: &mut Notes<'_>,
    root: &Element,
    taken: &mut Addresses,
) -> Checked<Vec<Resp>> {
    let (mut found, mut faulty) = (Vec::new(), None);
    for (nth, element) in root.children_named("resp").enumerate() {
        if nth == MAX_RESPS {
            let expected = format!("at most {MAX_RESPS} of <srv>");
            faulty = Some(notes.note(element.at, "another <resp>", expected));
            break;
        }
        match resp(notes, element, taken) {
            Err(fault) => faulty = Some(fault),
            Ok(resp) => found.push(resp),
        }
    }
    faulty.map_or(Ok(found), Err)
}

fn resp(notes: &mut Notes<'_>, element: &Element, taken: &mut Addresses) -> Checked<Resp> {
    RESP.check(notes, element);
    let name = format!("the <resp> of {}", notes.place(element.at));
    let listen = taken.take(notes, element, listen_address, name);
    let token_file = token_file(notes, element);
    let throttle = element.optional(notes, THROTTLE, |text| match text {
        "" => Err(CALLS_BRING_LIMITS.to_owned()),
        text => Ok(text.to_owned()),
    });
    let (listen, token_file) = (listen?, token_file?);
    let token = token_file.as_ref().map(|_| AccessToken::UNKNOWN);
    Ok(Resp { listen, token_file, token, throttle: throttle? })
}

/// The biz of each `throttle` must be there, and take the limits of calls. `root` is what `resps`
/// was read from.
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
                let near = nearest(named, map.bizs.iter().map(|biz| biz.name.as_str()));
                let near = near.map_or(String::new(), |near| format!(" (nearest: {near})"));
                (found, format!("the name or id of {CALLS_BRING_LIMITS}{near}"))
            }
        };
        fits = Err(notes.note(element.value_at(THROTTLE), found, expected));
    }
    fits
}

fn takes_limits_of_calls(biz: &Biz) -> bool {
    let [Limit { policy, .. }] = biz.limits.as_slice() else { return false };
    matches!(policy, Policy::Gcra(Gcra { max_period_ms: Some(_), .. }))
}

/// A biz and its policies: `1001 "login" with policy="interval"`.
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

/// Notes what is wrong with the files of tokens. `root` is what `resps` was read from.
pub(super) fn token_files(notes: &mut Notes<'_>, root: &Element, resps: &[Resp]) {
    for (element, resp) in root.children_named("resp").zip(resps) {
        if let (Some(path), Err(error)) = (&resp.token_file, resp.read_token()) {
            let path = path.to_string_lossy();
            let found = format!("token-file=\"{}\"{}", shown(&path), error.found());
            notes.note(element.value_at("token-file"), found, error.expected());
        }
    }
}
