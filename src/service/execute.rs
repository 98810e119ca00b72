//! Running a request against the store: each item its own transaction, or all of them one.

mod atomic;

use std::sync::Arc;

use super::{
    Answer, Answers, Command, Exchange, Item, ItemError, Request, Service,
    table::{Entry, Table},
};
use crate::clock::Millis;
use crate::conf::{Conf, Mode, Scope};
use crate::key::{KeyField, KeyRef};
use crate::limit::{Judgement, LimitFigures, List, Rules, States, Verdict};
use crate::store::layout::slot::INTENTS_MAX;
use crate::store::{BizRow, Keep, NodeIndex, Outcome, Refused, Transaction, Wanted};
use atomic::{All, Judged};

/// Items by which a key-node's head is asked for before its node, and the node before it is used:
/// so long memory takes.
const AHEAD: usize = 6;
/// Resolved items in flight: a power of two above twice that.
const RING: usize = 16;
/// A generation can change while one is taken; this often an item starts again.
const RETRIES: usize = 3;

/// Buffers of a service, reused.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    resolved: Vec<Resolved>,
    /// The biz named last: most requests name the same again.
    last_biz: LastBiz,
    wanted: Vec<Wanted>,
    judged: Vec<Option<Judged>>,
}

/// A biz as a request named it, and what that was in a generation.
#[derive(Debug, Default)]
struct LastBiz {
    generation: u64,
    name: Vec<u8>,
    index: Option<usize>,
}

impl LastBiz {
    #[inline]
    fn find(&mut self, conf: &Conf, generation: u64, name: &[u8]) -> Option<usize> {
        if self.generation != generation || self.name != name {
            self.generation = generation;
            self.name.clear();
            self.name.extend_from_slice(name);
            let name = std::str::from_utf8(name).ok();
            self.index = name.and_then(|name| conf.map.find_biz(name));
        }
        self.index
    }
}

/// An item made ready: its biz, its key and where that leads.
#[derive(Debug, Default)]
struct Resolved {
    generation: u64,
    biz: Option<usize>,
    key: KeyField,
    /// What the biz's lists have for the key.
    listing: Option<usize>,
    key_at: Option<Wanted>,
    whole_at: Option<Wanted>,
    /// Where the key's node seems to stand in its chain.
    guess: Option<usize>,
    settled: Option<Settled>,
}

/// What answers an item without a look at its states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Settled {
    /// It failed.
    Failed(ItemError),
    /// A list has decided.
    Listed(List),
    /// Its biz is off.
    Off,
    /// Nothing is limited at the moment.
    Degraded,
}

/// The two nodes of an item.
#[derive(Debug, Clone, Copy)]
struct Nodes {
    key: Option<NodeIndex>,
    whole: Option<NodeIndex>,
}

/// What judging an item has come to.
#[derive(Debug, Clone, Copy)]
struct Done {
    judgement: Judgement,
    charged: bool,
}

impl Scratch {
    #[inline]
    fn make_room(&mut self, items: usize) {
        if self.resolved.len() < items {
            self.resolved.resize_with(items, Resolved::default);
        }
    }
}

impl Resolved {
    /// Errors in order of precedence: biz, key, count.
    #[inline]
    fn resolve(
        &mut self,
        (table, generation): (&Table, u64),
        biz: Option<usize>,
        key: &[u8],
        item: &Item,
    ) {
        (self.generation, self.biz) = (generation, biz);
        (self.listing, self.key_at, self.whole_at, self.guess) = (None, None, None, None);
        self.settled = self.locate(table, key, item).err();
    }

    #[inline]
    fn locate(&mut self, table: &Table, key: &[u8], item: &Item) -> Result<(), Settled> {
        let biz = self.biz.ok_or(Settled::Failed(ItemError::UnknownBiz))?;
        let entry = table.entry(biz);
        let encoded = entry.encode(key, &mut self.key);
        encoded.map_err(|_| Settled::Failed(ItemError::BadKey))?;
        if item.key_is_number && !entry.takes_numbers() {
            return Err(Settled::Failed(ItemError::BadKey));
        }
        item.count.ok_or(Settled::Failed(ItemError::BadCount))?;
        if table.degraded {
            return Err(Settled::Degraded);
        }
        if entry.mode == Mode::Off {
            return Err(Settled::Off);
        }
        self.listing = entry.listing(key);
        if let Some(list) = entry.decided(self.listing) {
            return Err(Settled::Listed(list));
        }
        if !entry.is_available() {
            return Err(Settled::Failed(ItemError::Store));
        }
        self.key_at = entry.locate(&self.key.key());
        self.whole_at = entry.whole;
        Ok(())
    }

