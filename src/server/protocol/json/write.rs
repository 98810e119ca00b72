//! What is JSON's own in the documents that frs writes.
//!
//! Invariant: for every request the output is JSON, and says what the XML document would:
//! characters that XML forbids become U+FFFD here too.

use crate::protocol::document_format::Document;
use crate::protocol::xml::is_char;
use frs_base::scan::{Short, has_any, marks};
use frs_engine::Request;

/// A comma is ahead of each member but the first of an object.
pub enum Json {}

impl Document for Json {
    const RESPONSE: &'static [u8] = b"{\"items\":[";
    const REFUSED_RESPONSE: &'static [u8] = b"{\"refused\":true,\"items\":[";
    const RESPONSE_END: &'static [u8] = b"]}\n";
    const BETWEEN: &'static [u8] = b",";
    const NAMES: [&'static [u8]; 2] = [b"{\"biz\":", b",\"key\":"];
    const ITEM_END: &'static [u8] = b"}";
    const LIMITS: [&'static [u8]; 2] = [b",\"limits\":[", b"]}"];
    const LIMIT: [&'static [u8]; 2] = [b"{", b"}"];
    const ERROR: [&'static [u8]; 3] = [b"{\"error\":{\"code\":\"", b",\"message\":\"", b"\"}}\n"];
    const AHEAD: &'static [u8] = b",\"";
    const BEHIND: &'static [u8] = b"\":";
    const QUOTE: &'static [u8] = b"\"";
    const NUMBERS: [&'static [u8]; 3] = [b"[", b",", b"]"];

    #[inline(always)]
    fn are_plain(_: &Request, [biz, key]: [Short<'_>; 2]) -> bool {
        is_plain(biz) && is_plain(key)
    }

    #[inline]
    fn write_escaped(out: &mut Vec<u8>, text: &str) {
        if has_any(text.as_bytes(), SUSPECT) {
            escape(out, text);
        } else {
            out.extend_from_slice(text.as_bytes());
        }
    }
}

/// Whether a name needs no escape.
#[inline(always)]
fn is_plain(name: Short<'_>) -> bool {
    !name.has_marked(|word| marks(word, SUSPECT))
}

/// Appends a string with its quotation marks.
pub fn write_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    Json::write_escaped(out, text);
    out.push(b'"');
}

/// Bytes that may have to be replaced, besides control characters (0xEF begins U+FFFE and U+FFFF).
const SUSPECT: &[u8; 3] = b"\"\\\xEF";

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
