//! What the design promises of a mirror, one event at a time.

use frs_engine::ItemError;

use super::field::{CALM, Field};
use super::machine::{Outcome, Stored};
use super::network::Weather;

const MAP: &str = r#"<map>
  <group name="g" files="1" key-nodes="16" chain="16" node-size="192" mirror="50ms"/>
  <group name="plain" files="1" key-nodes="4" chain="8" node-size="128"/>
  <biz id="1" name="total" group="g" key="string"><limit policy="total" max="10"/></biz>
  <biz id="2" name="second" group="g" key="string">
    <limit policy="interval" interval="1s" max="10"/></biz>
  <biz id="3" name="hour" group="g" key="string">
    <limit policy="interval" interval="1h" max="10"/></biz>
  <biz id="4" name="banned" group="g" key="string">
    <limit policy="interval" interval="1h" max="3" ban="1h"/></biz>
  <biz id="5" name="log" group="g" key="string">
    <limit policy="sliding" interval="1h" max="10"/></biz>
  <biz id="6" name="bucket" group="g" key="string">
    <limit policy="token" rate="1/m" burst="10"/></biz>
  <biz id="7" name="plain" group="plain" key="string"><limit policy="total" max="10"/></biz>
</map>"#;

/// The policies with 10 uses for a long time.
const LASTING: [&str; 4] = ["total", "hour", "log", "bucket"];

fn field(machines: usize) -> Field {
    let mut field = Field::new(MAP, machines, CALM, 1);
    field.settle();
    field
}

impl Field {
    fn update(&mut self, machine: usize, biz: &'static str, key: &str, count: i32) -> Outcome {
        let now = self.now;
        self.machines[machine].update(biz, key, count, &now)
    }

    fn stored(&mut self, machine: usize, biz: &str, key: &str) -> Option<Stored> {
        let now = self.now;
        self.machines[machine].stored(biz, key, &now)
    }

    fn used(&mut self, machine: usize, biz: &str, key: &str) -> u64 {
        self.stored(machine, biz, key).filter(|one| one.counts).map_or(0, |one| one.used)
    }

    /// How many single uses a machine admits, which may ask its peers first.
    fn admits(&mut self, machine: usize, biz: &'static str, key: &str) -> usize {
        let mut admitted = 0;
        for _ in 0..20 {
            let mut outcome = self.update(machine, biz, key, 1);
            for _ in 0..1000 {
                let Some(mut waiting) = self.machines[machine].next_answered() else {
                    if outcome != Outcome::Waits {
                        break;
                    }
                    self.step(1);
                    continue;
                };
                let now = self.now;
                outcome = self.machines[machine].run_exchange(&mut waiting.exchange, &now);
            }
            assert_ne!(outcome, Outcome::Waits, "it goes on in time");
            admitted += usize::from(outcome == Outcome::Admitted);
        }
        admitted
    }

    /// Goes on for so long, in small steps.
    fn go_on(&mut self, ms: u64) {
        (0..ms.div_ceil(5)).for_each(|_| _ = self.step(5));
    }

    /// Asserts that all machines have the same record.
    #[track_caller]
    fn assert_equal(&mut self, biz: &str, key: &str) {
        let all: Vec<_> = (0..self.len()).map(|machine| self.stored(machine, biz, key)).collect();
        let of = |one: &Option<Stored>| {
            one.filter(|one| one.counts).map(|one| (one.version, one.used, one.is_banned))
        };
        assert!(all.iter().all(|one| of(one) == of(&all[0])), "{biz} {key}: {all:?}");
    }
}

#[test]
fn a_lost_machine_costs_what_was_not_sent() {
    for biz in LASTING {
        let mut field = field(2);
        assert_eq!(field.update(0, biz, "k", 4), Outcome::Admitted);
        field.go_on(100);
        assert_eq!(field.update(0, biz, "k", 3), Outcome::Admitted);
        field.step(1);
        // Within the delay nothing of the last uses is sent.
        assert_eq!(field.used(1, biz, "k"), 4, "{biz}");
        field.lose(0);
        assert_eq!(field.admits(1, biz, "k"), 6, "{biz}");
        field.come(0);
        field.settle();
        field.assert_equal(biz, "k");
        assert_eq!(field.admits(0, biz, "k"), 0, "{biz}");
    }
}

