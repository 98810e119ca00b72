//! The seam for a cluster: what the engine asks of the crate that lets machines share limits and
//! records.
//!
//! Invariant: without a cluster nothing is asked. A configuration with a cluster is not taken
//! without a plug.

use std::any::Any;
use std::fmt;

use frs_conf::key::DigestKey;
use frs_conf::{Biz, Conf};
use frs_limit::SharedPolicies;
use frs_store::{Error, Handle, Runtime};

/// Makes the cluster of a process, for each configuration anew.
pub trait Plug: fmt::Debug + Sync {
    /// The cluster of a process that serves items.
    fn serve(&self, files: &Files<'_>) -> Box<dyn Cluster>;

    /// The cluster of a tool that looks into the files.
    fn look(&self, files: &Files<'_>) -> Box<dyn Cluster>;

    /// The cluster of a tool that converts nodes. It judges no shared limit: it only tells which
    /// nodes it can convert.
    fn convert(&self, runtime: Option<&Runtime>) -> Box<dyn Cluster>;

    /// Whether shared limits can be served here at all.
    ///
    /// # Errors
    /// They cannot.
    fn check(&self) -> Result<(), Error>;
}

/// The plug that a program has. `None`: it knows one machine alone.
pub type Plugged = Option<&'static dyn Plug>;

/// The files of a data directory, under a configuration.
pub struct Files<'a> {
    /// The configuration.
    pub conf: &'a Conf,
    /// The runtime file. `None`: it cannot be read.
    pub runtime: Option<&'a Runtime>,
    /// The id of a group by its name; of a group that grows, the id of the group that it grows to.
    pub id_of: &'a dyn Fn(&str) -> Option<u64>,
}

/// The cluster of a process, under one configuration.
pub trait Cluster: fmt::Debug + Send {
    /// The maker of the policies of shared limits.
    fn policies(&self) -> &dyn SharedPolicies;

    /// The key of the digests by which all machines name keys. `None`: it is not known, so that
    /// businesses which the cluster knows are unavailable.
    fn names(&self) -> Option<DigestKey>;

    /// The key under which all machines hash members, if it is known.
    fn members(&self) -> Option<DigestKey>;

    /// The records of a business that the cluster keeps.
    fn records(&self, conf: &Conf, biz: &Biz) -> Option<Remote>;

    /// Whether other machines may have later records than this one. The batch has begun.
    fn learning(&self) -> Learning;

    /// Begins a batch of items: takes what has changed in the runtime file. The time is set.
    fn begin_batch(&mut self, runtime: &Runtime);

    /// Whether an item since [`Cluster::take_news`] must be reported to the other machines at once.
    fn has_news(&self) -> bool;

    /// Forgets such items: they are being reported.
    fn take_news(&self);

    /// The cluster itself, for the crate that made it.
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

/// Whether other machines may have later records than this one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Learning {
    /// They have none.
    #[default]
    No,
    /// The first use of a record asks them, and goes on with what is here if nobody answers.
    Asks,
    /// The first use of a record waits for a machine that leaves. It is `busy` if that takes too
    /// long.
    Parks,
}

/// The records of a business that the cluster, or other machines, keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remote {
    /// How long an item waits for the record of its key.
    pub wait_ms: u64,
    /// The cluster has a copy of each record.
    pub copies: bool,
    /// A record in use goes to the cluster before another one takes its place.
    pub makes_room: bool,
    /// Other machines have a copy of each record, by its version.
    pub is_mirrored: bool,
}

/// The plug, if the configuration needs one.
///
/// # Errors
/// It needs one, and there is none.
pub(crate) fn needed(conf: &Conf, plug: Plugged) -> Result<Plugged, Error> {
    if conf.srv.has_mailboxes() && plug.is_none() {
        let path = conf.srv.data.dir.clone();
        let element = if conf.srv.cluster.is_some() { "<cluster>" } else { "<peers>" };
        let message = format!("the configuration has {element}, which this program cannot use");
        return Err(Error::Configuration { path, message });
    }
    Ok(plug.filter(|_| conf.srv.has_mailboxes()))
}

/// The cluster of a process that serves these groups.
pub(crate) fn serve(plug: Plugged, handle: &Handle, conf: &Conf) -> Option<Box<dyn Cluster>> {
    let id_of = |name: &str| handle.index_of(name).map(|index| handle.groups()[index].header().id);
    let files = Files { conf, runtime: Some(handle.runtime()), id_of: &id_of };
    Some(plug.filter(|_| conf.srv.has_mailboxes())?.serve(&files))
}
