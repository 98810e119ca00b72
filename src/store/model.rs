//! Model check of the commit protocol and of recovery over boxed words: a transaction that dies at
//! any of its stores, a waiter that recovers it, and an owner that just goes on. They run the
//! production code of `commit/`, `watch/slot.rs` and `lock/semaphore.rs`.
//!
//! With `--cfg loom` every interleaving is checked: `RUSTFLAGS="--cfg loom" cargo test --release
//! -p frs-store --lib model`. Without it the dying transaction goes first. Miri runs it that way.

mod changes;
mod checkpoint;
mod mailbox;

#[cfg(not(loom))]
use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    sync::{Arc, Mutex},
    thread,
};

#[cfg(loom)]
use loom::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    sync::{Arc, Mutex},
    thread,
};

use crate::checkpoint::dirty::DirtyPages;
use crate::commit::protocol::{Announced, Change, Changes, KeyNodes, Owner};
use crate::commit::undo_log::{Files, LogFull, PlaceOf, Undo, UndoLog};
use crate::crash;
use crate::file::layout::{PAGE_WORDS, slot};
use crate::file::region::Region;
use crate::lock::orphan;
use crate::lock::semaphore::{Semaphore, Token};
use crate::watch::slot::{Intent, SlotState, SlotWords};

const GROUP: u64 = 7;
/// Two key-nodes: word 0 and word 1 hold their semaphores.
const SEMAPHORES: [usize; 2] = [0, 2];
/// The two words to which a transaction adds 1, after the header page.
const WORDS: [usize; 2] = [PAGE_WORDS, PAGE_WORDS + 1];

struct World {
    file: Region,
    slots: Region,
    /// The lock of the slot's byte: false once the owner is dead.
    alive: [AtomicBool; 2],
    /// Held while recovering or freeing orphans.
    recovery: Mutex<()>,
    /// Whether an owner is between take and release.
    holders: [AtomicBool; 2],
    /// The marks of changed pages, where the model has checkpoints.
    marks: Option<Marks>,
    /// Whether writers note their changes.
    noted: HowNoted,
}

/// How writers note their changes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HowNoted {
    Not,
    /// As production does.
    Soundly,
    /// Wrong: they note after the release.
    #[cfg(loom)]
    Late,
}

/// The marks of changed pages, and how writers set them.
struct Marks {
    dirty: DirtyPages,
    how: HowMarked,
}

/// How writers mark their changes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HowMarked {
    /// As production does.
    Soundly,
    /// Wrong: the look at the bit is not ordered with the semaphore.
    #[cfg(loom)]
    InNoOrder,
    /// Wrong: they mark after the release.
    #[cfg(loom)]
    Late,
}

impl World {
    fn new() -> World {
        let world = World {
            file: Region::boxed(PAGE_WORDS + 2),
            slots: Region::boxed(2 * slot::WORDS),
            alive: [AtomicBool::new(true), AtomicBool::new(true)],
            recovery: Mutex::new(()),
            holders: [AtomicBool::new(false), AtomicBool::new(false)],
            marks: None,
            noted: HowNoted::Not,
        };
        for slot in 0..2 {
            world.slot(slot).set_state(SlotState { used: true, epoch: 1 });
        }
        world
    }

    fn slot(&self, slot: usize) -> SlotWords<'_> {
        SlotWords::at(&self.slots, slot * slot::WORDS)
    }

    fn semaphore(&self, key_node: usize) -> Semaphore<'_> {
        Semaphore::at(self.file.half(SEMAPHORES[key_node]))
    }

    /// Recovers a slot, as a waiter does that sees a dead holder.
    fn recover(&self, slot: usize) {
        if self.alive[slot].load(Ordering::Acquire) {
            return;
        }
        let Ok(_lock) = self.recovery.try_lock() else { return };
        let recovered = self.slot(slot).recover(slot as u32, self);
        assert!(recovered.damage.is_none(), "{recovered:?}");
    }
}

impl Files for World {
    fn place_of(&self, undo: &Undo) -> PlaceOf {
        let known = undo.group == GROUP && WORDS.contains(&(undo.at as usize));
        // Both words belong to the first key-node.
        if known { PlaceOf::KeyNode(0) } else { PlaceOf::Nothing }
    }

