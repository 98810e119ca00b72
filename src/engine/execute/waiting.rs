//! Items that wait for shared uses, or for records that the cluster keeps. Their needs go to the
//! process that talks to the cluster. The items go on by their tickets: when the needs are
//! answered, or when they have waited as long as they may.
//!
//! Invariant: an item that waits has charged nothing. Each of its tickets is spent exactly once:
//! when its need is answered, when the item is late, or when its connection is gone.

use std::sync::Arc;

use frs_base::clock::{self, Millis};
use frs_conf::Scope;
use frs_conf::key::KeyRef;
use frs_limit::Waited;
use frs_store::{Counter, SharedBell};

use super::ItemAt;
use super::one::Lack;
use super::resolved::EarlyAnswer;
use super::tally::wait_counter;
use crate::exchange::{ItemWait, Phase};
use crate::need::{Need, NeedEnd, NeedKind, NeededTogether};
use crate::table::Entry;
use crate::{Answer, Answers, Command, Exchange, ItemError, Request, Service, Stage};

/// An attempt to answer a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attempt<'a> {
    /// How its items have waited.
    pub waited: Waited,
    /// When its items are late, CLOCK_BOOTTIME. `None`: an item that has to wait begins now.
    late_ms: Option<u64>,
    /// The items of an atomic request whose needs were not met.
    unmet: &'a [ItemWait],
}

impl Attempt<'_> {
    /// The first one.
    pub const FIRST: Attempt<'static> =
        Attempt { waited: Waited::NotYet, late_ms: None, unmet: &[] };

    /// The only one, of a request that does not wait.
    pub const ONLY: Attempt<'static> = Attempt { waited: Waited::TooLong, ..Attempt::FIRST };
}

/// The items that wait.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    /// The items of the current exchange that wait from now on.
    begun: Vec<ItemWait>,
    /// How many more exchanges may begin to wait.
    room: usize,
    /// An exchange of the current call waits.
    is_any: bool,
    /// The number of the last atomic request with needs.
    requests: u64,
    /// Needs have been pushed since the process that answers them was last called.
    pub(super) has_pushed: bool,
}

/// What an item lacks, alone or with others of its request.
#[derive(Debug, Clone, Copy)]
struct Lacks {
    lack: Lack,
    together: Option<NeededTogether>,
}

/// What an atomic request waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lacking {
    /// Records that the cluster may keep, or room that it can make.
    Records,
    /// Shared uses.
    Uses,
    /// Nothing more: its wait has timed out, and one of its bizs answers `busy` then.
    Busy,
}

impl Exchange {
    /// The positions of its items that wait.
    pub fn waiting_items(&self) -> impl Iterator<Item = usize> + '_ {
        let waits = if self.stage == Stage::Waiting { &self.waits[..] } else { &[] };
        waits.iter().map(|wait| wait.item)
    }

    /// Ends the wait of an exchange whose service is gone: its waiting items are `busy`; of an
    /// atomic request, all items.
    #[cold]
    pub fn lose(&mut self) {
        let Exchange { request, answers, stage, waits, .. } = self;
        waits.clear();
        *stage = Stage::Answered;
        if request.atomic {
            answers.clear();
            answers.refused = true;
        }
        // Items that wait alone already have this answer in their places.
        answers.items.resize(request.items().len(), busy(None));
    }
}

/// The answer of an item until it has waited.
fn busy(biz: Option<usize>) -> Answer {
    Answer { biz, result: Err(ItemError::Busy), details: 0..0, action: 0 }
}

impl Service {
    /// The bell that wakes a thread when an exchange may go on, while other threads use the
    /// service. For programs: their bell is a futex.
    #[cold]
    pub fn shared_bell(&self) -> Option<&Arc<SharedBell>> {
        self.handle.shared_bell()
    }

    /// Calls the process that answers needs, if some were pushed. For programs.
    #[inline]
    pub fn call_for_needs(&mut self) {
        if self.take_pushed() {
            self.handle.runtime().programs_bell().ring();
        }
    }

