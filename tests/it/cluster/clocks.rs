//! The machines' wall clocks are wrong by an hour: no verdict depends on them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::history::{Window, now_ms};
use super::hosts::{Hosts, Load, Routing, Shared, map};
use super::nodes::Nodes;
use super::windows::Windows;
use crate::common::{Client, needs};

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DAY_MS: u64 = 24 * HOUR_MS;
/// The index of the business that is not shared, after the shared ones.
const OWN: usize = 6;

/// The library that shifts a program's clock.
fn faketime() -> Option<PathBuf> {
    let machines = std::fs::read_dir("/usr/lib").ok()?.flatten();
    machines
        .map(|machine| machine.path().join("faketime/libfaketime.so.1"))
        .find(|library| library.exists())
}

/// The ms by which a host's clock is ahead, within a day. Its business `b{biz}` counts by calendar
/// days.
fn ahead_ms(host: SocketAddr, biz: usize) -> u64 {
    let answer = Client::connect(host).get(&format!("/update?biz=b{biz}&key=own"));
    let reset_ms: u64 = answer.attribute("reset").expect("a turn").parse().expect("a number");
    (2 * DAY_MS - now_ms() % DAY_MS - reset_ms) % DAY_MS
}

// Shows: exactly-m-on-machines.
#[test]
fn hosts_with_clocks_an_hour_wrong_admit_exactly_the_maximum() {
    let Some(faketime) = faketime() else {
        return needs::skip("libfaketime is not installed");
    };
    let faketime = faketime.to_str().expect("text");
    let Some(nodes) = Nodes::start() else { return };
    let biz = "share=\"cluster\" hosts=\"3\" wait=\"200ms\" on-down=\"refuse\"";
    let shared = [
        Shared::new(biz, "policy=\"interval\" interval=\"3s\" max=\"20\""),
        Shared::new(biz, "policy=\"calendar\" unit=\"minute\" max=\"50\""),
        Shared::new(biz, "policy=\"sliding\" interval=\"3s\" max=\"20\""),
        Shared::new(biz, "policy=\"sliding-counter\" interval=\"3s\" max=\"20\""),
        Shared::new(biz, "policy=\"token\" rate=\"5/s\" burst=\"20\""),
        Shared::new(biz, "policy=\"total\" max=\"50\""),
        // Not shared: each host counts alone.
        Shared::new("", "policy=\"calendar\" unit=\"day\" max=\"50\""),
    ];
    let hosts = Hosts::new(3, &nodes.seeds(), "", &map(&shared));
    let shifts = [("-1h", DAY_MS - HOUR_MS), ("+0", 0), ("+1h", HOUR_MS)];
    let servers: Vec<_> = hosts
        .setups
        .iter()
        .zip(shifts)
        .map(|(setup, (shift, _))| {
            setup.start_with(&[
                ("LD_PRELOAD", faketime),
                ("FAKETIME", shift),
                ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
                ("FAKETIME_FORCE_MONOTONIC_FIX", "0"),
            ])
        })
        .collect();
    let addresses = hosts.addresses();
    for (&address, (shift, expected_ms)) in addresses.iter().zip(shifts) {
        let ahead_ms = ahead_ms(address, OWN);
        let late_ms = (ahead_ms + DAY_MS + MINUTE_MS - expected_ms) % DAY_MS;
        assert!(late_ms < 2 * MINUTE_MS, "shifted by {shift}, but ahead by {ahead_ms} ms");
    }
    let load = Load::new(&addresses, OWN, Routing::None);
    let windows = Windows::default();
    let begun_ms = now_ms();
    let histories = std::thread::scope(|scope| {
        scope.spawn(|| windows.watch(&nodes.seeds(), OWN));
        // Runs over the turn of a minute, with some seconds before and after it.
        let into_ms = now_ms() % MINUTE_MS;
        let length_ms = (MINUTE_MS - into_ms + 5_000).max(12_000);
        let histories = load.run_for(Duration::from_millis(length_ms));
        windows.stop();
        histories
    });
    let [interval, calendar, sliding, counter, token, total] = &histories[..] else {
        panic!("a history for each")
    };
    let seen = windows.of(0, 3_000);
    assert!(seen.len() >= 3, "{seen:?}");
    for window in seen {
        let uses = interval.within(window);
        assert!(uses.least <= 20, "interval: {uses:?} in {window:?}");
    }
    let turn_ms = now_ms() / MINUTE_MS * MINUTE_MS;
    for start_ms in [turn_ms - MINUTE_MS, turn_ms] {
        let window = Window { start_ms, end_ms: start_ms + MINUTE_MS };
        let uses = calendar.within(window);
        assert!(uses.least <= 50 && uses.most >= 50, "calendar: {uses:?} in {window:?}");
    }
    assert!(sliding.most_in(2_999) <= 20);
    assert_eq!(counter.over_counter(3_000, 20), 0);
    assert_eq!(token.overdrawn(20, 5, 1_000), 0);
    let flowed = (now_ms() - begun_ms).saturating_sub(2_000) as usize * 5 / 1_000;
    assert!(token.admitted.len() >= 20 + flowed, "{} of {flowed}", token.admitted.len());
    assert_eq!(total.admitted.len(), 50);
    for repeated in [interval, sliding, counter] {
        assert!(repeated.admitted.len() >= 40, "{} admitted", repeated.admitted.len());
    }
    assert!(histories.iter().all(|history| history.refused > 0 && history.lost.is_empty()));
    drop(servers);
}
