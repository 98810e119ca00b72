//! Any damage to the files is handled or reported. Nothing panics.

use std::fs::File;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use frs_store::group::seal;
use frs_store::layout::node;
use proptest::prelude::*;

use crate::Command;
use crate::inspect::{By, Reader};
use crate::testing::World;

const T: u64 = 1_800_000_000_000;

const MAP: &str = r#"<map>
  <group name="g" files="2" key-nodes="2" chain="4" node-size="192" key-bytes="24"/>
  <biz id="1" name="login" key="string">
    <limit policy="interval" interval="60s" max="5" debt="3" ban="10m"/>
    <limit policy="sliding" interval="1m" max="6"/>
    <limit policy="sliding-counter" interval="1m" max="6"/>
  </biz>
  <biz id="2" name="sale" key="ip">
    <limit policy="total" scope="biz" max="100"/>
    <limit policy="calendar" unit="day" max="3" debt="1"/>
    <limit policy="token" rate="10/s" burst="20"/>
    <limit policy="count"/>
  </biz>
  <biz id="3" name="redis" key="string"><register/></biz>
</map>"#;

const KEY_NODE: u64 = 64 + 4 * 192;
const FILE: u64 = 4096 + 2 * KEY_NODE;

fn world() -> World {
    let world = World::new(MAP);
    let mut service = world.attach();
    for (biz, key) in [("login", "alice"), ("login", "bob"), ("sale", "::1"), ("sale", "10.0.0.1")]
    {
        service.one(Command::Update, biz, key, 1, T).unwrap();
    }
    service.set_register("redis", "text", "of a register", T + 9, T).unwrap();
    world
}

/// Does everything that tools and pages do.
fn look(world: &World, now: u64) {
    let Ok(mut reader) = Reader::open(&world.dir, None) else { return };
    let walked = reader.for_each_node(now, |record| {
        let _ = (reader_words(&record), record.is_limiting(), format!("{record:?}"));
        ControlFlow::Continue(())
    });
    let _ = (walked, reader.group_stats(now));
    for (biz, key) in [("login", "alice"), ("sale", "10.0.0.1"), ("redis", "text")] {
        if let Ok(crate::inspect::Look::At(record)) = reader.node(biz, key, now) {
            let _ = (reader.state_words(&record), reader.ring_times(&record));
        }
        let _ = (reader.top(biz, 3, By::Used, now), reader.whole(biz, now));
    }
    for (_, group) in reader.groups() {
        let _ = group.map(|group| (group.verify(&reader.pass()), reader.is_quarantined(group)));
    }
    if let Ok(runtime) = reader.runtime() {
        let slots = runtime.slots();
        let _: Vec<usize> = slots.iter().map(|slot| runtime.slot(slot.slot).phase()).collect();
    }
    let _ = (reader.faults().count(), reader.refresh().is_ok());
}

fn reader_words(record: &crate::inspect::NodeRecord) -> u64 {
    record.used()
}

/// A file of the directory with its original bytes. Dropping this restores the file.
struct Kept {
    path: PathBuf,
    bytes: Vec<u8>,
    len: u64,
}

impl Kept {
    fn of(world: &World, name: &str) -> Kept {
        let path = world.dir.join(name);
        let file = File::open(&path).unwrap();
        let len = file.metadata().unwrap().len();
        let mut bytes = vec![0; len.min(FILE) as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        Kept { path, bytes, len }
    }

    fn open(&self) -> File {
        File::options().read(true).write(true).open(&self.path).unwrap()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let file = self.open();
        file.set_len(self.len).unwrap();
        file.write_all_at(&self.bytes, 0).unwrap();
    }
}

thread_local! {
    static WORLD: World = world();
}

fn name(which: usize, world: &World) -> String {
    let generation = frs_conf::active::latest(&world.dir).unwrap().unwrap();
    match which {
        0 => "g.0.mmap".to_owned(),
        1 => "g.1.mmap".to_owned(),
        2 => "runtime.mmap".to_owned(),
        _ => format!("conf.active.{generation}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    // Shows: inspection.
    #[test]
    fn any_bytes_anywhere(
        which in 0..4usize,
        changes in proptest::collection::vec((0..FILE, any::<u8>()), 1..20),
        header in any::<bool>(),
        now in prop_oneof![Just(T), any::<u64>()],
    ) {
        WORLD.with(|world| {
            let kept = Kept::of(world, &name(which, world));
            let file = kept.open();
            for (at, byte) in changes {
                let at = if header { at % 168 } else { at };
                if at < kept.len {
                    file.write_all_at(&[byte], at).unwrap();
                }
            }
            if header && which < 2 {
                // Gives the header a valid CRC, as a faulty writer would.
                let mut bytes = [0; 14 * 8];
                file.read_exact_at(&mut bytes, 0).unwrap();
                let crc = u64::from(crc32fast::hash(&bytes)).to_le_bytes();
                file.write_all_at(&crc, 14 * 8).unwrap();
            }
            look(world, now);
        });
    }

    #[test]
    fn any_length(which in 0..4usize, len in 0..2 * FILE) {
        WORLD.with(|world| {
            let kept = Kept::of(world, &name(which, world));
            kept.open().set_len(len).unwrap();
            look(world, T);
        });
    }

    // Shows: inspection.
    #[test]
    fn any_node_with_a_crc_that_holds(
        place in 0..4u64,
        key_node in 0..2u64,
        words in proptest::collection::vec(any::<u64>(), 24),
        kept_words in 0..12usize,
        (biz, key) in prop_oneof![Just(("login", "alice")), Just(("redis", "text"))],
        tag in any::<u8>(),
        now in prop_oneof![Just(T), any::<u64>()],
    ) {
        WORLD.with(|world| {
            let kept = Kept::of(world, "g.0.mmap");
            let (head, mut words) = (4096 + key_node * KEY_NODE, words);
            let sample = Reader::open(&world.dir, None).unwrap().node(biz, key, T).unwrap();
            if let crate::inspect::Look::At(record) = sample {
                words[..kept_words].copy_from_slice(&record.words[..kept_words]);
                words[node::LAST_USE] = now / 2;
            }
            seal(&mut words);
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let file = kept.open();
            file.write_all_at(&bytes, head + 64 + place * 192).unwrap();
            file.write_all_at(&[tag], head + 8 + place).unwrap();
            look(world, now);
        });
    }
}
