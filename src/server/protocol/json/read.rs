//! A request document to a [`Request`].
//!
//! Reads once from front to back. serde_json's parser pushes what it finds directly into the
//! request. It does not report its position, so the reader follows the places of the tokens itself.
//!
//! Invariant: `Reader::at` is where the next token begins that the parser has not read. The first
//! byte there decides what type the parser is asked for, so the type is always the one present. The
//! parser goes no deeper than an item: the format bounds the nesting.
//!
//! Allocates only where the reused buffers grow, and within the parser: once for a document's
//! strings with escapes, and for a fault.

use std::fmt;
use std::ops::Range;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use super::fault;
use crate::protocol::format::{Bounds, Decoded, ONCE_OF_ATOMIC, without_mark};
use crate::protocol::{Code, Error, Excerpt, TextPosition, form};
use frs_engine::{Command, Extras, ItemNames, ItemOptions, Request};

/// Reads the document `body` into `request`, which is emptied first.
pub fn read(
    body: &[u8],
    command: Command,
    bounds: Bounds,
    decoded: &mut Decoded,
    request: &mut Request,
) -> Result<(), Error> {
    request.begin(command);
    let text = text_of(body)?;
    let mut reader = Reader { text, at: 0, bounds, decoded, request, fault: None };
    reader.pass_space();
    let root_at = reader.at;
    let mut parser = serde_json::Deserializer::from_str(text);
    let read = Document(&mut reader).deserialize(&mut parser).and_then(|()| parser.end());
    if let Err(error) = read {
        return Err(reader.fault.unwrap_or_else(|| not_json(&error, text)));
    }
    if reader.request.items().is_empty() {
        let what = "expected at least one item in the member items";
        return Err(reader.bad(Code::BadRequest, what, "", root_at));
    }
    Ok(())
}

/// The text of a body, without its byte order mark.
pub fn text_of(body: &[u8]) -> Result<&str, Error> {
    let body = without_mark(body)?;
    std::str::from_utf8(body).map_err(|error| {
        let position = TextPosition::of(body, error.valid_up_to());
        Error::BadBody { code: Code::BadJson, what: "not UTF-8", found: Excerpt::NONE, position }
    })
}

/// What the parser's visitors share: the position, and where they put what they find.
struct Reader<'r, 'de> {
    text: &'de str,
    at: usize,
    bounds: Bounds,
    decoded: &'r mut Decoded,
    request: &'r mut Request,
    /// The fault, if the reader and not the parser found it.
    fault: Option<Error>,
}

impl<'de> Reader<'_, 'de> {
    /// The first byte of the next token.
    fn next(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Moves past white space.
    fn pass_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.next() {
            self.at += 1;
        }
    }

    /// Moves to the first token in the object or array that begins here.
    fn enter(&mut self) {
        self.at += 1;
        self.pass_space();
    }

    /// Moves past the token that ends at `end`, and past a comma or colon behind it.
    #[inline]
    fn pass(&mut self, end: usize) {
        self.at = end;
        self.pass_space();
        if let Some(b',' | b':') = self.next() {
            self.at += 1;
            self.pass_space();
        }
    }

    /// Moves past the string that begins here. `plain_bytes` is its length if it has no escapes.
    #[inline]
    fn pass_string(&mut self, plain_bytes: Option<usize>) {
        let end = match plain_bytes {
            Some(bytes) => self.at + bytes + 2,
            None => string_end(self.text.as_bytes(), self.at),
        };
        self.pass(end);
    }

    /// Lets the parser read the number that begins here. Returns its text, and whether it has
    /// neither decimals nor an exponent.
    fn number<D: Deserializer<'de>>(&mut self, parser: D) -> Result<(&'de str, bool), D::Error> {
        IgnoredAny::deserialize(parser)?;
        let (bytes, start) = (self.text.as_bytes(), self.at);
        let mut end = start + usize::from(bytes[start] == b'-');
        while bytes.get(end).is_some_and(u8::is_ascii_digit) {
            end += 1;
        }
        let is_integer = !matches!(bytes.get(end), Some(b'.' | b'e' | b'E'));
        if !is_integer {
            end = scalar_end(bytes, end);
        }
        self.pass(end);
        Ok((&self.text[start..end], is_integer))
    }

    /// The fault of a value of an unexpected type. If it is not JSON, the parser's error is used.
    #[cold]
    fn unexpected<D: Deserializer<'de>>(&mut self, parser: D, what: &'static str) -> D::Error {
        let (bytes, at) = (self.text.as_bytes(), self.at);
        let end = match self.next() {
            // Its content does not matter: no request has it here.
            Some(b'[' | b'{') => at + 1,
            first => {
                if let Err(error) = IgnoredAny::deserialize(parser) {
                    return error;
                }
                if first == Some(b'"') { string_end(bytes, at) } else { scalar_end(bytes, at) }
            }
        };
        let found = self.text.get(at..end).unwrap_or_default();
        let error = match found {
            "null" => self.bad(Code::BadJson, "null is not taken: leave the member out", "", at),
            _ => self.bad(Code::BadRequest, what, found.trim_matches('"'), at),
        };
        self.fail(error)
    }

    /// Ends the reading with this fault.
    #[cold]
    fn fail<E: serde::de::Error>(&mut self, fault: Error) -> E {
        self.fault = Some(fault);
        E::custom("")
    }

    #[cold]
    fn bad(&self, code: Code, what: &'static str, found: &str, at: usize) -> Error {
        let (found, position) = (Excerpt::of(found), TextPosition::of(self.text.as_bytes(), at));
        Error::BadBody { code, what, found, position }
    }

    /// Reads the text of an option, and adds it to the request.
    fn text<A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<Range<usize>, A::Error> {
        let text = map.next_value_seed(Value::text(self))?;
        Ok(self.request.add_text(text.or(&self.decoded.other)))
    }

    /// The error if there are more items than a request may have, atomic or not as read so far.
    fn too_many(&self, items: usize) -> Option<Error> {
        let atomic = self.request.atomic;
        let max = self.bounds.items(atomic);
        (items > max as usize).then_some(Error::TooManyItems { max, atomic })
    }
}

