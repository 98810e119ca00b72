//! `<watch>`: changed files of the configuration are in force by themselves, faulty ones are told.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::symlink;

use crate::common::address::Reserved;
use crate::common::files::write_secret;
use crate::common::plane::{Plane, ask_socket};
use crate::common::{BOUND, Settings, text, wait_until};

const WATCH: &str = "<watch conf=\"100ms\"/>";

/// A server with an admin plane that watches its files.
fn watched(more: &str) -> Plane {
    let plane = Plane::new(1);
    let admin = format!("<admin listen=\"{}\" token-file=\"conf/token\"/>", plane.address);
    let more = format!("{admin}{WATCH}{more}");
    plane.setup.write_srv(&Settings { workers: 1, more, ..Settings::default() });
    plane
}

fn generation(plane: &Plane) -> u64 {
    plane.json("/stats")["server"]["generation"].as_u64().expect("a number")
}

fn wait_for_refused(plane: &Plane, is_refused: bool) {
    wait_until("the gauge tells it", || {
        (plane.metric("frs_reload_refused") == Some(is_refused.into())).then_some(())
    });
}

fn wait_for_biz(plane: &Plane, words: &str) {
    wait_until("the changed file is in force", || {
        plane.get("/biz/three").body.contains(words).then_some(())
    });
}

/// The map with another maximum of the business `three`.
fn with_max(plane: &Plane, max: &str) -> String {
    plane.map().replace("max=\"3\"", &format!("max=\"{max}\""))
}

// Shows: watched-files.
#[test]
fn a_changed_file_is_in_force_and_a_faulty_one_is_told_until_it_is_mended() {
    let plane = watched("");
    let server = plane.start(1);
    let (five, six) = (with_max(&plane, "5"), with_max(&plane, "6"));
    let faulty = with_max(&plane, "many");
    let first = generation(&plane);
    plane.setup.write_map(&five);
    wait_for_biz(&plane, "max=\"5\"");
    assert_eq!(generation(&plane), first + 1, "by one reload");
    let changes = plane.get("/changes").body;
    assert!(changes.contains("who=\"watch\"") && changes.contains("what=\"reload\""), "{changes}");

    plane.setup.write_map(&faulty);
    wait_for_refused(&plane, true);
    let health = plane.get("/health").body;
    assert!(health.contains("<fault>configuration: the last reload was refused"), "{health}");
    let health = server.client().get("/health");
    assert!(health.body.starts_with("ok, but the last reload was refused"), "{health:?}");
    let log = plane.setup.log();
    assert!(log.contains("conf/map.xml has changed: reloading"), "{log}");
    assert_eq!(log.matches("max=\"many\"").count(), 1, "once: {log}");
    assert!(plane.get("/biz/three").body.contains("max=\"5\""), "what was in force stays");

    plane.setup.write_map(&six);
    wait_for_biz(&plane, "max=\"6\"");
    wait_for_refused(&plane, false);
    assert_eq!(plane.json("/stats")["server"]["reloads-refused"], 1);
    // What is deleted is no configuration.
    fs::remove_file(plane.setup.path("conf/map.xml")).expect("removed");
    wait_for_refused(&plane, true);
    assert_eq!(server.client().get("/query?biz=three&key=k").status, 200);
    plane.setup.write_map(&six);
    wait_for_refused(&plane, false);
    // srv.xml, too: without <watch> nobody looks any more.
    plane.write_srv(1, "token-file=\"conf/token\"");
    let last = generation(&plane);
    wait_until("srv.xml is in force", || (generation(&plane) == last + 1).then_some(()));
    plane.setup.write_map(&five);
    assert!(plane.setup.frs(&["reload"]).status.success());
    assert_eq!(generation(&plane), last + 2);
}

// Shows: watched-files.
#[test]
fn a_config_map_is_exchanged_as_a_whole() {
    let plane = watched("");
    let conf = |name: &str| plane.setup.path("conf").join(name);
    let five = with_max(&plane, "5");
    for (name, map) in [("..1", plane.map()), ("..2", five.clone()), ("..3", five)] {
        fs::create_dir(conf(name)).expect("made");
        fs::write(conf(name).join("map.xml"), map).expect("written");
    }
    let exchange = |name: &str| {
        symlink(name, conf("..new")).expect("linked");
        fs::rename(conf("..new"), conf("..data")).expect("renamed");
    };
    exchange("..1");
    fs::remove_file(conf("map.xml")).expect("removed");
    symlink("..data/map.xml", conf("map.xml")).expect("linked");
    let _server = plane.start(1);
    let first = generation(&plane);
    exchange("..2");
    wait_for_biz(&plane, "max=\"5\"");
    // Another key of the ConfigMap: the file is another one and holds the same.
    exchange("..3");
    let srv = fs::read_to_string(conf("srv.xml")).expect("readable");
    fs::write(conf("srv.xml"), srv.replace("<http ", "<http max-items=\"7\" ")).expect("written");
    wait_until("srv.xml is in force", || (generation(&plane) == first + 2).then_some(()));
}

