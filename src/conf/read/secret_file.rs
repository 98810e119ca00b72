//! Files of secrets: the one that all machines of a cluster have alike, and the password there.
//!
//! Invariant: a file that others can read is refused, and no message ever shows what is in one.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use frs_base::hash::siphash_digest;

use super::fault::Fault;
use crate::schema::{Cluster, Login};

/// Bytes of a cluster's secret.
const SECRET_BYTES: usize = 32;
/// What the seed of keys in nodes is computed of, under the secret. It never changes: under another
/// seed a host would name keys as no other machine does.
const KEY_SEED: &[u8] = b"frs: the seed of keys in nodes, 1";
/// Bytes of the longest password.
const MAX_PASSWORD_BYTES: usize = 1024;
/// Bytes that are read of a file: more than any secret has.
const MAX_FILE_BYTES: u64 = 2 * MAX_PASSWORD_BYTES as u64;
const PASSWORD: &str = "one line of 1 to 1024 bytes, the password";

/// Keys the digests by which all machines of a cluster name a key alike.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterSecret([u8; SECRET_BYTES]);

/// What processes of a host need of the secret: they cannot read its file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ClusterKeys {
    /// Tells whether two machines have the same secret, and nothing else of it.
    pub check: u64,
    /// Keys the digests that nodes of shared bizs hold instead of long keys: all machines must name
    /// a key alike. It is computed of the secret and tells nothing of it.
    pub key_seed: [u64; 2],
}

impl ClusterSecret {
    /// Of its bytes.
    pub const fn new(bytes: [u8; SECRET_BYTES]) -> ClusterSecret {
        ClusterSecret(bytes)
    }

    /// The first half names keys in the cluster. Of the second one follows how nodes name them.
    pub fn halves(&self) -> [[u64; 2]; 2] {
        let (words, _) = self.0.as_chunks::<8>();
        let word = |at: usize| u64::from_le_bytes(words[at]);
        [[word(0), word(1)], [word(2), word(3)]]
    }

    /// What processes of a host need of it. Each process with access to the host's files reads
    /// this, so nothing of the secret stands in it: SipHash is a pseudorandom function (Aumasson
    /// and Bernstein 2012), and who knows its values does not know its key.
    pub fn keys(&self) -> ClusterKeys {
        let [first, second] = self.halves();
        let [check, _] = siphash_digest(&self.0[SECRET_BYTES / 2..], first);
        let key_seed = siphash_digest(KEY_SEED, second);
        ClusterKeys { check, key_seed }
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8; SECRET_BYTES] {
        &self.0
    }

    /// What the bytes of a file say: 64 hexadecimal digits with any white space around them, or 32
    /// bytes as they are.
    fn of(file: &[u8]) -> Option<ClusterSecret> {
        if let Ok(bytes) = file.try_into() {
            return Some(ClusterSecret(bytes));
        }
        let digits: &[u8; 2 * SECRET_BYTES] = file.trim_ascii().try_into().ok()?;
        let mut bytes = [0; SECRET_BYTES];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            // from_str_radix alone would take a sign.
            let pair = pair.iter().all(u8::is_ascii_hexdigit).then_some(pair)?;
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(ClusterSecret(bytes))
    }
}

/// The password of a login.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(Vec<u8>);

impl Password {
    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The one line of a file, without its end.
    fn of(file: &[u8]) -> Option<Password> {
        let line = file.strip_suffix(b"\n").unwrap_or(file);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let fits = (1..=MAX_PASSWORD_BYTES).contains(&line.len());
        let is_one = !line.iter().any(|byte| b"\r\n\0".contains(byte));
        (fits && is_one).then(|| Password(line.to_vec()))
    }
}

impl fmt::Debug for ClusterSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterSecret(…)")
    }
}

impl fmt::Debug for ClusterKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterKeys(…)")
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

/// What the files of a cluster hold. Only the master reads them, as the user that it was started
/// as: the user that its processes become need not be able to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterSecrets {
    /// The secret that all machines have alike.
    pub secret: ClusterSecret,
    /// The password of the login, if somebody logs in.
    pub password: Option<Password>,
}

