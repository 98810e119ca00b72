//! Reload: check both files, publish a new generation, wait for all to acknowledge it.
//!
//! Invariant: a faulty configuration never replaces a good one; everything that can refuse a new
//! one is asked before it is published.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use super::error::ReloadError;
use super::needs_restart;
use super::prepare::{Preparation, log_prepared};
use super::run::Master;
use super::supervise::Event;
use crate::process::account::Account;
use crate::process::log;
use crate::process::message::{Ask, ToChild};
use crate::process::outcome::{Outcome, Reloaded};
use frs::base::clock;
use frs::base::sys::process::{Exit, Pid};
use frs::conf::active::{self, ActiveError};
use frs::conf::{Conf, Overlay, Texts};
use frs::store::{self, Unserved};

/// Acknowledgements are waited for this long; who is late is named.
const ACKNOWLEDGE: Duration = Duration::from_secs(2);
/// How often acknowledgements are looked at.
const LOOK_AGAIN_MS: u64 = 2;

/// A reload on its way to be published: a child makes new groups and checks the others.
pub struct Reload {
    report: Report,
    preparation: Preparation,
    checked: Box<(Conf, Texts)>,
    /// Asked for once more, while it could not be begun.
    again: bool,
}

/// A published generation: processes take it one after the other.
pub(super) struct Acknowledging {
    report: Report,
    generation: u64,
    published_ns: u64,
}

/// Whom to tell what became of it.
#[derive(Clone, Copy)]
struct Report {
    /// Who waits for a reload begun no earlier than this.
    begun_ns: Option<u64>,
    /// The keeper, who asked under this number.
    asked: Option<u64>,
}

impl Reload {
    /// What to wait on.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd;
        self.preparation.as_fd()
    }

    /// Notes that a child was reaped.
    pub(super) fn note_end(&mut self, pid: Pid, exit: Exit) {
        self.preparation.note_end(pid, exit);
    }
}

impl Acknowledging {
    /// How long to wait.
    pub(super) fn wait_ms(all: &[Acknowledging]) -> Option<u64> {
        (!all.is_empty()).then_some(LOOK_AGAIN_MS)
    }
}

impl Master {
    /// Begins to take the configuration that the files hold now.
    pub(super) fn begin_reload(&mut self, asked: Option<u64>) {
        if self.supervisor.is_ending() {
            tracing::warn!("not reloaded: this master is about to stop");
            return self.answer(Report { begun_ns: None, asked }, refusal(&ReloadError::Ending));
        }
        if let Some(Reload { again, .. }) = &mut self.reload {
            *again = true;
            return;
        }
        if self.predecessor.is_some() {
            // What the older master has said of reloads is still to be forgotten, too.
            self.reload_wanted = true;
            return;
        }
        self.answer_early();
        let begun_ns = clock::monotonic_ns();
        let report = Report { begun_ns: Some(begun_ns), asked };
        // Before it serves there is nothing to reload for systemd, and it is not ready yet.
        if self.announced {
            self.notifier.reloading(begun_ns);
        }
        if self.upgrade.is_some() {
            return self.refuse(report, &ReloadError::TakingOver);
        }
        match self.check() {
            Ok((preparation, checked)) => {
                let checked = Box::new(checked);
                self.reload = Some(Reload { report, preparation, checked, again: false });
            }
            Err(error) => self.refuse(report, &error),
        }
    }

    /// Begins one that was asked for too early.
    pub(super) fn begin_wanted_reload(&mut self) {
        if self.predecessor.is_none() && std::mem::take(&mut self.reload_wanted) {
            self.begin_reload(None);
        }
    }

    /// Begins what the keeper has asked for, one after the other, but while a reload is prepared:
    /// that would be published over it; and not before the older master has let go.
    pub(super) fn begin_asked(&mut self) {
        while self.reload.is_none() && self.predecessor.is_none() {
            let Some((number, ask)) = self.asks.pop_front() else { return };
            match ask {
                Ask::Reload => self.begin_reload(Some(number)),
                Ask::Degrade(on) => {
                    let mut overlay = self.overlay.clone();
                    overlay.degrade = on;
                    self.begin_overlay(overlay, number);
                }
                Ask::Reset(biz) => {
                    let mut overlay = self.overlay.clone();
                    overlay.reset(biz);
                    self.begin_overlay(overlay, number);
                }
            }
        }
    }

