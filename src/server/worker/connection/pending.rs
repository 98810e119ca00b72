//! A request whose head was read: what its client asks for, and how it is to be answered.
//!
//! Invariant: only what the bytes of a head decide is here, so that a cache of heads may keep it.

use crate::protocol::Format;
use crate::protocol::request_head::Head;
use crate::protocol::response_head::{Persistence, ResponseOptions};
use frs::service::Command;

/// A request whose body is awaited.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pending {
    pub command: Command,
    /// Of the body.
    pub format: Format,
    pub preferences: ClientPreferences,
}

impl Pending {
    /// The options of an answer that comes instead of the items'.
    pub fn closing(&self) -> ResponseOptions {
        ResponseOptions { origin: self.preferences.origin, ..ResponseOptions::closing(self.format) }
    }
}

/// What the client said of itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClientPreferences {
    http10: bool,
    keep_alive: bool,
    head_only: bool,
    /// The format it is answered in.
    pub format: Format,
    /// The mark of the site whose page asks.
    pub origin: Option<u32>,
}

impl ClientPreferences {
    /// Of a request in this format, of a page of this site.
    pub fn of(head: &Head<'_, '_>, own: Format, origin: Option<u32>) -> ClientPreferences {
        ClientPreferences {
            format: head.answer_format(own),
            origin,
            http10: head.http10,
            keep_alive: head.keep_alive,
            head_only: head.method == "HEAD",
        }
    }

    pub fn options(&self, close: bool) -> ResponseOptions {
        let persistence = match (close || !self.keep_alive, self.http10) {
            (true, _) => Persistence::Close,
            (false, true) => Persistence::KeepAlive,
            (false, false) => Persistence::Default,
        };
        let ClientPreferences { head_only, format, origin, .. } = *self;
        ResponseOptions { persistence, head_only, format, origin }
    }
}
