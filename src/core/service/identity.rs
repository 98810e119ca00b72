//! Who this host is to its cluster, and how keys are named there.
//!
//! Invariant: both are known or neither is, so no lease is held under a name that others do not
//! use.

use crate::conf::{ClusterKeys, Conf};
use crate::store::{ClusterId, Handle, Incarnation};

/// What the shared bizs of a configuration need to know of this host and of its cluster.
#[derive(Debug, Default)]
pub(super) struct Identity {
    pub keys: Option<ClusterKeys>,
    pub incarnation: Option<Incarnation>,
}

impl Identity {
    /// Of this configuration. Nothing if no biz is shared, or something is not known: then shared
    /// bizs answer `store`.
    pub fn of(handle: &Handle, conf: &Conf) -> Identity {
        let mut shared = conf.map.bizs.iter().filter(|biz| biz.sharing.is_some()).peekable();
        let Some(cluster) = conf.srv.cluster.as_ref().filter(|_| shared.peek().is_some()) else {
            return Identity::default();
        };
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
