//! A client of the library across forks. A child attaches again, the parent's attachment is neither
//! used nor released, and no lock held by a parent's thread blocks the child.
//!
//! A separate program without a harness, because it forks: first with its only thread, then beside
//! threads in the middle of calls.

#[allow(dead_code, unused_imports, reason = "a part of what all tests share")]
#[path = "it/common/mod.rs"]
mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::{Server, Settings, Setup, ZONED_MAP, wait_until};
use frs::{Client, Item};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getpid};

/// The seconds after which a child is ended that waits for a lock of its parent.
const ALARM_S: u32 = 60;

fn main() {
    // As in a harness, a filter selects the tests.
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    if filter.is_some_and(|filter| !"library_fork".contains(&*filter)) {
        return;
    }
    // With a long lock-timeout no key-node is busy, even on a slow machine.
    let http = "lock-timeout=\"10s\"".to_owned();
    let setup = Setup::new(&Settings { http, ..Settings::default() });
    setup.write_map(ZONED_MAP);
    let server = setup.start();
    children_forked_amid_first_calls_of_threads_attach_and_end(&setup);
    let client = Client::attach(setup.path("data")).expect("attached");
    a_child_attaches_anew(&server, &client);
    a_child_that_never_asks_takes_and_releases_nothing(&server, &client);
    a_killed_child_costs_its_parent_nothing(&client);
    children_forked_amid_calls_of_threads_are_answered(&server, &client);
    children_forked_beside_threads_that_attach_and_detach_are_answered(&setup, &client);
    drop(client);
    assert_eq!(programs(&server), []);
    println!("library_fork: ok");
}

fn programs(server: &Server<'_>) -> Vec<Pid> {
    server.attached("program")
}

fn charge(client: &Client, key: &str) -> Option<u64> {
    client.update(Item::new("plenty", key)).expect("charged").used()
}

/// Runs `work` in a forked child, which then ends. Returns the child's id.
#[expect(unsafe_code)]
fn forked(work: impl FnOnce()) -> Pid {
    // SAFETY: if other threads run, the child uses nothing that they may have locked, except the
    // heap and the client. The C library keeps the heap consistent across forks. The client is
    // under test.
    match unsafe { fork() }.expect("forked") {
        ForkResult::Parent { child } => child,
        ForkResult::Child => {
            nix::unistd::alarm::set(ALARM_S);
            let work = std::panic::AssertUnwindSafe(work);
            let done = std::panic::catch_unwind(work);
            // Nothing of the parent is dropped: neither the server nor its directory.
            std::process::exit(if done.is_ok() { 0 } else { 1 });
        }
    }
}

/// The exit status of a child.
fn end_of(child: Pid) -> WaitStatus {
    wait_until("a child ends", || {
        let status = waitpid(child, Some(WaitPidFlag::WNOHANG)).expect("waited");
        (status != WaitStatus::StillAlive).then_some(status)
    })
}

fn expect_done(child: Pid) {
    assert_eq!(end_of(child), WaitStatus::Exited(child, 0));
}

// Shows: one-place-per-process.
fn a_child_attaches_anew(server: &Server<'_>, client: &Client) {
    let parent = getpid();
    assert_eq!((charge(client, "k"), programs(server)), (Some(1), vec![parent]));
    expect_done(forked(|| {
        assert_eq!(charge(client, "k"), Some(2));
        let attached = programs(server);
        assert!(attached.contains(&parent) && attached.contains(&getpid()), "{attached:?}");
        assert_eq!(attached.len(), 2);
        let child = getpid();
        expect_done(forked(|| {
            assert_eq!(charge(client, "k"), Some(3));
            let attached = programs(server);
            assert!([parent, child, getpid()].iter().all(|pid| attached.contains(pid)));
        }));
        assert_eq!(charge(client, "k"), Some(4));
    }));
    assert_eq!((charge(client, "k"), programs(server)), (Some(5), vec![parent]));
}

fn a_child_that_never_asks_takes_and_releases_nothing(server: &Server<'_>, client: &Client) {
    let parent = getpid();
    let own = Client::attach(server.setup.path("data")).expect("attached");
    let mut own = Some(own);
    expect_done(forked(|| {
        assert_eq!(programs(server), [parent, parent]);
        drop(own.take());
        assert_eq!(programs(server), [parent, parent], "they are the parent's");
    }));
    assert_eq!(charge(own.as_ref().expect("the parent's"), "own"), Some(1));
    assert_eq!(programs(server), [parent, parent]);
    drop(own);
    assert_eq!((charge(client, "own"), programs(server)), (Some(2), vec![parent]));
}

fn a_killed_child_costs_its_parent_nothing(client: &Client) {
    let child = forked(|| {
        loop {
            let _ = client.update(Item::new("plenty", "killed"));
        }
    });
    wait_until("the child charges", || {
        let verdict = client.query(Item::new("plenty", "killed")).expect("judged");
        (verdict.used() > Some(1000)).then_some(())
    });
    kill(child, Signal::SIGKILL).expect("killed");
    end_of(child);
    let before = client.query(Item::new("plenty", "killed")).expect("judged").used();
    assert_eq!(charge(client, "killed"), before.map(|used| used + 1));
}

fn children_forked_amid_calls_of_threads_are_answered(server: &Server<'_>, client: &Client) {
    const CHILDREN: u64 = 40;
    let (charged, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    charge(client, "amid");
                    charged.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let children = (0..CHILDREN).map(|_| forked(|| assert!(charge(client, "amid").is_some())));
        children.for_each(expect_done);
        is_over.store(true, Ordering::Relaxed);
    });
    let used = client.query(Item::new("plenty", "amid")).expect("judged").used();
    assert_eq!(used, Some(charged.into_inner() + CHILDREN));
    // While the keeper recovers a slot, it holds the lock of the dead process.
    wait_until("no child is attached", || {
        programs(server).iter().all(|&pid| pid == getpid()).then_some(())
    });
}

/// The number of children that the storms fork.
fn forks() -> u64 {
    std::env::var("FRS_FORKS").map_or(100, |count| count.parse().expect("a number"))
}

/// Attaches, charges and detaches.
fn charge_once(setup: &Setup, key: &str) {
    charge(&Client::attach(setup.path("data")).expect("attached"), key);
}

/// This process has attached to nothing yet. So each child makes the first calls of a process, and
/// forks amid them.
// Shows: forks.
fn children_forked_amid_first_calls_of_threads_attach_and_end(setup: &Setup) {
    for nth in 0..forks() {
        expect_done(forked(|| {
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| charge_once(setup, "first"));
                }
                (0..nth % 64 * 500).for_each(|_| std::hint::spin_loop());
                expect_done(forked(|| charge_once(setup, "first")));
            });
        }));
    }
}

// Shows: forks.
fn children_forked_beside_threads_that_attach_and_detach_are_answered(
    setup: &Setup,
    client: &Client,
) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    charge_once(setup, "beside");
                }
            });
        }
        for nth in 0..forks() {
            expect_done(forked(|| {
                charge_once(setup, "children");
                charge(client, "children");
                if nth % 4 == 0 {
                    expect_done(forked(|| charge_once(setup, "children")));
                }
            }));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let used = client.query(Item::new("plenty", "children")).expect("judged").used();
    assert_eq!(used, Some(2 * forks() + forks().div_ceil(4)));
    let used = client.query(Item::new("plenty", "first")).expect("judged").used();
    assert_eq!(used, Some(3 * forks()));
}
