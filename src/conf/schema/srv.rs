//! srv.xml: the server, as checked types.
//!
//! Invariant: every value is within the bounds that read/srv.rs sets.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use super::authority::{Authority, HostName, Origin};
use super::cidr::Cidr;
use super::clients::Clients;
use super::cluster::Cluster;
use super::peers::Peers;
use super::quantity::Rate;
use super::rls::{ChargeMode, Domain};
use super::tls::Tls;

/// srv.xml, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Srv {
    /// Worker processes, 1..=200 (`auto` is already resolved).
    pub workers: u16,
    /// Certificates, by the names that listeners choose.
    pub tls: Vec<Tls>,
    /// Addresses to serve, at least one.
    pub listen: Vec<Endpoint>,
    /// Addresses at which frs speaks RESP.
    pub resps: Vec<Resp>,
    /// Who may ask. `None` if everybody may who reaches a listener.
    pub clients: Option<Clients>,
    /// Envoy's rate limit service. `None` if it is off.
    pub rls: Option<Rls>,
    /// Networks whose peers are served. Peers on a unix socket always are.
    pub allow: Vec<Cidr>,
    /// The addresses of the admin plane: at most one of TCP and one unix socket. Empty if it is
    /// off.
    pub admins: Vec<Admin>,
    /// Addresses that serve only metrics and health.
    pub metrics: Vec<Endpoint>,
    /// The locations of the files.
    pub data: Data,
    /// Bounds of the data plane.
    pub http: Http,
    /// The log.
    pub log: Log,
    /// The user that a server started as root becomes. `None` if it keeps its user.
    pub user: Option<String>,
    /// The source of the key of /authz.
    pub authz: AuthzKey,
    /// Proxies whose X-Forwarded-For entries are skipped.
    pub trusted: Vec<Cidr>,
    /// Whether nothing is limited at all, whatever map.xml says.
    pub degrade: bool,
    /// The path of map.xml. `None` if it is beside srv.xml.
    pub map_file: Option<PathBuf>,
    /// The interval between two looks at the files, of which changed ones are reloaded. `None` if a
    /// reload is always requested.
    pub watch_ms: Option<u64>,
    /// The cluster of shared limits and of records that it keeps. `None` without a cluster.
    pub cluster: Option<Cluster>,
    /// The machines that hold copies of the records of mirrored groups. `None` without such
    /// machines, and beside a cluster.
    pub peers: Option<Peers>,
}

/// One address to serve.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Listen {
    /// TCP.
    Tcp(SocketAddr),
    /// A unix stream socket at this path.
    Unix(PathBuf),
}

impl From<SocketAddr> for Listen {
    fn from(address: SocketAddr) -> Listen {
        Listen::Tcp(address)
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Tcp(address) => write!(f, "{address}"),
            Listen::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// An address to serve, and the `<tls>` that is spoken there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The address.
    pub listen: Listen,
    /// The name of the `<tls>`. `None` for plain text.
    pub tls: Option<String>,
}

impl From<Listen> for Endpoint {
    /// An address of plain text.
    fn from(listen: Listen) -> Endpoint {
        Endpoint { listen, tls: None }
    }
}

/// `<admin>`: an address of the admin plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// A loopback TCP address, or a unix socket.
    pub listen: Listen,
    /// The file with the token that changes over TCP must carry. `None` if changes over TCP are
    /// refused.
    pub token_file: Option<PathBuf>,
    /// The name of the `<tls>`. `None` for plain text.
    pub tls: Option<String>,
}

/// `<resp>`: an address at which frs speaks RESP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resp {
    /// The address.
    pub listen: Listen,
    /// The name of the `<tls>`. `None` for plain text.
    pub tls: Option<String>,
    /// The file with the token of the client `default`, which AUTH carries. `None` if there is no
    /// such client.
    pub token_file: Option<PathBuf>,
    /// The biz of CL.THROTTLE, by name or id. Its only limit is a `gcra` with limits that calls
    /// bring. `None` if there is no CL.THROTTLE.
    pub throttle: Option<String>,
    /// The biz of Redis' own commands, by name or id. It has registers. `None` if there are none of
    /// these commands.
    pub registers: Option<String>,
    /// How many databases SELECT knows, 1..=1024.
    pub databases: u16,
}

