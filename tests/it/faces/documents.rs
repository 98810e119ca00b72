//! The faces of HTTP: documents of XML and JSON, and GET.

use std::net::SocketAddr;

use serde_json::{Map, Value, json};

use super::ask::{Ask, AskItem, Extra};
use super::{Face, Fault, Told, client};
use crate::common::items::{self, Item, Response};
use crate::common::{Answer, Client};

pub struct Xml(Client);
pub struct Json(Client);
pub struct Get(Client);

impl Xml {
    pub fn connect(address: SocketAddr) -> Xml {
        Xml(client(address))
    }
}

impl Json {
    pub fn connect(address: SocketAddr) -> Json {
        Json(client(address))
    }
}

impl Get {
    pub fn connect(address: SocketAddr) -> Get {
        Get(client(address))
    }
}

fn path(ask: &Ask) -> &'static str {
    if ask.is_update { "/update" } else { "/query" }
}

/// Removes the echo of biz and key, which must be as asked.
fn unechoed(mut item: Item, asked: &AskItem) -> Item {
    for (name, asked) in [("biz", &asked.biz), ("key", &asked.key)] {
        assert_eq!(item.values.0.remove(name).as_ref(), Some(asked));
    }
    item
}

fn told(response: Response, ask: &Ask) -> Told {
    assert_eq!(response.items.len(), ask.items.len());
    let items = response.items.into_iter().zip(&ask.items);
    Told {
        refused: response.refused,
        items: items.map(|(item, asked)| unechoed(item, asked)).collect(),
    }
}

impl Face for Xml {
    fn ask(&mut self, ask: &Ask) -> Option<Result<Told, Fault>> {
        let items: String = ask.items.iter().map(xml_item).collect();
        let once = ask.once.as_ref().map(|id| format!(" once=\"{}\"", escaped(id)));
        let once = once.unwrap_or_default();
        let document = format!("<request atomic='{}'{once}>{items}</request>", ask.is_atomic);
        let answer = post(&mut self.0, path(ask), &document);
        if let Some((_, rest)) = answer.body.split_once("<error code=\"") {
            let (code, _) = rest.split_once('"').expect("a code");
            return Some(Err(code.to_owned()));
        }
        Some(Ok(told(items::read_xml(&answer), ask)))
    }
}

fn xml_item(item: &AskItem) -> String {
    let AskItem { biz, key, count, force, detail, extras } = item;
    let mut text = format!("<item biz=\"{biz}\" key=\"{}\"", escaped(key));
    if let Some(count) = count {
        text += &format!(" count=\"{count}\"");
    }
    if *force {
        text += " force=\"true\"";
    }
    if *detail {
        text += " detail=\"true\"";
    }
    for (name, extra) in extras.set() {
        text += &match extra {
            Extra::Text(text) => format!(" {name}=\"{}\"", escaped(text)),
            Extra::Number(number) => format!(" {name}=\"{number}\""),
            Extra::Flag => format!(" {name}=\"true\""),
        };
    }
    text + "/>"
}

fn escaped(text: &str) -> String {
    let escape = |letter: char| match letter {
        '<' | '&' | '"' | '\t' | '\n' => format!("&#{};", u32::from(letter)),
        _ => letter.to_string(),
    };
    text.chars().map(escape).collect()
}

impl Face for Json {
    fn ask(&mut self, ask: &Ask) -> Option<Result<Told, Fault>> {
        let items: Vec<_> = ask.items.iter().map(json_item).collect();
        let mut document = json!({ "atomic": ask.is_atomic, "items": items });
        if let Some(id) = &ask.once {
            document["once"] = json!(id);
        }
        let answer = post(&mut self.0, path(ask), &document.to_string());
        let body: Value = serde_json::from_str(&answer.body).expect("JSON");
        if let Some(error) = body.get("error") {
            return Some(Err(error["code"].as_str().expect("a code").to_owned()));
        }
        Some(Ok(told(items::read_json(&answer), ask)))
    }
}

fn json_item(item: &AskItem) -> Value {
    let AskItem { biz, key, count, force, detail, extras } = item;
    // Keys that are integers are sent as integers.
    let text = |text: &String| match text.parse::<u64>() {
        Ok(number) if number.to_string() == *text => json!(number),
        _ => json!(text),
    };
    let is_integer_key = biz == "counter" || biz == "3";
    let key = if is_integer_key { text(key) } else { json!(key) };
    let mut values = Map::from_iter([("biz".to_owned(), text(biz)), ("key".to_owned(), key)]);
    let mut add = |name: &str, value: Value| values.insert(name.to_owned(), value);
    if let Some(count) = count {
        add("count", json!(count));
    }
    if *force {
        add("force", json!(true));
    }
    if *detail {
        add("detail", json!(true));
    }
    for (name, extra) in extras.set() {
        add(
            name,
            match extra {
                Extra::Text(text) => json!(text),
                Extra::Number(number) => json!(number),
                Extra::Flag => json!(true),
            },
        );
    }
    values.into()
}

fn post(client: &mut Client, path: &str, document: &str) -> Answer {
    let answer = items::try_post_unread(client, path, document).expect("an answer");
    // A document that is too large is not read to its end, and the connection closes.
    if answer.closes() {
        *client = self::client(client.stream.peer_addr().expect("connected"));
    }
    answer
}

impl Face for Get {
    /// Asks the items of a request that is not atomic one after the other.
    fn ask(&mut self, ask: &Ask) -> Option<Result<Told, Fault>> {
        if ask.is_atomic || ask.items.len() > super::MAX_ITEMS {
            return None;
        }
        let items = ask.items.iter().map(|item| {
            // An Update tells its id in the head.
            let id = item.extras.once.as_ref().filter(|_| ask.is_update).map(|id| {
                let quoted = id.replace('\\', "\\\\").replace('"', "\\\"");
                format!("Idempotency-Key: \"{quoted}\"\r\n")
            });
            let target = target(path(ask), item, id.is_none());
            let head =
                format!("GET {target} HTTP/1.1\r\nHost: x\r\n{}\r\n", id.unwrap_or_default());
            self.0.send(&head);
            let answer = self.0.answer();
            let mut response = items::read_xml(&answer);
            let item = unechoed(response.items.pop().expect("an item"), item);
            assert_eq!(answer.status, status(&item), "{answer:?}");
            item
        });
        Some(Ok(Told { refused: false, items: items.collect() }))
    }
}

fn status(item: &Item) -> u16 {
    match (item.values.get("error"), item.values.get("limited")) {
        (Some("store" | "busy" | "full" | "full-holds"), _) => 503,
        (Some(_), _) => 400,
        (None, Some("true")) => 429,
        (None, _) => 200,
    }
}

/// `has_id`: an id is a parameter, too.
fn target(path: &str, item: &AskItem, has_id: bool) -> String {
    let AskItem { biz, key, count, force, detail, extras } = item;
    let mut target = format!("{path}?biz={biz}&key={}", percent_encoded(key));
    if let Some(count) = count {
        target += &format!("&count={count}");
    }
    if *force {
        target += "&force=true";
    }
    if *detail {
        target += "&detail=true";
    }
    for (name, extra) in extras.set().filter(|(name, _)| has_id || *name != "once") {
        target += &match extra {
            Extra::Text(text) => format!("&{name}={}", percent_encoded(text)),
            Extra::Number(number) => format!("&{name}={number}"),
            Extra::Flag => format!("&{name}=true"),
        };
    }
    target
}

fn percent_encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'0'..=b'9' | b'.' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}
