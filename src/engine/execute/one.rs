//! One item on the nodes of a transaction: judged, charged or refused, and answered.

use std::sync::Arc;

use frs_base::clock::Millis;
use frs_conf::key::KeyRef;
use frs_conf::{Mode, OnMiss, Scope, Sharing};
use frs_limit::{
    Demand, Details, Judgement, LimitFigures, Noted, Rules, States, Terms, Verdict, Waited,
};
use frs_store::{Keep, NodeIndex, Rank, Refused, Sought, Transaction, Wanted, Worked};

use super::resolved::Resolved;
use crate::plug::{Learning, Remote};
use crate::table::{Entry, Table};
use crate::{Answer, Answers, Command, Item, ItemError, Request};

/// The two nodes of an item.
#[derive(Debug, Clone, Copy)]
pub(super) struct Nodes {
    pub key: Option<NodeIndex>,
    pub whole: Option<NodeIndex>,
}

/// The result of judging an item.
#[derive(Debug, Clone, Copy)]
pub(super) struct Done {
    pub judgement: Judgement,
    pub charged: bool,
    /// It lacks shared uses, or the window of the uses that it returns. These may still come.
    pub may_wait: bool,
    /// The count as which a partial item was judged, if not all of it was admitted.
    pub part: Option<i32>,
    /// Rare parts of its answer.
    pub noted: Noted,
    /// Uses of holds that have lapsed were given back.
    pub gave_back: bool,
    /// The error that it is answered with.
    pub error: Option<ItemError>,
}

impl Done {
    /// The result of an item that passed and is charged.
    pub const PASSED: Done = Done {
        judgement: Judgement::ADMITTED,
        charged: true,
        may_wait: false,
        part: None,
        noted: Noted::NOTHING,
        gave_back: false,
        error: None,
    };
}

/// The judgement of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judged {
    /// Its verdict.
    Verdict(Verdict),
    /// It waits.
    Wait(Lack),
}

/// What an item has to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lack {
    /// The figures of all machines.
    Figures,
    /// Shared uses, or the window of uses that it returns.
    Uses,
    /// Its node of this scope, which is not here. The cluster may keep the node, or another node
    /// has to make room.
    Record(Scope),
}

/// One item, and all that it needs.
pub(super) struct ItemTransaction<'a> {
    pub table: &'a Table,
    pub entry: &'a Entry,
    pub rules: &'a Rules,
    pub resolved: &'a Resolved,
    pub item: &'a Item,
    pub now: Millis,
    /// The terms for its limits.
    pub terms: Terms<'a>,
    /// It belongs to an atomic request.
    pub is_atomic: bool,
}

