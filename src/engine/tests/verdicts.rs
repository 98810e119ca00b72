//! Single items: counting, refusing, banning, errors, changes of the configuration.

use crate::testing::{Ask, World, request};
use crate::{Command, ItemError, ItemOptions, Request};

const MAP: &str = r#"<map>
  <group name="small" files="2" key-nodes="64" chain="8" node-size="128"/>
  <biz id="1" name="login" key="string"><limit policy="interval" interval="60s" max="5" ban="10m"/></biz>
  <biz id="2" name="plain" key="string"><limit policy="interval" interval="1s" max="3"/></biz>
  <biz id="3" name="sale" key="integer">
    <limit policy="total" scope="biz" max="10"/>
    <limit policy="interval" interval="1h" max="3"/>
  </biz>
</map>"#;

const NOW: u64 = 1_700_000_000_000;

#[test]
fn exactly_max_pass_and_the_next_window_is_fresh() {
    let world = World::new(MAP);
    let mut service = world.attach();
    for used in 1..=3 {
        let verdict = service.update("plain", "a", NOW);
        assert!(!verdict.limited);
        assert_eq!((verdict.figures.used, verdict.figures.remaining), (used, 3 - used));
    }
    let refused = service.update("plain", "a", NOW + 999);
    assert!(refused.limited);
    assert_eq!(refused.retry_ms, Some(1));
    assert!(!service.update("plain", "a", NOW + 1000).limited);
    world.verify();
}

#[test]
fn another_attachment_sees_the_same_counts_and_detaching_keeps_them() {
    let world = World::new(MAP);
    world.attach().update("plain", "a", NOW);
    let (mut one, mut two) = (world.attach(), world.attach());
    assert_eq!(one.update("2", "a", NOW).figures.used, 2);
    assert_eq!(two.used("plain", "a", NOW), 2);
}

#[test]
fn a_query_creates_nothing() {
    let world = World::new(MAP);
    let mut service = world.attach();
    assert_eq!(service.used("plain", "a", NOW), 0);
    service.one(Command::Update, "plain", "a", 0, NOW).unwrap();
    service.one(Command::Update, "plain", "a", -1, NOW).unwrap();
    assert!(service.one(Command::Update, "plain", "a", 4, NOW).unwrap().limited);
    assert_eq!(world.group("small").verify().nodes, 0);
}

#[test]
fn a_refusal_bans_and_the_ban_outlives_the_window() {
    let world = World::new(MAP);
    let mut service = world.attach();
    for _ in 0..5 {
        assert!(!service.update("login", "eve", NOW).limited);
    }
    let banned = service.update("login", "eve", NOW + 1000);
    assert!(banned.limited && banned.banned);
    assert_eq!(banned.retry_ms, Some(600_000));
    assert_eq!(banned.figures.used, 5);
    let later = service.update("login", "eve", NOW + 120_000);
    assert!(later.limited && later.banned);
    assert_eq!(later.retry_ms, Some(481_000));
    assert!(!service.update("login", "eve", NOW + 601_000).limited);
    world.verify();
}

// Shows: refused-changes-nothing.
#[test]
fn a_refused_update_leaves_the_states_and_stamps_the_last_use() {
    let world = World::new(MAP);
    let mut service = world.attach();
    for _ in 0..3 {
        service.update("plain", "a", NOW);
    }
    let before = nodes(&world);
    assert!(service.update("plain", "a", NOW + 500).limited);
    let after = nodes(&world);
    assert_eq!(after.len(), 1);
    assert_eq!(after[0][2], NOW + 500);
    let mut restored = after[0].clone();
    restored[2] = NOW;
    assert_eq!(restored, before[0]);
}

fn nodes(world: &World) -> Vec<Vec<u64>> {
    let group = world.group("small");
    let mut nodes = Vec::new();
    for file in 0..group.geometry().files {
        for key_node in 0..group.geometry().key_nodes {
            for place in 0..group.geometry().chain as usize {
                let mut words = vec![0; group.node_words()];
                group.file(file).read(group.node(key_node, place), &mut words);
                if words[1] != 0 {
                    nodes.push(words);
                }
            }
        }
    }
    nodes
}

