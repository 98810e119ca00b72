//! A ledger's guarantees over all hosts. Hosts that follow the rules play against the model.
//! Messages and answers are lost, duplicated, late and out of order. Hosts lose their nodes. The
//! ledger fails over to earlier states, and the holders claim their leases within `learn`.
//!
//! Invariant: every use that any host admits is checked against the exact limit over all hosts.
//! Without one of its rules the ledger breaks the limit, and some seed shows it.

use frs_cluster::lease::{Claim, Granted, Kind, Settings, Take, Taken};

use super::ledger::{Ledger, Rule};

const LEARN_MS: u64 = 60;
const STEPS: usize = 1500;
const SEEDS: u64 = 300;
const HOSTS: usize = 3;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }
}

/// A host's node for the one limit.
#[derive(Default)]
struct Host {
    window: u64,
    allowance: u64,
    /// The uses in the window. For token: in all.
    used: u64,
    /// sliding: the times of its uses.
    log: Vec<u64>,
    /// sliding-counter: the window before, and its uses.
    before: [u64; 2],
    lease_end: u64,
    in_flight: Option<Bound>,
    is_busy: bool,
}

#[derive(Clone, Copy)]
struct Bound {
    take: Take,
    first_sent_ms: u64,
}

/// The faults that may happen.
#[derive(Clone, Copy)]
struct Faults {
    fail_over: bool,
    lose_nodes: bool,
}

struct Play {
    random: Random,
    settings: Settings,
    now_ms: u64,
    ledger: Ledger,
    earlier: Vec<Ledger>,
    hosts: [Host; HOSTS],
    /// One counter for each host, which survives its nodes.
    seqs: [u64; HOSTS],
    messages: Vec<(usize, Take)>,
    answers: Vec<(usize, u64, Taken)>,
    admitted: Vec<u64>,
    windows: Vec<u64>,
}

impl Play {
    fn new(seed: u64, settings: Settings, without: Option<Rule>) -> Play {
        Play {
            random: Random(seed * 2 + 0x9e37_79b9_7f4a_7c15),
            settings,
            now_ms: 1_000_000,
            ledger: Ledger::without(LEARN_MS, without),
            earlier: Vec::new(),
            hosts: Default::default(),
            seqs: [0; HOSTS],
            messages: Vec::new(),
            answers: Vec::new(),
            admitted: Vec::new(),
            windows: Vec::new(),
        }
    }

    fn is_sliding(&self) -> bool {
        matches!(self.settings.kind, Kind::Sliding { .. })
    }

    fn in_log(&mut self, nth: usize) -> u64 {
        let Kind::Sliding { interval_ms } = self.settings.kind else { return 0 };
        let now_ms = self.now_ms;
        let log = &mut self.hosts[nth].log;
        log.retain(|at_ms| now_ms - at_ms < interval_ms);
        log.len() as u64
    }

    fn use_one(&mut self, nth: usize) {
        let used = if self.is_sliding() { self.in_log(nth) } else { self.hosts[nth].used };
        let host = &mut self.hosts[nth];
        if self.now_ms < host.lease_end && used < host.allowance {
            host.used += 1;
            host.log.push(self.now_ms);
            self.admitted.push(self.now_ms);
        }
    }

    /// Binds the node and sends the message.
    fn bind(&mut self, nth: usize, asks: bool, gives_back: bool) {
        let in_log = self.in_log(nth);
        let is_over = self.now_ms >= self.hosts[nth].lease_end;
        let host = &self.hosts[nth];
        let [floor, spent] = match self.settings.kind {
            Kind::Sliding { .. } if is_over || gives_back => [in_log, in_log],
            Kind::Sliding { .. } => [host.allowance.max(in_log), in_log],
            // Unspent tokens are void once the lease has ended.
            Kind::Token { .. } if is_over => [host.used, host.used],
            _ if gives_back => [host.used, host.used],
            _ => [host.allowance, host.used],
        };
        self.seqs[nth] += 1;
        let max = self.settings.max;
        let [need, more] = if asks { [1, self.random.below(max)] } else { [0, 0] };
        let claim = Claim { window: host.window, floor, spent, extra: 0, noted: 0 };
        let host = nth as u64 + 1;
        let take = Take { host, seq: self.seqs[nth], claim, need, request: need + more };
        let host = &mut self.hosts[nth];
        // Uses in the log are claimed, but cannot be spent.
        host.allowance = host.allowance.min(floor);
        host.in_flight = Some(Bound { take, first_sent_ms: self.now_ms });
        self.messages.push((nth, take));
    }

