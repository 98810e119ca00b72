//! Files of a server: its secrets, and the data files as words, for tests that read or overwrite
//! them.

use std::fs::{File, OpenOptions, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

/// Writes a file that its owner alone may read, as a secret has to be.
pub fn write_secret(path: &Path, text: impl AsRef<[u8]>) {
    std::fs::write(path, text).expect("written");
    std::fs::set_permissions(path, Permissions::from_mode(0o600)).expect("set");
}

/// Opens an existing file for reading and writing.
pub fn open(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(path).expect("it is there")
}

/// Reads the word with this number.
pub fn load(file: &File, at: u64) -> u64 {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, at * 8).expect("read");
    u64::from_le_bytes(bytes)
}

/// Writes the word with this number.
pub fn store(file: &File, at: u64, word: u64) {
    file.write_all_at(&word.to_le_bytes(), at * 8).expect("written");
}
