//! `<peers>` of srv.xml: the other machines that hold copies of the records of mirrored groups.
//!
//! Invariant: every value is within the bounds that read/peers.rs states. The secret is in a file
//! of its own, so no text of a configuration holds it.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::cluster::ClusterNode;

/// `<peers>`, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peers {
    /// `[a-z0-9-]{1,32}`: the name that all machines of the mirror have.
    pub name: String,
    /// The file of the secret that all machines share.
    pub secret_file: PathBuf,
    /// The address at which this machine takes records from its peers.
    pub listen: SocketAddr,
    /// The longest wait for a peer's answer, 1 to 10,000.
    pub timeout_ms: u64,
    /// The most bytes that are sent to each peer in a second.
    pub rate: u64,
    /// The most requests of one worker that may wait for peers, 1 to 65,536.
    pub max_parked: u32,
    /// The other machines, one or two.
    pub peers: Vec<ClusterNode>,
}
