//! Members of `distinct` limits that all machines hash alike.

use frs_engine::inspect::{Migration, Step};
use frs_engine::testing::members::{NOW, asked, note};
use frs_engine::testing::{World, move_all};
use frs_engine::{MovePass, MoveStep, Service};
use frs_store::Closed;

use crate::PLUG;
use crate::testing::shared;

#[test]
fn a_set_whose_members_were_hashed_under_another_key_begins_anew() {
    let map = |settings: &str| {
        format!(
            r#"<map><group name="g" files="1" key-nodes="8" chain="8" node-size="512" {settings}/>
            <biz id="1" name="devices" key="string">
              <limit policy="distinct" precision="exact" max="2"/></biz>
            <biz id="2" name="users" key="string"><limit policy="distinct" precision="8"/></biz>
            <biz id="3" name="plain" key="string"><limit policy="total" max="9"/></biz></map>"#
        )
    };
    let world = shared(&map(""));
    let mut service = world.attach();
    let publish = |service: &mut Service, settings: &str, generation| {
        world.publish_shared(&map(settings), generation);
        service.begin_tick();
    };
    let fill = |service: &mut Service| {
        for member in ["a", "b"] {
            assert!(!note(service, "devices", "k", member).limited, "{member}");
            note(service, "users", "k", member);
        }
        assert!(note(service, "devices", "k", "c").limited);
        service.update("plain", "k", NOW).figures.used
    };
    assert_eq!(fill(&mut service), 1);
    // The group's own key, and then that of all machines.
    publish(&mut service, r#"backup="10s""#, 2);
    assert_eq!(asked(&mut service, "devices", "k", "").figures.used, 0);
    assert_eq!(asked(&mut service, "users", "k", "").figures.used, 0);
    assert_eq!(fill(&mut service), 2, "only members are hashed");
    // The same key goes on, also for records that are spilled.
    publish(&mut service, r#"backup="10s" spill="true""#, 3);
    assert_eq!(asked(&mut service, "devices", "k", "").figures.used, 2);
    assert!(!asked(&mut service, "devices", "k", "a").limited);
    // Another secret.
    world.runtime().keep_words(frs_conf::ClusterSecret::new([9; 32]).keys().words());
    publish(&mut service, r#"backup="10s""#, 4);
    assert_eq!(fill(&mut service), 3);
    // And back.
    publish(&mut service, "", 5);
    assert_eq!(fill(&mut service), 4);
    world.verify();
}

/// A group whose members all machines hash alike. The other limit has nothing to do with them.
fn backed_up(geometry: &str, max: u32) -> String {
    format!(
        r#"<map><group name="g" files="1" {geometry} node-size="512" backup="10s"/>
        <biz id="1" name="devices" key="string">
          <limit policy="distinct" precision="exact" max="{max}"/>
          <limit policy="total" max="100"/></biz></map>"#
    )
}

const FROM: &str = r#"key-nodes="8" chain="8""#;
const TO: &str = r#"key-nodes="4" chain="16""#;

fn fill_devices(world: &World) {
    let mut service = world.attach();
    for member in ["a", "b"] {
        assert!(!note(&mut service, "devices", "k", member).limited);
    }
}

/// Whether these members are admitted by a key of which a and b were noted.
fn expect_devices(world: &World, used: u64, admitted: [bool; 3]) {
    let mut service = world.attach();
    assert_eq!(asked(&mut service, "devices", "k", "").figures.used, used);
    let found = ["a", "b", "c"].map(|member| !asked(&mut service, "devices", "k", member).limited);
    assert_eq!(found, admitted);
}

/// Without the cluster's keys, the key that hashed the members is not known.
#[test]
fn a_mover_that_does_not_know_the_key_of_the_members_waits_until_it_does() {
    let to = backed_up(TO, 2);
    let mut world = shared(&backed_up(FROM, 2));
    fill_devices(&world);
    world.begin_moves(&to, 2);
    let keys = world.runtime().kept_words().expect("stored");
    world.runtime().damage_kept_words();
    let mut without = world.attach();
    let step = without.move_nodes("g", &mut MovePass::default(), 10_000, NOW).unwrap();
    assert_eq!(step, MoveStep::Over { left: 1, awaiting: 0 });
    drop(without);
    world.runtime().keep_words(keys);
    move_all(&mut world.attach(), NOW);
    world.end_moves(&to, 3);
    expect_devices(&world, 2, [true, true, false]);
    world.verify();
}

#[test]
fn a_migration_takes_members_along_that_were_hashed_under_the_clusters_key() {
    // A smaller set keeps those that came last. Without the keys only what does not change is kept.
    for (max, knows_keys, carried, used, admitted) in [
        (2, true, 1, 2, [true, true, false]),
        (1, true, 1, 1, [false, true, false]),
        (2, false, 1, 2, [true, true, false]),
        (1, false, 0, 0, [true, true, true]),
    ] {
        let world = shared(&backed_up(FROM, 2));
        fill_devices(&world);
        assert_eq!(frs_store::close_clean(&world.conf).unwrap(), Closed::Clean);
        let keys = world.runtime().kept_words().expect("stored");
        if !knows_keys {
            world.runtime().damage_kept_words();
        }
        let to = backed_up(TO, max);
        let mut conf = shared(&to).conf.clone();
        conf.srv.data = world.conf.srv.data.clone();
        let mut go_on = |_: Step<'_>| true;
        let migration = Migration::begin(&conf, NOW, PLUG, &mut go_on).unwrap();
        let plans = migration.plan(&mut go_on).unwrap();
        assert_eq!(plans.iter().map(|plan| plan.counts.carried).sum::<u64>(), carried, "{max}");
        assert_eq!(plans.iter().all(|plan| plan.counts.is_lossless()), carried == 1, "{max}");
        migration.run(&plans, &mut go_on).unwrap();
        drop(migration);
        let runtime = frs_store::Runtime::create_or_open(&world.dir).unwrap();
        runtime.keep_words(keys);
        frs_store::prepare(&conf, &frs_store::Moves::default()).unwrap();
        world.publish_shared(&to, 2);
        expect_devices(&world, used, admitted);
    }
}
