//! A call that is ready to be judged, and its answer.
//!
//! Invariant: a call gets one answer. If it is dropped it gets none, and the receiver of the answer
//! notices that.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::call::Charge;
use crate::overrides::ItemNumbers;
use crate::status::Status;
use frs::{Batch, Item, Verdict};

/// The most items that run together.
pub const ITEMS_TOGETHER: usize = 256;

/// The verdicts of a call, or the reason why there are none.
pub type CallVerdicts = Result<Vec<Verdict>, Status>;

/// The answer to an item.
pub type ItemResult = Result<Verdict, frs::Error>;

/// A call that is ready to be judged.
#[derive(Debug)]
pub struct ReadyCall {
    /// The items that it charges.
    pub charges: Vec<Charge>,
    /// Whether all of them are charged or none.
    pub atomic: bool,
    /// The id under which an atomic call is charged once.
    pub once: Option<String>,
    /// The name of the client that asks, if clients are told apart.
    pub client: Option<Arc<str>>,
    /// The channel for its answer.
    pub answer: oneshot::Sender<CallVerdicts>,
}

impl ReadyCall {
    /// Whether its client has gone.
    pub fn is_gone(&self) -> bool {
        self.answer.is_closed()
    }

    /// A batch that counts its items as those of the client that asks.
    pub fn named<'c>(&self, batch: Batch<'c>) -> Batch<'c> {
        match &self.client {
            Some(client) => batch.asked_by(client),
            None => batch,
        }
    }

    /// Adds its items to a batch of calls of the same client. The batch has no others if the call
    /// is atomic.
    pub fn add_to<'c>(&self, batch: Batch<'c>) -> Batch<'c> {
        let batch = self.named(batch).items(self.charges.iter().map(Charge::item));
        match &self.once {
            Some(id) => batch.once(id),
            None if self.atomic => batch.atomic(),
            None => batch,
        }
    }

    /// Answers the call.
    pub fn answer(self, judged: CallVerdicts) {
        // The client may have gone.
        let _ = self.answer.send(judged);
    }
}

/// Answers all these calls with the same error.
pub fn fail(calls: impl IntoIterator<Item = ReadyCall>, error: impl Into<frs::Error>) {
    let status = Status::from(error.into());
    calls.into_iter().for_each(|call| call.answer(Err(status.clone())));
}

/// The verdicts of all items, or the first error.
pub fn judged(items: impl IntoIterator<Item = ItemResult>) -> CallVerdicts {
    let verdicts: Result<Vec<Verdict>, frs::Error> = items.into_iter().collect();
    verdicts.map_err(Status::from)
}

/// Whether an item would have waited.
pub fn would_wait(tried: &ItemResult) -> bool {
    matches!(tried, Err(frs::Error::WouldWait))
}

impl Charge {
    /// The item.
    pub fn item(&self) -> Item<'_> {
        let mut item = Item::new(self.biz, &self.key).count(self.count);
        if self.force {
            item = item.force();
        }
        item = match &self.numbers {
            None => item,
            Some(ItemNumbers::Rate(rate)) => item.rate(rate),
            Some(ItemNumbers::Max(max)) => item.max(*max),
        };
        if let Some(id) = &self.hold {
            item = item.hold(id);
        }
        if self.settle {
            item = item.settle();
        }
        if self.only_known {
            item = item.only_known();
        }
        match &self.once {
            Some(id) => item.once(id),
            None => item,
        }
    }
}
