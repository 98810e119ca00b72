//! Ledgers are lost in every possible way while one machine holds all uses of a limit. A master
//! that may not know a ledger grants nothing before that machine has claimed.

use std::ops::Range;
use std::time::{Duration, Instant};

use redis::cmd;

use super::deaths::shared;
use super::history::now_ms;
use super::hosts::{Hosts, map};
use super::nodes::{MASTERS, Nodes};
use crate::common::items::post;
use crate::common::{Client, wait_until};

/// Each key has one use, ever.
const MAP: &str = r#"<map>
  <group name="default" keys="20000"/>
  <biz id="2001" name="once" key="integer" share="cluster" hosts="2" wait="200ms" on-miss="refuse">
    <limit policy="total" max="1"/>
  </biz>
</map>"#;
/// Items of a request.
const ITEMS: usize = 50;

/// Asks for a use of each of these keys. Returns how many are admitted.
fn ask(client: &mut Client, keys: Range<usize>) -> usize {
    let item = |key: usize| format!("<item biz=\"once\" key=\"{key}\"/>");
    let items: String = keys.map(item).collect();
    let answer = post(client, "/update", &format!("<request>{items}</request>"));
    answer.items.iter().filter(|item| item.values.get("limited") == Some("false")).count()
}

/// One machine uses up all keys, `lose` loses the ledgers, then another machine asks for
/// `asks_for`.
fn expect_nothing_over(
    mut nodes: Nodes,
    keys: usize,
    asks_for: Duration,
    lose: impl FnOnce(&mut Nodes),
) {
    let hosts = Hosts::new(2, &nodes.seeds(), "learn=\"1s\"", MAP);
    let servers = hosts.start();
    let mut clients = hosts.addresses().into_iter().map(Client::connect);
    let [mut one, mut other] = [(); 2].map(|()| clients.next().expect("two"));
    let all = (0..keys).step_by(ITEMS).map(|from| from..keys.min(from + ITEMS));
    for some in all.clone() {
        let mut left = some.len();
        wait_until("all is used", || {
            left -= ask(&mut one, some.clone());
            (left == 0).then_some(())
        });
    }
    lose(&mut nodes);
    let begun = Instant::now();
    let mut over = 0;
    for some in all.cycle().take_while(|_| begun.elapsed() < asks_for) {
        over += ask(&mut other, some);
    }
    assert_eq!(over, 0, "of {keys} keys");
    // Uses that no machine claims are granted again.
    wait_until("the masters have learnt", || (ask(&mut other, keys..keys + 1) == 1).then_some(()));
    drop(servers);
}

// Shows: cluster-faults.
#[test]
fn the_learning_lasts_until_thousands_of_leases_are_claimed() {
    let Some(nodes) = Nodes::start() else { return };
    expect_nothing_over(nodes, 4_000, Duration::from_secs(6), |nodes| {
        for master in 0..MASTERS {
            // The statistics of earlier commands are lost too.
            let mut empty = redis::pipe();
            empty.cmd("FLUSHALL").cmd("CONFIG").arg("RESETSTAT");
            let _: [String; 2] = empty.query(&mut nodes.connect(master)).expect("emptied");
        }
    });
}

/// One use of each key of the first business, many uses of the few keys of the second.
const UNEQUAL: &str = r#"<map>
  <group name="default" keys="20000"/>
  <biz id="2001" name="once" key="integer" share="cluster" hosts="2" wait="200ms">
    <limit policy="total" max="1"/>
  </biz>
  <biz id="2002" name="much" key="integer" share="cluster" hosts="2" wait="200ms">
    <limit policy="total" max="100000"/>
  </biz>
</map>"#;

