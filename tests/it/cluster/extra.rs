//! Uses without a lease: the ledger hears of them at once, though nobody asks it for anything.

use std::time::{Duration, Instant};

use redis::cmd;

use super::hosts::{Hosts, Shared, map};
use super::nodes::{MASTERS, NAME, Nodes};
use crate::common::wait_until;

/// A round over all nodes finds such uses too, after a quarter of a minute at most.
const AT_ONCE: Duration = Duration::from_secs(4);

#[test]
fn forced_uses_without_a_lease_are_told_at_once() {
    let Some(nodes) = Nodes::start() else { return };
    let limit = "policy=\"interval\" interval=\"1h\" max=\"5\"";
    let shared = Shared::new("share=\"cluster\" hosts=\"2\"", limit);
    let hosts = Hosts::new(1, &nodes.seeds(), "", &map(&[shared]));
    let server = hosts.setups[0].start();
    let mut client = server.client();
    wait_until("the cluster is reached", || {
        let answer = client.get("/update?biz=b0&key=first");
        answer.body.contains("limited=\"false\"").then_some(())
    });
    let ledgers = || -> Vec<u64> {
        let of_master = |i: usize| {
            let all: Vec<String> = nodes.ask(i, cmd("KEYS").arg(format!("frs:{{{NAME}:2001:*")));
            all.into_iter().map(move |ledger| (i, ledger))
        };
        let all = (0..MASTERS).flat_map(of_master);
        all.map(|(i, ledger)| nodes.ask(i, cmd("HGET").arg(ledger).arg("u"))).collect()
    };
    for nth in 0..8 {
        let begun = Instant::now();
        client.get(&format!("/update?biz=b0&key=forced{nth}&count=7&force=true"));
        let told = || ledgers().iter().filter(|&&granted| granted == 7).count();
        wait_until("its ledger knows", || (told() == nth + 1).then_some(()));
        assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    }
}
