//! Frames as bytes. All numbers are little-endian.
//!
//! | bytes | content |
//! | --- | --- |
//! | 4 | bytes that follow |
//! | 1 | kind |
//! | … | body |
//!
//! | kind | frame | body |
//! | --- | --- | --- |
//! | 1 | Hello | hello: format 4, owner 4, nonce 16, name |
//! | 2 | Welcome | hello, proof 32 |
//! | 3 | Proof | proof 32 |
//! | 4 | Accepted | |
//! | 5 | Refused | text |
//! | 6 | Groups | count 4, each: key bytes 4, name |
//! | 7 | Records | ordinal 8, count 4, records |
//! | 8 | Kept | ordinal 8, newer 4, count 4, indices 4 each |
//! | 9 | Digests | compare 4, part bits 1, first 4, last 1, group, count 4, each: sum 8, count 4 |
//! | 10 | Differ | compare 4, last 1, count 4, parts 4 each |
//! | 11 | Compared | group |
//! | 12 | Ask | id 8, key |
//! | 13 | Answer | id 8, is there 1, record if it is there |
//! | 14 | Epochs | count 4, each: biz 4, epoch 8 |
//! | 15 | Clock | sent 8 |
//! | 16 | Clocks | sent 8, here 8 |
//! | 17 | Leaving | is leaving 1 |
//! | 18 | Left | |
//!
//! A text (name, group) is its length in 2 bytes and UTF-8 without control characters. A key is its
//! key word, 8 bytes, and the words of the key field that its length needs. A record is its
//! version, 16 bytes, its key, the number of words of its content in 2 bytes, and its content as
//! [`KeptRecord::encode`] makes it, with a CRC over key and content. No CRC covers its version.
//!
//! Invariant: one frame has one encoding, and what [`take`] returns, [`put`] encodes as it came. A
//! length or count is checked against its bound and against the bytes that have come before memory
//! is allocated for it. No bytes make [`take`] panic.

use frs_conf::key::MAX_KEY_WORDS;
use frs_engine::StoredKey;
use frs_store::layout::node;

use super::frame::{
    Digest, EpochOf, Frame, GroupName, Hello, NAME_MAX, PART_BITS_MAX, Proof, REASON_MAX, Record,
};
use crate::nodes::KeptRecord;

/// Most bytes of a frame, with its length.
pub const FRAME_MAX: usize = 1 << 20;
/// Most bytes of a frame before the handshake has ended, with its length.
pub const HANDSHAKE_FRAME_MAX: usize = 1 << 10;

/// The length before each frame.
const LENGTH: usize = 4;
/// The length and the kind.
const HEAD: usize = LENGTH + 1;
const COUNT: usize = 4;
const TEXT_HEAD: usize = 2;
const NAME: usize = TEXT_HEAD + NAME_MAX;
const HELLO_MAX: usize = 4 + 4 + 16 + NAME;
const VERSION: usize = 16;
const KEY_MIN: usize = 8;
/// Content words of a record: CRC, shape and flags, epoch, last use.
const CONTENT_WORDS_MIN: usize = 3;
const RECORD_MIN: usize = VERSION + KEY_MIN + 2 + 8 * CONTENT_WORDS_MIN;
const GROUP_MIN: usize = 4 + TEXT_HEAD;
const DIGEST: usize = 8 + 4;
const EPOCH_OF: usize = 4 + 8;

/// Most bytes of the records of one [`Frame::Records`], by [`record_bytes`].
pub const RECORDS_MAX: usize = FRAME_MAX - HEAD - 8 - COUNT;
/// Most digests of one [`Frame::Digests`].
pub const DIGESTS_MAX: usize = (FRAME_MAX - HEAD - 4 - 1 - 4 - 1 - NAME - COUNT) / DIGEST;
/// Most parts of one [`Frame::Differ`].
pub const PARTS_MAX: usize = (FRAME_MAX - HEAD - 4 - 1 - COUNT) / 4;
/// Most epochs of one [`Frame::Epochs`].
pub const EPOCHS_MAX: usize = (FRAME_MAX - HEAD - COUNT) / EPOCH_OF;

