//! Who this host is to its cluster, and how keys are named there.
//!
//! Invariant: both are known or neither is, so no lease is held under a name that others do not
//! use.

use crate::conf::{ClusterKeys, Conf};
use crate::store::{ClusterId, Handle, Incarnation};

/// What the bizs that a cluster knows need to know of this host and of its cluster.
#[derive(Debug, Default)]
pub(super) struct Identity {
    pub keys: Option<ClusterKeys>,
    pub incarnation: Option<Incarnation>,
}

impl Identity {
    /// Of this configuration. Nothing if the cluster knows no biz, or something is not known: then
    /// such bizs answer `store`.
    pub fn of(handle: &Handle, conf: &Conf) -> Identity {
        let mut known = conf.map.bizs.iter().map(|biz| conf.map.is_known_in_cluster(biz));
        let Some(cluster) = conf.srv.cluster.as_ref().filter(|_| known.any(|is_known| is_known))
        else {
            return Identity::default();
        };
        // Only leases stand in the files. A record in the cluster names its owner itself.
        let shared = conf.map.bizs.iter().filter(|biz| biz.sharing.is_some());
        let Some(keys) = handle.runtime().cluster_keys() else {
            let path = handle.runtime().path().display();
            tracing::error!(%path, "the cluster's keys are damaged: shared bizs answer store");
            return Identity::default();
        };
        let groups: Vec<&str> =
            shared.map(|biz| conf.map.groups[biz.group].name.as_str()).collect();
        let id = ClusterId { name: cluster.name.clone(), secret_check: keys.check };
        match handle.runtime().incarnation(id, |group| groups.contains(&group)) {
            Ok(incarnation) => Identity { keys: Some(keys), incarnation: Some(incarnation) },
            Err(error) => {
                tracing::error!(%error, "this host has no incarnation: shared bizs answer store");
                Identity::default()
            }
        }
    }
}
