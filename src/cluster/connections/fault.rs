//! Why a cluster cannot be used as it is.
//!
//! Invariant: each fault names the node, what was found there and what was expected.

/// A fault that lasts until somebody repairs it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClusterFault {
    /// A server without cluster mode.
    #[error(
        "{node} is no node of a cluster (cluster_enabled:0): expected a Redis or Valkey Cluster, \
         7.0 or newer, with cluster-enabled yes"
    )]
    NoCluster {
        /// The address of the node.
        node: String,
    },
    /// A server without Functions.
    #[error("{node} has no Functions (version {version}): expected Redis or Valkey 7.0 or newer")]
    NoFunctions {
        /// The address of the node.
        node: String,
        /// Its version.
        version: String,
    },
    /// A server that evicts ledgers when its memory is short.
    #[error(
        "{node} has maxmemory-policy {policy}: expected noeviction, as it must forget no ledger"
    )]
    Eviction {
        /// The address of the node.
        node: String,
        /// Its policy.
        policy: String,
    },
    /// Hosts with another secret use the cluster's name.
    #[error(
        "the cluster \"{cluster}\" was made with another secret (at {node}): expected the same \
         secret-file on all machines, or another name"
    )]
    OtherSecret {
        /// The cluster's name.
        cluster: String,
        /// The address of the node.
        node: String,
    },
    /// The node rejects the user, or denies the courier a permission.
    #[error("{node} refuses the courier: {error}")]
    NotAllowed {
        /// The address of the node.
        node: String,
        /// Its error.
        error: String,
    },
    /// No node answers.
    #[error("no node of the cluster answers: {0}")]
    Unreachable(String),
    /// A file of the configuration is wrong.
    #[error("{0}")]
    File(String),
    /// A thread of the links has ended by a bug, and another one replaces it.
    #[error("the thread {0} has ended and was replaced")]
    ThreadDied(String),
    /// A thread cannot be started, or TLS cannot be set up.
    #[error("expected to start the links to the cluster: {0}")]
    Start(String),
}
