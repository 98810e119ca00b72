//! Makes checkpoints of all groups: at intervals, on request, and a last one at the end.
//!
//! Invariant: a thread of its own makes them, so no flush, recovery or answer waits for the disk.
//! Without `<data checkpoint>` the thread sleeps until the configuration changes. A failed pass is
//! reported to all processes until a later pass completes. It is tried again soon, however long the
//! interval is.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::process::log::LogThrottle;
use frs_base::clock;
use frs_conf::Conf;
use frs_store::{Checkpointer, Pace, Pacer, PassRate, RequestedPass, Runtime, live_dir};

/// The interval between checks for requests.
const LOOK: Duration = Duration::from_millis(50);
/// The pause before another try, while the keeper of an older binary still makes checkpoints.
const TRY_AGAIN: Duration = Duration::from_millis(100);
/// How long the last pass keeps trying.
const LAST_TRIES: Duration = Duration::from_secs(5);
/// The pause before a failed pass is tried again. It doubles with each failure in a row.
const RETRY: Duration = Duration::from_secs(1);
/// The longest pause before a failed pass is tried again.
const RETRY_MAX: Duration = Duration::from_secs(60);
/// The interval between two log lines about repeated failures.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

/// The settings of checkpoints in the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointPlan {
    live_dir: PathBuf,
    groups: Vec<String>,
    every: Duration,
    bytes_per_second: u64,
}

impl CheckpointPlan {
    /// `None` if the configuration asks for no checkpoints.
    pub fn of(conf: &Conf) -> Option<CheckpointPlan> {
        let checkpoint = conf.srv.data.checkpoint?;
        Some(CheckpointPlan {
            live_dir: live_dir(conf).to_owned(),
            groups: conf.map.groups.iter().map(|group| group.name.clone()).collect(),
            every: Duration::from_millis(checkpoint.every_ms),
            bytes_per_second: checkpoint.bytes_per_second,
        })
    }
}

/// The order to the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PassOrder {
    /// Make passes when they are due, at the configured rate.
    Serve,
    /// Make a last pass, as fast as the disk allows, then end.
    Last,
    /// End at once.
    End,
}

#[derive(Debug)]
struct ThreadState {
    plan: Option<CheckpointPlan>,
    order: PassOrder,
}

#[derive(Debug)]
struct SharedState {
    state: Mutex<ThreadState>,
    changed: Condvar,
}

/// The thread that makes checkpoints. Dropping this ends the thread, even in the middle of a pass.
#[derive(Debug)]
pub struct Checkpoints {
    shared: Arc<SharedState>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpoints {
    /// Starts the thread without a plan.
    pub fn start(data_dir: &Path) -> Checkpoints {
        let state = ThreadState { plan: None, order: PassOrder::Serve };
        let shared = Arc::new(SharedState { state: Mutex::new(state), changed: Condvar::new() });
        let maker = CheckpointThread {
            shared: Arc::clone(&shared),
            data_dir: data_dir.to_owned(),
            checkpointer: None,
            failing: false,
            retry: RETRY,
            complaints: LogThrottle::new(COMPLAIN_EVERY),
        };
        let thread = std::thread::Builder::new().name("checkpoints".to_owned());
        let thread = thread.spawn(move || maker.run()).inspect_err(|error| {
            tracing::error!(%error, "no checkpoints are made: their thread does not start");
        });
        Checkpoints { shared, thread: thread.ok() }
    }

    /// Replaces the plan.
    pub fn take(&self, plan: Option<CheckpointPlan>) {
        self.shared.change(|state| state.plan = plan);
    }

    /// Orders the last pass.
    pub fn make_last(&self) {
        self.shared.change(|state| state.order = PassOrder::Last);
    }

    /// Whether the last pass was ordered.
    pub fn is_last_asked(&self) -> bool {
        self.shared.lock().order == PassOrder::Last
    }

    /// Whether the last pass was ordered and has ended. The thread ends with it.
    pub fn is_last_done(&self) -> bool {
        self.is_last_asked() && self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.shared.change(|state| state.order = PassOrder::End);
        // A panic of the thread was reported when it happened.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl SharedState {
    fn lock(&self) -> MutexGuard<'_, ThreadState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut ThreadState)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    fn wait<'a>(
        &self,
        state: MutexGuard<'a, ThreadState>,
        time: Duration,
    ) -> MutexGuard<'a, ThreadState> {
        self.changed.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0
    }
}

/// The pace of the current pass.
struct OrderedPace<'a> {
    shared: &'a SharedState,
    /// The order when the pass began.
    begun_by: PassOrder,
}

