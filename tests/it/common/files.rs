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

// Offsets in headers, in words: the map of src/store/file/layout.rs.
pub const GROUP_BOOT: u64 = 16;
pub const GROUP_CLEAN: u64 = 18;
pub const RUNTIME_BOOT: u64 = 2;
pub const RUNTIME_CRC: u64 = 7;

/// Writes a header's CRC again, over the words before it.
pub fn seal(file: &File, crc_at: u64) {
    let bytes: Vec<u8> = (0..crc_at).flat_map(|at| load(file, at).to_le_bytes()).collect();
    store(file, crc_at, u64::from(crc32fast::hash(&bytes)));
}
