//! Peers that know nothing, for a machine that mirrors its records.

use std::any::Any;
use std::sync::Arc;

use frs_conf::key::DigestKey;
use frs_conf::{Biz, Conf, Limit};
use frs_limit::{BootClock, Log, SharedPolicies, SharedPolicy};
use frs_store::{Error, Runtime};

use crate::{Cluster, Files, Learning, Plug, Plugged, Remote};

/// Makes peers that know nothing.
#[derive(Debug)]
struct PeersPlug;

pub const PLUG: Plugged = Some(&PeersPlug);

/// Peers that know nothing.
#[derive(Debug, Default)]
struct Peers(NoPolicies);

#[derive(Debug, Default)]
struct NoPolicies(Arc<BootClock>);

impl Plug for PeersPlug {
    fn serve(&self, _: &Files<'_>) -> Box<dyn Cluster> {
        Box::new(Peers::default())
    }

    fn look(&self, _: &Files<'_>) -> Box<dyn Cluster> {
        Box::new(Peers::default())
    }

    fn convert(&self, _: Option<&Runtime>) -> Box<dyn Cluster> {
        Box::new(Peers::default())
    }

    fn check(&self) -> Result<(), Error> {
        Ok(())
    }
}

impl SharedPolicies for NoPolicies {
    fn clock(&self) -> &Arc<BootClock> {
        &self.0
    }

    fn policy(&self, _: &Biz, _: &Limit, _: Log) -> Option<Box<dyn SharedPolicy>> {
        None
    }
}

impl Cluster for Peers {
    fn policies(&self) -> &dyn SharedPolicies {
        &self.0
    }

    fn names(&self) -> Option<DigestKey> {
        Some(DigestKey([1, 2]))
    }

    fn members(&self) -> Option<DigestKey> {
        self.names()
    }

    fn records(&self, conf: &Conf, biz: &Biz) -> Option<Remote> {
        let is_mirrored = conf.map.groups[biz.group].mirror_ms.is_some();
        let remote = Remote { wait_ms: 50, copies: false, makes_room: false, is_mirrored };
        is_mirrored.then_some(remote)
    }

    fn learning(&self) -> Learning {
        Learning::No
    }

    fn begin_batch(&mut self, _: &Runtime) {}

    fn has_news(&self) -> bool {
        false
    }

    fn take_news(&self) {}

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
