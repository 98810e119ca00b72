//! srv.xml: the server.
//!
//! The checked types; every value is within the bounds that srv_read.rs states.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::{Authority, Cidr, HostName, Origin};

/// srv.xml, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Srv {
    /// Worker processes, 1..=200 (`auto` is already resolved).
    pub workers: u16,
    /// Addresses served, at least one.
    pub listen: Vec<Listen>,
    /// Networks whose peers are served. Peers on a unix socket always are.
    pub allow: Vec<Cidr>,
    /// The admin plane; none: there is no such thing.
    pub admin: Option<Admin>,
    /// Where the files are.
    pub data: Data,
    /// Bounds of the data plane.
    pub http: Http,
    /// The log.
    pub log: Log,
    /// The user to become when started as root.
    pub user: Option<String>,
    /// What /authz takes as its key.
    pub authz: AuthzKey,
    /// Proxies whose X-Forwarded-For entries are skipped.
    pub trusted: Vec<Cidr>,
    /// Limit nothing at all, whatever the map says.
    pub degrade: bool,
}

/// One address to serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// TCP.
    Tcp(SocketAddr),
    /// A unix stream socket at this path.
    Unix(PathBuf),
}

/// `<admin>`: the admin plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// A loopback TCP address, or a unix socket.
    pub listen: Listen,
    /// The file with the token that changes over TCP must carry; none: there are no such changes.
    pub token_file: Option<PathBuf>,
}

/// `<data>`.
#[derive(Debug, Clone, PartialEq)]
pub struct Data {
    /// The data directory.
    pub dir: PathBuf,
    /// The directory of the live group files, where it is another one.
    pub live: Option<PathBuf>,
    /// Between two flushes of files on disk.
    pub flush_ms: u64,
    /// Populate the maps at start.
    pub prefault: bool,
    /// Programs that may be attached at once.
    pub max_programs: u16,
}

/// Processes that can be attached to a data directory at once, programs among them.
pub const SLOTS: u16 = 256;
/// Programs that may be attached where srv.xml says nothing, at most.
const DEFAULT_PROGRAMS: u16 = 192;

impl Srv {
    /// Slots that the server's own processes need at once.
    pub fn needed_slots(&self) -> u16 {
        needed_slots(self.workers, self.admin.is_some())
    }

    /// Slots that are kept for the server's own processes.
    pub fn reserved_slots(&self) -> u16 {
        reserved_slots(self.needed_slots())
    }
}

/// Slots that so many workers, the keeper, the admin plane and the child that prepares a reload
/// need.
pub(super) fn needed_slots(workers: u16, has_admin: bool) -> u16 {
    workers + 2 + u16::from(has_admin)
}

/// Twice what is needed, for an upgrade starts the new processes beside the old ones; once where
/// there are not so many slots.
fn reserved_slots(needed: u16) -> u16 {
    if 2 * needed <= SLOTS { 2 * needed } else { needed }
}

/// Programs that may be attached beside a server that needs so many slots, where srv.xml says
/// nothing.
pub(super) fn default_programs(needed: u16) -> u16 {
    (SLOTS - reserved_slots(needed)).min(DEFAULT_PROGRAMS)
}

/// `<http>`: bounds of the data plane.
#[derive(Debug, Clone, PartialEq)]
pub struct Http {
    /// Connections of one worker.
    pub max_connections: u32,
    /// Bytes of a body, decoded.
    pub max_body_bytes: u32,
    /// Bytes of a request line and its header fields.
    pub max_head_bytes: u32,
    /// Items of a request.
    pub max_items: u32,
    /// Items of an atomic request.
    pub max_atomic_items: u32,
    /// An idle connection is closed after this.
    pub idle_timeout_ms: u64,
    /// A request begun must be whole within this.
    pub request_timeout_ms: u64,
    /// Waiting for semaphores of one tick.
    pub lock_timeout_ms: u64,
    /// Hosts that requests may name; none: any.
    pub hosts: Vec<HostName>,
    /// Sites whose pages may ask.
    pub allow_origin: Vec<Origin>,
}

impl Http {
    /// Is a request answered that names this host, or none?
    #[inline]
    pub fn takes_host(&self, named: Option<Authority<'_>>) -> bool {
        let is_named = |named| self.hosts.iter().any(|host| host.is(&named));
        self.hosts.is_empty() || named.is_some_and(is_named)
    }

    /// The site that an `Origin` names, if its pages may ask.
    pub fn find_origin(&self, origin: &[u8]) -> Option<&Origin> {
        self.allow_origin.iter().find(|allowed| allowed.text().as_bytes() == origin)
    }
}

/// `<log>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// Least severe level written.
    pub level: LogLevel,
    /// Shape of a line.
    pub format: LogFormat,
    /// The file that lines are appended to; none: standard error.
    pub file: Option<PathBuf>,
}

/// Log levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs)]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// Log formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs)]
pub enum LogFormat {
    Text,
    Json,
}

/// `<authz key="…">`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthzKey {
    /// The peer's address.
    Peer,
    /// The last X-Forwarded-For address that is not trusted.
    Forwarded,
    /// The value of this header (lower case), which the gateway sets.
    Header(String),
}
