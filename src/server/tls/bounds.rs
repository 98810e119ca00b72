//! How much memory the TLS of a connection may hold.
//!
//! Invariant: `frs check` counts these numbers for each connection, whatever a client sends.

/// The most bytes of a record on the wire that are read at once: the longest that RFC 8446 allows,
/// with its header, and some of the next one. A client with a longer record, or with a longer
/// message of the handshake, is refused.
pub const RECORD_BYTES: usize = 17 << 10;
/// Room for one read of a connection that speaks TLS: plain text, and behind it the bytes of the
/// wire.
pub const READ_ROOM: usize = 2 * RECORD_BYTES;
/// The most bytes of the certificates that a client shows.
pub const MAX_CHAIN_BYTES: usize = 8 << 10;
/// The most names of a client's certificate that are kept.
pub const MAX_NAMES: usize = 64;
/// The most bytes of these names.
pub const MAX_NAMES_BYTES: usize = 2 << 10;
/// The most bytes for a client that speaks TLS, besides its buffers: an incomplete record, a record
/// beyond the end of a request, and the state of the protocol.
pub const TLS_BYTES: usize = 40 << 10;
/// The most bytes for a client's certificate: those that it shows, and its names.
pub const CERTIFICATE_BYTES: usize = 12 << 10;

const _: () = assert!(2 * RECORD_BYTES + (6 << 10) <= TLS_BYTES);
const _: () = assert!(MAX_CHAIN_BYTES + 2 * MAX_NAMES_BYTES <= CERTIFICATE_BYTES);
