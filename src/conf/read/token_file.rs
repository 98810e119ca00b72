//! Files of tokens.
//!
//! Invariant: an error names the file and what is wrong with it. No message ever shows what is in
//! one.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::schema::{AccessToken, MAX_TOKEN_BYTES};

/// Why a token file holds no usable token. What needs the token is then refused.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file does not exist.
    #[error("token-file {} does not exist", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be read.
    #[error("token-file {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file does not contain a token.
    #[error("token-file {}: expected {}", path.display(), shape())]
    Unfit {
        /// The file.
        path: PathBuf,
    },
    /// A line of the file is no token with its name.
    #[error("token-file {}:{line}: found {found}, expected {expected}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line's number, from 1.
        line: usize,
        /// What is there, without a token.
        found: String,
        /// What should be there.
        expected: String,
    },
    /// Others can read the file.
    #[error("token-file {}: mode is {mode:03o}, expected {PRIVATE}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
}

/// The mode of a token's file, and why.
const PRIVATE: &str = "600: others can read it";

/// What a token's file holds.
fn shape() -> String {
    format!("one line of {}", AccessToken::words())
}

impl TokenError {
    /// The file cannot be read for this reason.
    pub(super) fn of_io(path: &Path, source: io::Error) -> TokenError {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound => TokenError::Missing { path },
            _ => TokenError::Io { path, source },
        }
    }

    /// The error, and what it means for the admin plane.
    pub fn in_admin_words(&self) -> String {
        let until = if matches!(self, TokenError::Missing { .. }) { " until it does" } else { "" };
        format!("{self}: changes over TCP are refused{until}")
    }

    /// What is there, for a fault that begins with the attribute.
    pub(super) fn found(&self) -> String {
        match self {
            TokenError::Missing { .. } => ", which does not exist".to_owned(),
            TokenError::Io { source, .. } => format!(": {source}"),
            TokenError::Unfit { .. } => ", which holds no token".to_owned(),
            TokenError::Line { line, found, .. } => format!(", line {line}: {found}"),
            TokenError::Open { mode, .. } => format!(" of mode {mode:03o}"),
        }
    }

    /// What should be there, for a fault.
    pub(super) fn expected(&self) -> String {
        match self {
            TokenError::Open { .. } => PRIVATE.to_owned(),
            _ => format!("a file with {}", shape()),
        }
    }
}

/// The first bytes of a file of tokens, `most` of them at most.
pub(super) fn read_bytes(path: &Path, most: u64) -> Result<Vec<u8>, TokenError> {
    let failed = |error| TokenError::of_io(path, error);
    // Check the kind before opening: to open a pipe is to wait for its writer.
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "it is no file")));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(most).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

impl AccessToken {
    /// As [`AccessToken::read`], of a file that nobody else can read.
    ///
    /// # Errors
    /// The file cannot be read, others can read it, or its content cannot be used.
    pub fn read_private(path: &Path) -> Result<AccessToken, TokenError> {
        let token = AccessToken::read(path)?;
        open_error(path).map_or(Ok(token), Err)
    }

    /// Reads a token. Surrounding white space is ignored.
    ///
    /// # Errors
    /// The file cannot be read, or its content cannot be used.
    pub fn read(path: &Path) -> Result<AccessToken, TokenError> {
        let bytes = read_bytes(path, 2 * MAX_TOKEN_BYTES as u64)?;
        AccessToken::of(&bytes).ok_or_else(|| TokenError::Unfit { path: path.to_owned() })
    }
}

/// Reports a file that others can read.
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
        let said = |path: &Path| AccessToken::read(path).unwrap_err().to_string();
        assert!(said(&path).contains("token does not exist"), "{}", said(&path));
        assert!(said(dir.path()).contains("it is no file"));
        std::fs::write(&path, "short\n").unwrap();
        assert!(said(&path).contains("expected one line of 16 to 1024"), "{}", said(&path));
        assert!(!said(&path).contains("short"));
        std::fs::write(&path, "0123456789abcdef\n").unwrap();
        assert!(AccessToken::read(&path).unwrap().is(b"0123456789abcdef"));
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        let open = AccessToken::read_private(&path).unwrap_err().to_string();
        assert!(open.contains("mode is 640, expected 600"), "{open}");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        assert!(AccessToken::read_private(&path).unwrap().is(b"0123456789abcdef"));
    }
}
