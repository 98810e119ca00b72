//! Processes of hosts die, and whole hosts lose their directories: never more than the maximum is
//! admitted, and only what a lost directory held is missing.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};

use super::hosts::{Hosts, Load, Random, Routing, Shared, map};
use super::nodes::Nodes;
use crate::common::{Server, wait_until};

fn hour(max: u64, share: &str) -> Shared {
    let biz = format!("share=\"{share}\" hosts=\"3\" wait=\"500ms\"");
    Shared::new(&biz, &format!("policy=\"interval\" interval=\"1h\" max=\"{max}\""))
}

fn kill_one(servers: &[Server<'_>], roles: &[&str], random: &mut Random) -> bool {
    let server = &servers[random.below(servers.len())];
    let role = roles[random.below(roles.len())];
    let Some(&pid) = server.attached(role).first() else { return false };
    kill(pid, Signal::SIGKILL).is_ok()
}

#[track_caller]
fn killed(roles: &[&str], kills: usize) {
    const MAXIMA: [u64; 4] = [1, 5, 100, 10_000];
    let Some(nodes) = Nodes::start() else { return };
    let shared: Vec<Shared> = MAXIMA
        .iter()
        .flat_map(|&max| [hour(max, "cluster"), hour(max.min(500), "exact")])
        .collect();
    let hosts = Hosts::new(3, &nodes.seeds(), "", &map(&shared));
    let servers = hosts.start();
    let addresses = hosts.addresses();
    let load = Load::new(&addresses, shared.len(), Routing::None);
    let histories = load.run(|load| {
        let mut random = Random::new(1);
        let mut killed = 0;
        while killed < kills {
            killed += usize::from(kill_one(&servers, roles, &mut random));
            thread::sleep(Duration::from_millis(100));
        }
        load.spend();
    });
    for (biz, history) in histories.iter().enumerate() {
        let max = MAXIMA[biz / 2].min(if biz % 2 == 1 { 500 } else { u64::MAX });
        let (admitted, lost) = (history.admitted.len() as u64, history.lost.len() as u64);
        let told = format!("b{biz}: {admitted} admitted and {lost} lost of {max}");
        assert!(admitted <= max, "{told}");
        assert!(admitted + lost >= max, "{told}");
    }
}

#[test]
fn nothing_is_over_and_nothing_missing_where_processes_are_killed_all_the_time() {
    killed(&["worker", "keeper", "courier"], 60);
}

#[test]
fn couriers_are_killed_and_every_lease_is_found_again() {
    killed(&["courier"], 40);
}

#[test]
fn a_host_whose_directory_is_deleted_costs_at_most_what_it_held() {
    const MAX: u64 = 10_000;
    let Some(nodes) = Nodes::start() else { return };
    let hosts = Hosts::new(3, &nodes.seeds(), "", &map(&[hour(MAX, "cluster")]));
    let mut servers = hosts.start();
    let addresses = hosts.addresses();
    let load = Load::new(&addresses, 1, Routing::None);
    let histories = load.run(|load| {
        wait_until("some are admitted", || {
            (load.answered.load(Ordering::Relaxed) > 300).then_some(())
        });
        let mut lost = servers.remove(0);
        lost.kill_all_and_wait();
        drop(lost);
        std::fs::remove_dir_all(hosts.setups[0].path("data")).expect("removed");
        servers.insert(0, hosts.setups[0].start());
        load.spend();
    });
    let (admitted, lost) = (histories[0].admitted.len() as u64, histories[0].lost.len() as u64);
    assert!(admitted <= MAX, "{admitted} admitted");
    // A lease is at most max / (2 hosts) beyond what was used; it held one.
    let slice = MAX / 6;
    assert!(admitted + lost + slice >= MAX, "{admitted} admitted and {lost} lost");
}
