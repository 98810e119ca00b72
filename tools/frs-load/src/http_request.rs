//! Requests over HTTP, in XML and JSON.
//!
//! Invariant: a request is well-formed and complete, whatever its keys. Nothing in it needs
//! escaping, because arguments.rs accepts no such text.

use frs_engine::Command;

use crate::arguments::{Arguments, Format, KeyType};
use crate::call::Call;
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
    /// The text around a further member, whose name stands between the first two.
    more: [&'static str; 3],
    key_type: KeyType,
    body: String,
    id: String,
}

impl HttpRequests {
    /// The requests of a run.
    pub fn new(arguments: &Arguments) -> HttpRequests {
        let path = match arguments.command() {
            Command::Query => "/query",
            Command::Update => "/update",
        };
        let (kind, document, between, item, more) = match arguments.format() == Format::Json {
            true => {
                let items = Around { before: "{\"items\":[", behind: "]}" };
                let before = format!("{{\"biz\":\"{}\",\"key\":\"", arguments.biz);
                ("json", items, ",", Around { before, behind: "}" }, [",\"", "\":", "\""])
            }
            false => {
                let items = Around { before: "<request>", behind: "</request>" };
                let before = format!("<item biz=\"{}\" key=\"", arguments.biz);
                ("xml", items, "", Around { before, behind: "/>" }, [" ", "=\"", "\""])
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
        let (body, id) = (String::new(), String::new());
        HttpRequests { heads, document, between, item, more, key_type, body, id }
    }

    /// Appends the request for these keys to a server. `first` is the place of its first item.
    pub fn append(
        &mut self,
        out: &mut Vec<u8>,
        server: usize,
        keys: &[u32],
        first: u64,
        call: &Call,
    ) {
        self.body.clear();
        self.body.push_str(self.document.before);
        for (place, key) in keys.iter().enumerate() {
            if place > 0 {
                self.body.push_str(self.between);
            }
            self.body.push_str(&self.item.before);
            write_key(&mut self.body, self.key_type, *key);
            self.body.push('"');
            if !call.is_plain() {
                self.write_call(first.wrapping_add(place as u64), call);
            }
            self.body.push_str(self.item.behind);
        }
        self.body.push_str(self.document.behind);
        out.extend_from_slice(self.heads[server].as_bytes());
        let mut digits = itoa::Buffer::new();
        out.extend_from_slice(digits.format(self.body.len()).as_bytes());
        out.extend_from_slice(b"\r\n\r\n");
        out.extend_from_slice(self.body.as_bytes());
    }

    /// Writes what the item at a place says besides its key.
    fn write_call(&mut self, place: u64, call: &Call) {
        let mut digits = itoa::Buffer::new();
        let item = call.item(place);
        self.write_number("count", digits.format(item.count));
        if let Some(rate) = &call.rate {
            self.write_text("rate", rate);
        }
        if let Some(max) = call.max {
            self.write_number("max", digits.format(max));
        }
        if call.partial {
            self.write_number("partial", "true");
        }
        let mut id = std::mem::take(&mut self.id);
        if call.write_id(&mut id, place) {
            self.write_text("once", &id);
        }
        self.id = id;
        if let Some(hold) = item.hold {
            self.write_text("hold", digits.format(hold));
        }
    }

    fn write_text(&mut self, name: &str, text: &str) {
        let [before, between, quote] = self.more;
        let opens = if between.ends_with(quote) { "" } else { quote };
        self.body.extend([before, name, between, opens, text, quote]);
    }

    /// Writes a number or a flag, which has quotation marks in XML alone.
    fn write_number(&mut self, name: &str, text: &str) {
        let [before, between, quote] = self.more;
        let closes = if between.ends_with(quote) { quote } else { "" };
        self.body.extend([before, name, between, text, closes]);
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn body(words: &str, keys: &[u32]) -> String {
        let words = format!("frs-load unix:a --biz b {words}");
        let arguments = Arguments::parse_from(words.trim_end().split(' '));
        let (mut requests, mut out) = (HttpRequests::new(&arguments), Vec::new());
        requests.append(&mut out, 0, keys, 0, &Call::new(&arguments));
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
        let xml = "<request><item biz=\"b\" key=\"k7\" count=\"5\" rate=\"5/m\" partial=\"true\"/>\
                   </request>";
        assert_eq!(body("--count 5 --call-rate 5/m --partial", &[7]), xml);
        let json = "{\"items\":[{\"biz\":\"b\",\"key\":\"k7\",\"count\":5,\"rate\":\"5/m\",\
                    \"partial\":true}]}";
        assert_eq!(body("--json --count 5 --call-rate 5/m --partial", &[7]), json);
        let held = body("--json --once --call-max 9 --holds 1", &[7, 8]);
        assert_eq!(held.matches(",\"max\":9,\"once\":\"").count(), 2, "{held}");
        assert_eq!(held.matches("\",\"hold\":\"0\"}").count(), 2, "{held}");
        let held = body("--once --call-max 9 --holds 1", &[7, 8]);
        assert_eq!(held.matches(" max=\"9\" once=\"").count(), 2, "{held}");
        assert_eq!(held.matches("\" hold=\"0\"/>").count(), 2, "{held}");
    }
}
