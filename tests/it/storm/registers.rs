//! A storm of INCR and MULTI over registers: each acknowledged INCR is there once, and a MULTI as a
//! whole or not at all.

use std::sync::atomic::Ordering;

use super::{Random, Storm, WORKERS};
use crate::common::wait_until;
use crate::registers::setup;
use crate::registers::wire::{Reply, Wire, words};

/// What a client knows of a counter that nobody else counts with.
#[derive(Default)]
struct Known {
    /// Commands that were sent, and those that were answered.
    sent: i64,
    acknowledged: i64,
    /// The last reply.
    last: i64,
}

impl Known {
    /// Notes a reply, or that there was none.
    fn note(&mut self, key: &str, reply: Option<i64>) {
        self.sent += 1;
        let Some(count) = reply else { return };
        self.acknowledged += 1;
        // A command without a reply may run late, even after the next one.
        let may_be = self.last + 1..=self.sent;
        assert!(may_be.contains(&count), "{key}: {count} is none of {may_be:?}");
        self.last = count;
    }

    fn check(&self, key: &str, found: i64) {
        let may_be = self.last.max(self.acknowledged)..=self.sent;
        assert!(may_be.contains(&found), "{key}: {found} is none of {may_be:?}");
    }
}

/// A connection, which is made anew when it breaks.
struct Caller<'s> {
    storm: &'s Storm,
    address: std::net::SocketAddr,
    wire: Option<Wire>,
}

impl Caller<'_> {
    /// The replies to commands that are sent together. `None` if they did not all come.
    fn ask(&mut self, commands: &[String], cut: bool) -> Option<Vec<Reply>> {
        let connect = || {
            let found = Wire::connect(self.address).ok();
            (found.is_some() || self.storm.is_over()).then_some(found)
        };
        let mut wire = self
            .wire
            .take()
            .or_else(|| wait_until("the server listens or the storm ends", connect))?;
        let lines: Vec<_> = commands.iter().map(|command| words(command)).collect();
        let sent = wire.send(lines.iter().map(|words| &words[..]));
        let replies = sent.and_then(|()| {
            let count = if cut { 0 } else { commands.len() };
            (0..count).map(|_| wire.reply()).collect::<Result<Vec<_>, _>>()
        });
        let replies = replies.ok().filter(|_| !cut);
        let count = if replies.is_some() { &self.storm.answered } else { &self.storm.unanswered };
        count.fetch_add(1, Ordering::Relaxed);
        self.wire = replies.is_some().then_some(wire);
        replies
    }
}

/// What a client has counted.
#[derive(Default)]
struct Counted {
    single: Known,
    /// The counter of its MULTI, which has a second one beside it.
    double: Known,
}

/// A command that failed, because the holder of its record is dying, did nothing.
fn is_busy(reply: &Reply) -> bool {
    matches!(reply, Reply::Line(line) if line.starts_with("-ERR busy ("))
}

fn count(storm: &Storm, client: u64, address: std::net::SocketAddr) -> Counted {
    let mut random = Random::of_client(client);
    let mut caller = Caller { storm, address, wire: None };
    let mut counted = Counted::default();
    let (single, left, right) =
        (format!("single{client}"), format!("left{client}"), format!("right{client}"));
    while !storm.is_over() {
        let cut = random.below(8) == 0;
        if random.below(2) == 0 {
            let replies = caller.ask(&[format!("INCR {single}")], cut);
            let reply = replies.as_deref().map(|replies| &replies[0]);
            if reply.is_none_or(|reply| !is_busy(reply)) {
                let number = reply.map(|reply| reply.integer().expect("a count"));
                counted.single.note(&single, number);
            }
            continue;
        }
        let commands = [
            "MULTI".to_owned(),
            format!("INCR {left}"),
            format!("INCR {right}"),
            format!("GET {left}"),
            "EXEC".to_owned(),
        ];
        let replies = caller.ask(&commands, cut);
        let reply = replies.as_deref().map(|replies| &replies[4]);
        if reply.is_none_or(|reply| !is_busy(reply)) {
            let number = reply.map(|reply| {
                let [first, second, third] = reply.parts() else { panic!("{reply:?}") };
                assert_eq!(first, second, "both count the same");
                assert_eq!(Some(third.text()), first.integer().map(|count| count.to_string()));
                first.integer().expect("a count")
            });
            counted.double.note(&left, number);
        }
    }
    counted
}

// Shows: registers-over-deaths, deaths-lose-nothing.
#[test]
fn no_acknowledged_incr_is_lost_or_doubled_in_a_storm() {
    let (setup, resp) = setup(WORKERS, 10_000);
    let address = resp.address;
    let counted = Storm::rage(&setup, |storm, client| count(storm, client, address));
    let _server = setup.start();
    let wire = &mut wait_until("the server listens", || Wire::connect(address).ok());
    let mut value = |key: String| -> i64 {
        let reply = wire.ask(&format!("GET {key}"));
        if let Reply::Line(none) = &reply {
            assert_eq!(none, "$-1");
            return 0;
        }
        reply.text().parse().expect("a number")
    };
    let mut acknowledged = 0;
    for (client, Counted { single, double }) in counted.iter().enumerate() {
        let [one, left, right] =
            ["single", "left", "right"].map(|key| value(format!("{key}{client}")));
        single.check("single", one);
        double.check("left", left);
        assert_eq!(left, right, "a MULTI is whole");
        acknowledged += single.acknowledged + double.acknowledged;
    }
    println!("{acknowledged} acknowledged commands");
    assert!(acknowledged > 100, "{acknowledged}");
}
