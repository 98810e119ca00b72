//! A disk that does not give back what a checkpoint holds: the file is named, nothing half restored
//! is served, and the other groups are.

use super::{KEYS, Machine, NOW, all_done, of};
use crate::store::checkpoint::fault;
use crate::store::dirty::Side;

/// The file of a group that a restore reads next.
fn newest(machine: &Machine, name: &str) -> Side {
    let number = |side| std::fs::read(of(machine, name, 0, side)).unwrap()[17 * 8];
    Side::BOTH.into_iter().max_by_key(|&side| number(side)).unwrap()
}

#[test]
fn a_checkpoint_that_cannot_be_read_is_named_and_nothing_half_restored_is_served() {
    let mut machine = Machine::new();
    machine.use_all(3);
    assert!(all_done(&machine.pass()));
    let path = of(&machine, "small", 1, newest(&machine, "small"));
    fault::make_unreadable(&path);
    machine.go_down();
    // The second start finds no more than the first one.
    for _ in 0..2 {
        let prepared = machine.start(false);
        assert!(!prepared.restored.contains(&"small".to_owned()), "{prepared:?}");
        let [unserved] = &*prepared.unserved else { panic!("{prepared:?}") };
        assert_eq!(unserved.group, "small");
        for word in [path.to_str().unwrap(), "read it", "Input/output error"] {
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