/// Why a file holds no secret that can be used; says what to do.
#[derive(Debug, thiserror::Error)]
#[error("{}: found {found}, expected {expected}", path.display())]
pub struct SecretError {
    /// The file.
    pub path: PathBuf,
    /// What is there.
    pub found: String,
    /// What should be.
    pub expected: String,
    /// Why it cannot be read, if it cannot.
    pub source: Option<io::Error>,
}

impl SecretError {
    fn new(path: &Path, found: impl Into<String>, expected: impl Into<String>) -> SecretError {
        let (found, expected) = (found.into(), expected.into());
        SecretError { path: path.to_owned(), found, expected, source: None }
    }

    fn fault(self) -> Fault {
        Fault {
            file: self.path.display().to_string(),
            position: None,
            found: self.found,
            expected: self.expected,
            line: None,
            count: 1,
        }
    }
}

impl Cluster {
    /// Reads the files.
    ///
    /// # Errors
    /// A file is not there, others can read it, or it does not hold what it should.
    pub fn secrets(&self) -> Result<ClusterSecrets, SecretError> {
        Ok(ClusterSecrets { secret: self.secret()?, password: self.password()? })
    }

    /// Reads the secret.
    ///
    /// # Errors
    /// The file is not there, others can read it, or it holds none.
    pub fn secret(&self) -> Result<ClusterSecret, SecretError> {
        let path = &self.secret_file;
        let shown = path.display();
        let expected = || {
            format!(
                "{SECRET_BYTES} bytes or {} hexadecimal digits, the same on all machines: make \
                 them once with (umask 077; openssl rand -hex {SECRET_BYTES} > {shown})",
                2 * SECRET_BYTES
            )
        };
        let bytes = read(path, expected)?;
        ClusterSecret::of(&bytes).ok_or_else(|| {
            let found = match bytes.trim_ascii().len() == 2 * SECRET_BYTES {
                true => "characters that are no hexadecimal digits".to_owned(),
                false => size_of(&bytes),
            };
            SecretError::new(path, found, expected())
        })
    }

    /// Reads the password; none: nobody logs in.
    ///
    /// # Errors
    /// The file is not there, others can read it, or it holds none.
    pub fn password(&self) -> Result<Option<Password>, SecretError> {
        let Some(Login { user, password_file: path }) = &self.login else { return Ok(None) };
        let expected = || {
            let user = user.as_deref().unwrap_or("default");
            format!("{PASSWORD} of the cluster's user {user}")
        };
        let bytes = read(path, expected)?;
        let password = Password::of(&bytes);
        password.map(Some).ok_or_else(|| SecretError::new(path, size_of(&bytes), expected()))
    }

    /// What is wrong with its files.
    pub(crate) fn file_faults(&self) -> Vec<Fault> {
        let errors = [self.secret().err(), self.password().err()];
        errors.into_iter().flatten().map(SecretError::fault).collect()
    }
}

fn size_of(bytes: &[u8]) -> String {
    match bytes.len() {
        1 => "1 byte".to_owned(),
        size if size as u64 >= MAX_FILE_BYTES => format!("{size} bytes or more"),
        size => format!("{size} bytes"),
    }
}

/// Reads a file that nobody else can read.
fn read(path: &Path, expected: impl Fn() -> String) -> Result<Vec<u8>, SecretError> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => SecretError::new(path, "no such file", expected()),
        _ => SecretError {
            source: Some(io::Error::from(source.kind())),
            ..SecretError::new(path, source.to_string(), "a file that the server can read")
        },
    };
    // Looked at before it is opened: opening a pipe would wait for its writer.
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err(SecretError::new(path, "something that is no file", expected()));
    }
    let file = File::open(path).map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.mode() & 0o777;
    if mode & 0o077 != 0 {
        let path_shown = path.display();
        let expected = format!("600, as others can read it: chmod 600 {path_shown}");
        return Err(SecretError::new(path, format!("mode {mode:03o}"), expected));
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
