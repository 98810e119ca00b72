//! The INFO of a node: its version, whether it evicts keys, whose data it has.
//!
//! Invariant: the identity changes whenever the node may have lost writes: when it has started
//! again, or become a master. The keys of its slots show that a node was emptied.

use super::fault::ClusterFault;

/// The first major version with Functions.
const FUNCTIONS_SINCE: u32 = 7;
const NOEVICTION: &str = "noeviction";

/// The fields of INFO.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Info {
    /// The version of Redis that it speaks.
    pub(super) version: String,
    is_cluster: bool,
    policy: String,
    /// Names its data.
    pub(super) identity: String,
}

impl Info {
    /// Reads the text of INFO. A missing field is empty.
    pub(super) fn read(info: &str) -> Info {
        let field = |name: &str| {
            let value = |line: &str| {
                let rest = line.strip_prefix(name)?.strip_prefix(':')?;
                Some(rest.trim_end().to_owned())
            };
            info.lines().find_map(value).unwrap_or_default()
        };
        Info {
            version: field("redis_version"),
            is_cluster: field("cluster_enabled") == "1",
            policy: field("maxmemory_policy"),
            identity: [field("run_id"), field("master_replid")].join(":"),
        }
    }

    /// Why this node cannot hold ledgers.
    pub(super) fn fault(&self, node: &str) -> Option<ClusterFault> {
        let node = node.to_owned();
        let major = self.version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        if major.is_some_and(|major| major < FUNCTIONS_SINCE) {
            return Some(ClusterFault::NoFunctions { node, version: self.version.clone() });
        }
        if !self.is_cluster {
            return Some(ClusterFault::NoCluster { node });
        }
        if !self.policy.is_empty() && self.policy != NOEVICTION {
            return Some(ClusterFault::Eviction { node, policy: self.policy.clone() });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "# Server\r\nredis_version:7.0.15\r\nrun_id:ab12\r\n# Memory\r\n\
        maxmemory_policy:noeviction\r\n# Replication\r\nrole:master\r\nmaster_replid:ff00\r\n\
        master_replid2:0000\r\n# Cluster\r\ncluster_enabled:1\r\n";

    #[test]
    fn the_info_of_a_node_is_read() {
        let info = Info::read(INFO);
        assert_eq!(info.version, "7.0.15");
        assert_eq!(info.identity, "ab12:ff00");
        assert_eq!(info.fault("a:1"), None);
    }

    #[test]
    fn what_cannot_hold_ledgers_is_named() {
        let fault = |from: &str, to: &str| Info::read(&INFO.replace(from, to)).fault("a:1");
        let node = || "a:1".to_owned();
        assert_eq!(
            fault("cluster_enabled:1", "cluster_enabled:0"),
            Some(ClusterFault::NoCluster { node: node() })
        );
        assert_eq!(
            fault("7.0.15", "6.2.7"),
            Some(ClusterFault::NoFunctions { node: node(), version: "6.2.7".to_owned() })
        );
        assert_eq!(
            fault("noeviction", "allkeys-lru"),
            Some(ClusterFault::Eviction { node: node(), policy: "allkeys-lru".to_owned() })
        );
    }

    #[test]
    fn a_node_that_may_have_lost_writes_has_another_identity() {
        let identity = |info: &str| Info::read(info).identity;
        for other in [INFO.replace("ab12", "cd34"), INFO.replace("ff00", "ee00")] {
            assert_ne!(identity(&other), identity(INFO));
        }
        let used = format!("{INFO}# Commandstats\r\ncmdstat_fcall:calls=1,usec=9\r\n");
        assert_eq!(identity(&used), identity(INFO));
    }
}
