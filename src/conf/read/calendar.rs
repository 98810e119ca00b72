//! Reads when calendar windows turn: `unit`, `tz` and `at` of a `<limit>`.

use frs_base::sys;
use jiff::tz::{self, TimeZone};

use super::faults::{Checked, Notes, checked};
use super::scalar::{Parsed, only_with, time_of_day, word};
use super::suggest::nearest;
use super::xml::Element;
use crate::schema::{Turns, Unit};

const WITH_TIME_OF_DAY: [&str; 4] = ["day", "week", "month", "year"];

/// The turns of a limit that requires a unit.
pub(super) fn required(notes: &mut Notes<'_>, element: &Element) -> Checked<Turns> {
    Ok(checked!(Turns {
        unit: element.required(notes, "unit", unit),
        zone: element.or(notes, "tz", TimeZone::UTC, zone),
        at_minutes: time_of_turn(notes, element, unit),
    }))
}

/// Reads the time of day at which a window turns. Minutes and hours have none.
fn time_of_turn(notes: &mut Notes<'_>, element: &Element, unit: Checked<Unit>) -> Checked<u16> {
    if let (Ok(Unit::Minute | Unit::Hour), Some(attribute)) = (unit, element.attribute("at")) {
        let found = format!("attribute at with unit=\"{}\"", element.value_of("unit"));
        notes.note(attribute.at, found, only_with("unit", &WITH_TIME_OF_DAY));
    }
    element.or(notes, "at", 0, time_of_day)
}

/// The turns of a limit for which they are optional. Without `unit`, neither their other settings
/// nor a history of windows is allowed.
pub(super) fn optional(notes: &mut Notes<'_>, element: &Element) -> Checked<Option<Turns>> {
    if element.broken || element.attribute("unit").is_some() {
        return required(notes, element).map(Some);
    }
    for name in ["tz", "at", "history"] {
        if let Some(attribute) = element.attribute(name) {
            notes.note(attribute.at, format!("attribute {name} without unit"), "it with unit only");
        }
    }
    Ok(None)
}

/// Notes the faults of all these settings if the policy that would use them is unknown.
pub(super) fn look(notes: &mut Notes<'_>, element: &Element) {
    let _noted = element.optional(notes, "unit", unit);
    let _noted = element.optional(notes, "tz", zone);
    let _noted = element.optional(notes, "at", time_of_day);
}

fn unit(text: &str) -> Parsed<Unit> {
    word(&Unit::NAMES)(text)
}

fn zone(text: &str) -> Parsed<TimeZone> {
    // The time zone database has locks of its own. A child forked meanwhile would find them held.
    sys::between_forks(|| known_zone(text))
}

fn known_zone(text: &str) -> Parsed<TimeZone> {
    match TimeZone::get(text) {
        Ok(zone) if !zone.is_unknown() => Ok(zone),
        _ => Err(zone_expected(text)),
    }
}

fn zone_expected(text: &str) -> String {
    const EXPECTED: &str = "the IANA name of a time zone, such as Asia/Shanghai or UTC";
    let names: Vec<String> = tz::db().available().map(|name| name.to_string()).collect();
    let city = |name: &str| name.rsplit('/').next().unwrap_or_default().to_owned();
    let whole = nearest(text, names.iter().map(String::as_str)).map(str::to_owned);
    // A name without its continent probably means the city.
    let near = whole.or_else(|| {
        let cities: Vec<String> = names.iter().map(|name| city(name)).collect();
        let near = nearest(&city(text), cities.iter().map(String::as_str))?;
        names.iter().find(|name| city(name) == near).cloned()
    });
    match near {
        Some(name) => format!("{EXPECTED} (nearest: {name})"),
        None => EXPECTED.to_owned(),
    }
}
