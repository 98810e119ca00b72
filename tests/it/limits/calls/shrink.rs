//! Makes a case that differs smaller, and tells it.
//!
//! Invariant: each smaller case still differs.

use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::plan::{Case, ItemPlan, Numbers, Tick};
use super::real::Real;
use super::{Difference, play};

/// The most rounds of trials.
const ROUNDS: usize = 8;

/// The difference of a case alone, if it differs. A case that is no valid configuration does not.
fn differs(case: &Case) -> Option<Difference> {
    let found =
        catch_unwind(AssertUnwindSafe(|| play(&mut Real::new(), 2, std::slice::from_ref(case))));
    found.ok().flatten().map(|(_, difference)| difference)
}

/// The smallest case that was found, with its answers.
pub fn told(case: &Case, together: Difference) -> String {
    // Trials that are no valid configuration panic.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let told = smallest(case, together);
    std::panic::set_hook(hook);
    told
}

fn smallest(case: &Case, together: Difference) -> String {
    let Some(mut difference) = differs(case) else {
        return format!("alone it does not differ: {together:#?}\nof {case:#?}");
    };
    let mut case = case.clone();
    for _ in 0..ROUNDS {
        let mut is_smaller = false;
        // Each trial names its place anew: an earlier one may have removed what stood there.
        let mut nth = 0;
        while let Some(smaller) = trial(&case, nth) {
            match smaller.and_then(|smaller| Some((differs(&smaller)?, smaller))) {
                Some((found, smaller)) => (case, difference, is_smaller) = (smaller, found, true),
                None => nth += 1,
            }
        }
        if !is_smaller {
            break;
        }
    }
    let mut text = String::new();
    for (phase, (plan, steps)) in case.phases.iter().enumerate() {
        plan.xml(2, &mut text);
        for (nth, step) in steps.iter().enumerate() {
            let is_it = (phase, nth) == difference.at;
            writeln!(text, "{} {step:?}", if is_it { "=>" } else { "  " }).unwrap();
        }
    }
    let Difference { now, model, real, .. } = difference;
    let told = |answers: &super::Answers| {
        let items = answers.items.iter().map(|item| format!("  {item:?}\n"));
        format!("refused {}\n{}", answers.refused, items.collect::<String>())
    };
    let (model, real) = (told(&model), told(&real));
    format!("begin {}, {now} at the difference\n{text}model: {model}real: {real}", case.begin)
}

/// The trial with a number: `None` beyond the last one, `Some(None)` where it changes nothing.
fn trial(case: &Case, nth: usize) -> Option<Option<Case>> {
    let mut smaller = case.clone();
    let mut left = nth;
    // Whether this is the trial, which is then tried.
    let mut is = || {
        let is = left == 0;
        left = left.wrapping_sub(1);
        is
    };
    for phase in (0..smaller.phases.len()).rev() {
        if is() {
            if smaller.phases.len() == 1 {
                return Some(None);
            }
            smaller.phases.remove(phase);
            return Some(Some(smaller));
        }
        for step in (0..smaller.phases[phase].1.len()).rev() {
            if is() {
                smaller.phases[phase].1.remove(step);
                return Some(Some(smaller));
            }
            let steps = &mut smaller.phases[phase].1[step];
            if is() {
                let is_simple = matches!(steps.tick, Tick::By(0 | 1));
                steps.tick = Tick::By(0);
                return Some((!is_simple).then_some(smaller));
            }
            if is() {
                let is_simple = !steps.atomic || steps.once.is_some();
                steps.atomic = false;
                return Some((!is_simple).then_some(smaller));
            }
            for item in (0..steps.items.len()).rev() {
                if is() {
                    if steps.items.len() == 1 {
                        return Some(None);
                    }
                    steps.items.remove(item);
                    return Some(Some(smaller));
                }
                for leave_out in OPTIONS {
                    if is() {
                        let before = format!("{:?}", steps.items[item]);
                        leave_out(&mut steps.items[item]);
                        let is_simple = before == format!("{:?}", steps.items[item]);
                        return Some((!is_simple).then_some(smaller));
                    }
                }
            }
        }
    }
    for limit in (0..smaller.phases[0].0.limits.len()).rev() {
        if is() {
            if smaller.phases[0].0.limits.len() == 1 {
                return Some(None);
            }
            for (plan, _) in &mut smaller.phases {
                plan.limits.remove(limit);
                plan.listed.clear();
            }
            return Some(Some(smaller));
        }
        for part in 0..6 {
            if is() {
                let before = format!("{:?}", smaller.phases);
                for (plan, _) in &mut smaller.phases {
                    let limit = &mut plan.limits[limit];
                    match part {
                        0 => limit.ban_ms = None,
                        1 => limit.advises = false,
                        2 => limit.is_weighted = false,
                        3 => limit.is_wide = false,
                        4 => limit.numbers.retain(|(name, _)| !["debt", "history"].contains(name)),
                        _ => plan.listed.clear(),
                    }
                }
                let is_simple = before == format!("{:?}", smaller.phases);
                return Some((!is_simple).then_some(smaller));
            }
        }
    }
    for part in 0..2 {
        if is() {
            let before = format!("{:?}", smaller.phases);
            for (plan, _) in &mut smaller.phases {
                match part {
                    0 => plan.is_shadow = false,
                    _ => plan.once = None,
                }
            }
            let is_simple = before == format!("{:?}", smaller.phases);
            return Some((!is_simple).then_some(smaller));
        }
    }
    None
}

/// What makes an item simpler.
const OPTIONS: [fn(&mut ItemPlan); 9] = [
    |item| item.numbers = Numbers::default(),
    |item| item.partial = false,
    |item| item.detail = false,
    |item| item.force = false,
    |item| item.once = None,
    |item| item.ttl_ms = None,
    |item| (item.hold, item.settle) = (None, false),
    |item| item.settle = false,
    |item| item.key = 0,
];
