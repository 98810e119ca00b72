//! The library agrees with its model: random traces of several hosts, whose messages are lost,
//! duplicated, late and out of order, on a clock that the test sets, with failovers to earlier
//! states.
//!
//! Invariant: after each message the answer, the hash and its expiry are those of the model.

use std::collections::BTreeMap;

use frs_cluster::lease::{Claim, Granted, Kind, Settings, Take, Taken};
use frs_cluster::ledger::{Answer, LIBRARY, Reply};
use redis::cmd;

use super::ledger::{Ledger, Row, Rule, State};
use super::server::{SLOT, Server};
use crate::common::needs;

const STEPS: usize = 400;
const TRACES: u64 = 12;
const LEARN_MS: u64 = 300;

/// The shipped library, with its clock replaced by one that the test sets.
fn library_with_test_clock() -> String {
    let from = LIBRARY.find("local function now_ms()").expect("the clock");
    let end = from + LIBRARY[from..].find("\nend\n").expect("its end") + "\nend\n".len();
    let clock = "local test_now\nlocal function now_ms() return test_now end\n\
                 redis.register_function{function_name = 'test_clock', flags = {'allow-oom'}, \
                 callback = function(_, args) test_now = tonumber(args[1]) return 1 end}\n";
    format!("{}{clock}{}", &LIBRARY[..from], &LIBRARY[end..])
}

/// Xorshift by Marsaglia (2003): a seed replays a trace.
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

    fn of<T: Copy>(&mut self, some: &[T]) -> T {
        some[self.below(some.len() as u64) as usize]
    }
}

/// A host's knowledge of a window and of the window before.
#[derive(Clone, Copy, Default)]
struct Host {
    window: u64,
    allowance: u64,
    spent: u64,
    before: u64,
}

/// An earlier state of the server.
struct Snapshot {
    model: Ledger,
    dump: Option<Vec<u8>>,
    expires_ms: u64,
}

struct Trace<'a> {
    server: &'a mut Server,
    key: String,
    model: Ledger,
    random: Random,
    now_ms: u64,
    kind: Kind,
    max: u64,
    seq: u64,
    hosts: [Host; 3],
    on_way: Vec<(usize, Settings, Take)>,
    snapshots: Vec<Snapshot>,
    log: Vec<String>,
}

