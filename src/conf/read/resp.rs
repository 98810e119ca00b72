//! `<resp>`, read: its shape and its bounds.
//!
//! Invariant: nothing else in srv.xml listens on its address.

use super::faults::{Checked, Notes, checked};
use super::listen::{Addresses, listen_address, token_file};
use super::scalar::whole;
use super::walk::ElementSchema;
use super::xml::Element;
use crate::schema::{MAX_DATABASES, Resp};

const RESP: ElementSchema = ElementSchema {
    attributes: &["listen", "tls", "token-file", "throttle", "registers", "databases"],
    ..ElementSchema::EMPTY
};
const MAX_RESPS: usize = 16;
/// The attribute of `<resp>` that names a biz.
pub(crate) const THROTTLE: &str = "throttle";
/// The biz that the attribute must name, in words.
pub(crate) const CALLS_BRING_LIMITS: &str =
    "a biz of map.xml whose only limit is policy=\"gcra\" with per-call=\"true\"";

/// The attribute of `<resp>` that names the biz of Redis' own commands.
pub(crate) const REGISTERS: &str = "registers";
/// The biz that the attribute must name, in words.
pub(crate) const HAS_REGISTERS: &str = "a biz of map.xml with a <register>";
const DATABASES: &str = "databases";

/// Reads every `<resp>` and notes its faults.
pub(super) fn resps(
    notes: &mut Notes<'_>,
    root: &Element,
    taken: &mut Addresses,
) -> Checked<Vec<Resp>> {
    root.read_children(notes, "resp", MAX_RESPS, |notes, element| resp(notes, element, taken))
}

fn resp(notes: &mut Notes<'_>, element: &Element, taken: &mut Addresses) -> Checked<Resp> {
    RESP.check(notes, element);
    let name = format!("the <resp> of {}", notes.place(element.at));
    Ok(checked!(Resp {
        listen: taken.take(notes, element, listen_address, name),
        tls: taken.tls(notes, element),
        token_file: token_file(notes, element),
        throttle: element.optional(notes, THROTTLE, named(CALLS_BRING_LIMITS)),
        registers: element.optional(notes, REGISTERS, named(HAS_REGISTERS)),
        databases: databases(notes, element),
    }))
}

/// Reads the name of a biz. `expected` says of which one.
fn named(expected: &'static str) -> impl Fn(&str) -> Result<String, String> {
    move |text| match text {
        "" => Err(expected.to_owned()),
        text => Ok(text.to_owned()),
    }
}

/// How many databases SELECT knows: 1 unless the element says otherwise.
fn databases(notes: &mut Notes<'_>, element: &Element) -> Checked<u16> {
    let databases = element.optional(notes, DATABASES, whole(1, MAX_DATABASES.into()))?;
    if let (Some(attribute), None) = (element.attribute(DATABASES), element.attribute(REGISTERS)) {
        let found = "attribute databases without registers";
        return Err(notes.note(attribute.at, found, "it with registers only"));
    }
    Ok(databases.map_or(1, |databases| databases as u16))
}