#[test]
fn a_biz_scope_limit_counts_all_keys_and_both_limits_are_charged() {
    let world = World::new(MAP);
    let mut service = world.attach();
    for key in ["1", "2", "3"] {
        for _ in 0..3 {
            assert!(!service.update("sale", key, NOW).limited);
        }
        let refused = service.update("sale", key, NOW);
        assert_eq!((refused.limited, refused.limit), (true, 2));
    }
    assert!(!service.update("sale", "4", NOW).limited);
    let sold_out = service.update("sale", "4", NOW);
    assert_eq!((sold_out.limited, sold_out.limit, sold_out.retry_ms), (true, 1, None));
    assert_eq!(sold_out.figures.used, 10);
    // One key returns uses, and another key takes them.
    service.one(Command::Update, "sale", "1", -2, NOW).unwrap();
    assert!(!service.update("sale", "5", NOW).limited);
    world.verify();
}

// Shows: bad-input.
#[test]
fn item_errors_come_in_their_order_and_spoil_no_neighbour() {
    let world = World::new(MAP);
    let mut service = world.attach();
    let mut request = Request::default();
    request.begin(Command::Update);
    request.push("nope", "", ItemOptions::NO_COUNT);
    request.push("sale", "x", ItemOptions::NO_COUNT);
    request.push("sale", "7", ItemOptions::NO_COUNT);
    request.push("plain", "fine", ItemOptions::ONE.detailed());
    let answers = service.answers(&request, NOW);
    let results: Vec<_> = answers.items.iter().map(|answer| answer.result.err()).collect();
    assert_eq!(
        results,
        [Some(ItemError::UnknownBiz), Some(ItemError::BadKey), Some(ItemError::BadCount), None]
    );
    assert_eq!(answers.items[3].details.len(), 1);
    assert_eq!(answers.details.limits[0].figures.used, 1);
}

#[test]
fn force_charges_beyond_the_maximum_and_says_so() {
    let world = World::new(MAP);
    let mut service = world.attach();
    let mut request = Request::default();
    request.begin(Command::Update);
    request.push("plain", "a", ItemOptions::of(7).forced());
    let verdict = service.answers(&request, NOW).items[0].result.unwrap();
    assert!(verdict.limited);
    assert_eq!((verdict.figures.used, verdict.figures.remaining), (7, 0));
    assert_eq!(service.used("plain", "a", NOW), 7);
}

#[test]
fn many_items_answer_as_one_by_one() {
    let world = World::new(MAP);
    let mut service = world.attach();
    let keys: Vec<String> = (0..50).map(|i| format!("k{}", i % 17)).collect();
    let asks: Vec<Ask<'_>> = keys.iter().map(|key| Ask("plain", key, 1)).collect();
    let answers = service.answers(&request(Command::Update, false, &asks), NOW);
    for (index, answer) in answers.items.iter().enumerate() {
        let verdict = answer.result.unwrap();
        assert_eq!(verdict.figures.used, (index as u64 / 17 + 1).min(3), "item {index}");
        assert!(!verdict.limited);
    }
    let empty = service.answers(&request(Command::Update, false, &[]), NOW);
    assert!(empty.items.is_empty());
}

#[test]
fn a_newer_configuration_is_taken_inside_a_transaction_and_counts_go_on() {
    let world = World::new(MAP);
    let mut service = world.attach();
    service.update("plain", "a", NOW);
    world.publish(&MAP.replace("interval=\"1s\" max=\"3\"", "interval=\"1s\" max=\"9\""), 2);
    // No begin_tick in between: the transaction itself must notice.
    let mut answers = Default::default();
    service.run(&request(Command::Update, false, &[Ask("plain", "a", 1)]), NOW, &mut answers);
    let verdict = answers.items[0].result.unwrap();
    assert_eq!((verdict.figures.used, verdict.figures.max), (2, 9));
    assert_eq!(service.generation(), 2);
    // Another shape starts fresh.
    world.publish(&MAP.replace("interval=\"1s\" max=\"3\"", "interval=\"2s\" max=\"9\""), 3);
    assert_eq!(service.update("plain", "a", NOW).figures.used, 1);
}

