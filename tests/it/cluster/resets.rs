//! A reset of a shared business holds on every machine: the cluster keeps its epoch, and all
//! machines follow.

use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use frs_conf::{ClusterNode, active};
use frs_store::Runtime;
use redis::cmd;

use super::gate::Gate;
use super::history::{Window, now_ms};
use super::hosts::{Hosts, Load, Routing, Shared, map, settings};
use super::nodes::{NAME, Nodes};
use crate::common::plane::ask_socket;
use crate::common::{Client, Setup, wait_until};

/// Hosts with an admin plane each.
pub fn hosts(count: usize, nodes: &Nodes, shared: &[Shared]) -> Hosts {
    let hosts = Hosts::new(count, &nodes.seeds(), "timeout=\"500ms\"", &map(shared));
    hosts.setups.iter().for_each(|setup| write_settings(setup, &nodes.seeds()));
    hosts
}

fn write_settings(setup: &Setup, seeds: &[ClusterNode]) {
    let mut settings = settings(seeds, "timeout=\"500ms\"");
    settings.more.push_str("<admin listen=\"unix:admin.sock\"/>");
    setup.write_srv(&settings);
}

fn total(max: u64) -> Shared {
    let biz = "share=\"cluster\" hosts=\"3\" wait=\"200ms\"";
    Shared::new(biz, &format!("policy=\"total\" max=\"{max}\""))
}

/// Resets a business through the admin plane of a host. Returns the status.
fn try_reset(setup: &Setup, biz: &str) -> u16 {
    let path = setup.path("admin.sock");
    wait_until("the admin plane listens", || UnixStream::connect(&path).ok());
    let request =
        format!("POST /biz/{biz}/reset HTTP/1.1\r\nHost: any\r\nConnection: close\r\n\r\n");
    let text = ask_socket(&path, &request).expect("answered");
    text.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status")
}

#[track_caller]
pub fn reset(setup: &Setup, biz: &str) {
    assert_eq!(try_reset(setup, biz), 200);
}

/// The epoch of a biz that is in force on a host.
fn epoch(setup: &Setup, biz: u32) -> u64 {
    let data = setup.path("data");
    let of = |generation| active::read_overlay(&data, generation).ok();
    let overlay =
        wait_until("a configuration is in force", || of(Runtime::open(&data).ok()?.generation()));
    overlay.epoch(biz)
}

#[track_caller]
pub fn wait_for_epoch(setup: &Setup, biz: u32, expected: u64) {
    wait_until("the host follows", || (epoch(setup, biz) == expected).then_some(()));
}

fn epoch_key(biz: u32) -> String {
    format!("frs:{{{NAME}}}:epoch:{biz}")
}

/// Runs a command on the node that serves the command's key.
fn ask<T: redis::FromRedisValue>(nodes: &Nodes, command: &redis::Cmd) -> T {
    (0..3).find_map(|i| nodes.try_ask(i, command)).expect("one of them serves it")
}

/// The uses that the ledgers of a biz have granted under an epoch.
fn granted(nodes: &Nodes, biz: u32, epoch: u64) -> Vec<u64> {
    let pattern = format!("frs:{{{NAME}:{biz}:*}}:*:{epoch}");
    let of = |i| {
        let ledgers: Vec<String> = nodes.ask(i, cmd("KEYS").arg(&pattern));
        let granted = |ledger| nodes.ask::<u64>(i, cmd("HGET").arg(ledger).arg("u"));
        ledgers.into_iter().map(granted).collect::<Vec<_>>()
    };
    (0..3).flat_map(of).collect()
}

