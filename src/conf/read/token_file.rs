//! Files of tokens.
//!
//! Invariant: an error names the file and its fault. No message ever shows the content of a file.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::schema::{AccessToken, MAX_TOKEN_BYTES};

/// A token file holds no usable token. Whatever needs the token is then refused.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file does not exist.
    #[error("token-file {} does not exist", path.display())]
    Missing {
        /// The path of the file.
        path: PathBuf,
    },
    /// The file cannot be read.
    #[error("token-file {}: {source}", path.display())]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file does not contain a token.
    #[error("token-file {}: expected {}", path.display(), shape())]
    Malformed {
        /// The path of the file.
        path: PathBuf,
    },
    /// A line of the file is not a name with a token.
    #[error("token-file {}:{line}: found {found}, expected {expected}", path.display())]
    Line {
        /// The path of the file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
        /// What the line holds, without any token.
        found: String,
        /// What the line should hold.
        expected: String,
    },
    /// Others can read the file.
    #[error("token-file {}: mode is {mode:03o}, expected {PRIVATE}", path.display())]
    Open {
        /// The path of the file.
        path: PathBuf,
        /// The mode of the file.
        mode: u32,
    },
}

/// The mode of a token file, and the reason for it.
const PRIVATE: &str = "600: others can read it";

/// The content of a token file.
fn shape() -> String {
    format!("one line of {}", AccessToken::words())
}

impl TokenError {
    /// The error of a file that cannot be read for this reason.
    pub(super) fn of_io(path: &Path, source: io::Error) -> TokenError {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound => TokenError::Missing { path },
            _ => TokenError::Io { path, source },
        }
    }

    /// The error, and its effect on the admin plane.
    pub fn in_admin_words(&self) -> String {
        let until = if matches!(self, TokenError::Missing { .. }) { " until it does" } else { "" };
        format!("{self}: changes over TCP are refused{until}")
    }

    /// What was found, for a fault that begins with the attribute.
    pub(super) fn found(&self) -> String {
        match self {
            TokenError::Missing { .. } => ", which does not exist".to_owned(),
            TokenError::Io { source, .. } => format!(": {source}"),
            TokenError::Malformed { .. } => ", which holds no token".to_owned(),
            TokenError::Line { line, found, .. } => format!(", line {line}: {found}"),
            TokenError::Open { mode, .. } => format!(" of mode {mode:03o}"),
        }
    }

    /// What was expected, for a fault.
    pub(super) fn expected(&self) -> String {
        match self {
            TokenError::Open { .. } => PRIVATE.to_owned(),
            TokenError::Line { expected, .. } => expected.clone(),
            _ => format!("a file with {}", shape()),
        }
    }
}

/// The first `most` bytes of a token file.
pub(super) fn read_bytes(path: &Path, most: u64) -> Result<Vec<u8>, TokenError> {
    let failed = |error| TokenError::of_io(path, error);
    // The kind is checked before the file is opened, because opening a pipe waits for its writer.
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "it is no file")));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(most).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

impl AccessToken {
    /// Like [`AccessToken::read`], for a file that nobody else may be able to read.
    ///
    /// # Errors
    /// The file cannot be read, others can read it, or its content is malformed.
    pub fn read_private(path: &Path) -> Result<AccessToken, TokenError> {
        let token = AccessToken::read(path)?;
        open_error(path).map_or(Ok(token), Err)
    }

    /// Reads a token. Surrounding white space is ignored.
    ///
    /// # Errors
    /// The file cannot be read, or its content is malformed.
    pub fn read(path: &Path) -> Result<AccessToken, TokenError> {
        let bytes = read_bytes(path, 2 * MAX_TOKEN_BYTES as u64)?;
        AccessToken::of(&bytes).ok_or_else(|| TokenError::Malformed { path: path.to_owned() })
    }
}

/// The error of a file that others can read. `None` if nobody else can.
pub(super) fn open_error(path: &Path) -> Option<TokenError> {
    let mode = std::fs::metadata(path).ok()?.mode() & 0o777;
    (mode & 0o077 != 0).then(|| TokenError::Open { path: path.to_owned(), mode })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn files_without_a_token_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let message = |path: &Path| AccessToken::read(path).unwrap_err().to_string();
        assert!(message(&path).contains("token does not exist"), "{}", message(&path));
        assert!(message(dir.path()).contains("it is no file"));
        std::fs::write(&path, "short\n").unwrap();
        assert!(message(&path).contains("expected one line of 16 to 1024"), "{}", message(&path));
        assert!(!message(&path).contains("short"));
        std::fs::write(&path, "0123456789abcdef\n").unwrap();
        assert!(AccessToken::read(&path).unwrap().matches(b"0123456789abcdef"));
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        let open = AccessToken::read_private(&path).unwrap_err().to_string();
        assert!(open.contains("mode is 640, expected 600"), "{open}");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        assert!(AccessToken::read_private(&path).unwrap().matches(b"0123456789abcdef"));
    }
}
