//! What becomes of records where one of the machines is used, lost, away, or changed by hand.

use std::time::{Duration, Instant};

use super::{MIRROR_MS, Machine, Peers, machines, start, used};
use crate::common::{Client, wait_until};

#[test]
fn a_record_is_on_the_other_machine_within_the_period() {
    let machines: [Machine; 2] = machines();
    let _servers = start(&machines);
    let [here, there] = &machines;
    let trial = |nth: usize| {
        let key = format!("k{nth}");
        let begun = Instant::now();
        here.charge("plenty", &key, 7);
        there.wait_for("plenty", &key, 7);
        begun.elapsed()
    };
    let trials: Vec<Duration> = (0..5).map(trial).collect();
    println!("{trials:?}");
    // A busy machine delays some of them.
    let best = trials.iter().min().expect("trials");
    assert!(*best < Duration::from_millis(MIRROR_MS + 300), "{trials:?}");
}

#[test]
fn the_other_machine_takes_a_key_over_and_the_first_one_sees_it() {
    let machines: [Machine; 2] = machines();
    let _servers = start(&machines);
    let [here, there] = &machines;
    here.charge("five", "k", 3);
    there.wait_for("five", "k", 3);
    assert_eq!(there.used("five", "k"), 3, "a Query takes nothing over");
    there.charge("five", "k", 1);
    here.wait_for("five", "k", 4);
    here.charge("five", "k", 1);
    there.wait_for("five", "k", 5);
    for machine in [here, there] {
        assert_eq!(machine.client().get("/update?biz=five&key=k").status, 429);
    }
}

#[test]
fn a_lost_machine_gets_all_back_and_admits_nothing_from_an_empty_directory() {
    const KEYS: usize = 300;
    let machines: [Machine; 2] = machines();
    let [server, _there] = start(&machines);
    let [here, there] = &machines;
    let mut client = here.client();
    for nth in 0..KEYS {
        client.charge("five", &format!("k{nth}"), 5);
        client.charge("plenty", &format!("k{nth}"), nth as u64 + 1);
    }
    drop(client);
    there.wait_for("plenty", &format!("k{}", KEYS - 1), KEYS as u64);
    (0..KEYS).for_each(|nth| there.wait_for("five", &format!("k{nth}"), 5));
    here.lose(server);
    let _server = here.start();
    let mut client = here.client();
    let refused = |client: &mut Client, key: &str| {
        let answer = client.get(&format!("/update?biz=five&key={key}"));
        assert_eq!((answer.status, answer.attribute("used")), (429, Some("5")), "{key}");
    };
    (0..KEYS).for_each(|nth| refused(&mut client, &format!("k{nth}")));
    for nth in 0..KEYS {
        assert_eq!(used(&mut client, "plenty", &format!("k{nth}")), nth as u64 + 1);
    }
    here.wait_until_learnt();
    for nth in 0..KEYS {
        refused(&mut client, &format!("k{nth}"));
        assert_eq!(used(&mut client, "plenty", &format!("k{nth}")), nth as u64 + 1);
    }
}

#[test]
fn three_machines_are_equal_after_one_was_away() {
    let machines: [Machine; 3] = machines();
    let [_one, _two, mut away] = start(&machines);
    machines[2].charge("plenty", "of-three", 3);
    machines[0].charge("plenty", "both", 1);
    machines.iter().for_each(|machine| machine.wait_for("plenty", "of-three", 3));
    machines.iter().for_each(|machine| machine.wait_for("plenty", "both", 1));
    away.kill_all_and_wait();
    drop(away);
    machines[0].charge("plenty", "of-three", 4);
    machines[1].charge("plenty", "both", 5);
    for nth in 0..100 {
        machines[nth % 2].charge("plenty", &format!("k{nth}"), nth as u64 + 1);
    }
    let _away = machines[2].start();
    let mut client = machines[2].client();
    assert_eq!(used(&mut client, "plenty", "of-three"), 7, "it asks before it has learnt");
    for machine in &machines {
        machine.wait_for("plenty", "of-three", 7);
        machine.wait_for("plenty", "both", 6);
        (0..100).for_each(|nth| machine.wait_for("plenty", &format!("k{nth}"), nth + 1));
    }
}

#[test]
fn of_three_machines_a_lost_one_gets_all_back_from_both() {
    const KEYS: usize = 100;
    let machines: [Machine; 3] = machines();
    let [server, _two, _three] = start(&machines);
    let key = |nth: usize| format!("k{nth}");
    (0..KEYS).for_each(|nth| machines[0].charge("five", &key(nth), 2));
    (1..3).for_each(|at| (0..KEYS).for_each(|nth| machines[at].wait_for("five", &key(nth), 2)));
    machines[0].lose(server);
    // Its keys go to both of the others.
    (0..KEYS).for_each(|nth| machines[1 + nth % 2].charge("five", &key(nth), 3));
    let _server = machines[0].start();
    let mut client = machines[0].client();
    for nth in 0..KEYS {
        let answer = client.get(&format!("/update?biz=five&key={}", key(nth)));
        assert_eq!((answer.status, answer.attribute("used")), (429, Some("5")), "{nth}");
    }
    for machine in &machines {
        (0..KEYS).for_each(|nth| machine.wait_for("five", &key(nth), 5));
    }
}

