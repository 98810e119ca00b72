//! Items that wait for shared uses, or for records that the cluster keeps. Their wants go to the
//! process that talks to the cluster. The items run again when the wants are answered, or when they
//! have waited as long as they may.
//!
//! Invariant: an item that waits has charged nothing. Each of its wants is taken back exactly once:
//! when it is answered, when the item is late, or when its connection is gone.

use std::sync::Arc;

use frs_base::clock::{self, Millis};
use frs_conf::Scope;
use frs_conf::key::{KeyRef, MAX_KEY_WORDS};
use frs_store::layout::node;
use frs_store::{SharedBell, Ticket};

use super::atomic::Lacking;
use super::resolved::{EarlyAnswer, WaitState};
use super::tally::WaitOutcome;
use crate::need::{Need, NeedEnd, NeedKind, NeededTogether};
use crate::table::Entry;
use crate::{Answer, Answers, Command, Exchange, ItemError, Request, Service, Stage};

/// An item that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemWait {
    /// The position of the item in its request.
    item: usize,
    /// It waits for a record, not for a lease.
    is_for_record: bool,
    /// Its want. `None` once the want is settled.
    ticket: Option<Ticket>,
    /// A ledger has answered.
    has_ledger_answered: bool,
    /// Why it waits no longer, though nothing has come.
    end: Option<WaitEnd>,
    /// When it is late, CLOCK_BOOTTIME.
    late_ms: u64,
}

/// The reason why the want of an item fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitEnd {
    /// The cluster cannot be reached.
    CutOff,
    /// Its node has no room.
    Full,
}

/// The resource that an item lacks.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wish {
    /// Uses of a lease; for an atomic request, together with its other wants.
    Lease(NeedKind, Option<NeededTogether>),
    /// Its node of this scope.
    Record(Scope),
}

/// The state of the items that wait.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    /// The waiting items of the current exchange.
    own: Vec<ItemWait>,
    /// The wait state of the items that run now.
    pub(super) state: WaitState,
    /// The position of the item that runs now.
    pub(super) item: usize,
    /// How many more exchanges may begin to wait.
    room: usize,
    /// An exchange of the current call waits.
    is_any: bool,
    /// The number of the last atomic request with wants.
    requests: u64,
    /// When the resumed exchange is late, CLOCK_BOOTTIME. `None` for a new exchange.
    late_ms: Option<u64>,
    /// The positions of its items whose wants failed, with the reasons, if it is atomic.
    ended: Vec<(usize, WaitEnd)>,
    /// Wants have been pushed since the courier was last called.
    pub(super) has_pushed: bool,
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
        let busy = Answer { biz: None, result: Err(ItemError::Busy), details: 0..0, action: 0 };
        answers.items.resize(request.items().len(), busy);
    }
}

impl Service {
    /// The bell that wakes a thread when an exchange may go on, while other threads use the
    /// service. For programs: their bell is a futex.
    #[cold]
    pub fn shared_bell(&self) -> Option<&Arc<SharedBell>> {
        self.handle.shared_bell()
    }

    /// Calls the courier if wants were pushed. For programs.
    #[inline]
    pub fn call_courier(&mut self) {
        if self.take_pushed() {
            self.handle.runtime().programs_bell().ring();
        }
    }

    /// Whether all items of a waiting exchange are late. An exchange that waits for a record is
    /// never late: the cluster has been asked, and may have no record.
    #[cold]
    pub fn is_late(&self, exchange: &Exchange) -> bool {
        let now_ms = clock::boot_ms();
        exchange.waits.iter().all(|wait| now_ms >= wait.late_ms && !wait.is_for_record)
    }

    /// Sets how many more exchanges may wait. Further ones are answered `busy`.
    pub fn set_wait_room(&mut self, room: usize) {
        self.waits.room = room;
    }

    /// Whether wants were pushed since the last call of this function. The courier must then be
    /// called.
    #[inline]
    pub fn take_pushed(&mut self) -> bool {
        std::mem::take(&mut self.waits.has_pushed)
    }

    /// Whether the resources that a waiting exchange lacks may have come. Running it before does no
    /// harm.
    pub fn may_go_on(&self, exchange: &Exchange) -> bool {
        let Some(mailbox) = self.handle.mailbox() else { return true };
        let is_done = |wait: &ItemWait| wait.ticket.is_none_or(|ticket| mailbox.is_done(ticket));
        if exchange.request.atomic {
            exchange.waits.iter().all(is_done)
        } else {
            exchange.waits.iter().any(is_done)
        }
    }

