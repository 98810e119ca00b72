//! Reloads: requests, preparation, and the processes that have yet to acknowledge a published
//! generation.
//!
//! Invariant: one configuration is prepared at a time, and a request that arrives meanwhile begins
//! after it. Each report is answered once.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Duration;

use super::children::ChildRequests;
use super::conf_trust;
use super::error::ReloadError;
use super::in_force::InForce;
use super::preparing_child::{How, Preparation, Work};
use super::refused_changes;
use crate::account::Account;
use crate::process::message::{NumberedAsk, ReloadOptions};
use crate::process::result_files::{ReloadOutcome, Reloaded};
use frs_base::clock;
use frs_base::sys::process::{Exit, Pid};
use frs_conf::{Cluster, ClusterSecrets, Conf, EpochRaise, Group, LoadedConf, RespTokens};
use frs_store::{self as store, FilesBefore, Prepared, Runtime, Unserved};

/// Time limit for acknowledgements. Processes that exceed it are named.
const ACKNOWLEDGE: Duration = Duration::from_secs(2);
/// Interval between looks at the acknowledgements.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// The recipients of the result of a reload or of an admin request.
#[derive(Clone, Copy)]
pub(super) struct ReportTo {
    /// The commands that wait for a reload begun no earlier than this.
    pub begun_ns: Option<u64>,
    /// The keeper, which sent the request under this number.
    pub asked: Option<u64>,
}

/// A reload that the keeper has requested.
#[derive(Clone, Copy)]
pub(super) struct AskedReload {
    /// The number of the request.
    pub number: u64,
    /// What it may lose, and what it does in addition.
    pub options: ReloadOptions,
}

/// The result to report.
pub(super) struct ReloadAnswer {
    pub report: ReportTo,
    pub result: Reloaded,
}

impl ReloadAnswer {
    /// The answer to a refused request.
    pub fn refusal(report: ReportTo, error: &ReloadError) -> ReloadAnswer {
        let faults = error.to_string().lines().map(str::to_owned).collect();
        ReloadAnswer { report, result: Reloaded::Refused { cause: error.cause(), faults } }
    }

    /// Writes the result down for the processes that wait for it.
    pub fn write_down(&self, data_dir: &Path) -> io::Result<()> {
        let master = Pid::this().as_raw();
        let outcome = |begun_ns| ReloadOutcome { master, begun_ns, result: self.result.clone() };
        let ReportTo { begun_ns, asked } = self.report;
        let told = begun_ns.map_or(Ok(()), |at| outcome(at).write(data_dir));
        let asked = asked.map_or(Ok(()), |number| outcome(number).write_asked(data_dir));
        told.and(asked)
    }
}

/// A configuration and its preparation.
pub(super) struct PreparedConf {
    pub prepared: Prepared,
    pub loaded: LoadedConf,
    /// The contents of its cluster's secret files.
    pub secrets: Option<ClusterSecrets>,
    /// The contents of the token files of its `<resp>`.
    pub tokens: RespTokens,
    /// The biz whose bans end with it.
    pub lift_bans: Option<u32>,
}

/// A reload that is not published yet. A child makes new groups and checks the others.
pub(super) struct ReloadCandidate {
    pub report: ReportTo,
    preparation: Preparation,
    checked: Box<LoadedConf>,
    secrets: Option<ClusterSecrets>,
    tokens: RespTokens,
    lift_bans: Option<u32>,
    /// map.xml is put back if it is refused.
    pub is_edit: bool,
    /// The files before it.
    pub files: FilesBefore,
    /// Another reload was requested while this one was prepared.
    pub again: bool,
}

impl ReloadCandidate {
    /// Which records begin anew, a line each.
    pub fn take_fresh(&mut self) -> Vec<String> {
        self.preparation.take_fresh()
    }

