//! `tools/mirror`: one command starts two machines that mirror records, one of which can be lost.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::address::Reserved;
use crate::common::{Answer, Client, needs, text, wait_until};

/// The machines of the script, and the addresses that it uses.
struct Script {
    dir: tempfile::TempDir,
    addresses: [Reserved; 5],
}

impl Script {
    fn new() -> Script {
        let dir = tempfile::tempdir().expect("a directory");
        Script { dir, addresses: std::array::from_fn(|_| Reserved::new()) }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/mirror");
        let ports = self.addresses.each_ref().map(|one| one.address.port().to_string());
        let mut command = Command::new(script);
        command.args(arguments).env("FRS", env!("CARGO_BIN_EXE_frs"));
        command.env("FRS_MIRROR_DIR", self.dir.path()).env("FRS_MIRROR_PORTS", ports.join(" "));
        command.output().expect("the script runs")
    }

    /// What the script says, which must succeed.
    #[track_caller]
    fn said(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        text(&output.stdout)
    }

    fn address(&self, nth: usize) -> SocketAddr {
        self.addresses[nth].address
    }

    fn data(&self, machine: &str) -> PathBuf {
        self.dir.path().join(machine).join("data")
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.run(&["stop"]);
    }
}

fn charge(address: SocketAddr) -> Answer {
    Client::connect(address).get("/update?biz=voucher&key=spring")
}

// Shows: seen-of-peers.
#[test]
fn one_command_starts_two_machines_and_another_one_loses_one() {
    for program in ["curl", "pkill"] {
        if needs::output(Command::new(program).arg("--version")).is_none() {
            return;
        }
    }
    let script = Script::new();
    // A second start changes nothing.
    for _ in 0..2 {
        let said = script.said(&["start"]);
        assert_eq!(said.matches("running; peer 127.0.0.1:").count(), 2, "{said}");
    }
    let [one, two] = [0, 1].map(|nth| script.address(nth));
    for nth in 1..=3 {
        assert_eq!(charge(one).attribute("used"), Some(nth.to_string().as_str()));
    }
    wait_until("the other machine has the record", || {
        let answer = Client::connect(two).get("/query?biz=voucher&key=spring");
        (answer.attribute("used") == Some("3")).then_some(())
    });
    let said = script.said(&["lose", "1"]);
    assert!(said.contains("stopped") && !script.data("machine-1").exists(), "{said}");
    assert_eq!(charge(two).attribute("used"), Some("4"));
    script.said(&["restore", "1"]);
    assert_eq!(charge(one).attribute("used"), Some("5"), "it has asked its peer");
    assert!(!script.run(&["lose", "3"]).status.success());
    script.said(&["stop"]);
    let said = script.said(&["status"]);
    assert_eq!(said.matches("stopped").count(), 3, "{said}");
}
