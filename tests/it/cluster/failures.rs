//! Masters that change, move their slots, fall silent, or lose what they had.

use std::ops::Range;
use std::time::Duration;

use frs::base::clock;
use frs::conf::Cluster;
use frs::lease::{Claim, Take};
use frs_server::courier::cluster::{Event, Lost};
use redis::cmd;

use super::host::{Host, MAX, conf, granted};
use super::nodes::{MASTERS, Nodes, ledger_in};
use crate::common::wait_until;

/// Waits for as long as a change would take to be told twice: several looks at the cluster and
/// heartbeats of each master. Nothing else tells that something does not happen.
fn wait_for_looks() {
    std::thread::sleep(Duration::from_millis(1500));
}

/// Waits until nothing more is told of an emptied master. It may begin to learn only after it was
/// found to be another one; then it is told twice.
fn wait_until_told(host: &mut Host, slots: &Range<u16>) {
    wait_for_looks();
    assert!(host.new_masters().iter().all(|again| again == slots));
}

/// A host that has been granted 5 uses of a ledger.
fn holder(conf: &Cluster, ledger: &str) -> Host {
    let mut host = Host::start(conf).settled();
    host.need_until_granted(ledger, 5);
    host
}

/// The cluster, where a write counts only once a replica has it.
fn acknowledged(nodes: &Nodes) -> Cluster {
    Cluster { wait_replicas: 1, timeout_ms: 500, ..conf(nodes.seeds()) }
}

#[test]
fn a_slot_that_has_moved_is_followed() {
    let Some(nodes) = Nodes::start() else { return };
    let (ledger, slot) = (ledger_in(100, 1), 100);
    let mut host = holder(&conf(nodes.seeds()), &ledger);

    nodes.begin_to_move(slot, 0, 1);
    nodes.move_keys(slot, 0, 1);
    // The slot is still the old master's, but the key is not there any more; and another key never
    // was.
    for (limit, need, pool) in [(1, 2, MAX - 7), (2, 1, MAX - 1)] {
        let id = host.need(&ledger_in(slot, limit), need);
        let reply = host.answer(id).expect("an answer by ASK");
        assert_eq!(granted(&reply).map(|granted| granted.pool), Some(pool as i64), "{limit}");
    }
    assert_eq!(host.new_masters(), [], "a slot on its way has the same master");

    nodes.end_move(slot, 0, 1);
    let id = host.need(&ledger, 1);
    let reply = host.answer(id).expect("an answer by MOVED");
    assert_eq!(granted(&reply).map(|granted| granted.pool), Some((MAX - 8) as i64));
    wait_for_looks();
    assert_eq!(host.new_masters(), [slot..slot + 1]);
}

#[test]
fn a_replica_takes_the_place_of_a_dead_master() {
    let Some(mut nodes) = Nodes::start() else { return };
    let slots = Nodes::first_slots(0);
    let ledger = ledger_in(slots.start, 1);
    let mut host = holder(&conf(nodes.seeds()), &ledger);
    // The other masters go on meanwhile.
    let other = ledger_in(Nodes::first_slots(1).start, 1);
    host.need_until_granted(&other, 1);

    nodes.kill(0);
    let id = host.need(&ledger, 1);
    assert!(matches!(host.answer(id), Err(Lost::Broken { .. } | Lost::Down { .. })));
    let id = host.need(&other, 1);
    host.answer(id).expect("another master answers");
    assert_eq!(host.new_master(), std::slice::from_ref(&slots));
    let id = host.need(&ledger, 0);
    let reply = host.answer(id).expect("the replica answers");
    assert!(reply.learning_ms > 0, "a new master learns: {reply:?}");
    host.need_until_granted(&ledger, 1);
    wait_for_looks();
    assert_eq!(host.new_masters(), [], "a change is told once");

    // The dead one comes back as a replica of the other.
    nodes.restart(0);
    nodes.wait_until_whole();
    wait_for_looks();
    assert_eq!(host.new_masters(), []);
    let id = host.need(&ledger, 0);
    host.answer(id).expect("an answer");
}

#[test]
fn a_master_that_hands_over_is_followed_before_it_is_asked() {
    let Some(nodes) = Nodes::start() else { return };
    let mut host = Host::start(&conf(nodes.seeds())).settled();
    for (old, new) in [(0, MASTERS), (MASTERS, 0)] {
        nodes.take_over(new);
        assert_eq!(host.new_master(), [Nodes::first_slots(0)], "from {old} to {new}");
        let id = host.need(&ledger_in(1, 1), 0);
        host.answer(id).expect("an answer");
        wait_for_looks();
        assert_eq!(host.new_masters(), []);
    }
}

