//! Life on a server: new binaries taking over under load, systemd's notification and sockets, logs
//! that are rotated.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, RawFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use common::{BOUND, Client, Settings, Setup, is_alive, text, wait_until};
use frs::service::{Role, Service};
use frs::sys::process::{self, Channel, Received};
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

/// A server whose master may become another process; killed with all of them when it is dropped.
struct Life<'a> {
    setup: &'a Setup,
    first: Child,
}

impl<'a> Life<'a> {
    /// Starts the test's own copy of the binary, which may be replaced.
    fn start(setup: &'a Setup) -> Life<'a> {
        install(setup, Path::new(env!("CARGO_BIN_EXE_frs")));
        Self::start_command(setup, &mut Command::new("./frs"))
    }

    fn start_command(setup: &'a Setup, command: &mut Command) -> Life<'a> {
        let mut life = Self::spawn(setup, command);
        wait_until("the server serves", || {
            let ended = life.first.try_wait().expect("waited");
            assert!(ended.is_none(), "it ended instead: {ended:?}\n{}", setup.log());
            Client::try_connect(setup.address)?.try_get("/health").ok()
        });
        life
    }

    fn spawn(setup: &'a Setup, command: &mut Command) -> Life<'a> {
        let log = fs::File::options().create(true).append(true).open(setup.path("log"));
        let first = command
            .current_dir(setup.dir.path())
            .stderr(log.expect("a log"))
            .stdout(Stdio::null())
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

    fn master(&self) -> Pid {
        wait_until("a master is there", || self.try_master())
    }

    fn workers(&self) -> BTreeSet<i32> {
        let status = self.status();
        let workers = status.lines().filter(|line| line.starts_with("worker "));
        let pid = |line: &str| line.split("process ").nth(1)?.split(',').next()?.parse().ok();
        workers.filter_map(pid).collect()
    }

    /// Asks for the binary that is installed now, and waits until it is the only one.
    fn upgrade(&self) -> Pid {
        let old = self.master();
        kill(old, Signal::SIGUSR2).expect("signalled");
        let new =
            wait_until("another master is named", || self.try_master().filter(|&pid| pid != old));
        wait_until("the old one has ended", || (!is_alive(old)).then_some(()));
        assert!(is_alive(new));
        new
    }

    fn stop(mut self) -> ExitStatus {
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

/// Puts a program under the name of the server's binary, as a package manager does.
fn install(setup: &Setup, program: &Path) {
    let draft = setup.path("frs.new");
    std::os::unix::fs::symlink(program, &draft).expect("linked");
    fs::rename(draft, setup.path("frs")).expect("renamed");
}

/// Puts a script there.
fn install_script(setup: &Setup, script: &str, mode: &str) {
    // By a program: a file that this process had open for writing could still be so in a child
    // that another test has just forked, and cannot be run then.
    let made = Command::new("sh")
        .args(["-c", "printf %s \"$0\" > frs.new && chmod \"$1\" frs.new && mv -f frs.new frs"])
        .args([script, mode])
        .current_dir(setup.dir.path())
        .status()
        .expect("run");
    assert!(made.success());
}

const CLIENTS: u64 = 6;

/// Clients that charge a key of their own without a pause while `act` runs. Half of them connect
/// anew for each request. A request that fails, or is counted other than once, fails the test.
fn under_load(address: SocketAddr, act: impl FnOnce(&AtomicU64)) {
    let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    let before: Vec<u64> = (0..CLIENTS).map(|nth| used(address, &format!("load{nth}"))).collect();
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|nth| {
                let (stop, answered) = (&stop, &answered);
                scope.spawn(move || {
                    let (mut client, mut own) = (Client::connect(address), 0);
                    while !stop.load(Ordering::Relaxed) {
                        let answer = client.get(&format!("/update?biz=plenty&key=load{nth}"));
                        assert_eq!(answer.status, 200, "{answer:?}");
                        own += 1;
                        answered.fetch_add(1, Ordering::Relaxed);
                        if answer.closes() || nth % 2 == 0 {
                            client = Client::connect(address);
                        }
                    }
                    own
                })
            })
            .collect();
        let acted = catch_unwind(AssertUnwindSafe(|| {
            wait_for_more(&answered, 100);
            act(&answered);
            wait_for_more(&answered, 100);
        }));
        stop.store(true, Ordering::Relaxed);
        for ((nth, client), before) in clients.into_iter().enumerate().zip(before) {
            let own: u64 = client.join().expect("no request failed");
            assert_eq!(used(address, &format!("load{nth}")), before + own, "of client {nth}");
        }
        acted.unwrap_or_else(|panic| resume_unwind(panic));
    });
}

fn wait_for_more(answered: &AtomicU64, more: u64) {
    let begun = answered.load(Ordering::Relaxed);
    wait_until("more is answered", || {
        (answered.load(Ordering::Relaxed) >= begun + more).then_some(())
    });
}

fn used(address: SocketAddr, key: &str) -> u64 {
    let answer = Client::connect(address).get(&format!("/query?biz=plenty&key={key}"));
    answer.attribute("used").and_then(|used| used.parse().ok()).expect("used")
}

#[test]
fn new_binaries_take_over_under_load_without_a_failed_request() {
    let setup = Setup::new(&Settings::default());
    let life = Life::start(&setup);
    let mut masters = BTreeSet::from([life.master().as_raw()]);
    under_load(setup.address, |answered| {
        for _ in 0..4 {
            let old_workers = life.workers();
            install(&setup, Path::new(env!("CARGO_BIN_EXE_frs")));
            let master = life.upgrade();
            assert!(masters.insert(master.as_raw()), "another process each time");
            let workers = life.workers();
            assert_eq!(workers.len(), 2);
            assert!(workers.is_disjoint(&old_workers), "{workers:?} {old_workers:?}");
            wait_for_more(answered, 200);
        }
        let output = setup.frs(&["reload"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(text(&output.stdout), "taken: generation 2\n", "none was published before");
    });
    assert!(life.stop().success(), "the first one's status");
    let log = setup.log();
    assert!(log.contains("marked clean") && !log.contains("not marked clean"), "{log}");
    assert!(!log.contains("ERROR"), "{log}");
}

#[test]
fn an_upgrade_changes_the_number_of_workers_and_the_configuration() {
    let setup = Setup::new(&Settings::default());
    let life = Life::start(&setup);
    under_load(setup.address, |answered| {
        for workers in [4, 1, 3] {
            setup.write_srv(&Settings { workers, ..Settings::default() });
            setup.write_map(&common::MAP.replace("max=\"3\"", &format!("max=\"{workers}0\"")));
            life.upgrade();
            assert_eq!(life.workers().len(), usize::from(workers));
            let answer = Client::connect(setup.address).get("/query?biz=three&key=k");
            assert_eq!(answer.attribute("max"), Some(format!("{workers}0").as_str()));
            wait_for_more(answered, 200);
        }
    });
    life.stop();
}

#[test]
fn a_binary_or_configuration_that_does_not_start_leaves_the_old_one_serving() {
    let setup = Setup::new(&Settings::default());
    let life = Life::start(&setup);
    let master = life.master();
    let asked = std::cell::Cell::new(0);
    let fails = |said: &str| {
        kill(master, Signal::SIGUSR2).expect("signalled");
        asked.set(asked.get() + 1);
        wait_until("the failure is logged", || {
            (setup.log().matches("this one goes on").count() == asked.get()).then_some(())
        });
        assert!(setup.log().contains(said), "{said:?} in {}", setup.log());
        assert!(is_alive(master));
    };
    under_load(setup.address, |answered| {
        install_script(&setup, "#!/bin/sh\nexit 3\n", "755");
        fails("exit status 3");
        install_script(&setup, "no program at all", "644");
        fails("cannot become the new binary");
        fs::remove_file(setup.path("frs")).expect("removed");
        fails("exit status 127");
        install(&setup, Path::new(env!("CARGO_BIN_EXE_frs")));
        setup.write_map("<map><nonsense/></map>");
        fails("conf/map.xml:1:6");
        setup.write_map(&common::MAP.replace("chain=\"8\"", "chain=\"9\""));
        fails("frs-inspect migrate");
        setup.write_map(common::MAP);
        let srv = fs::read_to_string(setup.path("conf/srv.xml")).expect("readable");
        let other = |setting: &str| srv.replace("</srv>", &format!("{setting}</srv>"));
        fs::write(setup.path("conf/srv.xml"), other("<data dir='other'/>")).expect("written");
        fails("<data> needs a restart");
        assert!(!setup.path("other").exists());
        fs::write(setup.path("conf/srv.xml"), other("<data live='live'/>")).expect("written");
        fails("<data> differs from the one in force");
        let elsewhere = srv.replace(&setup.address.to_string(), "127.0.0.1:1");
        fs::write(setup.path("conf/srv.xml"), elsewhere).expect("written");
        fails("no <listen> names");
        fs::write(setup.path("conf/srv.xml"), srv).expect("written");
        assert_eq!(life.master(), master);
        wait_for_more(answered, 100);
        let output = setup.frs(&["reload"]);
        assert_eq!(output.status.code(), Some(0), "it reloads as ever: {output:?}");
        assert_ne!(life.upgrade(), master, "a good one takes over after all");
    });
    life.stop();
}

#[test]
fn unix_sockets_and_new_addresses_live_on_in_the_new_binary() {
    let more = "<listen>unix:frs.sock</listen>".to_owned();
    let setup = Setup::new(&Settings { more, ..Settings::default() });
    let life = Life::start(&setup);
    let spare = TcpListener::bind("127.0.0.1:0").expect("bound").local_addr().expect("bound");
    let more = format!("<listen>unix:frs.sock</listen><listen>{spare}</listen>");
    setup.write_srv(&Settings { more, ..Settings::default() });
    for _ in 0..2 {
        life.upgrade();
        assert_eq!(Client::connect(spare).get("/health").status, 200);
        UnixStream::connect(setup.path("frs.sock")).expect("served");
    }
    life.stop();
    assert!(!setup.path("frs.sock").exists());
}

/// What the admin plane on a unix socket answers.
fn ask_admin(setup: &Setup, method: &str, target: &str) -> String {
    try_ask_admin(setup, method, target).expect("answered")
}

fn try_ask_admin(setup: &Setup, method: &str, target: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(setup.path("admin.sock"))?;
    stream.set_read_timeout(Some(BOUND))?;
    let head =
        format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[test]
fn the_admin_plane_and_what_it_switched_and_reset_live_on_in_the_new_binary() {
    let more = "<admin listen=\"unix:admin.sock\"/>".to_owned();
    let setup = Setup::new(&Settings { more, ..Settings::default() });
    let life = Life::start(&setup);
    let change = |target: &str| {
        let answer = ask_admin(&setup, "POST", target);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    };
    let update = || Client::connect(setup.address).get("/update?biz=three&key=k&count=3");
    assert_eq!(update().attribute("limited"), Some("false"));
    assert_eq!(update().attribute("limited"), Some("true"));
    change("/biz/three/reset");
    let socket = fs::metadata(setup.path("admin.sock")).expect("there").ino();
    for _ in 0..2 {
        assert_eq!(update().attribute("limited"), Some("false"), "it was reset");
        assert_eq!(update().attribute("limited"), Some("true"), "and counts since");
        change("/degrade?on=true");
        life.upgrade();
        let answer = update();
        assert!(answer.body.contains("degraded=\"true\""), "{answer:?}");
        assert_eq!(fs::metadata(setup.path("admin.sock")).expect("there").ino(), socket);
        change("/degrade?on=false");
        assert_eq!(update().attribute("limited"), Some("true"), "a reset is not forgotten");
        change("/biz/three/reset");
        change("/reload");
    }
    let log = setup.log();
    assert!(!log.contains("ERROR"), "{log}");
    life.stop();
    assert!(!setup.path("admin.sock").exists());
}

#[test]
fn switching_while_new_binaries_take_over_is_done_or_refused_and_never_forgotten() {
    let more = "<admin listen=\"unix:admin.sock\"/>".to_owned();
    let setup = Setup::new(&Settings { more, ..Settings::default() });
    let life = Life::start(&setup);
    for round in 0..3 {
        let old = life.master();
        kill(old, Signal::SIGUSR2).expect("signalled");
        // None: who asked the old keeper last may be left without an answer.
        let mut is_on = Some(false);
        let check = |is_on: bool| {
            let answer = Client::connect(setup.address).get("/query?biz=three&key=k");
            assert_eq!(answer.body.contains("degraded=\"true\""), is_on, "{answer:?}");
        };
        let begun = Instant::now();
        while life.try_master().is_none_or(|pid| pid == old) {
            assert!(begun.elapsed() < BOUND, "no other master in round {round}");
            let wanted = is_on != Some(true);
            match try_ask_admin(&setup, "POST", &format!("/degrade?on={wanted}")) {
                Ok(said) if said.starts_with("HTTP/1.1 200 ") => is_on = Some(wanted),
                Ok(said) if said.starts_with("HTTP/1.1 422 ") => {
                    assert!(said.contains("taking over"), "{said}");
                }
                _ => is_on = None,
            }
            is_on.into_iter().for_each(check);
        }
        wait_until("the old one has ended", || (!is_alive(old)).then_some(()));
        is_on.into_iter().for_each(check);
        let answer = ask_admin(&setup, "POST", "/degrade?on=false");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    life.stop();
}

#[test]
fn an_idle_connection_is_served_to_its_end_by_the_old_binary() {
    let setup = Setup::new(&Settings::default());
    let life = Life::start(&setup);
    let mut idle = Client::connect(setup.address);
    assert_eq!(idle.get("/health").status, 200);
    let old = life.master();
    kill(old, Signal::SIGUSR2).expect("signalled");
    wait_until("another master is named", || life.try_master().filter(|&pid| pid != old));
    life.wait_for_log("finishes what it has begun");
    assert!(is_alive(old), "it waits for its client");
    let answer = wait_until("it is told to go", || {
        let answer = idle.get("/health");
        assert_eq!(answer.status, 200, "the server is as healthy as ever");
        answer.closes().then_some(answer)
    });
    assert!(answer.closes() && idle.is_closed());
    wait_until("the old one has ended", || (!is_alive(old)).then_some(()));
    life.stop();
}

#[test]
fn an_old_binary_that_drains_stands_in_nobodys_way() {
    let more = "<listen>unix:frs.sock</listen>".to_owned();
    let setup = Setup::new(&Settings { more, ..Settings::default() });
    let mut life = Life::start(&setup);
    let mut idle = Client::connect(setup.address);
    assert_eq!(idle.get("/update?biz=plenty&key=k").status, 200);
    let old = life.master();
    kill(old, Signal::SIGUSR2).expect("signalled");
    let new = wait_until("another master is named", || life.try_master().filter(|&pid| pid != old));
    life.wait_for_log("finishes what it has begun");
    let output = setup.frs(&["stop"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    wait_until("the new one has ended", || (!is_alive(new)).then_some(()));
    assert!(!setup.path("frs.sock").exists());
    let again = Life::start(&setup);
    assert_eq!(again.master(), again.first(), "the lock is free");
    UnixStream::connect(setup.path("frs.sock")).expect("served");
    let answer = Client::connect(setup.address).get("/update?biz=plenty&key=k");
    assert_eq!(answer.attribute("used"), Some("2"));
    assert!(is_alive(old));
    assert_eq!(idle.get("/update?biz=plenty&key=k").attribute("used"), Some("3"), "by the old one");
    assert!(life.first.wait().expect("waited").success());
    assert_eq!(again.master(), again.first());
    assert!(setup.path("frs.sock").exists(), "the old one has removed nothing");
    again.stop();
}

#[test]
fn an_upgrade_without_slots_for_its_workers_is_refused() {
    let setup = Setup::new(&Settings::default());
    let life = Life::start(&setup);
    let programs: Vec<Service> = (0..60)
        .map(|_| Service::attach(&setup.path("data"), Role::Program).expect("attached"))
        .collect();
    setup.write_srv(&Settings { workers: 200, ..Settings::default() });
    kill(life.first(), Signal::SIGUSR2).expect("signalled");
    life.wait_for_log("this one goes on");
    assert!(setup.log().contains("slots are in use, 202 are needed"), "{}", setup.log());
    assert_eq!(life.master(), life.first());
    drop(programs);
    setup.write_srv(&Settings::default());
    assert_ne!(life.upgrade(), life.first());
    life.stop();
}

/// Is a new binary that never says a word.
const SILENT: &str = "#!/bin/sh\nexec sleep 1000\n";

#[test]
fn a_server_that_is_stopped_while_a_new_binary_starts_ends_both() {
    let setup = Setup::new(&Settings::default());
    let mut life = Life::start(&setup);
    install_script(&setup, SILENT, "755");
    kill(life.first(), Signal::SIGUSR2).expect("signalled");
    life.wait_for_log("a new binary is started");
    let log = setup.log();
    let pid = log.split("take over child=").nth(1).and_then(|rest| rest.lines().next());
    let silent = Pid::from_raw(pid.expect("named").parse().expect("a pid"));
    let output = setup.frs(&["reload"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("a new binary is taking over"), "{output:?}");
    kill(life.first(), Signal::SIGUSR2).expect("signalled");
    life.wait_for_log("one is taking over already");
    assert!(is_alive(silent));
    kill(life.first(), Signal::SIGTERM).expect("signalled");
    assert!(life.first.wait().expect("waited").success());
    assert!(!is_alive(silent));
    assert!(setup.log().contains("marked clean"), "{}", setup.log());
}

#[test]
fn a_server_started_as_root_hands_over_and_rotates_as_its_user() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: not root");
        return;
    }
    let user = nix::unistd::User::from_name("nobody").expect("asked").expect("there");
    let more = "<user>nobody</user><log file=\"logs/frs.log\"/>".to_owned();
    let setup = Setup::new(&Settings { more, ..Settings::default() });
    fs::set_permissions(setup.dir.path(), fs::Permissions::from_mode(0o755)).expect("set");
    fs::set_permissions(setup.path("conf/map.xml"), fs::Permissions::from_mode(0o600))
        .expect("set");
    fs::create_dir(setup.path("logs")).expect("created");
    nix::unistd::chown(&setup.path("logs"), Some(user.uid), None).expect("given");
    let life = Life::start(&setup);
    under_load(setup.address, |_| {
        for _ in 0..2 {
            let master = life.upgrade();
            fs::rename(setup.path("logs/frs.log"), setup.path("logs/old")).expect("renamed");
            kill(master, Signal::SIGUSR1).expect("signalled");
            wait_until("it is opened anew", || {
                let log = fs::read_to_string(setup.path("logs/frs.log")).unwrap_or_default();
                log.contains("the log is opened anew").then_some(())
            });
            assert_eq!(setup.frs(&["reload"]).status.code(), Some(0), "root's file is read");
        }
    });
    let log = fs::metadata(setup.path("logs/frs.log")).expect("there");
    assert_eq!((log.uid(), log.mode() & 0o777), (user.uid.as_raw(), 0o640));
    life.stop();
}

/// Systemd's end of the notification socket.
struct Systemd(UnixDatagram);

impl Systemd {
    fn new(path: &Path) -> Systemd {
        let socket = UnixDatagram::bind(path).expect("bound");
        socket.set_read_timeout(Some(BOUND)).expect("set");
        Systemd(socket)
    }

    fn next(&self) -> String {
        let mut bytes = [0; 1024];
        let length = self.0.recv(&mut bytes).expect("a notification");
        text(&bytes[..length])
    }

    /// Waits for one with this line.
    fn wait_for(&self, line: &str) -> String {
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
    let life = Life::spawn(&setup, &mut command);
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

    setup.write_map("<map/>");
    kill(life.first(), Signal::SIGHUP).expect("signalled");
    systemd.wait_for("RELOADING=1");
    let ready = systemd.wait_for("READY=1");
    assert!(ready.contains("generation 2") && ready.contains("refused"), "{ready}");
    setup.write_map(common::MAP);

    kill(life.first(), Signal::SIGUSR2).expect("signalled");
    let told = systemd.wait_for("MAINPID=");
    let new: i32 = told.trim_start_matches("MAINPID=").parse().expect("a pid");
    assert_ne!(new, life.first().as_raw());
    // By the new one, which systemd listens to now.
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
    process::monotonic_ns() / 1000
}

/// Set for the test below where it is to be a new binary.
const PRETEND: &str = "FRS_TEST_PRETEND";

/// Is a new binary that fails when it has the server already, if a test starts it as one.
#[test]
fn pretends_to_take_over() {
    if std::env::var_os(PRETEND).is_none() {
        return;
    }
    let words = std::env::var("FRS_HANDOVER").expect("handed over");
    let channel = words.split(' ').find_map(|word| word.strip_prefix("channel="));
    let fd = channel.expect("a channel").parse().expect("a number");
    let mut adopted = process::adopt(&[fd]).expect("open");
    let channel = Channel::from_inherited(adopted.pop().expect("a channel"));
    assert!(channel.send(b"prepared", &[]).expect("sent"));
    let answer = wait_until("there is an answer", || match channel.receive().expect("received") {
        Received::Message(word, _) => Some(word),
        Received::Nothing => None,
        Received::Closed => panic!("the older master is gone"),
    });
    assert_eq!(answer, b"yours");
}

#[test]
fn a_new_binary_that_fails_late_gives_the_server_back() {
    let setup = Setup::new(&Settings::default());
    install(&setup, Path::new(env!("CARGO_BIN_EXE_frs")));
    let path = setup.path("notify");
    let systemd = Systemd::new(&path);
    let life = Life::spawn(&setup, Command::new("./frs").env("NOTIFY_SOCKET", &path));
    systemd.wait_for("READY=1");
    let this = std::env::current_exe().expect("a path");
    let script =
        format!("#!/bin/sh\n{PRETEND}=1 exec {} --exact pretends_to_take_over\n", this.display());
    install_script(&setup, &script, "755");
    under_load(setup.address, |answered| {
        for round in 1..=2 {
            kill(life.first(), Signal::SIGUSR2).expect("signalled");
            wait_until("it goes on", || {
                (setup.log().matches("this one goes on").count() == round).then_some(())
            });
            assert_eq!(life.master(), life.first());
            wait_for_more(answered, 100);
        }
        assert_eq!(setup.frs(&["reload"]).status.code(), Some(0));
        let told = systemd.wait_for("");
        assert!(told.starts_with("RELOADING=1"), "the main process was never another: {told}");
        install(&setup, Path::new(env!("CARGO_BIN_EXE_frs")));
        assert_ne!(life.upgrade(), life.first());
    });
    life.stop();
}

/// Starts frs as systemd does where a socket unit stands beside it.
fn with_sockets(sockets: &[RawFd]) -> Command {
    let redirections: String =
        sockets.iter().zip(3..).map(|(from, to)| format!(" {to}<&{from}")).collect();
    let count = sockets.len();
    // Only bash knows numbers of more than one digit.
    let mut command = Command::new("bash");
    let script = format!("LISTEN_PID=$$ LISTEN_FDS={count} exec ./frs serve{redirections}");
    command.arg("-c").arg(script);
    command
}

/// A copy of a socket that stays open in the programs that this one starts.
fn lend(socket: &impl AsFd) -> RawFd {
    fcntl(socket, FcntlArg::F_DUPFD(100)).expect("a copy")
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
    let lent_sockets = [lend(&unix), lend(&tcp)];
    for round in 0..2 {
        // Waits in the queue until somebody serves it.
        let mut early = Client::connect(lent);
        early.send("GET /health HTTP/1.1\r\nHost: t\r\n\r\n");
        let life = Life::start_command(&setup, &mut with_sockets(&lent_sockets));
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
    let mut life = Life::spawn(&setup, &mut with_sockets(&[lend(&tcp)]));
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

const FILE_LOG: &str = "<log level=\"debug\" file=\"frs.log\"/>";

/// Files that the processes of a server have open in a directory.
fn open_files(pids: &BTreeSet<i32>, dir: &Path) -> BTreeSet<PathBuf> {
    let links = |pid: &i32| {
        let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten();
        entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok()).collect::<Vec<_>>()
    };
    let logs = pids
        .iter()
        .flat_map(links)
        .filter(|path| path.starts_with(dir) && path.to_string_lossy().contains("frs.log"));
    logs.collect()
}

#[test]
fn logs_rotated_under_load_lose_no_line_and_cut_none() {
    let setup = Setup::new(&Settings { more: FILE_LOG.to_owned(), ..Settings::default() });
    let life = Life::start(&setup);
    let (mut reloads, mut rotated) = (0, Vec::new());
    let dir = setup.dir.path().canonicalize().expect("there");
    under_load(setup.address, |answered| {
        for round in 0..5 {
            let old = setup.path(&format!("frs.log.{round}"));
            fs::rename(setup.path("frs.log"), &old).expect("renamed");
            rotated.push(old);
            // Lines of all processes while they change over.
            for _ in 0..3 {
                assert_eq!(setup.frs(&["reload"]).status.code(), Some(0));
                reloads += 1;
            }
            kill(life.master(), Signal::SIGUSR1).expect("signalled");
            let mut processes = life.workers();
            processes.insert(life.master().as_raw());
            processes.extend(keepers(&life));
            wait_until("all processes write to the new file", || {
                (open_files(&processes, &dir) == BTreeSet::from([dir.join("frs.log")]))
                    .then_some(())
            });
            assert_eq!(setup.frs(&["reload"]).status.code(), Some(0));
            reloads += 1;
            wait_for_more(answered, 50);
        }
    });
    life.upgrade();
    life.stop();
    rotated.push(setup.path("frs.log"));
    let lines: Vec<String> = rotated
        .iter()
        .flat_map(|path| {
            let text = fs::read_to_string(path).expect("readable");
            assert!(text.ends_with('\n'), "{}", path.display());
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    for line in &lines {
        let whole = line.starts_with("20") && line.matches("frs{role=").count() == 1;
        assert!(whole, "a line of its own: {line}");
    }
    let count = |what: &str| lines.iter().filter(|line| line.contains(what)).count();
    assert_eq!(count("the new configuration is in force"), reloads);
    assert_eq!(count("the log is opened anew"), 5);
    assert!(count("took a new configuration") >= reloads, "of the workers");
    assert_eq!(setup.log(), "", "nothing goes to standard error");
}

fn keepers(life: &Life<'_>) -> Vec<i32> {
    let status = life.status();
    let keepers = status.lines().filter(|line| line.starts_with("keeper "));
    keepers
        .filter_map(|line| line.split("process ").nth(1)?.split(',').next()?.parse().ok())
        .collect()
}

#[test]
fn a_log_that_cannot_be_opened_is_an_error_at_the_start_and_a_line_later() {
    let log =
        |file: &str| Settings { more: format!("<log file=\"{file}\"/>"), ..Settings::default() };
    let setup = Setup::new(&log("missing/frs.log"));
    let output = setup.frs(&["serve"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("missing/frs.log"), "{output:?}");

    fs::create_dir(setup.path("missing")).expect("created");
    let life = Life::start(&setup);
    fs::rename(setup.path("missing"), setup.path("moved")).expect("renamed");
    kill(life.first(), Signal::SIGUSR1).expect("signalled");
    wait_until("it is said in the old file", || {
        let log = fs::read_to_string(setup.path("moved/frs.log")).expect("readable");
        (log.matches("goes on in the old file").count() == 4).then_some(())
    });
    assert_eq!(Client::connect(setup.address).get("/health").status, 200);
    let output = setup.frs(&["reload"]);
    assert_eq!(output.status.code(), Some(0));
    setup.write_srv(&log("moved/frs.log"));
    let output = setup.frs(&["reload"]);
    assert!(text(&output.stderr).contains("<log file>"), "{output:?}");
}