    fn deliver(&mut self, at: usize) {
        let (nth, take) = self.messages[at];
        if !self.random.one_in(6) {
            self.messages.swap_remove(at);
        }
        let taken = self.ledger.take(self.now_ms, &self.settings, &take);
        self.windows.extend(self.ledger.state.as_ref().map(|state| state.start));
        if !self.random.one_in(6) {
            self.answers.push((nth, take.seq, taken));
        }
    }

    fn apply(&mut self, at: usize) {
        let (nth, seq, taken) = self.answers[at];
        if !self.random.one_in(6) {
            self.answers.swap_remove(at);
        }
        let now_ms = self.now_ms;
        let host = &mut self.hosts[nth];
        let Some(bound) = host.in_flight.filter(|bound| bound.take.seq == seq) else { return };
        host.in_flight = None;
        let Taken::Granted(Granted { window, base, allowance, turn_ms, .. }) = taken else {
            return;
        };
        if host.window != window {
            host.before = [host.window, host.used];
        }
        if let Some(base) = base {
            host.used = base;
            host.log.extend((0..base).map(|_| now_ms));
        }
        (host.window, host.allowance) = (window, allowance);
        let turn_ms = turn_ms.unwrap_or(u64::MAX / 2);
        host.lease_end = bound.first_sent_ms + turn_ms;
    }

    /// An earlier state becomes the master's. The holders claim from it before it grants.
    fn fail_over(&mut self) {
        if self.earlier.is_empty() {
            return;
        }
        let at = self.random.below(self.earlier.len() as u64) as usize;
        self.ledger = self.earlier.swap_remove(at);
        self.earlier.truncate(at);
        self.ledger.fail_over();
        for nth in 0..HOSTS {
            let host = &self.hosts[nth];
            if host.window > 0 || host.in_flight.is_some() {
                self.claim_window_before(nth);
                self.bind(nth, false, false);
                self.deliver(self.messages.len() - 1);
            }
        }
    }

    /// Claims the window before of a sliding counter first, under a seq of its own, because it
    /// still weighs.
    fn claim_window_before(&mut self, nth: usize) {
        let [window, used] = self.hosts[nth].before;
        if window == 0 || !matches!(self.settings.kind, Kind::SlidingCounter { .. }) {
            return;
        }
        self.seqs[nth] += 1;
        let claim = Claim { window, floor: used, spent: used, extra: 0, noted: 0 };
        let take = Take { host: nth as u64 + 1, seq: self.seqs[nth], claim, need: 0, request: 0 };
        self.messages.push((nth, take));
        self.deliver(self.messages.len() - 1);
    }

    fn step(&mut self, faults: Faults) {
        let nth = self.random.below(HOSTS as u64) as usize;
        match self.random.below(24) {
            0..6 => (0..3).for_each(|_| self.use_one(nth)),
            6..10 => {
                let asks = self.hosts[nth].is_busy || self.random.one_in(4);
                match self.hosts[nth].in_flight {
                    None => self.bind(nth, asks, !asks),
                    Some(bound) => self.messages.push((nth, bound.take)),
                }
            }
            10..15 if !self.messages.is_empty() => {
                let at = self.random.below(self.messages.len() as u64) as usize;
                self.deliver(at);
            }
            15..20 if !self.answers.is_empty() => {
                let at = self.random.below(self.answers.len() as u64) as usize;
                self.apply(at);
            }
            20 => self.hosts[nth].is_busy = !self.hosts[nth].is_busy,
            21 => self.earlier.push(self.ledger.clone()),
            22 if faults.fail_over && self.random.one_in(12) => self.fail_over(),
            23 if faults.lose_nodes && self.random.one_in(12) => self.hosts[nth] = Host::default(),
            _ => {}
        }
        // The network drops the oldest messages.
        if self.messages.len() > 12 {
            self.messages.remove(0);
        }
        let is_long = self.random.one_in(60);
        self.now_ms += if is_long { self.random.below(400) } else { self.random.below(5) };
    }

