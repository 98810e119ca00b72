//! The items of an atomic request in one transaction: judged one after the other with the charges of
//! those before, charged all or none, answered with the figures as they are stored.

use super::{One, Resolved, Table};
use crate::clock::Millis;
use crate::conf::Scope;
use crate::limit::{Judgement, LimitFigures};
use crate::service::{Answer, Answers, Command, ItemError, Request};
use crate::store::{TooLarge, Transaction};

/// An item of an atomic request, judged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Judged {
    judgement: Judgement,
    refuses: bool,
    /// The end of the ban that this refusal started.
    ban_until: Option<Millis>,
}

/// All items of an atomic request.
pub(super) struct All<'a> {
    pub table: &'a Table,
    pub request: &'a Request,
    pub resolved: &'a [Resolved],
    pub now: Millis,
}

impl All<'_> {
    fn one(&self, index: usize) -> One<'_> {
        let item = &self.request.items()[index];
        One::of(self.table, &self.resolved[index], item, self.now)
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
        answers.refused = judged.iter().any(|judged| judged.is_none_or(|judged| judged.refuses));
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
            let one = self.one(index);
            if one.resolved.error.is_none() {
                one.nodes(transaction);
            }
        }
    }

    /// Judges an item with the charges of those before it, and charges it; none: it failed.
    fn judge(
        &self,
        index: usize,
        transaction: &mut Transaction<'_>,
        answers: &mut Answers,
    ) -> Option<Judged> {
        let one = self.one(index);
        let from = answers.details.len();
        let charged = self.charge(&one, transaction, &mut answers.details);
        if charged.is_err() {
            answers.details.truncate(from);
        }
        // Figures come when all are charged; till then an error stands for the verdict.
        let result = Err(charged.err().unwrap_or(ItemError::Store));
        let details = from..answers.details.len();
        answers.items.push(Answer { biz: one.resolved.biz, result, details, action: 0 });
        charged.ok()
    }

    fn charge(
        &self,
        one: &One<'_>,
        transaction: &mut Transaction<'_>,
        details: &mut Vec<LimitFigures>,
    ) -> Result<Judged, ItemError> {
        if let Some(error) = one.resolved.error {
            return Err(error);
        }
        let nodes = one.nodes(transaction);
        // A Query answers what the Update would: it charges too, and gives all up at the end.
        let done = one.with_states(transaction, nodes, |states| {
            one.judge_and_charge(Command::Update, states, details)
        });
        if done.charged {
            one.write(transaction, nodes, Scope::Key)?;
            one.write(transaction, nodes, Scope::Biz)?;
        }
        Ok(Judged { judgement: done.judgement, refuses: !done.charged, ban_until: None })
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
        let rules = &one.entry.rules;
        let nodes = one.nodes(transaction);
        if judged.refuses && self.request.command == Command::Update {
            judged.ban_until = one.refuse(transaction, nodes, &mut judged.judgement);
        }
        let answer = &mut answers.items[index];
        let details = &mut answers.details[answer.details.clone()];
        answer.result = Ok(one.with_states(transaction, nodes, |states| {
            rules.roll(states, self.now);
            one.verdict(states, &judged.judgement, details)
        }));
    }

    fn write_bans(&self, transaction: &mut Transaction<'_>, judged: &[Option<Judged>]) {
        for (index, judged) in judged.iter().enumerate() {
            if let Some(ban_until) = judged.and_then(|judged| judged.ban_until) {
                self.one(index).write_ban(transaction, ban_until);
            }
        }
    }
}
