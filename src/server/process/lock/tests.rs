//! The lock between versions, through deaths and handovers.

use super::*;

#[test]
fn a_second_taker_learns_the_firsts_pid() {
    let dir = tempfile::tempdir().expect("a directory");
    assert!(matches!(holder(dir.path()), Err(LockError::Free { .. })));
    let lock = DataLock::take(dir.path()).expect("free");
    let me = std::process::id() as i32;
    assert_eq!(holder(dir.path()).expect("held").as_raw(), me);
    match DataLock::take(dir.path()) {
        Err(LockError::Held { pid, .. }) => assert_eq!(pid, me),
        other => panic!("{other:?}"),
    }
    lock.give_back().expect("emptied");
    assert!(matches!(holder(dir.path()), Err(LockError::Free { .. })));
    DataLock::take(dir.path()).expect("free again");
}

#[test]
fn what_a_killed_masters_children_hold_is_waited_for() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut held = DataLock::take(dir.path()).expect("free");
    let mut ended = std::process::Command::new("true").spawn().expect("it runs");
    ended.wait().expect("ended");
    held.sign(Pid::from_raw(ended.id() as i32)).expect("signed");
    let mut taken = taken_after_100_ms(dir.path(), held);
    taken.sign(Pid::from_raw(ended.id() as i32)).expect("signed");
    let bound = Duration::from_millis(20);
    DataLock::take_within(dir.path(), Duration::MAX, bound).expect_err("not without end");
}

fn taken_after_100_ms(dir: &Path, held: DataLock) -> DataLock {
    let child = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        drop(held);
    });
    let taken = DataLock::take(dir).expect("free in the end");
    child.join().expect("joined");
    taken
}

#[test]
fn a_killed_master_that_is_still_to_be_seen_is_waited_for() {
    let dir = tempfile::tempdir().expect("a directory");
    // Its id is that of a living process, like that of one that has not received its signal yet.
    let held = DataLock::take(dir.path()).expect("free");
    let taken = taken_after_100_ms(dir.path(), held);
    let bound = Duration::from_millis(20);
    DataLock::take_within(dir.path(), bound, Duration::MAX).expect_err("not without end");
    drop(taken);
    let mut zombie = std::process::Command::new("true").spawn().expect("it runs");
    let pid = Pid::from_raw(zombie.id() as i32);
    assert!(!process::is_ending(Pid::this()));
    while !process::is_ending(pid) {
        std::thread::yield_now();
    }
    zombie.wait().expect("ended");
    assert!(process::is_ending(pid), "gone");
}

#[test]
fn a_lock_is_handed_over_by_whatever_name_of_the_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    let [own, link, other] = ["own", "link", "other"].map(|name| dir.path().join(name));
    std::fs::create_dir(&own).expect("made");
    std::fs::create_dir(&other).expect("made");
    std::os::unix::fs::symlink(&own, &link).expect("linked");
    let held = DataLock::take(&link).expect("free");
    let copy = || held.as_fd().try_clone_to_owned().expect("a copy");
    for name in [&own, &link] {
        let lock = DataLock::adopt(copy(), name).expect("it is the one");
        DataLock::take_within(name, Duration::ZERO, Duration::ZERO).expect_err("held");
        drop(lock);
    }
    let foreign = DataLock::adopt(copy(), &other);
    assert!(matches!(foreign, Err(LockError::Foreign { .. })), "{foreign:?}");
    let nowhere = DataLock::adopt(copy(), &dir.path().join("nowhere"));
    assert!(matches!(nowhere, Err(LockError::Foreign { .. })), "{nowhere:?}");
}

