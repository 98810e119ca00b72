//! The tokens of the admin plane. Each has a name, and a grant that says what its owner may change.
//!
//! Invariant: names and tokens of a file are unique, so a token has one name. A comparison looks at
//! every token of the file, and no message ever shows a token.
//!
//! ```text
//! alice 3q2+7w0123456789
//! grafana kE9fXy0123456789 read-only
//! ```
//!
//! A file that holds only a token holds the token of `admin`.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::private_file::{self, SecretReaders};
use super::scalar::is_word;
use super::token_file::{TokenError, unread};
use crate::schema::{AccessToken, Conf};

/// The name of a token that stands alone in its file.
const LONE_NAME: &str = "admin";
/// The most tokens of a file.
const MAX_TOKENS: usize = 64;
/// The most bytes of a name.
const MAX_NAME_BYTES: usize = 64;
/// The most bytes of a file: enough for all tokens with the longest names, and as much white space.
const MAX_FILE_BYTES: u64 = 256 << 10;

/// What the owner of a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grant {
    /// Everything that the admin plane offers.
    Change,
    /// Only reading.
    ReadOnly,
}

/// A token with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedToken {
    /// The name, for the log and the list of changes.
    pub name: Arc<str>,
    /// What the owner of the token may do.
    pub grant: Grant,
    token: AccessToken,
}

/// The tokens of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminTokens(Vec<NamedToken>);

impl AdminTokens {
    /// Reads the tokens of a file.
    ///
    /// # Errors
    /// The file cannot be read, others can read it, or its content cannot be used.
    pub fn read(path: &Path, readers: &SecretReaders) -> Result<AdminTokens, TokenError> {
        let bytes = private_file::read(path, MAX_FILE_BYTES + 1, readers).map_err(unread(path))?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            let words = format!("it is longer than {MAX_FILE_BYTES} bytes");
            return Err(TokenError::of_io(path, io::Error::new(io::ErrorKind::InvalidData, words)));
        }
        AdminTokens::of(path, &bytes)
    }

    fn of(path: &Path, bytes: &[u8]) -> Result<AdminTokens, TokenError> {
        let malformed = || TokenError::Malformed { path: path.to_owned() };
        let text = std::str::from_utf8(bytes).map_err(|_| malformed())?;
        if let [_] = text.split_ascii_whitespace().take(2).collect::<Vec<_>>()[..] {
            let token = AccessToken::of(text.as_bytes()).ok_or_else(malformed)?;
            let name = Arc::from(LONE_NAME);
            return Ok(AdminTokens(vec![NamedToken { name, grant: Grant::Change, token }]));
        }
        let mut tokens: Vec<NamedToken> = Vec::new();
        for (line, number) in text.lines().zip(1..) {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let bad =
                |found: &str, expected: &str| TokenError::of_line(path, number, found, expected);
            tokens.push(read_line(line, &tokens, bad)?);
        }
        if tokens.is_empty() { Err(malformed()) } else { Ok(AdminTokens(tokens)) }
    }

    /// The tokens with this grant.
    pub(super) fn with(&self, grant: Grant) -> Vec<AccessToken> {
        self.0.iter().filter(|it| it.grant == grant).map(|it| it.token.clone()).collect()
    }

    /// The token that equals the given text. The time does not reveal which token the text
    /// resembles.
    pub fn find(&self, given: &[u8]) -> Option<&NamedToken> {
        self.0.iter().fold(None, |found, known| match known.token.matches(given) {
            true => Some(known),
            false => found,
        })
    }
}

/// Reads the token of a line, which differs from those before it. `bad` makes the error of what was
/// found and expected. It shows no word of a malformed line, because any of them may be a misplaced
/// token.
fn read_line(
    line: &str,
    before: &[NamedToken],
    bad: impl Fn(&str, &str) -> TokenError,
) -> Result<NamedToken, TokenError> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let (name, token, grant) = match words[..] {
        [name, token] => (name, token, Grant::Change),
        [name, token, "read-only"] => (name, token, Grant::ReadOnly),
        [_, _, _] => return Err(bad("another third word", "read-only, or none")),
        _ => {
            let found = format!("{} word{}", words.len(), if words.len() == 1 { "" } else { "s" });
            return Err(bad(&found, "NAME TOKEN or NAME TOKEN read-only"));
        }
    };
    if !is_word(name, MAX_NAME_BYTES) {
        let expected = format!("one of 1 to {MAX_NAME_BYTES} letters, digits and ._-");
        return Err(bad("a first word that is no name", &expected));
    }
    let token = AccessToken::of(token.as_bytes())
        .ok_or_else(|| bad("a second word that is no token", &AccessToken::words()))?;
    if before.iter().any(|known| *known.name == *name) {
        return Err(bad("a name of a line before", "each name once"));
    }
    if before.iter().any(|known| known.token == token) {
        return Err(bad("the token of a line before", "each token once"));
    }
    if before.len() == MAX_TOKENS {
        return Err(bad("one more token", &format!("at most {MAX_TOKENS}")));
    }
    Ok(NamedToken { name: name.into(), grant, token })
}

