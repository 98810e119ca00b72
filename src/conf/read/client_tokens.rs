//! The tokens that clients show, read from their files.
//!
//! Invariant: the master reads them when it takes a configuration. No two clients have the same
//! token.

use std::path::Path;

use super::admin_tokens::{AdminTokens, Grant};
use super::faults::{Notes, shown};
use super::private_file::{self, SecretReaders};
use super::token_file::{TokenError, unread};
use super::xml::Element;
use crate::schema::{AccessToken, MAX_TOKEN_BYTES, Srv};

/// The most tokens of a client: the old one and the new one.
const MAX_TOKENS: usize = 2;
/// The most bytes of a file: its tokens, and as much white space.
const MAX_FILE_BYTES: u64 = 2 * (MAX_TOKENS * MAX_TOKEN_BYTES) as u64;

/// The tokens of all clients.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClientTokens {
    /// Of each `<client>`, in order. A client without a file has none.
    pub clients: Vec<Vec<AccessToken>>,
    /// Of each `<resp>`, in order: those of the client `default` there.
    pub resps: Vec<Vec<AccessToken>>,
    /// Those of `<admin>` that permit changes, with `<clients>`.
    pub admins: Vec<AccessToken>,
    /// Those of `<admin>` that permit reading only, with `<clients>`.
    pub admin_readers: Vec<AccessToken>,
}

impl AccessToken {
    /// Reads a file with one token, or with two lines: the old token and the new one. Nobody else
    /// may be able to read the file.
    ///
    /// # Errors
    /// The file cannot be read, others can read it, or its content is malformed.
    pub fn read_lines(
        path: &Path,
        readers: &SecretReaders,
    ) -> Result<Vec<AccessToken>, TokenError> {
        let bytes = private_file::read(path, MAX_FILE_BYTES + 1, readers).map_err(unread(path))?;
        let malformed = || TokenError::Malformed { path: path.to_owned() };
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(malformed());
        }
        let mut tokens: Vec<AccessToken> = Vec::new();
        for (line, number) in bytes.split(|&byte| byte == b'\n').zip(1..) {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let bad =
                |found: &str, expected: &str| TokenError::of_line(path, number, found, expected);
            if tokens.len() == MAX_TOKENS {
                let expected = "at most two lines: the old token and the new one";
                return Err(bad("one more token", expected));
            }
            let token = AccessToken::of(line).ok_or_else(malformed)?;
            if tokens.contains(&token) {
                return Err(bad("the token of a line before", "another token"));
            }
            tokens.push(token);
        }
        if tokens.is_empty() {
            return Err(malformed());
        }
        Ok(tokens)
    }
}

impl Srv {
    /// The users and groups whose files may hold secrets.
    pub fn secret_readers(&self) -> SecretReaders {
        SecretReaders::of(self.user.as_deref())
    }

    /// Reads the tokens of all clients with the rights of this process.
    ///
    /// # Errors
    /// One of the files cannot be read.
    pub fn read_tokens(&self) -> Result<ClientTokens, TokenError> {
        let readers = self.secret_readers();
        let read = |path: Option<&Path>| read(path, &readers);
        let clients = self.clients.iter().flat_map(|clients| &clients.list);
        let clients = clients.map(|client| read(client.token_file.as_deref()));
        let resps = self.resps.iter().map(|resp| read(resp.token_file.as_deref()));
        let (clients, resps) =
            (clients.collect::<Result<_, _>>()?, resps.collect::<Result<_, _>>()?);
        // Without `<clients>` only the admin plane knows its tokens. It warns of a file that cannot
        // be used.
        let admin = self.clients.as_ref().and(self.admin_token_file());
        let admin = admin.and_then(|path| AdminTokens::read(path, &readers).ok());
        let [admins, admin_readers] = [Grant::Change, Grant::ReadOnly]
            .map(|grant| admin.as_ref().map(|tokens| tokens.with(grant)).unwrap_or_default());
        Ok(ClientTokens { clients, resps, admins, admin_readers })
    }
}

fn read(path: Option<&Path>, readers: &SecretReaders) -> Result<Vec<AccessToken>, TokenError> {
    path.map_or(Ok(Vec::new()), |path| AccessToken::read_lines(path, readers))
}

/// Notes the faults of the token files. `root` is the element that `srv` comes from.
pub(crate) fn token_files(notes: &mut Notes<'_>, root: &Element, srv: &Srv) {
    let readers = srv.secret_readers();
    for (element, resp) in root.children_named("resp").zip(&srv.resps) {
        note(notes, element, resp.token_file.as_deref(), &readers, &[]);
    }
    let (Some(clients), Some(element)) = (&srv.clients, root.child("clients")) else { return };
    let mut before: Vec<(usize, AccessToken)> = Vec::new();
    for (element, client) in element.children_named("client").zip(&clients.list) {
        let tokens = note(notes, element, client.token_file.as_deref(), &readers, &before);
        before.extend(tokens.into_iter().map(|token| (element.at, token)));
    }
}

/// Notes the faults of one file, and returns its tokens. `before` has the tokens of the elements
/// before it.
fn note(
    notes: &mut Notes<'_>,
    element: &Element,
    path: Option<&Path>,
    readers: &SecretReaders,
    before: &[(usize, AccessToken)],
) -> Vec<AccessToken> {
    let Some(path) = path else { return Vec::new() };
    let (found, expected) = match AccessToken::read_lines(path, readers) {
        Err(error) => (error.found(), error.expected()),
        Ok(tokens) => match before.iter().find(|(_, token)| tokens.contains(token)) {
            None => return tokens,
            Some(&(first, _)) => (
                ", which holds the token of another client".to_owned(),
                format!("a token of its own: the <client> of line {} has it", notes.line(first)),
            ),
        },
    };
    let found = format!("token-file=\"{}\"{found}", shown(&path.to_string_lossy()));
    notes.note(element.value_at("token-file"), found, expected);
    Vec::new()
}
