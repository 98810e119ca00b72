//! Programs that attach beside the server: as many as srv.xml allows, and never in a slot that the
//! server's own processes need.

use std::path::Path;

use crate::common::{Settings, Setup, text, wait_until};
use frs_engine::{Role, Service};
use nix::sys::signal::{Signal, kill};

/// Attaches until an attach is refused. Returns the words of the refusal.
fn attach_all(data: &Path) -> (Vec<Service>, String) {
    let mut attached = Vec::new();
    loop {
        match Service::attach(data, Role::Program, None) {
            Ok(service) => attached.push(service),
            Err(error) => return (attached, error.to_string()),
        }
        assert!(attached.len() <= 256);
    }
}

/// Checks that the server replaces dead processes and accepts reloads while these programs are
/// attached.
fn expect_a_server_that_is_whole(setup: &Setup, server: &crate::common::Server<'_>) {
    let before = [server.workers(), server.attached("keeper")].concat();
    before.iter().for_each(|&pid| kill(pid, Signal::SIGKILL).expect("killed"));
    wait_until("all are replaced", || {
        let now = [server.workers(), server.attached("keeper")].concat();
        (now.len() == before.len() && !now.iter().any(|pid| before.contains(pid))).then_some(())
    });
    setup.write_map(&crate::common::MAP.replace("three", "four"));
    let output = setup.frs(&["reload"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    setup.write_map(crate::common::MAP);
    assert_eq!(setup.frs(&["reload"]).status.code(), Some(0));
    server.client().charge("plenty", "k", 1);
}

// Shows: server-places.
#[test]
fn programs_take_no_place_that_the_server_needs() {
    let setup = Setup::new(&Settings::default());
    let server = setup.start();
    server.wait_for_workers(2);
    let (attached, said) = attach_all(&setup.path("data"));
    assert_eq!(attached.len(), 192, "{said}");
    assert!(said.contains("runtime.mmap: all 192 places for programs are taken"), "{said}");
    assert!(said.contains("max-programs"), "{said}");
    expect_a_server_that_is_whole(&setup, &server);
    // A released place is available to the next program.
    drop(attached);
    assert_eq!(attach_all(&setup.path("data")).0.len(), 192);
}

// Shows: server-places.
#[test]
fn all_places_that_may_be_given_to_programs_leave_the_server_whole() {
    let more = "<data max-programs=\"252\"/>".to_owned();
    let setup = Setup::new(&Settings { more, ..Settings::default() });
    let server = setup.start();
    server.wait_for_workers(2);
    let (attached, said) = attach_all(&setup.path("data"));
    assert_eq!(attached.len(), 252, "{said}");
    expect_a_server_that_is_whole(&setup, &server);
}

// Shows: server-places.
#[test]
fn max_programs_changes_with_a_reload() {
    let set = |most: u32| {
        let setting = format!("<data max-programs=\"{most}\"/>");
        Settings { more: setting, ..Settings::default() }
    };
    let setup = Setup::new(&set(1));
    let _server = setup.start();
    let data = setup.path("data");
    let (mut first, said) = attach_all(&data);
    assert_eq!(first.len(), 1);
    assert!(said.contains("all 1 places for programs are taken"), "{said}");
    setup.write_srv(&set(3));
    assert_eq!(setup.frs(&["reload"]).status.code(), Some(0));
    assert!(first[0].begin_tick(), "it acknowledges the new configuration");
    let (more, _) = attach_all(&data);
    assert_eq!(more.len(), 2);
    setup.write_srv(&set(0));
    assert_eq!(setup.frs(&["reload"]).status.code(), Some(0));
    drop((first, more));
    assert_eq!(attach_all(&data).0.len(), 0);
}
