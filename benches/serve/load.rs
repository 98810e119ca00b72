//! The bench's own client: one thread, a closed loop over all connections, HTTP or memcached.
//!
//! Each connection has one batch in flight: `depth` requests in one write, and the next batch when
//! all replies have arrived. Requests are made beforehand and sent without copying. Every reply is
//! checked.

#[path = "../random.rs"]
mod random;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream as Blocking};
use std::time::{Duration, Instant};

use memchr::memmem;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use crate::zipf::Zipf;
use crate::{KEYS, Result};
use random::Random;

/// The bytes of replies that a connection can hold: a whole batch.
const REPLY_BYTES: usize = 256 * 1024;
/// The longest time in which no connection receives anything.
const SILENCE: Duration = Duration::from_secs(5);

/// The result of one run.
pub struct Measured {
    pub requests: u64,
    pub elapsed: Duration,
    /// Latencies of a batch. `None` if the client does not measure them.
    pub p50: Option<Duration>,
    pub p99: Option<Duration>,
}

#[derive(Clone, Copy)]
pub enum Protocol {
    Http,
    /// HTTP. An item may be refused.
    HttpRefusing,
    /// HTTP. Every item must be refused.
    HttpRefused,
    Memcached,
}

/// Requests of one length in a row.
pub struct Requests {
    bytes: Vec<u8>,
    one: usize,
}

impl Requests {
    /// Updates of `items` items each, on the first biz and this many keys.
    pub fn updates(items: usize, keys: usize) -> Requests {
        Requests::updates_of(1, items, keys)
    }

    /// Updates on another biz, whose id has one digit.
    pub fn updates_of(biz: u32, items: usize, all: usize) -> Requests {
        Requests::of("update", biz, items, &shuffled(items, all))
    }

    /// Requests of `items` items each, for these keys in turn.
    pub fn of(command: &str, biz: u32, items: usize, keys: &[usize]) -> Requests {
        Requests::new(keys.chunks_exact(items).map(|keys| {
            let item = |key| format!("<item biz=\"{biz}\" key=\"k{key:06}\"/>");
            let items: String = keys.iter().map(item).collect();
            let body = format!("<request>{items}</request>");
            format!(
                "POST /{command} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/xml\r\n\
                 Content-Length: {}\r\n\r\n{body}",
                body.len()
            )
        }))
    }

    /// memcached's closest equivalent of an Update.
    pub fn incrs() -> Requests {
        let keys = permutation(&mut Random(0x5eed), KEYS);
        Requests::new(keys.into_iter().map(|key| format!("incr k{key:06} 1\r\n")))
    }

    fn new(requests: impl Iterator<Item = String>) -> Requests {
        let mut bytes = Vec::new();
        let mut one = 0;
        for request in requests {
            one = request.len();
            bytes.extend_from_slice(request.as_bytes());
        }
        assert!(one > 0 && bytes.len().is_multiple_of(one), "requests are of one length");
        Requests { bytes, one }
    }

    /// `depth` requests from a random place on.
    fn batch(&self, random: &mut Random, depth: usize) -> &[u8] {
        let places = self.bytes.len() / self.one - depth + 1;
        let start = below(random, places) * self.one;
        &self.bytes[start..start + depth * self.one]
    }
}

/// All keys in random order, for requests of `items` items.
pub fn shuffled(items: usize, all: usize) -> Vec<usize> {
    let mut random = Random(0x5eed);
    // Requests of one item are many in one pass. Requests of many items need more passes.
    let passes = if items == 1 { 1 } else { 4 };
    (0..passes).flat_map(|_| permutation(&mut random, all)).collect()
}

/// `draws` keys by Zipf's law.
pub fn drawn(draws: usize, all: usize, exponent: f64) -> Vec<usize> {
    let mut random = Random(0x5eed);
    let zipf = Zipf::new(all, exponent);
    (0..draws).map(|_| zipf.draw(random.next())).collect()
}

