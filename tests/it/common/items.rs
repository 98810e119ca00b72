//! Requests of many items and their answers: documents sent by POST, answers as named values.
//!
//! Answers are read strictly: a document that is not XML (or JSON), or does not have the documented
//! shape, fails the test.

use std::collections::BTreeMap;
use std::io::Write;

use quick_xml::Reader;
use quick_xml::escape::unescape;
use quick_xml::events::{BytesStart, Event};

use super::{Answer, Client};

/// The values of one item, or of one of its limits: XML attributes or JSON members.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Values(pub BTreeMap<String, String>);

/// The answer to one item.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Item {
    pub values: Values,
    /// The values of each limit, if the request asked for detail.
    pub limits: Vec<Values>,
}

/// The answer to a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    /// The request was atomic, and was refused.
    pub refused: bool,
    pub items: Vec<Item>,
}

impl Values {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }

    /// Checks each of the words: `used=3` requires this value, `retry=1..=60000` a number within
    /// these bounds, `!banned` that the value is absent.
    #[track_caller]
    pub fn expect(&self, words: &str) {
        for word in words.split_whitespace() {
            assert!(self.holds(word), "expected {word}, found {self:?}");
        }
    }

    fn holds(&self, word: &str) -> bool {
        if let Some(name) = word.strip_prefix('!') {
            return self.get(name).is_none();
        }
        let (name, value) = word.split_once('=').expect("name=value");
        match value.split_once("..=") {
            None => self.get(name) == Some(value),
            Some((from, to)) => {
                let bounds = from.parse().expect("a bound")..=to.parse().expect("a bound");
                self.number(name).is_some_and(|number: u64| bounds.contains(&number))
            }
        }
    }
}

impl Item {
    #[track_caller]
    pub fn expect(&self, words: &str) {
        self.values.expect(words);
    }
}

impl Response {
    /// Checks that the request was not refused as a whole, and that each item fits its words.
    #[track_caller]
    pub fn expect(&self, items: &[&str]) {
        assert!(!self.refused, "{self:?}");
        self.expect_items(items);
    }

    /// Checks that the request was refused as a whole, and that each item fits its words.
    #[track_caller]
    pub fn expect_refused(&self, items: &[&str]) {
        assert!(self.refused, "{self:?}");
        self.expect_items(items);
    }

    #[track_caller]
    fn expect_items(&self, items: &[&str]) {
        assert_eq!(self.items.len(), items.len(), "{self:?}");
        for (item, words) in self.items.iter().zip(items) {
            item.expect(words);
        }
    }
}

/// POSTs a document. Its first character determines the type.
pub fn post(client: &mut Client, path: &str, document: &str) -> Response {
    try_post(client, path, document).unwrap_or_else(|error| panic!("POST {path}: {error}"))
}

/// As [`post`], but fails if the server is killed meanwhile.
pub fn try_post(client: &mut Client, path: &str, document: &str) -> std::io::Result<Response> {
    let answer = try_post_unread(client, path, document)?;
    Ok(if is_json(document) { read_json(&answer) } else { read_xml(&answer) })
}

fn is_json(document: &str) -> bool {
    document.trim_start().starts_with('{')
}

/// As [`try_post`], but the answer need not be a document.
pub fn try_post_unread(client: &mut Client, path: &str, document: &str) -> std::io::Result<Answer> {
    let kind = if is_json(document) { "application/json" } else { "application/xml" };
    let fields = format!("Content-Type: {kind}\r\nContent-Length: {}", document.len());
    let head = format!("POST {path} HTTP/1.1\r\nHost: t\r\n{fields}\r\n\r\n");
    client.stream.write_all((head + document).as_bytes())?;
    client.try_answer()
}

/// GETs the answer to one item, with any status.
pub fn get(client: &mut Client, target: &str) -> Response {
    read_xml(&client.get(target))
}

/// Reads an answer that must be a `<response>`.
pub fn read_xml(answer: &Answer) -> Response {
    let mut response = Response { status: answer.status, ..Response::default() };
    let mut reader = Reader::from_str(&answer.body);
    loop {
        match reader.read_event().unwrap_or_else(|error| panic!("{error}: {answer:?}")) {
            Event::Start(tag) | Event::Empty(tag) => take_tag(&mut response, &tag, answer),
            Event::Eof => break,
            _ => {}
        }
    }
    assert!(!response.items.is_empty(), "{answer:?}");
    response
}

fn take_tag(response: &mut Response, tag: &BytesStart<'_>, answer: &Answer) {
    let values = tag.attributes().map(|attribute| {
        let attribute = attribute.unwrap_or_else(|error| panic!("{error}: {answer:?}"));
        let value =
            unescape(&attribute.value).unwrap_or_else(|error| panic!("{error}: {answer:?}"));
        (attribute.key.as_ref().to_owned(), value.into_owned())
    });
    let values = Values(values.collect());
    match tag.name().as_ref() {
        "response" => response.refused = values.get("refused") == Some("true"),
        "item" => response.items.push(Item { values, limits: Vec::new() }),
        "limit" => response.items.last_mut().expect("in an item").limits.push(values),
        _ => panic!("{answer:?}"),
    }
}

/// Reads an answer in JSON, which must have the same content. Flags and numbers become words.
pub fn read_json(answer: &Answer) -> Response {
    let body: serde_json::Value =
        serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{error}: {answer:?}"));
    let items = body["items"].as_array().unwrap_or_else(|| panic!("{answer:?}"));
    let items = items.iter().map(|item| {
        let limits = item["limits"].as_array().map(Vec::as_slice).unwrap_or_default();
        Item { values: members(item), limits: limits.iter().map(members).collect() }
    });
    Response {
        status: answer.status,
        refused: body["refused"].as_bool().unwrap_or(false),
        items: items.collect(),
    }
}

fn members(object: &serde_json::Value) -> Values {
    let members = object.as_object().expect("an object").iter();
    let flat = members.filter(|(name, value)| !value.is_array() || *name == "history");
    let word = |value: &serde_json::Value| match (value.as_str(), value.as_array()) {
        (Some(text), _) => text.to_owned(),
        (None, Some(numbers)) => {
            numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        }
        (None, None) => value.to_string(),
    };
    Values(flat.map(|(name, value)| (name.clone(), word(value))).collect())
}
