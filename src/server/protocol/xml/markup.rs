//! The markup of a document, tag by tag.
//!
//! The cursor only moves forward, and examines each byte of a tag once. It does not use quick-xml
//! to read tags: quick-xml accepts attributes without white space between them, `<` in values, and
//! invalid names. Finding those would take a second pass, and an item would cost twice as much.

use std::ops::Range;

use memchr::memmem;

use super::fault::XmlFault;
use super::value::{ENDS_NAME, check_chars, decode, is_name, is_space, past_plain};
use crate::protocol::format::NOT_UTF8;
use frs_engine::ItemNames;

/// The start of a tag. Its attributes are read one by one.
#[derive(Debug, Clone, Copy)]
pub struct Tag<'a> {
    /// Its name, which may be invalid in XML.
    pub name: &'a str,
    /// Offset of its name.
    pub at: usize,
    /// `</name>`, which has been read to its end.
    pub is_end: bool,
}

impl Tag<'_> {
    /// The fault of an unexpected tag.
    #[cold]
    pub fn unexpected(&self, what: &'static str) -> XmlFault {
        if self.is_end {
            // It ends another element than the open one.
            XmlFault::found_xml(what, self.name, self.at)
        } else if is_name(self.name) {
            XmlFault::document(what, self.name, self.at)
        } else {
            XmlFault::found_xml("expected a name after <", self.name, self.at)
        }
    }
}

/// An attribute, not decoded.
#[derive(Debug, Clone)]
pub struct Attribute<'a> {
    text: &'a str,
    /// Where its name is. The name may be invalid in XML.
    pub name: Range<usize>,
    /// Where the text between its quotes is.
    pub raw: Range<usize>,
    /// That text is the value: it has nothing to decode.
    pub plain: bool,
}

impl<'a> Attribute<'a> {
    /// Its name.
    pub fn name(&self) -> &'a str {
        &self.text[self.name.clone()]
    }

    /// Whether this is its name.
    #[inline(always)]
    pub fn is(&self, name: &str) -> bool {
        self.text.as_bytes()[self.name.clone()] == *name.as_bytes()
    }

    /// The text between the quotes.
    pub fn raw(&self) -> &'a str {
        &self.text[self.raw.clone()]
    }

    /// Its value, undecoded if plain. Otherwise it is decoded into `decoded`, which is replaced.
    #[inline]
    pub fn value<'v>(&self, decoded: &'v mut String) -> Result<&'v str, XmlFault>
    where
        'a: 'v,
    {
        let raw = self.raw();
        if self.plain {
            return Ok(raw);
        }
        decode(raw, self.raw.start, decoded)?;
        Ok(decoded)
    }
}

/// A part of a tag.
#[derive(Debug, Clone)]
pub enum Part<'a> {
    /// Another attribute.
    Attribute(Attribute<'a>),
    /// Its end: `/>` if `empty`.
    End { empty: bool },
}

/// Where in a document a tag is expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TagPlace {
    /// Where the root is, or should be.
    Root,
    /// Inside of an element.
    Inside,
}

/// A position in a document.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    text: &'a str,
    at: usize,
    /// It is known that no value read so far has a byte that may be special.
    sure: bool,
}

