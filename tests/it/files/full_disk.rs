//! A full disk causes a clear error, leaves nothing behind, and does not harm running servers.
//!
//! These tests use a small file system in memory, which only root may mount. Otherwise they report
//! that they are skipped, and fail if FRS_REQUIRE_ALL=1.

use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::plane::Plane;
use crate::common::{Server, Settings, Setup, needs, text, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::sys::statvfs::statvfs;

/// Room for one of the groups beside runtime.mmap, but not for both.
const DISK_BYTES: u64 = 32 << 20;
const GROUP: &str = r#"files="2" key-nodes="1024" chain="56" node-size="64""#;

/// A file system, unmounted when it is dropped.
struct Disk(PathBuf);

impl Disk {
    /// `None` if the mount is not permitted.
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

    /// XFS on a file. It needs free room even for files with all their blocks. `None` if not
    /// available.
    fn mount_xfs(at: &Path) -> Option<Disk> {
        Self::mount_image(at, "mkfs.xfs", "-f")
    }

    /// ext4 on a file. `None` if not available.
    fn mount_ext4(at: &Path) -> Option<Disk> {
        Self::mount_image(at, "mkfs.ext4", "-F")
    }

    fn mount_image(at: &Path, make: &str, force: &str) -> Option<Disk> {
        std::fs::create_dir(at).expect("created");
        let image = at.with_extension("image");
        // The smallest size that mkfs.xfs accepts.
        File::create(&image).expect("created").set_len(300 << 20).expect("sparse");
        let run = |command: &str, arguments: &[&str], path: &Path| {
            let mut command = Command::new(command);
            let output = command.args(arguments).arg(&image).arg(path).output();
            output.is_ok_and(|output| output.status.success())
        };
        if run(make, &[force], Path::new("-q")) && run("mount", &["-o", "loop"], at) {
            return Some(Disk(at.to_owned()));
        }
        needs::skip(&format!("{make} or mounting what it makes is not to be had"));
        None
    }

    /// Removes a file and waits until at least half of its blocks are free, because other processes
    /// write too. A process that was just killed, or one of another test, may hold the file a
    /// moment longer.
    fn remove(&self, path: &Path) {
        let bytes = path.metadata().expect("there").blocks() * 512;
        let before = self.free_bytes();
        std::fs::remove_file(path).expect("removed");
        wait_until("its blocks are free", || {
            (self.free_bytes() >= before + bytes / 2).then_some(())
        });
    }

    fn free_bytes(&self) -> u64 {
        let told = statvfs(&self.0).expect("a file system");
        told.blocks_free() * told.fragment_size()
    }

    /// Allocates all free blocks except for this many bytes.
    fn fill(&self, but_bytes: u64) -> PathBuf {
        let path = self.0.join("ballast");
        let mut file = File::options().create(true).append(true).open(&path).expect("created");
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

/// The names in the data directory.
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

// Shows: full-disk.
#[test]
fn a_start_on_a_full_disk_says_so_and_leaves_nothing() {
    let Some((disk, setup)) = setup() else { return };
    // From no room to almost enough.
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
        disk.remove(&ballast);
        std::fs::remove_file(setup.path("log")).expect("a log");
    }
    let server = setup.start();
    assert_eq!(server.client().get("/update?biz=one&key=k").status, 200);
}

// Shows: full-disk.
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
        assert!(said.contains(" free, and the new files need "), "{said}");
        assert!(said.contains("stays in force"), "{said}");
        expect_no_drafts(&disk, "three.");
        let answer = client.get("/update?biz=one&key=k");
        assert_eq!(answer.attribute("used"), Some(nth.to_string().as_str()), "{answer:?}");
        assert_eq!(client.get("/update?biz=two&key=k").attribute("error"), Some("unknown-biz"));
    }
    // A map that fits is accepted, and works as usual.
    setup.write_map(&map(&["one", "two"]));
    let output = setup.frs(&["reload"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(client.get("/update?biz=two&key=k").attribute("used"), Some("1"));
    assert!(files(&disk).len() > before.len());
}

// Shows: refused-preparation.
#[test]
fn a_group_without_room_to_grow_is_served_on_as_it_was() {
    let plane = Plane::new(1);
    let disk = Disk::mount(&plane.setup.path("disk"));
    disk.iter().for_each(|disk| expect_refused_growth(&plane, disk, ""));
}

// Shows: refused-preparation.
#[test]
fn a_group_without_room_to_grow_is_served_on_as_it_was_on_ext4() {
    let plane = Plane::new(1);
    let disk = Disk::mount_ext4(&plane.setup.path("disk"));
    disk.iter().for_each(|disk| expect_refused_growth(&plane, disk, ""));
}

// Shows: refused-preparation.
#[test]
fn a_group_without_room_to_grow_is_served_on_as_it_was_with_checkpoints_on_xfs() {
    let plane = Plane::new(1);
    let disk = Disk::mount_xfs(&plane.setup.path("disk"));
    disk.iter().for_each(|disk| expect_refused_growth(&plane, disk, "checkpoint=\"24h\""));
}

/// The names in the data directory, without generations and without the log and the guard of
/// changes.
fn lasting(disk: &Disk) -> Vec<String> {
    let is_other = |name: &String| {
        !name.starts_with("conf.active.") && !["changes.log", "change"].contains(&name.as_str())
    };
    files(disk).into_iter().filter(is_other).collect()
}

fn expect_refused_growth(plane: &Plane, disk: &Disk, data: &str) {
    let more = format!(
        "<admin listen=\"{}\" token-file=\"conf/token\"/><data dir=\"{}\" {data}/>",
        plane.address,
        disk.0.join("data").display()
    );
    plane.setup.write_srv(&Settings { workers: 1, more, ..Settings::default() });
    let first = map(&["one"]);
    let larger = first.replace("1024", "1200");
    plane.setup.write_map(&first);
    let server = plane.start(1);
    let mut client = server.client();
    let mut used = 0;
    let mut expect_served = || {
        used += 1;
        let answer = client.get("/update?biz=one&key=k");
        assert_eq!(answer.attribute("used"), Some(used.to_string().as_str()), "{answer:?}");
        let health = client.get("/health");
        assert!(health.status == 200 && !health.body.contains("store"), "{health:?}");
    };
    expect_served();
    let ballast = disk.fill(4 << 20);
    let before = lasting(disk);
    let refused = || plane.setup.log().matches("the new configuration is refused").count();
    // A larger group, then a second one. Blocks that ext4 reserves count as free.
    for map in [&larger, &map(&["one", "two"]).replace("1024", "1200")] {
        plane.setup.write_map(map);
        let output = plane.setup.frs(&["reload"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(" free, and the new files need "), "{said}");
        let check = plane.setup.frs(&["check"]);
        let told = text(&check.stderr);
        assert_eq!(check.status.code(), Some(1), "{told}");
        assert!(told.contains(" free, and the new files need "), "{told}");
        let last = told.lines().last().expect("a line");
        assert_eq!(last, "refused: a start or a reload would fail");
        assert_eq!(lasting(disk), before);
        expect_served();
        let count = refused();
        kill(server.master(), Signal::SIGHUP).expect("signalled");
        wait_until("it is refused", || (refused() > count).then_some(()));
        assert_eq!(lasting(disk), before);
        expect_served();
    }
    // The same map again.
    plane.setup.write_map(&first);
    let output = plane.setup.frs(&["reload"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    expect_served();
    let long = "<biz id=\"9\" name=\"b9\" group=\"one\" key=\"string\">\
                <limit policy=\"sliding\" interval=\"1m\" max=\"50\"/></biz>";
    let answer = plane.ask("PUT", "/biz/9?grow=true", long);
    assert_eq!(answer.status, 507, "{answer:?}");
    assert!(answer.body.contains("no-room"), "{answer:?}");
    assert_eq!((plane.map(), lasting(disk)), (first, before));
    expect_served();
    // The answer needs no room, even the room that the file system reserves.
    std::fs::remove_file(&ballast).expect("removed");
    let ballast = disk.fill(0);
    plane.setup.write_map(&larger);
    let output = plane.setup.frs(&["reload"]);
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("stays in force"), "{said}");
    expect_served();
    disk.remove(&ballast);
    let output = plane.setup.frs(&["reload"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    wait_until("it has moved", || plane.setup.log().contains("the group has moved").then_some(()));
    expect_served();
}

/// A server with an admin plane whose data is on a full disk.
fn on_a_full_disk<'a>(plane: &'a Plane, disk: &Disk) -> Server<'a> {
    let more = format!(
        "<admin listen=\"{}\" token-file=\"conf/token\"/><data dir=\"{}\"/>",
        plane.address,
        disk.0.join("data").display()
    );
    plane.setup.write_srv(&Settings { workers: 2, more, ..Settings::default() });
    plane.setup.write_map(&map(&["one"]));
    let server = plane.start(2);
    disk.fill(0);
    server
}

// Shows: full-disk.
#[test]
fn whoever_dies_is_replaced_on_a_full_disk() {
    let plane = Plane::new(2);
    let disk = Disk::mount(&plane.setup.path("disk"));
    disk.iter().for_each(|disk| expect_replacements(&plane, disk));
}

// Shows: full-disk.
#[test]
fn whoever_dies_is_replaced_on_a_full_disk_of_xfs() {
    let plane = Plane::new(2);
    let disk = Disk::mount_xfs(&plane.setup.path("disk"));
    disk.iter().for_each(|disk| expect_replacements(&plane, disk));
}

fn expect_replacements(plane: &Plane, disk: &Disk) {
    let server = on_a_full_disk(plane, disk);
    let mut used = 0;
    for round in 0..6 {
        let (workers, keepers) = (server.wait_for_workers(2), server.attached("keeper"));
        let killed = match round {
            0..3 => keepers,
            _ => [workers, keepers].concat(),
        };
        assert!(!killed.is_empty());
        killed.iter().for_each(|&pid| kill(pid, Signal::SIGKILL).expect("killed"));
        wait_until("all are replaced", || {
            let now = [server.workers(), server.attached("keeper")].concat();
            let all_new = killed.iter().all(|pid| !now.contains(pid));
            (all_new && now.len() == 3 && !server.attached("admin").is_empty()).then_some(())
        });
        used += 1;
        let answer = wait_until("an answer", || {
            crate::common::Client::try_connect(plane.setup.address)?
                .try_get("/update?biz=one&key=k")
                .ok()
        });
        assert_eq!(answer.attribute("used"), Some(used.to_string().as_str()), "{answer:?}");
        assert_eq!(plane.ask("GET", "/stats", "").status, 200);
    }
    // The disk was full before there was a history.
    let log = plane.setup.log();
    let mut lines = log.lines().filter(|line| !line.contains("no history is kept"));
    assert!(!lines.any(|line| line.contains("No space left")), "{log}");
}

// Shows: checkpoints.
#[test]
fn what_there_is_no_room_to_copy_is_in_the_checkpoint_that_there_is_room_for_later() {
    let Some((disk, setup)) = setup() else { return };
    let (data, live) = (disk.0.join("data"), setup.path("live"));
    let more = format!(
        "<data dir=\"{}\" live=\"{}\" checkpoint=\"24h\"/>",
        data.display(),
        live.display()
    );
    setup.write_srv(&Settings { more, ..Settings::default() });
    let mut server = setup.start();
    server.client().charge("one", "kept", 3);
    // One copy of each pair must be written anew.
    for index in 0..2 {
        std::fs::remove_file(data.join(format!("one.{index}.checkpoint.b"))).expect("removed");
    }
    let ballast = disk.fill(0);
    for _ in 0..2 {
        let refused = setup.frs(&["checkpoint"]);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        assert!(text(&refused.stderr).contains("one"), "{refused:?}");
        wait_until("the keeper logs why", || {
            setup.log().contains("No space left on device").then_some(())
        });
        let names = files(&disk);
        assert!(!names.iter().any(|name| name.ends_with(".new")), "drafts are left: {names:?}");
    }
    server.client().charge("one", "kept", 2);
    assert_eq!(kept(&server), "5", "it serves on");
    disk.remove(&ballast);
    let checkpoint = || {
        let output = setup.frs(&["checkpoint"]);
        assert!(output.status.success(), "{} {}", text(&output.stderr), setup.log());
    };
    checkpoint();
    server.client().charge("one", "kept", 1);
    disk.fill(0);
    // All files have their blocks now, so a full disk stops no pass.
    for _ in 0..2 {
        checkpoint();
    }
    server.kill_all_and_wait();
    drop(server);
    std::fs::remove_dir_all(live).expect("the machine goes down");
    disk.remove(&data.join("runtime.mmap"));
    let server = setup.start();
    assert_eq!(kept(&server), "6");
}

fn kept(server: &Server<'_>) -> String {
    let answer = server.client().get("/query?biz=one&key=kept");
    answer.attribute("used").expect("used").to_owned()
}

/// Kills the server, and fills the free room of the disk.
fn kill_and_fill(mut server: Server<'_>, disk: &Disk) {
    server.kill_all();
    drop(server);
    disk.fill(0);
}

// Shows: full-disk.
#[test]
fn after_an_unclean_end_a_full_disk_keeps_no_server_from_starting() {
    let Some((disk, setup)) = setup() else { return };
    let server = setup.start();
    server.client().charge("one", "kept", 7);
    kill_and_fill(server, &disk);
    // The files are unchanged.
    let server = setup.start();
    assert_eq!(kept(&server), "7");
    kill_and_fill(server, &disk);
    // The slots and logs are of another boot, or the header is damaged.
    for (at, word) in [(16, 1), (0, 7)] {
        let path = disk.0.join("data/runtime.mmap");
        let file = File::options().write(true).open(&path).expect("there");
        file.write_all_at(&u64::to_le_bytes(word), at).expect("written");
        drop(file);
        let server = setup.start();
        assert!(setup.log().contains("created runtime.mmap again"), "{}", setup.log());
        assert_eq!(kept(&server), "7");
        kill_and_fill(server, &disk);
        std::fs::remove_file(setup.path("log")).expect("a log");
    }
    let server = setup.start();
    assert_eq!(kept(&server), "7");
    assert_eq!(setup.frs(&["stop"]).status.code(), Some(0));
    drop(server);
    let server = setup.start();
    assert_eq!(kept(&server), "7", "after an end in order, too");
}

/// On a full disk, absent blocks of a file in memory cannot be read, as on a disk with bad blocks.
// Shows: unopenable-group.
#[test]
fn a_group_that_cannot_be_read_when_it_is_scanned_costs_that_group_only() {
    let Some((disk, setup)) = setup() else { return };
    setup.write_map(&map(&["one", "two"]));
    let server = setup.start();
    ["one", "two"].iter().for_each(|biz| server.client().charge(biz, "kept", 7));
    kill_and_fill(server, &disk);
    let path = disk.0.join("data/two.1.mmap");
    let aside = setup.path("aside");
    std::fs::copy(&path, &aside).expect("copied");
    let (bytes, inode) = (std::fs::read(&path).expect("readable"), path.with_extension("inode"));
    // A new file with an intact header and no blocks after it.
    disk.remove(&path);
    let file = File::create(&inode).expect("created");
    file.write_all_at(&bytes[..4096], 0).expect("written");
    file.set_len(bytes.len() as u64).expect("sparse");
    std::fs::rename(&inode, &path).expect("renamed");
    disk.fill(0);
    let server = setup.start();
    assert_eq!(kept(&server), "7");
    let answer = server.client().get("/update?biz=two&key=kept");
    assert_eq!((answer.status, answer.attribute("error")), (503, Some("store")), "{answer:?}");
    let health = server.client().get("/health");
    assert!(health.status == 200 && health.body.contains("two"), "{health:?}");
    assert!(setup.log().contains("two.1.mmap; its group is quarantined"), "{}", setup.log());
    let mut server = server;
    server.kill_all();
    drop(server);
    let output = setup.frs(&["serve", "--strict"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("group two: a part of a file"), "{output:?}");
    // Once the file has its blocks, it is scanned and served.
    std::fs::remove_file(disk.0.join("ballast")).expect("removed");
    std::fs::copy(&aside, &path).expect("copied");
    let server = setup.start();
    assert_eq!(kept(&server), "7");
    let answer = server.client().get("/query?biz=two&key=kept");
    assert_eq!(answer.attribute("used"), Some("7"), "{answer:?}");
}

// Shows: full-disk.
#[test]
fn a_changed_configuration_starts_on_a_full_disk_in_place_of_an_old_one() {
    let Some((disk, setup)) = setup() else { return };
    let server = setup.start();
    server.client().charge("one", "kept", 7);
    setup.write_map(&map(&["one"]).replace("max=\"9\"", "max=\"8\""));
    assert_eq!(setup.frs(&["reload"]).status.code(), Some(0));
    kill_and_fill(server, &disk);
    setup.write_map(&map(&["one"]).replace("max=\"9\"", "max=\"5\""));
    let server = setup.start();
    let answer = server.client().get("/query?biz=one&key=kept");
    assert_eq!((answer.attribute("used"), answer.attribute("max")), (Some("7"), Some("5")));
    assert!(!files(&disk).iter().any(|name| name.ends_with("tmp")));
}

// Shows: refused-preparation.
#[test]
fn a_start_without_room_for_a_larger_group_is_refused_and_the_group_stays_as_it_was() {
    let Some((disk, setup)) = setup() else { return };
    let first = map(&["one"]);
    setup.write_map(&first);
    let server = setup.start();
    server.client().charge("one", "kept", 7);
    let before = lasting(&disk);
    kill_and_fill(server, &disk);
    setup.write_map(&first.replace("1024", "1200"));
    let refused = setup.frs(&["serve"]);
    let words = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{words}");
    assert!(words.contains(" free, and the new files need "), "{words}");
    assert_eq!(lasting(&disk), before);
    setup.write_map(&first);
    let server = setup.start();
    assert_eq!(kept(&server), "7");
}

// Shows: admin-changes.
#[test]
fn a_change_of_map_xml_that_does_not_fit_leaves_it_as_it_was() {
    let plane = Plane::new(1);
    let Some(disk) = Disk::mount(&plane.setup.path("disk")) else { return };
    let (link, path) = (plane.setup.path("conf/map.xml"), disk.0.join("map.xml"));
    std::fs::rename(&link, plane.setup.path("map")).expect("renamed");
    std::fs::copy(plane.setup.path("map"), &path).expect("copied");
    std::os::unix::fs::symlink(&path, &link).expect("linked");
    std::fs::set_permissions(&path, Permissions::from_mode(0o640)).expect("set");
    let before = plane.map();
    let server = plane.start(1);
    let body = "<biz id=\"9\" name=\"b9\" key=\"string\"><limit policy=\"total\" max=\"1\"/></biz>";
    let ballast = disk.fill(0);
    for _ in 0..2 {
        let answer = plane.ask("PUT", "/biz/9", body);
        assert_eq!(answer.status, 507, "{answer:?}");
        assert!(answer.body.contains("No space left on device"), "{answer:?}");
        assert_eq!(plane.map(), before);
        assert_eq!(std::fs::read_dir(&disk.0).expect("readable").count(), 2, "a draft is left");
    }
    assert_eq!(server.client().get("/query?biz=three&key=k").status, 200);
    std::fs::remove_file(ballast).expect("removed");
    assert_eq!(plane.ask("PUT", "/biz/9", body).status, 201);
    assert_eq!(server.client().get("/query?biz=b9&key=k").status, 200);
    assert!(std::fs::symlink_metadata(&link).expect("there").is_symlink());
    assert_eq!(std::fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o640);
    assert_eq!(std::fs::read_dir(&disk.0).expect("readable").count(), 1);
}

#[test]
fn a_switch_that_cannot_be_written_down_is_refused_at_once_and_not_half_done() {
    let plane = Plane::new(1);
    let Some(disk) = Disk::mount(&plane.setup.path("disk")) else { return };
    let more = format!(
        "<admin listen=\"{}\" token-file=\"conf/token\"/><data dir=\"{}\"/>",
        plane.address,
        disk.0.join("data").display()
    );
    plane.setup.write_srv(&Settings { workers: 1, more, ..Settings::default() });
    let server = plane.start(1);
    assert_eq!(server.client().get("/update?biz=three&key=k&count=3").status, 200);
    let ballast = disk.fill(0);
    for target in ["/degrade?on=true", "/biz/three/reset", "/degrade?on=true"] {
        let answer = plane.ask("POST", target, "");
        assert_eq!(answer.status, 507, "{target} {answer:?}");
        let words = "changes.log: No space left on device (os error 28): nothing was changed";
        assert!(answer.body.contains(words), "{target} {answer:?}");
        let answer = server.client().get("/update?biz=three&key=k");
        assert_eq!((answer.status, answer.attribute("degraded")), (429, None), "{answer:?}");
    }
    std::fs::remove_file(ballast).expect("removed");
    assert_eq!(plane.ask("POST", "/biz/three/reset", "").status, 200);
    assert_eq!(server.client().get("/update?biz=three&key=k").status, 200);
}

/// The disk has room for the switch, but not for the generation that would put it in force.
// Shows: admin-changes.
#[test]
fn a_switch_that_was_refused_on_a_full_disk_is_not_in_force_after_a_restart() {
    let plane = Plane::new(1);
    let Some(disk) = Disk::mount(&plane.setup.path("disk")) else { return };
    let data = disk.0.join("data");
    let more = format!(
        "<admin listen=\"{}\" token-file=\"conf/token\"/><data dir=\"{}\"/>",
        plane.address,
        data.display()
    );
    plane.setup.write_srv(&Settings { workers: 1, more, ..Settings::default() });
    plane.setup.write_map(&format!("{}<!-- {} -->\n", crate::common::MAP, "long ".repeat(4000)));
    let mut server = plane.start(1);
    assert_eq!(plane.ask("POST", "/biz/plenty/reset", "").status, 200);
    let overlay = std::fs::read_to_string(data.join("overlay")).expect("there");
    // A later removal by the server would make room.
    std::fs::remove_file(data.join("conf.active.1")).expect("there");
    let ballast = disk.fill(8192);
    let answer = plane.ask("POST", "/degrade?on=true", "");
    assert_eq!(answer.status, 507, "{answer:?}");
    assert!(answer.body.contains("conf.active"), "the other one had room: {answer:?}");
    assert_eq!(std::fs::read_to_string(data.join("overlay")).expect("there"), overlay);
    let names = files(&disk);
    assert!(!names.iter().any(|name| name.ends_with("tmp")), "a draft is left: {names:?}");
    server.kill_all();
    drop(server);
    std::fs::remove_file(ballast).expect("removed");
    let server = plane.start(1);
    assert_eq!(server.client().get("/query?biz=three&key=k").attribute("degraded"), None);
}
