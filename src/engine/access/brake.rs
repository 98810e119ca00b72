//! The brake: an address that has shown many wrong tokens waits.
//!
//! Invariant: while an address waits, the tokens of its new connections are not examined, so more
//! connections do not make guessing faster. The table is bounded. Where it is full, a new address
//! takes the place of the one that would be forgotten first, so the addresses without a place are
//! not held up. While no address has shown a wrong token, a look costs one comparison.
//!
//! A connection that has shown its token, or a certificate, does not wait, because one guesser must
//! not lock out others behind the same address. The loopback address belongs to all local users, so
//! its tokens are examined while it waits; only its wrong ones wait, and never long.

use std::net::{IpAddr, Ipv6Addr};

/// The number of wrong tokens in [`WINDOW_MS`] after which an address waits.
const FREE: u32 = 10;
/// The time in which that many wrong tokens are too many.
const WINDOW_MS: u64 = 60_000;
/// The first wait. Each further wrong token doubles it.
const FIRST_MS: u64 = 1_000;
const LONGEST_MS: u64 = 60_000;
/// The longest wait of the loopback address.
const LONGEST_LOCAL_MS: u64 = FIRST_MS;
/// An address is forgotten this long after its wait, if no wrong token follows.
const FORGOTTEN_AFTER_MS: u64 = 60_000;
/// The most addresses in the table.
const MAX_ADDRESSES: usize = 256;

/// The wrong tokens of each address. Times are milliseconds of a clock that never goes back.
#[derive(Debug, Default)]
pub struct Brake {
    addresses: Vec<WrongTokens>,
}

#[derive(Debug, Clone, Copy)]
struct WrongTokens {
    address: IpAddr,
    count: u32,
    /// The start of the window of the first [`FREE`] wrong tokens.
    since_ms: u64,
    /// The end of the wait.
    until_ms: u64,
}

impl WrongTokens {
    fn forgotten_ms(&self) -> u64 {
        match self.count < FREE {
            true => self.since_ms.saturating_add(WINDOW_MS),
            false => self.until_ms.saturating_add(FORGOTTEN_AFTER_MS),
        }
    }
}

/// The address that stands for a peer: that of an IPv6 network of 64 bits, of which one host may
/// have all addresses.
fn of_peer(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into()
        }
        address => address,
    }
}

impl Brake {
    /// Whether no address is known. Then none waits.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.addresses.is_empty()
    }

    /// Forgets addresses whose time is over.
    #[inline]
    pub fn forget(&mut self, now_ms: u64) {
        if !self.is_idle() {
            self.addresses.retain(|wrong| wrong.forgotten_ms() > now_ms);
        }
    }

    /// When the wait of a peer ends: its new connections and its tokens are not examined before.
    /// `None` if it does not wait, or if its tokens are examined all the same.
    #[inline]
    pub fn wait(&self, peer: IpAddr, now_ms: u64) -> Option<u64> {
        if self.is_idle() || peer.to_canonical().is_loopback() {
            return None;
        }
        self.until(peer, now_ms)
    }

    /// When the wait of a peer ends that has shown a wrong token. It applies to the loopback, too.
    pub fn until(&self, peer: IpAddr, now_ms: u64) -> Option<u64> {
        let address = of_peer(peer);
        let wrong = self.addresses.iter().find(|wrong| wrong.address == address)?;
        (wrong.until_ms > now_ms).then_some(wrong.until_ms)
    }

    /// Notes a wrong token that was examined.
    #[cold]
    pub fn note_wrong(&mut self, peer: IpAddr, now_ms: u64) {
        self.forget(now_ms);
        let address = of_peer(peer);
        let at = match self.addresses.iter().position(|wrong| wrong.address == address) {
            Some(at) => at,
            None => self.add(address, now_ms),
        };
        let Some(wrong) = self.addresses.get_mut(at) else { return };
        wrong.count = wrong.count.saturating_add(1);
        let longest_ms = if address.is_loopback() { LONGEST_LOCAL_MS } else { LONGEST_MS };
        let doublings = wrong.count.checked_sub(FREE);
        let wait_ms = doublings.map(|doublings| (FIRST_MS << doublings.min(6)).min(longest_ms));
        wrong.until_ms = now_ms.saturating_add(wait_ms.unwrap_or(0));
    }

    /// Adds an address. Returns its place in the table.
    fn add(&mut self, address: IpAddr, now_ms: u64) -> usize {
        let new = WrongTokens { address, count: 0, since_ms: now_ms, until_ms: now_ms };
        if self.addresses.len() < MAX_ADDRESSES {
            self.addresses.push(new);
            return self.addresses.len() - 1;
        }
        let by_time = self.addresses.iter().enumerate().min_by_key(|(_, it)| it.forgotten_ms());
        let at = by_time.map_or(0, |(at, _)| at);
        self.addresses[at] = new;
        at
    }

    /// Forgets the wrong tokens of a peer, who has shown a token that permits everything.
    pub fn forgive(&mut self, peer: IpAddr) {
        let address = of_peer(peer);
        self.addresses.retain(|wrong| wrong.address != address);
    }
}
