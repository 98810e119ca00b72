//! A group whose files are damaged or cannot be opened costs only that group, which answers `store`
//! and is named. The other groups are served, at a start and while the server runs.

use std::os::unix::fs::{FileExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use super::is_store;
use crate::common::plane::Plane;
use crate::common::{Client, Server, text, wait_until};
use nix::sys::signal::{Signal, kill};

const MAP: &str = r#"<map>
  <group name="default" files="2" key-nodes="64" chain="8" node-size="128"/>
  <group name="second" files="2" key-nodes="64" chain="8" node-size="128"/>
  <biz id="1" name="plenty" key="string"><limit policy="interval" interval="1h" max="1000"/></biz>
  <biz id="2" name="other" group="second" key="string"><limit policy="total" max="1000"/></biz>
</map>"#;

/// Replaces a file by something else.
type Put = fn(&Path);

/// Replacements of a file, with the words that report them.
const DAMAGES: [(&str, Put); 9] = [
    ("directory", |path| std::fs::create_dir(path).expect("created")),
    ("symbolic link", |path| symlink(path, path).expect("linked")),
    ("pipe", |path| nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).expect("made")),
    ("No such device or address", |path| drop(UnixListener::bind(path).expect("bound"))),
    ("device", |path| symlink("/dev/zero", path).expect("linked")),
    ("No such file|is missing", |path| symlink("nowhere", path).expect("linked")),
    ("length: found 100", |path| std::fs::write(path, [0; 100]).expect("written")),
    ("length: found 0", |path| std::fs::write(path, []).expect("written")),
    ("magic: found 0", |path| {
        std::fs::copy(path.with_extension("aside"), path).expect("copied");
        let file = std::fs::OpenOptions::new().write(true).open(path).expect("there");
        file.write_all_at(&[0; 8], 0).expect("written");
    }),
];

fn is_said(text: &str, said: &str) -> bool {
    said.split('|').any(|said| text.contains(said))
}

fn plane() -> Plane {
    let plane = Plane::new(2);
    plane.setup.write_map(MAP);
    plane
}

fn file(plane: &Plane, name: &str) -> PathBuf {
    plane.setup.path(&format!("data/{name}.mmap"))
}

/// Replaces a file and keeps the original aside.
fn damage(path: &Path, put: Put) {
    std::fs::rename(path, path.with_extension("aside")).expect("moved");
    put(path);
}

fn heal(path: &Path) {
    let _ = std::fs::remove_file(path).or_else(|_| std::fs::remove_dir(path));
    std::fs::rename(path.with_extension("aside"), path).expect("moved");
}

fn kill_children(server: &Server<'_>) {
    let before = [server.workers(), server.attached("keeper")].concat();
    before.iter().for_each(|&pid| kill(pid, Signal::SIGKILL).expect("killed"));
    wait_until("all are replaced", || {
        let now = [server.workers(), server.attached("keeper")].concat();
        (now.len() == 3 && !now.iter().any(|pid| before.contains(pid))).then_some(())
    });
}

/// Checks that `default` is served, `second` is not, and every report says so.
fn expect_only_default(plane: &Plane, server: &Server<'_>, said: &str) {
    server.wait_for_workers(2);
    for _ in 0..8 {
        let mut client = server.client();
        client.charge("plenty", "k", 1);
        let answer = client.get("/update?biz=other&key=k");
        assert!(is_store(&answer), "{answer:?}");
        let health = client.get("/health");
        assert_eq!(health.status, 200, "{health:?}");
        assert!(health.body.contains("store") && health.body.contains("second"), "{health:?}");
    }
    let health = wait_until("the admin plane serves", || {
        Client::try_connect(plane.address)?.try_get("/").ok()?;
        Some(plane.get("/health"))
    });
    assert_eq!(health.status, 503);
    assert!(health.body.contains("the group second is not served"), "{health:?}");
    let metrics = plane.get("/metrics").body;
    for line in ["frs_group_served{group=\"default\"} 1", "frs_group_served{group=\"second\"} 0"] {
        assert!(metrics.lines().any(|found| found == line), "{line}: {metrics}");
    }
    let log = plane.setup.log();
    let is_told = |line: &str| line.contains("second") && is_said(line, said);
    assert!(log.lines().any(is_told), "{said:?} in {log}");
}

// Shows: unopenable-group.
#[test]
fn a_group_that_cannot_be_opened_at_a_start_costs_that_group_only() {
    let plane = plane();
    let mut server = plane.start(2);
    server.client().charge("other", "kept", 7);
    server.kill_all();
    drop(server);
    for (said, put) in DAMAGES {
        for name in ["second.0", "second.1"] {
            let path = file(&plane, name);
            damage(&path, put);
            std::fs::remove_file(plane.setup.path("log")).expect("a log");
            let output = plane.setup.frs(&["serve", "--strict"]);
            let heard = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{said}: {heard}");
            assert!(heard.contains("group second") && is_said(&heard, said), "{said}: {heard}");
            let mut server = plane.setup.start();
            expect_only_default(&plane, &server, said);
            server.kill_all();
            drop(server);
            heal(&path);
        }
    }
    // Nothing was overwritten.
    let server = plane.start(2);
    let answer = server.client().get("/query?biz=other&key=kept");
    assert_eq!(answer.attribute("used"), Some("7"), "{answer:?}");
}

