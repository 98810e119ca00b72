//! Reads and replaces map.xml on disk, always as a whole.
//!
//! Invariant: a reader of the file finds the old text or the new one, at any moment and after any
//! death. A text that another process has written is not replaced.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;

/// The largest configuration file, in bytes.
pub(super) const MAX_BYTES: u64 = 16 << 20;

/// Reads a text file.
pub fn read(path: &Path) -> io::Result<String> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is too long"));
    }
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// The reason why a file's text is not replaced.
#[derive(Debug, thiserror::Error)]
pub enum ReplaceError {
    /// The file does not have the expected text.
    #[error("the file has changed meanwhile")]
    Changed,
    /// A system call failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Replaces the text `old` of a file by `text`. Keeps owner and mode. The text is on disk when this
/// returns.
pub fn replace(path: &Path, old: &str, text: &str) -> Result<(), ReplaceError> {
    // A link stays a link, and its target is replaced.
    let path = &fs::canonicalize(path)?;
    let was = fs::metadata(path)?;
    let draft = path.with_extension("xml.new");
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let written = write(&draft, text, &was).map_err(ReplaceError::from).and_then(|()| {
        // Writing may take long, so this check comes as late as possible.
        match read(path)? == old {
            true => Ok(fs::rename(&draft, path)?),
            false => Err(ReplaceError::Changed),
        }
    });
    if written.is_err() {
        // The disk may be full, so the draft is removed.
        let _ = fs::remove_file(&draft);
    }
    written?;
    let directory = path.parent().unwrap_or(Path::new("/"));
    Ok(File::open(directory)?.sync_all()?)
}

fn write(draft: &Path, text: &str, was: &fs::Metadata) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft)?;
    file.write_all(text.as_bytes())?;
    let own = file.metadata()?;
    if (own.uid(), own.gid()) != (was.uid(), was.gid()) {
        // Only root can change the owner. Any user can set a group that it belongs to.
        let _ = fchown(&file, Some(was.uid()), Some(was.gid()))
            .or_else(|_| fchown(&file, None, Some(was.gid())));
    }
    file.set_permissions(fs::Permissions::from_mode(was.mode() & 0o777))?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mode_and_links_stay_and_drafts_go() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("map.xml"), dir.path().join("link.xml"));
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        fs::write(dir.path().join("map.xml.new"), "left behind").unwrap();
        std::os::unix::fs::symlink("map.xml", &link).unwrap();
        assert!(matches!(replace(&link, "other", "new"), Err(ReplaceError::Changed)));
        assert_eq!(read(&path).unwrap(), "old");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
        replace(&link, "old", "new").unwrap();
        assert_eq!(read(&path).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
        let none = replace(&dir.path().join("none.xml"), "", "x");
        assert!(matches!(none, Err(ReplaceError::Io(_))));
        assert!(read(dir.path()).is_err());
    }
}
