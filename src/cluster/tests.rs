//! Services of hosts of a cluster, over a real store: leases, and records that the cluster keeps.

#[cfg(feature = "courier")]
mod compared;
mod former_limits;
mod giving_back;
mod kept_bans;
mod kept_records;
mod leases;
mod members;
#[cfg(feature = "courier")]
mod mirrored;
mod shared_keys;
mod sharing;
mod spilled;
mod waiting;
