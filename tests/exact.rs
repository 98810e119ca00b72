//! Exactly M uses are admitted where M are allowed, by whichever workers they are asked of.

mod common;

use std::thread;

use common::{Client, Settings, Setup};
use nix::sys::signal::{Signal, kill};

const MAX: usize = 500;
const CLIENTS: usize = 8;

fn setup() -> Setup {
    let setup = Setup::new(&Settings { workers: 4, ..Settings::default() });
    setup.write_map(&common::MAP.replace("max=\"3\"", &format!("max=\"{MAX}\"")));
    setup
}

#[test]
fn many_workers_admit_exactly_max() {
    let setup = setup();
    let server = setup.start();
    server.wait_for_workers(4);
    let admitted: usize = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                scope.spawn(|| {
                    let mut admitted = 0;
                    for _ in 0..2 * MAX / CLIENTS {
                        // Anew each time: any worker may be asked.
                        let answer = server.client().get("/update?biz=three&key=hot");
                        assert!(matches!(answer.status, 200 | 429), "{answer:?}");
                        admitted += usize::from(answer.status == 200);
                    }
                    admitted
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().expect("no request failed")).sum()
    });
    assert_eq!(admitted, MAX);
}

/// Of a use whose answer died with its worker nobody knows; but no more than max are ever charged.
#[test]
fn no_more_than_max_are_admitted_while_workers_are_killed() {
    let setup = setup();
    let server = setup.start();
    server.wait_for_workers(4);
    let (admitted, unknown) = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                scope.spawn(|| {
                    let (mut admitted, mut unknown) = (0, 0);
                    loop {
                        let answer = Client::try_connect(setup.address).and_then(|mut client| {
                            client.try_get("/update?biz=three&key=hot").ok()
                        });
                        match answer.map(|answer| answer.status) {
                            Some(200) => admitted += 1,
                            Some(429) => return (admitted, unknown),
                            // Its key-node's holder has just died.
                            Some(503) => {}
                            Some(other) => panic!("status {other}"),
                            None => unknown += 1,
                        }
                        assert!(unknown < 10_000, "nobody serves");
                    }
                })
            })
            .collect();
        let mut killed = Vec::new();
        for _ in 0..5 {
            // One that has just died may be shown still: its slot's lock falls a little later.
            let workers = server.wait_for_workers(4);
            let worker = workers.into_iter().find(|pid| !killed.contains(pid)).expect("a live one");
            kill(worker, Signal::SIGKILL).expect("killed");
            killed.push(worker);
        }
        let sums = clients.into_iter().map(|client| client.join().expect("no panic"));
        sums.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    });
    assert!(
        admitted <= MAX && admitted + unknown >= MAX,
        "{admitted}, {unknown} without an answer"
    );
}
