//! Writes changes to the log of changes that do not come over the admin plane: reloads by a
//! command, a signal or `<watch>`, and resets of other machines.
//!
//! Invariant: the master does not wait for another process that writes to the log. Changes wait
//! meanwhile, up to a bound. A change is already in force, so if the disk refuses its note the
//! error is logged and the note dropped.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::process::change_log::{Author, ChangeKind, ChangeLog, Subject};

/// The author of a reload by a command or a signal.
const SIGNAL: &str = "signal";
/// The author of a reset on another machine.
const CLUSTER: &str = "cluster";
/// The author of a reload of files that have changed, by `<watch>`.
const WATCH: &str = "watch";
/// The most changes that wait.
const MOST: usize = 64;
/// The pause before the log is tried again.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The master's access to the log.
pub(super) struct ChangeNotes {
    log: ChangeLog,
    waiting: VecDeque<(Author, Subject)>,
}

impl ChangeNotes {
    /// An access without any notes yet.
    pub fn new(data_dir: &Path) -> ChangeNotes {
        ChangeNotes { log: ChangeLog::new(data_dir, Duration::ZERO), waiting: VecDeque::new() }
    }

    /// Notes a reload that a command, a signal or `<watch>` has requested, by its generations.
    pub fn note_reload(&mut self, old: u64, new: u64, is_of_watch: bool) {
        let who = if is_of_watch { WATCH } else { SIGNAL };
        let (old, new) = (Some(old.to_string()), Some(self.log.tell_generation(old, new)));
        self.note(who, Subject { old, new, ..Subject::of(ChangeKind::Reload, None) });
    }

    /// Notes that a biz follows a reset of another machine.
    pub fn note_reset(&mut self, biz: String) {
        self.note(CLUSTER, Subject::of(ChangeKind::Reset, Some(biz)));
    }

    fn note(&mut self, who: &str, subject: Subject) {
        if self.waiting.len() == MOST {
            tracing::error!(who, what = subject.kind.word(), "changes.log: lost: too many wait");
            return;
        }
        self.waiting.push_back((Author::named(who), subject));
        self.flush();
    }

    /// Writes the waiting notes, unless another process writes to the log.
    pub fn flush(&mut self) {
        while let Some((author, subject)) = self.waiting.front() {
            match self.log.note_made(author, subject) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    let what = subject.kind.word();
                    tracing::error!(%error, who = %author.who, what, "changes.log: cannot write");
                }
            }
            self.waiting.pop_front();
        }
    }

    /// When to try again.
    pub fn due(&self) -> Option<Duration> {
        (!self.waiting.is_empty()).then_some(LOOK_AGAIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::change_log::{ChangeOutcome, list};
    use nix::fcntl::{Flock, FlockArg};

    // Shows: change-log.
    #[test]
    fn what_waits_for_the_log_is_written_in_order_and_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let mut notes = ChangeNotes::new(dir.path());
        notes.note_reload(1, 2, false);
        let file = std::fs::File::open(dir.path().join("changes.log")).unwrap();
        let held = Flock::lock(file, FlockArg::LockExclusive).unwrap();
        for new in 3..3 + MOST as u64 + 9 {
            notes.note_reset(new.to_string());
        }
        assert_eq!(notes.due(), Some(LOOK_AGAIN));
        drop(held);
        notes.flush();
        assert_eq!(notes.due(), None);
        let changes = list(dir.path(), u64::MAX, 1000, usize::MAX).unwrap();
        assert_eq!(changes.len(), 1 + MOST);
        let (first, last) = (&changes[MOST], &changes[0]);
        assert_eq!(
            (&*first.who, first.kind, first.outcome),
            (SIGNAL, ChangeKind::Reload, ChangeOutcome::Done)
        );
        assert_eq!((first.old.as_deref(), first.new.as_deref()), (Some("1"), Some("2")));
        assert_eq!((&*last.who, last.target.as_deref()), (CLUSTER, Some("66")));
        assert_eq!(last.peer, None);
    }
}
