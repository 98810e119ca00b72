//! Requests of commands, of the admin plane and by signal: receives them, begins them in turn, and
//! answers them.
//!
//! Invariant: requests wait while an older master owns the server, and while files are renamed.

use super::Master;
use crate::master::control_socket::Request;
use crate::master::error::ReloadError;
use crate::master::reload_queue::{Report, refusal};
use crate::process::control::{Ask, Cause, Reloaded};
use frs_base::clock;

impl Master {
    /// Receives requests. A question about the last refusal is answered at once.
    pub(super) fn receive_requests(&mut self) {
        let now = clock::instant();
        for request in self.control.receive(now) {
            match request {
                Request { by: Some(asker), ask: Ask::Refusal } => {
                    let faults = self.reloads.faults.clone();
                    let last = Reloaded::Refused { cause: Cause::Fault, faults };
                    self.control.answer(asker, &last, now);
                }
                request => self.reloads.note_request(request),
            }
        }
        self.reloads.forget_gone(|asker| self.control.has(asker));
    }

    /// Begins requests in turn. A master with a damaged runtime.mmap, which it does not touch,
    /// refuses them.
    pub(super) fn begin_requests(&mut self) {
        while (self.failure.is_some() || self.older.is_none() && !self.moves.is_ending())
            && let Some((ask, report)) = self.reloads.take_next()
        {
            if self.failure.is_some() {
                self.refuse(&report, &ReloadError::Ending, "a request is refused");
                continue;
            }
            let (mut overlay, mut reset) = (self.in_force.overlay().clone(), Ok(()));
            match ask {
                Ask::Reload(options) => {
                    self.begin_reload(report, options);
                    continue;
                }
                Ask::Degrade(on) => overlay.degrade = on,
                Ask::Reset { biz, cleared } => reset = overlay.reset(biz, cleared),
                // It was answered on arrival.
                Ask::Refusal => continue,
            }
            match reset.map_err(Into::into).and_then(|()| self.publish_overlay(overlay)) {
                Ok(generation) => self.reloads.wait_for(report, generation, Vec::new()),
                Err(error) => self.refuse(&report, &error, "a switch or a reset is refused"),
            }
        }
    }

    /// Logs the faults and then the refusal, and answers.
    pub(super) fn refuse(&mut self, report: &Report, error: &ReloadError, words: &str) {
        let answer = refusal(error);
        let Reloaded::Refused { faults, .. } = &answer else { return };
        faults.iter().for_each(|fault| tracing::error!("{fault}"));
        tracing::error!(faults = faults.len(), "{words}");
        self.answer(report, &answer);
    }

    /// Answers those who wait, and systemd after a reload.
    pub(super) fn answer(&mut self, report: &Report, result: &Reloaded) {
        if self.announced && report.is_reload {
            self.notifier.ready(&self.reloaded_words(result));
        }
        let now = clock::instant();
        report.askers.iter().for_each(|&asker| self.control.answer(asker, result, now));
    }

    fn reloaded_words(&self, result: &Reloaded) -> String {
        let words = self.status_words();
        match result {
            Reloaded::Taken { .. } => words,
            Reloaded::Refused { faults, .. } => {
                format!(
                    "{words}; the last reload was refused, {} faults: see the log",
                    faults.len()
                )
            }
        }
    }
}
