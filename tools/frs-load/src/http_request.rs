//! Requests over HTTP, in XML and JSON.
//!
//! Invariant: a request is well-formed and complete, whatever its keys. Nothing in it needs
//! escaping, because arguments.rs accepts no such text.

use frs_engine::Command;

use crate::arguments::{Arguments, Format, KeyType};
use crate::keys::write_key;
use crate::target::Target;

/// The text before and after a part.
#[derive(Debug, Clone, Copy)]
struct Around<S> {
    before: S,
    behind: &'static str,
}

/// The parts that all requests of a run share.
#[derive(Debug, Clone)]
pub struct HttpRequests {
    /// The head of each server's requests, up to the length of the body.
    heads: Vec<String>,
    /// The text around all items.
    document: Around<&'static str>,
    between: &'static str,
    /// The text around a key.
    item: Around<String>,
    key_type: KeyType,
    body: String,
}

impl HttpRequests {
    /// The requests of a run.
    pub fn new(arguments: &Arguments) -> HttpRequests {
        let path = match arguments.command() {
            Command::Query => "/query",
            Command::Update => "/update",
        };
        let (kind, document, between, item) = match arguments.format() == Format::Json {
            true => {
                let items = Around { before: "{\"items\":[", behind: "]}" };
                let before = format!("{{\"biz\":\"{}\",\"key\":\"", arguments.biz);
                ("json", items, ",", Around { before, behind: "\"}" })
            }
            false => {
                let items = Around { before: "<request>", behind: "</request>" };
                let before = format!("<item biz=\"{}\" key=\"", arguments.biz);
                ("xml", items, "", Around { before, behind: "\"/>" })
            }
        };
        let head = |target: &Target| {
            let host = target.host();
            format!(
                "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/{kind}\r\n\
                 Content-Length: "
            )
        };
        let heads = arguments.targets().map(head).collect();
        let key_type = arguments.key_type;
        HttpRequests { heads, document, between, item, key_type, body: String::new() }
    }

    /// Appends the request for these keys to a server.
    pub fn append(&mut self, out: &mut Vec<u8>, server: usize, keys: &[u32]) {
        self.body.clear();
        self.body.push_str(self.document.before);
        for (place, key) in keys.iter().enumerate() {
            if place > 0 {
                self.body.push_str(self.between);
            }
            self.body.push_str(&self.item.before);
            write_key(&mut self.body, self.key_type, *key);
            self.body.push_str(self.item.behind);
        }
        self.body.push_str(self.document.behind);
        out.extend_from_slice(self.heads[server].as_bytes());
        let mut digits = itoa::Buffer::new();
        out.extend_from_slice(digits.format(self.body.len()).as_bytes());
        out.extend_from_slice(b"\r\n\r\n");
        out.extend_from_slice(self.body.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn body(words: &str, keys: &[u32]) -> String {
        let words = format!("frs-load unix:a --biz b {words}");
        let mut requests = HttpRequests::new(&Arguments::parse_from(words.trim_end().split(' ')));
        let mut out = Vec::new();
        requests.append(&mut out, 0, keys);
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