    #[inline]
    fn wanted(&self) -> impl Iterator<Item = &Wanted> {
        self.key_at.iter().chain(&self.whole_at)
    }
}

impl Settled {
    /// The answer, where the item's biz has this mode.
    fn result(self, mode: Mode) -> Result<Verdict, ItemError> {
        let unjudged = Verdict::UNJUDGED;
        Ok(match self {
            Settled::Failed(error) => return Err(error),
            Settled::Off => unjudged,
            Settled::Degraded => Verdict { degraded: true, ..unjudged },
            Settled::Listed(list) => {
                let (refused, shadow) = (list == List::Deny, mode == Mode::Shadow);
                let (limited, shadow) = (refused && !shadow, refused && shadow);
                Verdict { limited, shadow, list: Some(list), ..unjudged }
            }
        })
    }

    /// Does it keep an atomic request from being charged? What has failed does, forced or not.
    fn refuses(self, mode: Mode, force: bool) -> bool {
        self.result(mode).map_or(true, |verdict| verdict.limited && !force)
    }
}

impl Service {
    /// Runs a request: one transaction an item, or one for all of them if it is atomic. There is
    /// an answer for each item, in order.
    pub fn run(&mut self, request: &Request, now: Millis, answers: &mut Answers) {
        let generation = self.generation;
        self.run_uncounted(request, now, answers);
        if self.generation != generation {
            self.name_again(request, answers);
        }
        self.count(request, answers);
    }

    fn run_uncounted(&mut self, request: &Request, now: Millis, answers: &mut Answers) {
        answers.clear();
        self.table.set_now(now);
        if request.atomic {
            self.run_atomic(request, now, answers);
        } else {
            self.run_each(request, now, answers);
        }
    }

    /// Gives the answers the indices of the configuration in force now.
    #[cold]
    fn name_again(&self, request: &Request, answers: &mut Answers) {
        for (item, answer) in request.items().iter().zip(&mut answers.items) {
            answer.biz = self.conf.map.find_biz(request.biz(item));
        }
    }

    /// Counts answers by business and outcome: a load and a store each, in the slot's own lines.
    /// Their indices are those of the configuration in force now.
    #[inline]
    fn count(&self, request: &Request, answers: &Answers) {
        let Some(counters) = self.handle.counters() else { return };
        let is_update = request.command == Command::Update;
        for Answer { biz, result, .. } in &answers.items {
            let entry = biz.and_then(|biz| self.table.get(biz));
            let row = entry.map_or(BizRow::UNKNOWN, |entry| entry.row);
            let outcome = match result {
                Ok(verdict) => outcome_of(verdict),
                Err(error) => {
                    counters.count_item_error(*error as usize);
                    Outcome::Error
                }
            };
            counters.count_item(row, is_update, outcome);
        }
    }

    /// Runs several requests, in order, each as [`Service::run`] does; the memory of those to come is
    /// fetched meanwhile.
    pub fn run_all(&mut self, exchanges: &mut [Exchange], now: Millis) {
        let generation = self.generation;
        if exchanges.len() > 1 && exchanges.iter().all(|exchange| exchange.request.is_single()) {
            self.run_singles(exchanges, now);
        } else {
            for Exchange { request, answers } in &mut *exchanges {
                self.run_uncounted(request, now, answers);
            }
        }
        for Exchange { request, answers } in exchanges {
            if self.generation != generation {
                self.name_again(request, answers);
            }
            self.count(request, answers);
        }
    }

