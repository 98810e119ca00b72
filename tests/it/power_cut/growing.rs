//! A group on a disk grows, and the power fails at some moment of the move.

use std::time::{Duration, Instant};

use super::{Machine, charge_all, used_of_all};
use crate::common::power::FileSystem;
use crate::common::{Server, text, try_wait, wait_until};

const KEYS: u64 = 30_000;

fn map(keys: u64) -> String {
    format!(
        r#"<map><group name="default" keys="{keys}"/>
<biz id="1" name="count" key="integer"><limit policy="total" max="1000"/></biz></map>"#
    )
}

/// The moment of the power cut.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// After the reload is answered: the move begins.
    Begun,
    /// This long after the move began.
    After(Duration),
    /// Once all nodes are in the new files.
    Moved,
    /// Once the new files have their final names.
    Ended,
}

const MOMENTS: [Moment; 6] = [
    Moment::Begun,
    Moment::After(Duration::from_millis(30)),
    Moment::After(Duration::from_millis(150)),
    Moment::After(Duration::from_millis(400)),
    Moment::Moved,
    Moment::Ended,
];

impl Moment {
    fn wait(self, machine: &Machine) {
        let says = |words: &'static str| {
            wait_until(words, || machine.plane.setup.log().contains(words).then_some(()));
        };
        match self {
            Moment::Begun => {}
            Moment::After(time) => {
                let until = Instant::now() + time;
                wait_until("it moves for some time", || (Instant::now() >= until).then_some(()));
            }
            Moment::Moved => says("all nodes have moved"),
            Moment::Ended => says("the group has moved"),
        }
    }
}

/// The cost of a cut.
#[derive(Debug, Default, PartialEq, Eq)]
struct Cost {
    lost: usize,
    doubled: usize,
}

/// Flushes keys that stay idle, begins a move, and cuts the power.
fn cut_at(kind: FileSystem, moment: Moment, writes_old: bool) -> Option<Cost> {
    let machine = Machine::new(kind, "flush=\"1s\"", &map(40_000))?;
    let mut server = machine.start();
    charge_all(&mut server.client(), "count", 0..KEYS);
    machine.wait_for_flushes(2);
    machine.plane.setup.write_map(&map(90_000));
    let reload = machine.plane.setup.frs(&["reload"]);
    assert!(reload.status.success(), "{}", text(&reload.stderr));
    moment.wait(&machine);
    if writes_old {
        // The kernel may write pages in any order, the old files first.
        let former = machine.plane.setup.path("data/default.0.mmap");
        std::fs::File::open(former).expect("open").sync_all().expect("synced");
    }
    machine.disk.cut(&mut server);
    drop(server);
    let server = machine.start();
    let cost = cost_of(&server);
    // The move continues, and ends with all keys.
    wait_for_move(&machine);
    assert_eq!(cost_of(&server), cost, "{moment:?}");
    let verified = machine.plane.setup.inspect(&["verify", "data"]);
    assert!(verified.status.success(), "{}", text(&verified.stdout));
    let log = machine.plane.setup.log();
    let drops = log.lines().filter(|line| line.contains("node dropped")).count();
    // The kernel may write a page while the keeper copies a record into it. The original record is
    // whole.
    let may_be_torn = matches!(moment, Moment::Begun | Moment::After(_));
    let torn = log.lines().filter(|line| line.contains("node dropped") && line.contains("Crc"));
    assert!(drops == 0 || may_be_torn && torn.count() == drops, "{log}");
    Some(cost)
}

/// Waits until no group moves, as long as the move makes progress.
fn wait_for_move(machine: &Machine) {
    let next = machine.plane.setup.path("data/default.0.next.mmap");
    let progress = || machine.plane.setup.log().matches("permille=").count();
    loop {
        let before = progress();
        let ended = try_wait(|| (!next.exists()).then_some(()));
        if ended.is_some() {
            return;
        }
        assert_ne!(progress(), before, "the move does not go on");
    }
}

fn cost_of(server: &Server<'_>) -> Cost {
    let used = used_of_all(&mut server.client(), "count", 0..KEYS);
    Cost {
        lost: KEYS as usize - used.len(),
        doubled: used.values().filter(|&&used| used > 1).count(),
    }
}

fn idle_keys_outlive_a_cut(kind: FileSystem) {
    let asked = std::env::var("FRS_POWER_CUTS").map(|cuts| cuts.parse().expect("a number"));
    let cuts = asked.unwrap_or(MOMENTS.len());
    for nth in 0..cuts {
        // Each moment, with and without old files written first, in turns.
        let moment = MOMENTS[nth % MOMENTS.len()];
        let writes_old = (nth + nth / MOMENTS.len()).is_multiple_of(2);
        let Some(cost) = cut_at(kind, moment, writes_old) else { return };
        assert_eq!(cost, Cost::default(), "{kind:?} {moment:?}, old first: {writes_old}");
    }
    println!("{kind:?}: {cuts} cuts, {KEYS} keys each, 0 lost");
}

// Shows: power-cut-in-a-move.
#[test]
fn idle_keys_of_a_group_that_grows_outlive_a_cut_on_ext4() {
    idle_keys_outlive_a_cut(FileSystem::Ext4);
}

// Shows: power-cut-in-a-move.
#[test]
fn idle_keys_of_a_group_that_grows_outlive_a_cut_on_xfs() {
    idle_keys_outlive_a_cut(FileSystem::Xfs);
}
