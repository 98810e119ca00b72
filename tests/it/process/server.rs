//! The server's processes, end to end: start and stop, deaths, reloads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::load::{UntilDropped, under_load, wait_for_more};
use crate::common::{Client, Settings, Setup, descriptors, is_alive, text, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

fn used(client: &mut Client, key: &str) -> u64 {
    let answer = client.get(&format!("/query?biz=plenty&key={key}"));
    answer.attribute("used").and_then(|used| used.parse().ok()).expect("used")
}

fn charge(client: &mut Client, key: &str, times: u64) {
    for _ in 0..times {
        assert_eq!(client.get(&format!("/update?biz=plenty&key={key}")).status, 200);
    }
}

#[test]
fn a_second_master_learns_who_is_first() {
    let setup = Setup::new(&Settings::default());
    let server = setup.start();
    let output = setup.frs(&["serve"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains(&format!("process {}", server.master())), "{said}");
    assert_eq!(server.client().get("/health").status, 200, "the first one goes on");
}

#[test]
fn an_address_in_use_is_named() {
    let setup = Setup::new(&Settings::default());
    let _server = setup.start();
    let other = Setup::new(&Settings::default());
    let srv = std::fs::read_to_string(setup.path("conf/srv.xml")).expect("readable");
    std::fs::write(other.path("conf/srv.xml"), srv).expect("written");
    let output = other.frs(&["serve"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains(&setup.address.to_string()));
}

// Shows: clear-messages.
#[test]
fn the_directory_may_be_named_before_a_command_or_behind_it_and_nothing_else_before() {
    let setup = Setup::new(&Settings::default());
    std::fs::rename(setup.path("conf"), setup.path("other")).expect("renamed");
    assert_eq!(setup.frs(&["check"]).status.code(), Some(1), "there is no conf");
    for arguments in [["--conf", "other", "check"], ["check", "--conf", "other"]] {
        let output = setup.frs(&arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
    }
    let output = setup.frs(&["--conf", "other", "status"]);
    assert!(text(&output.stderr).contains("no server"), "{output:?}");
    for wrong in [
        &["--conf", "other", "check", "--conf", "other"][..],
        &["--conf", "other", "--workers", "1", "check"],
        &["--strict", "status"],
        &["--data", "data", "stop"],
    ] {
        let output = setup.frs(wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {output:?}");
    }
}

#[test]
fn exit_statuses_are_those_of_the_contract() {
    let setup = Setup::new(&Settings::default());
    let checked = setup.frs(&["check"]);
    assert_eq!(checked.status.code(), Some(0));
    assert_eq!(text(&checked.stdout).lines().last(), Some("ok"), "{checked:?}");
    assert_eq!(setup.frs(&["--nonsense"]).status.code(), Some(2));
    assert_eq!(setup.frs(&["serve", "more"]).status.code(), Some(2));
    for command in ["reload", "stop", "status"] {
        let output = setup.frs(&[command]);
        assert_eq!(output.status.code(), Some(1), "no server: {command}");
        assert!(text(&output.stderr).contains("no server"), "{output:?}");
    }
    setup.write_map("<map><nonsense/></map>");
    for command in ["check", "serve"] {
        let output = setup.frs(&[command]);
        assert_eq!(output.status.code(), Some(1), "faulty: {command}");
        assert!(text(&output.stderr).contains("conf/map.xml:1:6"), "{output:?}");
    }
}

#[test]
fn check_shows_the_line_of_each_fault_and_counts_them() {
    let setup = Setup::new(&Settings::default());
    setup.write_map("<map>\n  <nonsense/>\n  <group name='g' chain='57'/>\n</map>\n");
    let output = setup.frs(&["check"]);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(1), ""));
    let said = text(&output.stderr);
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("conf/map.xml:2:3: found <nonsense> in <map>, "), "{said}");
    assert_eq!(lines[1..3], ["  2 |   <nonsense/>", "    |   ^"]);
    let at = lines.iter().position(|line| line.starts_with("conf/map.xml:3:26: ")).expect(&said);
    assert_eq!(lines[at + 1], "  3 |   <group name='g' chain='57'/>");
    assert_eq!(lines[at + 2], "    |                          ^");
    let faults = lines.iter().filter(|line| line.starts_with("conf/")).count();
    assert_eq!(lines.last(), Some(&format!("{faults} faults").as_str()));

    setup.write_map(
        "<map><group name='g' files='1' key-nodes='8' node-size='64'/><nonsense/></map>",
    );
    let said = text(&setup.frs(&["check"]).stderr);
    assert!(said.ends_with("\n1 fault\n"), "{said}");
}

#[test]
fn a_server_is_found_whatever_else_is_wrong_in_the_files() {
    let setup = Setup::new(&Settings::default());
    let mut server = setup.start();
    let more = "<nonsense/><user>nobody-of-this-name</user>".to_owned();
    setup.write_srv(&Settings { more, ..Settings::default() });
    setup.write_map("<map><nonsense/>");
    let output = setup.frs(&["reload"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    for fault in ["conf/srv.xml:1:", "conf/map.xml:1:6", "refused: the old configuration stays"] {
        assert!(said.contains(fault), "by the master: {fault} in {said}");
    }
    let output = setup.frs(&["status"]);
    assert!(text(&output.stdout).contains(&format!("process {}\n", server.master())), "{output:?}");

    std::fs::write(setup.path("conf/srv.xml"), "<srv><workers>").expect("written");
    for command in ["reload", "status", "stop"] {
        let output = setup.frs(&[command]);
        assert_eq!(output.status.code(), Some(1), "{command}");
        let said = text(&output.stderr);
        assert!(said.contains("conf/srv.xml:1:") && said.contains("data directory"), "{said}");
    }
    std::fs::write(setup.path("conf/srv.xml"), "<srv><data dir='data'/><workers>")
        .expect("written");
    let output = setup.frs(&["stop"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(server.wait().success());
}

#[test]
fn status_shows_master_workers_and_addresses() {
    let setup = Setup::new(&Settings::default());
    let server = setup.start();
    server.wait_for_workers(2);
    let status = text(&setup.frs(&["status"]).stdout);
    for expected in [
        format!("process {}\n", server.master()),
        "generation   1\n".to_owned(),
        format!("{}\n", setup.address),
        "keeper ".to_owned(),
    ] {
        assert!(status.contains(&expected), "{expected:?} in {status}");
    }
}

// Shows: faulty-configuration, reloads-fail-no-request.
#[test]
fn reloads_good_and_bad_fail_no_request() {
    let setup = Setup::new(&Settings::default());
    let server = setup.start();
    let more = crate::common::MAP.replace("max=\"3\"", "max=\"4\"").replace(
        "</map>",
        "<group name=\"second\" files=\"1\" key-nodes=\"8\" chain=\"8\" node-size=\"128\"/>\
         <biz id=\"3\" name=\"new\" group=\"second\" key=\"string\">\
         <limit policy=\"total\" max=\"9\"/></biz></map>",
    );
    under_load(server.setup.address, |answered| {
        for round in 0..3 {
            setup.write_map(&more);
            let output = setup.frs(&["reload"]);
            assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
            let said = text(&output.stdout);
            assert_eq!(said, format!("taken: generation {}\n", 2 + round));
            wait_for_more(answered, 50);

            setup.write_map(&more.replace("max=\"4\"", "max=\"many\""));
            server.signal(Signal::SIGHUP);
            // Each earlier round has three refusals: one of this signal, and two of commands.
            wait_until("the fault is logged", || {
                (setup.log().matches("stays in force").count() == 3 * round + 1).then_some(())
            });
            assert_eq!(setup.frs(&["reload"]).status.code(), Some(1));

            setup.write_map(&more.replace("chain=\"8\"", "chain=\"8\" hash=\"bob\""));
            let output = setup.frs(&["reload"]);
            assert_eq!(output.status.code(), Some(1));
            assert!(text(&output.stderr).contains("frs-inspect migrate"), "{output:?}");
            wait_for_more(answered, 50);
        }
    });
    let mut client = server.client();
    assert_eq!(client.get("/update?biz=three&key=k").attribute("max"), Some("4"));
    assert_eq!(client.get("/update?biz=new&key=k").attribute("max"), Some("9"));
}

// Shows: faulty-configuration.
#[test]
fn a_reload_refuses_what_needs_a_restart() {
    let setup = Setup::new(&Settings::default());
    let _server = setup.start();
    let more = "<listen>unix:other.sock</listen>".to_owned();
    setup.write_srv(&Settings { more, ..Settings::default() });
    let output = setup.frs(&["reload"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("<listen>") && said.contains("restart"), "{said}");
}

// Shows: reloads-fail-no-request.
#[test]
fn more_and_fewer_workers_by_reload_fail_no_request() {
    let setup = Setup::new(&Settings::default());
    let server = setup.start();
    under_load(server.setup.address, |answered| {
        for workers in [4, 1, 3, 2] {
            setup.write_srv(&Settings { workers, ..Settings::default() });
            let output = setup.frs(&["reload"]);
            assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
            server.wait_for_workers(workers.into());
            wait_for_more(answered, 100);
        }
    });
}

/// The number of sockets that a process has open.
fn sockets(pid: Pid) -> usize {
    let all = descriptors(pid).expect("it runs");
    all.iter().filter(|target| target.to_string_lossy().starts_with("socket:")).count()
}

// Shows: reloads-fail-no-request.
#[test]
fn a_killed_worker_is_replaced_and_others_notice_nothing() {
    let setup = Setup::new(&Settings::default());
    let server = setup.start();
    let workers = server.wait_for_workers(2);
    // Connections to every worker. Killing a worker shows which of them it served.
    let idle: Vec<usize> = workers.iter().map(|&worker| sockets(worker)).collect();
    let mut clients: Vec<Client> = Vec::new();
    wait_until("each worker serves a connection", || {
        clients.extend((0..16).map(|_| server.client()));
        clients.iter_mut().rev().take(16).for_each(|client| charge(client, "kept", 1));
        workers.iter().zip(&idle).all(|(&worker, idle)| sockets(worker) > *idle).then_some(())
    });
    kill(workers[0], Signal::SIGKILL).expect("killed");
    let failed = clients
        .iter_mut()
        .filter_map(|client| client.try_get("/update?biz=plenty&key=kept").err())
        .count();
    assert!((1..clients.len()).contains(&failed), "one worker's connections end: {failed}");
    wait_until("it is replaced", || {
        let now = server.workers();
        (now.len() == 2 && !now.contains(&workers[0])).then_some(())
    });
    let asked = 2 * clients.len() as u64;
    let answered = asked - failed as u64;
    let charged = used(&mut server.client(), "kept");
    // An Update whose answer was lost may have been charged.
    assert!((answered..=asked).contains(&charged), "{charged} of {answered}");
    under_load(server.setup.address, |_| {});
}

// Shows: reloads-fail-no-request.
#[test]
fn a_killed_keeper_is_replaced() {
    let setup = Setup::new(&Settings::default());
    let server = setup.start();
    let keeper = wait_until("a keeper is attached", || server.attached("keeper").pop());
    under_load(server.setup.address, |_| {
        kill(keeper, Signal::SIGKILL).expect("killed");
        wait_until("it is replaced", || {
            server.attached("keeper").pop().filter(|&now| now != keeper)
        });
    });
}

// Shows: deaths-lose-nothing.
#[test]
fn counts_survive_the_death_of_all_processes() {
    let setup = Setup::new(&Settings::default());
    let mut server = setup.start();
    charge(&mut server.client(), "kept", 7);
    server.kill_all();
    drop(server);
    let mut server = setup.start();
    assert_eq!(used(&mut server.client(), "kept"), 7);
    assert_eq!(setup.frs(&["stop"]).status.code(), Some(0));
    assert!(server.wait().success());
    let server = setup.start();
    assert_eq!(used(&mut server.client(), "kept"), 7);
}

#[test]
fn workers_end_when_their_master_dies() {
    let setup = Setup::new(&Settings::default());
    let mut server = setup.start();
    let children: Vec<_> =
        server.wait_for_workers(2).into_iter().chain(server.attached("keeper")).collect();
    let mut client = server.client();
    charge(&mut client, "kept", 3);
    server.signal(Signal::SIGKILL);
    server.wait();
    wait_until("all are gone", || (!children.iter().any(|&pid| is_alive(pid))).then_some(()));
    let server = setup.start();
    assert_eq!(used(&mut server.client(), "kept"), 3);
}

#[test]
fn a_server_starts_again_right_after_its_master_was_killed() {
    let setup = Setup::new(&Settings::default());
    let mut server = setup.start();
    charge(&mut server.client(), "kept", 3);
    let mut begun = server.client();
    charge(&mut begun, "kept", 1);
    // Keeps an old worker for as long as old workers may take to end.
    begun.send("GET /query?biz=plenty&key=kept HT");
    server.signal(Signal::SIGKILL);
    server.wait();
    let mut next = setup.start_unready();
    wait_until("new workers are attached beside the old one", || {
        (next.workers().len() == 3).then_some(())
    });
    begun.send("TP/1.1\r\nHost: t\r\n\r\n");
    assert_eq!(begun.answer().attribute("used"), Some("4"), "by the old worker");
    assert_eq!(used(&mut next.client(), "kept"), 4);
    assert_eq!(setup.frs(&["stop"]).status.code(), Some(0));
    assert!(next.wait().success());
}

#[test]
fn stops_within_five_seconds_whatever_clients_do() {
    let setup = Setup::new(&Settings::default());
    let mut server = setup.start();
    let mut idle: Vec<Client> = (0..8).map(|_| server.client()).collect();
    idle.iter_mut().for_each(|client| charge(client, "idle", 1));
    let mut half = server.client();
    half.send("GET /health HT");
    let mut late = server.client();
    charge(&mut late, "late", 1);
    late.send("GET /query?biz=plenty&key=late HTTP/1.1\r\nHost: t");
    let stopped = server.wait_for_workers(2)[0];
    kill(stopped, Signal::SIGSTOP).expect("stopped");
    let begun = Instant::now();
    server.signal(Signal::SIGTERM);
    assert!(server.wait().success());
    let took = begun.elapsed();
    // On a busy machine a process that is killed after five seconds takes some time to disappear.
    assert!(took < Duration::from_secs(8), "{took:?}");
    assert!(!is_alive(stopped));
    assert_eq!(setup.frs(&["status"]).status.code(), Some(1));
}

#[test]
fn a_request_that_has_begun_is_answered_before_the_end() {
    let setup = Setup::new(&Settings { workers: 1, ..Settings::default() });
    let mut server = setup.start();
    let (mut begun, mut idle) = (server.client(), server.client());
    charge(&mut idle, "a", 1);
    charge(&mut begun, "a", 1);
    begun.send("GET /query?biz=plenty&key=a HTTP/1.1\r\n");
    // This request was answered later, so the half request has been read too.
    charge(&mut idle, "a", 1);
    server.signal(Signal::SIGTERM);
    assert!(idle.is_closed());
    begun.send("Host: t\r\n\r\n");
    let answer = begun.answer();
    assert_eq!((answer.status, answer.attribute("used")), (200, Some("3")));
    assert!(answer.closes() && begun.is_closed());
    assert!(server.wait().success());
}

#[test]
fn quit_waits_for_clients_to_close() {
    let setup = Setup::new(&Settings::default());
    let mut server = setup.start();
    let mut clients: Vec<Client> = (0..4).map(|_| server.client()).collect();
    clients.iter_mut().for_each(|client| charge(client, "a", 1));
    server.signal(Signal::SIGQUIT);
    wait_until("nobody accepts", || {
        setup.log().contains("waiting for clients to close").then_some(())
    });
    for client in &mut clients {
        let health = client.try_get("/health").expect("still served");
        assert!(health.status == 503 || !health.closes(), "{health:?}");
    }
    drop(clients);
    assert!(server.wait().success());
}

// Shows: stalls-are-bounded.
#[test]
fn a_stopped_worker_delays_others_at_most_by_the_lock_timeout() {
    let http = "lock-timeout=\"50ms\"".to_owned();
    let setup = Setup::new(&Settings { http, ..Settings::default() });
    let server = setup.start();
    let workers = server.wait_for_workers(2);
    let stop = AtomicBool::new(false);
    let address = setup.address;
    thread::scope(|scope| {
        let ends = UntilDropped(&stop);
        // Keeps both workers busy on one key-node. The stopped one may hold its semaphore.
        for _ in 0..8 {
            scope.spawn(|| {
                let mut client = Client::connect(address);
                while !stop.load(Ordering::Relaxed) {
                    client.get("/update?biz=plenty&key=hot");
                }
            });
        }
        for round in 0..20 {
            let stopped = workers[round % 2];
            kill(stopped, Signal::SIGSTOP).expect("stopped");
            // New connections do not wait in the queue of the stopped worker.
            for _ in 0..8 {
                let begun = Instant::now();
                let answer = Client::connect(address).get("/update?biz=plenty&key=hot");
                let took = begun.elapsed();
                assert!(took < Duration::from_millis(1_000), "round {round}: {took:?}");
                assert!(matches!(answer.status, 200 | 503), "{answer:?}");
            }
            kill(stopped, Signal::SIGCONT).expect("continued");
        }
        drop(ends);
    });
    assert_eq!(server.workers(), workers, "nobody was replaced");
}

#[test]
fn a_reload_names_who_does_not_acknowledge_it() {
    let setup = Setup::new(&Settings::default());
    let server = setup.start();
    let stopped = server.wait_for_workers(2)[0];
    kill(stopped, Signal::SIGSTOP).expect("stopped");
    let begun = Instant::now();
    let output = setup.frs(&["reload"]);
    let took = begun.elapsed();
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains(&format!("process {stopped}")), "{output:?}");
    assert!((2_000..12_000).contains(&took.as_millis()), "{took:?}");
    kill(stopped, Signal::SIGCONT).expect("continued");
    wait_until("it takes the configuration", || {
        (!text(&setup.frs(&["status"]).stdout).contains("behind")).then_some(())
    });
}

#[test]
fn reopening_a_log_that_is_no_file_is_answered_in_it() {
    let setup = Setup::new(&Settings::default());
    let server = setup.start();
    server.signal(Signal::SIGUSR1);
    wait_until("it is logged", || setup.log().contains("nothing to reopen").then_some(()));
    assert_eq!(server.client().get("/health").status, 200);
}