#[test]
fn what_was_changed_is_sent_within_the_delay() {
    let mut field = field(3);
    for biz in LASTING {
        field.update(0, biz, "k", 4);
        field.go_on(65);
        for peer in [1, 2] {
            assert_eq!(field.used(peer, biz, "k"), 4, "{biz}");
        }
    }
    assert_eq!(field.machines[1].mirror.counts.installed, 4);
}

#[test]
fn a_machine_that_learns_asks_before_the_first_use_of_a_key() {
    for biz in LASTING {
        let mut field = field(2);
        assert_eq!(field.update(0, biz, "k", 9), Outcome::Admitted);
        field.go_on(100);
        field.lose(1);
        field.come(1);
        field.step(1);
        assert!(field.machines[1].mirror.is_learning());
        assert_eq!(field.update(1, biz, "k", 1), Outcome::Waits, "{biz}");
        field.machines[1].waiting.clear();
        assert_eq!(field.admits(1, biz, "k"), 1, "{biz}");
        assert!(field.machines[1].asked > 0);
        // Its own record needs no question.
        let asked = field.machines[1].asked;
        field.update(1, biz, "k", 1);
        assert_eq!(field.machines[1].asked, asked);
    }
}

#[test]
fn a_machine_without_peers_goes_on_with_what_is_here() {
    let mut field = field(2);
    field.update(0, "total", "k", 4);
    field.go_on(100);
    field.network.is_down[1] = true;
    field.restart(0, None);
    field.go_on(100);
    assert!(field.machines[0].mirror.is_learning());
    assert_eq!(field.admits(0, "total", "k"), 6);
    // It learns no longer than this.
    field.go_on(11_000);
    assert!(!field.machines[0].mirror.is_learning());
}

#[test]
fn both_machines_used_at_once_are_over_by_what_the_other_admitted_since_they_agreed() {
    for biz in LASTING {
        let mut field = field(2);
        field.update(0, biz, "k", 4);
        field.settle();
        let until_ms = field.now.ms + 1000;
        let (mut random, now) = (field.random.clone(), field.now);
        field.network.part(0, 1, until_ms, &mut random, &now);
        field.go_on(100);
        let admitted = [0, 1].map(|machine| field.admits(machine, biz, "k"));
        assert_eq!(admitted, [6, 6], "{biz}: each counts for itself");
        field.go_on(1000);
        field.settle();
        field.assert_equal(biz, "k");
        for machine in [0, 1] {
            assert_eq!(field.admits(machine, biz, "k"), 0, "{biz}");
        }
    }
}

#[test]
fn a_peer_that_was_away_for_a_day_gets_all() {
    let mut field = field(2);
    field.update(0, "total", "before", 4);
    field.settle();
    field.network.is_down[1] = true;
    let (mut random, now) = (field.random.clone(), field.now);
    field.network.begin_anew(1, &mut random, &now);
    for key in 0..10 {
        field.update(0, "total", &format!("k{key}"), 5);
    }
    field.update(0, "total", "before", 1);
    field.now.ms += 86_400_000;
    field.step(5);
    field.come(1);
    field.settle();
    assert_eq!(field.used(1, "total", "before"), 5);
    for key in 0..10 {
        field.assert_equal("total", &format!("k{key}"));
    }
}

#[test]
fn an_overrun_of_the_ring_loses_nothing() {
    let mut field = field(2);
    field.update(0, "total", "k", 4);
    let now = field.now;
    // More changes than the ring of a process has places.
    let same = (0..20_000).map(|_| "busy".to_owned());
    field.machines[0].update_many("second", same, &now);
    field.machines[0].service.begin_tick();
    for key in 0..20_000 {
        let biz = ["hour", "log"][key % 2];
        let key = format!("k{}", key % 9);
        field.machines[0].update_many(biz, [key].into_iter(), &now);
    }
    field.settle();
    field.assert_equal("total", "k");
    assert_eq!(field.used(1, "total", "k"), 4);
    for key in 0..9 {
        let key = format!("k{key}");
        field.assert_equal("hour", &key);
        field.assert_equal("log", &key);
    }
}

