//! Session tickets: the keys that all processes of a server share, and tickets sealed with them.
//!
//! A client that shows a ticket resumes its session at any worker, after a reload, and after an
//! upgrade. The master makes a key an hour, and keeps the one before it:
//!
//! ```text
//! ticket = 8 bytes id of the key | 12 bytes nonce | AES-256-GCM(session), tag of 16 bytes
//! ```
//!
//! Invariant: a ticket is of use for two hours at most. It is bound to the digest of a `<tls>`, so
//! it resumes no session of other authorities of clients, or of another name.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::server::ProducesTickets;

use super::identity::IdentityDigest;
use frs_base::sys::shared_bytes::SharedBytes;

/// The master makes another key after this time.
pub const ROTATE_MS: u64 = 3_600_000;
/// How long a client may use a ticket, in seconds.
const LIFETIME_S: u32 = 3_600;
/// Tickets are sealed with the newest key, and opened with the one before it, too.
const KEYS: usize = 2;
const KEY_BYTES: usize = 32;
const ID_BYTES: usize = 8;
/// The most bytes of a ticket that is looked at.
const MAX_TICKET_BYTES: usize = 32 << 10;

/// A key of tickets.
#[derive(Clone, Copy)]
struct TicketKey {
    id: [u8; ID_BYTES],
    key: [u8; KEY_BYTES],
    /// When it was made, in milliseconds since the epoch.
    made_ms: u64,
}

/// Bytes of a key in shared memory.
const SHARED_KEY_BYTES: usize = ID_BYTES + KEY_BYTES + 8;

impl TicketKey {
    fn new(now_ms: u64) -> io::Result<TicketKey> {
        let (mut id, mut key) = ([0; ID_BYTES], [0; KEY_BYTES]);
        let random = SystemRandom::new();
        let filled = random.fill(&mut id).and_then(|()| random.fill(&mut key));
        filled.map_err(|_| io::Error::other("the system gives no random bytes"))?;
        Ok(TicketKey { id, key, made_ms: now_ms })
    }

    fn encode(&self) -> Vec<u8> {
        [&self.id[..], &self.key, &self.made_ms.to_le_bytes()].concat()
    }

    fn decode(bytes: &[u8; SHARED_KEY_BYTES]) -> Option<TicketKey> {
        let (id, rest) = bytes.split_first_chunk()?;
        let (key, rest) = rest.split_first_chunk()?;
        let made_ms = u64::from_le_bytes(*rest.first_chunk()?);
        Some(TicketKey { id: *id, key: *key, made_ms })
    }

    fn sealing_key(&self) -> Option<LessSafeKey> {
        UnboundKey::new(&AES_256_GCM, &self.key).ok().map(LessSafeKey::new)
    }
}

/// The keys of tickets, newest first, in memory that the master shares with its children and with
/// the master that takes over.
#[derive(Debug)]
pub struct TicketBoard(SharedBytes);

impl TicketBoard {
    /// A board with a new key.
    ///
    /// # Errors
    /// The system has no memory, or no random bytes.
    pub fn new(now_ms: u64) -> io::Result<TicketBoard> {
        let key = TicketKey::new(now_ms)?;
        SharedBytes::new("frs-tickets", &key.encode()).map(TicketBoard)
    }

    /// The board behind an inherited descriptor.
    pub fn adopt(descriptor: OwnedFd) -> TicketBoard {
        TicketBoard(SharedBytes::adopt(descriptor))
    }

    /// Another descriptor of the same memory.
    ///
    /// # Errors
    /// The system has no descriptor.
    pub fn share(&self) -> io::Result<TicketBoard> {
        self.0.share().map(TicketBoard)
    }

    fn keys(&self) -> Vec<TicketKey> {
        let bytes = self.0.read().unwrap_or_default();
        let (chunks, _) = bytes.as_chunks::<SHARED_KEY_BYTES>();
        chunks.iter().take(KEYS).filter_map(TicketKey::decode).collect()
    }

