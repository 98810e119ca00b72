//! A limit that machines share: its policy spends the uses that a ledger has granted this host. A
//! limit that refuses nothing counts its uses at once, and reports them to its ledger.
//!
//! Invariant: in mode [`Spending::New`] and [`Spending::Parked`] a limit that refuses admits
//! nothing beyond the allowance of a live lease of this host's incarnation. All times are
//! milliseconds of CLOCK_BOOTTIME, which [`LeaseClock`] gives: no wall clock takes part.
//!
//! The state is a [`Holding`], in the layout of lease/node_words.rs. The state of a sliding limit
//! extends to the end of the ring, which is its log.

use std::any::Any;
use std::sync::Arc;

use frs_conf::{self as conf, MAX_SHARED, OnMiss, SHARED_WORDS, Share, Sharing, Turns};
use frs_limit::ring::{self, Ring};
use frs_limit::{
    AnswerAge, Demand, Figures, Log, Passed, Policy, Properties, SharedPolicy, SharedRecord,
    StateField, Terms, Waited, WordNames, WordUnit, window_at,
};

use crate::lease::{
    Asking, HOLDING_WORDS, Holding, HoldingWords, Incarnation, Kind, Lease, Settings,
};
use crate::tally::{TALLY_MAX, Tally};

const _: () = assert!(HOLDING_WORDS == SHARED_WORDS);
const _: () = assert!(TALLY_MAX == MAX_SHARED);

mod alone;
mod fields;
mod lease_clock;
mod sliding_log;
mod states;

pub use lease_clock::LeaseClock;
use lease_clock::UNPROVEN;
pub use states::{LeasedLimit, LeasedLimits, has_lease, leases, set_lease};

/// The uses of leases that an item may spend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spending {
    /// A first attempt may spend only what is not reserved for waiting requests, and nothing with
    /// `share="exact"`.
    New,
    /// A request that has waited may spend everything that is unspent.
    Parked,
    /// As `Parked`, or the uses that the host admits by itself while it cannot reach the cluster.
    CutOff,
    /// As `Parked`, or the uses that the host admits by itself after a wait without an answer,
    /// unless the ledger has refused them. `on-miss` admits the request then.
    Admit,
    /// Spends nothing.
    Ask,
}

/// A shared limit, prepared.
#[derive(Debug, Clone)]
pub struct Shared {
    /// The settings that its ledger gets.
    settings: Settings,
    /// None: it spends leases, and refuses all other uses. Otherwise it refuses nothing.
    tally: Option<Tally>,
    sharing: Sharing,
    clock: Arc<LeaseClock>,
    /// The log of a sliding limit.
    ring: Option<Ring>,
    /// It reports returns beyond the host's own uses to its ledger. Of several limits with one log,
    /// only one reports them: the others follow the log.
    reports_returns: bool,
    /// The windows of a calendar.
    turns: Option<Turns>,
    window_ms: Option<u64>,
}

impl Shared {
    /// Prepares a limit, which may advise instead of refusing. `None` if no ledger counts such a
    /// policy.
    pub fn new(
        policy: &conf::Policy,
        advises: bool,
        sharing: Sharing,
        log: Log,
        clock: &Arc<LeaseClock>,
    ) -> Option<Shared> {
        let turns = match policy {
            conf::Policy::Calendar(limit) => Some(&limit.turns),
            conf::Policy::Count(limit) => limit.turns.as_ref(),
            _ => None,
        };
        let kind = Kind::of(policy)?;
        let max = policy.max();
        let tally = (advises || max.is_none()).then_some(Tally { max });
        // The ledger fills a bucket up to its burst.
        let has_max = tally.is_none() || matches!(kind, Kind::Token { .. });
        let ledger_max = max.filter(|_| has_max).unwrap_or(TALLY_MAX);
        let mut limit = Shared {
            settings: Settings { kind, max: ledger_max, hosts: sharing.hosts.into() },
            tally,
            sharing,
            clock: Arc::clone(clock),
            ring: log.ring.filter(|_| matches!(kind, Kind::Sliding { .. })),
            reports_returns: log.reports,
            turns: turns.cloned(),
            window_ms: None,
        };
        limit.window_ms = limit.length_ms().filter(|_| !limit.only_counts());
        Some(limit)
    }

