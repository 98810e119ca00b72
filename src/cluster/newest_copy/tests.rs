//! Starts of a real directory, against a register with the same content as the ledger's function.

use frs_base::testing::SparseCopy;

use super::*;
use crate::incarnation::HostIncarnation;

/// The cluster's record of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Kept(Option<(u64, u64)>);

impl Kept {
    /// Answers as `frs_1_start` does.
    fn ask(&mut self, starts: &Starts) -> bool {
        let is_again = starts.next == starts.known;
        let is_newest = match self.0 {
            None => starts.may_be_missing(),
            Some((start, reports)) => {
                start == starts.known && reports <= starts.reports
                    || start == starts.before
                    || start == starts.next && !is_again && reports == 0
            }
        };
        if is_newest && (is_again || self.0.map(|kept| kept.0) != Some(starts.next)) {
            self.0 = Some((starts.next, if is_again { starts.reports } else { 0 }));
        }
        is_newest
    }
}

/// A directory whose files are replaced in place, as by `cp`.
struct Directory {
    dir: tempfile::TempDir,
    runtime: Runtime,
    lock: MailboxLock,
}

fn cluster() -> ClusterId {
    ClusterId { name: "prod".into(), secret_check: 1 }
}

impl Directory {
    fn new() -> Directory {
        let dir = tempfile::tempdir().expect("a directory");
        let runtime = Runtime::create_or_open(dir.path()).expect("made");
        let lock = runtime.try_lock_mailboxes().expect("tried").expect("free");
        Directory { dir, runtime, lock }
    }

    fn copy(&self) -> SparseCopy {
        SparseCopy::of(&Runtime::path_in(self.dir.path()))
    }

    fn restore(&self, copy: &SparseCopy) {
        copy.write_to(&Runtime::path_in(self.dir.path()));
    }

    fn words(&self) -> HostWords<'_> {
        HostWords::of(&self.runtime, &self.lock)
    }

    fn incarnation(&self) -> u64 {
        let read = HostIncarnation::of(&self.runtime, cluster(), |_| true);
        read.expect("read").now(&self.runtime)
    }

    fn next(&self) -> Starts {
        self.words().next_start(cluster()).expect("drawn")
    }

    /// Sends one message to the cluster. Returns `false` if the directory is an older copy.
    fn report(&self, kept: &mut Kept) -> bool {
        let starts = self.next();
        let is_newest = kept.ask(&starts);
        if is_newest {
            self.words().prove_leases(starts);
        }
        is_newest
    }

    fn start(&self, kept: &mut Kept) -> bool {
        begin(&self.runtime);
        let incarnation = self.incarnation();
        let is_newest = self.report(kept);
        assert_eq!(self.incarnation(), incarnation);
        assert_eq!(are_leases_unproven(&self.runtime), !is_newest);
        is_newest
    }
}

// Shows: older-copies.
#[test]
fn the_newest_directory_keeps_its_leases() {
    let (directory, mut kept) = (Directory::new(), Kept::default());
    let before = directory.incarnation();
    for _ in 0..3 {
        assert!(directory.start(&mut kept));
        assert_eq!(directory.incarnation(), before);
        assert!(directory.report(&mut kept) && directory.report(&mut kept));
    }
    // Killed twice before the answer arrives.
    begin(&directory.runtime);
    let unanswered = directory.next();
    assert!(kept.ask(&unanswered));
    assert_eq!(directory.next(), unanswered, "what the cluster may know is not drawn anew");
    assert!(directory.start(&mut kept), "it has reported this start already");
    // Killed after the repeated message, again before the answer.
    assert!(kept.ask(&directory.next()));
    assert!(directory.start(&mut kept));
    assert_eq!(directory.incarnation(), before);
}

// Shows: older-copies.
#[test]
fn an_older_copy_is_found_out_whatever_was_copied() {
    let (directory, mut kept) = (Directory::new(), Kept::default());
    assert!(directory.start(&mut kept));
    let stopped = directory.copy();
    assert!(directory.start(&mut kept));
    let just_started = directory.copy();
    assert!(directory.report(&mut kept));
    for copy in [stopped, just_started] {
        let newest = directory.copy();
        directory.restore(&copy);
        let before = kept;
        assert!(!directory.start(&mut kept));
        assert_eq!(kept, before, "nothing has changed");
        directory.restore(&newest);
        assert!(directory.start(&mut kept), "the newest is the newest still");
    }
}

