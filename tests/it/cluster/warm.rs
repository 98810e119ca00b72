//! Records that the cluster keeps for the machine that takes a key over.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use frs_cluster::figures::ClusterState;
use frs_cluster::warm::{WarmAnswer, WarmCall, WarmMessage};
use frs_engine::Role;
use frs_store::Runtime;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use redis::{Value, cmd};

use super::history::now_ms;
use super::host;
use super::hosts::{self, Hosts, Random};
use super::nodes::Nodes;
use crate::common::load::UntilDropped;
use crate::common::plane::Plane;
use crate::common::{Client, Setup, wait_until};

const MAX: u64 = 300;
const KEYS: usize = 20;

fn map(limit: &str) -> String {
    format!(
        "<map><group name=\"g\" files=\"2\" key-nodes=\"16\" chain=\"8\" node-size=\"2048\" \
         backup=\"1s\"/><biz id=\"2001\" name=\"b\" key=\"string\"><limit {limit}/></biz></map>"
    )
}

/// The time up to which the cluster has all changes of this host.
fn kept_since_ms(setup: &Setup) -> Option<u64> {
    let runtime = Runtime::open(&setup.path("data")).ok()?;
    let slots = runtime.slots();
    let slot = slots.iter().find(|slot| slot.role == Role::Cluster as u32)?.slot;
    ClusterState::of(runtime.extension_of(slot)).kept_since_ms
}

/// Waits until the cluster has all changes of this host.
fn wait_for_round(setup: &Setup) {
    let begun_ms = now_ms();
    wait_until("a round has carried all records", || {
        kept_since_ms(setup).filter(|&kept_ms| kept_ms > begun_ms)
    });
}

fn used(client: &mut Client, key: &str) -> u64 {
    let answer = client.get(&format!("/query?biz=b&key={key}"));
    answer.attribute("used").expect("a verdict").parse().expect("a number")
}

#[derive(Debug, Default, Clone)]
struct Uses {
    /// The times of the uses that the lost host admitted.
    lost_ms: Vec<u64>,
    /// The uses that the other host admitted.
    heir: u64,
    /// Uses without an answer.
    unknown: u64,
}

#[track_caller]
fn a_machine_is_lost(limit: &str) {
    let Some(nodes) = Nodes::start() else { return };
    let hosts = Hosts::new(2, &nodes.seeds(), "timeout=\"500ms\"", &map(limit));
    let mut servers = hosts.start();
    let addresses = hosts.addresses();
    // Sticky routing: a key moves to the other host when its own does not answer.
    let is_lost = AtomicBool::new(false);
    let stop = AtomicBool::new(false);
    let uses = Mutex::new(vec![Uses::default(); KEYS]);
    let client = |seed| {
        let mut random = Random::new(seed);
        let mut clients = [None, None];
        while !stop.load(Ordering::Relaxed) {
            let key = random.below(KEYS);
            let at = usize::from(is_lost.load(Ordering::Relaxed));
            let Some(mut client) =
                clients[at].take().or_else(|| Client::try_connect(addresses[at]))
            else {
                thread::sleep(Duration::from_millis(1));
                continue;
            };
            let answer = client.try_get(&format!("/update?biz=b&key=k{key}"));
            let told_ms = now_ms();
            let of_key = &mut uses.lock().expect("no client fails")[key];
            match answer {
                Ok(answer) if answer.status == 200 && at == 0 => of_key.lost_ms.push(told_ms),
                Ok(answer) if answer.status == 200 => of_key.heir += 1,
                Ok(answer) => assert_eq!(answer.status, 429, "{answer:?}"),
                Err(_) => {
                    of_key.unknown += 1;
                    continue;
                }
            }
            clients[at] = Some(client);
            thread::sleep(Duration::from_micros(500));
        }
    };
    let kept_ms = thread::scope(|scope| {
        let ends = UntilDropped(&stop);
        (0..4).for_each(|seed| {
            scope.spawn(move || client(seed));
        });
        let wait_for_uses = |least: usize| {
            wait_until("some are admitted", || {
                let uses = uses.lock().expect("no client fails");
                let admitted: usize = uses.iter().map(|uses| uses.lost_ms.len()).sum();
                (admitted >= least).then_some(admitted)
            })
        };
        wait_for_uses(1000);
        wait_for_round(&hosts.setups[0]);
        let admitted = wait_for_uses(0);
        wait_for_uses(admitted + 200);
        let kept_ms = kept_since_ms(&hosts.setups[0]).expect("a round");
        servers[0].kill_all_and_wait();
        is_lost.store(true, Ordering::Relaxed);
        wait_until("all keys are used up", || {
            let mut client = Client::connect(addresses[1]);
            (0..KEYS).all(|key| used(&mut client, &format!("k{key}")) >= MAX).then_some(())
        });
        drop(ends);
        kept_ms
    });
    let uses = uses.into_inner().expect("no client failed");
    let mut carried = 0;
    for (key, Uses { lost_ms, heir, unknown }) in uses.iter().enumerate() {
        let admitted = lost_ms.len() as u64 + heir;
        let before = lost_ms.iter().filter(|&&ms| ms < kept_ms).count() as u64;
        let since = lost_ms.len() as u64 - before;
        let over = admitted.saturating_sub(MAX);
        let told = format!("k{key}: {before} and {since} admitted, then {heir}, {unknown} unknown");
        assert!(admitted + unknown >= MAX, "{told}: something is missing");
        assert!(over <= since, "{told}");
        assert!(before > 0 && since < MAX, "{told}");
        carried += before;
    }
    assert!(carried >= 1000, "{carried}");
}

