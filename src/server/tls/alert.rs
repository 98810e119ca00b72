//! Alerts before a session: why a client is closed that gets no handshake.

/// An alert of RFC 8446, section 6.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alert {
    /// The client may not connect.
    AccessDenied = 49,
    /// The server cannot serve it now.
    InternalError = 80,
}

impl Alert {
    /// Its record, in plain text as every record before the keys are known.
    pub const fn record(self) -> [u8; 7] {
        const ALERT: u8 = 21;
        const FATAL: u8 = 2;
        [ALERT, 3, 3, 0, 2, FATAL, self as u8]
    }
}