impl<'a> Cursor<'a> {
    /// At the start of a document without its byte order mark.
    pub fn new(text: &'a str) -> Cursor<'a> {
        Cursor { text, at: 0, sure: true }
    }

    /// Whether it is known that no value read so far has a byte that
    /// [`super::value::may_be_special`] marks.
    pub fn is_sure(&self) -> bool {
        self.sure
    }

    /// Bytes read.
    pub fn at(&self) -> usize {
        self.at
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Moves past the XML declaration, if there is one: version, then encoding, then standalone
    /// (production 23).
    pub fn declaration(&mut self) -> Result<(), XmlFault> {
        let inside = self.text.strip_prefix("<?xml");
        if !inside.is_some_and(|inside| inside.starts_with([' ', '\t', '\n', '\r'])) {
            return Ok(());
        }
        self.at = "<?xml".len();
        let mut previous = 0;
        while !self.text[self.past_space(self.at)..].starts_with("?>") {
            let Part::Attribute(attribute) = self.part()? else {
                return Err(XmlFault::xml(DECLARATION, self.at));
            };
            let (name, raw) = (attribute.name(), attribute.raw());
            let (position, good) = match name {
                "version" => (1, raw.strip_prefix("1.").is_some_and(is_digits)),
                "encoding" => (2, true),
                "standalone" => (3, raw == "yes" || raw == "no"),
                _ => return Err(XmlFault::found_xml(DECLARATION, name, attribute.name.start)),
            };
            if position <= previous || (previous == 0 && position != 1) {
                return Err(XmlFault::found_xml(DECLARATION, name, attribute.name.start));
            }
            if !good {
                return Err(XmlFault::found_xml(DECLARATION, raw, attribute.raw.start));
            }
            if position == 2 && !raw.eq_ignore_ascii_case("utf-8") {
                return Err(XmlFault::Whole(NOT_UTF8));
            }
            previous = position;
        }
        if previous == 0 {
            return Err(XmlFault::xml(DECLARATION, self.at));
        }
        self.at = self.past_space(self.at) + "?>".len();
        Ok(())
    }

    /// Moves past white space, comments and instructions. False at the document's end.
    #[inline(always)]
    pub fn skip(&mut self) -> Result<bool, XmlFault> {
        loop {
            let bytes = &self.text.as_bytes()[self.at..];
            match bytes {
                [] => return Ok(false),
                [byte, ..] if is_space(*byte) => self.at += 1,
                [b'<', b'!', b'-', b'-', ..] => self.comment()?,
                [b'<', b'?', ..] => self.instruction()?,
                _ => return Ok(true),
            }
        }
    }

    #[cold]
    fn comment(&mut self) -> Result<(), XmlFault> {
        let inside = &self.rest()[4..];
        let end = memmem::find(inside.as_bytes(), b"-->")
            .ok_or(XmlFault::xml("expected --> after <!--", self.at))?;
        let comment = &inside[..end];
        check_chars(comment, self.at + 4)?;
        if let Some(dashes) = comment.find("--") {
            return Err(XmlFault::xml("-- in a comment", self.at + 4 + dashes));
        }
        if comment.ends_with('-') {
            return Err(XmlFault::xml("-- in a comment", self.at + 4 + comment.len() - 1));
        }
        self.at += 4 + end + 3;
        Ok(())
    }

    #[cold]
    fn instruction(&mut self) -> Result<(), XmlFault> {
        let inside = &self.rest()[2..];
        let end = memmem::find(inside.as_bytes(), b"?>")
            .ok_or(XmlFault::xml("expected ?> after <?", self.at))?;
        let content = &inside[..end];
        check_chars(content, self.at + 2)?;
        let target = content.split([' ', '\t', '\n', '\r']).next().unwrap_or_default();
        if !is_name(target) {
            let what = "expected the name of a processing instruction";
            return Err(XmlFault::found_xml(what, target, self.at + 2));
        }
        if target.eq_ignore_ascii_case("xml") {
            return Err(XmlFault::xml("expected an XML declaration at the start only", self.at));
        }
        self.at += 2 + end + 2;
        Ok(())
    }

    /// Moves past this literal text, if it is next.
    #[inline(always)]
    pub fn literal<const N: usize>(&mut self, literal: &[u8; N]) -> bool {
        let here = self.text.as_bytes()[self.at..].first_chunk() == Some(literal);
        self.at += if here { N } else { 0 };
        here
    }

    /// Moves past items in the usual form and passes their names to `take`, until `take` returns
    /// that there is no room for another. If an item begins in that form but continues in another,
    /// moves past its names and returns them.
    ///
    /// A separate function, because its working values fill the registers.
    #[inline(never)]
    pub fn plain_items(
        &mut self,
        mut take: impl FnMut(ItemNames<Range<usize>>) -> bool,
    ) -> Option<ItemNames<Range<usize>>> {
        let end = self.text.len();
        let mut rest = &self.text.as_bytes()[self.at..];
        let begun = loop {
            while let [byte, more @ ..] = rest
                && is_space(*byte)
            {
                rest = more;
            }
            let Some(PlainNames { names, after: more }) = plain_names(rest, end, &mut self.sure)
            else {
                break None;
            };
            let Some(more) = more.strip_prefix(b"/>") else {
                rest = more;
                break Some(names);
            };
            rest = more;
            if !take(names) {
                break None;
            }
        };
        self.at = end - rest.len();
        begun
    }

    /// Reads the start of the next tag.
    #[inline(always)]
    pub fn tag(&mut self, place: TagPlace) -> Result<Tag<'a>, XmlFault> {
        let bytes = self.text.as_bytes();
        match (bytes.get(self.at), bytes.get(self.at + 1)) {
            (Some(b'<'), Some(b'/')) => self.end_tag(),
            (Some(b'<'), next) if next != Some(&b'!') => {
                let at = self.at + 1;
                self.at = self.past_name(at);
                Ok(Tag { name: &self.text[at..self.at], at, is_end: false })
            }
            _ => Err(self.no_tag(place)),
        }
    }

    /// The end of a possible name at `at`.
    #[inline]
    fn past_name(&self, mut at: usize) -> usize {
        let bytes = self.text.as_bytes();
        while bytes.get(at).is_some_and(|&byte| !ENDS_NAME[byte as usize]) {
            at += 1;
        }
        at
    }

    #[inline(never)]
    fn end_tag(&mut self) -> Result<Tag<'a>, XmlFault> {
        let at = self.at + 2;
        let name = &self.text[at..self.past_name(at)];
        let end = self.past_space(at + name.len());
        if self.text.as_bytes().get(end) != Some(&b'>') {
            return Err(XmlFault::xml("expected > after the name of an end tag", end));
        }
        self.at = end + 1;
        Ok(Tag { name, at, is_end: true })
    }

