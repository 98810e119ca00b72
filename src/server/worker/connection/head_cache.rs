//! A cache of parsed heads.
//!
//! A client repeats its head byte for byte, except for the length of the body. Comparing a head
//! with a cached one takes a fraction of the time that parsing takes.
//!
//! Invariant: a cached result equals the result of parsing the head. So the cache takes only heads
//! that await items and have one plain Content-Length and no other framing. It stores only what
//! depends on the bytes of the head, and the caller whose token it shows, until the next
//! configuration. Everything else that depends on the configuration is checked each time. Heads of
//! pages are not cached, because the configuration decides whether a page is allowed, nor are heads
//! with an id, because each is sent once.

use std::ops::Range;

use super::pending_request::PendingRequest;
use crate::protocol::request_head::{Body, Head, Lone};
use frs_conf::{Authority, Http};
use frs_engine::access::{Caller, TokenDigest};

/// The most cached heads of a worker, shared by all its connections.
const HEADS: usize = 8;
/// The cache takes no longer head.
const HEAD_BYTES_MAX: usize = 512;
/// A Content-Length of more digits is parsed instead.
const DIGITS_MAX: usize = 9;

/// The slot of a connection's last head in the cache.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ConnectionSlot(u8);

/// The token of a head, and whose it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown {
    pub token: TokenDigest,
    pub caller: Caller,
}

/// A number of a cached head, which no other head of this process has had. 0 is that of none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct HeadNumber(u64);

/// A cached head that the input begins with: its request, and the lengths of head and body.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hit<'m> {
    pub pending: PendingRequest,
    /// What the head shows. `None` if nothing.
    pub shown: &'m Option<Shown>,
    pub number: HeadNumber,
    pub head_bytes: usize,
    pub body_bytes: usize,
    /// The value of the Host field. Empty if there is none.
    host: &'m [u8],
}

impl Hit<'_> {
    /// Whether the request is within the bounds of the configuration in force.
    #[inline]
    pub fn fits(&self, http: &Http) -> bool {
        self.head_bytes <= http.max_head_bytes as usize
            && self.body_bytes <= http.max_body_bytes as usize
            && (http.hosts.is_empty() || self.is_for(http))
    }

    #[inline(never)]
    fn is_for(&self, http: &Http) -> bool {
        http.takes_host(Authority::parse(self.host))
    }
}

/// The parts of a head before and behind the digits of its Content-Length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct HeadParts<'b> {
    before: &'b [u8],
    behind: &'b [u8],
}

/// A head without the digits of its Content-Length.
#[derive(Debug)]
struct CachedHead {
    bytes: [u8; HEAD_BYTES_MAX],
    before: usize,
    len: usize,
    host: Range<usize>,
    pending: PendingRequest,
    shown: Option<Shown>,
    number: HeadNumber,
}

impl CachedHead {
    fn parts(&self) -> HeadParts<'_> {
        let (before, behind) = self.bytes[..self.len].split_at(self.before);
        HeadParts { before, behind }
    }

    fn set(&mut self, HeadParts { before, behind }: HeadParts<'_>, pending: PendingRequest) {
        (self.before, self.len, self.pending) =
            (before.len(), before.len() + behind.len(), pending);
        self.bytes[..self.before].copy_from_slice(before);
        self.bytes[self.before..self.len].copy_from_slice(behind);
    }

    fn get(&self, input: &[u8]) -> Option<Hit<'_>> {
        let HeadParts { before, behind } = self.parts();
        let rest = input.strip_prefix(before)?;
        let (mut digits, mut body_bytes) = (0, 0);
        while let Some(digit) = rest.get(digits).map(|byte| byte.wrapping_sub(b'0'))
            && digit < 10
            && digits < DIGITS_MAX
        {
            body_bytes = body_bytes * 10 + usize::from(digit);
            digits += 1;
        }
        if digits == 0 || !rest[digits..].starts_with(behind) {
            return None;
        }
        let host = &self.bytes[self.host.clone()];
        let (pending, number, shown) = (self.pending, self.number, &self.shown);
        Some(Hit { pending, shown, number, head_bytes: self.len + digits, body_bytes, host })
    }
}

/// The cache of the most recent heads.
#[derive(Debug, Default)]
pub(super) struct HeadCache {
    heads: Vec<CachedHead>,
    next: usize,
    /// The configuration in which the callers were found. 0: that had no clients.
    generation: u64,
    /// How many heads were cached.
    inserted: u64,
}

impl HeadCache {
    /// Forgets the heads if another configuration is in force.
    #[inline]
    pub fn follow(&mut self, generation: u64) {
        if self.generation != generation {
            self.heads.clear();
            (self.next, self.generation) = (0, generation);
        }
    }

