//! Random businesses, calls and clocks.
//!
//! Invariant: a seed decides a case. Most of what it makes is as callers write it, and some is not.

use frs_engine::Command;

use super::plan::{
    BizPlan, Case, HoldsPlan, ItemPlan, LimitPlan, ListPlan, Numbers, PERIOD_UNITS, PerCallPlan,
    Step, Tick, Word,
};

const DAY_MS: u64 = 86_400_000;
const INTERVALS: [u64; 9] = [1, 3, 10, 100, 250, 1000, 1500, 10_000, 60_000];
const UNITS: [(&str, u64); 6] = [
    ("minute", 60_000),
    ("hour", 3_600_000),
    ("day", 2 * DAY_MS),
    ("week", 8 * DAY_MS),
    ("month", 32 * DAY_MS),
    ("year", 367 * DAY_MS),
];
const RESERVES: [&str; 6] = ["interval", "calendar", "sliding-counter", "token", "gcra", "total"];
const HOLDS: [&str; 5] = ["h1", "h2", "h3", "h4", "h5"];
const IDS: [&str; 4] = ["a", "b", "c", "d"];
const LONG: &str = "0123456789012345678901234567890123456789012345678901234567890123";

/// splitmix64 (Steele, Lea, Flood 2014).
pub struct Chance(u64);

