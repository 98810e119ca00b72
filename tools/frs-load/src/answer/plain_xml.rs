//! The XML that the server writes: one form of the documents that [`super::xml`] accepts.
//!
//! Invariant: an item that is read here is one that a reader of XML reads with the same attributes.
//! Anything else is left to it, a fault as well: names are lower-case words, and values have
//! neither markup nor characters beyond printable ASCII, so that there is nothing to unescape.

use std::borrow::Cow;

use super::said::{Said, Value};

/// A response that is read item by item.
pub struct PlainItems<'b> {
    text: &'b str,
    /// What is behind this place is still to be read.
    at: usize,
}

/// What follows in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plain {
    Item,
    End,
    /// Something of another form.
    Other,
}

impl<'b> PlainItems<'b> {
    /// The items of this document. None if it does not begin as the server's do.
    pub fn of(body: &'b [u8]) -> Option<PlainItems<'b>> {
        let text = std::str::from_utf8(body).ok()?;
        let mut items = PlainItems { text, at: 0 };
        items.take(b"<response>")?;
        Some(items)
    }

    /// Reads the next item into `said`, unless the document ends.
    pub fn next(&mut self, said: &mut Said<'b>) -> Plain {
        if matches!(self.rest(), b"</response>" | b"</response>\n") {
            return Plain::End;
        }
        *said = Said::default();
        self.item(said).map_or(Plain::Other, |()| Plain::Item)
    }

    fn item(&mut self, said: &mut Said<'b>) -> Option<()> {
        self.take(b"<item")?;
        while self.take(b"/>").is_none() {
            self.take(b" ")?;
            let name = self.while_true(|byte| byte.is_ascii_lowercase())?;
            self.take(b"=\"")?;
            let value = self.while_true(is_plain)?;
            self.take(b"\"")?;
            said.take(name, Value::Xml(Cow::Borrowed(value))).ok()?;
        }
        Some(())
    }

    fn rest(&self) -> &'b [u8] {
        &self.text.as_bytes()[self.at..]
    }

    fn take(&mut self, expected: &[u8]) -> Option<()> {
        let is_there = self.rest().starts_with(expected);
        is_there.then(|| self.at += expected.len())
    }

    /// The bytes up to the first one that is not `of`, all of them ASCII.
    fn while_true(&mut self, of: impl Fn(u8) -> bool) -> Option<&'b str> {
        let length = self.rest().iter().position(|&byte| !of(byte))?;
        let found = self.text.get(self.at..self.at + length);
        self.at += length;
        found
    }
}

/// Of a value, in which nothing is to be unescaped.
fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'<' | b'>' | b'&')
}
