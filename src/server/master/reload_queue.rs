//! Waiting requests, the reload in preparation, and the processes that have yet to acknowledge a
//! published generation.
//!
//! Invariant: one reload is under way at a time, from its preparation to its answer. A request that
//! arrives meanwhile begins after it, so each reload reads the files after its request. A waiting
//! request counts while its sender waits, too. An upgrade waits only for the reloads that were
//! requested before it.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Duration;

use super::conf_trust;
use super::control_socket::{Asker, ControlSocket, Request};
use super::error::ReloadError;
use super::in_force::{BoardContent, InForce};
use super::preparing_child::{Answer, How, Preparation, Work};
use super::reload_rules;
use crate::account::Account;
use crate::process::control::{Ask, Loss, ReloadOptions, Reloaded};
use crate::tls::board::TlsMaterial;
use frs_base::clock;
use frs_base::sys::process::{Exit, Pid};
use frs_conf::{ClusterSecrets, Conf, EpochRaise, Group, LoadedConf};
use frs_engine::access::TokenDigests;
use frs_store::{self as store, FilesBefore, Runtime, Unserved};

/// Time limit for acknowledgements. Processes that exceed it are named.
const ACKNOWLEDGE: Duration = Duration::from_secs(2);
/// Interval between looks at the acknowledgements.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// The recipients of an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Report {
    /// The senders of the requests. A signal and a reset of another machine have none.
    pub askers: Vec<Asker>,
    /// The answer is that of a reload: systemd gets it as well.
    pub is_reload: bool,
    /// The master has found changed files by itself.
    pub is_of_watch: bool,
}

impl Report {
    /// Whether the admin plane has sent the request.
    pub fn is_of_plane(&self) -> bool {
        self.askers.iter().any(|asker| asker.is_plane)
    }
}

/// The answer to a refused request.
pub(super) fn refusal(error: &ReloadError) -> Reloaded {
    Reloaded::Refused { cause: error.cause(), faults: fault_lines(error) }
}

/// The faults of a refused request, a line each.
pub(super) fn fault_lines(error: &ReloadError) -> Vec<String> {
    error.to_string().lines().map(str::to_owned).collect()
}

/// A configuration that has passed the checks.
pub(super) struct CheckedConf {
    pub loaded: LoadedConf,
    /// The contents of its cluster's secret files.
    pub secrets: Option<ClusterSecrets>,
    /// What its processes need of the token files of clients and of the files of `<tls>`.
    pub content: BoardContent,
    pub options: ReloadOptions,
}

/// A reload that is not published yet. A child makes new groups and checks the others.
pub(super) struct ReloadCandidate {
    pub report: Report,
    preparation: Preparation,
    pub checked: Box<CheckedConf>,
    /// The files before it.
    pub files: FilesBefore,
}

impl ReloadCandidate {
    /// Reads the files, lays the settings of the start over them, and begins to prepare their
    /// configuration if it may follow the one in force.
    pub fn begin(
        report: Report,
        conf_dir: &Path,
        in_force: &InForce,
        account: Option<&Account>,
        control: &mut ControlSocket,
        options: ReloadOptions,
    ) -> Result<ReloadCandidate, ReloadError> {
        let (loaded, secrets, tls) = Account::as_root(account, || {
            conf_trust::look(conf_dir)?;
            let loaded = Conf::load_texts(conf_dir, in_force.settings())?;
            let loaded = store::settled(loaded, &in_force.conf().map.groups)?;
            let secrets = loaded.conf.srv.shared_secrets()?;
            let tls = TlsMaterial::read(&loaded.conf.srv, clock::now())?;
            if !tls.out_of_date.is_empty() {
                return Err(ReloadError::OutOfDate(tls.out_of_date));
            }
            Ok::<_, ReloadError>((loaded, secrets, tls.material))
        })?;
        let (old, new) = (in_force.conf(), &loaded.conf);
        // Read as the user of the workers.
        let tokens = TokenDigests::read(&new.srv)?;
        let content = BoardContent { tokens, tls };
        let mut refused = reload_rules::refused(old, new);
        let is_moving = |name: &str| in_force.overlay().moving().contains_key(name);
        refused.extend(reload_rules::second_changes(old, new, is_moving));
        if !refused.is_empty() {
            return Err(ReloadError::Changes(refused));
        }
        if old.srv.clients.is_some() && new.srv.clients.is_none() {
            tracing::warn!("<clients> of srv.xml is gone: everybody may ask for everything");
        }
        let work = Work { how: How::Beside, loss: options.loss, accepts_loss: false };
        let files = FilesBefore::look(new, old);
        let preparation = Preparation::start(new, work, account, control)?;
        let checked = Box::new(CheckedConf { loaded, secrets, content, options });
        Ok(ReloadCandidate { report, preparation, checked, files })
    }

