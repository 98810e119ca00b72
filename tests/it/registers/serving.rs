//! Registers over the real store: INCREX, what is counted of unknown commands, and what is kept.

use super::setup;
use super::wire::{Reply, Wire};
use crate::common::wait_until;

// Shows: registers-as-redis.
#[test]
fn increx_counts_within_bounds_and_windows() {
    let (setup, resp) = setup(1, 1000);
    let _server = setup.start();
    for version in ["2", "3"] {
        let wire = &mut wait_until("frs listens", || Wire::connect(resp.address).ok());
        wire.ask(&format!("HELLO {version}"));
        let mut pair = |command: &str| {
            let reply = wire.ask(command);
            let figures: Vec<i64> = reply.parts().iter().filter_map(Reply::integer).collect();
            <[i64; 2]>::try_from(figures).unwrap_or_else(|_| panic!("{command}: {reply:?}"))
        };
        let key = format!("window{version}");
        for used in 1..=3 {
            assert_eq!(pair(&format!("INCREX {key} UBOUND 3 EX 60 ENX")), [used, 1]);
        }
        assert_eq!(pair(&format!("INCREX {key} UBOUND 3 EX 60 ENX")), [3, 0]);
        assert_eq!(pair(&format!("INCREX {key} BYINT -9 LBOUND 0 SATURATE")), [0, -3]);
        let left = wire.ask(&format!("PTTL {key}")).integer().expect("a time");
        assert!((50_000..=60_000).contains(&left), "{left}");
    }
}

// Shows: registers-as-redis.
#[test]
fn registers_are_kept_over_a_kill_of_all() {
    let (setup, resp) = setup(2, 1000);
    let mut server = setup.start();
    let connect = || wait_until("frs listens", || Wire::connect(resp.address).ok());
    let wire = &mut connect();
    for (command, reply) in [
        ("SET text some", "+OK"),
        ("INCRBY number 41", ":41"),
        ("EXPIRE number 1000", ":1"),
        ("SELECT 3", "+OK"),
        ("SET text other", "+OK"),
    ] {
        assert_eq!(wire.ask(command), Reply::Line(reply.to_owned()), "{command}");
    }
    server.kill_all_and_wait();
    let _server = setup.start();
    let wire = &mut connect();
    assert_eq!(wire.ask("INCR number"), Reply::Line(":42".to_owned()));
    assert!((900..=1000).contains(&wire.ask("TTL number").integer().expect("a time")));
    assert_eq!(wire.ask("GET text"), Reply::Bulk(b"some".to_vec()));
    wire.ask("SELECT 3");
    assert_eq!(wire.ask("GET text"), Reply::Bulk(b"other".to_vec()));
    assert_eq!(wire.ask("SCAN 0").parts()[1].parts(), [Reply::Bulk(b"text".to_vec())]);
}
