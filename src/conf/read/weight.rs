//! Reads the `<weight>`s of a `<limit>`.

use super::faults::{Checked, Notes};
use super::scalar::{thousandths, whole};
use super::walk::ElementSchema;
use super::xml::Element;
use crate::schema::{MAX_COUNT, Weight};

const WEIGHT: ElementSchema =
    ElementSchema { attributes: &["at", "value"], ..ElementSchema::EMPTY };
/// The largest weight.
const MAX_WEIGHT: u32 = 1000;

/// Reads the weights of a limit, which must rise in `at`.
pub(super) fn weights(notes: &mut Notes<'_>, limit: &Element) -> Checked<Vec<Weight>> {
    // The `at` of the previous weight, and the offset of its element.
    let mut before = None;
    limit.read_children(notes, "weight", usize::MAX, |notes, element| {
        let weight = weight(notes, element, before)?;
        before = Some((weight.at, element.at));
        Ok(weight)
    })
}

fn weight(
    notes: &mut Notes<'_>,
    element: &Element,
    before: Option<(u64, usize)>,
) -> Checked<Weight> {
    WEIGHT.check(notes, element);
    let at = element.required(notes, "at", whole(0, MAX_COUNT));
    let value = element.required(notes, "value", thousandths(MAX_WEIGHT));
    let at = at?;
    if let Some((last, offset)) = before.filter(|&(last, _)| at <= last) {
        let found = format!("at=\"{at}\" behind at=\"{last}\"");
        let expected = format!("more than that of line {}", notes.line(offset));
        return Err(notes.note(element.value_at("at"), found, expected));
    }
    Ok(Weight { at, thousandths: value? })
}

/// Notes weights in more than one limit of a biz, because an item carries one weight.
pub(super) fn one_limit_has(notes: &mut Notes<'_>, biz: &Element) {
    let mut first = None;
    for limit in biz.children_named("limit") {
        let Some(weight) = limit.child("weight") else { continue };
        match first {
            None => first = Some(weight.at),
            Some(first) => {
                let line = notes.line(first);
                let expected = format!("them in one limit of a biz (the first is in line {line})");
                notes.note(weight.at, "<weight> in another limit", expected);
            }
        }
    }
}
