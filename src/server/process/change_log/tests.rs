//! Tests of the log of changes: ids, outcomes, torn lines, full files and full disks.

use super::*;
use std::os::unix::fs::PermissionsExt;

struct Log {
    dir: tempfile::TempDir,
    log: ChangeLog,
}

impl Log {
    fn new() -> Log {
        let dir = tempfile::tempdir().unwrap();
        let log = ChangeLog::new(dir.path(), Duration::ZERO);
        Log { dir, log }
    }

    /// Reopens the log as after the death of its process.
    fn reopen(&mut self) {
        self.log = ChangeLog::new(self.dir.path(), Duration::ZERO);
    }

    fn begin(&mut self, new: &str) -> u64 {
        let author = Author { who: "alice".into(), peer: Some("127.0.0.1:9".into()) };
        let subject = Subject {
            new: Some(new.to_owned()),
            old: Some("<biz name=\"a\"/>\n".into()),
            ..Subject::of(ChangeKind::Biz, Some("a".into()))
        };
        self.log.begin(&author, &[subject]).unwrap()[0]
    }

    fn make(&mut self, new: &str) -> u64 {
        let id = self.begin(new);
        self.log.conclude(&[id], &ChangeOutcome::Done.into());
        id
    }

    fn list(&self) -> Vec<LoggedChange> {
        list(self.dir.path(), u64::MAX, 1000, usize::MAX).unwrap()
    }

    fn ids(&self) -> Vec<u64> {
        self.list().iter().map(|change| change.id).collect()
    }

    fn text(&self) -> String {
        fs::read_to_string(path_in(self.dir.path())).unwrap()
    }
}

