//! `<rls>`, read: its shape and its bounds.
//!
//! Invariant: nothing else in srv.xml listens on its address. No two domains have the same name,
//! and no two descriptors of a domain have the same entries.

use std::collections::HashMap;

use super::faults::{Checked, Notes, checked, shown};
use super::listen::{Addresses, listen_address};
use super::scalar::{Parsed, boolean, word};
use super::suggest::nearest_words;
use super::walk::{ElementSchema, first_before};
use super::xml::Element;
use crate::schema::{
    ChargeMode, ChargeTarget, Descriptor, DescriptorEntry, Domain, Rls, Template, TemplatePart,
    ValuePattern,
};

const RLS: ElementSchema = ElementSchema {
    attributes: &["listen", "tls", "charge"],
    many: &["domain"],
    ..ElementSchema::EMPTY
};
const DOMAIN: ElementSchema =
    ElementSchema { attributes: &["name"], many: &["descriptor"], ..ElementSchema::EMPTY };
const DESCRIPTOR: ElementSchema = ElementSchema {
    attributes: &["entries", "biz", "key", "unlimited", "force", "hold", "settle", "once"],
    ..ElementSchema::EMPTY
};
/// The most domains, and below it the most descriptors of all domains.
const MAX_DOMAINS: usize = 256;
const MAX_DESCRIPTORS: usize = 16_384;
/// The most entries of a descriptor.
const MAX_ENTRIES: usize = 16;
/// The most bytes of the name of a domain.
const MAX_NAME: usize = 255;
const ENTRIES_EXPECTED: &str =
    "1 to 16 words: NAME, NAME=VALUE or NAME=PREFIX*, where %20 is a space and %2A a star";
const KEY_EXPECTED: &str = "text with {NAME} for the value of an entry, where NAME is as in entries \
     and %7B, %7D are its braces; {{ and }} for braces";
const ID_EXPECTED: &str = "{NAME} of an entry in it, since each use needs an id of its own";
const BETWEEN_EXPECTED: &str = "text between two values that begins with an ASCII character other \
     than %, as in {A}|{B}: without it two rows of values make one key";

/// Reads `<rls>` and notes its faults.
pub(super) fn rls(notes: &mut Notes<'_>, element: &Element, taken: &mut Addresses) -> Checked<Rls> {
    RLS.check(notes, element);
    let charges = word(&[("all-or-none", ChargeMode::AllOrNone), ("each", ChargeMode::Each)]);
    Ok(checked!(Rls {
        listen: taken.take(notes, element, listen_address, "<rls>"),
        tls: taken.tls(notes, element),
        charge: element.or(notes, "charge", ChargeMode::AllOrNone, charges),
        domains: domains(notes, element),
    }))
}

fn domains(notes: &mut Notes<'_>, rls: &Element) -> Checked<Vec<Domain>> {
    let (mut seen, mut room) = (HashMap::new(), MAX_DESCRIPTORS);
    rls.read_children(notes, "domain", MAX_DOMAINS, |notes, element| {
        let domain = domain(notes, element, &mut room)?;
        let Some(first) = first_before(&mut seen, domain.name.clone(), element.at) else {
            return Ok(domain);
        };
        let again = format!("name=\"{}\" again", shown(&domain.name));
        let expected = format!("it once (first in line {})", notes.line(first));
        Err(notes.note(element.value_at("name"), again, expected))
    })
}

fn domain(notes: &mut Notes<'_>, element: &Element, room: &mut usize) -> Checked<Domain> {
    DOMAIN.check(notes, element);
    Ok(checked!(Domain {
        name: element.required(notes, "name", |text| match text.len() {
            1..=MAX_NAME => Ok(text.to_owned()),
            _ => Err(format!("1 to {MAX_NAME} bytes")),
        }),
        descriptors: descriptors(notes, element, room),
    }))
}

/// Reads the descriptors of a domain, as far as there is room for them.
fn descriptors(
    notes: &mut Notes<'_>,
    domain: &Element,
    room: &mut usize,
) -> Checked<Vec<Descriptor>> {
    let mut seen = HashMap::new();
    let mut found = Vec::new();
    for element in domain.children_named("descriptor") {
        if *room == 0 {
            let expected = format!("at most {MAX_DESCRIPTORS} of <rls>");
            found.push(Err(notes.note(element.at, "another <descriptor>", expected)));
            break;
        }
        *room -= 1;
        let descriptor = descriptor(notes, element).and_then(|descriptor| {
            let entries = format!("{:?}", descriptor.entries);
            let Some(first) = first_before(&mut seen, entries, element.at) else {
                return Ok(descriptor);
            };
            let again = format!("entries=\"{}\" again", shown(element.value_of("entries")));
            let expected = format!("them once in a domain (first in line {})", notes.line(first));
            Err(notes.note(element.value_at("entries"), again, expected))
        });
        found.push(descriptor);
    }
    found.into_iter().collect()
}

