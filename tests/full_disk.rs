//! A full disk: an error that says so, nothing left behind, and no harm to who serves already.
//!
//! On a small file system in memory, which only root may mount: elsewhere these tests say that they
//! are skipped, and fail if FRS_REQUIRE_ALL=1.

mod common;

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Settings, Setup, needs, text};

/// Both groups at once do not fit beside runtime.mmap, one of them does.
const DISK_BYTES: u64 = 24 << 20;
const GROUP: &str = r#"files="2" key-nodes="1024" chain="56" node-size="64""#;

/// A file system, unmounted when it is dropped.
struct Disk(PathBuf);

impl Disk {
    /// None: not permitted.
    fn mount(at: &Path) -> Option<Disk> {
        std::fs::create_dir(at).expect("created");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={DISK_BYTES}"), "frs-test"])
            .arg(at)
            .output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Disk(at.to_owned()));
        }
        needs::skip("mounting a file system is not permitted");
        None
    }

    /// Takes all of its blocks but so many bytes.
    fn fill(&self, but_bytes: u64) -> PathBuf {
        let path = self.0.join("ballast");
        let mut file = File::create(&path).expect("created");
        while file.write_all(&[1; 4096]).is_ok() {}
        let length = file.metadata().expect("there").len();
        file.set_len(length - but_bytes).expect("cut");
        path
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn map(groups: &[&str]) -> String {
    let elements: String = groups
        .iter()
        .enumerate()
        .map(|(nth, name)| {
            let id = nth + 1;
            format!(
                "<group name=\"{name}\" {GROUP}/><biz id=\"{id}\" name=\"{name}\" group=\"{name}\" \
                 key=\"string\"><limit policy=\"total\" max=\"9\"/></biz>"
            )
        })
        .collect();
    format!("<map>{elements}</map>")
}

/// Names in the data directory.
fn files(disk: &Disk) -> Vec<String> {
    let entries = std::fs::read_dir(disk.0.join("data")).expect("readable");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn expect_no_drafts(disk: &Disk, group: &str) {
    let names = files(disk);
    assert!(!names.iter().any(|name| name.ends_with(".new")), "drafts are left: {names:?}");
    assert!(!names.iter().any(|name| name.starts_with(group)), "half a group: {names:?}");
}

fn setup() -> Option<(Disk, Setup)> {
    let setup = Setup::new(&Settings::default());
    let disk = Disk::mount(&setup.path("disk"))?;
    let more = format!("<data dir=\"{}\"/>", disk.0.join("data").display());
    setup.write_srv(&Settings { more, ..Settings::default() });
    setup.write_map(&map(&["one"]));
    Some((disk, setup))
}

#[test]
fn a_start_on_a_full_disk_says_so_and_leaves_nothing() {
    let Some((disk, setup)) = setup() else { return };
    // From no room at all to not quite enough.
    for room in [0, 4096, 64 << 10, 512 << 10, 1 << 20, 2 << 20, 5 << 20] {
        let ballast = disk.fill(room);
        let status = setup.start_unready().wait();
        let said = setup.log();
        assert_eq!(status.code(), Some(1), "with {room} bytes: {said}");
        assert!(said.contains("No space left on device"), "with {room} bytes: {said}");
        assert!(said.contains(&disk.0.display().to_string()), "names no file: {said}");
        if disk.0.join("data").exists() {
            expect_no_drafts(&disk, "one.");
        }
        std::fs::remove_file(ballast).expect("removed");
        std::fs::remove_file(setup.path("log")).expect("a log");
    }
    let server = setup.start();
    assert_eq!(server.client().get("/update?biz=one&key=k").status, 200);
}

#[test]
fn a_reload_that_does_not_fit_is_refused_and_the_old_configuration_serves_on() {
    let Some((disk, setup)) = setup() else { return };
    let server = setup.start();
    let mut client = server.client();
    assert_eq!(client.get("/update?biz=one&key=k").attribute("used"), Some("1"));
    let before = files(&disk);
    setup.write_map(&map(&["one", "two", "three"]));
    for nth in 2..5 {
        let output = setup.frs(&["reload"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("No space left on device"), "{said}");
        assert!(said.contains("stays in force"), "{said}");
        expect_no_drafts(&disk, "three.");
        let answer = client.get("/update?biz=one&key=k");
        assert_eq!(answer.attribute("used"), Some(nth.to_string().as_str()), "{answer:?}");
        assert_eq!(client.get("/update?biz=two&key=k").attribute("error"), Some("unknown-biz"));
    }
    // What fits is taken, then as ever.
    setup.write_map(&map(&["one", "two"]));
    let output = setup.frs(&["reload"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(client.get("/update?biz=two&key=k").attribute("used"), Some("1"));
    assert!(files(&disk).len() > before.len());
}