#[test]
fn a_group_given_up_while_items_are_looked_up_ahead_disturbs_none_of_them() {
    let first = r#"<map>
      <group name="one" files="1" key-nodes="4" chain="8" node-size="128"/>
      <group name="two" files="2" key-nodes="64" chain="8" node-size="128"/>
      <biz id="1" name="a" group="one" key="string"><limit policy="total" max="9"/></biz>
      <biz id="2" name="b" group="two" key="string"><limit policy="total" max="99"/></biz></map>"#;
    let second: String =
        first.lines().filter(|line| !line.contains("\"one\"")).collect::<Vec<_>>().join("\n");
    let world = World::new(first);
    let mut service = world.attach();
    service.update("b", "k0", NOW);
    world.publish(&second, 2);
    let keys: Vec<String> = (0..40).map(|key| format!("k{key}")).collect();
    let asks: Vec<Ask<'_>> = keys.iter().map(|key| Ask("b", key, 1)).collect();
    let mut answers = Default::default();
    service.run(&request(Command::Update, false, &asks), NOW, &mut answers);
    assert_eq!(service.generation(), 2);
    let used: Vec<u64> =
        answers.items.iter().map(|answer| answer.result.unwrap().figures.used).collect();
    assert_eq!((used[0], &used[1..]), (2, &[1; 39][..]));
    world.verify();
}

#[test]
fn a_ban_added_by_a_reload_keeps_the_counts() {
    let world = World::new(MAP);
    let mut service = world.attach();
    for _ in 0..3 {
        service.update("plain", "a", NOW);
    }
    let with_ban = "interval=\"1s\" max=\"3\" ban=\"5s\"";
    world.publish(&MAP.replace("interval=\"1s\" max=\"3\"", with_ban), 2);
    let banned = service.update("plain", "a", NOW);
    assert!(banned.banned);
    assert_eq!(banned.figures.used, 3);
    // The ban is removed again.
    world.publish(MAP, 3);
    let limited = service.update("plain", "a", NOW);
    assert_eq!((limited.limited, limited.banned, limited.figures.used), (true, false, 3));
    world.verify();
}

// Shows: shared-files-repaired.
#[test]
fn no_process_goes_back_to_an_older_generation_or_begins_with_one() {
    let world = World::new(MAP);
    world.publish(&MAP.replace("interval=\"1s\" max=\"3\"", "interval=\"1s\" max=\"9\""), 2);
    let mut service = world.attach();
    let mut used = 0;
    for damaged in [1, 0, 3, 2 | 1 << 63] {
        world.runtime().publish(damaged);
        let refused = service.one(Command::Update, "plain", "a", 1, NOW);
        assert_eq!(refused, Err(ItemError::Store), "{damaged}");
        assert!(service.is_behind(), "{damaged}");
        if damaged != 0 {
            let runtime = world.runtime();
            let master = std::thread::spawn(move || {
                std::thread::sleep(std::time::Duration::from_millis(100));
                runtime.publish(2);
            });
            assert_eq!(world.attach().generation(), 2, "{damaged}: it waits for what is right");
            master.join().unwrap();
        }
        world.runtime().publish(2);
        used += 1;
        let verdict = service.update("plain", "a", NOW);
        assert_eq!((verdict.figures.used, verdict.figures.max), (used, 9), "{damaged}");
        assert!(!service.is_behind());
    }
}

// Shows: faulty-configuration.
#[test]
fn a_broken_configuration_file_fails_items_and_nothing_else() {
    let world = World::new(MAP);
    let mut service = world.attach();
    service.update("plain", "a", NOW);
    world.runtime().publish(2);
    assert_eq!(service.one(Command::Update, "plain", "a", 1, NOW), Err(ItemError::Store));
    world.publish(MAP, 3);
    assert_eq!(service.update("plain", "a", NOW).figures.used, 2);
}
