//! systemd is notified of the server's state, and its sockets are served.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};

use frs_base::clock;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{Life, install, under_load};
use crate::common::load::wait_for_more;
use crate::common::{BOUND, Client, Settings, Setup, is_alive, text, wait_until};

/// Systemd's end of the notification socket.
pub struct Systemd(UnixDatagram);

impl Systemd {
    pub fn new(path: &Path) -> Systemd {
        let socket = UnixDatagram::bind(path).expect("bound");
        socket.set_read_timeout(Some(BOUND)).expect("set");
        Systemd(socket)
    }

    pub fn next(&self) -> String {
        let mut bytes = [0; 1024];
        loop {
            match self.0.recv(&mut bytes) {
                // A signal of another test. A call on a socket with a timeout is not restarted
                // automatically.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                received => return text(&bytes[..received.expect("a notification")]),
            }
        }
    }

    /// Waits for a message with this line.
    pub fn wait_for(&self, line: &str) -> String {
        loop {
            let next = self.next();
            if next.lines().any(|found| found.starts_with(line)) {
                return next;
            }
        }
    }
}

#[test]
fn systemd_is_told_of_readiness_reloads_new_masters_and_the_end() {
    let setup = Setup::new(&Settings::default());
    install(&setup, Path::new(env!("CARGO_BIN_EXE_frs")));
    let path = setup.path("notify");
    let systemd = Systemd::new(&path);
    let mut command = Command::new("./frs");
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "20000");
    let life = Life::spawn_quietly(&setup, &mut command);
    let ready = systemd.wait_for("READY=1");
    let status = format!("STATUS=2 workers on {}, generation 1", setup.address);
    assert!(ready.lines().any(|line| line == status), "{ready}");
    assert_eq!(life.workers().len(), 2, "they serve by then");
    systemd.wait_for("WATCHDOG=1");

    let before_us = monotonic_us();
    kill(life.first(), Signal::SIGHUP).expect("signalled");
    let reloading = systemd.wait_for("RELOADING=1");
    let stamp = reloading.lines().find_map(|line| line.strip_prefix("MONOTONIC_USEC="));
    let stamp: u64 = stamp.expect("a stamp").parse().expect("a number");
    assert!((before_us..=monotonic_us()).contains(&stamp), "{before_us} {stamp}");
    let ready = systemd.wait_for("READY=1");
    assert!(ready.contains("generation 2"), "{ready}");

    setup.write_map("<map><group/></map>");
    kill(life.first(), Signal::SIGHUP).expect("signalled");
    systemd.wait_for("RELOADING=1");
    let ready = systemd.wait_for("READY=1");
    assert!(ready.contains("generation 2") && ready.contains("refused"), "{ready}");
    setup.write_map(crate::common::MAP);

    kill(life.first(), Signal::SIGUSR2).expect("signalled");
    let told = systemd.wait_for("MAINPID=");
    let (new, rest) = told.trim_start_matches("MAINPID=").split_once('\n').expect("two lines");
    assert_eq!(rest, "WATCHDOG=1", "the new one has the whole time to say so itself");
    let new: i32 = new.parse().expect("a pid");
    assert_ne!(new, life.first().as_raw());
    // The new master sends this. systemd listens to it now.
    systemd.wait_for("READY=1");
    wait_until("it is named", || life.try_master().filter(|pid| pid.as_raw() == new));
    let environment = fs::read(format!("/proc/{new}/environ")).expect("readable");
    assert!(text(&environment).contains("NOTIFY_SOCKET="), "{}", text(&environment));
    systemd.wait_for("WATCHDOG=1");

    kill(Pid::from_raw(new), Signal::SIGTERM).expect("signalled");
    systemd.wait_for("STOPPING=1");
    wait_until("it has ended", || (!is_alive(Pid::from_raw(new))).then_some(()));
}

fn monotonic_us() -> u64 {
    clock::monotonic_ns() / 1000
}

/// Starts frs as systemd does with a socket unit. Standard input and output pass one or two
/// sockets, so that no program of another test inherits them.
pub(super) fn with_sockets(sockets: &[BorrowedFd<'_>]) -> Command {
    let lent = |at: usize| -> Stdio {
        sockets
            .get(at)
            .map_or_else(Stdio::null, |socket| socket.try_clone_to_owned().expect("a copy").into())
    };
    let count = sockets.len();
    let mut command = Command::new("sh");
    let script = format!(
        "LISTEN_PID=$$ LISTEN_FDS={count} exec ./frs serve 3<&0 4<&1 </dev/null >/dev/null"
    );
    command.arg("-c").arg(script).stdin(lent(0)).stdout(lent(1));
    command
}

#[test]
fn sockets_of_systemd_are_served_and_survive_upgrades_and_restarts() {
    let setup = Setup::new(&Settings::default());
    let tcp = TcpListener::bind("127.0.0.1:0").expect("bound");
    let unix = UnixListener::bind(setup.path("lent.sock")).expect("bound");
    let lent = tcp.local_addr().expect("bound");
    let more = format!("<listen>{lent}</listen><listen>unix:lent.sock</listen>");
    setup.write_srv(&Settings { more, ..Settings::default() });
    install(&setup, Path::new(env!("CARGO_BIN_EXE_frs")));
    for round in 0..2 {
        // The connection waits in the queue until a worker accepts it.
        let mut early = Client::connect(lent);
        early.send("GET /health HTTP/1.1\r\nHost: t\r\n\r\n");
        let life = Life::spawn(&setup, &mut with_sockets(&[unix.as_fd(), tcp.as_fd()])).ready();
        assert_eq!(early.answer().status, 200, "round {round}");
        drop(early);
        under_load(lent, |answered| {
            life.upgrade();
            setup.write_srv(&Settings {
                workers: 3,
                more: format!("<listen>{lent}</listen><listen>unix:lent.sock</listen>"),
                ..Settings::default()
            });
            assert_eq!(setup.frs(&["reload"]).status.code(), Some(0), "{}", setup.log());
            wait_for_more(answered, 100);
            life.upgrade();
        });
        UnixStream::connect(setup.path("lent.sock")).expect("listened on");
        life.stop();
        assert!(setup.path("lent.sock").exists(), "it is not frs's to remove");
        TcpListener::bind(setup.address).expect("its own address is free again");
    }
}

#[test]
fn a_socket_of_systemd_that_nothing_names_is_an_error() {
    let setup = Setup::new(&Settings::default());
    let tcp = TcpListener::bind("127.0.0.1:0").expect("bound");
    install(&setup, Path::new(env!("CARGO_BIN_EXE_frs")));
    let mut life = Life::spawn(&setup, &mut with_sockets(&[tcp.as_fd()]));
    assert_eq!(life.first.wait().expect("waited").code(), Some(1));
    let address = tcp.local_addr().expect("bound");
    life.wait_for_log(&format!("no <listen> names {address}"));
}

#[test]
fn sockets_meant_for_another_process_are_left_alone() {
    let setup = Setup::new(&Settings::default());
    install(&setup, Path::new(env!("CARGO_BIN_EXE_frs")));
    let mut command = Command::new("./frs");
    command.env("LISTEN_PID", "1").env("LISTEN_FDS", "3").env("FRS_HANDOVER", "pid=1 lock=9");
    Life::start_command(&setup, &mut command).stop();
}