    /// The result of the preparation. A group of `groups`, which are in force already, may fail: it
    /// stays unserved. A new group that fails refuses the reload.
    pub fn answer(self, groups: &[Group]) -> Result<(Answer, CheckedConf), ReloadError> {
        let answer = self.preparation.answer()?;
        let is_old = |name: &str| groups.iter().any(|group| group.name == name);
        let unserved = answer.prepared.unserved.iter().filter(|of| !is_old(&of.group));
        let unserved: Vec<Unserved> = unserved.cloned().collect();
        match unserved.is_empty() {
            true => Ok((answer, *self.checked)),
            false => Err(ReloadError::Unserved(unserved)),
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
    report: Report,
    generation: u64,
    published_ns: u64,
    /// Which records begin anew, a line each.
    fresh: Vec<String>,
}

impl Acknowledging {
    fn waited_ns(&self) -> u64 {
        clock::monotonic_ns().saturating_sub(self.published_ns)
    }

    /// The answer, with the processes that have not taken the generation.
    fn answer(self, laggards: Vec<String>) -> (Report, Reloaded) {
        let Acknowledging { report, generation, fresh, .. } = self;
        (report, Reloaded::Taken { generation, laggards, fresh })
    }
}

/// All requests, and the reloads in progress.
#[derive(Default)]
pub(super) struct Reloads {
    /// The reload that is being prepared.
    pub candidate: Option<ReloadCandidate>,
    acknowledging: Vec<Acknowledging>,
    /// Requests that have not begun.
    waiting: VecDeque<Request>,
    /// An upgrade that waits for these reloads, and the reloads that were requested after it.
    upgrade: Option<VecDeque<Request>>,
    /// The faults of the last refused reload.
    pub faults: Vec<String>,
    /// Resets of other machines that are not followed yet, by their biz. The latest one counts.
    raises: BTreeMap<u32, EpochRaise>,
}

impl Reloads {
    /// Whether a new configuration is being prepared.
    pub fn is_preparing(&self) -> bool {
        self.candidate.is_some()
    }

    /// Whether a reload is prepared, or waits and is not behind an upgrade.
    pub fn is_busy(&self) -> bool {
        self.is_preparing() || self.waiting.iter().any(Request::is_reload)
    }

    /// Whether nothing waits and nothing is under way.
    pub fn is_idle(&self) -> bool {
        let is_waiting = !self.waiting.is_empty() || self.upgrade.is_some();
        !self.is_preparing() && !is_waiting && self.acknowledging.is_empty()
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

    /// Keeps the request of a signal, unless one is waiting.
    pub fn note_signal(&mut self) {
        let request = Request { by: None, ask: Ask::Reload(Loss::Refused.into()) };
        let queue = self.upgrade.as_mut().unwrap_or(&mut self.waiting);
        if !queue.contains(&request) {
            queue.push_back(request);
        }
    }

    /// Keeps a request. A switch does not wait for an upgrade.
    pub fn note_request(&mut self, request: Request) {
        let behind = self.upgrade.as_mut().filter(|_| request.is_reload());
        behind.unwrap_or(&mut self.waiting).push_back(request);
    }

    /// Keeps an upgrade. Reloads that are requested from now on begin after it.
    pub fn note_upgrade(&mut self) {
        self.upgrade.get_or_insert_default();
    }

    /// Takes the upgrade that waits. Returns the reloads behind it, to be put back once it has
    /// begun: until then none of them may hold it back.
    pub fn take_upgrade(&mut self) -> Option<VecDeque<Request>> {
        self.upgrade.take()
    }

    /// Keeps the reloads that were behind an upgrade.
    pub fn put_back(&mut self, behind: VecDeque<Request>) {
        self.waiting.extend(behind);
    }

    /// Keeps resets of other machines.
    pub fn note_raises(&mut self, raises: Vec<EpochRaise>) {
        self.raises.extend(raises.into_iter().map(|raise| (raise.biz, raise)));
    }

    /// Drops the waiting requests of senders that are gone. The permission of a killed command to
    /// lose records must not reach a later reload.
    pub fn forget_gone(&mut self, is_there: impl Fn(&Asker) -> bool) {
        for queue in std::iter::once(&mut self.waiting).chain(&mut self.upgrade) {
            queue.retain(|request| request.by.as_ref().is_none_or(&is_there));
        }
    }

    /// The next request that can begin, and the recipients of its answer. No request begins while a
    /// reload is prepared, because the reload would be published over it. Commands and signals that
    /// wait for the same reload share it.
    pub fn take_next(&mut self) -> Option<(Ask, Report)> {
        let is_reloading = self.acknowledging.iter().any(|before| before.report.is_reload);
        let can_begin = |request: &Request| !is_reloading || !request.is_reload();
        if self.is_preparing() {
            return None;
        }
        // A switch passes the reloads that wait for an answer.
        let next = self.waiting.iter().position(can_begin)?;
        let is_reload = self.waiting[next].is_reload();
        let Request { by, ask } = self.waiting.remove(next)?;
        let askers = by.into_iter().collect();
        let mut report = Report { askers, is_reload, is_of_watch: false };
        if is_reload && !report.is_of_plane() {
            self.waiting.retain(|request| {
                let is_same = request.ask == ask && !request.by.is_some_and(|by| by.is_plane);
                report.askers.extend(request.by.filter(|_| is_same));
                !is_same
            });
        }
        Some((ask, report))
    }

    /// The resets of other machines that are to be followed now: as with requests, none while a
    /// reload is prepared.
    pub fn take_raises(&mut self) -> Vec<EpochRaise> {
        if self.is_preparing() {
            return Vec::new();
        }
        std::mem::take(&mut self.raises).into_values().collect()
    }

    /// The reload whose preparation has finished or failed.
    pub fn take_prepared(&mut self) -> io::Result<Option<ReloadCandidate>> {
        let done = self.candidate.as_mut().map(|candidate| candidate.preparation.is_done());
        let is_done = done.transpose()?.unwrap_or(false);
        Ok(self.candidate.take_if(|_| is_done))
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

    /// Forgets all that is under way, because another master goes on. Returns the senders of
    /// waiting requests, and the answers to requests whose generation is published.
    pub fn end(
        &mut self,
        laggards: impl Fn(u64) -> Vec<String>,
    ) -> (Vec<Asker>, Vec<(Report, Reloaded)>) {
        self.candidate = None;
        self.raises.clear();
        let waiting = self.waiting.drain(..).filter_map(|request| request.by).collect();
        let answers = self.acknowledging.drain(..).map(|waiting| {
            let laggards = laggards(waiting.generation);
            waiting.answer(laggards)
        });
        (waiting, answers.collect())
    }

    /// Forgets which acknowledgements are missing.
    pub fn forget_acknowledging(&mut self) {
        self.acknowledging.clear();
    }

    /// Begins to wait until all processes have taken a published generation. The report is answered
    /// then. `fresh`: the records that begin anew by it.
    pub fn wait_for(&mut self, report: Report, generation: u64, fresh: Vec<String>) {
        let published_ns = clock::monotonic_ns();
        self.acknowledging.push(Acknowledging { report, generation, published_ns, fresh });
    }

    /// The answers to requests whose generation all processes have taken, or whose time limit has
    /// passed.
    pub fn take_acknowledged(
        &mut self,
        laggards: impl Fn(u64) -> Vec<String>,
    ) -> Vec<(Report, Reloaded)> {
        let mut answers = Vec::new();
        let mut nth = 0;
        while let Some(waiting) = self.acknowledging.get(nth) {
            let (generation, waited_ns) = (waiting.generation, waiting.waited_ns());
            let laggards = laggards(generation);
            if !laggards.is_empty() && u128::from(waited_ns) < ACKNOWLEDGE.as_nanos() {
                nth += 1;
                continue;
            }
            let waited_ms = waited_ns / 1_000_000;
            tracing::info!(generation, waited_ms, "the new configuration is in force");
            for laggard in &laggards {
                tracing::warn!(generation, "{laggard} has not acknowledged the new configuration");
            }
            answers.push(self.acknowledging.remove(nth).answer(laggards));
        }
        answers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::master::control_socket::asker;

    const PLAIN: Ask =
        Ask::Reload(ReloadOptions { loss: Loss::Refused, lift_bans: None, is_edit: false });
    const LOSSY: Ask =
        Ask::Reload(ReloadOptions { loss: Loss::Allowed, lift_bans: None, is_edit: false });

    fn of_command(number: u64) -> Option<Asker> {
        Some(asker(number, false))
    }

    fn of_plane(number: u64) -> Option<Asker> {
        Some(asker(number, true))
    }

    fn waiting(requests: &[(Option<Asker>, Ask)]) -> Reloads {
        let mut reloads = Reloads::default();
        for &(by, ask) in requests {
            match by {
                None => reloads.note_signal(),
                by => reloads.note_request(Request { by, ask }),
            }
        }
        reloads
    }

    fn next(reloads: &mut Reloads) -> Option<(Ask, Vec<Asker>)> {
        reloads.take_next().map(|(ask, report)| (ask, report.askers))
    }

    // Shows: one-answer-each.
    #[test]
    fn those_who_wait_for_the_same_reload_share_it_and_nobody_shares_a_lossy_one() {
        let mut reloads = waiting(&[
            (of_command(1), PLAIN),
            (None, PLAIN),
            (of_plane(2), PLAIN),
            (of_command(3), LOSSY),
            (None, PLAIN),
            (of_command(4), PLAIN),
        ]);
        let commands = vec![asker(1, false), asker(4, false)];
        assert_eq!(next(&mut reloads), Some((PLAIN, commands)));
        assert_eq!(next(&mut reloads), Some((PLAIN, vec![asker(2, true)])), "it has its own log");
        assert_eq!(next(&mut reloads), Some((LOSSY, vec![asker(3, false)])));
        assert_eq!(next(&mut reloads), None);
        // A signal gets no answer.
        let mut reloads = waiting(&[(None, PLAIN), (None, PLAIN)]);
        assert_eq!(next(&mut reloads), Some((PLAIN, vec![])));
        assert!(!reloads.is_busy());
    }

    // Shows: one-answer-each.
    #[test]
    fn a_reload_begins_after_the_answer_to_the_one_before_and_a_switch_at_once() {
        let switch = Ask::Degrade(true);
        let mut reloads = waiting(&[(of_command(1), PLAIN)]);
        let (_, report) = reloads.take_next().expect("it begins");
        assert!(report.is_reload && !reloads.is_busy());
        reloads.wait_for(report, 2, vec!["a note".to_owned()]);
        reloads.note_request(Request { by: of_command(3), ask: PLAIN });
        reloads.note_request(Request { by: of_plane(2), ask: switch });
        let (ask, report) = reloads.take_next().expect("a switch");
        assert!(ask == switch && !report.is_reload && report.is_of_plane());
        assert_eq!(next(&mut reloads), None);
        assert!(reloads.is_busy(), "an upgrade waits for it");
        let behind = |_| vec!["worker 1".to_owned()];
        assert!(reloads.take_acknowledged(behind).is_empty());
        let answers = reloads.take_acknowledged(|_| Vec::new());
        let fresh = vec!["a note".to_owned()];
        let taken = Reloaded::Taken { generation: 2, laggards: Vec::new(), fresh };
        assert_eq!(
            answers,
            [(
                Report { askers: vec![asker(1, false)], is_reload: true, is_of_watch: false },
                taken
            )]
        );
        assert_eq!(next(&mut reloads), Some((PLAIN, vec![asker(3, false)])));
    }

    // Shows: upgrades.
    #[test]
    fn an_upgrade_waits_for_the_reloads_before_it_and_for_no_other() {
        let mut reloads = waiting(&[(of_command(1), PLAIN), (of_command(2), LOSSY)]);
        reloads.note_upgrade();
        reloads.note_upgrade();
        let switch = Ask::Degrade(true);
        reloads.note_request(Request { by: of_command(3), ask: PLAIN });
        reloads.note_request(Request { by: of_plane(4), ask: switch });
        reloads.note_request(Request { by: of_command(5), ask: PLAIN });
        // A signal without end.
        (0..9).for_each(|_| reloads.note_signal());
        reloads.forget_gone(|asker| Some(*asker) != of_command(5));
        assert_eq!(next(&mut reloads), Some((PLAIN, vec![asker(1, false)])));
        assert!(reloads.is_busy());
        assert_eq!(next(&mut reloads), Some((LOSSY, vec![asker(2, false)])));
        assert_eq!(next(&mut reloads), Some((switch, vec![asker(4, true)])));
        assert_eq!(next(&mut reloads), None);
        assert!(!reloads.is_busy(), "the upgrade is next");
        let behind = reloads.take_upgrade().expect("it waits");
        assert!(!reloads.is_busy(), "those behind it do not hold it back");
        assert!(reloads.take_upgrade().is_none());
        reloads.put_back(behind);
        assert_eq!(next(&mut reloads), Some((PLAIN, vec![asker(3, false)])));
        assert_eq!(next(&mut reloads), None);
    }

    // Shows: one-answer-each.
    #[test]
    fn a_master_that_is_replaced_answers_all_requests() {
        let mut reloads = waiting(&[(of_command(1), PLAIN), (None, PLAIN)]);
        let (_, report) = reloads.take_next().expect("it begins");
        reloads.wait_for(report, 2, Vec::new());
        reloads.note_request(Request { by: of_command(3), ask: LOSSY });
        reloads.note_signal();
        let (waiting, answers) = reloads.end(|generation| vec![format!("behind {generation}")]);
        assert_eq!(waiting, [asker(3, false)]);
        let laggards = vec!["behind 2".to_owned()];
        let taken = Reloaded::Taken { generation: 2, laggards, fresh: Vec::new() };
        assert_eq!(
            answers,
            [(
                Report { askers: vec![asker(1, false)], is_reload: true, is_of_watch: false },
                taken
            )]
        );
        assert!(!reloads.is_busy() && next(&mut reloads).is_none());
    }

    // Shows: one-answer-each.
    #[test]
    fn a_request_counts_while_its_sender_waits() {
        let mut reloads = waiting(&[(of_command(1), LOSSY), (None, PLAIN), (of_command(2), PLAIN)]);
        reloads.forget_gone(|asker| Some(*asker) == of_command(2));
        assert_eq!(next(&mut reloads), Some((PLAIN, vec![asker(2, false)])));
        assert_eq!(next(&mut reloads), None);
    }
}
