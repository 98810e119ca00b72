//! Files of secrets: the secret that all machines of a cluster or of a mirror share, the password
//! of the cluster, and how any secret file is read.
//!
//! Invariant: a file that others can read is refused (`private_file`), and no message ever shows
//! the content of a file.

use std::io;
use std::path::{Path, PathBuf};

use frs_base::hash::siphash_digest;

use super::faults::Fault;
use super::private_file::{self, SecretReaders, Unread};
use crate::schema::{Cluster, Login, Peers, Srv, hide_in_debug};

/// Bytes of a secret that machines share.
const SECRET_BYTES: usize = 32;
/// The text from which the seed of keys in nodes is computed, with the secret as the key. It never
/// changes: with another seed, a host would name keys differently from all other machines.
const KEY_SEED: &[u8] = b"frs: the seed of keys in nodes, 1";
/// Bytes of the longest password.
const MAX_PASSWORD_BYTES: usize = 1024;
/// The most bytes that are read of a file: more than any secret has.
const MAX_FILE_BYTES: u64 = 2 * MAX_PASSWORD_BYTES as u64;
const PASSWORD: &str = "one line of 1 to 1024 bytes, the password";

/// The secret of a cluster, or of peers. It keys the digests by which all machines name a key.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterSecret([u8; SECRET_BYTES]);

/// The values derived from the secret that a host's processes need, as they cannot read its file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ClusterKeys {
    /// Tells whether two machines have the same secret, and reveals nothing else of it.
    pub check: u64,
    /// Keys the digests that nodes of shared bizs hold instead of long keys. All machines must name
    /// a key alike. It is derived from the secret and reveals nothing of it.
    pub key_seed: [u64; 2],
}

impl ClusterKeys {
    /// The keys in the words of [`ClusterKeys::words`].
    pub fn of_words([check, first, second]: [u64; 3]) -> ClusterKeys {
        ClusterKeys { check, key_seed: [first, second] }
    }

    /// The keys as words, in which form processes share them.
    pub fn words(self) -> [u64; 3] {
        let [first, second] = self.key_seed;
        [self.check, first, second]
    }
}

impl ClusterSecret {
    /// The secret with these bytes.
    pub const fn new(bytes: [u8; SECRET_BYTES]) -> ClusterSecret {
        ClusterSecret(bytes)
    }

    /// The halves of the secret, each as a key. The first names keys in the cluster. The seed of
    /// the names of keys in nodes is derived from the second.
    pub fn halves(&self) -> [[u64; 2]; 2] {
        let (words, _) = self.0.as_chunks::<8>();
        let word = |at: usize| u64::from_le_bytes(words[at]);
        [[word(0), word(1)], [word(2), word(3)]]
    }

    /// The values that processes of a host need. Every process with access to the host's files
    /// reads them, so they reveal nothing of the secret: SipHash is a pseudorandom function
    /// (Aumasson and Bernstein 2012), whose values do not reveal its key.
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

    /// Reads the bytes of a file: 64 hexadecimal digits with any white space around them, or 32 raw
    /// bytes.
    fn of(file: &[u8]) -> Option<ClusterSecret> {
        if let Ok(bytes) = file.try_into() {
            return Some(ClusterSecret(bytes));
        }
        let digits: &[u8; 2 * SECRET_BYTES] = file.trim_ascii().try_into().ok()?;
        let mut bytes = [0; SECRET_BYTES];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            // from_str_radix alone would accept a sign.
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

    /// Reads the one line of a file, without its line end.
    fn of(file: &[u8]) -> Option<Password> {
        let line = file.strip_suffix(b"\n").unwrap_or(file);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let fits = (1..=MAX_PASSWORD_BYTES).contains(&line.len());
        let is_one = !line.iter().any(|byte| b"\r\n\0".contains(byte));
        (fits && is_one).then(|| Password(line.to_vec()))
    }
}

hide_in_debug!(ClusterSecret, ClusterKeys, Password);

/// The content of the files of a cluster or of peers. Only the master reads them, as the user that
/// it was started as. The user that its processes become need not be able to read them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterSecrets {
    /// The secret that all machines share.
    pub secret: ClusterSecret,
    /// The password of the login. `None` without a login.
    pub password: Option<Password>,
}

/// A file holds no usable secret. The message says what to do.
#[derive(Debug, thiserror::Error)]
#[error("{}: found {found}, expected {expected}", path.display())]
pub struct SecretError {
    /// The path of the file.
    pub path: PathBuf,
    /// What the file holds.
    pub found: String,
    /// What it should hold.
    pub expected: String,
    /// The error that prevented reading, if there was one.
    pub source: Option<io::Error>,
}

impl SecretError {
    fn new(path: &Path, found: impl Into<String>, expected: impl Into<String>) -> SecretError {
        let (found, expected) = (found.into(), expected.into());
        SecretError { path: path.to_owned(), found, expected, source: None }
    }

    pub(crate) fn fault(self) -> Fault {
        Fault::without_position(self.path.display().to_string(), self.found, self.expected)
    }
}

