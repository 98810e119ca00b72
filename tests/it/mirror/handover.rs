//! A server that is stopped hands its keys over: nothing is admitted beyond the maximum, although
//! clients go to the other machine at once.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::{Machine, machines, start};
use crate::common::load::{UntilDropped, wait_for_more};
use crate::common::{Client, wait_until};

const KEYS: usize = 40;
const MAX: u64 = 40;
const CLIENTS: usize = 4;

/// Clients that use one machine, and the other one as soon as that one turns them away.
struct Clients<'a> {
    machines: &'a [Machine; 2],
    first: usize,
    is_over: AtomicBool,
    answered: AtomicU64,
    admitted: Vec<AtomicU64>,
    /// Requests without an answer, by key.
    unknown: Vec<AtomicU64>,
    used_up: AtomicUsize,
    /// Answers of the machine that is turned to.
    moved: AtomicU64,
}

impl Clients<'_> {
    fn charge(&self, nth: usize) {
        let (mut client, mut at, mut key) = (None, self.first, nth);
        let mut is_used_up = [false; KEYS];
        while !self.is_over.load(Ordering::Relaxed) {
            let Some(mut this): Option<Client> =
                client.take().or_else(|| Client::try_connect(self.machines[at].address()))
            else {
                at = 1 - self.first;
                thread::sleep(Duration::from_millis(1));
                continue;
            };
            key = (key + CLIENTS) % KEYS;
            match this.try_get(&format!("/update?biz=few&key={}-k{key}", self.first)) {
                Ok(answer) => {
                    match answer.status {
                        200 => _ = self.admitted[key].fetch_add(1, Ordering::Relaxed),
                        429 if !is_used_up[key] => {
                            is_used_up[key] = true;
                            self.used_up.fetch_add(1, Ordering::Relaxed);
                        }
                        429 => {}
                        503 => at = 1 - self.first,
                        _ => panic!("{answer:?}"),
                    }
                    if at != self.first {
                        self.moved.fetch_add(1, Ordering::Relaxed);
                    }
                    self.answered.fetch_add(1, Ordering::Relaxed);
                    client = Some(this).filter(|_| !answer.closes());
                }
                Err(_) => _ = self.unknown[key].fetch_add(1, Ordering::Relaxed),
            }
            if client.is_none() {
                at = 1 - self.first;
            }
        }
    }
}

/// Stops a machine under load, and counts what both have admitted.
#[track_caller]
fn hand_over(machines: &[Machine; 2], first: usize) {
    let zeros = || (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let clients = Clients {
        machines,
        first,
        is_over: AtomicBool::new(false),
        answered: AtomicU64::new(0),
        admitted: zeros(),
        unknown: zeros(),
        used_up: AtomicUsize::new(0),
        moved: AtomicU64::new(0),
    };
    thread::scope(|scope| {
        let (ends, clients) = (UntilDropped(&clients.is_over), &clients);
        for nth in 0..CLIENTS {
            scope.spawn(move || clients.charge(nth));
        }
        wait_for_more(&clients.answered, MAX * KEYS as u64 / 3);
        let output = machines[first].setup().frs(&["stop"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        wait_until("all keys are used up", || {
            (clients.used_up.load(Ordering::Relaxed) == KEYS).then_some(())
        });
        drop(ends);
    });
    let load = |counts: &[AtomicU64]| -> Vec<u64> {
        counts.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    };
    let (admitted, unknown) = (load(&clients.admitted), load(&clients.unknown));
    println!(
        "{} admitted, {} unknown, {} answers after the handover",
        admitted.iter().sum::<u64>(),
        unknown.iter().sum::<u64>(),
        clients.moved.load(Ordering::Relaxed)
    );
    for (key, (admitted, unknown)) in admitted.into_iter().zip(unknown).enumerate() {
        let told = format!("k{key}: {admitted} admitted, {unknown} unknown");
        assert!(admitted <= MAX && admitted + unknown >= MAX, "{told}");
    }
    assert!(clients.moved.load(Ordering::Relaxed) > 0, "the stop was late");
}

#[test]
fn a_stop_under_load_admits_exactly_the_maximum() {
    let machines: [Machine; 2] = machines();
    let [mut here, _there] = start(&machines);
    hand_over(&machines, 0);
    here.wait();
    drop(here);
    let _here = machines[0].start();
    machines[0].wait_until_learnt();
    machines[0].wait_until_compared(1);
    hand_over(&machines, 1);
}