    /// Whether all items of a waiting exchange are late. An exchange that waits for a record is
    /// never late: the cluster has been asked, and may have no record.
    #[cold]
    pub fn is_late(&self, exchange: &Exchange) -> bool {
        let now_ms = clock::boot_ms();
        exchange.waits.iter().all(|wait| now_ms >= wait.late_ms && wait.kind != NeedKind::Fetch)
    }

    /// Sets how many more exchanges may wait. Further ones are answered `busy`.
    pub fn set_wait_room(&mut self, room: usize) {
        self.waits.room = room;
    }

    /// Whether needs were pushed since the last call of this function. The process that answers
    /// them must then be called.
    #[inline]
    pub fn take_pushed(&mut self) -> bool {
        std::mem::take(&mut self.waits.has_pushed)
    }

    /// Whether the resources that a waiting exchange lacks may have come. Running it before does no
    /// harm.
    pub fn may_go_on(&self, exchange: &Exchange) -> bool {
        let Some(mailbox) = self.handle.mailbox() else { return true };
        let is_done = |wait: &ItemWait| match wait.phase {
            Phase::Asked(ticket) => mailbox.is_done(ticket),
            _ => true,
        };
        if exchange.request.atomic {
            exchange.waits.iter().all(is_done)
        } else {
            exchange.waits.iter().any(is_done)
        }
    }

    /// Gives up a waiting exchange that will not run again: takes back its needs.
    pub fn give_up(&mut self, exchange: &mut Exchange) {
        exchange.waits.iter_mut().for_each(|wait| self.take_back(wait));
        exchange.waits.clear();
        exchange.stage = Stage::Answered;
    }

    /// Reduces a waiting exchange that is not atomic to its waiting items: the others have been
    /// answered. For programs.
    #[cold]
    pub fn keep_waiting_items(&self, exchange: &mut Exchange) {
        let Exchange { request, answers, waits, .. } = exchange;
        let mut rest = Request::default();
        rest.begin(request.command);
        answers.clear();
        for (nth, wait) in waits.iter_mut().enumerate() {
            let item = &request.items()[wait.item];
            rest.push_copy(request, item);
            wait.item = nth;
            answers.items.push(busy(None));
        }
        *request = rest;
    }

    fn take_back(&self, wait: &mut ItemWait) {
        if let Phase::Asked(ticket) = wait.phase {
            wait.phase = Phase::Unanswered;
            if let Some(mailbox) = self.handle.mailbox() {
                mailbox.give_up(ticket);
            }
        }
    }

    /// Called before the first exchange of a call.
    #[inline]
    pub(super) fn begin_waits(&mut self) {
        self.waits.is_any = false;
    }

    /// Whether this exchange must stay behind a waiting one of its lane.
    #[inline]
    pub(super) fn is_behind_one(&self, exchanges: &[Exchange], at: usize) -> bool {
        self.waits.is_any && {
            let lane = exchanges[at].lane;
            exchanges[..at].iter().any(|one| one.lane == lane && one.stage != Stage::Answered)
        }
    }

    /// Records whether the current exchange waits now.
    #[inline]
    pub(super) fn end_exchange(&mut self, exchange: &mut Exchange) {
        exchange.stage = Stage::Answered;
        if !self.waits.begun.is_empty() {
            self.park(exchange);
        }
    }

    #[cold]
    fn park(&mut self, exchange: &mut Exchange) {
        exchange.waits.clear();
        std::mem::swap(&mut exchange.waits, &mut self.waits.begun);
        let next_ms = exchange.waits.iter().map(|wait| wait.late_ms);
        let next_ms = match exchange.request.atomic {
            true => next_ms.max(),
            false => next_ms.min(),
        };
        // The table may belong to a newer configuration, which shares nothing.
        let now_ms = clock::boot_ms();
        exchange.wait_ms = next_ms.unwrap_or(now_ms).saturating_sub(now_ms).max(1);
        (exchange.stage, exchange.has_waited) = (Stage::Waiting, true);
        self.waits.is_any = true;
    }