    fn restore(&self, undo: &Undo) {
        assert_eq!(undo.group, GROUP);
        self.file.store(undo.at as usize, undo.old);
        if let Some(marks) = &self.marks {
            marks.dirty.mark(undo.at as usize, 1);
        }
    }

    fn release_for(&self, intent: &Intent, dead: Token) -> bool {
        self.semaphore(intent.key_node as usize).release_for(dead)
    }

    fn is_held(&self, intent: &Intent, dead: Token) -> bool {
        Token::of_word(self.semaphore(intent.key_node as usize).word()) == Some(dead)
    }

    fn quarantine(&self, _: &[u64]) {
        panic!("the log of a dead owner is taken for damaged");
    }
}

/// The owner of a slot of the world.
#[derive(Clone, Copy)]
struct Player<'w> {
    world: &'w World,
    slot: usize,
}

impl Owner for Player<'_> {
    fn slot(&self) -> SlotWords<'_> {
        self.world.slot(self.slot)
    }

    fn take(&self, semaphore: Semaphore<'_>) -> bool {
        let token = Token::new(self.slot as u32, 1);
        while let Err(seen) = semaphore.try_take(token) {
            if let Some(holder) = Token::of_word(seen) {
                self.world.recover(holder.slot() as usize);
            }
            thread::yield_now();
        }
        true
    }

    fn roll_back(&self) {
        self.slot().roll_back(self.world);
    }
}

struct Row<'w> {
    world: &'w World,
    key_nodes: &'static [usize],
}

impl KeyNodes for Row<'_> {
    fn len(&self) -> usize {
        self.key_nodes.len()
    }

    fn intent(&self, index: usize) -> Intent {
        Intent { group: GROUP, file: 0, key_node: self.key_nodes[index] as u32 }
    }

    fn semaphore(&self, index: usize) -> Semaphore<'_> {
        self.world.semaphore(self.key_nodes[index])
    }
}

/// The changes of a transaction.
struct Both<'w> {
    world: &'w World,
    intent: Intent,
    new: &'w [[u64; 1]; 2],
}

impl Both<'_> {
    fn each(&self) -> impl Iterator<Item = Change<'_>> {
        WORDS.iter().zip(self.new).map(|(&at, new)| {
            let stored = self.world.file.words(at, 1);
            Change { intent: self.intent, at, stored, new, dirty: None }
        })
    }
}

impl Changes for Both<'_> {
    fn log(&self, log: &mut UndoLog<'_>) -> Result<(), LogFull> {
        self.each().try_for_each(|change| change.log(log))
    }

    fn write(&self) {
        self.each().for_each(|change| change.write());
    }

    fn mark(&self) {
        let Some(Marks { dirty, how }) = &self.world.marks else { return };
        let soundly = |change: Change<'_>| Change { dirty: Some(dirty), ..change }.mark();
        match how {
            HowMarked::Soundly => self.each().for_each(soundly),
            #[cfg(loom)]
            HowMarked::InNoOrder => checkpoint::mark_in_no_order(dirty),
            #[cfg(loom)]
            HowMarked::Late => {}
        }
    }
}

/// One transaction over `key_nodes`: adds 1 to both words. Returns true if it reached its commit
/// point.
fn transact(world: &World, slot: usize, key_nodes: &'static [usize]) -> bool {
    let mut announced = Announced::new(Player { world, slot }, Row { world, key_nodes });
    let held = announced.take_all().expect("waits for as long as it takes");
    let old = WORDS.map(|at| world.file.load(at));
    // A dead owner may see the work of others.
    assert!(old[0] == old[1] || !crash::lives(), "half a transaction is seen");
    let intent = Intent { group: GROUP, file: 0, key_node: 0 };
    let new = [[old[0] + 1], [old[1] + 1]];
    let both = Both { world, intent, new: &new };
    if world.noted == HowNoted::Soundly {
        changes::note(world, slot);
    }
    held.log(both).expect("room").commit();
    let lives = crash::lives();
    drop(announced);
    #[cfg(loom)]
    if world.noted == HowNoted::Late {
        changes::note(world, slot);
    }
    lives
}