    fn run_singles(&mut self, exchanges: &mut [Exchange], now: Millis) {
        self.scratch.make_room(RING);
        self.table.set_now(now);
        for index in 0..exchanges.len() + 2 * AHEAD {
            if let Some(Exchange { request, .. }) = exchanges.get(index) {
                self.fetch_head(request, &request.items()[0], index % RING);
            }
            if let Some(near) = index.checked_sub(AHEAD).filter(|near| *near < exchanges.len()) {
                self.fetch_node(near % RING);
            }
            if let Some(ready) = index.checked_sub(2 * AHEAD) {
                let Exchange { request, answers } = &mut exchanges[ready];
                answers.clear();
                self.run_one(request, &request.items()[0], ready % RING, now, answers);
            }
        }
    }

    /// Resolves an item and asks for the head that it leads to.
    #[inline]
    fn fetch_head(&mut self, request: &Request, item: &Item, at: usize) {
        self.resolve(request, item, at);
        let resolved = &self.scratch.resolved[at];
        resolved.wanted().for_each(|wanted| self.handle.prefetch_head(wanted));
    }

    /// Asks for the node of an item whose head was asked for a while ago.
    #[inline]
    fn fetch_node(&mut self, at: usize) {
        let resolved = &mut self.scratch.resolved[at];
        // A newer configuration may have come in between: its places are others.
        if resolved.generation == self.generation {
            let fetch = |wanted: &Wanted| self.handle.prefetch_node(wanted);
            resolved.guess = resolved.key_at.as_ref().and_then(fetch);
            resolved.whole_at.as_ref().and_then(fetch);
        }
    }

    #[inline]
    fn run_each(&mut self, request: &Request, now: Millis, answers: &mut Answers) {
        let items = request.items();
        self.scratch.make_room(RING);
        if let [item] = items {
            self.resolve(request, item, 0);
            return self.run_one(request, item, 0, now, answers);
        }
        for index in 0..items.len() + 2 * AHEAD {
            if let Some(item) = items.get(index) {
                self.fetch_head(request, item, index % RING);
            }
            if let Some(near) = index.checked_sub(AHEAD).filter(|near| *near < items.len()) {
                self.fetch_node(near % RING);
            }
            if let Some(ready) = index.checked_sub(2 * AHEAD) {
                self.run_one(request, &items[ready], ready % RING, now, answers);
            }
        }
    }

    #[inline]
    fn resolve(&mut self, request: &Request, item: &Item, at: usize) {
        let Scratch { resolved, last_biz, .. } = &mut self.scratch;
        let (biz, key) = request.bytes(item);
        let biz = last_biz.find(&self.conf, self.generation, biz);
        resolved[at].resolve((&self.table, self.generation), biz, key, item);
    }

    #[inline]
    fn run_one(
        &mut self,
        request: &Request,
        item: &Item,
        at: usize,
        now: Millis,
        answers: &mut Answers,
    ) {
        let (answered, from) = (answers.items.len(), answers.details.len());
        let mut error = ItemError::Busy;
        for _ in 0..RETRIES {
            if self.scratch.resolved[at].generation != self.generation {
                self.resolve(request, item, at);
            }
            if self.scratch.resolved[at].settled.is_some() {
                return self.answer_settled(at, answers);
            }
            match self.try_one(request.command, item, at, now, answers) {
                Ok(Ok(())) => return,
                Err(Refused::Newer) if self.take_newer() => self.table.set_now(now),
                Err(Refused::Newer | Refused::Unavailable) => {
                    error = ItemError::Store;
                    break;
                }
                Err(Refused::Busy) => break,
                Ok(Err(failed)) => {
                    error = failed;
                    break;
                }
            }
        }
        answers.items.truncate(answered);
        answers.details.truncate(from);
        self.scratch.resolved[at].settled = Some(Settled::Failed(error));
        self.answer_settled(at, answers);
    }

    #[cold]
    fn answer_settled(&mut self, at: usize, answers: &mut Answers) {
        let Resolved { biz, settled, .. } = self.scratch.resolved[at];
        // After reloads in a row the index may be an older table's.
        let entry = biz.and_then(|biz| self.table.get(biz));
        let mode = entry.map_or(Mode::Enforce, |entry| entry.mode);
        let result = settled.unwrap_or(Settled::Off).result(mode);
        answers.items.push(Answer { biz, result, details: 0..0, action: 0 });
    }

