//! data/changes.log: the author, the time and the content of each change. The admin plane and the
//! master append to it.
//!
//! Invariant: a line is on disk when the call that appends it returns. A change that may fail has a
//! line before it begins and another one with its outcome, so no death hides it. Ids grow, even
//! after a death or a full disk in the middle of a line. There are at most two files: a full file
//! becomes `changes.log.1`, and replaces the previous one.
//!
//! ```text
//! {"id":17,"time":"2026-11-22T12:00:00.123Z","who":"alice","peer":"…","what":"biz",
//!  "target":"login","old":"<biz …/>","new":"<biz …/>","begun":true}
//! {"id":17,"outcome":"done"}
//! ```
//!
//! Each entry is one line. Without `begun` the change was made before its line was written. An
//! outcome is `done`, `failed`, or `unknown` if the server died in between. An outcome may also
//! have `old` and `new`.

mod read;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use serde_json::Value;

use frs_base::clock::{self, Millis};
use frs_base::{figures, named};
use frs_conf::active;

pub use read::{LoggedChange, find, list};

/// The most bytes of a file.
pub const MAX_FILE_BYTES: u64 = 4 << 20;
/// The most bytes of a text in the log. Two such texts, escaped, take less than half of a file.
pub const MAX_TEXT_BYTES: usize = 256 << 10;
/// The memory to read the log: one file, and the entries that are shown of it.
pub const HELD_BYTES: usize = 2 * MAX_FILE_BYTES as usize;
/// The most bytes of outcomes that wait for room on the disk.
const MAX_PENDING_BYTES: usize = 1 << 20;
/// The pause between two attempts to lock the file while another process writes a line.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// The most times that an append opens the file, because another process may fill it meanwhile.
const ATTEMPTS: usize = 8;

named! {
    /// The kind of a change.
    #[expect(missing_docs)]
    ChangeKind {
        Biz "biz",
        Node "node",
        Reset "reset",
        Reload "reload",
        Degrade "degrade",
        LiftBans "lift-bans",
        Undo "undo",
    }
}

/// The author of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Author {
    /// The name of the author's token, `uid:N`, or the part of the server that makes the change.
    pub who: Arc<str>,
    /// The address of the author. `None` if the author is no client.
    pub peer: Option<Arc<str>>,
}

impl Author {
    /// A part of the server, or an author known only by how the request came: `signal`.
    pub fn named(who: &str) -> Author {
        Author { who: who.into(), peer: None }
    }
}

/// The content of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The kind.
    pub kind: ChangeKind,
    /// A biz, or `BIZ/KEY`. `None` for the whole server.
    pub target: Option<String>,
    /// The text before the change.
    pub old: Option<String>,
    /// The text after the change.
    pub new: Option<String>,
}

impl Subject {
    /// A change without texts.
    pub fn of(kind: ChangeKind, target: Option<String>) -> Subject {
        Subject { kind, target, old: None, new: None }
    }
}

named! {
    /// The outcome of a change.
    ChangeOutcome {
        /// The change is in force.
        Done "done",
        /// Nothing was changed.
        Failed "failed",
        /// It is unknown whether the change is in force.
        Unknown "unknown",
    }
}

impl ChangeOutcome {
    /// Whether it is unknown if the change is in force.
    pub const fn is_unknown(self) -> bool {
        matches!(self, ChangeOutcome::Unknown)
    }
}

/// The outcome of a change, with the texts that were unknown when it began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conclusion {
    /// The outcome.
    pub outcome: ChangeOutcome,
    /// The text before the change.
    pub old: Option<String>,
    /// The text after the change.
    pub new: Option<String>,
}

impl From<ChangeOutcome> for Conclusion {
    fn from(outcome: ChangeOutcome) -> Conclusion {
        Conclusion { outcome, old: None, new: None }
    }
}

/// The access of one process to the log.
#[derive(Debug)]
pub struct ChangeLog {
    data_dir: PathBuf,
    patience: Duration,
    last_id: u64,
    /// The state of the file after the last append of this process. If it differs, the last id is
    /// read again.
    seen: Option<ContentStamp>,
    /// Outcomes that could not be written yet.
    pending: String,
}

