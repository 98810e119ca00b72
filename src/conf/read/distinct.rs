//! Reads the settings that only `distinct` has: `precision`, and the `max` and others that depend
//! on it.
//!
//! Invariant: an exact limit has a max. A sketch has a max exactly if it advises. It never bans,
//! because it refuses nothing.

use super::calendar;
use super::faults::{Checked, Notes, checked};
use super::scalar::{Parsed, whole};
use super::xml::Element;
use crate::schema::{Distinct, DistinctCounting, Limit, MAX_COUNT, MAX_MEMBERS, Scope, StatePlace};

/// The default of `on-exceed`: the limit advises nothing.
pub(super) const REFUSE: &str = "refuse";
/// The precisions of a sketch.
const PRECISIONS: std::ops::RangeInclusive<u64> = 8..=14;
const DEFAULT_PRECISION: u8 = 12;

/// A precision as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Precision {
    Sketch(u8),
    Exact,
}

/// Reads a precision.
pub(super) fn precision(text: &str) -> Parsed<Precision> {
    match text.parse() {
        _ if text == "exact" => Ok(Precision::Exact),
        Ok(precision) if PRECISIONS.contains(&precision) && !text.starts_with(['+', '0']) => {
            Ok(Precision::Sketch(precision as u8))
        }
        _ => Err("a whole number from 8 to 14, or exact".to_owned()),
    }
}

/// Reads the settings of a `distinct` limit.
pub(super) fn distinct(notes: &mut Notes<'_>, element: &Element) -> Checked<Distinct> {
    Ok(checked!(Distinct {
        turns: calendar::optional(notes, element),
        counting: counting(notes, element),
    }))
}

fn counting(notes: &mut Notes<'_>, element: &Element) -> Checked<DistinctCounting> {
    let default = Precision::Sketch(DEFAULT_PRECISION);
    match element.or(notes, "precision", default, precision) {
        Ok(Precision::Exact) => {
            let max = element.required(notes, "max", whole(1, MAX_MEMBERS))?;
            Ok(DistinctCounting::Exact { max })
        }
        Ok(Precision::Sketch(precision)) => sketch(notes, element, precision),
        Err(faulty) => {
            let _noted = element.optional(notes, "max", whole(0, MAX_COUNT));
            Err(faulty)
        }
    }
}

fn sketch(notes: &mut Notes<'_>, element: &Element, precision: u8) -> Checked<DistinctCounting> {
    let advises = element.attribute("on-exceed").is_some_and(|word| word.value != REFUSE);
    let mut fits = Ok(());
    if let Some(attribute) = element.attribute("ban") {
        let expected = "precision=\"exact\" with it: a sketch refuses nothing";
        fits = Err(notes.note(attribute.at, "attribute ban with a sketch", expected));
    }
    let max = if advises || element.broken {
        element.required(notes, "max", whole(0, MAX_COUNT)).map(Some)
    } else if let Some(attribute) = element.attribute("max") {
        let found = "attribute max with a sketch that advises nothing";
        let expected = "on-exceed=\"WORD\" or precision=\"exact\" with it, or no max";
        Err(notes.note(attribute.at, found, expected))
    } else {
        Ok(None)
    };
    fits?;
    Ok(DistinctCounting::Sketch { precision, max: max? })
}

/// Notes limits that cannot stand beside an exact limit. Its set is the last part of its node, and
/// so is the ring of sliding limits: a scope has room for one of them.
pub(super) fn stand_alone(notes: &mut Notes<'_>, biz: &Element, limits: &[Checked<Limit>]) {
    for scope in [Scope::Key, Scope::Biz] {
        let mut last = None;
        for (element, limit) in biz.children_named("limit").zip(limits) {
            let Ok(limit) = limit else { continue };
            let name = match limit.state_place() {
                StatePlace::Set { .. } => "exact",
                StatePlace::Ring(_) => "sliding",
                StatePlace::Own { .. } | StatePlace::Holds => continue,
            };
            if limit.scope != scope {
                continue;
            }
            if let Some(before) = last.replace(name)
                && (name == "exact" || before == "exact")
            {
                let found = match before {
                    "exact" => "a limit beside one with precision=\"exact\"",
                    _ => "precision=\"exact\" beside policy=\"sliding\"",
                };
                let expected = "another biz for it: of limits that keep each member or each use, \
                                a biz and scope has one set or one ring";
                notes.note(element.value_at("policy"), found, expected);
            }
        }
    }
}
