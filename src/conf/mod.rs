//! Configuration: srv.xml and map.xml, read once, checked whole, all faults at once.
//!
//! Raw XML becomes checked types that cannot hold a wrong value. Relative paths in it are relative
//! to the working directory of the reader.

pub mod map;
pub mod srv;

pub use map::{
    Biz, Geometry, Group, HashKind, Interval, KeyType, Limit, Map, OnFull, Policy, Scope, Total,
};
pub use srv::{AuthzKey, Cidr, Data, Http, Listen, Log, LogFormat, LogLevel, Srv};

/// A checked configuration: both files.
#[derive(Debug, Clone, PartialEq)]
pub struct Conf {
    /// The server: srv.xml.
    pub srv: Srv,
    /// What is limited: map.xml.
    pub map: Map,
}