/// The bytes of the reply to one request, head and body.
pub fn reply_bytes(address: SocketAddr, requests: &Requests) -> Result<usize> {
    let first = Requests { bytes: requests.bytes[..requests.one].to_vec(), one: requests.one };
    pass(address, &first)
}

/// Sends each request once, one after the other. Returns the bytes of the last reply.
pub fn pass(address: SocketAddr, requests: &Requests) -> Result<usize> {
    let mut stream = Blocking::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE))?;
    let (checker, mut buffer) = (Checker::new(), vec![0; REPLY_BYTES]);
    let mut bytes = 0;
    for request in requests.bytes.chunks_exact(requests.one) {
        stream.write_all(request)?;
        let mut filled = 0;
        bytes = loop {
            let read = stream.read(&mut buffer[filled..])?;
            if read == 0 {
                return Err("closed instead of a reply".into());
            }
            filled += read;
            if let Some(bytes) = checker.http_reply(&buffer[..filled], Verdicts::Any)? {
                break bytes;
            }
        };
    }
    Ok(bytes)
}

/// One run of the client.
pub struct Load {
    pub address: SocketAddr,
    pub protocol: Protocol,
    pub connections: usize,
    /// Requests in flight on each connection.
    pub depth: usize,
}

struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    filled: usize,
    /// The missing replies of the batch.
    lacks: usize,
    sent: Instant,
}

impl Load {
    /// Sends for `duration` and counts the replies that arrived within it.
    pub fn run(&self, requests: &Requests, duration: Duration) -> Result<Measured> {
        let mut poll = Poll::new()?;
        let mut connections = self.connect(&poll)?;
        let mut events = Events::with_capacity(self.connections);
        let mut random = Random(0xfeed);
        let checker = Checker::new();
        let mut latencies: Vec<u32> = Vec::with_capacity(1 << 20);
        let mut replies = 0;

        let start = Instant::now();
        for connection in &mut connections {
            connection.send(requests.batch(&mut random, self.depth), self.depth)?;
        }
        loop {
            poll.poll(&mut events, Some(SILENCE))?;
            if events.is_empty() {
                return Err(format!("no reply for {SILENCE:?}").into());
            }
            for event in &events {
                let connection = &mut connections[event.token().0];
                replies += connection.receive(self.protocol, &checker)?;
                if connection.lacks == 0 {
                    latencies.push(connection.sent.elapsed().as_nanos() as u32);
                    connection.send(requests.batch(&mut random, self.depth), self.depth)?;
                }
            }
            if start.elapsed() >= duration {
                break;
            }
        }
        let elapsed = start.elapsed();
        latencies.sort_unstable();
        let quantile = |percent: usize| {
            let nanos = latencies.get(latencies.len() * percent / 100)?;
            Some(Duration::from_nanos(u64::from(*nanos)))
        };
        Ok(Measured { requests: replies, elapsed, p50: quantile(50), p99: quantile(99) })
    }

    fn connect(&self, poll: &Poll) -> Result<Vec<Connection>> {
        let mut connections = Vec::new();
        for place in 0..self.connections {
            let stream = Blocking::connect(self.address)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let mut stream = TcpStream::from_std(stream);
            poll.registry().register(&mut stream, Token(place), Interest::READABLE)?;
            let buffer = vec![0; REPLY_BYTES];
            connections.push(Connection {
                stream,
                buffer,
                filled: 0,
                lacks: 0,
                sent: Instant::now(),
            });
        }
        Ok(connections)
    }
}

impl Connection {
    /// Sends a batch. Nothing else is in flight, so a socket that does not take the whole batch is
    /// an error.
    fn send(&mut self, batch: &[u8], depth: usize) -> Result<()> {
        self.sent = Instant::now();
        self.lacks = depth;
        match self.stream.write(batch)? {
            written if written == batch.len() => Ok(()),
            written => Err(format!("the socket took {written} of {} bytes", batch.len()).into()),
        }
    }

