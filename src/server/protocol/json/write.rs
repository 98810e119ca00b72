//! [`Answers`] to a response document, an [`Error`] to an error document.
//!
//! Invariant: for every request the output is JSON, and says what the XML document would:
//! characters that XML forbids become U+FFFD here too.

use std::fmt;

use crate::protocol::fields::Document;
use crate::protocol::xml::is_char;
use crate::protocol::{Error, Line, Pen};
use frs_base::scan::{Short, has_any, marks};
use frs_conf::Listen;
use frs_engine::{Answer, Answers, Item, ItemNames, Request};

/// Members.
struct Json;

impl Document for Json {
    const AHEAD: &'static [u8] = b",\"";
    const BEHIND: &'static [u8] = b"\":";
    const QUOTE: &'static [u8] = b"\"";
    const NUMBERS: [&'static [u8]; 3] = [b"[", b",", b"]"];

    fn write_escaped(out: &mut Vec<u8>, text: &str) {
        write_escaped(out, text);
    }
}

/// Appends the response document of `request`. `line` is scratch.
pub fn write(out: &mut Vec<u8>, line: &mut Line, request: &Request, answers: &Answers) {
    let mut pen = line.pen();
    pen.text(b"{");
    if answers.refused {
        pen.text(b"\"refused\":true,");
    }
    pen.text(b"\"items\":[");
    for (index, (item, answer)) in request.items().iter().zip(&answers.items).enumerate() {
        pen.make_room(out);
        if index > 0 {
            pen.text(b",");
        }
        match request.short_names(item) {
            Some(ItemNames { biz, key }) if is_plain(biz) && is_plain(key) => {
                pen.text(b"{\"biz\":");
                pen.echo(biz, item.biz_is_number);
                pen.text(b",\"key\":");
                pen.echo(key, item.key_is_number);
            }
            _ => {
                pen.flush(out);
                write_names(out, request, item);
            }
        }
        match &answer.result {
            Err(error) => {
                pen.text(b",\"error\":\"");
                pen.text(error.word().as_bytes());
                pen.text(b"\"");
            }
            Ok(verdict) => {
                pen.fields::<Json>(out, answers.judged(answer, verdict));
                if !answer.details.is_empty() {
                    pen.aside(|pen| write_limits(out, pen, answers, answer));
                }
            }
        }
        pen.text(b"}");
    }
    pen.text(b"]}\n");
    pen.flush(out);
}

/// Whether a name needs no escape.
#[inline(always)]
fn is_plain(name: Short<'_>) -> bool {
    !name.has_marked(|word| marks(word, SUSPECT))
}

#[inline(never)]
fn write_names(out: &mut Vec<u8>, request: &Request, item: &Item) {
    out.extend_from_slice(b"{\"biz\":");
    write_echo(out, request.biz(item), item.biz_is_number);
    out.extend_from_slice(b",\"key\":");
    write_echo(out, request.key(item), item.key_is_number);
}

#[inline(never)]
fn write_limits(out: &mut Vec<u8>, pen: &mut Pen<'_>, answers: &Answers, answer: &Answer) {
    pen.text(b",\"limits\":[");
    for (index, limit) in answers.limits(answer).enumerate() {
        if index > 0 {
            pen.text(b",");
        }
        pen.flush(out);
        pen.text(b"{");
        pen.limit_fields::<Json>(out, &limit);
        pen.text(b"}");
    }
    pen.flush(out);
    pen.text(b"]");
}

/// Appends the document of an error of the whole request, which may name the address of the admin
/// plane. `line` is scratch.
pub fn write_error(out: &mut Vec<u8>, line: &mut Line, error: &Error, admin: Option<&Listen>) {
    let mut pen = line.pen();
    pen.text(b"{\"error\":{\"code\":\"");
    pen.text(error.code().word().as_bytes());
    pen.text(b"\"");
    if let Some(position) = error.position() {
        pen.text(b",\"line\":");
        pen.number(u64::from(position.line));
        pen.text(b",\"column\":");
        pen.number(u64::from(position.column));
    }
    pen.text(b",\"message\":\"");
    pen.flush(out);
    // Writing to a Vec never fails.
    let _ = error.write_words(&mut Words(out), admin);
    out.extend_from_slice(b"\"}}\n");
}

/// Escapes what is written to it.
struct Words<'a>(&'a mut Vec<u8>);

impl fmt::Write for Words<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        write_escaped(self.0, text);
        Ok(())
    }
}

/// Appends a biz or key as the request had it: a number stays a number.
fn write_echo(out: &mut Vec<u8>, text: &str, is_number: bool) {
    if is_number {
        out.extend_from_slice(text.as_bytes());
    } else {
        write_string(out, text);
    }
}

/// Appends a string with its quotation marks.
pub fn write_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    write_escaped(out, text);
    out.push(b'"');
}

/// Bytes that may have to be replaced, besides control characters (0xEF begins U+FFFE and U+FFFF).
const SUSPECT: &[u8; 3] = b"\"\\\xEF";

/// Appends the content of a string.
#[inline]
fn write_escaped(out: &mut Vec<u8>, text: &str) {
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
            '"' => "\\\"",
            '\\' => "\\\\",
            '\t' => "\\t",
            '\n' => "\\n",
            '\r' => "\\r",
            c if is_char(c) => c.encode_utf8(&mut utf8),
            _ => "\u{FFFD}",
        };
        out.extend_from_slice(replacement.as_bytes());
    }
}

impl Pen<'_> {
    /// Like [`write_echo`], for a short text without anything to escape.
    #[inline(always)]
    fn echo(&mut self, text: Short<'_>, is_number: bool) {
        if !is_number {
            self.text(b"\"");
        }
        self.short_text(text);
        if !is_number {
            self.text(b"\"");
        }
    }
}