/// The end of the string that begins at `start`, including its quotes.
#[cold]
pub(super) fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The end of a value that is no string, array or object.
fn scalar_end(bytes: &[u8], start: usize) -> usize {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    start + bytes[start..].iter().take_while(|byte| is_part(byte)).count()
}

/// The valid names of an object's members.
struct Names {
    names: &'static [&'static str],
    unknown: &'static str,
}

/// The members of a request.
pub const DOCUMENT_MEMBERS: &[&str] = &["atomic", "once", "items"];
/// The members of an item.
pub const ITEM_MEMBERS: &[&str] = &[
    "biz", "key", "count", "force", "detail", "rate", "burst", "member", "max", "partial", "once",
    "hold", "ttl", "settle",
];

const OF_DOCUMENT: Names =
    Names { names: DOCUMENT_MEMBERS, unknown: "unknown member: expected atomic, once or items" };

const OF_ITEM: Names = Names {
    names: ITEM_MEMBERS,
    unknown: "unknown member: expected biz, key, count, force, detail, member, rate, burst, max, \
              partial, once, hold, ttl or settle",
};

/// The members of an object that have been read.
struct Members {
    names: &'static Names,
    seen: u16,
}

impl Members {
    fn of(names: &'static Names) -> Members {
        Members { names, seen: 0 }
    }

    /// Reads the name of the next member, or `None` at the object's end.
    fn next<'de, A: MapAccess<'de>>(
        &mut self,
        map: &mut A,
        reader: &mut Reader<'_, 'de>,
    ) -> Result<Option<&'static str>, A::Error> {
        let name = map.next_key_seed(Name { members: self, reader })?;
        if name.is_none() {
            // Past its closing bracket.
            reader.pass(reader.at + 1);
        }
        Ok(name)
    }
}

/// Reads the name of a member.
struct Name<'s, 'r, 'de> {
    members: &'s mut Members,
    reader: &'s mut Reader<'r, 'de>,
}

impl Name<'_, '_, '_> {
    #[inline]
    fn take<E: serde::de::Error>(
        self,
        name: &str,
        plain_bytes: Option<usize>,
    ) -> Result<&'static str, E> {
        let Name { members, reader } = self;
        let Names { names, unknown } = members.names;
        let Some(index) = names.iter().position(|known| *known == name) else {
            let fault = reader.bad(Code::BadRequest, unknown, name, reader.at);
            return Err(reader.fail(fault));
        };
        if members.seen & 1 << index != 0 {
            let fault =
                reader.bad(Code::BadJson, "a member occurs more than once", name, reader.at);
            return Err(reader.fail(fault));
        }
        members.seen |= 1 << index;
        reader.pass_string(plain_bytes);
        Ok(names[index])
    }
}

impl<'de> DeserializeSeed<'de> for Name<'_, '_, 'de> {
    type Value = &'static str;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<&'static str, D::Error> {
        parser.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Name<'_, '_, 'de> {
    type Value = &'static str;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_borrowed_str<E: serde::de::Error>(self, name: &'de str) -> Result<Self::Value, E> {
        self.take(name, Some(name.len()))
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Self::Value, E> {
        self.take(name, None)
    }
}

/// Reads the whole document.
struct Document<'s, 'r, 'de>(&'s mut Reader<'r, 'de>);

impl<'de> DeserializeSeed<'de> for Document<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<(), D::Error> {
        match self.0.next() {
            Some(b'{') => parser.deserialize_map(self),
            _ => Err(self.0.unexpected(parser, "expected an object with the member items")),
        }
    }
}

