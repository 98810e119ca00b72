//! What is XML's own in the documents that frs writes.
//!
//! Invariant: for every request the output is well-formed. Names and keys are escaped, and
//! characters that XML forbids become U+FFFD.

use super::value::{is_char, may_be_special};
use crate::protocol::document_format::Document;
use frs_base::scan::{Short, has_any};
use frs_engine::Request;

/// Each attribute closes the one before it, and leaves its own open.
pub enum Xml {}

impl Document for Xml {
    const RESPONSE: &'static [u8] = b"<response>";
    const REFUSED_RESPONSE: &'static [u8] = b"<response refused=\"true\">";
    const RESPONSE_END: &'static [u8] = b"</response>\n";
    const BETWEEN: &'static [u8] = b"";
    const NAMES: [&'static [u8]; 2] = [b"<item biz=\"", b"\" key=\""];
    const ITEM_END: &'static [u8] = b"\"/>";
    const LIMITS: [&'static [u8]; 2] = [b"\">", b"</item>"];
    const LIMIT: [&'static [u8]; 2] = [b"<limit", b"\"/>"];
    const ERROR: [&'static [u8]; 3] = [b"<error code=\"", b"\">", b"</error>\n"];
    const AHEAD: &'static [u8] = b"\" ";
    const BEHIND: &'static [u8] = b"=\"";
    const QUOTE: &'static [u8] = b"";
    const NUMBERS: [&'static [u8]; 3] = [b"", b" ", b""];

    #[inline(always)]
    fn are_plain(request: &Request, [biz, key]: [Short<'_>; 2]) -> bool {
        request.is_plain || is_plain(biz) && is_plain(key)
    }

    fn write_escaped(out: &mut Vec<u8>, text: &str) {
        write_escaped(out, text);
    }
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
