//! data/reload: the outcome of the last reload, for the command that requested it. data/asked: the
//! outcome of the keeper's last request.
//!
//! Invariant: a reader that notes the monotonic clock, signals the master and waits for an outcome
//! begun later gets the answer to a reload that read the files after the signal, even if other
//! processes request reloads too.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use frs::base::sys;

/// The text of a file without an outcome.
const NONE: &str = "none\n";

/// The outcome of a reload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReloadOutcome {
    /// Process id of the master.
    pub master: i32,
    /// When the master began to read the files, on the monotonic clock.
    pub begun_ns: u64,
    /// The result.
    pub result: Reloaded,
}

/// The result of a reload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reloaded {
    /// A new generation is in force.
    Taken {
        /// Its number.
        generation: u64,
        /// Processes that did not acknowledge it in time.
        laggards: Vec<String>,
    },
    /// The old configuration stays in force.
    Refused {
        /// Why, one line each.
        faults: Vec<String>,
    },
}

impl ReloadOutcome {
    /// Writes it in place of the last one, whole or not at all.
    pub fn write(&self, data_dir: &Path) -> io::Result<()> {
        self.write_to(&path_in(data_dir))
    }

    fn write_to(&self, path: &Path) -> io::Result<()> {
        let (draft, text) = (path.with_extension("new"), self.to_text());
        if fs::write(&draft, &text).is_err() {
            // On a full disk, the last outcome makes room: a process waits for this one.
            fs::remove_file(path)?;
            fs::write(&draft, &text)?;
        }
        fs::rename(&draft, path)
    }

    /// Reads the last one, or `None` if no whole one exists.
    pub fn read(data_dir: &Path) -> io::Result<Option<ReloadOutcome>> {
        Self::read_from(&path_in(data_dir))
    }

    fn read_from(path: &Path) -> io::Result<Option<ReloadOutcome>> {
        match sys::open_to_read(path).and_then(io::read_to_string) {
            Ok(text) => Ok(Self::from_text(&text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes it as the answer to the keeper's request. `begun_ns` is then the request's number.
    pub fn write_asked(&self, data_dir: &Path) -> io::Result<()> {
        self.write_to(&asked_in(data_dir))
    }

    /// Reads the last answer to the keeper.
    pub fn read_asked(data_dir: &Path) -> io::Result<Option<ReloadOutcome>> {
        Self::read_from(&asked_in(data_dir))
    }

    /// Removes what an earlier master left: its clock may be that of another boot. The file then
    /// has no outcome, and keeps the room for the first one.
    pub fn forget(data_dir: &Path) -> io::Result<()> {
        for path in [path_in(data_dir), asked_in(data_dir)] {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    let words = format!("{}: cannot remove it: {error}", path.display());
                    return Err(io::Error::new(error.kind(), words));
                }
                // A full disk does not prevent a start.
                _ => drop(fs::write(path, NONE)),
            }
        }
        Ok(())
    }

    fn to_text(&self) -> String {
        let mut text = format!("{} {}\n", self.master, self.begun_ns);
        let rest = match &self.result {
            Reloaded::Taken { generation, laggards } => {
                text += &format!("taken {generation}\n");
                laggards
            }
            Reloaded::Refused { faults } => {
                text += "refused\n";
                faults
            }
        };
        rest.iter().for_each(|line| {
            text += line;
            text.push('\n');
        });
        text
    }

    fn from_text(text: &str) -> Option<ReloadOutcome> {
        let mut lines = text.lines();
        let (master, begun_ns) = lines.next()?.split_once(' ')?;
        let word = lines.next()?;
        let rest = lines.map(str::to_owned).collect();
        let result = match word.split_once(' ') {
            Some(("taken", generation)) => {
                Reloaded::Taken { generation: generation.parse().ok()?, laggards: rest }
            }
            None if word == "refused" => Reloaded::Refused { faults: rest },
            _ => return None,
        };
        Some(ReloadOutcome {
            master: master.parse().ok()?,
            begun_ns: begun_ns.parse().ok()?,
            result,
        })
    }
}

fn asked_in(data_dir: &Path) -> PathBuf {
    data_dir.join("asked")
}

fn path_in(data_dir: &Path) -> PathBuf {
    data_dir.join("reload")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(ReloadOutcome::read(dir.path()).expect("readable"), None);
        let results = [
            Reloaded::Taken { generation: 7, laggards: vec![] },
            Reloaded::Taken { generation: 8, laggards: vec!["worker 3 (process 17)".into()] },
            Reloaded::Refused { faults: vec!["map.xml:1:2: a".into(), "taken 9".into()] },
        ];
        for result in results {
            let outcome = ReloadOutcome { master: 12, begun_ns: 34, result };
            outcome.write(dir.path()).expect("written");
            assert_eq!(ReloadOutcome::read(dir.path()).expect("readable"), Some(outcome));
        }
        ReloadOutcome::forget(dir.path()).expect("removed");
        ReloadOutcome::forget(dir.path()).expect("nothing to remove");
        assert_eq!(ReloadOutcome::read(dir.path()).expect("readable"), None);
    }

    #[test]
    fn what_is_not_whole_is_none() {
        for text in ["", "1 2", "1 2\ntaken\n", "1\nrefused\n", "1 2\ntaken x\n", "x 2\nrefused\n"]
        {
            assert_eq!(ReloadOutcome::from_text(text), None, "{text:?}");
        }
    }
}
