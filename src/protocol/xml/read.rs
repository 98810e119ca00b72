//! A request document to a [`Request`].
//!
//! Reads front to back once. Allocates only where the reused buffers grow.

use super::markup::{Cursor, Fault, Kind, NOT_UTF8, Tag, declares_another_encoding};
use super::value::{forbidden, is_name, value};
use crate::conf::Http;
use crate::protocol::{Error, form};
use crate::service::{Command, Request};

/// How much a request may hold.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Items of a request.
    pub max_items: u32,
    /// Items of an atomic request.
    pub max_atomic_items: u32,
}

impl From<&Http> for Bounds {
    fn from(http: &Http) -> Bounds {
        Bounds { max_items: http.max_items, max_atomic_items: http.max_atomic_items }
    }
}

/// Attribute values decoded out of a document, their buffers reused.
#[derive(Debug, Default)]
pub struct Decoded {
    biz: String,
    key: String,
    other: String,
}

/// Reads the document `body` into `request`, which is emptied first.
pub fn read(
    body: &[u8],
    command: Command,
    bounds: Bounds,
    decoded: &mut Decoded,
    request: &mut Request,
) -> Result<(), Error> {
    request.begin(command);
    if body.starts_with(&[0xFE, 0xFF]) || body.starts_with(&[0xFF, 0xFE]) {
        return Err(NOT_UTF8);
    }
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    let text = match std::str::from_utf8(body) {
        Ok(text) => text,
        Err(_) if declares_another_encoding(body) => return Err(NOT_UTF8),
        Err(error) => {
            return Err(Fault::xml("not UTF-8", error.valid_up_to()).into_error(body));
        }
    };
    document(text, bounds, decoded, request).map_err(|fault| fault.into_error(body))
}

fn document(
    text: &str,
    bounds: Bounds,
    decoded: &mut Decoded,
    request: &mut Request,
) -> Result<(), Fault> {
    let mut cursor = Cursor::new(text);
    cursor.declaration()?;
    if let Some(at) = forbidden(text) {
        return Err(Fault::xml("a character that XML forbids", at));
    }
    cursor.skip()?;
    let root = cursor.tag(false)?;
    if root.name() != "request" || root.kind == Kind::End {
        return Err(root.unexpected("expected <request>"));
    }
    request.atomic = atomic(&root, &mut decoded.other)?;
    if root.kind == Kind::Start {
        items(&mut cursor, bounds, decoded, request)?;
    }
    if cursor.skip()? {
        return Err(Fault::xml("expected nothing after </request>", cursor.at()));
    }
    if request.items().is_empty() {
        return Err(Fault::document("expected at least one <item>", "", root.at() - 1));
    }
    Ok(())
}

fn atomic(root: &Tag<'_>, decoded: &mut String) -> Result<bool, Fault> {
    let mut atomic = None;
    root.attributes(|name, name_at, raw, at| {
        if name != "atomic" {
            return Err(unknown("unknown attribute: expected atomic", name, name_at));
        }
        if atomic.is_some() {
            return Err(repeated(name, name_at));
        }
        atomic = Some(flag(value(raw, at, decoded)?, at)?);
        Ok(())
    })?;
    Ok(atomic.unwrap_or(false))
}

fn items(
    cursor: &mut Cursor<'_>,
    bounds: Bounds,
    decoded: &mut Decoded,
    request: &mut Request,
) -> Result<(), Fault> {
    let max = match request.atomic {
        true => bounds.max_atomic_items.min(bounds.max_items),
        false => bounds.max_items,
    };
    loop {
        cursor.skip()?;
        let tag = cursor.tag(true)?;
        match (tag.kind, tag.name()) {
            (Kind::Start | Kind::Empty, "item") => {}
            (Kind::End, "request") => return Ok(()),
            (Kind::End, _) => return Err(mismatched(&tag, "expected </request>")),
            _ => return Err(tag.unexpected("expected <item>")),
        }
        if request.items().len() >= max as usize {
            let error = Error::TooManyItems { max, atomic: request.atomic };
            return Err(Fault::Whole(error));
        }
        item(&tag, decoded, request)?;
        if tag.kind == Kind::Start {
            end_of_item(cursor)?;
        }
    }
}

fn end_of_item(cursor: &mut Cursor<'_>) -> Result<(), Fault> {
    cursor.skip()?;
    let tag = cursor.tag(true)?;
    match (tag.kind, tag.name()) {
        (Kind::End, "item") => Ok(()),
        (Kind::End, _) => Err(mismatched(&tag, "expected </item>")),
        _ => Err(tag.unexpected("expected </item>")),
    }
}

fn item(tag: &Tag<'_>, decoded: &mut Decoded, request: &mut Request) -> Result<(), Fault> {
    let Decoded { biz: biz_text, key: key_text, other } = decoded;
    // Split, so that each can be borrowed by the value decoded into it.
    let (mut biz_text, mut key_text) = (Some(biz_text), Some(key_text));
    let (mut biz, mut key, mut count, mut force, mut detail) = (None, None, None, None, None);
    tag.attributes(|name, name_at, raw, at| {
        let repeated = || repeated(name, name_at);
        match name {
            "biz" => biz = Some(value(raw, at, biz_text.take().ok_or_else(repeated)?)?),
            "key" => key = Some(value(raw, at, key_text.take().ok_or_else(repeated)?)?),
            "count" if count.is_some() => return Err(repeated()),
            "count" => count = Some(form::count(value(raw, at, other)?)),
            "force" if force.is_some() => return Err(repeated()),
            "force" => force = Some(flag(value(raw, at, other)?, at)?),
            "detail" if detail.is_some() => return Err(repeated()),
            "detail" => detail = Some(flag(value(raw, at, other)?, at)?),
            _ => {
                let what = "unknown attribute: expected biz, key, count, force or detail";
                return Err(unknown(what, name, name_at));
            }
        }
        Ok(())
    })?;
    let (Some(biz), Some(key)) = (biz, key) else {
        let what = "expected both of the attributes biz and key";
        return Err(Fault::document(what, "", tag.at() - 1));
    };
    let (force, detail) = (force.unwrap_or(false), detail.unwrap_or(false));
    request.push(biz, key, count.unwrap_or(Some(1)), force, detail);
    Ok(())
}

#[cold]
fn mismatched(tag: &Tag<'_>, what: &'static str) -> Fault {
    Fault::found_xml(what, tag.name(), tag.at())
}

#[cold]
fn repeated(name: &str, at: usize) -> Fault {
    Fault::found_xml("an attribute stands more than once", name, at)
}

#[cold]
fn unknown(what: &'static str, name: &str, at: usize) -> Fault {
    if is_name(name) {
        Fault::document(what, name, at)
    } else {
        Fault::found_xml("expected the name of an attribute", name, at)
    }
}

fn flag(text: &str, at: usize) -> Result<bool, Fault> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(Fault::document("expected true or false", text, at)),
    }
}
