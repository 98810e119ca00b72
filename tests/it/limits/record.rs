//! The node of one key under limits, in place of service and store. A command that may not change
//! the node leaves it as it was.

use frs_conf::{Biz, KeyType, Limit, Policy, Scope, Sliding, Token};
use frs_limit::Worth;
use frs_limit::{Details, LimitFigures, Rules, States, Terms, Verdict, Written};

/// The time at which tests begin.
pub const T0: u64 = 1_700_000_000_000;
pub const SECOND: u64 = 1000;
pub const MINUTE: u64 = 60 * SECOND;
pub const HOUR: u64 = 60 * MINUTE;
pub const DAY: u64 = 24 * HOUR;

pub fn sliding(interval_ms: u64, max: u64) -> Limit {
    Limit::new(Scope::Key, Policy::Sliding(Sliding { interval_ms, max }))
}

pub fn token(rate: u64, per_ms: u64, burst: u64) -> Limit {
    Limit::new(Scope::Key, Policy::Token(Token { rate, per_ms, burst }))
}

fn rules(limits: &[Limit]) -> Rules {
    Rules::new(&Biz::new(1, "biz", KeyType::String, limits.to_vec()))
}

#[derive(Debug, Clone)]
pub struct Record {
    pub rules: Rules,
    /// All words after the node's key field. The rules use the first of them.
    pub node: Vec<u64>,
}

impl Record {
    pub fn new(limits: &[Limit]) -> Record {
        let rules = rules(limits);
        let node = vec![0; rules.words(Scope::Key)];
        Record { rules, node }
    }

    /// The words that the limits use.
    pub fn words(&self) -> usize {
        self.rules.words(Scope::Key)
    }

    /// Replaces the limits by others that adopt the node. It has room for both.
    pub fn reload(&mut self, limits: &[Limit]) {
        let (old, new) = (self.rules.clone(), rules(limits));
        let written = Written { shape: old.shape(Scope::Key), has_ban: old.has_ban() };
        assert!(new.adopts(Scope::Key, written.shape));
        let is_of_shape = new.shape(Scope::Key) == written.shape;
        self.node.resize(self.node.len().max(new.words(Scope::Key)), 0);
        if !is_of_shape || !new.is_adopted(Scope::Key, written.has_ban, &self.node) {
            new.adopt(Scope::Key, written, &mut self.node);
        }
        self.rules = new;
    }

    /// The same words under other limits.
    pub fn under(&self, limits: &[Limit]) -> Record {
        Record { node: self.node.clone(), ..Record::new(limits) }
    }

    /// A copy whose limits know the time.
    fn at(&self, now: u64) -> Record {
        let mut copy = self.clone();
        copy.rules.set_now(now);
        copy
    }

    pub fn on_states<T>(&mut self, work: impl FnOnce(&Rules, &mut States<'_>) -> T) -> T {
        let words = self.words();
        let key = &mut self.node[..words];
        let mut states = States { key, biz: &mut [], terms: &Terms::NEW };
        work(&self.rules, &mut states)
    }

    /// The answer to a command. Its charge is kept if it is not refused.
    fn command(&mut self, now: u64, count: i32, charges: impl Fn(bool) -> bool) -> Verdict {
        let mut copy = self.at(now);
        let (charged, verdict) = copy.on_states(|rules, states| {
            rules.roll(states, now);
            let judgement = rules.judge(states, now, count);
            let charged = charges(judgement.limited);
            if charged {
                rules.charge(states, now, count);
            }
            (charged, rules.verdict(states, now, &judgement))
        });
        if charged {
            *self = copy;
        }
        verdict
    }

    pub fn query(&self, now: u64, count: i32) -> Verdict {
        self.clone().command(now, count, |_| false)
    }

    pub fn update(&mut self, now: u64, count: i32) -> Verdict {
        self.command(now, count, |limited| !limited)
    }

    pub fn force(&mut self, now: u64, count: i32) -> Verdict {
        self.command(now, count, |_| true)
    }

    /// The figures of each limit for a Query.
    pub fn details(&self, now: u64, count: i32) -> Vec<LimitFigures> {
        self.all_details(now, count).limits
    }

    /// The totals of earlier windows that the limit at this position remembers, the newest first.
    pub fn history(&self, now: u64, position: usize) -> Vec<u32> {
        let details = self.all_details(now, 1);
        details.totals(&details.limits[position]).expect("a history").to_vec()
    }

    fn all_details(&self, now: u64, count: i32) -> Details {
        let mut details = Details::default();
        self.at(now).on_states(|rules, states| {
            rules.roll(states, now);
            rules.details(states, now, count, &mut details);
        });
        details
    }

    pub fn is_fresh(&self, now: u64) -> bool {
        self.at(now).on_states(|rules, states| {
            rules.roll(states, now);
            rules.is_fresh(states, Scope::Key)
        })
    }

    pub fn rank(&self, now: u64) -> Worth {
        let mut copy = self.at(now);
        let words = copy.words();
        copy.rules.worth(Scope::Key, &mut copy.node[..words], now)
    }

    pub fn longest_life_ms(&self) -> Option<u64> {
        self.rules.longest_life_ms(Scope::Key)
    }
}

/// used, remaining, reset, retry
pub fn brief(verdict: &Verdict) -> (u64, u64, Option<u64>, Option<u64>) {
    let figures = verdict.figures;
    (figures.used, figures.remaining, figures.reset_ms, verdict.retry_ms)
}
