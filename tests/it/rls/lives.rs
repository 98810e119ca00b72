//! The process frs-envoy: killed, stopped, reloaded and upgraded beside its clients.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::client::{
    Client, Descriptor, LIMIT, OK, OVER, Said, ask, descriptor, exchange, framed, hits, post,
};
use super::{DOMAINS, Stage};
use crate::common::load::UntilDropped;
use crate::common::{Server, is_alive, text, wait_until};

fn two(key: &str) -> Descriptor {
    descriptor(&[("two", key)])
}

fn envoy(server: &Server<'_>) -> Pid {
    wait_until("frs-envoy is attached", || {
        let found = server.attached("envoy");
        (found.len() == 1).then(|| found[0])
    })
}

// Shows: frs-envoy-replaced.
#[test]
fn frs_status_shows_it_and_it_ends_with_the_server() {
    let stage = Stage::new("");
    let mut server = stage.setup.start();
    let pid = envoy(&server);
    // Once attached, it takes the configuration.
    wait_until("frs status shows it", || {
        let output = stage.setup.frs(&["status"]);
        let status = text(&output.stdout);
        assert!(status.contains(&format!("Envoy on     {}\n", stage.rls.address)), "{status}");
        status.contains(&format!("envoy        process {pid}, generation 1\n")).then_some(())
    });
    let mut client = Client::connect(stage.rls.address);
    client.limit(&ask(vec![two("a")]));
    server.signal(Signal::SIGTERM);
    assert!(server.wait().success(), "{}", stage.setup.log());
    client.wait_for_the_end().expect("a clean end");
    assert!(!is_alive(pid) && !stage.setup.log().contains("envoy died"), "{}", stage.setup.log());
}

// Shows: frs-envoy-replaced.
#[test]
fn killed_it_is_back_within_a_second_and_nothing_is_forgotten() {
    let stage = Stage::new("");
    let server = stage.setup.start();
    let mut client = Client::connect(stage.rls.address);
    for _ in 0..2 {
        assert_eq!(client.limit(&ask(vec![two("a")])).code, OK);
    }
    let old = envoy(&server);
    let begun = Instant::now();
    kill(old, Signal::SIGKILL).expect("killed");
    // With or without an error: the kernel closes its connections.
    let _ = client.wait_for_the_end();
    wait_until("it has ended", || (!is_alive(old)).then_some(()));
    let said = wait_until("it answers again", || {
        let reply = Client::try_connect(stage.rls.address)?
            .send_bytes(post(LIMIT), framed(&ask(vec![two("a")])))
            .ok()?;
        (reply.grpc == Some(0)).then_some(reply)
    });
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert_eq!(said.read::<super::client::Said>().code, OVER);
    assert_ne!(envoy(&server), old);
}

