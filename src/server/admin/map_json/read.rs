//! Converts one business in JSON to a `<biz>` in the form of map.xml.
//!
//! Invariant: unknown members are refused, and no value can end the element around it. Types are
//! checked here. All else is checked where the text is read.
//!
//! The parser goes no deeper than the shapes.

use std::cell::Cell;
use std::fmt;
use std::io::Write;

use serde::de::{
    DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Unexpected, Visitor,
};

use super::shape::{AttributeKind, BIZ, JsonShape};
use crate::admin::connection::MAX_BODY_BYTES;
use crate::admin::response::Refusal;
use crate::protocol::{Code, Error, Excerpt, TextPosition, json, xml};

/// The most elements of a business. `{}` takes two bytes of a body, but far more memory.
const MAX_ELEMENTS: usize = MAX_BODY_BYTES as usize / 32;
/// The memory to read a business: its elements, their attributes, and its text. Each may double as
/// it grows.
pub const HELD_BYTES: usize = 2 * MAX_ELEMENTS * size_of::<XmlElement>()
    + 2 * MAX_BODY_BYTES as usize / MIN_ATTRIBUTE_BYTES * (size_of::<(&str, String)>() + MIN_HEAP)
    + 4 * MAX_BODY_BYTES as usize;
/// The shortest attribute in JSON: `"id":1,`.
const MIN_ATTRIBUTE_BYTES: usize = 7;
/// The least memory that the allocator takes for a short text.
const MIN_HEAP: usize = 32;

/// The `<biz>` of a document `{"biz": {…}}`.
///
/// # Errors
/// The body is not JSON, does not have this shape, or its `<biz>` would be too long.
pub fn biz_as_xml(body: &[u8]) -> Result<String, Refusal> {
    let text = json::text_of(body)?;
    let reader = JsonReader { code: Cell::new(Code::BadRequest), elements: Cell::new(0) };
    let mut parser = serde_json::Deserializer::from_str(text);
    let read = parser.deserialize_any(RootVisitor(&reader));
    let read = read.and_then(|biz| parser.end().map(|()| biz));
    let biz = read.map_err(|error| match error.is_data() {
        false => json::not_json(&error, text).into(),
        true => {
            let at = json::offset(text, error.line(), error.column());
            let place = format!(" at line {} column {}", error.line(), error.column());
            let words = error.to_string();
            let words = words.strip_suffix(&place).unwrap_or(&words);
            Refusal::in_body(reader.code.get(), words, TextPosition::of(text.as_bytes(), at))
        }
    })?;
    let mut out = Vec::new();
    biz.write(&mut out, 1);
    if out.len() > MAX_BODY_BYTES as usize {
        return Err(Error::TooLarge { max_bytes: MAX_BODY_BYTES }.into());
    }
    // The input was text, and only characters were added.
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// An element to write.
struct XmlElement {
    name: &'static str,
    attributes: Vec<(&'static str, String)>,
    children: Vec<XmlElement>,
}

impl XmlElement {
    /// Appends the element with its children on lines of their own, indented like the shipped
    /// map.xml.
    fn write(&self, out: &mut Vec<u8>, depth: usize) {
        // Writing to a Vec never fails.
        let _ = write!(out, "<{}", self.name);
        for (name, value) in &self.attributes {
            let _ = write!(out, " {name}=\"");
            xml::write_escaped(out, value);
            out.push(b'"');
        }
        if self.children.is_empty() {
            return out.extend_from_slice(b"/>");
        }
        out.push(b'>');
        for child in &self.children {
            let _ = write!(out, "\n{}", "  ".repeat(depth + 1));
            child.write(out, depth + 1);
        }
        let _ = write!(out, "\n{}</{}>", "  ".repeat(depth), self.name);
    }
}

/// The state that the visitors share: the code of a fault, and the number of elements.
struct JsonReader {
    code: Cell<Code>,
    elements: Cell<usize>,
}

impl JsonReader {
    /// Counts an element.
    fn element<E: serde::de::Error>(&self) -> Result<(), E> {
        self.elements.set(self.elements.get() + 1);
        if self.elements.get() <= MAX_ELEMENTS {
            return Ok(());
        }
        Err(E::custom(format!("more than {MAX_ELEMENTS} objects in one business")))
    }

    /// A fault of JSON that frs does not accept.
    fn not_taken<E: serde::de::Error>(&self, words: impl fmt::Display) -> E {
        self.code.set(Code::BadJson);
        E::custom(words)
    }

    fn null<E: serde::de::Error>(&self) -> E {
        self.not_taken("null is not taken: leave the member out")
    }

    fn unknown<E: serde::de::Error>(&self, found: &str, expected: Vec<String>) -> E {
        let found = Excerpt::of(found);
        E::custom(format!("unknown member: expected {}{found}", expected.join(", ")))
    }

    fn repeated<E: serde::de::Error>(&self, name: &str) -> E {
        self.not_taken(format!("the member {name} occurs more than once"))
    }
}

/// Lets a visitor read a value, whatever its type.
struct Any<V>(V);

impl<'de, V: Visitor<'de>> DeserializeSeed<'de> for Any<V> {
    type Value = V::Value;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<V::Value, D::Error> {
        parser.deserialize_any(self.0)
    }
}

/// Reads the whole document.
struct RootVisitor<'r>(&'r JsonReader);

