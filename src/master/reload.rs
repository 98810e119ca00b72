//! Reload: check both files, publish a new generation, wait for all to acknowledge it.
//!
//! Invariant: a faulty configuration never replaces a good one; everything that can refuse a new
//! one is asked before it is published.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::account::Account;
use super::changes::{self, Change};
use super::listeners::ListenError;
use super::log;
use super::message::Word;
use super::outcome::{Outcome, Reloaded};
use super::run::Master;
use super::start::with_sources;
use super::supervise::Event;
use crate::conf::active::{self, ActiveError};
use crate::conf::{Conf, Faults};
use crate::store;
use crate::sys::process::{self, Pid};

/// Acknowledgements are waited for this long; who is late is named.
const ACKNOWLEDGE: Duration = Duration::from_secs(2);

/// A generation that is published and not yet acknowledged by all.
#[derive(Debug, Clone, Copy)]
pub struct Pending {
    generation: u64,
    begun_ns: u64,
    published_ns: u64,
}

impl Pending {
    /// How often acknowledgements are looked at.
    pub const POLL_MS: u64 = 2;
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
    Store(#[from] store::Error),
    #[error("{}", with_sources(.0))]
    Active(#[from] ActiveError),
    #[error("cannot change between users: {0}")]
    User(#[from] io::Error),
}

fn lines(changes: &[Change]) -> String {
    changes.iter().map(Change::to_string).collect::<Vec<_>>().join("\n")
}

impl Master {
    /// Takes the configuration that the files hold now, unless it is faulty.
    pub(super) fn reload(&mut self) -> Option<Event> {
        if self.supervisor.is_ending() {
            tracing::warn!("not reloaded: the server is about to stop");
            return None;
        }
        let begun_ns = process::monotonic_ns();
        match self.try_reload() {
            Ok(generation) => {
                log::set_level(self.conf.srv.log.level);
                let published_ns = process::monotonic_ns();
                self.reload = Some(Pending { generation, begun_ns, published_ns });
                Some(Event::Resize(self.conf.srv.workers))
            }
            Err(error) => {
                let faults: Vec<String> = error.to_string().lines().map(str::to_owned).collect();
                faults.iter().for_each(|fault| tracing::error!("{fault}"));
                tracing::error!(
                    faults = faults.len(),
                    "the new configuration is refused; the old one stays in force"
                );
                self.answer(begun_ns, Reloaded::Refused { faults });
                None
            }
        }
    }

    fn try_reload(&mut self) -> Result<u64, ReloadError> {
        let conf_dir = self.conf_dir.clone();
        let (conf, texts) = self.as_root(|_| Ok(Conf::load_texts(&conf_dir)?))?;
        let refused = changes::refused(&self.conf, &conf);
        if !refused.is_empty() {
            return Err(ReloadError::Changes(refused));
        }
        self.as_root(|master| Ok(master.listeners.grow(conf.srv.workers)?))?;
        store::admit(&conf)?;
        let generation = self.runtime.generation() + 1;
        active::write(&conf.srv.data.dir, generation, &texts)?;
        self.runtime.publish(generation);
        self.conf = Arc::new(conf);
        let children: Vec<Pid> = self.lines.keys().copied().collect();
        children.into_iter().for_each(|pid| self.say(pid, Word::Generation));
        Ok(generation)
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

    /// Answers a reload when all have acknowledged it, or time is up.
    pub(super) fn follow_reload(&mut self) {
        let Some(pending) = self.reload else { return };
        let laggards = self.laggards(pending.generation);
        let waited_ns = process::monotonic_ns().saturating_sub(pending.published_ns);
        if !laggards.is_empty() && u128::from(waited_ns) < ACKNOWLEDGE.as_nanos() {
            return;
        }
        self.reload = None;
        let (generation, waited_ms) = (pending.generation, waited_ns / 1_000_000);
        tracing::info!(generation, waited_ms, "the new configuration is in force");
        for laggard in &laggards {
            tracing::warn!(generation, "not acknowledged by {laggard}");
        }
        self.answer(pending.begun_ns, Reloaded::Taken { generation, laggards });
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

    fn answer(&self, begun_ns: u64, result: Reloaded) {
        let outcome = Outcome { master: Pid::this().as_raw(), begun_ns, result };
        if let Err(error) = outcome.write(&self.conf.srv.data.dir) {
            tracing::error!(%error, "cannot write down what became of the reload");
        }
    }
}