// Shows: shared-resets.
#[test]
fn the_other_machine_follows_a_reset_while_clients_use_both() {
    const MAX: u64 = 3000;
    let Some(nodes) = Nodes::start() else { return };
    let hosts = hosts(2, &nodes, &[total(MAX), total(300)]);
    let _servers = hosts.start();
    let addresses = hosts.addresses();
    let load = Load::new(&addresses, 2, Routing::None);
    let (mut asked_ms, mut followed_ms, mut took) = (0, 0, Duration::MAX);
    let histories = load.run(|load| {
        wait_until("there is load", || {
            let answered = load.answered.load(std::sync::atomic::Ordering::Relaxed);
            (answered > 600).then_some(())
        });
        asked_ms = now_ms();
        reset(&hosts.setups[0], "b0");
        let told = Instant::now();
        wait_for_epoch(&hosts.setups[1], 2001, 1);
        took = told.elapsed();
        // From now on no transaction commits under the generation before.
        followed_ms = now_ms();
        load.spend();
    });
    eprintln!("followed after {took:?}");
    assert!(took < Duration::from_secs(5), "{took:?}");
    let from = |start_ms| histories[0].within(Window { start_ms, end_ms: u64::MAX });
    let all = histories[0].admitted.len() as u64;
    let after = from(followed_ms).least as u64;
    assert!(after <= MAX, "{after} of {MAX} since all follow");
    assert!(from(asked_ms).most as u64 >= MAX, "{:?}: the new ledger is whole", from(asked_ms));
    assert_eq!(granted(&nodes, 2001, 1), [MAX]);
    let before = granted(&nodes, 2001, 0)[0];
    assert!(before <= MAX && all <= before + MAX, "{all} admitted, {before} of them before");
    assert_eq!(ask::<u64>(&nodes, cmd("GET").arg(epoch_key(2001))), 1);
    let changes = std::fs::read_to_string(hosts.setups[1].path("data/changes.log"));
    let follows = "\"who\":\"cluster\",\"what\":\"reset\",\"target\":\"b0\"";
    assert_eq!(changes.expect("a log").matches(follows).count(), 1);
    // The other business is not affected.
    assert_eq!(histories[1].admitted.len(), 300);
    assert_eq!(epoch(&hosts.setups[1], 2002), 0);
    assert!(granted(&nodes, 2002, 1).is_empty());
}

// Shows: shared-resets.
#[test]
fn a_machine_that_was_away_follows_and_two_resets_at_once_end_as_one_number() {
    const MAX: u64 = 120;
    let Some(nodes) = Nodes::start() else { return };
    let hosts = &hosts(3, &nodes, &[total(MAX)]);
    let mut servers = hosts.start();
    let addresses = hosts.addresses();
    let spend = |of: &[usize]| -> u64 {
        let addresses: Vec<_> = of.iter().map(|&host| addresses[host]).collect();
        let load = Load::new(&addresses, 1, Routing::None);
        let histories = load.run(Load::spend);
        assert_eq!(histories[0].lost, []);
        histories[0].admitted.len() as u64
    };
    assert_eq!(spend(&[0, 1, 2]), MAX);
    servers[2].kill_all_and_wait();
    drop(servers.pop());
    reset(&hosts.setups[0], "b0");
    wait_for_epoch(&hosts.setups[1], 2001, 1);
    // The absent machine has spent its part, and does not know of the reset.
    servers.push(hosts.setups[2].start());
    let begun = Instant::now();
    wait_for_epoch(&hosts.setups[2], 2001, 1);
    eprintln!("followed {:?} after its start", begun.elapsed());
    assert_eq!(spend(&[2, 0, 1]), MAX, "under the new epoch");
    for _ in 0..5 {
        let before = epoch(&hosts.setups[0], 2001);
        let statuses = thread::scope(|scope| {
            let reset = |setup| scope.spawn(move || try_reset(setup, "b0"));
            let both = [0, 1].map(|host| reset(&hosts.setups[host]));
            both.map(|one| one.join().expect("no panic"))
        });
        assert_eq!(statuses, [200, 200]);
        let key = epoch_key(2001);
        let end = wait_until("all are at one number", || {
            let own: Vec<u64> = hosts.setups.iter().map(|setup| epoch(setup, 2001)).collect();
            let told: u64 = ask(&nodes, cmd("GET").arg(&key));
            own.iter().all(|&own| own == told && own > before).then_some(told)
        });
        assert!(end <= before + 2, "{before} to {end}");
    }
    assert_eq!(spend(&[0, 1, 2]), MAX, "under the last epoch");
    // Each machine follows the other's resets during its own, also across blocks of epochs.
    let before = epoch(&hosts.setups[0], 2001);
    let storm = |setup| (0..150).map(|_| try_reset(setup, "b0")).collect::<Vec<_>>();
    let statuses = thread::scope(|scope| {
        let both = [0, 1].map(|host| scope.spawn(move || storm(&hosts.setups[host])));
        both.map(|one| one.join().expect("no panic")).concat()
    });
    let again = statuses.iter().filter(|&&status| status == 422).count();
    assert!(
        statuses.iter().all(|status| [200, 422].contains(status)) && again <= 4,
        "{statuses:?}"
    );
    wait_until("all are at one number", || {
        let all: Vec<u64> = hosts.setups.iter().map(|setup| epoch(setup, 2001)).collect();
        (all[0] >= before + 148 && all.iter().all(|&one| one == all[0])).then_some(())
    });
    assert_eq!(spend(&[0, 1, 2]), MAX, "after the storm");
}