    /// Makes another key if the newest one is an hour old. Returns when to look again.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub fn rotate(&self, now_ms: u64) -> io::Result<u64> {
        let mut keys = self.keys();
        let age_ms = keys.first().map(|newest| now_ms.abs_diff(newest.made_ms));
        if let Some(age_ms) = age_ms.filter(|age_ms| *age_ms < ROTATE_MS) {
            return Ok(now_ms + ROTATE_MS - age_ms);
        }
        keys.insert(0, TicketKey::new(now_ms)?);
        keys.truncate(KEYS);
        self.0.write(&keys.iter().flat_map(TicketKey::encode).collect::<Vec<_>>())?;
        Ok(now_ms + ROTATE_MS)
    }
}

impl AsFd for TicketBoard {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Seals and opens the tickets of a `<tls>`. Reads the keys from the board for each ticket, so that
/// a process needs no word of the master when they change.
#[derive(Debug)]
pub struct Tickets {
    board: Arc<TicketBoard>,
    digest: IdentityDigest,
}

impl Tickets {
    /// The tickets of the `<tls>` with this digest.
    pub fn new(board: Arc<TicketBoard>, digest: IdentityDigest) -> Tickets {
        Tickets { board, digest }
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        LIFETIME_S
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let keys = self.board.keys();
        let newest = keys.first()?;
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).ok()?;
        let mut sealed = plain.to_vec();
        let key = newest.sealing_key()?;
        let of = Nonce::assume_unique_for_key(nonce);
        key.seal_in_place_append_tag(of, Aad::from(self.digest), &mut sealed).ok()?;
        Some([&newest.id[..], &nonce, &sealed].concat())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        if ticket.len() > MAX_TICKET_BYTES {
            return None;
        }
        let (id, rest) = ticket.split_first_chunk::<ID_BYTES>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let keys = self.board.keys();
        let key = keys.iter().find(|key| key.id == *id)?.sealing_key()?;
        let mut plain = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let length = key.open_in_place(nonce, Aad::from(self.digest), &mut plain).ok()?.len();
        plain.truncate(length);
        Some(plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000_000;

    #[test]
    fn a_ticket_is_opened_until_its_key_is_gone() {
        let board = Arc::new(TicketBoard::new(NOW).expect("made"));
        let shared = TicketBoard::adopt(board.as_fd().try_clone_to_owned().expect("a copy"));
        let mine = Tickets::new(Arc::clone(&board), [1; 32]);
        let of_another_process = Tickets::new(Arc::new(shared), [1; 32]);
        let ticket = mine.encrypt(b"session").expect("sealed");
        let opened = || of_another_process.decrypt(&ticket);
        assert_eq!(opened().as_deref(), Some(&b"session"[..]));
        assert_eq!(board.rotate(NOW + 1000).expect("rotated"), NOW + ROTATE_MS, "not yet");
        assert_eq!(board.rotate(NOW + ROTATE_MS).expect("rotated"), NOW + 2 * ROTATE_MS);
        assert_eq!(opened().as_deref(), Some(&b"session"[..]), "the key before stays valid");
        let newer = mine.encrypt(b"session").expect("sealed");
        assert_ne!(newer[..ID_BYTES], ticket[..ID_BYTES], "sealed with the newest");
        board.rotate(NOW + 2 * ROTATE_MS).expect("rotated");
        assert_eq!(opened(), None);
    }

    #[test]
    fn a_ticket_of_another_digest_or_a_changed_one_is_not_opened() {
        let board = Arc::new(TicketBoard::new(NOW).expect("made"));
        let tickets = Tickets::new(Arc::clone(&board), [1; 32]);
        let ticket = tickets.encrypt(b"session").expect("sealed");
        assert_eq!(Tickets::new(board, [2; 32]).decrypt(&ticket), None);
        for at in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[at] ^= 1;
            assert_eq!(tickets.decrypt(&changed), None, "byte {at}");
            assert_eq!(tickets.decrypt(&ticket[..at]), None, "{at} bytes");
        }
        assert_eq!(tickets.decrypt(&vec![0; MAX_TICKET_BYTES + 1]), None);
        assert_ne!(tickets.encrypt(b"session"), Some(ticket), "no nonce comes twice");
    }

    #[test]
    fn a_clock_that_steps_back_far_makes_another_key() {
        let board = TicketBoard::new(NOW).expect("made");
        board.rotate(NOW - ROTATE_MS).expect("rotated");
        assert_eq!(board.keys().len(), 2);
    }
}
