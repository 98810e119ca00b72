//! Lineages over moves, replaced files, deaths between two stores, and older binaries.

use super::*;

const NAME: &str = "g";

/// A register, and every lineage that it has had.
struct Register {
    _dir: tempfile::TempDir,
    runtime: Runtime,
    had: Vec<u64>,
}

/// A file of a group, by its inode.
fn file(group: u64, file: u32, inode: u64) -> FileEntry {
    FileEntry { group, file, device: 1, inode, birth_ns: inode, name: NAME.into() }
}

impl Register {
    fn new() -> Register {
        let dir = tempfile::tempdir().expect("a directory");
        let runtime = Runtime::create_or_open(dir.path()).expect("made");
        Register { _dir: dir, runtime, had: Vec::new() }
    }

    /// Registers files of these inodes. The group then has only the returned lineage.
    fn register(&mut self, group: u64, inodes: &[u64], pairing: Pairing) -> u64 {
        for (number, inode) in (0..).zip(inodes) {
            let entry = file(group, number, *inode);
            self.runtime.register_file(&entry, pairing).expect("registered");
        }
        let lineage = self.only(group);
        if !self.had.contains(&lineage) {
            self.had.push(lineage);
        }
        lineage
    }

    /// The lineage of a group.
    fn only(&self, group: u64) -> u64 {
        let [lineage] = self.all(group)[..] else { panic!("{:x?}", self.all(group)) };
        lineage
    }

    fn all(&self, group: u64) -> Vec<u64> {
        self.runtime.lineages(|id| id == group)
    }

    #[track_caller]
    fn expect_new(&mut self, register: impl FnOnce(&mut Register) -> u64) -> u64 {
        let had = self.had.clone();
        let lineage = register(self);
        assert!(!had.contains(&lineage), "{lineage:x} is back: {had:x?}");
        lineage
    }

    fn end_move(&self, former: u64, next: u64) {
        self.runtime.forget_group(former);
        self.runtime.forget_former(next);
    }

    /// The word of an entry.
    fn word(&self, group: u64, file: u32, word: usize) -> usize {
        let known = self.runtime.find_file(group, file).expect("registered");
        Runtime::entry(known.index) + word
    }
}

/// A group of two files that grows into one of three.
fn moving() -> Register {
    let mut register = Register::new();
    let first = register.register(1, &[10, 11], Pairing::FormerOf(2));
    assert_eq!(register.register(2, &[20, 21, 22], Pairing::NextOf(1)), first);
    register
}

// Shows: growth.
#[test]
fn a_group_hands_its_lineage_on_to_the_one_that_grows_out_of_it() {
    let mut register = moving();
    let lineage = register.only(1);
    assert_eq!(register.register(1, &[10, 11], Pairing::FormerOf(2)), lineage, "registered anew");
    assert_eq!(register.register(2, &[20, 21, 22], Pairing::NextOf(1)), lineage);
    register.end_move(1, 2);
    assert_eq!((register.only(2), register.all(1)), (lineage, vec![]));
    assert_eq!(register.register(3, &[30], Pairing::NextOf(2)), lineage, "another move");
    assert_eq!(register.register(9, &[90], Pairing::Alone), register.only(9));
    assert_eq!(register.all(2), [], "one of this name takes its place");
    assert_ne!(register.only(9), lineage);
}

// Shows: older-copies.
#[test]
fn a_replaced_file_brings_no_lineage_back() {
    let mut register = Register::new();
    register.register(1, &[10, 11], Pairing::Alone);
    register.expect_new(|register| register.register(1, &[10, 12], Pairing::Alone));
    register.expect_new(|register| register.register(1, &[10, 11], Pairing::Alone));
    let lineage = register.only(1);
    assert_eq!(register.register(2, &[20], Pairing::NextOf(1)), lineage);
    // Replaced files of either group of a pair.
    register.expect_new(|register| register.register(1, &[13, 11], Pairing::FormerOf(2)));
    assert_eq!(register.only(2), register.only(1));
    register.expect_new(|register| register.register(2, &[21], Pairing::NextOf(1)));
    assert_eq!(register.only(2), register.only(1));
    let lineage = register.only(2);
    register.end_move(1, 2);
    assert_eq!(register.only(2), lineage, "nor when the move has ended");
    register.expect_new(|register| register.register(2, &[20], Pairing::Alone));
}

