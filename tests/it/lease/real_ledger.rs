//! The ledger's functions on a real server: its clock, memory, failovers and losses.

use std::cell::RefCell;
use std::time::Instant;

use frs_cluster::lease::{Claim, Granted, Kind, Settings, Take, Taken};
use frs_cluster::ledger::{self, Answer, Heartbeat, Reply};
use frs_cluster::name::{KeyDigest, LedgerId, SlotKeys, slot};
use frs_cluster::newest_copy::Starts;
use redis::cmd;

use super::server::{SLOT, Server, fcall};
use crate::common::address::Reserved;
use crate::common::{BOUND, needs};

const LEARN_MS: u64 = 400;
const HOUR_MS: u64 = 3_600_000;

const MINUTE: Settings =
    Settings { kind: Kind::Interval { interval_ms: 60_000 }, max: 10, hosts: 2 };

fn of(kind: Kind) -> Settings {
    Settings { kind, ..MINUTE }
}

/// A limit of each kind. The windows are long, so they seldom turn during a test.
fn kinds(now_ms: u64) -> [Settings; 6] {
    let start_ms = now_ms - now_ms % HOUR_MS;
    let [end_ms, next_end_ms] = [start_ms + HOUR_MS, start_ms + 2 * HOUR_MS];
    [
        MINUTE,
        of(Kind::Calendar { start_ms, end_ms, next_end_ms }),
        of(Kind::Total),
        of(Kind::Sliding { interval_ms: HOUR_MS }),
        of(Kind::Token { rate: 10, period_ms: 60_000 }),
        of(Kind::SlidingCounter { interval_ms: HOUR_MS }),
    ]
}

/// A message of a host that needs `need` uses and knows nothing of the ledger.
fn ask(host: u64, seq: u64, need: u64) -> Take {
    let claim = Claim { window: 0, floor: 0, spent: 0, extra: 0, noted: 0 };
    Take { host, seq, claim, need, request: need }
}

fn claim(host: u64, seq: u64, window: u64, floor: u64) -> Take {
    Take { claim: Claim { window, floor, spent: 0, extra: 0, noted: 0 }, ..ask(host, seq, 0) }
}

#[track_caller]
fn granted(reply: Reply) -> Granted {
    match reply.answer {
        Answer::Taken(Taken::Granted(granted)) => granted,
        other => panic!("expected a grant, found {other:?}"),
    }
}

