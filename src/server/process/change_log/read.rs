//! Reads the log of changes.
//!
//! Invariant: reading writes nothing and takes no lock. Lines that are cut off or not understood
//! are skipped. At most one file is held in memory at a time.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;

use serde_json::Value;

use super::{ChangeKind, ChangeOutcome, Conclusion, MAX_FILE_BYTES, TOO_LONG, former_in, path_in};
use frs_base::sys;

/// A change that was made, or whose outcome is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedChange {
    /// The id of the change.
    pub id: u64,
    /// When the change began, in RFC 3339.
    pub time: String,
    /// The author of the change.
    pub who: String,
    /// The address of the author.
    pub peer: Option<String>,
    /// The kind of the change.
    pub kind: ChangeKind,
    /// The biz or `BIZ/KEY` that was changed.
    pub target: Option<String>,
    /// The text before the change.
    pub old: Option<String>,
    /// The text after the change.
    pub new: Option<String>,
    /// The outcome, which is never [`ChangeOutcome::Failed`].
    pub outcome: ChangeOutcome,
}

impl LoggedChange {
    /// Whether a text was too long for the log.
    pub fn is_cut(&self) -> bool {
        [&self.old, &self.new].into_iter().any(|text| text.as_deref() == Some(TOO_LONG))
    }

    fn text_bytes(&self) -> usize {
        [&self.old, &self.new].into_iter().flatten().map(String::len).sum()
    }
}

/// The content of a line.
enum LogLine {
    /// A change, and whether another line has its outcome.
    Change(LoggedChange, bool),
    Outcome(u64, Conclusion),
}

/// The changes with a smaller id than `before`, newest first. The list has at most `most` changes,
/// and ends with the change whose texts bring their total to `text_bytes`.
///
/// # Errors
/// The log cannot be read.
pub fn list(
    data_dir: &Path,
    before: u64,
    most: usize,
    text_bytes: usize,
) -> io::Result<Vec<LoggedChange>> {
    let (mut found, mut left) = (Vec::new(), text_bytes);
    visit(data_dir, |change| {
        if change.id < before {
            left = left.saturating_sub(change.text_bytes());
            found.push(change);
        }
        found.len() < most && left > 0
    })?;
    Ok(found)
}

/// The change with this id.
///
/// # Errors
/// The log cannot be read.
pub fn find(data_dir: &Path, id: u64) -> io::Result<Option<LoggedChange>> {
    let mut found = None;
    visit(data_dir, |change| {
        let goes_on = change.id > id;
        found = Some(change).filter(|change| change.id == id);
        goes_on
    })?;
    Ok(found)
}

/// Visits the changes that were made or whose outcome is unknown, newest first, until `visit`
/// returns false.
fn visit(data_dir: &Path, mut visit: impl FnMut(LoggedChange) -> bool) -> io::Result<()> {
    let mut outcomes = BTreeMap::new();
    for path in [path_in(data_dir), former_in(data_dir)] {
        for line in text_of(&path)?.lines().rev() {
            let (change, begun) = match parse(line) {
                Some(LogLine::Change(change, begun)) => (change, begun),
                Some(LogLine::Outcome(id, conclusion)) => {
                    outcomes.entry(id).or_insert(conclusion);
                    continue;
                }
                None => continue,
            };
            let conclusion = outcomes.remove(&change.id);
            let ended = match (begun, conclusion) {
                (false, _) => Some(change),
                (true, Some(Conclusion { outcome, old, new }))
                    if outcome != ChangeOutcome::Failed =>
                {
                    let (old, new) = (old.or(change.old), new.or(change.new));
                    Some(LoggedChange { outcome, old, new, ..change })
                }
                (true, _) => None,
            };
            if ended.is_some_and(|change| !visit(change)) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The changes that have begun and have no outcome.
pub(super) fn unfinished(data_dir: &Path) -> io::Result<Vec<LoggedChange>> {
    let mut begun = BTreeMap::new();
    for path in [former_in(data_dir), path_in(data_dir)] {
        for line in text_of(&path)?.lines() {
            match parse(line) {
                Some(LogLine::Change(change, true)) => drop(begun.insert(change.id, change)),
                Some(LogLine::Outcome(id, _)) => drop(begun.remove(&id)),
                _ => {}
            }
        }
    }
    Ok(begun.into_values().collect())
}

/// The largest id, even of a line that is cut off behind its id. 0 if there is none. Both files are
/// read, because a new file may begin with the outcome of an earlier change.
pub(super) fn last_id(data_dir: &Path) -> io::Result<u64> {
    let texts = [text_of(&path_in(data_dir))?, text_of(&former_in(data_dir))?];
    Ok(texts.iter().flat_map(|text| text.lines()).filter_map(id_of).max().unwrap_or(0))
}

fn id_of(line: &str) -> Option<u64> {
    line.strip_prefix("{\"id\":")?.split_once(',')?.0.parse().ok()
}

/// The text of a file. Bytes beyond the bound of a file do not come from this log, and are ignored.
fn text_of(path: &Path) -> io::Result<String> {
    let file = match sys::open_to_read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        file => file?,
    };
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

fn parse(line: &str) -> Option<LogLine> {
    let value: Value = serde_json::from_str(line).ok()?;
    let id = value["id"].as_u64()?;
    let text = |name: &str| value[name].as_str().map(str::to_owned);
    let (old, new) = (text("old"), text("new"));
    if let Some(word) = value["outcome"].as_str() {
        let outcome = ChangeOutcome::of(word)?;
        return Some(LogLine::Outcome(id, Conclusion { outcome, old, new }));
    }
    let change = LoggedChange {
        id,
        time: text("time")?,
        who: text("who")?,
        peer: text("peer"),
        kind: ChangeKind::of(value["what"].as_str()?)?,
        target: text("target"),
        old,
        new,
        outcome: ChangeOutcome::Done,
    };
    Some(LogLine::Change(change, value["begun"].as_bool().unwrap_or(false)))
}