// Shows: backup.
#[test]
fn a_machine_lost_under_load_costs_at_most_the_uses_since_its_last_round() {
    a_machine_is_lost(&format!("policy=\"total\" max=\"{MAX}\""));
}

// Shows: backup.
#[test]
fn so_it_is_with_an_exact_log() {
    a_machine_is_lost(&format!("policy=\"sliding\" interval=\"1h\" max=\"{MAX}\""));
}

// Shows: backup.
#[test]
fn a_key_that_moves_takes_its_record_along_and_is_forgotten_where_it_was() {
    let Some(nodes) = Nodes::start() else { return };
    let limit = "policy=\"total\" max=\"10\"";
    let hosts = Hosts::new(2, &nodes.seeds(), "timeout=\"500ms\"", &map(limit));
    let _servers = hosts.start();
    let [mut here, mut there] = [0, 1].map(|nth| Client::connect(hosts.setups[nth].address));
    let charge = |client: &mut Client| client.get("/update?biz=b&key=k").status;
    assert_eq!([0; 3].map(|_| charge(&mut here)), [200; 3]);
    wait_for_round(&hosts.setups[0]);
    assert_eq!([0; 4].map(|_| charge(&mut there)), [200; 4]);
    assert_eq!(used(&mut there, "k"), 7);
    wait_for_round(&hosts.setups[1]);
    // The record here is old: its next round is rejected, and the record is dropped.
    assert_eq!((charge(&mut here), used(&mut here, "k")), (200, 4));
    wait_until("the record of the other machine is here", || {
        (used(&mut here, "k") == 7).then_some(())
    });
    assert_eq!([0; 4].map(|_| charge(&mut here)), [200, 200, 200, 429]);
}

// Shows: bans-in-the-cluster.
#[test]
fn a_ban_goes_to_a_machine_with_other_lifts_and_not_past_a_later_one() {
    let Some(nodes) = Nodes::start() else { return };
    let map = map("policy=\"interval\" interval=\"1h\" max=\"3\" ban=\"1h\"");
    let planes = [(); 2].map(|()| hosts::plane(&nodes.seeds(), "timeout=\"500ms\"", &map));
    let _servers = planes.each_ref().map(|plane| plane.start(2));
    let [mut here, mut there] = [0, 1].map(|nth| Client::connect(planes[nth].setup.address));
    let lift = |plane: &Plane| {
        let biz = plane.get("/biz/b").body;
        assert_eq!(plane.ask("PUT", "/biz/b?lift-bans=true", &biz).status, 200);
    };
    let ban = |client: &mut Client, key: &str| {
        let updates = [0; 4].map(|_| client.get(&format!("/update?biz=b&key={key}")));
        assert_eq!(updates[3].attribute("banned"), Some("true"), "{updates:?}");
    };
    let is_banned = |client: &mut Client, key: &str| {
        let answer = client.get(&format!("/query?biz=b&key={key}"));
        assert_eq!(answer.attribute("used"), Some("3"), "{answer:?}");
        answer.attribute("banned") == Some("true")
    };
    (0..2).for_each(|_| lift(&planes[0]));
    for key in ["a", "b"] {
        ban(&mut here, key);
    }
    wait_for_round(&planes[0].setup);
    assert!(is_banned(&mut there, "a"), "bans were lifted here and not there");
    lift(&planes[1]);
    let lifted_ms = now_ms();
    assert!(!is_banned(&mut there, "a"));
    assert!(!is_banned(&mut there, "b"), "it comes after the lift, and began before it");
    // A ban that begins within a second of the lift may have begun before it.
    wait_until("a second is over", || (now_ms() > lifted_ms + 1_100).then_some(()));
    ban(&mut here, "c");
    wait_for_round(&planes[0].setup);
    assert!(is_banned(&mut there, "c"), "a ban after both lifts");
}