#[test]
fn a_master_that_was_emptied_is_a_new_one() {
    let Some(nodes) = Nodes::start() else { return };
    let mut host = Host::start(&conf(nodes.seeds())).settled();
    let slots = Nodes::first_slots(2);
    let ledger = ledger_in(slots.start, 1);
    for _ in 0..2 {
        host.need_until_granted(&ledger, 5);
        nodes.flush_all(2);
        assert_eq!(host.new_master(), std::slice::from_ref(&slots));
        wait_until_told(&mut host, &slots);
        // What it looked like is known again after the connection broke.
        let _: u64 = nodes.ask(2, cmd("CLIENT").arg("KILL").arg("TYPE").arg("normal"));
        wait_for_looks();
        assert_eq!(host.new_masters(), []);
    }
    let id = host.need(&ledger, 1);
    let reply = host.answer(id).expect("an answer");
    assert_eq!(granted(&reply).map(|granted| granted.pool), Some((MAX - 1) as i64));
}

#[test]
fn a_master_that_was_emptied_while_nobody_looked_is_a_new_one() {
    let Some(nodes) = Nodes::start() else { return };
    let mut conf = conf(nodes.seeds());
    conf.learn_ms = 100;
    let mut host = Host::start(&conf).settled();
    // No connection, for longer than it learns.
    let _: String = nodes.ask(1, cmd("CLIENT").arg("PAUSE").arg(400).arg("ALL"));
    nodes.flush_all(1);
    let slots = Nodes::first_slots(1);
    assert_eq!(host.new_master(), std::slice::from_ref(&slots));
    wait_until_told(&mut host, &slots);
    wait_for_looks();
    assert_eq!(host.new_masters(), []);
}

#[test]
fn a_master_that_has_started_again_is_a_new_one() {
    // The first replica of a master that has started again gives its data another name, so such a
    // master learns twice.
    let Some(mut nodes) = Nodes::masters_alone() else { return };
    let slots = Nodes::first_slots(1);
    let mut host = holder(&conf(nodes.seeds()), &ledger_in(slots.start, 1));
    nodes.kill(1);
    nodes.restart(1);
    assert_eq!(host.new_master(), std::slice::from_ref(&slots));
    wait_for_looks();
    assert_eq!(host.new_masters(), []);
    // Its functions were gone with everything else.
    host.need_until_granted(&ledger_in(slots.start, 1), 5);
}

#[test]
fn a_library_that_is_missing_is_loaded() {
    let Some(nodes) = Nodes::start() else { return };
    let mut host = Host::start(&conf(nodes.seeds())).settled();
    let slots = Nodes::first_slots(0);
    let ledgers: Vec<_> = (1..20).map(|limit| ledger_in(slots.start, limit)).collect();
    for ledger in &ledgers {
        host.need_until_granted(ledger, 1);
    }
    host.new_masters();
    let _: String = nodes.ask(0, cmd("FUNCTION").arg("FLUSH"));
    let ids: Vec<_> = ledgers.iter().map(|ledger| host.need(ledger, 0)).collect();
    for (id, answer) in host.answers(&ids) {
        let granted = granted(&answer.expect("an answer")).expect("a window");
        assert_eq!(granted.pool, (MAX - 1) as i64, "{id}");
    }
    // What it has learned about itself is gone as well.
    assert_eq!(host.new_master(), [slots]);
    let list: redis::Value = nodes.ask(0, cmd("FUNCTION").arg("LIST"));
    assert!(format!("{list:?}").contains("frs_1"), "{list:?}");
}

#[test]
fn a_broken_connection_alone_is_no_new_master() {
    let Some(nodes) = Nodes::start() else { return };
    let ledger = ledger_in(1, 1);
    let mut host = holder(&conf(nodes.seeds()), &ledger);
    let _: u64 = nodes.ask(0, cmd("CLIENT").arg("KILL").arg("TYPE").arg("normal"));
    host.wait_for("the connection is down", |event| {
        matches!(event, Event::Down { .. }).then_some(())
    });
    host.wait_for("the connection is up", |event| matches!(event, Event::Up { .. }).then_some(()));
    host.need_until_granted(&ledger, 5);
    assert_eq!(host.new_masters(), []);
}