    /// Reads the received bytes. Returns the number of replies that they complete.
    fn receive(&mut self, protocol: Protocol, checker: &Checker) -> Result<u64> {
        let mut replies = 0;
        loop {
            let space = &mut self.buffer[self.filled..];
            let space_bytes = space.len();
            let read = match self.stream.read(space) {
                Ok(0) => return Err("the server closed a connection".into()),
                Ok(read) => read,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(replies),
                Err(error) => return Err(error.into()),
            };
            self.filled += read;
            replies += self.take(protocol, checker)?;
            if read < space_bytes {
                return Ok(replies);
            }
        }
    }

    /// Removes the complete replies from the buffer.
    fn take(&mut self, protocol: Protocol, checker: &Checker) -> Result<u64> {
        let mut taken = 0;
        let mut replies = 0;
        loop {
            let rest = &self.buffer[taken..self.filled];
            let reply = match protocol {
                Protocol::Http => checker.http_reply(rest, Verdicts::Allowed)?,
                Protocol::HttpRefusing => checker.http_reply(rest, Verdicts::Any)?,
                Protocol::HttpRefused => checker.http_reply(rest, Verdicts::Refused)?,
                Protocol::Memcached => checker.memcached_reply(rest)?,
            };
            let Some(bytes) = reply else { break };
            taken += bytes;
            replies += 1;
        }
        self.buffer.copy_within(taken..self.filled, 0);
        self.filled -= taken;
        self.lacks = self.lacks.checked_sub(replies).ok_or("more replies than requests")?;
        Ok(replies as u64)
    }
}

/// Checks replies. Errors are a wrong status, an item in error, and an unexpected verdict.
struct Checker {
    passed: memmem::Finder<'static>,
    limited: memmem::Finder<'static>,
    error: memmem::Finder<'static>,
}

/// The verdicts that count as success.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdicts {
    Allowed,
    Refused,
    Any,
}

impl Checker {
    fn new() -> Checker {
        Checker {
            passed: memmem::Finder::new(b"limited=\"false\""),
            limited: memmem::Finder::new(b"limited=\"true\""),
            error: memmem::Finder::new(b" error=\""),
        }
    }

    /// The length of the reply at the start of `bytes`. `None` if it is incomplete.
    fn http_reply(&self, bytes: &[u8], verdicts: Verdicts) -> Result<Option<usize>> {
        let mut headers = [httparse::EMPTY_HEADER; 32];
        let mut response = httparse::Response::new(&mut headers);
        let httparse::Status::Complete(head) = response.parse(bytes)? else { return Ok(None) };
        let length =
            response.headers.iter().find(|h| h.name.eq_ignore_ascii_case("content-length"));
        let length = length.ok_or("a reply without Content-Length")?.value;
        let end = head + str::from_utf8(length)?.parse::<usize>()?;
        if end > REPLY_BYTES {
            return Err(format!("a reply of {end} bytes").into());
        }
        let Some(body) = bytes.get(head..end) else { return Ok(None) };
        let is_wrong = match verdicts {
            Verdicts::Allowed => self.limited.find(body).is_some(),
            Verdicts::Refused => self.passed.find(body).is_some(),
            Verdicts::Any => false,
        };
        if response.code != Some(200) || is_wrong || self.error.find(body).is_some() {
            return Err(format!("not a success: {}", bytes[..end].escape_ascii()).into());
        }
        Ok(Some(end))
    }

    /// The length of memcached's reply to incr: a line with the new value.
    fn memcached_reply(&self, bytes: &[u8]) -> Result<Option<usize>> {
        let Some(end) = memchr::memchr(b'\n', bytes) else { return Ok(None) };
        if bytes[0].is_ascii_digit() {
            Ok(Some(end + 1))
        } else {
            Err(format!("not a success: {}", bytes[..end].escape_ascii()).into())
        }
    }
}

fn below(random: &mut Random, bound: usize) -> usize {
    (((random.next() >> 32) * bound as u64) >> 32) as usize
}

/// The numbers below `bound` in random order.
fn permutation(random: &mut Random, bound: usize) -> Vec<usize> {
    let mut numbers: Vec<usize> = (0..bound).collect();
    for last in (1..bound).rev() {
        numbers.swap(last, below(random, last + 1));
    }
    numbers
}
