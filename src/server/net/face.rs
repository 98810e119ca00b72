//! The protocol of a listener.
//!
//! Invariant: a client speaks the protocol of its listener from its first byte to its last.

/// The protocol of a listener, with its `<resp>` of srv.xml for RESP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Face {
    /// HTTP: a `<listen>`.
    Http,
    /// RESP: the `<resp>` with this index, from 0.
    Resp(u16),
}
