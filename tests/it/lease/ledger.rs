//! The ledger's functions as a pure model, written from their description and not from the Lua.
//!
//! Invariant: a value in, a value out. A failover is a clone of an earlier state that learns
//! ([`Ledger::fail_over`]). A server that has lost everything is a new ledger.

use std::collections::BTreeMap;

use frs_cluster::lease::{Granted, Incarnation, Kind, Settings, Take, Taken};
use frs_cluster::ledger::{Answer, MAX_AMOUNT, Reply};

/// The time for which the least max decides.
const LEAST_MAX_MS: u64 = 10_000;

/// A clock that is this far before a window's start was set back.
const BACK_MS: u64 = 1_000;

const TOKEN_PARTS: u128 = 86_400_000;

/// A rule that a ledger may leave out, to show that it is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    /// A message older than the last one is ignored.
    Seq,
    /// A dead host's share is free one interval after its lease.
    ShareRests,
    /// Tokens flow back only up to the burst less the unspent tokens.
    TokenCap,
    /// No token of an ended lease is returned.
    TokenVoid,
    /// A share beyond the max is not renewed.
    ShareCut,
    /// A claim of the window before counts in that window.
    WindowBefore,
    /// No tokens flow back in place of leased and unspent ones.
    TokenWaits,
    /// The least max of the last seconds decides.
    LeastMax,
    /// Returned uses count only in the window that the host knows.
    GiveBackHere,
    /// Grants since a host's first unanswered message are unused.
    Unheard,
    /// Earlier grants may be used.
    HeardBefore,
    /// A host that has lost its log has nothing to remove from it.
    BackOfALog,
    /// After a clock was set back, a window does not last until the clock reaches its start again.
    SetBack,
}

/// A ledger, and what its server knows of itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ledger {
    learn_ms: u64,
    born_ms: Option<u64>,
    without: Option<Rule>,
    /// The hash, if the key exists.
    pub state: Option<State>,
}

/// The contents of the hash.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    /// The window's start.
    pub start: u64,
    /// When everything is forgotten. `None`: never.
    pub end: Option<u64>,
    /// Uses granted in all. For token: tokens taken from the full bucket.
    pub granted: i64,
    /// The granted uses that may be unspent.
    pub unspent: i64,
    /// The least max of late, and when it was seen.
    pub max: u64,
    pub max_ms: u64,
    /// sliding-counter: the uses granted in the window before.
    pub before: u64,
    /// token: the time up to which the bucket is filled, and the fraction of a token beyond.
    pub filled_ms: u64,
    pub parts: u64,
    pub rows: BTreeMap<Incarnation, Row>,
}

/// The ledger's record of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Row {
    pub seq: u64,
    pub allowance: u64,
    pub spent: u64,
    pub base: Option<u64>,
    /// sliding, token: the end of the lease, and the end of the row.
    pub until: u64,
    pub ends: u64,
    /// sliding: the uses that the host was told to remove from its log.
    pub back: u64,
    /// sliding-counter: the row's window, and the host's uses in `before`.
    pub window: u64,
    pub of_before: u64,
}

/// How a message opens a ledger.
enum Opened {
    No,
    Elsewhere,
    At { start: u64, end: Option<u64> },
}

impl Ledger {
    /// An empty ledger on a new server.
    pub fn new(learn_ms: u64) -> Ledger {
        Ledger { learn_ms, born_ms: None, without: None, state: None }
    }

    /// A ledger that leaves out a rule.
    pub fn without(learn_ms: u64, rule: Option<Rule>) -> Ledger {
        Ledger { without: rule, ..Ledger::new(learn_ms) }
    }

    /// The server loses everything.
    pub fn flush(&mut self) {
        self.state = None;
    }

    /// Resets the seqs, as if each host had sent one message only.
    pub fn forget_seqs(&mut self) {
        for row in self.state.iter_mut().flat_map(|state| state.rows.values_mut()) {
            row.seq = 1;
        }
    }

    /// The window's start.
    pub fn window(&self) -> Option<u64> {
        self.state.as_ref().map(|state| state.start)
    }

