//! A disk that cannot read a checkpoint: the file is named, nothing half restored is served, and
//! the other groups are served. If loss is accepted, the checkpoint before is used.

use frs_store::insides::Side;
use frs_store::insides::fault;

use super::{KEYS, Machine, NOW, after_two_passes, all_done, newest, of};

// Shows: checkpoints.
#[test]
fn a_checkpoint_that_cannot_be_read_is_named_and_nothing_half_restored_is_served() {
    let mut machine = Machine::new();
    machine.use_all(3);
    assert!(all_done(&machine.pass()));
    let path = of(&machine, "small", 1, newest(&machine, "small"));
    fault::make_unreadable(&path);
    machine.go_down();
    // The second start finds the same as the first.
    for _ in 0..2 {
        let prepared = machine.start(false);
        assert!(!prepared.restored.contains(&"small".to_owned()), "{prepared:?}");
        let [unserved] = &*prepared.unserved else { panic!("{prepared:?}") };
        assert_eq!(unserved.group, "small");
        for word in [path.to_str().unwrap(), "cannot read the checkpoint", "Input/output error"] {
            assert!(unserved.reason.contains(word), "{word}: {}", unserved.reason);
        }
        let left = std::fs::read_dir(machine.dir.path().join("live")).unwrap();
        let left = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let of_small: Vec<String> = left.filter(|name| name.starts_with("small.")).collect();
        assert!(of_small.is_empty(), "{of_small:?}");
        let mut service = machine.attach();
        assert!(KEYS[3..].iter().all(|(biz, key)| service.used(biz, key, NOW) == 3));
    }
    fault::make_readable(&path);
    assert_eq!(machine.start(false).restored, ["small"]);
    assert_eq!(machine.used(), vec![3; KEYS.len()]);
}

// Shows: checkpoints.
#[test]
fn where_loss_is_accepted_the_checkpoint_before_is_restored_and_the_next_one_is_whole() {
    let mut machine = after_two_passes();
    let lost = newest(&machine, "small");
    let path = of(&machine, "small", 1, lost);
    fault::make_unreadable(&path);
    machine.go_down();
    let prepared = machine.start(true);
    assert_eq!((&*prepared.unserved, prepared.restored.len()), (&[][..], 2), "{prepared:?}");
    assert_eq!(machine.used(), [1, 1, 1, 2, 2, 2], "the other group lost nothing");
    assert!(!path.exists(), "the next pass would be written over the one that can be read");
    fault::make_readable(&path);

    assert!(all_done(&machine.pass()));
    assert_eq!(newest(&machine, "small"), lost);
    machine.use_all(1);
    machine.go_down();
    assert_eq!(machine.start(false).restored, ["small", "large"]);
    assert_eq!(machine.used(), [1, 1, 1, 2, 2, 2]);
}

// Shows: checkpoints.
#[test]
fn where_no_checkpoint_can_be_read_a_group_begins_empty_only_if_that_is_accepted() {
    let mut machine = Machine::new();
    machine.use_all(1);
    assert!(all_done(&machine.pass()));
    let bad = Side::BOTH.map(|side| of(&machine, "small", 0, side));
    bad.iter().for_each(|path| fault::make_unreadable(path));
    machine.go_down();
    let prepared = machine.start(false);
    let [unserved] = &*prepared.unserved else { panic!("{prepared:?}") };
    assert!(unserved.reason.contains("--accept-loss"), "{}", unserved.reason);
    assert!(bad.iter().all(|path| path.exists()), "nothing is lost before that is accepted");

    let prepared = machine.start(true);
    assert_eq!((&*prepared.created, &*prepared.unserved), (&["small".to_owned()][..], &[][..]));
    assert_eq!(machine.used(), [0, 0, 0, 1, 1, 1]);
    bad.iter().for_each(|path| fault::make_readable(path));
    machine.use_all(1);
    assert!(all_done(&machine.pass()));
    machine.go_down();
    assert_eq!(machine.start(false).restored, ["small", "large"]);
    assert_eq!(machine.used(), [1, 1, 1, 2, 2, 2]);
}
