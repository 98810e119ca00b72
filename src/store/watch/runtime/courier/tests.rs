//! The courier's side of a real runtime.mmap, with a second process where death matters.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use frs_base::testing::SparseCopy;
use frs_conf::key::KeyRef;
use nix::sys::signal::Signal;

use super::*;
use crate::file::layout::slot::WANTS;
use crate::watch::mailbox::queue::WantQueue;
use crate::watch::mailbox::want::{Want, WantKind, WantResult};
use crate::{Handle, ROLE_PROGRAM};

fn opened() -> (tempfile::TempDir, Runtime) {
    let dir = tempfile::tempdir().expect("a directory");
    let runtime = Runtime::create_or_open(dir.path()).expect("made");
    (dir, runtime)
}

fn attached(dir: &Path) -> Handle {
    let mut handle = Handle::attach(dir, dir, ROLE_PROGRAM).expect("attached");
    handle.open_wants(OwnerBell::Futex).expect("room");
    handle
}

fn want(need: u64) -> Want {
    let words = [0x6b65_7931, 0];
    let key = KeyRef::from_stored(&words, 4, 0).expect("a key");
    Want { need, ..Want::of_key(WantKind::Update, 7, key) }
}

#[test]
fn one_courier_serves_at_a_time() {
    let (dir, runtime) = opened();
    let other = Runtime::open(dir.path()).expect("opened");
    let held = runtime.try_lock_courier().expect("tried").expect("free");
    assert!(runtime.is_courier_locked().expect("looked"));
    assert!(other.try_lock_courier().expect("tried").is_none(), "another has it");
    assert!(runtime.try_lock_courier().expect("tried").is_none(), "this one has it");
    drop(held);
    assert!(!other.is_courier_locked().expect("looked"));
    assert!(other.try_lock_courier().expect("tried").is_some());
}

#[test]
fn no_lock_is_taken_of_a_file_that_replaced_ours() {
    let (_dir, runtime) = opened();
    let copy = runtime.path().with_extension("copy");
    SparseCopy::of(runtime.path()).write_to(&copy);
    std::fs::rename(&copy, runtime.path()).expect("renamed");
    let error = runtime.try_lock_courier().expect_err("another file").to_string();
    assert!(error.contains("device and inode: found "), "{error}");
}

#[test]
fn numbers_of_bindings_outlive_the_courier() {
    let (dir, runtime) = opened();
    let first = runtime.try_lock_courier().expect("tried").expect("free");
    assert_eq!([1, 2].map(|_| runtime.next_host_seq(&first)), [1, 2]);
    drop(first);
    let next = Runtime::open(dir.path()).expect("opened");
    let lock = next.try_lock_courier().expect("tried").expect("free");
    assert_eq!(next.next_host_seq(&lock), 3);
}

#[test]
fn a_handle_without_a_cluster_has_no_ring() {
    let (dir, runtime) = opened();
    let handle = Handle::attach(dir.path(), dir.path(), ROLE_PROGRAM).expect("attached");
    assert!(handle.wants().is_none());
    assert_eq!(runtime.open_rings().count(), 0);
}

#[test]
fn a_ring_takes_so_many_wants_and_hears_what_became_of_each() {
    let (dir, runtime) = opened();
    let handle = attached(dir.path());
    let wants = handle.wants().expect("open");
    let tickets: Vec<_> = (0..WANTS as u64).map(|n| wants.push(&want(n)).expect("room")).collect();
    assert!(wants.push(&want(0)).is_err(), "full");
    let slots: Vec<u32> = runtime.asking().take().collect();
    assert_eq!((slots.len(), runtime.open_rings().collect::<Vec<_>>()), (1, slots.clone()));
    let (slot, mut queue) = (slots[0], WantQueue::default());
    for (n, ticket) in tickets.iter().enumerate() {
        let taken = queue.take_next(runtime.slot(slot)).expect("asked");
        assert_eq!((taken.ticket, taken.want), (*ticket, want(n as u64)));
        assert!(WantQueue::finish(runtime.slot(slot), taken.ticket, WantResult::Answered));
    }
    assert_eq!((queue.take_next(runtime.slot(slot)), queue.damaged()), (None, 0));
    assert!(!runtime.ring_owner(slot, None), "it is awake");
    wants.bell().lie_down();
    assert!(runtime.ring_owner(slot, None));
    assert!(tickets.iter().all(|&ticket| wants.poll(ticket) == Some(WantResult::Answered)));
    wants.push(&want(0)).expect("free again");
}

