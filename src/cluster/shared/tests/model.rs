//! Leased limits against a small model of the ledger's grants.

use frs_conf::{Interval, OnDown, OnMiss, Share, Sliding, Total};
use proptest::prelude::*;

use super::super::*;

const INTERVAL_MS: u64 = 1000;
const MAX: u64 = 10;
const HOSTS: u32 = 4;
const INTERVAL: Interval = Interval { interval_ms: INTERVAL_MS, max: MAX, debt: 0 };

/// An event of one limit.
#[derive(Debug, Clone)]
enum Step {
    /// An item, which is charged if it is admitted.
    Item(i32, Spending),
    /// An item that is charged by force.
    Force(i32),
    /// The ledger names a window that begins now, and grants this much of it.
    Window(u64),
    /// The ledger grants this much more in the same window.
    More(u64),
    /// The ledger answers that it has nothing left.
    Exhausted,
    /// This many uses are reserved for parked requests, for this long.
    Reservation(u64, u64),
    Wait(u64),
    /// Another incarnation.
    Reborn,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let spending = prop_oneof![
        4 => Just(Spending::New),
        4 => Just(Spending::Parked),
        1 => Just(Spending::CutOff),
        1 => Just(Spending::Admit),
        1 => Just(Spending::Ask),
    ];
    let step = prop_oneof![
        10 => (-2..6, spending).prop_map(|(count, spending)| Step::Item(count, spending)),
        1 => (1..4).prop_map(Step::Force),
        3 => (0..8u64).prop_map(Step::Window),
        2 => (1..4u64).prop_map(Step::More),
        1 => Just(Step::Exhausted),
        2 => (0..6u64, 1..400u64).prop_map(|(count, for_ms)| Step::Reservation(count, for_ms)),
        4 => (1..600u64).prop_map(Step::Wait),
        1 => Just(Step::Reborn),
    ];
    prop::collection::vec(step, 1..60)
}

/// One limit with its state, and the model of it.
struct World {
    limit: Shared,
    clock: Arc<LeaseClock>,
    state: Vec<u64>,
    now_ms: u64,
    incarnation: Incarnation,
    windows: u64,
    model: Model,
}

/// A host that may spend `allowance` until `end_ms`.
#[derive(Debug, Default)]
struct Model {
    allowance: u64,
    end_ms: u64,
    /// The uses of the window. A sliding limit has `log` instead.
    used: u64,
    log: Vec<u64>,
    reserved: u64,
    reserved_until_ms: u64,
    is_exhausted: bool,
    /// Uses that the host admitted without a lease, and the end of their window.
    alone: u64,
    alone_end_ms: u64,
    /// Unreported uses without a lease.
    unreported: u64,
}

impl World {
    fn new(policy: conf::Policy) -> World {
        let clock = Arc::<LeaseClock>::default();
        let sharing = Sharing {
            share: Share::Cluster,
            on_miss: OnMiss::Admit,
            on_down: OnDown::Share,
            wait_ms: 20,
            hosts: HOSTS,
        };
        let is_sliding = matches!(policy, conf::Policy::Sliding(_));
        let ring = is_sliding.then_some(Ring { uses: 64, longest_ms: INTERVAL_MS });
        let log = Log { ring, reports: true };
        let limit = Shared::new(&policy, false, sharing, log, &clock).expect("it can be shared");
        let state = vec![0; SHARED_WORDS + ring.map_or(0, ring::words)];
        let (now_ms, model) = (5_000, Model::default());
        let mut world = World { limit, clock, state, now_ms, incarnation: 7, windows: 0, model };
        world.set_now();
        world
    }

    fn set_now(&mut self) {
        self.clock.boot.set_now(self.now_ms);
        self.clock.set_incarnation(self.incarnation, false);
        self.limit.roll(&mut self.state, 1, &Terms::NEW);
        if let Some(ring) = self.limit.ring {
            ring::roll(ring, self.limit.log_mut(&mut self.state), self.now_ms);
        }
        self.model.log.retain(|&at_ms| self.now_ms - at_ms < INTERVAL_MS);
    }