    /// Plays a seed to its end. Returns the uses admitted beyond the limit.
    fn over(mut self, faults: Faults) -> Option<String> {
        for _ in 0..STEPS {
            self.step(faults);
        }
        let fault = match self.settings.kind {
            Kind::Interval { interval_ms } => self.over_in_windows(interval_ms),
            Kind::Sliding { interval_ms } => self.over_in_any(interval_ms),
            Kind::SlidingCounter { interval_ms } => self.over_by_weight(interval_ms),
            Kind::Token { rate, period_ms } => self.over_the_bucket(rate, period_ms),
            Kind::Total => self.over_in_windows(u64::MAX / 2),
            Kind::Calendar { .. } => unreachable!("its windows are an interval's"),
        };
        fault.map(|count| format!("{count} of {}", self.settings.max))
    }

    fn over_in_windows(&self, interval_ms: u64) -> Option<usize> {
        let within = |start: u64| {
            let window = start..start + interval_ms;
            self.admitted.iter().filter(|at_ms| window.contains(at_ms)).count()
        };
        let mut starts = self.windows.clone();
        starts.dedup();
        let most = starts.into_iter().map(within).max().unwrap_or(0);
        (most as u64 > self.settings.max).then_some(most)
    }

    fn over_in_any(&self, interval_ms: u64) -> Option<usize> {
        let within = |nth: usize| {
            let from = self.admitted.partition_point(|at| at + interval_ms <= self.admitted[nth]);
            nth + 1 - from
        };
        let most = (0..self.admitted.len()).map(within).max().unwrap_or(0);
        (most as u64 > self.settings.max).then_some(most)
    }

    /// Checks each use by the rule of limits.md.
    fn over_by_weight(&self, interval_ms: u64) -> Option<usize> {
        let weight = |nth: usize| {
            let now_ms = self.admitted[nth];
            let start = now_ms - now_ms % interval_ms;
            let since = |from| self.admitted[..=nth].partition_point(|&at_ms| at_ms < from);
            let (current, both) = (nth + 1 - since(start), nth + 1 - since(start - interval_ms));
            let ahead = interval_ms - (now_ms - start);
            current as u64 * interval_ms + (both - current) as u64 * ahead
        };
        let most = (0..self.admitted.len()).map(weight).max().unwrap_or(0);
        (most > self.settings.max * interval_ms).then_some((most / interval_ms) as usize)
    }

    /// An exact bucket, full at the start: admitted(T) <= burst + rate * T for every T.
    fn over_the_bucket(&self, rate: u64, period_ms: u64) -> Option<usize> {
        let full = self.settings.max * period_ms;
        let (mut level, mut last_ms, mut worst) = (0_u64, 0, 0);
        for &at_ms in &self.admitted {
            level = level.saturating_sub((at_ms - last_ms) * rate) + period_ms;
            (last_ms, worst) = (at_ms, worst.max(level));
        }
        (worst > full).then_some(worst.div_ceil(period_ms) as usize)
    }
}

const ALL: Faults = Faults { fail_over: true, lose_nodes: false };
const NODES: Faults = Faults { fail_over: false, lose_nodes: true };

/// Finds the first seed that admits too much.
fn first_over(kinds: &[Kind], faults: Faults, without: Option<Rule>) -> Option<String> {
    let settings = kinds
        .iter()
        .flat_map(|&kind| [1, 3, 20].map(|max| Settings { kind, max, hosts: HOSTS as u64 }));
    settings.into_iter().find_map(|settings| {
        (0..SEEDS).find_map(|seed| {
            let over = Play::new(seed, settings, without).over(faults)?;
            Some(format!("{settings:?} seed {seed}: {over}"))
        })
    })
}

#[track_caller]
fn assert_never_over(kinds: &[Kind]) {
    for faults in [ALL, NODES] {
        assert_eq!(first_over(kinds, faults, None), None);
    }
}

#[track_caller]
fn assert_needed(kinds: &[Kind], faults: Faults, rule: Rule) {
    let found = first_over(kinds, faults, Some(rule));
    assert!(found.is_some(), "no seed shows that {rule:?} is needed");
}

const INTERVAL: [Kind; 1] = [Kind::Interval { interval_ms: 300 }];
/// An interval shorter than a lease, and a longer one.
const SLIDING: [Kind; 2] =
    [Kind::Sliding { interval_ms: 300 }, Kind::Sliding { interval_ms: 1500 }];
