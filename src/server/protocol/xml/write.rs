//! [`Answers`] to a response document, an [`Error`] to an error document.
//!
//! Invariant: for every request the output is well-formed. Names and keys are escaped, and
//! characters that XML forbids become U+FFFD.

use std::fmt;

use super::value::{is_char, may_be_special};
use crate::protocol::fields::Document;
use crate::protocol::{Error, Line, Pen};
use frs_base::scan::{Short, has_any};
use frs_conf::Listen;
use frs_engine::{Answer, Answers, Item, ItemNames, Request};

/// Attributes. Each closes the one before it, and leaves its own open.
struct Xml;

impl Document for Xml {
    const AHEAD: &'static [u8] = b"\" ";
    const BEHIND: &'static [u8] = b"=\"";
    const QUOTE: &'static [u8] = b"";
    const NUMBERS: [&'static [u8]; 3] = [b"", b" ", b""];

    fn write_escaped(out: &mut Vec<u8>, text: &str) {
        write_escaped(out, text);
    }
}

/// Appends the response document of `request`. `line` is scratch.
pub fn write(out: &mut Vec<u8>, line: &mut Line, request: &Request, answers: &Answers) {
    let mut pen = line.pen();
    pen.text(b"<response");
    if answers.refused {
        pen.text(b" refused=\"true\"");
    }
    pen.text(b">");
    for (item, answer) in request.items().iter().zip(&answers.items) {
        pen.make_room(out);
        match request.short_names(item) {
            Some(ItemNames { biz, key }) if request.is_plain || is_plain(biz) && is_plain(key) => {
                pen.text(b"<item biz=\"");
                pen.short_text(biz);
                pen.text(b"\" key=\"");
                pen.short_text(key);
            }
            _ => {
                pen.flush(out);
                write_names(out, request, item);
            }
        }
        match &answer.result {
            Err(error) => {
                pen.text(b"\" error=\"");
                pen.text(error.word().as_bytes());
                pen.text(b"\"/>");
            }
            Ok(verdict) => {
                pen.fields::<Xml>(out, answers.judged(answer, verdict));
                if answer.details.is_empty() {
                    pen.text(b"\"/>");
                } else {
                    pen.text(b"\">");
                    pen.aside(|pen| write_limits(out, pen, answers, answer));
                }
            }
        }
    }
    pen.text(b"</response>\n");
    pen.flush(out);
}

/// Whether a name needs no escape. The check by the word decides most names.
#[inline(always)]
fn is_plain(name: Short<'_>) -> bool {
    !name.has_marked(may_be_special) || is_plain_after_all(name.text())
}

#[cold]
#[inline(never)]
fn is_plain_after_all(name: &[u8]) -> bool {
    !has_any(name, SUSPECT)
}

#[inline(never)]
fn write_names(out: &mut Vec<u8>, request: &Request, item: &Item) {
    out.extend_from_slice(b"<item biz=\"");
    write_escaped(out, request.biz(item));
    out.extend_from_slice(b"\" key=\"");
    write_escaped(out, request.key(item));
}

#[inline(never)]
fn write_limits(out: &mut Vec<u8>, pen: &mut Pen<'_>, answers: &Answers, answer: &Answer) {
    pen.flush(out);
    for limit in answers.limits(answer) {
        pen.text(b"<limit");
        pen.limit_fields::<Xml>(out, &limit);
        pen.text(b"\"/>");
        pen.flush(out);
    }
    pen.text(b"</item>");
}

/// Appends the document of an error of the whole request, which may name the address of the admin
/// plane. `line` is scratch.
pub fn write_error(out: &mut Vec<u8>, line: &mut Line, error: &Error, admin: Option<&Listen>) {
    let mut pen = line.pen();
    pen.text(b"<error code=\"");
    pen.text(error.code().word().as_bytes());
    if let Some(position) = error.position() {
        pen.text(b"\" line=\"");
        pen.number(u64::from(position.line));
        pen.text(b"\" column=\"");
        pen.number(u64::from(position.column));
    }
    pen.text(b"\">");
    pen.flush(out);
    // Writing to a Vec never fails.
    let _ = error.write_words(&mut Words(out), admin);
    out.extend_from_slice(b"</error>\n");
}

/// Escapes what is written to it.
struct Words<'a>(&'a mut Vec<u8>);

impl fmt::Write for Words<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        write_escaped(self.0, text);
        Ok(())
    }
}

/// Bytes that may have to be replaced, besides control characters (0xEF begins U+FFFE and U+FFFF).
const SUSPECT: &[u8; 5] = b"&<>\"\xEF";

/// Appends text for an attribute's value.
pub fn write_escaped(out: &mut Vec<u8>, text: &str) {
    if has_any(text.as_bytes(), SUSPECT) {
        escape(out, text);
    } else {
        out.extend_from_slice(text.as_bytes());
    }
}

#[cold]
fn escape(out: &mut Vec<u8>, text: &str) {
    let mut utf8 = [0; 4];
    for c in text.chars() {
        let replacement = match c {
            '&' => "&amp;",
            '<' => "&lt;",
            '>' => "&gt;",
            '"' => "&quot;",
            // Unescaped, they would be read back as spaces.
            '\t' => "&#9;",
            '\n' => "&#10;",
            '\r' => "&#13;",
            c if is_char(c) => c.encode_utf8(&mut utf8),
            _ => "\u{FFFD}",
        };
        out.extend_from_slice(replacement.as_bytes());
    }
}