#[test]
fn an_expired_record_that_is_made_anew_replaces_the_expired_copy() {
    // Forever as many changes as before it was over.
    for is_erased in [false, true] {
        let mut field = field(2);
        (0..3).for_each(|_| _ = field.update(0, "second", "k", 1));
        field.settle();
        assert_eq!(field.used(1, "second", "k"), 3);
        field.go_on(3_000);
        assert_eq!(field.stored(1, "second", "k").map(|one| one.counts), Some(false));
        if is_erased {
            // Others need its place: an expired record is the first to leave.
            evict(&mut field, 0, "second", "k");
        }
        (0..3).for_each(|_| _ = field.update(0, "second", "k", 2));
        assert_eq!(field.used(0, "second", "k"), 6);
        field.go_on(100);
        assert_eq!(field.used(1, "second", "k"), 6, "{is_erased}");
        field.assert_equal("second", "k");
    }
}

/// Uses other keys until this one has lost its place.
fn evict(field: &mut Field, machine: usize, biz: &str, key: &str) {
    let now = field.now;
    for other in 0..10_000 {
        field.machines[machine].update_many("hour", [format!("x{other}")].into_iter(), &now);
        if field.stored(machine, biz, key).is_none() {
            return;
        }
    }
    panic!("{key} stays");
}