/// Charges keys on one host, calls `lose`, and takes the keys over on the other host.
#[track_caller]
fn the_cluster_loses(lose: impl FnOnce(&mut Nodes, &Hosts)) {
    let Some(mut nodes) = Nodes::start() else { return };
    let limit = "policy=\"total\" max=\"3\"";
    let hosts = Hosts::new(2, &nodes.seeds(), "timeout=\"500ms\"", &map(limit));
    let mut servers = hosts.start();
    let charge =
        |client: &mut Client, key: usize| client.get(&format!("/update?biz=b&key=k{key}")).status;
    let mut client = Client::connect(hosts.setups[0].address);
    (0..30).for_each(|key| assert_eq!([0; 2].map(|_| charge(&mut client, key)), [200; 2]));
    wait_for_round(&hosts.setups[0]);
    lose(&mut nodes, &hosts);
    servers[0].kill_all_and_wait();
    let mut heir = Client::connect(hosts.setups[1].address);
    for key in 0..30 {
        assert_eq!([0; 2].map(|_| charge(&mut heir, key)), [200, 429], "k{key}");
    }
}

// Shows: backup.
#[test]
fn records_are_carried_again_to_a_cluster_that_has_lost_them() {
    the_cluster_loses(|nodes, hosts| {
        (0..3).for_each(|node| nodes.flush_all(node));
        wait_until("records are there again", || {
            let count = |node| nodes.ask::<usize>(node, &cmd("DBSIZE"));
            ((0..3).map(count).sum::<usize>() >= 30).then_some(())
        });
        wait_for_round(&hosts.setups[0]);
    });
}

// Shows: backup.
#[test]
fn a_new_master_without_the_last_writes_has_them_after_a_round() {
    the_cluster_loses(|nodes, hosts| {
        // The replica, stopped and empty, becomes the master.
        nodes.flush_all(0);
        nodes.cut_replicas(0);
        nodes.kill(0);
        nodes.take_over(3);
        wait_until("records are there again", || {
            (nodes.ask::<usize>(3, &cmd("DBSIZE")) > 1).then_some(())
        });
        wait_for_round(&hosts.setups[0]);
    });
}

// Shows: backup.
#[test]
fn couriers_that_are_killed_lose_no_record() {
    the_cluster_loses(|nodes, hosts| {
        // A courier's knowledge of carried records dies with it, so all are carried again.
        let courier = || {
            let runtime = Runtime::open(&hosts.setups[0].path("data")).expect("a server");
            let slots = runtime.slots();
            slots.iter().find(|slot| slot.role == Role::Cluster as u32).map(|slot| slot.pid)
        };
        let killed = wait_until("a courier", courier);
        kill(Pid::from_raw(killed as i32), Signal::SIGKILL).expect("killed");
        (0..3).for_each(|node| nodes.flush_all(node));
        wait_until("another courier", || courier().filter(|&pid| pid != killed));
        wait_for_round(&hosts.setups[0]);
    });
}

// Shows: backup.
#[test]
fn while_the_cluster_is_down_keys_begin_fresh_and_go_on() {
    let Some(mut nodes) = Nodes::start() else { return };
    let hosts = Hosts::new(1, &nodes.seeds(), "", &map("policy=\"total\" max=\"2\""));
    let _servers = hosts.start();
    let mut client = Client::connect(hosts.setups[0].address);
    let mut charge = |key: &str| client.get(&format!("/update?biz=b&key={key}")).status;
    assert_eq!(charge("a"), 200);
    wait_for_round(&hosts.setups[0]);
    (0..6).for_each(|node| nodes.kill(node));
    assert_eq!([charge("a"), charge("a")], [200, 429]);
    for key in 0..50 {
        let key = format!("b{key}");
        assert_eq!([charge(&key), charge(&key), charge(&key)], [200, 200, 429]);
    }
}