    /// The uses granted in all, and those that may be unspent.
    pub fn granted(&self) -> [i64; 2] {
        self.state.as_ref().map_or([0, 0], |state| [state.granted, state.unspent])
    }

    /// Makes the server with this state the master.
    pub fn fail_over(&mut self) {
        self.born_ms = None;
    }

    /// Answers a message. Outside both calendar windows the answer is nothing.
    pub fn take(&mut self, now_ms: u64, settings: &Settings, take: &Take) -> Taken {
        match self.reply(now_ms, settings, take).answer {
            Answer::Taken(taken) | Answer::Conflict { taken, .. } => taken,
            Answer::OtherWindow { .. } => Taken::Nothing,
        }
    }

    /// Answers a message, with everything that the courier receives.
    pub fn reply(&mut self, now: u64, settings: &Settings, take: &Take) -> Reply {
        let learning_ms = self.learning_ms(now);
        let mut take = *take;
        if learning_ms > 0 {
            (take.need, take.request) = (0, 0);
        }
        let reply = |answer| Reply { learning_ms, answer };
        if self.state.as_ref().is_some_and(|state| state.end.is_some_and(|end| now >= end)) {
            self.state = None;
        }
        let mut state = match &self.state {
            Some(state) => {
                let mut state = state.clone();
                state.roll(now, settings, self.without);
                state
            }
            None => match open(now, settings, &take) {
                Opened::No => return reply(Answer::Taken(Taken::Nothing)),
                Opened::Elsewhere => return reply(Answer::OtherWindow { now_ms: now }),
                Opened::At { start, end } => State::new(now, start, end),
            },
        };
        let row = state.rows.get(&take.host).copied();
        let is_heard = self.without == Some(Rule::Seq);
        if row.is_some_and(|row| take.seq < row.seq) && !is_heard {
            return reply(Answer::Taken(Taken::Stale));
        }
        let is_repeated = row.is_some_and(|row| take.seq == row.seq && state.is_of_now(&row));
        let left = if is_repeated { 0 } else { state.settle(now, settings, take, self.without) };
        let mut granted = Granted { left, ..state.granted_to(now, settings, &take) };
        let is_share = matches!(settings.kind, Kind::Sliding { .. });
        if is_share && learning_ms == 0 && self.without != Some(Rule::ShareCut) {
            granted.allowance = granted.allowance.saturating_sub(granted.over);
        }
        let granted = Taken::Granted(granted);
        let max = state.max;
        if !is_repeated {
            self.state = Some(state);
        }
        reply(if max == settings.max {
            Answer::Taken(granted)
        } else {
            Answer::Conflict { taken: granted, max }
        })
    }

    /// The time for which it grants nothing.
    pub fn learning_ms(&mut self, now: u64) -> u64 {
        let born = self.born_ms.unwrap_or(now).min(now);
        self.born_ms = Some(born);
        (born + self.learn_ms).saturating_sub(now)
    }
}

fn open(now: u64, settings: &Settings, take: &Take) -> Opened {
    let win = take.claim.window;
    let asks = take.need + take.request > 0 || take.claim.extra != 0;
    let (is_claim, start, end) = match settings.kind {
        Kind::Interval { interval_ms } => {
            let is_claim = win > 0 && now < win + interval_ms;
            let start = if is_claim && win <= now + BACK_MS { win } else { now };
            (is_claim, start, Some(start + interval_ms))
        }
        Kind::Calendar { start_ms, end_ms, next_end_ms } => {
            if now < start_ms || now >= next_end_ms {
                return Opened::Elsewhere;
            }
            let is_first = now < end_ms;
            let (start, end) = if is_first { (start_ms, end_ms) } else { (end_ms, next_end_ms) };
            let is_claim = win > 0 && (win == start || overlaps(settings, win, start));
            (is_claim, start, Some(end))
        }
        Kind::Total | Kind::Token { .. } => (win > 0, if win > 0 { win } else { now }, None),
        Kind::Sliding { .. } => (win > 0 && take.claim.floor > 0, 1, None),
        Kind::SlidingCounter { interval_ms } => {
            let is_known = win > 0 && win.is_multiple_of(interval_ms);
            let is_claim =
                is_known && now < win + interval_ms && win <= now + interval_ms + BACK_MS;
            let start = if is_claim { win } else { now - now % interval_ms };
            let is_lately = is_known && now < win + 2 * interval_ms;
            (is_lately, start, Some(start + 2 * interval_ms))
        }
    };
    if is_claim || asks { Opened::At { start, end } } else { Opened::No }
}

