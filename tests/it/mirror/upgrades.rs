//! New binaries take over on machines that mirror records, one after the other, under load.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use super::{Machine, machines};
use crate::common::load::{UntilDropped, wait_for_more};
use crate::life::Life;

const CLIENTS: usize = 4;

#[test]
fn both_machines_are_upgraded_under_load_without_a_failed_request() {
    let machines: [Machine; 2] = machines();
    let lives = machines.each_ref().map(|machine| Life::start(machine.setup()));
    machines.iter().for_each(|machine| machine.wait_until_compared(1));
    let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    // Each client has a key, which only its machine gets.
    let charge = |nth: usize| {
        let machine = &machines[nth % 2];
        let (mut client, mut own) = (machine.client(), 0);
        while !stop.load(Ordering::Relaxed) {
            let answer = client.get(&format!("/update?biz=plenty&key=k{nth}"));
            assert_eq!(answer.status, 200, "{answer:?}");
            own += 1;
            answered.fetch_add(1, Ordering::Relaxed);
            if answer.closes() || nth < CLIENTS / 2 {
                client = machine.client();
            }
        }
        own
    };
    let counts: Vec<u64> = thread::scope(|scope| {
        let ends = UntilDropped(&stop);
        let clients: Vec<_> = (0..CLIENTS).map(|nth| scope.spawn(move || charge(nth))).collect();
        wait_for_more(&answered, 100);
        for life in lives.iter().chain(&lives) {
            let before = life.master();
            assert_ne!(life.upgrade(), before);
            wait_for_more(&answered, 200);
        }
        drop(ends);
        clients.into_iter().map(|client| client.join().expect("no request failed")).collect()
    });
    for machine in &machines {
        for (nth, count) in counts.iter().enumerate() {
            machine.wait_for("plenty", &format!("k{nth}"), *count);
        }
        let log = machine.setup().log();
        assert!(!log.contains("ERROR"), "{log}");
    }
}
