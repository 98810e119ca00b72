//! A token that clients must carry, and the file that holds it.
//!
//! Invariant: a comparison takes the same time for a wrong token as for the right one, and no
//! message ever shows a token.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A shorter one can be guessed.
const MIN_BYTES: usize = 16;
const MAX_BYTES: usize = 1024;

/// A token.
#[derive(Clone, PartialEq, Eq)]
pub struct AccessToken(Vec<u8>);

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

impl std::fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AccessToken(…)")
    }
}

impl AccessToken {
    /// Stands for a token that could not be read: nothing equals it.
    pub const UNKNOWN: AccessToken = AccessToken(Vec::new());

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
        let bytes = read_bytes(path, 2 * MAX_BYTES as u64)?;
        AccessToken::of(&bytes).ok_or_else(|| TokenError::Unfit { path: path.to_owned() })
    }

    /// The token in a text: `token68` of RFC 9110, section 11.2.
    pub(super) fn of(text: &[u8]) -> Option<AccessToken> {
        let token = text.trim_ascii();
        let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(byte);
        let sized = (MIN_BYTES..=MAX_BYTES).contains(&token.len());
        (sized && token.iter().all(fits)).then(|| AccessToken(token.to_vec()))
    }

    /// What a token is, for messages.
    pub(super) fn words() -> String {
        format!("{MIN_BYTES} to {MAX_BYTES} characters, letters, digits and -._~+/=")
    }

    /// Its text, for the master's workers alone.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether it equals the given one. The time does not reveal where they differ.
    pub fn is(&self, given: &[u8]) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let pad = given.iter().copied().chain(std::iter::repeat(0));
        let differing =
            self.0.iter().zip(pad).fold(0, |all, (own, given)| black_box(all | (own ^ given)));
        (differing == 0) & (self.0.len() == given.len())
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
    fn one_line_of_some_length() {
        let good = "0123456789abcdef";
        for text in [good.to_owned(), format!(" {good}\r\n"), "A-._~+/=".repeat(128)] {
            assert!(AccessToken::of(text.as_bytes()).is_some(), "{text}");
        }
        for text in ["", "\n", "0123456789abcde", "0123456789abcdef x", "0123456789abcdefé"] {
            assert!(AccessToken::of(text.as_bytes()).is_none(), "{text}");
        }
        assert!(AccessToken::of("x".repeat(1025).as_bytes()).is_none());
    }

    #[test]
    fn only_the_same_is_the_same() {
        let token = AccessToken::of(b"0123456789abcdef").unwrap();
        assert!(token.is(b"0123456789abcdef"));
        for wrong in ["", "0123456789abcde", "0123456789abcdef0", "0123456789abcdeg", "\0"] {
            assert!(!token.is(wrong.as_bytes()), "{wrong}");
        }
        let padded = [&b"0123456789abcdef"[..], b"\0"].concat();
        assert!(!token.is(&padded));
        assert!(!format!("{token:?}").contains("0123"));
        assert!(!AccessToken::UNKNOWN.is(b"") && !AccessToken::UNKNOWN.is(b"\0"));
    }

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
