//! Configuration: srv.xml and map.xml, read once and checked as a whole. All faults are reported at
//! once.
//!
//! [`Conf::load`] checks the two files of a directory as `frs check` does:
//!
//! ```no_run
//! use std::path::Path;
//!
//! use frs::conf::Conf;
//!
//! match Conf::load(Path::new("conf")) {
//!     Ok(_) => println!("ok"),
//!     Err(faults) => faults.iter().for_each(|fault| println!("{fault}")),
//! }
//! ```
//!
//! Relative paths in the files are relative to the reader's working directory.

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

#[doc(hidden)]
pub mod active;
#[doc(hidden)]
pub mod memory_bound;
#[doc(hidden)]
pub mod outline;
#[doc(hidden)]
pub mod report;

#[doc(hidden)]
pub use access_token::{AccessToken, TokenError};
#[doc(hidden)]
pub use admin_tokens::{AdminTokens, Grant, NamedToken};
#[doc(hidden)]
pub use authority::{Authority, HostName, Origin};
#[doc(hidden)]
pub use cidr::{Cidr, CidrError};
#[doc(hidden)]
pub use cluster::{Cluster, ClusterNode, Login};
#[doc(hidden)]
pub use describe::{biz_words, limit_words};
#[doc(hidden)]
pub use differences::differences;
#[doc(hidden)]
pub use epoch::{EpochStep, MAX_EPOCH};
pub use fault::{Fault, Faults, Position, SourceLine};
#[doc(hidden)]
pub use former::{SharedLimit, SharedLimits};
pub use geometry::{Geometry, HashKind, OtherSetting};
#[doc(hidden)]
pub use geometry::{Room, Written};
#[doc(hidden)]
pub use kept::{Kept, LiveGeometry};
#[doc(hidden)]
pub use load::{LoadedConf, Texts};
pub use map::Scope;
#[doc(hidden)]
pub use map::{
    BAN_BYTES, Biz, Calendar, Count, DISTINCT_HEADER_WORDS, Distinct, Gcra, Group,
    HISTORY_HEADER_BYTES, HISTORY_WINDOW_BYTES, Interval, KeyType, Lifts, Limit, ListRule, Listed,
    MAX_FILES, MAX_GCRA_NS, MAX_HISTORY, MAX_RING_USES, Map, Mode, MoveMode, NODE_HEADER_BYTES,
    OnFull, Pattern, Policy, RING_HEADER_BYTES, RING_USE_BYTES, Sliding, SlidingCounter,
    TOKEN_UNITS, Tally, Token, Total, Turns, UNDO_WORDS, Unit, Weight, sketch_words,
};
#[doc(hidden)]
pub use overlay::{EpochError, EpochRaise, Overlay, OverlayError};
#[doc(hidden)]
pub use resources::{DirFilesystem, Filesystem, Machine, envoy_program};
#[doc(hidden)]
pub use resp_tokens::RespTokens;
#[doc(hidden)]
pub use rls::{Charge, Descriptor, Domain, Entry, KeyPart, Target, ValuePattern};
#[doc(hidden)]
pub use secret_file::{ClusterKeys, ClusterSecret, ClusterSecrets, Password, SecretError};
#[doc(hidden)]
pub use settings::{Setting, SettingError, Settings};
#[doc(hidden)]
pub use share::{
    LEASED_WORDS, MAX_SHARED, MAX_SHARED_COUNTER_MS, MAX_SHARED_MS, OnDown, OnMiss, Share, Sharing,
};
#[doc(hidden)]
pub use srv::{
    Admin, AuthzKey, Checkpoint, Data, FileAccess, Http, Listen, Log, LogFormat, LogLevel, Resp,
    Rls, SLOTS, Srv, UnknownBiz,
};
#[doc(hidden)]
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
