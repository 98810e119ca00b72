//! All limits of a biz in plain terms: which refuse, which decides, what is charged and what is
//! banned.

use std::collections::BTreeMap;

use frs_conf::{Biz, Limit, ListRule, Mode, Policy, Scope, Weight};
use frs_limit::Worth;

use super::policies::{self, State, View};
use super::steps::{Command, Step};

/// A tolerance of one second for turns whose clocks were read out of order.
const SKEW_MS: i128 = 1000;

/// The owner of states: a key, or (none) the whole biz.
type Owner = Option<usize>;

/// The states of one biz, its rings and its bans.
#[derive(Debug, Clone)]
pub struct Model {
    pub biz: Biz,
    states: BTreeMap<(usize, Owner), State>,
    /// Times of use in the order in which they were charged.
    rings: BTreeMap<Owner, Vec<i128>>,
    bans: BTreeMap<usize, i128>,
    /// The limit that started the last ban of a key.
    banning: BTreeMap<usize, usize>,
}

/// A verdict, in words.
#[derive(Debug, PartialEq)]
pub struct Answer {
    pub limited: bool,
    pub banned: bool,
    pub shadow: bool,
    /// Whether an atomic request would be refused.
    pub refuses: bool,
    pub limit: usize,
    pub advised: usize,
    pub weight: Option<u32>,
    pub shown: Shown,
    pub retry: Option<i128>,
    pub window_ms: Option<i128>,
}

/// Times beyond this count as infinite, because values beyond 64 bits saturate.
pub fn far(ms: i128) -> i128 {
    ms.min(1 << 62)
}

/// The figures of a limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    pub used: i128,
    pub max: i128,
    pub remaining: i128,
    pub reset: Option<i128>,
}

/// One limit of the detail.
#[derive(Debug, Clone, PartialEq)]
pub struct Detail {
    pub policy: &'static str,
    pub limited: bool,
    pub retry: Option<i128>,
    pub shown: Shown,
    pub history: Option<Vec<u32>>,
}

/// The judgement of the limits on an item before it is charged.
struct Judged {
    /// Limits that do not admit it and do not only advise.
    refusing: Vec<usize>,
    advised: usize,
    ban_left: i128,
    /// The retry of each refusing limit.
    retries: BTreeMap<usize, Option<i128>>,
}

impl Judged {
    fn limited(&self) -> bool {
        self.ban_left > 0 || !self.refusing.is_empty()
    }

    fn retry(&self) -> Option<i128> {
        let waits = self.retries.values().copied().collect::<Option<Vec<i128>>>()?;
        waits.into_iter().chain([self.ban_left]).max()
    }
}

impl Model {
    pub fn new(biz: Biz) -> Model {
        let (states, rings, bans, banning) = Default::default();
        Model { biz, states, rings, bans, banning }
    }

    fn limit(&self, index: usize) -> &Limit {
        &self.biz.limits[index]
    }

    fn indices(&self) -> std::ops::Range<usize> {
        0..self.biz.limits.len()
    }

    fn owner(&self, index: usize, key: usize) -> Owner {
        (self.limit(index).scope == Scope::Key).then_some(key)
    }

    pub fn view(&self, index: usize, key: usize, now: i128) -> View {
        let owner = self.owner(index, key);
        let state = self.states.get(&(index, owner)).cloned();
        let Limit { policy, history, .. } = self.limit(index);
        policies::view(policy, usize::from(*history), state, &self.ring(owner, now), now)
    }

    /// The latest time, before that of a limit's state, at which the state would be forgotten.
    pub fn forgetting(&self, index: usize, key: usize, now: i128) -> Option<i128> {
        let owner = self.owner(index, key);
        let state = self.states.get(&(index, owner)).cloned();
        policies::forgetting(&self.limit(index).policy, state, &self.ring(owner, now))
    }

    fn judge(&self, key: usize, now: i128, count: i128) -> Judged {
        let mut judged =
            Judged { refusing: Vec::new(), advised: 0, ban_left: 0, retries: BTreeMap::new() };
        if count < 0 {
            return judged;
        }
        judged.ban_left = self.ban_left(key, now);
        for index in self.indices() {
            let (limit, view) = (self.limit(index), self.view(index, key, now));
            if view.admits(&limit.policy, count) {
                continue;
            }
            if limit.advice.is_some() {
                judged.advised = index + 1;
            } else {
                judged.refusing.push(index);
                judged.retries.insert(index, view.retry(&limit.policy, count));
            }
        }
        judged
    }

