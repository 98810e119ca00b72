//! A plain client of RESP, which shows replies as they are on the wire.
//!
//! Invariant: a reply is read to its last byte, and kept in the words of the protocol.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// The time after which a reply counts as missing.
const PATIENCE: Duration = Duration::from_secs(20);

/// A reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A line with its kind: a simple text, an error, an integer, nothing.
    Line(String),
    /// Bytes.
    Bulk(Vec<u8>),
    /// An array, a set or a map, with its header.
    Many(String, Vec<Reply>),
}

impl Reply {
    /// The integer, if it is one.
    pub fn integer(&self) -> Option<i64> {
        match self {
            Reply::Line(line) => line.strip_prefix(':')?.parse().ok(),
            _ => None,
        }
    }

    /// The parts of an array.
    pub fn parts(&self) -> &[Reply] {
        match self {
            Reply::Many(_, parts) => parts,
            _ => &[],
        }
    }

    /// The bytes as text.
    pub fn text(&self) -> String {
        match self {
            Reply::Line(line) => line.clone(),
            Reply::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Reply::Many(header, parts) => format!("{header} {parts:?}"),
        }
    }
}

/// A socket of any kind.
trait Stream: Read + Write + Send {}

impl Stream for TcpStream {}
impl Stream for UnixStream {}

/// A connection.
pub struct Wire {
    reader: BufReader<Box<dyn Stream>>,
}

impl Wire {
    pub fn connect(address: SocketAddr) -> io::Result<Wire> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Wire { reader: BufReader::new(Box::new(stream)) })
    }

    pub fn connect_unix(path: &Path) -> io::Result<Wire> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Wire { reader: BufReader::new(Box::new(stream)) })
    }

    /// Sends commands without waiting for their replies.
    pub fn send<'c>(
        &mut self,
        commands: impl IntoIterator<Item = &'c [Vec<u8>]>,
    ) -> io::Result<()> {
        let mut bytes = Vec::new();
        for words in commands {
            bytes.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
            for word in words {
                bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
                bytes.extend_from_slice(word);
                bytes.extend_from_slice(b"\r\n");
            }
        }
        self.reader.get_mut().write_all(&bytes)
    }

    /// The next reply.
    pub fn reply(&mut self) -> io::Result<Reply> {
        let line = self.line()?;
        let count = |text: &str| text.parse::<i64>().map_err(io::Error::other);
        match line.split_at_checked(1).ok_or(io::ErrorKind::InvalidData)? {
            ("+" | "-" | ":" | "_" | ",", _) => Ok(Reply::Line(line)),
            ("$" | "=", length) => {
                let Ok(length) = usize::try_from(count(length)?) else {
                    return Ok(Reply::Line(line));
                };
                let mut bytes = vec![0; length + 2];
                self.reader.read_exact(&mut bytes)?;
                bytes.truncate(length);
                Ok(Reply::Bulk(bytes))
            }
            (kind @ ("*" | "~" | "%"), length) => {
                let Ok(length) = usize::try_from(count(length)?) else {
                    return Ok(Reply::Line(line));
                };
                let parts = length * if kind == "%" { 2 } else { 1 };
                let parts = (0..parts).map(|_| self.reply()).collect::<io::Result<_>>()?;
                Ok(Reply::Many(line, parts))
            }
            _ => Err(io::Error::other(format!("no reply begins as {line:?}"))),
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.reader.read_line(&mut line)?;
        let text = line.strip_suffix("\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(text.to_owned())
    }

    /// Sends a command whose words have no blanks, and returns its reply.
    pub fn try_ask(&mut self, command: &str) -> io::Result<Reply> {
        self.send([&words(command)[..]])?;
        self.reply()
    }

    /// As [`Wire::try_ask`], on a connection that must not break.
    #[track_caller]
    pub fn ask(&mut self, command: &str) -> Reply {
        self.try_ask(command).unwrap_or_else(|error| panic!("{command}: {error}"))
    }
}

/// The words of a command.
pub fn words(command: &str) -> Vec<Vec<u8>> {
    command.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}