fn descriptor(notes: &mut Notes<'_>, element: &Element) -> Checked<Descriptor> {
    DESCRIPTOR.check(notes, element);
    let entries = element.required(notes, "entries", entries);
    let unlimited = element.or(notes, "unlimited", false, boolean);
    if unlimited == Ok(true) {
        for name in ["biz", "key", "force", "hold", "settle", "once"] {
            if element.attribute(name).is_some() {
                let found = format!("{name} of an unlimited descriptor");
                return Err(notes.note(element.value_at(name), found, "none"));
            }
        }
        return Ok(Descriptor { entries: entries?, target: None });
    }
    let named = element.required(notes, "biz", |text| match text {
        "" => Err("a biz of map.xml, or unlimited=\"true\"".to_owned()),
        text => Ok(text.to_owned()),
    });
    let forces = element.or(notes, "force", false, boolean);
    let settles = settle(notes, element);
    let entries = entries?;
    let target = checked!(ChargeTarget {
        biz: named,
        key: element.required(notes, "key", |text| template(text, &entries)),
        force: forces,
        hold: element.optional(notes, "hold", |text| id(text, &entries)),
        settle: settles,
        once: element.optional(notes, "once", |text| id(text, &entries)),
    });
    unlimited?;
    Ok(Descriptor { entries, target: Some(target) })
}

/// Reads `settle`, which needs a hold.
fn settle(notes: &mut Notes<'_>, element: &Element) -> Checked<bool> {
    let settle = element.or(notes, "settle", false, boolean)?;
    if settle && element.attribute("hold").is_none() {
        let expected = "hold with it: the id of what is settled";
        return Err(notes.note(element.value_at("settle"), "settle without hold", expected));
    }
    Ok(settle)
}

fn entries(text: &str) -> Parsed<Vec<DescriptorEntry>> {
    let words: Option<Vec<DescriptorEntry>> = text.split_ascii_whitespace().map(entry).collect();
    match words {
        Some(words) if (1..=MAX_ENTRIES).contains(&words.len()) => Ok(words),
        _ => Err(ENTRIES_EXPECTED.to_owned()),
    }
}

/// Reads one word of `entries`. `None` if it is malformed.
fn entry(text: &str) -> Option<DescriptorEntry> {
    let (name, value) = match text.split_once('=') {
        None => (text, ValuePattern::Any),
        Some((name, value)) => match value.strip_suffix('*') {
            None => (name, ValuePattern::Exact(unescaped(value)?)),
            Some(prefix) => (name, ValuePattern::Prefix(unescaped(prefix)?)),
        },
    };
    let name = unescaped(name).filter(|name| !name.is_empty())?;
    // `name=*` means the same as `name`.
    let value = match value {
        ValuePattern::Prefix(prefix) if prefix.is_empty() => ValuePattern::Any,
        value => value,
    };
    Some(DescriptorEntry { name, value })
}

/// The text without its escapes. A bare `*` is malformed: it would mislead, as it has a meaning
/// only at the end.
fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'*' => return None,
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                bytes.push((digit()? * 16 + digit()?) as u8);
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).ok()
}

fn id(text: &str, entries: &[DescriptorEntry]) -> Parsed<Template> {
    let id = template(text, entries)?;
    if id.has_value() { Ok(id) } else { Err(ID_EXPECTED.to_owned()) }
}