    /// The limit behind a shared policy.
    pub fn behind(policy: &dyn SharedPolicy) -> Option<&Shared> {
        policy.as_any().downcast_ref()
    }

    /// Whether its uses are only reported to the ledger: it needs no lease.
    pub fn refuses_nothing(&self) -> bool {
        self.tally.is_some()
    }

    /// What an item may spend.
    #[inline]
    fn spending(&self, terms: &Terms) -> Spending {
        match terms.waited {
            _ if terms.asks => Spending::Ask,
            Waited::NotYet => Spending::New,
            Waited::Answered | Waited::Unanswered => Spending::Parked,
            Waited::TooLong if self.sharing.on_miss == OnMiss::Admit => Spending::Admit,
            Waited::TooLong => Spending::Parked,
            Waited::CutOff => Spending::CutOff,
        }
    }

    fn only_counts(&self) -> bool {
        matches!(self.tally, Some(Tally { max: None }))
    }

    /// Its settings, with the calendar windows at a time of the ledger's clock.
    pub fn settings_at(&self, ledger_now_ms: u64) -> Settings {
        let Some(turns) = &self.turns else { return self.settings };
        let this = window_at(turns, ledger_now_ms);
        let next = window_at(turns, this.until);
        let kind =
            Kind::Calendar { start_ms: this.from, end_ms: this.until, next_end_ms: next.until };
        Settings { kind, ..self.settings }
    }

    /// The host's holding. An allowance beyond the capacity of the log, as after a reload with a
    /// smaller max, is not spent: the log would forget uses that still count.
    #[inline]
    pub fn holding(&self, state: &[u64]) -> Holding {
        let mut holding = Holding::decode(words_of(state));
        holding.lease.is_unproven = self.clock.incarnation() == UNPROVEN;
        if let Some(ring) = self.ring {
            holding.lease.allowance = holding.lease.allowance.min(ring.uses.into());
            holding.used = self.logged(state);
        }
        holding
    }

    /// Stores the host's holding. Uses that are missing in a log are added with the current time.
    pub fn store(&self, state: &mut [u64], holding: &Holding) {
        self.store_words(state, holding);
        if let Some(ring) = self.ring {
            let more = holding.used.saturating_sub(self.logged(state)).min(i32::MAX as u64);
            ring::charge(ring, self.log_mut(state), self.clock.boot_ms(), more as i32);
        }
    }

    /// Stores all but the log.
    fn store_words(&self, state: &mut [u64], holding: &Holding) {
        let used = if self.ring.is_some() { 0 } else { holding.used };
        *words_of_mut(state) = Holding { used, ..*holding }.encode();
    }

    #[cold]
    fn void(&self, state: &mut [u64], own: Incarnation) {
        let holding = self.holding(state).of_host(own);
        self.log_mut(state).fill(0);
        self.store(state, &holding);
    }

    #[cold]
    #[inline(never)]
    fn admits_otherwise(&self, state: &[u64], count: u32, spending: Spending) -> bool {
        self.holding_admits(&self.holding(state), count.into(), spending)
    }

    /// The holding after the most common item, which spends from a live lease. If the item has
    /// waited, nothing may be reserved. `None` for any other item. All of this is inlined, so that
    /// only the needed fields are decoded.
    #[inline(always)]
    fn hit(&self, words: &HoldingWords, count: u64, spending: Spending) -> Option<Holding> {
        let mut holding = Holding::decode(words);
        if self.tally.is_some() {
            return None;
        }
        let may_spend = match spending {
            Spending::New => self.sharing.share == Share::Cluster,
            Spending::Parked | Spending::CutOff | Spending::Admit => holding.lease.reserved == 0,
            Spending::Ask => false,
        };
        let is_common = may_spend
            & self.ring.is_none()
            & (holding.lease.incarnation == self.clock.incarnation());
        (is_common && holding.hit(count, self.clock.boot_ms())).then_some(holding)
    }

