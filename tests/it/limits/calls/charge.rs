//! What an item changes: uses, members, ids and holds.
//!
//! Invariant: what is given back is never more than the window has used.

use frs_conf::{Limit, OnLapse, Policy, Scope};

use super::numbers;
use super::plain::{Act, Attempt, Kept, Model, Owner, Tag};
use super::plan::ItemPlan;
use super::record::{Hold, What};
use super::view::{Members, View};

impl Model {
    /// The most members that a set knows.
    pub fn room(&self, at: usize) -> usize {
        let limit = self.limit(at);
        let max = limit.policy.max().unwrap_or(0);
        numbers::largest(&self.biz, at, limit, max) as usize
    }

    /// The sliding limits of a scope: the longest interval of a call, and the largest maximum.
    fn slidings(&self, owner: Owner) -> Vec<(u64, u64)> {
        let scope = if owner.is_some() { Scope::Key } else { Scope::Biz };
        let own = self.indices().filter_map(|at| match self.limit(at) {
            limit @ Limit { policy: Policy::Sliding(sliding), scope: of, .. } if *of == scope => {
                let longest =
                    limit.per_call.map_or(sliding.interval_ms, |per_call| per_call.max_period_ms);
                Some((longest, numbers::largest(&self.biz, at, limit, sliding.max)))
            }
            _ => None,
        });
        own.collect()
    }

    /// The log of a scope, without uses that no call can count.
    pub fn ring(&self, owner: Owner, now: i128) -> Vec<i128> {
        let Some(ring) = self.rings.get(&owner) else { return Vec::new() };
        let slidings = self.slidings(owner);
        let longest = slidings.iter().map(|(longest, _)| i128::from(*longest)).max();
        let counts = |time: &&i128| longest.is_some_and(|longest| (now - **time).abs() < longest);
        // A log that has become shorter keeps the newest.
        let most = slidings.iter().map(|(_, max)| *max as usize).max().unwrap_or(0);
        ring[ring.len().saturating_sub(most)..].iter().filter(counts).copied().collect()
    }

    fn append(&mut self, owner: Owner, now: i128, count: i128) {
        let slidings = self.slidings(owner);
        let Some(most) = slidings.iter().map(|(_, max)| *max as usize).max() else { return };
        let mut ring = self.ring(owner, now);
        if count < 0 {
            let left = ring.len().saturating_sub(count.unsigned_abs() as usize);
            ring.truncate(left);
        } else {
            ring.extend(std::iter::repeat_n(now, most.min(count as usize)));
            ring.drain(..ring.len().saturating_sub(most));
        }
        self.rings.insert(owner, ring);
    }

    /// Ends the lives of holds, in the order of their ends.
    pub fn lapse(&mut self, item: &ItemPlan, policies: &[Policy], now: i128) {
        let Some(settings) = self.biz.holds else { return };
        let concurrent = self.biz.is_concurrent();
        let holds = self.holds.entry(item.key).or_default();
        // No life is longer than hold-ttl, whatever clock or map.xml were when it began.
        let longest = now + i128::from(settings.ttl_ms);
        holds.iter_mut().for_each(|hold| hold.end = hold.end.min(longest));
        holds.retain(|hold| !hold.is_done(now));
        let is_over = |hold: &Hold| hold.what == What::Held && hold.end <= now;
        if !concurrent && settings.on_lapse == OnLapse::Keep {
            let over = holds.iter_mut().filter(|hold| is_over(hold));
            over.for_each(|hold| hold.what = What::Kept);
            return;
        }
        let mut over: Vec<Hold> = holds.iter().filter(|hold| is_over(hold)).cloned().collect();
        holds.retain(|hold| !is_over(hold));
        over.sort_by_key(|hold| hold.end);
        for hold in over.iter().filter(|_| !concurrent) {
            self.give_back(item, policies, hold, hold.count, now);
        }
    }

    /// Gives uses of a hold back to the limits whose window had begun when it was made. A state
    /// that has begun anew since, with another window, has none of them.
    fn give_back(
        &mut self,
        item: &ItemPlan,
        policies: &[Policy],
        hold: &Hold,
        count: i128,
        now: i128,
    ) {
        for at in self.indices() {
            let view = self.view(at, policies, item, now);
            let is_tagged = self.biz.limits[at].per_call.is_some();
            let since = match self.states.get(&(at, self.owner(at, item.key))) {
                Some(Kept::Uses(tag, _, since)) if is_tagged && *tag != Tag::Any => *since,
                _ => i128::MIN,
            };
            if since <= hold.made && view.start().is_none_or(|start| start <= hold.made) {
                self.charge_one(at, policies, item, now, -count);
            }
        }
    }