impl<'de> Visitor<'de> for Document<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a request")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Document(reader) = self;
        reader.enter();
        let (mut members, mut once_at) = (Members::of(&OF_DOCUMENT), None);
        while let Some(name) = members.next(&mut map, reader)? {
            match name {
                "items" => map.next_value_seed(Items(reader))?,
                "once" => {
                    once_at = Some(reader.at);
                    let once = map.next_value_seed(Value::text(reader))?;
                    reader.request.set_once(once.or(&reader.decoded.other));
                }
                _ => {
                    reader.request.atomic = map.next_value_seed(Flag(reader))?;
                    // The items may precede `atomic`.
                    if let Some(error) = reader.too_many(reader.request.items().len()) {
                        return Err(reader.fail(error));
                    }
                }
            }
        }
        if let (Some(at), false) = (once_at, reader.request.atomic) {
            let fault = reader.bad(Code::BadRequest, ONCE_OF_ATOMIC, "", at);
            return Err(reader.fail(fault));
        }
        Ok(())
    }
}

/// Reads the items.
struct Items<'s, 'r, 'de>(&'s mut Reader<'r, 'de>);

impl<'de> DeserializeSeed<'de> for Items<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<(), D::Error> {
        match self.0.next() {
            Some(b'[') => parser.deserialize_seq(self),
            _ => Err(self.0.unexpected(parser, "expected an array of items")),
        }
    }
}

impl<'de> Visitor<'de> for Items<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("items")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Items(reader) = self;
        reader.enter();
        while items.next_element_seed(Item(reader))?.is_some() {}
        // Past their closing bracket.
        reader.pass(reader.at + 1);
        Ok(())
    }
}

/// Reads an item and adds it.
struct Item<'s, 'r, 'de>(&'s mut Reader<'r, 'de>);

impl<'de> DeserializeSeed<'de> for Item<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<(), D::Error> {
        if let Some(error) = self.0.too_many(self.0.request.items().len() + 1) {
            return Err(self.0.fail(error));
        }
        match self.0.next() {
            Some(b'{') => parser.deserialize_map(self),
            _ => Err(self.0.unexpected(parser, "expected an item with the members biz and key")),
        }
    }
}

impl<'de> Visitor<'de> for Item<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an item")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Item(reader) = self;
        let item_at = reader.at;
        reader.enter();
        let (mut biz, mut key) = (None, None);
        let mut options = ItemOptions::ONE;
        let mut extras = Extras::NONE;
        let mut members = Members::of(&OF_ITEM);
        while let Some(name) = members.next(&mut map, reader)? {
            match name {
                "biz" => biz = Some(map.next_value_seed(Value::biz(reader))?),
                "key" => key = Some(map.next_value_seed(Value::key(reader))?),
                "count" => options.count = form::count(map.next_value_seed(Integer(reader))?),
                "force" => options.force = map.next_value_seed(Flag(reader))?,
                "detail" => options.detail = map.next_value_seed(Flag(reader))?,
                "rate" => {
                    let rate = map.next_value_seed(Value::rate(reader))?;
                    extras.rate = Some(reader.request.add_text(rate.or(&reader.decoded.other)));
                }
                "member" => extras.member = Some(reader.text(&mut map)?),
                "once" => extras.once = Some(reader.text(&mut map)?),
                "hold" => extras.hold = Some(reader.text(&mut map)?),
                "partial" => extras.partial = map.next_value_seed(Flag(reader))?,
                "settle" => extras.settle = map.next_value_seed(Flag(reader))?,
                "max" => extras.max = Some(form::number(map.next_value_seed(Integer(reader))?)),
                "ttl" => extras.ttl_ms = Some(form::number(map.next_value_seed(Integer(reader))?)),
                _ => extras.burst = Some(form::number(map.next_value_seed(Integer(reader))?)),
            }
        }
        let (Some(biz), Some(key)) = (biz, key) else {
            let what = "expected both of the members biz and key";
            let fault = reader.bad(Code::BadRequest, what, "", item_at);
            return Err(reader.fail(fault));
        };
        let Decoded { biz: biz_text, key: key_text, .. } = &*reader.decoded;
        let are_numbers = ItemNames { biz: biz.is_number(), key: key.is_number() };
        reader.request.push(biz.or(biz_text), key.or(key_text), options);
        reader.request.note_numbers(are_numbers);
        if extras.is_any() {
            reader.request.bring_parts(extras);
        }
        Ok(())
    }
}

/// A biz, a key, a rate or another text.
#[derive(Clone, Copy)]
enum Text<'de> {
    Plain(&'de str),
    Number(&'de str),
    /// It had escapes. Its text is in its buffer.
    Decoded,
}

impl<'de> Text<'de> {
    fn or<'t>(self, decoded: &'t str) -> &'t str
    where
        'de: 't,
    {
        match self {
            Text::Plain(text) | Text::Number(text) => text,
            Text::Decoded => decoded,
        }
    }

    fn is_number(self) -> bool {
        matches!(self, Text::Number(_))
    }
}

