//! The mailboxes of a real runtime.mmap, with a second process where death matters.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use frs_base::testing::SparseCopy;
use nix::sys::signal::Signal;

use super::*;
use crate::file::layout::slot::{LETTER_TAIL_WORDS, LETTERS};
use crate::watch::mailbox::letter::{Letter, Reply};
use crate::watch::mailbox::queue::LetterQueue;
use crate::{Handle, ROLE_PROGRAM};

fn opened() -> (tempfile::TempDir, Runtime) {
    let dir = tempfile::tempdir().expect("a directory");
    let runtime = Runtime::create_or_open(dir.path()).expect("made");
    (dir, runtime)
}

fn attached(dir: &Path) -> Handle {
    let mut handle = Handle::attach(dir, dir, ROLE_PROGRAM).expect("attached");
    handle.open_mailbox(OwnerBell::Futex).expect("room");
    handle
}

fn letter(number: u64) -> Letter {
    let mut tail = [0; LETTER_TAIL_WORDS];
    tail[0] = 0x6b65_7931;
    Letter { kind: 2, head: [4 << 32, 0, number, 0, 0], tail }
}

const REPLY: Reply = Reply::of_number(1).expect("a reply");

#[test]
fn one_reader_serves_at_a_time() {
    let (dir, runtime) = opened();
    let other = Runtime::open(dir.path()).expect("opened");
    let held = runtime.try_lock_mailboxes().expect("tried").expect("free");
    assert!(runtime.are_mailboxes_locked().expect("looked"));
    assert!(other.try_lock_mailboxes().expect("tried").is_none(), "another has it");
    assert!(runtime.try_lock_mailboxes().expect("tried").is_none(), "this one has it");
    drop(held);
    assert!(!other.are_mailboxes_locked().expect("looked"));
    assert!(other.try_lock_mailboxes().expect("tried").is_some());
}

#[test]
fn no_lock_is_taken_of_a_file_that_replaced_ours() {
    let (_dir, runtime) = opened();
    let copy = runtime.path().with_extension("copy");
    SparseCopy::of(runtime.path()).write_to(&copy);
    std::fs::rename(&copy, runtime.path()).expect("renamed");
    let error = runtime.try_lock_mailboxes().expect_err("another file").to_string();
    assert!(error.contains("device and inode: found "), "{error}");
}

#[test]
fn a_handle_has_no_ring_before_it_opens_its_mailbox() {
    let (dir, runtime) = opened();
    let handle = Handle::attach(dir.path(), dir.path(), ROLE_PROGRAM).expect("attached");
    assert!(handle.mailbox().is_none());
    assert_eq!(runtime.open_rings().count(), 0);
}

#[test]
fn a_ring_takes_so_many_letters_and_gets_the_reply_to_each() {
    let (dir, runtime) = opened();
    let handle = attached(dir.path());
    let mailbox = handle.mailbox().expect("open");
    let tickets: Vec<_> =
        (0..LETTERS as u64).map(|n| mailbox.push(&letter(n)).expect("room")).collect();
    assert!(mailbox.push(&letter(0)).is_err(), "full");
    let slots: Vec<u32> = runtime.asking().take().collect();
    assert_eq!((slots.len(), runtime.open_rings().collect::<Vec<_>>()), (1, slots.clone()));
    let (slot, mut queue) = (slots[0], LetterQueue::default());
    for (n, ticket) in tickets.iter().enumerate() {
        let taken = queue.take_next(runtime.slot(slot)).expect("pushed");
        assert_eq!((taken.ticket, taken.letter), (*ticket, letter(n as u64)));
        assert!(LetterQueue::reply(runtime.slot(slot), taken.ticket, REPLY));
    }
    assert_eq!((queue.take_next(runtime.slot(slot)), queue.damaged()), (None, 0));
    assert!(!runtime.ring_owner(slot, None), "it is awake");
    mailbox.bell().lie_down();
    assert!(runtime.ring_owner(slot, None));
    assert!(tickets.iter().all(|&ticket| mailbox.poll(ticket) == Some(REPLY)));
    mailbox.push(&letter(0)).expect("free again");
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
    handle.open_mailbox(OwnerBell::Event).expect("room");
    let slot = runtime.open_rings().next().expect("open");
    let events = [EventBell::new().expect("made"), EventBell::new().expect("made")];
    handle.mailbox().expect("open").bell().lie_down();
    assert!(runtime.ring_owner(slot, Some(&events[1])));
    assert_eq!(events.map(|event| event.drain().expect("read")), [false, true]);
    assert!(!runtime.ring_owner(slot, None), "no bell is no panic");
}

/// The directory of the process that is killed.
const DIR: &str = "FRS_TEST_MAILBOX_DIR";

/// Not a test: an owner, and a reader that is killed among its letters.
#[test]
#[ignore = "a program that the_dead_leave_no_lock_and_no_letter starts"]
fn victim() {
    let dir = std::path::PathBuf::from(std::env::var_os(DIR).expect("started by the test"));
    let handle = attached(&dir);
    let mailbox = handle.mailbox().expect("open");
    (0..5).for_each(|number| assert!(mailbox.push(&letter(number)).is_ok()));
    let runtime = Runtime::open(&dir).expect("opened");
    let _lock = runtime.try_lock_mailboxes().expect("tried").expect("free");
    let slot = runtime.open_rings().next().expect("open");
    LetterQueue::default().take_next(runtime.slot(slot)).expect("pushed");
    nix::sys::signal::raise(Signal::SIGKILL).expect("killed");
}

#[test]
fn the_dead_leave_no_lock_and_no_letter() {
    let (dir, runtime) = opened();
    let status = std::process::Command::new(std::env::current_exe().expect("this program"))
        .args(["--ignored", "--exact", "watch::runtime::mailboxes::tests::victim"])
        .env(DIR, dir.path())
        .stdout(std::process::Stdio::null())
        .status()
        .expect("run");
    assert_eq!(status.signal(), Some(Signal::SIGKILL as i32));
    let lock = runtime.try_lock_mailboxes().expect("tried");
    assert!(lock.is_some(), "it died with its process");
    // No owner has taken the dead owner's slot over yet: all five letters are found, also the one
    // that was taken.
    let (slot, mut queue) = (runtime.open_rings().next().expect("open"), LetterQueue::default());
    let numbers =
        std::iter::from_fn(|| queue.take_next(runtime.slot(slot)).map(|t| t.letter.head[2]));
    assert_eq!(numbers.collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    let handle = attached(dir.path());
    assert_eq!(runtime.open_rings().collect::<Vec<_>>(), [slot], "the same slot, recovered");
    let mut queue = LetterQueue::default();
    assert_eq!(queue.take_next(runtime.slot(slot)), None, "cleared");
    let mailbox = handle.mailbox().expect("open");
    (0..LETTERS as u64)
        .for_each(|number| assert!(mailbox.push(&letter(number)).is_ok(), "room for all"));
}