    fn is_live(&self) -> bool {
        self.now_ms < self.model.end_ms
    }

    fn is_sliding(&self) -> bool {
        self.limit.ring.is_some()
    }

    fn used(&self) -> u64 {
        if self.is_sliding() { self.model.log.len() as u64 } else { self.model.used }
    }

    fn unspent(&self) -> u64 {
        if self.is_live() { self.model.allowance.saturating_sub(self.used()) } else { 0 }
    }

    fn alone(&self) -> u64 {
        if self.now_ms < self.model.alone_end_ms { self.model.alone } else { 0 }
    }

    /// Uses that the host admits beyond its lease, out of its fourth of the max.
    fn cut_off_left(&self) -> u64 {
        let used = match self.is_live() || self.is_sliding() {
            true => self.used(),
            false => self.alone(),
        };
        (MAX / u64::from(HOSTS)).saturating_sub(used)
    }

    /// The model's verdict on an item.
    fn admits(&self, count: u64, spending: Spending) -> Option<bool> {
        let unspent = self.unspent();
        let model = &self.model;
        let reserved =
            if self.now_ms < model.reserved_until_ms { model.reserved.min(unspent) } else { 0 };
        let is_refused = count > MAX || self.is_live() && model.is_exhausted && count > unspent;
        Some(match spending {
            Spending::New => count <= unspent - reserved,
            Spending::Parked => count <= unspent,
            Spending::CutOff => count <= unspent || count <= self.cut_off_left(),
            // As many as the largest lease, which is half of so small a max.
            Spending::Admit => count <= unspent || !is_refused && count + self.alone() <= MAX / 2,
            // Depends on the uses of other hosts, which the model does not know.
            Spending::Ask => return None,
        })
    }

    fn charge(&mut self, count: i32, spending: Spending) {
        let magnitude = u64::from(count.unsigned_abs());
        let (is_live, is_spent) = (self.is_live(), magnitude <= self.unspent());
        self.limit.charge(&mut self.state, 1, count, &spending.terms());
        if let Some(ring) = self.limit.ring {
            let now_ms = self.clock.boot_ms();
            ring::charge(ring, self.limit.log_mut(&mut self.state), now_ms, count);
        }
        // With a live lease or a log the uses count there.
        let has_own_window = !is_live && !self.is_sliding();
        let model = &mut self.model;
        if count < 0 {
            model.log.truncate(model.log.len().saturating_sub(magnitude as usize));
            if is_live {
                model.used = model.used.saturating_sub(magnitude);
            } else {
                let unreported = magnitude.min(model.unreported);
                model.unreported -= unreported;
                model.alone = model.alone.saturating_sub(unreported);
            }
            return;
        }
        if is_spent && spending == Spending::Parked {
            model.reserved = model.reserved.saturating_sub(magnitude);
        }
        let is_alone = has_own_window && spending == Spending::CutOff;
        if !is_spent && (is_alone || spending == Spending::Admit) {
            if self.now_ms >= model.alone_end_ms {
                let end_ms = match self.limit.settings.kind {
                    Kind::Total => u64::MAX,
                    Kind::Interval { .. } if is_live => model.end_ms,
                    _ => self.now_ms + INTERVAL_MS,
                };
                (model.alone_end_ms, model.alone) = (end_ms, 0);
            }
            model.alone += magnitude;
        }
        model.log.extend((0..magnitude).map(|_| self.now_ms));
        model.used += if is_live { magnitude } else { 0 };
        model.unreported += if is_live { 0 } else { magnitude };
    }