#[test]
fn whoever_removes_or_writes_over_the_file_lets_no_second_one_in() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("lock");
    let mut lock = DataLock::take(dir.path()).expect("free");
    let me = Pid::this();
    assert!(!lock.keep_signed().expect("looked at"), "it stands there");
    for damage in ["removed", "emptied", "replaced", "a directory"] {
        match damage {
            "removed" => std::fs::remove_file(&path).expect("removed"),
            "emptied" => File::create(&path).map(drop).expect("emptied"),
            "replaced" => {
                std::fs::write(dir.path().join("other"), "17\n").expect("written");
                std::fs::rename(dir.path().join("other"), &path).expect("renamed");
            }
            _ => {
                std::fs::remove_file(&path).expect("removed");
                std::fs::create_dir(&path).expect("made");
                lock.keep_signed().expect_err("it cannot be written");
            }
        }
        let bound = Duration::from_millis(1);
        match DataLock::take_within(dir.path(), bound, bound) {
            Err(LockError::Held { pid, .. }) if damage == "replaced" => assert_eq!(pid, 17),
            Err(LockError::Held { pid, .. }) => assert_eq!(pid, me.as_raw(), "{damage}"),
            other => panic!("{damage}: {other:?}"),
        }
        if damage == "a directory" {
            assert_eq!(holder(dir.path()).expect("held"), me);
            std::fs::remove_dir(&path).expect("removed");
        }
        assert!(lock.keep_signed().expect("written again"), "{damage}");
        assert!(!lock.keep_signed().expect("looked at"), "{damage}");
        assert_eq!(std::fs::read_to_string(&path).expect("readable"), line_of(me));
        assert_eq!(holder(dir.path()).expect("held"), me);
    }
    lock.give_back().expect("emptied");
    assert!(matches!(holder(dir.path()), Err(LockError::Free { .. })));
}

/// The lock of an earlier version.
fn earlier_lock(dir: &Path) -> File {
    let file = open_file(&path_in(dir)).expect("opened");
    assert!(sys::try_lock_range(&file, 0, 1).expect("asked"));
    file.write_all_at(line_of(Pid::this()).as_bytes(), 0).expect("written");
    file
}

#[test]
fn an_earlier_version_and_this_one_keep_each_other_out() {
    let dir = tempfile::tempdir().expect("a directory");
    let earlier = earlier_lock(dir.path());
    assert_eq!(holder(dir.path()).expect("held"), Pid::this());
    let bound = Duration::from_millis(1);
    DataLock::take_within(dir.path(), bound, bound).expect_err("held by the earlier one");
    let copy = earlier.as_fd().try_clone_to_owned().expect("a copy");
    let lock = DataLock::adopt(copy, dir.path()).expect("handed over");
    drop(earlier);
    assert!(!try_lock(&File::open(dir.path()).expect("there")).expect("asked"));
    let file = File::open(path_in(dir.path())).expect("there");
    assert!(sys::is_range_locked(&file, 0, 1).expect("asked"));
    drop(lock);
    DataLock::take(dir.path()).expect("free");
}

#[test]
fn a_lock_handed_over_stays_held_by_who_has_a_copy() {
    let dir = tempfile::tempdir().expect("a directory");
    let first = DataLock::take(dir.path()).expect("free");
    let copy = || first.as_fd().try_clone_to_owned().expect("a copy");
    let other = tempfile::tempdir().expect("a directory");
    let others = DataLock::take(other.path()).expect("free");
    let error = DataLock::adopt(copy(), other.path()).expect_err("another directory's");
    assert!(error.to_string().contains("<data>"), "{error}");
    let mut second = DataLock::adopt(copy(), dir.path()).expect("the same lock");
    drop(others);
    drop(first);
    DataLock::take(dir.path()).expect_err("held by the second");
    std::fs::write(dir.path().join("lock"), "1234567890\n").expect("written");
    second.sign(Pid::this()).expect("signed");
    assert_eq!(holder(dir.path()).expect("held"), Pid::this());
    second.give_back().expect("emptied");
    let file = File::open(dir.path()).expect("there");
    drop(DataLock::take(dir.path()).expect("free"));
    let taken = DataLock::take(dir.path()).expect("free");
    DataLock::adopt(file.into(), dir.path()).expect_err("not the one that is held");
    drop(taken);
}

#[test]
fn what_a_dead_master_left_is_no_lock() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("lock"), "12345\n").expect("written");
    assert!(matches!(holder(dir.path()), Err(LockError::Free { .. })));
    DataLock::take(dir.path()).expect("free");
}

#[test]
fn only_a_whole_line_is_an_id() {
    assert_eq!(parse("123\n"), Some(Pid::from_raw(123)));
    for text in ["", "12", "-1\n", "0\n", "x\n", "1\n2\n"] {
        assert_eq!(parse(text), None, "{text:?}");
    }
}
