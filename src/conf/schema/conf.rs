//! A whole configuration, as checked types.
//!
//! Invariant: srv.xml and map.xml are checked together.

use super::map::Map;
use super::srv::Srv;

/// A checked configuration of both files. It cannot hold a wrong value.
#[derive(Debug, Clone, PartialEq)]
pub struct Conf {
    /// The server: srv.xml.
    #[doc(hidden)]
    pub srv: Srv,
    /// The limits: map.xml.
    #[doc(hidden)]
    pub map: Map,
}
