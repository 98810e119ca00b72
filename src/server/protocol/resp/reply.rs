//! Replies, in either version of the protocol.
//!
//! Invariant: what is appended is one whole reply, or the beginning of one whose parts follow.

use std::fmt::Display;
use std::io::Write;

use super::Fault;

/// A version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Version {
    /// RESP2, in which a map is a flat array.
    #[default]
    Two,
    /// RESP3.
    Three,
}

impl Version {
    /// Its number.
    pub const fn number(self) -> i64 {
        match self {
            Version::Two => 2,
            Version::Three => 3,
        }
    }
}

/// Appends replies.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    version: Version,
}

impl<'a> Writer<'a> {
    /// Appends to `out`.
    pub fn new(out: &'a mut Vec<u8>, version: Version) -> Writer<'a> {
        Writer { out, version }
    }

    /// The bytes so far, for [`Writer::truncate`].
    pub fn written(&self) -> usize {
        self.out.len()
    }

    /// Takes back what was appended since there were so many bytes.
    pub fn truncate(&mut self, bytes: usize) {
        self.out.truncate(bytes);
    }

    /// A short text without a line end.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text);
    }

    /// An error, which begins with its word.
    pub fn error(&mut self, error: impl Display) {
        // Writing to a Vec never fails.
        let _ = write!(self.out, "-{error}\r\n");
    }

    /// An integer.
    pub fn integer(&mut self, number: i64) {
        self.line(b':', itoa::Buffer::new().format(number));
    }

    /// Bytes.
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.length(b'$', bytes.len());
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    /// A text that people read, which RESP3 says of it.
    pub fn verbatim(&mut self, text: &str) {
        match self.version {
            Version::Two => self.bulk(text.as_bytes()),
            Version::Three => {
                let kind = "txt:";
                self.length(b'=', kind.len() + text.len());
                for part in [kind, text, "\r\n"] {
                    self.out.extend_from_slice(part.as_bytes());
                }
            }
        }
    }

    /// Nothing.
    pub fn null(&mut self) {
        let text: &[u8] = match self.version {
            Version::Two => b"$-1\r\n",
            Version::Three => b"_\r\n",
        };
        self.out.extend_from_slice(text);
    }

    /// Nothing where an array would be.
    pub fn null_array(&mut self) {
        match self.version {
            Version::Two => self.out.extend_from_slice(b"*-1\r\n"),
            Version::Three => self.null(),
        }
    }

    /// An array of so many replies, which follow.
    pub fn array(&mut self, length: usize) {
        self.length(b'*', length);
    }

    /// A set of so many replies, which follow.
    pub fn set(&mut self, length: usize) {
        match self.version {
            Version::Two => self.array(length),
            Version::Three => self.length(b'~', length),
        }
    }

    /// A map of so many pairs of replies, which follow.
    pub fn map(&mut self, pairs: usize) {
        match self.version {
            Version::Two => self.array(2 * pairs),
            Version::Three => self.length(b'%', pairs),
        }
    }

    fn length(&mut self, kind: u8, length: usize) {
        self.line(kind, itoa::Buffer::new().format(length));
    }

    fn line(&mut self, kind: u8, text: &str) {
        self.out.push(kind);
        self.out.extend_from_slice(text.as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }
}

/// Appends what is wrong with a connection that is closed after it.
pub fn write_fault(out: &mut Vec<u8>, fault: Fault) {
    Writer::new(out, Version::Two).error(format_args!("ERR {fault}"));
}
