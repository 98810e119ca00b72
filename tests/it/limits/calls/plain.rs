//! One business in plain terms: what an item is, what it charges, and what is answered.
//!
//! Invariant: an attempt changes a copy. The caller keeps the copy only where the rules say so.

use std::collections::BTreeMap;
use std::rc::Rc;

use frs_conf::{Biz, DistinctCounting, Limit, ListRule, Mode, Pattern, Policy, Scope, Unit};
use frs_engine::{Command, ItemError};

use super::super::model::plain::{Detail, Shown, far, weight_at};
use super::super::model::policies::{self, State};
use super::numbers;
use super::plan::{ItemPlan, KEYS, Step};
use super::record::{Hold, Ids, What};
use super::view::{self, Members, View};

/// Tolerance for turns whose clocks were read out of order.
const SKEW_MS: i128 = 1000;

/// The owner of a state: a key, or (none) the whole business.
pub type Owner = Option<usize>;

/// What the state of a window whose length calls choose belongs to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tag {
    Any,
    Unit(Unit),
    Interval(u64),
}

#[derive(Debug, Clone)]
pub enum Kept {
    /// And since when the state counts under its tag.
    Uses(Tag, State, i128),
    Members(Members),
}

/// The records of one business.
#[derive(Debug, Clone)]
pub struct Model {
    pub biz: Rc<Biz>,
    pub states: BTreeMap<(usize, Owner), Kept>,
    /// Times of use in the order in which they were charged.
    pub rings: BTreeMap<Owner, Vec<i128>>,
    /// The end of a key's ban, and the limit that started it.
    pub bans: BTreeMap<usize, (i128, usize)>,
    pub ids: BTreeMap<usize, Ids>,
    pub holds: BTreeMap<usize, Vec<Hold>>,
}

/// A verdict, in words.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub limited: bool,
    pub banned: bool,
    pub shadow: bool,
    pub list: Option<&'static str>,
    pub limit: usize,
    pub advised: usize,
    pub weight: Option<u32>,
    pub shown: Shown,
    pub retry: Option<i128>,
    pub window_ms: Option<i128>,
    pub granted: Option<i128>,
    pub repeated: bool,
    pub unknown_hold: bool,
    pub held: Option<i128>,
    pub details: Vec<Detail>,
}

/// The answers to a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Answers {
    pub refused: bool,
    pub items: Vec<Result<Answer, ItemError>>,
}

/// What an item does before anything is charged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Act {
    /// Charges a count without a hold.
    Plain(i128),
    /// Makes a hold of a count.
    New(i128),
    /// Changes the hold at a place by a difference that is not 0.
    Change(usize, i128),
    /// Says the same count again.
    Same(usize),
    /// Settles the hold at a place at a difference.
    Settle(usize, i128),
    /// Settles a hold that is not known.
    SettleUnknown(i128),
    /// Charges nothing: a repeat of a charged id or of a settled hold.
    Repeat,
    /// Lets go what is not held.
    Nothing,
}

/// The judgement on an item.
#[derive(Debug, Clone)]
pub struct Attempt {
    pub policies: Vec<Policy>,
    pub act: Act,
    /// Limits that do not admit it and do not only advise.
    refusing: Vec<usize>,
    advised: usize,
    ban_left: i128,
    /// The retry of each refusing limit.
    retries: BTreeMap<usize, Option<i128>>,
    /// What is judged and charged of a partial item.
    pub part: Option<i128>,
    charged: bool,
    /// The end of a ban that it starts, the ban's length and the limit.
    starts: Option<(i128, i128, usize)>,
}

impl Attempt {
    fn limited(&self) -> bool {
        self.ban_left > 0 || !self.refusing.is_empty()
    }
}

/// A judged item, or the answer of what no limit judges.
enum Tried {
    Judged(Attempt),
    Listed(Answer),
}

impl Model {
    pub fn new(biz: Biz) -> Model {
        let (states, rings, bans, ids, holds) = Default::default();
        Model { biz: Rc::new(biz), states, rings, bans, ids, holds }
    }

    pub fn limit(&self, at: usize) -> &Limit {
        &self.biz.limits[at]
    }

    pub fn indices(&self) -> std::ops::Range<usize> {
        0..self.biz.limits.len()
    }

    pub fn owner(&self, at: usize, key: usize) -> Owner {
        (self.limit(at).scope == Scope::Key).then_some(key)
    }

    fn enforces(&self) -> bool {
        self.biz.mode == Mode::Enforce
    }

