//! A request document to a [`Request`].
//!
//! Reads front to back once. Allocates only where the reused buffers grow.

use std::ops::Range;

use super::fault::XmlFault;
use super::markup::{Attribute, Cursor, Part, TagPlace, declares_another_encoding};
use super::value::is_name;
use crate::protocol::format::{Bounds, Decoded, NOT_UTF8, ONCE_OF_ATOMIC, without_mark};
use crate::protocol::{Error, form};
use frs_engine::{Command, Extras, ItemNames, ItemOptions, Request};

/// Reads the document `body` into `request`, which is emptied first.
pub fn read(
    body: &[u8],
    command: Command,
    bounds: Bounds,
    decoded: &mut Decoded,
    request: &mut Request,
) -> Result<(), Error> {
    request.begin(command);
    let body = without_mark(body)?;
    let text = match std::str::from_utf8(body) {
        Ok(text) => text,
        Err(_) if declares_another_encoding(body) => return Err(NOT_UTF8),
        Err(error) => {
            return Err(XmlFault::xml("not UTF-8", error.valid_up_to()).into_error(body));
        }
    };
    request.add_text(text);
    document(text, bounds, &mut decoded.other, request).map_err(|fault| fault.into_error(body))
}

fn document(
    text: &str,
    bounds: Bounds,
    decoded: &mut String,
    request: &mut Request,
) -> Result<(), XmlFault> {
    let mut cursor = Cursor::new(text);
    // Most documents begin like this.
    let plain = cursor.literal(b"<request>");
    let root_at = if plain { 0 } else { begin(&mut cursor)? };
    if plain || !root_ends(&mut cursor, request, decoded)? {
        items(&mut cursor, bounds, decoded, request)?;
    }
    if cursor.skip()? {
        return Err(XmlFault::xml("expected nothing after </request>", cursor.at()));
    }
    if request.items().is_empty() {
        return Err(XmlFault::document("expected at least one <item>", "", root_at));
    }
    request.is_plain = cursor.is_sure();
    Ok(())
}

/// Reads up to the root's attributes. Returns where the root begins.
fn begin(cursor: &mut Cursor<'_>) -> Result<usize, XmlFault> {
    cursor.declaration()?;
    cursor.skip()?;
    let root = cursor.tag(TagPlace::Root)?;
    if root.name != "request" || root.is_end {
        return Err(root.unexpected("expected <request>"));
    }
    Ok(root.at - 1)
}

/// Reads the root's attributes. Returns whether it is `<request/>`.
fn root_ends(
    cursor: &mut Cursor<'_>,
    request: &mut Request,
    decoded: &mut String,
) -> Result<bool, XmlFault> {
    let (mut atomic, mut once_at) = (None, None);
    loop {
        match cursor.part()? {
            Part::Attribute(attribute) if attribute.is("atomic") => {
                first(&atomic, &attribute)?;
                atomic = Some(flag(&attribute, decoded)?);
            }
            Part::Attribute(attribute) if attribute.is("once") => {
                first(&once_at, &attribute)?;
                once_at = Some(attribute.name.start);
                request.set_once(attribute.value(decoded)?);
            }
            Part::Attribute(attribute) => {
                return Err(unknown("unknown attribute: expected atomic or once", &attribute));
            }
            Part::End { empty } => {
                request.atomic = atomic.unwrap_or(false);
                if let (Some(at), false) = (once_at, request.atomic) {
                    return Err(XmlFault::document(ONCE_OF_ATOMIC, "", at));
                }
                return Ok(empty);
            }
        }
    }
}

fn items(
    cursor: &mut Cursor<'_>,
    bounds: Bounds,
    decoded: &mut String,
    request: &mut Request,
) -> Result<(), XmlFault> {
    let max = bounds.items(request.atomic);
    let has_room = |request: &Request| request.items().len() < max as usize;
    loop {
        let mut begun = None;
        if has_room(request) {
            begun = cursor.plain_items(|names| {
                request.push_parts(names, ItemOptions::ONE);
                has_room(request)
            });
        }
        if begun.is_none() {
            cursor.skip()?;
        }
        let at = cursor.at();
        if begun.is_none() && items_end(cursor)? {
            return Ok(());
        }
        if !has_room(request) {
            let error = Error::TooManyItems { max, atomic: request.atomic };
            return Err(XmlFault::Whole(error));
        }
        if !item_ends(cursor, at, begun, decoded, request)? {
            end_item(cursor)?;
        }
    }
}

/// Reads the start of an item's tag, or the root's end. Returns whether it was the end.
fn items_end(cursor: &mut Cursor<'_>) -> Result<bool, XmlFault> {
    if cursor.literal(b"</request>") {
        return Ok(true);
    }
    let tag = cursor.tag(TagPlace::Inside)?;
    match (tag.name, tag.is_end) {
        ("item", false) => Ok(false),
        ("request", true) => Ok(true),
        (_, true) => Err(tag.unexpected("expected </request>")),
        (_, false) => Err(tag.unexpected("expected <item>")),
    }
}