/// The end of a transaction that was to die.
struct End {
    committed: bool,
    died: bool,
}

/// One transaction that dies after `stores` stores.
fn transact_and_die(world: &World, slot: usize, key_nodes: &'static [usize], stores: usize) -> End {
    crash::die_after(Some(stores));
    let committed = transact(world, slot, key_nodes);
    let died = !crash::lives();
    crash::die_after(None);
    if died {
        // The lock is released with the address space, after all steps of the owner.
        world.alive[slot].store(false, Ordering::Release);
    }
    End { committed, died }
}

/// Stores of an undisturbed transaction: intents, their sequence and number, semaphores, two undo
/// entries, `phase`, two words, `phase`, semaphores, withdrawal.
fn all_stores(key_nodes: &[usize]) -> usize {
    4 * key_nodes.len() + 2 + 2 * 3 + 1 + 2 + 1 + 1
}

fn explore(model: impl Fn() + Sync + Send + 'static) {
    explore_or_run(1, model);
}

/// Explores a model under loom; runs it this often elsewhere.
#[cfg(loom)]
fn explore_or_run(_: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    // LOOM_MAX_PREEMPTIONS sets another bound.
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(model);
}

#[cfg(not(loom))]
fn explore_or_run(times: usize, model: impl Fn() + Sync + Send + 'static) {
    (0..times).for_each(|_| model());
}

fn check(stores: usize, key_nodes: &'static [usize]) {
    explore(move || {
        let world = Arc::new(World::new());
        let dying = {
            let world = world.clone();
            thread::spawn(move || transact_and_die(&world, 0, key_nodes, stores))
        };
        transact(&world, 1, key_nodes);
        let first = dying.join().unwrap();
        assert!(first.died || stores >= all_stores(key_nodes), "more stores than there are");
        world.recover(0);
        let expected = 1 + u64::from(first.committed);
        assert_eq!(WORDS.map(|at| world.file.load(at)), [expected; 2]);
        for key_node in 0..2 {
            assert_eq!(world.semaphore(key_node).word(), 0, "a semaphore stays taken");
        }
        // Recovery can be repeated.
        world.recover(0);
        assert_eq!(WORDS.map(|at| world.file.load(at)), [expected; 2]);
    });
}

#[test]
fn no_store_is_left_out_of_the_deaths() {
    explore(|| {
        for key_nodes in [&[0][..], &[0, 1]] {
            let all = all_stores(key_nodes);
            assert!(transact_and_die(&World::new(), 0, key_nodes, all - 1).died);
            assert!(!transact_and_die(&World::new(), 0, key_nodes, all).died);
        }
    });
}

/// Changes whose writing panics after the first.
#[cfg(not(loom))]
struct Panics<'w>(Both<'w>);

#[cfg(not(loom))]
impl Changes for Panics<'_> {
    fn log(&self, log: &mut UndoLog<'_>) -> Result<(), LogFull> {
        self.0.log(log)
    }

    fn write(&self) {
        self.0.each().take(1).for_each(|change| change.write());
        panic!("in the middle of the writing");
    }

    fn mark(&self) {
        unreachable!("a panic is before it");
    }
}

#[cfg(not(loom))]
#[test]
fn a_panic_in_the_middle_of_the_writing_is_undone() {
    let world = World::new();
    transact(&world, 0, &[0, 1]);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let (world, slot) = (&world, 0);
        let row = Row { world, key_nodes: &[0, 1] };
        let mut announced = Announced::new(Player { world, slot }, row);
        let held = announced.take_all().expect("free");
        let intent = Intent { group: GROUP, file: 0, key_node: 0 };
        let both = Both { world, intent, new: &[[7], [7]] };
        held.log(Panics(both)).expect("room").commit();
    }));
    assert!(panicked.is_err());
    assert_eq!(WORDS.map(|at| world.file.load(at)), [1; 2]);
    assert_eq!([0, 1].map(|key_node| world.semaphore(key_node).word()), [0; 2]);
    assert_eq!(world.slot(0).phase(), 0);
    world.slot(0).for_each_group(|group| panic!("{group} is announced still"));
}