impl Trace<'_> {
    fn settings(&mut self) -> Settings {
        let other = self.random.of(&[self.max / 2 + 1, self.max * 2]);
        let max = if self.random.one_in(12) { other } else { self.max };
        Settings { kind: self.kind_now(), max, hosts: 3 }
    }

    /// The kind with its present windows. A calendar's windows follow the host's clock, which may
    /// be wrong.
    fn kind_now(&mut self) -> Kind {
        let Kind::Calendar { end_ms: length, .. } = self.kind else { return self.kind };
        let skew = if self.random.one_in(20) { 2 * length } else { self.random.below(length / 8) };
        let at = if self.random.one_in(2) { self.now_ms + skew } else { self.now_ms - skew };
        // In another time zone the windows overlap two of these.
        let zone = if self.random.one_in(8) { length / 2 } else { 0 };
        let start_ms = at - (at + zone) % length;
        Kind::Calendar { start_ms, end_ms: start_ms + length, next_end_ms: start_ms + 2 * length }
    }

    fn send(&mut self) {
        let nth = self.random.below(3) as usize;
        let host = self.hosts[nth];
        let floor = match self.random.below(4) {
            0 => host.spent,
            1 => host.spent + self.random.below(host.allowance.saturating_sub(host.spent) + 1),
            _ => host.allowance,
        };
        let window = match self.random.below(16) {
            0 => 0,
            1 => host.before,
            2 => self.now_ms + self.random.below(50),
            _ => host.window,
        };
        let extra = match self.random.below(10) {
            0 => self.random.below(4) as i64,
            1 => -(self.random.below(4) as i64),
            _ => 0,
        };
        // Seqs exceed 2^53 too, where a double would not tell neighbours apart.
        self.seq += self.random.of(&[1, 1, 1, 1 << 40]);
        let settings = self.settings();
        let (floor, spent) = match window {
            // FLOOR is the first seq without an answer.
            0 => {
                let since = self.seq.saturating_sub(self.random.below(6));
                (self.random.of(&[0, self.seq, since]), 0)
            }
            _ => (floor, host.spent),
        };
        let need = self.random.of(&[0, 1, 1, 2, self.max / 3, self.max]);
        let request = self.random.of(&[0, need, need + 2, self.max]);
        let noted = self.random.of(&[0, 0, host.spent, self.max, 2 * self.max]);
        let claim = Claim { window, floor, spent, extra, noted };
        let take = Take { host: INCARNATIONS[nth], seq: self.seq, claim, need, request };
        self.on_way.push((nth, settings, take));
    }

    fn deliver(&mut self) {
        if self.on_way.is_empty() {
            return;
        }
        let at = self.random.below(self.on_way.len() as u64) as usize;
        let (nth, settings, take) = self.on_way[at];
        if !self.random.one_in(5) {
            self.on_way.swap_remove(at);
        }
        let expected = self.model.reply(self.now_ms, &settings, &take);
        let found = self.server.take(&self.key, &settings, &take, LEARN_MS);
        self.log.push(format!("{}: {settings:?} {take:?} -> {found:?}", self.now_ms));
        self.assert(found == expected, &format!("expected {expected:?}"));
        self.assert_state();
        // Some answers are lost.
        if !self.random.one_in(6) {
            self.apply(nth, &found);
        }
    }

    fn apply(&mut self, nth: usize, reply: &Reply) {
        let (Answer::Taken(taken) | Answer::Conflict { taken, .. }) = reply.answer else { return };
        let Taken::Granted(granted) = taken else { return };
        let host = &mut self.hosts[nth];
        if host.window != granted.window || granted.base.is_some() {
            host.before = host.window;
            (host.window, host.spent) = (granted.window, granted.base.unwrap_or(0));
        }
        host.allowance = granted.allowance;
        let left = host.allowance.saturating_sub(host.spent);
        host.spent = host.spent.min(host.allowance) + self.random.below(left + 1);
    }

    /// Compares the hash and its expiry.
    fn assert_state(&mut self) {
        let found = self.server.fields(&self.key);
        let expected =
            self.model.state.as_ref().map_or(Vec::new(), |state| fields(state, self.kind));
        let found: BTreeMap<_, _> = found.into_iter().filter(|(name, _)| name != b"x").collect();
        let expected: BTreeMap<_, _> = expected.into_iter().collect();
        self.assert(found == expected, &format!("hash {found:?}\nexpected {expected:?}"));
        let end = self.model.state.as_ref().map(|state| state.end);
        let expected: i64 = match end {
            None => -2,
            Some(None) => -1,
            Some(Some(end_ms)) => end_ms as i64 + 1000,
        };
        let found: i64 = self.server.ask(cmd("PEXPIRETIME").arg(&self.key));
        self.assert(found == expected, &format!("expires {found}, expected {expected}"));
    }

    fn assert(&self, is_so: bool, what: &str) {
        let from = self.log.len().saturating_sub(6);
        assert!(is_so, "{}: {what}\nafter\n{}", self.key, self.log[from..].join("\n"));
    }

    fn set_clock(&mut self) {
        let _: u64 = self.server.ask(cmd("FCALL").arg("test_clock").arg(0).arg(self.now_ms));
    }

    fn pass_time(&mut self) {
        let length = length_ms(self.kind);
        let step = match self.random.below(12) {
            0..6 => self.random.below(30),
            6..9 => self.random.below(length / 4 + 1),
            9 => length,
            10 => self.random.below(3 * length),
            _ => LEARN_MS,
        };
        let is_back = self.random.one_in(15);
        // Not before the year 2004, however long the window is.
        let back_ms = self.now_ms.saturating_sub(step.min(length)).max(1 << 40);
        self.now_ms = if is_back { back_ms } else { self.now_ms + step };
        self.set_clock();
        self.log.push(format!("{}", self.now_ms));
    }

    fn keep_state(&mut self) {
        let dump: Option<Vec<u8>> = self.server.ask(cmd("DUMP").arg(&self.key));
        let expires: i64 = self.server.ask(cmd("PEXPIRETIME").arg(&self.key));
        let expires_ms = expires.max(0) as u64;
        self.snapshots.push(Snapshot { model: self.model.clone(), dump, expires_ms });
    }

    /// A replica that lags behind becomes the master.
    fn fail_over(&mut self) {
        if self.snapshots.is_empty() {
            return;
        }
        let at = self.random.below(self.snapshots.len() as u64) as usize;
        let Snapshot { model, dump, expires_ms } = self.snapshots.swap_remove(at);
        let _: u64 = self.server.ask(cmd("DEL").arg(&self.key));
        if let Some(dump) = dump {
            let mut restore = cmd("RESTORE");
            restore.arg(&self.key).arg(expires_ms).arg(dump).arg("ABSTTL");
            let _: String = self.server.ask(&restore);
        }
        self.model = model;
        self.model.fail_over();
        let _: u64 = self.server.ask(cmd("DEL").arg(SLOT));
        self.log.push("failover".to_owned());
    }

    /// Expires the key. That may happen as soon as it is due, and changes nothing.
    fn expire(&mut self) {
        let end = self.model.state.as_ref().and_then(|state| state.end);
        if end.is_some_and(|end_ms| self.now_ms >= end_ms + 1000) {
            let _: u64 = self.server.ask(cmd("DEL").arg(&self.key));
            self.model.state = None;
            self.log.push("expired".to_owned());
        }
    }

    fn run(&mut self) {
        self.set_clock();
        for _ in 0..STEPS {
            match self.random.below(40) {
                0..13 => self.send(),
                13..32 => self.deliver(),
                32..37 => self.pass_time(),
                37 => self.keep_state(),
                38 => self.expire(),
                _ if self.random.one_in(3) => self.fail_over(),
                _ => self.hosts[self.random.below(3) as usize] = Host::default(),
            }
        }
    }
}

