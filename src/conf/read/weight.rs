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

/// The previous `<weight>`.
#[derive(Debug, Clone, Copy)]
struct PreviousWeight {
    /// Its `at`.
    at: u64,
    /// The offset of its element.
    element_at: usize,
}

/// Reads the weights of a limit, which must rise in `at`.
pub(super) fn weights(notes: &mut Notes<'_>, limit: &Element) -> Checked<Vec<Weight>> {
    let mut weights = Vec::new();
    let mut before = None;
    let mut read = Ok(());
    for element in limit.children_named("weight") {
        match weight(notes, element, before) {
            Ok(weight) => {
                before = Some(PreviousWeight { at: weight.at, element_at: element.at });
                weights.push(weight);
            }
            Err(faulty) => read = Err(faulty),
        }
    }
    read.map(|()| weights)
}

fn weight(
    notes: &mut Notes<'_>,
    element: &Element,
    before: Option<PreviousWeight>,
) -> Checked<Weight> {
    WEIGHT.check(notes, element);
    let at = element.required(notes, "at", whole(0, MAX_COUNT));
    let value = element.required(notes, "value", thousandths(MAX_WEIGHT));
    let at = at?;
    if let Some(last) = before.filter(|before| at <= before.at) {
        let found = format!("at=\"{at}\" behind at=\"{}\"", last.at);
        let expected = format!("more than that of line {}", notes.line(last.element_at));
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