    fn charge_one(
        &mut self,
        at: usize,
        policies: &[Policy],
        item: &ItemPlan,
        now: i128,
        count: i128,
    ) {
        let place = (at, self.owner(at, item.key));
        let view = self.view(at, policies, item, now);
        let is_fresh = view.start().is_none();
        let kept = match view {
            View::Uses(policy, view) => {
                let tag = self.tag(at, &policy);
                let since = match self.states.get(&place) {
                    Some(Kept::Uses(known, _, since)) if *known == tag && !is_fresh => *since,
                    _ => now,
                };
                view.charged(&policy, count).map(|state| Kept::Uses(tag, state, since))
            }
            View::Set { mut members, .. } => {
                // Only a Query has none.
                let Some(member) = item.member.clone() else { return };
                let room = self.room(at);
                if count < 0 {
                    members.known.retain(|known| *known != member);
                } else if count > 0
                    && !members.known.contains(&member)
                    && members.known.len() < room
                {
                    members.known.push(member);
                }
                (!members.known.is_empty()).then_some(Kept::Members(members))
            }
            View::Held { .. } => None,
        };
        match kept {
            Some(kept) => self.states.insert(place, kept),
            None => self.states.remove(&place),
        };
    }

    pub fn charge(&mut self, policies: &[Policy], item: &ItemPlan, now: i128, count: i128) {
        for at in self.indices() {
            self.charge_one(at, policies, item, now, count);
        }
        self.append(Some(item.key), now, count);
        self.append(None, now, count);
        if self.ban_left(item.key, now) == 0 {
            self.bans.remove(&item.key);
        }
    }

    /// Stores a log and sets that a reload has made shorter.
    pub fn shorten(&mut self, key: usize) {
        for owner in [Some(key), None] {
            let most = self.slidings(owner).iter().map(|(_, max)| *max as usize).max();
            if let (Some(ring), Some(most)) = (self.rings.get_mut(&owner), most) {
                ring.drain(..ring.len().saturating_sub(most));
            }
        }
        for at in self.indices() {
            let room = self.room(at);
            if let Some(Kept::Members(Members { known, .. })) =
                self.states.get_mut(&(at, Some(key)))
            {
                known.drain(..known.len().saturating_sub(room));
            }
        }
    }

    /// Charges an item that passes, and notes what it holds.
    pub fn carry_out(&mut self, attempt: &Attempt, item: &ItemPlan, now: i128) {
        let Attempt { policies, act, part, .. } = attempt;
        let concurrent = self.biz.is_concurrent();
        let life = self.biz.holds.map_or(0, |holds| holds.ttl_ms);
        let end = now + i128::from(item.ttl_ms.flatten().unwrap_or(life));
        // What is written is written as of now, whatever changes.
        if matches!(act, Act::Same(_) | Act::Change(..) | Act::Settle(..)) {
            self.charge(policies, item, now, 0);
        }
        match *act {
            Act::Plain(count) => self.charge(policies, item, now, part.unwrap_or(count)),
            Act::New(count) => {
                self.charge(policies, item, now, count);
                let id = item.hold.clone().unwrap();
                self.place(
                    item.key,
                    Hold { id, count, made: now, end, what: What::Held },
                    now,
                    true,
                );
            }
            Act::Same(at) => {
                let hold = &mut self.holds.get_mut(&item.key).unwrap()[at];
                (hold.what, hold.end) = (What::Held, end);
            }
            Act::Change(at, by) => {
                if by > 0 {
                    self.charge(policies, item, now, by);
                } else if !concurrent {
                    let hold = self.holds[&item.key][at].clone();
                    self.give_back(item, policies, &hold, -by, now);
                }
                let holds = self.holds.get_mut(&item.key).unwrap();
                holds[at].count += by;
                (holds[at].what, holds[at].end) = (What::Held, end);
                holds.retain(|hold| hold.count != 0 || hold.what == What::Settled);
            }
            Act::Settle(at, by) => {
                let hold = self.holds[&item.key][at].clone();
                if by > 0 {
                    self.charge(policies, item, now, by);
                } else {
                    self.give_back(item, policies, &hold, -by, now);
                }
                let hold = &mut self.holds.get_mut(&item.key).unwrap()[at];
                (hold.what, hold.end) = (What::Settled, hold.end.max(end));
            }
            Act::SettleUnknown(count) => {
                self.charge(policies, item, now, count);
                let id = item.hold.clone().unwrap();
                let hold = Hold { id, count: 0, made: now, end, what: What::Settled };
                self.place(item.key, hold, now, false);
            }
            Act::Repeat | Act::Nothing => {}
        }
    }

    /// Gives a hold an entry: a free one, or one that may be reused.
    fn place(&mut self, key: usize, hold: Hold, now: i128, reuses: bool) {
        let entries = usize::from(self.biz.holds.unwrap().entries);
        let holds = self.holds.entry(key).or_default();
        holds.retain(|known| known.id != hold.id);
        if holds.len() >= entries {
            // Settled ones whose life is over, then other settled ones, then those that were kept.
            let rank = |hold: &Hold| match (hold.what, hold.end <= now) {
                (What::Settled, true) => Some(0),
                (What::Settled, false) if reuses => Some(1),
                (What::Kept, _) if reuses => Some(2),
                _ => None,
            };
            let places = holds.iter().enumerate();
            let ranked =
                places.filter_map(|(at, hold)| Some((rank(hold)?, hold.end, hold.made, at)));
            match ranked.min() {
                Some((.., at)) => holds.remove(at),
                None => return,
            };
        }
        holds.push(hold);
    }
}