/// The first two are beyond 2^53, and neighbours.
const INCARNATIONS: [u64; 3] = [u64::MAX - 1, u64::MAX, 7];

fn length_ms(kind: Kind) -> u64 {
    match kind {
        Kind::Interval { interval_ms }
        | Kind::Sliding { interval_ms }
        | Kind::SlidingCounter { interval_ms } => interval_ms,
        Kind::Calendar { end_ms, .. } => end_ms,
        Kind::Total | Kind::Token { .. } => 5000,
    }
}

/// The fields of the hash for a state.
fn fields(state: &State, kind: Kind) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut numbers = vec![
        ("s", state.start as i64),
        ("u", state.granted),
        ("o", state.unspent),
        ("n", state.rows.values().filter(|row| state.is_of_now(row)).count() as i64),
        ("m", state.max as i64),
        ("mt", state.max_ms as i64),
    ];
    numbers.extend(state.end.map(|end| ("e", end as i64)));
    match kind {
        Kind::SlidingCounter { .. } => numbers.push(("p", state.before as i64)),
        Kind::Token { .. } => {
            numbers.push(("t", state.filled_ms as i64));
            numbers.push(("f", state.parts as i64));
        }
        _ => {}
    }
    let numbers = numbers
        .into_iter()
        .map(|(name, number)| (name.as_bytes().to_vec(), number.to_string().into_bytes()));
    let rows = state
        .rows
        .iter()
        .map(|(host, row)| (format!("h{host:016x}").into_bytes(), packed(row, kind)));
    numbers.chain(rows).collect()
}

fn packed(row: &Row, kind: Kind) -> Vec<u8> {
    let base = row.base.map_or(0, |base| base + 1);
    let mut words = vec![row.seq, row.allowance, row.spent, base];
    match kind {
        Kind::Token { .. } => words.extend([row.until, row.ends]),
        Kind::Sliding { .. } => words.extend([row.until, row.ends, row.back]),
        Kind::SlidingCounter { .. } => words.extend([row.window, row.of_before]),
        _ => {}
    }
    words.into_iter().flat_map(u64::to_be_bytes).collect()
}