    /// The ends of a key's holds, and the times of its ids.
    pub fn times(&self, key: usize) -> (Vec<i128>, Vec<i128>) {
        let ends = self.holds.get(&key).into_iter().flatten().map(|hold| hold.end).collect();
        (ends, self.ids.get(&key).map(Ids::times).unwrap_or_default())
    }

    pub fn tag(&self, at: usize, policy: &Policy) -> Tag {
        match policy {
            _ if self.limit(at).per_call.is_none() => Tag::Any,
            Policy::Calendar(limit) => Tag::Unit(limit.turns.unit),
            Policy::SlidingCounter(limit) => Tag::Interval(limit.interval_ms),
            _ => Tag::Any,
        }
    }

    /// A limit as an item meets it.
    pub fn view(&self, at: usize, policies: &[Policy], item: &ItemPlan, now: i128) -> View {
        let (policy, owner) = (&policies[at], self.owner(at, item.key));
        let kept = self.states.get(&(at, owner));
        match policy {
            Policy::Distinct(limit) => {
                let DistinctCounting::Exact { max } = limit.counting else { unreachable!() };
                let mut members = match kept {
                    Some(Kept::Members(members)) => Some(members.clone()),
                    _ => None,
                };
                if let Some(Members { known, .. }) = &mut members {
                    // A set that has become smaller keeps those that came last.
                    known.drain(..known.len().saturating_sub(self.room(at)));
                }
                view::of_members(limit.turns.as_ref(), max, members, item.member.clone(), now)
            }
            Policy::Concurrent(limit) => {
                let holds = self.holds.get(&item.key).map_or(&[][..], |holds| holds);
                let live: Vec<&Hold> = holds.iter().filter(|hold| hold.is_live(now)).collect();
                let own = live.iter().position(|hold| Some(&hold.id) == item.hold.as_ref());
                let live = live.iter().map(|hold| (hold.end, hold.count)).collect();
                View::Held { max: limit.max.into(), now, live, own }
            }
            policy => {
                let state = match kept {
                    Some(Kept::Uses(tag, state, _)) if *tag == self.tag(at, policy) => {
                        Some(state.clone())
                    }
                    _ => None,
                };
                let history = usize::from(self.limit(at).history);
                let ring = self.ring(owner, now);
                View::Uses(policy.clone(), policies::view(policy, history, state, &ring, now))
            }
        }
    }

    fn longest_ban(&self) -> i128 {
        self.biz.limits.iter().filter_map(|limit| limit.ban_ms).max().unwrap_or(0).into()
    }

    pub fn ban_left(&self, key: usize, now: i128) -> i128 {
        match self.bans.get(&key) {
            Some(&(until, _)) if until > now && until <= now + self.longest_ban() + SKEW_MS => {
                (until - now).min(self.longest_ban())
            }
            _ => 0,
        }
    }

    /// The faults of an item, in the order in which they count.
    fn check(&self, item: &ItemPlan, step: &Step) -> Result<Vec<Policy>, ItemError> {
        let (biz, hold) = (&self.biz, item.hold.is_some());
        let (distinct, concurrent) = (biz.notes_members(), biz.is_concurrent());
        let count = item.count.ok_or(ItemError::BadCount)?;
        let is_forced = item.force && step.command == Command::Update;
        let whole = is_forced || hold || item.settle || count < 1;
        if (item.partial && (step.atomic || whole || distinct || concurrent))
            || (count < 0 && (hold || concurrent))
            || (distinct && ![1, -1].contains(&count))
        {
            return Err(ItemError::BadCount);
        }
        let named = item.member.as_ref().map(|member| (1..=1024).contains(&member.len()));
        if distinct && !named.unwrap_or(step.command == Command::Query) {
            return Err(ItemError::BadMember);
        }
        let numbers = numbers::policies(biz, item.key, &item.numbers);
        let policies = numbers.ok_or(ItemError::BadRate)?;
        let id = if step.atomic { &step.once } else { &item.once };
        let is_id = |id: &String| (1..=64).contains(&id.len());
        if (step.atomic && item.once.is_some())
            || id.as_ref().is_some_and(|id| biz.once.is_none() || !is_id(id))
        {
            return Err(ItemError::BadOnce);
        }
        let life = |ttl: Option<u64>| {
            let most = biz.holds.map_or(0, |holds| holds.ttl_ms);
            ttl.is_some_and(|ttl| (1..=most).contains(&ttl))
        };
        let bare = concurrent && step.command == Command::Update;
        let is_bad = match &item.hold {
            None => item.settle || item.ttl_ms.is_some() || bare,
            Some(id) => {
                biz.holds.is_none()
                    || !is_id(id)
                    || (item.settle && concurrent)
                    || !item.ttl_ms.is_none_or(life)
            }
        };
        if is_bad { Err(ItemError::BadHold) } else { Ok(policies) }
    }

