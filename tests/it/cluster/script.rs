//! `tools/cluster`: one command starts three masters and three replicas of Redis, and three frs
//! over them.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, Output};

use super::nodes;
use crate::common::{Client, needs, text};

/// The ports of frs in the script.
const HOSTS: [u16; 3] = [7621, 7622, 7623];

fn tool(dir: &Path, what: &str) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/cluster");
    let mut command = Command::new(script);
    command.arg(what).env("FRS", env!("CARGO_BIN_EXE_frs")).env("FRS_CLUSTER_DIR", dir);
    command.output().expect("the script runs")
}

/// Stops everything, also if the test fails.
struct Stops<'a>(&'a Path);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        tool(self.0, "stop");
    }
}

#[test]
fn one_command_starts_a_cluster_whose_machines_share_limits() {
    if nodes::program().is_none() {
        return;
    }
    for program in ["redis-cli", "curl"] {
        if needs::output(Command::new(program).arg("--version")).is_none() {
            return;
        }
    }
    let dir = tempfile::tempdir().expect("a directory");
    let stops = Stops(dir.path());
    // A second start changes nothing.
    for _ in 0..2 {
        let started = tool(dir.path(), "start");
        let said = text(&started.stdout);
        assert!(started.status.success(), "{said}{}", text(&started.stderr));
        let running = |line: &&str| line.ends_with(" master") || line.ends_with(" slave");
        assert_eq!(said.lines().filter(running).count(), 6, "{said}");
        assert_eq!(said.lines().filter(|line| line.ends_with("health 200")).count(), 3, "{said}");
    }
    let mut clients =
        HOSTS.map(|port| Client::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))));
    let mut admitted = 0;
    for nth in 0..120 {
        let answer = clients[nth % 3].get("/update?biz=voucher&key=spring");
        assert!(answer.status == 200 || answer.status == 429, "{answer:?}");
        admitted += usize::from(answer.status == 200);
    }
    assert_eq!(admitted, 100, "of all machines together");
    drop(stops);
    let status = tool(dir.path(), "status");
    let stopped = text(&status.stdout).lines().filter(|line| line.ends_with("stopped")).count();
    assert_eq!(stopped, 9, "{status:?}");
}
