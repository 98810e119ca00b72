//! The code under test, with the words of each key kept as in a store.

use frs_conf::{Biz, Mode, Scope};
use frs_limit::Worth;
use frs_limit::{
    Demand, Details, Figures, Judgement, LimitFigures, Rules, Span, States, Terms, Verdict,
};

use super::plain::{Answer, Detail, Shown, far};
use super::steps::{Command, KEYS, Step};

#[derive(Debug, Clone)]
pub struct Real {
    rules: Rules,
    /// The time span in which the rules need not be told the time again.
    told: Span,
    mode: Mode,
    keys: Vec<Vec<u64>>,
    biz: Vec<u64>,
}

/// A verdict, whether it refuses an atomic request, and the details.
pub type Outcome = (Verdict, bool, Details);

impl Real {
    pub fn new(biz: &Biz) -> Real {
        let rules = Rules::new(biz);
        let keys = vec![vec![0; rules.words(Scope::Key)]; KEYS];
        let whole = vec![0; rules.words(Scope::Biz)];
        Real { rules, told: Span::NEVER, mode: biz.mode, keys, biz: whole }
    }

    fn tell(&mut self, now: u64) {
        if !self.told.holds(now) {
            self.told = self.rules.set_now(now);
        }
    }

    fn on_states<T>(&mut self, key: usize, work: impl FnOnce(&Rules, &mut States<'_>) -> T) -> T {
        let key = &mut self.keys[key];
        work(&self.rules, &mut States { key, biz: &mut self.biz, terms: &Terms::NEW })
    }

    fn judge(&mut self, step: &Step, now: u64) -> (Judgement, Details) {
        self.tell(now);
        self.on_states(step.key, |rules, states| {
            let mut details = Details::default();
            rules.roll(states, now);
            rules.details(states, now, step.count, &mut details);
            (rules.judge(states, now, step.count), details)
        })
    }

    pub fn run(&mut self, step: &Step, now: u64) -> Outcome {
        self.tell(now);
        let mut copy = self.clone();
        let (mut judgement, mut details) = copy.judge(step, now);
        let refuses = copy.rules.refuses(&judgement);
        let charged = match step.command {
            Command::Query => false,
            Command::Force => true,
            Command::Update => !judgement.limited,
        };
        let ban_until = copy.on_states(step.key, |rules, states| {
            if charged {
                rules.charge(states, now, step.count);
                return None;
            }
            let bans = step.command == Command::Update;
            bans.then(|| rules.start_ban(states, now, &mut judgement)).flatten()
        });
        let verdict = copy.on_states(step.key, |rules, states| {
            rules.refigure(states, now, &mut details.limits);
            rules.verdict(states, now, &judgement)
        });
        self.check_pass(step, now, &copy, verdict);
        if charged {
            *self = copy;
        } else if let Some(until) = ban_until {
            self.on_states(step.key, |rules, states| rules.set_ban_word(states, until));
        }
        (verdict, refuses, details)
    }

    /// The single-step paths must give the same result as the step-by-step path: `copy` and
    /// `verdict`.
    fn check_pass(&self, step: &Step, now: u64, copy: &Real, verdict: Verdict) {
        let mut words = self.keys[step.key].clone();
        let charges = step.command != Command::Query;
        let demand = Demand { count: step.count, charges, terms: &Terms::NEW };
        let passed = if self.rules.are_apart() {
            self.rules.pass_apart(&mut words, now, demand)
        } else {
            self.rules.pass(&mut words, now, demand)
        };
        if let Some(told) = passed {
            assert_eq!((told, &words), (verdict, &copy.keys[step.key]));
        }
    }

    pub fn rank(&self, scope: Scope, key: usize, now: u64) -> Worth {
        let mut copy = self.clone();
        copy.tell(now);
        let words = if scope == Scope::Key { &mut copy.keys[key] } else { &mut copy.biz };
        copy.rules.worth(scope, words, now)
    }

    pub fn is_fresh(&self, scope: Scope, key: usize, now: u64) -> bool {
        let mut copy = self.clone();
        copy.tell(now);
        copy.on_states(key, |rules, states| {
            rules.roll(states, now);
            rules.is_fresh(states, scope)
        })
    }

    pub fn longest_life_ms(&self, scope: Scope) -> Option<u64> {
        self.rules.longest_life_ms(scope)
    }

    pub fn has_ban(&self) -> bool {
        self.rules.has_ban()
    }

    /// Whether the item would pass `wait` milliseconds from `now`.
    pub fn would_pass(&self, step: &Step, now: u64, wait: u64) -> bool {
        let judgement = self.clone().judge(step, now + wait).0;
        !judgement.limited || self.mode == Mode::Shadow
    }
}

pub fn answer((verdict, refuses, _): &Outcome) -> Answer {
    assert!(!verdict.degraded && verdict.list.is_none());
    Answer {
        limited: verdict.limited,
        banned: verdict.banned,
        shadow: verdict.shadow,
        refuses: *refuses,
        limit: verdict.limit.into(),
        advised: verdict.advised.into(),
        weight: verdict.weight,
        shown: shown(&verdict.figures),
        retry: verdict.retry_ms.map(ms),
        window_ms: verdict.window_ms.map(ms),
    }
}

pub fn details((.., details): &Outcome) -> Vec<Detail> {
    assert!(details.limits.iter().zip(1..).all(|(detail, index)| detail.index == index));
    let detail = |detail: &LimitFigures| Detail {
        policy: detail.policy,
        limited: detail.limited,
        retry: detail.retry_ms.map(ms),
        shown: shown(&detail.figures),
        history: details.totals(detail).map(<[u32]>::to_vec),
    };
    details.limits.iter().map(detail).collect()
}

fn shown(figures: &Figures) -> Shown {
    Shown {
        used: figures.used.into(),
        max: figures.max.into(),
        remaining: figures.remaining.into(),
        reset: figures.reset_ms.map(ms),
    }
}

fn ms(ms: u64) -> i128 {
    far(ms.into())
}