    /// Resumes a waiting exchange.
    #[cold]
    pub(super) fn go_on(&mut self, exchange: &mut Exchange, now: Millis) {
        // Deadlines count even if the configuration in force shares nothing any more.
        self.table.boot_clock().set_now(clock::boot_ms());
        let mut waits = std::mem::take(&mut exchange.waits);
        waits.iter_mut().for_each(|wait| self.take_reply(wait));
        let Exchange { request, answers, .. } = exchange;
        if request.atomic {
            self.go_on_together(request, &mut waits, now, answers);
        } else {
            for wait in &mut waits {
                self.go_on_with_item(request, *wait, now, answers);
            }
        }
        waits.clear();
        exchange.waits = waits;
    }

    /// Takes the answer to a need, if it has come.
    fn take_reply(&self, wait: &mut ItemWait) {
        let Phase::Asked(ticket) = wait.phase else { return };
        let end = match self.handle.mailbox() {
            Some(mailbox) => mailbox.poll(ticket).map(NeedEnd::of_reply),
            None => Some(NeedEnd::Lost),
        };
        if let Some(end) = end {
            wait.phase = Phase::after(wait.kind, end);
        }
    }

    /// How an item has waited; `None` if it still waits.
    fn waited(&self, wait: &ItemWait) -> Option<Waited> {
        let is_late = self.table.boot_clock().boot_ms() >= wait.late_ms;
        match wait.phase {
            Phase::CutOff => Some(Waited::CutOff),
            _ if is_late => Some(Waited::TooLong),
            Phase::Asked(_) => None,
            Phase::Unanswered | Phase::Full => Some(Waited::Unanswered),
            Phase::Answered => Some(Waited::Answered),
        }
    }

    fn go_on_with_item(
        &mut self,
        request: &Request,
        mut wait: ItemWait,
        now: Millis,
        answers: &mut Answers,
    ) {
        let Some(waited) = self.waited(&wait) else {
            self.waits.begun.push(wait);
            return;
        };
        self.take_back(&mut wait);
        let item = &request.items()[wait.item];
        if wait.phase == Phase::Full {
            let answer = &mut answers.items[wait.item];
            answer.biz = self.conf.map.find_biz(request.biz(item));
            answer.result = Err(ItemError::Full);
            return self.count_wait(Counter::WaitsMissed);
        }
        let before = self.waits.begun.len();
        let attempt = Attempt { waited, late_ms: Some(wait.late_ms), unmet: &[] };
        self.fetch_head(request, item, 0, waited);
        self.run_one(ItemAt { request, item, at: 0 }, now, &attempt, answers);
        if let Some(answer) = answers.items.pop() {
            answers.items[wait.item] = answer;
        }
        if self.waits.begun.len() == before {
            self.count_wait(wait_counter(waited));
        }
    }

    fn go_on_together(
        &mut self,
        request: &Request,
        waits: &mut [ItemWait],
        now: Millis,
        answers: &mut Answers,
    ) {
        let late_ms = waits.iter().map(|wait| wait.late_ms).max().unwrap_or(0);
        let is_late = self.table.boot_clock().boot_ms() >= late_ms;
        if !is_late && waits.iter().any(|wait| matches!(wait.phase, Phase::Asked(_))) {
            self.waits.begun.extend_from_slice(waits);
            return;
        }
        waits.iter_mut().for_each(|wait| self.take_back(wait));
        let waited = if is_late {
            Waited::TooLong
        } else if waits.iter().all(|wait| wait.phase != Phase::Unanswered) {
            Waited::Answered
        } else {
            Waited::Unanswered
        };
        let attempt = Attempt { waited, late_ms: Some(late_ms), unmet: waits };
        answers.clear();
        self.run_atomic(request, now, &attempt, answers);
        if self.waits.begun.is_empty() {
            let has_met = |phase| waits.iter().any(|wait| wait.phase == phase);
            self.count_wait(if has_met(Phase::Full) {
                Counter::WaitsMissed
            } else if has_met(Phase::CutOff) {
                Counter::WaitsUnreachable
            } else {
                wait_counter(waited)
            });
        }
    }

    /// Marks the items of an atomic request whose needs were not met, once all items are resolved.
    /// Only items that cannot reach the cluster are cut off.
    #[inline]
    pub(super) fn note_unmet(&mut self, attempt: &Attempt<'_>) {
        for wait in attempt.unmet {
            let resolved = &mut self.scratch.resolved[wait.item];
            match wait.phase {
                Phase::CutOff => resolved.waited = Waited::CutOff,
                Phase::Full => {
                    resolved.settled.get_or_insert(EarlyAnswer::Failed(ItemError::Full));
                }
                Phase::Asked(_) | Phase::Answered | Phase::Unanswered => {}
            }
        }
    }