/// Waits until the server has learned.
fn learn(server: &mut Server) {
    let began = Instant::now();
    while heartbeat(server).learning_ms > 0 {
        assert!(began.elapsed() < BOUND, "it learns for ever");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

fn heartbeat(server: &mut Server) -> Heartbeat {
    let mut command = cmd("FCALL");
    command.arg(ledger::HEARTBEAT).arg(1).arg(SLOT);
    command.arg(&ledger::heartbeat_arguments(LEARN_MS, false));
    let numbers: Vec<i64> = server.ask(&command);
    ledger::decode_heartbeat(&numbers).expect("a heartbeat's answer")
}

/// Runs the test on each kind of server on this machine, with the library loaded and learned.
fn on_each(test: impl Fn(&mut Server)) {
    for program in &needs::redis_servers() {
        let mut server = Server::with_library(program, &[]);
        learn(&mut server);
        test(&mut server);
    }
}

#[test]
fn windows_go_by_the_clock_of_the_server() {
    on_each(|server| {
        let settings = of(Kind::Interval { interval_ms: 300 });
        let before_ms = server.now_ms();
        let first = granted(server.take("k", &settings, &ask(1, 1, 10), LEARN_MS));
        assert!((before_ms..=server.now_ms()).contains(&first.window));
        assert_eq!((first.allowance, first.pool, first.turn_ms), (10, 0, Some(300)));
        let none = granted(server.take("k", &settings, &ask(2, 1, 1), LEARN_MS));
        assert_eq!((none.allowance, none.others), (0, 10));
        server.wait_until_ms(first.window + 300);
        let next = granted(server.take("k", &settings, &ask(2, 2, 1), LEARN_MS));
        assert!(next.window >= first.window + 300 && next.allowance > 0);
        // A second after the window the hash expires by itself.
        let expires_ms: u64 = server.ask(cmd("PEXPIRETIME").arg("k"));
        assert_eq!(expires_ms, next.window + 300 + 1000);
        server.wait_until_ms(expires_ms + 1);
        assert_eq!(server.ask::<u64>(cmd("EXISTS").arg("k")), 0);
    });
}

// Shows: leases-admit-max.
#[test]
fn what_no_answer_has_told_comes_back() {
    on_each(|server| {
        for settings in kinds(server.now_ms()) {
            let key = format!("{:?}", settings.kind);
            let unanswered = granted(server.take(&key, &settings, &ask(1, 5, 4), LEARN_MS));
            assert_eq!((unanswered.base, unanswered.allowance), (Some(0), 4));
            // Under another seq, as after a change of master.
            let since = |seq, since| {
                let claim = Claim { window: 0, floor: since, spent: 0, extra: 0, noted: 0 };
                Take { claim, ..ask(1, seq, 0) }
            };
            let again = granted(server.take(&key, &settings, &since(6, 5), LEARN_MS));
            assert_eq!((again.base, again.allowance, again.pool), (Some(0), 0, 10));
            granted(server.take(
                &key,
                &settings,
                &Take { need: 3, request: 3, ..since(7, 5) },
                LEARN_MS,
            ));
            // A lost and recreated node does not know the uses of the node before.
            let lost = granted(server.take(&key, &settings, &since(8, 8), LEARN_MS));
            assert_eq!((lost.base, lost.allowance, lost.pool), (Some(3), 3, 7));
        }
    });
}

#[test]
fn each_kind_expires_as_designed() {
    on_each(|server| {
        for settings in kinds(server.now_ms()) {
            let before_ms = server.now_ms();
            let key = format!("{:?}", settings.kind);
            let window = granted(server.take(&key, &settings, &ask(1, 1, 1), LEARN_MS)).window;
            let expires: i64 = server.ask(cmd("PEXPIRETIME").arg(&key));
            let after_ms = server.now_ms();
            // How long the ledger lives after a lease: an interval, or the time to fill the bucket.
            let lived_since = |start_ms: u64| expires - start_ms as i64 - 1000;
            let assert_lives = |ms: u64| {
                let lived = lived_since(after_ms)..=lived_since(before_ms);
                assert!(lived.contains(&(ms as i64)), "{settings:?}: {lived:?}");
            };
            match settings.kind {
                Kind::Interval { interval_ms } => {
                    assert_eq!(lived_since(window), interval_ms as i64);
                }
                Kind::Calendar { .. } => assert_eq!(lived_since(window), HOUR_MS as i64),
                Kind::Total => assert_eq!(expires, -1),
                Kind::SlidingCounter { .. } => assert_eq!(lived_since(window), 2 * HOUR_MS as i64),
                Kind::Sliding { interval_ms } => assert_lives(60_000 + interval_ms),
                Kind::Token { .. } => assert_lives(2 * 60_000),
            }
        }
    });
}

#[test]
fn numbers_beyond_what_a_double_holds_are_told_apart() {
    on_each(|server| {
        for base in [1 << 53, (1 << 32) - 1, u64::MAX - 2] {
            for settings in kinds(server.now_ms()) {
                let key = format!("{base} {:?}", settings.kind);
                let mut take = |seq| server.take(&key, &settings, &ask(base, seq, 1), LEARN_MS);
                let first = granted(take(base));
                assert_eq!(granted(take(base)).allowance, first.allowance, "repeated");
                let second = granted(take(base + 1));
                assert_eq!(second.base, Some(first.allowance), "the next number is a new message");
                assert_eq!(take(base).answer, Answer::Taken(Taken::Stale));
                let repeated = granted(take(base + 1));
                assert_eq!(
                    Granted { turn_ms: None, ..repeated },
                    Granted { turn_ms: None, ..second }
                );
            }
        }
    });
}

#[test]
fn a_library_that_is_loaded_again_keeps_ledgers_and_has_learnt() {
    on_each(|server| {
        let kinds = kinds(server.now_ms());
        let kept = kinds.map(|settings| {
            let key = format!("{:?}", settings.kind);
            granted(server.take(&key, &settings, &ask(1, 1, 4), LEARN_MS));
            server.fields(&key)
        });
        server.load(ledger::LIBRARY);
        for (settings, kept) in kinds.iter().zip(kept) {
            let key = format!("{:?}", settings.kind);
            assert_eq!(server.fields(&key), kept);
            let reply = server.take(&key, settings, &ask(2, 1, 1), LEARN_MS);
            assert_eq!((reply.learning_ms, granted(reply).allowance), (0, 1), "{key}");
        }
        // A courier loads without REPLACE.
        let fault = server.fault(cmd("FUNCTION").arg("LOAD").arg(ledger::LIBRARY));
        assert!(fault.contains("already exists"), "{fault}");
        assert_eq!(heartbeat(server).learning_ms, 0);
    });
}

#[test]
fn a_server_that_was_emptied_learns() {
    on_each(|server| {
        let first = granted(server.take("k", &MINUTE, &ask(1, 1, 10), LEARN_MS));
        // One pipeline empties the server and its statistics.
        let mut empty = redis::pipe();
        empty.cmd("FLUSHALL").cmd("CONFIG").arg("RESETSTAT");
        let _: [String; 2] = empty.query(&mut server.connection).expect("emptied");
        let reply = server.take("k", &MINUTE, &ask(2, 1, 1), LEARN_MS);
        assert_eq!(reply.answer, Answer::Taken(Taken::Nothing));
        assert!(reply.learning_ms > 0);
        granted(server.take("k", &MINUTE, &claim(1, 2, first.window, 10), LEARN_MS));
        learn(server);
        let after = granted(server.take("k", &MINUTE, &ask(2, 2, 1), LEARN_MS));
        assert_eq!((after.window, after.allowance, after.others), (first.window, 0, 10));
    });
}

// Shows: late-answers-and-moved-slots.
#[test]
fn the_learning_lasts_while_hosts_claim_but_not_for_ever() {
    const MAX_MS: u64 = 10_000;
    on_each(|server| {
        let beat = |server: &mut Server, claims| {
            let mut command = cmd("FCALL");
            command.arg(ledger::HEARTBEAT).arg(1).arg(SLOT);
            command.arg(&ledger::heartbeat_arguments(LEARN_MS, claims));
            let numbers: Vec<i64> = server.ask(&command);
            ledger::decode_heartbeat(&numbers).expect("a heartbeat's answer")
        };
        // A server that has learned does not start again.
        assert_eq!(beat(server, true).learning_ms, 0);
        let first = granted(server.take("k", &MINUTE, &ask(1, 1, 10), LEARN_MS));
        let _: String = server.ask(&cmd("FLUSHALL"));
        let began_ms = beat(server, true).since_ms;
        let is_held = |server: &mut Server| {
            let at_ms = server.now_ms() + LEARN_MS / 4;
            server.wait_until_ms(at_ms);
            beat(server, true).learning_ms > 0
        };
        while server.now_ms() < began_ms + 2 * LEARN_MS {
            assert!(is_held(server));
        }
        // The learning lasts in each slot, also in one that has learned for long already.
        granted(server.take("k", &MINUTE, &claim(1, 2, first.window, 10), LEARN_MS));
        assert_eq!(
            granted(server.take("k", &MINUTE, &claim(1, 2, first.window, 10), LEARN_MS)).pool,
            0
        );
        let other = server.take("other", &MINUTE, &ask(2, 1, 1), LEARN_MS);
        assert_eq!(other.answer, Answer::Taken(Taken::Nothing));
        // A host that claims forever does not hold up the learning.
        while is_held(server) {
            assert!(server.now_ms() < began_ms + MAX_MS + LEARN_MS, "it learns for ever");
        }
        assert!(server.now_ms() >= began_ms + MAX_MS);
        assert_eq!(granted(server.take("other", &MINUTE, &ask(2, 2, 1), LEARN_MS)).allowance, 1);
    });
}

// Shows: late-answers-and-moved-slots.
#[test]
fn a_slot_on_its_way_grants_of_what_is_there() {
    on_each(|server| {
        granted(server.take("here", &MINUTE, &ask(1, 1, 3), LEARN_MS));
        let mut on_its_way = |key: &str, take: &Take| {
            let mut command = cmd("FCALL");
            command.arg(ledger::function(&MINUTE.kind)).arg(1).arg(key);
            command.arg(ledger::arguments(&MINUTE, take, LEARN_MS, "").expect("settings"));
            let numbers: Vec<i64> = server.ask(&command);
            ledger::decode(&MINUTE, &numbers).expect("an answer of the library")
        };
        assert_eq!(granted(on_its_way("here", &ask(2, 1, 1))).pool, 6);
        // This server cannot know what another node has granted of these keys.
        let window = 1_700_000_000_000;
        for take in [ask(2, 1, 1), claim(2, 2, window, 3)] {
            let reply = on_its_way("there", &take);
            let expected = Reply { learning_ms: LEARN_MS, answer: Answer::Taken(Taken::Nothing) };
            assert_eq!(reply, expected);
        }
    });
}

/// A master and its replica.
struct Pair {
    master: Server,
    replica: Server,
    _port: Reserved,
}

fn pair(program: &str) -> Pair {
    let port = Reserved::new();
    let number = port.address.port().to_string();
    let arguments = ["--repl-diskless-sync-delay", "0", "--bind", "127.0.0.1", "--port", &number];
    let mut master = Server::with_library(program, &arguments);
    let mut replica = Server::start(program, &[]);
    let _: String = replica.ask(cmd("REPLICAOF").arg("127.0.0.1").arg(&number));
    let began = Instant::now();
    // Valkey acknowledges before it has the library. Once the link is up the replica has
    // everything.
    let has_all = |replica: &mut Server| {
        let info: String = replica.ask(cmd("INFO").arg("replication"));
        info.contains("master_link_status:up")
    };
    while !has_all(&mut replica) || master.ask::<u64>(cmd("WAIT").arg(1).arg(100)) == 0 {
        assert!(began.elapsed() < BOUND, "the replica does not follow");
    }
    Pair { master, replica, _port: port }
}

// Shows: ledger-grants.
#[test]
fn a_replica_that_becomes_the_master_learns_before_it_grants() {
    for program in &needs::redis_servers() {
        let Pair { mut master, mut replica, _port } = pair(program);
        learn(&mut master);
        let kept = granted(master.take("k", &MINUTE, &ask(1, 1, 4), LEARN_MS));
        assert_eq!(master.ask::<u64>(cmd("WAIT").arg(1).arg(5000)), 1);
        let _: String = replica.ask(cmd("REPLICAOF").arg("NO").arg("ONE"));
        // These two grants are lost: one of a window that the replica knows, one of a new window.
        let more = Take { need: 6, ..claim(1, 2, kept.window, 4) };
        assert_eq!(granted(master.take("k", &MINUTE, &more, LEARN_MS)).allowance, 10);
        let lost = granted(master.take("lost", &MINUTE, &ask(1, 3, 10), LEARN_MS));

        let reply = replica.take("k", &MINUTE, &ask(2, 4, 1), LEARN_MS);
        assert!((1..=LEARN_MS).contains(&reply.learning_ms));
        assert_eq!((granted(reply).allowance, granted(reply).pool), (0, 6));
        let reply = replica.take("lost", &MINUTE, &ask(2, 4, 1), LEARN_MS);
        assert_eq!(reply.answer, Answer::Taken(Taken::Nothing));
        // The holder's claims are accepted.
        let claimed = replica.take("k", &MINUTE, &claim(1, 5, kept.window, 10), LEARN_MS);
        assert_eq!((granted(claimed).allowance, granted(claimed).pool), (10, 0));
        let claimed = replica.take("lost", &MINUTE, &claim(1, 6, lost.window, 10), LEARN_MS);
        assert_eq!(granted(claimed).window, lost.window);

        let began_ms = heartbeat(&mut replica).now_ms;
        learn(&mut replica);
        assert!(heartbeat(&mut replica).now_ms - began_ms <= LEARN_MS + 100, "it ends");
        for key in ["k", "lost"] {
            let none = granted(replica.take(key, &MINUTE, &ask(2, 7, 1), LEARN_MS));
            assert_eq!((none.allowance, none.others), (0, 10), "{key}");
        }
        assert_eq!(granted(replica.take("new", &MINUTE, &ask(2, 8, 3), LEARN_MS)).allowance, 3);
    }
}

/// Grants that are not claimed are granted again: the learning ends in any case.
#[test]
fn what_nobody_claims_is_granted_after_the_learning() {
    for program in &needs::redis_servers() {
        let Pair { mut master, mut replica, _port } = pair(program);
        learn(&mut master);
        let _: String = replica.ask(cmd("REPLICAOF").arg("NO").arg("ONE"));
        granted(master.take("k", &MINUTE, &ask(1, 1, 10), LEARN_MS));
        learn(&mut replica);
        assert_eq!(granted(replica.take("k", &MINUTE, &ask(2, 1, 10), LEARN_MS)).allowance, 10);
    }
}

#[test]
fn a_server_without_memory_grants() {
    on_each(|server| {
        let _: String = server.ask(cmd("CONFIG").arg("SET").arg("maxmemory").arg(1));
        let fault = server.fault(cmd("SET").arg("a").arg("b"));
        assert!(fault.contains("OOM"), "{fault}");
        for settings in kinds(server.now_ms()) {
            let key = format!("{:?}", settings.kind);
            let reply = server.take(&key, &settings, &ask(1, 1, 2), LEARN_MS);
            assert_eq!(granted(reply).allowance, 2, "{key}");
        }
        let epoch = server.ask::<u64>(cmd("FCALL").arg(ledger::EPOCH).arg(1).arg("e").arg(3));
        assert_eq!(epoch, 3);
    });
}

#[test]
fn holders_are_those_with_unspent_uses() {
    on_each(|server| {
        for settings in kinds(server.now_ms()) {
            let key = format!("{:?}", settings.kind);
            let mut take = |take: Take| granted(server.take(&key, &settings, &take, LEARN_MS));
            let window = take(ask(u64::MAX, 1, 2)).window;
            take(ask(5, 1, 3));
            let used = Claim { window, floor: 3, spent: 3, extra: 0, noted: 0 };
            take(Take { claim: used, ..ask(5, 2, 0) });
            take(ask(9, 1, 1));
            let names: Vec<String> = server.ask(cmd("FCALL").arg(ledger::HOLDERS).arg(1).arg(&key));
            let hosts = names.iter().map(|name| ledger::decode_holder(name).expect("a host"));
            assert_eq!(hosts.collect::<Vec<_>>(), [9, u64::MAX], "{key}");
        }
        let nobody: Vec<String> = server.ask(cmd("FCALL").arg(ledger::HOLDERS).arg(1).arg("none"));
        assert!(nobody.is_empty());
    });
}

#[test]
fn epochs_grow_and_the_first_secret_stays() {
    on_each(|server| {
        let mut epoch = |known: u64| -> u64 {
            server.ask(cmd("FCALL").arg(ledger::EPOCH).arg(1).arg("e").arg(known))
        };
        assert_eq!([epoch(0), epoch(2), epoch(1), epoch(0), epoch(3)], [0, 2, 2, 2, 3]);
        let mut secret = |check: &str| -> String {
            server.ask(cmd("FCALL").arg(ledger::SECRET).arg(1).arg("s").arg(check))
        };
        assert_eq!([secret("one"), secret("two"), secret("one")], ["one"; 3]);
    });
}

// Shows: older-copies.
#[test]
fn a_start_is_kept_and_no_older_one_is_believed() {
    const KEY: &str = "start";
    on_each(|server| {
        let first = Starts { host: 1, next: 7, known: 0, reports: 0, before: 0 };
        let again = |starts: Starts, reports: u64| Starts { known: starts.next, reports, ..starts };
        let next = |starts: Starts, next: u64| Starts { next, before: starts.before, ..starts };
        let server = RefCell::new(server);
        let is_newest = |starts: Starts| -> bool {
            let mut server = server.borrow_mut();
            let mut command = cmd("FCALL");
            command.arg(ledger::START).arg(1).arg(KEY).arg(&ledger::start_arguments(&starts)[..]);
            let answer: u64 = server.ask(&command);
            let life_ms: i64 = server.ask(cmd("PTTL").arg(KEY));
            assert!(life_ms == -2 || life_ms > 29 * 24 * HOUR_MS as i64, "{life_ms}");
            answer == 1
        };
        // The first answer is lost, so the start is reported again and again.
        assert!(is_newest(first) && is_newest(first));
        let stopped = again(first, 5);
        assert!(is_newest(again(first, 1)) && is_newest(stopped));
        assert!(!is_newest(again(first, 4)), "a copy of a second ago");
        let second = next(stopped, 8);
        assert!(!is_newest(Starts { reports: 4, ..second }), "one of then that starts");
        assert!(is_newest(second) && is_newest(second));
        // The copy from the time of the stop draws another number.
        assert!(!is_newest(next(stopped, 9)) && !is_newest(again(first, 6)));
        let known = Starts { before: 7, ..again(second, 1) };
        assert!(is_newest(known));
        // A late message, or one of a copy from before the answer, changes nothing.
        assert!(!is_newest(second) && !is_newest(Starts { reports: 0, ..next(known, 10) }));
        // A failover has restored the start before.
        let _: String =
            server.borrow_mut().ask(cmd("SET").arg(KEY).arg("0000000000000007 9").arg("KEEPTTL"));
        assert!(is_newest(known) && !is_newest(stopped));
        // The stored start is lost. No new start is proved until the report is repeated.
        let _: u64 = server.borrow_mut().ask(cmd("DEL").arg(KEY));
        assert!(!is_newest(next(known, 10)) && is_newest(known) && is_newest(next(known, 10)));
        let _: String = server.borrow_mut().ask(cmd("SET").arg(KEY).arg("nonsense").arg("KEEPTTL"));
        assert!(!is_newest(known));
    });
}

#[test]
fn calls_that_are_wrong_are_answered_in_words() {
    for program in &needs::redis_servers() {
        let mut server = Server::start(program, &[]);
        let fault = server.fault(&fcall("k", &MINUTE, &ask(1, 1, 1), LEARN_MS));
        assert!(ledger::is_library_missing(&fault), "{fault}");
        server.load(ledger::LIBRARY);
        let call = |arguments: &[&str]| {
            let mut command = cmd("FCALL");
            command.arg("frs_1_total").arg(1).arg("k").arg(arguments);
            command
        };
        let host = "00000000000000ab";
        let fault = server.fault(&call(&[host]));
        assert!(fault.contains("frs: expected 12 arguments, found 1"), "{fault}");
        let fault =
            server.fault(&call(&[host, "1", "0", "0", "0", "0", "1", "1", "9", "1", "0", "s"]));
        assert!(fault.contains("expected 16 hex digits"), "{fault}");
        let fault =
            server.fault(&call(&[host, host, "0", "0", "x", "0", "1", "1", "9", "1", "0", "s"]));
        assert!(fault.contains("expected a number, found \"x\""), "{fault}");
        assert_eq!(server.ask::<u64>(cmd("EXISTS").arg("k")), 0);
    }
}

#[test]
fn a_cluster_knows_names_and_runs_the_functions() {
    for program in &needs::redis_servers() {
        let [port, bus] = [Reserved::new(), Reserved::new()];
        let [port_number, bus_number] =
            [&port, &bus].map(|reserved| reserved.address.port().to_string());
        let arguments = ["--cluster-enabled", "yes", "--bind", "127.0.0.1", "--port", &port_number];
        let arguments = [&arguments[..], &["--cluster-port", &bus_number]].concat();
        let mut server = Server::with_library(program, &arguments);
        for text in
            ["", "123456789", "frs:{prod:1:-}:1:00ff:0", "{}", "a{b}c{d}", "{a", "a}{", "{{a}"]
        {
            let found: u16 = server.ask(cmd("CLUSTER").arg("KEYSLOT").arg(text));
            assert_eq!(slot(text.as_bytes()), found, "{text}");
        }
        let _: String = server.ask(cmd("CLUSTER").arg("ADDSLOTSRANGE").arg(0).arg(16383));
        let began = Instant::now();
        let is_up = |info: String| info.contains("cluster_state:ok");
        while !is_up(server.ask(cmd("CLUSTER").arg("INFO"))) {
            assert!(began.elapsed() < BOUND, "the cluster is not up");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        learn(&mut server);
        let key = KeyDigest::Key([1, 2]);
        let ledger = LedgerId { biz: 1, key, limit: 1, shape: 7, epoch: 0 };
        let (name, of_slot) = (ledger.name("prod"), SlotKeys::new("prod").of(ledger.slot("prod")));
        for settings in kinds(server.now_ms()) {
            let key = format!("{name}:{:?}", settings.kind);
            let mut take = |slot: &str| {
                let mut command = cmd("FCALL");
                command.arg(ledger::function(&settings.kind)).arg(1).arg(&key);
                let take = ask(1, 1, 2);
                command.arg(ledger::arguments(&settings, &take, 0, slot).expect("settings"));
                command.query::<Vec<i64>>(&mut server.connection)
            };
            let reply = take(&of_slot).expect("an answer of the library");
            let reply = ledger::decode(&settings, &reply).expect("an answer of the library");
            assert_eq!(granted(reply).allowance, 2, "{key}");
            let fault = take(SLOT).expect_err("a key of another slot").to_string();
            assert!(fault.contains("do not hash to the same slot"), "{fault}");
        }
    }
}

#[test]
fn the_least_maximum_is_told_to_all() {
    on_each(|server| {
        granted(server.take("k", &MINUTE, &ask(1, 1, 1), LEARN_MS));
        let low = Settings { max: 4, ..MINUTE };
        granted(server.take("k", &low, &ask(2, 1, 1), LEARN_MS));
        let reply = server.take("k", &MINUTE, &ask(3, 1, 9), LEARN_MS);
        let Answer::Conflict { taken: Taken::Granted(granted), max: 4 } = reply.answer else {
            panic!("expected a conflict, found {reply:?}");
        };
        assert_eq!(granted.allowance, 0);
    });
}
