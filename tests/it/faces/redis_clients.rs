//! The face of Redis clients, in both versions of the protocol.

use std::net::SocketAddr;

use redis::{Client, Cmd, Connection, Value, cmd};

use super::ask::{Ask, AskItem, Extra};
use super::{Face, Fault, MAX_ITEMS, Told};
use crate::common::items::{Item, Values};
use crate::common::wait_until;

pub struct Resp {
    connection: Connection,
    version: u8,
}

impl Resp {
    pub fn connect(address: SocketAddr, version: u8) -> Resp {
        let client = Client::open(format!("redis://{address}/?protocol=resp{version}"));
        let client = client.expect("an address");
        let connection = wait_until("a connection", || client.get_connection().ok());
        Resp { connection, version }
    }

    /// The reply, or the error's name after ERR.
    fn reply(&mut self, command: &Cmd) -> Result<Value, String> {
        command.query(&mut self.connection).map_err(|error| {
            assert_eq!(error.code(), Some("ERR"), "{error}");
            let words = error.detail().expect("words").to_owned();
            words.split(' ').next().expect("a word").to_owned()
        })
    }

    fn item(&self, map: &Value) -> Item {
        let mut item = Item::default();
        for (name, value) in self.pairs(map) {
            let Value::Array(limits) = value else {
                item.values.0.insert(name.to_owned(), word(name, value));
                continue;
            };
            assert_eq!(name, "limits");
            let limit = |limit| self.pairs(limit).into_iter().map(named).collect();
            item.limits = limits.iter().map(|one| Values(limit(one))).collect();
        }
        item
    }

    /// The names and values of a map in the form of this version.
    fn pairs<'v>(&self, map: &'v Value) -> Vec<(&'v str, &'v Value)> {
        match (self.version, map) {
            (3, Value::Map(map)) => map.iter().map(|(name, value)| (text(name), value)).collect(),
            (2, Value::Array(flat)) => {
                let (pairs, rest) = flat.as_chunks();
                assert!(rest.is_empty(), "{flat:?}");
                pairs.iter().map(|[name, value]| (text(name), value)).collect()
            }
            _ => panic!("found {map:?}, expected a map of RESP{}", self.version),
        }
    }

    fn single(&mut self, ask: &Ask, item: &AskItem) -> Item {
        let mut command = cmd(if ask.is_update { "FRS.UPDATE" } else { "FRS.QUERY" });
        command.arg(&item.biz).arg(&item.key);
        if let Some(count) = item.count {
            command.arg("COUNT").arg(count);
        }
        for (name, extra) in item.extras.set() {
            command.arg(name.to_uppercase());
            match extra {
                Extra::Text(text) => command.arg(text),
                Extra::Number(number) => command.arg(number),
                Extra::Flag => &mut command,
            };
        }
        if item.force && ask.is_update {
            command.arg("FORCE");
        }
        if item.detail {
            command.arg("DETAIL");
        }
        match self.reply(&command) {
            Ok(map) => self.item(&map),
            Err(word) => {
                let values = [("error".to_owned(), word)];
                Item { values: Values(values.into()), limits: Vec::new() }
            }
        }
    }

    fn many(&mut self, ask: &Ask) -> Result<Told, Fault> {
        let mut command = cmd(if ask.is_update { "FRS.MUPDATE" } else { "FRS.MQUERY" });
        let first = &ask.items[0];
        for (is_set, word) in
            [(ask.is_atomic, "ATOMIC"), (first.force, "FORCE"), (first.detail, "DETAIL")]
        {
            if is_set {
                command.arg(word);
            }
        }
        if let Some(id) = &ask.once {
            command.arg("ONCE").arg(id);
        }
        command.arg("ITEMS").arg(ask.items.len());
        for item in &ask.items {
            command.arg(&item.biz).arg(&item.key).arg(item.count.unwrap_or(1));
        }
        let reply = self.reply(&command)?;
        let pairs = self.pairs(&reply);
        let [("refused", refused), ("items", Value::Array(items))] = pairs[..] else {
            panic!("found {reply:?}, expected refused and items")
        };
        let refused = word("limited", refused) == "true";
        Ok(Told { refused, items: items.iter().map(|item| self.item(item)).collect() })
    }
}

fn named((name, value): (&str, &Value)) -> (String, String) {
    (name.to_owned(), word(name, value))
}

fn text(value: &Value) -> &str {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).expect("UTF-8"),
        other => panic!("found {other:?}, expected a bulk string"),
    }
}

/// A value as XML writes it.
fn word(name: &str, value: &Value) -> String {
    let is_flag = matches!(
        name,
        "limited" | "shadow" | "degraded" | "banned" | "shared" | "repeated" | "unknown-hold"
    );
    match value {
        Value::Array(numbers) => {
            numbers.iter().map(|number| word(name, number)).collect::<Vec<_>>().join(" ")
        }
        Value::Int(0) if is_flag => "false".to_owned(),
        Value::Int(1) if is_flag => "true".to_owned(),
        Value::Int(number) if !is_flag => number.to_string(),
        value => text(value).to_owned(),
    }
}

impl Face for Resp {
    fn ask(&mut self, ask: &Ask) -> Option<Result<Told, Fault>> {
        let first = &ask.items[0];
        let is_alike = |item: &AskItem| {
            !item.extras.is_any() && item.force == first.force && item.detail == first.detail
        };
        if ask.items.iter().all(is_alike) && (ask.is_atomic || ask.items.len() > 1) {
            return Some(self.many(ask));
        }
        // A Query has no FORCE, which makes no difference unless the item is partial.
        if !ask.is_update && ask.items.iter().any(|item| item.force && item.extras.partial) {
            return None;
        }
        // A command of many items has one force and one detail for all, and no further options.
        if ask.is_atomic || ask.items.len() > MAX_ITEMS {
            return None;
        }
        let items = ask.items.iter().map(|item| self.single(ask, item)).collect();
        Some(Ok(Told { refused: false, items }))
    }
}
