//! Reads `<allow>`, `<deny>` and `<override>`: keys with rules of their own.
//!
//! Invariant: a pattern stands for keys of its biz's type, in the one form in which that type
//! writes them.

use std::collections::HashMap;

use super::faults::{Checked, Faulty, Notes, shown};
use super::scalar::{Parsed, whole};
use super::walk::{ElementSchema, first_before};
use super::xml::Element;
use crate::key::MAX_KEY_BYTES;
use crate::schema::{Cidr, KeyType, Limit, ListRule, Listed, MAX_COUNT, Pattern, override_max};

const LIST: ElementSchema = ElementSchema { attributes: &["key"], ..ElementSchema::EMPTY };
const OVERRIDE: ElementSchema =
    ElementSchema { attributes: &["key", "limit", "max"], ..ElementSchema::EMPTY };

/// The entries of a biz whose keys are of type `key`, in the order of the file.
pub(super) fn listed(
    notes: &mut Notes<'_>,
    biz: &Element,
    key: Checked<KeyType>,
    limits: &[Checked<Limit>],
) -> Vec<Checked<Listed>> {
    let mut seen = HashMap::new();
    let mut found = Vec::new();
    for element in &biz.children {
        let rule = match element.name.as_str() {
            "allow" | "deny" => {
                LIST.check(notes, element);
                Ok(if element.name == "allow" { ListRule::Allow } else { ListRule::Deny })
            }
            "override" => override_of(notes, element, limits),
            _ => continue,
        };
        let pattern = element.required(notes, "key", |text| pattern(key, text));
        found.push(match (pattern, rule) {
            (Ok(Some(pattern)), Ok(rule)) => Ok(Listed { pattern, rule }),
            _ => Err(Faulty),
        });
        if let Some(Ok(listed)) = found.last() {
            once(notes, &mut seen, element, listed);
        }
    }
    found
}

fn override_of(
    notes: &mut Notes<'_>,
    element: &Element,
    limits: &[Checked<Limit>],
) -> Checked<ListRule> {
    OVERRIDE.check(notes, element);
    let index = element.required(notes, "limit", whole(1, limits.len().max(1) as u64));
    let limit = index.ok().and_then(|index| limits.get(index as usize - 1)?.as_ref().ok());
    let bounds = match limit.map(override_max) {
        Some(Some(bounds)) => bounds,
        Some(None) => {
            let found = format!("limit=\"{}\", which counts only", index.unwrap_or_default());
            return Err(notes.note(element.value_at("limit"), found, "a limit with a max"));
        }
        None => 0..=MAX_COUNT,
    };
    let policy = limit.map(|limit| limit.policy.name());
    let max = element.required(notes, "max", |text| {
        whole(*bounds.start(), *bounds.end())(text).map_err(|expected| match policy {
            Some(policy) => format!("{expected} for limit {} ({policy})", index.unwrap_or(0)),
            None => expected,
        })
    });
    Ok(ListRule::Override { limit: index? as usize - 1, max: max? })
}

/// The pattern that a text means for a type of keys. `None` if the type is unknown.
fn pattern(key: Checked<KeyType>, text: &str) -> Parsed<Option<Pattern>> {
    if text.is_empty() || text.len() > MAX_KEY_BYTES {
        return Err(format!("a key of 1 to {MAX_KEY_BYTES} bytes"));
    }
    match key {
        Err(Faulty) => Ok(None),
        Ok(KeyType::String | KeyType::Digest) => Ok(Some(text_pattern(text))),
        Ok(KeyType::Integer) => integer_pattern(text).map(Some),
        Ok(KeyType::Ip { .. }) => ip_pattern(text).map(Some),
    }
}

fn text_pattern(text: &str) -> Pattern {
    match text.strip_suffix('*') {
        Some(prefix) => Pattern::Prefix(prefix.to_owned()),
        None => Pattern::Exact(text.to_owned()),
    }
}

fn integer_pattern(text: &str) -> Parsed<Pattern> {
    let number = |text| whole(0, u64::MAX)(text).map(|number| number.to_string());
    match text.strip_suffix('*') {
        Some("") => Ok(Pattern::Prefix(String::new())),
        // A number other than 0 never begins with a zero.
        Some(first) => match number(first) {
            Ok(written) if written == first => Ok(Pattern::Prefix(written)),
            _ => Err(format!("the first digits of a number to {}, and *", u64::MAX)),
        },
        None => number(text).map(Pattern::Exact),
    }
}

fn ip_pattern(text: &str) -> Parsed<Pattern> {
    if text.contains('*') {
        return Err("an address or a block of addresses without * (0.0.0.0/0 is all of IPv4, \
                    ::/0 all of IPv6)"
            .to_owned());
    }
    Cidr::parse(text).map(Pattern::Block).map_err(|expected| expected.to_string())
}

/// The kind of an entry, with the limit of an override, and its keys. No two entries of a biz have
/// the same ones.
type ListedKeys = (String, Pattern);

/// Notes an entry whose keys have an earlier entry of the same kind.
fn once(
    notes: &mut Notes<'_>,
    seen: &mut HashMap<ListedKeys, usize>,
    element: &Element,
    listed: &Listed,
) {
    let kind = match listed.rule {
        ListRule::Allow | ListRule::Deny => format!("<{}>", element.name),
        ListRule::Override { limit, .. } => format!("<override> of limit {}", limit + 1),
    };
    let keys = (kind.clone(), listed.pattern.clone());
    if let Some(first) = first_before(seen, keys, element.at) {
        let found = format!("key=\"{}\" again", shown(element.value_of("key")));
        let line = notes.line(first);
        let expected = format!("one that no {kind} has (line {line} has it)");
        notes.note(element.value_at("key"), found, expected);
    }
}