// Shows: unopenable-group.
#[test]
fn a_group_that_cannot_be_opened_while_serving_costs_that_group_only() {
    for (said, put) in DAMAGES {
        let plane = plane();
        let mut server = plane.start(2);
        server.client().charge("other", "kept", 7);
        let path = file(&plane, "second.0");
        damage(&path, put);
        kill_children(&server);
        expect_only_default(&plane, &server, said);
        let output = plane.setup.frs(&["reload"]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        expect_only_default(&plane, &server, said);
        // A restored file is examined at a start.
        heal(&path);
        kill_children(&server);
        assert!(is_store(&server.client().get("/query?biz=other&key=kept")));
        assert_eq!(plane.setup.frs(&["stop"]).status.code(), Some(0));
        assert!(server.wait().success());
        drop(server);
        let server = plane.start(2);
        let answer = server.client().get("/query?biz=other&key=kept");
        assert_eq!(answer.attribute("used"), Some("7"), "{answer:?}");
        assert_eq!(server.client().get("/health").body, "ok\n");
    }
}

/// The orphans of a killed master keep the old file mapped until they end.
// Shows: unopenable-group.
#[test]
fn a_group_that_must_be_scanned_waits_for_the_orphans_of_a_killed_master() {
    let plane = plane();
    let server = plane.start(2);
    server.client().charge("other", "kept", 7);
    let path = file(&plane, "second.0");
    std::fs::copy(&path, path.with_extension("copy")).expect("copied");
    std::fs::rename(path.with_extension("copy"), &path).expect("swapped");
    // A worker waits for the rest of a request as long as it may.
    let mut client = server.client();
    client.send("POST /update HTTP/1.1\r\nHost: test\r\nContent-Length: 100\r\n\r\n<request>");
    kill(server.master(), Signal::SIGKILL).expect("killed");
    let next = plane.setup.start_unready();
    let answer = wait_until("the group is scanned and served", || {
        let is_scanned = plane.setup.log().contains("group scanned");
        let mut client = Client::try_connect(plane.setup.address).filter(|_| is_scanned)?;
        client.try_get("/query?biz=other&key=kept").ok().filter(|answer| answer.status == 200)
    });
    assert_eq!(answer.attribute("used"), Some("7"), "{answer:?}");
    next.wait_for_workers(2);
    assert!(!plane.setup.log().contains("is not served"), "{}", plane.setup.log());
}

#[test]
fn a_server_that_could_serve_no_group_does_not_start() {
    let plane = plane();
    let mut server = plane.start(2);
    server.kill_all();
    drop(server);
    for name in ["default.0", "second.0"] {
        damage(&file(&plane, name), DAMAGES[0].1);
    }
    let output = plane.setup.frs(&["serve"]);
    let heard = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{heard}");
    assert!(heard.contains("group default") && heard.contains("group second"), "{heard}");
}

// Shows: unopenable-group.
#[test]
fn a_reload_with_a_new_group_that_cannot_be_served_is_refused() {
    let plane = plane();
    let server = plane.start(2);
    std::fs::create_dir(file(&plane, "third.0")).expect("created");
    let third = "<group name=\"third\" files=\"1\" key-nodes=\"8\" chain=\"8\" node-size=\"64\"/>";
    plane.setup.write_map(&MAP.replace("</map>", &format!("{third}</map>")));
    let output = plane.setup.frs(&["reload"]);
    let heard = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{heard}");
    assert!(heard.contains("group third") && heard.contains("stays in force"), "{heard}");
    server.client().charge("other", "k", 1);
    let health = server.client().get("/health");
    assert!(health.status == 200 && health.body.starts_with("ok, but the last reload was refused"));
}

// Shows: unopenable-group.
#[test]
fn a_clean_end_marks_the_other_groups_clean() {
    let plane = plane();
    let mut server = plane.start(2);
    server.client().charge("plenty", "kept", 7);
    damage(&file(&plane, "second.1"), DAMAGES[0].1);
    assert_eq!(plane.setup.frs(&["stop"]).status.code(), Some(0));
    assert!(server.wait().success());
    drop(server);
    assert!(
        plane.setup.log().contains("not marked clean group=\"second\""),
        "{}",
        plane.setup.log()
    );
    // Without runtime.mmap, only a clean mark avoids a scan.
    std::fs::remove_file(plane.setup.path("data/runtime.mmap")).expect("removed");
    std::fs::remove_file(plane.setup.path("log")).expect("a log");
    let server = plane.setup.start();
    assert!(!plane.setup.log().contains("group scanned"), "{}", plane.setup.log());
    let answer = server.client().get("/query?biz=plenty&key=kept");
    assert_eq!(answer.attribute("used"), Some("7"), "{answer:?}");
}
