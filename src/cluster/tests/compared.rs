//! Comparisons of thousands of records: what is sent after a connection, and what is not.

use frs_engine::{ItemMoment, MovePass, MoveStep};

use super::mirrored::field::{CALM, Field};
use super::mirrored::machine::{Machine, START_MS};

/// Records of the larger tests.
const KEYS: usize = 4000;

/// A map whose group has this geometry.
fn map(geometry: &str) -> String {
    format!(
        r#"<map><group name="g" {geometry} mirror="50ms"/>
        <biz id="1" name="total" group="g" key="string"><limit policy="total" max="10"/></biz>
        <biz id="2" name="hour" group="g" key="string">
          <limit policy="interval" interval="1h" max="10"/></biz>
        <biz id="3" name="banned" group="g" key="string">
          <limit policy="interval" interval="1h" max="1" ban="1h"/></biz></map>"#
    )
}

/// Eight parts.
const LARGE: &str = r#"files="2" key-nodes="512" chain="16" node-size="192" key-bytes="24""#;
/// Others, with another number of parts, too.
const OTHERS: [&str; 3] = [
    r#"files="1" key-nodes="600" chain="56" node-size="128" key-bytes="24""#,
    r#"files="4" key-nodes="1024" chain="9" node-size="256" key-bytes="24""#,
    r#"files="3" key-nodes="200" chain="28" node-size="320" key-bytes="24""#,
];

fn keys() -> impl Iterator<Item = String> + Clone {
    (0..KEYS).map(|key| format!("key{key}"))
}

/// Machines that have settled, of which the first one has used all keys.
fn used(maps: &[&str]) -> Field {
    let mut field = Field::of(maps, CALM, 1);
    field.settle();
    use_all(&mut field, 0, keys());
    field.settle();
    field
}

fn use_all(field: &mut Field, machine: usize, keys: impl Iterator<Item = String>) {
    let now = field.now;
    field.machines[machine].update_many("total", keys, &now);
}

/// Cuts all connections, and lets the machines connect again.
fn reconnect(field: &mut Field) {
    cut(field);
    field.settle();
}

fn cut(field: &mut Field) {
    let Field { network, random, now, .. } = field;
    network.cut(|_, _| true, random, now);
    field.step(1);
}

/// Lets the machines be without each other.
fn apart(field: &mut Field, ms: u64) {
    let until_ms = field.now.ms + ms;
    for one in 0..field.len() {
        for other in one + 1..field.len() {
            let Field { network, random, now, .. } = field;
            network.part(one, other, until_ms, random, now);
        }
    }
    field.step(5);
}

/// How many records each machine has sent so far.
fn sent(field: &Field) -> Vec<u64> {
    let sent = |machine: &Machine| {
        let sent = machine.mirror.counts.sent;
        sent.kept + sent.again + sent.newer
    };
    field.machines.iter().map(sent).collect()
}

/// Asserts that all machines have the same records of a biz, and so many.
#[track_caller]
fn assert_equal(field: &mut Field, biz: &str, count: usize) {
    let now = field.now;
    let first = field.machines[0].all(biz, keys(), &now);
    assert_eq!(first.len(), count);
    assert!(first.values().all(|(version, _)| version.is_some()));
    for machine in 1..field.len() {
        let other = field.machines[machine].all(biz, keys(), &now);
        let differ = first.iter().find(|(key, value)| other.get(*key) != Some(value));
        assert_eq!((differ, other.len()), (None, count), "{machine}");
    }
    field.machines.iter().for_each(|machine| machine.world.verify());
}

#[test]
fn between_equal_machines_nothing_is_sent() {
    let map = map(LARGE);
    let mut field = used(&[&map, &map, &map]);
    assert_equal(&mut field, "total", KEYS);
    let before = sent(&field);
    assert_eq!(before, [2 * KEYS as u64, 0, 0]);
    for _ in 0..2 {
        reconnect(&mut field);
        assert_eq!(sent(&field), before);
    }
    // The courier of one dies: the next one knows nothing, and sends nothing either.
    field.replace_courier(0);
    field.settle();
    assert_eq!(sent(&field), [0, 0, 0], "new counts: {before:?}");
}

#[test]
fn of_one_that_differs_only_its_part_is_sent() {
    let map = map(LARGE);
    let mut field = used(&[&map, &map]);
    let before = sent(&field);
    apart(&mut field, 100);
    use_all(&mut field, 1, std::iter::once("key7".to_owned()));
    field.settle();
    assert_equal(&mut field, "total", KEYS);
    let part = KEYS as u64 / 8;
    for (before, after) in before.into_iter().zip(sent(&field)) {
        let sent = after - before;
        assert!((part / 2..2 * part).contains(&sent), "{sent}: of 8 parts one differs");
    }
    assert_eq!(field.machines[0].mirror.counts.installed, 1, "the others are the same");
}