    /// The result of the preparation. A group of `groups`, which are in force already, may fail: it
    /// stays unserved. A new group that fails refuses the reload.
    pub fn answer(self, groups: &[Group]) -> Result<PreparedConf, ReloadError> {
        let prepared = self.preparation.answer()?;
        let is_old = |name: &str| groups.iter().any(|group| group.name == name);
        let unserved = prepared.unserved.iter().filter(|unserved| !is_old(&unserved.group));
        let unserved: Vec<Unserved> = unserved.cloned().collect();
        if unserved.is_empty() {
            let ReloadCandidate { checked, secrets, tokens, lift_bans, .. } = self;
            Ok(PreparedConf { prepared, loaded: *checked, secrets, tokens, lift_bans })
        } else {
            Err(ReloadError::Unserved(unserved))
        }
    }
}

/// Removes the files that were made for a refused configuration.
pub(super) fn take_back(files: &FilesBefore, runtime: &Runtime) {
    if let Err(error) = files.take_back(runtime) {
        tracing::error!(%error, "files of the refused configuration are left: remove them");
    }
}

/// A published generation that processes take in turn.
struct Acknowledging {
    report: ReportTo,
    generation: u64,
    published_ns: u64,
    /// Which records begin anew, a line each.
    fresh: Vec<String>,
}

/// All reloads that are wanted or in progress.
#[derive(Default)]
pub(super) struct Reloads {
    candidate: Option<ReloadCandidate>,
    /// A reload was requested when it could not begin.
    wanted: bool,
    acknowledging: Vec<Acknowledging>,
    /// Requests of the keeper that have not begun.
    asks: VecDeque<NumberedAsk>,
    /// Resets of other machines that are not followed yet, by their biz. The latest one counts.
    raises: BTreeMap<u32, EpochRaise>,
}

impl Reloads {
    /// No reload; `wanted` if one was requested before the master could begin it.
    pub fn new(wanted: bool) -> Reloads {
        Reloads { wanted, ..Reloads::default() }
    }

    /// Whether a new configuration is being prepared.
    pub fn is_preparing(&self) -> bool {
        self.candidate.is_some()
    }

    /// The descriptor to wait on.
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

    /// Requests another reload after the one being prepared; false if there is none.
    pub fn begin_after(&mut self) -> bool {
        self.candidate.as_mut().map(|candidate| candidate.again = true).is_some()
    }

    /// Keeps a reload for later: it cannot begin yet.
    pub fn want(&mut self) {
        self.wanted = true;
    }

    /// Whether a reload was kept for later; clears that.
    pub fn take_wanted(&mut self) -> bool {
        std::mem::take(&mut self.wanted)
    }

    /// Keeps the requests of children.
    pub fn note_requests(&mut self, requests: ChildRequests) {
        let ChildRequests { asks, raises, moved: _ } = requests;
        self.asks.extend(asks);
        self.raises.extend(raises.into_iter().map(|raise| (raise.biz, raise)));
    }

    /// The keeper's next request. There is none while a reload is prepared, since that reload would
    /// be published over it.
    pub fn next_ask(&mut self) -> Option<NumberedAsk> {
        if self.is_preparing() { None } else { self.asks.pop_front() }
    }

    /// The resets of other machines that are to be followed now: as with requests, none while a
    /// reload is prepared.
    pub fn take_raises(&mut self) -> Vec<EpochRaise> {
        if self.is_preparing() {
            return Vec::new();
        }
        std::mem::take(&mut self.raises).into_values().collect()
    }