/// `<rls>`: Envoy's rate limit service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rls {
    /// The address.
    pub listen: Listen,
    /// The name of the `<tls>`. `None` for plain text.
    pub tls: Option<String>,
    /// What a call charges if one of its descriptors is over its limit.
    pub charge: ChargeMode,
    /// The domains. No two have the same name.
    pub domains: Vec<Domain>,
}

/// `<data>`.
#[derive(Debug, Clone, PartialEq)]
pub struct Data {
    /// The data directory.
    pub dir: PathBuf,
    /// The directory of the live group files, if it is a separate one.
    pub live: Option<PathBuf>,
    /// The interval between two flushes of files on disk.
    pub flush_ms: u64,
    /// Whether the maps are populated at start.
    pub prefault: bool,
    /// The most programs that may be attached at once.
    pub max_programs: u16,
    /// Who may open the files.
    pub access: FileAccess,
    /// Checkpoints of the groups. `None` if none are made.
    pub checkpoint: Option<Checkpoint>,
}

/// `<data checkpoint checkpoint-rate>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoint {
    /// The time from the start of a pass to the start of the next one.
    pub every_ms: u64,
    /// The most bytes that a pass writes in a second.
    pub bytes_per_second: u64,
}

/// Who may open the files that programs need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileAccess {
    /// Permissions of the files, one of [`FileAccess::MODES`].
    pub mode: u32,
    /// The group of the files. `None` for the group of the user who creates them.
    pub group: Option<String>,
}

impl FileAccess {
    /// Only the server's user.
    pub const OWN: FileAccess = FileAccess { mode: 0o600, group: None };

    /// The permissions that make sense: the owner reads and writes, nobody executes, and nobody may
    /// write without reading.
    pub const MODES: [u32; 6] = [0o600, 0o640, 0o644, 0o660, 0o664, 0o666];
}

/// The most processes that can be attached to a data directory at once, including programs.
pub const SLOTS: u16 = 256;
/// The largest default of max-programs.
const DEFAULT_PROGRAMS: u16 = 192;

impl Srv {
    /// Whether `<allow>` lets in a client from this address. `None` for a client of a unix socket,
    /// for which the mode of the socket decides.
    pub fn allows(&self, peer: Option<IpAddr>) -> bool {
        peer.is_none_or(|peer| self.allow.iter().any(|block| block.contains(peer)))
    }

    /// All files that a reading of the directory `dir` reads. A new setting that names a file is
    /// added here.
    pub fn files(&self, dir: &Path) -> Vec<PathBuf> {
        let map = self.map_file.clone().unwrap_or_else(|| dir.join("map.xml"));
        let admin = self.admin_token_file().map(Path::to_owned);
        let resps = self.resps.iter().filter_map(|resp| resp.token_file.clone());
        let clients = self.clients.iter().flat_map(|clients| &clients.list);
        let clients = clients.filter_map(|client| client.token_file.clone());
        let tls = self.tls.iter().flat_map(|Tls { cert, key, clients, .. }| {
            let ca = clients.as_ref().map(|clients| clients.ca.clone());
            [cert.clone(), key.clone()].into_iter().chain(ca)
        });
        let cluster = self.cluster.iter().flat_map(|cluster| {
            let password = cluster.login.as_ref().map(|login| login.password_file.clone());
            password.into_iter().chain([cluster.secret_file.clone()])
        });
        let peers = self.peers.iter().map(|peers| peers.secret_file.clone());
        let others = cluster.chain(peers);
        let mut files = vec![dir.join("srv.xml"), map];
        files.extend(admin.into_iter().chain(resps).chain(clients).chain(tls).chain(others));
        files
    }

    /// The address of the admin plane that needs tokens, or else the only one.
    pub fn main_admin(&self) -> Option<&Admin> {
        let is_tcp = |admin: &&Admin| matches!(admin.listen, Listen::Tcp(_));
        self.admins.iter().find(is_tcp).or(self.admins.first())
    }

    /// The file of the tokens of the admin plane.
    pub fn admin_token_file(&self) -> Option<&Path> {
        self.main_admin().and_then(|admin| admin.token_file.as_deref())
    }

    /// Whether the thread of the admin plane runs. It serves metrics, too.
    pub fn has_plane(&self) -> bool {
        !self.admins.is_empty() || !self.metrics.is_empty()
    }

