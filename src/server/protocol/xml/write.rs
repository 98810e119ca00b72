//! [`Answers`] to a response document, an [`Error`] to an error document.
//!
//! Invariant: for every request the output is well-formed. Names and keys are escaped, and
//! characters that XML forbids become U+FFFD.

use std::fmt;

use super::value::{is_char, may_be_special};
use crate::protocol::{Error, Line, Pen};
use frs_base::scan::{Short, has_any};
use frs_conf::Listen;
use frs_engine::{Answer, Answers, Figures, Item, ItemNames, LimitFigures, List, Request, Verdict};

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
                pen.verdict(verdict);
                if let Some(word) = answers.action(answer) {
                    pen.text(b"\" action=\"");
                    pen.flush(out);
                    write_escaped(out, word);
                }
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
    for limit in answers.details.get(answer.details.clone()).unwrap_or_default() {
        pen.limit(limit);
        if let Some(totals) = answers.details.totals(limit) {
            pen.history_attribute(out, totals);
        }
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

impl Pen<'_> {
    /// The rest of an item's tag after its key.
    #[inline(always)]
    fn verdict(&mut self, verdict: &Verdict) {
        self.text(b"\" limited=\"");
        self.truth(verdict.limited);
        // If no limit judged, there are no figures.
        if verdict.limit != 0 {
            self.text(b"\" limit=\"");
            self.number(u64::from(verdict.limit));
            self.figures(&verdict.figures);
        }
        if let (true, Some(retry_ms)) = (verdict.limited, verdict.retry_ms) {
            self.retry(retry_ms);
        }
        if verdict.banned {
            self.text(b"\" banned=\"true");
        }
        let is_marked = verdict.shadow | verdict.degraded;
        let is_told = verdict.list.is_some() | verdict.shared.is_some();
        if is_marked | is_told | verdict.weight.is_some() {
            self.aside(|pen| pen.rare_attributes(verdict));
        }
    }

    /// Attributes that few items have.
    #[cold]
    fn rare_attributes(&mut self, verdict: &Verdict) {
        if let Some(thousandths) = verdict.weight {
            self.text(b"\" weight=\"");
            self.thousandths(thousandths);
        }
        if verdict.shadow {
            self.text(b"\" shadow=\"true");
        }
        if verdict.degraded {
            self.text(b"\" degraded=\"true");
        }
        if let Some(heard) = verdict.shared {
            self.text(b"\" shared=\"true");
            if let Some(age_ms) = heard.age_ms() {
                self.text(b"\" age=\"");
                self.number(age_ms);
            }
        }
        match verdict.list {
            Some(List::Allow) => self.text(b"\" list=\"allow"),
            Some(List::Deny) => self.text(b"\" list=\"deny"),
            None => {}
        }
    }

    /// The tag of a limit in the detail, with its last attribute open.
    fn limit(&mut self, limit: &LimitFigures) {
        self.text(b"<limit index=\"");
        self.number(u64::from(limit.index));
        self.text(b"\" policy=\"");
        self.text(limit.policy.as_bytes());
        self.figures(&limit.figures);
        if let Some(retry_ms) = limit.retry_ms {
            self.retry(retry_ms);
        }
        if let Some(thousandths) = limit.error_thousandths {
            self.text(b"\" standard-error=\"");
            self.thousandths(thousandths.into());
        }
    }

    /// The totals of the windows before, of which there may be many.
    fn history_attribute(&mut self, out: &mut Vec<u8>, totals: &[u32]) {
        self.text(b"\" history=\"");
        for (nth, &total) in totals.iter().enumerate() {
            self.make_room(out);
            if nth > 0 {
                self.text(b" ");
            }
            self.number(total.into());
        }
    }

    /// Each attribute closes the one before it, and leaves its own open.
    #[inline(always)]
    fn figures(&mut self, figures: &Figures) {
        self.text(b"\" used=\"");
        self.number(figures.used);
        self.text(b"\" max=\"");
        self.repeated(figures.max);
        self.text(b"\" remaining=\"");
        self.number(figures.remaining);
        if let Some(reset_ms) = figures.reset_ms {
            self.text(b"\" reset=\"");
            self.number(reset_ms);
        }
    }

    #[inline(always)]
    fn retry(&mut self, retry_ms: u64) {
        self.text(b"\" retry=\"");
        self.number(retry_ms);
    }
}
