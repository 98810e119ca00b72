//! The nodes of this host, through its attachment to the store.
//!
//! Invariant: a seq is taken only while the courier's lock is held.

use frs_base::clock::Millis;
use frs_conf::{ClusterSecret, Scope, Share};
use frs_engine::{ItemError, ItemMoment, NeedEnd, Service, StoredKey};
use frs_store::{Error, MailboxLock};

use super::rings::RingTicket;
use crate::courier::core::{Leased, Nodes, Now};
use crate::incarnation::{ClusterId, salt_of};
use crate::lease::{Incarnation, RequestSize};
use crate::name::{self, KeyDigest, LedgerId};
use crate::newest_copy::{self, HostWords, Starts};
use crate::nodes::{self, LeasePass, StoredRecords};
use crate::plug::HostCluster;
use crate::shared::LeasedLimit;

/// The nodes, and the names of their ledgers.
#[derive(Debug)]
pub struct HostNodes {
    pub service: Service,
    pub lock: MailboxLock,
    /// The name of the cluster.
    pub cluster: String,
    pub secret: ClusterSecret,
    /// The wall clock of this turn.
    pub wall_ms: Millis,
    /// The incarnation of the host in this turn.
    pub incarnation: Incarnation,
    /// Which key-nodes may hold leases.
    pub pass: LeasePass,
}

impl HostNodes {
    /// Begins a turn at this time.
    pub fn begin(&mut self, wall_ms: Millis) {
        self.wall_ms = wall_ms;
        self.incarnation = HostCluster::incarnation_of(&mut self.service);
    }

    fn words(&self) -> HostWords<'_> {
        HostWords::of(self.service.handle().runtime(), &self.lock)
    }

    /// The records at this time.
    pub fn records(&mut self) -> StoredRecords<'_> {
        StoredRecords { service: &mut self.service, now: self.wall_ms }
    }

    /// The time of a transaction.
    pub fn moment(&self, now: Now) -> ItemMoment {
        ItemMoment { boot_ms: now.boot_ms, wall_ms: self.wall_ms }
    }

    /// The key of a record in the cluster.
    pub fn record_key(&self, key: &StoredKey) -> Option<String> {
        let digest = KeyDigest::of(&key.key()?, &self.secret);
        Some(name::record_key(&self.cluster, key.biz_id(), digest))
    }

    /// Whether the cluster has yet to confirm that the directory is the newest of its copies.
    pub fn are_leases_unproven(&self) -> bool {
        newest_copy::are_leases_unproven(self.service.handle().runtime())
    }

    /// The next question to the cluster, or report, about the last start of the server.
    pub fn next_start(&self) -> Result<Starts, Error> {
        let secret_check = self.secret.keys().check;
        let cluster = ClusterId { name: self.cluster.clone(), secret_check };
        self.words().next_start(cluster)
    }

    /// Proves the leases, as the cluster knows this start.
    pub fn prove_leases(&mut self, starts: Starts) {
        self.words().prove_leases(starts);
        self.incarnation = HostCluster::incarnation_of(&mut self.service);
    }

    /// Gives the host another incarnation: its directory is an older copy.
    pub fn renew_as_older_copy(&mut self) -> Result<(), Error> {
        self.renew(salt_of(self.service.handle().runtime()))
    }

    fn renew(&mut self, stale_salt: u64) -> Result<(), Error> {
        self.words().renew_incarnation(stale_salt)?;
        self.incarnation = HostCluster::incarnation_of(&mut self.service);
        Ok(())
    }

    fn leased(key: &StoredKey, digest: KeyDigest, limit: &LeasedLimit) -> Leased {
        let ledger = LedgerId {
            biz: key.biz_id(),
            key: if limit.scope == Scope::Biz { KeyDigest::Biz } else { digest },
            limit: limit.number,
            shape: limit.shape,
            epoch: limit.epoch,
        };
        let request_size = match limit.sharing.share {
            _ if limit.refuses_nothing => RequestSize::Zero,
            Share::Cluster => RequestSize::Largest,
            Share::Exact => RequestSize::Needed,
        };
        Leased { ledger, settings: limit.settings, request_size, holding: limit.holding }
    }
}

impl Nodes for HostNodes {
    type Key = StoredKey;
    type Ticket = RingTicket;

    fn with_leases<T>(
        &mut self,
        key: &StoredKey,
        now: Now,
        mut work: impl FnMut(&mut [Leased]) -> T,
    ) -> Result<T, NeedEnd> {
        let digest =
            key.key().map(|key| KeyDigest::of(&key, &self.secret)).ok_or(NeedEnd::Unserved)?;
        let mut is_changed = false;
        let moment = self.moment(now);
        let result = nodes::with_leases(&mut self.service, key, moment, now.ledger_ms, |limits| {
            let mut leased: Vec<Leased> =
                limits.iter().map(|limit| HostNodes::leased(key, digest, limit)).collect();
            let result = work(&mut leased);
            for (limit, leased) in limits.iter_mut().zip(leased) {
                is_changed |= limit.holding != leased.holding;
                limit.holding = leased.holding;
            }
            result
        });
        if is_changed {
            nodes::mark_lease(&self.service, &mut self.pass, key);
        }
        result.map_err(|error| match error {
            ItemError::Full => NeedEnd::Full,
            _ => NeedEnd::Unserved,
        })
    }

    fn next_seq(&mut self) -> u64 {
        self.words().next_seq()
    }

    fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    fn renew_incarnation(&mut self) {
        let salt = HostCluster::salt_of(&mut self.service);
        if let Err(error) = self.renew(salt) {
            tracing::error!(%error, "this host keeps a stale incarnation");
        }
    }
}