    /// Whether the server's processes have mailboxes, for the one that talks with the cluster or
    /// with peers.
    pub fn has_mailboxes(&self) -> bool {
        self.cluster.is_some() || self.peers.is_some()
    }

    /// The most requests of one worker that may wait for the courier. `None` without a courier.
    pub fn max_parked(&self) -> Option<u32> {
        let of_cluster = self.cluster.as_ref().map(|cluster| cluster.max_parked);
        of_cluster.or(self.peers.as_ref().map(|peers| peers.max_parked))
    }

    /// Slots that the server's own processes need at once.
    pub fn needed_slots(&self) -> u16 {
        let others = [self.has_plane(), self.has_mailboxes(), self.rls.is_some()];
        needed_slots(self.workers, others)
    }

    /// Slots reserved for the server's own processes.
    pub fn reserved_slots(&self) -> u16 {
        reserved_slots(self.needed_slots())
    }
}

/// Slots that the server's own processes need: one for each worker, for the keeper, for the child
/// that prepares a reload, and for each of the `others` that is configured: admin plane, courier,
/// frs-envoy.
pub(crate) fn needed_slots(workers: u16, others: [bool; 3]) -> u16 {
    workers + 2 + others.map(u16::from).iter().sum::<u16>()
}

/// Twice the needed slots, because an upgrade starts the new processes beside the old ones. Only
/// the needed ones if there are not enough slots.
fn reserved_slots(needed: u16) -> u16 {
    if 2 * needed <= SLOTS { 2 * needed } else { needed }
}

/// The default of max-programs beside a server whose processes need this many slots.
pub(crate) fn default_programs(needed: u16) -> u16 {
    (SLOTS - reserved_slots(needed)).min(DEFAULT_PROGRAMS)
}

/// `<http>`: bounds of the data plane.
#[derive(Debug, Clone, PartialEq)]
pub struct Http {
    /// The most connections of one worker.
    pub max_connections: u32,
    /// The most bytes of a body, decoded.
    pub max_body_bytes: u32,
    /// The most bytes of a request line with its header fields.
    pub max_head_bytes: u32,
    /// The most items of a request.
    pub max_items: u32,
    /// The most items of an atomic request.
    pub max_atomic_items: u32,
    /// An idle connection is closed after this time.
    pub idle_timeout_ms: u64,
    /// A request must be complete within this time from its first byte.
    pub request_timeout_ms: u64,
    /// The longest wait for semaphores in one tick.
    pub lock_timeout_ms: u64,
    /// Hosts that requests may name. Empty for any host.
    pub hosts: Vec<HostName>,
    /// Sites whose pages may send requests.
    pub allow_origin: Vec<Origin>,
    /// The answer to an item whose biz map.xml does not name.
    pub unknown_biz: UnknownBiz,
}

/// The answer to an item whose biz is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnknownBiz {
    /// The error `unknown-biz`.
    #[default]
    Error,
    /// A refusal, for clients that look at nothing else.
    Refuse,
}

impl Http {
    /// Whether a request that names this host is answered. `None` if the request names no host.
    #[inline]
    pub fn takes_host(&self, named: Option<Authority<'_>>) -> bool {
        let is_named = |named| self.hosts.iter().any(|host| host.matches(&named));
        self.hosts.is_empty() || named.is_some_and(is_named)
    }

    /// The allowed site that an `Origin` names. `None` if its pages may not send requests.
    pub fn find_origin(&self, origin: &[u8]) -> Option<&Origin> {
        self.allow_origin.iter().find(|allowed| allowed.text().as_bytes() == origin)
    }
}

/// `<log>`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Log {
    /// The least severe level that is logged.
    pub level: LogLevel,
    /// The format of a line.
    pub format: LogFormat,
    /// The file that lines are appended to. `None` for standard error.
    pub file: Option<PathBuf>,
    /// The highest rate at which refused Updates are logged. `None` if they are not logged.
    pub refusals: Option<Rate>,
}

/// Log levels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(missing_docs)]
pub enum LogLevel {
    Error,
    Warn,
    #[default]
    Info,
    Debug,
    Trace,
}

/// Log formats.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(missing_docs)]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

/// `<authz key="…">`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum AuthzKey {
    /// The peer's address.
    #[default]
    Peer,
    /// The last X-Forwarded-For address that is not trusted.
    Forwarded,
    /// The value of this header (lower case), which the gateway sets.
    Header(String),
}
