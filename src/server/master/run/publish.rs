//! Puts the configuration of a prepared reload in force.
//!
//! Invariant: a failure leaves the old configuration in force. Listeners that were opened for the
//! new one are served nevertheless.

use std::collections::VecDeque;

use super::Master;
use crate::master::error::ReloadError;
use crate::master::preparing_child::log_prepared;
use crate::master::reload::{PreparedConf, ReloadCandidate};
use crate::master::supervise::{ClusterChange, Event};
use crate::process::bells::Bells;
use crate::process::log;
use crate::process::message::ToChild;
use frs_base::clock;
use frs_conf::{ClusterSecrets, Conf, LoadedConf};

impl Master {
    /// Puts a prepared configuration in force; returns its generation.
    pub(super) fn publish(
        &mut self,
        candidate: ReloadCandidate,
        events: &mut VecDeque<Event>,
    ) -> Result<u64, ReloadError> {
        let PreparedConf { prepared, loaded, secrets, tokens, lift_bans } =
            candidate.answer(&self.in_force.conf().map.groups)?;
        let LoadedConf { conf, texts } = loaded;
        let (workers, level) = (conf.srv.workers, conf.srv.log.level);
        let grown = self.listeners.grow(self.account.as_ref(), workers);
        // Opened listeners are served, even if the rest is refused.
        events.push_back(Event::ListenerSets(self.listeners.sets()));
        grown?;
        let change = self.cluster_change(&conf, secrets.as_ref());
        let is_added = change == Some(ClusterChange::Added);
        let bells = is_added.then(Bells::new).transpose()?;
        if let Some(secrets) = secrets.as_ref().filter(|_| is_added) {
            self.in_force.runtime().set_cluster_keys(secrets.secret.keys());
        }
        let mut overlay = self.in_force.overlay().clone();
        overlay.set_moving(prepared.moving.clone());
        lift_bans.map_or(Ok(()), |biz| overlay.lift_bans(biz, clock::now()))?;
        let generation = self.in_force.publish(conf, texts, &tokens, overlay)?;
        log_prepared(&prepared);
        log::set_level(level);
        self.children.say_all(ToChild::Generation);
        match change {
            Some(ClusterChange::Added | ClusterChange::Removed) => {
                (self.bells, self.secrets) = (bells, secrets);
            }
            // The secret in force stays, because serving processes name keys by it.
            Some(ClusterChange::Login) => {
                if let (Some(own), Some(secrets)) = (&mut self.secrets, secrets) {
                    own.password = secrets.password;
                }
            }
            None => {}
        }
        events.push_back(Event::Resize(workers));
        events.extend(change.map(Event::Cluster));
        Ok(generation)
    }

    /// How a new configuration changes the cluster. `None` if the processes take all changes by
    /// themselves.
    fn cluster_change(
        &self,
        conf: &Conf,
        secrets: Option<&ClusterSecrets>,
    ) -> Option<ClusterChange> {
        let login_of = |conf: &Conf| conf.srv.cluster.as_ref()?.login.clone();
        match (&self.secrets, secrets) {
            (None, None) => None,
            (None, Some(_)) => Some(ClusterChange::Added),
            (Some(_), None) => Some(ClusterChange::Removed),
            (Some(own), Some(secrets)) => {
                let is_same = own.password == secrets.password
                    && login_of(self.in_force.conf()) == login_of(conf);
                (!is_same).then_some(ClusterChange::Login)
            }
        }
    }
}
