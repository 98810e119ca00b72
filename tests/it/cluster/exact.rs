//! Exactly M uses are admitted over all hosts in each window of the ledger, whatever the policy,
//! and whether or not keys are routed to their hosts.

use std::time::Duration;

use super::history::{History, Window, now_ms};
use super::hosts::{Hosts, Load, Routing, Shared, map};
use super::nodes::Nodes;
use super::windows::Windows;

const INTERVAL_MS: u64 = 3_000;

fn interval(max: u64, biz: &str) -> Shared {
    let limit = format!("policy=\"interval\" interval=\"3s\" max=\"{max}\"");
    Shared::new(&format!("{biz} hosts=\"3\" wait=\"200ms\""), &limit)
}

/// What must hold of a business's history.
#[derive(Debug, Clone, Copy)]
enum Promise {
    /// So many in each window of the ledger.
    EachWindow(u64),
    /// So many in all.
    InAll(u64),
    /// At most so many in any interval.
    AnyInterval(u64),
    /// A bucket of so many tokens, of which so many flow back in a second.
    Bucket { burst: u64, rate: u64 },
    /// Two counters with this maximum.
    Counter(u64),
}

impl Promise {
    #[track_caller]
    fn check(self, name: &str, history: &History, windows: &[Window], load: Window) {
        let told = || format!("{name}: {self:?}, {} admitted", history.admitted.len());
        match self {
            Promise::EachWindow(max) => {
                assert!(windows.len() >= 2, "{}: windows {windows:?}", told());
                for window in windows {
                    let uses = history.within(*window);
                    assert!(uses.least as u64 <= max, "{}: {uses:?} in {window:?}", told());
                    // Clients asked until its end.
                    let is_whole = window.start_ms >= load.start_ms && window.end_ms < load.end_ms;
                    let is_filled = uses.most as u64 >= max;
                    assert!(!is_whole || is_filled, "{}: {uses:?} in {window:?}", told());
                }
            }
            Promise::InAll(max) => {
                let admitted = history.admitted.len() as u64;
                let lost = history.lost.len() as u64;
                assert!(admitted <= max && admitted + lost >= max, "{}", told());
            }
            Promise::AnyInterval(max) => {
                // Hosts count in whole milliseconds.
                let most = history.most_in(INTERVAL_MS - 1) as u64;
                assert!(most <= max, "{}: {most} in an interval", told());
                assert!(history.admitted.len() as u64 >= max, "{}", told());
            }
            Promise::Bucket { burst, rate } => {
                assert_eq!(history.overdrawn(burst, rate, 1_000), 0, "{}", told());
                assert!(history.admitted.len() as u64 >= burst, "{}", told());
            }
            Promise::Counter(max) => {
                assert_eq!(history.over_counter(INTERVAL_MS, max), 0, "{}", told());
                assert!(history.admitted.len() as u64 >= max / 2, "{}", told());
            }
        }
    }
}

/// Businesses of every shared policy, and what each promises.
fn all() -> Vec<(Shared, Promise)> {
    let own = |share: &str| format!("share=\"{share}\" hosts=\"3\" wait=\"200ms\"");
    let of = |share: &str, limit: &str, promise| (Shared::new(&own(share), limit), promise);
    let mut all = Vec::new();
    for max in [1, 5, 100] {
        all.push((interval(max, "share=\"cluster\""), Promise::EachWindow(max)));
        let total = format!("policy=\"total\" max=\"{max}\"");
        all.push(of("cluster", &total, Promise::InAll(max)));
        let sliding = format!("policy=\"sliding\" interval=\"3s\" max=\"{max}\"");
        all.push(of("cluster", &sliding, Promise::AnyInterval(max)));
    }
    all.push((interval(5, "share=\"exact\""), Promise::EachWindow(5)));
    all.push(of("exact", "policy=\"total\" max=\"100\"", Promise::InAll(100)));
    let token = "policy=\"token\" rate=\"10/s\" burst=\"20\"";
    all.push(of("cluster", token, Promise::Bucket { burst: 20, rate: 10 }));
    let counter = "policy=\"sliding-counter\" interval=\"3s\" max=\"20\"";
    all.push(of("cluster", counter, Promise::Counter(20)));
    all
}

#[track_caller]
fn holds(routing: Routing) {
    let Some(nodes) = Nodes::start() else { return };
    let (shared, promises): (Vec<Shared>, Vec<Promise>) = all().into_iter().unzip();
    let hosts = Hosts::new(3, &nodes.seeds(), "", &map(&shared));
    let servers = hosts.start();
    let addresses = hosts.addresses();
    let load = Load::new(&addresses, shared.len(), routing);
    let windows = Windows::default();
    let begun = now_ms();
    let histories = std::thread::scope(|scope| {
        scope.spawn(|| windows.watch(&nodes.seeds(), shared.len()));
        let histories = load.run_for(Duration::from_secs(12));
        windows.stop();
        histories
    });
    let whole = Window { start_ms: begun, end_ms: now_ms() };
    for (biz, promise) in promises.into_iter().enumerate() {
        let name = format!("b{biz}, {:?}", shared[biz].limit);
        promise.check(&name, &histories[biz], &windows.of(biz, INTERVAL_MS), whole);
    }
    drop(servers);
}

#[test]
fn exactly_the_maximum_of_every_policy_wherever_keys_are_asked() {
    holds(Routing::None);
}

#[test]
fn exactly_the_maximum_of_every_policy_where_keys_are_routed() {
    holds(Routing::ByKey);
}

#[test]
fn ten_thousand_of_ten_thousand() {
    const MAX: u64 = 10_000;
    let Some(nodes) = Nodes::start() else { return };
    let biz = Shared::new(
        "share=\"cluster\" hosts=\"3\" wait=\"200ms\"",
        &format!("policy=\"interval\" interval=\"1h\" max=\"{MAX}\""),
    );
    let hosts = Hosts::new(3, &nodes.seeds(), "", &map(&[biz]));
    let servers = hosts.start();
    let addresses = hosts.addresses();
    let load = Load::new(&addresses, 1, Routing::None);
    let histories = load.run(Load::spend);
    assert!(histories[0].lost.is_empty());
    assert_eq!(histories[0].admitted.len() as u64, MAX);
    assert!(histories[0].refused > 0);
    drop(servers);
}
