//! The markup of a document, one tag after the other.
//!
//! quick-xml's parsers find the ends of tags, comments and instructions and split attributes; what
//! it lets pass that is not well-formed is refused here. The cursor only moves forward.

use quick_xml::events::attributes::{AttrError, Attributes};
use quick_xml::parser::{CommentParser, ElementParser, Parser, PiParser};

use super::value::{is_name, is_space};
use crate::protocol::{Error, Excerpt, Place};

/// What is wrong with a document, and at which byte.
#[derive(Debug, Clone, Copy)]
pub enum Fault {
    /// Not well-formed, or not taken.
    Xml { what: &'static str, found: Excerpt, at: usize },
    /// Not a request.
    Document { what: &'static str, found: Excerpt, at: usize },
    /// Over a bound, or not to be read at all.
    Whole(Error),
}

impl Fault {
    pub fn xml(what: &'static str, at: usize) -> Fault {
        Fault::Xml { what, found: Excerpt::NONE, at }
    }

    pub fn found_xml(what: &'static str, found: &str, at: usize) -> Fault {
        Fault::Xml { what, found: Excerpt::of(found), at }
    }

    pub fn document(what: &'static str, found: &str, at: usize) -> Fault {
        Fault::Document { what, found: Excerpt::of(found), at }
    }

    /// The error to answer, with the place of the fault in `text`.
    pub fn into_error(self, text: &[u8]) -> Error {
        match self {
            Fault::Xml { what, found, at } => {
                Error::BadXml { what, found, place: Place::of(text, at) }
            }
            Fault::Document { what, found, at } => {
                Error::BadDocument { what, found, place: Place::of(text, at) }
            }
            Fault::Whole(error) => error,
        }
    }
}

/// A tag, as it stands between `<` and `>`, without the slash.
#[derive(Debug, Clone, Copy)]
pub struct Tag<'a> {
    /// Name and attributes.
    content: &'a str,
    name_len: usize,
    /// Offset of `content`.
    at: usize,
    /// `<name/>`, or `</name>`.
    pub kind: Kind,
}

/// Kinds of tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `<name>`
    Start,
    /// `<name/>`
    Empty,
    /// `</name>`
    End,
}

impl<'a> Tag<'a> {
    /// Its name; it may be none in the sense of XML.
    pub fn name(&self) -> &'a str {
        &self.content[..self.name_len]
    }

    /// Offset of its name.
    pub fn at(&self) -> usize {
        self.at
    }

    /// The fault of a tag that is not expected here.
    #[cold]
    pub fn unexpected(&self, what: &'static str) -> Fault {
        if is_name(self.name()) {
            Fault::document(what, self.name(), self.at)
        } else {
            Fault::found_xml("expected a name after <", self.name(), self.at)
        }
    }

    /// Passes name, raw value and the offsets of both of each attribute.
    pub fn attributes(
        &self,
        mut take: impl FnMut(&'a str, usize, &'a str, usize) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let mut attributes = Attributes::new(self.content, self.name_len);
        // Whoever takes them knows all names there are, and finds repetitions without a list.
        attributes.with_checks(false);
        for attribute in attributes {
            let attribute = attribute.map_err(|error| self.bad_attribute(&error))?;
            let name = attribute.key.into_inner();
            let start = self.offset(name);
            if !is_space(self.content.as_bytes()[start - 1]) {
                let what = "expected white space before an attribute";
                return Err(Fault::found_xml(what, name, self.at + start));
            }
            // Borrowed, as it was never unescaped; so it has an offset.
            let begin = self.offset(&attribute.value);
            let value = &self.content[begin..begin + attribute.value.len()];
            take(name, self.at + start, value, self.at + begin)?;
        }
        Ok(())
    }

    /// Offset in `content` of a part of it.
    fn offset(&self, part: &str) -> usize {
        part.as_ptr().addr() - self.content.as_ptr().addr()
    }

    #[cold]
    fn bad_attribute(&self, error: &AttrError) -> Fault {
        let (what, offset) = match *error {
            AttrError::ExpectedEq(offset) => ("expected = after the name of an attribute", offset),
            AttrError::ExpectedValue(offset) | AttrError::UnquotedValue(offset) => {
                ("expected the value of an attribute in quotes", offset)
            }
            AttrError::ExpectedQuote(offset, _) => {
                ("expected the closing quote of an attribute's value", offset)
            }
            AttrError::Duplicated(offset, _) => ("an attribute stands more than once", offset),
        };
        Fault::xml(what, self.at + offset)
    }
}

