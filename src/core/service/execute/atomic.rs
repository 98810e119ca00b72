//! The items of an atomic request in one transaction: judged one after the other with the charges
//! of those before, charged all or none, answered with the figures as they are stored.

use std::ops::Range;

use super::one::{Done, ItemTransaction};
use super::resolved::Resolved;
use crate::base::clock::Millis;
use crate::conf::{Mode, Scope};
use crate::limit::{LimitFigures, Verdict};
use crate::service::table::Table;
use crate::service::{Answer, Answers, Command, ItemError, Request};
use crate::store::{TooLarge, Transaction};

/// An item of an atomic request, judged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Judged {
    done: Done,
    /// The end of the ban that this refusal started.
    ban_until: Option<Millis>,
}

/// All items of an atomic request.
pub(super) struct AtomicTransaction<'a> {
    pub table: &'a Table,
    pub request: &'a Request,
    pub resolved: &'a [Resolved],
    pub now: Millis,
}

impl AtomicTransaction<'_> {
    fn one(&self, index: usize) -> ItemTransaction<'_> {
        let item = &self.request.items()[index];
        ItemTransaction::of(self.table, &self.resolved[index], item, self.now)
    }

    pub fn run(
        &self,
        mut transaction: Transaction<'_>,
        judged: &mut Vec<Option<Judged>>,
        answers: &mut Answers,
    ) -> Result<(), TooLarge> {
        judged.clear();
        self.find_all(&mut transaction);
        for index in 0..self.request.items().len() {
            judged.push(self.judge(index, &mut transaction, answers));
        }
        let keeps = self.request.command == Command::Update && !answers.refused;
        if answers.refused {
            transaction.reset();
            self.find_all(&mut transaction);
        }
        for (index, judged) in judged.iter_mut().enumerate() {
            if let Some(judged) = judged {
                self.figure(index, &mut transaction, judged, answers);
            }
        }
        if !keeps {
            transaction.reset();
            self.find_all(&mut transaction);
            self.write_bans(&mut transaction, judged);
        }
        transaction.commit(self.now)
    }

    /// Takes every item's nodes into the transaction: what it uses is never its victim.
    fn find_all(&self, transaction: &mut Transaction<'_>) {
        for index in 0..self.request.items().len() {
            if self.resolved[index].settled.is_none() {
                self.one(index).nodes(transaction);
            }
        }
    }

    /// Judges an item with the charges of those before it, and charges it; none: it is answered.
    fn judge(
        &self,
        index: usize,
        transaction: &mut Transaction<'_>,
        answers: &mut Answers,
    ) -> Option<Judged> {
        let (resolved, item) = (&self.resolved[index], &self.request.items()[index]);
        let biz = resolved.biz;
        let mode = biz.map_or(Mode::Enforce, |biz| self.table.entry(biz).mode);
        if let Some(settled) = resolved.settled {
            answers.refused |= settled.refuses(mode, item.force);
            answer(biz, settled.result(mode), 0..0, answers);
            return None;
        }
        let (one, from) = (self.one(index), answers.details.len());
        let charged = self.charge(&one, transaction, &mut answers.details);
        if charged.is_err() {
            answers.details.truncate(from);
        }
        answers.refused |= match &charged {
            Ok(judged) => !judged.done.charged && one.rules.refuses(&judged.done.judgement),
            // A shadow keeps nobody else from being charged, even where it has no place.
            Err(_) => mode != Mode::Shadow,
        };
        // Figures come when all are charged; till then an error stands for the verdict.
        let result = Err(charged.err().unwrap_or(ItemError::Store));
        answer(biz, result, from..answers.details.len(), answers);
        charged.ok()
    }

    fn charge(
        &self,
        one: &ItemTransaction<'_>,
        transaction: &mut Transaction<'_>,
        details: &mut Vec<LimitFigures>,
    ) -> Result<Judged, ItemError> {
        let nodes = one.nodes(transaction);
        // A Query answers what the Update would: it charges too, and gives all up at the end.
        let done = one.with_states(transaction, nodes, |states| {
            one.judge_and_charge(Command::Update, states, details)
        });
        if done.charged {
            one.write(transaction, nodes, Scope::Key)?;
            one.write(transaction, nodes, Scope::Biz)?;
        }
        Ok(Judged { done, ban_until: None })
    }

    /// The answer of an item, its figures as they will be stored.
    fn figure(
        &self,
        index: usize,
        transaction: &mut Transaction<'_>,
        judged: &mut Judged,
        answers: &mut Answers,
    ) {
        let one = self.one(index);
        let rules = one.rules;
        let nodes = one.nodes(transaction);
        if !judged.done.charged && self.request.command == Command::Update {
            judged.ban_until = one.refuse(transaction, nodes, &mut judged.done.judgement);
            if judged.ban_until.is_some() {
                // A shadow's ban is kept with the charges of the others; after a refusal all this
                // is given up, and bans are written alone. There is a place for it already.
                let _ = one.write(transaction, nodes, Scope::Key);
            }
        }
        let answer = &mut answers.items[index];
        let details = &mut answers.details[answer.details.clone()];
        let verdict = one.with_states(transaction, nodes, |states| {
            rules.roll(states, self.now);
            one.verdict(states, &judged.done.judgement, details)
        });
        answer.action = one.action(&verdict, &mut answers.actions);
        answer.result = Ok(verdict);
    }

    fn write_bans(&self, transaction: &mut Transaction<'_>, judged: &[Option<Judged>]) {
        for (index, judged) in judged.iter().enumerate() {
            if let Some(ban_until) = judged.and_then(|judged| judged.ban_until) {
                self.one(index).write_ban(transaction, ban_until);
            }
        }
    }
}

fn answer(
    biz: Option<usize>,
    result: Result<Verdict, ItemError>,
    details: Range<usize>,
    answers: &mut Answers,
) {
    answers.items.push(Answer { biz, result, details, action: 0 });
}