    fn longest_ban(&self) -> i128 {
        self.biz.limits.iter().filter_map(|limit| limit.ban_ms).max().unwrap_or(0).into()
    }

    fn ban_left(&self, key: usize, now: i128) -> i128 {
        match self.bans.get(&key) {
            Some(&until) if until > now && until <= now + self.longest_ban() + SKEW_MS => {
                (until - now).min(self.longest_ban())
            }
            _ => 0,
        }
    }

    fn charge(&mut self, key: usize, now: i128, count: i128) {
        for index in self.indices() {
            let place = (index, self.owner(index, key));
            match self.view(index, key, now).charged(&self.limit(index).policy, count) {
                Some(state) => self.states.insert(place, state),
                None => self.states.remove(&place),
            };
        }
        self.append(Some(key), now, count);
        self.append(None, now, count);
        if self.ban_left(key, now) == 0 {
            self.bans.remove(&key);
        }
    }

    /// The sliding limits of a scope: interval, and the largest max of any key.
    fn slidings(&self, owner: Owner) -> Vec<(u64, u64)> {
        let scope = if owner.is_some() { Scope::Key } else { Scope::Biz };
        let own = self.indices().filter_map(|index| match self.limit(index) {
            Limit { policy: Policy::Sliding(limit), scope: of, .. } if *of == scope => {
                let overrides = self.biz.listed.iter().filter_map(|listed| match listed.rule {
                    ListRule::Override { limit, max } if limit == index => Some(max),
                    _ => None,
                });
                Some((limit.interval_ms, overrides.chain([limit.max]).max().unwrap()))
            }
            _ => None,
        });
        own.collect()
    }

    /// The uses of a ring, without those that no limit counts.
    fn ring(&self, owner: Owner, now: i128) -> Vec<i128> {
        let ring = self.rings.get(&owner).map_or(&[][..], |ring| ring);
        let slidings = self.slidings(owner);
        let longest = slidings.iter().map(|(interval_ms, _)| i128::from(*interval_ms)).max();
        let counts = |time: &&i128| longest.is_some_and(|longest| (now - **time).abs() < longest);
        ring.iter().filter(counts).copied().collect()
    }

    /// Charges a ring. The oldest uses beyond its length are dropped, too.
    fn append(&mut self, owner: Owner, now: i128, count: i128) {
        let slidings = self.slidings(owner);
        let Some(&(_, most)) = slidings.iter().max_by_key(|(_, max)| max) else { return };
        let (most, mut ring) = (most as usize, self.ring(owner, now));
        if count < 0 {
            let left = ring.len().saturating_sub(count.unsigned_abs() as usize);
            ring.truncate(left);
        } else {
            ring.extend(std::iter::repeat_n(now, most.min(count as usize)));
            ring.drain(..ring.len().saturating_sub(most));
        }
        self.rings.insert(owner, ring);
    }

    fn start_ban(&mut self, key: usize, now: i128, refusing: &[usize]) -> Option<i128> {
        let longest = refusing.iter().filter_map(|&index| self.limit(index).ban_ms).max()?;
        let bans = |&&index: &&usize| self.limit(index).ban_ms == Some(longest);
        self.banning.insert(key, *refusing.iter().find(bans)?);
        // A ban's record has 44 bits, so no ban ends later.
        self.bans.insert(key, (now + i128::from(longest)).min((1 << 44) - 1));
        Some(longest.into())
    }

    /// Runs a command; returns its answer and the detail.
    pub fn run(&mut self, step: &Step, now: i128) -> (Answer, Vec<Detail>) {
        let (key, count) = (step.key, i128::from(step.count));
        let judged = self.judge(key, now, count);
        let (limited, mut retry) = (judged.limited(), judged.retry());
        let mut banned = judged.ban_left > 0;
        match step.command {
            Command::Query => {}
            Command::Update if limited => {
                let ban = (!banned).then(|| self.start_ban(key, now, &judged.refusing)).flatten();
                banned |= ban.is_some();
                retry = retry.zip(ban.or(Some(0))).map(|(retry, ban)| retry.max(ban));
            }
            Command::Update | Command::Force => self.charge(key, now, count),
        }
        let decider = self.decider(key, now, &judged);
        let (shown, enforced) = (self.shown(decider, key, now), self.biz.mode == Mode::Enforce);
        let answer = Answer {
            limited: limited && enforced,
            banned: banned && enforced,
            shadow: limited && !enforced,
            refuses: limited && enforced,
            limit: decider + 1,
            advised: judged.advised,
            weight: self.weight(key, now),
            shown,
            retry: retry.filter(|_| limited && enforced).map(far),
            window_ms: self.window_ms(decider, key, now).map(far),
        };
        (answer, self.details(key, now, &judged))
    }

