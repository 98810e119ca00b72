//! All hosts together admit exactly M uses in each window of the ledger, for every policy, whether
//! or not keys are routed to their hosts.

use std::sync::Mutex;
use std::time::Duration;

use super::history::{History, Window, now_ms};
use super::hosts::{Hosts, Load, Routing, Shared, map};
use super::nodes::Nodes;
use super::windows::Windows;

/// One load at a time: a limit is filled only if clients ask for more than it allows.
static ALONE: Mutex<()> = Mutex::new(());
const INTERVAL_MS: u64 = 3_000;
const MINUTE_MS: u64 = 60_000;
const POLICIES: [Policy; 6] = [
    Policy::Interval,
    Policy::Calendar,
    Policy::Total,
    Policy::Sliding,
    Policy::SlidingCounter,
    Policy::Token,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Policy {
    Interval,
    Calendar,
    Total,
    Sliding,
    SlidingCounter,
    Token,
}

/// A limit under load, whose windows turn.
#[derive(Debug, Clone, Copy)]
struct Case {
    policy: Policy,
    share: &'static str,
    max: u64,
}

/// Tokens that flow back in a second.
fn rate(max: u64) -> u64 {
    max.div_ceil(4)
}

/// All cases of one `share`.
fn table(share: &'static str) -> Vec<Case> {
    let of = |policy, max| Case { policy, share, max };
    POLICIES.into_iter().flat_map(|policy| [1, 5, 100].map(|max| of(policy, max))).collect()
}

impl Case {
    fn shared(self) -> Shared {
        let Case { policy, share, max } = self;
        let limit = match policy {
            Policy::Interval => format!("policy=\"interval\" interval=\"3s\" max=\"{max}\""),
            Policy::Calendar => format!("policy=\"calendar\" unit=\"minute\" max=\"{max}\""),
            Policy::Total => format!("policy=\"total\" max=\"{max}\""),
            Policy::Sliding => format!("policy=\"sliding\" interval=\"3s\" max=\"{max}\""),
            Policy::SlidingCounter => {
                format!("policy=\"sliding-counter\" interval=\"3s\" max=\"{max}\"")
            }
            Policy::Token => {
                format!("policy=\"token\" rate=\"{}/s\" burst=\"{max}\"", rate(max))
            }
        };
        let own = format!("share=\"{share}\" hosts=\"3\" wait=\"100ms\" on-down=\"refuse\"");
        Shared::new(&own, &limit)
    }

    /// A larger maximum is picked more often.
    fn weight(self) -> usize {
        match self.max {
            1 => 1,
            5 => 2,
            _ => 6,
        }
    }

    fn told(self, history: &History) -> String {
        let (admitted, lost) = (history.admitted.len(), history.lost.len());
        let (refused, busy) = (history.refused, history.busy);
        format!("{self:?}: {admitted} admitted, {refused} refused, {busy} busy, {lost} lost")
    }

    #[track_caller]
    fn check(self, history: &History, seen: &[Window], load: Window) {
        let told = self.told(history);
        assert!(history.lost.is_empty(), "{told}");
        match self.policy {
            Policy::Interval => self.check_windows(&told, history, seen, load),
            Policy::Calendar => {
                let first_ms = load.start_ms - load.start_ms % MINUTE_MS;
                let starts = (first_ms..load.end_ms).step_by(MINUTE_MS as usize);
                let of = |start_ms| Window { start_ms, end_ms: start_ms + MINUTE_MS };
                let minutes: Vec<Window> = starts.map(of).collect();
                self.check_windows(&told, history, &minutes, load);
            }
            Policy::Total => assert_eq!(history.admitted.len() as u64, self.max, "{told}"),
            Policy::Sliding => {
                // Hosts count in whole milliseconds.
                let most = history.most_in(INTERVAL_MS - 1) as u64;
                assert!(most <= self.max, "{told}: {most} in an interval");
                // Each interval admits the maximum again, though not at once.
                let times = (load.end_ms - load.start_ms) / (2 * INTERVAL_MS);
                assert!(history.admitted.len() as u64 >= times * self.max, "{told}");
            }
            Policy::SlidingCounter => {
                assert_eq!(history.over_counter(INTERVAL_MS, self.max), 0, "{told}");
                // Uses that one window does not admit are admitted in the next.
                let first_ms = load.start_ms.next_multiple_of(INTERVAL_MS);
                let starts = first_ms..load.end_ms - 2 * INTERVAL_MS;
                for start_ms in starts.step_by(INTERVAL_MS as usize) {
                    let pair = Window { start_ms, end_ms: start_ms + 2 * INTERVAL_MS };
                    let uses = history.within(pair);
                    assert!(uses.most as u64 >= self.max, "{told}: {uses:?} in {pair:?}");
                }
            }
            Policy::Token => check_bucket(&told, history, self.max, rate(self.max), load),
        }
    }

    /// Each window admits its maximum, and no more.
    #[track_caller]
    fn check_windows(self, told: &str, history: &History, windows: &[Window], load: Window) {
        let mut filled = 0;
        for window in windows {
            let uses = history.within(*window);
            assert!(uses.least as u64 <= self.max, "{told}: {uses:?} in {window:?}");
            let both = Window {
                start_ms: window.start_ms.max(load.start_ms),
                end_ms: window.end_ms.min(load.end_ms),
            };
            let asked = history.asked_in(both) as u64;
            // The clients asked for more than the maximum, and long enough.
            if both.end_ms >= both.start_ms + INTERVAL_MS && asked >= self.max + self.max / 2 + 5 {
                let is_filled = uses.most as u64 >= self.max;
                assert!(is_filled, "{told}: {uses:?} of {asked} asked in {window:?}");
                filled += 1;
            }
        }
        assert!(filled > 0, "{told}: no window was filled of {windows:?}");
    }
}

/// Never more than the burst and the tokens that flow back, and not much less in all.
#[track_caller]
fn check_bucket(told: &str, history: &History, burst: u64, rate: u64, load: Window) {
    assert_eq!(history.overdrawn(burst, rate, 1_000), 0, "{told}");
    let flowed = flowed(rate, load);
    // A bucket of one is full, and receives no more, between a token and the next request.
    let least = burst + if burst == 1 { flowed / 2 } else { flowed * 9 / 10 };
    let admitted = history.admitted.len() as u64;
    assert!(admitted >= least, "{told} of {burst} and {flowed}");
}

/// Tokens that have certainly flowed back.
fn flowed(rate: u64, load: Window) -> u64 {
    (load.end_ms - load.start_ms).saturating_sub(2_000) * rate / 1_000
}

#[track_caller]
fn holds(routing: Routing) {
    let _alone = ALONE.lock();
    for share in ["cluster", "exact"] {
        holds_with(share, routing);
    }
}

#[track_caller]
fn holds_with(share: &'static str, routing: Routing) {
    let Some(nodes) = Nodes::start() else { return };
    let cases = table(share);
    let shared: Vec<Shared> = cases.iter().map(|case| case.shared()).collect();
    let hosts = Hosts::new(3, &nodes.seeds(), "", &map(&shared));
    let servers = hosts.start();
    let addresses = hosts.addresses();
    let mut load = Load::new(&addresses, cases.len(), routing);
    let weighed = (0..).zip(&cases).flat_map(|(biz, case)| vec![biz; case.weight()]);
    load.picks = weighed.collect();
    // Most clients wait for a lease at any moment. On a slow machine whose leases are at other
    // hosts, requests of one use each would not ask for enough.
    load.clients = 24;
    load.batch = if routing == Routing::None { 3 } else { 1 };
    let windows = Windows::default();
    let begun = now_ms();
    let histories = std::thread::scope(|scope| {
        scope.spawn(|| windows.watch(&nodes.seeds(), cases.len()));
        let histories = load.run_for(Duration::from_secs(12));
        windows.stop();
        histories
    });
    let whole = Window { start_ms: begun, end_ms: now_ms() };
    for (case, history) in cases.iter().zip(&histories) {
        println!("{}", case.told(history));
    }
    for (biz, case) in cases.iter().enumerate() {
        case.check(&histories[biz], &windows.of(biz, INTERVAL_MS), whole);
    }
    drop(servers);
}

// Shows: exactly-m-on-machines.
#[test]
fn exactly_the_maximum_of_every_policy_wherever_keys_are_asked() {
    holds(Routing::None);
}

// Shows: exactly-m-on-machines.
#[test]
fn exactly_the_maximum_of_every_policy_where_keys_are_routed() {
    holds(Routing::ByKey);
}

/// Windows that do not turn during the test, and a bucket.
#[track_caller]
fn ten_thousand(routing: Routing) {
    const MAX: u64 = 10_000;
    const RATE: u64 = 100;
    let _alone = ALONE.lock();
    let Some(nodes) = Nodes::start() else { return };
    let hour = (now_ms() / (60 * MINUTE_MS) + 12) % 24;
    let limits = [
        format!("policy=\"interval\" interval=\"1h\" max=\"{MAX}\""),
        format!("policy=\"calendar\" unit=\"day\" at=\"{hour:02}:00\" max=\"{MAX}\""),
        format!("policy=\"total\" max=\"{MAX}\""),
        format!("policy=\"token\" rate=\"{RATE}/s\" burst=\"{MAX}\""),
    ];
    let own = "share=\"cluster\" hosts=\"3\" wait=\"200ms\" on-down=\"refuse\"";
    let shared = limits.map(|limit| Shared::new(own, &limit));
    let hosts = Hosts::new(3, &nodes.seeds(), "", &map(&shared));
    let servers = hosts.start();
    let addresses = hosts.addresses();
    let mut load = Load::new(&addresses, shared.len(), routing);
    (load.endless_from, load.batch) = (3, 7);
    let begun = now_ms();
    let histories = load.run(Load::spend);
    let whole = Window { start_ms: begun, end_ms: now_ms() };
    for (Shared { limit, .. }, history) in shared.iter().zip(&histories) {
        println!("{limit}: {} admitted, {} refused", history.admitted.len(), history.refused);
        assert!(history.lost.is_empty() && history.refused > 0, "{limit}");
    }
    for history in &histories[..3] {
        assert_eq!(history.admitted.len() as u64, MAX);
    }
    let (bucket, told) = (&histories[3], &shared[3].limit);
    assert_eq!(bucket.overdrawn(MAX, RATE, 1_000), 0, "{told}");
    // The returned tokens depend on the load of this machine. None flow back while hosts hold all
    // that is left, until they report what they have spent. Tokens that are unspent when a lease
    // ends count as spent. A host keeps a quarter of a recalled lease.
    let [admitted, refused] = [bucket.admitted.len() as u64, bucket.refused];
    let asked = admitted + refused;
    let least = asked.min(MAX + flowed(RATE, whole)) * 3 / 4;
    assert!(admitted >= least, "{told}: {admitted} admitted, {refused} refused");
    drop(servers);
}

// Shows: exactly-m-on-machines.
#[test]
fn ten_thousand_of_ten_thousand_wherever_keys_are_asked() {
    ten_thousand(Routing::None);
}

#[test]
fn ten_thousand_of_ten_thousand_where_keys_are_routed() {
    ten_thousand(Routing::ByKey);
}