#[test]
fn machines_of_different_geometries_find_the_same_differences() {
    let large = map(LARGE);
    for other in OTHERS {
        let mut field = used(&[&large, &map(other)]);
        assert_equal(&mut field, "total", KEYS);
        let before = sent(&field);
        reconnect(&mut field);
        assert_eq!(sent(&field), before, "{other}");
        apart(&mut field, 100);
        for (machine, from) in [(0, 0), (1, 1), (1, 0)] {
            use_all(&mut field, machine, keys().skip(from).step_by(500));
        }
        field.settle();
        assert_equal(&mut field, "total", KEYS);
    }
}

#[test]
fn an_empty_machine_gets_all_in_a_few_turns() {
    let map = map(LARGE);
    let mut field = used(&[&map, &map]);
    field.lose(1);
    field.step(5);
    field.come(1);
    let begun_ms = field.now.ms;
    field.settle();
    assert_equal(&mut field, "total", KEYS);
    assert!(field.now.ms - begun_ms < 3_000, "{} ms", field.now.ms - begun_ms);
    assert!(!field.machines[1].mirror.is_learning(), "it knows that it has all");
    assert_eq!(field.machines[1].mirror.counts.installed, KEYS as u64);
    // Those on the empty machine were no answer to what the other one has.
    assert_eq!(field.machines[0].mirror.counts.installed, 0);
}

#[test]
fn machines_that_each_have_half_get_the_other_half() {
    let map = map(LARGE);
    let mut field = Field::of(&[&map, &map, &map], CALM, 1);
    apart(&mut field, 500);
    for machine in 0..3 {
        use_all(&mut field, machine, keys().skip(machine).step_by(3));
    }
    field.settle();
    assert_equal(&mut field, "total", KEYS);
}

#[test]
fn changes_during_a_comparison_are_not_lost() {
    let map = map(LARGE);
    let mut field = used(&[&map, &map]);
    apart(&mut field, 100);
    use_all(&mut field, 1, keys().step_by(3));
    // In the middle of the walks.
    for turn in 0..60 {
        field.step(3);
        use_all(&mut field, turn % 2, keys().skip(turn * 7).step_by(301));
    }
    field.settle();
    assert_equal(&mut field, "total", KEYS);
}

#[test]
fn a_comparison_that_is_cut_begins_anew() {
    let map = map(LARGE);
    let mut field = used(&[&map, &map]);
    apart(&mut field, 100);
    use_all(&mut field, 1, keys().step_by(3));
    for turn in 0..8 {
        (0..10 + turn).for_each(|_| _ = field.step(5));
        cut(&mut field);
    }
    field.settle();
    assert_equal(&mut field, "total", KEYS);
}

#[test]
fn a_new_configuration_in_the_middle_of_a_comparison_ends_no_comparison() {
    let map = map(LARGE);
    for publisher in [0, 1] {
        let mut field = used(&[&map, &map]);
        apart(&mut field, 20);
        use_all(&mut field, 1, keys().step_by(3));
        for turn in 0..20 {
            (0..1 + turn % 7).for_each(|_| _ = field.step(5));
            field.machines[publisher].publish(&map);
        }
        field.settle();
        assert_equal(&mut field, "total", KEYS);
    }
}

#[test]
fn a_group_that_grows_meanwhile_loses_no_record_and_no_change() {
    let (small, large) = (map(OTHERS[2]), map(LARGE));
    let mut field = used(&[&small, &small]);
    let mut pass = MovePass::default();
    field.machines[0].begin_move(&large);
    field.step(5);
    let now = field.now;
    let wall_ms = now.turn_time(0).wall_ms;
    let mut is_over = false;
    for turn in 0..2000 {
        if turn % 40 == 20 {
            cut(&mut field);
        }
        use_all(&mut field, turn % 2, keys().skip(turn * 3).step_by(1777));
        field.step(5);
        let service = &mut field.machines[0].service;
        service.begin_tick();
        match service.move_nodes("g", &mut pass, 20, wall_ms).expect("it grows") {
            MoveStep::Over { left: 0, awaiting: 0 } => {
                is_over = true;
                break;
            }
            MoveStep::Over { .. } => service.flush(),
            MoveStep::Going | MoveStep::Unsettled => {}
        }
    }
    assert!(is_over, "it ends");
    // What was noted in the former files was sent, although the records have moved.
    field.settle();
    assert_equal(&mut field, "total", KEYS);
    field.machines[0].end_move();
    field.settle();
    assert_equal(&mut field, "total", KEYS);
}

#[test]
fn a_change_that_was_noted_where_its_record_was_is_sent_from_where_it_is() {
    let (small, large) = (map(OTHERS[2]), map(LARGE));
    let mut field = used(&[&small, &small]);
    // Noted in the former files, and moved before it is read.
    use_all(&mut field, 0, keys().take(50));
    field.machines[0].begin_move(&large);
    let wall_ms = field.now.turn_time(0).wall_ms;
    let mut pass = MovePass::default();
    for machine in [0, 1] {
        field.turn(machine);
    }
    loop {
        let service = &mut field.machines[0].service;
        service.begin_tick();
        match service.move_nodes("g", &mut pass, 100_000, wall_ms).expect("it grows") {
            MoveStep::Over { left: 0, awaiting: 0 } => break,
            MoveStep::Over { .. } => service.flush(),
            MoveStep::Going => {}
            MoveStep::Unsettled => field.turn(0),
        }
    }
    field.settle();
    assert_equal(&mut field, "total", KEYS);
}