    fn details(&self, key: usize, now: i128, judged: &Judged) -> Vec<Detail> {
        let enforced = self.biz.mode == Mode::Enforce;
        let detail = |index: usize| Detail {
            policy: self.limit(index).policy.name(),
            limited: judged.refusing.contains(&index),
            retry: judged.retries.get(&index).copied().flatten().filter(|_| enforced).map(far),
            shown: self.shown(index, key, now),
            history: self.view(index, key, now).before(),
        };
        self.indices().map(detail).collect()
    }

    pub fn shown(&self, index: usize, key: usize, now: i128) -> Shown {
        let (policy, view) = (&self.limit(index).policy, self.view(index, key, now));
        Shown {
            used: view.used(policy),
            max: policies::max(policy),
            remaining: view.remaining(policy),
            reset: view.reset(policy).map(far),
        }
    }

    fn window_ms(&self, index: usize, key: usize, now: i128) -> Option<i128> {
        self.view(index, key, now).window_ms(&self.limit(index).policy)
    }

    fn decider(&self, key: usize, now: i128, judged: &Judged) -> usize {
        if let Some(&first) = judged.refusing.first() {
            return first;
        }
        if judged.ban_left > 0 {
            return self.banning[&key];
        }
        let mut all: Vec<usize> = self.indices().collect();
        // A stable sort: of equals, the first.
        all.sort_by_key(|&index| {
            let limit = self.limit(index);
            let remaining = self.view(index, key, now).remaining(&limit.policy);
            let class = match limit.policy {
                Policy::Count(_) => 2,
                _ => i32::from(limit.advice.is_some()),
            };
            (class, remaining)
        });
        all[0]
    }

    fn weight(&self, key: usize, now: i128) -> Option<u32> {
        let index = self.biz.limits.iter().position(|limit| !limit.weights.is_empty())?;
        let used = self.view(index, key, now).used(&self.limit(index).policy);
        Some(weight_at(&self.limit(index).weights, used))
    }

    pub fn is_fresh(&self, scope: Scope, key: usize, now: i128) -> bool {
        let banned = scope == Scope::Key && self.ban_left(key, now) > 0;
        let own = |&index: &usize| self.limit(index).scope == scope;
        !banned && self.indices().filter(own).all(|index| self.view(index, key, now).is_fresh())
    }

    pub fn rank(&self, scope: Scope, key: usize, now: i128) -> Worth {
        if self.is_fresh(scope, key, now) {
            return Worth::Expired;
        }
        let own = |&index: &usize| self.limit(index).scope == scope;
        let used: Vec<(usize, View)> = self
            .indices()
            .filter(own)
            .map(|index| (index, self.view(index, key, now)))
            .filter(|(_, view)| !view.is_fresh())
            .collect();
        let policy = |index: usize| &self.limit(index).policy;
        let refuses = |(index, view): &(usize, View)| {
            self.limit(*index).advice.is_none() && !view.admits(policy(*index), 1)
        };
        let whole = scope == Scope::Biz;
        if whole || used.iter().any(|&(index, _)| matches!(policy(index), Policy::Total(_))) {
            Worth::Kept
        } else if self.ban_left(key, now) > 0 {
            Worth::Banned
        } else if used.iter().any(refuses) {
            Worth::Limiting
        } else {
            Worth::Idle
        }
    }
}

/// Linear between the points, in thousandths, rounded to the nearest; of two equally near, the
/// larger.
pub fn weight_at(points: &[Weight], used: i128) -> u32 {
    let at = |point: &Weight| i128::from(point.at);
    let (first, last) = (points.first().unwrap(), points.last().unwrap());
    if used <= at(first) {
        return first.thousandths;
    }
    if used >= at(last) {
        return last.thousandths;
    }
    let pair = points.windows(2).find(|pair| at(&pair[0]) <= used && used < at(&pair[1]));
    let [low, high] = pair.unwrap() else { unreachable!() };
    let rise = i128::from(high.thousandths) - i128::from(low.thousandths);
    let run = at(high) - at(low);
    let doubled = 2 * rise * (used - at(low)) + run;
    (i128::from(low.thousandths) + doubled.div_euclid(2 * run)) as u32
}
