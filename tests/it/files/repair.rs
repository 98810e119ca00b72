//! Whatever replaces a file of the data directory, frs-inspect never hangs. After `verify --repair`
//! either the server serves, or the tool has reported what to remove, and the loss.

use std::path::Path;
use std::process::{Command, Output};

use crate::common::{Settings, Setup, text, wait_until};

const MAP: &str = r#"<map>
  <group name="default" files="2" key-nodes="64" chain="8" node-size="128"/>
  <biz id="1" name="plenty" key="string">
    <limit policy="interval" interval="1h" max="1000000"/>
  </biz>
</map>
"#;

/// A setup whose server charged a key, was reset and degraded once, and was killed.
fn killed() -> Setup {
    let setup = Setup::of_map(MAP);
    std::fs::create_dir(setup.path("data")).expect("made");
    std::fs::write(setup.path("data/overlay"), "epoch 1 3\n").expect("written");
    let mut server = setup.start();
    server.wait_for_workers(2);
    server.client().charge("plenty", "alice", 7);
    server.kill_all_and_wait();
    drop(server);
    setup
}

/// Runs frs-inspect to its end.
fn inspect(setup: &Setup, arguments: &[&str]) -> Output {
    let mut child = setup
        .inspector(arguments)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("frs-inspect runs");
    wait_until("it ends", || child.try_wait().expect("waited"));
    child.wait_with_output().expect("heard")
}

const KINDS: [&str; 4] = ["garbage", "nothing", "directory", "pipe"];

/// Replaces a file by something else.
fn replace(path: &Path, kind: &str) {
    let _ = std::fs::remove_file(path);
    match kind {
        "garbage" => {
            // No two adjacent bytes are equal, and many are not UTF-8.
            let bytes: Vec<u8> = (0..20_000_u32).map(|n| (n * 151 + n / 256) as u8).collect();
            std::fs::write(path, bytes).expect("written");
        }
        "nothing" => std::fs::write(path, "").expect("written"),
        "directory" => std::fs::create_dir(path).expect("made"),
        "pipe" => {
            let made = Command::new("mkfifo").arg(path).status().expect("mkfifo runs");
            assert!(made.success());
        }
        other => panic!("{other}"),
    }
}

/// Damages a file in each way. `used` returns the expected use of the key afterwards.
fn damaged(name: &str, mut used: impl FnMut(&str) -> &'static str) {
    let setup = killed();
    let data = setup.path("data");
    let kept = setup.path("kept");
    let copy = |from: &Path, to: &Path| {
        let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp runs");
        assert!(copied.success());
    };
    copy(&data, &kept);
    for kind in KINDS {
        std::fs::remove_dir_all(&data).expect("removed");
        copy(&kept, &data);
        let path = data.join(name);
        replace(&path, kind);
        for command in ["verify", "dump", "stat"] {
            inspect(&setup, &[command, "data"]);
        }
        let repaired = inspect(&setup, &["verify", "data", "--repair"]);
        let said = text(&repaired.stdout) + &text(&repaired.stderr);
        if !repaired.status.success() {
            let is_group = name.ends_with(".mmap") && name != "runtime.mmap";
            let remove = if is_group { "default.*.mmap".to_owned() } else { name.to_owned() };
            assert!(
                said.contains("remove") && said.contains(&format!("data/{remove}")),
                "{name}, {kind}: {said}"
            );
            assert!(said.contains("costs") || said.contains("is lost"), "{name}, {kind}: {said}");
            let others = ["default.0.mmap", "default.1.mmap"];
            let all = if is_group { &others[..] } else { &[name][..] };
            for path in all.iter().map(|name| data.join(name)) {
                std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir(&path)).expect("gone");
            }
        }
        let mut server = setup.start();
        let answer = server.client().get("/query?biz=plenty&key=alice");
        assert_eq!(answer.attribute("used"), Some(used(kind)), "{name}, {kind}: {said}");
        server.kill_all_and_wait();
    }
}

// Shows: inspection.
#[test]
fn in_place_of_what_was_switched_and_reset() {
    // The overlay is written again as published. A directory is not replaced: then the reset is
    // forgotten, and later counts belong to another epoch.
    damaged("overlay", |kind| match kind {
        "directory" => "0",
        // An empty file is valid, as if there had been no reset.
        "nothing" => "0",
        _ => "7",
    });
}

#[test]
fn in_place_of_the_published_configuration() {
    damaged("conf.active.1", |_| "7");
}

#[test]
fn in_place_of_the_socket_for_commands() {
    damaged("control", |_| "7");
}

#[test]
fn in_place_of_files_of_former_versions() {
    damaged("reload", |_| "7");
    damaged("asked", |_| "7");
}

#[test]
fn in_place_of_runtime_mmap() {
    damaged("runtime.mmap", |_| "7");
}

// Shows: inspection.
#[test]
fn in_place_of_a_groups_files() {
    damaged("default.0.mmap", |_| "0");
    damaged("default.1.mmap", |_| "0");
}

// Shows: repair-names-files.
#[test]
fn a_group_file_that_is_a_link_to_nowhere_is_not_sound() {
    let setup = Setup::new(&Settings::default());
    let mut server = setup.start();
    server.signal(nix::sys::signal::Signal::SIGTERM);
    server.wait();
    drop(server);
    let path = setup.path("data/default.0.mmap");
    std::fs::remove_file(&path).expect("removed");
    std::os::unix::fs::symlink("nowhere", &path).expect("linked");
    let repaired = setup.inspect(&["verify", "data", "--repair"]);
    let said = text(&repaired.stdout);
    assert_eq!(repaired.status.code(), Some(1), "{repaired:?}");
    assert!(said.contains("group default: cannot be repaired"), "{said}");
}