impl Conf {
    /// The tokens of the admin plane. `None` if the configuration names no token file.
    ///
    /// # Errors
    /// The named file holds no usable tokens.
    pub fn admin_tokens(&self) -> Result<Option<AdminTokens>, TokenError> {
        let file = self.srv.admin_token_file();
        file.map(|path| AdminTokens::read(path, &self.srv.secret_readers())).transpose()
    }

    /// The warning about the token file for an operator.
    pub fn token_warning(&self) -> Option<String> {
        self.admin_tokens().err().map(|error| error.in_admin_words())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const ONE: &str = "0123456789abcdef";
    const OTHER: &str = "fedcba9876543210";

    fn tokens(text: &str) -> Result<AdminTokens, TokenError> {
        AdminTokens::of(Path::new("admin.token"), text.as_bytes())
    }

    #[test]
    fn a_lone_token_is_that_of_admin() {
        for text in [ONE.to_owned(), format!("\n {ONE}\r\n\n")] {
            let tokens = tokens(&text).unwrap();
            let found = tokens.find(ONE.as_bytes()).unwrap();
            assert_eq!((&*found.name, found.grant), ("admin", Grant::Change));
            assert!(tokens.find(OTHER.as_bytes()).is_none());
        }
    }

    #[test]
    fn each_token_has_its_name() {
        let text = format!("alice {ONE}\r\n\n\tA.b_c-9  {OTHER}\tread-only \n");
        let file = tokens(&text).unwrap();
        let named = |token: &str| {
            let found = file.find(token.as_bytes())?;
            Some((found.name.to_string(), found.grant))
        };
        assert_eq!(named(ONE), Some(("alice".into(), Grant::Change)));
        assert_eq!(named(OTHER), Some(("A.b_c-9".into(), Grant::ReadOnly)));
        assert_eq!(named("fedcba9876543211"), None);
        assert_eq!(named(""), None);
        assert!(!format!("{file:?}").contains(ONE), "{file:?}");
        assert!(tokens(&format!("{} {ONE}", "n".repeat(64))).is_ok());
    }

    // Shows: permissions.
    #[test]
    fn faults_name_the_line_and_never_the_token() {
        let first = format!("alice {ONE}\n\n");
        for (line, expected) in [
            (format!("{OTHER}\n"), "3: found 1 word, expected NAME TOKEN or NAME TOKEN read-only"),
            ("# bob\n".into(), "3: found a first word that is no name, expected one of 1 to 64 "),
            (format!("bob {OTHER} read-only x\n"), "3: found 4 words, expected NAME TOKEN or"),
            (format!("bob {OTHER} readonly\n"), "3: found another third word, expected read-only"),
            (format!("b/b {OTHER}\n"), "3: found a first word that is no name, expected"),
            (format!("{} {OTHER}\n", "n".repeat(65)), "3: found a first word that is no name"),
            (format!("{OTHER} short\n"), "3: found a second word that is no token, expected 16 "),
            (format!("alice {OTHER}\n"), "3: found a name of a line before, expected each name"),
            (format!("bob {ONE}\n"), "3: found the token of a line before, expected each token"),
        ] {
            let message = tokens(&format!("{first}{line}")).unwrap_err().to_string();
            assert!(message.starts_with("token-file admin.token:"), "{message}");
            assert!(message.contains(expected), "{line:?}: {message}");
            assert!(!message.contains(OTHER) && !message.contains("short"), "{message}");
        }
        for text in ["", " \n\n", "short", "0123456789abcdé0"] {
            let message = tokens(text).unwrap_err().to_string();
            assert!(message.contains("expected one line of 16 to 1024 characters"), "{message}");
        }
    }

    #[test]
    fn their_number_and_the_file_are_bounded() {
        let lines = |most: usize| -> String {
            (0..most).map(|nth| format!("n{nth} {ONE}{nth}\n")).collect()
        };
        assert!(tokens(&lines(MAX_TOKENS)).is_ok());
        let message = tokens(&lines(MAX_TOKENS + 1)).unwrap_err().to_string();
        assert!(message.contains(":65: found one more token, expected at most 64"), "{message}");
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let readers = SecretReaders::of(None);
        let read = |path: &Path| AdminTokens::read(path, &readers);
        let message = |path: &Path| read(path).unwrap_err().to_string();
        assert!(message(&path).contains("token does not exist"));
        assert!(message(dir.path()).contains("it is no file"));
        std::fs::write(&path, vec![b' '; MAX_FILE_BYTES as usize + 1]).unwrap();
        let set = |mode| std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        set(0o604);
        assert!(message(&path).contains("found mode 0604, expected 0400, 0440, 0600 or 0640"));
        set(0o600);
        assert!(message(&path).contains("it is longer than"));
        std::fs::write(&path, format!("alice {ONE}\n")).unwrap();
        assert!(read(&path).unwrap().find(ONE.as_bytes()).is_some());
    }
}
