//! `<resp>`, read: its shape, its bounds, and its file of a token.
//!
//! Invariant: nothing else in srv.xml listens on its address.

use super::faults::{Checked, Notes, shown};
use super::listen::{Addresses, listen_address, token_file};
use super::walk::ElementSchema;
use super::xml::Element;
use crate::schema::{AccessToken, Resp};

const RESP: ElementSchema =
    ElementSchema { attributes: &["listen", "token-file", "throttle"], ..ElementSchema::EMPTY };
const MAX_RESPS: usize = 16;
/// The attribute of `<resp>` that names a biz.
pub(crate) const THROTTLE: &str = "throttle";
/// The biz that the attribute must name, in words.
pub(crate) const CALLS_BRING_LIMITS: &str =
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

/// Notes the faults of the token files. `root` is the element that `resps` come from.
pub(crate) fn token_files(notes: &mut Notes<'_>, root: &Element, resps: &[Resp]) {
    for (element, resp) in root.children_named("resp").zip(resps) {
        if let (Some(path), Err(error)) = (&resp.token_file, resp.read_token()) {
            let path = path.to_string_lossy();
            let found = format!("token-file=\"{}\"{}", shown(&path), error.found());
            notes.note(element.value_at("token-file"), found, error.expected());
        }
    }
}