impl<'de> Visitor<'de> for RootVisitor<'_> {
    type Value = XmlElement;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with the member biz")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<XmlElement, E> {
        Err(self.0.null())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<XmlElement, A::Error> {
        let mut biz = None;
        while let Some(name) = map.next_key::<String>()? {
            if name != BIZ.element {
                return Err(self.0.unknown(&name, vec![BIZ.element.to_owned()]));
            }
            if biz.is_some() {
                return Err(self.0.repeated(BIZ.element));
            }
            biz = Some(map.next_value_seed(Any(ElementVisitor { reader: self.0, shape: &BIZ }))?);
        }
        biz.ok_or_else(|| A::Error::custom("expected the member biz"))
    }
}

/// Reads the object of an element.
struct ElementVisitor<'r> {
    reader: &'r JsonReader,
    shape: &'static JsonShape,
}

impl<'de> Visitor<'de> for ElementVisitor<'_> {
    type Value = XmlElement;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object, the {}", self.shape.element)
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<XmlElement, E> {
        Err(self.reader.null())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<XmlElement, A::Error> {
        let ElementVisitor { reader, shape } = self;
        reader.element()?;
        let mut written =
            XmlElement { name: shape.element, attributes: Vec::new(), children: Vec::new() };
        let mut arrays = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            if let Some((name, kind)) = shape.attribute(&name) {
                if written.attributes.iter().any(|(known, _)| *known == name) {
                    return Err(reader.repeated(name));
                }
                let value = map.next_value_seed(Any(AttributeVisitor { reader, name, kind }))?;
                written.attributes.push((name, value));
            } else if let Some(child) = shape.children.iter().find(|child| child.array() == name) {
                if arrays.contains(&name) {
                    return Err(reader.repeated(&name));
                }
                arrays.push(name);
                let children = Any(ChildrenVisitor { reader, shape: child });
                written.children.extend(map.next_value_seed(children)?);
            } else {
                return Err(reader.unknown(&name, shape.members().collect()));
            }
        }
        Ok(written)
    }
}

/// Reads the array of an element's children with one name.
struct ChildrenVisitor<'r> {
    reader: &'r JsonReader,
    shape: &'static JsonShape,
}

impl<'de> Visitor<'de> for ChildrenVisitor<'_> {
    type Value = Vec<XmlElement>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an array of objects, the {}", self.shape.array())
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Vec<XmlElement>, E> {
        Err(self.reader.null())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Vec<XmlElement>, A::Error> {
        let ChildrenVisitor { reader, shape } = self;
        let mut all = Vec::new();
        while let Some(one) = array.next_element_seed(Any(ElementVisitor { reader, shape }))? {
            all.push(one);
        }
        Ok(all)
    }
}

/// Reads the value of an attribute, as the text that XML has for it.
struct AttributeVisitor<'r> {
    reader: &'r JsonReader,
    name: &'static str,
    kind: AttributeKind,
}

impl AttributeVisitor<'_> {
    fn number<E: serde::de::Error>(self, text: String, found: Unexpected<'_>) -> Result<String, E> {
        match self.kind {
            AttributeKind::Whole | AttributeKind::Decimal => Ok(text),
            AttributeKind::Text | AttributeKind::Flag => Err(E::invalid_type(found, &self)),
        }
    }
}

impl<'de> Visitor<'de> for AttributeVisitor<'_> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            AttributeKind::Text => "a string",
            AttributeKind::Whole => "a whole number",
            AttributeKind::Decimal => "a number",
            AttributeKind::Flag => "true or false",
        };
        write!(f, "{kind} for {}", self.name)
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<String, E> {
        Err(self.reader.null())
    }

    fn visit_bool<E: serde::de::Error>(self, flag: bool) -> Result<String, E> {
        match self.kind {
            AttributeKind::Flag => Ok(flag.to_string()),
            _ => Err(E::invalid_type(Unexpected::Bool(flag), &self)),
        }
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<String, E> {
        self.number(number.to_string(), Unexpected::Unsigned(number))
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<String, E> {
        self.number(number.to_string(), Unexpected::Signed(number))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<String, E> {
        // JSON does not distinguish 5.0 from 5. Beyond 2^53, a number of this type is not exact.
        let is_whole = number.fract() == 0.0 && number.abs() <= (1_u64 << 53) as f64;
        match self.kind {
            AttributeKind::Decimal => Ok(number.to_string()),
            AttributeKind::Whole if is_whole => Ok(number.to_string()),
            _ => Err(E::invalid_type(Unexpected::Float(number), &self)),
        }
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<String, E> {
        if self.kind != AttributeKind::Text {
            let start = Excerpt::of(text);
            return Err(E::invalid_type(Unexpected::Str(start.text()), &self));
        }
        match text.chars().find(|&c| !xml::is_char(c)) {
            Some(c) => Err(E::custom(format!(
                "{}: expected characters that XML 1.0 allows, found U+{:04X}",
                self.name,
                u32::from(c)
            ))),
            None => Ok(text.to_owned()),
        }
    }
}
