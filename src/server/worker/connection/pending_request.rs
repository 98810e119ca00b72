//! A request whose head is parsed: its command, and the form of its answer.
//!
//! Invariant: everything here depends on the bytes of the head alone, so that the head cache may
//! keep it.

use crate::protocol::Format;
use crate::protocol::request_head::Head;
use crate::protocol::response_head::{Persistence, ResponseOptions};
use frs_engine::Command;

/// A request whose body is awaited.
#[derive(Debug, Clone, Copy)]
pub(super) struct PendingRequest {
    pub command: Command,
    /// The body's format.
    pub format: Format,
    pub preferences: ClientPreferences,
    /// Whether the head brings an id under which it is charged once.
    pub has_id: bool,
}

impl PendingRequest {
    /// The options of an error answer that replaces the answer to the items and closes the
    /// connection.
    pub fn closing(&self) -> ResponseOptions {
        ResponseOptions { origin: self.preferences.origin, ..ResponseOptions::closing(self.format) }
    }
}

/// The client's preferences for its answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClientPreferences {
    http10: bool,
    keep_alive: bool,
    head_only: bool,
    /// The format of the answer.
    pub format: Format,
    /// The mark of the site whose page sent the request.
    pub origin: Option<u32>,
}

impl ClientPreferences {
    /// The preferences in `head`. `own` is the request's format, `origin` the mark of the page's
    /// site.
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