const TOKEN: [Kind; 2] =
    [Kind::Token { rate: 20, period_ms: 1000 }, Kind::Token { rate: 1, period_ms: 1000 }];
const COUNTER: [Kind; 1] = [Kind::SlidingCounter { interval_ms: 300 }];

// Shows: ledger-grants.
#[test]
fn no_window_gets_more_than_max() {
    assert_never_over(&INTERVAL);
    assert_never_over(&[Kind::Total]);
}

// Shows: ledger-grants.
#[test]
fn no_interval_gets_more_than_max() {
    assert_never_over(&SLIDING);
}

// Shows: ledger-grants.
#[test]
fn no_time_gets_more_than_burst_and_rate() {
    assert_never_over(&TOKEN);
}

// Shows: ledger-grants.
#[test]
fn no_weighed_windows_get_more_than_max() {
    assert_never_over(&COUNTER);
}

// Shows: ledger-grants.
#[test]
fn each_rule_of_the_ledger_is_needed() {
    assert_needed(&INTERVAL, ALL, Rule::Seq);
    assert_needed(&SLIDING, NODES, Rule::ShareRests);
    assert_needed(&TOKEN, NODES, Rule::TokenCap);
    assert_needed(&COUNTER, ALL, Rule::WindowBefore);
}

fn granted(taken: Taken) -> Granted {
    match taken {
        Taken::Granted(granted) => granted,
        other => panic!("expected a grant, found {other:?}"),
    }
}

const UNKNOWN: Claim = Claim { window: 0, floor: 0, spent: 0, extra: 0, noted: 0 };

/// The renewal of a share arrives after the share was granted to another host.
#[test]
fn a_share_that_was_granted_again_is_not_renewed() {
    for (rule, expected) in [(None, 0), (Some(Rule::ShareCut), 1)] {
        let kind = Kind::Sliding { interval_ms: 300 };
        let settings = Settings { kind, max: 1, hosts: 2 };
        let mut ledger = Ledger::without(0, rule);
        let mut take = |now_ms, host, seq, claim: Claim, need| {
            let take = Take { host, seq, claim, need, request: need };
            granted(ledger.take(now_ms, &settings, &take))
        };
        let share = take(5000, 1, 1, UNKNOWN, 1);
        assert_eq!((share.allowance, share.turn_ms), (1, Some(1000)));
        assert_eq!(take(6299, 2, 1, UNKNOWN, 1).allowance, 0, "its last use is in the log");
        assert_eq!(take(6300, 2, 2, UNKNOWN, 1).allowance, 1);
        let late = take(6300, 1, 2, Claim { window: 1, floor: 1, spent: 1, extra: 0, noted: 0 }, 0);
        assert_eq!((late.allowance, late.over), (expected, 1));
        let known = Claim { window: 1, floor: late.allowance, spent: 0, extra: 0, noted: 0 };
        assert_eq!(take(6700, 1, 3, known, 0).over, expected, "all is well again");
    }
}

/// A host returns tokens, and its message arrives after its lease has ended. They count as spent,
/// and flow back once.
#[test]
fn what_is_given_back_too_late_is_not_granted_twice() {
    for (rule, expected) in [(None, 0), (Some(Rule::TokenVoid), 2)] {
        let kind = Kind::Token { rate: 1, period_ms: 1000 };
        let settings = Settings { kind, max: 2, hosts: 2 };
        let mut ledger = Ledger::without(0, rule);
        let mut take = |now_ms, host, seq, claim: Claim, need| {
            let take = Take { host, seq, claim, need, request: need };
            granted(ledger.take(now_ms, &settings, &take))
        };
        let lease = take(5000, 1, 1, UNKNOWN, 2);
        assert_eq!((lease.allowance, lease.turn_ms), (2, Some(2000)));
        assert_eq!(take(8000, 2, 1, UNKNOWN, 1).allowance, 1, "one has flowed back");
        let used = Claim { window: lease.window, floor: 1, spent: 1, extra: 0, noted: 0 };
        take(8000, 2, 2, used, 0);
        take(8000, 1, 2, Claim { floor: 0, spent: 0, ..used }, 0);
        assert_eq!(take(8000, 3, 1, UNKNOWN, 2).allowance, expected);
    }
}

