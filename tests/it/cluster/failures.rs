//! Masters that change, move their slots, fall silent, or lose their data.

use std::ops::Range;
use std::time::Duration;

use frs_base::clock;
use frs_cluster::connections::{Event, Lost};
use frs_cluster::lease::{Claim, Take};
use frs_cluster::ledger::Reply;
use frs_conf::Cluster;
use redis::cmd;

use super::gate::Gate;
use super::host::{Host, MAX, conf, granted};
use super::nodes::{MASTERS, Nodes, ledger_in};
use crate::common::wait_until;

/// Waits as long as a second report of a change would take: several looks at the cluster, and
/// heartbeats of each master. The absence of a report has no other sign.
fn wait_for_looks() {
    std::thread::sleep(Duration::from_millis(1500));
}

/// Waits until an emptied master is not reported any more. It is reported twice if it begins to
/// learn only after it was found to be another one.
fn wait_until_told(host: &mut Host, slots: &Range<u16>) {
    wait_for_looks();
    assert!(host.new_masters().iter().all(|again| again == slots));
}

/// A host with a grant of 5 uses.
fn holder(conf: &Cluster, ledger: &str) -> Host {
    let mut host = Host::start(conf).settled();
    host.need_until_granted(ledger, 5);
    host
}

/// Asks for uses until a master answers, because a busy machine may lose messages. Returns the
/// reply.
fn need_until_answered(host: &mut Host, ledger: &str, need: u64) -> Reply {
    wait_until("a master answers", || {
        let id = host.need(ledger, need);
        host.answer(id).ok()
    })
}

/// The cluster, with writes that count only once a replica has them.
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
    // The slot still belongs to the old master, but the key has moved. For a key without a ledger
    // the earlier grants are unknown.
    let id = host.need(&ledger, 2);
    let reply = host.answer(id).expect("an answer by ASK");
    assert_eq!(granted(&reply).map(|granted| granted.pool), Some((MAX - 7) as i64));
    let id = host.need(&ledger_in(slot, 2), 1);
    let reply = host.answer(id).expect("an answer by ASK");
    assert!(granted(&reply).is_none() && reply.learning_ms > 0, "{reply:?}");
    assert_eq!(host.new_masters(), [], "a slot on its way has the same master");

    nodes.end_move(slot, 0, 1);
    let id = host.need(&ledger, 1);
    let reply = host.answer(id).expect("an answer by MOVED");
    let pool = granted(&reply).map(|granted| granted.pool);
    assert!(pool == Some((MAX - 7) as i64) && reply.learning_ms > 0, "{reply:?}");
    wait_for_looks();
    assert_eq!(host.new_masters(), [slot..slot + 1]);
    for limit in [1, 2] {
        host.need_until_granted(&ledger_in(slot, limit), 1);
    }
}

/// The last part of a move without its first part: the ledgers are gone.
// Shows: late-answers-and-moved-slots.
#[test]
fn a_slot_that_is_given_to_another_master_is_learnt() {
    let Some(nodes) = Nodes::start() else { return };
    let (ledger, slot) = (ledger_in(100, 1), 100);
    let mut host = holder(&conf(nodes.seeds()), &ledger);
    let other = ledger_in(Nodes::first_slots(1).start, 1);
    host.need_until_granted(&other, 1);

    nodes.give(slot, 0, 1);
    let mut stranger = Host::start(&conf(nodes.seeds())).numbered(7);
    let reply = need_until_answered(&mut stranger, &ledger, 1);
    assert!(granted(&reply).is_none() && reply.learning_ms > 0, "{reply:?}");
    assert_eq!(host.new_master(), [slot..slot + 1]);
    // The master's earlier slots do not learn again.
    let reply = need_until_answered(&mut host, &other, 1);
    assert!(granted(&reply).is_some() && reply.learning_ms == 0, "{reply:?}");
    stranger.need_until_granted(&ledger, 1);
}

/// A slot without ledgers, whose master hosts have met: it begins to learn with the others.
// Shows: late-answers-and-moved-slots.
#[test]
fn all_slots_of_a_master_learn_at_once() {
    let Some(nodes) = Nodes::start() else { return };
    let mut host = Host::start(&conf(nodes.seeds())).settled();
    let slots = Nodes::first_slots(0);
    host.need_until_granted(&ledger_in(slots.start, 1), 1);
    wait_for_looks();
    for slot in [slots.start + 1, slots.start + 2000, slots.end - 1] {
        let id = host.need(&ledger_in(slot, 1), 1);
        let reply = host.answer(id).expect("an answer");
        assert!(granted(&reply).is_some() && reply.learning_ms == 0, "{slot}: {reply:?}");
    }
}

