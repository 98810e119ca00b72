//! The formats of documents, and what they share.
//!
//! Invariant: in every format a document is UTF-8 text, with the same bounds and the same words for
//! an item's error.

use super::Error;
use frs_conf::Http;
use frs_engine::answer::{Field, FieldKind};

/// A format of documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs)]
pub enum Format {
    Xml,
    Json,
}

impl Format {
    /// The format of a media type, in any letter case, without parameters.
    pub(super) fn of_media_type(essence: &[u8]) -> Option<Format> {
        let is = |name: &[u8]| essence.eq_ignore_ascii_case(name);
        match essence.len() {
            15 if is(b"application/xml") => Some(Format::Xml),
            8 if is(b"text/xml") => Some(Format::Xml),
            16 if is(b"application/json") => Some(Format::Json),
            _ => None,
        }
    }
}

/// How many items a request may have.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Items of a request.
    pub max_items: u32,
    /// Items of an atomic request.
    pub max_atomic_items: u32,
}

impl Bounds {
    /// The bound for an atomic request, or for another one.
    pub(super) fn items(self, atomic: bool) -> u32 {
        if atomic { self.max_atomic_items.min(self.max_items) } else { self.max_items }
    }
}

impl From<&Http> for Bounds {
    fn from(http: &Http) -> Bounds {
        Bounds { max_items: http.max_items, max_atomic_items: http.max_atomic_items }
    }
}

/// Values decoded from a document, in reused buffers.
#[derive(Debug, Default)]
pub struct Decoded {
    pub(super) biz: String,
    pub(super) key: String,
    pub(super) other: String,
}

/// The most bytes of an item's answer, and of each `<limit>` in it, without what is echoed of the
/// item and the windows of a history: all fields with their longest values.
pub const ANSWER_BYTES: usize = {
    let (mut bytes, mut at) = (b"{'biz':'','key':'','limits':[]},".len(), 0);
    while at < Field::ALL.len() {
        bytes += b"$9\r\n\r\n".len() + Field::NAMES[at].len() + longest(Field::KINDS[at]).len();
        at += 1;
    }
    bytes
};
/// The most bytes of a window in a history: ten digits, as an integer of RESP.
pub const WINDOW_BYTES: usize = 13;
/// The most bytes that one byte of a request becomes when it is echoed: `"` as `&quot;`.
pub const ECHO_FACTOR: usize = 6;
/// The shortest item of a request, without what is echoed of it: `{"biz":1,"key":1},`.
pub const ITEM_BYTES: usize = 18;

/// The longest value of a kind in RESP, which writes most. The windows of a history count alone.
const fn longest(kind: FieldKind) -> &'static [u8] {
    match kind {
        FieldKind::Truth | FieldKind::Mark => b"false",
        FieldKind::Index => b":65535\r\n",
        FieldKind::Number | FieldKind::Steady => b":18446744073709551615\r\n",
        FieldKind::Thousandths => b"$11\r\n4294967.295\r\n",
        FieldKind::List => b"$5\r\nallow\r\n",
        FieldKind::Word => b"$15\r\nsliding-counter\r\n",
        FieldKind::Text => b"$32\r\nno-word-of-map.xml-is-longer-up.\r\n",
        FieldKind::Numbers => b"*366\r\n",
    }
}

/// The error of a document in another encoding.
pub(super) const NOT_UTF8: Error = Error::BadContentType("expected a document in UTF-8");

/// The error of an id of a whole request that is not atomic.
pub(super) const ONCE_OF_ATOMIC: &str =
    "once on a request that is not atomic: expected atomic=\"true\", or once on each item";

/// A document without its byte order mark. The mark may show that it is in another encoding.
pub(super) fn without_mark(body: &[u8]) -> Result<&[u8], Error> {
    if body.starts_with(&[0xFE, 0xFF]) || body.starts_with(&[0xFF, 0xFE]) {
        return Err(NOT_UTF8);
    }
    Ok(body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body))
}