    fn holding_admits(&self, holding: &Holding, count: u64, spending: Spending) -> bool {
        let now_ms = self.clock.boot_ms();
        if let Some(tally) = &self.tally {
            return tally.admits(&self.settings.kind, holding, count, now_ms);
        }
        match spending {
            // Uses that a waiting request leaves over are for other waiting requests.
            Spending::New if self.sharing.share == Share::Exact => count == 0,
            Spending::New => count <= holding.spendable(now_ms),
            Spending::Parked => count <= holding.unspent(now_ms),
            Spending::CutOff => {
                count <= holding.unspent(now_ms) || count <= self.cut_off_left(holding)
            }
            Spending::Admit => {
                count <= holding.unspent(now_ms)
                    || count <= self.missed_left(holding) && self.may_be_granted(holding, count)
            }
            Spending::Ask => count <= self.remaining_of(holding),
        }
    }

    #[cold]
    #[inline(never)]
    fn pass_otherwise(
        &self,
        state: &mut [u64],
        wall_ms: u64,
        demand: Demand<'_>,
    ) -> Option<Passed> {
        let Demand { count, charges, terms } = demand;
        self.roll(state, wall_ms, terms);
        let spending = self.spending(terms);
        let mut holding = self.holding(state);
        if charges && count < 0 && !self.holding_takes_back(&holding, count) {
            return None;
        }
        let admits = |count| self.holding_admits(&holding, u64::from(count), spending);
        if !u32::try_from(count).map_or(true, admits) {
            return None;
        }
        if charges {
            self.charge_holding(&mut holding, state, wall_ms, count, spending);
        }
        let passed = self.passed(&holding);
        Some(match &self.tally {
            Some(tally) => Passed { figures: self.tallied(tally, &holding), ..passed },
            None => passed,
        })
    }

    #[inline(always)]
    fn passed(&self, holding: &Holding) -> Passed {
        let answer_age = AnswerAge::of(self.age_of(holding));
        Passed { figures: self.figures_of(holding), window_ms: self.window_ms, answer_age }
    }

    fn holding_takes_back(&self, holding: &Holding, count: i32) -> bool {
        let (kind, magnitude) = (&self.settings.kind, u64::from(count.unsigned_abs()));
        self.refuses_nothing()
            || !self.reports_returns
            || holding.takes_back(kind, magnitude, self.clock.boot_ms())
    }

    fn may_be_granted(&self, holding: &Holding, count: u64) -> bool {
        let now_ms = self.clock.boot_ms();
        let need = count.saturating_sub(holding.unspent(now_ms));
        let is_refused = matches!(holding.asking(need, now_ms), Asking::Refuse { .. });
        count <= self.settings.max && !is_refused
    }

    #[cold]
    #[inline(never)]
    fn charge_otherwise(&self, state: &mut [u64], wall_ms: u64, count: i32, spending: Spending) {
        let mut holding = self.holding(state);
        self.charge_holding(&mut holding, state, wall_ms, count, spending);
    }