// Shows: deaths-lose-nothing.
#[test]
fn one_key_node_death_at_every_step() {
    for stores in 0..=all_stores(&[0]) {
        check(stores, &[0]);
    }
}

// Shows: deaths-lose-nothing.
#[test]
fn two_key_nodes_death_at_every_step() {
    for stores in 0..=all_stores(&[0, 1]) {
        check(stores, &[0, 1]);
    }
}

// Shows: deaths-lose-nothing.
#[test]
fn two_recoverers_at_once() {
    for stores in 0..all_stores(&[0]) {
        explore(move || {
            let world = Arc::new(World::new());
            let End { committed, died } = transact_and_die(&world, 0, &[0], stores);
            assert!(died);
            let other = {
                let world = world.clone();
                thread::spawn(move || world.recover(0))
            };
            world.recover(0);
            other.join().unwrap();
            world.recover(0);
            assert_eq!(WORDS.map(|at| world.file.load(at)), [u64::from(committed); 2]);
            assert_eq!(world.semaphore(0).word(), 0);
            assert!(!world.slot(0).state().used);
        });
    }
}

/// After a recoverer has died at any of its stores, the next one can finish the recovery.
// Shows: deaths-lose-nothing.
#[test]
fn a_recoverer_that_dies_is_followed() {
    for stores in 0..all_stores(&[0]) {
        for its_stores in 0..8 {
            explore(move || {
                let world = World::new();
                let End { committed, .. } = transact_and_die(&world, 0, &[0], stores);
                crash::die_after(Some(its_stores));
                world.recover(0);
                crash::die_after(None);
                world.recover(0);
                assert_eq!(WORDS.map(|at| world.file.load(at)), [u64::from(committed); 2]);
                assert_eq!(world.semaphore(0).word(), 0);
                assert!(!world.slot(0).state().used);
            });
        }
    }
}

/// Takes and releases a key-node. Fails if the semaphore is held twice or freed meanwhile.
fn hold(world: &World, slot: u32, key_node: u32) {
    let (words, token) = (world.slot(slot as usize), Token::new(slot, 1));
    let semaphore = world.semaphore(key_node as usize);
    words.announce(1, |_| Intent { group: GROUP, file: 0, key_node });
    if semaphore.try_take(token).is_ok() {
        let seen = world.holders[key_node as usize].swap(true, Ordering::AcqRel);
        assert!(!seen, "two hold it");
        world.holders[key_node as usize].store(false, Ordering::Release);
        // An exchange sees the latest word. A load may see an older one.
        assert!(semaphore.try_take(token).is_err(), "freed while it was held");
        semaphore.release();
    }
    words.withdraw();
}

/// Frees an orphan, as a waiter does that sees the token of a living slot.
fn free(world: &World, key_node: u32) {
    let token = Token::new(0, 1);
    let (semaphore, slot) = (world.semaphore(key_node as usize), world.slot(0));
    let intent = Intent { group: GROUP, file: 0, key_node };
    let Ok(_lock) = world.recovery.try_lock() else { return };
    if orphan::is_orphan(slot, semaphore, &intent, token) {
        semaphore.release_for(token);
    }
}

// Shows: stalls-are-bounded.
#[test]
fn nobody_frees_what_a_living_owner_holds() {
    for is_scribbled in [false, true] {
        explore(move || {
            let world = Arc::new(World::new());
            if is_scribbled {
                world.semaphore(0).try_take(Token::new(0, 1)).unwrap();
            }
            let owner = {
                let world = world.clone();
                thread::spawn(move || [0, 1, 0].map(|key_node| hold(&world, 0, key_node)))
            };
            free(&world, 0);
            free(&world, 0);
            owner.join().unwrap();
            free(&world, 0);
            assert_eq!(world.semaphore(0).word(), 0, "an orphan stays");
        });
    }
}

