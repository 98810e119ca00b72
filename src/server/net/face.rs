//! What is spoken on a listener.
//!
//! Invariant: a client speaks what its listener does from its first byte to its last.

/// What is spoken on a listener; of RESP the nth `<resp>` of srv.xml.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Face {
    /// HTTP: a `<listen>`.
    Http,
    /// RESP: the `<resp>` with this number, from 0.
    Resp(u16),
}
