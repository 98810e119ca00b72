//! A configuration as checked types, and the numbers that follow from them alone.
//!
//! Invariant: a value of these types is within its bounds, and nothing here reads a file or XML.
//! Every other folder of the crate uses this one, and it uses none of them.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `conf` | both files |
//! | `map` | map.xml: groups, businesses, limits, lists |
//! | `calls` | what calls may bring, repeat and hold |
//! | `policy` | what follows from the settings of a limit alone |
//! | `geometry` | the geometry of a group, and its description in map.xml |
//! | `register` | the room of a register in a record |
//! | `scope` | whose uses a limit counts |
//! | `index` | finds a business by its id or its name |
//! | `epoch` | how the reset epoch of a business grows |
//! | `bounds` | bounds that the settings of a limit put on each other |
//! | `srv` | srv.xml |
//! | `tls` | certificates that listeners show |
//! | `rls` | the domains and descriptors that frs-envoy answers for |
//! | `access_token` | the tokens that clients must carry |
//! | `clients` | who may ask: clients and their rights |
//! | `authority` | hosts and origins |
//! | `cidr` | blocks of addresses |
//! | `quantity` | units, rates, the largest numbers |
//! | `cluster` | the cluster that holds the ledgers of shared limits |
//! | `share` | how several machines share the limits of a business |
//! | `shared_limits` | the identities of shared limits |
//! | `tables` | the tables of ids and of holds, and the register, in a record |
//! | `warm_tier` | which records the cluster keeps |
//! | `peers` | the machines that hold copies of the records of mirrored groups |
//! | `mirror` | which records are mirrored, and the room of their versions |

mod access_token;
mod authority;
mod bounds;
mod calls;
mod cidr;
mod clients;
mod cluster;
mod conf;
mod epoch;
mod geometry;
mod index;
mod map;
mod mirror;
mod peers;
mod policy;
mod quantity;
mod register;
mod rls;
mod scope;
mod share;
mod shared_limits;
mod srv;
mod tables;
mod tls;
mod warm_tier;

pub use access_token::AccessToken;
pub(super) use access_token::{MAX_TOKEN_BYTES, hide_in_debug};
pub(super) use authority::MAX_HOST_BYTES;
#[cfg(test)]
pub(super) use authority::MAX_SCHEME_BYTES;
pub use authority::{Authority, HostName, Origin};
pub(super) use bounds::{
    Credit, MAX_BURST, MAX_SLIDING, MAX_SLIDING_MS, call_max, call_period_ms, most_burst,
    most_gcra_burst, most_gcra_rate, most_rate, override_max,
};
pub use calls::{
    HOLD_BYTES, Holds, MAX_HOLDS, MAX_ONCE, MAX_PER_CALL, ONCE_BYTES, OnLapse, Once, PerCall,
    TABLE_HEADER_BYTES,
};
pub use cidr::Cidr;
pub use clients::{
    Anonymous, BizNames, CertName, Client, ClientIndex, Clients, MAX_CLIENTS, MAX_PLACES, Right,
    Rights,
};
pub use cluster::{Cluster, ClusterNode, Login};
pub use conf::Conf;
pub use epoch::{EpochStep, MAX_EPOCH};
pub(super) use geometry::MAX_KEYS;
pub use geometry::{Geometry, GeometrySettings, HashKind, MAX_KEY_BYTES, NodeCount, OtherSetting};
pub use map::{
    BAN_BYTES, Biz, Calendar, Concurrent, Count, DISTINCT_HEADER_WORDS, Distinct, DistinctCounting,
    Gcra, Group, HISTORY_HEADER_BYTES, HISTORY_WINDOW_BYTES, Interval, KeyType, Lifts, Limit,
    ListRule, Listed, MAX_FILES, MAX_GCRA_NS, MAX_HISTORY, MAX_RING_USES, Map, Mode, MoveMode,
    NODE_HEADER_BYTES, OnFull, Pattern, Policy, RING_HEADER_BYTES, RING_USE_BYTES, Sliding,
    SlidingCounter, StatePlace, TOKEN_UNITS, Token, Total, Turns, UNDO_WORDS, Unit, Weight,
    sketch_words,
};
pub(super) use map::{MAX_MEMBERS, node_undo_words};
pub use mirror::VERSION_WORDS;
pub(super) use mirror::version_bytes;
pub use peers::Peers;
pub use quantity::{CallRate, CallWindow, MAX_COUNT, Rate};
pub(super) use quantity::{
    DURATION_UNITS, MAX_DURATION_MS, RATE_UNITS, SIZE_UNITS, Suffix, duration_text, size_text,
};
pub use register::{
    MAX_DATABASES, MAX_REGISTERS, MAX_TEXT_BYTES, REGISTER_HEADER_BYTES, RegisterRoom,
};
pub use rls::{
    ChargeMode, ChargeTarget, Descriptor, DescriptorEntry, Domain, Template, TemplatePart,
    ValuePattern,
};
pub use scope::Scope;
pub use share::{
    MAX_SHARED, MAX_SHARED_COUNTER_MS, MAX_SHARED_MS, OnDown, OnMiss, SHARED_WORDS, Share, Sharing,
};
pub use shared_limits::{SharedLimit, SharedLimits};
pub use srv::{
    Admin, AuthzKey, Checkpoint, Data, Endpoint, FileAccess, Http, Listen, Log, LogFormat,
    LogLevel, Resp, Rls, SLOTS, Srv, UnknownBiz,
};
pub(super) use srv::{default_programs, needed_slots};
pub use tls::{ClientCertificates, Tls, TlsVersion};
