//! data/lossy: a command permits the reload that it is about to request to lose records that do not
//! fit a changed geometry. A signal cannot carry this permission.
//!
//! Invariant: a request counts while its command lives and waits, because the command holds the
//! file's write lock. A file that a killed command has left is no request, so no later reload loses
//! records by it. The master takes a request once.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::message::Loss;
use frs_base::sys;

/// A request of a command. It is valid as long as this value lives.
#[derive(Debug)]
pub struct LossyRequest {
    _locked: File,
}

impl LossyRequest {
    /// Makes a request in place of any earlier one. The file is locked before it gets its name.
    ///
    /// # Errors
    /// A call to the file system failed.
    pub fn make(data_dir: &Path) -> io::Result<LossyRequest> {
        let draft = data_dir.join(format!("lossy.{}", std::process::id()));
        match fs::remove_file(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // The mode lets the master read the file, perhaps as another user. The file has no content.
        let file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&draft)?;
        if !sys::try_lock_range(&file, 0, 1)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        fs::rename(&draft, path_in(data_dir))?;
        Ok(LossyRequest { _locked: file })
    }
}

/// Takes the request, if there is one. The master calls this when it begins a reload.
pub fn take(data_dir: &Path) -> Loss {
    let path = path_in(data_dir);
    let asked = match sys::open_to_read(&path) {
        Ok(file) => sys::is_range_locked(&file, 0, 1).unwrap_or(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Loss::Refused,
        Err(error) => {
            tracing::warn!(%error, path = %path.display(), "cannot read a request of a command");
            false
        }
    };
    match fs::remove_file(&path) {
        // A file that stays would count for each reload while its command waits.
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(%error, path = %path.display(), "cannot take a request of a command");
            Loss::Refused
        }
        _ if asked => Loss::Allowed,
        _ => Loss::Refused,
    }
}

fn path_in(data_dir: &Path) -> PathBuf {
    data_dir.join("lossy")
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows: derived-geometry.
    #[test]
    fn a_request_is_taken_once_and_only_while_its_command_waits() {
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(take(dir.path()), Loss::Refused, "there is none");
        let request = LossyRequest::make(dir.path()).expect("made");
        assert_eq!(take(dir.path()), Loss::Allowed);
        assert_eq!(take(dir.path()), Loss::Refused, "taken");
        let again = LossyRequest::make(dir.path()).expect("made while the first one waits");
        drop(request);
        assert_eq!(take(dir.path()), Loss::Allowed, "the second one's");
        drop(again);
        drop(LossyRequest::make(dir.path()).expect("made"));
        assert_eq!(take(dir.path()), Loss::Refused, "whoever made it has gone");
        assert_eq!(fs::read_dir(dir.path()).expect("readable").count(), 0, "nothing is left");
    }

    #[test]
    fn a_request_replaces_another_one() {
        let dir = tempfile::tempdir().expect("a directory");
        let gone = LossyRequest::make(dir.path()).expect("made");
        let waits = LossyRequest::make(dir.path()).expect("made");
        drop(gone);
        assert_eq!(take(dir.path()), Loss::Allowed);
        drop(waits);
    }

    #[test]
    fn what_is_no_request_allows_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("lossy"), "yes").expect("written");
        assert_eq!(take(dir.path()), Loss::Refused, "nobody holds it");
        nix::unistd::mkfifo(&dir.path().join("lossy"), nix::sys::stat::Mode::S_IRWXU)
            .expect("made");
        assert_eq!(take(dir.path()), Loss::Refused);
        fs::create_dir(dir.path().join("lossy")).expect("made");
        assert_eq!(take(dir.path()), Loss::Refused);
    }
}