impl Pacer for OrderedPace<'_> {
    fn rest(&self, time: Duration) -> Pace {
        let until = clock::instant() + time;
        let mut state = self.shared.lock();
        loop {
            match state.order {
                // Another pass follows, which includes the last changes of the workers.
                order if order != self.begun_by => return Pace::BreakOff,
                PassOrder::Last => return Pace::Hurried,
                PassOrder::Serve | PassOrder::End => {}
            }
            let left = until.saturating_duration_since(clock::instant());
            if left.is_zero() {
                return Pace::Steady;
            }
            state = self.shared.wait(state, left);
        }
    }
}

struct CheckpointThread {
    shared: Arc<SharedState>,
    data_dir: PathBuf,
    /// `None` until it is needed, and while another process holds the lock of checkpoints.
    checkpointer: Option<Checkpointer>,
    failing: bool,
    /// The pause after the next failure.
    retry: Duration,
    complaints: LogThrottle,
}

/// The outcome of a try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PassOutcome {
    /// Another process makes the checkpoints.
    Elsewhere,
    /// Every group has a new checkpoint.
    Made,
    /// The pass was broken off, for another pass or because files are being created.
    BrokenOff,
    /// The checkpoint of a group failed.
    Failed,
}

/// A pass that must begin now.
struct DuePass {
    plan: CheckpointPlan,
    order: PassOrder,
}

impl CheckpointThread {
    fn run(mut self) {
        let mut next = None;
        while let Some(DuePass { plan, order }) = self.next_due(&mut next) {
            let begun = clock::instant();
            let mut tried = self.make(&plan, order);
            if order == PassOrder::Last {
                let is_to_go_on =
                    |tried| matches!(tried, PassOutcome::Elsewhere | PassOutcome::BrokenOff);
                while is_to_go_on(tried)
                    && clock::since(begun) < LAST_TRIES
                    && self.shared.lock().order == order
                {
                    std::thread::sleep(TRY_AGAIN);
                    tried = self.make(&plan, order);
                }
                if let (PassOutcome::BrokenOff, Some(made)) = (tried, &self.checkpointer) {
                    note_result(made.runtime(), RequestedPass::Failed, clock::now());
                }
                return;
            }
            next = Some(match tried {
                PassOutcome::Elsewhere => begun + TRY_AGAIN,
                PassOutcome::Made => {
                    self.retry = RETRY;
                    begun + plan.every
                }
                PassOutcome::BrokenOff | PassOutcome::Failed => {
                    let longer = RETRY_MAX.min(self.retry * 2);
                    let pause = std::mem::replace(&mut self.retry, longer);
                    clock::instant() + pause.min(plan.every)
                }
            });
        }
    }

    /// When the first pass is due. It is due soon if the passes of the previous keeper failed.
    fn first_due(&mut self, plan: &CheckpointPlan) -> Instant {
        self.open(plan);
        let runtime = self.checkpointer.as_ref().map(Checkpointer::runtime);
        let fails = runtime.is_some_and(|runtime| runtime.checkpoints_failing_since().is_some());
        clock::instant() + if fails { RETRY.min(plan.every) } else { plan.every }
    }