impl Chance {
    pub fn of_seed(seed: u64) -> Chance {
        Chance(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below the bound.
    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn within(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as u64) as i64
    }

    /// Whether an event happens that happens so many times of a hundred.
    fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn pick<T: Copy>(&mut self, among: &[T]) -> T {
        among[self.below(among.len() as u64) as usize]
    }

    pub fn case(&mut self) -> Case {
        let mut plan = self.biz();
        let mut phases = Vec::new();
        for _ in 0..self.pick(&[1, 1, 2, 3]) {
            let steps = (0..self.within(3, 9)).map(|_| self.step(&plan)).collect();
            phases.push((plan.clone(), steps));
            plan = self.changed(plan);
        }
        let day = self.within(12_000, 22_000) * DAY_MS as i64;
        let begin = match self.below(3) {
            0 => day + self.within(-3000, 3000),
            _ => day + self.within(0, DAY_MS as i64),
        };
        Case { begin, phases }
    }

    fn biz(&mut self) -> BizPlan {
        let (mut limits, mut holds) = (Vec::new(), None);
        match self.below(20) {
            0..=3 => {
                limits.push(self.limit("concurrent"));
                let others = ["sliding", "interval", "calendar", "sliding-counter", "token"];
                for _ in 0..self.pick(&[0, 0, 1, 2]) {
                    let policy = self.pick(&others);
                    limits.push(self.limit(policy));
                }
                let at = self.below(limits.len() as u64) as usize;
                limits.swap(0, at);
                let entries = (!self.percent(30)).then(|| self.within(1, 5) as u16);
                holds = Some(HoldsPlan { entries, ttl_ms: self.ttl(), frees: false });
            }
            4..=10 => {
                for _ in 0..self.pick(&[1, 1, 2, 3]) {
                    let policies = [&RESERVES[..], &["count"]].concat();
                    let policy = self.pick(&policies);
                    limits.push(self.limit(policy));
                }
                let entries = Some(self.within(1, 4) as u16);
                let frees = self.percent(50);
                for limit in &mut limits {
                    // What a key's lapsed holds gave to all keys shows at the key's next use.
                    limit.is_wide &= !frees;
                }
                holds = Some(HoldsPlan { entries, ttl_ms: self.ttl(), frees });
            }
            11 | 12 => {
                limits.push(self.limit("distinct"));
                for _ in 0..self.pick(&[0, 1, 2]) {
                    let policy = self.pick(&RESERVES);
                    limits.push(self.limit(policy));
                }
            }
            _ => {
                let policies = [&RESERVES[..], &["sliding", "sliding", "count"]].concat();
                for _ in 0..self.pick(&[1, 1, 2, 3]) {
                    let policy = self.pick(&policies);
                    limits.push(self.limit(policy));
                }
            }
        }
        // One limit has weights.
        let weighted = limits.iter().position(|limit| limit.is_weighted);
        for (at, limit) in limits.iter_mut().enumerate() {
            limit.is_weighted = Some(at) == weighted;
        }
        let once = self.percent(45).then(|| (self.within(1, 4) as u8, self.pick(&[1000, 5000])));
        let listed = self.listed(&limits);
        BizPlan { limits, once, holds, is_shadow: self.percent(10), listed }
    }

    fn ttl(&mut self) -> u64 {
        self.pick(&[1000, 2500, 60_000])
    }

    fn listed(&mut self, limits: &[LimitPlan]) -> Vec<ListPlan> {
        let mut listed = Vec::new();
        if self.percent(20) {
            let limit = self.below(limits.len() as u64) as usize;
            if limits[limit].policy != "count" {
                listed.push(ListPlan::Override { key: 1, limit, max: self.within(1, 8) as u64 });
            }
        }
        match self.below(10) {
            0 => listed.push(ListPlan::Allow(2)),
            1 => listed.push(ListPlan::Deny(2)),
            _ => {}
        }
        listed
    }

    fn limit(&mut self, policy: &'static str) -> LimitPlan {
        let mut limit = LimitPlan {
            policy,
            numbers: Vec::new(),
            rate: None,
            turns: None,
            is_wide: self.percent(12) && policy != "concurrent",
            ban_ms: None,
            advises: false,
            is_weighted: self.percent(6),
            per_call: None,
        };
        let max = self.pick(&[0, 1, 1, 2, 3, 3, 4, 5, 6, 8]);
        match policy {
            "interval" | "sliding" | "sliding-counter" => {
                let interval = self.pick(&INTERVALS);
                limit.numbers = vec![("interval", interval), ("max", max)];
            }
            "calendar" | "count" => {
                let (unit, _) = self.pick(&UNITS);
                let zone = self.pick(&["UTC", "UTC", "Asia/Shanghai", "Europe/Berlin"]);
                let at = match unit {
                    "minute" | "hour" => 0,
                    _ => self.pick(&[0, 0, 150]),
                };
                limit.turns = Some((unit, zone, at));
                if policy == "calendar" {
                    limit.numbers.push(("max", max));
                }
                if self.percent(30) {
                    limit.numbers.push(("history", self.within(1, 3) as u64));
                }
            }
            "token" | "gcra" => {
                limit.rate = Some((self.within(1, 20) as u64, self.pick(&["s", "s", "m", "h"])));
                limit.numbers.push(("burst", max.max(1)));
            }
            "distinct" => {
                limit.numbers.push(("max", max.max(1)));
                if self.percent(60) {
                    limit.turns = Some((self.pick(&["minute", "hour", "day"]), "UTC", 0));
                }
            }
            _ => limit.numbers.push(("max", max)),
        }
        if matches!(policy, "interval" | "calendar") && max > 0 && self.percent(20) {
            limit.numbers.push(("debt", self.within(1, 6) as u64));
        }
        if policy != "count" {
            match self.below(10) {
                0 | 1 => limit.ban_ms = Some(self.pick(&[1, 500, 5000, 60_000])),
                2 if policy != "concurrent" => limit.advises = true,
                _ => {}
            }
        }
        if !matches!(policy, "count" | "concurrent") && self.percent(55) {
            limit.per_call = Some(self.per_call(&limit));
        }
        limit
    }

    fn per_call(&mut self, limit: &LimitPlan) -> PerCallPlan {
        let own = limit.number("max").or(limit.number("burst")).unwrap_or(1);
        let most = self.percent(75).then(|| own + self.below(8));
        let least = match (limit.turns, limit.rate, limit.number("interval")) {
            (Some((unit, ..)), ..) => UNITS.iter().find(|(name, _)| *name == unit).unwrap().1,
            (_, Some((_, unit)), _) => PERIOD_UNITS.iter().find(|u| u.0 == unit).unwrap().1,
            (.., Some(interval)) => interval,
            _ => return PerCallPlan { most, max_period_ms: None },
        };
        if limit.policy == "distinct" {
            return PerCallPlan { most, max_period_ms: None };
        }
        let more = match limit.policy {
            "calendar" => [60_000, 2 * DAY_MS, 32 * DAY_MS, 367 * DAY_MS],
            _ => [1000, 60_000, 3_600_000, DAY_MS],
        };
        PerCallPlan { most, max_period_ms: Some(least.max(self.pick(&more))) }
    }

    /// The same business after a reload that changes numbers.
    fn changed(&mut self, mut plan: BizPlan) -> BizPlan {
        for limit in &mut plan.limits {
            let lends = limit.number("debt").is_some();
            let is_positive = lends || matches!(limit.policy, "token" | "gcra" | "distinct");
            for name in ["max", "burst"] {
                if let (Some(number), true) = (limit.number_mut(name), self.percent(50)) {
                    *number = self.within(i64::from(is_positive), 8) as u64;
                }
            }
            if let (Some(debt), true) = (limit.number_mut("debt"), self.percent(50)) {
                *debt = self.within(1, 6) as u64;
            }
            if let (Some((number, _)), true) = (&mut limit.rate, self.percent(50)) {
                *number = self.within(1, 20) as u64;
            }
            if let (Some(ban_ms), true) = (&mut limit.ban_ms, self.percent(50)) {
                *ban_ms = self.pick(&[1, 500, 5000, 60_000]);
            }
            if limit.per_call.is_some() {
                if let (Some(interval), true) = (limit.number_mut("interval"), self.percent(50)) {
                    *interval = self.pick(&INTERVALS);
                }
                limit.per_call = Some(self.per_call(limit));
            }
        }
        if let Some((ids, for_ms)) = &mut plan.once {
            // A longer time may find an id again that is forgotten, or may not.
            (*ids, *for_ms) = (self.within(1, 4) as u8, self.pick(&[1000, 5000]).min(*for_ms));
        }
        let is_concurrent = plan.limits.iter().any(|limit| limit.policy == "concurrent");
        if let Some(HoldsPlan { entries, ttl_ms, frees }) = &mut plan.holds {
            *entries = entries.map(|_| self.within(1, 5) as u16);
            *ttl_ms = self.ttl();
            let is_wide = plan.limits.iter().any(|limit| limit.is_wide);
            *frees = !is_concurrent && !is_wide && self.percent(50);
        }
        for listed in &mut plan.listed {
            if let ListPlan::Override { max, .. } = listed {
                *max = self.within(1, 8) as u64;
            }
        }
        plan
    }

    fn tick(&mut self) -> Tick {
        let more = self.within(-2, 2);
        match self.below(100) {
            0..=34 => Tick::By(self.within(0, 3)),
            35..=54 => Tick::By(self.within(0, 2000)),
            55..=62 => Tick::By(self.within(0, 100_000)),
            63..=69 => Tick::Retry(more),
            70..=75 => Tick::Reset(more),
            76..=84 => Tick::Lapse(self.below(4) as usize, more),
            85..=90 => Tick::Forget(self.below(4) as usize, more),
            91..=95 => Tick::By(-self.within(0, 2000)),
            96 => Tick::By(-self.within(0, 3 * DAY_MS as i64)),
            97 => Tick::By(self.within(0, 60 * DAY_MS as i64)),
            _ => Tick::By(self.within(0, DAY_MS as i64)),
        }
    }

    fn step(&mut self, plan: &BizPlan) -> Step {
        let command = if self.percent(78) { Command::Update } else { Command::Query };
        // A ban that starts in an atomic request that shadow mode does not refuse may store more.
        let bans = plan.is_shadow && plan.limits.iter().any(|limit| limit.ban_ms.is_some());
        let atomic = self.percent(12) && !bans;
        let count = if atomic || self.percent(10) { self.within(1, 3) } else { 1 };
        let mut items: Vec<ItemPlan> =
            (0..count).map(|_| self.item(plan, command, atomic)).collect();
        if atomic {
            // Units that change inside a request that is refused are nobody's figures.
            let numbers = items[0].numbers.clone();
            items.iter_mut().for_each(|item| item.numbers = numbers.clone());
        }
        let ids = plan.once.is_some() && self.percent(50) || self.percent(2);
        let once = (atomic && ids).then(|| self.id(&IDS));
        Step { tick: self.tick(), command, atomic, once, items }
    }

    fn id(&mut self, ids: &[&str]) -> String {
        match self.below(100) {
            0 => String::new(),
            1 => format!("{LONG}5"),
            2 => LONG.to_owned(),
            _ => self.pick(ids).to_owned(),
        }
    }

    fn item(&mut self, plan: &BizPlan, command: Command, atomic: bool) -> ItemPlan {
        let has = |policy: &str| plan.limits.iter().any(|limit| limit.policy == policy);
        let (distinct, concurrent) = (has("distinct"), has("concurrent"));
        let count = match self.below(20) {
            _ if distinct && self.percent(97) => self.pick(&[1, 1, 1, -1]),
            0..=8 => 1,
            9..=14 => self.within(0, 4),
            15 | 16 => self.within(5, 12),
            17 => 0,
            _ => self.within(-4, -1),
        };
        let mut item = ItemPlan {
            key: self.pick(&[0, 0, 0, 0, 0, 0, 1, 1, 1, 2]),
            count: (!self.percent(1)).then_some(count as i32),
            force: self.percent(8),
            detail: self.percent(25),
            numbers: self.numbers(plan),
            ..ItemPlan::default()
        };
        let holds = match (&plan.holds, concurrent, command) {
            (None, ..) => 2,
            (_, true, Command::Update) => 96,
            _ => 60,
        };
        if self.percent(holds) {
            item.hold = Some(self.id(&HOLDS));
            item.count = item.count.map(|count| if count < 0 { -count } else { count });
            item.settle = self.percent(if concurrent { 2 } else { 28 });
            let most = plan.holds.as_ref().map_or(1000, |holds| holds.ttl_ms) as i64;
            item.ttl_ms = match self.below(100) {
                0 => Some(None),
                1 => Some(Some(0)),
                2 => Some(Some(most as u64 + 1)),
                3..=45 => Some(Some(self.within(1, most) as u64)),
                _ => None,
            };
        } else if self.percent(1) {
            (item.settle, item.ttl_ms) = (self.percent(50), Some(Some(10)));
        }
        item.partial = match item.hold.is_none() && count >= 1 && !item.force && !atomic {
            true if !distinct && !concurrent => self.percent(25),
            _ => self.percent(2),
        };
        if distinct && self.percent(96) {
            item.member = Some(self.pick(&["m1", "m2", "m3", "m4"]).to_owned());
        }
        let ids = if plan.once.is_some() { 45 } else { 2 };
        if self.percent(if atomic { 2 } else { ids }) {
            item.once = Some(self.id(&IDS));
        }
        item
    }

    fn numbers(&mut self, plan: &BizPlan) -> Numbers {
        let takers: Vec<&LimitPlan> =
            plan.limits.iter().filter(|limit| limit.per_call.is_some()).collect();
        let mut numbers = Numbers::default();
        if !self.percent(if takers.is_empty() { 2 } else { 60 }) {
            return numbers;
        }
        if self.percent(20) || takers.first().is_some_and(|limit| limit.rate().is_none()) {
            let least = takers.iter().map(|limit| limit.least()).max().unwrap_or(0);
            numbers.max = Some((!self.percent(1)).then(|| self.below(9).max(least)));
            return numbers;
        }
        let takers = &takers[..takers.len().min(self.within(1, 3) as usize)];
        let mut rates: Vec<Word> =
            takers.iter().map(|limit| self.word(limit.policy, limit.least())).collect();
        if rates.is_empty() || self.percent(3) {
            rates.push(self.word("interval", 0));
        }
        numbers.rates = Some(rates);
        let buckets = takers.iter().filter(|limit| matches!(limit.policy, "token" | "gcra"));
        if self.percent(if buckets.count() == 1 { 50 } else { 3 }) {
            numbers.burst = Some((!self.percent(1)).then(|| self.below(9)));
        }
        if self.percent(2) {
            numbers.max = Some(Some(self.below(5)));
        }
        numbers
    }

    fn word(&mut self, policy: &str, least: u64) -> Word {
        let uses = self.below(9).max(least);
        match (policy, self.below(40)) {
            (_, 0) => Word::Junk(self.pick(&["5", "5/", "/s", "5/0s", "5/fortnight", "-1/s"])),
            ("calendar", 2..) | (_, 1) => Word::Unit { uses, unit: self.pick(&UNITS).0 },
            _ => {
                let (units, unit) = self.pick(&[
                    (None, "ms"),
                    (Some(3), "ms"),
                    (Some(10), "ms"),
                    (Some(100), "ms"),
                    (None, "s"),
                    (Some(2), "s"),
                    (Some(1500), "ms"),
                    (Some(10), "s"),
                    (Some(90), "s"),
                    (None, "m"),
                    (Some(7), "s"),
                    (None, "h"),
                    (Some(2), "d"),
                ]);
                Word::Period { uses, units, unit }
            }
        }
    }
}

impl LimitPlan {
    /// The least maximum: what is lent is paid back by a maximum of 1 or more.
    fn least(&self) -> u64 {
        u64::from(self.number("debt").is_some())
    }

    /// Whether a call may bring a rate for it.
    fn rate(&self) -> Option<()> {
        (!matches!(self.policy, "total" | "distinct")).then_some(())
    }
}