// Shows: frs-envoy-replaced.
#[test]
fn a_reload_takes_new_domains_and_keeps_connections() {
    let stage = Stage::new("");
    let server = stage.setup.start();
    let pid = envoy(&server);
    let mut client = Client::connect(stage.rls.address);
    let new = ask(vec![descriptor(&[("new", "a")])]);
    assert_eq!(client.limit(&new).statuses[0].limit, None);
    let more = r#"<domain name="other"/></rls>"#;
    let added = DOMAINS
        .replace("</domain>", r#"<descriptor entries="new" biz="login" key="{new}"/></domain>"#);
    stage.write(&stage.element("", &added).replace("</rls>", more));
    let output = stage.setup.frs(&["reload"]);
    assert_eq!(text(&output.stdout), "taken: generation 2\n", "{output:?}");
    assert_eq!(client.limit(&new).statuses[0].remaining, 4);
    stage.write(&stage.element("", &added.replace("\"login\"", "\"logon\"")));
    assert!(!stage.setup.frs(&["reload"]).status.success());
    assert_eq!(client.limit(&new).statuses[0].remaining, 3);
    assert_eq!(envoy(&server), pid);
}

// Shows: frs-envoy-replaced.
#[test]
fn an_upgrade_loses_no_call() {
    let stage = Stage::new("");
    let server = stage.setup.start();
    let old = envoy(&server);
    let mut client = Client::connect(stage.rls.address);
    client.limit(&ask(vec![two("a")]));
    server.signal(Signal::SIGUSR2);
    let (mut calls, mut last) = (0, 0);
    // A client that receives GOAWAY reconnects, as Envoy does.
    wait_until("another frs-envoy serves alone", || {
        calls += 1;
        let body = framed(&ask(vec![descriptor(&[("user", "u"), ("path", "/")])]));
        let reply = client.send_bytes(post(LIMIT), body.clone()).or_else(|error| {
            assert!(error.is_go_away() || error.is_io(), "{error:?}");
            client = Client::connect(stage.rls.address);
            client.send_bytes(post(LIMIT), body)
        });
        let said: super::client::Said = reply.expect("answered").read();
        last = 1_000_000 - said.statuses[0].remaining;
        let found = stage.setup.frs(&["status"]);
        let found = text(&found.stdout);
        let envoys: Vec<&str> = found.lines().filter(|line| line.starts_with("envoy")).collect();
        let is_new = envoys.len() == 1 && !envoys[0].contains(&format!("process {old},"));
        (is_new && !is_alive(old)).then_some(())
    });
    assert_eq!(last, calls);
    let mut client = Client::connect(stage.rls.address);
    assert_eq!(client.limit(&ask(vec![two("a")])).code, OK);
    assert_eq!(client.limit(&ask(vec![two("a")])).code, OVER);
    let new = text(&stage.setup.frs(&["status"]).stdout);
    let master = new.lines().next().and_then(|line| line.split("process ").nth(1));
    let master: i32 = master.expect("a master").parse().expect("a number");
    kill(Pid::from_raw(master), Signal::SIGKILL).expect("killed");
    wait_until("its processes follow it", || (!new_envoy_lives(&new)).then_some(()));
}

/// Sends eight calls at once, again and again. Returns the number of answers.
fn call_again_and_again(address: SocketAddr, is_over: &AtomicBool) -> u64 {
    let mut answered = 0;
    while !is_over.load(Ordering::Relaxed) {
        let Some(client) = Client::try_connect(address) else { continue };
        let mut is_open = true;
        while is_open && !is_over.load(Ordering::Relaxed) {
            let replies = client.runtime.block_on(async {
                let body = framed(&ask(vec![descriptor(&[("user", "u"), ("path", "/")])]));
                let call = || exchange(client.sender.clone(), post(LIMIT), body.clone());
                let calls: Vec<_> = (0..8).map(|_| tokio::spawn(call())).collect();
                let mut replies = Vec::new();
                for call in calls {
                    replies.push(call.await.expect("no panic"));
                }
                replies
            });
            for reply in replies {
                match reply {
                    Ok(reply) => {
                        assert_eq!(reply.read::<Said>().code, OK);
                        answered += 1;
                    }
                    // A client that receives GOAWAY reconnects, as Envoy does.
                    Err(error) => {
                        assert!(error.is_go_away() || error.is_io(), "{error:?}");
                        is_open = false;
                    }
                }
            }
        }
    }
    answered
}

// Shows: frs-envoy-replaced.
#[test]
fn of_the_calls_in_flight_over_an_upgrade_none_is_lost_and_none_charged_twice() {
    let stage = Stage::new("");
    let server = stage.setup.start();
    let old = envoy(&server);
    let address = stage.rls.address;
    let is_over = AtomicBool::new(false);
    let answered: u64 = std::thread::scope(|scope| {
        let ends = UntilDropped(&is_over);
        let clients: Vec<_> =
            (0..3).map(|_| scope.spawn(|| call_again_and_again(address, &is_over))).collect();
        wait_until("calls are in flight", || {
            let mut client = Client::connect(address);
            let check = hits(descriptor(&[("user", "u"), ("path", "/")]), 0);
            let left = client.limit(&ask(vec![check])).statuses[0].remaining;
            (left < 1_000_000 - 100).then_some(())
        });
        server.signal(Signal::SIGUSR2);
        wait_until("another frs-envoy serves alone", || {
            let found = server.attached("envoy");
            (found.len() == 1 && found[0] != old && !is_alive(old)).then_some(())
        });
        drop(ends);
        clients.into_iter().map(|client| client.join().expect("no panic")).sum()
    });
    let check = hits(descriptor(&[("user", "u"), ("path", "/")]), 0);
    let said = Client::connect(address).limit(&ask(vec![check]));
    assert_eq!(1_000_000 - u64::from(said.statuses[0].remaining), answered);
}

fn new_envoy_lives(status: &str) -> bool {
    let lines = status.lines().filter(|line| line.starts_with("envoy"));
    let pids = lines.filter_map(|line| line.split("process ").nth(1)?.split(',').next());
    let mut pids = pids.filter_map(|pid| pid.parse().ok()).map(Pid::from_raw);
    pids.any(is_alive)
}

#[test]
fn a_unix_socket_serves_as_well() {
    let stage = Stage::new("");
    let path = stage.setup.path("rls.sock");
    let listen = format!("unix:{}", path.display());
    stage.write(&format!("<rls listen=\"{listen}\">{DOMAINS}</rls>"));
    let mut server = stage.setup.start();
    let mut client = wait_until("it serves", || {
        let connected = std::os::unix::net::UnixStream::connect(&path).is_ok();
        connected.then(|| Client::connect_unix(&path))
    });
    assert_eq!(client.limit(&ask(vec![two("a")])).code, OK);
    server.signal(Signal::SIGTERM);
    assert!(server.wait().success());
    assert!(!path.exists());
}