    fn charge_holding(
        &self,
        holding: &mut Holding,
        state: &mut [u64],
        wall_ms: u64,
        count: i32,
        spending: Spending,
    ) {
        let now_ms = self.clock.boot_ms();
        if count == 0 {
            // A count of 0 is no use: it keeps neither an idle lease nor an empty node.
            return;
        }
        holding.lease.incarnation = match self.clock.own() {
            0 => holding.lease.incarnation,
            own => own,
        };
        let magnitude = u64::from(count.unsigned_abs());
        if count < 0 {
            let extra = holding.lease.extra;
            holding.return_uses(&self.settings.kind, magnitude, now_ms);
            if let (Some(ring), true) = (self.ring, holding.is_live(now_ms)) {
                holding.lease.extra = extra - self.beyond_log(ring, state, magnitude) as i64;
            }
            let is_news = holding.lease.extra < 0 || holding.lease.has_returned;
            if is_news && !self.refuses_nothing() {
                self.clock.note_news();
            }
        } else if self.refuses_nothing() {
            let own_end_ms = || self.own_end_ms(wall_ms);
            if Tally::charge(holding, &self.settings.kind, own_end_ms, magnitude, now_ms) {
                self.clock.note_news();
            }
        } else if magnitude <= holding.unspent(now_ms) {
            if spending == Spending::Parked {
                let reserved = holding.lease.reserved;
                holding.lease.reserved = reserved.saturating_sub(count.unsigned_abs());
            }
            holding.spend(magnitude, now_ms);
        } else {
            match spending {
                Spending::CutOff if self.has_own_window(holding) => {
                    holding.note_alone(magnitude, self.own_end_ms(wall_ms), now_ms);
                }
                Spending::Admit => {
                    let has_turn = holding.is_live(now_ms) && self.settings.kind.has_turns();
                    let turn_ms = holding.lease.end_ms;
                    let end_ms = if has_turn { turn_ms } else { self.own_end_ms(wall_ms) };
                    holding.note_alone(magnitude, end_ms, now_ms);
                }
                _ => {}
            }
            let was_reported = holding.lease.extra <= 0 && !holding.lease.in_flight;
            holding.overspend(&self.settings.kind, magnitude, now_ms);
            if was_reported && holding.lease.extra > 0 {
                self.clock.note_news();
            }
        }
        self.store_words(state, holding);
    }

    /// Uses that all machines together have left, by the last answer.
    #[inline(always)]
    fn remaining_of(&self, holding: &Holding) -> u64 {
        let (lease, now_ms) = (&holding.lease, self.clock.boot_ms());
        // The fields have so few bits that sums of them fit.
        let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX / 4);
        let max = signed(self.settings.max);
        let unreported = lease.extra + lease.sent_extra.max(0);
        let left = if holding.is_live(now_ms) {
            signed(lease.obtainable) + signed(lease.allowance) - signed(holding.used) - unreported
        } else if self.ring.is_some() {
            max - signed(holding.used)
        } else {
            max - unreported
        };
        left.clamp(0, max) as u64
    }

    fn tallied(&self, tally: &Tally, holding: &Holding) -> Figures {
        let now_ms = self.clock.boot_ms();
        tally.figures(&self.settings.kind, holding, self.reset_ms(holding), now_ms)
    }

    #[inline(always)]
    fn figures_of(&self, holding: &Holding) -> Figures {
        let (max, remaining) = (self.settings.max, self.remaining_of(holding));
        Figures { used: max - remaining, max, remaining, reset_ms: self.reset_ms(holding) }
    }

    #[inline(always)]
    fn reset_ms(&self, holding: &Holding) -> Option<u64> {
        let now_ms = self.clock.boot_ms();
        if matches!(self.settings.kind, Kind::Total) {
            return None;
        }
        let is_live = holding.is_live(now_ms);
        Some(if is_live { holding.lease.end_ms - now_ms } else { 0 })
    }

    #[inline(always)]
    fn age_of(&self, holding: &Holding) -> Option<u64> {
        let answered_ms = holding.lease.answered_ms;
        (answered_ms > 0).then(|| self.clock.boot_ms().saturating_sub(answered_ms))
    }

    fn length_ms(&self) -> Option<u64> {
        match self.settings.kind {
            Kind::Interval { interval_ms }
            | Kind::Sliding { interval_ms }
            | Kind::SlidingCounter { interval_ms } => Some(interval_ms),
            Kind::Token { .. } => Some(self.tokens_ms(self.settings.max)),
            Kind::Calendar { .. } | Kind::Total => Some(self.turns.as_ref()?.unit.longest_ms()),
        }
    }

    fn kind_shape(&self) -> [u64; 2] {
        match self.settings.kind {
            Kind::Interval { interval_ms } => [1, interval_ms],
            Kind::Total => [2, 0],
            Kind::Calendar { .. } => [3, self.turns.as_ref().map_or(0, |turns| turns.unit as u64)],
            Kind::Sliding { interval_ms } => [4, interval_ms],
            Kind::SlidingCounter { interval_ms } => [5, interval_ms],
            Kind::Token { rate, period_ms } => [6, rate.rotate_left(32) ^ period_ms],
        }
    }
}

