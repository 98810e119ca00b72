//! Files of tokens.
//!
//! Invariant: an error names the file and its fault. No message ever shows the content of a file.

use std::io;
use std::path::{Path, PathBuf};

use super::private_file::{Exposure, Unread};
use crate::schema::AccessToken;

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
    #[error(
        "token-file {}: found {}, expected {}",
        path.display(), exposure.found(), exposure.expected()
    )]
    Exposed {
        /// The path of the file.
        path: PathBuf,
        /// How they can.
        exposure: Exposure,
    },
}

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

    /// The error of a line of a file.
    pub(super) fn of_line(path: &Path, line: usize, found: &str, expected: &str) -> TokenError {
        let (found, expected) = (found.to_owned(), expected.to_owned());
        TokenError::Line { path: path.to_owned(), line, found, expected }
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
            TokenError::Exposed { exposure, .. } => format!(" with {}", exposure.found()),
        }
    }

    /// What was expected, for a fault.
    pub(super) fn expected(&self) -> String {
        match self {
            TokenError::Exposed { exposure, .. } => exposure.expected().to_owned(),
            TokenError::Line { expected, .. } => expected.clone(),
            _ => format!("a file with {}", shape()),
        }
    }
}

/// The error of a file that is not read.
pub(super) fn unread(path: &Path) -> impl Fn(Unread) -> TokenError {
    move |unread| match unread {
        Unread::Io(source) => TokenError::of_io(path, source),
        Unread::NoFile => {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "it is no file");
            TokenError::of_io(path, error)
        }
        Unread::Exposed(exposure) => TokenError::Exposed { path: path.to_owned(), exposure },
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::read::private_file::SecretReaders;

    #[test]
    fn files_without_a_token_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let readers = SecretReaders::of(None);
        let read = |path: &Path| AccessToken::read_lines(path, &readers);
        let message = |path: &Path| read(path).unwrap_err().to_string();
        let set = |mode| std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        assert!(message(&path).contains("token does not exist"), "{}", message(&path));
        assert!(message(dir.path()).contains("it is no file"));
        std::fs::write(&path, "short\n").unwrap();
        set(0o600);
        assert!(message(&path).contains("expected one line of 16 to 1024"), "{}", message(&path));
        assert!(!message(&path).contains("short"));
        std::fs::write(&path, "0123456789abcdef\n").unwrap();
        assert!(read(&path).unwrap()[0].matches(b"0123456789abcdef"));
        set(0o644);
        let exposed = message(&path);
        assert!(
            exposed.contains("found mode 0644, expected 0400, 0440, 0600 or 0640"),
            "{exposed}"
        );
        set(0o640);
        assert!(read(&path).unwrap()[0].matches(b"0123456789abcdef"));
    }
}