    /// Waits until a pass is due. Returns `None` if the thread must end.
    fn next_due(&mut self, next: &mut Option<Instant>) -> Option<DuePass> {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        loop {
            let order = state.order;
            let Some(plan) = &state.plan else {
                if order != PassOrder::Serve {
                    return None;
                }
                *next = None;
                state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let now = clock::instant();
            // A changed interval counts from now on.
            let due = next.unwrap_or_else(|| self.first_due(plan)).min(now + plan.every);
            *next = Some(due);
            let is_asked = order == PassOrder::Serve && self.is_asked(plan);
            match order {
                PassOrder::End => return None,
                PassOrder::Serve if due > now && !is_asked => {
                    state = shared.wait(state, (due - now).min(LOOK));
                }
                PassOrder::Serve | PassOrder::Last => {
                    return Some(DuePass { plan: plan.clone(), order });
                }
            }
        }
    }

    /// Whether a request has no answer yet. Only the process that holds the lock answers requests.
    fn is_asked(&mut self, plan: &CheckpointPlan) -> bool {
        self.open(plan);
        self.checkpointer.as_ref().is_some_and(|checkpointer| {
            let runtime = checkpointer.runtime();
            runtime.requested_pass(runtime.checkpoint_requests()).is_none()
        })
    }

    /// Takes the lock of checkpoints, if it is free.
    fn open(&mut self, plan: &CheckpointPlan) {
        if self.checkpointer.is_none() {
            match Checkpointer::new(&self.data_dir, &plan.live_dir) {
                Ok(made) => self.checkpointer = made,
                Err(error) => self.complain(&error.to_string()),
            }
        }
    }

    /// Makes a pass over all groups.
    fn make(&mut self, plan: &CheckpointPlan, order: PassOrder) -> PassOutcome {
        self.open(plan);
        let Some(checkpointer) = &mut self.checkpointer else { return PassOutcome::Elsewhere };
        let (begun, begun_ms) = (clock::instant(), clock::now());
        let requests = checkpointer.runtime().checkpoint_requests();
        let bytes_per_second =
            if order == PassOrder::Last { u64::MAX } else { plan.bytes_per_second };
        let pacer = OrderedPace { shared: &self.shared, begun_by: order };
        let passes = checkpointer.pass(&plan.groups, PassRate { bytes_per_second }, &pacer);
        let took = clock::since(begun);
        for pass in &passes {
            if let Ok(Some(facts)) = &pass.result {
                let (group, number, pages) = (&pass.group, facts.number, facts.written_pages);
                tracing::debug!(group, number, pages, ?took, "a checkpoint is made");
            }
        }
        let failures: Vec<String> = passes
            .iter()
            .filter_map(|pass| Some(pass.result.as_ref().err()?.to_string()))
            .collect();
        if failures.is_empty() && passes.iter().any(|pass| matches!(pass.result, Ok(None))) {
            tracing::info!("a checkpoint was broken off; the one before it stays");
            return PassOutcome::BrokenOff;
        }
        let runtime = checkpointer.runtime();
        let has_failed = !failures.is_empty();
        let result = if has_failed { RequestedPass::Failed } else { RequestedPass::Made };
        note_result(runtime, result, begun_ms);
        if !has_failed {
            runtime.count_checkpoint(took.as_micros() as u64);
        }
        runtime.answer_checkpoints(requests, result);
        let failed_before = std::mem::replace(&mut self.failing, has_failed);
        if has_failed {
            self.complain(&failures.join("; "));
            return PassOutcome::Failed;
        }
        if failed_before {
            tracing::info!("checkpoints are made again");
        }
        PassOutcome::Made
    }

    fn complain(&mut self, error: &str) {
        // After the last pass, only this line reports the failure.
        let is_last = self.shared.lock().order == PassOrder::Last;
        if self.complaints.is_due(clock::instant()) || is_last {
            tracing::error!(error, "no checkpoint was made: the one before it stays");
        }
    }
}

/// Reports the result of a pass to all processes.
fn note_result(runtime: &Runtime, result: RequestedPass, begun_ms: u64) {
    match (result, runtime.checkpoints_failing_since()) {
        (RequestedPass::Made, _) => runtime.set_checkpoints_failing(None),
        (RequestedPass::Failed, None) => runtime.set_checkpoints_failing(Some(begun_ms)),
        (RequestedPass::Failed, Some(_)) => {}
    }
}