/// The identity of a file's content: inode, length and time of the last write. The inode and length
/// alone do not suffice, because a new file may get the inode of a removed one and soon have the
/// same length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ContentStamp {
    inode: u64,
    bytes: u64,
    written: SystemTime,
}

impl ChangeLog {
    /// The log of a data directory. Nothing is read or written yet. `patience` is the longest wait
    /// for another process that writes a line.
    pub fn new(data_dir: &Path, patience: Duration) -> ChangeLog {
        let data_dir = data_dir.to_owned();
        ChangeLog { data_dir, patience, last_id: 0, seen: None, pending: String::new() }
    }

    /// Describes a reload: the new generation, and its differences from the old one if both can be
    /// read.
    pub fn tell_generation(&self, old: u64, new: u64) -> String {
        match active::differences(&self.data_dir, old, new) {
            Some(differences) => format!("{new}: {differences}"),
            None => new.to_string(),
        }
    }

    /// Notes that changes begin, and returns their ids.
    ///
    /// # Errors
    /// The changes are not on disk, and must not begin.
    pub fn begin(&mut self, author: &Author, subjects: &[Subject]) -> io::Result<Vec<u64>> {
        self.note(author, subjects, true)
    }

    /// Notes a change that was made.
    ///
    /// # Errors
    /// The change is not on disk. `WouldBlock` if another process writes a line.
    pub fn note_made(&mut self, author: &Author, subject: &Subject) -> io::Result<()> {
        self.note(author, std::slice::from_ref(subject), false).map(drop)
    }

    fn note(&mut self, author: &Author, subjects: &[Subject], begun: bool) -> io::Result<Vec<u64>> {
        let now = clock::now();
        let mut ids = Vec::new();
        self.append(|last_id| {
            ids = (last_id + 1..).take(subjects.len()).collect();
            let lines = ids.iter().zip(subjects);
            lines.map(|(&id, subject)| line(id, now, author, subject, begun)).collect()
        })?;
        self.last_id = ids.last().copied().unwrap_or(self.last_id);
        Ok(ids)
    }

    /// Notes the outcome of changes. An outcome that cannot be written now is written with the next
    /// line, or by [`Self::write_pending`].
    pub fn conclude(&mut self, ids: &[u64], conclusion: &Conclusion) {
        let lines: String = ids.iter().map(|&id| outcome_line(id, conclusion)).collect();
        if self.pending.len() + lines.len() > MAX_PENDING_BYTES {
            tracing::error!(?ids, "changes.log: too many outcomes wait: this one is lost");
            return;
        }
        self.pending.push_str(&lines);
        if let Err(error) = self.write_pending() {
            tracing::error!(%error, ?ids, "changes.log: cannot write the outcome of a change");
        }
    }

    /// Whether outcomes wait to be written.
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Writes the waiting outcomes.
    ///
    /// # Errors
    /// The outcomes stay pending.
    pub fn write_pending(&mut self) -> io::Result<()> {
        if self.has_pending() { self.append(|_| String::new()) } else { Ok(()) }
    }

    /// Gives an outcome to the changes that a dead process began. `is_made` tells whether a change
    /// is in force. If not, its outcome is unknown.
    ///
    /// # Errors
    /// The log cannot be read or written.
    pub fn conclude_orphans(
        &mut self,
        pending: &[u64],
        is_made: impl Fn(&LoggedChange) -> bool,
    ) -> io::Result<()> {
        let unfinished = read::unfinished(&self.data_dir)?;
        for orphan in unfinished.into_iter().filter(|orphan| !pending.contains(&orphan.id)) {
            let outcome =
                if is_made(&orphan) { ChangeOutcome::Done } else { ChangeOutcome::Unknown };
            let (id, word) = (orphan.id, outcome.word());
            tracing::warn!(
                id,
                outcome = word,
                "changes.log: a change has begun and has no outcome"
            );
            self.pending.push_str(&outcome_line(id, &outcome.into()));
        }
        self.write_pending()
    }