#[test]
fn threads_lie_by_one_bell_until_the_last_is_up_or_the_slot_is_given_back() {
    let (dir, runtime) = opened();
    let handle = attached(dir.path());
    let slot = runtime.open_rings().next().expect("open");
    let bell = handle.shared_bell().expect("one for threads").clone();
    let (first, second) = (bell.lie_down(), bell.lie_down());
    drop(first);
    assert!(runtime.ring_owner(slot, None), "one still lies there");
    drop(second);
    assert!(!runtime.ring_owner(slot, None));
    let long = std::time::Duration::from_secs(60);
    let begun = std::time::Instant::now();
    let lying = bell.lie_down();
    drop(handle);
    lying.sleep(long);
    let late = bell.lie_down();
    late.sleep(long);
    assert!(begun.elapsed() < long, "nobody will call");
    assert!(!runtime.ring_owner(slot, None));
    // The slot belongs to another owner now, so this bell is no longer its bell.
    let heir = attached(dir.path());
    let heirs = heir.shared_bell().expect("one for threads").lie_down();
    drop((lying, late));
    assert!(runtime.ring_owner(slot, None));
    drop(heirs);
}

#[test]
fn a_worker_is_called_by_its_eventfd() {
    let (dir, runtime) = opened();
    let mut handle = Handle::attach(dir.path(), dir.path(), 1).expect("attached");
    handle.open_wants(OwnerBell::Event).expect("room");
    let slot = runtime.open_rings().next().expect("open");
    let events = [EventBell::new().expect("made"), EventBell::new().expect("made")];
    handle.wants().expect("open").bell().lie_down();
    assert!(runtime.ring_owner(slot, Some(&events[1])));
    assert_eq!(events.map(|event| event.drain().expect("read")), [false, true]);
    assert!(!runtime.ring_owner(slot, None), "no bell is no panic");
}

/// The directory of the process that is killed.
const DIR: &str = "FRS_TEST_WANTS_DIR";

/// Not a test: an owner, and a courier that is killed among its wants.
#[test]
#[ignore = "a program that the_dead_leave_no_lock_and_no_want starts"]
fn victim() {
    let dir = std::path::PathBuf::from(std::env::var_os(DIR).expect("started by the test"));
    let handle = attached(&dir);
    let wants = handle.wants().expect("open");
    (0..5).for_each(|need| assert!(wants.push(&want(need)).is_ok()));
    let runtime = Runtime::open(&dir).expect("opened");
    let _lock = runtime.try_lock_courier().expect("tried").expect("free");
    let slot = runtime.open_rings().next().expect("open");
    WantQueue::default().take_next(runtime.slot(slot)).expect("asked");
    nix::sys::signal::raise(Signal::SIGKILL).expect("killed");
}

#[test]
fn the_dead_leave_no_lock_and_no_want() {
    let (dir, runtime) = opened();
    let status = std::process::Command::new(std::env::current_exe().expect("this program"))
        .args(["--ignored", "--exact", "watch::runtime::courier::tests::victim"])
        .env(DIR, dir.path())
        .stdout(std::process::Stdio::null())
        .status()
        .expect("run");
    assert_eq!(status.signal(), Some(Signal::SIGKILL as i32));
    let lock = runtime.try_lock_courier().expect("tried");
    assert!(lock.is_some(), "it died with its process");
    // No owner has taken over the dead owner's slot yet: all five wants are found, also the one
    // that was taken.
    let (slot, mut queue) = (runtime.open_rings().next().expect("open"), WantQueue::default());
    let needs = std::iter::from_fn(|| queue.take_next(runtime.slot(slot)).map(|t| t.want.need));
    assert_eq!(needs.collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    let handle = attached(dir.path());
    assert_eq!(runtime.open_rings().collect::<Vec<_>>(), [slot], "the same slot, recovered");
    let mut queue = WantQueue::default();
    assert_eq!(queue.take_next(runtime.slot(slot)), None, "cleared");
    let wants = handle.wants().expect("open");
    (0..WANTS as u64).for_each(|need| assert!(wants.push(&want(need)).is_ok(), "room for all"));
}
