//! A limit on the size of files (RLIMIT_FSIZE): a write that does not fit is an error that is
//! reported, and no process dies of SIGXFSZ.

use std::process::Command;

use crate::common::{Settings, Setup, needs, text, wait_until};
use nix::unistd::Pid;

/// Sets the limit of a running process. Returns `false` if that is not permitted.
fn limit(pid: Pid, bytes: u64) -> bool {
    let mut command = Command::new("prlimit");
    command.args([format!("--pid={pid}"), format!("--fsize={bytes}:unlimited")]);
    needs::output(&mut command).is_some_and(|output| {
        assert!(output.status.success(), "{output:?}");
        true
    })
}

#[test]
fn a_file_that_may_not_grow_is_an_error_and_kills_nobody() {
    let more = "<log file=\"frs.log\" level=\"debug\"/>".to_owned();
    let setup = Setup::new(&Settings { more, ..Settings::default() });
    let server = setup.start();
    let workers = server.wait_for_workers(2);
    let keepers = wait_until("a keeper is attached", || {
        Some(server.attached("keeper")).filter(|keepers| !keepers.is_empty())
    });
    let long = format!("{}<!-- {} -->", crate::common::MAP, "long ".repeat(4000));
    for &pid in [vec![server.master()], workers.clone(), keepers.clone()].iter().flatten() {
        if !limit(pid, 4096) {
            return;
        }
    }
    setup.write_map(&long.replace("max=\"3\"", "max=\"4\""));
    let output = setup.frs(&["reload"]);
    let heard = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{heard}");
    assert!(heard.contains("conf.active") && heard.contains("File too large"), "{heard}");
    for nth in 1..=8 {
        let answer = server.client().get("/update?biz=three&key=k");
        assert_eq!(answer.attribute("max"), Some("3"), "{nth}: {answer:?}");
    }
    assert_eq!(server.workers(), workers);
    assert_eq!(server.attached("keeper"), keepers);
    assert!(limit(server.master(), 1 << 30));
    let output = setup.frs(&["reload"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let answer = server.client().get("/update?biz=three&key=k");
    assert_eq!(answer.attribute("max"), Some("4"), "{answer:?}");
}

#[test]
fn a_start_under_a_limit_of_file_sizes_says_which_file_is_too_large() {
    let setup = Setup::new(&Settings::default());
    let script = format!("ulimit -f 64; exec {} serve", env!("CARGO_BIN_EXE_frs"));
    let mut command = Command::new("sh");
    command.current_dir(setup.dir.path()).args(["-c", &script]);
    let output = command.output().expect("sh runs");
    let heard = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(heard.contains("runtime.mmap") && heard.contains("File too large"), "{heard}");
}

#[test]
fn every_process_ignores_the_signal() {
    let setup = Setup::new(&Settings::default());
    let server = setup.start();
    server.wait_for_workers(2);
    // Bit 24 of SigIgn: SIGXFSZ is 25.
    let ignores = |pid: Pid| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?.trim().to_owned();
        Some(u64::from_str_radix(&mask, 16).ok()? & 1 << 24 != 0)
    };
    let all = [vec![server.master()], server.workers(), server.attached("keeper")].concat();
    wait_until("all ignore it", || all.iter().all(|&pid| ignores(pid) == Some(true)).then_some(()));
}
