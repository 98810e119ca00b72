//! Counts refused Updates, by the limit or ban that refuses them and by their keys. Keeps some for
//! the log.
//!
//! Invariant: nothing here runs if nothing is refused. The number of refusals that are kept is
//! bounded.

use frs_base::clock::Millis;
use frs_conf::key::KeyField;
use frs_limit::Verdict;
use frs_store::counter::refuser;
use frs_store::{ClientRow, RefusedKey, RefusedSketches, RefusedUpdate};

use crate::{Answer, Answers, Outcome, Request, Service};

/// Buffers for refusals, reused.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    sketches: RefusedSketches,
    key: KeyField,
    kept: Vec<RefusedItem>,
    sample: RefusalSample,
}

/// A sample of the refused Updates, for a log that does not take all.
#[derive(Debug, Default)]
pub struct RefusalSample {
    /// How many more refusals may be kept.
    pub room: usize,
    /// How many refusals were left out for lack of room.
    pub left_out: u64,
}

/// A refused Update, for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusedItem {
    /// The index of its business in the configuration in force.
    pub biz: usize,
    /// Its key.
    pub key: RefusedKey,
    /// The limit or ban that refused it.
    pub refuser: Refuser,
    /// The lane of its exchange, if it was one of several.
    pub lane: Option<usize>,
    /// The row of the client that asked, if clients are told apart.
    pub client: Option<ClientRow>,
}

/// The limit or ban that refuses an Update. Limits are counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refuser {
    /// A limit, even if the refusal starts a ban.
    Limit(u16),
    /// The ban that this limit has started.
    Ban(u16),
}

impl Refuser {
    fn of(verdict: &Verdict) -> Refuser {
        match verdict.banned_by {
            0 => Refuser::Limit(verdict.limit),
            limit => Refuser::Ban(limit),
        }
    }

    fn number(self) -> usize {
        match self {
            Refuser::Limit(limit) => refuser(Some(limit)),
            Refuser::Ban(_) => refuser(None),
        }
    }
}

impl Service {
    /// The sample of the refused Updates. It has no room at first.
    pub fn refusal_sample(&self) -> &RefusalSample {
        &self.refusals.sample
    }

    /// The same, mutable.
    #[inline]
    pub fn refusal_sample_mut(&mut self) -> &mut RefusalSample {
        &mut self.refusals.sample
    }

    /// Whether refused Updates are kept.
    #[inline]
    pub fn has_refusals(&self) -> bool {
        !self.refusals.kept.is_empty()
    }

    /// Takes the refused Updates that are kept.
    pub fn take_refusals(&mut self) -> Vec<RefusedItem> {
        std::mem::take(&mut self.refusals.kept)
    }

    /// Counts the refused items of an Update.
    #[inline(never)]
    pub(super) fn count_refusals(
        &mut self,
        request: &Request,
        answers: &Answers,
        now: Millis,
        lane: Option<usize>,
    ) {
        let Refusals { sketches, key, kept, sample } = &mut self.refusals;
        for (item, Answer { biz, result, .. }) in request.items().iter().zip(&answers.items) {
            let (Some(biz), Ok(verdict)) = (*biz, result) else { continue };
            // A forced item is charged even if a limit is exceeded.
            if item.force || !Outcome::of(verdict).is_refusal() {
                continue;
            }
            let Some(entry) = self.table.get(biz) else { continue };
            let refuser = Refuser::of(verdict);
            let key = entry.refused_key(request.bytes(item).key, key);
            let refusal = RefusedUpdate { row: entry.row, refuser: refuser.number(), key: &key };
            self.handle.count_refusal(&refusal, sketches, now);
            if sample.room > 0 {
                sample.room -= 1;
                kept.push(RefusedItem { biz, key, refuser, lane, client: request.client_row });
            } else {
                sample.left_out += 1;
            }
        }
    }
}
