//! Tests of the lock between versions, and across deaths and handovers.

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
    // The id belongs to a living process, like the id of a master that has not received its signal
    // yet.
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

// Shows: one-master.
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

// Shows: one-master.
#[test]
fn whoever_removes_or_writes_over_the_file_lets_no_second_one_in() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("lock");
    let mut lock = DataLock::take(dir.path()).expect("free");
    Runtime::create_or_open(dir.path()).expect("made");
    lock.hold_runtime().expect("free");
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
            Err(LockError::Io { .. }) if damage == "a directory" => {}
            other => panic!("{damage}: {other:?}"),
        }
        assert_eq!(holder(dir.path()).expect("held"), me, "{damage}: whoever the file names");
        if damage == "a directory" {
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

// Shows: readers-stop-nothing.
#[test]
fn a_readers_locks_neither_hold_a_directory_nor_keep_a_master_out() {
    let dir = tempfile::tempdir().expect("a directory");
    drop(DataLock::take(dir.path()).expect("free"));
    // Any reader of the directory can lock it.
    let directory = File::open(dir.path()).expect("there");
    assert!(sys::try_flock(&directory).expect("asked"));
    assert!(matches!(holder(dir.path()), Err(LockError::Free { .. })));
    let mut lock = DataLock::take(dir.path()).expect("the lock is another file's");
    let mode = std::fs::metadata(dir.path().join("lock")).expect("there").mode();
    assert_eq!(mode & 0o7777, FILE_MODE, "so no reader can open it");
    // The text of the file is no proof.
    lock.sign(Pid::this()).expect("signed");
    lock.file.write_all_at(b"1\n", 0).expect("written");
    lock.file.set_len(2).expect("cut");
    assert_eq!(holder(dir.path()).expect("held"), Pid::this());
}

#[test]
fn a_link_to_what_another_program_locks_names_nobody() {
    let dir = tempfile::tempdir().expect("a directory");
    let other = dir.path().join("other.pid");
    let file = open_file(&other).expect("made");
    let bytes = MasterLock::BYTE + 1;
    assert!(sys::try_lock_range(&file, 0, bytes).expect("asked"));
    file.write_all_at(line_of(Pid::this()).as_bytes(), 0).expect("written");
    for path in [path_in(dir.path()), Runtime::path_in(dir.path())] {
        std::os::unix::fs::symlink(&other, &path).expect("linked");
        assert_eq!(proven_holder(dir.path()), None, "a link: {path:?}");
        std::fs::remove_file(&path).expect("removed");
        std::fs::hard_link(&other, &path).expect("linked");
        assert_eq!(proven_holder(dir.path()), None, "a second name: {path:?}");
        std::fs::remove_file(&path).expect("removed");
    }
    std::os::unix::fs::symlink(&other, path_in(dir.path())).expect("linked");
    assert!(matches!(holder(dir.path()), Err(LockError::Free { .. })));
}

#[test]
fn root_gives_away_only_what_is_in_a_directory_of_the_accounts() {
    if !frs_base::testing::is_root() {
        return;
    }
    let Some(user) = nix::unistd::User::from_name("nobody").ok().flatten() else { return };
    let account = Account::find("nobody").expect("there").expect("of root");
    let dir = tempfile::tempdir().expect("a directory");
    let [own, roots, link] = ["own", "roots", "link"].map(|name| dir.path().join(name));
    let owner = |dir: &Path| std::fs::metadata(path_in(dir)).expect("there").uid();
    for dir in [&own, &roots] {
        std::fs::create_dir(dir).expect("made");
        drop(open_file(&path_in(dir)).expect("made"));
    }
    let uid = user.uid.as_raw();
    std::os::unix::fs::chown(&own, Some(uid), None).expect("given");
    std::os::unix::fs::symlink(&roots, &link).expect("linked");
    for dir in [&roots, &link] {
        give_file(dir, &account).expect("looked at");
        assert_eq!(owner(&roots), 0);
    }
    give_file(&own, &account).expect("given");
    assert_eq!(owner(&own), uid);
}

/// The locks of an earlier version, on the directory and on the file.
fn earlier_locks(dir: &Path) -> [File; 2] {
    let (directory, file) =
        (File::open(dir).expect("there"), open_file(&path_in(dir)).expect("opened"));
    assert!(sys::try_flock(&directory).expect("asked"));
    assert!(sys::try_lock_range(&file, LOCK_BYTE, 1).expect("asked"));
    file.write_all_at(line_of(Pid::this()).as_bytes(), 0).expect("written");
    [directory, file]
}

// Shows: one-master.
#[test]
fn an_earlier_version_and_this_one_keep_each_other_out() {
    let dir = tempfile::tempdir().expect("a directory");
    let [directory, file] = earlier_locks(dir.path());
    assert_eq!(holder(dir.path()).expect("held"), Pid::this());
    let bound = Duration::from_millis(1);
    DataLock::take_within(dir.path(), bound, bound).expect_err("held by the earlier one");
    // The earlier version hands over the directory, and holds the file until it ends.
    let copy = directory.as_fd().try_clone_to_owned().expect("a copy");
    let mut lock = DataLock::adopt(copy, dir.path()).expect("handed over");
    lock.keep_signed().expect("looked at");
    assert!(lock.directory.is_some(), "the earlier one still has the file");
    drop([directory, file]);
    DataLock::take_within(dir.path(), bound, bound).map(drop).ok();
    lock.keep_signed().expect("signed");
    assert!(lock.directory.is_none(), "the file is locked");
    DataLock::take_within(dir.path(), bound, bound).expect_err("held by this one");
    drop(lock);
    let [directory, file] = earlier_locks(dir.path());
    drop([directory, file]);
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
    let file = open_file(&path_in(dir.path())).expect("there");
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

// Shows: lock-without-descriptors.
#[test]
fn a_master_that_can_open_no_more_files_knows_that_the_file_names_it() {
    const CHILD: &str = "FRS_TEST_FEW_FILES";
    const TEST: &str = "a_master_that_can_open_no_more_files_knows_that_the_file_names_it";
    if std::env::var_os(CHILD).is_some() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut lock = DataLock::take(dir.path()).expect("free");
        let open = std::iter::from_fn(|| File::open("/dev/null").ok());
        let all: Vec<File> = open.collect();
        let is_written = lock.keep_signed();
        drop(all);
        assert!(!is_written.expect("looked at"), "it names this process");
        return;
    }
    let done = std::process::Command::new("sh")
        .args(["-c", "ulimit -n 64 && exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().expect("this program"))
        .args([&format!("process::data_lock::tests::{TEST}"), "--exact"])
        .env(CHILD, "1")
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.contains("1 passed"), "{said}");
}