    /// Changes the holding, as the courier does.
    fn change(&mut self, work: impl FnOnce(&mut Holding)) {
        let mut holding = self.limit.holding(&self.state);
        work(&mut holding);
        self.limit.store(&mut self.state, &holding);
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match *step {
            Step::Item(count, spending) => {
                let admitted = match u32::try_from(count) {
                    Ok(uses) => {
                        let admitted = self.limit.admits(&self.state, 1, uses, &spending.terms());
                        if let Some(expected) = self.admits(uses.into(), spending) {
                            prop_assert_eq!(admitted, expected, "{:?}", &self.model);
                        }
                        if !admitted && spending == Spending::New {
                            // An item waits only for uses that the ledger may still grant.
                            let is_known = self.is_live() && self.model.is_exhausted;
                            let need = u64::from(uses).saturating_sub(self.unspent());
                            let may_come = self.limit.may_come(&self.state, uses);
                            prop_assert_eq!(may_come, !is_known || need == 0);
                        }
                        admitted
                    }
                    Err(_) => true,
                };
                if admitted && spending != Spending::Ask {
                    self.charge(count, spending);
                }
            }
            Step::Force(count) => self.charge(count, Spending::New),
            Step::Window(allowance) => {
                self.windows += 1;
                let (now_ms, window) = (self.now_ms, self.windows);
                let incarnation = self.incarnation;
                let is_sliding = self.is_sliding();
                self.change(|holding| {
                    let Lease { alone_end_ms, alone_used, .. } = holding.lease;
                    holding.lease = Lease {
                        incarnation,
                        window,
                        allowance,
                        end_ms: now_ms + INTERVAL_MS,
                        gone_ms: now_ms + INTERVAL_MS,
                        answered_ms: now_ms,
                        alone_end_ms,
                        alone_used,
                        ..Lease::default()
                    };
                    if !is_sliding {
                        holding.used = 0;
                    }
                });
                let model = &mut self.model;
                (model.allowance, model.end_ms) = (allowance, now_ms + INTERVAL_MS);
                (model.used, model.reserved, model.is_exhausted) = (0, 0, false);
                model.unreported = 0;
            }
            Step::More(more) if self.is_live() => {
                self.change(|holding| {
                    holding.lease.allowance += more;
                    (holding.lease.is_exhausted, holding.lease.again_ms) = (false, 0);
                });
                self.model.allowance += more;
                self.model.is_exhausted = false;
            }
            Step::Exhausted if self.is_live() => {
                self.change(|holding| {
                    holding.lease.is_exhausted = true;
                    holding.lease.again_ms = holding.lease.end_ms;
                });
                self.model.is_exhausted = true;
            }
            Step::More(_) | Step::Exhausted => {}
            Step::Reservation(count, for_ms) => {
                let until_ms = self.now_ms + for_ms;
                self.change(|holding| holding.reserve(count, until_ms));
                (self.model.reserved, self.model.reserved_until_ms) = (count, until_ms);
            }
            Step::Wait(ms) => self.now_ms += ms,
            Step::Reborn => {
                // The holding of the other incarnation is void, with its log and its marks. Its
                // incarnation identifies it, so a state that nobody has used stays.
                if Holding::incarnation_in(words_of(&self.state)) != 0 {
                    self.model = Model::default();
                }
                self.incarnation += 1;
            }
        }
        self.set_now();
        self.check()
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let holding = self.limit.holding(&self.state);
        prop_assert_eq!(holding.unspent(self.now_ms), self.unspent(), "{:?}", &self.model);
        if self.is_sliding() || self.is_live() {
            prop_assert_eq!(holding.used, self.used());
        }
        let terms = &Terms::ASKING;
        let Figures { used, max, remaining, .. } = self.limit.figures(&self.state, 1, terms);
        prop_assert_eq!((used + remaining, max), (MAX, MAX));
        prop_assert_eq!(self.limit.admits(&self.state, 1, MAX as u32 + 1, terms), false);
        prop_assert_eq!(
            self.limit.admits(&self.state, 1, remaining as u32, terms),
            true,
            "what remains is admitted"
        );
        // Records live longer than these steps.
        prop_assert!(!(self.limit.is_kept(&self.state) && self.limit.is_over(&self.state)));
        prop_assert!(!self.limit.is_fresh(&self.state) || self.unspent() == 0);
        Ok(())
    }
}