    #[inline]
    fn past_space(&self, mut at: usize) -> usize {
        let bytes = self.text.as_bytes();
        while bytes.get(at).is_some_and(|&byte| is_space(byte)) {
            at += 1;
        }
        at
    }

    /// Reads the next part of a tag that has begun.
    #[inline]
    pub fn part(&mut self) -> Result<Part<'a>, XmlFault> {
        let bytes = self.text.as_bytes();
        let name_at = self.past_space(self.at);
        match (bytes.get(name_at), bytes.get(name_at + 1)) {
            (Some(b'>'), _) => {
                self.at = name_at + 1;
                return Ok(Part::End { empty: false });
            }
            (Some(b'/'), Some(b'>')) => {
                self.at = name_at + 2;
                return Ok(Part::End { empty: true });
            }
            (None, _) => return Err(XmlFault::xml("expected > at the end of a tag", name_at)),
            _ => {}
        }
        if name_at == self.at {
            return Err(XmlFault::xml("expected white space before an attribute", name_at));
        }
        let name = name_at..self.past_name(name_at);
        let quote_at = self.past_equals(name.end)?;
        let (at, quote) = (quote_at + 1, bytes.get(quote_at).copied().unwrap_or_default());
        if quote != b'"' && quote != b'\'' {
            return Err(XmlFault::xml("expected the value of an attribute in quotes", quote_at));
        }
        let after = past_plain(&bytes[at..], quote, &mut self.sure);
        let Some(more) = after.iter().position(|&byte| byte == quote) else {
            let what = "expected a quote after the value of an attribute";
            return Err(XmlFault::xml(what, bytes.len()));
        };
        let (raw, plain) = (at..bytes.len() - after.len() + more, more == 0);
        self.at = raw.end + 1;
        Ok(Part::Attribute(Attribute { text: self.text, name, raw, plain }))
    }

    #[inline]
    fn past_equals(&self, at: usize) -> Result<usize, XmlFault> {
        let at = self.past_space(at);
        if self.text.as_bytes().get(at) != Some(&b'=') {
            return Err(XmlFault::xml("expected = after the name of an attribute", at));
        }
        Ok(self.past_space(at + 1))
    }

    #[cold]
    fn no_tag(&self, place: TagPlace) -> XmlFault {
        let rest = self.rest();
        if rest.is_empty() {
            return XmlFault::xml("the document ends too early", self.at);
        }
        if rest.starts_with("<!DOCTYPE") {
            return XmlFault::xml("a document type declaration is not taken", self.at);
        }
        if rest.starts_with("<![CDATA[") {
            return XmlFault::xml("a CDATA section is not taken", self.at);
        }
        if rest.starts_with('<') {
            return XmlFault::xml("expected a tag or a comment after <", self.at);
        }
        let what = "expected only white space between tags";
        let found = rest.split('<').next().unwrap_or_default();
        if place == TagPlace::Inside && !found.contains(['&', '\u{5D}']) {
            XmlFault::document(what, found, self.at)
        } else {
            XmlFault::found_xml(what, found, self.at)
        }
    }
}

/// The names at the start of an item, and what follows them.
struct PlainNames<'a> {
    names: ItemNames<Range<usize>>,
    after: &'a [u8],
}

/// The names of the item at the start of `rest`, if it has the usual form, and what follows them.
/// `rest` is the end of a text of `len` bytes.
#[inline(always)]
fn plain_names<'a>(rest: &'a [u8], len: usize, sure: &mut bool) -> Option<PlainNames<'a>> {
    let range = |value: &[u8], after: &[u8]| len - value.len()..len - after.len();
    let value = rest.strip_prefix(b"<item biz=\"")?;
    let after = past_plain(value, b'"', sure);
    let biz = range(value, after);
    let value = after.strip_prefix(b"\" key=\"")?;
    let after = past_plain(value, b'"', sure);
    let key = range(value, after);
    Some(PlainNames { names: ItemNames { biz, key }, after: after.strip_prefix(b"\"")? })
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether the declaration, if it can be read, names another encoding.
pub fn declares_another_encoding(body: &[u8]) -> bool {
    let head = body.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    let mut cursor = Cursor::new(head);
    matches!(cursor.declaration(), Err(XmlFault::Whole(_)))
}

const DECLARATION: &str =
    "bad XML declaration: expected version=\"1.0\", then encoding, standalone";
