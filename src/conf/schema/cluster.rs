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
    /// `[a-z0-9-]{1,32}`: the name that all machines give it, and part of every key there.
    pub name: String,
    /// The file of the secret that all machines have alike.
    pub secret_file: PathBuf,
    /// The longest wait for an answer of a node, 1 to 10,000.
    pub timeout_ms: u64,
    /// A master that has just become one grants nothing for this long, 100 to 60,000.
    pub learn_ms: u64,
    /// Replicas that must have a grant before it counts, 0 to 8.
    pub wait_replicas: u32,
    /// Messages of one pipeline, 1 to 1024.
    pub batch: u32,
    /// Requests of one worker that may wait for leases, 1 to 65,536.
    pub max_parked: u32,
    /// Nodes that are asked for all others, 1 to 64.
    pub nodes: Vec<ClusterNode>,
    /// Are all nodes reached over TLS.
    pub tls: bool,
    /// Who logs in at every node; none: nobody does.
    pub login: Option<Login>,
}

/// The address of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
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

/// A user and where the password is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// None: the cluster's default user.
    pub user: Option<String>,
    /// The file of the password.
    pub password_file: PathBuf,
}
