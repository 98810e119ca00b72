//! Reloads: what is asked for, what is being prepared, and who has yet to acknowledge what was
//! published.
//!
//! Invariant: one configuration is prepared at a time, and what is asked for meanwhile begins after
//! it; every report is answered once.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Duration;

use super::error::ReloadError;
use super::needs_restart;
use super::preparing_child::Preparation;
use crate::process::account::Account;
use crate::process::message::NumberedAsk;
use crate::process::result_files::{ReloadOutcome, Reloaded};
use frs::base::clock;
use frs::base::sys::process::{Exit, Pid};
use frs::conf::{Conf, Group, LoadedConf};
use frs::store::{self, Prepared, Unserved};

/// Acknowledgements are waited for this long; who is late is named.
const ACKNOWLEDGE: Duration = Duration::from_secs(2);
/// How often acknowledgements are looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Whom to tell what became of a reload, or of what the admin plane asked for.
#[derive(Clone, Copy)]
pub(super) struct ReportTo {
    /// Who waits for a reload begun no earlier than this.
    pub begun_ns: Option<u64>,
    /// The keeper, who asked under this number.
    pub asked: Option<u64>,
}

/// What is to be told.
pub(super) struct ReloadAnswer {
    pub report: ReportTo,
    pub result: Reloaded,
}

impl ReloadAnswer {
    /// Of what is refused.
    pub fn refusal(report: ReportTo, error: &ReloadError) -> ReloadAnswer {
        let faults = error.to_string().lines().map(str::to_owned).collect();
        ReloadAnswer { report, result: Reloaded::Refused { faults } }
    }

    /// Writes it down for whoever waits for it.
    pub fn write_down(&self, data_dir: &Path) -> io::Result<()> {
        let master = Pid::this().as_raw();
        let outcome = |begun_ns| ReloadOutcome { master, begun_ns, result: self.result.clone() };
        let ReportTo { begun_ns, asked } = self.report;
        let told = begun_ns.map_or(Ok(()), |at| outcome(at).write(data_dir));
        let asked = asked.map_or(Ok(()), |number| outcome(number).write_asked(data_dir));
        told.and(asked)
    }
}

/// A configuration and what was prepared for it.
pub(super) struct PreparedConf {
    pub prepared: Prepared,
    pub loaded: LoadedConf,
}

/// A reload that is not published yet: a child makes new groups and checks the others.
pub(super) struct ReloadCandidate {
    pub report: ReportTo,
    preparation: Preparation,
    checked: Box<LoadedConf>,
    /// Asked for once more, while it could not be begun.
    pub again: bool,
}

impl ReloadCandidate {
    /// What was prepared. One of `groups`, which are in
    /// force already, is not served whatever comes of this; a new one that cannot be is refused.
    pub fn answer(self, groups: &[Group]) -> Result<PreparedConf, ReloadError> {
        let prepared = self.preparation.answer()?;
        let is_old = |name: &str| groups.iter().any(|group| group.name == name);
        let unserved = prepared.unserved.iter().filter(|unserved| !is_old(&unserved.group));
        let unserved: Vec<Unserved> = unserved.cloned().collect();
        if unserved.is_empty() {
            Ok(PreparedConf { prepared, loaded: *self.checked })
        } else {
            Err(ReloadError::Unserved(unserved))
        }
    }
}

/// A published generation: processes take it one after the other.
struct Acknowledging {
    report: ReportTo,
    generation: u64,
    published_ns: u64,
}

/// All reloads that are wanted or on their way.
#[derive(Default)]
pub(super) struct Reloads {
    candidate: Option<ReloadCandidate>,
    /// Asked for, while it could not be begun.
    wanted: bool,
    acknowledging: Vec<Acknowledging>,
    /// What the keeper has asked for and is not begun.
    asks: VecDeque<NumberedAsk>,
}

impl Reloads {
    /// None; `wanted`: one was asked for before the master could begin it.
    pub fn new(wanted: bool) -> Reloads {
        Reloads { wanted, ..Reloads::default() }
    }

    /// Is a new configuration on its way that is not published yet.
    pub fn is_preparing(&self) -> bool {
        self.candidate.is_some()
    }

