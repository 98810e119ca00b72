//! Requests over RESP. Each request is one command.
//!
//! Invariant: a command is complete, whatever its keys.

use frs_engine::Command;

use crate::arguments::{Arguments, KeyType};
use crate::call::Call;
use crate::keys::write_key;

/// The parts that all commands of a run share.
#[derive(Debug, Clone)]
pub struct RespRequests {
    /// The command for one item, and the command for several.
    names: [&'static str; 2],
    biz: String,
    key_type: KeyType,
    /// The key or the id that is written.
    word: String,
}

impl RespRequests {
    /// The commands of a run.
    pub fn new(arguments: &Arguments) -> RespRequests {
        let names = match arguments.command() {
            Command::Query => ["FRS.QUERY", "FRS.MQUERY"],
            Command::Update => ["FRS.UPDATE", "FRS.MUPDATE"],
        };
        let (biz, key_type) = (arguments.biz.clone(), arguments.key_type);
        RespRequests { names, biz, key_type, word: String::new() }
    }

    /// Appends the command for these keys. `first` is the place of its first item.
    pub fn append(&mut self, out: &mut Vec<u8>, keys: &[u32], first: u64, call: &Call) {
        let [one, many] = self.names;
        if keys.len() == 1 {
            let options = if call.is_plain() { 0 } else { self.options(None, first, call) };
            count(out, b'*', 3 + options);
            word(out, one);
        } else {
            count(out, b'*', 3 + 3 * keys.len());
            word(out, many);
            word(out, "ITEMS");
            word(out, itoa::Buffer::new().format(keys.len()));
        }
        for key in keys {
            self.word.clear();
            write_key(&mut self.word, self.key_type, *key);
            word(out, &self.biz);
            word(out, &self.word);
            if keys.len() > 1 {
                word(out, itoa::Buffer::new().format(call.item(first).count));
            }
        }
        if keys.len() == 1 && !call.is_plain() {
            self.options(Some(out), first, call);
        }
    }

    /// Appends the options of a single item. Returns their number of words.
    fn options(&mut self, mut out: Option<&mut Vec<u8>>, place: u64, call: &Call) -> usize {
        let mut words = 0;
        let mut add = |text: &str| {
            words += 1;
            if let Some(out) = &mut out {
                word(out, text);
            }
        };
        let mut digits = itoa::Buffer::new();
        let item = call.item(place);
        add("COUNT");
        add(digits.format(item.count));
        if let Some(rate) = &call.rate {
            add("RATE");
            add(rate);
        }
        if let Some(max) = call.max {
            add("MAX");
            add(digits.format(max));
        }
        if call.partial {
            add("PARTIAL");
        }
        if call.write_id(&mut self.word, place) {
            add("ONCE");
            add(&self.word);
        }
        if let Some(hold) = item.hold {
            add("HOLD");
            add(digits.format(hold));
        }
        words
    }
}

fn count(out: &mut Vec<u8>, kind: u8, number: usize) {
    out.push(kind);
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn word(out: &mut Vec<u8>, text: &str) {
    count(out, b'$', text.len());
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn command(words: &str, keys: &[u32]) -> String {
        let words = format!("frs-load unix:a --resp --biz b {words}");
        let arguments = Arguments::parse_from(words.trim_end().split(' '));
        let (mut requests, mut out) = (RespRequests::new(&arguments), Vec::new());
        requests.append(&mut out, keys, 0, &Call::new(&arguments));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn commands() {
        let one = "*3\r\n$10\r\nFRS.UPDATE\r\n$1\r\nb\r\n$3\r\nk17\r\n";
        assert_eq!(command("", &[17]), one);
        let two = "*9\r\n$10\r\nFRS.MQUERY\r\n$5\r\nITEMS\r\n$1\r\n2\r\n$1\r\nb\r\n$1\r\n7\r\n$1\r\n1\r\n\
                   $1\r\nb\r\n$1\r\n8\r\n$1\r\n1\r\n";
        assert_eq!(command("--query --key-type integer", &[7, 8]), two);
        assert!(command("--count 5", &[7, 8]).ends_with("$2\r\nk8\r\n$1\r\n5\r\n"));
    }

    #[test]
    fn the_options_of_one_item() {
        let words = |words: &str| -> Vec<String> {
            let text = command(words, &[7]);
            let mut lines = text.split("\r\n");
            let count: usize = lines.next().unwrap()[1..].parse().unwrap();
            let bulks: Vec<&str> = lines.collect();
            assert_eq!(bulks.len(), 2 * count + 1, "{text}");
            bulks[..2 * count].chunks(2).skip(3).map(|bulk| bulk[1].to_owned()).collect()
        };
        assert_eq!(words("--count 5 --partial"), ["COUNT", "5", "PARTIAL"]);
        assert_eq!(words("--call-rate 5/m"), ["COUNT", "1", "RATE", "5/m"]);
        assert_eq!(words("--call-max 9"), ["COUNT", "1", "MAX", "9"]);
        let [count, one, once, id] = &words("--once")[..] else { panic!("four words") };
        assert_eq!([count.as_str(), one, once], ["COUNT", "1", "ONCE"]);
        assert!(id.ends_with("-0"), "{id}");
        assert_eq!(words("--holds 1")[2..], ["HOLD", "0"]);
    }
}
