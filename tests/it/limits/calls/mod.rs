//! Calls that say more, against a simple model written from their description: numbers that come
//! with the call, parts that are granted, ids that charge once, and holds.
//!
//! A case is one business, its calls and their clock. A normal run plays 100,000 cases. `just model
//! 1000000` plays more, with overflow checks. A failure prints the smallest case that still shows
//! it.

mod chance;
mod charge;
mod numbers;
mod plain;
mod plan;
mod real;
mod record;
mod shrink;
mod view;

use chance::Chance;
use frs_conf::{Biz, Conf};
use frs_engine::Command;
use plain::{Answers, Model};
use plan::{Case, ItemPlan, Step, Tick};
use real::Real;

/// The cases of a normal run.
const CASES: u64 = 100_000;
/// The cases that share a configuration.
const TOGETHER: usize = 32;
/// The configurations that a data directory has in turn, before the next one is made.
const IN_ONE: usize = 16;
/// The clock never leaves these years: 2001 to 2100.
const FIRST_MS: i64 = 11_400 * 86_400_000;
const LAST_MS: i64 = 47_500 * 86_400_000;

/// A case in play.
struct Play {
    model: Model,
    now: i64,
    last: Option<Answers>,
    /// The page does not say how it goes on.
    is_over: bool,
}

/// A call that is answered otherwise than the model answers it.
#[derive(Debug)]
struct Difference {
    /// The phase and the step.
    at: (usize, usize),
    now: i64,
    model: Answers,
    real: Answers,
}

impl Play {
    fn begin(biz: Biz, now: i64) -> Play {
        Play { model: Model::new(biz), now, last: None, is_over: false }
    }

    /// Goes on under other numbers.
    fn adopt(&mut self, biz: Biz) {
        self.is_over |= !self.model.adopt(biz);
    }

    /// How far a step moves the clock.
    fn ticks(&self, step: &Step) -> i64 {
        let key = step.items[0].key;
        let last = self.last.as_ref().and_then(|answers| answers.items[0].as_ref().ok());
        let (ends, noted) = self.model.times(key);
        let to = |times: &[i128], at: usize, more: i64| match times {
            [] => 1,
            times => times[at % times.len()] as i64 + more - self.now,
        };
        match step.tick {
            Tick::By(ms) => ms,
            Tick::Retry(more) => last.and_then(|last| last.retry).unwrap_or(0) as i64 + more,
            Tick::Reset(more) => last.and_then(|last| last.shown.reset).unwrap_or(0) as i64 + more,
            Tick::Lapse(at, more) => to(&ends, at, more),
            Tick::Forget(at, more) => {
                let life = self.model.biz.once.map_or(0, |once| once.for_ms);
                to(&noted, at, more + life as i64)
            }
        }
    }

    fn step(&mut self, real: &mut Real, id: usize, step: &Step) -> Option<(Answers, Answers)> {
        self.now = (self.now.saturating_add(self.ticks(step))).clamp(FIRST_MS, LAST_MS);
        if !self.model.knows(step, self.now.into()) {
            self.is_over = true;
            return None;
        }
        let model = self.model.run(step, self.now.into());
        let real = real.run(id, step, self.now as u64);
        let differs = model != real;
        self.last = Some(real.clone());
        differs.then_some((model, real))
    }
}

/// The businesses of a map.xml, with their ids.
fn bizs(map: &str) -> impl Iterator<Item = (usize, Biz)> {
    let conf = Conf::parse("srv.xml", "<srv/>", "map.xml", map);
    let conf = conf.unwrap_or_else(|faults| panic!("{faults}\n{map}"));
    conf.map.bizs.into_iter().map(|biz| (biz.id as usize, biz))
}