    /// What to wait on.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.candidate.as_ref().map(|candidate| candidate.preparation.as_fd())
    }

    /// How long to wait.
    pub fn due(&self) -> Option<Duration> {
        (!self.acknowledging.is_empty()).then_some(LOOK_AGAIN)
    }

    /// Notes that a child was reaped.
    pub fn note_end(&mut self, pid: Pid, exit: Exit) {
        if let Some(candidate) = &mut self.candidate {
            candidate.preparation.note_end(pid, exit);
        }
    }

    /// Begins one after that which is on its way; false if none is.
    pub fn begin_after(&mut self) -> bool {
        self.candidate.as_mut().map(|candidate| candidate.again = true).is_some()
    }

    /// Keeps one for later: it cannot be begun yet.
    pub fn want(&mut self) {
        self.wanted = true;
    }

    /// Was one kept for later.
    pub fn take_wanted(&mut self) -> bool {
        std::mem::take(&mut self.wanted)
    }

    /// Keeps what the keeper has asked for.
    pub fn note_asks(&mut self, asks: Vec<NumberedAsk>) {
        self.asks.extend(asks);
    }

    /// What is to be begun next of what the keeper has asked for: nothing while a reload is
    /// prepared, which would be published over it.
    pub fn next_ask(&mut self) -> Option<NumberedAsk> {
        if self.is_preparing() { None } else { self.asks.pop_front() }
    }

    /// Reads the files, and begins to prepare what they say if it may follow what is in force.
    pub fn prepare(
        &mut self,
        report: ReportTo,
        conf_dir: &Path,
        in_force: &Conf,
        account: Option<&Account>,
    ) -> Result<(), ReloadError> {
        let checked =
            Account::as_root(account, || Ok::<_, ReloadError>(Conf::load_texts(conf_dir)?))?;
        let refused = needs_restart::refused(in_force, &checked.conf);
        if !refused.is_empty() {
            return Err(ReloadError::Changes(refused));
        }
        let preparation = Preparation::start(&checked.conf, store::prepare, account)?;
        let checked = Box::new(checked);
        self.candidate = Some(ReloadCandidate { report, preparation, checked, again: false });
        Ok(())
    }

    /// The reload that is prepared by now, or has failed to be.
    pub fn take_prepared(&mut self) -> io::Result<Option<ReloadCandidate>> {
        let Some(candidate) = self.candidate.take() else { return Ok(None) };
        if candidate.preparation.is_done()? {
            return Ok(Some(candidate));
        }
        self.candidate = Some(candidate);
        Ok(None)
    }

    /// Breaks off what is not published yet: the server ends.
    pub fn break_off(&mut self) -> io::Result<()> {
        self.candidate.take().map_or(Ok(()), |candidate| candidate.preparation.kill())
    }

    /// Forgets everything: whoever waits is answered by another master.
    pub fn forget(&mut self) {
        self.candidate = None;
        self.forget_acknowledging();
        self.asks.clear();
    }

    /// Forgets who has yet to acknowledge what.
    pub fn forget_acknowledging(&mut self) {
        self.acknowledging.clear();
    }

    /// A generation was published: its report is answered when all have taken it.
    pub fn wait_for(&mut self, report: ReportTo, generation: u64) {
        let published_ns = clock::monotonic_ns();
        self.acknowledging.push(Acknowledging { report, generation, published_ns });
    }

    /// Answers early who waits for an earlier reload: it is not to take the answer to the next one
    /// for its own.
    pub fn answer_early(&mut self, laggards: impl Fn(u64) -> Vec<String>) -> Vec<ReloadAnswer> {
        let mut answers = Vec::new();
        for Acknowledging { report, generation, .. } in &mut self.acknowledging {
            let (begun_ns, generation) = (report.begun_ns.take(), *generation);
            if begun_ns.is_some() {
                let result = Reloaded::Taken { generation, laggards: laggards(generation) };
                answers.push(ReloadAnswer { report: ReportTo { begun_ns, asked: None }, result });
            }
        }
        answers
    }

    /// Answers what all have taken, or have had the time to.
    pub fn answer_acknowledged(
        &mut self,
        laggards: impl Fn(u64) -> Vec<String>,
    ) -> Vec<ReloadAnswer> {
        let mut answers = Vec::new();
        self.acknowledging.retain(|Acknowledging { report, generation, published_ns }| {
            let (generation, laggards) = (*generation, laggards(*generation));
            let waited_ns = clock::monotonic_ns().saturating_sub(*published_ns);
            if !laggards.is_empty() && u128::from(waited_ns) < ACKNOWLEDGE.as_nanos() {
                return true;
            }
            let waited_ms = waited_ns / 1_000_000;
            tracing::info!(generation, waited_ms, "the new configuration is in force");
            for laggard in &laggards {
                tracing::warn!(generation, "{laggard} has not acknowledged the new configuration");
            }
            let result = Reloaded::Taken { generation, laggards };
            answers.push(ReloadAnswer { report: *report, result });
            false
        });
        answers
    }
}
