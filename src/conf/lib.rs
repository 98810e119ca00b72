//! Configuration: srv.xml and map.xml, read once and checked as a whole. All faults are reported at
//! once.
//!
//! Raw XML becomes checked types that cannot hold a wrong value. A folder uses only those above it
//! in this table:
//!
//! | folder | duty |
//! | --- | --- |
//! | `schema/` | the checked types |
//! | [`key`] | keys in the form that nodes store, and their places |
//! | `read/` | text to values, with the position of every fault |
//! | `check/` | what must fit together; both files as one configuration |
//! | `explain/` | what a configuration means, promises and costs |
//! | `publish/` | the configuration in force, as a file |
#![allow(missing_docs, reason = "for the crates above; programs see what `frs` exports")]

mod check;
mod explain;
pub mod key;
mod publish;
mod read;
mod schema;
#[cfg(test)]
mod tests;

pub use check::{KeptFiles, LiveGeometry, LoadedConf, Texts};
pub use explain::{
    DirFilesystem, Filesystem, Machine, biz_words, differences, envoy_program, limit_words,
};
pub use explain::{memory_bound, report};
pub use publish::active;
pub use publish::{EpochError, EpochRaise, Overlay, OverlayError};
pub use read::element_positions;
pub use read::{
    AdminTokens, ClientTokens, ClusterKeys, ClusterSecret, ClusterSecrets, Exposure, Fault, Faults,
    Grant, NamedToken, Password, Position, SecretError, SecretReaders, Setting, SettingError,
    Settings, SourceLine, TlsFiles, TokenError, duration,
};
pub use schema::{
    AccessToken, Admin, Anonymous, Authority, AuthzKey, Biz, BizNames, Calendar, CallRate,
    CallWindow, CertName, ChargeMode, ChargeTarget, Checkpoint, Cidr, Client, ClientCertificates,
    ClientIndex, Clients, Cluster, ClusterNode, Concurrent, Conf, Count, DISTINCT_HEADER_WORDS,
    Data, Descriptor, DescriptorEntry, Distinct, DistinctCounting, Domain, Endpoint, EpochStep,
    FileAccess, Gcra, Geometry, GeometrySettings, Group, HISTORY_HEADER_BYTES,
    HISTORY_WINDOW_BYTES, HOLD_BYTES, HashKind, Holds, Http, Interval, KeyType, Lifts, Limit,
    ListRule, Listed, Listen, Log, LogFormat, LogLevel, Login, MAX_CLIENTS, MAX_COUNT,
    MAX_DATABASES, MAX_EPOCH, MAX_GCRA_NS, MAX_HISTORY, MAX_HOLDS, MAX_KEY_BYTES, MAX_ONCE,
    MAX_PER_CALL, MAX_PLACES, MAX_REGISTERS, MAX_RING_USES, MAX_SHARED, MAX_SHARED_COUNTER_MS,
    MAX_SHARED_MS, MAX_TEXT_BYTES, Map, Mode, MoveMode, NodeCount, ONCE_BYTES, OnDown, OnFull,
    OnLapse, OnMiss, Once, Origin, OtherSetting, Pattern, Peers, PerCall, Policy,
    REGISTER_HEADER_BYTES, RING_HEADER_BYTES, RING_USE_BYTES, Rate, RegisterRoom, Resp, Right,
    Rights, Rls, SHARED_WORDS, SLOTS, Scope, Share, SharedLimit, SharedLimits, Sharing, Sliding,
    SlidingCounter, Srv, StatePlace, TABLE_HEADER_BYTES, TOKEN_UNITS, Template, TemplatePart, Tls,
    TlsVersion, Token, Total, Turns, UNDO_WORDS, Unit, UnknownBiz, VERSION_WORDS, ValuePattern,
    Weight, sketch_words,
};
