//! Files that are on the disk before anybody is told of them.
//!
//! Invariant: a file is written whole or removed, and what has its name before is not written to.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Writes a file that is not there yet, and waits until it is on disk.
pub(super) fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // One that is left of a writer that died may be another user's, or a link.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).inspect_err(|_| {
        // The disk may be full: give the room back.
        let _ = fs::remove_file(path);
    })
}
