//! The identity of this host in its cluster, and the keys that name its records there.
//!
//! Invariant: both are known or neither is, so no lease is held under a name that others do not
//! use.

use frs_base::sys;
use frs_conf::{Cluster, ClusterKeys};
use frs_engine::Files;
use frs_store::{Error, Runtime};

use crate::incarnation::{ClusterId, HostIncarnation};

/// The keys that the master has stored. `None` if it never stored any, or if they are damaged:
/// damaged ones would give a key another name on this host than on the others.
pub(crate) fn keys_of(runtime: &Runtime) -> Option<ClusterKeys> {
    runtime.kept_words().map(ClusterKeys::of_words)
}

/// The keys of the cluster and the incarnation of a host that serves. None if the cluster knows no
/// biz, or if a part is not known: then such bizs answer `store`.
pub(crate) fn of_host(files: &Files<'_>) -> Option<(ClusterKeys, HostIncarnation)> {
    let map = &files.conf.map;
    let is_known = map.bizs.iter().any(|biz| map.is_known_in_cluster(biz));
    let cluster = files.conf.srv.cluster.as_ref().filter(|_| is_known)?;
    let runtime = files.runtime?;
    let Some(keys) = keys_of(runtime) else {
        let path = runtime.path().display();
        tracing::error!(%path, "the cluster's keys are damaged: shared bizs answer store");
        return None;
    };
    match incarnation(runtime, files, cluster, &keys) {
        Ok(incarnation) => Some((keys, incarnation)),
        Err(error) => {
            tracing::error!(%error, "this host has no incarnation: shared bizs answer store");
            None
        }
    }
}

/// The incarnation of the host whose files a tool looks into. None if no host serves these files,
/// or if the machine has booted since.
pub(crate) fn of_files(files: &Files<'_>) -> Option<HostIncarnation> {
    let (cluster, runtime) = (files.conf.srv.cluster.as_ref()?, files.runtime?);
    let is_this_boot = sys::boot_id().is_ok_and(|boot| boot == runtime.boot());
    let keys = keys_of(runtime).filter(|_| is_this_boot)?;
    incarnation(runtime, files, cluster, &keys).ok()
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
