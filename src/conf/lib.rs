//! Configuration: srv.xml and map.xml, read once and checked as a whole. All faults are reported at
//! once.
#![allow(missing_docs, reason = "for the crates above; programs see what `frs` exports")]

// Raw XML becomes checked types that cannot hold a wrong value, in these steps: text (fault.rs) → a
// tree with positions (xml.rs, walk.rs) → values (value.rs, the `*_read.rs`) → what must fit
// together (bounds.rs, fit.rs). `active::read` returns absolute paths.

mod access_token;
mod admin_tokens;
mod authority;
mod bounds;
mod calendar_read;
mod cidr;
mod cluster;
mod cluster_read;
mod derive;
mod describe;
mod differences;
mod distinct_read;
mod durable;
mod epoch;
mod fault;
mod fit;
mod former;
mod geometry;
mod host;
mod index;
mod kept;
pub mod key;
mod limit_read;
mod list_read;
mod listen_read;
mod load;
mod map;
mod map_read;
mod overlay;
mod promises;
mod resources;
mod resp_read;
mod resp_tokens;
mod rls;
mod rls_read;
mod scope;
mod secret_file;
mod settings;
mod share;
mod share_read;
mod srv;
mod srv_read;
mod suggest;
#[cfg(test)]
mod tests;
mod value;
mod walk;
mod warm;
mod weight_read;
mod xml;

pub mod active;
pub mod memory_bound;
pub mod outline;
pub mod report;

pub use access_token::{AccessToken, TokenError};
pub use admin_tokens::{AdminTokens, Grant, NamedToken};
pub use authority::{Authority, HostName, Origin};
pub use cidr::{Cidr, CidrError};
pub use cluster::{Cluster, ClusterNode, Login};
pub use describe::{biz_words, limit_words};
pub use differences::differences;
pub use epoch::{EpochStep, MAX_EPOCH};
pub use fault::{Fault, Faults, Position, SourceLine};
pub use former::{SharedLimit, SharedLimits};
pub use geometry::{Geometry, HashKind, OtherSetting};
pub use geometry::{Room, Written};
pub use kept::{Kept, LiveGeometry};
pub use load::{LoadedConf, Texts};
pub use map::Scope;
pub use map::{
    BAN_BYTES, Biz, Calendar, Count, DISTINCT_HEADER_WORDS, Distinct, Gcra, Group,
    HISTORY_HEADER_BYTES, HISTORY_WINDOW_BYTES, Interval, KeyType, Lifts, Limit, ListRule, Listed,
    MAX_FILES, MAX_GCRA_NS, MAX_HISTORY, MAX_RING_USES, Map, Mode, MoveMode, NODE_HEADER_BYTES,
    OnFull, Pattern, Policy, RING_HEADER_BYTES, RING_USE_BYTES, Sliding, SlidingCounter,
    TOKEN_UNITS, Tally, Token, Total, Turns, UNDO_WORDS, Unit, Weight, sketch_words,
};
pub use overlay::{EpochError, EpochRaise, Overlay, OverlayError};
pub use resources::{DirFilesystem, Filesystem, Machine, envoy_program};
pub use resp_tokens::RespTokens;
pub use rls::{Charge, Descriptor, Domain, Entry, KeyPart, Target, ValuePattern};
pub use secret_file::{ClusterKeys, ClusterSecret, ClusterSecrets, Password, SecretError};
pub use settings::{Setting, SettingError, Settings};
pub use share::{
    LEASED_WORDS, MAX_SHARED, MAX_SHARED_COUNTER_MS, MAX_SHARED_MS, OnDown, OnMiss, Share, Sharing,
};
pub use srv::{
    Admin, AuthzKey, Checkpoint, Data, FileAccess, Http, Listen, Log, LogFormat, LogLevel, Resp,
    Rls, SLOTS, Srv, UnknownBiz,
};
pub use value::{MAX_COUNT, Rate, duration};

/// A checked configuration: both files. It cannot hold a wrong value.
#[derive(Debug, Clone, PartialEq)]
pub struct Conf {
    /// The server: srv.xml.
    #[doc(hidden)]
    pub srv: Srv,
    /// The limits: map.xml.
    #[doc(hidden)]
    pub map: Map,
}