impl<'a> ItemTransaction<'a> {
    #[inline(always)]
    pub fn of(
        table: &'a Table,
        resolved: &'a Resolved,
        request: &Request,
        item: &'a Item,
        now: Millis,
    ) -> ItemTransaction<'a> {
        // Only an item without an error gets here, and such an item has a biz.
        let entry = table.entry(resolved.biz.unwrap_or(0));
        let rules = entry.rules(resolved.listing);
        let (terms, is_atomic) = (resolved.terms(), request.atomic);
        ItemTransaction { table, entry, rules, resolved, item, now, terms, is_atomic }
    }

    /// What the item lacks if the key's node is not here, and must be fetched from the cluster.
    /// Where the cluster makes room, a fetched record is here afterwards; otherwise the cluster is
    /// asked once.
    ///
    /// # Errors
    /// The item has waited too long for a node that may be in use.
    #[inline]
    pub fn find_record(
        &self,
        transaction: &mut Transaction<'_>,
        nodes: Nodes,
    ) -> Result<Option<Lack>, ItemError> {
        match nodes.key {
            Some(index) if self.entry.remote.is_some() => self.find_remote(transaction, index),
            _ => Ok(None),
        }
    }

    #[cold]
    fn find_remote(
        &self,
        transaction: &mut Transaction<'_>,
        index: NodeIndex,
    ) -> Result<Option<Lack>, ItemError> {
        let Some(remote) = self.entry.remote else { return Ok(None) };
        let Remote { copies, makes_room, is_mirrored, .. } = remote;
        if is_mirrored {
            let learning = self.table.learning();
            if learning == Learning::No || transaction.is_own(index) {
                return Ok(None);
            }
            return match (learning, self.resolved.waited) {
                (_, Waited::NotYet) => Ok(Some(Lack::Record(Scope::Key))),
                (Learning::Parks, Waited::TooLong | Waited::CutOff) => Err(ItemError::Busy),
                _ => Ok(None),
            };
        }
        if transaction.is_there(index) {
            return Ok(None);
        }
        let is_there = makes_room && transaction.may_be_kept(index);
        let is_asked = match self.resolved.waited {
            Waited::NotYet => copies || is_there,
            Waited::Answered | Waited::Unanswered => makes_room && (copies || is_there),
            Waited::TooLong | Waited::CutOff if is_there => return Err(ItemError::Busy),
            Waited::TooLong | Waited::CutOff => false,
        };
        Ok(is_asked.then_some(Lack::Record(Scope::Key)))
    }

    /// Whether the cluster can make room for a node of the item.
    #[cold]
    pub fn may_get_room(&self) -> bool {
        self.entry.makes_room() && !self.resolved.waited.is_over()
    }

    /// The highest rank that may be evicted for a node of the item.
    #[inline]
    fn evicts(&self) -> Rank {
        self.entry.evicts(self.resolved.waited == Waited::CutOff)
    }

    #[inline]
    pub fn count(&self) -> i32 {
        // An item without a count was refused when it was resolved.
        self.item.count.unwrap_or(0)
    }

    #[inline(always)]
    fn demand(&self, charges: bool) -> Demand<'_> {
        Demand { count: self.count(), charges, terms: &self.terms }
    }

    /// The item's nodes, as this configuration sees them.
    #[inline]
    pub fn nodes(&self, transaction: &mut Transaction<'_>) -> Nodes {
        if self.resolved.former.is_some() {
            return self.moving_nodes(transaction);
        }
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

    /// Like [`ItemTransaction::nodes`], for a group that grows.
    #[cold]
    fn moving_nodes(&self, transaction: &mut Transaction<'_>) -> Nodes {
        let mut node = |sought: Option<Sought<'_>>, scope| {
            sought.map(|sought| {
                let index = transaction.sought(&sought, self.entry.id, self.table);
                self.entry.adopt(transaction.words(index), scope);
                index
            })
        };
        let &Resolved { key_at, whole_at, .. } = self.resolved;
        Nodes {
            key: node(key_at.map(|at| self.resolved.sought_key(at)), Scope::Key),
            whole: node(whole_at.map(|at| self.resolved.sought_whole(at)), Scope::Biz),
        }
    }

    /// Calls `work` with the item's states.
    #[inline]
    pub fn with_states<T>(
        &self,
        transaction: &mut Transaction<'_>,
        nodes: Nodes,
        work: impl FnOnce(&mut States<'_>) -> T,
    ) -> T {
        let [key, whole] = transaction.states([nodes.key, nodes.whole]);
        self.with_states_of(key, whole, work)
    }

    /// Whether numbers of a call may begin its states anew although it charges nothing: in shadow
    /// mode, or with a hold.
    #[inline]
    pub fn may_begin_anew(&self) -> bool {
        let has_hold = self.terms.brought.is_some_and(|brought| brought.hold.is_some());
        (self.entry.mode == Mode::Shadow || has_hold) && self.rules.have_named_windows()
    }

    /// A copy of the words of its nodes.
    #[cold]
    pub fn copied(&self, transaction: &mut Transaction<'_>, nodes: Nodes) -> [Vec<u64>; 2] {
        transaction.states([nodes.key, nodes.whole]).map(|words| words.to_vec())
    }

    /// Writes such a copy back.
    #[cold]
    pub fn restore(&self, transaction: &mut Transaction<'_>, nodes: Nodes, copy: &[Vec<u64>; 2]) {
        for (words, copy) in transaction.states([nodes.key, nodes.whole]).into_iter().zip(copy) {
            words.copy_from_slice(copy);
        }
    }

    /// Calls `work` with the states at the beginning of these words.
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
        work(&mut States { key, biz, terms: &self.terms })
    }

    /// Marks a node to be written, unless that would create a fresh one.
    #[inline]
    pub fn write(
        &self,
        transaction: &mut Transaction<'_>,
        nodes: Nodes,
        scope: Scope,
    ) -> Result<(), ItemError> {
        let node = if scope == Scope::Key { nodes.key } else { nodes.whole };
        let Some(index) = node else { return Ok(()) };
        let rules = self.rules;
        if !transaction.is_there(index)
            && self.with_states(transaction, nodes, |states| rules.is_fresh(states, scope))
        {
            return Ok(());
        }
        let placed = transaction.place(index, self.table, self.evicts(), self.now);
        placed.map_err(|_| ItemError::Full)?;
        transaction.touch(index, self.now);
        Ok(())
    }

    /// Whether this judgement keeps an Update from charging. A limited item in shadow mode is not
    /// charged either, although it is not refused.
    #[inline]
    pub fn is_held_back(&self, judgement: &Judgement) -> bool {
        judgement.limited && !self.item.force
    }

    #[inline]
    pub fn run(
        &self,
        command: Command,
        mut transaction: Transaction<'_>,
        details: &mut Details,
    ) -> Result<Judged, ItemError> {
        let nodes = self.nodes(&mut transaction);
        if let Some(lack) = self.find_record(&mut transaction, nodes)? {
            return Ok(Judged::Wait(lack));
        }
        let from = details.len();
        let mut done = self.with_states(&mut transaction, nodes, |states| {
            self.judge_and_charge(command, states, details)
        });
        if let Some(error) = done.error {
            return Err(error);
        }
        if done.may_wait {
            if !self.resolved.waited.is_over() {
                return Ok(Judged::Wait(Lack::Uses));
            }
            if self.misses_as_busy() {
                return Err(ItemError::Busy);
            }
            // A refusal for lack of shared uses is no misuse, so it starts no ban.
            done.judgement.ban_ms = None;
        }
        let mut ban = None;
        if done.charged {
            for scope in [Scope::Key, Scope::Biz] {
                match self.write(&mut transaction, nodes, scope) {
                    Err(ItemError::Full) if self.may_get_room() => {
                        return Ok(Judged::Wait(Lack::Record(scope)));
                    }
                    written => written?,
                }
            }
        } else if command == Command::Update {
            let refused = self.refuse(&mut transaction, nodes, &mut done.judgement);
            ban = match refused {
                Err(_) if self.may_get_room() => {
                    return Ok(Judged::Wait(Lack::Record(Scope::Key)));
                }
                refused => refused.unwrap_or(None),
            };
        }
        let verdict = self.with_states(&mut transaction, nodes, |states| {
            self.verdict(states, &done, &mut details.limits[from..])
        });
        if let Some(ban) = ban {
            transaction.reset();
            self.write_ban(&mut transaction, ban);
        }
        match transaction.commit(self.now) {
            Ok(()) => Ok(Judged::Verdict(verdict)),
            Err(frs_store::TooLarge) => {
                log_too_large();
                Err(ItemError::Store)
            }
        }
    }

    /// Whether a missing node counts as zeros, and a charge creates it at once: no other machine or
    /// tier may have the node, and at least one use is charged, so that the node is not fresh.
    pub fn makes_node(&self, command: Command) -> bool {
        (self.count() > 0 || command == Command::Query)
            && self.entry.remote.is_none_or(|remote| remote.is_mirrored)
            && self.entry.sharing.is_none()
    }

    /// Whether another machine may have to be asked for the record before its first use here.
    #[inline(always)]
    pub fn may_ask_first(&self) -> bool {
        self.table.learning() != Learning::No && self.entry.is_mirrored
    }

    /// Runs a command on the copy of the only node that the item needs, and appends the answer.
    /// Returns false if the item starts a ban or may wait: this copy is not enough then.
    #[inline(always)]
    pub fn run_found(
        &self,
        command: Command,
        words: &mut [u64],
        answers: &mut Answers,
    ) -> Worked<bool> {
        self.entry.adopt(words, Scope::Key);
        let words = &mut words[self.entry.states_at()..];
        let charges = command == Command::Update;
        if self.item.detail | self.resolved.is_partial | self.entry.sharing.is_some() {
            return self.run_apart(command, words, answers);
        }
        let Some(verdict) = self.rules.pass(words, self.now, self.demand(charges)) else {
            return self.run_rare(command, words, answers);
        };
        self.answer(verdict, answers.details.len(), answers);
        Worked { result: true, keep: if charges { Keep::Node } else { Keep::Nothing } }
    }

    /// As [`ItemTransaction::run_found`], for limits that machines share, and for details and
    /// partial items.
    #[inline(never)]
    fn run_apart(
        &self,
        command: Command,
        words: &mut [u64],
        answers: &mut Answers,
    ) -> Worked<bool> {
        let demand = self.demand(command == Command::Update);
        if !(self.item.detail | self.resolved.is_partial)
            && let Some(verdict) = self.rules.pass_shared(words, self.now, demand)
        {
            self.answer(verdict, answers.details.len(), answers);
            let keep = if demand.charges { Keep::Node } else { Keep::Nothing };
            return Worked { result: true, keep };
        }
        self.run_judged(command, words, answers)
    }

    /// As [`ItemTransaction::run_found`], for an item that [`Rules::pass`] has only rolled.
    #[inline(never)]
    fn run_rare(&self, command: Command, words: &mut [u64], answers: &mut Answers) -> Worked<bool> {
        let demand = self.demand(command == Command::Update);
        let (verdict, keep) = if self.rules.are_apart()
            && let Some(verdict) = self.rules.pass_apart(words, self.now, demand)
        {
            (verdict, Keep::Node)
        } else if !self.item.force
            && let Some(verdict) = self.rules.refuse(words, self.now, demand)
        {
            (verdict, Keep::Stamp)
        } else {
            return self.run_judged(command, words, answers);
        };
        self.answer(verdict, answers.details.len(), answers);
        Worked { result: true, keep: if demand.charges { keep } else { Keep::Nothing } }
    }

    /// Charges the item to a node of its own, if it passes and the node has one limit and nothing
    /// else. `None` if the node has only been rolled, or if nothing was done.
    #[inline(always)]
    pub fn pass(&self, words: &mut [u64]) -> Option<Verdict> {
        if self.item.detail || self.entry.sharing.is_some() || self.rules.has_tables() {
            return None;
        }
        let words = &mut words[self.entry.states_at()..];
        let demand = self.demand(true);
        if self.rules.are_apart() {
            return self.rules.pass_apart(words, self.now, demand);
        }
        self.rules.pass(words, self.now, demand)
    }

    /// As [`ItemTransaction::run_found`], step by step, on the states in the copy.
    #[inline(never)]
    fn run_judged(
        &self,
        command: Command,
        words: &mut [u64],
        answers: &mut Answers,
    ) -> Worked<bool> {
        let from = answers.details.len();
        self.with_states_of(words, &mut [], |states| {
            let done = self.judge_and_charge(command, states, &mut answers.details);
            if done.may_wait || done.error.is_some() {
                return Worked { result: false, keep: Keep::Nothing };
            }
            let keep = match command {
                Command::Query => Keep::Nothing,
                Command::Update if done.charged => Keep::Node,
                Command::Update if done.judgement.ban_ms.is_some() => {
                    return Worked { result: false, keep: Keep::Nothing };
                }
                Command::Update => Keep::Stamp,
            };
            let verdict = self.verdict(states, &done, &mut answers.details.limits[from..]);
            self.answer(verdict, from, answers);
            Worked { result: true, keep }
        })
    }

    #[inline(always)]
    pub fn answer(&self, verdict: Verdict, from: usize, answers: &mut Answers) {
        let details = from..answers.details.len();
        let action = self.action(&verdict, &mut answers.actions);
        answers.items.push(Answer { biz: self.resolved.biz, result: Ok(verdict), details, action });
    }

    /// Adds the word of advice of a verdict, and returns its number.
    #[inline]
    pub fn action(&self, verdict: &Verdict, actions: &mut Vec<Arc<str>>) -> usize {
        let limit = usize::from(verdict.advised).checked_sub(1);
        match limit.and_then(|limit| self.entry.advice.get(limit)) {
            Some(Some(word)) => {
                actions.push(word.clone());
                actions.len()
            }
            _ => 0,
        }
    }

    /// Applies a command to the working copies, except for a refusal.
    #[inline]
    pub fn judge_and_charge(
        &self,
        command: Command,
        states: &mut States<'_>,
        details: &mut Details,
    ) -> Done {
        let due =
            if self.entry.holds.is_some() { self.rules.due_holds(states, self.now) } else { 0 };
        self.rules.roll(states, self.now);
        let mut done = if self.is_call() {
            self.judge_call(command, states, details)
        } else {
            self.judge_count(command, states, self.count(), details)
        };
        done.gave_back = due > 0 && self.rules.gives_lapsed_back();
        if due > 0 && done.charged {
            done.noted = done.noted.ending(due);
        }
        done
    }

    /// Judges a count on the rolled working copies, and charges it.
    #[inline]
    pub fn judge_count(
        &self,
        command: Command,
        states: &mut States<'_>,
        count: i32,
        details: &mut Details,
    ) -> Done {
        let rules = self.rules;
        self.detail(states, count, details);
        let judgement = rules.judge(states, self.now, count);
        let mut may_wait = command == Command::Update && self.has_to_ask(states);
        let charged = command == Command::Update && !may_wait && !self.is_held_back(&judgement);
        if charged {
            rules.charge(states, self.now, count);
        } else if judgement.limited && command == Command::Update && rules.are_shared() {
            may_wait |= rules.may_wait(states, self.now, count);
        }
        Done { judgement, charged, may_wait, ..Done::PASSED }
    }

    /// Adds the judgement of each limit, if the item asks for it.
    #[inline]
    pub fn detail(&self, states: &States<'_>, count: i32, details: &mut Details) {
        if self.item.detail {
            self.rules.details(states, self.now, count, details);
        }
    }

    /// Whether the item returns uses that only the cluster knows, and that has not been asked.
    #[inline]
    fn has_to_ask(&self, states: &States<'_>) -> bool {
        self.count() < 0
            && self.rules.are_shared()
            && !self.terms.asks
            && self.resolved.waited != Waited::Answered
            && !self.rules.takes_back(states, self.count())
    }

    /// Whether an item that lacks something keeps the other items of an atomic request from being
    /// charged.
    #[cold]
    pub fn holds_all_up(&self, judgement: &Judgement) -> bool {
        self.rules.refuses(judgement) || self.count() < 0 && self.entry.mode != Mode::Shadow
    }

    /// Whether an item is answered `busy` after its wait has timed out. An item that returns uses
    /// is: it is not refused, and nobody knows the uses that it returns.
    #[cold]
    pub fn misses_as_busy(&self) -> bool {
        if self.count() < 0 {
            return true;
        }
        let is_busy = |sharing: Sharing| sharing.on_miss == OnMiss::Busy;
        self.resolved.waited != Waited::CutOff && self.entry.sharing.is_some_and(is_busy)
    }

    /// The answer, with the current figures.
    #[inline]
    pub fn verdict(
        &self,
        states: &States<'_>,
        done: &Done,
        details: &mut [LimitFigures],
    ) -> Verdict {
        let rules = self.rules;
        if self.item.detail {
            rules.refigure(states, self.now, details);
        }
        let mut verdict = rules.verdict(states, self.now, &done.judgement);
        if self.resolved.brings | rules.has_tables() {
            rules.complete(&mut verdict, states, done.noted);
        }
        verdict
    }

    /// Stamps the last use. If a ban is due and can be kept, starts it in the working copies and
    /// returns its word.
    ///
    /// # Errors
    /// A ban is due, and has no room.
    #[cold]
    pub fn refuse(
        &self,
        transaction: &mut Transaction<'_>,
        nodes: Nodes,
        judgement: &mut Judgement,
    ) -> Result<Option<u64>, ItemError> {
        for index in [nodes.key, nodes.whole].into_iter().flatten() {
            transaction.stamp(index, self.now);
        }
        let (Some(_), Some(key)) = (judgement.ban_ms, nodes.key) else { return Ok(None) };
        let placed = transaction.place(key, self.table, self.evicts(), self.now);
        placed.map_err(|_| ItemError::Full)?;
        Ok(self.with_states(transaction, nodes, |states| {
            self.rules.start_ban(states, self.now, judgement)
        }))
    }

    /// Writes the word of a ban into the key's stored node: a refused item changes no limit state.
    #[cold]
    pub fn write_ban(&self, transaction: &mut Transaction<'_>, ban: u64) {
        let nodes = self.nodes(transaction);
        let rules = self.rules;
        self.with_states(transaction, nodes, |states| rules.set_ban_word(states, ban));
        // There was a place when the ban was started, so there is one now.
        let _ = self.write(transaction, nodes, Scope::Key);
    }
}

#[cold]
pub(super) fn log_too_large() -> Refused {
    tracing::error!("a transaction did not fit the undo log: nothing was changed");
    Refused::Unavailable
}
