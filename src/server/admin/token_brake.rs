//! The brake makes an address wait that has sent many wrong tokens.
//!
//! Invariant: while an address waits, its tokens are not examined, so more connections do not make
//! guessing faster. There are two exceptions. A connection that has shown a right token does not
//! wait, because one guesser must not lock out others behind the same address. All local users
//! share the loopback address: while it waits, a right token is still accepted, and a wrong one
//! gets the answer of an unexamined one.
//!
//! A right token that permits changes clears the count of its address. A right read-only token does
//! not, because its owner could otherwise guess other tokens without end. The table is bounded.
//! Addresses without a place in it share one count.

use std::net::IpAddr;
use std::time::{Duration, Instant};

/// The number of wrong tokens after which an address waits.
const FREE: u32 = 10;
/// The first wait. Each further wrong token doubles it.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// The longest wait of the loopback address, which all local users share. One of them must not lock
/// out the operators.
const LONGEST_LOCAL: Duration = FIRST;
/// The count of an address is cleared this long after its wait, if no wrong token follows.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);
/// The most addresses in the table.
const MAX_ADDRESSES: usize = 64;

/// The number of wrong tokens of each address.
#[derive(Debug, Default)]
pub struct Brake {
    addresses: Vec<WrongTokens>,
}

#[derive(Debug)]
struct WrongTokens {
    /// `None` for all addresses without a place.
    address: Option<IpAddr>,
    count: u32,
    /// The end of the wait. No token of the address is examined before.
    until: Instant,
}

impl WrongTokens {
    fn is_forgotten(&self, now: Instant) -> bool {
        now >= self.until + FORGOTTEN_AFTER
    }
}

impl Brake {
    /// How long this address has to wait. `None` if its tokens are examined.
    pub fn wait(&self, address: IpAddr, now: Instant) -> Option<Duration> {
        let of = |address| self.addresses.iter().find(move |wrong| wrong.address == address);
        let wrong = of(Some(address)).or_else(|| if self.is_full() { of(None) } else { None })?;
        let left = wrong.until.saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }

    /// Whether the table has no place for another address.
    fn is_full(&self) -> bool {
        self.addresses.iter().filter(|wrong| wrong.address.is_some()).count() >= MAX_ADDRESSES
    }

    /// Notes a wrong token that was examined.
    pub fn note_wrong(&mut self, address: IpAddr, now: Instant) {
        self.addresses.retain(|wrong| !wrong.is_forgotten(now));
        let is_known = self.addresses.iter().any(|wrong| wrong.address == Some(address));
        let address = (is_known || !self.is_full()).then_some(address);
        let at = match self.addresses.iter().position(|wrong| wrong.address == address) {
            Some(at) => at,
            None => {
                self.addresses.push(WrongTokens { address, count: 0, until: now });
                self.addresses.len() - 1
            }
        };
        let wrong = &mut self.addresses[at];
        wrong.count = wrong.count.saturating_add(1);
        let is_local = address.is_some_and(|address| address.is_loopback());
        let longest = if is_local { LONGEST_LOCAL } else { LONGEST };
        let doublings = wrong.count.checked_sub(FREE);
        let wait = doublings.map(|doublings| (FIRST * (1 << doublings.min(6))).min(longest));
        wrong.until = now + wait.unwrap_or_default();
    }

    /// Notes a right token that permits changes.
    pub fn note_right(&mut self, address: IpAddr) {
        self.addresses.retain(|wrong| wrong.address != Some(address));
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn address(nth: u32) -> IpAddr {
        Ipv4Addr::from(0xC000_0201 + nth).into()
    }

    /// The number of tokens that are examined of `tries` at the same time. A wait holds up the
    /// later ones.
    fn looked_at(brake: &mut Brake, address: IpAddr, tries: usize, now: Instant) -> usize {
        let mut look = |_: &usize| {
            let is_free = brake.wait(address, now).is_none();
            if is_free {
                brake.note_wrong(address, now);
            }
            is_free
        };
        (0..tries).filter(&mut look).count()
    }

    // Shows: permissions.
    #[test]
    fn after_ten_wrong_tokens_an_address_waits_twice_as_long_each_time() {
        let (mut brake, mut now) = (Brake::default(), frs_base::clock::instant());
        assert_eq!(looked_at(&mut brake, address(0), 1000, now), 10);
        assert_eq!(looked_at(&mut brake, address(1), 1000, now), 10, "each address has its own");
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60, 60] {
            let wait = Duration::from_secs(seconds);
            assert_eq!(brake.wait(address(0), now), Some(wait));
            now += wait;
            assert_eq!(looked_at(&mut brake, address(0), 1000, now), 1, "{seconds} s");
        }
        assert_eq!(looked_at(&mut brake, address(1), 1000, now), 10, "it is forgotten");
    }

    #[test]
    fn who_shares_the_loopback_never_waits_longer_than_a_second() {
        let (mut brake, mut now) = (Brake::default(), frs_base::clock::instant());
        let local = Ipv4Addr::LOCALHOST.into();
        assert_eq!(looked_at(&mut brake, local, 1000, now), 10);
        for _ in 0..9 {
            assert_eq!(brake.wait(local, now), Some(FIRST));
            now += FIRST;
            assert_eq!(looked_at(&mut brake, local, 1000, now), 1);
        }
    }

    #[test]
    fn a_right_token_makes_good_the_wrong_ones_of_its_address() {
        let (mut brake, now) = (Brake::default(), frs_base::clock::instant());
        for nth in 0..2 {
            looked_at(&mut brake, address(nth), 11, now);
        }
        brake.note_right(address(0));
        assert_eq!(looked_at(&mut brake, address(0), 11, now), 10);
        assert_eq!(looked_at(&mut brake, address(1), 11, now), 0);
    }

    #[test]
    fn the_table_is_bounded_and_many_addresses_are_no_way_around_it() {
        let (mut brake, now) = (Brake::default(), frs_base::clock::instant());
        let all: usize = (0..10_000).map(|nth| looked_at(&mut brake, address(nth), 11, now)).sum();
        assert_eq!(all, (MAX_ADDRESSES + 1) * FREE as usize);
        assert_eq!(brake.addresses.len(), MAX_ADDRESSES + 1);
        let later = now + FORGOTTEN_AFTER + FIRST;
        assert_eq!(looked_at(&mut brake, address(20_000), 11, later), 10);
    }
}
