//! The identity of this host in its cluster, and the keys that name its records there.
//!
//! Invariant: both are known or neither is, so no lease is held under a name that others do not
//! use.

use frs_conf::{Cluster, ClusterKeys, Conf, Map};
use frs_store::{Error, Handle, Runtime};

use crate::incarnation::{ClusterId, Incarnation};

/// The identity of this host and the keys of its cluster, for the bizs that the cluster knows.
#[derive(Debug, Default)]
pub(super) struct Identity {
    pub keys: Option<ClusterKeys>,
    pub incarnation: Option<Incarnation>,
}

impl Identity {
    /// The identity under this configuration. Empty if the cluster knows no biz, or if a part is
    /// not known: then such bizs answer `store`.
    pub fn of(handle: &Handle, conf: &Conf) -> Identity {
        let mut known = conf.map.bizs.iter().map(|biz| conf.map.is_known_in_cluster(biz));
        let Some(cluster) = conf.srv.cluster.as_ref().filter(|_| known.any(|is_known| is_known))
        else {
            return Identity::default();
        };
        let runtime = handle.runtime();
        let Some(keys) = runtime.cluster_keys() else {
            let path = runtime.path().display();
            tracing::error!(%path, "the cluster's keys are damaged: shared bizs answer store");
            return Identity::default();
        };
        let id_of =
            |name: &str| handle.index_of(name).map(|index| handle.groups()[index].header().id);
        match incarnation(runtime, &conf.map, cluster, &keys, id_of) {
            Ok(incarnation) => Identity { keys: Some(keys), incarnation: Some(incarnation) },
            Err(error) => {
                tracing::error!(%error, "this host has no incarnation: shared bizs answer store");
                Identity::default()
            }
        }
    }
}

/// The incarnation of the host with these files, in this cluster. Groups without a shared biz take
/// no part: the files hold only leases, and a record in the cluster names its owner itself. `id_of`
/// returns the id of an open group; for a group that grows, the id of the group that it grows to.
/// The two have the same lineage, so the incarnation stays.
///
/// # Errors
/// As [`Incarnation::of`].
pub(crate) fn incarnation(
    runtime: &Runtime,
    map: &Map,
    cluster: &Cluster,
    keys: &ClusterKeys,
    id_of: impl Fn(&str) -> Option<u64>,
) -> Result<Incarnation, Error> {
    let shared = map.bizs.iter().filter(|biz| biz.sharing.is_some());
    let names = shared.map(|biz| map.groups[biz.group].name.as_str());
    let id = |name| id_of(name).or_else(|| runtime.id_of_group(name));
    let groups: Vec<u64> = names.filter_map(id).collect();
    let id = ClusterId { name: cluster.name.clone(), secret_check: keys.check };
    Incarnation::of(runtime, id, |group| groups.contains(&group))
}