fn takes(address: SocketAddr, token: &str) -> bool {
    let stream = TcpStream::connect(address).expect("connected");
    stream.set_read_timeout(Some(BOUND)).expect("set");
    (&stream).write_all(format!("AUTH {token}\r\n").as_bytes()).expect("sent");
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).expect("answered");
    line == "+OK\r\n"
}

// Shows: watched-files.
#[test]
fn a_rotated_token_is_taken_and_one_that_others_can_read_is_not() {
    let reserved = Reserved::new();
    let resp = format!("<resp listen=\"{}\" token-file=\"conf/resp\"/>", reserved.address);
    let plane = watched(&resp);
    let token = plane.setup.path("conf/resp");
    let (old, new, last) = ("0123456789abcdef", "fedcba9876543210", "0123456789fedcba");
    write_secret(&token, old);
    let _server = plane.start(1);
    assert!(takes(reserved.address, old));
    write_secret(&token, new);
    wait_until("the new token is taken", || takes(reserved.address, new).then_some(()));
    assert!(!takes(reserved.address, old));
    fs::write(&token, last).expect("written");
    fs::set_permissions(&token, std::os::unix::fs::PermissionsExt::from_mode(0o644)).expect("set");
    wait_for_refused(&plane, true);
    assert!(takes(reserved.address, new), "it stays");
    let status = text(&plane.setup.frs(&["status"]).stdout);
    assert!(status.contains("mode 0644, expected 0400, 0440, 0600 or 0640"), "{status}");
    // The content stays, and only the mode changes.
    fs::set_permissions(&token, std::os::unix::fs::PermissionsExt::from_mode(0o640)).expect("set");
    wait_until("the last token is taken", || takes(reserved.address, last).then_some(()));
    wait_for_refused(&plane, false);
}

// Shows: watched-files.
#[test]
fn a_change_of_the_admin_plane_is_neither_reloaded_again_nor_undone() {
    let plane = watched("");
    let _server = plane.start(1);
    let first = generation(&plane);
    let biz = "<biz id=\"2\" name=\"three\" key=\"string\">\
               <limit policy=\"interval\" interval=\"1h\" max=\"9\"/></biz>";
    assert_eq!(plane.ask("PUT", "/biz/three", biz).status, 200);
    assert_eq!(plane.ask("PUT", "/biz/three", &biz.replace("\"9\"", "\"many\"")).status, 422);
    // A change that the watch finds: it has looked at those before.
    let token = plane.setup.path("conf/token");
    write_secret(&token, format!("{} \n", fs::read_to_string(&token).expect("readable").trim()));
    wait_until("the watch has looked", || (generation(&plane) > first + 1).then_some(()));
    assert_eq!(generation(&plane), first + 2, "one by the plane, one by the watch");
    assert!(plane.get("/biz/three").body.contains("max=\"9\""));
    assert_eq!(plane.metric("frs_reload_refused"), Some(0));
}

// Shows: admin-plane-in-a-pod.
#[test]
fn the_admin_plane_serves_a_socket_and_loopback_tcp_at_once() {
    let plane = Plane::new(1);
    let both = "token-file=\"conf/token\"/><admin listen=\"unix:admin.sock\"";
    plane.write_srv(1, both);
    let _server = plane.start(1);
    let over_socket = |request: &str| {
        let request = format!("{request} HTTP/1.0\r\n\r\n");
        ask_socket(plane.setup.path("admin.sock"), &request).expect("answered")
    };
    assert!(over_socket("GET /health").starts_with("HTTP/1.1 200"));
    // The socket's mode decides there; over TCP the token does.
    assert!(over_socket("POST /reload").starts_with("HTTP/1.1 200"));
    assert_eq!(plane.ask("POST", "/reload", "").status, 200);
    let request = "POST /reload HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut client = plane.client();
    client.send(request);
    assert_eq!(client.answer().status, 401);
    let status = text(&plane.setup.frs(&["status"]).stdout);
    let address = plane.address.to_string();
    for listens in ["/admin.sock", &address] {
        let is_told = |line: &&str| line.starts_with("admin plane") && line.ends_with(listens);
        assert!(status.lines().any(|line| is_told(&line)), "{status}");
    }
}
