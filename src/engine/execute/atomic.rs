//! The items of an atomic request in one transaction.
//!
//! Invariant: each item is judged with the charges of the items before it. All items are charged or
//! none. Answers carry the figures as they are stored.

use std::ops::Range;

use frs_base::clock::Millis;
use frs_conf::{Mode, Scope};
use frs_limit::{Details, Verdict};
use frs_store::{TooLarge, Transaction};

use super::one::{Done, ItemTransaction, Nodes};
use super::resolved::Resolved;
use super::waiting::Lacking;
use crate::table::Table;
use crate::{Answer, Answers, Command, ItemError, Request};

/// A judged item of an atomic request.
#[derive(Debug, Clone, Copy)]
pub(super) struct JudgedItem {
    done: Done,
    /// The end of the ban that this refusal started.
    ban: Option<u64>,
    /// Its answer carries the figures as they are stored, unless the request is refused.
    is_answered: bool,
}

/// The nodes of an item, in the transaction.
#[derive(Debug, Clone, Copy)]
struct OwnNodes {
    nodes: Nodes,
    /// No two items of the request have a node in common.
    are_apart: bool,
}

/// The buffers of an atomic request, reused.
#[derive(Debug, Default)]
pub(super) struct AtomicBuffers {
    judged: Vec<Option<JudgedItem>>,
    /// The nodes of each item. The transaction keeps them until it is reset.
    nodes: Vec<Nodes>,
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
        ItemTransaction::of(self.table, &self.resolved[index], self.request, item, self.now)
    }

    pub fn run(
        &self,
        mut transaction: Transaction<'_>,
        AtomicBuffers { judged, nodes }: &mut AtomicBuffers,
        answers: &mut Answers,
    ) -> Result<Option<Lacking>, TooLarge> {
        judged.clear();
        self.find_all(&mut transaction, nodes);
        if self.table.has_remote() && self.lacks_records(&mut transaction, nodes) {
            return Ok(Some(Lacking::Records));
        }
        if self.is_repeat(&mut transaction, nodes) {
            self.answer_repeat(&mut transaction, nodes, answers);
            return Ok(None);
        }
        let wanted = nodes.iter().flat_map(|nodes| [nodes.key, nodes.whole]).flatten().count();
        let are_apart = transaction.nodes() == wanted;
        for (index, &nodes) in nodes.iter().enumerate() {
            let own = OwnNodes { nodes, are_apart };
            judged.push(self.judge(index, &mut transaction, own, answers));
        }
        if self.table.has_remote() && self.lacks_room(answers) {
            return Ok(Some(Lacking::Records));
        }
        let may_wait =
            |judged: &Option<JudgedItem>| judged.is_some_and(|judged| judged.done.may_wait);
        if judged.iter().any(may_wait)
            && let Some(lacking) = self.lacking(judged)
        {
            // Nothing is stored, and the request runs again.
            return Ok(Some(lacking));
        }
        let keeps = self.request.command == Command::Update && !answers.refused;
        if answers.refused {
            transaction.reset();
            self.find_all(&mut transaction, nodes);
        }
        for (index, judged) in judged.iter_mut().enumerate() {
            if let Some(judged) = judged
                && (answers.refused || !judged.is_answered)
                && !self.figure(index, &mut transaction, nodes[index], judged, answers)
            {
                return Ok(Some(Lacking::Records));
            }
        }
        if !keeps {
            transaction.reset();
            self.find_all(&mut transaction, nodes);
            self.write_bans(&mut transaction, judged);
        }
        transaction.commit(self.now).map(|()| None)
    }

    /// Whether only missing shared uses refuse items, so that the request waits or is too late. It
    /// also waits for items in shadow mode, although these do not keep others from being charged.
    #[cold]
    fn lacking(&self, judged: &[Option<JudgedItem>]) -> Option<Lacking> {
        let mut lacking = None;
        for (index, judged) in judged.iter().enumerate() {
            let mode = |biz: usize| self.table.entry(biz).mode;
            let resolved = &self.resolved[index];
            let refuses = match judged {
                // Already answered, or without room: the error stands in its place.
                None => match resolved.settled {
                    Some(settled) => settled.refuses(
                        resolved.biz.map_or(Mode::Enforce, mode),
                        self.request.items()[index].force,
                    ),
                    None => resolved.biz.map_or(Mode::Enforce, mode) != Mode::Shadow,
                },
                Some(judged) if judged.done.may_wait => {
                    let one = self.one(index);
                    let refuses = one.holds_all_up(&judged.done.judgement);
                    match (resolved.waited.is_over(), refuses && one.misses_as_busy()) {
                        (false, _) => lacking = lacking.or(Some(Lacking::Uses)),
                        (true, true) => lacking = Some(Lacking::Busy),
                        (true, false) if refuses => return None,
                        (true, false) => {}
                    }
                    false
                }
                Some(judged) => {
                    !judged.done.charged && self.one(index).rules.refuses(&judged.done.judgement)
                }
            };
            if refuses {
                return None;
            }
        }
        lacking
    }

    /// Takes the nodes of every item into the transaction, so that no item evicts a node that
    /// another one uses.
    fn find_all(&self, transaction: &mut Transaction<'_>, nodes: &mut Vec<Nodes>) {
        nodes.clear();
        nodes.extend((0..self.request.items().len()).map(
            |index| match self.resolved[index].settled {
                None => self.one(index).nodes(transaction),
                Some(_) => Nodes { key: None, whole: None },
            },
        ));
    }

    /// Whether an item's record remembers the id of the request.
    fn is_repeat(&self, transaction: &mut Transaction<'_>, nodes: &[Nodes]) -> bool {
        self.request.has_once()
            && self.request.command == Command::Update
            && nodes.iter().enumerate().any(|(index, &nodes)| {
                self.resolved[index].settled.is_none() && {
                    let one = self.one(index);
                    one.with_states(transaction, nodes, |states| one.remembers(states))
                }
            })
    }

    /// Answers a request that was charged before, with the figures as they stand now.
    #[cold]
    fn answer_repeat(
        &self,
        transaction: &mut Transaction<'_>,
        nodes: &[Nodes],
        answers: &mut Answers,
    ) {
        for (index, &nodes) in nodes.iter().enumerate() {
            let Resolved { biz, settled, .. } = self.resolved[index];
            if let Some(settled) = settled {
                let mode = biz.map_or(Mode::Enforce, |biz| self.table.entry(biz).mode);
                answer(biz, settled.result(mode), 0..0, answers);
                continue;
            }
            let (one, from) = (self.one(index), answers.details.len());
            let verdict = one.with_states(transaction, nodes, |states| {
                one.rules.roll(states, self.now);
                one.detail(states, -1, &mut answers.details);
                one.verdict(states, &Done::repeated(), &mut answers.details.limits[from..])
            });
            one.answer(verdict, from, answers);
        }
    }

    /// Whether the cluster must be asked for nodes that are not here.
    #[cold]
    fn lacks_records(&self, transaction: &mut Transaction<'_>, nodes: &[Nodes]) -> bool {
        nodes.iter().enumerate().any(|(index, &nodes)| {
            self.resolved[index].settled.is_none()
                && matches!(self.one(index).find_record(transaction, nodes), Ok(Some(_)))
        })
    }

    /// Whether an item lacks room that the cluster can make.
    #[cold]
    fn lacks_room(&self, answers: &Answers) -> bool {
        let mut items = answers.items.iter().enumerate();
        items.any(|(index, answer)| {
            answer.result == Err(ItemError::Full) && self.one(index).may_get_room()
        })
    }

    /// Judges an item with the charges of those before it, and charges it. None: the item is
    /// already answered.
    fn judge(
        &self,
        index: usize,
        transaction: &mut Transaction<'_>,
        own: OwnNodes,
        answers: &mut Answers,
    ) -> Option<JudgedItem> {
        let (resolved, item) = (&self.resolved[index], &self.request.items()[index]);
        let biz = resolved.biz;
        let mode = biz.map_or(Mode::Enforce, |biz| self.table.entry(biz).mode);
        if let Some(settled) = resolved.settled {
            answers.refused |= settled.refuses(mode, item.force);
            answer(biz, settled.result(mode), 0..0, answers);
            return None;
        }
        let (one, from) = (self.one(index), answers.details.len());
        let charged = self.charge(&one, transaction, own, &mut answers.details);
        if charged.is_err() {
            answers.details.truncate(from);
        }
        answers.refused |= match &charged {
            Ok((judged, _)) => !judged.done.charged && one.rules.refuses(&judged.done.judgement),
            // A shadow item keeps no other item from being charged, even if there is no room for
            // its node.
            Err(_) => mode != Mode::Shadow,
        };
        // The figures follow when all are charged. Until then an error takes the verdict's place.
        let result = match &charged {
            Ok((_, Some(verdict))) => Ok(*verdict),
            Ok((_, None)) => Err(ItemError::Store),
            Err(error) => Err(*error),
        };
        answer(biz, result, from..answers.details.len(), answers);
        charged.ok().map(|(judged, _)| judged)
    }

    /// Charges an item, if nothing refuses it. Returns its verdict too if its figures are final,
    /// because no other item of the request shares a node with it.
    fn charge(
        &self,
        one: &ItemTransaction<'_>,
        transaction: &mut Transaction<'_>,
        OwnNodes { nodes, are_apart }: OwnNodes,
        details: &mut Details,
    ) -> Result<(JudgedItem, Option<Verdict>), ItemError> {
        one.find_record(transaction, nodes)?;
        if are_apart
            && let (Some(key), None) = (nodes.key, nodes.whole)
            && let Some(verdict) = one.pass(transaction.words(key))
        {
            one.write(transaction, nodes, Scope::Key)?;
            let judged = JudgedItem { done: Done::PASSED, ban: None, is_answered: true };
            return Ok((judged, Some(verdict)));
        }
        // A Query gives the answer that the Update would give. So it charges too, and undoes
        // everything at the end.
        // An item that charges nothing leaves its record as it was, although its numbers may have
        // begun the states anew.
        let before = one.may_begin_anew().then(|| one.copied(transaction, nodes));
        let mut done = one.with_states(transaction, nodes, |states| {
            one.judge_and_charge(Command::Update, states, details)
        });
        if let Some(before) = before.filter(|_| !done.charged) {
            one.restore(transaction, nodes, &before);
        }
        if let Some(error) = done.error {
            return Err(error);
        }
        // A Query waits for nothing.
        done.may_wait &= self.request.command == Command::Update;
        // What has lapsed was given back to the whole biz's node, which another item may write.
        if done.charged || done.gave_back && nodes.whole.is_some() {
            one.write(transaction, nodes, Scope::Key)?;
            one.write(transaction, nodes, Scope::Biz)?;
        }
        Ok((JudgedItem { done, ban: None, is_answered: false }, None))
    }

    /// Completes the answer of an item with the figures as they will be stored. Returns false if
    /// its ban lacks room that the cluster can make.
    fn figure(
        &self,
        index: usize,
        transaction: &mut Transaction<'_>,
        nodes: Nodes,
        judged: &mut JudgedItem,
        answers: &mut Answers,
    ) -> bool {
        let one = self.one(index);
        let rules = one.rules;
        if judged.done.may_wait {
            // A refusal for lack of shared uses is no misuse, so it starts no ban.
            judged.done.judgement.ban_ms = None;
        }
        if !judged.done.charged && self.request.command == Command::Update {
            let refused = one.refuse(transaction, nodes, &mut judged.done.judgement);
            if refused.is_err() && one.may_get_room() {
                return false;
            }
            judged.ban = refused.unwrap_or(None);
            if judged.ban.is_some() {
                // The ban of a shadow item is kept with the charges of the others. After a refusal
                // all of this is undone, and bans are written alone. The node's place already
                // exists.
                let _ = one.write(transaction, nodes, Scope::Key);
            }
        }
        let answer = &mut answers.items[index];
        let details = &mut answers.details.limits[answer.details.clone()];
        if answers.refused {
            judged.done.noted = judged.done.noted.undone();
        }
        let is_apart = !answers.refused && !judged.done.charged && one.may_begin_anew();
        let before = is_apart.then(|| one.copied(transaction, nodes));
        let is_rolled = !answers.refused && !is_apart;
        let verdict = one.with_states(transaction, nodes, |states| {
            if !is_rolled {
                rules.roll(states, self.now);
            }
            one.verdict(states, &judged.done, details)
        });
        if let Some(before) = before {
            one.restore(transaction, nodes, &before);
        }
        answer.action = one.action(&verdict, &mut answers.actions);
        answer.result = Ok(verdict);
        true
    }

    fn write_bans(&self, transaction: &mut Transaction<'_>, judged: &[Option<JudgedItem>]) {
        for (index, judged) in judged.iter().enumerate() {
            if let Some(ban) = judged.and_then(|judged| judged.ban) {
                self.one(index).write_ban(transaction, ban);
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
