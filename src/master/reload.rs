//! Reload: check both files, publish a new generation, wait for all to acknowledge it.
//!
//! Invariant: a faulty configuration never replaces a good one; everything that can refuse a new
//! one is asked before it is published.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use super::account::Account;
use super::changes::{self, Change};
use super::listeners::ListenError;
use super::log;
use super::message::Word;
use super::outcome::{Outcome, Reloaded};
use super::prepare::{Preparation, PrepareError};
use super::run::Master;
use super::start::{become_for_good, tell_prepared, with_sources};
use super::supervise::Event;
use crate::conf::active::{self, ActiveError};
use crate::conf::{Conf, Faults, Texts};
use crate::sys::process::{self, Exit, Pid};

/// Acknowledgements are waited for this long; who is late is named.
const ACKNOWLEDGE: Duration = Duration::from_secs(2);
/// How often acknowledgements are looked at.
const LOOK_AGAIN_MS: u64 = 2;

/// A reload on its way.
pub struct Reload {
    begun_ns: u64,
    stage: Stage,
    /// Asked for once more, while it could not be begun.
    again: bool,
}

enum Stage {
    /// A child makes new groups and checks the others.
    Preparing(Preparation, Box<(Conf, Texts)>),
    /// It is published; processes take it one after the other.
    Acknowledging { generation: u64, published_ns: u64 },
}

impl Reload {
    /// What to wait on.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        use std::os::fd::AsFd;
        match &self.stage {
            Stage::Preparing(preparation, _) => Some(preparation.as_fd()),
            Stage::Acknowledging { .. } => None,
        }
    }

    /// How long to wait.
    pub(super) fn wait_ms(&self) -> Option<u64> {
        matches!(self.stage, Stage::Acknowledging { .. }).then_some(LOOK_AGAIN_MS)
    }

    /// Notes that a child was reaped.
    pub(super) fn note_end(&mut self, pid: Pid, exit: Exit) {
        if let Stage::Preparing(preparation, _) = &mut self.stage {
            preparation.note_end(pid, exit);
        }
    }
}

