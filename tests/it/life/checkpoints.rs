//! Checkpoints of a server whose live files do not survive a reboot: made periodically, on request
//! and at the end; restored at the start; reported when they are lost.

use std::fs;
use std::os::unix::fs::FileExt;

use nix::sys::signal::{Signal, kill};

use crate::common::{Client, Server, Settings, Setup, text, wait_until};

/// A machine in a directory: `live` is its memory, `data` its disk.
fn setup(checkpoint: &str) -> Setup {
    let setup = Setup::new(&Settings::default());
    let more = format!("<data live=\"live\" {checkpoint}/>");
    setup.write_srv(&Settings { more, ..Settings::default() });
    setup
}

fn used(client: &mut Client, key: &str) -> u64 {
    let answer = client.get(&format!("/query?biz=plenty&key={key}"));
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.attribute("used").map_or(0, |used| used.parse().expect("a number"))
}

/// Cuts the power.
fn go_down(setup: &Setup, server: &mut Server<'_>) {
    server.kill_all_and_wait();
    lose_memory(setup);
}

fn lose_memory(setup: &Setup) {
    fs::remove_dir_all(setup.path("live")).expect("removed");
    fs::remove_file(setup.path("data/runtime.mmap")).expect("removed");
}

// Shows: checkpoints.
#[test]
fn what_was_counted_before_a_checkpoint_is_there_after_the_machine_went_down() {
    let setup = setup("checkpoint=\"24h\"");
    let mut server = setup.start();
    server.client().charge("plenty", "alice", 7);
    let made = setup.frs(&["checkpoint"]);
    // The head of the chain and the record may be on two pages.
    let words = |pages| format!("group default: checkpoint 2, {pages} pages written\n");
    assert!([1, 2].map(words).contains(&text(&made.stdout).to_owned()), "{made:?}");
    assert!(made.status.success(), "{}", text(&made.stderr));
    server.client().charge("plenty", "alice", 2);
    let shown = setup.inspect(&["get", "data", "plenty", "alice", "--checkpoint"]);
    assert!(shown.status.success() && text(&shown.stdout).contains("7"), "{shown:?}");
    let verified = setup.inspect(&["verify", "data", "--checkpoint"]);
    assert!(verified.status.success(), "{verified:?}");
    go_down(&setup, &mut server);
    drop(server);
    let check = setup.frs(&["check"]);
    let words = text(&check.stdout);
    assert!(
        words.contains("restores group default (") && words.contains("checkpoint 2"),
        "{words}"
    );
    let server = setup.start();
    assert_eq!(used(&mut server.client(), "alice"), 7);
    assert!(setup.log().contains("restoring the group from a checkpoint"));
}

// Shows: checkpoints.
#[test]
fn passes_go_on_by_themselves_and_the_last_one_is_at_the_end() {
    let setup = setup("checkpoint=\"100ms\" checkpoint-rate=\"1MiB/s\"");
    let mut server = setup.start();
    server.client().charge("plenty", "alice", 3);
    for count in 1..4 {
        let before = setup.inspect(&["get", "data", "plenty", "bob", "--checkpoint"]);
        server.client().charge("plenty", "bob", count);
        wait_until("a pass has it", || {
            let now = setup.inspect(&["get", "data", "plenty", "bob", "--checkpoint"]);
            (now.status.success() && now.stdout != before.stdout).then_some(())
        });
    }
    server.client().charge("plenty", "alice", 2);
    // A killed keeper loses no mark, and its successor continues.
    let keeper = server.attached("keeper")[0];
    kill(keeper, Signal::SIGKILL).expect("killed");
    wait_until("another keeper", || {
        server.attached("keeper").iter().any(|&pid| pid != keeper).then_some(())
    });
    assert!(setup.frs(&["stop"]).status.success());
    server.wait();
    drop(server);
    lose_memory(&setup);
    let server = setup.start();
    assert_eq!(used(&mut server.client(), "alice"), 5);
    assert_eq!(used(&mut server.client(), "bob"), 6);
}

