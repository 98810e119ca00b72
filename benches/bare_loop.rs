//! The floor for frs: an event loop that reads requests and answers a fixed reply.
//!
//! `bare_loop REPLY_BYTES` listens on a free port of the loopback address, prints that address as
//! its first line, and serves until it is killed. It does only what every HTTP server must: wait,
//! read, find the end of each request (head by httparse, body by Content-Length, including
//! pipelining), write. Each turn makes one read and one write for a ready connection. Nothing is
//! allocated after a connection is accepted.

use std::io::{self, Read, Write};
use std::mem::MaybeUninit;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

/// The most bytes that one read takes.
const READ_BYTES: usize = 256 * 1024;
/// The most bytes of a head.
const HEAD_BYTES: usize = 8 * 1024;
/// The most fields of a head.
const HEADERS: usize = 32;
/// How many replies one write can hold.
const REPLIES: usize = 256;
/// The most open connections.
const CONNECTIONS: usize = 4096;

const LISTENER: Token = Token(CONNECTIONS);

fn main() -> io::Result<()> {
    let usage = || io::Error::new(io::ErrorKind::InvalidInput, "usage: bare_loop REPLY_BYTES");
    let bytes = std::env::args().nth(1).and_then(|word| word.parse().ok()).ok_or_else(usage)?;
    Server::new(Replies::new(bytes)?)?.run()
}

/// The same reply many times in a row, so that any number of them is one slice.
struct Replies {
    bytes: Vec<u8>,
    one: usize,
}

impl Replies {
    /// Replies of `bytes` bytes each, head included.
    fn new(bytes: usize) -> io::Result<Replies> {
        let head = |body: usize| {
            format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\nContent-Length: {body}\r\n\r\n"
            )
        };
        // The length of the head depends on the digits of the body's. Finds the body that fits.
        let body = (0..=bytes).rev().find(|body| head(*body).len() + body == bytes);
        let body = body.ok_or_else(|| invalid("no reply has exactly this many bytes"))?;
        let reply = head(body) + &" ".repeat(body);
        Ok(Replies { one: reply.len(), bytes: reply.into_bytes().repeat(REPLIES) })
    }

    /// The next bytes to write to a connection that is owed `owed` bytes.
    fn next(&self, owed: usize) -> &[u8] {
        let start = (self.one - owed % self.one) % self.one;
        &self.bytes[start..self.bytes.len().min(start + owed)]
    }
}

/// A client: its unfinished input, and the replies it has not been sent.
struct Connection {
    stream: TcpStream,
    /// The beginning of a head whose end has not been read.
    head: Vec<u8>,
    /// How many bytes the current request's body still lacks. `None` between requests.
    body: Option<usize>,
    /// Bytes of replies not written yet.
    owed: usize,
}

impl Connection {
    /// Writes, reads, writes. False if the client has closed.
    fn turn(&mut self, buffer: &mut [u8], replies: &Replies) -> io::Result<bool> {
        loop {
            if !self.write(replies)? {
                return Ok(true);
            }
            let kept = self.head.len();
            buffer[..kept].copy_from_slice(&self.head);
            let read = match self.stream.read(&mut buffer[kept..]) {
                Ok(0) => return Ok(false),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.head.clear();
            self.owed += replies.one * self.consume(&buffer[..kept + read])?;
            // A short read means that the socket is empty, and epoll reports more.
            if !self.write(replies)? || kept + read < buffer.len() {
                return Ok(true);
            }
        }
    }

    /// Counts the requests that end in `bytes`, and keeps the incomplete last one.
    fn consume(&mut self, mut bytes: &[u8]) -> io::Result<usize> {
        let mut requests = 0;
        loop {
            if let Some(lacks) = self.body {
                let here = lacks.min(bytes.len());
                bytes = &bytes[here..];
                if here < lacks {
                    self.body = Some(lacks - here);
                    return Ok(requests);
                }
                self.body = None;
                requests += 1;
            }
            if bytes.is_empty() {
                return Ok(requests);
            }
            match parse(bytes)? {
                Some(RequestLengths { head, body }) => {
                    bytes = &bytes[head..];
                    self.body = Some(body);
                }
                None if bytes.len() <= HEAD_BYTES => {
                    self.head.extend_from_slice(bytes);
                    return Ok(requests);
                }
                None => return Err(invalid("head too large")),
            }
        }
    }

    /// Writes what is owed. False if the socket takes no more at present.
    fn write(&mut self, replies: &Replies) -> io::Result<bool> {
        while self.owed > 0 {
            match self.stream.write(replies.next(self.owed)) {
                Ok(written) => self.owed -= written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

/// Lengths of a request in bytes.
struct RequestLengths {
    head: usize,
    body: usize,
}

/// The lengths of the request at the start of `bytes`. `None` if its head is incomplete.
fn parse(bytes: &[u8]) -> io::Result<Option<RequestLengths>> {
    let mut headers = [const { MaybeUninit::uninit() }; HEADERS];
    let mut request = httparse::Request::new(&mut []);
    match request.parse_with_uninit_headers(bytes, &mut headers) {
        Ok(httparse::Status::Complete(head)) => {
            Ok(Some(RequestLengths { head, body: body_bytes(request.headers)? }))
        }
        Ok(httparse::Status::Partial) => Ok(None),
        Err(error) => Err(io::Error::new(io::ErrorKind::InvalidData, error)),
    }
}

fn body_bytes(headers: &[httparse::Header<'_>]) -> io::Result<usize> {
    match headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-length")) {
        None => Ok(0),
        Some(header) => str::from_utf8(header.value)
            .ok()
            .and_then(|digits| digits.parse().ok())
            .ok_or_else(|| invalid("bad Content-Length")),
    }
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// The loop and its connections. A connection's token is its place.
struct Server {
    poll: Poll,
    listener: TcpListener,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    replies: Replies,
}

impl Server {
    fn new(replies: Replies) -> io::Result<Server> {
        let poll = Poll::new()?;
        let mut listener = TcpListener::bind("127.0.0.1:0".parse().map_err(io::Error::other)?)?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let mut stdout = io::stdout();
        writeln!(stdout, "{}", listener.local_addr()?)?;
        stdout.flush()?;
        Ok(Server {
            poll,
            listener,
            connections: (0..CONNECTIONS).map(|_| None).collect(),
            free: (0..CONNECTIONS).rev().collect(),
            replies,
        })
    }

    fn run(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        let mut buffer = vec![0; READ_BYTES];
        loop {
            match self.poll.poll(&mut events, None) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result?,
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.accept()?,
                    Token(place) => self.serve(place, &mut buffer),
                }
            }
        }
    }

    /// One turn of a connection. A faulty one is reported and dropped.
    fn serve(&mut self, place: usize, buffer: &mut [u8]) {
        let Some(connection) = &mut self.connections[place] else { return };
        match connection.turn(buffer, &self.replies) {
            Ok(true) => return,
            Ok(false) => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
            Err(error) => eprintln!("bare_loop: connection closed: {error}"),
        }
        self.connections[place] = None;
        self.free.push(place);
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            let mut stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) => return Err(error),
            };
            let Some(place) = self.free.pop() else { continue };
            stream.set_nodelay(true)?;
            // Both at once and edge-triggered: a blocked write needs no further call to epoll.
            let interest = Interest::READABLE | Interest::WRITABLE;
            self.poll.registry().register(&mut stream, Token(place), interest)?;
            let head = Vec::with_capacity(HEAD_BYTES);
            self.connections[place] = Some(Connection { stream, head, body: None, owed: 0 });
        }
    }
}
