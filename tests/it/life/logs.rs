//! Log rotation.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{Life, under_load};
use crate::common::load::wait_for_more;
use crate::common::{Client, Settings, Setup, descriptors, text, wait_until};

const FILE_LOG: &str = "<log level=\"debug\" file=\"frs.log\"/>";

/// The log files that the processes of a server have open in a directory.
fn open_files(pids: &BTreeSet<i32>, dir: &Path) -> BTreeSet<PathBuf> {
    let logs = pids
        .iter()
        .flat_map(|&pid| descriptors(Pid::from_raw(pid)).unwrap_or_default())
        .filter(|path| path.starts_with(dir) && path.to_string_lossy().contains("frs.log"));
    logs.collect()
}

// Shows: log-rotation.
#[test]
fn logs_rotated_under_load_lose_no_line_and_cut_none() {
    let setup = Setup::new(&Settings { more: FILE_LOG.to_owned(), ..Settings::default() });
    let life = Life::start(&setup);
    let (mut reloads, mut rotated) = (0, Vec::new());
    let dir = setup.dir.path().canonicalize().expect("there");
    under_load(setup.address, |answered| {
        for round in 0..5 {
            let old = setup.path(&format!("frs.log.{round}"));
            fs::rename(setup.path("frs.log"), &old).expect("renamed");
            rotated.push(old);
            // All processes write lines while they switch files.
            for _ in 0..3 {
                assert_eq!(setup.frs(&["reload"]).status.code(), Some(0));
                reloads += 1;
            }
            kill(life.master(), Signal::SIGUSR1).expect("signalled");
            let mut processes = life.workers();
            processes.insert(life.master().as_raw());
            processes.extend(keepers(&life));
            wait_until("all processes write to the new file", || {
                (open_files(&processes, &dir) == BTreeSet::from([dir.join("frs.log")]))
                    .then_some(())
            });
            assert_eq!(setup.frs(&["reload"]).status.code(), Some(0));
            reloads += 1;
            wait_for_more(answered, 50);
        }
    });
    life.upgrade();
    life.stop();
    rotated.push(setup.path("frs.log"));
    let lines: Vec<String> = rotated
        .iter()
        .flat_map(|path| {
            let text = fs::read_to_string(path).expect("readable");
            assert!(text.ends_with('\n'), "{}", path.display());
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    for line in &lines {
        let whole = line.starts_with("20") && line.matches("frs{role=").count() == 1;
        assert!(whole, "a line of its own: {line}");
    }
    let count = |what: &str| lines.iter().filter(|line| line.contains(what)).count();
    assert_eq!(count("the new configuration is in force"), reloads);
    assert_eq!(count("reopened the log"), 5);
    assert!(count("took a new configuration") >= reloads, "of the workers");
    assert_eq!(setup.log(), "", "nothing goes to standard error");
}

fn keepers(life: &Life<'_>) -> Vec<i32> {
    let status = life.status();
    let keepers = status.lines().filter(|line| line.starts_with("keeper "));
    keepers
        .filter_map(|line| line.split("process ").nth(1)?.split(',').next()?.parse().ok())
        .collect()
}

#[test]
fn a_log_that_cannot_be_opened_is_an_error_at_the_start_and_a_line_later() {
    let log =
        |file: &str| Settings { more: format!("<log file=\"{file}\"/>"), ..Settings::default() };
    let setup = Setup::new(&log("missing/frs.log"));
    let output = setup.frs(&["serve"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("missing/frs.log"), "{output:?}");

    fs::create_dir(setup.path("missing")).expect("created");
    let life = Life::start(&setup);
    fs::rename(setup.path("missing"), setup.path("moved")).expect("renamed");
    kill(life.first(), Signal::SIGUSR1).expect("signalled");
    wait_until("it is said in the old file", || {
        let log = fs::read_to_string(setup.path("moved/frs.log")).expect("readable");
        (log.matches("continues in the old file").count() == 4).then_some(())
    });
    assert_eq!(Client::connect(setup.address).get("/health").status, 200);
    let output = setup.frs(&["reload"]);
    assert_eq!(output.status.code(), Some(0));
    setup.write_srv(&log("moved/frs.log"));
    let output = setup.frs(&["reload"]);
    assert!(text(&output.stderr).contains("<log file>"), "{output:?}");
}
