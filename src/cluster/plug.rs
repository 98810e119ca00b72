//! The plug: what makes a one-machine limiter a host of a cluster.
//!
//! Invariant: a host without its keys or its incarnation spends no lease and names no key.

use std::any::Any;
use std::path::Path;

use frs_conf::key::DigestKey;
use frs_conf::{Biz, ClusterKeys, Conf};
use frs_engine::{Cluster, Files, Learning, Plug, Plugged, Remote, Role, Service};
use frs_limit::SharedPolicies;
use frs_store::{Error, Runtime};

use crate::incarnation::{HostIncarnation, check_boot_clock};
use crate::learning::{self, Run};
use crate::lease;
use crate::nodes::identity;
use crate::shared::LeasedLimits;

/// The plug of every program that may meet a configuration with a cluster.
pub const PLUG: Plugged = Some(&ClusterPlug);

/// How long an item waits at most for an answer of a peer that cannot be taken in at once.
const EARLY_MS: u64 = 500;

/// Attaches to a data directory, with a cluster if its configuration has one.
///
/// # Errors
/// As [`Service::attach`].
pub fn attach(data_dir: &Path, role: Role) -> Result<Service, Error> {
    Service::attach(data_dir, role, PLUG)
}

/// Makes the clusters of services and tools.
#[derive(Debug)]
struct ClusterPlug;

impl Plug for ClusterPlug {
    fn serve(&self, files: &Files<'_>) -> Box<dyn Cluster> {
        let (mut keys, incarnation) = identity::of_host(files).unzip();
        if files.conf.srv.peers.is_some() {
            keys = files.runtime.and_then(identity::keys_of);
        }
        Box::new(HostCluster {
            names: keys,
            members: keys,
            incarnation,
            spends: true,
            mirrored_in: mirrored_in(files),
            ..HostCluster::default()
        })
    }

    fn look(&self, files: &Files<'_>) -> Box<dyn Cluster> {
        let (keys, incarnation) =
            (files.runtime.and_then(identity::keys_of), identity::of_files(files));
        Box::new(HostCluster { names: keys, members: keys, incarnation, ..HostCluster::default() })
    }

    fn convert(&self, runtime: Option<&Runtime>) -> Box<dyn Cluster> {
        let members = runtime.and_then(identity::keys_of);
        Box::new(HostCluster { members, ..HostCluster::default() })
    }

    fn check(&self) -> Result<(), Error> {
        check_boot_clock()
    }
}

/// This run of this machine, if some group is mirrored.
fn mirrored_in(files: &Files<'_>) -> Option<Run> {
    let is_any = files.conf.map.groups.iter().any(frs_conf::Group::is_mirrored);
    files.runtime.filter(|_| is_any).map(Run::of)
}

/// The cluster as a host, or a tool that looks into its files, knows it.
#[derive(Debug, Default)]
pub struct HostCluster {
    limits: LeasedLimits,
    /// The keys by which all machines name keys.
    names: Option<ClusterKeys>,
    /// The keys by which all machines hash members.
    members: Option<ClusterKeys>,
    /// `None`: no lease counts.
    incarnation: Option<HostIncarnation>,
    /// It spends leases, so that those of other incarnations are void.
    spends: bool,
    /// This run of this machine, if some group is mirrored.
    mirrored_in: Option<Run>,
    /// Whether this machine may lack what its peers know.
    learning: Learning,
}

impl HostCluster {
    /// The host of a service. `None` if its configuration has no cluster.
    pub fn of(service: &mut Service) -> Option<(&mut HostCluster, &Runtime)> {
        let (cluster, runtime) = service.cluster()?;
        Some((cluster.as_any_mut().downcast_mut()?, runtime))
    }

    /// The number by which the ledger knows the host of a service. 0 without a cluster.
    pub fn incarnation_of(service: &mut Service) -> lease::Incarnation {
        let own = HostCluster::of(service)
            .and_then(|(host, runtime)| Some(host.incarnation.as_mut()?.now(runtime)));
        own.unwrap_or(0)
    }

    /// The salt of the incarnation that [`HostCluster::incarnation_of`] returned last.
    pub fn salt_of(service: &mut Service) -> u64 {
        let salt =
            HostCluster::of(service).and_then(|(host, _)| Some(host.incarnation.as_ref()?.salt));
        salt.unwrap_or(0)
    }
}

impl Cluster for HostCluster {
    fn policies(&self) -> &dyn SharedPolicies {
        &self.limits
    }

    fn names(&self) -> Option<DigestKey> {
        self.names.map(|keys| DigestKey(keys.key_seed))
    }

    fn members(&self) -> Option<DigestKey> {
        self.members.map(|keys| DigestKey(keys.key_seed))
    }

    /// An item waits for two messages to the cluster and their answers. If another record must be
    /// spilled first, it waits for the same again for that record.
    fn records(&self, conf: &Conf, biz: &Biz) -> Option<Remote> {
        self.names?;
        let group = conf.map.groups.get(biz.group)?;
        if let Some(peers) = conf.srv.peers.as_ref().filter(|_| group.mirror_ms.is_some()) {
            let wait_ms = peers.timeout_ms.max(EARLY_MS);
            return Some(Remote { wait_ms, copies: false, makes_room: false, is_mirrored: true });
        }
        let cluster = conf.srv.cluster.as_ref()?;
        let keeps = group.keeps(biz);
        let wait_ms = match group.spill {
            true => 4 * cluster.timeout_ms,
            false if keeps => 2 * cluster.timeout_ms,
            false => return None,
        };
        let copies = keeps && group.backup_ms.is_some();
        Some(Remote { wait_ms, copies, makes_room: group.spill, is_mirrored: false })
    }

    fn learning(&self) -> Learning {
        self.learning
    }

    fn begin_batch(&mut self, runtime: &Runtime) {
        if let Some(run) = self.mirrored_in {
            self.learning = learning::state_in(runtime, run);
        }
        let Some(incarnation) = &mut self.incarnation else { return };
        let own = incarnation.now(runtime);
        self.limits.0.set_host(own);
        if self.spends {
            self.limits.0.set_incarnation(own, incarnation.is_unproven());
        }
    }

    fn has_news(&self) -> bool {
        self.limits.0.has_news()
    }

    fn take_news(&self) {
        self.limits.0.take_news();
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
