//! What /health, status and metrics of the admin plane report about a stopped worker and about a
//! refused reload.

use crate::common::plane::Plane;
use crate::common::{text, wait_until};

#[test]
fn health_tells_of_a_worker_that_is_not_there() {
    let plane = Plane::new(2);
    let server = plane.start(2);
    let worker = server.workers()[0];
    // A stopped worker exists, but does not answer. The waiting client learns that.
    nix::sys::signal::kill(worker, nix::sys::signal::Signal::SIGSTOP).expect("stopped");
    let answer = plane.ask("POST", "/degrade?on=true", "");
    assert_eq!(answer.status, 202, "{answer:?}");
    assert!(answer.body.contains(&format!("(process {worker})</laggard>")), "{answer:?}");
    nix::sys::signal::kill(worker, nix::sys::signal::Signal::SIGKILL).expect("killed");
    wait_until("all are there", || {
        plane.get("/health").body.contains("behind=\"0\"").then_some(())
    });
}

// Shows: refused-reload.
#[test]
fn a_refused_reload_is_seen_everywhere_until_the_next_one() {
    let plane = Plane::new(1);
    let mut server = plane.start(1);
    let good = plane.map();
    let expect = |is_refused: bool| {
        let health = server.client().get("/health");
        let words = "ok, but the last reload was refused";
        assert_eq!((health.status, health.body.starts_with(words)), (200, is_refused));
        let health = plane.get("/health");
        let part = format!("<configuration ok=\"{}\"/>", !is_refused);
        assert!(health.status == 200 && health.body.contains(&part), "{health:?}");
        assert_eq!(plane.json("/stats")["server"]["reload-refused"], is_refused);
        wait_until("the metrics tell it", || {
            (plane.metric("frs_reload_refused") == Some(is_refused.into())).then_some(())
        });
        let status = text(&plane.setup.frs(&["status"]).stdout);
        let told = status.contains("\nreload       refused: generation ");
        assert_eq!((told, status.contains("max=\"many\"")), (is_refused, is_refused), "{status}");
    };
    expect(false);
    plane.setup.write_map(&good.replacen("max=\"", "max=\"many\" was=\"", 1));
    assert_eq!(plane.setup.frs(&["reload"]).status.code(), Some(1));
    expect(true);
    plane.setup.write_map(&good);
    assert_eq!(plane.setup.frs(&["reload"]).status.code(), Some(0));
    expect(false);
    // A refused change leaves the files that are in force.
    assert_eq!(plane.ask("PUT", "/biz/9", "<biz id=\"9\" name=\"n\" key=\"x\"/>").status, 422);
    expect(false);
    // A start uses the files.
    plane.setup.write_map("<map>");
    assert_eq!(plane.setup.frs(&["reload"]).status.code(), Some(1));
    plane.setup.write_map(&good);
    server.kill_all_and_wait();
    drop(server);
    let server = plane.start(1);
    assert_eq!(server.client().get("/health").body, "ok\n");
}