    /// Appends the answer on an item, unless the item fails.
    #[inline]
    fn try_one(
        &mut self,
        command: Command,
        item: &Item,
        at: usize,
        now: Millis,
        answers: &mut Answers,
    ) -> Result<Result<(), ItemError>, Refused> {
        let resolved = &self.scratch.resolved[at];
        let one = One::of(&self.table, resolved, item, now);
        let (answered, from) = (answers.items.len(), answers.details.len());
        if let (Some(key_at), None) = (&resolved.key_at, &resolved.whole_at) {
            let (key, time) = ((one.entry.id, &resolved.key.key()), (self.generation, now));
            let done = self.handle.with_found((key_at, resolved.guess), key, time, |words| {
                one.run_found(command, words, answers)
            })?;
            if done == Some(true) {
                return Ok(Ok(()));
            }
            answers.items.truncate(answered);
            answers.details.truncate(from);
        }
        let mut wanted = resolved.wanted().copied();
        // One or two key-nodes: a biz needs at least one node.
        let first = wanted.next().ok_or(Refused::Unavailable)?;
        let both;
        let wanted = match wanted.next() {
            Some(second) => {
                both = [first, second];
                &both[..]
            }
            None => std::slice::from_ref(&first),
        };
        let transaction = self.handle.begin(wanted, self.generation)?;
        Ok(one.run(command, transaction, &mut answers.details).map(|verdict| {
            one.answer(verdict, from, answers);
        }))
    }

    fn run_atomic(&mut self, request: &Request, now: Millis, answers: &mut Answers) {
        for _ in 0..RETRIES {
            self.resolve_all(request);
            match self.try_atomic(request, now, answers) {
                Ok(()) => return,
                Err(Refused::Newer) if self.take_newer() => self.table.set_now(now),
                Err(Refused::Newer | Refused::Unavailable) => {
                    return self.fail_all(request, ItemError::Store, answers);
                }
                Err(Refused::Busy) => return self.fail_all(request, ItemError::Busy, answers),
            }
        }
        self.fail_all(request, ItemError::Busy, answers);
    }

    fn resolve_all(&mut self, request: &Request) {
        self.scratch.make_room(request.items().len());
        for (at, item) in request.items().iter().enumerate() {
            self.resolve(request, item, at);
        }
        let Scratch { resolved, wanted, .. } = &mut self.scratch;
        wanted.clear();
        for resolved in &mut resolved[..request.items().len()] {
            if resolved.wanted().any(|wanted| self.handle.is_quarantined(wanted)) {
                resolved.settled = Some(Settled::Failed(ItemError::Store));
            } else {
                wanted.extend(resolved.wanted());
            }
        }
    }

    /// Answers an atomic request that could not begin: all items are busy, or those that need the
    /// store cannot have it.
    #[cold]
    fn fail_all(&mut self, request: &Request, error: ItemError, answers: &mut Answers) {
        answers.clear();
        answers.refused = true;
        for at in 0..request.items().len() {
            let settled = &mut self.scratch.resolved[at].settled;
            if error == ItemError::Busy || settled.is_none() {
                *settled = Some(Settled::Failed(error));
            }
            self.answer_settled(at, answers);
        }
    }

    fn try_atomic(
        &mut self,
        request: &Request,
        now: Millis,
        answers: &mut Answers,
    ) -> Result<(), Refused> {
        answers.items.clear();
        answers.details.clear();
        let Scratch { resolved, wanted, judged, .. } = &mut self.scratch;
        if wanted.len() > INTENTS_MAX {
            return Err(log_too_large());
        }
        let all = All { table: &self.table, request, resolved, now };
        let done = all.run(self.handle.begin(wanted, self.generation)?, judged, answers);
        match done {
            Ok(()) => Ok(()),
            Err(crate::store::TooLarge) => Err(log_too_large()),
        }
    }
}

/// What a verdict is counted as: what decided, before what came of it.
#[inline]
fn outcome_of(verdict: &Verdict) -> Outcome {
    match verdict {
        Verdict { degraded: true, .. } => Outcome::Degraded,
        Verdict { list: Some(_), .. } => Outcome::Listed,
        Verdict { shadow: true, .. } => Outcome::Shadowed,
        Verdict { banned: true, .. } => Outcome::Banned,
        Verdict { limited: true, .. } => Outcome::Limited,
        _ => Outcome::Allowed,
    }
}