fn run(policy: conf::Policy, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut world = World::new(policy);
    steps.iter().try_for_each(|step| world.step(step))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn an_interval_spends_what_its_lease_allows(steps in steps()) {
        run(conf::Policy::Interval(INTERVAL), &steps)?;
    }

    #[test]
    fn a_total_spends_what_its_lease_allows(steps in steps()) {
        run(conf::Policy::Total(Total { max: MAX }), &steps)?;
    }

    #[test]
    fn a_sliding_limit_runs_its_log_under_its_share(steps in steps()) {
        run(conf::Policy::Sliding(Sliding { interval_ms: INTERVAL_MS, max: MAX }), &steps)?;
    }
}

proptest! {
    #[test]
    fn the_short_way_of_a_hit_does_what_the_long_way_does(
        counts in (0..12u64, 0..12u64, 0..4u32, 0..20u64),
        times in (0..2_000u64, 0..2_000u64),
        extras in (-3..3i64, 0..3i64),
        ids in (0..3u64, 0..2u64),
        count in -2..6i32,
        spending in prop::sample::select(vec![
            Spending::New, Spending::Parked, Spending::CutOff, Spending::Admit, Spending::Ask,
        ]),
        is_exact: bool,
        advises: bool,
        charges: bool,
    ) {
        let policy = conf::Policy::Interval(INTERVAL);
        let mut world = World::new(policy.clone());
        let share = if is_exact { Share::Exact } else { Share::Cluster };
        let sharing = Sharing { share, ..world.limit.sharing };
        let log = Log { ring: None, reports: true };
        let limit = Shared::new(&policy, advises, sharing, log, &world.clock);
        world.limit = limit.expect("it can be shared");
        let now_ms = world.now_ms;
        let lease = Lease {
            incarnation: ids.0 * world.incarnation,
            window: ids.1,
            allowance: counts.0,
            obtainable: counts.3,
            reserved: counts.2,
            reserved_until_ms: now_ms - 1_000 + times.0,
            end_ms: now_ms - 1_000 + times.1,
            extra: extras.0,
            sent_extra: extras.1,
            answered_ms: now_ms / 2,
            ..Lease::default()
        };
        let stored = Holding { lease, used: counts.1 }.encode();
        let limit = &world.limit;
        let (mut short, mut long) = (stored.to_vec(), stored.to_vec());
        let terms = &spending.terms();
        limit.roll(&mut short, 1, terms);
        limit.roll(&mut long, 1, terms);
        if let Ok(count) = u32::try_from(count) {
            let admits = limit.admits(&short, 1, count, terms);
            prop_assert_eq!(admits, limit.admits_otherwise(&long, count, spending));
        }
        limit.charge(&mut short, 1, count, terms);
        limit.charge_otherwise(&mut long, 1, count, spending);
        prop_assert_eq!(&short, &long);
        let (mut short, mut long) = (stored.to_vec(), stored.to_vec());
        let demand = Demand { count, charges, terms };
        let passed = limit.pass(&mut short, 1, demand);
        let expected = limit.pass_otherwise(&mut long, 1, demand);
        prop_assert_eq!(format!("{passed:?}"), format!("{expected:?}"));
        prop_assert_eq!(&short, &long);
    }
}

#[test]
fn what_no_ledger_has_heard_of_for_a_life_is_over() {
    let mut world = World::new(conf::Policy::Interval(INTERVAL));
    world.charge(3, Spending::Admit);
    let life_ms = world.limit.life_ms().unwrap();
    for (passed_ms, is_over) in [(life_ms - 1, false), (life_ms, true)] {
        world.clock.boot.set_now(world.now_ms + passed_ms);
        assert!(world.limit.is_kept(&world.state));
        assert_eq!(world.limit.is_over(&world.state), is_over);
    }
}