#[test]
fn a_node_that_says_nothing_loses_messages_in_time() {
    let Some(nodes) = Nodes::with(super::nodes::NodeOptions {
        // Nobody takes over meanwhile.
        arguments: vec!["--cluster-node-timeout".to_owned(), "60000".to_owned()],
        ..Default::default()
    }) else {
        return;
    };
    let mut conf = conf(nodes.seeds());
    conf.timeout_ms = 300;
    let ledger = ledger_in(1, 1);
    let mut host = holder(&conf, &ledger);
    let begun = wait_until("a message is sent to the node that stands still", || {
        nodes.stop(0);
        let begun = clock::instant();
        let id = host.need(&ledger, 1);
        match host.answer(id).expect_err("no answer") {
            Lost::Broken { .. } => Some(begun),
            // The test slept for so long that the node was down before the message was there.
            Lost::Down { .. } => {
                nodes.go_on(0);
                host.need_until_granted(&ledger, 1);
                None
            }
            lost => panic!("{lost:?}"),
        }
    });
    assert!(clock::since(begun) < Duration::from_secs(2), "{:?}", clock::since(begun));
    host.wait_for("the node is down", |event| matches!(event, Event::Down { .. }).then_some(()));
    assert!(!host.links.is_reachable(1) && host.links.is_reachable(16383));
    let id = host.need(&ledger, 1);
    assert_eq!(host.answer(id), Err(Lost::Down { slot: 1 }));
    nodes.go_on(0);
    host.need_until_granted(&ledger, 1);
    assert_eq!(host.new_masters(), []);
}

#[test]
fn a_write_that_too_few_replicas_have_is_lost() {
    let Some(nodes) = Nodes::start() else { return };
    let (conf, ledger) = (acknowledged(&nodes), ledger_in(1, 1));
    let mut host = holder(&conf, &ledger);
    nodes.stop(MASTERS);
    let ids: Vec<_> = (0..10).map(|_| host.need(&ledger, 1)).collect();
    for (id, answer) in host.answers(&ids) {
        let expected = Lost::NotAcknowledged { acknowledged: 0, expected: 1 };
        assert_eq!(answer, Err(expected), "{id}");
    }
    // The other masters have their replicas.
    let id = host.need(&ledger_in(16383, 1), 1);
    host.answer(id).expect("an answer");
    nodes.go_on(MASTERS);
    wait_until("the replica acknowledges", || {
        let id = host.need(&ledger, 1);
        host.answer(id).ok()
    });
}

#[test]
fn a_write_is_not_acknowledged_to_another_connection_either() {
    let Some(nodes) = Nodes::start() else { return };
    let (conf, ledger) = (acknowledged(&nodes), ledger_in(1, 1));
    let host = holder(&conf, &ledger);
    nodes.stop(MASTERS);
    let claim = Claim { window: 0, floor: 0, spent: 0, extra: 0 };
    let take = Take { host: 7, seq: 1, claim, need: 3, want: 3 };
    let expected = Lost::NotAcknowledged { acknowledged: 0, expected: 1 };
    // The second one has written nothing but the same again. From Redis 7.2 on WAIT means what the
    // connection has written last; before, all that was written.
    for mut host in [host, Host::start(&conf).settled()] {
        let id = host.send(&ledger, take);
        assert_eq!(host.answer(id), Err(expected.clone()));
    }
    nodes.go_on(MASTERS);
    let mut host = Host::start(&conf).settled();
    wait_until("the replica acknowledges", || {
        let id = host.send(&ledger, take);
        host.answer(id).ok()
    });
}

#[test]
fn a_slot_that_no_node_serves_is_down() {
    let Some(mut nodes) = Nodes::start() else { return };
    let ledger = ledger_in(1, 1);
    let mut host = holder(&conf(nodes.seeds()), &ledger);
    // The first master is in a minority soon.
    (1..6).for_each(|node| nodes.kill(node));
    let down = wait_until("it serves no more", || {
        let id = host.need(&ledger, 1);
        host.answer(id).err()
    });
    assert!(down.is_down(), "{down:?}");
}

#[test]
fn replicas_that_are_cut_off_for_a_moment_lose_nothing() {
    let Some(nodes) = Nodes::start() else { return };
    let ledger = ledger_in(1, 1);
    let mut host = holder(&conf(nodes.seeds()), &ledger);
    nodes.cut_replicas(0);
    let id = host.need(&ledger, 1);
    host.answer(id).expect("an answer");
    wait_for_looks();
    assert_eq!(host.new_masters(), []);
}