#[test]
fn what_was_made_is_listed_newest_first_and_by_pages() {
    let mut log = Log::new();
    assert!(log.list().is_empty());
    for nth in 1..=200 {
        assert_eq!(log.make(&format!("\"{nth}\"\n<&\u{2028}")), nth);
    }
    let all = log.list();
    let first = &all[199];
    assert_eq!((first.id, &*first.who, first.kind), (1, "alice", ChangeKind::Biz));
    assert_eq!(first.peer.as_deref(), Some("127.0.0.1:9"));
    assert_eq!(first.target.as_deref(), Some("a"));
    assert_eq!(first.old.as_deref(), Some("<biz name=\"a\"/>\n"));
    assert_eq!(first.new.as_deref(), Some("\"1\"\n<&\u{2028}"));
    assert!(first.time.len() == "2026-11-22T12:00:00.123Z".len() && first.time.ends_with('Z'));
    let (mut before, mut paged) = (u64::MAX, Vec::new());
    loop {
        let page = list(log.dir.path(), before, 30, usize::MAX).unwrap();
        let Some(last) = page.last() else { break };
        before = last.id;
        paged.extend(page);
    }
    assert_eq!(paged, all);
    assert_eq!(log.ids(), (1..=200).rev().collect::<Vec<_>>());
    assert_eq!(find(log.dir.path(), 77).unwrap().unwrap().id, 77);
    assert_eq!(find(log.dir.path(), 201).unwrap(), None);
    let few = list(log.dir.path(), u64::MAX, 1000, 50).unwrap();
    assert_eq!(few.len(), 2, "the one that goes beyond the bound is the last");
    assert_eq!(fs::metadata(path_in(log.dir.path())).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn only_what_took_effect_is_listed() {
    let mut log = Log::new();
    let failed = log.begin("failed");
    log.log.conclude(&[failed], &ChangeOutcome::Failed.into());
    let made = log.begin("made");
    log.begin("in progress");
    let conclusion = Conclusion { old: Some("was".into()), ..ChangeOutcome::Done.into() };
    log.log.conclude(&[made], &conclusion);
    let signal = Subject::of(ChangeKind::Reload, None);
    log.log.note_made(&Author::named("signal"), &signal).unwrap();
    assert_eq!(log.ids(), [4, 2]);
    assert_eq!(log.list()[1].old.as_deref(), Some("was"));
    assert_eq!(find(log.dir.path(), failed).unwrap(), None);
}

#[test]
fn what_a_dead_process_has_begun_gets_an_outcome() {
    let mut log = Log::new();
    for new in ["in force", "who knows"] {
        log.begin(new);
    }
    log.reopen();
    let tell = |change: &LoggedChange| change.new.as_deref() == Some("in force");
    log.log.conclude_orphans(&[], tell).unwrap();
    let found: Vec<_> = log.list().iter().map(|change| (change.id, change.outcome)).collect();
    assert_eq!(found, [(2, ChangeOutcome::Unknown), (1, ChangeOutcome::Done)]);
    let text = log.text();
    log.log.conclude_orphans(&[], tell).unwrap();
    assert_eq!(log.text(), text, "once");
    // The process was alive after all.
    log.log.conclude(&[2], &ChangeOutcome::Done.into());
    assert_eq!(log.list()[0].outcome, ChangeOutcome::Done);
}

// Shows: change-log.
#[test]
fn a_torn_end_hides_one_line_and_no_id_comes_again() {
    let mut whole = Log::new();
    whole.make("one");
    whole.begin("two");
    let text = whole.text();
    let last_at = text.trim_end().rfind('\n').unwrap() + 1;
    for cut in last_at..text.len() {
        let mut log = Log::new();
        fs::write(path_in(log.dir.path()), &text.as_bytes()[..cut]).unwrap();
        assert_eq!(log.ids(), [1], "{cut}");
        let next = log.make("three");
        // If the id itself is cut off, no reader has seen it.
        assert_eq!(next, if text[last_at..cut].contains(',') { 3 } else { 2 }, "{cut}");
        assert_eq!(log.ids(), [next, 1], "{cut}");
    }
}

// Shows: change-log.
#[test]
fn a_full_file_gives_way_to_the_next_and_both_are_read() {
    let mut log = Log::new();
    let long = "\"".repeat(MAX_TEXT_BYTES);
    let first = log.begin(&long);
    let mut made = Vec::new();
    while !former_in(log.dir.path()).exists() {
        made.push(log.make(&long));
    }
    log.log.conclude(&[first], &ChangeOutcome::Done.into());
    log.reopen();
    made.push(log.make("last"));
    let all: Vec<u64> = made.iter().rev().copied().chain([first]).collect();
    assert_eq!(log.ids(), all);
    for _ in 0..2 * all.len() {
        log.make(&long);
        for path in [path_in(log.dir.path()), former_in(log.dir.path())] {
            assert!(fs::metadata(path).unwrap().len() <= MAX_FILE_BYTES);
        }
    }
    // Just after a file became full, the largest id is in the previous file.
    fs::remove_file(path_in(log.dir.path())).unwrap();
    log.reopen();
    let last = log.ids()[0];
    assert_eq!(log.make("more"), last + 1);
}

#[test]
fn a_text_that_is_too_long_is_not_kept() {
    let mut log = Log::new();
    log.make(&"x".repeat(MAX_TEXT_BYTES + 1));
    log.make(&"x".repeat(MAX_TEXT_BYTES));
    let cut: Vec<bool> = log.list().iter().map(LoggedChange::is_cut).collect();
    assert_eq!(cut, [false, true]);
}

// Shows: change-log.
#[test]
fn two_processes_share_the_ids() {
    let mut log = Log::new();
    let mut other = ChangeLog::new(log.dir.path(), Duration::ZERO);
    let subject = Subject::of(ChangeKind::Reload, None);
    for nth in 0..10 {
        assert_eq!(log.make("x"), 2 * nth + 1);
        other.note_made(&Author::named("signal"), &subject).unwrap();
    }
    assert_eq!(log.ids(), (1..=20).rev().collect::<Vec<_>>());
    let file = OpenOptions::new().read(true).open(path_in(log.dir.path())).unwrap();
    let held = Flock::lock(file, FlockArg::LockExclusive).unwrap();
    let error = other.note_made(&Author::named("signal"), &subject).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "it does not wait");
    drop(held);
    other.note_made(&Author::named("signal"), &subject).unwrap();
}

// Shows: change-log.
#[test]
fn a_file_that_begins_with_an_earlier_outcome_repeats_no_id() {
    let mut log = Log::new();
    let first = log.begin("first");
    let last = log.make("last");
    fs::rename(path_in(log.dir.path()), former_in(log.dir.path())).unwrap();
    log.reopen();
    log.log.conclude(&[first], &ChangeOutcome::Done.into());
    log.reopen();
    assert_eq!(log.make("next"), last + 1);
}

// Shows: change-log.
#[test]
fn a_file_of_the_same_inode_and_length_is_another_one() {
    let mut log = Log::new();
    let id = log.begin("x");
    let (path, text) = (path_in(log.dir.path()), log.text());
    let before = fs::metadata(&path).unwrap();
    // Other processes that have filled files meanwhile leave a file such as this.
    let later = text.replacen(&format!("{{\"id\":{id},"), "{\"id\":7,", 1);
    let after = loop {
        fs::write(&path, &later).unwrap();
        let after = fs::metadata(&path).unwrap();
        if after.modified().unwrap() != before.modified().unwrap() {
            break after;
        }
    };
    assert_eq!((after.ino(), after.len()), (before.ino(), before.len()));
    assert_eq!(log.begin("y"), 8);
}

// Shows: change-log.
#[test]
fn two_processes_that_fill_files_at_once_share_the_ids() {
    const EACH: usize = 60;
    let log = Log::new();
    let long = "x".repeat(MAX_TEXT_BYTES);
    let make_some = || {
        let mut log = ChangeLog::new(log.dir.path(), Duration::from_secs(60));
        let subject = Subject { new: Some(long.clone()), ..Subject::of(ChangeKind::Biz, None) };
        let author = Author::named("alice");
        let make = |_| log.begin(&author, std::slice::from_ref(&subject)).unwrap()[0];
        (0..EACH).map(make).collect::<Vec<u64>>()
    };
    let mut ids = std::thread::scope(|scope| {
        let makers = [(); 2].map(|()| scope.spawn(make_some));
        makers.map(|maker| maker.join().unwrap()).concat()
    });
    ids.sort_unstable();
    assert_eq!(ids, (1..=2 * EACH as u64).collect::<Vec<_>>());
}

// Shows: change-log.
#[test]
fn an_outcome_that_cannot_be_written_is_owed() {
    let mut log = Log::new();
    let id = log.begin("x");
    let file = OpenOptions::new().read(true).open(path_in(log.dir.path())).unwrap();
    let held = Flock::lock(file, FlockArg::LockExclusive).unwrap();
    log.log.conclude(&[id], &ChangeOutcome::Done.into());
    assert!(log.log.has_pending() && log.log.write_pending().is_err() && log.list().is_empty());
    drop(held);
    log.make("y");
    assert!(!log.log.has_pending());
    assert_eq!(log.ids(), [2, 1]);
}
