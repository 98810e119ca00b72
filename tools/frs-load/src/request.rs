//! Requests as they are sent.
//!
//! Invariant: a request is well-formed and complete, whatever the keys; nothing in it needs
//! escaping (arguments.rs lets nothing else through).

use frs::service::Command;

use crate::arguments::{Arguments, KeyType};
use crate::keys::write_key;

/// What all requests of a run have in common.
#[derive(Debug, Clone)]
pub struct Requests {
    /// Up to the length of the body.
    head: String,
    /// Around all items.
    document: (&'static str, &'static str),
    between: &'static str,
    /// Around a key.
    item: (String, &'static str),
    key_type: KeyType,
    body: String,
}

impl Requests {
    /// Of a run.
    pub fn new(arguments: &Arguments) -> Requests {
        let path = match arguments.command() {
            Command::Query => "/query",
            Command::Update => "/update",
        };
        let (kind, document, between, item) = match arguments.json {
            true => ("json", ("{\"items\":[", "]}"), ",", json_item(&arguments.biz)),
            false => ("xml", ("<request>", "</request>"), "", xml_item(&arguments.biz)),
        };
        let host = arguments.target.host();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/{kind}\r\n\
             Content-Length: "
        );
        let key_type = arguments.key_type;
        Requests { head, document, between, item, key_type, body: String::new() }
    }

    /// Appends the request for these keys.
    pub fn append(&mut self, out: &mut Vec<u8>, keys: &[u32]) {
        self.body.clear();
        self.body.push_str(self.document.0);
        for (place, key) in keys.iter().enumerate() {
            if place > 0 {
                self.body.push_str(self.between);
            }
            self.body.push_str(&self.item.0);
            write_key(&mut self.body, self.key_type, *key);
            self.body.push_str(self.item.1);
        }
        self.body.push_str(self.document.1);
        out.extend_from_slice(self.head.as_bytes());
        let mut digits = itoa::Buffer::new();
        out.extend_from_slice(digits.format(self.body.len()).as_bytes());
        out.extend_from_slice(b"\r\n\r\n");
        out.extend_from_slice(self.body.as_bytes());
    }
}

fn xml_item(biz: &str) -> (String, &'static str) {
    (format!("<item biz=\"{biz}\" key=\""), "\"/>")
}

fn json_item(biz: &str) -> (String, &'static str) {
    (format!("{{\"biz\":\"{biz}\",\"key\":\""), "\"}")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn body(words: &str, keys: &[u32]) -> String {
        let words = format!("frs-load unix:a --biz b {words}");
        let mut requests = Requests::new(&Arguments::parse_from(words.trim_end().split(' ')));
        let mut out = Vec::new();
        requests.append(&mut out, keys);
        let text = String::from_utf8(out).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("Content-Length: {}", body.len())), "{head}");
        body.to_owned()
    }

    #[test]
    fn documents() {
        let one = "<request><item biz=\"b\" key=\"k7\"/></request>";
        assert_eq!(body("", &[7]), one);
        let two = "<request><item biz=\"b\" key=\"7\"/><item biz=\"b\" key=\"8\"/></request>";
        assert_eq!(body("--key-type integer", &[7, 8]), two);
        let json = "{\"items\":[{\"biz\":\"b\",\"key\":\"k7\"},{\"biz\":\"b\",\"key\":\"k8\"}]}";
        assert_eq!(body("--json", &[7, 8]), json);
    }
}