/// Plays traces of these kinds, each with several maxima.
fn play(kinds: &[Kind]) {
    let library = library_with_test_clock();
    for program in &needs::redis_servers() {
        let mut server = Server::start(program, &[]);
        server.load(&library);
        // The test's clock is a month ahead, so that no key expires while it runs.
        let began_ms = server.now_ms() + 30 * 86_400_000;
        for (seed, &kind) in (0..TRACES).flat_map(|seed| kinds.iter().map(move |kind| (seed, kind)))
        {
            let _: u64 = server.ask(cmd("DEL").arg(SLOT));
            let mut trace = Trace {
                server: &mut server,
                key: format!("{program} {kind:?} seed {seed}"),
                model: Ledger::new(LEARN_MS),
                random: Random(seed * 2 + 0x9e37_79b9_7f4a_7c15),
                now_ms: began_ms,
                kind,
                max: [1, 2, 5, 63, 64, 1000, (1 << 49) - 1][seed as usize % 7],
                seq: if seed % 2 == 0 { 0 } else { 1 << 53 },
                hosts: [Host::default(); 3],
                on_way: Vec::new(),
                snapshots: Vec::new(),
                log: Vec::new(),
            };
            trace.run();
        }
    }
}

// Shows: ledger-grants.
#[test]
fn interval_is_its_model() {
    play(&[1000, 60_000, 1 << 44].map(|interval_ms| Kind::Interval { interval_ms }));
}

#[test]
fn calendar_is_its_model() {
    // `end_ms` is the length of the windows, see `kind_now`.
    play(&[Kind::Calendar { start_ms: 0, end_ms: 60_000, next_end_ms: 0 }]);
}

#[test]
fn total_is_its_model() {
    play(&[Kind::Total]);
}

// Shows: ledger-grants.
#[test]
fn sliding_is_its_model() {
    play(&[Kind::Sliding { interval_ms: 100 }, Kind::Sliding { interval_ms: 90_000 }]);
}

// Shows: ledger-grants.
#[test]
fn token_is_its_model() {
    play(&[
        Kind::Token { rate: 10, period_ms: 1000 },
        Kind::Token { rate: 7, period_ms: 60_000 },
        Kind::Token { rate: 1 << 50, period_ms: 86_400_000 },
        // The fastest rate that a configuration can have.
        Kind::Token { rate: 213_503_982_334, period_ms: 1 },
    ]);
}

#[test]
fn sliding_counter_is_its_model() {
    play(&[
        Kind::SlidingCounter { interval_ms: 1000 },
        Kind::SlidingCounter { interval_ms: 86_400_000 * 365 },
        Kind::SlidingCounter { interval_ms: 1 << 40 },
    ]);
}

/// Sends messages to the library and to its model, at times that the test sets.
fn with_both(rule: Rule, test: impl Fn(&mut dyn FnMut(u64, &Settings, Take) -> [Granted; 2])) {
    let library = library_with_test_clock();
    for program in &needs::redis_servers() {
        let mut server = Server::start(program, &[]);
        server.load(&library);
        let began_ms = server.now_ms() / HOUR_MS * HOUR_MS + 30 * 24 * HOUR_MS;
        let [mut model, mut broken] = [Ledger::new(0), Ledger::without(0, Some(rule))];
        test(&mut |at_ms, settings, take| {
            let now_ms = began_ms + at_ms;
            let window = take.claim.window;
            let window = if window > 0 { began_ms + window - 1 } else { 0 };
            let take = Take { claim: Claim { window, ..take.claim }, ..take };
            let _: u64 = server.ask(cmd("FCALL").arg("test_clock").arg(0).arg(now_ms));
            let found = server.take("k", settings, &take, 0);
            assert_eq!(found, model.reply(now_ms, settings, &take));
            [found, broken.reply(now_ms, settings, &take)].map(|reply| match reply.answer {
                Answer::Taken(Taken::Granted(granted)) => granted,
                other => panic!("expected a grant, found {other:?}"),
            })
        });
    }
}

const HOUR_MS: u64 = 3_600_000;
const UNKNOWN: Claim = Claim { window: 0, floor: 0, spent: 0, extra: 0, noted: 0 };

