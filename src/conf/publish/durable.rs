//! Writes files that are on disk before other processes learn of them.
//!
//! Invariant: a file is written completely or removed. An existing file of the same name is never
//! written to.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Writes a new file, and waits until it is on disk.
pub(crate) fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // A file left by a writer that died may belong to another user, or be a link.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).inspect_err(|_| {
        // The disk may be full. Removing the file frees its room.
        let _ = fs::remove_file(path);
    })
}
