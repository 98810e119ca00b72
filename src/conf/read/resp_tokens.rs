//! The tokens of `<resp>`, read from their files.
//!
//! Invariant: the master reads them when it takes a configuration, and hands them to its workers. A
//! token that was not read admits nobody.

use super::private_file::SecretReaders;
use super::token_file::TokenError;
use crate::schema::{AccessToken, Resp, Srv};

/// The tokens of all `<resp>`, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RespTokens(Vec<Option<AccessToken>>);

/// Bytes of the header before the text: its checksum and its length.
const HEADER_BYTES: usize = 8;

impl RespTokens {
    /// Encodes the tokens so that no part of the bytes passes for the whole.
    pub fn encode(&self) -> Vec<u8> {
        // A token is not empty and holds no line end.
        let lines = self.0.iter().flat_map(|token| {
            let token = token.as_ref().map_or(&[][..], AccessToken::bytes);
            token.iter().copied().chain([b'\n'])
        });
        let text: Vec<u8> = lines.collect();
        let (crc, length) = (crc32fast::hash(&text), text.len() as u32);
        [&crc.to_le_bytes()[..], &length.to_le_bytes(), &text].concat()
    }

    /// Decodes the result of [`RespTokens::encode`], whatever follows it. `None` if it is not
    /// whole.
    pub fn decode(bytes: &[u8]) -> Option<RespTokens> {
        let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let [crc, length] = [0, 4].map(|at| {
            u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        });
        let text = rest.get(..length as usize)?;
        if crc32fast::hash(text) != crc {
            return None;
        }
        let lines = text.split_inclusive(|&byte| byte == b'\n');
        let tokens = lines.map(|line| match line {
            b"\n" => Some(None),
            line => AccessToken::of(line).map(Some),
        });
        tokens.collect::<Option<_>>().map(RespTokens)
    }
}

impl Resp {
    /// Reads the token. `None` if there is no file, and so no AUTH.
    pub(super) fn read_token(
        &self,
        readers: &SecretReaders,
    ) -> Result<Option<AccessToken>, TokenError> {
        self.token_file.as_deref().map(|path| AccessToken::read(path, readers)).transpose()
    }
}

impl Srv {
    /// The users and groups whose files may hold secrets.
    pub fn secret_readers(&self) -> SecretReaders {
        SecretReaders::of(self.user.as_deref())
    }

    /// Reads the tokens of all `<resp>` with the rights of this process.
    ///
    /// # Errors
    /// One of the tokens cannot be read.
    pub fn read_tokens(&self) -> Result<RespTokens, TokenError> {
        let readers = self.secret_readers();
        let tokens = self.resps.iter().map(|resp| resp.read_token(&readers));
        tokens.collect::<Result<_, _>>().map(RespTokens)
    }

    /// Sets the tokens that were read. A `<resp>` whose token is not among them admits nobody.
    pub fn set_tokens(&mut self, RespTokens(tokens): RespTokens) {
        for (resp, token) in self.resps.iter_mut().zip(tokens) {
            let needed = resp.token_file.as_ref();
            resp.token = needed.map(|_| token.unwrap_or(AccessToken::UNKNOWN));
        }
    }
}
