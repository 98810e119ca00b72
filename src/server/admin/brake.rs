//! The brake delays answers to an address that sends many wrong tokens.
//!
//! Invariant: a right token is answered at once, even if others have sent wrong ones. That of a
//! change clears its address's count: one that may only look does not help to guess the others.
//! The table is bounded. While it is full, an address that is not in it counts as one with too many
//! wrong tokens.

use std::net::IpAddr;
use std::time::{Duration, Instant};

/// The number of wrong tokens of an address that are answered at once.
const FREE: u32 = 5;
/// The delay of the answer to each further one.
pub const DELAY: Duration = Duration::from_secs(1);
/// An address without a wrong token for this long has its count cleared.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);
/// The number of addresses in the table.
const MAX_ADDRESSES: usize = 64;

/// The number of wrong tokens of each address.
#[derive(Debug, Default)]
pub struct Brake {
    addresses: Vec<Wrong>,
}

#[derive(Debug)]
struct Wrong {
    address: IpAddr,
    count: u32,
    last: Instant,
}

impl Brake {
    /// Notes a wrong token; returns whether to delay the answer.
    pub fn note_wrong(&mut self, address: IpAddr, now: Instant) -> bool {
        self.addresses.retain(|wrong| now < wrong.last + FORGOTTEN_AFTER);
        if let Some(wrong) = self.addresses.iter_mut().find(|wrong| wrong.address == address) {
            (wrong.count, wrong.last) = (wrong.count.saturating_add(1), now);
            return wrong.count > FREE;
        }
        let has_room = self.addresses.len() < MAX_ADDRESSES;
        if has_room {
            self.addresses.push(Wrong { address, count: 1, last: now });
        }
        !has_room
    }

    /// Notes a right token of a change.
    pub fn note_right(&mut self, address: IpAddr) {
        self.addresses.retain(|wrong| wrong.address != address);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn address(nth: u32) -> IpAddr {
        Ipv4Addr::from(0x7F00_0001 + nth).into()
    }

    /// How many of `wrong` wrong tokens are answered at once.
    fn at_once(brake: &mut Brake, address: IpAddr, wrong: usize, now: Instant) -> usize {
        (0..wrong).filter(|_| !brake.note_wrong(address, now)).count()
    }

    #[test]
    fn after_five_wrong_tokens_an_address_is_answered_late() {
        let (mut brake, now) = (Brake::default(), frs::base::clock::instant());
        assert_eq!(at_once(&mut brake, address(0), 20, now), 5);
        assert_eq!(at_once(&mut brake, address(1), 20, now), 5, "each address has its own");
        // An address that continues is not forgotten; one that pauses is.
        for minute in 1..5 {
            let later = now + Duration::from_secs(59 * minute);
            assert_eq!(at_once(&mut brake, address(0), 1, later), 0);
        }
        assert_eq!(at_once(&mut brake, address(1), 20, now + FORGOTTEN_AFTER), 5);
    }

    #[test]
    fn a_right_token_makes_good_the_wrong_ones_of_its_address() {
        let (mut brake, now) = (Brake::default(), frs::base::clock::instant());
        for nth in 0..2 {
            at_once(&mut brake, address(nth), 6, now);
        }
        brake.note_right(address(0));
        assert_eq!(at_once(&mut brake, address(0), 6, now), 5);
        assert_eq!(at_once(&mut brake, address(1), 6, now), 0);
    }

    #[test]
    fn the_table_is_bounded_and_many_addresses_are_no_way_around_it() {
        let (mut brake, now) = (Brake::default(), frs::base::clock::instant());
        let free: usize = (0..10_000).map(|nth| at_once(&mut brake, address(nth), 6, now)).sum();
        assert_eq!(free, MAX_ADDRESSES * FREE as usize);
        assert_eq!(brake.addresses.len(), MAX_ADDRESSES);
        assert_eq!(at_once(&mut brake, address(20_000), 1, now + FORGOTTEN_AFTER), 1);
    }
}