    /// Appends the pending outcomes and the lines that `lines` makes from the last id. Either all
    /// of them are on disk, or none is in the file.
    fn append(&mut self, mut lines: impl FnMut(u64) -> String) -> io::Result<()> {
        let (mut log, before, text) = loop {
            let log = self.open()?;
            let here = content_stamp(&log)?;
            if self.seen != Some(here) {
                self.last_id = read::last_id(&self.data_dir)?.max(self.last_id);
            }
            let text = self.pending.clone() + &lines(self.last_id);
            if here.bytes == 0 || here.bytes + text.len() as u64 <= MAX_FILE_BYTES {
                break (log, here.bytes, text);
            }
            // Another process may write to the new file first and take these ids, so the loop opens
            // it anew.
            fs::rename(path_in(&self.data_dir), former_in(&self.data_dir))?;
        };
        if let Err(error) = write(&mut log, before, &text) {
            // If this fails, the next append ends the line that is cut off here.
            let _ = log.set_len(before);
            return Err(error);
        }
        if before == 0 {
            File::open(&self.data_dir)?.sync_all()?;
        }
        self.pending.clear();
        self.seen = Some(content_stamp(&log)?);
        Ok(())
    }

    /// Opens and locks the file that has the name of the log.
    fn open(&self) -> io::Result<Flock<File>> {
        let path = path_in(&self.data_dir);
        for _ in 0..ATTEMPTS {
            let mut options = OpenOptions::new();
            options.read(true).append(true).create(true).mode(0o600);
            let log = lock(frs_base::sys::open_regular(&options, &path)?, self.patience)?;
            match fs::metadata(&path) {
                Ok(named) if named.ino() == log.metadata()?.ino() => return Ok(log),
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                // The file became full, or was removed.
                _ => {}
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }
}

fn lock(mut file: File, patience: Duration) -> io::Result<Flock<File>> {
    let until = clock::instant() + patience;
    loop {
        file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(lock),
            Err((file, Errno::EWOULDBLOCK)) => file,
            Err((_, error)) => return Err(error.into()),
        };
        if clock::instant() >= until {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

fn write(log: &mut File, at: u64, text: &str) -> io::Result<()> {
    let mut last = [b'\n'];
    if at > 0 {
        log.read_exact_at(&mut last, at - 1)?;
    }
    if last != *b"\n" {
        log.write_all(b"\n")?;
    }
    log.write_all(text.as_bytes())?;
    log.sync_data()
}

fn content_stamp(log: &File) -> io::Result<ContentStamp> {
    let metadata = log.metadata()?;
    Ok(ContentStamp { inode: metadata.ino(), bytes: metadata.len(), written: metadata.modified()? })
}

fn line(id: u64, now: Millis, author: &Author, subject: &Subject, begun: bool) -> String {
    let members = [
        ("time", Some(&*figures::time(now, 3))),
        ("who", Some(&*author.who)),
        ("peer", author.peer.as_deref()),
        ("what", Some(subject.kind.word())),
        ("target", subject.target.as_deref()),
        ("old", kept(subject.old.as_ref())),
        ("new", kept(subject.new.as_ref())),
    ];
    object(id, &members) + if begun { ",\"begun\":true}\n" } else { "}\n" }
}

fn outcome_line(id: u64, Conclusion { outcome, old, new }: &Conclusion) -> String {
    let (old, new) = (kept(old.as_ref()), kept(new.as_ref()));
    object(id, &[("outcome", Some(outcome.word())), ("old", old), ("new", new)]) + "}\n"
}

/// The beginning of a JSON object with these members. Members without a value are left out.
fn object(id: u64, members: &[(&str, Option<&str>)]) -> String {
    let mut object = format!("{{\"id\":{id}");
    for (name, value) in members {
        if let Some(value) = value {
            object += &format!(",\"{name}\":{}", Value::from(*value));
        }
    }
    object
}

/// Replaces a text that is too long. No other text equals it, and it is no element.
const TOO_LONG: &str = "(too long)";

fn kept(text: Option<&String>) -> Option<&str> {
    text.map(|text| if text.len() > MAX_TEXT_BYTES { TOO_LONG } else { text })
}

fn path_in(data_dir: &Path) -> PathBuf {
    data_dir.join("changes.log")
}

fn former_in(data_dir: &Path) -> PathBuf {
    data_dir.join("changes.log.1")
}

#[cfg(test)]
mod tests;
