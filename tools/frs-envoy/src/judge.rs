//! The judge runs calls on the store: those that are ready at the same time in one batch.
//!
//! Invariant: each call gets one answer. Nothing here waits for the lease of a shared limit on the
//! thread that serves connections.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

use crate::call::Charge;
use crate::status::Status;
use frs::{Client, Item, Verdict};

/// Items of one batch, at most.
const BATCH: usize = 256;

/// The verdicts of a call, or why there are none.
pub type Judged = Result<Vec<Verdict>, Status>;

/// Runs calls.
#[derive(Debug)]
pub struct Judge {
    client: Arc<Client>,
    waiting: Mutex<Vec<Waiting>>,
    wake: Notify,
    /// The last run found a store to ask.
    is_attached: AtomicBool,
}

#[derive(Debug)]
struct Waiting {
    charges: Vec<Charge>,
    atomic: bool,
    answer: oneshot::Sender<Judged>,
}

impl Judge {
    /// A judge by this client. [`Judge::run`] must run.
    pub fn new(client: Client) -> Judge {
        Judge {
            client: Arc::new(client),
            waiting: Mutex::default(),
            wake: Notify::new(),
            is_attached: AtomicBool::new(true),
        }
    }

    /// Has charges judged.
    pub async fn judge(&self, charges: Vec<Charge>, atomic: bool) -> Judged {
        if charges.is_empty() {
            return Ok(Vec::new());
        }
        let (answer, judged) = oneshot::channel();
        self.waiting().push(Waiting { charges, atomic, answer });
        self.wake.notify_one();
        let gone = |_| Err(Status::from(frs::Error::from(frs::ItemError::Store)));
        judged.await.unwrap_or_else(gone)
    }

    /// Takes the configuration in force; its generation.
    ///
    /// # Errors
    /// There is no store to attach to.
    pub fn tick(&self) -> Result<u64, frs::AttachError> {
        let ticked = self.client.tick();
        self.is_attached.store(ticked.is_ok(), Ordering::Relaxed);
        ticked
    }

    /// Whether calls can be judged.
    pub fn is_well(&self) -> bool {
        self.is_attached.load(Ordering::Relaxed) || self.tick().is_ok()
    }

    /// Judges what waits, for ever. It is woken after the calls that are ready, so it finds all of
    /// them.
    pub async fn run(&self) {
        loop {
            self.wake.notified().await;
            let waiting = std::mem::take(&mut *self.waiting());
            self.judge_all(waiting);
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn judge_all(&self, waiting: Vec<Waiting>) {
        let (mut together, mut items) = (Vec::new(), 0);
        for call in waiting {
            if call.atomic {
                self.judge_atomic(call);
                continue;
            }
            if items + call.charges.len() > BATCH {
                self.judge_together(std::mem::take(&mut together));
                items = 0;
            }
            items += call.charges.len();
            together.push(call);
        }
        self.judge_together(together);
    }

    fn note(&self, error: &frs::Error) {
        if matches!(error, frs::Error::Attach(_)) {
            self.is_attached.store(false, Ordering::Relaxed);
        }
    }

    /// Calls whose items are charged each on its own.
    fn judge_together(&self, calls: Vec<Waiting>) {
        if calls.is_empty() {
            return;
        }
        let items = calls.iter().flat_map(|call| &call.charges).map(Charge::item);
        match self.client.batch().items(items).try_run() {
            // There may be fewer max-items than a batch has.
            Err(frs::Error::TooMany { .. }) if calls.len() > 1 => {
                calls.into_iter().for_each(|call| self.judge_together(vec![call]));
            }
            Err(error) => {
                self.note(&error);
                let status = Status::from(error);
                calls.into_iter().for_each(|call| drop(call.answer.send(Err(status.clone()))));
            }
            Ok(tried) => {
                let mut tried = tried.items.into_iter();
                for call in calls {
                    let judged = tried.by_ref().take(call.charges.len()).collect();
                    self.finish(call, judged);
                }
            }
        }
    }

    /// Answers a call, or has a thread wait for the leases that its items lack.
    fn finish(&self, call: Waiting, judged: Vec<Result<Verdict, frs::Error>>) {
        let waits =
            |result: &Result<Verdict, frs::Error>| matches!(result, Err(frs::Error::WouldWait));
        if !judged.iter().any(waits) {
            let judged = judged.into_iter().collect::<Result<Vec<Verdict>, frs::Error>>();
            let _ = call.answer.send(judged.map_err(Status::from));
            return;
        }
        let client = Arc::clone(&self.client);
        tokio::task::spawn_blocking(move || {
            let judged =
                judged.into_iter().zip(&call.charges).map(|(result, charge)| match result {
                    Err(frs::Error::WouldWait) => client.update(charge.item()),
                    result => result,
                });
            let judged = judged.collect::<Vec<_>>().into_iter().collect::<Result<_, frs::Error>>();
            let _ = call.answer.send(judged.map_err(Status::from));
        });
    }

    /// A call that charges all of its items or none.
    fn judge_atomic(&self, call: Waiting) {
        let batch = self.client.batch().items(call.charges.iter().map(Charge::item)).atomic();
        match batch.try_run() {
            Ok(tried) => self.finish(call, tried.items),
            Err(frs::Error::WouldWait) => {
                let client = Arc::clone(&self.client);
                tokio::task::spawn_blocking(move || {
                    let items = call.charges.iter().map(Charge::item);
                    let ran = client.batch().items(items).atomic().run();
                    let judged = ran.and_then(|answers| {
                        let items = answers.items.into_iter();
                        Ok(items.collect::<Result<Vec<_>, frs::ItemError>>()?)
                    });
                    let _ = call.answer.send(judged.map_err(Status::from));
                });
            }
            Err(error) => {
                self.note(&error);
                let _ = call.answer.send(Err(error.into()));
            }
        }
    }
}

impl Charge {
    fn item(&self) -> Item<'_> {
        let item = Item::new(self.biz, &self.key).count(self.count);
        if self.force { item.force() } else { item }
    }
}
