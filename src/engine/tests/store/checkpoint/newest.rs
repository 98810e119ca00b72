//! The newest checkpoint is damaged: it is never silently replaced by an older one.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use frs_store::{Moves, Preparing, Runtime, prepare_with};

use super::{KEYS, RATE, Unpaced, after_two_passes, all_done, fault, newest, of};

fn writable(path: &Path) -> std::fs::File {
    OpenOptions::new().write(true).open(path).unwrap()
}

fn scribble(path: &Path) {
    writable(path).write_all_at(&[7], 17 * 8).unwrap();
}

fn cut(path: &Path) {
    writable(path).set_len(5000).unwrap();
}

fn remove(path: &Path) {
    std::fs::remove_file(path).unwrap();
}

type Damage = fn(&Path);

/// The damages that leave the file, and all damages.
const STAYING: [Damage; 2] = [scribble, cut];
const DAMAGES: [Damage; 3] = [scribble, cut, remove];
/// The files of a group with two, and the only file of the other group, each with the index of the
/// first key.
const FILES: [(&str, u32, usize); 3] = [("small", 0, 0), ("small", 1, 0), ("large", 0, 3)];

/// Counts of 2, with `used` for the three keys from `first` on.
fn twos_but(first: usize, used: u64) -> Vec<u64> {
    let mut expected = vec![2; KEYS.len()];
    expected[first..first + 3].fill(used);
    expected
}

// Shows: newest-checkpoint.
#[test]
fn a_damaged_newest_checkpoint_is_named_and_the_older_one_waits_for_consent() {
    for (name, file, first) in FILES {
        // An operator who removes all files of a checkpoint wants the other one.
        let damages = if name == "large" { &STAYING[..] } else { &DAMAGES };
        for damage in damages {
            let mut machine = after_two_passes();
            let path = of(&machine, name, file, newest(&machine, name));
            damage(&path);
            machine.go_down();
            for _ in 0..2 {
                let prepared = machine.start(false);
                let [unserved] = &*prepared.unserved else { panic!("{name} {file}: {prepared:?}") };
                assert_eq!(unserved.group, name);
                for word in [path.to_str().unwrap(), "--accept-loss, which restores checkpoint 2"] {
                    assert!(unserved.reason.contains(word), "{word}: {}", unserved.reason);
                }
            }
            let prepared = machine.start(true);
            assert!(prepared.unserved.is_empty() && prepared.created.is_empty(), "{prepared:?}");
            assert_eq!(machine.used(), twos_but(first, 1), "{name} {file}");
            machine.go_down();
            assert_eq!(machine.start(false).restored.len(), 2, "accepted once for all");
            assert_eq!(machine.used(), twos_but(first, 1), "{name} {file}");
            assert!(all_done(&machine.pass()) && all_done(&machine.pass()));
            machine.go_down();
            assert_eq!(machine.start(false).restored.len(), 2);
        }
    }
}

// Shows: newest-checkpoint.
#[test]
fn a_damaged_older_checkpoint_costs_nothing() {
    for file in 0..2 {
        for damage in DAMAGES {
            let mut machine = after_two_passes();
            damage(&of(&machine, "small", file, newest(&machine, "small").other()));
            machine.go_down();
            assert_eq!(machine.start(false).restored.len(), 2, "{file}");
            assert_eq!(machine.used(), vec![2; KEYS.len()]);
        }
    }
}

// Shows: newest-checkpoint.
#[test]
fn a_checkpoint_that_is_damaged_beside_its_server_is_whole_after_the_next_pass() {
    for (of_newest, of_older) in [(true, false), (false, true), (true, true)] {
        for (name, file, _) in FILES {
            for damage in DAMAGES {
                let mut machine = after_two_passes();
                let newest = newest(&machine, name);
                if of_newest {
                    damage(&of(&machine, name, file, newest));
                }
                if of_older {
                    damage(&of(&machine, name, file, newest.other()));
                }
                let what = format!("{name} {file}: {of_newest} {of_older}");
                machine.use_all(1);
                assert!(all_done(&machine.pass()), "{what}");
                machine.go_down();
                assert_eq!(machine.start(false).restored.len(), 2, "{what}");
                assert_eq!(machine.used(), vec![3; KEYS.len()], "{what}");
            }
        }
    }
}

// Shows: newest-checkpoint.
#[test]
fn a_pass_over_a_damaged_newest_checkpoint_that_is_broken_off_hides_no_damage() {
    for ((name, file, first), damage) in [(FILES[1], STAYING[1]), (FILES[2], STAYING[0])] {
        let mut nth = 0;
        loop {
            nth += 1;
            let mut machine = after_two_passes();
            damage(&of(&machine, name, file, newest(&machine, name)));
            fault::fail_at(nth);
            let is_done =
                all_done(&machine.checkpointer().pass(&[name.to_owned()], RATE, &Unpaced));
            fault::fail_at(0);
            machine.go_down();
            let prepared = machine.start(false);
            if prepared.unserved.is_empty() {
                // All headers mark the checkpoint as complete.
                assert_eq!(machine.used(), twos_but(first, 2), "call {nth}: {name} {file}");
            } else {
                machine.start(true);
                assert_eq!(machine.used(), twos_but(first, 1), "call {nth}: {name} {file}");
            }
            if is_done {
                assert!(prepared.unserved.is_empty() && nth > 4, "{nth}: {prepared:?}");
                break;
            }
        }
    }
}

// Shows: newest-checkpoint.
#[test]
fn what_this_process_lacks_is_no_damage() {
    let mut machine = after_two_passes();
    let path = of(&machine, "small", 1, newest(&machine, "small"));
    machine.go_down();
    Runtime::create_or_open(&machine.data()).unwrap();
    fault::lack_descriptors(&path);
    for accepts_loss in [false, true] {
        let moves = Moves::default();
        let how = Preparing { accepts_loss, ..Preparing::careful(&moves) };
        let error = prepare_with(&machine.conf, how).unwrap_err().to_string();
        assert!(error.contains("Too many open files"), "{error}");
    }
    fault::make_readable(&path);
    assert_eq!(machine.start(false).restored.len(), 2);
    assert_eq!(machine.used(), vec![2; KEYS.len()]);
}
