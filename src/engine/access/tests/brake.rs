//! The brake, with its times as numbers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::super::Brake;

fn address(nth: u32) -> IpAddr {
    Ipv4Addr::from(0xC000_0201 + nth).into()
}

/// The number of tokens that are examined of `tries` at the same time.
fn examined(brake: &mut Brake, peer: IpAddr, tries: usize, now_ms: u64) -> usize {
    let mut look = |_: &usize| {
        let is_free = brake.wait(peer, now_ms).is_none();
        if is_free {
            brake.note_wrong(peer, now_ms);
        }
        is_free
    };
    (0..tries).filter(&mut look).count()
}

// Shows: brake.
#[test]
fn after_ten_wrong_tokens_an_address_waits_twice_as_long_each_time() {
    let (mut brake, mut now_ms) = (Brake::default(), 5_000_000);
    assert!(brake.is_idle());
    assert_eq!(examined(&mut brake, address(0), 1000, now_ms), 10);
    assert_eq!(examined(&mut brake, address(1), 1000, now_ms), 10, "each address has its own");
    for seconds in [1, 2, 4, 8, 16, 32, 60, 60, 60] {
        let until_ms = now_ms + seconds * 1000;
        assert_eq!(brake.wait(address(0), now_ms), Some(until_ms));
        assert_eq!(brake.wait(address(0), until_ms - 1), Some(until_ms));
        now_ms = until_ms;
        assert_eq!(examined(&mut brake, address(0), 1000, now_ms), 1, "{seconds} s");
    }
    assert_eq!(examined(&mut brake, address(1), 1000, now_ms), 10, "it is forgotten");
    brake.forget(now_ms + 10_000_000);
    assert!(brake.is_idle(), "and then nothing is looked up");
}

#[test]
fn nine_wrong_tokens_in_each_minute_are_free() {
    let (mut brake, peer) = (Brake::default(), address(0));
    for minute in 0..10 {
        let now_ms = minute * 60_000;
        (0..9).for_each(|_| brake.note_wrong(peer, now_ms));
        assert_eq!(brake.wait(peer, now_ms), None, "minute {minute}");
    }
}

#[test]
fn a_network_of_ipv6_is_one_address() {
    let host = |network: u64, host: u64| -> IpAddr {
        Ipv6Addr::from_bits(u128::from(network) << 64 | u128::from(host)).into()
    };
    let mut brake = Brake::default();
    (0..10).for_each(|nth| brake.note_wrong(host(1, nth), 0));
    assert!(brake.wait(host(1, 77), 0).is_some());
    assert_eq!(brake.wait(host(2, 0), 0), None);
    let mapped = |nth: u32| IpAddr::V6(Ipv4Addr::from(nth).to_ipv6_mapped());
    (0..10).for_each(|_| brake.note_wrong(mapped(0xC000_0201), 0));
    assert!(brake.wait(address(0), 0).is_some(), "an IPv4 address in either form");
    assert_eq!(brake.wait(address(1), 0), None);
}

#[test]
fn tokens_from_the_loopback_are_examined_and_wrong_ones_wait_a_second() {
    let mut brake = Brake::default();
    for local in [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
        for nth in 0..30 {
            brake.note_wrong(local, 0);
            assert_eq!(brake.wait(local, 0), None);
            let wait = (nth >= 9).then_some(1000);
            assert_eq!(brake.until(local, 0), wait, "{nth}");
        }
    }
}

// Shows: brake.
#[test]
fn a_full_table_locks_nobody_out() {
    let (mut brake, now_ms) = (Brake::default(), 0);
    (0..12).for_each(|_| brake.note_wrong(address(0), now_ms));
    for nth in 1..10_000 {
        brake.note_wrong(address(nth), now_ms);
        assert_eq!(brake.wait(address(nth), now_ms), None, "one wrong token is free");
    }
    assert_eq!(brake.wait(address(20_000), now_ms), None, "an address that was never wrong");
    assert!(brake.wait(address(0), now_ms).is_some(), "the one that guesses keeps its place");
    brake.forgive(address(0));
    assert_eq!(brake.wait(address(0), now_ms), None);
}
