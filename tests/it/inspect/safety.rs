//! frs-inspect under difficult conditions: counters that were reset, other users' directories,
//! files cut while it reads them, and a closed output.

use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::common::terminal::{Left, Size, Terminal};
use crate::common::{Setup, needs, text};

const MAP: &str = r#"<map>
  <group name="default" files="1" key-nodes="64" chain="8" node-size="128"/>
  <group name="second" files="1" key-nodes="64" chain="8" node-size="128"/>
  <biz id="1" name="plenty" key="string">
    <limit policy="interval" interval="1h" max="1000000"/>
  </biz>
  <biz id="2" name="three" key="string">
    <limit policy="interval" interval="1h" max="3" ban="10m"/>
  </biz>
</map>
"#;

/// The exit status, and both outputs.
fn heard(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), text(&output.stdout) + &text(&output.stderr))
}

/// Makes a server charge two keys, and kills it.
fn charged(setup: &Setup) {
    let mut server = setup.start();
    server.wait_for_workers(2);
    let mut client = server.client();
    client.charge("plenty", "alice", 7);
    client.charge("three", "bob", 3);
    server.kill_all_and_wait();
}

fn used(setup: &Setup, biz: &str, key: &str) -> String {
    let server = setup.start();
    let answer = server.client().get(&format!("/query?biz={biz}&key={key}&detail=true"));
    answer.attribute("used").expect("used").to_owned()
}

/// The byte offset of the generation in force in runtime.mmap.
const GENERATION: u64 = 64 * 8;

const LARGER: [&str; 2] = ["key-nodes=\"64\"", "key-nodes=\"100\""];

// Shows: migration.
#[test]
fn a_migration_keeps_what_was_counted_since_a_reset() {
    let setup = Setup::of_map(MAP);
    std::fs::create_dir(setup.path("data")).expect("made");
    std::fs::write(setup.path("data/overlay"), "epoch 1 3\nepoch 2 255\n").expect("written");
    charged(&setup);
    setup.write_map(&MAP.replace(LARGER[0], LARGER[1]));
    let (status, said) = heard(&setup.inspect(&["migrate", "data", "--conf", "conf"]));
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("group default: migrated, 2 nodes"), "{said}");
    assert_eq!((&*used(&setup, "plenty", "alice"), &*used(&setup, "three", "bob")), ("7", "3"));
}

#[test]
fn root_leaves_the_files_to_whose_directory_it_is() {
    if !nix::unistd::geteuid().is_root() {
        return needs::skip("it takes root to give files to another user");
    }
    let setup = Setup::of_map(MAP);
    charged(&setup);
    // The other user must be able to enter the directory.
    let modes = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(setup.dir.path(), modes).expect("set");
    let nobody = |path: &std::path::Path| {
        std::os::unix::fs::chown(path, Some(65_534), Some(65_534)).expect("given");
    };
    for entry in std::fs::read_dir(setup.path("data")).expect("there") {
        nobody(&entry.expect("read").path());
    }
    nobody(&setup.path("data"));
    let owners = || -> Vec<(String, u32)> {
        let entries = std::fs::read_dir(setup.path("data")).expect("there");
        let owner = |entry: std::io::Result<std::fs::DirEntry>| {
            let entry = entry.expect("read");
            let owner = entry.metadata().expect("known").uid();
            (entry.file_name().to_string_lossy().into_owned(), owner)
        };
        entries.map(owner).filter(|&(_, owner)| owner != 65_534).collect()
    };
    // As after a reboot whose clean-up removed these two files.
    std::fs::remove_file(setup.path("data/runtime.mmap")).expect("removed");
    std::fs::remove_file(setup.path("data/lock")).expect("removed");
    let (status, said) = heard(&setup.inspect(&["verify", "data", "--repair"]));
    assert_eq!((status, owners()), (Some(0), vec![]), "{said}");
    setup.write_map(&MAP.replace(LARGER[0], LARGER[1]));
    let (status, said) = heard(&setup.inspect(&["migrate", "data", "--conf", "conf"]));
    assert_eq!((status, owners()), (Some(0), vec![]), "{said}");
}

