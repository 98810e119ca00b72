//! Reloads: begins one, and puts its configuration in force or refuses it.
//!
//! Invariant: a failure leaves the old configuration in force. Listeners that were opened for the
//! new one are served nevertheless.

use std::collections::VecDeque;
use std::io;

use super::{ClusterTies, Master};
use crate::master::error::ReloadError;
use crate::master::preparing_child::{Answer, log_prepared};
use crate::master::reload_queue::{self, CheckedConf, ReloadCandidate, Report, refusal};
use crate::master::supervise::{ClusterChange, Event};
use crate::process::bells::Bells;
use crate::process::control::{Cause, ReloadOptions};
use crate::process::log;
use crate::process::message::ToChild;
use frs_base::clock;
use frs_conf::{ClusterSecrets, Conf, Group, LoadedConf};

impl Master {
    /// Begins to take the configuration from the files.
    pub(super) fn begin_reload(&mut self, report: Report, options: ReloadOptions) {
        if self.children.is_ending() {
            tracing::warn!("not reloaded: this master is about to stop");
            let report = Report { is_reload: false, ..report };
            return self.answer(&report, &refusal(&ReloadError::Ending));
        }
        // Before this master serves, systemd sees no reload, and the server is not ready yet.
        if self.announced {
            self.notifier.reloading(clock::monotonic_ns());
        }
        if self.upgrades.is_begun() {
            return self.refuse_reload(&report, &ReloadError::TakingOver, options.is_edit);
        }
        self.note_reading();
        let (account, control, asked) = (self.account.as_ref(), &mut self.control, report.clone());
        let (conf_dir, in_force) = (&self.conf_dir, &self.in_force);
        match ReloadCandidate::begin(asked, conf_dir, in_force, account, control, options) {
            Ok(candidate) => self.reloads.candidate = Some(candidate),
            Err(error) => self.refuse_reload(&report, &error, options.is_edit),
        }
    }

    /// Advances the current reload, if possible.
    pub(super) fn follow_reload(&mut self, events: &mut VecDeque<Event>) -> io::Result<()> {
        if let Some(mut candidate) = self.reloads.take_prepared()? {
            let report = std::mem::take(&mut candidate.report);
            let is_edit = candidate.checked.options.is_edit;
            let files = std::mem::take(&mut candidate.files);
            let old = self.in_force.generation();
            match self.publish(candidate, events) {
                Ok((generation, mut fresh)) => {
                    if !report.is_of_plane() {
                        self.changes.note_reload(old, generation, report.is_of_watch);
                    }
                    self.watch.end_reading();
                    fresh.extend(self.unserved_words());
                    self.reloads.wait_for(report, generation, fresh);
                }
                Err(error) => {
                    reload_queue::take_back(&files, self.in_force.runtime());
                    self.refuse_reload(&report, &error, is_edit);
                }
            }
        }
        let (children, runtime) = (&self.children, self.in_force.runtime());
        let laggards = |generation| children.laggards(&runtime.slots(), generation);
        let answers = self.reloads.take_acknowledged(laggards);
        answers.iter().for_each(|(report, result)| self.answer(report, result));
        Ok(())
    }

    fn refuse_reload(&mut self, report: &Report, error: &ReloadError, is_edit: bool) {
        let runtime = self.in_force.runtime();
        runtime.count_refused_reload(clock::now());
        if is_edit {
            self.watch.forget_reading();
        } else {
            self.watch.end_reading();
            if matches!(error.cause(), Cause::NoRoom | Cause::Moving) {
                self.watch.try_again(clock::instant());
            }
            runtime.set_reload_refused();
            self.reloads.faults = reload_queue::fault_lines(error);
        }
        self.refuse(report, error, "the new configuration is refused; the old one stays in force");
    }

    /// Groups of the configuration in force that a reload does not bring back, a line each.
    fn unserved_words(&self) -> Vec<String> {
        let runtime = self.in_force.runtime();
        let groups = &self.in_force.conf().map.groups;
        let unserved = groups.iter().filter(|group| !runtime.is_served(&group.name));
        let words = |group: &Group| {
            format!(
                "group {} is not served: its items answer `store` until a start finds its files \
                 sound",
                group.name
            )
        };
        unserved.map(words).collect()
    }

    /// Puts a prepared configuration in force; returns its generation, and which records begin
    /// anew.
    fn publish(
        &mut self,
        candidate: ReloadCandidate,
        events: &mut VecDeque<Event>,
    ) -> Result<(u64, Vec<String>), ReloadError> {
        let (answer, checked) = candidate.answer(&self.in_force.conf().map.groups)?;
        let Answer { prepared, fresh } = answer;
        let CheckedConf { loaded, secrets, content, options } = checked;
        let LoadedConf { conf, texts } = loaded;
        let (workers, level) = (conf.srv.workers, conf.srv.log.level);
        let grown = self.listeners.grow(self.account.as_ref(), workers);
        // Opened listeners are served, even if the rest is refused.
        events.push_back(Event::ListenerSets(self.listeners.sets()));
        grown?;
        let change = self.cluster_change(&conf, secrets.as_ref());
        let bells = match (change, &secrets) {
            (Some(ClusterChange::Added), Some(secrets)) => {
                let bells = Bells::new()?;
                self.in_force.runtime().keep_words(secrets.secret.keys().words());
                Some(bells)
            }
            _ => None,
        };
        let mut overlay = self.in_force.overlay().clone();
        overlay.set_moving(prepared.moving.clone());
        options.lift_bans.map_or(Ok(()), |biz| overlay.lift_bans(biz, clock::now()))?;
        let generation = self.in_force.publish(conf, texts, &content, overlay)?;
        log_prepared(&prepared);
        log::set_level(level);
        self.children.say_all(ToChild::Generation);
        match (change, &mut self.cluster, secrets) {
            // The secret in force stays, because serving processes name keys by it.
            (Some(ClusterChange::Login), Some(own), Some(secrets)) => {
                own.secrets.password = secrets.password;
            }
            (None | Some(ClusterChange::Login), ..) => {}
            (Some(ClusterChange::Added | ClusterChange::Removed), own, secrets) => {
                *own = bells.zip(secrets).map(|(bells, secrets)| ClusterTies { bells, secrets });
            }
        }
        events.push_back(Event::Resize(workers));
        events.extend(change.map(Event::Cluster));
        Ok((generation, fresh))
    }

    /// How a new configuration changes the cluster. `None` if the processes take all changes by
    /// themselves.
    fn cluster_change(
        &self,
        conf: &Conf,
        secrets: Option<&ClusterSecrets>,
    ) -> Option<ClusterChange> {
        let login_of = |conf: &Conf| conf.srv.cluster.as_ref()?.login.clone();
        match (self.cluster.as_ref().map(|ties| &ties.secrets), secrets) {
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
