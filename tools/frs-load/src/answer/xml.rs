//! Answers in XML.
//!
//! Invariant: only a well-formed document of the protocol's shape is accepted, to its last byte.

use std::borrow::Cow;

use quick_xml::Reader;
use quick_xml::escape::unescape;
use quick_xml::events::{BytesStart, Event};

use super::plain_xml::{Plain, PlainItems};
use super::said::{RequestError, Said, Value};

/// Passes each item of a response to `judge`.
pub fn read_items(
    body: &[u8],
    mut judge: impl FnMut(&Said<'_>) -> Result<(), String>,
) -> Result<(), String> {
    let mut judged: usize = 0;
    if let Some(mut items) = PlainItems::of(body) {
        let mut said = Said::default();
        loop {
            match items.next(&mut said) {
                Plain::Item => judge(&said)?,
                Plain::End => return Ok(()),
                Plain::Other => break,
            }
            judged += 1;
        }
    }
    let mut skipped = 0;
    read_any(body, |said| {
        if skipped < judged {
            skipped += 1;
            return Ok(());
        }
        judge(said)
    })
}

/// As [`read_items`], for a document of any form.
fn read_any(
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;

    const ITEM: &str = "<item biz=\"b\" key=\"k0\" limited=\"false\" limit=\"1\" used=\"1\" \
                        max=\"5\" remaining=\"4\" reset=\"60000\"/>";

    /// What a reader passes on, and its result.
    fn told(
        read: impl FnOnce(&mut dyn FnMut(&Said<'_>) -> Result<(), String>) -> Result<(), String>,
    ) -> (Vec<String>, Result<(), String>) {
        let mut items = Vec::new();
        let result = read(&mut |said| {
            items.push(format!("{said:?}"));
            if items.len() > 3 { Err("enough".to_owned()) } else { Ok(()) }
        });
        (items, result)
    }

    fn assert_same(document: &[u8]) -> Result<(), TestCaseError> {
        let quickly = told(|judge| read_items(document, judge));
        let fully = told(|judge| read_any(document, judge));
        prop_assert_eq!(quickly, fully, "{}", String::from_utf8_lossy(document));
        Ok(())
    }

    #[test]
    fn what_the_server_writes_is_read_without_a_reader_of_xml() {
        let document = format!("<response>{ITEM}{ITEM}</response>\n");
        let mut items = PlainItems::of(document.as_bytes()).expect("a response");
        let mut said = Said::default();
        let read = [(); 3].map(|()| items.next(&mut said));
        assert_eq!(read, [Plain::Item, Plain::Item, Plain::End]);
    }

    proptest! {
        /// Both ways to read an answer say the same of it, whatever it is.
        #[test]
        fn a_quick_look_sees_what_a_reader_of_xml_sees(
            items in 0usize..5,
            pieces in proptest::collection::vec((any::<Index>(), 0usize..3, prop_oneof![
                any::<u8>().prop_map(|byte| vec![byte]),
                prop_oneof![
                    Just(" "), Just("\""), Just("/>"), Just("<"), Just(">"), Just("&amp;"),
                    Just("'"), Just("="), Just(" key=\"k1\""), Just("</response>"), Just("\n"),
                    Just("<!-- -->"), Just("\u{e9}"), Just("<item/>"), Just("&"), Just("\t"),
                ].prop_map(|text| text.as_bytes().to_vec()),
            ]), 0..4),
        ) {
            let document = format!("<response>{}</response>\n", ITEM.repeat(items));
            let mut document = document.into_bytes();
            for (place, cut, piece) in pieces {
                let place = place.index(document.len());
                let end = document.len().min(place + cut);
                document.splice(place..end, piece);
            }
            assert_same(&document)?;
        }
    }
}