    /// Lets an item wait for what it lacks, and keeps a place for its answer.
    #[cold]
    pub(super) fn wait_alone(
        &mut self,
        ItemAt { request, item, at }: ItemAt<'_>,
        lack: Lack,
        attempt: &Attempt<'_>,
        answers: &mut Answers,
    ) {
        let position = request.items().iter().position(|one| std::ptr::eq(one, item));
        debug_assert!(position.is_some(), "the item is one of its request");
        let lacks = Lacks { lack, together: None };
        let item = ItemAt { request, item, at };
        let wait = self.push_need(item, position.unwrap_or(0), lacks, attempt);
        self.waits.begun.extend(wait);
        // Also if no need can be pushed.
        answers.items.push(busy(self.scratch.resolved[at].biz));
    }

    fn push_need(
        &mut self,
        ItemAt { item, at, .. }: ItemAt<'_>,
        position: usize,
        Lacks { lack, together }: Lacks,
        attempt: &Attempt<'_>,
    ) -> Option<ItemWait> {
        let resolved = &self.scratch.resolved[at];
        let entry = self.table.entry(resolved.biz?);
        let count = item.count.unwrap_or(0);
        let (kind, wait_ms) = match lack {
            Lack::Record(_) => (NeedKind::Fetch, self.table.wait_for_record_ms(entry)?),
            Lack::Figures => (NeedKind::Query, entry.sharing?.wait_ms),
            Lack::Uses if count < 0 => (NeedKind::Window, entry.sharing?.wait_ms),
            Lack::Uses => (NeedKind::Update, entry.sharing?.wait_ms),
        };
        let key = match lack {
            Lack::Record(Scope::Biz) => KeyRef::BIZ,
            Lack::Record(Scope::Key) | Lack::Figures | Lack::Uses => resolved.key.key(),
        };
        let is_first = self.waits.begun.is_empty() && attempt.waited == Waited::NotYet;
        if is_first && self.waits.room == 0 {
            return None;
        }
        let new_ms = self.table.boot_clock().boot_ms().saturating_add(wait_ms);
        let late_ms = attempt.late_ms.unwrap_or(new_ms);
        let need = Need {
            generation: self.generation,
            uses: u64::from(count.max(0).unsigned_abs()),
            deadline_ms: late_ms,
            request: together,
            ..Need::of_key(kind, entry.id, key)
        };
        let ticket = self.handle.mailbox()?.push(&need.letter()).ok()?;
        self.waits.has_pushed = true;
        self.waits.room = self.waits.room.saturating_sub(usize::from(is_first));
        Some(ItemWait { item: position, kind, phase: Phase::Asked(ticket), late_ms })
    }

    /// Lets an atomic request wait for all that it lacks, or answers `busy`. All its needs last
    /// until the request is late.
    #[cold]
    pub(super) fn wait_together(
        &mut self,
        request: &Request,
        lacking: Lacking,
        attempt: &Attempt<'_>,
        answers: &mut Answers,
    ) {
        let waits_ms = (0..request.items().len()).filter_map(|at| self.wait_ms_at(at, lacking));
        let new_ms = self.table.boot_clock().boot_ms() + waits_ms.max().unwrap_or(0);
        let late_ms = Some(attempt.late_ms.unwrap_or(new_ms));
        let attempt = Attempt { late_ms, ..*attempt };
        let is_whole = match lacking {
            Lacking::Uses => self.need_uses(request, &attempt),
            Lacking::Records => self.need_records(request, &attempt),
            Lacking::Busy => false,
        };
        if !is_whole {
            // The request does not begin to wait.
            let is_given_up = attempt.waited == Waited::NotYet && !self.waits.begun.is_empty();
            self.waits.room = self.waits.room.saturating_add(usize::from(is_given_up));
            let mut waits = std::mem::take(&mut self.waits.begun);
            waits.iter_mut().for_each(|wait| self.take_back(wait));
            waits.clear();
            self.waits.begun = waits;
            return self.fail_all(request, ItemError::Busy, answers);
        }
        // The answers follow when the request runs again.
        answers.clear();
    }

