//! The identity of this host in its cluster, and the keys that name its records there.
//!
//! Invariant: both are known or neither is, so no lease is held under a name that others do not
//! use.

use frs_base::sys;
use frs_conf::{Cluster, ClusterKeys};
use frs_engine::Files;
use frs_store::{Error, Runtime};

use crate::incarnation::{ClusterId, HostIncarnation};

/// The identity of this host and the keys of its cluster, for the bizs that the cluster knows.
#[derive(Debug, Default)]
pub(crate) struct Identity {
    pub keys: Option<ClusterKeys>,
    pub incarnation: Option<HostIncarnation>,
}

impl Identity {
    /// The identity of a host that serves. Empty if the cluster knows no biz, or if a part is not
    /// known: then such bizs answer `store`.
    pub fn of_host(files: &Files<'_>) -> Identity {
        let map = &files.conf.map;
        let is_known = map.bizs.iter().any(|biz| map.is_known_in_cluster(biz));
        let cluster = files.conf.srv.cluster.as_ref().filter(|_| is_known);
        let (Some(cluster), Some(runtime)) = (cluster, files.runtime) else {
            return Identity::default();
        };
        let Some(keys) = runtime.cluster_keys() else {
            let path = runtime.path().display();
            tracing::error!(%path, "the cluster's keys are damaged: shared bizs answer store");
            return Identity::default();
        };
        match incarnation(runtime, files, cluster, &keys) {
            Ok(incarnation) => Identity { keys: Some(keys), incarnation: Some(incarnation) },
            Err(error) => {
                tracing::error!(%error, "this host has no incarnation: shared bizs answer store");
                Identity::default()
            }
        }
    }

    /// The identity of the host whose files a tool looks into. The incarnation is not known if no
    /// host serves these files, or if the machine has booted since.
    pub fn looked_at(files: &Files<'_>) -> Identity {
        let keys = files.runtime.and_then(Runtime::cluster_keys);
        let known = || {
            let (cluster, runtime) = (files.conf.srv.cluster.as_ref()?, files.runtime?);
            let has_booted = sys::boot_id().map_or(true, |boot| boot != runtime.boot());
            let keys = keys.as_ref().filter(|_| !has_booted)?;
            incarnation(runtime, files, cluster, keys).ok()
        };
        Identity { incarnation: known(), keys }
    }
}

/// The incarnation of the host with these files, in this cluster. Groups without a shared biz take
/// no part: the files hold only leases, and a record in the cluster names its owner itself. A group
/// that grows has the lineage of the group that it grows to, so the incarnation stays.
///
/// # Errors
/// As [`HostIncarnation::of`].
fn incarnation(
    runtime: &Runtime,
    files: &Files<'_>,
    cluster: &Cluster,
    keys: &ClusterKeys,
) -> Result<HostIncarnation, Error> {
    let map = &files.conf.map;
    let shared = map.bizs.iter().filter(|biz| biz.sharing.is_some());
    let names = shared.map(|biz| map.groups[biz.group].name.as_str());
    let id = |name| (files.id_of)(name).or_else(|| runtime.id_of_group(name));
    let groups: Vec<u64> = names.filter_map(id).collect();
    let id = ClusterId { name: cluster.name.clone(), secret_check: keys.check };
    HostIncarnation::of(runtime, id, |group| groups.contains(&group))
}
