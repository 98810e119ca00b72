//! Calls that wait for the cluster. A few threads run them, many at once.
//!
//! Invariant: the calls and the threads are bounded. A call that waits leaves the attachment to
//! other calls. A call whose client has gone is not run.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::ready_call::{ITEMS_TOGETHER, ItemResult, ReadyCall, fail, judged, would_wait};
use crate::status::{Status, StatusCode};
use frs::{Batch, Client, Verdict};

/// Number of threads that wait.
pub const THREADS: usize = 3;
/// The most calls that wait at once. A further call is answered `Unavailable`.
pub const CALLS_MAX: usize = 1024;

/// The items with which a call waits.
#[derive(Debug)]
pub enum ParkedItems {
    /// All of its items.
    Whole,
    /// The items that would wait. The other items are answered.
    Rest(Vec<ItemResult>),
}

/// The calls that wait, and the threads that run them.
#[derive(Debug)]
pub struct LeaseQueue {
    client: Arc<Client>,
    calls: Mutex<VecDeque<ParkedCall>>,
    room: Arc<Semaphore>,
    threads: Arc<Semaphore>,
}

#[derive(Debug)]
struct ParkedCall {
    ready: ReadyCall,
    parked: ParkedItems,
    _place: OwnedSemaphorePermit,
}

impl LeaseQueue {
    /// Without any call yet.
    pub fn new(client: Arc<Client>) -> LeaseQueue {
        LeaseQueue {
            client,
            calls: Mutex::default(),
            room: Arc::new(Semaphore::new(CALLS_MAX)),
            threads: Arc::new(Semaphore::new(THREADS)),
        }
    }

    /// Lets a call wait, if there is room. Must be called on the runtime.
    pub fn push(self: &Arc<LeaseQueue>, ready: ReadyCall, parked: ParkedItems) {
        let Ok(place) = Arc::clone(&self.room).try_acquire_owned() else {
            let found = format!("busy: {CALLS_MAX} calls wait for the cluster already");
            return ready.answer(Err(Status::new(StatusCode::Unavailable, found)));
        };
        let mut calls = self.calls();
        calls.push_back(ParkedCall { ready, parked, _place: place });
        if let Ok(thread) = Arc::clone(&self.threads).try_acquire_owned() {
            let waiting = Arc::clone(self);
            tokio::task::spawn_blocking(move || waiting.work(thread));
        }
    }

    fn calls(&self) -> MutexGuard<'_, VecDeque<ParkedCall>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs calls until none is left.
    fn work(&self, thread: OwnedSemaphorePermit) {
        loop {
            let mut calls = self.calls();
            if calls.is_empty() {
                // The lock is still held, so no call is pushed that finds no free thread.
                drop(thread);
                return;
            }
            let next = take(&mut calls);
            drop(calls);
            self.run(next);
        }
    }

    /// Runs calls. They wait at the same time.
    fn run(&self, mut calls: Vec<ParkedCall>) {
        calls.retain(|call| !call.ready.is_gone());
        if calls.is_empty() {
            return;
        }
        let batches: Vec<Batch<'_>> = calls.iter().map(|call| call.batch(&self.client)).collect();
        match self.client.run_all(&batches) {
            Ok(ran) => {
                for (call, ran) in calls.into_iter().zip(ran) {
                    let rest = ran.map(|answers| answers.items.into_iter().map(of_item).collect());
                    call.finish(rest);
                }
            }
            Err(error) => fail(calls.into_iter().map(|call| call.ready), error),
        }
    }
}

fn of_item(item: Result<Verdict, frs::ItemError>) -> ItemResult {
    item.map_err(frs::Error::from)
}

/// The next calls that run together.
fn take(calls: &mut VecDeque<ParkedCall>) -> Vec<ParkedCall> {
    let mut items = 0;
    let fitting = calls.iter().take_while(|call| {
        items += call.ready.charges.len();
        items <= ITEMS_TOGETHER
    });
    // The first call in any case.
    let count = fitting.count().max(1).min(calls.len());
    calls.drain(..count).collect()
}

impl ParkedCall {
    fn batch<'c>(&self, client: &'c Client) -> Batch<'c> {
        let charges = &self.ready.charges;
        match &self.parked {
            ParkedItems::Whole => self.ready.add_to(client.batch()),
            ParkedItems::Rest(tried) => {
                let waits = charges.iter().zip(tried).filter(|(_, tried)| would_wait(tried));
                self.ready.named(client.batch()).items(waits.map(|(charge, _)| charge.item()))
            }
        }
    }

    /// Answers the call. `rest` has the answers to its items that waited.
    fn finish(self, rest: Result<Vec<ItemResult>, frs::Error>) {
        let ParkedCall { ready, parked, .. } = self;
        let rest = match rest {
            Ok(rest) => rest,
            Err(error) => return ready.answer(Err(error.into())),
        };
        let judged = match parked {
            ParkedItems::Whole => judged(rest),
            ParkedItems::Rest(tried) => {
                let mut rest = rest.into_iter();
                judged(tried.into_iter().map(|tried| match would_wait(&tried) {
                    true => rest.next().unwrap_or(tried),
                    false => tried,
                }))
            }
        };
        ready.answer(judged);
    }
}
