//! Documents of the admin plane: a small tree, written as XML or as JSON.
//!
//! Invariant: both formats say the same. An element's attributes are a JSON object's members; its
//! children stand in lists, `limits` of each `<limit>`, but for one that is always one; an element of
//! text alone is a string there.

use serde_json::{Map, Value};

use super::xml::write_escaped;
use super::{Format, visible};

/// An element.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Element {
    name: &'static str,
    fields: Vec<(&'static str, Field)>,
    children: Vec<Element>,
    text: Option<String>,
    /// Its parent has one of it.
    single: bool,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs)]
pub enum Field {
    Text(String),
    Number(u64),
    Flag(bool),
}

impl From<&str> for Field {
    fn from(text: &str) -> Field {
        Field::Text(text.to_owned())
    }
}

impl From<String> for Field {
    fn from(text: String) -> Field {
        Field::Text(text)
    }
}

impl From<u64> for Field {
    fn from(number: u64) -> Field {
        Field::Number(number)
    }
}

impl From<bool> for Field {
    fn from(flag: bool) -> Field {
        Field::Flag(flag)
    }
}

impl Element {
    /// An empty one.
    pub fn new(name: &'static str) -> Element {
        Element { name, ..Element::default() }
    }

    /// One of text alone.
    pub fn text(name: &'static str, text: impl Into<String>) -> Element {
        Element { text: Some(text.into()), ..Element::new(name) }
    }

    /// The same with another attribute.
    pub fn with(mut self, name: &'static str, value: impl Into<Field>) -> Element {
        self.fields.push((name, value.into()));
        self
    }

    /// The same with another attribute, if there is a value.
    pub fn with_some(self, name: &'static str, value: Option<impl Into<Field>>) -> Element {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// The same with a child of which there is always one.
    pub fn holding_one(mut self, child: Element) -> Element {
        self.children.push(Element { single: true, ..child });
        self
    }

    /// The same with more children.
    pub fn holding(mut self, children: impl IntoIterator<Item = Element>) -> Element {
        self.children.extend(children);
        self
    }

    /// The document of which it is the root.
    pub fn document(&self, format: Format) -> Vec<u8> {
        let mut text = match format {
            Format::Xml => {
                let mut out = Vec::new();
                self.write_xml(&mut out);
                visible::in_xml(&String::from_utf8_lossy(&out)).into_owned()
            }
            Format::Json => {
                let root = Map::from_iter([(self.name.to_owned(), self.json())]);
                visible::in_json(&Value::Object(root).to_string()).into_owned()
            }
        };
        text.push('\n');
        text.into_bytes()
    }

    fn write_xml(&self, out: &mut Vec<u8>) {
        out.push(b'<');
        out.extend_from_slice(self.name.as_bytes());
        for (name, value) in &self.fields {
            out.push(b' ');
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"=\"");
            match value {
                Field::Text(text) => write_escaped(out, text),
                Field::Number(number) => out.extend_from_slice(number.to_string().as_bytes()),
                Field::Flag(flag) => out.extend_from_slice(flag.to_string().as_bytes()),
            }
            out.push(b'"');
        }
        if self.children.is_empty() && self.text.is_none() {
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
        for child in &self.children {
            out.extend_from_slice(b"\n  ");
            child.write_xml(out);
        }
        out.extend_from_slice(b"</");
        out.extend_from_slice(self.name.as_bytes());
        out.push(b'>');
    }

    fn json(&self) -> Value {
        if let (Some(text), true) = (&self.text, self.fields.is_empty()) {
            return Value::String(text.clone());
        }
        let mut members = Map::new();
        for (name, value) in &self.fields {
            let value = match value {
                Field::Text(text) => Value::String(text.clone()),
                Field::Number(number) => Value::from(*number),
                Field::Flag(flag) => Value::from(*flag),
            };
            members.insert((*name).to_owned(), value);
        }
        if let Some(text) = &self.text {
            members.insert("message".to_owned(), Value::String(text.clone()));
        }
        for child in &self.children {
            if child.single {
                members.insert(child.name.to_owned(), child.json());
                continue;
            }
            let list = members.entry(format!("{}s", child.name)).or_insert(Value::Array(vec![]));
            if let Value::Array(list) = list {
                list.push(child.json());
            }
        }
        Value::Object(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_say_the_same() {
        let limit = Element::new("limit").with("index", 1).with("limited", true);
        let root = Element::new("node")
            .with("key", "a\"<\n")
            .with_some("reset", None::<u64>)
            .holding([limit, Element::text("fault", "x & y\nz")])
            .holding_one(Element::new("store").with("ok", true));
        let text = |format| String::from_utf8(root.document(format)).unwrap();
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
        let json: Value = serde_json::from_str(&text(Format::Json)).unwrap();
        assert_eq!(json["node"]["key"], "a\"<\n");
        assert_eq!(json["node"]["limits"][0]["limited"], true);
        assert_eq!(json["node"]["faults"][0], "x & y\nz");
        assert_eq!(json["node"]["store"]["ok"], true);
    }

    #[test]
    fn what_nobody_sees_is_shown_by_number() {
        let root = Element::text("node", "\u{9B}").with("key", "a\u{202E}b\u{85}");
        let text = |format| String::from_utf8(root.document(format)).unwrap();
        let xml = "<node key=\"a&#x202e;b&#x85;\">&#x9b;</node>\n";
        assert_eq!(text(Format::Xml), xml);
        let json = "{\"node\":{\"key\":\"a\\u202eb\\u0085\",\"message\":\"\\u009b\"}}\n";
        assert_eq!(text(Format::Json), json);
    }

    /// XML has no such characters; JSON has them all.
    #[test]
    fn what_is_no_character_of_xml_is_shown_in_json() {
        let root = Element::new("node").with("key", "\u{1}\u{8}\u{C}\u{7F}\u{FFFE}/\\\t\r");
        let text = |format| String::from_utf8(root.document(format)).unwrap();
        let fffd = "\u{FFFD}";
        let xml = format!("<node key=\"{fffd}{fffd}{fffd}&#x7f;{fffd}/\\&#9;&#13;\"/>\n");
        assert_eq!(text(Format::Xml), xml);
        let json = "{\"node\":{\"key\":\"\\u0001\\b\\f\\u007f\u{FFFE}/\\\\\\t\\r\"}}\n";
        assert_eq!(text(Format::Json), json);
    }

    #[test]
    fn errors_look_as_those_of_the_data_plane() {
        let error = Element::text("error", "no").with("code", "not-found");
        let text = |format| String::from_utf8(error.document(format)).unwrap();
        assert_eq!(text(Format::Xml), "<error code=\"not-found\">no</error>\n");
        let expected = "{\"error\":{\"code\":\"not-found\",\"message\":\"no\"}}\n";
        assert_eq!(text(Format::Json), expected);
    }
}
