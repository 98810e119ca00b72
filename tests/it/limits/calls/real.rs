//! The service under test, over a data directory in memory.
//!
//! Invariant: what is read of an answer is what the model says of it.

use frs_engine::testing::World;
use frs_engine::{Extras, ItemOptions, Request, Service};
use frs_limit::{LimitFigures, List, Verdict};

use super::super::model::plain::{Detail, Shown, far};
use super::plain::{Answer, Answers};
use super::plan::{BizPlan, ItemPlan, KEYS, Step, Word};

/// Room for all records of a directory: no chain becomes full, so nothing is evicted.
const GROUP: &str = "<group name='g' files='1' key-nodes='128' chain='48' node-size='1024'/>\n";

/// A map.xml of these businesses, each with its id.
pub fn map<'p>(plans: impl Iterator<Item = (usize, &'p BizPlan)>) -> String {
    let mut text = String::new();
    plans.for_each(|(id, plan)| plan.xml(id, &mut text));
    around(&text)
}

/// A map.xml around businesses.
pub fn around(bizs: &str) -> String {
    format!("<map>{GROUP}{bizs}</map>")
}

pub struct Real {
    world: World,
    service: Service,
    generation: u64,
}

impl Real {
    /// A data directory, in which no business of a case is known.
    pub fn new() -> Real {
        let first = "<biz id='1' name='b1' key='string'><limit policy='total' max='1'/></biz>";
        let world = World::new(&around(first));
        let service = world.attach();
        Real { world, service, generation: 1 }
    }

    /// Puts another map.xml in force.
    pub fn reload(&mut self, map: &str) {
        self.generation += 1;
        self.world.publish(map, self.generation);
    }

    pub fn run(&mut self, id: usize, step: &Step, now: u64) -> Answers {
        let mut request = Request::default();
        request.begin(step.command);
        request.atomic = step.atomic;
        let biz = id.to_string();
        for item in &step.items {
            let ItemPlan { count, force, detail, .. } = *item;
            request.push(&biz, KEYS[item.key], ItemOptions { count, force, detail });
            bring(&mut request, item);
        }
        if let Some(once) = &step.once {
            request.set_once(once);
        }
        let answers = self.service.answers(&request, now);
        let items = answers.items.iter().map(|answer| {
            let verdict = answer.result?;
            let details = answers.details.get(answer.details.clone()).unwrap_or_default();
            let details = details.iter().map(|limit| detail(limit, &answers.details.windows));
            Ok(judged(&verdict, details.collect()))
        });
        Answers { refused: answers.refused, items: items.collect() }
    }
}

fn bring(request: &mut Request, item: &ItemPlan) {
    let words =
        item.numbers.rates.as_ref().map(|rates| {
            rates.iter().map(|word| Word::text(*word)).collect::<Vec<String>>().join(" ")
        });
    let extras = Extras {
        rate: words.as_deref(),
        burst: item.numbers.burst,
        max: item.numbers.max,
        partial: item.partial,
        member: item.member.as_deref(),
        once: item.once.as_deref(),
        hold: item.hold.as_deref(),
        ttl_ms: item.ttl_ms,
        settle: item.settle,
    };
    if extras.is_any() {
        request.bring(extras);
    }
}

fn judged(verdict: &Verdict, details: Vec<Detail>) -> Answer {
    Answer {
        limited: verdict.limited,
        banned: verdict.banned,
        shadow: verdict.shadow,
        list: verdict.list.map(List::word),
        limit: verdict.limit.into(),
        advised: verdict.advised.into(),
        weight: verdict.weight,
        shown: Shown {
            used: verdict.figures.used.into(),
            max: verdict.figures.max.into(),
            remaining: verdict.figures.remaining.into(),
            reset: verdict.figures.reset_ms.map(ms),
        },
        retry: verdict.retry_ms.map(ms),
        window_ms: verdict.window_ms.map(ms),
        granted: verdict.granted().map(i128::from),
        repeated: verdict.repeated(),
        unknown_hold: verdict.unknown_hold(),
        held: verdict.held().map(i128::from),
        details,
    }
}

fn detail(limit: &LimitFigures, windows: &[u32]) -> Detail {
    Detail {
        policy: limit.policy,
        limited: limit.limited,
        retry: limit.retry_ms.map(ms),
        shown: Shown {
            used: limit.figures.used.into(),
            max: limit.figures.max.into(),
            remaining: limit.figures.remaining.into(),
            reset: limit.figures.reset_ms.map(ms),
        },
        history: limit.totals(windows).map(<[u32]>::to_vec),
    }
}

fn ms(ms: u64) -> i128 {
    far(ms.into())
}