/// A host whose node is of the window before returns the unused part of its uses beyond its lease.
#[test]
fn what_is_given_back_of_another_window_frees_nothing_in_this_one() {
    with_both(Rule::GiveBackHere, |take| {
        let kind = Kind::SlidingCounter { interval_ms: 1000 };
        let settings = Settings { kind, max: 3, hosts: 3 };
        let ask = |host, seq, claim, need| Take { host, seq, claim, need, request: need };
        // A window's name is its start plus 1.
        let spent = Claim { window: 3001, floor: 3, spent: 3, extra: 0, noted: 0 };
        take(3000, &settings, ask(1, 1, UNKNOWN, 3));
        take(3001, &settings, ask(1, 2, spent, 0));
        let back = Claim { window: 1001, extra: -2, ..UNKNOWN };
        let pools = take(3002, &settings, ask(2, 1, back, 0)).map(|granted| granted.pool);
        assert_eq!(pools, [0, 2]);
        let more = take(3003, &settings, ask(3, 1, UNKNOWN, 1)).map(|granted| granted.allowance);
        assert_eq!(more, [0, 1]);
    });
}

/// The clock goes back by a minute. Without the rule the window of three seconds would last that
/// long.
// Shows: node-clock-set-back.
#[test]
fn a_clock_that_is_set_back_closes_no_window_for_longer_than_it_lasts() {
    let kinds = [Kind::Interval { interval_ms: 3000 }, Kind::SlidingCounter { interval_ms: 3000 }];
    for (kind, again_ms) in kinds.into_iter().zip([43_000, 43_500]) {
        with_both(Rule::SetBack, |take| {
            let settings = Settings { kind, max: 2, hosts: 2 };
            let ask = |host, seq, need| Take { host, seq, claim: UNKNOWN, need, request: need };
            let mut granted =
                |at_ms, ask: Take| take(at_ms, &settings, ask).map(|granted| granted.allowance);
            assert_eq!(granted(99_000, ask(1, 1, 2)), [2; 2], "{kind:?}");
            // The ledger does not forget its grants.
            assert_eq!(granted(40_000, ask(2, 1, 1)), [0; 2], "{kind:?}");
            assert_eq!(granted(again_ms - 1, ask(2, 2, 1)), [0; 2], "{kind:?}");
            assert_eq!(granted(again_ms, ask(2, 3, 1)), [1, 0], "{kind:?}");
        });
    }
}

/// A host still names the window of its last lease.
#[test]
fn a_window_from_before_the_clock_was_set_back_is_not_opened_again() {
    let kinds = [Kind::Interval { interval_ms: 3000 }, Kind::SlidingCounter { interval_ms: 3000 }];
    for kind in kinds {
        with_both(Rule::SetBack, |take| {
            let settings = Settings { kind, max: 10, hosts: 2 };
            let spent = Claim { window: 99_001, floor: 2, spent: 2, extra: 0, noted: 0 };
            let ask = |host, seq, claim, need| Take { host, seq, claim, need, request: need };
            take(99_000, &settings, ask(1, 1, UNKNOWN, 2));
            take(40_000, &settings, ask(2, 1, UNKNOWN, 1));
            // Its uses count once more, for one window, and it keeps no use for longer.
            let [found, _] = take(50_000, &settings, ask(1, 2, spent, 1));
            assert_eq!((found.allowance, found.base), (3, Some(2)), "{kind:?}");
            assert!(found.turn_ms.is_some_and(|turn_ms| turn_ms <= 3000), "{kind:?}: {found:?}");
        });
    }
}

/// Two tokens of a bucket of two are leased until 2000, and may be spent in the last ms. A second
/// later only the tokens that have flowed since are free.
#[test]
fn tokens_flow_back_from_the_end_of_their_lease() {
    with_both(Rule::TokenWaits, |take| {
        let kind = Kind::Token { rate: 1, period_ms: 1000 };
        let settings = Settings { kind, max: 2, hosts: 2 };
        let ask = |host, need| Take { host, seq: 1, claim: UNKNOWN, need, request: need };
        let leases = take(0, &settings, ask(1, 2));
        assert_eq!(leases.map(|lease| (lease.allowance, lease.turn_ms)), [(2, Some(2000)); 2]);
        let later = take(3000, &settings, ask(2, 2)).map(|lease| (lease.allowance, lease.pool));
        assert_eq!(later, [(0, 1), (2, 0)]);
    });
}