#[test]
fn no_link_in_the_directory_leads_elsewhere() {
    let setup = Setup::of_map(MAP);
    charged(&setup);
    std::fs::write(setup.path("precious"), "kept").expect("written");
    std::fs::remove_file(setup.path("data/runtime.mmap")).expect("removed");
    for draft in ["runtime.mmap.new", "default.0.mmap.migrating"] {
        let link = setup.path("data").join(draft);
        std::os::unix::fs::symlink(setup.path("precious"), link).expect("linked");
    }
    setup.write_map(&MAP.replace(LARGER[0], LARGER[1]));
    let (status, said) = heard(&setup.inspect(&["migrate", "data", "--conf", "conf"]));
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(std::fs::read_to_string(setup.path("precious")).expect("there"), "kept");
    assert_eq!(used(&setup, "plenty", "alice"), "7");
}

#[test]
fn nobody_who_hears_of_faults_is_no_fault() {
    let setup = Setup::of_map(MAP);
    charged(&setup);
    let file = std::fs::File::options().write(true).open(setup.path("data/default.0.mmap"));
    file.and_then(|file| file.set_len(8192)).expect("cut");
    for arguments in [&["dump", "data"][..], &["stat", "data"], &["top", "data", "plenty"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let status = setup
            .inspector(arguments)
            .stdout(Stdio::null())
            .stderr(OwnedFd::from(writer))
            .status()
            .expect("frs-inspect runs");
        assert_eq!(status.code(), Some(1), "{arguments:?}");
    }
}

#[test]
fn a_generation_that_is_not_there_keeps_nobody_from_looking() {
    let setup = Setup::of_map(MAP);
    charged(&setup);
    // After a power cut either of the two files may be older.
    let bytes = 77_u64.to_le_bytes();
    let file = std::fs::File::options().write(true).open(setup.path("data/runtime.mmap"));
    file.and_then(|file| file.write_all_at(&bytes, GENERATION)).expect("written");
    let (status, said) = heard(&setup.inspect(&["dump", "data"]));
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("plenty \"alice\""), "{said}");
    let (status, said) = heard(&setup.inspect(&["verify", "data", "--repair"]));
    assert_eq!(status, Some(0), "{said}");
}

#[test]
fn another_place_of_live_files_is_no_migration() {
    let setup = Setup::of_map(MAP);
    let srv = |live: &str| {
        let srv = std::fs::read_to_string(setup.path("conf/srv.xml")).expect("there");
        let srv = srv.replace("<data live=\"live-1\"/>", "");
        let data = format!("<data live=\"{live}\"/></srv>");
        std::fs::write(setup.path("conf/srv.xml"), srv.replace("</srv>", &data)).expect("written");
    };
    srv("live-1");
    charged(&setup);
    setup.write_map(&MAP.replace(LARGER[0], LARGER[1]));
    srv("live-2");
    let (status, said) = heard(&setup.inspect(&["migrate", "data", "--conf", "conf"]));
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("live-1") && said.contains("moves no files"), "{said}");
}

#[test]
fn nodes_of_a_business_in_another_group_are_told_beforehand() {
    let setup = Setup::of_map(MAP);
    charged(&setup);
    let moved = MAP.replace("name=\"three\"", "name=\"three\" group=\"second\"");
    setup.write_map(&moved.replace(LARGER[0], LARGER[1]));
    let (status, said) = heard(&setup.inspect(&["migrate", "data", "--conf", "conf"]));
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("1 live nodes WOULD BE LOST: map.xml has their business"), "{said}");
    assert!(said.contains("nothing was changed"), "{said}");
    let (status, said) = heard(&setup.inspect(&["migrate", "data", "--conf", "conf", "--lossy"]));
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(used(&setup, "plenty", "alice"), "7");
}

