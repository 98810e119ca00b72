//! Configuration: srv.xml and map.xml, read once, checked whole, all faults at once.
//!
//! Raw XML becomes checked types that cannot hold a wrong value: text (fault.rs) → a tree with
//! places (xml.rs, walk.rs) → values (value.rs, the `*_read.rs`) → what must fit together
//! (bounds.rs, fit.rs). Relative paths in it are relative to the working directory of the reader,
//! except in what [`active::read`] answers.

mod admin_token;
mod authority;
mod bounds;
mod calendar_read;
mod cidr;
mod describe;
mod fault;
mod fit;
mod index;
mod limit_read;
mod list_read;
mod load;
mod machine;
mod map;
mod map_read;
mod overlay;
mod srv;
mod srv_read;
mod suggest;
#[cfg(test)]
mod tests;
mod value;
mod walk;
mod weight_read;
mod xml;

pub mod active;
pub mod edit;
pub mod guard;
pub mod memory;
pub mod report;

pub use admin_token::{AdminToken, TokenError};
pub use authority::{Authority, HostName, Origin};
pub use cidr::{Cidr, CidrError};
pub use describe::{biz_words, limit_words};
pub use fault::{Fault, Faults, Position};
pub use load::Texts;
pub use machine::{DirFilesystem, Filesystem, Machine};
pub use map::{
    BAN_BYTES, Biz, Calendar, Count, Geometry, Group, HashKind, Interval, KeyType, Limit, ListRule,
    Listed, MAX_FILES, MAX_RING_USES, Map, Mode, NODE_HEADER_BYTES, OnFull, Pattern, Policy,
    RING_HEADER_BYTES, RING_USE_BYTES, Scope, Sliding, SlidingCounter, TOKEN_UNITS, Token, Total,
    Turns, UNDO_WORDS, Unit, Weight,
};
pub use overlay::{Overlay, OverlayError};
pub use srv::{Admin, AuthzKey, Data, Http, Listen, Log, LogFormat, LogLevel, SLOTS, Srv};
pub use value::{MAX_COUNT, duration};

/// A checked configuration: both files.
#[derive(Debug, Clone, PartialEq)]
pub struct Conf {
    /// The server: srv.xml.
    pub srv: Srv,
    /// What is limited: map.xml.
    pub map: Map,
}
