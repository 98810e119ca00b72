//! Files of a data directory with contents that no writer made: opening, inspecting, serving and
//! starting from them fails with an error or works, in bounded time.
//!
//! An input is a byte that names a file and an action, a byte of flags (valid CRCs, cut, time), a
//! length for the cut, and pieces to write, each an offset, a length and its bytes.

use std::cell::RefCell;
use std::fs::File;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;

use frs_engine::inspect::{By, Look, Reader, repair};
use frs_engine::{Command, Role, Service};
use frs_store::fuzzing as at;
use frs_store::group::seal;
use frs_store::{Runtime, close_clean, prepare};

use super::world::{
    BizKey, CHAIN, FILE_WORDS, FILES, KEY_NODES, KEYS, NODE_WORDS, NOW, PAGE_WORDS, World, ask,
    bytes_of, head, node, slot_byte, write_pieces,
};

const RUNTIME: usize = FILES;
const CONF: usize = FILES + 1;

thread_local! {
    static WORLD: RefCell<World> = RefCell::new(World::new());
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let Some(([chosen, sealed, len @ ..], pieces)) = data.split_first_chunk::<4>() else { return };
    let which = usize::from(chosen % 4);
    WORLD.with_borrow_mut(|world| {
        world.restore();
        write(world, which, pieces);
        let file = &world.files[which].file;
        if sealed & 1 != 0 {
            seal_file(file, which);
        }
        if sealed & 2 != 0 && which < FILES {
            (0..KEY_NODES).for_each(|key_node| seal_nodes(file, key_node));
        }
        if sealed & 4 != 0 {
            file.set_len(u16::from_le_bytes(*len).into()).expect("cut");
        }
        let now = if sealed & 8 != 0 { NOW } else { NOW * 2 };
        // Another configuration may name other directories, which must not be written to.
        match chosen >> 2 & 3 {
            1 if which != CONF => serve(world, now),
            2 if which != CONF => start(world, now),
            3 if which != CONF => {
                let _ = repair(&world.conf).map(|repaired| format!("{repaired:?}"));
                look(world, now);
            }
            _ => look(world, now),
        }
    });
}

/// Writes the pieces over a file. In runtime.mmap, which is large, the offsets of the input cover
/// only the parts that are read, one after the other.
fn write(world: &World, which: usize, pieces: &[u8]) {
    write_pieces(&world.files[which].file, pieces, |at| match which {
        RUNTIME => runtime_byte(at),
        CONF => at % 2048,
        _ => at % (FILE_WORDS as u64 * 8),
    });
}

fn runtime_byte(at: u64) -> u64 {
    let pages = 2 * PAGE_WORDS as u64 * 8;
    match at / pages {
        0 => at,
        1 => slot_byte(0, 0) + at % pages,
        2 => slot_byte(1, 0) + at % pages,
        // Words of states, phases and logs, which random offsets would seldom hit.
        3 => slot_byte(0, 0) + at % 64,
        4 => slot_byte(0, at::INTENT_LIST) + at % 128,
        5 => slot_byte(0, at::UNDO_LOG) + at % 256,
        6 => at % 64,
        _ => PAGE_WORDS as u64 * 8 + at % 256,
    }
}

/// Gives the header a valid CRC, as a faulty writer would.
fn seal_file(file: &File, which: usize) {
    match which {
        RUNTIME => {
            let mut header = [0; 40];
            file.read_exact_at(&mut header, 0).expect("so long it is");
            let crc = u64::from(crc32fast::hash(&header));
            file.write_all_at(&crc.to_le_bytes(), 40).expect("written");
        }
        CONF => {
            let mut bytes = vec![0; file.metadata().expect("open").len() as usize];
            file.read_exact_at(&mut bytes, 0).expect("so long it is");
            let mut crc = crc32fast::Hasher::new();
            crc.update(&bytes[..80]);
            crc.update(&bytes[88..]);
            file.write_all_at(&u64::from(crc.finalize()).to_le_bytes(), 80).expect("written");
        }
        _ => super::world::seal_header(file),
    }
}

fn seal_nodes(file: &File, key_node: usize) {
    let mut bytes = [0; NODE_WORDS * 8];
    for at in (0..CHAIN).map(|place| node(key_node, place) as u64 * 8) {
        file.read_exact_at(&mut bytes, at).expect("so long it is");
        let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
        let mut words: Vec<u64> = words.collect();
        seal(&mut words);
        file.write_all_at(&bytes_of(&words), at).expect("written");
    }
}

/// Does everything that tools and pages do.
fn look(world: &World, now: u64) {
    // Frees the semaphores first: at each taken one a reader waits a tenth of a second, which is no
    // finding and hides others. The tests of inspect/ damage the semaphores.
    for file in &world.files[..FILES] {
        for key_node in 0..KEY_NODES {
            let at = head(key_node) as u64 * 8;
            if file.file.metadata().expect("open").len() > at + 8 {
                file.file.write_all_at(&[0; 4], at).expect("written");
            }
        }
    }
    let Ok(mut reader) = Reader::open(world.dir(), None) else { return };
    let walked = reader.for_each_node(now, |record| {
        let _ = (record.used(), record.is_limiting(), format!("{record:?}"));
        ControlFlow::Continue(())
    });
    let _ = (walked, reader.group_stats(now));
    for BizKey { biz, key } in KEYS {
        if let Ok(Look::At(record)) = reader.node(biz, key, now) {
            let _ = (reader.state_words(&record), reader.ring_times(&record));
        }
    }
    for BizKey { biz, .. } in [KEYS[0], KEYS[2]] {
        let _ = (reader.top(biz, 3, By::Used, now), reader.whole(biz, now));
    }
    for (_, group) in reader.groups() {
        let _ = group.map(|group| (group.verify(&reader.pass()), reader.is_quarantined(group)));
    }
    if let Ok(runtime) = reader.runtime() {
        for slot in runtime.slots() {
            let _ = (runtime.slot(slot.slot).phase(), runtime.slot_counts(slot.slot));
        }
        let _ = (runtime.sums(), runtime.master_counts(), runtime.restarts_of(1));
    }
    let faults: Vec<String> = reader.faults().map(ToString::to_string).collect();
    let _ = (faults, reader.refresh().is_ok());
}

/// Attaches as a program, and asks for existing keys and for new ones.
fn serve(world: &World, now: u64) {
    let Ok(mut service) = Service::attach(world.dir(), Role::Program, None) else { return };
    for key in KEYS {
        ask(&mut service, Command::Query, key, now);
        ask(&mut service, Command::Update, key, now);
    }
    for key in ["a", "b", "c", "d", "e", "f"] {
        ask(&mut service, Command::Update, BizKey { biz: "login", key }, now);
    }
    let _ = (service.unserved_groups(), service.recover_dead());
}

/// Starts a server there, serves and ends.
fn start(world: &World, now: u64) {
    if Runtime::create_or_open(world.dir()).is_err()
        || prepare(&world.conf, &Default::default()).is_err()
    {
        return;
    }
    serve(world, now);
    let _ = close_clean(&world.conf);
}
