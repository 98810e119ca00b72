//! The judge runs calls on the store. Calls that are ready at the same time run in one tick.
//!
//! Invariant: each call gets one answer. If its client has gone, it is not charged any more. The
//! thread that serves connections waits neither for leases nor for calls that wait for leases,
//! because those leave the attachment to it. In a turn it waits for other processes at most one
//! lock-timeout for itself, and one for the call that has the attachment.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

use crate::call::Charge;
use crate::lease_queue::{LeaseQueue, ParkedItems};
use crate::ready_call::{CallVerdicts, ITEMS_TOGETHER, ReadyCall, fail, judged, would_wait};
use crate::status::Status;
use frs::{AttachError, Batch, Client, TriedAnswers};
use frs_conf::Conf;
use frs_engine::Role;

/// Runs calls.
#[derive(Debug)]
pub struct Judge {
    client: Arc<Client>,
    waiting: Arc<LeaseQueue>,
    ready: Mutex<Vec<ReadyCall>>,
    wake: Notify,
    /// Whether the last run found a store to ask.
    is_attached: AtomicBool,
}

impl Judge {
    /// A judge over a data directory. [`Judge::run`] must run.
    ///
    /// # Errors
    /// The judge cannot attach.
    pub fn attach(data_dir: &Path) -> Result<Judge, AttachError> {
        let client = Arc::new(Client::attach_as(data_dir, Role::Envoy)?);
        Ok(Judge {
            waiting: Arc::new(LeaseQueue::new(Arc::clone(&client))),
            client,
            ready: Mutex::default(),
            wake: Notify::new(),
            is_attached: AtomicBool::new(true),
        })
    }

    /// Judges the charges of a client, together and under the id `once` if they are atomic. If the
    /// future is dropped, items that are not charged yet stay uncharged.
    pub async fn judge(
        &self,
        charges: Vec<Charge>,
        atomic: bool,
        once: Option<String>,
        client: Option<Arc<str>>,
    ) -> CallVerdicts {
        if charges.is_empty() {
            return Ok(Vec::new());
        }
        let (answer, judged) = oneshot::channel();
        self.ready().push(ReadyCall { charges, atomic, once, client, answer });
        self.wake.notify_one();
        let gone = |_| Err(Status::from(frs::Error::from(frs::ItemError::Store)));
        judged.await.unwrap_or_else(gone)
    }

    /// Takes the configuration in force. Returns its generation and itself.
    ///
    /// # Errors
    /// There is no store to attach to.
    pub fn in_force(&self) -> Result<(u64, Arc<Conf>), AttachError> {
        self.client.in_force()
    }

    /// The generation in force, taken or not.
    ///
    /// # Errors
    /// There is no store to attach to.
    pub fn published(&self) -> Result<u64, AttachError> {
        self.noted(self.client.published())
    }

    /// Takes the configuration in force. Returns its generation.
    ///
    /// # Errors
    /// There is no store to attach to.
    pub fn tick(&self) -> Result<u64, AttachError> {
        self.noted(self.client.in_force()).map(|(generation, _)| generation)
    }

    /// Whether calls can be judged.
    pub fn can_judge(&self) -> bool {
        self.is_attached.load(Ordering::Relaxed) || self.published().is_ok()
    }

    /// Judges ready calls, for ever. The runtime runs it after the tasks that are ready already, so
    /// it finds the calls of all these tasks.
    pub async fn run(&self) {
        loop {
            self.wake.notified().await;
            let mut ready = std::mem::take(&mut *self.ready());
            ready.retain(|call| !call.is_gone());
            self.judge_all(ready);
        }
    }

    fn ready(&self) -> MutexGuard<'_, Vec<ReadyCall>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn noted<T>(&self, result: Result<T, AttachError>) -> Result<T, AttachError> {
        self.is_attached.store(result.is_ok(), Ordering::Relaxed);
        result
    }

    fn judge_all(&self, ready: Vec<ReadyCall>) {
        let alone = self.judge_groups(grouped(ready));
        // max-items may be less than a batch has.
        if !alone.is_empty() {
            self.judge_groups(alone.into_iter().map(|call| vec![call]).collect());
        }
    }

    /// Judges each group as a batch, all in one tick. Returns the calls that have too many items
    /// together.
    fn judge_groups(&self, groups: Vec<Vec<ReadyCall>>) -> Vec<ReadyCall> {
        if groups.is_empty() {
            return Vec::new();
        }
        let batches: Vec<Batch<'_>> = groups
            .iter()
            .map(|calls| calls.iter().fold(self.client.batch(), |batch, call| call.add_to(batch)))
            .collect();
        let mut alone = Vec::new();
        match self.noted(self.client.try_run_all(&batches)) {
            Ok(tried) => {
                for (calls, tried) in groups.into_iter().zip(tried) {
                    match tried {
                        Err(frs::Error::TooMany { .. }) if calls.len() > 1 => alone.extend(calls),
                        tried => self.finish(calls, tried),
                    }
                }
            }
            Err(error) => fail(groups.into_iter().flatten(), error),
        }
        alone
    }

    /// Answers calls that ran together, or lets them wait for the leases that their items need.
    fn finish(&self, calls: Vec<ReadyCall>, tried: Result<TriedAnswers, frs::Error>) {
        match tried {
            Ok(tried) => {
                let mut items = tried.items.into_iter();
                for call in calls {
                    let tried: Vec<_> = items.by_ref().take(call.charges.len()).collect();
                    if tried.iter().any(would_wait) {
                        self.waiting.push(call, ParkedItems::Rest(tried));
                    } else {
                        call.answer(judged(tried));
                    }
                }
            }
            Err(frs::Error::WouldWait) => {
                calls.into_iter().for_each(|call| self.waiting.push(call, ParkedItems::Whole));
            }
            Err(error) => fail(calls, error),
        }
    }
}

/// The calls by batches: a call that charges all or none has its own batch, the others share those
/// of their clients.
fn grouped(ready: Vec<ReadyCall>) -> Vec<Vec<ReadyCall>> {
    let (mut groups, mut open) = (Vec::new(), Vec::<OpenGroup>::new());
    for call in ready {
        if call.atomic {
            groups.push(vec![call]);
            continue;
        }
        match open.iter_mut().find(|group| group.is_of(&call)) {
            None => open.push(OpenGroup { items: call.charges.len(), calls: vec![call] }),
            Some(group) => {
                if group.items + call.charges.len() > ITEMS_TOGETHER {
                    groups.push(std::mem::take(&mut group.calls));
                    group.items = 0;
                }
                group.items += call.charges.len();
                group.calls.push(call);
            }
        }
    }
    groups.extend(open.into_iter().map(|group| group.calls));
    groups
}

/// Calls of one client that will run together, and the number of their items.
struct OpenGroup {
    calls: Vec<ReadyCall>,
    items: usize,
}

impl OpenGroup {
    fn is_of(&self, call: &ReadyCall) -> bool {
        self.calls.first().is_some_and(|first| first.client == call.client)
    }
}

#[cfg(test)]
mod tests;