/// Whether uses of the window `win` may count in the window from `start`.
fn overlaps(settings: &Settings, win: u64, start: u64) -> bool {
    match settings.kind {
        Kind::Interval { interval_ms } | Kind::SlidingCounter { interval_ms } => {
            win + interval_ms > start
        }
        Kind::Calendar { start_ms, end_ms, .. } => win > start || win == start_ms && end_ms > start,
        Kind::Total | Kind::Sliding { .. } | Kind::Token { .. } => true,
    }
}

/// The time for which a share or tokens are leased, and the time for which they count after that.
fn lease_and_rest_ms(settings: &Settings) -> [u64; 2] {
    match settings.kind {
        Kind::Sliding { interval_ms } => [interval_ms.clamp(1000, 60_000), interval_ms],
        Kind::Token { rate, period_ms } => {
            let fill = (settings.max as f64 / rate as f64 * period_ms as f64).ceil() as u64;
            [fill.clamp(2000, 31_622_400_000); 2]
        }
        _ => [0, 0],
    }
}

impl State {
    fn new(now: u64, start: u64, end: Option<u64>) -> State {
        State {
            start,
            end,
            granted: 0,
            unspent: 0,
            max: u64::MAX,
            max_ms: now,
            before: 0,
            filled_ms: now,
            parts: 0,
            rows: BTreeMap::new(),
        }
    }

    pub fn is_of_now(&self, row: &Row) -> bool {
        row.window == 0 || row.window == self.start
    }

    /// Advances the state to `now`.
    fn roll(&mut self, now: u64, settings: &Settings, without: Option<Rule>) {
        if without == Some(Rule::ShareRests) {
            self.rows.values_mut().for_each(|row| row.ends = row.until);
        }
        let heeds = without != Some(Rule::SetBack);
        match settings.kind {
            Kind::Interval { interval_ms } if heeds && now + BACK_MS < self.start => {
                self.end = self.end.min(Some(now + interval_ms));
            }
            Kind::SlidingCounter { interval_ms }
                if heeds && now + interval_ms + BACK_MS < self.start =>
            {
                self.rows.clear();
                self.start = now - now % interval_ms + interval_ms;
                self.end = Some(self.start + 2 * interval_ms);
                self.before += self.granted as u64;
                (self.granted, self.unspent) = (0, 0);
            }
            Kind::SlidingCounter { interval_ms } if now >= self.start + interval_ms => {
                self.rows.retain(|_, row| row.window == self.start);
                self.start += interval_ms;
                self.end = Some(self.start + 2 * interval_ms);
                self.before = self.granted as u64;
                (self.granted, self.unspent) = (0, 0);
            }
            Kind::Sliding { .. } => {
                for row in self.rows.values().filter(|row| now >= row.ends) {
                    self.granted -= row.allowance as i64;
                    self.unspent -= row.left();
                }
                self.rows.retain(|_, row| now < row.ends);
            }
            Kind::Token { rate, period_ms } => {
                let parts_per_ms = TOKEN_PARTS / u128::from(period_ms) * u128::from(rate);
                let is_capped = without != Some(Rule::TokenCap);
                let least = |state: &State| if is_capped { state.unspent } else { 0 };
                if without != Some(Rule::TokenWaits) {
                    for time in self.ends_to_flow_to(now) {
                        self.flow_back(time, settings, parts_per_ms, least(self));
                        self.end_leases(time, without);
                    }
                }
                self.end_leases(now, without);
                self.rows.retain(|_, row| now < row.ends);
                self.flow_back(now, settings, parts_per_ms, least(self));
            }
            _ => {}
        }
    }

