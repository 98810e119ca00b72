//! The life of a server: new binaries that take over under load, systemd's notifications and
//! sockets, log rotation, settings from outside, checkpoints, and the owner of live files.

mod changes;
mod checkpoints;
mod growing;
mod live_files;
mod local_users;
mod logs;
mod metrics_listeners;
mod network;
mod resp_listeners;
mod settings;
mod systemd;
mod upgrade;

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::AtomicU64;
use std::thread;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use crate::common::{Client, Setup, is_alive, load, text, wait_until};

/// A server whose master may be replaced by another process. Dropping it kills all processes.
pub struct Life<'a> {
    setup: &'a Setup,
    first: Child,
}

impl<'a> Life<'a> {
    /// Starts the test's own copy of the binary, which the test may replace.
    pub fn start(setup: &'a Setup) -> Life<'a> {
        install(setup, Path::new(env!("CARGO_BIN_EXE_frs")));
        Self::start_command(setup, &mut Command::new("./frs"))
    }

    fn start_command(setup: &'a Setup, command: &mut Command) -> Life<'a> {
        Self::spawn_quietly(setup, command).ready()
    }

    /// Starts the server with its standard output discarded.
    fn spawn_quietly(setup: &'a Setup, command: &mut Command) -> Life<'a> {
        Self::spawn(setup, command.stdout(Stdio::null()))
    }

    /// Waits until the server serves.
    fn ready(mut self) -> Life<'a> {
        wait_until("the server serves", || {
            let ended = self.first.try_wait().expect("waited");
            assert!(ended.is_none(), "it ended instead: {ended:?}\n{}", self.setup.log());
            Client::try_connect(self.setup.address)?.try_get("/health").ok()
        });
        self
    }

    fn spawn(setup: &'a Setup, command: &mut Command) -> Life<'a> {
        let log = fs::File::options().create(true).append(true).open(setup.path("log"));
        let first = command
            .current_dir(setup.dir.path())
            .stderr(log.expect("a log"))
            .process_group(0)
            .spawn()
            .expect("frs starts");
        Life { setup, first }
    }

    fn first(&self) -> Pid {
        Pid::from_raw(self.first.id() as i32)
    }

    fn status(&self) -> String {
        text(&self.setup.frs(&["status"]).stdout)
    }

    fn try_master(&self) -> Option<Pid> {
        let status = self.status();
        let pid = status.strip_prefix("master       process ")?.lines().next()?;
        Some(Pid::from_raw(pid.parse().ok()?))
    }

    pub fn master(&self) -> Pid {
        wait_until("a master is there", || self.try_master())
    }

    pub fn workers(&self) -> BTreeSet<i32> {
        self.setup.attached("worker ").into_iter().map(Pid::as_raw).collect()
    }

    pub fn keeper(&self) -> Pid {
        wait_until("a keeper is there", || self.setup.attached("keeper ").first().copied())
    }

    /// Requests an upgrade to the installed binary, and waits until the new master is the only one.
    pub fn upgrade(&self) -> Pid {
        let old = self.master();
        kill(old, Signal::SIGUSR2).expect("signalled");
        let new =
            wait_until("another master is named", || self.try_master().filter(|&pid| pid != old));
        wait_until("the old one has ended", || (!is_alive(old)).then_some(()));
        assert!(is_alive(new));
        new
    }

    pub fn stop(mut self) -> ExitStatus {
        let master = self.master();
        let output = self.setup.frs(&["stop"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        wait_until("it has ended", || (!is_alive(master)).then_some(()));
        self.first.wait().expect("waited")
    }

    fn wait_for_log(&self, what: &str) {
        wait_until(&format!("the log says {what:?}"), || {
            self.setup.log().contains(what).then_some(())
        });
    }
}

impl Drop for Life<'_> {
    fn drop(&mut self) {
        let _ = killpg(self.first(), Signal::SIGKILL);
        let _ = self.first.wait();
        if thread::panicking() {
            eprintln!("--- the server's log\n{}---", self.setup.log());
        }
    }
}

/// Installs a program under the name of the server's binary, as a package manager does.
pub fn install(setup: &Setup, program: &Path) {
    let draft = setup.path("frs.new");
    std::os::unix::fs::symlink(program, &draft).expect("linked");
    fs::rename(draft, setup.path("frs")).expect("renamed");
}

/// Installs a script under the name of the server's binary.
fn install_script(setup: &Setup, script: &str, mode: &str) {
    // Another program writes the file. If this process had it open for writing, a child of another
    // test could inherit the descriptor, and the file could not be executed.
    let made = Command::new("sh")
        .args(["-c", "printf %s \"$0\" > frs.new && chmod \"$1\" frs.new && mv -f frs.new frs"])
        .args([script, mode])
        .current_dir(setup.dir.path())
        .status()
        .expect("run");
    assert!(made.success());
}

/// As [`load::under_load`]. A request that is not counted exactly once also fails the test.
fn under_load(address: SocketAddr, act: impl FnOnce(&AtomicU64)) {
    let key = |nth: usize| format!("load{nth}");
    let before: Vec<u64> = (0..load::CLIENTS).map(|nth| used(address, &key(nth))).collect();
    let answered = load::under_load(address, act);
    for (nth, (own, before)) in answered.into_iter().zip(before).enumerate() {
        assert_eq!(used(address, &key(nth)), before + own, "of client {nth}");
    }
}

fn used(address: SocketAddr, key: &str) -> u64 {
    let answer = Client::connect(address).get(&format!("/query?biz=plenty&key={key}"));
    answer.attribute("used").and_then(|used| used.parse().ok()).expect("used")
}
