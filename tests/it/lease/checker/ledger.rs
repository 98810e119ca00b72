//! The ledger as the design's pseudo-code has it, for interval, calendar and total.
//!
//! Invariant: a value in, a value out. A failover is an earlier clone that learns; a server that
//! has lost everything is a new ledger.

use std::collections::BTreeMap;

use frs::lease::{Granted, Incarnation, Kind, Settings, Take, Taken};

/// So long the least max decides.
const LEAST_MAX_MS: u64 = 10_000;

/// What a ledger may be made without, to see that it breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    /// A message that is older than the last one is not heard.
    Seq,
    /// The least max that was seen lately decides.
    LeastMax,
}

/// One ledger, and what its server knows of itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ledger {
    learn_ms: u64,
    born_ms: Option<u64>,
    without: Option<Rule>,
    state: Option<State>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    start: u64,
    end: Option<u64>,
    granted: i64,
    unspent: i64,
    max: u64,
    max_ms: u64,
    rows: BTreeMap<Incarnation, Row>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Row {
    seq: u64,
    allowance: u64,
    spent: u64,
    base: Option<u64>,
}

impl Ledger {
    /// An empty one on a server that has just been started, that does not keep a rule.
    pub fn without(learn_ms: u64, rule: Option<Rule>) -> Ledger {
        Ledger { learn_ms, born_ms: None, without: rule, state: None }
    }

    /// The server with this state becomes the master.
    pub fn fail_over(&mut self) {
        self.born_ms = None;
    }

    /// The server has lost everything.
    pub fn flush(&mut self) {
        self.state = None;
    }

    /// As if each host had sent one message only.
    pub fn forget_seqs(&mut self) {
        for row in self.state.iter_mut().flat_map(|state| state.rows.values_mut()) {
            row.seq = 1;
        }
    }

    /// The window's start.
    pub fn window(&self) -> Option<u64> {
        self.state.as_ref().map(|state| state.start)
    }

    /// Granted in all, and of that maybe unspent.
    pub fn granted(&self) -> [i64; 2] {
        self.state.as_ref().map_or([0, 0], |state| [state.granted, state.unspent])
    }

    /// For how long it grants nothing.
    pub fn learning_ms(&mut self, now_ms: u64) -> u64 {
        let born_ms = *self.born_ms.get_or_insert(now_ms);
        (born_ms + self.learn_ms).saturating_sub(now_ms)
    }

    /// What a message is answered.
    pub fn take(&mut self, now_ms: u64, settings: &Settings, take: &Take) -> Taken {
        let mut take = *take;
        if self.learning_ms(now_ms) > 0 {
            (take.need, take.want) = (0, 0);
        }
        if self.state.as_ref().is_some_and(|state| state.end.is_some_and(|end| now_ms >= end)) {
            self.state = None;
        }
        let opened = match &self.state {
            Some(state) => Some(state.clone()),
            None => State::open(now_ms, settings, &take),
        };
        let Some(mut state) = opened else { return Taken::Nothing };
        let row = state.rows.get(&take.host).copied();
        match row {
            Some(row) if take.seq < row.seq && self.without != Some(Rule::Seq) => Taken::Stale,
            Some(row) if take.seq == row.seq => state.says(now_ms, &row),
            row => {
                let row = state.settle(now_ms, settings, &take, row.unwrap_or_default());
                let least = self.without != Some(Rule::LeastMax);
                let row = state.grant(now_ms, settings, &take, row, least);
                let taken = state.says(now_ms, &row);
                self.state = Some(state);
                taken
            }
        }
    }
}

/// The calendar window that the time is in, or the window that an interval has from a start.
fn window(now_ms: u64, settings: &Settings, start: u64) -> Option<[Option<u64>; 2]> {
    match settings.kind {
        Kind::Interval { interval_ms } => Some([Some(start), Some(start + interval_ms)]),
        Kind::Calendar { start_ms, end_ms, next_end_ms } => {
            let is_here = now_ms >= start_ms && now_ms < next_end_ms;
            let this = if now_ms < end_ms { [start_ms, end_ms] } else { [end_ms, next_end_ms] };
            is_here.then(|| this.map(Some))
        }
        Kind::Total => Some([Some(start), None]),
        other => unimplemented!("a ledger of {other:?}"),
    }
}

