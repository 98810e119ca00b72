//! `<cluster>` of srv.xml: the Redis or Valkey Cluster that holds the ledger of shared limits.
//!
//! Invariant: every value is within the bounds that read/cluster.rs states. The secret and the
//! password are in files of their own, so no text of a configuration holds them.

use std::fmt;
use std::net::Ipv6Addr;
use std::path::PathBuf;

/// `<cluster>`, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// `[a-z0-9-]{1,32}`: the name that all machines give the cluster. It is part of every key
    /// there.
    pub name: String,
    /// The file of the secret that all machines share.
    pub secret_file: PathBuf,
    /// The longest wait for a node's answer, 1 to 10,000.
    pub timeout_ms: u64,
    /// How long a new master of the cluster grants nothing, 100 to 60,000.
    pub learn_ms: u64,
    /// Number of replicas that must have a grant before it counts, 0 to 8.
    pub wait_replicas: u32,
    /// The most messages of one pipeline, 1 to 1024.
    pub batch: u32,
    /// The most requests of one worker that may wait for leases, 1 to 65,536.
    pub max_parked: u32,
    /// Seed nodes, 1 to 64. They are asked for all other nodes.
    pub nodes: Vec<ClusterNode>,
    /// Whether all nodes are reached over TLS.
    pub tls: bool,
    /// The login at every node. `None` if frs does not log in.
    pub login: Option<Login>,
}

/// The address of a node, or of a peer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClusterNode {
    /// A name or an address, in lower case and without brackets.
    pub host: String,
    /// 1..=65535.
    pub port: u16,
}

impl fmt::Display for ClusterNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ClusterNode { host, port } = self;
        match host.parse::<Ipv6Addr>() {
            Ok(address) => write!(f, "[{address}]:{port}"),
            Err(_) => write!(f, "{host}:{port}"),
        }
    }
}

/// A user, and the file of the password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// `None` for the cluster's default user.
    pub user: Option<String>,
    /// The file of the password.
    pub password_file: PathBuf,
}