    /// The answer of a list, if one decides.
    fn listed(&self, item: &ItemPlan) -> Option<Answer> {
        let rule = self.biz.listed.iter().find_map(|listed| match &listed.pattern {
            Pattern::Exact(text) if text == KEYS[item.key] => Some(listed.rule),
            _ => None,
        });
        let list = match rule? {
            ListRule::Allow => "allow",
            ListRule::Deny => "deny",
            ListRule::Override { .. } => return None,
        };
        let denies = list == "deny";
        let (limited, shadow) = (denies && self.enforces(), denies && !self.enforces());
        let count = i128::from(item.count?);
        Some(Answer {
            limited,
            shadow,
            list: Some(list),
            granted: item.partial.then_some(if limited { 0 } else { count }),
            banned: false,
            limit: 0,
            advised: 0,
            weight: None,
            shown: Shown { used: 0, max: 0, remaining: 0, reset: None },
            retry: None,
            window_ms: None,
            repeated: false,
            unknown_hold: false,
            held: None,
            details: Vec::new(),
        })
    }

    /// What an item asks for.
    fn act(&self, item: &ItemPlan, once: Option<&String>, step: &Step, now: i128) -> Act {
        let count = i128::from(item.count.unwrap());
        let remembers = |id: &String| {
            let Some(once) = self.biz.once else { return false };
            self.ids.get(&item.key).is_some_and(|ids| ids.know(id, now, once))
        };
        if step.command == Command::Update && once.is_some_and(remembers) {
            return Act::Repeat;
        }
        let Some(id) = &item.hold else { return Act::Plain(count) };
        let holds = self.holds.get(&item.key).map_or(&[][..], |holds| holds);
        let at = holds.iter().position(|hold| hold.id == *id && !hold.is_done(now));
        let Some(at) = at else {
            return match (item.settle, count) {
                (true, count) => Act::SettleUnknown(count),
                (false, 0) => Act::Nothing,
                (false, count) => Act::New(count),
            };
        };
        let by = count - holds[at].count;
        match holds[at].what {
            What::Settled => Act::Repeat,
            What::Held | What::Kept if item.settle => Act::Settle(at, by),
            What::Held | What::Kept if by == 0 => Act::Same(at),
            What::Held | What::Kept => Act::Change(at, by),
        }
    }

    /// Judges an item, and charges it if it passes. This model is the copy to charge.
    fn attempt(
        &mut self,
        item: &ItemPlan,
        step: &Step,
        repeats: bool,
        now: i128,
    ) -> Result<Tried, ItemError> {
        let policies = self.check(item, step)?;
        if let Some(answer) = self.listed(item) {
            return Ok(Tried::Listed(answer));
        }
        let before = self.clone();
        self.lapse(item, &policies, now);
        let once = if step.atomic { step.once.as_ref() } else { item.once.as_ref() };
        // Those of an atomic request were looked up before its first item.
        let act = match (repeats, step.atomic) {
            (true, _) => Act::Repeat,
            (false, true) => self.act(item, None, step, now),
            (false, false) => self.act(item, once, step, now),
        };
        let mut attempt = Attempt {
            policies,
            act,
            refusing: Vec::new(),
            advised: 0,
            ban_left: 0,
            retries: BTreeMap::new(),
            part: None,
            charged: false,
            starts: None,
        };
        let asked = match act {
            Act::Plain(count) => (count >= 0).then_some(count),
            Act::New(count) => Some(count),
            Act::Change(_, by) => (by > 0).then_some(by),
            _ => None,
        };
        if let Some(count) = asked {
            self.judge(&mut attempt, item, now, count);
        }
        let passes = !attempt.limited() || item.force;
        if matches!(act, Act::New(_)) && passes && !self.has_room(item.key, now) {
            *self = before;
            return Err(ItemError::FullHolds);
        }
        let is_update = step.command == Command::Update;
        if passes {
            attempt.charged = !matches!(act, Act::Repeat | Act::Nothing);
            self.carry_out(&attempt, item, now);
            let remembers = attempt.charged && is_update;
            if let (Some(id), Some(once), true) = (once, self.biz.once, remembers) {
                self.ids.entry(item.key).or_default().note(id, now, once);
            }
        } else if is_update && !item.force && attempt.ban_left == 0 {
            attempt.starts = self.ban_started(&attempt.refusing, now);
        }
        if !attempt.charged {
            *self = before;
        }
        Ok(Tried::Judged(attempt))
    }