    /// Reads the files, lays the settings of the start over them, and begins to prepare their
    /// configuration if it may follow the one in force.
    pub fn prepare(
        &mut self,
        report: ReportTo,
        conf_dir: &Path,
        in_force: &InForce,
        account: Option<&Account>,
        options: ReloadOptions,
    ) -> Result<(), ReloadError> {
        let (checked, secrets) = Account::as_root(account, || {
            conf_trust::look(conf_dir)?;
            let checked = Conf::load_texts(conf_dir, in_force.settings())?;
            let checked = store::settled(checked, &in_force.conf().map.groups)?;
            let secrets = checked.conf.srv.cluster.as_ref().map(Cluster::secrets).transpose()?;
            Ok::<_, ReloadError>((checked, secrets))
        })?;
        // Read as the user of the workers.
        let tokens = checked.conf.srv.read_tokens()?;
        let mut refused = refused_changes::refused(in_force.conf(), &checked.conf);
        let is_moving = |name: &str| in_force.overlay().moving().contains_key(name);
        refused.extend(refused_changes::second_changes(in_force.conf(), &checked.conf, is_moving));
        if !refused.is_empty() {
            return Err(ReloadError::Changes(refused));
        }
        let ReloadOptions { loss, lift_bans, is_edit } = options;
        let work = Work { how: How::Beside, loss, accepts_loss: false };
        let files = FilesBefore::look(&checked.conf, in_force.conf());
        let preparation = Preparation::start(&checked.conf, work, account)?;
        let checked = Box::new(checked);
        self.candidate = Some(ReloadCandidate {
            report,
            preparation,
            checked,
            secrets,
            tokens,
            lift_bans,
            is_edit,
            files,
            again: false,
        });
        Ok(())
    }

    /// The reload whose preparation has finished or failed.
    pub fn take_prepared(&mut self) -> io::Result<Option<ReloadCandidate>> {
        let Some(mut candidate) = self.candidate.take() else { return Ok(None) };
        if candidate.preparation.is_done()? {
            return Ok(Some(candidate));
        }
        self.candidate = Some(candidate);
        Ok(None)
    }

    /// Breaks off the reload being prepared, as the server ends. Removes the files it has made,
    /// unless runtime.mmap cannot be touched.
    pub fn break_off(&mut self, runtime: Option<&Runtime>) -> io::Result<()> {
        let Some(ReloadCandidate { preparation, files, .. }) = self.candidate.take() else {
            return Ok(());
        };
        preparation.kill()?;
        runtime.iter().for_each(|runtime| take_back(&files, runtime));
        Ok(())
    }

    /// Forgets everything: another master answers the waiting processes.
    pub fn forget(&mut self) {
        self.candidate = None;
        self.forget_acknowledging();
        self.asks.clear();
        self.raises.clear();
    }

    /// Forgets which acknowledgements are missing.
    pub fn forget_acknowledging(&mut self) {
        self.acknowledging.clear();
    }

    /// Begins to wait until all processes have taken a published generation, and answers its report
    /// then. `fresh`: the records that begin anew by it.
    pub fn wait_for(&mut self, report: ReportTo, generation: u64, fresh: Vec<String>) {
        let published_ns = clock::monotonic_ns();
        self.acknowledging.push(Acknowledging { report, generation, published_ns, fresh });
    }

    /// Answers commands that wait for an earlier reload early, so that they do not mistake the
    /// answer to the next reload for theirs.
    pub fn answer_early(&mut self, laggards: impl Fn(u64) -> Vec<String>) -> Vec<ReloadAnswer> {
        let mut answers = Vec::new();
        for Acknowledging { report, generation, fresh, .. } in &mut self.acknowledging {
            let (begun_ns, generation) = (report.begun_ns.take(), *generation);
            if begun_ns.is_some() {
                let (laggards, fresh) = (laggards(generation), fresh.clone());
                let result = Reloaded::Taken { generation, laggards, fresh };
                answers.push(ReloadAnswer { report: ReportTo { begun_ns, asked: None }, result });
            }
        }
        answers
    }

    /// Answers reloads that all processes have taken, or whose time limit has passed.
    pub fn answer_acknowledged(
        &mut self,
        laggards: impl Fn(u64) -> Vec<String>,
    ) -> Vec<ReloadAnswer> {
        let mut answers = Vec::new();
        self.acknowledging.retain(|Acknowledging { report, generation, published_ns, fresh }| {
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
            let result = Reloaded::Taken { generation, laggards, fresh: fresh.clone() };
            answers.push(ReloadAnswer { report: *report, result });
            false
        });
        answers
    }
}