    /// The ends since the last flow of leases with unspent tokens, in order.
    fn ends_to_flow_to(&self, now: u64) -> Vec<u64> {
        let with_left = self.rows.values().filter(|row| row.left() > 0).map(|row| row.until);
        let mut ends: Vec<u64> =
            with_left.filter(|until| (self.filled_ms..=now).contains(until)).collect();
        ends.sort_unstable();
        ends
    }

    fn end_leases(&mut self, now: u64, without: Option<Rule>) {
        for row in self.rows.values_mut().filter(|row| now >= row.until) {
            self.unspent -= row.left();
            match without {
                Some(Rule::TokenVoid) => row.spent = row.allowance,
                _ => row.allowance = row.spent,
            }
        }
    }

    fn flow_back(&mut self, now: u64, settings: &Settings, parts_per_ms: u128, least: i64) {
        let [lease_ms, _] = lease_and_rest_ms(settings);
        let Some(passed) = now.checked_sub(self.filled_ms) else {
            if self.filled_ms - now >= lease_ms {
                self.filled_ms = now;
            }
            return;
        };
        self.filled_ms = now;
        let parts = u128::from(passed) * parts_per_ms + u128::from(self.parts);
        let tokens = i128::try_from(parts / TOKEN_PARTS).expect("few");
        let rest = i128::from(self.granted) - tokens;
        self.parts = (parts % TOKEN_PARTS) as u64;
        if rest <= i128::from(least) {
            (self.granted, self.parts) = (least, 0);
        } else {
            self.granted = rest as i64;
        }
    }

    /// The maximum of grants in this window.
    fn limit(&self, now: u64, settings: &Settings) -> i64 {
        let max = self.max as i64;
        let Kind::SlidingCounter { interval_ms } = settings.kind else { return max };
        let ahead = interval_ms.min(self.start + interval_ms - now);
        let weighed = u128::from(self.before) * u128::from(ahead);
        max - weighed.div_ceil(interval_ms.into()) as i64
    }

    /// Applies a message to its row, and grants. Returns the returned uses that no host has
    /// reported as used.
    fn settle(&mut self, now: u64, settings: &Settings, take: Take, without: Option<Rule>) -> u64 {
        let mut left = 0;
        let (start, kind) = (self.start, settings.kind);
        let mut row = self.rows.get(&take.host).copied().unwrap_or_default();
        let mut claim = take.claim;
        claim.floor = claim.floor.max(claim.spent);
        if let Kind::SlidingCounter { interval_ms } = kind {
            if row.window != start {
                row = Row { of_before: row.allowance, ..Row::default() };
            }
            row.window = start;
            let is_before = claim.window > 0 && claim.window + interval_ms == start;
            let reported = match claim.window {
                window if window == start => claim.noted,
                _ if is_before && without != Some(Rule::WindowBefore) => claim.floor,
                _ => 0,
            };
            self.before += reported.saturating_sub(row.of_before);
            row.of_before = row.of_before.max(reported);
        }
        if matches!(kind, Kind::Sliding { .. }) {
            let knows = claim.window > 0;
            if knows && self.rows.contains_key(&take.host) {
                left = self.give_back_of_others(take.host, claim.extra.min(0).unsigned_abs());
            }
            claim.extra = claim.extra.max(0);
            row.back = if knows || without == Some(Rule::BackOfALog) {
                row.back.max(claim.noted)
            } else {
                claim.noted
            };
            claim.window = if knows { start } else { 0 };
        }
        let (floor, spent, base) = match claim.window {
            win if win == start => (claim.floor, claim.spent, None),
            0 => {
                let is_unheard = match without {
                    Some(Rule::Unheard) => false,
                    Some(Rule::HeardBefore) => true,
                    _ => (1..=MAX_AMOUNT).contains(&claim.floor) && row.seq >= claim.floor,
                };
                let known = if is_unheard { row.base.unwrap_or(0) } else { row.allowance };
                (known, known, Some(known))
            }
            win if overlaps(settings, win, start) => (claim.floor, claim.floor, Some(claim.floor)),
            _ => (0, 0, Some(0)),
        };
        let any = without == Some(Rule::LeastMax);
        if any || settings.max <= self.max || now > self.max_ms + LEAST_MAX_MS {
            (self.max, self.max_ms) = (settings.max, now);
        }
        let mut claimed = floor as i64 - row.allowance as i64;
        if matches!(kind, Kind::Token { .. }) {
            let is_known = self.rows.contains_key(&take.host);
            let is_over = now >= row.until && without != Some(Rule::TokenVoid);
            claimed = match is_known {
                false => claimed.min(self.max as i64),
                true if is_over => claimed.max(0),
                true => claimed,
            };
        }
        let extra = claim.extra.max(0) as u64;
        let new = Row {
            seq: take.seq,
            allowance: floor + extra,
            spent: spent + extra,
            base: base.map(|base| base + extra),
            ..row
        };
        self.unspent += new.left() - row.left();
        let least = if without == Some(Rule::TokenCap) { i64::MIN } else { self.unspent };
        let is_here = base.is_none() || without == Some(Rule::GiveBackHere);
        let extra = if is_here { claim.extra } else { claim.extra.max(0) };
        let granted = self.granted + claimed + extra;
        self.granted = granted.max(least);
        left += (self.granted - granted).min(-extra.min(0)) as u64;
        self.rows.insert(take.host, new);
        let more = self.grant(self.limit(now, settings), settings.hosts, take);
        self.granted += more;
        self.unspent += more;
        let [lease_ms, rest_ms] = lease_and_rest_ms(settings);
        let own = self.rows.get_mut(&take.host).expect("its row");
        own.allowance += more as u64;
        if lease_ms > 0 {
            own.until = now + lease_ms;
            own.ends = own.until + rest_ms;
            self.end = self.end.max(Some(own.ends));
        }
        left
    }