// Shows: checkpoints.
#[test]
fn a_stop_fails_where_the_last_checkpoint_cannot_be_made() {
    let setup = setup("checkpoint=\"24h\"");
    let server = setup.start();
    server.client().charge("plenty", "alice", 3);
    // Neither copy is newer, so the next pass writes this one.
    let path = setup.path("data/default.0.checkpoint.b");
    std::fs::remove_file(&path).expect("removed");
    std::fs::create_dir(&path).expect("made");
    let output = setup.frs(&["stop"]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("its last checkpoint was not made"), "{error}");
    assert!(setup.log().contains("no checkpoint was made"), "{}", setup.log());
    drop(server);
    std::fs::remove_dir(&path).expect("removed");
    // The health is bad until a checkpoint is made.
    let server = setup.start_unready();
    wait_until("a checkpoint is made", || {
        setup.frs(&["checkpoint"]).status.success().then_some(())
    });
    assert_eq!(used(&mut server.client(), "alice"), 3);
    assert_eq!(setup.frs(&["stop"]).status.code(), Some(0));
}

// Shows: checkpoints.
#[test]
fn a_page_that_the_disk_lost_is_named_by_verify_and_by_the_start() {
    let setup = setup("checkpoint=\"24h\"");
    let mut server = setup.start();
    server.client().charge("plenty", "alice", 7);
    assert!(setup.frs(&["checkpoint"]).status.success());
    // The first pass writes copy b, because neither copy is newer.
    for path in (0..).map(|file| setup.path(&format!("data/default.{file}.checkpoint.b"))) {
        let Ok(file) = fs::File::options().write(true).open(&path) else { break };
        let live = path.to_string_lossy().replace("data/", "live/").replace("checkpoint.b", "mmap");
        let end = fs::metadata(live).expect("there").len();
        (4096..end).step_by(4096).for_each(|at| {
            file.write_all_at(&vec![0; (end - at).min(4096) as usize], at).expect("zeroed");
        });
    }
    let verified = setup.inspect(&["verify", "data", "--checkpoint"]);
    let words = text(&verified.stdout);
    assert_eq!(verified.status.code(), Some(1), "{verified:?}");
    assert!(words.contains("its checksum fails: a restore drops its 1 records"), "{words}");
    go_down(&setup, &mut server);
    drop(server);
    let server = setup.start();
    assert_eq!(used(&mut server.client(), "alice"), 0);
    let log = setup.log();
    assert!(log.contains("its checksum fails") && log.contains("dropped=1"), "{log}");
    assert!(setup.frs(&["checkpoint"]).status.success());
    let verified = setup.inspect(&["verify", "data", "--checkpoint"]);
    assert!(verified.status.success(), "{verified:?}");
}

// Shows: failed-pass.
#[test]
fn a_pass_that_failed_is_tried_again_soon_and_health_is_good_then() {
    let setup = setup("checkpoint=\"24h\"");
    let server = setup.start();
    server.client().charge("plenty", "alice", 7);
    let path = setup.path("data/default.0.checkpoint.b");
    fs::remove_file(&path).expect("removed");
    fs::create_dir(&path).expect("made");
    assert_eq!(setup.frs(&["checkpoint"]).status.code(), Some(1));
    let health = || server.client().get("/health").status;
    assert_eq!(health(), 503);
    // The next keeper continues the failed pass.
    let keeper = server.attached("keeper")[0];
    kill(keeper, Signal::SIGKILL).expect("killed");
    wait_until("another keeper", || {
        server.attached("keeper").iter().any(|&pid| pid != keeper).then_some(())
    });
    assert_eq!(health(), 503);
    fs::remove_dir(&path).expect("removed");
    wait_until("a pass has ended", || (health() == 200).then_some(()));
    let shown = setup.inspect(&["get", "data", "plenty", "alice", "--checkpoint"]);
    assert!(shown.status.success() && text(&shown.stdout).contains("7"), "{shown:?}");
}