    fn judge(&self, attempt: &mut Attempt, item: &ItemPlan, now: i128, count: i128) {
        attempt.ban_left = self.ban_left(item.key, now);
        let refuses = |at: &usize, view: &View, count| {
            self.limit(*at).advice.is_none() && !view.admits(count)
        };
        let views: Vec<(usize, View)> =
            self.indices().map(|at| (at, self.view(at, &attempt.policies, item, now))).collect();
        let mut count = count;
        if item.partial {
            let refusing = views.iter().filter(|(at, view)| refuses(at, view, count));
            let least = refusing.map(|(_, view)| view.admitted_of(count)).min();
            count = least.unwrap_or(count).clamp(1, count);
            attempt.part = Some(count);
        }
        for (at, view) in &views {
            if view.admits(count) {
                continue;
            }
            if self.limit(*at).advice.is_some() {
                attempt.advised = at + 1;
            } else {
                attempt.refusing.push(*at);
                attempt.retries.insert(*at, view.retry(count));
            }
        }
    }

    fn ban_started(&self, refusing: &[usize], now: i128) -> Option<(i128, i128, usize)> {
        let longest = refusing.iter().filter_map(|&at| self.limit(at).ban_ms).max()?;
        let first = *refusing.iter().find(|at| self.limit(**at).ban_ms == Some(longest))?;
        Some((now + i128::from(longest), longest.into(), first))
    }

    fn has_room(&self, key: usize, now: i128) -> bool {
        let entries = self.biz.holds.map_or(0, |holds| usize::from(holds.entries));
        let stands = |hold: &&Hold| hold.is_live(now);
        let holds = self.holds.get(&key).map_or(&[][..], |holds| holds);
        holds.iter().filter(stands).count() < entries
    }

    /// The answer to an attempt, by the records as they are after the request.
    fn answer(&self, attempt: &Attempt, item: &ItemPlan, now: i128) -> Answer {
        let Attempt { policies, act, refusing, .. } = attempt;
        let (enforced, limited) = (self.enforces(), attempt.limited());
        let views: Vec<View> =
            self.indices().map(|at| self.view(at, policies, item, now)).collect();
        let starts = attempt.starts.map(|(_, length, _)| length);
        let waits = attempt.retries.values().copied().collect::<Option<Vec<i128>>>();
        let retry =
            waits.and_then(|waits| waits.into_iter().chain([attempt.ban_left]).chain(starts).max());
        let decider = self.decider(attempt, item, &views);
        // The record does not remember how many a repeat was granted.
        let granted = (item.partial && *act != Act::Repeat).then(|| match attempt.part {
            Some(_) if limited && enforced => 0,
            Some(part) if enforced => part,
            _ => i128::from(item.count.unwrap()),
        });
        let is_repeat = matches!(act, Act::Repeat | Act::Same(_));
        let held = self.holds.get(&item.key).into_iter().flatten();
        let held = held.filter(|hold| hold.is_live(now)).map(|hold| hold.count).sum();
        let detail = |(at, view): (usize, &View)| Detail {
            policy: policies[at].name(),
            limited: refusing.contains(&at),
            retry: attempt.retries.get(&at).copied().flatten().filter(|_| enforced).map(far),
            shown: view.shown(),
            history: view.before(),
        };
        let detail = item.detail.then(|| views.iter().enumerate().map(detail).collect());
        Answer {
            limited: limited && enforced,
            banned: (attempt.ban_left > 0 || starts.is_some()) && enforced,
            shadow: limited && !enforced,
            list: None,
            limit: decider + 1,
            advised: attempt.advised,
            weight: self.weight(&views),
            shown: views[decider].shown(),
            retry: retry.filter(|_| limited && enforced).map(far),
            window_ms: views[decider].window_ms().map(far),
            granted,
            repeated: is_repeat,
            unknown_hold: matches!(act, Act::SettleUnknown(_)),
            held: self.biz.holds.map(|_| held),
            details: detail.unwrap_or_default(),
        }
    }

