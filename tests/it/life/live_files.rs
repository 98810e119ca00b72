//! Live files in a directory of their own belong to one data directory, even while no server runs
//! and after another binary has taken over.

use std::process::Command;

use nix::sys::signal::{Signal, kill};

use crate::common::{Settings, Setup, text, wait_until};

use super::Life;

/// Two servers whose live files are in the same directory.
fn two() -> [Setup; 2] {
    let both = [(); 2].map(|()| Setup::new(&Settings::default()));
    let live = both[0].path("live");
    for setup in &both {
        let more = format!("<data live=\"{}\" checkpoint=\"24h\"/>", live.display());
        setup.write_srv(&Settings { more, ..Settings::default() });
    }
    both
}

/// Checks that the second server does not start, and names the owner of the files.
fn refused([one, two]: &[Setup; 2]) -> String {
    let refused = two.frs(&["serve"]);
    let words = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{words}");
    for path in [one.path("data"), two.path("data"), one.path("live/owner")] {
        let path = path.canonicalize().expect("there");
        assert!(words.contains(&*path.to_string_lossy()), "{}: {words}", path.display());
    }
    words
}

// Shows: live-files.
#[test]
fn tools_leave_the_live_files_alone_that_a_copied_directory_names() {
    let [setup, _] = two();
    let server = setup.start();
    server.client().charge("plenty", "alice", 7);
    let copy = setup.path("copy");
    let copied =
        Command::new("cp").arg("-a").arg(setup.path("data")).arg(&copy).status().expect("cp runs");
    assert!(copied.success());
    let conf = setup.path("conf");
    let [copy, conf] = [&copy, &conf].map(|path| path.to_str().expect("a text"));
    for arguments in [&["verify", "--repair", copy][..], &["migrate", copy, "--conf", conf]] {
        let refused = setup.inspect(arguments);
        let words = text(&refused.stderr);
        assert_ne!(refused.status.code(), Some(0), "{arguments:?}: {words}");
        assert!(words.contains("the live files here belong to"), "{arguments:?}: {words}");
    }
    let worker = server.attached("worker")[0];
    kill(worker, Signal::SIGKILL).expect("killed");
    wait_until("another one serves", || {
        (!server.attached("worker").contains(&worker)).then_some(())
    });
    assert_eq!(super::used(setup.address, "alice"), 7);
}

// Shows: live-files.
#[test]
fn live_files_are_those_of_one_data_directory_whatever_becomes_of_its_server() {
    let both = two();
    let mut server = both[0].start();
    server.client().charge("plenty", "alice", 7);
    assert!(refused(&both).contains("whose server is running"));
    server.kill_all_and_wait();
    drop(server);
    assert!(!refused(&both).contains("whose server is running"));
    // The next server of the same data directory continues.
    let life = Life::start(&both[0]);
    assert_eq!(super::used(both[0].address, "alice"), 7);
    life.upgrade();
    wait_until("the new master has the lock", || {
        refused(&both).contains("whose server is running").then_some(())
    });
    assert!(life.stop().success());
    std::fs::remove_file(both[0].path("live/owner")).expect("removed");
    let server = both[1].start();
    assert!(server.client().get("/health").status == 200);
}