#[test]
fn a_reset_on_one_machine_holds_on_both() {
    let machines: [Machine; 2] = machines();
    let _servers = start(&machines);
    let [here, there] = &machines;
    for (machine, other) in [(here, there), (there, here)] {
        machine.charge("five", "k", 5);
        other.wait_for("five", "k", 5);
        assert_eq!(other.plane.ask("POST", "/biz/five/reset", "").status, 200);
        machine.wait_for("five", "k", 0);
        assert_eq!(other.used("five", "k"), 0);
    }
    // It counts anew, and mirrors what it counts.
    here.charge("five", "k", 2);
    there.wait_for("five", "k", 2);
}

#[test]
fn a_reset_holds_on_a_machine_that_was_away() {
    let machines: [Machine; 2] = machines();
    let [_here, mut away] = start(&machines);
    let [here, there] = &machines;
    here.charge("five", "k", 5);
    there.wait_for("five", "k", 5);
    away.kill_all_and_wait();
    drop(away);
    assert_eq!(here.plane.ask("POST", "/biz/five/reset", "").status, 200);
    let _away = there.start();
    there.wait_for("five", "k", 0);
    assert_eq!(here.used("five", "k"), 0, "the void record does not come back");
    there.charge("five", "k", 1);
    here.wait_for("five", "k", 1);
}

#[test]
fn a_lost_machine_asks_for_records_from_after_a_reset() {
    let machines: [Machine; 2] = machines();
    let [server, _there] = start(&machines);
    let [here, there] = &machines;
    for _ in 0..3 {
        assert_eq!(here.plane.ask("POST", "/biz/five/reset", "").status, 200);
    }
    here.charge("five", "k", 5);
    there.wait_for("five", "k", 5);
    here.lose(server);
    let _server = here.start();
    let answer = here.client().get("/update?biz=five&key=k");
    assert_eq!((answer.status, answer.attribute("used")), (429, Some("5")), "{answer:?}");
}

#[test]
fn a_ban_is_mirrored_and_lifted_by_hand() {
    let machines: [Machine; 2] = machines();
    let _servers = start(&machines);
    let [here, there] = &machines;
    let mut client = here.client();
    let updates = [0; 4].map(|_| client.get("/update?biz=bans&key=k"));
    assert_eq!(updates[3].attribute("banned"), Some("true"), "{updates:?}");
    let is_banned = |machine: &Machine| {
        let answer = machine.client().get("/query?biz=bans&key=k");
        answer.attribute("banned") == Some("true")
    };
    wait_until("the ban is there", || is_banned(there).then_some(()));
    let biz = here.plane.get("/biz/bans").body;
    assert_eq!(here.plane.ask("PUT", "/biz/bans?lift-bans=true", &biz).status, 200);
    wait_until("the ban is lifted there", || (!is_banned(there)).then_some(()));
    assert!(!is_banned(here));
    assert_eq!((here.used("bans", "k"), there.used("bans", "k")), (3, 3), "the uses stay");
}

#[test]
fn a_record_that_is_erased_by_hand_does_not_come_back() {
    let machines: [Machine; 2] = machines();
    let [_here, mut server] = start(&machines);
    let [here, there] = &machines;
    for key in ["owner", "copy", "away"] {
        here.charge("five", key, 5);
        there.wait_for("five", key, 5);
    }
    let erase = |machine: &Machine, key: &str| {
        let target = format!("/node?biz=five&key={key}");
        assert_eq!(machine.plane.ask("DELETE", &target, "").status, 200);
    };
    erase(here, "owner");
    there.wait_for("five", "owner", 0);
    erase(there, "copy");
    here.wait_for("five", "copy", 0);
    server.kill_all_and_wait();
    drop(server);
    erase(here, "away");
    let _server = there.start();
    there.wait_for("five", "away", 0);
    there.wait_until_compared(1);
    here.wait_until_compared(1);
    for (machine, key) in [(here, "owner"), (there, "copy"), (here, "away")] {
        assert_eq!((here.used("five", key), there.used("five", key)), (0, 0), "{key}");
        machine.charge("five", key, 2);
    }
    for key in ["owner", "copy", "away"] {
        here.wait_for("five", key, 2);
        there.wait_for("five", key, 2);
    }
}

#[test]
fn a_peer_that_is_away_costs_nothing() {
    // Nobody listens there.
    let here = Machine::new();
    let nobody = Machine::new();
    here.write_srv(&Peers::of(&[nobody.listen()]));
    let _server = here.start();
    let (mut client, begun) = (here.client(), Instant::now());
    // A wait for the peer would cost each first use 5 s.
    for nth in 0..50 {
        client.charge("plenty", &format!("k{nth}"), 1);
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}