impl State {
    fn open(now_ms: u64, settings: &Settings, take: &Take) -> Option<State> {
        let claimed = take.claim.window;
        let [start, end] = window(now_ms, settings, if claimed > 0 { claimed } else { now_ms })?;
        let is_claim = claimed > 0 && start == Some(claimed) && end.is_none_or(|end| now_ms < end);
        let asks = take.need + take.want > 0 || take.claim.extra != 0;
        let [start, end] = match is_claim {
            true => [start, end],
            false if asks => window(now_ms, settings, now_ms)?,
            false => return None,
        };
        let (max, max_ms, rows) = (u64::MAX, now_ms, BTreeMap::new());
        Some(State { start: start?, end, granted: 0, unspent: 0, max, max_ms, rows })
    }

    fn settle(&mut self, now_ms: u64, settings: &Settings, take: &Take, was: Row) -> Row {
        let claim = take.claim;
        let (floor, spent, base) = if claim.window == self.start {
            (claim.floor, claim.spent, None)
        } else if claim.window == 0 {
            (was.allowance, was.allowance, Some(was.allowance))
        } else if overlaps(settings, claim.window, self.start) {
            (claim.floor, claim.floor, Some(claim.floor))
        } else {
            (0, 0, Some(0))
        };
        if settings.max <= self.max || now_ms > self.max_ms + LEAST_MAX_MS {
            (self.max, self.max_ms) = (settings.max, now_ms);
        }
        let extra = claim.extra.max(0) as u64;
        // What is given back is given back in the window that the host knows, and in no other.
        let given_back = if base.is_none() { claim.extra.min(0) } else { 0 };
        let (allowance, spent) = (floor + extra, spent + extra);
        let row = Row { seq: take.seq, allowance, spent, base: base.map(|base| base + extra) };
        self.unspent += row.left() - was.left();
        self.granted += allowance as i64 - was.allowance as i64 + given_back;
        self.granted = self.granted.max(self.unspent);
        row
    }

    fn grant(
        &mut self,
        now_ms: u64,
        settings: &Settings,
        take: &Take,
        row: Row,
        least: bool,
    ) -> Row {
        if !least {
            (self.max, self.max_ms) = (settings.max, now_ms);
        }
        self.rows.insert(take.host, row);
        let (max, holders) = (self.max as i64, self.rows.len() as i64);
        let free = (max - self.granted).max(0);
        let (need, want) = (take.need as i64, take.want as i64);
        let slice = match max {
            ..64 => free / (2 * holders),
            _ => (max / (2 * settings.hosts as i64)).min(free / 2),
        };
        let more = if need <= free { free.min(need.max(want.min(slice))) } else { 0 };
        self.granted += more;
        self.unspent += more;
        let row = Row { allowance: row.allowance + more as u64, ..row };
        self.rows.insert(take.host, row);
        row
    }

    fn says(&self, now_ms: u64, row: &Row) -> Taken {
        let pool = self.max as i64 - self.granted;
        Taken::Granted(Granted {
            window: self.start,
            base: row.base,
            allowance: row.allowance,
            pool,
            turn_ms: self.end.map(|end| end - now_ms),
            others: (self.unspent - row.left()).max(0) as u64,
            over: (-pool).max(0) as u64,
        })
    }
}

/// May uses of an older window count in the one that begins at `start`?
fn overlaps(settings: &Settings, older: u64, start: u64) -> bool {
    match settings.kind {
        Kind::Interval { interval_ms } => older + interval_ms > start,
        Kind::Calendar { start_ms, end_ms, .. } => {
            older > start || older == start_ms && end_ms > start
        }
        _ => true,
    }
}

impl Row {
    fn left(&self) -> i64 {
        self.allowance as i64 - self.spent as i64
    }
}
