//! The tokens of `<resp>`, read from their files.
//!
//! Invariant: a token that was not read lets nobody in.

use super::access_token::{AccessToken, TokenError};
use super::srv::{Resp, Srv};

impl Resp {
    /// Reads the token. None: there is no AUTH.
    pub(super) fn read_token(&self) -> Result<Option<AccessToken>, TokenError> {
        self.token_file.as_deref().map(AccessToken::read_private).transpose()
    }
}

impl Srv {
    /// Takes the tokens that are known already, of the same files for the same addresses, in place
    /// of those that could not be read.
    pub fn keep_tokens(&mut self, known: &Srv) {
        let is_unknown = |resp: &&mut Resp| resp.token == Some(AccessToken::UNKNOWN);
        for resp in self.resps.iter_mut().filter(is_unknown) {
            let is_its = |other: &&Resp| {
                (&other.listen, &other.token_file) == (&resp.listen, &resp.token_file)
            };
            if let Some(other) = known.resps.iter().find(is_its) {
                resp.token.clone_from(&other.token);
            }
        }
    }

    /// Reads the tokens of all `<resp>`. Returns why some are unknown.
    pub fn read_tokens(&mut self) -> Vec<TokenError> {
        let mut errors = Vec::new();
        for resp in &mut self.resps {
            resp.token = resp.read_token().unwrap_or_else(|error| {
                errors.push(error);
                Some(AccessToken::UNKNOWN)
            });
        }
        errors
    }

    /// Whether this process can read the tokens of all `<resp>`.
    ///
    /// # Errors
    /// It cannot read one.
    pub fn check_tokens(&self) -> Result<(), TokenError> {
        self.resps.iter().try_for_each(|resp| resp.read_token().map(drop))
    }
}