// Shows: older-copies.
#[test]
fn a_copy_of_a_start_that_was_not_heard_of_yet_is_older_too() {
    let (directory, mut kept) = (Directory::new(), Kept::default());
    assert!(directory.start(&mut kept));
    begin(&directory.runtime);
    directory.next();
    let copy = directory.copy();
    assert!(directory.report(&mut kept) && directory.report(&mut kept));
    directory.restore(&copy);
    assert!(!directory.start(&mut kept));
}

// Shows: older-copies.
#[test]
fn a_copy_that_serves_beside_its_original_is_found_out_by_both() {
    let (directory, mut kept) = (Directory::new(), Kept::default());
    assert!(directory.start(&mut kept));
    let copy = directory.copy();
    assert!(directory.start(&mut kept));
    let original = directory.copy();
    // The copy knows the last start, but not this one.
    directory.restore(&copy);
    assert!(!directory.report(&mut kept));
    directory.restore(&original);
    assert!(directory.report(&mut kept));
}

// Shows: older-copies.
#[test]
fn a_failover_that_loses_what_was_told_is_no_older_copy() {
    let (directory, mut kept) = (Directory::new(), Kept::default());
    assert!(directory.start(&mut kept));
    let before = kept;
    assert!(directory.report(&mut kept));
    kept = before;
    assert!(directory.report(&mut kept));
    assert!(directory.start(&mut kept));
    kept = before;
    assert!(directory.report(&mut kept), "the start before");
    kept = before;
    assert!(directory.start(&mut kept));
}

// Shows: older-copies.
#[test]
fn what_the_cluster_has_lost_is_told_again_but_proves_no_start() {
    let (directory, mut kept) = (Directory::new(), Kept::default());
    assert!(directory.start(&mut kept));
    kept = Kept::default();
    assert!(directory.report(&mut kept));
    assert!(directory.start(&mut kept));
    kept = Kept::default();
    assert!(!directory.start(&mut kept));
}

#[test]
fn a_stale_incarnation_is_renewed_once_for_all_processes() {
    let (directory, mut kept) = (Directory::new(), Kept::default());
    assert!(directory.start(&mut kept));
    let Directory { dir, runtime, .. } = &directory;
    let other = Runtime::open(dir.path()).expect("opened");
    let read = |runtime: &Runtime| HostIncarnation::of(runtime, cluster(), |_| true).expect("read");
    let (mut ours, mut others) = (read(runtime), read(&other));
    let (before, salt) = (ours.now(runtime), ours.salt);
    assert_eq!(before, others.now(&other));
    let copy = directory.copy();
    // Two answers to messages of one incarnation.
    directory.words().renew_incarnation(salt).expect("drawn");
    let after = others.now(&other);
    directory.words().renew_incarnation(salt).expect("drawn");
    assert_ne!(after, before);
    assert_eq!(ours.now(runtime), after);
    assert_eq!(read(&other).now(&other), after, "it stays after a new start");
    // The cluster does not know the new host yet.
    kept = Kept::default();
    assert!(directory.start(&mut kept));
    directory.restore(&copy);
    directory.words().renew_incarnation(salt).expect("drawn");
    assert_ne!(directory.incarnation(), after, "copies do not become one host");
    // The file is made again in the same place.
    std::fs::remove_file(Runtime::path_in(dir.path())).expect("removed");
    let runtime = Runtime::create_or_open(dir.path()).expect("made");
    assert!(![before, after].contains(&read(&runtime).now(&runtime)));
}

#[test]
fn numbers_of_bindings_outlive_the_courier() {
    let Directory { dir, runtime, lock } = Directory::new();
    assert_eq!([1, 2].map(|_| HostWords::of(&runtime, &lock).next_seq()), [1, 2]);
    drop(lock);
    let next = Runtime::open(dir.path()).expect("opened");
    let lock = next.try_lock_mailboxes().expect("tried").expect("free");
    assert_eq!(HostWords::of(&next, &lock).next_seq(), 3);
}
