//! The slot of a dead owner whose intents and undo log are arbitrary words. Its recovery ends,
//! frees the slot, and changes only words that the log names and that belong to nodes or their
//! tags.
//!
//! An input is a byte that chooses the counts of the lists, a byte that gives each key-node's
//! semaphore a holder, and entries, each a byte for its kind and the numbers of that kind.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;

use frs_engine::{Role, Service};
use frs_store::fuzzing as at;

use super::world::{FILE_WORDS, FILES, KEY_NODES, PAGE_WORDS, World, bytes_of, head, slot_byte};

/// The slot, and its owner's epoch.
const DEAD: usize = 3;
const EPOCH: u64 = 5;
/// The owner's word in semaphores, and the bit that marks waiters.
const TOKEN: u32 = DEAD as u32 | (EPOCH as u32) << 8;
const WAITERS: u32 = 1 << 31;
/// The most entries of each list.
const ENTRIES_MAX: usize = 64;

struct Stage {
    // Detached before the directory is removed.
    service: Service,
    world: World,
    group: u64,
}

impl Stage {
    fn new() -> Stage {
        let world = World::new();
        let service = Service::attach(world.dir(), Role::Program, None).expect("attached");
        let mut id = [0; 8];
        world.files[0].file.read_exact_at(&mut id, at::GROUP_ID as u64 * 8).expect("so long it is");
        Stage { service, world, group: u64::from_le_bytes(id) }
    }

    /// The words of the group's files.
    fn words(&self) -> [Vec<u64>; FILES] {
        std::array::from_fn(|file| {
            let mut bytes = vec![0; FILE_WORDS * 8];
            self.world.files[file].file.read_exact_at(&mut bytes, 0).expect("so long it is");
            let words = bytes.chunks_exact(8);
            words.map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes"))).collect()
        })
    }

    fn write_slot(&self, word: usize, words: &[u64]) {
        let runtime = &self.world.files[FILES].file;
        runtime.write_all_at(&bytes_of(words), slot_byte(DEAD, word)).expect("written");
    }
}

thread_local! {
    static STAGE: RefCell<Stage> = RefCell::new(Stage::new());
}

/// The rest of an input.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn number(&mut self, bytes: usize) -> u64 {
        let (taken, rest) = self.0.split_at(bytes.min(self.0.len()));
        self.0 = rest;
        taken.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
    }
}

/// The intent list and the undo log.
#[derive(Default)]
struct Lists {
    intents: Vec<[u64; 2]>,
    undo: Vec<[u64; 3]>,
}

impl Lists {
    fn read(rest: &mut Rest<'_>, known: u64) -> Lists {
        let mut lists = Lists::default();
        while !rest.0.is_empty() {
            let kind = rest.number(1);
            let group = match kind & 3 {
                2 => rest.number(8),
                3 => 0,
                _ => known,
            };
            let file = if kind & 8 != 0 { rest.number(2) } else { kind >> 2 & 1 };
            if kind & 16 != 0 {
                let key_node = if kind & 32 != 0 { rest.number(4) } else { kind >> 6 };
                lists.intents.push([group, file << 32 | key_node]);
            } else {
                let word = rest.number(if kind & 32 != 0 { 6 } else { 2 });
                let old = rest.number(if kind & 64 != 0 { 8 } else { 1 });
                lists.undo.push([group, file << 48 | word, old]);
            }
        }
        lists.intents.truncate(ENTRIES_MAX);
        lists.undo.truncate(ENTRIES_MAX);
        lists
    }

    /// The words that may change.
    fn named(&self, known: u64) -> BTreeSet<WordAt> {
        let known = self.undo.iter().filter(|[group, ..]| *group == known);
        let word_at = |[_, at, _]: &[u64; 3]| WordAt {
            file: (at >> 48) as usize,
            word: (at & 0xffff_ffff_ffff) as usize,
        };
        known.map(word_at).collect()
    }
}

/// A word of a group's file.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct WordAt {
    file: usize,
    word: usize,
}

/// A key-node of the group.
struct KeyNodeAt {
    file: usize,
    key_node: usize,
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let Some(([counted, holders], entries)) = data.split_first_chunk::<2>() else { return };
    STAGE.with_borrow_mut(|stage| {
        stage.world.restore();
        let mut rest = Rest(entries);
        // Counts that differ from the lists: arbitrary, or beyond the room.
        let count = |chosen: u8, rest: &mut Rest<'_>| match chosen & 3 {
            1 => Some(rest.number(2)),
            2 => Some(rest.number(8)),
            _ => None,
        };
        let (phase, intents) = (count(*counted, &mut rest), count(counted >> 2, &mut rest));
        let lists = Lists::read(&mut rest, stage.group);
        give(stage, *holders);
        stage.write_slot(at::INTENT_LIST, lists.intents.as_flattened());
        stage.write_slot(at::UNDO_LOG, lists.undo.as_flattened());
        stage.write_slot(at::PHASE, &[phase.unwrap_or(lists.undo.len() as u64)]);
        stage.write_slot(at::INTENTS, &[intents.unwrap_or(lists.intents.len() as u64)]);
        stage.write_slot(at::STATE, &[1 | EPOCH << 32]);
        let before = stage.words();
        assert_eq!(stage.service.recover_dead(), 1, "the slot is recovered");
        compare(&before, &stage.words(), &lists.named(stage.group));
        // Entries would stay behind those of the next input, which overwrites only as many as it
        // has.
        stage.write_slot(at::INTENT_LIST, &[0; ENTRIES_MAX * 2]);
        stage.write_slot(at::UNDO_LOG, &[0; ENTRIES_MAX * 3]);
    });
}

/// Gives each key-node's semaphore a holder.
fn give(stage: &Stage, holders: u8) {
    for (nth, KeyNodeAt { file, key_node }) in key_nodes().enumerate() {
        let word = [0, TOKEN, TOKEN | WAITERS, 1 | 9 << 8][usize::from(holders >> (nth * 2) & 3)];
        let at = head(key_node) as u64 * 8;
        stage.world.files[file].file.write_all_at(&word.to_le_bytes(), at).expect("written");
    }
}

fn key_nodes() -> impl Iterator<Item = KeyNodeAt> {
    (0..FILES).flat_map(|file| (0..KEY_NODES).map(move |key_node| KeyNodeAt { file, key_node }))
}

fn compare(before: &[Vec<u64>; FILES], after: &[Vec<u64>; FILES], named: &BTreeSet<WordAt>) {
    for file in 0..FILES {
        for word in 0..FILE_WORDS {
            let (old, new) = (before[file][word], after[file][word]);
            if old == new {
                continue;
            }
            assert!(word >= PAGE_WORDS, "the header of file {file}: word {word}");
            if (0..KEY_NODES).any(|key_node| word == head(key_node)) {
                let was_its = old as u32 & !WAITERS == TOKEN;
                assert!(was_its && new == 0, "a semaphore was {old:#x} and is {new:#x}");
            } else {
                assert!(named.contains(&WordAt { file, word }), "word {word} of file {file}");
            }
        }
    }
}