impl SharedPolicy for Shared {
    fn boxed(&self) -> Box<dyn SharedPolicy> {
        Box::new(self.clone())
    }

    fn resize(&mut self, settings: &conf::Policy) {
        let advises = matches!(self.tally, Some(Tally { max: Some(_) }));
        let log = Log { ring: self.ring, reports: self.reports_returns };
        if let Some(resized) = Shared::new(settings, advises, self.sharing, log, &self.clock) {
            *self = resized;
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn refuses(&self) -> bool {
        !self.refuses_nothing()
    }

    /// The lease is read and written once.
    #[inline]
    fn pass(&self, state: &mut [u64], wall_ms: u64, demand: Demand<'_>) -> Option<Passed> {
        let Demand { count, charges, terms } = demand;
        if charges & (count > 0) {
            let words = words_of_mut(state);
            if let Some(holding) = self.hit(words, count as u64, self.spending(terms)) {
                holding.encode_hit(words);
                return Some(self.passed(&holding));
            }
        }
        self.pass_otherwise(state, wall_ms, demand)
    }

    /// The ledger may grant the uses: a request is due or on its way.
    fn may_come(&self, state: &[u64], count: u32) -> bool {
        self.may_be_granted(&self.holding(state), count.into())
    }

    fn takes_back(&self, state: &[u64], count: i32) -> bool {
        self.holding_takes_back(&self.holding(state), count)
    }

    #[inline]
    fn age_ms(&self, state: &[u64]) -> Option<u64> {
        self.age_of(&Holding::decode(words_of(state)))
    }

    /// Its window is over, or its last event is longer ago than its life, as after a long outage.
    fn is_over(&self, state: &[u64]) -> bool {
        let (holding, now_ms) = (self.holding(state), self.clock.boot_ms());
        let Lease { used_ms, sent_ms, answered_ms, gone_ms, .. } = holding.lease;
        let last_ms = used_ms.max(sent_ms).max(answered_ms);
        let is_past = |life_ms: u64| last_ms > 0 && now_ms >= last_ms.saturating_add(life_ms);
        self.life_ms().is_some_and(is_past)
            || !self.is_kept(state)
                && !self.is_unreported(state)
                && (holding.used == 0 || now_ms >= gone_ms)
    }

    fn is_unreported(&self, state: &[u64]) -> bool {
        let holding = self.holding(state);
        let is_unreported = holding.lease.in_flight || holding.is_unreported(self.clock.boot_ms());
        self.refuses_nothing() && is_unreported
    }

    /// A limit that refuses nothing sends another maximum, so it has another ledger.
    fn identity(&self) -> [u64; 2] {
        const TALLY: u64 = 32;
        let [kind, span] = self.kind_shape();
        [if self.refuses_nothing() { TALLY + kind } else { kind }, span]
    }

    fn record(&self, index: u16, state: &[u64]) -> SharedRecord {
        self.record_of(index, &self.holding(state))
    }

    fn fields(&self, index: u16, state: &[u64]) -> Vec<StateField> {
        fields::of(index, &Holding::decode(words_of(state)))
    }
}

impl Policy for Shared {
    /// Another number than that of the policy alone, so that a limit starts fresh when machines
    /// begin or cease to share it.
    fn shape(&self) -> [u64; 2] {
        const LEASED: u64 = 64;
        let [kind, span] = self.identity();
        [LEASED + kind, span]
    }

    fn words(&self) -> WordNames {
        WordNames::only(&[("lease", WordUnit::Fields); SHARED_WORDS])
    }

    /// Machines share no limit of members.
    fn properties(&self) -> Properties {
        Properties {
            is_logged: self.ring.is_some(),
            only_counts: self.only_counts(),
            ..Properties::PLAIN
        }
    }

    /// Voids what another incarnation has left.
    #[inline]
    fn roll(&self, state: &mut [u64], _: u64, _: &Terms) {
        let (own, stored) = (self.clock.own(), Holding::incarnation_in(words_of(state)));
        if stored != own && stored != 0 && own != 0 {
            self.void(state, own);
        }
    }

    #[inline]
    fn admits(&self, state: &[u64], _: u64, count: u32, terms: &Terms) -> bool {
        let spending = self.spending(terms);
        self.hit(words_of(state), count.into(), spending).is_some()
            || self.admits_otherwise(state, count, spending)
    }

    /// The owner of a log charges the log.
    #[inline]
    fn charge(&self, state: &mut [u64], wall_ms: u64, count: i32, terms: &Terms) {
        let words = words_of_mut(state);
        let spending = self.spending(terms);
        match self.hit(words, count.max(0) as u64, spending) {
            Some(holding) if count > 0 => holding.encode_hit(words),
            _ => self.charge_otherwise(state, wall_ms, count, spending),
        }
    }

    /// The figures of all machines together, by the last answer.
    #[inline]
    fn figures(&self, state: &[u64], _: u64, _: &Terms) -> Figures {
        match (&self.tally, self.ring) {
            (Some(tally), _) => self.tallied(tally, &self.holding(state)),
            // Inlined, so that only what figures need is decoded.
            (_, None) => self.figures_of(&Holding::decode(words_of(state))),
            (_, Some(_)) => self.figures_of(&self.holding(state)),
        }
    }

    #[inline]
    fn remaining(&self, state: &[u64], _: u64, _: &Terms) -> u64 {
        match (&self.tally, self.ring) {
            (Some(tally), _) => {
                let now_ms = self.clock.boot_ms();
                tally.remaining(&self.settings.kind, &self.holding(state), now_ms)
            }
            (_, None) => self.remaining_of(&Holding::decode(words_of(state))),
            (_, Some(_)) => self.remaining_of(&self.holding(state)),
        }
    }

    fn retry_ms(&self, state: &[u64], _: u64, count: u32, _: &Terms) -> Option<u64> {
        let (holding, now_ms) = (self.holding(state), self.clock.boot_ms());
        if u64::from(count) > self.settings.max || matches!(self.settings.kind, Kind::Total) {
            return None;
        }
        Some(match self.settings.kind {
            Kind::Token { .. } => self.tokens_ms(count.into()),
            _ if holding.is_live(now_ms) => holding.lease.end_ms - now_ms,
            _ => self.sharing.wait_ms.max(holding.lease.again_ms.saturating_sub(now_ms)),
        })
    }

    #[inline]
    fn window_ms(&self, _: &[u64], _: &Terms) -> Option<u64> {
        self.window_ms
    }

    fn quota(&self, _: &Terms) -> Option<(u64, Option<u64>)> {
        let max = self.tally.map_or(Some(self.settings.max), |tally| tally.max)?;
        Some((max, self.window_ms))
    }

    /// A host may request, claim and report a lease some time after the last use.
    fn life_ms(&self) -> Option<u64> {
        const SLACK_MS: u64 = 120_000;
        Some(self.length_ms()?.saturating_mul(3).saturating_add(SLACK_MS))
    }

    fn is_fresh(&self, state: &[u64]) -> bool {
        let Holding { lease, used } = Holding::decode(words_of(state));
        let known = Lease { incarnation: lease.incarnation, ..Lease::default() };
        used == 0 && lease == known && (self.ring.is_none() || ring::is_fresh(self.log(state)))
    }

    /// True while a lease may count after a failover, a message is in flight, or uses are
    /// unreported. A limit that refuses nothing loses uses rather than leave no room for new keys.
    fn is_kept(&self, state: &[u64]) -> bool {
        !self.refuses_nothing() && !self.holding(state).is_evictable(self.clock.boot_ms())
    }

    /// A hold of it would be shared.
    fn counts_since(&self, _: &[u64], _: u64) -> bool {
        false
    }

    /// The ledger takes part in a lease, so it stays.
    fn clear(&self, _: &mut [u64]) -> bool {
        false
    }
}

#[inline(always)]
fn words_of(state: &[u64]) -> &HoldingWords {
    state.first_chunk().expect("a leased state has a lease")
}

#[inline(always)]
fn words_of_mut(state: &mut [u64]) -> &mut HoldingWords {
    state.first_chunk_mut().expect("a leased state has a lease")
}

#[cfg(test)]
mod tests;
