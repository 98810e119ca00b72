//! `<watch>`: reloads files of the configuration that have changed.
//!
//! Invariant: a reload of the watch begins only while no other request waits, and while the admin
//! plane changes nothing. So it never reads a change that the plane may still undo.

use std::io;
use std::path::PathBuf;
use std::time::Instant;

use super::Master;
use crate::account::Account;
use crate::master::conf_watch::Reading;
use crate::master::reload_queue::Report;
use crate::process::conf_guard::ConfGuard;
use crate::process::control::Loss;
use frs_base::clock;

impl Master {
    /// When the files are looked at next. Never without `<watch>`, and never while another master
    /// serves, too.
    pub(super) fn next_watch(&self) -> Option<Instant> {
        let every_ms = self.in_force.conf().srv.watch_ms;
        self.may_watch().then(|| self.watch.due(every_ms)).flatten()
    }

    fn may_watch(&self) -> bool {
        let serves = self.announced && self.lock.is_some() && self.older.is_none();
        serves && self.failure.is_none() && !self.children.is_ending() && !self.upgrades.is_begun()
    }

    /// Looks at the files if it is time, and begins a reload if they have changed.
    pub(super) fn follow_files(&mut self) {
        let now = clock::instant();
        let Some(every_ms) = self.in_force.conf().srv.watch_ms else { return };
        if self.next_watch().is_none_or(|next| next > now) {
            return;
        }
        self.watch.look_again_in(every_ms, now);
        let _guard = match self.look_at_conf() {
            Ok(Some((guard, words))) => {
                tracing::info!("{words}: reloading");
                guard
            }
            Ok(None) => return,
            Err(error) => {
                if self.watch.complaints.is_due(now) {
                    tracing::warn!(%error, "cannot look at the configuration's files");
                }
                return;
            }
        };
        let report = Report { is_reload: true, is_of_watch: true, ..Report::default() };
        self.begin_reload(report, Loss::Refused.into());
    }

    /// What has changed, in words, if it is to be reloaded now. While the guard lives, the admin
    /// plane changes no file.
    fn look_at_conf(&mut self) -> io::Result<Option<(ConfGuard, String)>> {
        let (watch, account) = (&mut self.watch, self.account.as_ref());
        let look = || io::Result::Ok(watch.is_changed(clock::now()));
        let is_changed = Account::as_root(account, look)?;
        let is_again_due = watch.is_again_due(clock::instant());
        if !is_changed && !is_again_due {
            return Ok(None);
        }
        // Otherwise the next look decides.
        if !self.reloads.is_idle() || self.moves.is_ending() {
            return Ok(None);
        }
        let Some(guard) = ConfGuard::to_change(self.in_force.data_dir())? else { return Ok(None) };
        if !watch.has_read() {
            return Ok(Some((guard, "<watch> is new".to_owned())));
        }
        if is_again_due {
            return Ok(Some((guard, "the refused configuration may pass now".to_owned())));
        }
        let compare = || io::Result::Ok(watch.changed_files(clock::now()));
        let changed = Account::as_root(account, compare)?;
        Ok((!changed.is_empty()).then(|| (guard, changed_words(&changed))))
    }

    /// Notes what a reload that begins now reads.
    pub(super) fn note_reading(&mut self) {
        let is_watching = self.in_force.conf().srv.watch_ms.is_some();
        let (conf_dir, settings) = (&self.conf_dir, self.in_force.settings());
        let reading = Account::as_root(self.account.as_ref(), || {
            io::Result::Ok(Reading::of(conf_dir, settings, is_watching, clock::now()))
        });
        self.watch.begin_reading(reading.unwrap_or_default());
    }
}

fn changed_words(changed: &[PathBuf]) -> String {
    let names: Vec<_> = changed.iter().map(|path| path.display().to_string()).collect();
    let verb = if names.len() == 1 { "has" } else { "have" };
    format!("{} {verb} changed", names.join(", "))
}
