//! data/map.pending: an edit of map.xml that is made, and whose outcome is not known yet.
//!
//! Invariant: the file is on disk before map.xml is replaced. It is removed when the edit is in
//! force or reverted. So the keeper that starts after the death of another one knows whose edit
//! map.xml contains.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::process::control::{Loss, ReloadOptions};

/// The bound of the file: two texts of 16 MiB each, escaped.
const MAX_BYTES: u64 = 64 << 20;

/// An edit of map.xml.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingEdit {
    /// The options of the reload that the master is asked for.
    pub options: ReloadOptions,
    /// The ids of the edit in the log of changes.
    pub ids: Vec<u64>,
    /// The text of map.xml before the edit.
    pub old: String,
    /// The text of map.xml with the edit.
    pub new: String,
}

impl PendingEdit {
    /// Writes the file, whole or not at all.
    pub fn write(&self, data_dir: &Path) -> io::Result<()> {
        let (path, draft) = (path_in(data_dir), data_dir.join("map.pending.new"));
        let ReloadOptions { loss, lift_bans, .. } = self.options;
        let (ids, old, new) = (&self.ids, &self.old, &self.new);
        let text = json!({
            "loss": loss as u32, "lift-bans": lift_bans, "ids": ids, "old": old, "new": new,
        });
        let written = (|| {
            remove_if_there(&draft)?;
            let mut options = OpenOptions::new();
            let mut file = options.write(true).create_new(true).mode(0o600).open(&draft)?;
            file.write_all(text.to_string().as_bytes())?;
            file.sync_all()?;
            fs::rename(&draft, &path)?;
            File::open(data_dir)?.sync_all()
        })();
        if written.is_err() {
            // The disk may be full, so the draft is removed.
            let _ = fs::remove_file(&draft);
        }
        written
    }

    /// Reads the edit that a keeper has left. A file that contains no edit is removed.
    pub fn read(data_dir: &Path) -> io::Result<Option<PendingEdit>> {
        let text = match frs_base::sys::open_to_read(&path_in(data_dir)) {
            Ok(file) => io::read_to_string(io::Read::take(file, MAX_BYTES))?,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let pending = serde_json::from_str(&text).ok().as_ref().and_then(PendingEdit::of);
        if pending.is_none() {
            PendingEdit::remove(data_dir)?;
        }
        Ok(pending)
    }

    fn of(value: &Value) -> Option<PendingEdit> {
        let text = |name| value[name].as_str().map(str::to_owned);
        let loss = Loss::of_number(value["loss"].as_u64()?.try_into().ok()?)?;
        let lift_bans = match &value["lift-bans"] {
            Value::Null => None,
            biz => Some(biz.as_u64()?.try_into().ok()?),
        };
        let ids = value["ids"].as_array()?.iter().map(Value::as_u64);
        Some(PendingEdit {
            options: ReloadOptions { loss, lift_bans, is_edit: true },
            ids: ids.collect::<Option<_>>()?,
            old: text("old")?,
            new: text("new")?,
        })
    }

    /// Removes the file, because the outcome of the edit is known.
    pub fn remove(data_dir: &Path) -> io::Result<()> {
        remove_if_there(&path_in(data_dir))
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// The path of the file.
pub fn path_in(data_dir: &Path) -> PathBuf {
    data_dir.join("map.pending")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_is_none_goes() {
        let dir = tempfile::tempdir().unwrap();
        let read = || PendingEdit::read(dir.path()).unwrap();
        assert_eq!(read(), None);
        for (loss, lift_bans) in [(Loss::Refused, None), (Loss::OfNewMoves, Some(7))] {
            let options = ReloadOptions { loss, lift_bans, is_edit: true };
            let (old, new) = ("<map>\"\n".to_owned(), "<map>é".to_owned());
            let pending = PendingEdit { options, ids: vec![3, 4], old, new };
            pending.write(dir.path()).unwrap();
            assert_eq!(read(), Some(pending));
        }
        PendingEdit::remove(dir.path()).unwrap();
        PendingEdit::remove(dir.path()).unwrap();
        assert_eq!(read(), None);
        fs::write(path_in(dir.path()), "{\"loss\": 0").unwrap();
        assert_eq!(read(), None);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