#[test]
fn records_without_versions_get_one_and_the_larger_one_counts() {
    let on = map(LARGE);
    let off = on.replace(r#" mirror="50ms""#, "");
    let mut field = Field::of(&[&off, &off], CALM, 1);
    field.step(5);
    use_all(&mut field, 0, keys());
    use_all(&mut field, 0, keys().step_by(2));
    use_all(&mut field, 1, keys().step_by(4));
    let now = field.now;
    assert!(field.machines[0].all("total", keys(), &now).values().all(|one| one.0.is_none()));
    (0..2).for_each(|machine| field.machines[machine].publish(&on));
    field.settle();
    assert_equal(&mut field, "total", KEYS);
    // Each admits what the agreed record leaves.
    use_all(&mut field, 1, keys().step_by(8));
    field.settle();
    assert_equal(&mut field, "total", KEYS);
}

#[test]
fn lifted_bans_are_lifted_on_all_and_new_bans_hold() {
    let map = map(LARGE);
    let mut field = used(&[&map, &map]);
    let now = field.now;
    let some = || keys().take(300);
    (0..2).for_each(|_| field.machines[0].update_many("banned", some(), &now));
    field.settle();
    let banned = |field: &mut Field, machine: usize| {
        let now = field.now;
        let machine = &mut field.machines[machine];
        let is_banned = |key: &String| {
            machine.stored("banned", key, &now).is_some_and(|stored| stored.is_banned)
        };
        some().filter(is_banned).count()
    };
    assert_eq!([0, 1].map(|machine| banned(&mut field, machine)), [300, 300]);
    field.machines[1].overlay.lift_bans(3, START_MS).expect("lifted");
    field.machines[1].publish(&map);
    field.settle();
    assert_eq!([0, 1].map(|machine| banned(&mut field, machine)), [0, 0]);
    assert_equal(&mut field, "banned", 300);
    // A refusal begins another ban, which no earlier lift ends. Clocks may differ by a second.
    field.step(3_000);
    let now = field.now;
    field.machines[0].update_many("banned", some(), &now);
    field.settle();
    assert_eq!([0, 1].map(|machine| banned(&mut field, machine)), [300, 300]);
    reconnect(&mut field);
    assert_eq!([0, 1].map(|machine| banned(&mut field, machine)), [300, 300]);
}

#[test]
fn erased_records_do_not_come_back_by_a_comparison() {
    let map = map(LARGE);
    let mut field = used(&[&map, &map]);
    apart(&mut field, 100);
    let now = field.now;
    for key in keys().step_by(40) {
        field.machines[1].erase("total", &key, &now);
    }
    field.settle();
    for machine in 0..2 {
        let all = field.machines[machine].all("total", keys(), &now);
        assert_eq!(all.values().filter(|(_, used)| *used == 0).count(), KEYS / 40);
    }
}

#[test]
fn a_group_with_keys_of_another_length_is_not_mirrored() {
    let (one, other) = (map(LARGE), map(LARGE).replace(r#"key-bytes="24""#, r#"key-bytes="40""#));
    let mut field = used(&[&one, &other]);
    let now = field.now;
    assert_eq!(field.machines[1].all("total", keys(), &now).len(), 0);
    assert!(field.is_settled());
}

#[test]
fn records_that_are_over_are_not_sent() {
    let map = map(LARGE);
    let mut field = Field::of(&[&map, &map], CALM, 1);
    field.settle();
    let now = field.now;
    field.machines[0].update_many("hour", keys(), &now);
    field.settle();
    let before = sent(&field);
    field.lose(1);
    field.now.ms += 2 * 3_600_000;
    field.step(5);
    field.come(1);
    field.settle();
    assert_eq!(sent(&field)[0], before[0]);
    assert_eq!(field.machines[1].mirror.counts.installed, 0);
}

#[test]
fn a_key_node_that_is_held_is_waited_for() {
    let map = map(LARGE);
    let mut field = used(&[&map, &map]);
    apart(&mut field, 100);
    use_all(&mut field, 1, std::iter::once("key7".to_owned()));
    let (key, wall_ms) = (field.machines[1].stored_key("total", "key7"), START_MS);
    // The walk meets the key-node while a transaction holds it.
    let now = field.now;
    let Machine { service, mirror, courier, .. } = &mut field.machines[1];
    let held = service.on_node(&key, ItemMoment::at(wall_ms), |_| {
        for turn in 0..200 {
            let mut later = now;
            later.ms += turn * 5;
            let frames = mirror.turn(courier, |_| true, later.turn_time(0));
            drop(frames);
        }
        Ok(())
    });
    held.expect("held");
    // What that courier has sent is lost with its connections.
    field.now.ms += 1000;
    cut(&mut field);
    field.settle();
    assert_equal(&mut field, "total", KEYS);
}