// Shows: older-copies.
#[test]
fn what_was_forgotten_is_another_group() {
    let mut register = moving();
    let lineage = register.only(2);
    register.end_move(1, 2);
    // The file may have been replaced since.
    register.expect_new(|register| register.register(1, &[10, 11], Pairing::FormerOf(2)));
    assert_eq!(register.only(2), register.only(1));
    assert_ne!(register.only(2), lineage);

    // A copy from before the move is put back, and later the replaced file.
    let mut register = moving();
    register.end_move(1, 2);
    register.expect_new(|register| register.register(1, &[14, 15], Pairing::Alone));
    register.expect_new(|register| register.register(2, &[20, 21, 22], Pairing::Alone));
    assert_eq!(register.all(1), []);

    let mut register = moving();
    register.runtime.forget_named(NAME);
    register.expect_new(|register| register.register(1, &[10, 11], Pairing::FormerOf(2)));
    assert_eq!(register.register(2, &[20, 21, 22], Pairing::NextOf(1)), register.only(1));
}

// Shows: older-copies.
#[test]
fn a_death_between_two_stores_leaves_no_lineage_of_before() {
    let region = |register: &Register, word, value| register.runtime.region.store(word, value);
    // The other files have the lineage already.
    let mut register = moving();
    let known = register.runtime.find_file(2, 1).expect("registered");
    register.runtime.set_lineage(known.index, &known.entry, 7);
    register.expect_new(|register| {
        register.runtime.settle_lineage(2, Pairing::NextOf(1)).expect("settled")
    });
    assert_eq!(register.only(1), register.only(2));
    // The facts are stored but their lineage is not, for each file and for a single one.
    for files in [&[10, 11][..], &[10]] {
        let mut register = Register::new();
        register.register(1, files, Pairing::Alone);
        for (word, value) in [(3, 77), (8, 78), (2, 5)] {
            region(&register, register.word(1, 0, word), value);
            register.expect_new(|register| {
                register.runtime.settle_lineage(1, Pairing::Alone).expect("settled")
            });
        }
    }
}

// Shows: older-copies.
#[test]
fn what_an_older_binary_has_registered_gets_a_lineage() {
    let register = moving();
    let lineage = register.only(1);
    for (group, files) in [(1, 2), (2, 3)] {
        for number in 0..files {
            let word = register.word(group, number, at::FILE_LINEAGE);
            register.runtime.region.store(word, 0);
        }
    }
    assert_eq!(register.all(1).len(), 2, "each file has one of its own");
    let settled = register.runtime.settle_lineage(1, Pairing::FormerOf(2)).expect("settled");
    assert_ne!(settled, lineage);
    assert_eq!([register.only(1), register.only(2)], [settled; 2]);
    let again = register.runtime.settle_lineage(2, Pairing::NextOf(1)).expect("settled");
    assert_eq!(again, settled);
    // The same in a register of a single file, which alone names its group.
    let mut register = Register::new();
    register.register(5, &[50], Pairing::Alone);
    let word = register.word(5, 0, at::FILE_LINEAGE);
    register.runtime.region.store(word, 0);
    let own = register.only(5);
    register.had.push(own);
    assert_eq!(register.runtime.settle_lineage(5, Pairing::Alone).expect("settled"), own);
    assert_eq!(register.register(5, &[50], Pairing::Alone), own);
    register.expect_new(|register| register.register(5, &[51], Pairing::Alone));
    register.expect_new(|register| register.register(5, &[50], Pairing::Alone));
}

#[test]
fn lineages_are_of_the_groups_that_are_meant() {
    let mut register = moving();
    let other = FileEntry { name: "other".into(), ..file(3, 0, 30) };
    register.runtime.register_file(&other, Pairing::Alone).expect("registered");
    let lineage = register.only(1);
    register.had.push(lineage);
    assert_ne!(register.only(3), lineage);
    let both = register.runtime.lineages(|_| true);
    assert_eq!(both.len(), 2, "in order, and that of a pair once");
    assert!(both.is_sorted());
    let renewed = register.runtime.renew_lineage(1, Pairing::FormerOf(2)).expect("drawn");
    assert_eq!([register.only(1), register.only(2)], [renewed; 2]);
    assert!(!both.contains(&renewed));
}