/// Reads a biz, a key, a rate or another text: a string, or what is a number there.
struct Value<'s, 'r, 'de> {
    reader: &'s mut Reader<'r, 'de>,
    /// Where to put a decoded string.
    buffer: fn(&mut Decoded) -> &mut String,
    /// Whether it may be an integer. A member, an id and a hold may not.
    takes_integers: bool,
}

impl<'s, 'r, 'de> Value<'s, 'r, 'de> {
    fn biz(reader: &'s mut Reader<'r, 'de>) -> Self {
        Value { reader, buffer: |decoded| &mut decoded.biz, takes_integers: true }
    }

    fn key(reader: &'s mut Reader<'r, 'de>) -> Self {
        Value { reader, buffer: |decoded| &mut decoded.key, takes_integers: true }
    }

    fn text(reader: &'s mut Reader<'r, 'de>) -> Self {
        Value { reader, buffer: |decoded| &mut decoded.other, takes_integers: false }
    }

    fn rate(reader: &'s mut Reader<'r, 'de>) -> Self {
        Value { reader, buffer: |decoded| &mut decoded.other, takes_integers: true }
    }
}

impl<'de> DeserializeSeed<'de> for Value<'_, '_, 'de> {
    type Value = Text<'de>;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<Text<'de>, D::Error> {
        let (at, takes_integers) = (self.reader.at, self.takes_integers);
        let expected =
            if takes_integers { "expected a string or an integer" } else { "expected a string" };
        let reader = &mut *self.reader;
        match reader.next() {
            Some(b'"') => parser.deserialize_str(self),
            Some(b'-' | b'0'..=b'9') if takes_integers => match reader.number(parser)? {
                (digits, true) => Ok(Text::Number(digits)),
                (number, false) => {
                    let fault = reader.bad(Code::BadRequest, expected, number, at);
                    Err(reader.fail(fault))
                }
            },
            _ => Err(reader.unexpected(parser, expected)),
        }
    }
}

impl<'de> Visitor<'de> for Value<'_, '_, 'de> {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    #[inline]
    fn visit_borrowed_str<E: serde::de::Error>(self, text: &'de str) -> Result<Text<'de>, E> {
        self.reader.pass_string(Some(text.len()));
        Ok(Text::Plain(text))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Text<'de>, E> {
        let buffer = (self.buffer)(self.reader.decoded);
        buffer.clear();
        buffer.push_str(text);
        self.reader.pass_string(None);
        Ok(Text::Decoded)
    }
}

/// Reads the text of an integer.
struct Integer<'s, 'r, 'de>(&'s mut Reader<'r, 'de>);

impl<'de> DeserializeSeed<'de> for Integer<'_, '_, 'de> {
    type Value = &'de str;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<&'de str, D::Error> {
        match self.0.next() {
            Some(b'-' | b'0'..=b'9') => Ok(self.0.number(parser)?.0),
            _ => Err(self.0.unexpected(parser, "expected an integer")),
        }
    }
}

/// Reads a flag.
struct Flag<'s, 'r, 'de>(&'s mut Reader<'r, 'de>);

impl<'de> DeserializeSeed<'de> for Flag<'_, '_, 'de> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<bool, D::Error> {
        let Flag(reader) = self;
        if !matches!(reader.next(), Some(b't' | b'f')) {
            return Err(reader.unexpected(parser, "expected true or false"));
        }
        let flag = bool::deserialize(parser)?;
        reader.pass(reader.at + if flag { "true".len() } else { "false".len() });
        Ok(flag)
    }
}

/// The error for what the parser does not accept as JSON.
#[cold]
pub fn not_json(error: &serde_json::Error, text: &str) -> Error {
    let at = match error.is_eof() {
        true => text.len(),
        false => offset(text, error.line(), error.column()),
    };
    let what = fault::words(text, at);
    let next = text.get(at..).and_then(|rest| rest.chars().next());
    let found = match next.filter(|_| what != fault::HALF_PAIR) {
        Some(next) => Excerpt::of(next.encode_utf8(&mut [0; 4])),
        None => Excerpt::NONE,
    };
    let position = TextPosition::of(text.as_bytes(), at);
    Error::BadBody { code: Code::BadJson, what, found, position }
}

/// The byte at the parser's line and column: only LF ends a line, and columns count bytes.
pub fn offset(text: &str, line: usize, column: usize) -> usize {
    let lines = text.split_inclusive('\n').take(line.saturating_sub(1));
    let start: usize = lines.map(str::len).sum();
    (start + column).saturating_sub(1)
}