// Shows: backup.
#[test]
fn a_record_belongs_to_the_host_that_fetched_it_last() {
    let Some(nodes) = Nodes::start() else { return };
    let _library = host::Host::start(&host::conf(nodes.seeds()));
    let key = "frs:{test:1:-}:warm";
    let at = Nodes::first_master(frs_cluster::name::slot(key.as_bytes()));
    let mut connection = nodes.connect(at);
    let mut ask = |host: u64, version: u64, call: WarmCall| {
        let message = WarmMessage { id: 0, key: key.to_owned(), host, version, call };
        let mut command = cmd("FCALL");
        command.arg(message.function()).arg(1).arg(key).arg(message.arguments());
        match command.query::<Value>(&mut connection).expect("an answer") {
            Value::Int(number) => format!("{:?}", WarmAnswer::of_put(number).expect("known")),
            Value::Array(found) if found.is_empty() => "Nothing".to_owned(),
            Value::Array(found) => match found.as_slice() {
                [Value::BulkString(bytes)] => String::from_utf8_lossy(bytes).into_owned(),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    };
    let call = |bytes: &str, life_ms: u64, takes_over| WarmCall::Put {
        life_ms: Some(life_ms).filter(|&ms| ms > 0),
        bytes: bytes.as_bytes().to_vec(),
        takes_over,
    };
    let put = |bytes: &str, life_ms: u64| call(bytes, life_ms, false);
    assert_eq!(ask(1, 1, WarmCall::Fetch), "Nothing");
    assert_eq!(ask(1, 5, put("a", 0)), "Kept");
    // A late put, a repeated put, and a version beyond 2^53.
    assert_eq!([ask(1, 4, put("b", 0)), ask(1, 5, put("b", 0))], ["Old", "Old"]);
    let far = 1 << 60;
    assert_eq!([ask(1, far + 1, put("c", 0)), ask(1, far, put("d", 0))], ["Kept", "Old"]);
    // Another host takes the record over with any version, because versions are compared within a
    // host only.
    assert_eq!(ask(2, 1, put("x", 0)), "Moved");
    assert_eq!(ask(2, 2, WarmCall::Fetch), "c");
    assert_eq!(ask(1, far + 9, put("y", 0)), "Moved");
    assert_eq!([ask(2, 1, put("late", 0)), ask(2, 3, put("e", 0))], ["Old", "Kept"]);
    assert_eq!(ask(1, 9, WarmCall::Fetch), "e");
    // A record with a lifetime.
    assert_eq!(ask(1, 10, put("f", 50)), "Kept");
    assert_eq!(ask(1, 11, put("g", 0)), "Kept", "forever again");
    thread::sleep(Duration::from_millis(100));
    assert_eq!(ask(1, 12, WarmCall::Fetch), "g");
    assert_eq!(ask(1, 13, put("h", 20)), "Kept");
    thread::sleep(Duration::from_millis(100));
    assert_eq!(ask(1, 14, WarmCall::Fetch), "Nothing");
    // A spilled record is put without a fetch. A drop deletes the fetched version, but not a later
    // one.
    assert_eq!([ask(1, 20, put("i", 0)), ask(2, 3, put("j", 0))], ["Kept", "Moved"]);
    assert_eq!([ask(2, 4, call("k", 0, true)), ask(2, 4, call("l", 0, true))], ["Kept", "Old"]);
    assert_eq!(ask(2, 5, WarmCall::Fetch), "k");
    ask(1, 99, WarmCall::Drop);
    assert_eq!(ask(2, 7, WarmCall::Fetch), "k", "another host's");
    assert_eq!(ask(2, 9, call("m", 0, true)), "Kept");
    ask(2, 8, WarmCall::Drop);
    assert_eq!(ask(2, 10, WarmCall::Fetch), "m", "late");
    ask(2, 11, WarmCall::Drop);
    assert_eq!(ask(2, 12, WarmCall::Fetch), "Nothing");
    // A late fetch does not let an old drop delete a later put.
    assert_eq!(ask(2, 20, call("n", 0, true)), "Kept");
    assert_eq!(ask(2, 15, WarmCall::Fetch), "n");
    ask(2, 16, WarmCall::Drop);
    assert_eq!(ask(2, 21, WarmCall::Fetch), "n");
    // An empty put deletes the record, unless it is late.
    assert_eq!([ask(1, 1, call("", 0, false)), ask(2, 20, call("", 0, true))], ["Moved", "Old"]);
    assert_eq!(ask(1, 1, call("", 0, true)), "Kept");
    assert_eq!(ask(1, 2, WarmCall::Fetch), "Nothing");
}