    /// The cached head in this slot, if `input` starts with it.
    pub fn get(&self, slot: ConnectionSlot, input: &[u8]) -> Option<Hit<'_>> {
        self.heads.get(usize::from(slot.0))?.get(input)
    }

    /// Caches a head with these bytes if it qualifies, and returns its slot.
    pub fn insert(
        &mut self,
        head: &Head<'_, '_>,
        bytes: &[u8],
        pending: PendingRequest,
        shown: Option<Shown>,
    ) -> Option<ConnectionSlot> {
        // A head whose body is empty never waits for 100, even with an Expect field. The same head
        // with another length does wait.
        if head.expects_continue || matches!(head.body, Body::Length(0) | Body::Chunked) {
            return None;
        }
        // The next request of the client has another id.
        if head.idempotency_key != Lone::Absent {
            return None;
        }
        // Any other form of target names the host itself, and the Host field does not count.
        if head.origin != Lone::Absent || !head.target.starts_with('/') {
            return None;
        }
        let digits = head.lone_length()?;
        let offset_of = |value: &[u8]| value.as_ptr().addr() - bytes.as_ptr().addr();
        let start = offset_of(digits);
        let parts = HeadParts { before: &bytes[..start], behind: &bytes[start + digits.len()..] };
        if parts.before.len() + parts.behind.len() > HEAD_BYTES_MAX {
            return None;
        }
        let host = match head.host {
            Lone::Once(host) => {
                let at = offset_of(host);
                let at = if at < start { at } else { at - digits.len() };
                at..at + host.len()
            }
            _ => 0..0,
        };
        let known = self.heads.iter().position(|head_cache| head_cache.parts() == parts);
        let at = known.unwrap_or_else(|| self.put(parts, host, pending));
        self.inserted += 1;
        (self.heads[at].shown, self.heads[at].number) = (shown, HeadNumber(self.inserted));
        Some(ConnectionSlot(at as u8))
    }

    /// Caches a head in place of the oldest one.
    fn put(&mut self, parts: HeadParts<'_>, host: Range<usize>, pending: PendingRequest) -> usize {
        let index = self.next;
        if index == self.heads.len() {
            let bytes = [0; HEAD_BYTES_MAX];
            let (host, shown, number) = (0..0, None, HeadNumber::default());
            self.heads.push(CachedHead { bytes, before: 0, len: 0, host, pending, shown, number });
        }
        self.heads[index].set(parts, pending);
        self.heads[index].host = host;
        self.next = (index + 1) % HEADS;
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::request_head;
    use crate::worker::connection::ClientPreferences;
    use frs_engine::Command;

    fn insert(heads: &mut HeadCache, bytes: &str, command: Command) -> Option<ConnectionSlot> {
        let mut fields = request_head::fields();
        let head = Head::parse(bytes.as_bytes(), &mut fields, 8192).unwrap();
        let format = head.content().unwrap();
        let preferences = ClientPreferences::of(&head, format, None);
        heads.insert(
            &head,
            bytes.as_bytes(),
            PendingRequest { command, format, preferences, has_id: false },
            None,
        )
    }

    fn lengths(heads: &HeadCache, slot: ConnectionSlot, input: &str) -> Option<(usize, usize)> {
        heads.get(slot, input.as_bytes()).map(|met| (met.head_bytes, met.body_bytes))
    }

    #[test]
    fn a_head_is_met_again_whatever_the_length() {
        let mut heads = HeadCache::default();
        let head = |length: &str| {
            format!("POST /update HTTP/1.1\r\nContent-Length: {length}\r\nHost: x\r\n\r\n")
        };
        assert_eq!(lengths(&heads, ConnectionSlot::default(), &head("1")), None);
        let slot = insert(&mut heads, &head("7"), Command::Update).unwrap();
        let empty = head("").len();
        for (length, bytes) in [("7", 7), ("0", 0), ("0010", 10), ("999999999", 999_999_999)] {
            let input = head(length) + "<request/>";
            assert_eq!(lengths(&heads, slot, &input), Some((empty + length.len(), bytes)));
        }
        for other in ["", "1, 1", "+1", "1x", " 1", "1234567890"] {
            assert_eq!(lengths(&heads, slot, &head(other)), None, "{other}");
        }
        let whole = head("10");
        for end in 0..whole.len() {
            assert_eq!(lengths(&heads, slot, &whole[..end]), None, "not whole: {end}");
        }
        for other in [whole.replace("Host", "host"), whole.replace("update", "query"), "".into()] {
            assert_eq!(lengths(&heads, slot, &other), None, "{other}");
        }
    }

    #[test]
    fn what_more_than_the_length_decides_is_not_remembered() {
        let long = format!("X: {}\r\nContent-Length: 1\r\n", "x".repeat(HEAD_BYTES_MAX));
        for fields in [
            "",
            "Content-Length: 0\r\nExpect: 100-continue\r\n",
            "Content-Length: 1\r\nExpect: 100-continue\r\n",
            "Content-Length: 1\r\ncontent-length: 1\r\n",
            "Content-Length: 1, 1\r\n",
            "Transfer-Encoding: chunked\r\n",
            "Content-Length: 1\r\nIdempotency-Key: 1\r\n",
            &long,
        ] {
            let head = format!("POST /update HTTP/1.1\r\n{fields}\r\n");
            let slot = insert(&mut HeadCache::default(), &head, Command::Update);
            assert!(slot.is_none(), "{fields}");
        }
    }

    #[test]
    fn the_oldest_head_gives_way() {
        let mut heads = HeadCache::default();
        let head =
            |n: usize| format!("POST /update HTTP/1.1\r\nA: {n}\r\nContent-Length: 1\r\n\r\n");
        let slots: Vec<_> =
            (0..=HEADS).map(|n| insert(&mut heads, &head(n), Command::Update).unwrap()).collect();
        assert_eq!(lengths(&heads, slots[0], &head(0)), None);
        for (n, &slot) in slots.iter().enumerate().skip(1) {
            assert!(lengths(&heads, slot, &head(n)).is_some());
            assert_eq!(insert(&mut heads, &head(n), Command::Update).unwrap().0, slot.0);
        }
        assert_eq!(heads.heads.len(), HEADS);
    }
}
