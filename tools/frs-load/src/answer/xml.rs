//! Answers in XML.
//!
//! Invariant: only a well-formed document of the protocol's shape is accepted, to its last byte.

use std::borrow::Cow;

use quick_xml::Reader;
use quick_xml::escape::unescape;
use quick_xml::events::{BytesStart, Event};

use super::said::{RequestError, Said, Value};

/// Passes each item of a response to `judge`.
pub fn read_items(
    body: &[u8],
    mut judge: impl FnMut(&Said<'_>) -> Result<(), String>,
) -> Result<(), String> {
    let mut reader = Reader::from_str(text(body)?);
    let response = root(&mut reader, "response")?;
    if !response.attributes_raw().trim_ascii().is_empty() {
        return Err(format!("expected no attribute of the response, found {:?}", &*response));
    }
    loop {
        match next(&mut reader)? {
            Event::Empty(tag) if name(&tag) == "item" => item(&tag, &mut judge)?,
            Event::Start(tag) if name(&tag) == "item" => {
                item(&tag, &mut judge)?;
                match next(&mut reader)? {
                    Event::End(_) => {}
                    other => {
                        return Err(format!("no detail was asked for, found {}", shown(&other)));
                    }
                }
            }
            Event::End(_) => return end(&mut reader),
            other => return Err(format!("expected <item>, found {}", shown(&other))),
        }
    }
}

/// The error of the whole request.
pub fn read_error(body: &[u8]) -> Result<RequestError, String> {
    let mut reader = Reader::from_str(text(body)?);
    let root = root(&mut reader, "error")?;
    let code = root.try_get_attribute("code").map_err(|error| not_xml(&error))?;
    let code = code.ok_or("<error> without a code")?.value.into_owned();
    let mut words = String::new();
    loop {
        match reader.read_event().map_err(|error| not_xml(&error))? {
            Event::Text(part) => words.push_str(&part),
            Event::GeneralRef(_) => words.push('…'),
            Event::End(_) => break,
            other => return Err(format!("expected words, found {}", shown(&other))),
        }
    }
    end(&mut reader).map(|()| RequestError { code, words })
}

fn root<'b>(reader: &mut Reader<&'b [u8]>, expected: &str) -> Result<BytesStart<'b>, String> {
    match next(reader)? {
        Event::Start(tag) if name(&tag) == expected => Ok(tag),
        other => Err(format!("expected <{expected}>, found {}", shown(&other))),
    }
}

fn item<'b>(
    tag: &BytesStart<'b>,
    judge: &mut impl FnMut(&Said<'_>) -> Result<(), String>,
) -> Result<(), String> {
    let mut said = Said::default();
    for attribute in tag.attributes() {
        let attribute = attribute.map_err(|error| not_xml(&error))?;
        said.take(attribute.key.into_inner(), Value::Xml(unescaped(attribute.value)?))?;
    }
    judge(&said)
}

fn unescaped(value: Cow<'_, str>) -> Result<Cow<'_, str>, String> {
    match value {
        Cow::Borrowed(text) => unescape(text),
        Cow::Owned(text) => unescape(&text).map(|text| Cow::Owned(text.into_owned())),
    }
    .map_err(|error| not_xml(&error))
}

/// The next event other than white space.
fn next<'b>(reader: &mut Reader<&'b [u8]>) -> Result<Event<'b>, String> {
    loop {
        match reader.read_event().map_err(|error| not_xml(&error))? {
            Event::Text(text) if text.trim_ascii().is_empty() => {}
            event => return Ok(event),
        }
    }
}

fn end(reader: &mut Reader<&[u8]>) -> Result<(), String> {
    match next(reader)? {
        Event::Eof => Ok(()),
        other => Err(format!("expected nothing behind the document, found {}", shown(&other))),
    }
}

fn shown(event: &Event<'_>) -> String {
    match event {
        Event::Eof => "the end".to_owned(),
        other => format!("{:?}", &**other),
    }
}

fn name<'t>(tag: &'t BytesStart<'_>) -> &'t str {
    tag.name().into_inner()
}

fn text(body: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(body).map_err(|error| not_xml(&error))
}

fn not_xml(error: &dyn std::fmt::Display) -> String {
    format!("no XML: {error}")
}
