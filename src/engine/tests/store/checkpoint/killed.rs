//! A real process is killed at each step of a pass, and of a restore. The next keeper and the next
//! start always go on, and each count is one that the key had.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use frs_base::testing::told;
use frs_conf::{Conf, MoveMode};
use frs_store::Checkpointer;
use frs_store::crash;
use frs_store::insides::fault;
use frs_store::{Moves, Preparing, Runtime, prepare_with};

use super::moving::{LARGE, begun, is_over};
use super::{Machine, RATE, Unpaced, all_done, srv_in};
use crate::MovePass;

/// The stage of the group's move at the death of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The group does not move.
    Still,
    /// The pass is the first one of a move.
    Begun,
    /// Both checkpoints hold both geometries.
    Going,
    /// The move has ended, without a pass since.
    Ended,
}

const STAGES: [Stage; 4] = [Stage::Still, Stage::Begun, Stage::Going, Stage::Ended];

/// The machine, and the counts in its checkpoint.
fn machine_at(stage: Stage) -> (Machine, Vec<u64>) {
    let (mut machine, mut counts) = begun();
    if stage != Stage::Still {
        machine.begin_move(LARGE);
        is_over(&mut machine.attach(), &mut MovePass::default(), 60);
    }
    if matches!(stage, Stage::Going | Stage::Ended) {
        machine.use_keys(&mut counts);
        machine.expect_whole_passes(2);
    }
    if stage == Stage::Ended {
        machine.end_move();
    }
    (machine, counts)
}

/// All steps in the long form, every `few`th in the short one.
fn every(few: usize) -> usize {
    if std::env::var_os("FRS_CHECKPOINT_CUTS").is_some() { 1 } else { few }
}

/// Runs a test below in a process of its own, which dies at this step. 0: it does not die.
fn run(victim: &str, machine: &Machine, kill_at: u64) -> ExitStatus {
    std::fs::write(machine.dir.path().join("map.xml"), &machine.map).unwrap();
    Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", &format!("tests::store::checkpoint::killed::{victim}")])
        .env("FRS_CRASH_DIR", machine.dir.path())
        .env("FRS_CRASH_MOVES", if machine.moving.is_empty() { "0" } else { "1" })
        .env("FRS_CRASH_AT", kill_at.to_string())
        .stdout(Stdio::null())
        .status()
        .unwrap()
}

/// Not a test: the keeper that is killed.
#[test]
#[ignore = "a program that a_keeper_is_killed_at_each_step_of_a_pass starts"]
fn keeper() {
    let [dir, kill_at] = ["FRS_CRASH_DIR", "FRS_CRASH_AT"].map(told);
    let dir = Path::new(&dir);
    let take = || Checkpointer::new(&dir.join("data"), &dir.join("live")).unwrap();
    // The test made checkpoints too, and dropped the lock. A program that another test starts keeps
    // it between its fork and its exec.
    let begun = Instant::now();
    while take().is_none() && begun.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(1));
    }
    crash::arm(kill_at.parse().unwrap());
    let passes = take().expect("the lock").pass(&["g".to_owned()], RATE, &Unpaced);
    crash::disarm();
    assert!(all_done(&passes), "{passes:?}");
}

/// Not a test: the process that is killed while it restores.
#[test]
#[ignore = "a program that a_restore_is_killed_at_each_step_and_begins_again starts"]
fn starter() {
    let [dir, kill_at] = ["FRS_CRASH_DIR", "FRS_CRASH_AT"].map(told);
    let dir = Path::new(&dir);
    let map = std::fs::read_to_string(dir.join("map.xml")).unwrap();
    let conf = Conf::parse("srv.xml", &srv_in(dir), "map.xml", &map).unwrap();
    Runtime::create_or_open(&dir.join("data")).unwrap();
    let mut moves = Moves::default();
    if told("FRS_CRASH_MOVES") == "1" {
        moves.in_force.insert("g".to_owned(), MoveMode::Lossless);
    }
    fault::die_at(kill_at.parse().unwrap());
    let prepared = prepare_with(&conf, Preparing::careful(&moves)).unwrap();
    assert_eq!(prepared.restored, ["g"]);
}

// Shows: checkpoints.
#[test]
fn a_keeper_is_killed_at_each_step_of_a_pass() {
    for stage in STAGES {
        let mut kills = 0;
        let first = 1 + stage as u64;
        for nth in (first..).step_by(every(if stage == Stage::Still { 5 } else { 17 })) {
            let (mut machine, least) = machine_at(stage);
            let mut counts = least.clone();
            machine.use_keys(&mut counts);
            let status = run("keeper", &machine, nth);
            let is_killed = status.signal() == Some(9);
            assert!(is_killed || status.success(), "{stage:?}, step {nth}: {status}");
            kills += u64::from(is_killed);
            let goes_on = kills % 2 == 0;
            if goes_on {
                // A new keeper takes over, and all marks that the dead one took are kept.
                machine.expect_whole_passes(1);
            }
            machine.go_down();
            let prepared = machine.start(false);
            assert_eq!((prepared.restored.len(), prepared.dropped_nodes), (1, 0), "{prepared:?}");
            let least = if goes_on || !is_killed { &counts } else { &least };
            for ((found, least), most) in machine.counts().iter().zip(least).zip(&counts) {
                assert!((least..=most).contains(&found), "{stage:?}, step {nth}");
            }
            if !is_killed {
                break;
            }
        }
        println!("{stage:?}: killed {kills} times");
        assert!(kills > 2, "{stage:?}: {kills}");
    }
}

// Shows: checkpoints.
#[test]
fn a_restore_is_killed_at_each_step_and_begins_again() {
    for stage in [Stage::Still, Stage::Going] {
        let (mut machine, counts) = machine_at(stage);
        let files = if stage == Stage::Still { 2 } else { 2 + 3 };
        for nth in (1..).step_by(every(if stage == Stage::Still { 5 } else { 17 })) {
            machine.go_down();
            let status = run("starter", &machine, nth);
            let is_killed = status.signal() == Some(9);
            assert!(is_killed || status.success(), "{stage:?}, step {nth}: {status}");
            let prepared = machine.start(false);
            assert_eq!((prepared.dropped_nodes, &*prepared.unserved), (0, &[][..]));
            assert_eq!(prepared.moving.is_empty(), stage == Stage::Still, "step {nth}");
            assert_eq!(machine.counts(), counts, "{stage:?}, step {nth}");
            if !is_killed {
                assert!(nth > 3 * files, "{stage:?}: {nth}");
                break;
            }
        }
    }
}
