//! Bans in records that the cluster keeps, between machines whose bans were lifted a different
//! number of times. The test acts as the courier.

use frs_base::clock;
use frs_conf::Overlay;
use frs_engine::testing::{Ask, request};
use frs_engine::{Command, StoredKey};
use frs_limit::{Ban, Verdict};

use crate::nodes::KeptRecord;
use crate::testing::host::{Host, update};

const MAP: &str = r#"<map>
  <group name="kept" files="2" key-nodes="4" chain="8" node-size="512" backup="10s"/>
  <biz id="1" name="login" key="string">
    <limit policy="interval" interval="1h" max="3" ban="1h"/></biz>
  <biz id="2" name="other" key="string">
    <limit policy="interval" interval="1h" max="3" ban="1h"/></biz>
</map>"#;

const MINUTE: u64 = 60_000;

/// A machine with its number of lifts, and the time of the last one.
struct Machine {
    host: Host,
    overlay: Overlay,
    generation: u64,
}

impl Machine {
    fn lifted(count: u16, last_ms: u64) -> Machine {
        let mut machine =
            Machine { host: Host::of(MAP), overlay: Overlay::default(), generation: 1 };
        (0..u64::from(count)).rev().for_each(|later| machine.lift(last_ms - later));
        machine
    }

    fn lift(&mut self, now: u64) {
        self.overlay.lift_bans(1, now).unwrap();
        self.generation += 1;
        self.host.world.publish_overlaid(MAP, self.generation, &self.overlay);
        self.host.courier.begin_tick();
    }

    /// Uses the key up, and once more.
    fn ban(&mut self) {
        let mut update = || self.host.verdict(update(&[Ask("login", "k", 1)]), &[]).banned;
        assert!([0; 4].map(|_| update())[3]);
        assert!(self.query(&[]).banned);
    }

    fn query(&mut self, kept: &[(StoredKey, Vec<u8>)]) -> Verdict {
        self.host.verdict(request(Command::Query, false, &[Ask("login", "k", 1)]), kept)
    }

    /// Whether the ban comes along with the record.
    fn takes_ban(&mut self, kept: &[(StoredKey, Vec<u8>)]) -> bool {
        let verdict = self.query(kept);
        assert_eq!((verdict.limited, verdict.figures.used), (true, 3), "the count does");
        self.host.world.verify();
        verdict.banned
    }
}

// Shows: bans-in-the-cluster.
#[test]
fn a_ban_goes_with_its_record_however_often_bans_were_lifted_there() {
    let before = clock::now() - MINUTE;
    for (here, there) in [(0, 0), (3, 0), (0, 3), (3, 3), (1, 2)] {
        let mut lost = Machine::lifted(here, before);
        lost.ban();
        let kept = lost.host.round();
        drop(lost);
        let mut heir = Machine::lifted(there, before + 7);
        assert!(heir.takes_ban(&kept), "lifted {here} times, and {there} times there");
        // The ban also goes on to a third machine, as a ban of the second.
        let kept = heir.host.round();
        assert!(Machine::lifted(there + 1, before).takes_ban(&kept));
        // A lift there ends it like any other ban.
        heir.lift(clock::now());
        assert!(!heir.query(&[]).banned);
    }
}

// Shows: bans-in-the-cluster.
#[test]
fn a_ban_from_before_the_lift_of_a_machine_does_not_come_to_it() {
    for (here, there) in [(0, 1), (1, 1), (3, 3), (4, 3)] {
        let mut lost = Machine::lifted(here, clock::now() - MINUTE);
        lost.ban();
        let kept = lost.host.round();
        let mut heir = Machine::lifted(there, clock::now());
        assert!(!heir.takes_ban(&kept), "lifted {here} times, and {there} times there");
        // The ban does not come back from there either.
        let kept = heir.host.round();
        assert!(!Machine::lifted(here, clock::now() - MINUTE).takes_ban(&kept));
    }
}

// Shows: bans-in-the-cluster.
#[test]
fn a_lift_is_told_to_the_cluster_and_counts_for_who_comes_later() {
    let mut machine = Machine::lifted(0, 0);
    machine.ban();
    machine.host.verdict(update(&[Ask("login", "free", 1)]), &[]);
    machine.host.verdict(update(&[Ask("other", "k", 4)]), &[]);
    assert_eq!(machine.host.round().len(), 3);
    machine.lift(clock::now());
    let kept = machine.host.round();
    assert_eq!(kept.len(), 1, "no other record is another one");
    assert_eq!(machine.host.round().len(), 0);
    // Another directory knows no lift.
    assert!(!Machine::lifted(0, 0).takes_ban(&kept));
    machine.ban();
    let kept = machine.host.round();
    assert!(Machine::lifted(0, 0).takes_ban(&kept), "a ban after the lift");
}

#[test]
fn a_record_of_an_earlier_build_counts_lifts_as_it_was_written() {
    let mut machine = Machine::lifted(0, 0);
    machine.ban();
    let (key, bytes) = machine.host.round().remove(0);
    let mut record = KeptRecord::decode(&bytes, &key).unwrap();
    let begun_ms = record.ban_begun_ms.take().unwrap();
    assert!(clock::now() - begun_ms < MINUTE, "{begun_ms}");
    let until_ms = begun_ms + 60 * MINUTE;
    let word = record.states.iter_mut().find(|word| **word == until_ms).expect("without lifts");
    *word = Ban { until_ms, limit: 0, lifts: 2 }.word();
    let kept = [(key, record.encode(&key))];
    for (count, is_banned) in [(0, false), (1, false), (2, true)] {
        assert_eq!(Machine::lifted(count, 1).takes_ban(&kept), is_banned, "{count}");
    }
}

#[test]
fn where_an_overlay_has_no_time_of_a_lift_a_ban_comes_along() {
    let mut machine = Machine::lifted(0, 0);
    machine.ban();
    let kept = machine.host.round();
    let mut heir = Machine::lifted(0, 0);
    let dir = &heir.host.world.dir;
    std::fs::write(Overlay::path_in(dir), "lifts 1 3\n").unwrap();
    let overlay = Overlay::read(dir).unwrap();
    assert_eq!(overlay.lifts(1).count, 3);
    heir.host.world.publish_overlaid(MAP, 2, &overlay);
    heir.host.courier.begin_tick();
    assert!(heir.takes_ban(&kept));
}
