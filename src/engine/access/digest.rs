//! The tokens of all clients as SHA-256, in which form the master hands them to its children.
//!
//! Invariant: no token can be computed from its digest, and a comparison of two digests takes the
//! same time wherever they differ.

use std::hint::black_box;

use frs_conf::{AccessToken, Clients, Srv, TokenError};
use ring::digest::{SHA256, digest};

/// Words of a digest.
const WORDS: usize = 4;
/// Bytes of a digest.
const BYTES: usize = WORDS * 8;
/// Bytes of the header before the entries: its checksum and the number of the entries.
const HEADER_BYTES: usize = 8;
/// Bytes of an entry: what it belongs to, its number, and the digest.
const ENTRY_BYTES: usize = 2 * 8 + BYTES;

/// The SHA-256 of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenDigest([u64; WORDS]);

impl TokenDigest {
    /// The digest of a token.
    pub fn of(token: &[u8]) -> TokenDigest {
        let digest = digest(&SHA256, token);
        let (words, _) = digest.as_ref().as_chunks::<8>();
        let mut all = [0; WORDS];
        for (own, &word) in all.iter_mut().zip(words) {
            *own = u64::from_le_bytes(word);
        }
        TokenDigest(all)
    }

    /// Whether both are the same. The time does not reveal where they differ.
    #[inline]
    pub fn is(&self, other: &TokenDigest) -> bool {
        let differing = self.0.iter().zip(&other.0).fold(0, |all, (a, b)| black_box(all | (a ^ b)));
        differing == 0
    }

    fn bytes(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        for (part, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(self.0) {
            *part = word.to_le_bytes();
        }
        bytes
    }

    fn of_bytes(bytes: &[u8; BYTES]) -> TokenDigest {
        let mut words = [0; WORDS];
        for (word, &part) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(part);
        }
        TokenDigest(words)
    }
}

/// What a token belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    /// A `<client>`, by its name. A child may read the tokens of a newer configuration than its
    /// own, in which the places are others.
    Client(NameMark),
    /// The client `default` of the `<resp>` with this index.
    Resp(u16),
    /// The admin plane, with every right.
    Admin,
    /// The admin plane, for reading only.
    AdminReader,
}

/// The name of a client as a number: a part of its digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NameMark(u64);

impl NameMark {
    pub fn of(name: &str) -> NameMark {
        NameMark(TokenDigest::of(name.as_bytes()).0[0])
    }
}

impl Holder {
    fn numbers(self) -> [u64; 2] {
        match self {
            Holder::Client(NameMark(mark)) => [0, mark],
            Holder::Resp(nth) => [1, nth.into()],
            Holder::Admin => [2, 0],
            Holder::AdminReader => [3, 0],
        }
    }

    fn of_numbers(numbers: [u64; 2]) -> Option<Holder> {
        Some(match numbers {
            [0, mark] => Holder::Client(NameMark(mark)),
            [1, nth] => Holder::Resp(nth.try_into().ok()?),
            [2, 0] => Holder::Admin,
            [3, 0] => Holder::AdminReader,
            _ => return None,
        })
    }
}

/// The digests of all tokens of a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TokenDigests(Vec<(Holder, TokenDigest)>);

impl TokenDigests {
    /// Reads the tokens of all clients with the rights of this process.
    ///
    /// # Errors
    /// One of the files cannot be read.
    pub fn read(srv: &Srv) -> Result<TokenDigests, TokenError> {
        let tokens = srv.read_tokens()?;
        let digest = |token: &AccessToken| TokenDigest::of(token.bytes());
        let mut all = Vec::new();
        let clients = srv.clients.iter().flat_map(|clients: &Clients| &clients.list);
        for (client, tokens) in clients.zip(&tokens.clients) {
            let holder = Holder::Client(NameMark::of(&client.name));
            all.extend(tokens.iter().map(|token| (holder, digest(token))));
        }
        for (nth, tokens) in (0..).zip(&tokens.resps) {
            all.extend(tokens.iter().map(|token| (Holder::Resp(nth), digest(token))));
        }
        all.extend(tokens.admins.iter().map(|token| (Holder::Admin, digest(token))));
        let readers = tokens.admin_readers.iter();
        all.extend(readers.map(|token| (Holder::AdminReader, digest(token))));
        Ok(TokenDigests(all))
    }

    /// The holder of a token among those that `is_asked` names. The time does not reveal which
    /// token the given one resembles.
    pub(super) fn find(
        &self,
        given: &TokenDigest,
        is_asked: impl Fn(Holder) -> bool,
    ) -> Option<Holder> {
        let asked = self.0.iter().filter(|(holder, _)| is_asked(*holder));
        asked.fold(None, |found, (holder, digest)| match digest.is(given) {
            true => found.or(Some(*holder)),
            false => found,
        })
    }

    /// Encodes the digests so that no part of the bytes passes for the whole.
    pub fn encode(&self) -> Vec<u8> {
        let mut entries = Vec::with_capacity(self.0.len() * ENTRY_BYTES);
        for (holder, digest) in &self.0 {
            entries.extend(holder.numbers().map(u64::to_le_bytes).as_flattened());
            entries.extend(digest.bytes());
        }
        let count = (self.0.len() as u32).to_le_bytes();
        let checked = [&count[..], &entries].concat();
        [&checksum(&checked).to_le_bytes()[..], &checked].concat()
    }

    /// Decodes the result of [`TokenDigests::encode`], whatever follows it. `None` if it is not
    /// whole.
    pub fn decode(bytes: &[u8]) -> Option<TokenDigests> {
        let (crc, rest) = bytes.split_first_chunk::<4>()?;
        let count = u32::from_le_bytes(*rest.first_chunk()?) as usize;
        let length = count.checked_mul(ENTRY_BYTES)?.checked_add(HEADER_BYTES - 4)?;
        let checked = rest.get(..length)?;
        if checksum(checked) != u32::from_le_bytes(*crc) {
            return None;
        }
        let entry = |entry: &[u8; ENTRY_BYTES]| {
            let (kind, rest) = entry.split_first_chunk::<8>()?;
            let numbers = [*kind, *rest.first_chunk()?].map(u64::from_le_bytes);
            let digest = TokenDigest::of_bytes(entry.last_chunk()?);
            Some((Holder::of_numbers(numbers)?, digest))
        };
        let entries = checked[HEADER_BYTES - 4..].as_chunks().0;
        entries.iter().map(entry).collect::<Option<_>>().map(TokenDigests)
    }
}

/// A part of the digest: it only has to reveal a torn copy.
fn checksum(bytes: &[u8]) -> u32 {
    TokenDigest::of(bytes).0[0] as u32
}