/// Reads a key or an id.
fn template(text: &str, entries: &[DescriptorEntry]) -> Parsed<Template> {
    let expected = || KEY_EXPECTED.to_owned();
    let (mut parts, mut plain, mut rest) = (Vec::new(), String::new(), text);
    while let Some(at) = rest.find(['{', '}']) {
        plain.push_str(&rest[..at]);
        let (brace, after) = rest[at..].split_at(1);
        if let Some(after) = after.strip_prefix(brace) {
            plain.push_str(brace);
            rest = after;
            continue;
        }
        let (name, after) = match brace {
            "{" => after.split_once('}').ok_or_else(expected)?,
            _ => return Err(expected()),
        };
        let name = unescaped(name).ok_or_else(expected)?;
        let mut found = (0..).zip(entries).filter(|(_, entry)| entry.name == name);
        let value = match (found.next(), found.next()) {
            (Some((at, _)), None) => TemplatePart::Value(at),
            (Some(_), Some(_)) => {
                return Err(format!("names that entries has once, not {{{}}}", shown(&name)));
            }
            _ => {
                let near = nearest_words(&name, entries.iter().map(|entry| entry.name.as_str()));
                return Err(format!("names of entries, not {{{}}}{near}", shown(&name)));
            }
        };
        let is_between = parts.iter().any(|part| matches!(part, TemplatePart::Value(_)));
        if is_between && !plain.starts_with(|first: char| first.is_ascii() && first != '%') {
            return Err(BETWEEN_EXPECTED.to_owned());
        }
        if !plain.is_empty() {
            parts.push(TemplatePart::Text(std::mem::take(&mut plain)));
        }
        parts.push(value);
        rest = after;
    }
    plain.push_str(rest);
    if !plain.is_empty() {
        parts.push(TemplatePart::Text(plain));
    }
    if parts.is_empty() { Err(expected()) } else { Ok(Template(parts)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Vec<(String, ValuePattern)>> {
        let entries = entries(text).ok()?;
        Some(entries.into_iter().map(|entry| (entry.name, entry.value)).collect())
    }

    #[test]
    fn entries_are_names_values_and_prefixes() {
        use ValuePattern::{Any, Exact, Prefix};
        let read_all = read("user path=/login* plan=a%20b%2A method=* empty=").expect("understood");
        let expected = [
            ("user", Any),
            ("path", Prefix("/login".into())),
            ("plan", Exact("a b*".into())),
            ("method", Any),
            ("empty", Exact(String::new())),
        ];
        assert_eq!(read_all, expected.map(|(name, value)| (name.to_owned(), value)));
        for wrong in ["", "=v", "a=b*c", "a*", "a=%2", "a=%zz", "a=%ff", &"a ".repeat(17)] {
            assert!(read(wrong).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn keys_are_text_and_values() {
        let entries = entries("user path a a").expect("understood");
        let parts = |text: &str| template(text, &entries).map(|Template(parts)| parts);
        let text = |text: &str| TemplatePart::Text(text.to_owned());
        assert_eq!(parts("{user}"), Ok(vec![TemplatePart::Value(0)]));
        assert_eq!(parts("all"), Ok(vec![text("all")]));
        let mixed = vec![text("{u}:"), TemplatePart::Value(1), text("/"), TemplatePart::Value(0)];
        assert_eq!(parts("{{u}}:{path}/{user}"), Ok(mixed));
        for wrong in ["", "{user", "user}", "{}", "{usr}", "{a}"] {
            assert!(parts(wrong).is_err(), "{wrong}");
        }
        assert!(parts("{usr}").is_err_and(|expected| expected.contains("(nearest: user)")));
        for joined in ["{user}{path}", "{user}%{path}", "{user}\u{e9}{path}", "a{user}{path}"] {
            let fault = parts(joined).expect_err(joined);
            assert!(fault.contains("two rows of values make one key"), "{fault}");
        }
    }

    #[test]
    fn names_in_keys_are_written_as_in_entries() {
        let entries = entries("{x} a%2Ab c%25d").expect("understood");
        let parts = |text: &str| template(text, &entries).map(|Template(parts)| parts);
        assert_eq!(parts("{%7Bx%7D}"), Ok(vec![TemplatePart::Value(0)]));
        assert_eq!(parts("{{x}}"), Ok(vec![TemplatePart::Text("{x}".to_owned())]));
        assert_eq!(parts("{a%2Ab}"), Ok(vec![TemplatePart::Value(1)]));
        assert_eq!(parts("{c%25d}"), Ok(vec![TemplatePart::Value(2)]));
        for wrong in ["{a*b}", "{c%d}", "{{x}", "{c%2}"] {
            assert!(parts(wrong).is_err(), "{wrong}");
        }
    }

    // Shows: envoy-import.
    #[test]
    fn keys_of_several_values_escape_what_stands_between_them() {
        let entries = entries("a b c").expect("understood");
        let escaped =
            |text: &str| String::from_utf8(template(text, &entries).expect("understood").escaped());
        let cases =
            [("all", ""), ("app|{a}|x", ""), ("app/{a}|{b}!", "|%"), ("{a}|x{b}:{c}", "|:%")];
        for (text, expected) in cases {
            assert_eq!(escaped(text).as_deref(), Ok(expected), "{text}");
        }
    }
}