/// Why a new configuration is refused.
#[derive(Debug, thiserror::Error)]
enum ReloadError {
    #[error("{0}")]
    Faults(#[from] Faults),
    #[error("{}", lines(.0))]
    Changes(Vec<Change>),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    #[error("{}", with_sources(.0))]
    Active(#[from] ActiveError),
    #[error("a new binary is taking over: reload when it has")]
    TakingOver,
    #[error("the reload failed: {0}")]
    Io(#[from] io::Error),
}

fn lines(changes: &[Change]) -> String {
    changes.iter().map(Change::to_string).collect::<Vec<_>>().join("\n")
}

impl Master {
    /// Begins to take the configuration that the files hold now.
    pub(super) fn begin_reload(&mut self) {
        if self.supervisor.is_ending() {
            tracing::warn!("not reloaded: this master is about to stop");
            return;
        }
        if let Some(Reload { stage: Stage::Preparing(..), again, .. }) = &mut self.reload {
            *again = true;
            return;
        }
        if let Some(Reload { stage: Stage::Acknowledging { generation, .. }, begun_ns, .. }) =
            self.reload
        {
            // Who asked for that one is not to take the answer to the next one for it.
            let laggards = self.laggards(generation);
            self.answer(begun_ns, Reloaded::Taken { generation, laggards });
            self.reload = None;
        }
        let begun_ns = process::monotonic_ns();
        // Before it serves there is nothing to reload for systemd, and it is not ready yet.
        if self.announced {
            self.notifier.reloading(begun_ns);
        }
        if self.upgrade.is_some() || self.predecessor.is_some() {
            return self.refuse(begun_ns, &ReloadError::TakingOver);
        }
        match self.check() {
            Ok((preparation, checked)) => {
                let stage = Stage::Preparing(preparation, Box::new(checked));
                self.reload = Some(Reload { begun_ns, stage, again: false });
            }
            Err(error) => self.refuse(begun_ns, &error),
        }
    }

    /// Takes the reload on its way a step further, if it can be.
    pub(super) fn follow_reload(&mut self, events: &mut VecDeque<Event>) -> io::Result<()> {
        let Some(Reload { begun_ns, stage, again }) = self.reload.take() else { return Ok(()) };
        match stage {
            Stage::Preparing(preparation, checked) => {
                if !preparation.is_done()? {
                    let stage = Stage::Preparing(preparation, checked);
                    self.reload = Some(Reload { begun_ns, stage, again });
                    return Ok(());
                }
                match self.publish(preparation, *checked, events) {
                    Ok(generation) => {
                        let published_ns = process::monotonic_ns();
                        let stage = Stage::Acknowledging { generation, published_ns };
                        self.reload = Some(Reload { begun_ns, stage, again: false });
                    }
                    Err(error) => self.refuse(begun_ns, &error),
                }
                if again {
                    self.begin_reload();
                }
            }
            Stage::Acknowledging { generation, published_ns } => {
                let laggards = self.laggards(generation);
                let waited_ns = process::monotonic_ns().saturating_sub(published_ns);
                if !laggards.is_empty() && u128::from(waited_ns) < ACKNOWLEDGE.as_nanos() {
                    self.reload = Some(Reload { begun_ns, stage, again });
                    return Ok(());
                }
                let waited_ms = waited_ns / 1_000_000;
                tracing::info!(generation, waited_ms, "the new configuration is in force");
                for laggard in &laggards {
                    tracing::warn!(generation, "not acknowledged by {laggard}");
                }
                self.answer(begun_ns, Reloaded::Taken { generation, laggards });
            }
        }
        Ok(())
    }

    /// Is a new configuration on its way that is not published yet.
    pub(super) fn is_preparing_reload(&self) -> bool {
        matches!(self.reload, Some(Reload { stage: Stage::Preparing(..), .. }))
    }

    /// Breaks off what is not published yet: the server ends.
    pub(super) fn break_reload_off(&mut self) -> io::Result<()> {
        match self.reload.take() {
            Some(Reload { stage: Stage::Preparing(preparation, _), .. }) => preparation.kill(),
            _ => Ok(()),
        }
    }

    fn check(&mut self) -> Result<(Preparation, (Conf, Texts)), ReloadError> {
        let conf_dir = self.conf_dir.clone();
        let (conf, texts) = self.as_root(|_| Ok(Conf::load_texts(&conf_dir)?))?;
        let refused = changes::refused(&self.conf, &conf);
        if !refused.is_empty() {
            return Err(ReloadError::Changes(refused));
        }
        let account = self.account.as_ref();
        Ok((Preparation::start(&conf, || become_for_good(account))?, (conf, texts)))
    }

    fn publish(
        &mut self,
        preparation: Preparation,
        (conf, texts): (Conf, Texts),
        events: &mut VecDeque<Event>,
    ) -> Result<u64, ReloadError> {
        let prepared = preparation.answer()?;
        let grown = self.as_root(|master| Ok(master.listeners.grow(conf.srv.workers)?));
        // What was opened is served, even if the rest is refused.
        events.push_back(Event::Lanes(self.listeners.lanes()));
        grown?;
        let generation = self.runtime.generation() + 1;
        active::write(&conf.srv.data.dir, generation, &texts)?;
        self.runtime.publish(generation);
        tell_prepared(&prepared);
        log::set_level(conf.srv.log.level);
        self.conf = Arc::new(conf);
        let children: Vec<Pid> = self.lines.keys().copied().collect();
        children.into_iter().for_each(|pid| self.say(pid, Word::Generation));
        events.push_back(Event::Resize(self.conf.srv.workers));
        Ok(generation)
    }

    fn refuse(&mut self, begun_ns: u64, error: &ReloadError) {
        let faults: Vec<String> = error.to_string().lines().map(str::to_owned).collect();
        faults.iter().for_each(|fault| tracing::error!("{fault}"));
        tracing::error!(
            faults = faults.len(),
            "the new configuration is refused; the old one stays in force"
        );
        self.answer(begun_ns, Reloaded::Refused { faults });
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

    fn answer(&self, begun_ns: u64, result: Reloaded) {
        if self.announced {
            self.notifier.ready(&self.reloaded_words(&result));
        }
        let outcome = Outcome { master: Pid::this().as_raw(), begun_ns, result };
        if let Err(error) = outcome.write(&self.conf.srv.data.dir) {
            tracing::error!(%error, "cannot write down what became of the reload");
        }
    }
}
