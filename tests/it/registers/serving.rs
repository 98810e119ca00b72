//! Registers over the real store: INCREX, what is counted of unknown commands, and what is kept.

use std::process::Command;

use super::page::blocks;
use super::wire::{Reply, Wire, words};
use super::{map, setup};
use crate::common::address::Reserved;
use crate::common::{Client, Settings, Setup, needs, text, wait_until};

/// The port of docs/redis.md.
const PORT: &str = "6380";

/// The first block of the page in a language that holds a word.
fn block(language: &str, word: &str) -> &'static str {
    blocks(language).into_iter().find(|block| block.contains(word)).expect("a block")
}

// Shows: documents.
#[test]
fn commands_over_registers_are_answered_as_shown() {
    let resp = Reserved::new();
    let port = resp.address.port().to_string();
    let more = block("xml", "<resp").replace(PORT, &port);
    let setup = Setup::new(&Settings { more, ..Settings::default() });
    setup.write_map(&format!("<map>{}</map>", block("xml", "<register")));
    let _server = setup.start();
    wait_until("frs listens", || Wire::connect(resp.address).ok());
    let shown = block("console", "INCREX");
    for part in shown.split("$ redis-cli -p 6380 ").skip(1) {
        let (command, reply) = part.split_once('\n').expect("a reply");
        let mut client = Command::new("redis-cli");
        client.args(["--no-raw", "-p", &port]).args(command.split(' '));
        let Some(found) = needs::output(&mut client) else { return };
        assert_eq!(text(&found.stdout), reply, "{command}");
    }
}

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
fn a_key_or_a_text_that_is_none_fails_its_command_alone() {
    let (setup, resp) = setup(1, 1000);
    let _server = setup.start();
    let wire = &mut wait_until("frs listens", || Wire::connect(resp.address).ok());
    let (no_key, too_long) = (b"k\xff".to_vec(), vec![b'x'; 65]);
    let commands = [
        words("MULTI"),
        words("INCR a"),
        vec![b"GET".to_vec(), no_key.clone()],
        vec![b"SET".to_vec(), b"a".to_vec(), too_long],
        words("INCR a"),
        words("EXEC"),
        vec![b"DEL".to_vec(), b"a".to_vec(), no_key],
    ];
    wire.send(commands.iter().map(|command| &command[..])).expect("sent");
    let replies: Vec<_> = commands.iter().map(|_| wire.reply().expect("a reply")).collect();
    let [first, key, text, last] = replies[5].parts() else { panic!("{replies:?}") };
    assert_eq!((first.integer(), last.integer()), (Some(1), Some(2)));
    for (reply, begin) in
        [(key, "-ERR bad-key ("), (text, "-ERR text-too-long ("), (&replies[6], "-ERR bad-key (")]
    {
        assert!(reply.text().starts_with(begin), "{reply:?}");
    }
    assert_eq!(wire.ask("INCR a").integer(), Some(3));
}

#[test]
fn commands_that_frs_does_not_have_are_counted_by_name() {
    let (resp, metrics) = (Reserved::new(), Reserved::new());
    let more = format!(
        "<resp listen='{}' registers='redis'/><metrics listen='{}'/>",
        resp.address, metrics.address
    );
    let setup = Setup::new(&Settings { workers: 1, more, ..Settings::default() });
    setup.write_map(&map(1000));
    let _server = setup.start();
    let wire = &mut wait_until("frs listens", || Wire::connect(resp.address).ok());
    for command in ["EVAL x 0", "BF.ADD f x", "GET a"] {
        wire.ask(command);
    }
    wait_until("both are counted", || {
        let page = Client::try_connect(metrics.address)?.try_get("/metrics").ok()?.body;
        let name = "frs_resp_unknown_commands_total{";
        let counted: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix(name)).collect();
        (counted == ["command=\"other\"} 1", "command=\"eval\"} 1"]).then_some(())
    });
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