#[test]
fn two_who_free_an_orphan_free_it_once() {
    explore(|| {
        let world = Arc::new(World::new());
        world.semaphore(0).try_take(Token::new(0, 1)).unwrap();
        let other = {
            let world = world.clone();
            thread::spawn(move || free(&world, 0))
        };
        let owner = {
            let world = world.clone();
            thread::spawn(move || hold(&world, 0, 0))
        };
        free(&world, 0);
        other.join().unwrap();
        owner.join().unwrap();
        free(&world, 0);
        assert_eq!(world.semaphore(0).word(), 0, "an orphan stays");
    });
}

/// A group that moves: the key's word in the former group and in the new one. Both belong to the
/// key-nodes of [`SEMAPHORES`]: the former's is 0, the new one's is 1.
const FORMER: usize = WORDS[0];
const NEXT: usize = WORDS[1];

/// How a process of the new generation looks for the node of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Looks {
    /// In the new group, then in both under both semaphores.
    InBoth,
    /// Wrong: only in the new group, so that a second node is created.
    #[cfg(loom)]
    InNewOnly,
    /// Wrong: in both, without the former's semaphore.
    #[cfg(loom)]
    Unlocked,
}

/// Adds a use to the key's node, as a process does that has taken this generation. A word is the
/// count plus 1, or 0 without a node. Returns false if another generation is in force.
fn use_once(world: &World, slot: usize, generation: &AtomicU64, taken: u64, looks: Looks) -> bool {
    let key_nodes: &[usize] = match (taken, looks) {
        (1, _) => &[0],
        (_, Looks::InBoth) => &[0, 1],
        #[cfg(loom)]
        (_, Looks::InNewOnly | Looks::Unlocked) => &[1],
    };
    let player = Player { world, slot };
    let held = key_nodes.iter().all(|&key_node| player.take(world.semaphore(key_node)));
    assert!(held, "waits for as long as it takes");
    let is_in_force = generation.load(Ordering::Acquire) == taken;
    if is_in_force {
        let (former, next) = (world.file.load(FORMER), world.file.load(NEXT));
        match (taken, looks) {
            (1, _) => world.file.store(FORMER, former.max(1) + 1),
            _ if next != 0 => world.file.store(NEXT, next + 1),
            #[cfg(loom)]
            (_, Looks::InNewOnly) => world.file.store(NEXT, 2),
            _ => {
                world.file.store(NEXT, former.max(1) + 1);
                world.file.store(FORMER, 0);
            }
        }
    }
    for &key_node in key_nodes.iter().rev() {
        world.semaphore(key_node).release();
    }
    is_in_force
}

/// Two processes use a key once each while a master publishes the generation in which its group
/// moves. Returns whether both uses are counted once, in one node.
fn moves(world: &Arc<World>, looks: Looks) -> bool {
    let generation = Arc::new(AtomicU64::new(1));
    world.file.store(FORMER, 1);
    let older = {
        let (world, generation) = (world.clone(), generation.clone());
        // The process has taken generation 1, and takes 2 when it finds 2 in force.
        thread::spawn(move || {
            use_once(&world, 0, &generation, 1, looks) || use_once(&world, 0, &generation, 2, looks)
        })
    };
    let newer = {
        let (world, generation) = (world.clone(), generation.clone());
        thread::spawn(move || {
            generation.store(2, Ordering::Release);
            use_once(&world, 1, &generation, 2, looks)
        })
    };
    assert!(older.join().unwrap() && newer.join().unwrap());
    let counts = [FORMER, NEXT].map(|at| world.file.load(at));
    counts == [0, 3]
}

// Shows: growth.
#[test]
fn a_use_beside_the_publication_of_a_move_is_counted_once() {
    explore(|| assert!(moves(&Arc::new(World::new()), Looks::InBoth)));
}

/// The model finds broken variants. Without loom it plays only one order, in which the variant need
/// not fail.
#[cfg(loom)]
mod broken_moves {
    use super::*;

    #[test]
    #[should_panic(expected = "a use is lost")]
    fn one_that_looks_in_the_new_group_only() {
        explore(|| assert!(moves(&Arc::new(World::new()), Looks::InNewOnly), "a use is lost"));
    }

    #[test]
    #[should_panic(expected = "a use is lost")]
    fn one_that_does_not_take_the_formers_semaphore() {
        explore(|| assert!(moves(&Arc::new(World::new()), Looks::Unlocked), "a use is lost"));
    }
}
