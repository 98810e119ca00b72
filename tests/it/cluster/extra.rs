//! Uses without a lease, and returned uses: the courier reports them at once, even if no item needs
//! the ledger.

use std::time::{Duration, Instant};

use redis::cmd;

use super::hosts::{Hosts, Shared, map};
use super::nodes::{MASTERS, NAME, Nodes};
use crate::common::{Client, wait_until};

/// A round over all nodes finds such uses too, but only within a quarter of a minute.
const AT_ONCE: Duration = Duration::from_secs(4);

// Shows: uses-without-a-lease.
#[test]
fn forced_uses_without_a_lease_are_told_at_once() {
    let Some(nodes) = Nodes::start() else { return };
    let limit = "policy=\"interval\" interval=\"1h\" max=\"5\"";
    let shared = Shared::new("share=\"cluster\" hosts=\"2\"", limit);
    let hosts = Hosts::new(1, &nodes.seeds(), "", &map(&[shared]));
    let server = hosts.setups[0].start();
    let mut client = server.client();
    wait_until("the cluster is reached", || {
        let answer = client.get("/update?biz=b0&key=first");
        answer.body.contains("limited=\"false\"").then_some(())
    });
    let ledgers = || -> Vec<u64> {
        let of_master = |i: usize| {
            let all: Vec<String> = nodes.ask(i, cmd("KEYS").arg(format!("frs:{{{NAME}:2001:*")));
            all.into_iter().map(move |ledger| (i, ledger))
        };
        let all = (0..MASTERS).flat_map(of_master);
        all.map(|(i, ledger)| nodes.ask(i, cmd("HGET").arg(ledger).arg("u"))).collect()
    };
    for nth in 0..8 {
        let begun = Instant::now();
        client.get(&format!("/update?biz=b0&key=forced{nth}&count=7&force=true"));
        let told = || ledgers().iter().filter(|&&granted| granted == 7).count();
        wait_until("its ledger knows", || (told() == nth + 1).then_some(()));
        assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    }
}

/// Each policy with a maximum of five uses, of which none come back within an hour.
const FIVE: [&str; 6] = [
    "policy=\"interval\" interval=\"1h\" max=\"5\"",
    "policy=\"calendar\" unit=\"month\" max=\"5\"",
    "policy=\"total\" max=\"5\"",
    "policy=\"sliding\" interval=\"1h\" max=\"5\"",
    "policy=\"sliding-counter\" interval=\"365d\" max=\"5\"",
    "policy=\"token\" rate=\"1/h\" burst=\"5\"",
];

// Shows: returns-between-machines.
#[test]
fn what_one_machine_gives_back_another_one_uses_at_once() {
    let Some(nodes) = Nodes::start() else { return };
    let shared = |share: &str| {
        let settings = format!("share=\"{share}\" hosts=\"2\" wait=\"200ms\"");
        FIVE.map(|limit| Shared::new(&settings, limit))
    };
    let all = [shared("cluster"), shared("exact")].concat();
    let hosts = Hosts::new(2, &nodes.seeds(), "", &map(&all));
    let _servers = hosts.start();
    let mut clients = hosts.addresses().into_iter().map(Client::connect);
    let [mut one, mut other] = [(); 2].map(|()| clients.next().expect("two"));
    let used = |client: &mut Client, biz: usize, count: i32| {
        client.get(&format!("/update?biz=b{biz}&key=k&count={count}")).status == 200
    };
    let mut longest = Duration::ZERO;
    for (biz, Shared { limit, .. }) in all.iter().enumerate() {
        let mut left = 5;
        wait_until("all is used", || {
            left -= i32::from(used(&mut one, biz, 1));
            (left == 0).then_some(())
        });
        for count in [1, 2] {
            // This host has learned that nothing is left.
            assert!(!used(&mut other, biz, 1) && !used(&mut other, biz, 1), "{limit}");
            assert!(used(&mut one, biz, -count), "{limit}");
            let begun = Instant::now();
            for _ in 0..count {
                wait_until("it is used", || used(&mut other, biz, 1).then_some(()));
            }
            longest = longest.max(begun.elapsed());
            assert!(begun.elapsed() < AT_ONCE, "{limit}: {:?}", begun.elapsed());
        }
        assert!(!used(&mut one, biz, 1) && !used(&mut other, biz, 1), "{limit}: more than five");
    }
    println!("another machine has it after {longest:?} at most");
}

// Shows: returns-between-machines.
#[test]
fn a_machine_that_has_used_nothing_gives_back_what_another_one_has_used() {
    let Some(nodes) = Nodes::start() else { return };
    // Two limits share one log. The first one reports it.
    let eight = "policy=\"sliding\" interval=\"1h\" max=\"8\"";
    let of_one_log = format!("{eight}/><limit policy=\"sliding\" interval=\"2h\" max=\"5\"");
    let shared = |share: &str| -> Vec<Shared> {
        let settings = format!("share=\"{share}\" hosts=\"3\" wait=\"200ms\"");
        let all = FIVE.into_iter().chain([of_one_log.as_str()]);
        all.map(|limit| Shared::new(&settings, limit)).collect()
    };
    let all = [shared("cluster"), shared("exact")].concat();
    let hosts = Hosts::new(3, &nodes.seeds(), "", &map(&all));
    let _servers = hosts.start();
    let mut clients = hosts.addresses().into_iter().map(Client::connect);
    let [mut one, mut other, mut third] = [(); 3].map(|()| clients.next().expect("three"));
    let asked = |client: &mut Client, biz: usize, count: i32| {
        client.get(&format!("/update?biz=b{biz}&key=k&count={count}"))
    };
    for (biz, Shared { limit, .. }) in all.iter().enumerate() {
        let mut left = 5;
        wait_until("all is used", || {
            left -= i32::from(asked(&mut one, biz, 1).status == 200);
            (left == 0).then_some(())
        });
        // In every second case a refusal makes the hosts report their last uses first.
        if biz % 2 == 0 {
            assert_ne!(asked(&mut one, biz, 1).status, 200, "{limit}: more than five");
            assert_ne!(asked(&mut third, biz, 1).status, 200, "{limit}: more than five");
        }
        let answer = asked(&mut other, biz, -2);
        assert_eq!(answer.status, 200, "{limit}: {}", answer.body);
        let begun = Instant::now();
        for _ in 0..2 {
            let used = || (asked(&mut third, biz, 1).status == 200).then_some(());
            wait_until(&format!("it is used: {limit}"), used);
        }
        assert!(begun.elapsed() < AT_ONCE, "{limit}: {:?}", begun.elapsed());
        for client in [&mut one, &mut other, &mut third] {
            assert_ne!(asked(client, biz, 1).status, 200, "{limit}: more than five and two");
        }
    }
}