    /// Marks uses of other hosts as unspent, for uses that a host returns beyond its own. Returns
    /// the rest.
    fn give_back_of_others(&mut self, host: Incarnation, mut count: u64) -> u64 {
        let others = self.rows.iter_mut().filter(|(name, _)| **name != host);
        let mut others: Vec<&mut Row> = others.map(|(_, row)| row).collect();
        others.sort_by_key(|row| std::cmp::Reverse(row.until));
        for row in others {
            let taken = count.min(row.spent);
            (row.spent, row.back) = (row.spent - taken, row.back + taken);
            self.unspent += taken as i64;
            count -= taken;
        }
        count
    }

    fn holders(&self) -> i64 {
        self.rows.values().filter(|row| self.is_of_now(row)).count() as i64
    }

    fn grant(&self, limit: i64, hosts: u64, take: Take) -> i64 {
        let free = (limit - self.granted).max(0);
        let (need, request) = (take.need as i64, take.request as i64);
        let slice = if limit < 64 {
            free / (2 * self.holders())
        } else {
            (limit / (2 * hosts.max(1) as i64)).min(free / 2)
        };
        if need <= free { free.min(need.max(request.min(slice))) } else { 0 }
    }

    fn granted_to(&self, now: u64, settings: &Settings, take: &Take) -> Granted {
        let row = self.rows[&take.host];
        let limit = self.limit(now, settings);
        let turn = match settings.kind {
            Kind::Interval { .. } | Kind::Calendar { .. } => self.end,
            Kind::SlidingCounter { interval_ms } => Some(self.start + interval_ms),
            Kind::Sliding { .. } | Kind::Token { .. } => Some(row.until),
            Kind::Total => None,
        };
        Granted {
            window: self.start,
            base: row.base,
            allowance: row.allowance,
            pool: limit - self.granted,
            turn_ms: turn.map(|turn| turn.saturating_sub(now)),
            others: (self.unspent - row.left()) as u64,
            left: 0,
            back: row.back,
            over: match settings.kind {
                // Claimed tokens may have flowed back already.
                Kind::Token { .. } => (self.granted - limit).clamp(0, take.claim.extra.max(0)),
                _ => (self.granted - limit).max(0),
            } as u64,
        }
    }
}

impl Row {
    fn left(&self) -> i64 {
        self.allowance as i64 - self.spent as i64
    }
}