impl Cluster {
    /// Reads the secret and the password.
    ///
    /// # Errors
    /// A file does not exist, others can read it, or its content is malformed.
    pub fn secrets(&self, readers: &SecretReaders) -> Result<ClusterSecrets, SecretError> {
        Ok(ClusterSecrets { secret: self.secret(readers)?, password: self.password(readers)? })
    }

    /// Reads the secret.
    ///
    /// # Errors
    /// The file does not exist, others can read it, or its content is malformed.
    pub fn secret(&self, readers: &SecretReaders) -> Result<ClusterSecret, SecretError> {
        shared_secret(&self.secret_file, readers)
    }

    /// Reads the password. `None` without a login.
    ///
    /// # Errors
    /// The file does not exist, others can read it, or its content is malformed.
    pub fn password(&self, readers: &SecretReaders) -> Result<Option<Password>, SecretError> {
        let Some(Login { user, password_file: path }) = &self.login else { return Ok(None) };
        let expected = || {
            let user = user.as_deref().unwrap_or("default");
            format!("{PASSWORD} of the cluster's user {user}")
        };
        let bytes = read_secret(path, MAX_FILE_BYTES, readers, expected)?;
        let password = Password::of(&bytes);
        password.map(Some).ok_or_else(|| SecretError::new(path, size_of(&bytes), expected()))
    }

    /// The faults of its files.
    pub(crate) fn file_faults(&self, readers: &SecretReaders) -> Vec<Fault> {
        let errors = [self.secret(readers).err(), self.password(readers).err()];
        errors.into_iter().flatten().map(SecretError::fault).collect()
    }
}

impl Peers {
    /// Reads the secret. Peers have no password.
    ///
    /// # Errors
    /// The file does not exist, others can read it, or its content is malformed.
    pub fn secrets(&self, readers: &SecretReaders) -> Result<ClusterSecrets, SecretError> {
        let secret = shared_secret(&self.secret_file, readers)?;
        Ok(ClusterSecrets { secret, password: None })
    }
}

impl Srv {
    /// Reads the secret files of the cluster, or of the peers. `None` if there are neither.
    ///
    /// # Errors
    /// A file does not exist, others can read it, or its content is malformed.
    pub fn shared_secrets(&self) -> Result<Option<ClusterSecrets>, SecretError> {
        let readers = self.secret_readers();
        match (&self.cluster, &self.peers) {
            (Some(cluster), _) => cluster.secrets(&readers).map(Some),
            (None, Some(peers)) => peers.secrets(&readers).map(Some),
            (None, None) => Ok(None),
        }
    }
}

/// Reads the file of a secret that machines share.
fn shared_secret(path: &Path, readers: &SecretReaders) -> Result<ClusterSecret, SecretError> {
    let shown = path.display();
    let expected = || {
        format!(
            "{SECRET_BYTES} bytes or {} hexadecimal digits, the same on all machines: make them \
             once with (umask 077; openssl rand -hex {SECRET_BYTES} > {shown})",
            2 * SECRET_BYTES
        )
    };
    let bytes = read_secret(path, MAX_FILE_BYTES, readers, expected)?;
    ClusterSecret::of(&bytes).ok_or_else(|| {
        let found = match bytes.trim_ascii().len() == 2 * SECRET_BYTES {
            true => "characters that are no hexadecimal digits".to_owned(),
            false => size_of(&bytes),
        };
        SecretError::new(path, found, expected())
    })
}

fn size_of(bytes: &[u8]) -> String {
    match bytes.len() {
        1 => "1 byte".to_owned(),
        size if size as u64 >= MAX_FILE_BYTES => format!("{size} bytes or more"),
        size => format!("{size} bytes"),
    }
}

/// Reads a file that nobody else can read: its first `most` bytes.
pub(super) fn read_secret(
    path: &Path,
    most: u64,
    readers: &SecretReaders,
    expected: impl Fn() -> String,
) -> Result<Vec<u8>, SecretError> {
    private_file::read(path, most, readers).map_err(|unread| of_unread(path, unread, expected))
}

/// Reads a file that is no secret. One that is longer than `most` bytes is refused.
pub(super) fn read_public(path: &Path, most: u64, expected: &str) -> Result<Vec<u8>, SecretError> {
    let bytes = private_file::read_public(path, most + 1)
        .map_err(|unread| of_unread(path, unread, || expected.to_owned()))?;
    match bytes.len() as u64 > most {
        true => Err(SecretError::new(path, format!("more than {most} bytes"), expected)),
        false => Ok(bytes),
    }
}

fn of_unread(path: &Path, unread: Unread, expected: impl Fn() -> String) -> SecretError {
    match unread {
        Unread::Io(source) if source.kind() == io::ErrorKind::NotFound => {
            SecretError::new(path, "no such file", expected())
        }
        Unread::Io(source) => SecretError {
            source: Some(io::Error::from(source.kind())),
            ..SecretError::new(path, source.to_string(), "a file that the server can read")
        },
        Unread::NoFile => SecretError::new(path, "something that is no file", expected()),
        Unread::Exposed(exposure) => SecretError::new(path, exposure.found(), exposure.expected()),
    }
}

#[cfg(test)]
mod tests;
