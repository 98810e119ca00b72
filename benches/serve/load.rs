//! The bench's own client: requests of HTTP and memcached, and a check of every reply, for the
//! prepared client of frs-load in a closed loop.

#[path = "../random.rs"]
mod random;

use std::net::SocketAddr;
use std::time::Duration;

use frs_load::Keys;
use frs_load::prepared::{self, Answer, Client, Pace, Request, Until};
use memchr::memmem;

use crate::{KEYS, Result};
use random::Random;

/// The longest reply.
const REPLY_BYTES: usize = 256 * 1024;
/// Requests that a run sends before it begins anew.
const DRAWS: usize = 1 << 20;

/// The result of one run.
pub struct Measured {
    pub requests: u64,
    pub elapsed: Duration,
    /// `None` if the client does not measure it.
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

/// Requests, and the order in which they are sent.
pub struct Requests {
    requests: Vec<Request>,
    order: Vec<u32>,
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
            update(command, &items)
        }))
    }

    /// The same requests with another field in each head.
    pub fn with_field(mut self, field: &str) -> Requests {
        for request in &mut self.requests {
            let first = memmem::find(&request.bytes, b"\r\n").map_or(0, |end| end + 2);
            let line = format!("{field}\r\n");
            request.bytes.splice(first..first, line.into_bytes());
        }
        self
    }

    /// memcached's closest equivalent of an Update.
    pub fn incrs() -> Requests {
        let keys = permutation(&mut Random(0x5eed), KEYS);
        Requests::new(keys.into_iter().map(|key| format!("incr k{key:06} 1\r\n")))
    }

    fn new(requests: impl Iterator<Item = String>) -> Requests {
        let request = |text: String| Request { server: 0, bytes: text.into_bytes() };
        let requests: Vec<Request> = requests.map(request).collect();
        let mut random = Random(0xfeed);
        let order = (0..DRAWS).map(|_| below(&mut random, requests.len()) as u32).collect();
        Requests { requests, order }
    }
}

/// A request over HTTP with these items.
pub fn update(command: &str, items: &str) -> String {
    let body = format!("<request>{items}</request>");
    format!(
        "POST /{command} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/xml\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
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
    let keys = Keys::zipf(0x5eed, all as u32, exponent);
    (0..draws as u64).map(|place| keys.at(place) as usize).collect()
}

/// The bytes of the reply to one request, head and body.
pub fn reply_bytes(address: SocketAddr, requests: &Requests) -> Result<usize> {
    Ok(one_by_one(address, &requests.requests[..1])?.answer_bytes)
}

/// Sends each request once, one after the other.
pub fn pass(address: SocketAddr, requests: &Requests) -> Result<()> {
    one_by_one(address, &requests.requests).map(drop)
}

fn one_by_one(address: SocketAddr, requests: &[Request]) -> Result<prepared::Measured> {
    let order: Vec<u32> = (0..requests.len() as u32).collect();
    let until = Until::Sent(requests.len() as u64);
    let load = Load { address, protocol: Protocol::HttpRefusing, connections: 1, depth: 1 };
    load.client(until).run(requests, &order, Checker::new(load.protocol).read())
}

/// One run of the client.
pub struct Load {
    pub address: SocketAddr,
    pub protocol: Protocol,
    pub connections: usize,
    /// Requests in flight on each connection.
    pub depth: usize,
}

impl Load {
    /// Sends for `duration`.
    pub fn run(&self, requests: &Requests, duration: Duration) -> Result<Measured> {
        let read = Checker::new(self.protocol).read();
        let client = self.client(Until::Elapsed(duration));
        let measured = client.run(&requests.requests, &requests.order, read)?;
        let prepared::Measured { answers, elapsed, late, .. } = measured;
        Ok(Measured { requests: answers, elapsed, p50: Some(late.p50), p99: Some(late.p99) })
    }

    /// Sends so many.
    pub fn send(&self, requests: &Requests, count: u64) -> Result<()> {
        let read = Checker::new(self.protocol).read();
        let client = self.client(Until::Sent(count));
        client.run(&requests.requests, &requests.order, read)?;
        Ok(())
    }

    fn client(&self, until: Until) -> Client {
        Client {
            servers: vec![self.address],
            connections: self.connections as u32,
            pace: Pace::Closed { depth: self.depth as u32 },
            until,
            early: Duration::ZERO,
        }
    }
}

/// Checks replies. Errors are a wrong status, an item in error, and an unexpected verdict.
pub struct Checker {
    protocol: Protocol,
    passed: memmem::Finder<'static>,
    limited: memmem::Finder<'static>,
    error: memmem::Finder<'static>,
}

impl Checker {
    pub fn new(protocol: Protocol) -> Checker {
        Checker {
            protocol,
            passed: memmem::Finder::new(b"limited=\"false\""),
            limited: memmem::Finder::new(b"limited=\"true\""),
            error: memmem::Finder::new(b" error=\""),
        }
    }

    /// The reader of the replies.
    pub fn read(self) -> impl Fn(&[u8]) -> prepared::Read {
        move |bytes| match self.protocol {
            Protocol::Memcached => memcached_reply(bytes),
            _ => self.http_reply(bytes),
        }
    }

    fn http_reply(&self, bytes: &[u8]) -> prepared::Read {
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
        let is_limited = || self.limited.find(body).is_some();
        let is_wrong = match self.protocol {
            Protocol::HttpRefusing => false,
            Protocol::HttpRefused => self.passed.find(body).is_some(),
            Protocol::Http | Protocol::Memcached => is_limited(),
        };
        if response.code != Some(200) || is_wrong || self.error.find(body).is_some() {
            return Err("not a success".into());
        }
        let is_admitted = match self.protocol {
            Protocol::HttpRefusing => !is_limited(),
            Protocol::HttpRefused => false,
            Protocol::Http | Protocol::Memcached => true,
        };
        Ok(Some(Answer { bytes: end, is_admitted }))
    }
}

/// The reply to memcached's incr: a line with the new value.
fn memcached_reply(bytes: &[u8]) -> prepared::Read {
    let Some(end) = memchr::memchr(b'\n', bytes) else { return Ok(None) };
    match bytes[0].is_ascii_digit() {
        true => Ok(Some(Answer { bytes: end + 1, is_admitted: true })),
        false => Err("not a success".into()),
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