#[test]
fn a_group_of_another_name_is_told_to_begin_empty() {
    let setup = Setup::of_map(MAP);
    charged(&setup);
    let renamed = MAP.replace("<biz", "<biz group=\"main\"");
    setup.write_map(&renamed.replace("name=\"default\"", "name=\"main\""));
    let (status, said) = heard(&setup.inspect(&["migrate", "data", "--conf", "conf"]));
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("business plenty: group default → main: its nodes do not"), "{said}");
}

// Shows: migration.
#[test]
fn a_disk_that_is_full_for_one_group_leaves_all_of_them_as_they_are() {
    let setup = Setup::of_map(MAP);
    charged(&setup);
    let second = "name=\"second\" files=\"1\" key-nodes=\"64\"";
    let larger = MAP.replace(second, &second.replace("64", "9000"));
    setup.write_map(&larger.replace(LARGER[0], LARGER[1]));
    // Limits files to some MiB, and ignores the signal for larger ones.
    let limited = "trap '' XFSZ; ulimit -f 4000; exec \"$@\"";
    let output = Command::new("sh")
        .current_dir(setup.dir.path())
        .args(["-c", limited, "sh"])
        .arg(crate::common::tools::tool("frs-inspect"))
        .args(["migrate", "data", "--conf", "conf"])
        .output()
        .expect("sh runs");
    let (status, said) = heard(&output);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("second.0.mmap"), "{said}");
    let names = std::fs::read_dir(setup.path("data")).expect("there");
    let drafts = names.filter(|entry| {
        let name = entry.as_ref().expect("read").file_name();
        name.to_string_lossy().contains("migrat")
    });
    assert_eq!(drafts.count(), 0, "their blocks are given back");
    setup.write_map(MAP);
    assert_eq!(used(&setup, "plenty", "alice"), "7", "the old map still serves");
}

#[test]
fn a_start_gives_back_what_a_broken_migration_took() {
    let setup = Setup::of_map(MAP);
    charged(&setup);
    let draft = setup.path("data/default.7.mmap.migrating");
    std::fs::write(&draft, "never committed").expect("written");
    assert_eq!(used(&setup, "plenty", "alice"), "7");
    assert!(!draft.exists());
}

/// Runs `watch` on its own terminal, and ends it with `end` once it has drawn.
fn watched(setup: &Setup, end: impl FnOnce(Pid)) -> Left {
    let size = Size { columns: 100, rows: 30 };
    let mut terminal = Terminal::start(&setup.inspector(&["watch", "data"]), size);
    terminal.wait_for("what it draws", |lines| {
        lines.iter().any(|line| line.starts_with("hot keys")).then_some(())
    });
    end(terminal.pid());
    terminal.left()
}

// Shows: watch.
#[test]
fn watch_gives_the_terminal_back_however_it_ends() {
    let setup = Setup::of_map(MAP);
    charged(&setup);
    for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT] {
        let left = watched(&setup, |pid| nix::sys::signal::kill(pid, signal).expect("signalled"));
        assert_eq!(left.status.signal(), Some(signal as i32));
        assert!(left.is_restored, "{signal}: {:?}", left.said);
    }
    for name in ["default.0.mmap", "runtime.mmap"] {
        let file = std::fs::File::options().write(true).open(setup.path("data").join(name));
        let file = file.expect("there");
        let left = watched(&setup, |_| file.set_len(0).expect("cut"));
        assert_eq!(left.status.code(), Some(86), "{:?}", left.said);
        assert!(left.is_restored, "{name}: {:?}", left.said);
        assert!(left.said.contains(&format!("cannot read data/{name}")), "{:?}", left.said);
        std::fs::remove_dir_all(setup.path("data")).expect("removed");
        charged(&setup);
    }
}