fn end_item(cursor: &mut Cursor<'_>) -> Result<(), XmlFault> {
    cursor.skip()?;
    let tag = cursor.tag(TagPlace::Inside)?;
    if tag.name != "item" || !tag.is_end {
        return Err(tag.unexpected("expected </item>"));
    }
    Ok(())
}

/// Reads the attributes of the item at `at` and adds the item. `names` are those already read.
/// Returns whether it is `<item/>`.
fn item_ends(
    cursor: &mut Cursor<'_>,
    at: usize,
    names: Option<ItemNames<Range<usize>>>,
    decoded: &mut String,
    request: &mut Request,
) -> Result<bool, XmlFault> {
    let (mut biz, mut key) = names.map(|names| (names.biz, names.key)).unzip();
    let (mut count, mut force, mut detail) = (None, None, None);
    let (mut partial, mut settle) = (None, None);
    let mut extras = Extras::NONE;
    let empty = loop {
        let attribute = match cursor.part()? {
            Part::Attribute(attribute) => attribute,
            Part::End { empty } => break empty,
        };
        if attribute.is("biz") {
            first(&biz, &attribute)?;
            biz = Some(part(&attribute, decoded, request)?);
        } else if attribute.is("key") {
            first(&key, &attribute)?;
            key = Some(part(&attribute, decoded, request)?);
        } else if attribute.is("count") {
            first(&count, &attribute)?;
            count = Some(form::count(attribute.value(decoded)?));
        } else if attribute.is("force") {
            first(&force, &attribute)?;
            force = Some(flag(&attribute, decoded)?);
        } else if attribute.is("detail") {
            first(&detail, &attribute)?;
            detail = Some(flag(&attribute, decoded)?);
        } else if attribute.is("member") {
            first(&extras.member, &attribute)?;
            extras.member = Some(part(&attribute, decoded, request)?);
        } else if attribute.is("rate") {
            first(&extras.rate, &attribute)?;
            extras.rate = Some(part(&attribute, decoded, request)?);
        } else if attribute.is("burst") {
            first(&extras.burst, &attribute)?;
            extras.burst = Some(form::number(attribute.value(decoded)?));
        } else if attribute.is("max") {
            first(&extras.max, &attribute)?;
            extras.max = Some(form::number(attribute.value(decoded)?));
        } else if attribute.is("partial") {
            first(&partial, &attribute)?;
            partial = Some(flag(&attribute, decoded)?);
        } else if attribute.is("once") {
            first(&extras.once, &attribute)?;
            extras.once = Some(part(&attribute, decoded, request)?);
        } else if attribute.is("hold") {
            first(&extras.hold, &attribute)?;
            extras.hold = Some(part(&attribute, decoded, request)?);
        } else if attribute.is("ttl") {
            first(&extras.ttl_ms, &attribute)?;
            extras.ttl_ms = Some(form::number(attribute.value(decoded)?));
        } else if attribute.is("settle") {
            first(&settle, &attribute)?;
            settle = Some(flag(&attribute, decoded)?);
        } else {
            let what = "unknown attribute: expected biz, key, count, force, detail, member, rate, \
                        burst, max, partial, once, hold, ttl or settle";
            return Err(unknown(what, &attribute));
        }
    };
    let (Some(biz), Some(key)) = (biz, key) else {
        let what = "expected both of the attributes biz and key";
        return Err(XmlFault::document(what, "", at));
    };
    let options = ItemOptions {
        count: count.unwrap_or(Some(1)),
        force: force.unwrap_or(false),
        detail: detail.unwrap_or(false),
    };
    extras.partial = partial.unwrap_or(false);
    extras.settle = settle.unwrap_or(false);
    request.push_parts(ItemNames { biz, key }, options);
    if extras.is_any() {
        request.bring_parts(extras);
    }
    Ok(empty)
}

/// Where the request's text has the attribute's value: in the document, or decoded behind it.
fn part(
    attribute: &Attribute<'_>,
    decoded: &mut String,
    request: &mut Request,
) -> Result<Range<usize>, XmlFault> {
    if attribute.plain {
        return Ok(attribute.raw.clone());
    }
    Ok(request.add_text(attribute.value(decoded)?))
}

fn first<T>(slot: &Option<T>, attribute: &Attribute<'_>) -> Result<(), XmlFault> {
    if slot.is_none() { Ok(()) } else { Err(repeated(attribute)) }
}

#[cold]
fn repeated(attribute: &Attribute<'_>) -> XmlFault {
    XmlFault::found_xml(
        "an attribute occurs more than once",
        attribute.name(),
        attribute.name.start,
    )
}

#[cold]
fn unknown(what: &'static str, attribute: &Attribute<'_>) -> XmlFault {
    if is_name(attribute.name()) {
        XmlFault::document(what, attribute.name(), attribute.name.start)
    } else {
        let what = "expected the name of an attribute";
        XmlFault::found_xml(what, attribute.name(), attribute.name.start)
    }
}

fn flag(attribute: &Attribute<'_>, decoded: &mut String) -> Result<bool, XmlFault> {
    match attribute.value(decoded)? {
        "true" => Ok(true),
        "false" => Ok(false),
        other => Err(XmlFault::document("expected true or false", other, attribute.raw.start)),
    }
}