const _: () = {
    // Every answer to a frame fits a frame, and so does every frame of the handshake.
    assert!(HEAD + 8 + 4 + COUNT + 4 * (RECORDS_MAX / RECORD_MIN) <= FRAME_MAX);
    assert!(HEAD + HELLO_MAX + 32 <= HANDSHAKE_FRAME_MAX);
    assert!(HEAD + TEXT_HEAD + REASON_MAX <= HANDSHAKE_FRAME_MAX);
    // A record of the longest content that its count can tell fits a frame, with the longest key.
    assert!(VERSION + KEY_MIN + 8 * MAX_KEY_WORDS + 2 + 8 * u16::MAX as usize <= RECORDS_MAX);
};

/// Bytes that are no frame of a peer. The connection cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadFrame {
    /// The length before the frame.
    #[error("found a frame of {found} bytes, expected {HEAD} to {most}")]
    Length {
        /// The bytes of the frame, with its length.
        found: u64,
        /// The bound.
        most: usize,
    },
    /// The kind.
    #[error("found a frame of kind {0}, expected 1 to 18")]
    Kind(u8),
    /// The body ends too early.
    #[error("found {found} more bytes in a frame, expected {expected} for {what}")]
    Short {
        /// The field.
        what: &'static str,
        /// The bytes that are left.
        found: usize,
        /// The bytes of the field.
        expected: u64,
    },
    /// The body goes on after its last field.
    #[error("found {0} bytes after the last field of a frame, expected none")]
    Trailing(usize),
    /// A number that is too large.
    #[error("found {what} of {found}, expected at most {most}")]
    Bound {
        /// The field.
        what: &'static str,
        /// The number.
        found: u64,
        /// The bound.
        most: u64,
    },
    /// A byte that is neither true nor false.
    #[error("found the byte {found} for {what}, expected 0 or 1")]
    Flag {
        /// The field.
        what: &'static str,
        /// The byte.
        found: u8,
    },
    /// A text that is not UTF-8, or has control characters.
    #[error("found other bytes in {0}, expected UTF-8 without control characters")]
    Text(&'static str),
    /// A key that no host stores.
    #[error("found the key word {0:#018x} and a field that no host stores, expected a key")]
    Key(u64),
    /// The content of a record.
    #[error(
        "found another CRC or other flags in the content of a record, expected those of its key"
    )]
    Content,
}

/// Appends a frame within the bounds of [`frame`](super::frame) and this file.
pub fn put(frame: &Frame, out: &mut Vec<u8>) {
    let start = out.len();
    put_u32(out, 0);
    out.push(0);
    out[start + LENGTH] = put_body(frame, out);
    let size = out.len() - start;
    debug_assert!(size <= FRAME_MAX, "a frame of {size} bytes");
    out[start..start + LENGTH].copy_from_slice(&((size - LENGTH) as u32).to_le_bytes());
}

/// Takes the first frame of these bytes, and returns it with the number of its bytes. `None` if it
/// is not complete yet.
///
/// # Errors
/// The bytes do not begin with a frame, or with a part of one.
pub fn take(bytes: &[u8]) -> Result<Option<(Frame, usize)>, BadFrame> {
    take_within(bytes, FRAME_MAX)
}

/// As [`take`], for a frame of at most `most` bytes: until the handshake has ended,
/// [`HANDSHAKE_FRAME_MAX`].
///
/// # Errors
/// As those of [`take`].
pub fn take_within(bytes: &[u8], most: usize) -> Result<Option<(Frame, usize)>, BadFrame> {
    let Some((&length, rest)) = bytes.split_first_chunk() else { return Ok(None) };
    let length = u64::from(u32::from_le_bytes(length));
    let size = length + LENGTH as u64;
    let most = most.min(FRAME_MAX);
    if length == 0 || size > most as u64 {
        return Err(BadFrame::Length { found: size, most });
    }
    let Some(frame) = rest.get(..length as usize) else { return Ok(None) };
    let mut body = Body { rest: frame };
    let kind = body.u8("the kind")?;
    let frame = body.frame(kind)?;
    match body.rest.len() {
        0 => Ok(Some((frame, size as usize))),
        trailing => Err(BadFrame::Trailing(trailing)),
    }
}

