//! Messages, questions and channels without failures.

use std::sync::atomic::Ordering;

use frs_cluster::connections::{Event, Lost, Message};
use frs_cluster::lease::{Kind, Settings};
use frs_cluster::name;
use redis::cmd;

use super::host::{Host, MAX, SECRET, SETTINGS, conf, granted};
use super::nodes::{MASTERS, Nodes, SLOTS, ledger_in};
use crate::common::wait_until;

#[test]
fn messages_to_all_slots_come_back() {
    let Some(nodes) = Nodes::start() else { return };
    let mut host = Host::start(&conf(nodes.seeds())).settled();
    let ledgers: Vec<String> =
        (0..3000).map(|n| format!("frs:{{test:1:{n:032x}}}:1:0001:0")).collect();
    let reached: std::collections::HashSet<_> =
        ledgers.iter().map(|ledger| name::slot(ledger.as_bytes()) / 64).collect();
    assert_eq!(reached.len(), usize::from(SLOTS / 64), "keys all over the slots");
    let uses = |n: usize| n as u64 % 7 + 1;
    // A learning master grants nothing. It first learns in the slot of its heartbeats, the last of
    // its slots, then in the others in order.
    (0..MASTERS).for_each(|i| {
        host.need_until_granted(&ledger_in(Nodes::first_slots(i).end - 2, 9), 1);
    });
    let ids: Vec<u64> =
        ledgers.iter().enumerate().map(|(n, ledger)| host.need(ledger, uses(n))).collect();
    let answers = host.answers(&ids);
    for (n, id) in ids.iter().enumerate() {
        let reply = answers[id].as_ref().expect("an answer");
        let granted = granted(reply).unwrap_or_else(|| panic!("{n}: {reply:?}"));
        assert_eq!((granted.allowance, granted.pool), (uses(n), (MAX - uses(n)) as i64), "{n}");
    }
    for (n, ledger) in ledgers.iter().enumerate().step_by(300) {
        let at = Nodes::first_master(name::slot(ledger.as_bytes()));
        let used: u64 = nodes.ask(at, cmd("HGET").arg(ledger).arg("u"));
        assert_eq!(used, uses(n));
    }
    assert!(host.woken.load(Ordering::Relaxed) > 0);
    assert_eq!(host.new_masters(), []);
}

#[test]
fn questions_are_answered() {
    let Some(nodes) = Nodes::start() else { return };
    let mut host = Host::start(&conf(nodes.seeds())).settled().numbered(0xab);
    let ledger = ledger_in(5, 1);
    host.need_until_granted(&ledger, 3);
    host.links.ask_holders(77, &ledger);
    let holders = host.wait_for("the holders are named", |event| match event {
        Event::Holders { id: 77, result } => Some(result.clone()),
        _ => None,
    });
    assert_eq!(holders, Ok(vec![0xab]));
    for (known, expected) in [(0, 0), (5, 5), (2, 5)] {
        host.links.ask_epoch(2001, known);
        let epoch = host.wait_for("the epoch is told", |event| match event {
            Event::Epoch { biz: 2001, epoch } => Some(*epoch),
            _ => None,
        });
        assert_eq!(epoch, expected);
    }
    let key = name::epoch_key("test", 2001);
    for bad in ["many", "1e300", "1125899906842625", "9223372036854775807", ""] {
        (0..3).find_map(|i| nodes.try_ask::<String>(i, cmd("SET").arg(&key).arg(bad)));
        host.links.ask_epoch(2001, 5);
        let found = host.wait_for("it is told what is no epoch", |event| match event {
            Event::BadEpoch { biz: 2001, found } => Some(found.clone()),
            _ => None,
        });
        assert!(!found.is_empty());
    }
    let [seconds, micros]: [u64; 2] = nodes.ask(0, &cmd("TIME"));
    let now_ms = host.links.ledger_now_ms(frs_base::clock::instant()).expect("a time");
    assert!(now_ms.abs_diff(seconds * 1000 + micros / 1000) < 1000);
}

#[test]
fn channels_deliver_also_after_a_reconnect() {
    let Some(nodes) = Nodes::start() else { return };
    let mut one = Host::start(&conf(nodes.seeds())).settled();
    let mut other = Host::start(&conf(nodes.seeds())).settled();
    let mut deliver = |round: u8| {
        for slot in [0, 5000, 16383] {
            one.links.publish(&ledger_in(slot, 1), vec![round, 0, 255]);
            one.links.flush();
            other.wait_for("the other host hears it", |event| match event {
                Event::Published { channel, payload } => {
                    (*channel == slot % 64 && payload[..] == [round, 0, 255]).then_some(())
                }
                _ => None,
            });
        }
    };
    deliver(1);
    for i in 0..2 * MASTERS {
        let _: u64 = nodes.ask(i, cmd("CLIENT").arg("KILL").arg("TYPE").arg("pubsub"));
    }
    let listens = |host: &mut Host| {
        host.wait_for("the channels are heard again", |event| {
            matches!(event, Event::Listening).then_some(())
        });
    };
    listens(&mut other);
    let mut deliver = |round: u8| {
        one.links.publish(&ledger_in(9, 1), vec![round]);
        one.links.flush();
        other.wait_for("the other host hears it", |event| match event {
            Event::Published { channel: 9, payload } => (payload[..] == [round]).then_some(()),
            _ => None,
        });
    };
    deliver(2);
}

#[test]
fn what_cannot_be_sent_is_answered_at_once() {
    let Some(nodes) = Nodes::start() else { return };
    let mut host = Host::start(&conf(nodes.seeds())).settled();
    let ledger = ledger_in(1, 1);
    let settings = Settings { kind: Kind::Interval { interval_ms: 0 }, ..SETTINGS };
    // No message is in flight after this answer.
    host.need_until_granted(&ledger_in(Nodes::first_slots(0).end - 1, 1), 1);
    let take = frs_cluster::lease::Take {
        host: 1,
        seq: 1,
        claim: frs_cluster::lease::Claim { window: 0, floor: 0, spent: 0, extra: 0, noted: 0 },
        need: 1,
        request: 1,
    };
    host.links.send(Message { id: 1_000_000, ledger: ledger.clone(), settings, take });
    assert!(matches!(host.answer(1_000_000), Err(Lost::Unfit(_))));

    // Messages to a master that does not answer pile up, to a bound.
    nodes.stop(0);
    let ids: Vec<u64> = (0..5000).map(|_| host.need(&ledger, 1)).collect();
    let answers = host.answers(&ids);
    nodes.go_on(0);
    let full = answers.values().filter(|answer| matches!(answer, Err(Lost::Full(4096)))).count();
    assert_eq!(full, 5000 - 4096);
    assert!(answers.values().all(|answer| answer.is_err()));
    wait_until("the master is connected again", || {
        host.hear();
        host.links.is_reachable(1).then_some(())
    });
    // Each message still has one answer.
    let again = host.need(&ledger, 1);
    host.answer(again).expect("an answer");
}

#[test]
fn all_threads_end_with_the_links() {
    let Some(nodes) = Nodes::start() else { return };
    let host = Host::try_start(&conf(nodes.seeds()), SECRET).expect("fit").settled();
    nodes.stop(1);
    let begun = std::time::Instant::now();
    drop(host);
    let took = begun.elapsed();
    nodes.go_on(1);
    assert!(took.as_secs() < 5, "{took:?}");
}