// Shows: checkpoints.
#[test]
fn a_group_without_a_checkpoint_is_named_and_begins_empty_only_where_that_is_accepted() {
    let setup = setup("checkpoint=\"24h\"");
    setup.write_map(
        r#"<map><group name="default" files="2" key-nodes="8" chain="8" node-size="128"/>
        <group name="other" files="1" key-nodes="8" chain="8" node-size="128"/>
        <biz id="1" name="plenty" key="string">
          <limit policy="interval" interval="1h" max="1000000"/></biz>
        <biz id="2" name="lost" key="string" group="other">
          <limit policy="interval" interval="1h" max="3"/></biz></map>"#,
    );
    let mut server = setup.start();
    server.client().charge("plenty", "alice", 7);
    server.client().charge("lost", "alice", 2);
    assert!(setup.frs(&["checkpoint"]).status.success());
    for side in ["a", "b"] {
        let path = setup.path(&format!("data/other.0.checkpoint.{side}"));
        let file = fs::File::options().write(true).open(path).expect("there");
        file.write_all_at(&[1; 64], 40).expect("scribbled");
    }
    go_down(&setup, &mut server);
    drop(server);
    let check = setup.frs(&["check"]);
    let words = text(&check.stdout) + &text(&check.stderr);
    assert!(words.contains("a start does not serve it: group other: "), "{words}");
    let strict = setup.frs(&["serve", "--strict"]);
    assert_eq!(strict.status.code(), Some(1));
    let words = text(&strict.stderr);
    assert!(words.contains("other") && words.contains("--accept-loss"), "{words}");
    let mut server = setup.start();
    let mut client = server.client();
    assert_eq!(used(&mut client, "alice"), 7);
    let answer = client.get("/update?biz=lost&key=alice");
    assert!(answer.body.contains("store"), "{}", answer.body);
    assert!(client.get("/health").body.contains("other"));
    go_down(&setup, &mut server);
    drop((client, server));
    let server = setup.start_accepting_loss();
    assert_eq!(server.client().get("/update?biz=lost&key=alice").status, 200);
    assert_eq!(used(&mut server.client(), "alice"), 7);
}

#[test]
fn a_server_without_checkpoints_says_so_and_maps_nothing_for_them() {
    let setup = setup("");
    let server = setup.start();
    let refused = setup.frs(&["checkpoint"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("no <data checkpoint>"), "{refused:?}");
    assert!(!setup.path("live/default.0.dirty").exists());
    assert!(!setup.path("data/default.0.checkpoint.a").exists());
    drop(server);
}

// Shows: checkpoints.
#[test]
fn a_group_with_checkpoints_grows_and_is_restored_as_it_has_become() {
    let setup = setup("checkpoint=\"24h\"");
    let map = |keys: u32| {
        format!(
            r#"<map><group name="default" keys="{keys}"/><biz id="1" name="plenty" key="string">
            <limit policy="interval" interval="1h" max="1000000"/></biz></map>"#
        )
    };
    setup.write_map(&map(1000));
    let mut server = setup.start();
    server.client().charge("plenty", "alice", 7);
    assert!(setup.frs(&["checkpoint"]).status.success());
    // A change that fits the files needs no new files.
    setup.write_map(&map(1010));
    assert!(setup.frs(&["reload"]).status.success());
    let length = || fs::metadata(setup.path("live/default.0.mmap")).expect("there").len();
    let before = length();
    setup.write_map(&map(100_000));
    let reloaded = setup.frs(&["reload"]);
    assert!(reloaded.status.success(), "{reloaded:?}");
    wait_until("the group has moved", || (length() > before).then_some(()));
    let grown = length();
    server.client().charge("plenty", "alice", 2);
    // The power is cut before the grown group has a checkpoint.
    go_down(&setup, &mut server);
    drop(server);
    let mut server = setup.start();
    assert_eq!(used(&mut server.client(), "alice"), 7);
    wait_until("the group has moved again", || (length() == grown).then_some(()));
    server.client().charge("plenty", "alice", 3);
    assert!(setup.frs(&["checkpoint"]).status.success());
    go_down(&setup, &mut server);
    drop(server);
    let server = setup.start();
    assert_eq!((used(&mut server.client(), "alice"), length()), (10, grown));
    let files = fs::read_dir(setup.path("data")).expect("readable");
    let mut names = files.map(|entry| entry.expect("an entry").file_name());
    assert!(!names.any(|name| name.to_string_lossy().contains(".next.")));
}
