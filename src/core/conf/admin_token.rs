//! The token that changes over TCP must carry, and its file.
//!
//! Invariant: a comparison takes the same time for a wrong token as for the right one, and no
//! message ever shows a token.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Conf;

/// A shorter one can be guessed.
const MIN_BYTES: usize = 16;
const MAX_BYTES: usize = 1024;

/// A token.
#[derive(Clone, PartialEq, Eq)]
pub struct AdminToken(Vec<u8>);

/// Why a token file holds no usable token. Changes over TCP are then refused.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file does not exist.
    #[error(
        "token-file {} does not exist: changes over TCP are refused until it does",
        path.display()
    )]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be read.
    #[error("token-file {}: {source}: changes over TCP are refused", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file does not contain a token.
    #[error(
        "token-file {}: expected one line of {MIN_BYTES} to {MAX_BYTES} characters, letters, digits \
         and -._~+/=: changes over TCP are refused", path.display()
    )]
    Unfit {
        /// The file.
        path: PathBuf,
    },
}

impl std::fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AdminToken(…)")
    }
}

impl AdminToken {
    /// Reads a token. Surrounding white space is ignored.
    ///
    /// # Errors
    /// The file cannot be read, or its content cannot be used.
    pub fn read(path: &Path) -> Result<AdminToken, TokenError> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => TokenError::Missing { path: path.to_owned() },
            _ => TokenError::Io { path: path.to_owned(), source },
        };
        // Check the kind before opening: to open a pipe is to wait for its writer.
        if !std::fs::metadata(path).map_err(failed)?.is_file() {
            return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "it is no file")));
        }
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(failed)?;
        file.take(2 * MAX_BYTES as u64).read_to_end(&mut bytes).map_err(failed)?;
        AdminToken::of(&bytes).ok_or_else(|| TokenError::Unfit { path: path.to_owned() })
    }

    /// The token in a text: `token68` of RFC 9110, section 11.2.
    fn of(text: &[u8]) -> Option<AdminToken> {
        let token = text.trim_ascii();
        let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(byte);
        let sized = (MIN_BYTES..=MAX_BYTES).contains(&token.len());
        (sized && token.iter().all(fits)).then(|| AdminToken(token.to_vec()))
    }

    /// Whether it equals the given one. The time does not reveal where they differ.
    pub fn is(&self, given: &[u8]) -> bool {
        let pad = given.iter().copied().chain(std::iter::repeat(0));
        let differing =
            self.0.iter().zip(pad).fold(0, |all, (own, given)| black_box(all | (own ^ given)));
        (differing == 0) & (self.0.len() == given.len())
    }
}

impl Conf {
    /// The token of the admin plane. None: the configuration names no token file.
    ///
    /// # Errors
    /// It names a file without a usable token.
    pub fn token(&self) -> Result<Option<AdminToken>, TokenError> {
        let file = self.srv.admin.as_ref().and_then(|admin| admin.token_file.as_deref());
        file.map(AdminToken::read).transpose()
    }

    /// Warnings for an operator before the admin plane is used, one line each.
    pub fn token_warnings(&self) -> Vec<String> {
        let Some(path) = self.srv.admin.as_ref().and_then(|admin| admin.token_file.as_deref())
        else {
            return Vec::new();
        };
        match AdminToken::read(path) {
            Err(error) => vec![error.to_string()],
            Ok(_) => open_warning(path).into_iter().collect(),
        }
    }
}

fn open_warning(path: &Path) -> Option<String> {
    let mode = std::fs::metadata(path).ok()?.mode() & 0o777;
    let open = mode & 0o077 != 0;
    let path = path.display();
    open.then(|| format!("token-file {path}: mode is {mode:03o}, expected 600: others can read it"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn one_line_of_some_length() {
        let good = "0123456789abcdef";
        for text in [good.to_owned(), format!(" {good}\r\n"), "A-._~+/=".repeat(128)] {
            assert!(AdminToken::of(text.as_bytes()).is_some(), "{text}");
        }
        for text in ["", "\n", "0123456789abcde", "0123456789abcdef x", "0123456789abcdefé"] {
            assert!(AdminToken::of(text.as_bytes()).is_none(), "{text}");
        }
        assert!(AdminToken::of("x".repeat(1025).as_bytes()).is_none());
    }

    #[test]
    fn only_the_same_is_the_same() {
        let token = AdminToken::of(b"0123456789abcdef").unwrap();
        assert!(token.is(b"0123456789abcdef"));
        for wrong in ["", "0123456789abcde", "0123456789abcdef0", "0123456789abcdeg", "\0"] {
            assert!(!token.is(wrong.as_bytes()), "{wrong}");
        }
        let padded = [&b"0123456789abcdef"[..], b"\0"].concat();
        assert!(!token.is(&padded));
        assert!(!format!("{token:?}").contains("0123"));
    }

    #[test]
    fn files_without_a_token_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let said = |path: &Path| AdminToken::read(path).unwrap_err().to_string();
        assert!(said(&path).contains("token does not exist"), "{}", said(&path));
        assert!(said(dir.path()).contains("it is no file"));
        std::fs::write(&path, "short\n").unwrap();
        assert!(said(&path).contains("expected one line of 16 to 1024"), "{}", said(&path));
        assert!(!said(&path).contains("short"));
        std::fs::write(&path, "0123456789abcdef\n").unwrap();
        assert!(AdminToken::read(&path).unwrap().is(b"0123456789abcdef"));
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        assert!(open_warning(&path).unwrap().contains("mode is 640, expected 600"));
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        assert_eq!(open_warning(&path), None);
    }
}
