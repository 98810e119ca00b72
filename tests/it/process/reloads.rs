//! Hundreds of good and bad reloads under load. No request fails, and no process holds more
//! resources afterwards than before.
//!
//! `FRS_RELOADS` is the number of reloads, a multiple of three: `just reloads 999`.

use std::collections::BTreeMap;

use nix::unistd::Pid;

use crate::common::load::{under_load, wait_for_more};
use crate::common::plane::ask_socket;
use crate::common::{Server, Settings, Setup, text, try_wait, wait_until};

/// Reloads after which every one-time allocation has been made.
const FIRST: usize = 99;
/// Further reloads, after which a process must hold no more.
const THEN: usize = 101;
/// The tolerance for the memory of a process: an allocator's page here or there. Two kilobytes lost
/// in each reload would exceed it; with `FRS_RELOADS=999`, 220 bytes would.
const SLACK_BYTES: u64 = 192 << 10;

/// The resources of a process.
#[derive(Debug)]
struct Held {
    heap_bytes: u64,
    maps: usize,
    descriptors: usize,
}

fn processes(server: &Server<'_>) -> Vec<(String, Pid)> {
    let mut processes = vec![("master".to_owned(), server.master())];
    for role in ["keeper", "worker"] {
        let named = server.attached(role).into_iter().map(|pid| (format!("{role} {pid}"), pid));
        processes.extend(named);
    }
    processes
}

fn proc(pid: Pid, name: &str) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/{name}")).expect("it is there")
}

/// The number of mapped parts of files. The maps of the allocator do not count, because it splits
/// and joins them freely.
fn maps(pid: Pid, of: &str) -> usize {
    proc(pid, "maps").lines().filter(|line| line.contains(of)).count()
}

fn held(server: &Server<'_>) -> BTreeMap<String, Held> {
    let held = processes(server).into_iter().map(|(name, pid)| {
        let status = proc(pid, "status");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("readable").count();
        let heap_bytes = kib.expect("a number of KiB") << 10;
        (name, Held { heap_bytes, maps: maps(pid, "/"), descriptors })
    });
    held.collect()
}

/// A configuration with more groups, businesses, lists and limits, and one with fewer.
fn configurations() -> [String; 3] {
    // This max is never reached.
    let fewer = crate::common::MAP.replace("max=\"1000000\"", "max=\"9007199254740991\"");
    let more = fewer.replace(
        "</map>",
        "<group name=\"second\" files=\"3\" key-nodes=\"8\" chain=\"8\" node-size=\"192\"/>
         <biz id=\"7\" name=\"new\" group=\"second\" key=\"string\">
           <limit policy=\"sliding\" interval=\"1m\" max=\"9\"/>
           <limit policy=\"calendar\" unit=\"day\" tz=\"Asia/Shanghai\" max=\"9\" scope=\"biz\"/>
           <allow key=\"friend\"/><deny key=\"foe\"/>
         </biz></map>",
    );
    let bad = more.replace("max=\"9\"", "max=\"many\"");
    [more, fewer, bad]
}

/// Reloads this often under load. Every third reload is refused. The last accepted one has fewer
/// groups.
fn reload(server: &Server<'_>, times: usize) {
    let configurations = configurations();
    under_load(server.setup.address, |answered| {
        for (nth, map) in configurations.iter().cycle().take(times).enumerate() {
            server.setup.write_map(map);
            let output = server.setup.frs(&["reload"]);
            let expected = i32::from(nth % configurations.len() == 2);
            assert_eq!(output.status.code(), Some(expected), "{}", text(&output.stderr));
            if nth % 50 == 0 {
                look(server);
                wait_for_more(answered, 10);
            }
        }
        // Each second a process checks whether all others have released a removed group.
        wait_until("nobody maps a group that is gone", || {
            look(server);
            let mapped = |(_, pid): &(String, Pid)| maps(*pid, "/second.") > 0;
            (!processes(server).iter().any(mapped)).then_some(())
        });
    });
    // Idle again: all connections are closed and no request is half read.
    wait_until("nobody is connected", || look(server).contains(" connections=\"0\"").then_some(()));
}

/// The admin plane's figures, including those from the files.
fn look(server: &Server<'_>) -> String {
    let ask = |target: &str| {
        let request = format!("GET {target} HTTP/1.0\r\n\r\n");
        let answer = ask_socket(server.setup.path("admin.sock"), &request).expect("answered");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        answer
    };
    ask("/top?biz=plenty");
    ask("/stats")
}

#[test]
fn hundreds_of_reloads_under_load_fail_no_request_and_leave_nothing_behind() {
    let asked = std::env::var("FRS_RELOADS").ok().map(|text| text.parse().expect("a number"));
    let then = asked.map_or(THEN, |all: usize| all.saturating_sub(FIRST));
    let more = "<admin listen=\"unix:admin.sock\"/>".to_owned();
    let setup = Setup::new(&Settings { workers: 2, more, ..Settings::default() });
    setup.write_map(&configurations()[1]);
    let server = setup.start();
    server.wait_for_workers(2);
    let files = |name: &str| std::fs::read_dir(setup.path(name)).expect("readable").count();
    reload(&server, FIRST);
    let (before, files_before) = (held(&server), files("data"));
    reload(&server, then);
    // The master closes the connection of a command a moment after the command has ended.
    let after = try_wait(|| {
        let after = held(&server);
        let is_open = |(name, now): (&String, &Held)| {
            before.get(name).is_some_and(|then| now.descriptors > then.descriptors)
        };
        (!after.iter().any(is_open)).then_some(after)
    })
    .unwrap_or_else(|| held(&server));
    println!("before: {before:#?}\nafter: {after:#?}");
    assert_eq!(files("data"), files_before);
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>(), "none died");
    for (name, after) in &after {
        let before = &before[name];
        assert!(after.heap_bytes <= before.heap_bytes + SLACK_BYTES, "{name}: memory grows");
        assert_eq!(after.maps, before.maps, "{name}: files stay mapped");
        assert!(after.descriptors <= before.descriptors, "{name}: descriptors stay open");
    }
}
