//! What is spoken on a listener.
//!
//! Invariant: a client speaks what its listener does from its first byte to its last.

/// What is spoken on a listener; of RESP the nth `<resp>` of srv.xml.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Face {
    /// HTTP: the data plane's `<listen>`.
    Http,
    /// RESP, by the rules of this `<resp>`, counted from 0.
    Resp(u16),
}
