//! The machines' wall clocks are wrong by an hour: no verdict depends on them.

use std::time::Duration;

use super::history::{Window, now_ms};
use super::hosts::{Hosts, Load, Routing, Shared, map};
use super::nodes::Nodes;
use super::windows::Windows;
use crate::common::needs;

const FAKETIME: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";
const MINUTE_MS: u64 = 60_000;

#[test]
fn hosts_with_clocks_an_hour_wrong_admit_exactly_the_maximum() {
    if !std::path::Path::new(FAKETIME).exists() {
        return needs::skip("libfaketime is not installed");
    }
    let Some(nodes) = Nodes::start() else { return };
    let biz = "share=\"cluster\" hosts=\"3\" wait=\"200ms\"";
    let shared = [
        Shared::new(biz, "policy=\"interval\" interval=\"3s\" max=\"20\""),
        Shared::new(biz, "policy=\"calendar\" unit=\"minute\" max=\"50\""),
        Shared::new(biz, "policy=\"sliding\" interval=\"3s\" max=\"20\""),
    ];
    let hosts = Hosts::new(3, &nodes.seeds(), "", &map(&shared));
    let shifts = ["-1h", "+0", "+1h"];
    let servers: Vec<_> = hosts
        .setups
        .iter()
        .zip(shifts)
        .map(|(setup, shift)| {
            setup.start_with(&[
                ("LD_PRELOAD", FAKETIME),
                ("FAKETIME", shift),
                ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
                ("FAKETIME_FORCE_MONOTONIC_FIX", "0"),
            ])
        })
        .collect();
    let addresses = hosts.addresses();
    let load = Load::new(&addresses, shared.len(), Routing::None);
    let windows = Windows::default();
    let histories = std::thread::scope(|scope| {
        scope.spawn(|| windows.watch(&nodes.seeds(), shared.len()));
        // Over the turn of a minute, with some seconds on both sides.
        let into_ms = now_ms() % MINUTE_MS;
        let length_ms = (MINUTE_MS - into_ms + 5_000).max(12_000);
        let histories = load.run_for(Duration::from_millis(length_ms));
        windows.stop();
        histories
    });
    for window in windows.of(0, 3_000) {
        let uses = histories[0].within(window);
        assert!(uses.least <= 20, "interval: {uses:?} in {window:?}");
    }
    let turn_ms = now_ms() / MINUTE_MS * MINUTE_MS;
    for start_ms in [turn_ms - MINUTE_MS, turn_ms] {
        let window = Window { start_ms, end_ms: start_ms + MINUTE_MS };
        let uses = histories[1].within(window);
        assert!(uses.least <= 50 && uses.most >= 50, "calendar: {uses:?} in {window:?}");
    }
    assert!(histories[2].most_in(2_999) <= 20);
    for (biz, history) in histories.iter().enumerate() {
        assert!(history.admitted.len() >= 20 && history.refused > 0, "b{biz}");
    }
    drop(servers);
}