// Shows: shared-resets.
#[test]
fn three_hundred_resets_in_a_row_revive_nothing() {
    const MAX: u64 = 50;
    let Some(nodes) = Nodes::start() else { return };
    let mut map = map(&[total(MAX)]);
    let alone =
        "<biz id=\"7\" name=\"alone\" key=\"string\"><limit policy=\"total\" max=\"9\"/></biz>";
    map = map.replace("</map>", &format!("  {alone}\n</map>"));
    let hosts = hosts(2, &nodes, &[total(MAX)]);
    hosts.setups.iter().for_each(|setup| setup.write_map(&map));
    let mut servers = hosts.start();
    let charge = |host: usize, key: &str| {
        let mut client = Client::connect(hosts.setups[host].address);
        // A new master grants nothing for a while.
        wait_until("a lease is granted", || {
            let answer = client.get(&format!("/update?biz=b0&key={key}&count=7"));
            (answer.status == 200).then_some(())
        });
    };
    let used = |host: usize, biz: &str, key: &str| {
        let mut client = Client::connect(hosts.setups[host].address);
        let answer = client.get(&format!("/query?biz={biz}&key={key}"));
        answer.attribute("used").expect("a verdict").to_owned()
    };
    for (host, server) in servers.iter().enumerate() {
        charge(host, "first");
        server.client().charge("alone", "k", 3);
    }
    (0..300).for_each(|_| reset(&hosts.setups[0], "b0"));
    for (host, setup) in hosts.setups.iter().enumerate() {
        wait_for_epoch(setup, 2001, 300);
        assert_eq!(used(host, "b0", "first"), "0", "host {host}");
        // Epoch 300 has the same low 8 bits as 44, and as 556 later.
        charge(host, "second");
    }
    servers[1].kill_all_and_wait();
    drop(servers.pop());
    (0..256).for_each(|_| reset(&hosts.setups[0], "b0"));
    assert_eq!(epoch(&hosts.setups[1], 2001), 300);
    servers.push(hosts.setups[1].start());
    wait_for_epoch(&hosts.setups[1], 2001, 556);
    let log = hosts.setups[1].log();
    assert!(log.contains("epoch=511"), "a step in between: {log}");
    for host in [0, 1] {
        for key in ["first", "second"] {
            assert_eq!(used(host, "b0", key), "0", "{key} on host {host}");
        }
        assert_eq!(used(host, "alone", "k"), "3");
    }
    // A business that is not shared is reset only on the machine that is asked.
    reset(&hosts.setups[0], "alone");
    reset(&hosts.setups[0], "b0");
    wait_for_epoch(&hosts.setups[1], 2001, 557);
    assert_eq!([0, 1].map(|host| used(host, "alone", "k")), ["0", "3"]);
    let addresses = hosts.addresses();
    let histories = Load::new(&addresses, 1, Routing::None).run(Load::spend);
    assert_eq!(histories[0].admitted.len() as u64, MAX);
    assert_eq!(granted(&nodes, 2001, 557), [MAX]);
}

