//! What is spoken on a listener.
//!
//! Invariant: a listener keeps its face as long as a process has it.

/// What is spoken on a listener; of RESP the nth `<resp>` of srv.xml.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Face {
    /// HTTP: a `<listen>`.
    Http,
    /// RESP: the `<resp>` with this number, from 0.
    Resp(u16),
}
