//! The names of keys: all machines use the same for shared bizs, each directory its own for the
//! others.

use frs_base::clock;
use frs_conf::ClusterSecret;
use frs_conf::key::KeyField;
use frs_engine::testing::World;
use frs_engine::{Command, ItemError, RecordName, Service};
use frs_store::{Runtime, Sweep};

use crate::testing::{plain, shared};

const MAP: &str = r#"<map>
  <group name="g" files="1" key-nodes="8" chain="4" node-size="512" key-bytes="24"/>
  <group name="h" files="1" key-nodes="8" chain="4" node-size="256" key-bytes="24"/>
  <biz id="1" name="text" key="string" group="g" share="cluster" hosts="2">
    <limit policy="total" max="9"/></biz>
  <biz id="2" name="digest" key="digest" group="g" share="exact"><limit policy="total" max="9"/></biz>
  <biz id="3" name="own" key="digest" group="h"><limit policy="total" max="9"/></biz>
</map>"#;
const PLAIN: &str = "<map><group name='g' files='1' key-nodes='1' chain='1' node-size='64'/></map>";
const LONG: &str = "a key that is longer than the twenty-four bytes of its field";

fn named(service: &Service, biz: usize, text: &str) -> Vec<u64> {
    let mut field = KeyField::default();
    service.table().entry(biz).encode(text.as_bytes(), &mut field).expect("a key");
    field.key().words().to_vec()
}

/// A host whose cluster has another secret.
fn of_secret(bytes: [u8; 32]) -> World {
    let world = shared(MAP);
    world.runtime().keep_words(ClusterSecret::new(bytes).keys().words());
    world
}

#[test]
fn machines_of_one_secret_name_a_key_alike() {
    let worlds = [shared(MAP), shared(MAP), of_secret([8; 32])];
    let [one, other, stranger] = worlds.each_ref().map(World::attach);
    for (biz, text) in [(0, LONG), (1, LONG), (1, "short")] {
        assert_eq!(named(&one, biz, text), named(&other, biz, text), "{biz}");
        assert_ne!(named(&one, biz, text), named(&stranger, biz, text), "{biz}");
    }
    assert_eq!(named(&one, 0, "short"), named(&stranger, 0, "short"), "stored as it is");
    assert_ne!(named(&one, 2, LONG), named(&other, 2, LONG), "this machine's alone");
}

// Shows: cluster-secret.
#[test]
fn no_part_of_the_secret_stands_in_the_files_that_every_process_maps() {
    let bytes: [u8; 32] = std::array::from_fn(|at| 0xa5 ^ (at as u8 * 7));
    let world = of_secret(bytes);
    assert_ne!(named(&world.attach(), 1, LONG), named(&of_secret([8; 32]).attach(), 1, LONG));
    // The header, without the slots and the register of files.
    let mut file = vec![0; 64 << 10];
    let mut from = std::fs::File::open(Runtime::path_in(&world.dir)).expect("readable");
    std::io::Read::read_exact(&mut from, &mut file).expect("so long");
    // The check covers aligned words, because the file holds words.
    let stands = |part: &[u8]| file.chunks_exact(8).any(|word| word == part);
    assert!(!bytes.chunks_exact(8).any(stands));
}

#[test]
fn what_no_machine_shares_is_named_as_before() {
    let world = shared(MAP);
    let before = named(&world.attach(), 2, LONG);
    world.runtime().keep_words(ClusterSecret::new([9; 32]).keys().words());
    assert_eq!(named(&world.attach(), 2, LONG), before);
}

#[test]
fn each_machine_has_its_incarnation_and_its_group_files_are_part_of_it() {
    let (world, other) = (shared(MAP), shared(MAP));
    let own = crate::HostCluster::incarnation_of(&mut world.attach());
    assert_eq!(crate::HostCluster::incarnation_of(&mut world.attach()), own);
    assert!(own != 0 && crate::HostCluster::incarnation_of(&mut other.attach()) != own);
    world.runtime().keep_words(ClusterSecret::new([9; 32]).keys().words());
    assert_ne!(crate::HostCluster::incarnation_of(&mut world.attach()), own, "another cluster");
}

#[test]
fn without_keys_shared_bizs_answer_store_until_there_are_some() {
    let world = shared(MAP);
    let damaged = world.runtime().kept_words().expect("stored");
    let runtime = Runtime::open(&world.dir).expect("opened");
    runtime.damage_kept_words();
    let mut service = world.attach();
    let update = |service: &mut Service, biz: &str| {
        service.one(Command::Update, biz, LONG, 1, clock::now()).map(|verdict| !verdict.limited)
    };
    assert_eq!(update(&mut service, "text"), Err(ItemError::Store));
    assert_eq!(update(&mut service, "own"), Ok(true));
    assert_eq!(crate::HostCluster::incarnation_of(&mut service), 0);
    runtime.keep_words(damaged);
    world.publish_shared(MAP, 2);
    assert_ne!(update(&mut service, "text"), Err(ItemError::Store), "the next generation has them");
    assert_ne!(crate::HostCluster::incarnation_of(&mut service), 0);
}

#[test]
fn a_ring_is_opened_where_there_is_a_cluster_also_later() {
    let world = plain(PLAIN);
    let mut service = world.attach();
    assert!(service.handle().mailbox().is_none(), "nothing to wait for");
    world.runtime().keep_words(ClusterSecret::new([9; 32]).keys().words());
    world.publish_shared(PLAIN, 2);
    service.begin_tick();
    assert!(service.handle().mailbox().is_some());
}

#[test]
fn a_sweep_and_an_edit_judge_leases_by_the_hosts_clock_and_name() {
    let world = shared(MAP);
    let acts: [fn(&mut Service); 2] = [
        |service: &mut Service| {
            let mut sweep = Sweep::default();
            service.sweep(&mut sweep, |_| {}, 1, clock::now());
        },
        |service: &mut Service| {
            let name = RecordName::of_key("text", "short");
            let _ = service.erase(name, clock::now());
        },
    ];
    for act in acts {
        let mut service = world.attach();
        let begun_ms = clock::boot_ms();
        act(&mut service);
        assert!(service.table().boot_clock().boot_ms() >= begun_ms);
    }
}