/// Plays cases in one data directory, those of a phase beside each other. The first that differs,
/// with the difference. Their businesses have the ids from `first` on.
fn play(real: &mut Real, first: usize, cases: &[Case]) -> Option<(usize, Difference)> {
    let mut plays: Vec<Play> = Vec::new();
    for phase in 0..cases.iter().map(|case| case.phases.len()).max()? {
        let plans = cases.iter().enumerate();
        let plans = plans.filter_map(|(at, case)| Some((first + at, &case.phases.get(phase)?.0)));
        let map = real::map(plans);
        real.reload(&map);
        for (id, biz) in bizs(&map) {
            match phase {
                0 => plays.push(Play::begin(biz, cases[id - first].begin)),
                _ => plays[id - first].adopt(biz),
            }
        }
        for (at, (case, play)) in cases.iter().zip(&mut plays).enumerate() {
            let steps = case.phases.get(phase).filter(|_| !play.is_over).map(|(_, steps)| steps);
            for (nth, step) in steps.into_iter().flatten().enumerate() {
                if play.is_over {
                    break;
                }
                if let Some((model, answers)) = play.step(real, first + at, step) {
                    let (at_step, now) = ((phase, nth), play.now);
                    let difference = Difference { at: at_step, now, model, real: answers };
                    return Some((at, difference));
                }
            }
        }
    }
    None
}

/// Plays a part of the cases of a run, of which there are two: each has its own thread.
fn play_half(half: u64) {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let cases = number("PROPTEST_CASES").unwrap_or(CASES);
    let from = number("FRS_CALLS_FROM").unwrap_or(0);
    let middle = from + cases / 2;
    let (from, to) = if half == 0 { (from, middle) } else { (middle, from + cases) };
    let mut real = Real::new();
    for (nth, first) in (from..to).step_by(TOGETHER).enumerate() {
        let nth = nth % IN_ONE;
        if nth == 0 {
            real = Real::new();
        }
        let seeds = first..(first + TOGETHER as u64).min(to);
        let together: Vec<Case> = seeds.map(|seed| Chance::of_seed(seed).case()).collect();
        if let Some((at, difference)) = play(&mut real, 2 + nth * TOGETHER, &together) {
            let seed = first + at as u64;
            let told = shrink::told(&together[at], difference);
            panic!("FRS_CALLS_FROM={seed} PROPTEST_CASES=1\n{told}");
        }
    }
}

#[test]
fn every_call_is_answered_as_the_model_answers_it() {
    play_half(0);
}

#[test]
fn every_other_call_is_answered_as_the_model_answers_it() {
    play_half(1);
}

/// A hold of a key lapses. An atomic request that names the key and charges it nothing gives the
/// uses back to the whole business, or leaves that to the next use of the key.
#[test]
fn what_lapsed_is_given_back_once() {
    let limit = "<limit policy='total' max='20' scope='biz'/>";
    let biz = "id='2' name='b2' key='string' holds='4' hold-ttl='1s' on-lapse='free'";
    let mut real = Real::new();
    real.reload(&real::around(&format!("<biz {biz}>{limit}</biz>")));
    let item = |key, count, hold: Option<&str>| ItemPlan {
        key,
        count: Some(count),
        hold: hold.map(str::to_owned),
        ..ItemPlan::default()
    };
    let mut used = |now, items: &[ItemPlan]| {
        let (atomic, items) = (items.len() > 1, items.to_vec());
        let (tick, command, once) = (Tick::By(0), Command::Update, None);
        let step = Step { tick, command, atomic, once, items };
        let answers = real.run(2, &step, FIRST_MS as u64 + now);
        let used = answers.items.into_iter().map(|item| item.expect("judged").shown.used);
        used.collect::<Vec<i128>>()
    };
    assert_eq!(used(0, &[item(0, 3, Some("h"))]), [3]);
    assert_eq!(used(0, &[item(1, 10, None)]), [13]);
    used(2000, &[item(1, 1, None), item(0, 0, Some("unknown"))]);
    assert_eq!(used(2001, &[item(0, 0, None)]), [11]);
    assert_eq!(used(2002, &[item(0, 0, None)]), [11]);
}
