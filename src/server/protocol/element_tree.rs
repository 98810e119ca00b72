//! A tree of elements: one document, written as XML or as JSON.
//!
//! Invariant: both formats are written from one tree, so they have the same content. In JSON an
//! element is an object, and its attributes are members. Its children are in lists, except a child
//! that always occurs exactly once. An element with text only is a string.

use std::borrow::Cow;

use super::xml::write_escaped;
use super::{Format, visible};

/// An element, or an object.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Element {
    name: &'static str,
    attributes: Vec<(&'static str, Value)>,
    text: Option<String>,
    parts: Vec<Part>,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs)]
pub enum Value {
    Text(String),
    Number(u64),
    Signed(i64),
    /// A number with at most three decimals.
    Decimal(f64),
    /// Numbers, separated by spaces in XML and in an array in JSON.
    Numbers(Vec<u32>),
    Flag(bool),
}

#[derive(Debug, Clone, PartialEq)]
enum Part {
    /// A child that occurs exactly once.
    One(Element),
    /// One of any number of children. JSON has them in a list named like the child plus `s`.
    Child(Element),
    /// A list with a name of its own, present even if it is empty.
    List(&'static str, Vec<Element>),
    Numbers(&'static str, Vec<u64>),
    /// Children with a name each. JSON has an object with these names.
    Named(&'static str, Vec<(String, Element)>),
    /// A child that contains an element as text, which XML takes unchanged.
    Markup(&'static str, String),
}

/// The layout of a document. Each call of the admin plane keeps its layout, because clients compare
/// documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// XML has a line for each child. JSON names the root, and sorts the members by name.
    Lines,
    /// XML is one line. JSON is the object of the root, with members in the order of their
    /// addition.
    Dense,
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<Cow<'_, str>> for Value {
    fn from(text: Cow<'_, str>) -> Value {
        Value::Text(text.into_owned())
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Value {
        Value::Number(number)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Signed(number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Value {
        Value::Number(number.into())
    }
}

impl From<u16> for Value {
    fn from(number: u16) -> Value {
        Value::Number(number.into())
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Value {
        Value::Decimal(number)
    }
}

impl From<&[u32]> for Value {
    fn from(numbers: &[u32]) -> Value {
        Value::Numbers(numbers.to_vec())
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Value {
        Value::Flag(flag)
    }
}

impl Element {
    /// An empty element.
    pub fn new(name: &'static str) -> Element {
        Element { name, ..Element::default() }
    }

    /// An element with text only.
    pub fn text(name: &'static str, text: impl Into<String>) -> Element {
        Element { text: Some(text.into()), ..Element::new(name) }
    }

    /// Adds an attribute.
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Element {
        self.attributes.push((name, value.into()));
        self
    }

    /// Adds an attribute, if there is a value.
    pub fn with_some(self, name: &'static str, value: Option<impl Into<Value>>) -> Element {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Adds a child that occurs exactly once.
    pub fn holding_one(mut self, child: Element) -> Element {
        self.parts.push(Part::One(child));
        self
    }

    /// Adds children.
    pub fn holding(mut self, children: impl IntoIterator<Item = Element>) -> Element {
        self.parts.extend(children.into_iter().map(Part::Child));
        self
    }

    /// Adds a list of children with a name of its own.
    pub fn listing(
        mut self,
        name: &'static str,
        children: impl IntoIterator<Item = Element>,
    ) -> Element {
        self.parts.push(Part::List(name, children.into_iter().collect()));
        self
    }

    /// Adds a child that contains an element as well-formed text, if there is a text.
    pub fn holding_markup(mut self, name: &'static str, text: Option<String>) -> Element {
        self.parts.extend(text.map(|text| Part::Markup(name, text)));
        self
    }

    /// Adds a list of numbers.
    pub fn numbers(mut self, name: &'static str, numbers: &[u64]) -> Element {
        self.parts.push(Part::Numbers(name, numbers.to_vec()));
        self
    }

    /// Adds children that are named by `part` and have a name each. XML has the latter in the
    /// attribute `name`, JSON as the member of an object.
    pub fn by_name(
        mut self,
        part: &'static str,
        children: impl IntoIterator<Item = (String, Element)>,
    ) -> Element {
        self.parts.push(Part::Named(part, children.into_iter().collect()));
        self
    }

    /// The document with this root.
    pub fn document(&self, format: Format, layout: Layout) -> String {
        let mut out = Vec::new();
        match format {
            Format::Xml => self.write_xml(&mut out, layout),
            Format::Json => self.write_json_root(&mut out, layout),
        }
        out.push(b'\n');
        let text = String::from_utf8_lossy(&out);
        match format {
            Format::Xml => visible::in_xml(&text).into_owned(),
            Format::Json => visible::in_json(&text).into_owned(),
        }
    }

    fn write_xml(&self, out: &mut Vec<u8>, layout: Layout) {
        self.write_named(out, layout, None);
    }

    /// Writes the element, with the attribute `name` if it has a name of its own.
    fn write_named(&self, out: &mut Vec<u8>, layout: Layout, name: Option<&str>) {
        out.push(b'<');
        out.extend_from_slice(self.name.as_bytes());
        if let Some(name) = name {
            out.extend_from_slice(b" name=\"");
            write_escaped(out, name);
            out.push(b'"');
        }
        for (name, value) in &self.attributes {
            out.push(b' ');
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"=\"");
            match value {
                Value::Text(text) => write_escaped(out, text),
                value => value.write_bare(out),
            }
            out.push(b'"');
        }
        if self.parts.is_empty() && self.text.is_none() {
            out.extend_from_slice(b"/>");
            return;
        }
        out.push(b'>');
        for (nth, line) in self.text.iter().flat_map(|text| text.split('\n')).enumerate() {
            if nth > 0 {
                out.push(b'\n');
            }
            write_escaped(out, line);
        }
        for part in &self.parts {
            if layout == Layout::Lines {
                out.extend_from_slice(b"\n  ");
            }
            part.write_xml(out, layout);
        }
        end_tag(out, self.name);
    }

    fn write_json_root(&self, out: &mut Vec<u8>, layout: Layout) {
        match layout {
            Layout::Lines => {
                write_name(out, b'{', self.name);
                self.write_json(out, layout);
                out.push(b'}');
            }
            Layout::Dense => self.write_json(out, layout),
        }
    }

    fn write_json(&self, out: &mut Vec<u8>, layout: Layout) {
        if let (Some(text), true) = (&self.text, self.attributes.is_empty()) {
            return write_string(out, text);
        }
        let mut members = self.members();
        if layout == Layout::Lines {
            members.sort_by(|(one, _), (other, _)| one.cmp(other));
        }
        let mut before = b'{';
        for (name, member) in &members {
            write_name(out, std::mem::replace(&mut before, b','), name);
            member.write(out, layout);
        }
        if members.is_empty() {
            out.push(b'{');
        }
        out.push(b'}');
    }

    fn members(&self) -> Vec<(Cow<'static, str>, Member<'_>)> {
        let attributes = self.attributes.iter();
        let mut members: Vec<_> =
            attributes.map(|(name, value)| ((*name).into(), Member::Value(value))).collect();
        members.extend(self.text.iter().map(|text| ("message".into(), Member::Text(text))));
        for part in &self.parts {
            match part {
                Part::One(child) => members.push((child.name.into(), Member::One(child))),
                Part::List(name, children) => {
                    members.push(((*name).into(), Member::Many(children.iter().collect())));
                }
                Part::Numbers(name, numbers) => {
                    members.push(((*name).into(), Member::Numbers(numbers)));
                }
                Part::Named(part, children) => {
                    members.push(((*part).into(), Member::Named(children)));
                }
                Part::Markup(name, text) => members.push(((*name).into(), Member::Text(text))),
                Part::Child(child) => {
                    let name = format!("{}s", child.name);
                    match members.iter_mut().find(|(known, _)| *known == name) {
                        Some((_, Member::Many(children))) => children.push(child),
                        _ => members.push((name.into(), Member::Many(vec![child]))),
                    }
                }
            }
        }
        members
    }
}

impl Part {
    fn write_xml(&self, out: &mut Vec<u8>, layout: Layout) {
        match self {
            Part::One(child) | Part::Child(child) => child.write_xml(out, layout),
            Part::List(name, children) => {
                begin_tag(out, name);
                children.iter().for_each(|child| child.write_xml(out, layout));
                end_tag(out, name);
            }
            Part::Markup(name, text) => {
                begin_tag(out, name);
                out.extend_from_slice(text.as_bytes());
                end_tag(out, name);
            }
            Part::Numbers(name, numbers) => {
                begin_tag(out, name);
                let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
                out.extend_from_slice(numbers.join(" ").as_bytes());
                end_tag(out, name);
            }
            Part::Named(_, children) => {
                children
                    .iter()
                    .for_each(|(name, child)| child.write_named(out, layout, Some(name)));
            }
        }
    }
}

impl Value {
    /// Appends the value without escapes, in the form that both formats share.
    fn write_bare(&self, out: &mut Vec<u8>) {
        match self {
            Value::Text(text) => out.extend_from_slice(text.as_bytes()),
            Value::Number(number) => out.extend_from_slice(number.to_string().as_bytes()),
            Value::Signed(number) => out.extend_from_slice(number.to_string().as_bytes()),
            Value::Flag(flag) => out.extend_from_slice(flag.to_string().as_bytes()),
            Value::Numbers(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
                out.extend_from_slice(numbers.join(" ").as_bytes());
            }
            Value::Decimal(number) => {
                let text = format!("{number:.3}");
                let text = text.trim_end_matches('0').trim_end_matches('.');
                out.extend_from_slice(text.as_bytes());
            }
        }
    }
}

/// The value of a member of a JSON object.
enum Member<'e> {
    Value(&'e Value),
    Text(&'e str),
    One(&'e Element),
    Many(Vec<&'e Element>),
    Numbers(&'e [u64]),
    Named(&'e [(String, Element)]),
}

impl Member<'_> {
    fn write(&self, out: &mut Vec<u8>, layout: Layout) {
        match self {
            Member::Value(Value::Text(text)) => write_string(out, text),
            Member::Value(Value::Numbers(numbers)) => write_array(out, numbers, |out, number| {
                out.extend_from_slice(number.to_string().as_bytes());
            }),
            Member::Value(value) => value.write_bare(out),
            Member::Text(text) => write_string(out, text),
            Member::One(element) => element.write_json(out, layout),
            Member::Many(elements) => {
                write_array(out, elements, |out, element| element.write_json(out, layout));
            }
            Member::Numbers(numbers) => write_array(out, numbers, |out, number| {
                out.extend_from_slice(number.to_string().as_bytes());
            }),
            Member::Named(children) => {
                let mut before = b'{';
                for (name, child) in *children {
                    write_name(out, std::mem::replace(&mut before, b','), name);
                    child.write_json(out, layout);
                }
                if children.is_empty() {
                    out.push(b'{');
                }
                out.push(b'}');
            }
        }
    }
}

fn write_name(out: &mut Vec<u8>, before: u8, name: &str) {
    out.push(before);
    write_string(out, name);
    out.push(b':');
}

/// JSON allows characters that XML does not. This document contains them unchanged, unlike answers
/// of the data plane.
fn write_string(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(serde_json::Value::from(text).to_string().as_bytes());
}

fn write_array<T>(out: &mut Vec<u8>, values: &[T], write: impl Fn(&mut Vec<u8>, &T)) {
    out.push(b'[');
    for (nth, value) in values.iter().enumerate() {
        if nth > 0 {
            out.push(b',');
        }
        write(out, value);
    }
    out.push(b']');
}

fn begin_tag(out: &mut Vec<u8>, name: &str) {
    out.push(b'<');
    out.extend_from_slice(name.as_bytes());
    out.push(b'>');
}

fn end_tag(out: &mut Vec<u8>, name: &str) {
    out.extend_from_slice(b"</");
    out.extend_from_slice(name.as_bytes());
    out.push(b'>');
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value as Json;

    #[test]
    fn both_formats_say_the_same() {
        let limit = Element::new("limit").with("index", 1_u64).with("limited", true);
        let root = Element::new("node")
            .with("key", "a\"<\n")
            .with_some("reset", None::<u64>)
            .holding([limit, Element::text("fault", "x & y\nz")])
            .holding_one(Element::new("store").with("ok", true));
        let text = |format| root.document(format, Layout::Lines);
        assert_eq!(
            text(Format::Xml),
            "<node key=\"a&quot;&lt;&#10;\">\n  <limit index=\"1\" limited=\"true\"/>\n  \
             <fault>x &amp; y\nz</fault>\n  <store ok=\"true\"/></node>\n"
        );
        assert_eq!(
            text(Format::Json),
            "{\"node\":{\"faults\":[\"x & y\\nz\"],\"key\":\"a\\\"<\\n\",\
             \"limits\":[{\"index\":1,\"limited\":true}],\"store\":{\"ok\":true}}}\n"
        );
        let json: Json = serde_json::from_str(&text(Format::Json)).unwrap();
        assert_eq!(json["node"]["key"], "a\"<\n");
        assert_eq!(json["node"]["limits"][0]["limited"], true);
        assert_eq!(json["node"]["faults"][0], "x & y\nz");
        assert_eq!(json["node"]["store"]["ok"], true);
    }

    #[test]
    fn what_nobody_sees_is_shown_by_number() {
        let root = Element::text("node", "\u{9B}").with("key", "a\u{202E}b\u{85}");
        let text = |format| root.document(format, Layout::Lines);
        let xml = "<node key=\"a&#x202e;b&#x85;\">&#x9b;</node>\n";
        assert_eq!(text(Format::Xml), xml);
        let json = "{\"node\":{\"key\":\"a\\u202eb\\u0085\",\"message\":\"\\u009b\"}}\n";
        assert_eq!(text(Format::Json), json);
    }

    /// XML has no such characters. JSON has all of them.
    #[test]
    fn what_is_no_character_of_xml_is_shown_in_json() {
        let root = Element::new("node").with("key", "\u{1}\u{8}\u{C}\u{7F}\u{FFFE}/\\\t\r");
        let text = |format| root.document(format, Layout::Lines);
        let fffd = "\u{FFFD}";
        let xml = format!("<node key=\"{fffd}{fffd}{fffd}&#x7f;{fffd}/\\&#9;&#13;\"/>\n");
        assert_eq!(text(Format::Xml), xml);
        let json = "{\"node\":{\"key\":\"\\u0001\\b\\f\\u007f\u{FFFE}/\\\\\\t\\r\"}}\n";
        assert_eq!(text(Format::Json), json);
    }

    #[test]
    fn errors_look_as_those_of_the_data_plane() {
        let error = Element::text("error", "no").with("code", "not-found");
        let text = |format| error.document(format, Layout::Lines);
        assert_eq!(text(Format::Xml), "<error code=\"not-found\">no</error>\n");
        let expected = "{\"error\":{\"code\":\"not-found\",\"message\":\"no\"}}\n";
        assert_eq!(text(Format::Json), expected);
    }

    #[test]
    fn a_dense_document_keeps_the_order_and_its_empty_lists() {
        let hot = Element::new("node").with("key", "a").with("at", 0.5);
        let root = Element::new("stats")
            .with("now", 7_u64)
            .with("half", 2.0)
            .holding_one(Element::new("latency"))
            .listing("hottest", [hot.clone(), hot])
            .listing("errors", [])
            .numbers("chains", &[1, 2]);
        assert_eq!(
            root.document(Format::Xml, Layout::Dense),
            "<stats now=\"7\" half=\"2\"><latency/><hottest><node key=\"a\" at=\"0.5\"/>\
             <node key=\"a\" at=\"0.5\"/></hottest><errors></errors><chains>1 2</chains></stats>\n"
        );
        assert_eq!(
            root.document(Format::Json, Layout::Dense),
            "{\"now\":7,\"half\":2,\"latency\":{},\"hottest\":[{\"key\":\"a\",\"at\":0.5},\
             {\"key\":\"a\",\"at\":0.5}],\"errors\":[],\"chains\":[1,2]}\n"
        );
    }
}
