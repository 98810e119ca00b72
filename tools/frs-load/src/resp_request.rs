//! Requests over RESP. Each request is one command.
//!
//! Invariant: a command is complete, whatever its keys.

use frs_engine::Command;

use crate::arguments::{Arguments, KeyType};
use crate::keys::write_key;

/// The parts that all commands of a run share.
#[derive(Debug, Clone)]
pub struct RespRequests {
    /// The command for one item, and the command for several.
    names: [&'static str; 2],
    biz: String,
    key_type: KeyType,
    key: String,
}

impl RespRequests {
    /// The commands of a run.
    pub fn new(arguments: &Arguments) -> RespRequests {
        let names = match arguments.command() {
            Command::Query => ["FRS.QUERY", "FRS.MQUERY"],
            Command::Update => ["FRS.UPDATE", "FRS.MUPDATE"],
        };
        let (biz, key_type) = (arguments.biz.clone(), arguments.key_type);
        RespRequests { names, biz, key_type, key: String::new() }
    }

    /// Appends the command for these keys.
    pub fn append(&mut self, out: &mut Vec<u8>, keys: &[u32]) {
        let [one, many] = self.names;
        if keys.len() == 1 {
            count(out, b'*', 3);
            word(out, one);
        } else {
            count(out, b'*', 3 + 3 * keys.len());
            word(out, many);
            word(out, "ITEMS");
            word(out, itoa::Buffer::new().format(keys.len()));
        }
        for key in keys {
            self.key.clear();
            write_key(&mut self.key, self.key_type, *key);
            word(out, &self.biz);
            word(out, &self.key);
            if keys.len() > 1 {
                word(out, "1");
            }
        }
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
        let mut requests = RespRequests::new(&Arguments::parse_from(words.trim_end().split(' ')));
        let mut out = Vec::new();
        requests.append(&mut out, keys);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn commands() {
        let one = "*3\r\n$10\r\nFRS.UPDATE\r\n$1\r\nb\r\n$3\r\nk17\r\n";
        assert_eq!(command("", &[17]), one);
        let two = "*9\r\n$10\r\nFRS.MQUERY\r\n$5\r\nITEMS\r\n$1\r\n2\r\n$1\r\nb\r\n$1\r\n7\r\n$1\r\n1\r\n\
                   $1\r\nb\r\n$1\r\n8\r\n$1\r\n1\r\n";
        assert_eq!(command("--query --key-type integer", &[7, 8]), two);
    }
}
