//! The protocol of a listener.
//!
//! Invariant: a client speaks the protocol of its listener from its first byte to its last.

use frs_conf::{Listen, Srv};

/// The protocol of a listener, with its `<resp>` of srv.xml for RESP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Face {
    /// HTTP: a `<listen>`.
    Http,
    /// RESP: the `<resp>` with this index, from 0.
    Resp(u16),
}

/// An address that workers serve, and its protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedPlace {
    /// The address.
    pub listen: Listen,
    /// Its protocol.
    pub face: Face,
}

impl ServedPlace {
    /// The name of the `<tls>` of this place, if it has one. `None` if the configuration has no
    /// such place.
    pub fn tls<'s>(&self, srv: &'s Srv) -> Option<Option<&'s str>> {
        let tls = match self.face {
            Face::Http => &srv.listen.iter().find(|of| of.listen == self.listen)?.tls,
            Face::Resp(_) => &srv.resps.iter().find(|of| of.listen == self.listen)?.tls,
        };
        Some(tls.as_deref())
    }
}
