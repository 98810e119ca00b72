//! The part of a machine in a limit that several machines share, for people to read.
//!
//! Invariant: nothing here judges.

/// This machine's part in a shared limit: the uses granted to it, and the cluster's last answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedRecord {
    /// Index of the limit, from 1.
    pub index: u16,
    /// The machine may spend up to this in the window; for a token bucket, in all time. For a limit
    /// that refuses nothing: the reported uses.
    pub allowance: u64,
    /// The uses here.
    pub used: u64,
    /// When the window began, by the clock of the cluster's node, in milliseconds since the epoch.
    /// `None` if the machine knows no window.
    pub window_ms: Option<u64>,
    /// Milliseconds until the grant ends, 0 if it has. `None` if it never does.
    pub ends_ms: Option<u64>,
    /// Uses that this machine did not have when the cluster last answered: uses granted to no
    /// machine, and unspent uses of other machines. `None` if the cluster never answered, and for a
    /// limit that refuses nothing.
    pub elsewhere: Option<u64>,
    /// Uses of other machines when the cluster last answered, for a limit that refuses nothing.
    pub used_elsewhere: Option<u64>,
    /// Milliseconds since the cluster answered. `None` if it never did.
    pub age_ms: Option<u64>,
    /// A message to the cluster is in flight.
    pub in_flight: bool,
    /// The grant is of an earlier boot, or of another machine's files: this machine does not spend
    /// it.
    pub is_void: bool,
}
