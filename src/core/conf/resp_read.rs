//! `<resp>`, read: its shape, its bounds, and the biz and the file that it names.
//!
//! Invariant: nothing else of srv.xml listens on its address, and CL.THROTTLE finds a biz that
//! takes the limits of calls.

use super::access_token::AccessToken;
use super::fault::{Checked, Faulty, Notes, shown};
use super::listen_read::{listen_address, token_file};
use super::map::{Biz, Gcra, Limit, Map, Policy};
use super::srv::{Admin, Listen, Resp};
use super::suggest::nearest;
use super::walk::Shape;
use super::xml::Element;

const RESP: Shape = Shape { attributes: &["listen", "token-file", "throttle"], ..Shape::EMPTY };
const MAX_RESPS: usize = 16;
const THROTTLE: &str = "throttle";
const CALLS_BRING_LIMITS: &str =
    "a biz of map.xml whose only limit is policy=\"gcra\" with per-call=\"true\"";

/// What else of srv.xml listens. Other code notes the faults in it.
pub(super) struct OtherListeners<'s> {
    pub listen: &'s Checked<Vec<Listen>>,
    pub admin: &'s Checked<Option<Admin>>,
}

impl OtherListeners<'_> {
    /// The element that listens on an address.
    pub fn find(&self, address: &Listen) -> Option<&'static str> {
        let admin = self.admin.as_ref().ok().and_then(Option::as_ref);
        if self.listen.as_ref().is_ok_and(|listen| listen.contains(address)) {
            return Some("<listen>");
        }
        admin.is_some_and(|admin| admin.listen == *address).then_some("<admin>")
    }
}

/// Reads every `<resp>` and notes its faults.
pub(super) fn resps(
    notes: &mut Notes<'_>,
    root: &Element,
    others: &OtherListeners<'_>,
) -> Checked<Vec<Resp>> {
    let mut found: Vec<(Resp, usize)> = Vec::new();
    let mut faulty = None;
    for (nth, element) in root.children_named("resp").enumerate() {
        if nth == MAX_RESPS {
            let expected = format!("at most {MAX_RESPS} of <srv>");
            faulty = Some(notes.note(element.at, "another <resp>", expected));
            break;
        }
        let read = resp(notes, element).and_then(|resp| {
            let earlier = found.iter().find(|(earlier, _)| earlier.listen == resp.listen);
            let earlier = earlier.map(|&(_, at)| format!("the <resp> of {}", notes.place(at)));
            let who = others.find(&resp.listen).map(str::to_owned).or(earlier);
            who.map_or(Ok(resp), |who| Err(taken(notes, element, &who)))
        });
        match read {
            Err(fault) => faulty = Some(fault),
            Ok(resp) => found.push((resp, element.at)),
        }
    }
    let resps = || found.into_iter().map(|(resp, _)| resp).collect();
    faulty.map_or_else(|| Ok(resps()), Err)
}

fn taken(notes: &mut Notes<'_>, element: &Element, who: &str) -> Faulty {
    let address = element.attribute("listen").map_or("", |attribute| &attribute.value);
    let found = format!("listen=\"{}\" again", shown(address));
    notes.note(element.value_at("listen"), found, format!("an address of its own: {who} has it"))
}

fn resp(notes: &mut Notes<'_>, element: &Element) -> Checked<Resp> {
    RESP.check(notes, element);
    let listen = element.required(notes, "listen", listen_address);
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