/// A message of a host that needs `need` uses and knows nothing of the ledger.
fn asks(host: u64, need: u64) -> Take {
    Take { host, seq: 1, claim: UNKNOWN, need, request: need }
}

/// The uses that another host would get at this time if it needed `need`.
fn granted_at(ledger: &Ledger, now_ms: u64, settings: &Settings, need: u64) -> u64 {
    granted(ledger.clone().take(now_ms, settings, &asks(2, need))).allowance
}

// Shows: cluster-faults.
#[test]
fn what_a_lost_host_held_of_a_sliding_counter_is_free_when_the_next_window_ends() {
    let kind = Kind::SlidingCounter { interval_ms: 1000 };
    let settings = Settings { kind, max: 10, hosts: 2 };
    let mut ledger = Ledger::new(0);
    assert_eq!(granted(ledger.take(5300, &settings, &asks(1, 10))).allowance, 10);
    // The uses still weigh while the next window passes.
    for (now_ms, free) in [(5999, 0), (6000, 0), (6100, 1), (6500, 5), (6999, 9), (7000, 10)] {
        let found = [free, free + 1].map(|need| granted_at(&ledger, now_ms, &settings, need));
        assert_eq!(found, [free, 0], "at {now_ms}");
    }
}

/// The lease lasts as long as the bucket takes to fill, but at least two seconds. Then the tokens
/// are refilled.
// Shows: cluster-faults.
#[test]
fn the_tokens_of_a_lost_host_are_back_after_its_lease_and_a_refill() {
    for (max, back_ms) in [(1, [3000, 0, 0]), (2, [3000, 4000, 0]), (3, [4000, 5000, 6000])] {
        let kind = Kind::Token { rate: 1, period_ms: 1000 };
        let settings = Settings { kind, max, hosts: 2 };
        let mut ledger = Ledger::new(0);
        assert_eq!(granted(ledger.take(5000, &settings, &asks(1, max))).allowance, max);
        for (tokens, back_ms) in (1..=max).zip(back_ms) {
            let at = |ms: u64| granted_at(&ledger, 5000 + ms, &settings, tokens);
            assert_eq!([at(back_ms - 1), at(back_ms)], [0, tokens], "{tokens} of {max}");
        }
    }
}

/// All uses of a window are used. Then a master with another clock takes over: its next window
/// begins before the old one is over by at most the difference of the clocks.
// Shows: cluster-faults.
#[test]
fn where_the_clocks_of_masters_differ_windows_overlap_by_the_difference_at_most() {
    const WINDOW: std::ops::Range<u64> = 100_000..110_000;
    const AT: u64 = 105_000;
    let length_ms = WINDOW.end - WINDOW.start;
    let calendar = Kind::Calendar {
        start_ms: WINDOW.start,
        end_ms: WINDOW.end,
        next_end_ms: WINDOW.end + length_ms,
    };
    for kind in [Kind::Interval { interval_ms: length_ms }, calendar] {
        let settings = Settings { kind, max: 7, hosts: 2 };
        for (apart_ms, has_writes) in [0_i64, 1, 900, 4000, -1, -900, -4000]
            .into_iter()
            .flat_map(|apart_ms| [true, false].map(|has_writes| (apart_ms, has_writes)))
        {
            let mut ledger = Ledger::new(LEARN_MS);
            ledger.take(WINDOW.start - LEARN_MS, &settings, &asks(1, 0));
            assert_eq!(granted(ledger.take(WINDOW.start, &settings, &asks(1, 7))).allowance, 7);
            ledger.fail_over();
            if !has_writes {
                ledger.flush();
            }
            let by_new = |ms: u64| ms.checked_add_signed(apart_ms).expect("a time");
            let claim = Claim { window: WINDOW.start, floor: 7, spent: 7, extra: 0, noted: 0 };
            let claims = Take { seq: 2, claim, ..asks(1, 0) };
            ledger.take(by_new(AT), &settings, &claims);
            let is_whole = |ms: &u64| granted_at(&ledger, by_new(*ms), &settings, 7) == 7;
            let next_ms = (AT + LEARN_MS..).find(is_whole).expect("another window");
            let shown = format!("{kind:?}, {apart_ms} ms apart, writes {has_writes}");
            // The old window ends by the first master's clock.
            assert_eq!(WINDOW.end as i64 - next_ms as i64, apart_ms, "{shown}");
        }
    }
}