    /// Puts what was switched or reset in force, over the configuration that is: its files were
    /// checked and its groups prepared, so that nothing has to be looked at again.
    fn begin_overlay(&mut self, overlay: Overlay, asked: u64) {
        let report = Report { begun_ns: None, asked: Some(asked) };
        match self.publish_overlay(overlay) {
            Ok(generation) => self.wait_for(report, generation),
            Err(error) => self.refuse(report, &error),
        }
    }

    fn wait_for(&mut self, report: Report, generation: u64) {
        let published_ns = clock::monotonic_ns();
        self.acknowledging.push(Acknowledging { report, generation, published_ns });
    }

    fn publish_overlay(&mut self, overlay: Overlay) -> Result<u64, ReloadError> {
        if self.supervisor.is_ending() {
            return Err(ReloadError::Ending);
        }
        if self.is_giving_away() {
            return Err(ReloadError::TakingOver);
        }
        let data_dir = self.conf.srv.data.dir.clone();
        let generation = self.generation;
        // On disk first: a restart must not forget a reset that somebody has seen.
        overlay.write(&data_dir)?;
        if let Err(error) = active::write_overlaid(&data_dir, generation + 1, &self.texts, &overlay)
        {
            // What was refused is not to come with the next generation.
            self.overlay.write(&data_dir)?;
            return Err(error.into());
        }
        self.overlay = overlay;
        self.tell_generation(generation + 1);
        Ok(generation + 1)
    }

    /// Puts what this master had in force before a newer one published in force again.
    pub(super) fn publish_again(&mut self) -> Result<u64, ActiveError> {
        let data_dir = &self.conf.srv.data.dir;
        let next = self.runtime.generation().saturating_add(1);
        active::write_overlaid(data_dir, next, &self.texts, &self.overlay)?;
        self.tell_generation(next);
        Ok(next)
    }

    fn tell_generation(&mut self, generation: u64) {
        self.generation = generation;
        self.runtime.publish(generation);
        let children: Vec<Pid> = self.lines.keys().copied().collect();
        children.into_iter().for_each(|pid| self.say(pid, ToChild::Generation));
    }

    /// Who waits for an earlier reload is not to take the answer to the next one for its own.
    fn answer_early(&mut self) {
        for at in 0..self.acknowledging.len() {
            let Acknowledging { report, generation, .. } = &mut self.acknowledging[at];
            let (begun_ns, generation) = (report.begun_ns.take(), *generation);
            if begun_ns.is_some() {
                let laggards = self.laggards(generation);
                let report = Report { begun_ns, asked: None };
                self.answer(report, Reloaded::Taken { generation, laggards });
            }
        }
    }

    /// Takes what is on its way a step further, if it can be.
    pub(super) fn follow_reload(&mut self, events: &mut VecDeque<Event>) -> io::Result<()> {
        if let Some(Reload { report, preparation, checked, again }) = self.reload.take() {
            if !preparation.is_done()? {
                self.reload = Some(Reload { report, preparation, checked, again });
            } else {
                match self.publish(preparation, *checked, events) {
                    Ok(generation) => self.wait_for(report, generation),
                    Err(error) => self.refuse(report, &error),
                }
                if again {
                    self.begin_reload(None);
                }
            }
        }
        for acknowledging in std::mem::take(&mut self.acknowledging) {
            self.follow_acknowledging(acknowledging);
        }
        Ok(())
    }

    /// Is a new configuration on its way that is not published yet.
    pub(super) fn is_preparing_reload(&self) -> bool {
        self.reload.is_some()
    }

    fn follow_acknowledging(&mut self, acknowledging: Acknowledging) {
        let Acknowledging { report, generation, published_ns } = acknowledging;
        let laggards = self.laggards(generation);
        let waited_ns = clock::monotonic_ns().saturating_sub(published_ns);
        if !laggards.is_empty() && u128::from(waited_ns) < ACKNOWLEDGE.as_nanos() {
            self.acknowledging.push(acknowledging);
            return;
        }
        let waited_ms = waited_ns / 1_000_000;
        tracing::info!(generation, waited_ms, "the new configuration is in force");
        for laggard in &laggards {
            tracing::warn!(generation, "not acknowledged by {laggard}");
        }
        self.answer(report, Reloaded::Taken { generation, laggards });
    }

    /// Breaks off what is not published yet: the server ends.
    pub(super) fn break_reload_off(&mut self) -> io::Result<()> {
        self.reload.take().map_or(Ok(()), |reload| reload.preparation.kill())
    }