    fn decider(&self, attempt: &Attempt, item: &ItemPlan, views: &[View]) -> usize {
        if let Some(&first) = attempt.refusing.first() {
            return first;
        }
        if attempt.ban_left > 0 {
            return self.bans[&item.key].1;
        }
        let class = |at: usize| match self.limit(at).policy {
            Policy::Count(_) => 2,
            _ => i32::from(self.limit(at).advice.is_some()),
        };
        self.indices().min_by_key(|&at| (class(at), views[at].remaining())).unwrap()
    }

    fn weight(&self, views: &[View]) -> Option<u32> {
        let at = self.biz.limits.iter().position(|limit| !limit.weights.is_empty())?;
        Some(weight_at(&self.limit(at).weights, views[at].shown().used))
    }

    /// Runs a request.
    pub fn run(&mut self, step: &Step, now: i128) -> Answers {
        if step.atomic {
            return self.run_together(step, &step.items, now);
        }
        let mut answers = Answers { refused: false, items: Vec::new() };
        for item in &step.items {
            let mut one = self.run_together(step, std::slice::from_ref(item), now);
            answers.items.append(&mut one.items);
        }
        answers
    }

    /// Runs items of which all are charged or none.
    fn run_together(&mut self, step: &Step, items: &[ItemPlan], now: i128) -> Answers {
        // One item that remembers the request's id makes all of it a repeat.
        let known = |item: &ItemPlan| {
            self.check(item, step).is_ok()
                && self.listed(item).is_none()
                && self.act(&ItemPlan { hold: None, ..item.clone() }, step.once.as_ref(), step, now)
                    == Act::Repeat
        };
        let repeats = step.atomic && items.iter().any(known);
        let mut after = self.clone();
        let mut tried = Vec::new();
        for item in items {
            tried.push(after.attempt(item, step, repeats, now));
        }
        let refuses = |(tried, item): (&Result<Tried, ItemError>, &ItemPlan)| match tried {
            Ok(Tried::Judged(attempt)) => attempt.limited() && self.enforces() && !item.force,
            Ok(Tried::Listed(answer)) => answer.limited && !item.force,
            // In shadow mode a record without room keeps no other item from being charged.
            Err(ItemError::FullHolds) => self.enforces(),
            Err(_) => true,
        };
        let refused = step.atomic && !repeats && tried.iter().zip(items).any(refuses);
        let nothing = |tried: &Result<Tried, ItemError>| match tried {
            Ok(Tried::Judged(attempt)) => !attempt.charged,
            _ => true,
        };
        // An atomic Query answers what the Update would answer.
        let mut stored = self.clone();
        if !refused && !tried.iter().all(nothing) {
            match step.command {
                Command::Update => {
                    *self = after;
                    stored = self.clone();
                }
                Command::Query if step.atomic => stored = after,
                Command::Query => {}
            }
        }
        let mut started = BTreeMap::new();
        for (tried, item) in tried.iter().zip(items) {
            if let Ok(Tried::Judged(Attempt { starts: Some((until, _, limit)), .. })) = tried {
                self.shorten(item.key);
                // Of two bans that one request starts the longer one counts.
                let longer = started.get(&item.key).is_some_and(|end| end >= until);
                if !longer {
                    started.insert(item.key, *until);
                    self.bans.insert(item.key, (*until, *limit));
                    stored.bans.insert(item.key, (*until, *limit));
                }
            }
        }
        // A refused request shows what has lapsed, too, and stores nothing of it.
        let answers = tried.into_iter().zip(items).map(|(tried, item)| match tried? {
            Tried::Judged(attempt) => {
                stored.lapse(item, &attempt.policies, now);
                Ok(stored.answer(&attempt, item, now))
            }
            Tried::Listed(answer) => Ok(answer),
        });
        Answers { refused, items: answers.collect() }
    }

    /// Sees a request. False if the page does not say how it is answered.
    pub fn knows(&mut self, step: &Step, now: i128) -> bool {
        let Some(once) = self.biz.once else { return true };
        self.ids.values_mut().for_each(|ids| ids.see(now, once));
        let doubts = |item: &ItemPlan| {
            let id = item.once.as_ref().or(step.once.as_ref());
            let ids = self.ids.get(&item.key);
            id.zip(ids).is_some_and(|(id, ids)| ids.doubts(id, now, once))
        };
        !step.items.iter().any(doubts)
    }

    /// Takes other numbers. False if the page does not say what becomes of the records.
    pub fn adopt(&mut self, biz: Biz) -> bool {
        let entries = biz.holds.map_or(0, |holds| usize::from(holds.entries));
        if self.holds.values().any(|holds| holds.len() > entries) {
            return false;
        }
        self.biz = Rc::new(biz);
        true
    }
}
