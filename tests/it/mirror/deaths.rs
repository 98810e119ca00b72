//! Processes that are killed at any moment, while each key is used on one machine: exactly the
//! maximum of each key is admitted.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use nix::sys::signal::{Signal, kill};

use super::{Machine, machines, start};
use crate::cluster::hosts::Random;
use crate::common::load::{UntilDropped, wait_for_more};
use crate::common::{Client, wait_until};

const MAX: u64 = 250;
const KEYS: usize = 16;
const CLIENTS: u64 = 6;
/// Answers between two kills.
const BETWEEN_KILLS: u64 = 60;
/// Kills of one master's processes: each death in a row makes it wait longer.
const KILLS_OF_A_MASTER: usize = 6;
const ROLES: [&str; 4] = ["courier", "worker", "keeper", "courier"];

/// Uses a key once, however often it takes. Returns whether the use was admitted.
fn charge(client: &mut Option<Client>, machine: &Machine, key: usize, id: &str) -> bool {
    let target = format!("/update?biz=exact&key=k{key}&once={id}");
    wait_until("a use is answered", || {
        let mut this = client.take().or_else(|| Client::try_connect(machine.address()))?;
        let answer = this.try_get(&target).ok()?;
        if !answer.closes() {
            *client = Some(this);
        }
        match answer.status {
            200 => Some(true),
            429 => Some(false),
            503 => None,
            _ => panic!("{answer:?}"),
        }
    })
}

#[test]
fn exactly_the_maximum_is_admitted_whoever_is_killed() {
    let machines: [Machine; 2] = machines();
    let mut servers = start(&machines);
    let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    let admitted: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let is_used_up: Vec<AtomicBool> = (0..KEYS).map(|_| AtomicBool::new(false)).collect();
    let use_keys = |seed: u64| {
        let mut random = Random::new(seed);
        let (mut clients, mut ids) = ([None, None], 0);
        while !stop.load(Ordering::Relaxed) {
            let key = random.below(KEYS);
            let at = key % 2;
            ids += 1;
            let id = format!("{seed}-{ids}");
            match charge(&mut clients[at], &machines[at], key, &id) {
                true => _ = admitted[key].fetch_add(1, Ordering::Relaxed),
                false => is_used_up[key].store(true, Ordering::Relaxed),
            }
            answered.fetch_add(1, Ordering::Relaxed);
        }
    };
    let kills = thread::scope(|scope| {
        let ends = UntilDropped(&stop);
        (0..CLIENTS).for_each(|seed| _ = scope.spawn(move || use_keys(seed)));
        let mut kills = 0;
        while !is_used_up.iter().all(|is_used_up| is_used_up.load(Ordering::Relaxed)) {
            wait_for_more(&answered, BETWEEN_KILLS);
            let (at, role) = (kills % 2, ROLES[kills / 2 % ROLES.len()]);
            let pid =
                wait_until("such a process lives", || servers[at].attached(role).first().copied());
            let _ = kill(pid, Signal::SIGKILL);
            kills += 1;
            if kills % (2 * KILLS_OF_A_MASTER) < 2 {
                servers[at].kill_all_and_wait();
                servers[at] = machines[at].start();
            }
        }
        drop(ends);
        kills
    });
    println!("{kills} kills, {} answers", answered.load(Ordering::Relaxed));
    assert!(kills >= 2 * KILLS_OF_A_MASTER, "{kills}");
    let admitted: Vec<u64> = admitted.iter().map(|count| count.load(Ordering::Relaxed)).collect();
    assert_eq!(admitted, [MAX; KEYS]);
    for machine in &machines {
        (0..KEYS).for_each(|key| machine.wait_for("exact", &format!("k{key}"), MAX));
    }
}
