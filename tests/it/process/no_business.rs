//! A map.xml of no business is a configuration: it starts, says so, and is reloaded from and to.

use crate::common::plane::Plane;
use crate::common::{MAP, Settings, text, wait_until};

const EMPTY: &str = "<map/>";
const TOLD: &str = "map.xml names no business: every item answers `unknown-biz`";

/// What is told of a server without a business.
fn look(plane: &Plane, is_empty: bool) {
    let mut client = crate::common::Client::connect(plane.setup.address);
    let health = client.get("/health");
    assert_eq!((health.status, health.body.contains(TOLD)), (200, is_empty), "{health:?}");
    let health = plane.get("/health");
    assert_eq!((health.status, health.body.contains("map.xml names no")), (200, is_empty));
    assert!(health.body.contains("<configuration ok=\"true\""), "{health:?}");
    let checked = plane.setup.frs(&["check"]);
    let said = text(&checked.stdout);
    assert_eq!(said.contains(&format!("warning: {TOLD}")), is_empty, "{said}");
    assert!(checked.status.success() && said.ends_with("ok\n"), "{said}");
    let answer = client.get("/query?biz=three&key=k");
    assert_eq!(answer.body.contains("unknown-biz"), is_empty, "{answer:?}");
    let inspected = plane.setup.inspect(&["verify", "data"]);
    assert!(inspected.status.success(), "{}", text(&inspected.stderr));
    assert!(plane.setup.frs(&["status"]).status.success());
    for target in ["/stats", "/metrics", "/biz", "/"] {
        assert_eq!(plane.get(target).status, 200, "{target}");
    }
}

// Shows: no-business.
#[test]
fn a_server_of_no_business_serves_and_takes_businesses_and_loses_them() {
    let plane = Plane::new(2);
    plane.setup.write_map(EMPTY);
    let mut server = plane.start(2);
    look(&plane, true);
    let post = "<request><item biz=\"three\" key=\"k\"/></request>";
    let mut client = server.client();
    client.send(&format!(
        "POST /update HTTP/1.1\r\nHost: x\r\nContent-Type: application/xml\r\n\
         Content-Length: {}\r\n\r\n{post}",
        post.len()
    ));
    let answer = client.answer();
    assert!(answer.status == 200 && answer.body.contains("unknown-biz"), "{answer:?}");
    for (map, is_empty) in [(MAP, false), (EMPTY, true), (MAP, false), (EMPTY, true)] {
        plane.setup.write_map(map);
        let reloaded = plane.setup.frs(&["reload"]);
        assert!(reloaded.status.success(), "{}", text(&reloaded.stderr));
        look(&plane, is_empty);
    }
    // A replaced worker and a start after a kill find the same.
    server.kill_all_and_wait();
    drop(server);
    let server = plane.start(2);
    look(&plane, true);
    let worker = server.workers()[0];
    nix::sys::signal::kill(worker, nix::sys::signal::Signal::SIGKILL).expect("killed");
    wait_until("it is replaced", || {
        let workers = server.workers();
        (workers.len() == 2 && !workers.contains(&worker)).then_some(())
    });
    look(&plane, true);
}

// Shows: no-business.
#[test]
fn the_first_business_comes_over_the_admin_plane() {
    let plane = Plane::new(1);
    plane.setup.write_map("<map><group name=\"g\" keys=\"100\"/></map>");
    let server = plane.start(1);
    look(&plane, true);
    let biz = "<biz id=\"2\" name=\"three\" key=\"string\">\
               <limit policy=\"interval\" interval=\"1h\" max=\"3\"/></biz>";
    let answer = plane.ask("PUT", "/biz/three", biz);
    assert!([200, 201].contains(&answer.status), "{answer:?}");
    look(&plane, false);
    assert!(server.client().get("/update?biz=three&key=k").body.contains("used=\"1\""));
}

// Shows: no-business.
#[test]
fn items_are_refused_where_unknown_businesses_are() {
    let plane = Plane::new(1);
    plane.setup.write_map(EMPTY);
    let more = format!("<admin listen=\"{}\"/>", plane.address);
    let http = "unknown-biz=\"refuse\"".to_owned();
    plane.setup.write_srv(&Settings { workers: 1, http, more });
    let server = plane.start(1);
    let health = server.client().get("/health").body;
    assert!(health.contains("map.xml names no business: every item is refused"), "{health}");
    let answer = server.client().get("/update?biz=three&key=k");
    assert!(answer.body.contains("limited=\"true\""), "{answer:?}");
}