#[cold]
fn log_too_large() -> Refused {
    tracing::error!("a transaction did not fit the undo log: nothing was changed");
    Refused::Unavailable
}

/// One item with what it needs.
struct One<'a> {
    table: &'a Table,
    entry: &'a Entry,
    rules: &'a Rules,
    resolved: &'a Resolved,
    item: &'a Item,
    now: Millis,
}

impl<'a> One<'a> {
    #[inline]
    fn of(table: &'a Table, resolved: &'a Resolved, item: &'a Item, now: Millis) -> One<'a> {
        // Only an item without an error goes on, and that has a biz.
        let entry = table.entry(resolved.biz.unwrap_or(0));
        let rules = entry.rules(resolved.listing);
        One { table, entry, rules, resolved, item, now }
    }

    #[inline]
    fn count(&self) -> i32 {
        // Resolving has refused items without a count.
        self.item.count.unwrap_or(0)
    }

    /// The item's nodes, as this configuration sees them.
    #[inline]
    fn nodes(&self, transaction: &mut Transaction<'_>) -> Nodes {
        let (entry, key) = (self.entry, self.resolved.key.key());
        let mut node = |wanted: Option<Wanted>, key: &KeyRef<'_>, scope: Scope| {
            wanted.map(|wanted| {
                let index = transaction.node(&wanted, entry.id, key);
                entry.adopt(transaction.words(index), scope);
                index
            })
        };
        Nodes {
            key: node(self.resolved.key_at, &key, Scope::Key),
            whole: node(self.resolved.whole_at, &KeyRef::BIZ, Scope::Biz),
        }
    }