#[test]
fn an_evicted_record_that_is_made_anew_is_not_taken_for_the_evicted_one() {
    // The peer has room for all.
    let large = MAP.replace(r#"key-nodes="16" chain="16" node-size="192""#, LARGE);
    let mut field = Field::of(&[MAP, &large], CALM, 1);
    field.settle();
    (0..3).for_each(|_| _ = field.update(0, "hour", "k", 1));
    field.settle();
    evict(&mut field, 0, "hour", "k");
    field.now.ms += 1;
    (0..3).for_each(|_| _ = field.update(0, "hour", "k", 3));
    assert_eq!(field.used(0, "hour", "k"), 9);
    field.go_on(100);
    // The copy comes back, or the new record replaces it.
    field.settle();
    field.assert_equal("hour", "k");
}

const LARGE: &str = r#"key-nodes="256" chain="32" node-size="256""#;

#[test]
fn an_erased_record_and_a_count_set_by_hand_are_erased_and_set_on_all() {
    for biz in LASTING {
        let mut field = field(3);
        field.update(0, biz, "k", 10);
        field.settle();
        let now = field.now;
        // At another machine than the one that is used.
        field.machines[1].erase(biz, "k", &now);
        field.settle();
        for machine in 0..3 {
            assert_eq!(field.used(machine, biz, "k"), 0, "{biz} {machine}");
        }
        assert_eq!(field.admits(2, biz, "k"), 10, "{biz}");
        field.settle();
        field.assert_equal(biz, "k");
    }
}

#[test]
fn an_erased_record_does_not_come_back_from_a_peer_that_was_away() {
    let mut field = field(2);
    field.update(0, "total", "k", 10);
    field.settle();
    field.network.is_down[1] = true;
    let (mut random, now) = (field.random.clone(), field.now);
    field.network.begin_anew(1, &mut random, &now);
    field.machines[0].erase("total", "k", &now);
    field.go_on(1000);
    field.come(1);
    field.settle();
    assert_eq!([0, 1].map(|machine| field.used(machine, "total", "k")), [0, 0]);
}

#[test]
fn a_ban_holds_on_all_machines_and_is_lifted_on_all() {
    let mut field = field(2);
    assert_eq!(field.update(0, "banned", "k", 3), Outcome::Admitted);
    assert_eq!(field.update(0, "banned", "k", 1), Outcome::Refused);
    field.settle();
    let banned = |field: &mut Field, machine| {
        field.stored(machine, "banned", "k").is_some_and(|one| one.is_banned)
    };
    assert!(banned(&mut field, 0) && banned(&mut field, 1));
    // The second machine takes it over, and the first one lifts it.
    field.machines[0].overlay.lift_bans(4, super::machine::START_MS).expect("lifted");
    let map = MAP.to_owned();
    field.machines[0].publish(&map);
    field.settle();
    assert_eq!([0, 1].map(|machine| banned(&mut field, machine)), [false, false]);
    field.assert_equal("banned", "k");
}

#[test]
fn a_reset_reaches_all_and_one_in_a_partition_holds_where_it_is_heard() {
    for biz in [1, 3] {
        let name = ["total", "", "hour"][biz as usize - 1];
        let mut field = field(3);
        field.update(0, name, "k", 10);
        field.settle();
        let (mut random, now) = (field.random.clone(), field.now);
        field.network.part(0, 1, now.ms + 500, &mut random, &now);
        field.network.part(2, 1, now.ms + 500, &mut random, &now);
        field.machines[1].reset(biz);
        field.go_on(200);
        assert_eq!([0, 1, 2].map(|machine| field.used(machine, name, "k")), [10, 0, 10]);
        assert_eq!(field.admits(1, name, "k"), 10, "{name}");
        field.go_on(500);
        field.settle();
        field.assert_equal(name, "k");
        assert_eq!(field.used(0, name, "k"), 10);
        assert_eq!(field.machines[0].courier.epoch(biz), Some(1));
    }
}

#[test]
fn a_record_of_after_a_reset_replaces_one_of_before_it_with_the_same_version() {
    let mut field = field(3);
    // The third machine has the first change of the second one since it took over.
    field.update(0, "total", "k", 1);
    field.settle();
    let (mut random, now) = (field.random.clone(), field.now);
    field.network.part(0, 1, now.ms + 2000, &mut random, &now);
    field.update(1, "total", "k", 1);
    field.go_on(200);
    let version = field.stored(2, "total", "k").expect("a copy").version;
    // A reset by the first machine, of which the second one hears first.
    field.network.part(0, 2, now.ms + 500, &mut random, &now);
    field.machines[0].reset(1);
    (0..2).for_each(|_| _ = field.step(5));
    field.update(0, "total", "k", 7);
    field.go_on(600);
    field.settle();
    let all = [0, 1, 2].map(|machine| field.stored(machine, "total", "k"));
    assert!(version.is_some() && all.iter().all(Option::is_some));
    field.assert_equal("total", "k");
}

#[test]
fn a_planned_handover_is_over_by_nothing() {
    for biz in LASTING {
        let weather = Weather { delay_ms: 10, notice_ms: 0 };
        let mut field = Field::new(MAP, 2, weather, 3);
        field.settle();
        field.update(0, biz, "k", 3);
        field.machines[0].mirror.leave();
        while !field.machines[0].mirror.is_end_known() {
            field.update(0, biz, "k", 1);
            field.step(5);
        }
        // The router has begun to send the key to the other machine: it waits there.
        assert_eq!(field.update(1, biz, "k", 1), Outcome::Waits, "{biz}");
        field.update(0, biz, "k", 1);
        field.step(1);
        // The last process of the machine has ended.
        let used = field.used(0, biz, "k");
        for turn in 0.. {
            assert!(turn < 100, "it never ends");
            field.machines[0].mirror.hurry();
            field.step(1);
            field.machines[0].mirror.hurry();
            if field.machines[0].mirror.is_settled() {
                break;
            }
        }
        assert!(field.machines[1].next_answered().is_none(), "it waits for the farewell");
        let farewell = field.machines[0].mirror.farewell();
        let (mut random, now) = (field.random.clone(), field.now);
        field.network.send(0, farewell, &mut random, &now);
        let mut waiting = loop {
            field.step(1);
            if let Some(waiting) = field.machines[1].next_answered() {
                break waiting;
            }
        };
        let now = field.now;
        let outcome = field.machines[1].run_exchange(&mut waiting.exchange, &now);
        assert_eq!((outcome, field.used(1, biz, "k")), (Outcome::Admitted, used + 1), "{biz}");
        let (mut random, now) = (field.random.clone(), field.now);
        field.network.begin_anew(0, &mut random, &now);
        field.network.is_down[0] = true;
        assert_eq!(field.admits(1, biz, "k") as u64, 10 - used - 1, "{biz}");
    }
}

#[test]
fn a_handover_with_an_overrun_hands_all_over() {
    let mut field = field(2);
    field.machines[0].mirror.leave();
    while !field.machines[0].mirror.is_end_known() {
        field.step(1);
    }
    let now = field.now;
    field.update(0, "total", "k", 7);
    let same = (0..20_000).map(|_| "busy".to_owned());
    field.machines[0].update_many("second", same, &now);
    for turn in 0.. {
        assert!(turn < 1000, "it never ends");
        field.machines[0].mirror.hurry();
        field.step(1);
        if field.machines[0].mirror.is_settled() {
            break;
        }
    }
    assert_eq!(field.used(1, "total", "k"), 7);
}

#[test]
fn a_machine_that_leaves_and_is_killed_holds_nobody_up() {
    let mut field = field(2);
    field.update(0, "total", "k", 3);
    field.settle();
    field.machines[0].mirror.leave();
    field.go_on(20);
    assert_eq!(field.update(1, "total", "k", 1), Outcome::Waits);
    field.lose(0);
    field.go_on(20);
    let mut waiting = field.machines[1].next_answered().expect("it goes on");
    let now = field.now;
    assert_eq!(field.machines[1].run_exchange(&mut waiting.exchange, &now), Outcome::Admitted);
    assert_eq!(field.used(1, "total", "k"), 4);
    // A machine that is parked for too long is busy.
    assert_ne!(field.update(1, "total", "k", 1), Outcome::Failed(ItemError::Busy));
}

#[test]
fn a_change_while_mirror_was_off_reaches_the_peers_when_it_is_on_again() {
    let off = MAP.replace(r#" mirror="50ms""#, "");
    let mut field = field(2);
    field.update(0, "total", "k", 2);
    field.settle();
    (0..2).for_each(|machine| field.machines[machine].publish(&off));
    field.go_on(100);
    field.update(0, "total", "k", 5);
    field.update(0, "total", "new", 5);
    field.go_on(100);
    assert_eq!(field.used(1, "total", "k"), 2);
    (0..2).for_each(|machine| field.machines[machine].publish(MAP));
    field.settle();
    field.assert_equal("total", "new");
    field.assert_equal("total", "k");
    assert_eq!(field.used(1, "total", "k"), 7);
}

#[test]
fn records_that_both_machines_used_while_mirror_was_off_are_equal_when_it_is_on_again() {
    let off = MAP.replace(r#" mirror="50ms""#, "");
    let mut field = field(2);
    field.update(0, "total", "k", 2);
    field.settle();
    (0..2).for_each(|machine| field.machines[machine].publish(&off));
    field.go_on(100);
    field.update(0, "total", "k", 5);
    field.update(1, "total", "k", 3);
    (0..2).for_each(|machine| field.machines[machine].publish(MAP));
    field.settle();
    field.assert_equal("total", "k");
}

#[test]
fn a_group_that_is_not_mirrored_is_not_sent() {
    let mut field = field(2);
    field.update(0, "plain", "k", 5);
    field.settle();
    assert_eq!(field.stored(1, "plain", "k"), None);
    assert_eq!(field.stored(0, "plain", "k").expect("stored").version, None);
}

#[test]
fn a_clock_that_is_ahead_or_behind_decides_nothing() {
    for skew_ms in [-5_000, 5_000] {
        for biz in LASTING {
            let mut field = field(2);
            field.machines[0].skew_ms = skew_ms;
            field.update(0, biz, "k", 4);
            field.settle();
            field.update(1, biz, "k", 2);
            field.settle();
            assert_eq!(field.used(0, biz, "k"), 6, "{biz} {skew_ms}");
            field.lose(1);
            assert_eq!(field.admits(0, biz, "k"), 4, "{biz} {skew_ms}");
        }
    }
}