#[test]
fn a_replica_takes_the_place_of_a_dead_master() {
    let Some(mut nodes) = Nodes::start() else { return };
    let slots = Nodes::first_slots(0);
    let ledger = ledger_in(slots.start, 1);
    // The learning lasts longer than the first answer takes on a busy machine.
    let mut host = holder(&Cluster { learn_ms: 3000, ..conf(nodes.seeds()) }, &ledger);
    // The other masters serve meanwhile.
    let other = ledger_in(Nodes::first_slots(1).start, 1);
    host.need_until_granted(&other, 1);

    nodes.kill(0);
    let id = host.need(&ledger, 1);
    let reply = host.answer(id);
    assert!(matches!(reply, Err(Lost::Broken { .. } | Lost::Down { .. })), "{reply:?}");
    need_until_answered(&mut host, &other, 1);
    assert_eq!(host.new_master(), std::slice::from_ref(&slots));
    let reply = need_until_answered(&mut host, &ledger, 0);
    assert!(reply.learning_ms > 0, "a new master learns: {reply:?}");
    host.need_until_granted(&ledger, 1);
    wait_for_looks();
    assert_eq!(host.new_masters(), [], "a change is told once");

    // The dead node comes back as a replica of the new master.
    nodes.restart(0);
    nodes.wait_until_whole();
    wait_for_looks();
    assert_eq!(host.new_masters(), []);
    need_until_answered(&mut host, &ledger, 0);
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
        // The host still recognizes the master after its connection breaks.
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
    // The node answers nothing for longer than it learns.
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
    // The first replica of a restarted master changes the identity of its data, so such a master
    // learns twice.
    let Some(mut nodes) = Nodes::masters_alone() else { return };
    let slots = Nodes::first_slots(1);
    let mut host = holder(&conf(nodes.seeds()), &ledger_in(slots.start, 1));
    nodes.kill(1);
    nodes.restart(1);
    assert_eq!(host.new_master(), std::slice::from_ref(&slots));
    wait_for_looks();
    assert_eq!(host.new_masters(), []);
    // Its functions were lost with all data.
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
    // The slots have not changed masters.
    assert_eq!(host.new_masters(), []);
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

// Shows: late-answers-and-moved-slots.
#[test]
fn an_answer_that_is_late_is_lost_and_breaks_no_connection() {
    let Some(nodes) = Nodes::start() else { return };
    let gate = Gate::new(&nodes);
    // Four timeouts are much longer than the answers take.
    let conf = Cluster { timeout_ms: 400, ..conf(gate.seeds()) };
    let ledger = ledger_in(1, 1);
    let mut host = holder(&conf, &ledger);
    for _ in 0..3 {
        gate.slow(Duration::from_millis(250));
        let ids = [host.need(&ledger, 1), host.need(&ledger, 2)];
        for (_, answer) in host.answers(&ids) {
            assert!(matches!(answer, Err(Lost::Broken { .. })), "{answer:?}");
        }
        gate.slow(Duration::ZERO);
        // This answer belongs to this request, and not to a late one.
        host.need_until_granted(&ledger, 7);
        assert!(!host.heard.iter().any(|event| matches!(event, Event::Down { .. })));
    }
    assert_eq!(host.new_masters(), []);
}

#[test]
fn a_node_that_says_nothing_loses_messages_in_time() {
    let Some(nodes) = Nodes::with(super::nodes::NodeOptions {
        // No replica takes over meanwhile.
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
            // The test slept so long that the node was down before the message was sent.
            Lost::Down { .. } => {
                nodes.go_on(0);
                host.need_until_granted(&ledger, 1);
                None
            }
            lost => panic!("{lost:?}"),
        }
    });
    assert!(clock::since(begun) < Duration::from_secs(2), "{:?}", clock::since(begun));
    wait_until("the node is down", || {
        host.hear();
        (!host.links.is_reachable(1)).then_some(())
    });
    // On a busy machine another master may have been late.
    wait_until("the others are there", || {
        host.hear();
        host.links.is_reachable(16383).then_some(())
    });
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
    // The other masters still have their replicas.
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
    let claim = Claim { window: 0, floor: 0, spent: 0, extra: 0, noted: 0 };
    let take = Take { host: 7, seq: 1, claim, need: 3, request: 3 };
    let expected = Lost::NotAcknowledged { acknowledged: 0, expected: 1 };
    // The second host repeats the message, so it writes nothing. From Redis 7.2 on WAIT waits for
    // the last write of the connection; before, for all writes.
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
    // The first master is soon in a minority.
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