/// A place in a document.
#[derive(Debug)]
pub struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// At the start of a document without its byte order mark.
    pub fn new(text: &'a str) -> Cursor<'a> {
        Cursor { text, at: 0 }
    }

    /// Bytes read.
    pub fn at(&self) -> usize {
        self.at
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Moves past the XML declaration, if there is one.
    pub fn declaration(&mut self) -> Result<(), Fault> {
        let Some(inside) = declaration(self.text) else { return Ok(()) };
        let end = inside.find("?>").ok_or(Fault::xml("expected ?> after <?xml", 0))?;
        self.at = 5 + end + 2;
        check_declaration(&inside[..end])
    }

    /// Moves past white space, comments and instructions; false at the document's end.
    #[inline]
    pub fn skip(&mut self) -> Result<bool, Fault> {
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
    fn comment(&mut self) -> Result<(), Fault> {
        let inside = &self.rest()[4..];
        let end = CommentParser::default()
            .feed(inside.as_bytes())
            .ok_or(Fault::xml("expected --> after <!--", self.at))?;
        // What stands before the closing -->.
        let comment = &inside[..end - 3];
        if let Some(dashes) = comment.find("--") {
            return Err(Fault::xml("-- in a comment", self.at + 4 + dashes));
        }
        if comment.ends_with('-') {
            return Err(Fault::xml("-- in a comment", self.at + 4 + comment.len() - 1));
        }
        self.at += 4 + end;
        Ok(())
    }

    #[cold]
    fn instruction(&mut self) -> Result<(), Fault> {
        let inside = &self.rest()[2..];
        let end = PiParser::default()
            .feed(inside.as_bytes())
            .ok_or(Fault::xml("expected ?> after <?", self.at))?;
        let content = &inside[..end - 2];
        let target = content.split([' ', '\t', '\n', '\r']).next().unwrap_or_default();
        if !is_name(target) {
            let what = "expected the name of a processing instruction";
            return Err(Fault::found_xml(what, target, self.at + 2));
        }
        if target.eq_ignore_ascii_case("xml") {
            return Err(Fault::xml("an XML declaration stands at the start only", self.at));
        }
        self.at += 2 + end;
        Ok(())
    }

    /// Reads the tag that stands here; `inside` an element or beside the root.
    #[inline]
    pub fn tag(&mut self, inside: bool) -> Result<Tag<'a>, Fault> {
        let rest = self.rest();
        let bytes = rest.as_bytes();
        if bytes.first() != Some(&b'<') || bytes.get(1) == Some(&b'!') {
            return Err(self.no_tag(inside));
        }
        if bytes.get(1) == Some(&b'/') {
            return self.end_tag();
        }
        let end = ElementParser::default()
            .feed(&bytes[1..])
            .ok_or(Fault::xml("expected > after <", self.at))?;
        let content = &rest[1..1 + end];
        let (content, kind) = match content.strip_suffix('/') {
            Some(content) => (content, Kind::Empty),
            None => (content, Kind::Start),
        };
        let name_len = content.bytes().position(is_space).unwrap_or(content.len());
        let at = self.at + 1;
        self.at += end + 2;
        Ok(Tag { content, name_len, at, kind })
    }

    fn end_tag(&mut self) -> Result<Tag<'a>, Fault> {
        let inside = &self.rest()[2..];
        let end = inside.find('>').ok_or(Fault::xml("expected > after </", self.at))?;
        let content = inside[..end].trim_end_matches([' ', '\t', '\n', '\r']);
        let at = self.at + 2;
        self.at += 2 + end + 1;
        Ok(Tag { content, name_len: content.len(), at, kind: Kind::End })
    }

    #[cold]
    fn no_tag(&self, inside: bool) -> Fault {
        let rest = self.rest();
        if rest.is_empty() {
            return Fault::xml("the document ends too early", self.at);
        }
        if rest.starts_with("<!DOCTYPE") {
            return Fault::xml("a document type declaration is not taken", self.at);
        }
        if rest.starts_with("<![CDATA[") {
            return Fault::xml("a CDATA section is not taken", self.at);
        }
        if rest.starts_with('<') {
            return Fault::xml("expected a tag or a comment after <", self.at);
        }
        let what = "expected only white space between tags";
        let found = rest.split('<').next().unwrap_or_default();
        if inside && !found.contains(['&', '\u{5D}']) {
            Fault::document(what, found, self.at)
        } else {
            Fault::found_xml(what, found, self.at)
        }
    }
}

/// What follows `<?xml` where a declaration starts `text`.
fn declaration(text: &str) -> Option<&str> {
    text.strip_prefix("<?xml").filter(|rest| rest.bytes().next().is_some_and(is_space))
}

/// Checks version, encoding and standalone, which stand in this order (production 23).
fn check_declaration(inside: &str) -> Result<(), Fault> {
    const AT: usize = 5;
    // With the name in front, so that each attribute has a byte before it.
    let tag = Tag { content: inside, name_len: 0, at: AT, kind: Kind::Empty };
    let mut previous = 0;
    tag.attributes(|name, name_at, value, value_at| {
        let (position, good) = match name {
            "version" => (1, value.strip_prefix("1.").is_some_and(is_digits)),
            "encoding" => (2, true),
            "standalone" => (3, value == "yes" || value == "no"),
            _ => return Err(Fault::found_xml(DECLARATION, name, name_at)),
        };
        if position <= previous || (previous == 0 && position != 1) {
            return Err(Fault::found_xml(DECLARATION, name, name_at));
        }
        previous = position;
        if position == 2 && !value.eq_ignore_ascii_case("utf-8") {
            return Err(Fault::Whole(NOT_UTF8));
        }
        if good { Ok(()) } else { Err(Fault::found_xml(DECLARATION, value, value_at)) }
    })?;
    if previous == 0 { Err(Fault::xml(DECLARATION, AT)) } else { Ok(()) }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Does the declaration, if it can be read, name another encoding?
pub fn declares_another_encoding(body: &[u8]) -> bool {
    let head = body.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    let mut cursor = Cursor::new(head);
    matches!(cursor.declaration(), Err(Fault::Whole(_)))
}

const DECLARATION: &str =
    "bad XML declaration: expected version=\"1.0\", then encoding, standalone";

/// The error of a document in another encoding.
pub const NOT_UTF8: Error = Error::BadContentType("expected a document in UTF-8");