// Shows: shared-resets.
#[test]
fn what_is_no_epoch_is_named_once_and_not_followed() {
    let Some(nodes) = Nodes::start() else { return };
    let hosts = hosts(2, &nodes, &[total(50), total(50)]);
    let [_one, _other] = &hosts.start()[..] else { panic!("two hosts") };
    let [one, other] = &hosts.setups[..] else { panic!("two hosts") };
    reset(one, "b0");
    wait_for_epoch(other, 2001, 1);
    let set = |biz, found: &str| {
        ask::<String>(&nodes, cmd("SET").arg(epoch_key(biz)).arg(found));
    };
    set(2001, "many");
    set(2002, "1125899906842625");
    let complaints = |setup: &Setup, biz: u32| {
        let line =
            |line: &&str| line.contains("expected a reset epoch") && line.contains(&epoch_key(biz));
        setup.log().lines().filter(line).count()
    };
    let all = || hosts.setups.iter().flat_map(|setup| [2001, 2002].map(|biz| (setup, biz)));
    wait_until("all are named", || {
        all().all(|(setup, biz)| complaints(setup, biz) > 0).then_some(())
    });
    // The machine reads it again each second.
    reset(one, "b1");
    reset(one, "b0");
    thread::sleep(Duration::from_millis(2500));
    for (setup, biz) in all() {
        assert_eq!(complaints(setup, biz), 1, "{biz}: {}", setup.log());
    }
    assert_eq!([2001, 2002].map(|biz| epoch(other, biz)), [1, 0]);
    assert_eq!([2001, 2002].map(|biz| epoch(one, biz)), [2, 1]);
    // Once the wrong value is removed, a machine stores its own epoch.
    for (biz, expected) in [(2001, 2), (2002, 1)] {
        ask::<u64>(&nodes, cmd("DEL").arg(epoch_key(biz)));
        wait_for_epoch(other, biz, expected);
    }
}

// Shows: shared-resets.
#[test]
fn a_machine_that_does_not_reach_the_cluster_resets_itself_and_tells_of_it_later() {
    const MAX: u64 = 60;
    let Some(nodes) = Nodes::start() else { return };
    let hosts = hosts(2, &nodes, &[total(MAX)]);
    let gate = Gate::new(&nodes);
    write_settings(&hosts.setups[0], &gate.seeds());
    let _servers = hosts.start();
    let addresses = hosts.addresses();
    let spend = || {
        let histories = Load::new(&addresses, 1, Routing::None).run(Load::spend);
        assert_eq!(histories[0].lost, []);
        histories[0].admitted.len() as u64
    };
    assert_eq!(spend(), MAX);
    let [one, other] = &hosts.setups[..] else { panic!("two hosts") };
    gate.close();
    reset(one, "b0");
    assert_eq!(epoch(one, 2001), 1);
    let used = |setup: &Setup| {
        let answer = Client::connect(setup.address).get("/query?biz=b0&key=k");
        answer.attribute("used").expect("a verdict").to_owned()
    };
    assert_eq!(used(one), "0");
    // The other machine looks each second.
    thread::sleep(Duration::from_millis(2_500));
    assert_eq!(ask::<Option<u64>>(&nodes, cmd("GET").arg(epoch_key(2001))).unwrap_or(0), 0);
    assert_eq!((epoch(other, 2001), used(other)), (0, MAX.to_string()));
    gate.open();
    wait_for_epoch(other, 2001, 1);
    assert_eq!(ask::<u64>(&nodes, cmd("GET").arg(epoch_key(2001))), 1);
    assert_eq!(spend(), MAX, "anew");
    assert_eq!(granted(&nodes, 2001, 1), [MAX]);
}
