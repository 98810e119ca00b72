//! Clients of the library beside a server that is reloaded, stopped and killed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use frs::{AttachError, Client, Error, Item};
use nix::sys::signal::{Signal, kill};

use super::setup_of;
use crate::common::load::UntilDropped;
use crate::common::{self, Server, wait_until};

fn used(client: &Client, key: &str) -> Option<u64> {
    client.query(Item::new("plenty", key)).expect("answered").used()
}

/// The number of slots held by programs, by `frs status`.
fn places(server: &Server<'_>) -> usize {
    server.attached("program").len()
}

#[test]
fn a_client_counts_with_the_server_and_gives_its_places_back() {
    let setup = setup_of(common::MAP);
    let server = setup.start();
    let client = Client::attach(setup.path("data")).expect("attached");
    server.client().charge("plenty", "k", 5);
    assert_eq!(client.update(Item::new("plenty", "k").count(2)).expect("charged").used(), Some(7));
    server.client().charge("plenty", "k", 1);
    assert_eq!(used(&client, "k"), Some(8));
    let other = Client::attach(setup.path("data")).expect("attached");
    assert_eq!((used(&other, "k"), places(&server)), (Some(8), 2));
    drop((client, other));
    assert_eq!(places(&server), 0);
}

#[test]
fn threads_of_a_client_and_clients_of_the_server_admit_exactly_what_is_allowed() {
    let setup = setup_of(&common::MAP.replace("1000000", "1000"));
    let server = setup.start();
    let client = Client::attach(setup.path("data")).expect("attached");
    let admitted = AtomicU64::new(0);
    let count = |is_allowed: bool| admitted.fetch_add(is_allowed.into(), Ordering::Relaxed);
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| {
                for _ in 0..100 {
                    let verdict = client.update(Item::new("plenty", "all")).expect("judged");
                    count(verdict.is_allowed());
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                let mut client = server.client();
                for _ in 0..100 {
                    count(client.get("/update?biz=plenty&key=all").status == 200);
                }
            });
        }
    });
    assert_eq!(admitted.into_inner(), 1000);
    assert_eq!(used(&client, "all"), Some(1000));
}

#[test]
fn a_client_outlives_servers_that_end_and_servers_that_are_killed() {
    let setup = setup_of(common::MAP);
    let mut server = setup.start();
    let client = Client::attach(setup.path("data")).expect("attached");
    let charge = || client.update(Item::new("plenty", "k")).map(|verdict| verdict.used());
    assert_eq!(charge().expect("charged"), Some(1));

    // The files still exist, so the client continues without a server.
    assert_eq!(setup.frs(&["stop"]).status.code(), Some(0));
    server.wait();
    drop(server);
    assert_eq!(charge().expect("charged"), Some(2));
    let mut server = setup.start();
    assert_eq!(charge().expect("charged"), Some(3));
    server.kill_all();
    drop(server);
    assert_eq!(charge().expect("charged"), Some(4));
    let mut server = setup.start();
    server.client().charge("plenty", "k", 1);
    assert_eq!((charge().expect("charged"), places(&server)), (Some(6), 1));

    // A server that ends while no process is attached leaves nothing to attach to.
    drop(client);
    assert_eq!(setup.frs(&["stop"]).status.code(), Some(0));
    server.wait();
    let error = Client::attach(setup.path("data")).expect_err("nobody serves");
    assert!(matches!(error, AttachError::NoServer { .. }), "{error}");
}

#[test]
fn a_client_attaches_anew_to_files_that_were_made_anew() {
    let setup = setup_of(common::MAP);
    let mut server = setup.start();
    let client = Client::attach(setup.path("data")).expect("attached");
    let charge = || client.update(Item::new("plenty", "k")).map(|verdict| verdict.used());
    assert_eq!(charge().expect("charged"), Some(1));
    std::fs::remove_file(setup.path("data/runtime.mmap")).expect("removed");
    assert_eq!(server.wait().code(), Some(1));
    drop(server);
    for _ in 0..3 {
        let error = charge().expect_err("nobody serves");
        assert!(matches!(error, Error::Attach(AttachError::NoServer { .. })), "{error}");
    }
    let server = setup.start();
    assert_eq!(charge().expect("charged"), Some(2));
    server.client().charge("plenty", "k", 1);
    assert_eq!((used(&client, "k"), places(&server)), (Some(3), 1));
}

#[test]
fn a_client_in_full_use_sees_no_reload_and_no_death() {
    let setup = setup_of(common::MAP);
    let server = setup.start();
    let client = Client::attach(setup.path("data")).expect("attached");
    let (charged, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let ends = UntilDropped(&is_over);
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let verdict = client.update(Item::new("plenty", "k"));
                    assert!(verdict.expect("judged").is_allowed());
                    charged.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        setup.write_map(&common::MAP.replace("three", "four"));
        assert_eq!(setup.frs(&["reload"]).status.code(), Some(0));
        let workers = server.wait_for_workers(2);
        workers.iter().for_each(|&worker| kill(worker, Signal::SIGKILL).expect("killed"));
        wait_until("the workers are replaced", || {
            let now = server.workers();
            (now.len() == 2 && !now.iter().any(|pid| workers.contains(pid))).then_some(())
        });
        drop(ends);
    });
    assert_eq!(used(&client, "k"), Some(charged.into_inner()));
    // The client knows the new names too.
    assert!(client.query(Item::new("four", "k")).expect("judged").is_allowed());
    assert!(client.query(Item::new("three", "k")).is_err());
}