    /// Gives up a waiting exchange that will not run again: takes back its wants.
    pub fn give_up(&mut self, exchange: &mut Exchange) {
        let mut waits = std::mem::take(&mut exchange.waits);
        waits.iter_mut().for_each(|wait| self.take_back(wait));
        waits.clear();
        (exchange.waits, exchange.stage) = (waits, Stage::Answered);
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
            rest.push(request.biz(item), request.key(item), request.options(item));
            wait.item = nth;
            // The answer until it has waited, as before.
            let result = Err(ItemError::Busy);
            answers.items.push(Answer { biz: None, result, details: 0..0, action: 0 });
        }
        *request = rest;
    }

    fn take_back(&self, wait: &mut ItemWait) {
        if let (Some(ticket), Some(mailbox)) = (wait.ticket.take(), self.handle.mailbox()) {
            mailbox.give_up(ticket);
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
        if !self.waits.own.is_empty() {
            self.park(exchange);
        }
    }

    #[cold]
    fn park(&mut self, exchange: &mut Exchange) {
        exchange.waits.clear();
        std::mem::swap(&mut exchange.waits, &mut self.waits.own);
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
        self.set_times(now, clock::boot_ms());
        let mut waits = std::mem::take(&mut exchange.waits);
        waits.iter_mut().for_each(|wait| self.hear(wait));
        let Exchange { request, answers, .. } = exchange;
        if request.atomic {
            self.go_on_together(request, &mut waits, now, answers);
        } else {
            for wait in &mut waits {
                self.go_on_with_item(request, *wait, now, answers);
            }
        }
        (self.waits.state, self.waits.late_ms) = (WaitState::New, None);
        waits.clear();
        exchange.waits = waits;
    }

    /// Records the result of a want.
    fn hear(&self, wait: &mut ItemWait) {
        let Some(ticket) = wait.ticket else { return };
        let heard = match self.handle.mailbox() {
            Some(mailbox) => mailbox.poll(ticket).map(NeedEnd::of_reply),
            None => Some(NeedEnd::Lost),
        };
        if let Some(end) = heard {
            wait.ticket = None;
            wait.has_ledger_answered = end == NeedEnd::Answered && !wait.is_for_record;
            wait.end = match end {
                NeedEnd::Unreachable => Some(WaitEnd::CutOff),
                NeedEnd::Full => Some(WaitEnd::Full),
                NeedEnd::Answered | NeedEnd::Unserved | NeedEnd::Lost => wait.end,
            };
        }
    }

    /// The wait state of an item; `None` if it still waits.
    fn waited(&self, wait: &ItemWait) -> Option<WaitState> {
        let is_late = self.table.boot_clock().boot_ms() >= wait.late_ms;
        match wait {
            ItemWait { end: Some(WaitEnd::CutOff), .. } => Some(WaitState::CutOff),
            _ if is_late => Some(WaitState::Late),
            ItemWait { ticket: Some(_), .. } => None,
            ItemWait { has_ledger_answered: false, .. } => Some(WaitState::Unheard),
            _ => Some(WaitState::Parked),
        }
    }

    fn go_on_with_item(
        &mut self,
        request: &Request,
        mut wait: ItemWait,
        now: Millis,
        answers: &mut Answers,
    ) {
        let Some(state) = self.waited(&wait) else {
            self.waits.own.push(wait);
            return;
        };
        self.take_back(&mut wait);
        if wait.end == Some(WaitEnd::Full) {
            let answer = &mut answers.items[wait.item];
            answer.biz = self.conf.map.find_biz(request.biz(&request.items()[wait.item]));
            answer.result = Err(ItemError::Full);
            return self.count_wait(WaitOutcome::Missed);
        }
        let before = self.waits.own.len();
        (self.waits.state, self.waits.late_ms) = (state, Some(wait.late_ms));
        let item = &request.items()[wait.item];
        self.waits.item = wait.item;
        self.fetch_head(request, item, 0);
        self.run_one(request, item, 0, now, answers);
        if let Some(answer) = answers.items.pop() {
            answers.items[wait.item] = answer;
        }
        if self.waits.own.len() == before {
            self.count_wait(WaitOutcome::of(state));
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
        if !is_late && waits.iter().any(|wait| wait.ticket.is_some()) {
            self.waits.own.extend_from_slice(waits);
            return;
        }
        waits.iter_mut().for_each(|wait| self.take_back(wait));
        // Only the items whose ledgers cannot be reached are cut off.
        let ended = waits.iter().filter_map(|wait| Some((wait.item, wait.end?)));
        self.waits.ended.extend(ended);
        let is_heard = |wait: &ItemWait| wait.has_ledger_answered || wait.end.is_some();
        self.waits.state = if is_late {
            WaitState::Late
        } else if waits.iter().all(is_heard) {
            WaitState::Parked
        } else {
            WaitState::Unheard
        };
        self.waits.late_ms = Some(late_ms);
        answers.clear();
        self.run_atomic(request, now, answers);
        if self.waits.own.is_empty() {
            let has_met = |end| self.waits.ended.iter().any(|&(_, own)| own == end);
            self.count_wait(if has_met(WaitEnd::Full) {
                WaitOutcome::Missed
            } else if has_met(WaitEnd::CutOff) {
                WaitOutcome::Unreachable
            } else {
                WaitOutcome::of(self.waits.state)
            });
        }
        self.waits.ended.clear();
    }

    /// Marks the items of an atomic request whose wants failed, once all items are resolved.
    #[inline]
    pub(super) fn note_ended(&mut self) {
        for &(item, end) in &self.waits.ended {
            let resolved = &mut self.scratch.resolved[item];
            match end {
                WaitEnd::CutOff => resolved.wait = WaitState::CutOff,
                WaitEnd::Full => {
                    resolved.settled.get_or_insert(EarlyAnswer::Failed(ItemError::Full));
                }
            }
        }
    }

    /// Pushes a want for the resource that an item lacks, and keeps a place for its answer.
    #[cold]
    pub(super) fn wait_alone(
        &mut self,
        request: &Request,
        at: usize,
        wish: Wish,
        answers: &mut Answers,
    ) {
        let biz = self.scratch.resolved[at].biz;
        let pushed = self.push_want(request, self.waits.item, at, wish);
        self.waits.own.extend(pushed);
        // The answer until the item has waited, and also if no want can be pushed.
        let result = Err(ItemError::Busy);
        answers.items.push(Answer { biz, result, details: 0..0, action: 0 });
    }

    fn push_want(
        &mut self,
        request: &Request,
        item: usize,
        at: usize,
        wish: Wish,
    ) -> Option<ItemWait> {
        let resolved = &self.scratch.resolved[at];
        let entry = self.table.entry(resolved.biz?);
        let (kind, together, wait_ms) = match wish {
            Wish::Lease(kind, together) => (kind, together, entry.sharing?.wait_ms),
            Wish::Record(_) => (NeedKind::Fetch, None, entry.remote?.wait_ms),
        };
        let key = match wish {
            Wish::Record(Scope::Biz) => KeyRef::BIZ,
            Wish::Record(Scope::Key) | Wish::Lease(..) => resolved.key.key(),
        };
        let is_first = self.waits.own.is_empty() && self.waits.state == WaitState::New;
        if is_first && self.waits.room == 0 {
            return None;
        }
        let mut field = [0; MAX_KEY_WORDS];
        field[..key.words().len()].copy_from_slice(key.words());
        let new_ms = self.table.boot_clock().boot_ms().saturating_add(wait_ms);
        let late_ms = self.waits.late_ms.unwrap_or(new_ms);
        let count = request.items()[item].count.unwrap_or(0);
        let kind = match kind {
            NeedKind::Update if count < 0 => NeedKind::Window,
            kind => kind,
        };
        let need = Need {
            kind,
            key_word: node::key_word(entry.id, key.form() as u8, key.bytes()),
            field,
            generation: self.generation,
            uses: u64::from(count.max(0).unsigned_abs()),
            deadline_ms: late_ms,
            request: together,
        };
        let ticket = self.handle.mailbox()?.push(&need.letter()).ok()?;
        self.waits.has_pushed = true;
        self.waits.room = self.waits.room.saturating_sub(usize::from(is_first));
        let is_for_record = kind == NeedKind::Fetch;
        let ticket = Some(ticket);
        Some(ItemWait {
            item,
            is_for_record,
            ticket,
            has_ledger_answered: false,
            end: None,
            late_ms,
        })
    }

    /// Lets an atomic request wait for all that it lacks, or answers `busy`. All its wants last
    /// until the request is late.
    #[cold]
    pub(super) fn wait_together(
        &mut self,
        request: &Request,
        lacking: Lacking,
        answers: &mut Answers,
    ) {
        let waits_ms = (0..request.items().len()).filter_map(|at| self.wait_ms_at(at, lacking));
        let new_ms = self.table.boot_clock().boot_ms() + waits_ms.max().unwrap_or(0);
        let was_new = self.waits.late_ms.is_none();
        self.waits.late_ms.get_or_insert(new_ms);
        let is_whole = match lacking {
            Lacking::Leases => self.want_leases(request),
            Lacking::Records => self.want_records(request),
            Lacking::Busy => false,
        };
        if was_new {
            self.waits.late_ms = None;
        }
        if !is_whole {
            // The request does not begin to wait.
            let is_given_up = self.waits.state == WaitState::New && !self.waits.own.is_empty();
            self.waits.room = self.waits.room.saturating_add(usize::from(is_given_up));
            let mut waits = std::mem::take(&mut self.waits.own);
            waits.iter_mut().for_each(|wait| self.take_back(wait));
            waits.clear();
            self.waits.own = waits;
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
            Lacking::Records => entry.remote.map(|remote| remote.wait_ms),
            Lacking::Leases | Lacking::Busy => entry.sharing.map(|sharing| sharing.wait_ms),
        }
    }

    /// Pushes wants for the leases of all shared items, so that the courier knows the whole
    /// request. A Query pushes wants for its `exact` items only.
    fn want_leases(&mut self, request: &Request) -> bool {
        let kind = match request.command {
            Command::Query => NeedKind::Query,
            Command::Update => NeedKind::Update,
        };
        let is_shared = |service: &Service, at: usize| match request.command {
            Command::Query => service.asks_first(Command::Query, at),
            Command::Update => service.entry_at(at).is_some_and(|entry| entry.sharing.is_some()),
        };
        let needs = (0..request.items().len()).filter(|&at| is_shared(self, at)).count();
        self.waits.requests += 1;
        let number = self.waits.requests & ((1 << 48) - 1);
        let together = NeededTogether { number, needs: needs.min(usize::from(u16::MAX)) as u16 };
        self.want_all(request, is_shared, Wish::Lease(kind, Some(together)))
    }

    /// Pushes wants for the records of all items that may have records in the cluster and, if
    /// records are spilled, for the records of their whole businesses. The courier sees which of
    /// them are here.
    fn want_records(&mut self, request: &Request) -> bool {
        let is_kept = |service: &Service, at: usize| {
            let has_key = service.scratch.resolved[at].key_at.is_some();
            has_key && service.entry_at(at).is_some_and(|entry| entry.remote.is_some())
        };
        let is_whole = |service: &Service, at: usize| {
            service.entry_at(at).is_some_and(|entry| entry.makes_room() && entry.whole.is_some())
        };
        self.want_all(request, is_kept, Wish::Record(Scope::Key))
            && self.want_all(request, is_whole, Wish::Record(Scope::Biz))
    }

    /// Pushes a want for each of these items. Returns false if one cannot be pushed.
    fn want_all(
        &mut self,
        request: &Request,
        is_one: impl Fn(&Service, usize) -> bool,
        wish: Wish,
    ) -> bool {
        (0..request.items().len()).all(|at| {
            if !is_one(self, at) {
                return true;
            }
            let wait = self.push_want(request, at, at, wish);
            self.waits.own.extend(wait);
            wait.is_some()
        })
    }

    /// Whether some item of an atomic request asks the ledger before all are answered.
    #[inline]
    pub(super) fn asks_first_together(&self, request: &Request) -> Option<Lacking> {
        let asks = |at| self.asks_first(request.command, at);
        let is_query = request.command == Command::Query;
        (is_query && (0..request.items().len()).any(asks)).then_some(Lacking::Leases)
    }

    /// Whether an item asks the ledger before it is answered.
    #[inline]
    pub(super) fn asks_first(&self, command: Command, at: usize) -> bool {
        command == Command::Query && {
            let resolved = &self.scratch.resolved[at];
            let entry = resolved.biz.filter(|_| resolved.settled.is_none());
            entry.is_some_and(|biz| resolved.asks_first(self.table.entry(biz)))
        }
    }
}