/// Bytes of a record in a frame.
pub fn record_bytes(record: &Record) -> usize {
    VERSION + KEY_MIN + 8 * key_words(record.key.key_word) + 2 + 8 * content_words(&record.content)
}

/// Words of the key field that a key needs.
fn key_words(key_word: u64) -> usize {
    usize::from(node::key_bytes(key_word)).div_ceil(8)
}

fn content_words(content: &KeptRecord) -> usize {
    CONTENT_WORDS_MIN + usize::from(content.ban_begun_ms.is_some()) + content.states.len()
}

/// Whether a host stores such a content. The CRC does not cover the flag by which the time of a ban
/// is known from a state.
fn is_content(content: &KeptRecord) -> bool {
    let has_ban = node::flags(content.check) & node::FLAG_BAN != 0;
    content.ban_begun_ms.is_none() || (has_ban && !content.states.is_empty())
}

fn is_key(key: &StoredKey) -> bool {
    let (bytes, form) = (node::key_bytes(key.key_word), node::key_form(key.key_word));
    key.key().is_some() && key.key_word == node::key_word(key.biz_id(), form, bytes)
}

/// Appends the body of a frame, and returns its kind.
fn put_body(frame: &Frame, out: &mut Vec<u8>) -> u8 {
    match frame {
        Frame::Hello(hello) => {
            put_hello(out, hello);
            1
        }
        Frame::Welcome(hello, Proof(proof)) => {
            put_hello(out, hello);
            out.extend_from_slice(proof);
            2
        }
        Frame::Proof(Proof(proof)) => {
            out.extend_from_slice(proof);
            3
        }
        Frame::Accepted => 4,
        Frame::Refused(reason) => {
            put_text(out, reason, REASON_MAX);
            5
        }
        Frame::Groups(groups) => {
            put_list(out, groups, |out, GroupName { name, key_bytes }| {
                put_u32(out, *key_bytes);
                put_text(out, name, NAME_MAX);
            });
            6
        }
        Frame::Records { ordinal, records } => {
            put_u64(out, *ordinal);
            put_list(out, records, put_record);
            7
        }
        Frame::Kept { ordinal, newer, again } => {
            put_u64(out, *ordinal);
            put_u32(out, *newer);
            put_list(out, again, |out, &index| put_u32(out, index));
            8
        }
        Frame::Digests { compare, group, part_bits, first, is_last, digests } => {
            put_u32(out, *compare);
            out.push(*part_bits);
            put_u32(out, *first);
            out.push(u8::from(*is_last));
            put_text(out, group, NAME_MAX);
            put_list(out, digests, |out, &Digest { sum, count }| {
                put_u64(out, sum);
                put_u32(out, count);
            });
            9
        }
        Frame::Differ { compare, parts, is_last } => {
            put_u32(out, *compare);
            out.push(u8::from(*is_last));
            put_list(out, parts, |out, &part| put_u32(out, part));
            10
        }
        Frame::Compared { group } => {
            put_text(out, group, NAME_MAX);
            11
        }
        Frame::Ask { id, key } => {
            put_u64(out, *id);
            put_key(out, key);
            12
        }
        Frame::Answer { id, record } => {
            put_u64(out, *id);
            out.push(u8::from(record.is_some()));
            record.iter().for_each(|record| put_record(out, record));
            13
        }
        Frame::Epochs(epochs) => {
            put_list(out, epochs, |out, &EpochOf { biz, epoch }| {
                put_u32(out, biz);
                put_u64(out, epoch);
            });
            14
        }
        Frame::Clock { sent_ms } => {
            put_u64(out, *sent_ms);
            15
        }
        Frame::Clocks { sent_ms, here_ms } => {
            put_u64(out, *sent_ms);
            put_u64(out, *here_ms);
            16
        }
        Frame::Leaving { is_leaving } => {
            out.push(u8::from(*is_leaving));
            17
        }
        Frame::Left => 18,
    }
}