    /// The entry of a resolved item that is not answered yet.
    fn entry_at(&self, at: usize) -> Option<&Entry> {
        let resolved = &self.scratch.resolved[at];
        let biz = resolved.biz.filter(|_| resolved.settled.is_none());
        biz.map(|biz| self.table.entry(biz))
    }

    /// How long such an item may wait for the resources that it lacks.
    fn wait_ms_at(&self, at: usize, lacking: Lacking) -> Option<u64> {
        let entry = self.entry_at(at)?;
        match lacking {
            Lacking::Records => self.table.wait_for_record_ms(entry),
            Lacking::Uses | Lacking::Busy => entry.sharing.map(|sharing| sharing.wait_ms),
        }
    }

    /// Pushes needs for the uses of all shared items, so that the whole request is known where they
    /// are answered. A Query pushes needs for its `exact` items only.
    fn need_uses(&mut self, request: &Request, attempt: &Attempt<'_>) -> bool {
        let lack = match request.command {
            Command::Query => Lack::Figures,
            Command::Update => Lack::Uses,
        };
        let is_shared = |service: &Service, at: usize| match request.command {
            Command::Query => service.asks_first(Command::Query, at),
            Command::Update => service.entry_at(at).is_some_and(|entry| entry.sharing.is_some()),
        };
        let needs = (0..request.items().len()).filter(|&at| is_shared(self, at)).count();
        self.waits.requests += 1;
        let number = self.waits.requests & ((1 << 48) - 1);
        let together = NeededTogether { number, needs: needs.min(usize::from(u16::MAX)) as u16 };
        self.need_all(request, is_shared, Lacks { lack, together: Some(together) }, attempt)
    }

    /// Pushes needs for the records of all items that may have records in the cluster and, where
    /// the cluster makes room, for the records of their whole businesses. Who answers sees which of
    /// them are here.
    fn need_records(&mut self, request: &Request, attempt: &Attempt<'_>) -> bool {
        let is_kept = |service: &Service, at: usize| {
            let has_key = service.scratch.resolved[at].key_at.is_some();
            has_key && service.entry_at(at).is_some_and(|entry| entry.remote.is_some())
        };
        let is_whole = |service: &Service, at: usize| {
            service.entry_at(at).is_some_and(|entry| entry.makes_room() && entry.whole.is_some())
        };
        let of = |scope| Lacks { lack: Lack::Record(scope), together: None };
        self.need_all(request, is_kept, of(Scope::Key), attempt)
            && self.need_all(request, is_whole, of(Scope::Biz), attempt)
    }

    /// Pushes a need for each of these items. Returns false if one cannot be pushed.
    fn need_all(
        &mut self,
        request: &Request,
        is_one: impl Fn(&Service, usize) -> bool,
        lacks: Lacks,
        attempt: &Attempt<'_>,
    ) -> bool {
        (0..request.items().len()).all(|at| {
            if !is_one(self, at) {
                return true;
            }
            let item = ItemAt { request, item: &request.items()[at], at };
            let wait = self.push_need(item, at, lacks, attempt);
            self.waits.begun.extend(wait);
            wait.is_some()
        })
    }

    /// Whether some item of an atomic request asks the cluster before all are answered.
    #[inline]
    pub(super) fn asks_first_together(&self, request: &Request) -> Option<Lacking> {
        let asks = |at| self.asks_first(request.command, at);
        let is_query = request.command == Command::Query;
        (is_query && (0..request.items().len()).any(asks)).then_some(Lacking::Uses)
    }

    /// Whether an item asks the cluster before it is answered.
    #[inline]
    pub(super) fn asks_first(&self, command: Command, at: usize) -> bool {
        command == Command::Query && {
            let resolved = &self.scratch.resolved[at];
            let entry = resolved.biz.filter(|_| resolved.settled.is_none());
            entry.is_some_and(|biz| resolved.asks_first(self.table.entry(biz)))
        }
    }
}
