//! Reads `<register>` of a biz: its records are a register each.
//!
//! Invariant: nothing that belongs to limits stands beside it.

use super::faults::{Checked, Faulty, Notes, shown};
use super::scalar::whole;
use super::walk::ElementSchema;
use super::xml::Element;
use crate::schema::{KeyType, MAX_TEXT_BYTES, RegisterRoom};

const REGISTER: ElementSchema =
    ElementSchema { attributes: &["text-bytes"], ..ElementSchema::EMPTY };
/// The element, by which a biz has registers.
pub(crate) const ELEMENT: &str = "register";
/// The default of `text-bytes`: a UUID, and a few bytes more.
const DEFAULT_TEXT_BYTES: u64 = 40;
/// The key field of a group with registers: keys of libraries are long.
pub(super) const KEY_BYTES: u32 = 72;
/// The attributes of a biz that are for registers, too.
const OWN: [&str; 4] = ["id", "name", "group", "key"];

/// The register of a record. `None` if the biz has none.
pub(super) fn register(
    notes: &mut Notes<'_>,
    biz: &Element,
    key: Checked<KeyType>,
) -> Checked<Option<RegisterRoom>> {
    let Some(element) = biz.child(ELEMENT) else {
        return if biz.broken { Err(Faulty) } else { Ok(None) };
    };
    REGISTER.check(notes, element);
    let most = MAX_TEXT_BYTES.into();
    let text_bytes = element.or(notes, "text-bytes", DEFAULT_TEXT_BYTES, whole(0, most));
    stands_alone(notes, biz, key)?;
    Ok(Some(RegisterRoom { text_bytes: text_bytes? as u16 }))
}

/// Notes attributes and children of limits, and a key type other than string.
fn stands_alone(notes: &mut Notes<'_>, biz: &Element, key: Checked<KeyType>) -> Checked<()> {
    let mut alone = Ok(());
    for attribute in biz.attributes.iter().filter(|it| !OWN.contains(&it.name.as_str())) {
        let found = format!("attribute {} beside <register>", shown(&attribute.name));
        alone = Err(notes.note(attribute.at, found, "it beside limits only"));
    }
    for child in biz.children.iter().filter(|child| child.name != ELEMENT) {
        let found = format!("<{}> beside <register>", shown(&child.name));
        let expected = "limits or a register: another <biz> for one of them";
        alone = Err(notes.note(child.at, found, expected));
    }
    if key.is_ok_and(|key| key != KeyType::String) {
        let found = format!("key=\"{}\" with <register>", shown(biz.value_of("key")));
        alone = Err(notes.note(biz.value_at("key"), found, "key=\"string\""));
    }
    alone
}