// Shows: late-answers-and-moved-slots.
#[test]
fn the_largest_leases_are_claimed_first() {
    const FEW: usize = 30;
    const MANY: usize = 4_000;
    let Some(nodes) = Nodes::start() else { return };
    let hosts = Hosts::new(1, &nodes.seeds(), "learn=\"1s\"", UNEQUAL);
    let server = hosts.setups[0].start();
    let mut client = server.client();
    for key in 0..FEW {
        wait_until("it is leased", || {
            let used = format!("/update?biz=much&key={key}&count=500");
            (client.get(&used).status == 200).then_some(())
        });
    }
    for from in (0..MANY).step_by(ITEMS) {
        wait_until("it is leased", || (ask(&mut client, from..from + ITEMS) == 0).then_some(()));
    }
    let mut found = 0;
    for master in 0..MASTERS {
        let ledgers = |biz: &str| {
            let mut keys = cmd("KEYS");
            keys.arg(format!("frs:{{*:{biz}:*"));
            // A signal may interrupt the read of a long answer.
            let listed = || nodes.try_ask::<Vec<String>>(master, &keys);
            wait_until("the ledgers are listed", listed).len()
        };
        let [large, small] = ["2002", "2001"].map(ledgers);
        found += large;
        nodes.flush_all(master);
        wait_until("all is claimed", || {
            // The small ledgers are counted first.
            let seen = ledgers("2001");
            let claimed = ledgers("2002");
            // Keys that clients asked for at the time of the flush come before all others.
            if seen > 2 * ITEMS {
                assert!(claimed + 1 >= large, "{claimed} of {large} before {seen} small ones");
            }
            (seen == small).then_some(())
        });
    }
    assert_eq!(found, FEW);
    drop(server);
}

/// A sliding counter's windows are aligned to the beginning of 1970.
const COUNTED_MS: u64 = 8_000;
const IN_WINDOW: u64 = 100;

// Shows: late-answers-and-moved-slots.
#[test]
fn the_window_before_is_claimed_by_hosts_that_have_asked_in_this_one() {
    let Some(nodes) = Nodes::start() else { return };
    let limit =
        format!("policy=\"sliding-counter\" interval=\"{COUNTED_MS}ms\" max=\"{IN_WINDOW}\"");
    let hosts = Hosts::new(2, &nodes.seeds(), "learn=\"1s\"", &map(&[shared("cluster", &limit)]));
    let servers = hosts.start();
    let mut clients = hosts.addresses().into_iter().map(Client::connect);
    let [mut one, mut other] = [(); 2].map(|()| clients.next().expect("two"));
    let used = |client: &mut Client| client.get("/update?biz=b0&key=k").status == 200;
    let in_window = || (now_ms() / COUNTED_MS, now_ms() % COUNTED_MS);
    // The first machine uses everything near the end of a window.
    let window = wait_until("a window is about to end", || {
        let (window, at_ms) = in_window();
        (COUNTED_MS - 3_000..COUNTED_MS - 2_000).contains(&at_ms).then_some(window)
    });
    wait_until("all is used", || {
        let all = format!("/update?biz=b0&key=k&count={IN_WINDOW}");
        (one.get(&all).status == 200).then_some(())
    });
    assert_eq!(in_window().0, window, "this machine is too slow");
    wait_until("the next window has begun", || (in_window().0 > window).then_some(()));
    // It then uses a little of the next window, as the window before weighs less and less.
    let mut admitted = 0;
    wait_until("the first one has asked in it", || {
        admitted += u64::from(used(&mut one));
        (admitted == 3).then_some(())
    });
    for master in 0..MASTERS {
        nodes.flush_all(master);
    }
    while in_window().0 == window + 1 {
        admitted += u64::from(used(&mut other));
        // These uses were admitted before this moment.
        let (now, at_ms) = in_window();
        let most = if now > window + 1 { IN_WINDOW } else { IN_WINDOW * at_ms / COUNTED_MS };
        assert!(admitted <= most, "{admitted} admitted {at_ms} ms after the window before");
    }
    assert!(admitted >= IN_WINDOW / 2, "{admitted} admitted: it learns for ever");
    drop(servers);
}

// Shows: cluster-faults.
#[test]
fn a_master_that_comes_back_empty_learns_from_when_it_serves() {
    let Some(nodes) = Nodes::masters_alone() else { return };
    expect_nothing_over(nodes, 300, Duration::from_secs(6), |nodes| {
        nodes.kill(0);
        nodes.restart(0);
    });
}

// Shows: cluster-faults.
#[test]
fn the_slots_of_a_dead_master_are_learnt_by_who_gets_them() {
    let Some(nodes) = Nodes::masters_alone() else { return };
    expect_nothing_over(nodes, 300, Duration::from_secs(4), |nodes| {
        let id: String = nodes.ask(0, cmd("CLUSTER").arg("MYID"));
        nodes.kill(0);
        for other in 1..MASTERS {
            let _: String = nodes.ask(other, cmd("CLUSTER").arg("FORGET").arg(&id));
        }
        let slots = Nodes::first_slots(0);
        let mut add = cmd("CLUSTER");
        add.arg("ADDSLOTSRANGE").arg(slots.start).arg(slots.end - 1);
        wait_until("the slots are given", || nodes.try_ask::<String>(1, &add));
    });
}