fn put_u32(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_u64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_text(out: &mut Vec<u8>, text: &str, most: usize) {
    debug_assert!(text.len() <= most && is_text(text), "{text:?}");
    out.extend_from_slice(&(text.len() as u16).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn put_list<T>(out: &mut Vec<u8>, list: &[T], mut put: impl FnMut(&mut Vec<u8>, &T)) {
    put_u32(out, list.len() as u32);
    list.iter().for_each(|each| put(out, each));
}

fn put_hello(out: &mut Vec<u8>, hello: &Hello) {
    put_u32(out, hello.format);
    put_u32(out, hello.owner);
    out.extend_from_slice(&hello.nonce);
    put_text(out, &hello.name, NAME_MAX);
}

fn put_key(out: &mut Vec<u8>, key: &StoredKey) {
    debug_assert!(is_key(key), "{key:?}");
    put_u64(out, key.key_word);
    key.field.iter().take(key_words(key.key_word)).for_each(|&word| put_u64(out, word));
}

fn put_record(out: &mut Vec<u8>, record: &Record) {
    let Record { key, version, content } = record;
    debug_assert!(is_content(content), "{content:?}");
    version.iter().for_each(|&word| put_u64(out, word));
    put_key(out, key);
    out.extend_from_slice(&(content_words(content) as u16).to_le_bytes());
    out.extend_from_slice(&content.encode(key));
}

fn is_text(text: &str) -> bool {
    !text.chars().any(char::is_control)
}

/// The part of a frame that is still to be read.
struct Body<'b> {
    rest: &'b [u8],
}

impl<'b> Body<'b> {
    fn frame(&mut self, kind: u8) -> Result<Frame, BadFrame> {
        Ok(match kind {
            1 => Frame::Hello(self.hello()?),
            2 => Frame::Welcome(self.hello()?, self.proof()?),
            3 => Frame::Proof(self.proof()?),
            4 => Frame::Accepted,
            5 => Frame::Refused(self.text("a reason", REASON_MAX)?),
            6 => Frame::Groups(self.list("groups", GROUP_MIN, |body| {
                let key_bytes = body.u32("the key bytes")?;
                Ok(GroupName { key_bytes, name: body.text("the name of a group", NAME_MAX)? })
            })?),
            7 => {
                let ordinal = self.u64("an ordinal")?;
                Frame::Records { ordinal, records: self.list("records", RECORD_MIN, Body::record)? }
            }
            8 => {
                let (ordinal, newer) = (self.u64("an ordinal")?, self.u32("newer records")?);
                let again = self.list("indices", 4, |body| body.u32("an index"))?;
                Frame::Kept { ordinal, newer, again }
            }
            9 => self.digests()?,
            10 => {
                let (compare, is_last) = (self.u32("a comparison")?, self.flag("the last parts")?);
                let parts = self.list("parts", 4, |body| body.u32("a part"))?;
                Frame::Differ { compare, parts, is_last }
            }
            11 => Frame::Compared { group: self.text("the name of a group", NAME_MAX)? },
            12 => Frame::Ask { id: self.u64("an id")?, key: self.key()? },
            13 => {
                let (id, is_there) = (self.u64("an id")?, self.flag("a record")?);
                let record = if is_there { Some(self.record()?) } else { None };
                Frame::Answer { id, record }
            }
            14 => Frame::Epochs(self.list("epochs", EPOCH_OF, |body| {
                Ok(EpochOf { biz: body.u32("a biz")?, epoch: body.u64("an epoch")? })
            })?),
            15 => Frame::Clock { sent_ms: self.u64("a time")? },
            16 => Frame::Clocks { sent_ms: self.u64("a time")?, here_ms: self.u64("a time")? },
            17 => Frame::Leaving { is_leaving: self.flag("leaving")? },
            18 => Frame::Left,
            other => return Err(BadFrame::Kind(other)),
        })
    }

    fn digests(&mut self) -> Result<Frame, BadFrame> {
        let (compare, part_bits) = (self.u32("a comparison")?, self.u8("part bits")?);
        let (first, is_last) = (self.u32("a part")?, self.flag("the last digests")?);
        let group = self.text("the name of a group", NAME_MAX)?;
        bounded("part bits", part_bits.into(), PART_BITS_MAX.into())?;
        let digests = self.list("digests", DIGEST, |body| {
            Ok(Digest { sum: body.u64("a digest")?, count: body.u32("a digest")? })
        })?;
        bounded("a last part", u64::from(first) + digests.len() as u64, 1 << part_bits)?;
        Ok(Frame::Digests { compare, group, part_bits, first, is_last, digests })
    }

    fn hello(&mut self) -> Result<Hello, BadFrame> {
        let (format, owner) = (self.u32("a format")?, self.u32("an owner")?);
        let nonce = self.array("a nonce")?;
        Ok(Hello { format, name: self.text("the name of peers", NAME_MAX)?, owner, nonce })
    }

    fn proof(&mut self) -> Result<Proof, BadFrame> {
        self.array("a proof").map(Proof)
    }

    fn key(&mut self) -> Result<StoredKey, BadFrame> {
        let mut key = StoredKey { key_word: self.u64("a key word")?, field: [0; MAX_KEY_WORDS] };
        let bad = BadFrame::Key(key.key_word);
        let Some(field) = key.field.get_mut(..key_words(key.key_word)) else { return Err(bad) };
        for word in field {
            *word = self.u64("a key")?;
        }
        if is_key(&key) { Ok(key) } else { Err(bad) }
    }

    fn record(&mut self) -> Result<Record, BadFrame> {
        let version = [self.u64("a version")?, self.u64("a version")?];
        let key = self.key()?;
        let words = u16::from_le_bytes(self.array("the length of a content")?);
        let content = self.bytes("a content", 8 * usize::from(words))?;
        let content = KeptRecord::decode(content, &key).filter(is_content);
        Ok(Record { key, version, content: content.ok_or(BadFrame::Content)? })
    }

    /// Reads a list whose elements have at least `least` bytes each.
    fn list<T>(
        &mut self,
        what: &'static str,
        least: usize,
        mut take: impl FnMut(&mut Body<'b>) -> Result<T, BadFrame>,
    ) -> Result<Vec<T>, BadFrame> {
        let count = self.u32(what)?;
        let (found, expected) = (self.rest.len(), u64::from(count) * least as u64);
        if expected > found as u64 {
            return Err(BadFrame::Short { what, found, expected });
        }
        let mut list = Vec::with_capacity(count as usize);
        for _ in 0..count {
            list.push(take(self)?);
        }
        Ok(list)
    }

    fn text(&mut self, what: &'static str, most: usize) -> Result<String, BadFrame> {
        let length = u16::from_le_bytes(self.array(what)?);
        bounded(what, length.into(), most as u64)?;
        let text = std::str::from_utf8(self.bytes(what, length.into())?).ok();
        text.filter(|text| is_text(text)).map(str::to_owned).ok_or(BadFrame::Text(what))
    }

    fn flag(&mut self, what: &'static str) -> Result<bool, BadFrame> {
        match self.u8(what)? {
            0 => Ok(false),
            1 => Ok(true),
            found => Err(BadFrame::Flag { what, found }),
        }
    }

    fn u8(&mut self, what: &'static str) -> Result<u8, BadFrame> {
        self.array(what).map(|[byte]| byte)
    }

    fn u32(&mut self, what: &'static str) -> Result<u32, BadFrame> {
        self.array(what).map(u32::from_le_bytes)
    }

    fn u64(&mut self, what: &'static str) -> Result<u64, BadFrame> {
        self.array(what).map(u64::from_le_bytes)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], BadFrame> {
        let Some((&array, rest)) = self.rest.split_first_chunk() else {
            return Err(self.short(what, N));
        };
        self.rest = rest;
        Ok(array)
    }

    fn bytes(&mut self, what: &'static str, length: usize) -> Result<&'b [u8], BadFrame> {
        let Some((bytes, rest)) = self.rest.split_at_checked(length) else {
            return Err(self.short(what, length));
        };
        self.rest = rest;
        Ok(bytes)
    }

    fn short(&self, what: &'static str, expected: usize) -> BadFrame {
        BadFrame::Short { what, found: self.rest.len(), expected: expected as u64 }
    }
}

fn bounded(what: &'static str, found: u64, most: u64) -> Result<(), BadFrame> {
    if found > most { Err(BadFrame::Bound { what, found, most }) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
