//! data/lossy: the wish of `frs reload --lossy`, since a signal carries no words.
//!
//! Invariant: a wish counts for one reload, and only shortly after it was written. So what a killed
//! command leaves behind allows no later reload to lose anything.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::message::Loss;
use frs::base::{clock, sys};

/// How long a wish counts, in nanoseconds: a master may be busy with another reload.
const COUNTS_NS: u64 = 60_000_000_000;

/// Writes the wish. The command signals the master next.
///
/// # Errors
/// The file cannot be written.
pub fn ask(data_dir: &Path) -> io::Result<()> {
    let (path, now_ns) = (path_in(data_dir), clock::monotonic_ns());
    let draft = path.with_extension("new");
    fs::write(&draft, format!("{now_ns}\n"))?;
    fs::rename(draft, path)
}

/// Takes the wish, if there is one that counts, and removes it.
pub fn take(data_dir: &Path) -> Loss {
    let path = path_in(data_dir);
    let Ok(text) = sys::open_to_read(&path).and_then(io::read_to_string) else {
        return Loss::Refused;
    };
    if let Err(error) = fs::remove_file(&path) {
        tracing::error!(path = %path.display(), %error, "a wish to lose nodes is ignored");
        return Loss::Refused;
    }
    let asked_ns = text.trim().parse::<u64>().ok();
    let age = asked_ns.and_then(|asked_ns| clock::monotonic_ns().checked_sub(asked_ns));
    if age.is_some_and(|age| age <= COUNTS_NS) { Loss::Allowed } else { Loss::Refused }
}

/// Removes the wish: nobody waits for its reload any more.
pub fn withdraw(data_dir: &Path) {
    let _ = fs::remove_file(path_in(data_dir));
}

fn path_in(data_dir: &Path) -> PathBuf {
    data_dir.join("lossy")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_counts_once_and_not_for_ever() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(take(dir.path()), Loss::Refused);
        ask(dir.path()).unwrap();
        assert_eq!(take(dir.path()), Loss::Allowed);
        assert_eq!(take(dir.path()), Loss::Refused);
        ask(dir.path()).unwrap();
        withdraw(dir.path());
        assert_eq!(take(dir.path()), Loss::Refused);
        let now_ns = clock::monotonic_ns();
        let later_ns = now_ns + COUNTS_NS;
        for text in [String::new(), "x\n".into(), format!("{later_ns}\n"), "0\n".into()] {
            // Unless the machine has been up for less than a minute, 0 is too old.
            if text == "0\n" && now_ns <= COUNTS_NS {
                continue;
            }
            fs::write(path_in(dir.path()), &text).unwrap();
            assert_eq!(take(dir.path()), Loss::Refused, "{text:?}");
            assert!(!path_in(dir.path()).exists());
        }
    }
}
