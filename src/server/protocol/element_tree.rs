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
    /// A number with at most three decimals.
    Decimal(f64),
    /// Numbers, separated by spaces in XML and in an array in JSON.
    Numbers(Vec<u64>),
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
    /// A list of numbers.
    Numbers(&'static str, Value),
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

/// The kinds of values that an attribute takes.
macro_rules! values {
    ($($from:ty => |$value:ident| $made:expr;)*) => {$(
        impl From<$from> for Value {
            fn from($value: $from) -> Value {
                $made
            }
        }
    )*};
}

values! {
    &str => |text| Value::Text(text.to_owned());
    String => |text| Value::Text(text);
    Cow<'_, str> => |text| Value::Text(text.into_owned());
    u16 => |number| Value::Number(number.into());
    u32 => |number| Value::Number(number.into());
    u64 => |number| Value::Number(number);
    f64 => |number| Value::Decimal(number);
    &[u32] => |numbers| Value::Numbers(numbers.iter().map(|&number| number.into()).collect());
    bool => |flag| Value::Flag(flag);
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

    /// Adds attributes.
    pub fn with_each<V: Into<Value>>(
        self,
        attributes: impl IntoIterator<Item = (&'static str, V)>,
    ) -> Element {
        attributes.into_iter().fold(self, |element, (name, value)| element.with(name, value))
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
        self.parts.push(Part::Numbers(name, Value::Numbers(numbers.to_vec())));
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
        match (format, layout) {
            (Format::Xml, _) => self.write_xml(&mut out, layout, None),
            (Format::Json, Layout::Dense) => self.write_json(&mut out, layout),
            (Format::Json, Layout::Lines) => write_list(&mut out, b"{}", [self], |out, root| {
                write_name(out, root.name);
                root.write_json(out, layout);
            }),
        }
        out.push(b'\n');
        let text = String::from_utf8_lossy(&out);
        match format {
            Format::Xml => visible::in_xml(&text).into_owned(),
            Format::Json => visible::in_json(&text).into_owned(),
        }
    }

    /// Writes the element, with the attribute `name` if it has a name of its own.
    fn write_xml(&self, out: &mut Vec<u8>, layout: Layout, name: Option<&str>) {
        push(out, ["<", self.name]);
        let name = name.map(|name| ("name", Cow::Borrowed(name)));
        let attributes = self.attributes.iter().map(|(name, value)| (*name, value.bare()));
        for (name, value) in name.into_iter().chain(attributes) {
            push(out, [" ", name, "=\""]);
            write_escaped(out, &value);
            out.push(b'"');
        }
        if self.parts.is_empty() && self.text.is_none() {
            return push(out, ["/>"]);
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
                push(out, ["\n  "]);
            }
            part.write_xml(out, layout);
        }
        push(out, ["</", self.name, ">"]);
    }

    fn write_json(&self, out: &mut Vec<u8>, layout: Layout) {
        if let (Some(text), true) = (&self.text, self.attributes.is_empty()) {
            return write_string(out, text);
        }
        let mut members = self.members();
        if layout == Layout::Lines {
            members.sort_by(|(one, _), (other, _)| one.cmp(other));
        }
        write_list(out, b"{}", members, |out, (name, member)| {
            write_name(out, &name);
            member.write(out, layout);
        });
    }

    fn members(&self) -> Vec<(Cow<'static, str>, Member<'_>)> {
        let attributes = self.attributes.iter();
        let mut members: Vec<_> =
            attributes.map(|(name, value)| ((*name).into(), Member::Value(value))).collect();
        members.extend(self.text.iter().map(|text| ("message".into(), Member::Text(text))));
        for part in &self.parts {
            let (name, member) = match part {
                Part::One(child) => (child.name, Member::One(child)),
                Part::List(name, children) => (*name, Member::Many(children.iter().collect())),
                Part::Numbers(name, numbers) => (*name, Member::Value(numbers)),
                Part::Named(name, children) => (*name, Member::Named(children)),
                Part::Markup(name, text) => (*name, Member::Text(text)),
                Part::Child(child) => {
                    let name = format!("{}s", child.name);
                    match members.iter_mut().find(|(known, _)| *known == name) {
                        Some((_, Member::Many(children))) => children.push(child),
                        _ => members.push((name.into(), Member::Many(vec![child]))),
                    }
                    continue;
                }
            };
            members.push((name.into(), member));
        }
        members
    }
}

impl Part {
    fn write_xml(&self, out: &mut Vec<u8>, layout: Layout) {
        match self {
            Part::One(child) | Part::Child(child) => child.write_xml(out, layout, None),
            Part::List(name, children) => write_between_tags(out, name, |out| {
                children.iter().for_each(|child| child.write_xml(out, layout, None));
            }),
            Part::Markup(name, text) => write_between_tags(out, name, |out| push(out, [text])),
            Part::Numbers(name, numbers) => {
                write_between_tags(out, name, |out| push(out, [&numbers.bare()]));
            }
            Part::Named(_, children) => {
                for (name, child) in children {
                    child.write_xml(out, layout, Some(name));
                }
            }
        }
    }
}

impl Value {
    /// The value without escapes, alike in both formats. Numbers are as in XML; JSON has an array.
    fn bare(&self) -> Cow<'_, str> {
        match self {
            Value::Text(text) => text.into(),
            Value::Number(number) => number.to_string().into(),
            Value::Flag(flag) => flag.to_string().into(),
            Value::Numbers(numbers) => {
                numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(" ").into()
            }
            Value::Decimal(number) => {
                let text = format!("{number:.3}");
                text.trim_end_matches('0').trim_end_matches('.').to_owned().into()
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
    Named(&'e [(String, Element)]),
}

impl Member<'_> {
    fn write(&self, out: &mut Vec<u8>, layout: Layout) {
        match self {
            Member::Value(Value::Text(text)) => write_string(out, text),
            Member::Value(Value::Numbers(numbers)) => {
                write_list(out, b"[]", numbers, |out, number| push(out, [&*number.to_string()]));
            }
            Member::Value(value) => push(out, [&value.bare()]),
            Member::Text(text) => write_string(out, text),
            Member::One(element) => element.write_json(out, layout),
            Member::Many(elements) => {
                write_list(out, b"[]", elements, |out, element| element.write_json(out, layout));
            }
            Member::Named(children) => {
                write_list(out, b"{}", *children, |out, (name, child)| {
                    write_name(out, name);
                    child.write_json(out, layout);
                });
            }
        }
    }
}

fn push<const N: usize>(out: &mut Vec<u8>, texts: [&str; N]) {
    texts.iter().for_each(|text| out.extend_from_slice(text.as_bytes()));
}

fn write_between_tags(out: &mut Vec<u8>, name: &str, write: impl FnOnce(&mut Vec<u8>)) {
    push(out, ["<", name, ">"]);
    write(out);
    push(out, ["</", name, ">"]);
}

fn write_name(out: &mut Vec<u8>, name: &str) {
    write_string(out, name);
    out.push(b':');
}

/// JSON allows characters that XML does not. This document contains them unchanged, unlike answers
/// of the data plane.
fn write_string(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(serde_json::Value::from(text).to_string().as_bytes());
}

/// Writes an object or an array of JSON, whose brackets are `ends`.
fn write_list<T>(
    out: &mut Vec<u8>,
    ends: &[u8; 2],
    values: impl IntoIterator<Item = T>,
    write: impl Fn(&mut Vec<u8>, T),
) {
    out.push(ends[0]);
    for (nth, value) in values.into_iter().enumerate() {
        if nth > 0 {
            out.push(b',');
        }
        write(out, value);
    }
    out.push(ends[1]);
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