    /// Calls `work` with the item's states.
    #[inline]
    fn with_states<T>(
        &self,
        transaction: &mut Transaction<'_>,
        nodes: Nodes,
        work: impl FnOnce(&mut States<'_>) -> T,
    ) -> T {
        let (key, whole) = transaction.states(nodes.key, nodes.whole);
        self.with_states_of(key, whole, work)
    }

    /// Calls `work` with the states that stand at the beginning of these words.
    #[inline]
    fn with_states_of<T>(
        &self,
        key: &mut [u64],
        whole: &mut [u64],
        work: impl FnOnce(&mut States<'_>) -> T,
    ) -> T {
        let rules = self.rules;
        let key = &mut key[..rules.words(Scope::Key)];
        let biz = &mut whole[..rules.words(Scope::Biz)];
        work(&mut States { key, biz })
    }

    /// Notes a node to be written, unless that would create one that is fresh.
    #[inline]
    fn write(
        &self,
        transaction: &mut Transaction<'_>,
        nodes: Nodes,
        scope: Scope,
    ) -> Result<(), ItemError> {
        let node = if scope == Scope::Key { nodes.key } else { nodes.whole };
        let Some(index) = node else { return Ok(()) };
        if !transaction.is_placed(index) {
            let rules = self.rules;
            if self.with_states(transaction, nodes, |states| rules.is_fresh(states, scope)) {
                return Ok(());
            }
            transaction
                .place(index, self.table, self.entry.on_full, self.now)
                .map_err(|_| ItemError::Full)?;
        }
        transaction.touch(index, self.now);
        Ok(())
    }

    /// Does this judgement keep an Update from charging: a shadow's does too, though it does not
    /// refuse.
    #[inline]
    fn is_held_back(&self, judgement: &Judgement) -> bool {
        judgement.limited && !self.item.force
    }

    #[inline]
    fn run(
        &self,
        command: Command,
        mut transaction: Transaction<'_>,
        details: &mut Vec<LimitFigures>,
    ) -> Result<Verdict, ItemError> {
        let nodes = self.nodes(&mut transaction);
        let from = details.len();
        let mut done = self.with_states(&mut transaction, nodes, |states| {
            self.judge_and_charge(command, states, details)
        });
        let mut ban_until = None;
        if done.charged {
            self.write(&mut transaction, nodes, Scope::Key)?;
            self.write(&mut transaction, nodes, Scope::Biz)?;
        } else if command == Command::Update {
            ban_until = self.refuse(&mut transaction, nodes, &mut done.judgement);
        }
        let verdict = self.with_states(&mut transaction, nodes, |states| {
            self.verdict(states, &done.judgement, &mut details[from..])
        });
        if let Some(ban_until) = ban_until {
            transaction.reset();
            self.write_ban(&mut transaction, ban_until);
        }
        match transaction.commit(self.now) {
            Ok(()) => Ok(verdict),
            Err(crate::store::TooLarge) => {
                log_too_large();
                Err(ItemError::Store)
            }
        }
    }

    /// A command on the copy of a node that is all an item needs; appends the answer. False: it
    /// starts a ban, which takes more than this copy.
    #[inline]
    fn run_found(
        &self,
        command: Command,
        words: &mut [u64],
        answers: &mut Answers,
    ) -> (bool, Keep) {
        let (entry, from) = (self.entry, answers.details.len());
        entry.adopt(words, Scope::Key);
        let states = &mut words[entry.states_at()..];
        self.with_states_of(states, &mut [], |states| {
            let Done { judgement, charged } =
                self.judge_and_charge(command, states, &mut answers.details);
            let keep = match command {
                Command::Query => Keep::Nothing,
                Command::Update if charged => Keep::Node,
                Command::Update if judgement.ban_ms.is_some() => return (false, Keep::Nothing),
                Command::Update => Keep::Stamp,
            };
            let verdict = self.verdict(states, &judgement, &mut answers.details[from..]);
            self.answer(verdict, from, answers);
            (true, keep)
        })
    }

    #[inline]
    fn answer(&self, verdict: Verdict, from: usize, answers: &mut Answers) {
        let details = from..answers.details.len();
        let action = self.action(&verdict, &mut answers.actions);
        answers.items.push(Answer { biz: self.resolved.biz, result: Ok(verdict), details, action });
    }

    /// Notes the word of advice that a verdict carries; its number.
    #[inline]
    fn action(&self, verdict: &Verdict, actions: &mut Vec<Arc<str>>) -> usize {
        let limit = usize::from(verdict.advised).checked_sub(1);
        match limit.and_then(|limit| self.entry.advice.get(limit)) {
            Some(Some(word)) => {
                actions.push(word.clone());
                actions.len()
            }
            _ => 0,
        }
    }

    /// What a command does to the working copies, short of a refusal.
    #[inline]
    fn judge_and_charge(
        &self,
        command: Command,
        states: &mut States<'_>,
        details: &mut Vec<LimitFigures>,
    ) -> Done {
        let rules = self.rules;
        rules.roll(states, self.now);
        if self.item.detail {
            rules.details(states, self.now, self.count(), details);
        }
        let judgement = rules.judge(states, self.now, self.count());
        let charged = command == Command::Update && !self.is_held_back(&judgement);
        if charged {
            rules.charge(states, self.now, self.count());
        }
        Done { judgement, charged }
    }

    /// The answer, with the figures as they are now.
    #[inline]
    fn verdict(
        &self,
        states: &States<'_>,
        judgement: &Judgement,
        details: &mut [LimitFigures],
    ) -> Verdict {
        let rules = self.rules;
        if self.item.detail {
            rules.refigure(states, self.now, details);
        }
        rules.verdict(states, self.now, judgement)
    }

    /// Stamps the last use, and starts the ban in the working copies if one is asked for and can be
    /// kept; when it ends.
    #[cold]
    fn refuse(
        &self,
        transaction: &mut Transaction<'_>,
        nodes: Nodes,
        judgement: &mut Judgement,
    ) -> Option<Millis> {
        for index in [nodes.key, nodes.whole].into_iter().flatten() {
            transaction.stamp(index, self.now);
        }
        judgement.ban_ms?;
        let on_full = self.entry.on_full;
        transaction.place(nodes.key?, self.table, on_full, self.now).ok()?;
        self.with_states(transaction, nodes, |states| {
            self.rules.start_ban(states, self.now, judgement)
        })
    }

    /// Writes the end of a ban into the key's node as stored: a refused item changes no limit
    /// state.
    #[cold]
    fn write_ban(&self, transaction: &mut Transaction<'_>, ban_until: Millis) {
        let nodes = self.nodes(transaction);
        let rules = self.rules;
        self.with_states(transaction, nodes, |states| rules.set_ban_until(states, ban_until));
        // There was a place for it when it was started, so there is one now.
        let _ = self.write(transaction, nodes, Scope::Key);
    }
}