    fn check(&mut self) -> Result<(Preparation, (Conf, Texts)), ReloadError> {
        let conf_dir = self.conf_dir.clone();
        let (conf, texts) = self.as_root(|_| Ok(Conf::load_texts(&conf_dir)?))?;
        let refused = needs_restart::refused(&self.conf, &conf);
        if !refused.is_empty() {
            return Err(ReloadError::Changes(refused));
        }
        let account = self.account.as_ref();
        Ok((Preparation::start((&conf, store::prepare), account)?, (conf, texts)))
    }

    fn publish(
        &mut self,
        preparation: Preparation,
        (conf, texts): (Conf, Texts),
        events: &mut VecDeque<Event>,
    ) -> Result<u64, ReloadError> {
        let prepared = preparation.answer()?;
        // One that is in force already is not served whatever comes of this.
        let is_old = |name: &str| self.conf.map.groups.iter().any(|group| group.name == name);
        let unserved = prepared.unserved.iter().filter(|unserved| !is_old(&unserved.group));
        let unserved: Vec<Unserved> = unserved.cloned().collect();
        if !unserved.is_empty() {
            return Err(ReloadError::Unserved(unserved));
        }
        let grown = self.as_root(|master| Ok(master.listeners.grow(conf.srv.workers)?));
        // What was opened is served, even if the rest is refused.
        events.push_back(Event::Lanes(self.listeners.lanes()));
        grown?;
        let generation = self.generation + 1;
        active::write_overlaid(&conf.srv.data.dir, generation, &texts, &self.overlay)?;
        self.runtime.count_reload(false, clock::now());
        log_prepared(&prepared);
        log::set_level(conf.srv.log.level);
        self.conf = Arc::new(conf);
        self.texts = texts;
        self.tell_generation(generation);
        events.push_back(Event::Resize(self.conf.srv.workers));
        Ok(generation)
    }

    fn refuse(&mut self, report: Report, error: &ReloadError) {
        self.runtime.count_reload(true, clock::now());
        let result = refusal(error);
        let Reloaded::Refused { faults } = &result else { return };
        faults.iter().for_each(|fault| tracing::error!("{fault}"));
        tracing::error!(
            faults = faults.len(),
            "the new configuration is refused; the old one stays in force"
        );
        self.answer(report, result);
    }

    /// Files may be for root's eyes only, and ports for root's use.
    fn as_root<T>(
        &mut self,
        act: impl FnOnce(&mut Master) -> Result<T, ReloadError>,
    ) -> Result<T, ReloadError> {
        self.account.as_ref().map_or(Ok(()), Account::raise)?;
        let result = act(self);
        self.account.as_ref().map_or(Ok(()), Account::lower)?;
        result
    }

    /// Who is attached and has not acknowledged a generation. Who is not attached yet will begin
    /// with it; who leaves does not matter.
    fn laggards(&self, generation: u64) -> Vec<String> {
        let slots = self.runtime.slots();
        let behind = |pid: Pid| {
            let mut own = slots.iter().filter(|slot| slot.pid == pid.as_raw() as u32);
            own.any(|slot| slot.generation < generation)
        };
        let staying = self.supervisor.processes().iter().filter(|process| !process.leaving);
        let behind = staying.filter(|process| behind(process.pid));
        behind.map(|process| format!("{} (process {})", process.place, process.pid)).collect()
    }

    fn reloaded_words(&self, result: &Reloaded) -> String {
        let words = self.status_words();
        match result {
            Reloaded::Taken { .. } => words,
            Reloaded::Refused { faults } => {
                format!(
                    "{words}; the last reload was refused, {} faults: see the log",
                    faults.len()
                )
            }
        }
    }

    fn answer(&self, report: Report, result: Reloaded) {
        if self.lock.is_none() {
            // Handed over: whoever asks reads what the newer master says.
            return;
        }
        if self.announced && report.begun_ns.is_some() {
            self.notifier.ready(&self.reloaded_words(&result));
        }
        let (master, data_dir) = (Pid::this().as_raw(), &self.conf.srv.data.dir);
        let outcome = |begun_ns| Outcome { master, begun_ns, result: result.clone() };
        let told = report.begun_ns.map_or(Ok(()), |at| outcome(at).write(data_dir));
        let asked = report.asked.map_or(Ok(()), |number| outcome(number).write_asked(data_dir));
        if let Err(error) = told.and(asked) {
            tracing::error!(%error, "cannot write down what became of the reload");
        }
    }
}

fn refusal(error: &ReloadError) -> Reloaded {
    Reloaded::Refused { faults: error.to_string().lines().map(str::to_owned).collect() }
}
