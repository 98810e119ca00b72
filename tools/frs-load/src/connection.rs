//! A connection, with the requests that wait to be written, and incomplete answers.
//!
//! Invariant: answers belong to requests in the order in which the requests were pushed. A request
//! is answered once, or lost with its connection.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};

/// A request without an answer.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    /// Its number in the run, which determines its keys.
    pub number: u64,
    /// The server that it was sent to.
    pub server: usize,
    /// The key of its first item.
    pub key: u32,
    /// The time from which its latency counts.
    pub from_ns: u64,
    /// It was sent before, and its answer was lost.
    pub again: bool,
}

/// The result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// There is nothing to read at the moment.
    Nothing,
    /// The input left room, so there is no more of it unless the server has closed.
    Part,
    /// The input filled the room.
    Full,
    /// The server has closed.
    Closed,
}

/// A stream with its unanswered requests.
pub struct LoadConnection {
    pub stream: File,
    /// Requests without an answer, oldest first.
    pub sent: VecDeque<Sent>,
    out: Vec<u8>,
    written: usize,
    partial: Vec<u8>,
}

impl LoadConnection {
    pub fn new(stream: File) -> LoadConnection {
        LoadConnection {
            stream,
            sent: VecDeque::new(),
            out: Vec::new(),
            written: 0,
            partial: Vec::new(),
        }
    }

    /// Adds a request. `append` writes it to the end of the output.
    pub fn push(&mut self, sent: Sent, append: impl FnOnce(&mut Vec<u8>)) {
        self.sent.push_back(sent);
        append(&mut self.out);
    }

    /// Writes as much as the socket takes. After an error the connection is closed, and the next
    /// read reports that.
    pub fn flush(&mut self) {
        while self.written < self.out.len() {
            match self.stream.write(&self.out[self.written..]) {
                Ok(written) => self.written += written,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
        self.out.clear();
        self.written = 0;
    }

    /// Reads once and passes the input to `take`, which returns the number of bytes it has
    /// processed.
    pub fn receive<E>(
        &mut self,
        room: &mut [u8],
        mut take: impl FnMut(&mut VecDeque<Sent>, &[u8]) -> Result<usize, E>,
    ) -> Result<Received, E> {
        let read = match read(&mut self.stream, room) {
            Ok(0) => return Ok(Received::Closed),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Received::Nothing),
            Err(_) => return Ok(Received::Closed),
        };
        if self.partial.is_empty() {
            let done = take(&mut self.sent, &room[..read])?;
            self.partial.extend_from_slice(&room[done..read]);
        } else {
            self.partial.extend_from_slice(&room[..read]);
            let done = take(&mut self.sent, &self.partial)?;
            self.partial.drain(..done);
        }
        Ok(if read < room.len() { Received::Part } else { Received::Full })
    }
}

fn read(stream: &mut File, room: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(room) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}
