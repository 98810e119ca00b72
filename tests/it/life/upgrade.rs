//! A new binary takes over from the running server, or fails without harm.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use frs_base::sys::process::{self, Channel, Delivery};
use frs_conf::{Conf, active};
use frs_engine::{Role, Service};
use frs_store::Runtime;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::systemd::Systemd;
use super::{Life, install, install_script, under_load};
use crate::common::address::Reserved;
use crate::common::load::UntilDropped;
use crate::common::load::wait_for_more;
use crate::common::plane::ask_socket;
use crate::common::programs::test_name;
use crate::common::{
    BOUND, Client, Settings, Setup, descriptors, files, is_alive, needs, text, wait_until,
};

// Shows: upgrades.
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

// Shows: upgrades.
#[test]
fn an_upgrade_changes_the_number_of_workers_and_the_configuration() {
    let setup = Setup::new(&Settings::default());
    let life = Life::start(&setup);
    under_load(setup.address, |answered| {
        for workers in [4, 1, 3] {
            setup.write_srv(&Settings { workers, ..Settings::default() });
            setup.write_map(
                &crate::common::MAP.replace("max=\"3\"", &format!("max=\"{workers}0\"")),
            );
            life.upgrade();
            assert_eq!(life.workers().len(), usize::from(workers));
            let answer = Client::connect(setup.address).get("/query?biz=three&key=k");
            assert_eq!(answer.attribute("max"), Some(format!("{workers}0").as_str()));
            wait_for_more(answered, 200);
        }
    });
    life.stop();
}

// Shows: upgrades.
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
            (setup.log().matches("this one continues").count() == asked.get()).then_some(())
        });
        assert!(setup.log().contains(said), "{said:?} in {}", setup.log());
        assert!(is_alive(master));
    };
    under_load(setup.address, |answered| {
        install_script(&setup, "#!/bin/sh\nexit 3\n", "755");
        fails("it has ended");
        install_script(&setup, "no program at all", "644");
        fails("cannot become the new binary");
        fs::remove_file(setup.path("frs")).expect("removed");
        fails("No such file or directory");
        install(&setup, Path::new(env!("CARGO_BIN_EXE_frs")));
        setup.write_map("<map><nonsense/></map>");
        fails("conf/map.xml:1:6");
        setup.write_map(&crate::common::MAP.replace("chain=\"8\"", "chain=\"9\""));
        fails("reload first, so that it moves");
        setup.write_map(crate::common::MAP);
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
    let reserved = Reserved::new();
    let spare = reserved.address;
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

/// The answer of the admin plane on a unix socket.
fn ask_admin(setup: &Setup, method: &str, target: &str) -> String {
    try_ask_admin(setup, method, target).expect("answered")
}

fn try_ask_admin(setup: &Setup, method: &str, target: &str) -> io::Result<String> {
    let request =
        format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    ask_socket(setup.path("admin.sock"), &request)
}

// Shows: upgrades.
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

// Shows: upgrades.
#[test]
fn switching_while_new_binaries_take_over_is_done_or_refused_and_never_forgotten() {
    let more = "<admin listen=\"unix:admin.sock\"/>".to_owned();
    let setup = Setup::new(&Settings { more, ..Settings::default() });
    let life = Life::start(&setup);
    let check = |is_on: bool| {
        let answer = Client::connect(setup.address).get("/query?biz=three&key=k");
        assert_eq!(answer.body.contains("degraded=\"true\""), is_on, "{answer:?}");
    };
    let change = |on: bool| {
        let answer = ask_admin(&setup, "POST", &format!("/degrade?on={on}"));
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    };
    for round in 0..6 {
        // A switch that stays on leaves its state in no doubt, so a master that forgets it is
        // detected in any order of events. A switch that changes repeatedly detects a master that
        // reads it too early.
        let stays_on = round % 2 == 0;
        let mut is_on = Some(stays_on);
        change(stays_on);
        let old = life.master();
        kill(old, Signal::SIGUSR2).expect("signalled");
        let begun = Instant::now();
        while life.try_master().is_none_or(|pid| pid == old) {
            assert!(begun.elapsed() < BOUND, "no other master in round {round}");
            let wanted = stays_on || is_on != Some(true);
            match try_ask_admin(&setup, "POST", &format!("/degrade?on={wanted}")) {
                Ok(said) if said.starts_with("HTTP/1.1 200 ") => is_on = Some(wanted),
                Ok(said) if said.starts_with("HTTP/1.1 422 ") => {
                    assert!(said.contains("taking over"), "{said}");
                }
                // The last request to the old keeper may have no answer.
                _ => is_on = is_on.filter(|&is_on| is_on == wanted),
            }
            is_on.into_iter().for_each(check);
        }
        wait_until("the old one has ended", || (!is_alive(old)).then_some(()));
        assert!(is_on.is_some() || !stays_on);
        is_on.into_iter().for_each(check);
    }
    change(false);
    check(false);
    life.stop();
}

// Shows: upgrades.
#[test]
fn an_upgrade_gets_its_turn_among_reloads_without_end() {
    let setup = Setup::new(&Settings::default());
    let life = Life::start(&setup);
    let (old, is_over, begun) = (life.first(), AtomicBool::new(false), Instant::now());
    thread::scope(|scope| {
        let ends = UntilDropped(&is_over);
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) && begun.elapsed() < 2 * BOUND {
                // Not reaped before the end of the test, so the id is not used again.
                let _ = kill(old, Signal::SIGHUP);
            }
        });
        life.wait_for_log("the new configuration is in force");
        kill(old, Signal::SIGUSR2).expect("signalled");
        wait_until("another master is named", || life.try_master().filter(|&pid| pid != old));
        drop(ends);
    });
    let log = setup.log();
    let before = log.split("a new binary is started").next().expect("a part");
    let postponed: Vec<&str> = before.split("the new binary is started after the reload").collect();
    assert!(postponed.len() <= 2, "it was postponed {} times", postponed.len() - 1);
    let waited = postponed.get(1).unwrap_or(&"");
    let reloads = waited.matches("the new configuration is in force").count();
    // Those that were acknowledged, prepared and waiting when the upgrade was requested.
    assert!(reloads <= 3, "{reloads} reloads went first");
    life.stop();
}

// Shows: upgrades.
#[test]
fn an_idle_connection_is_served_to_its_end_by_the_old_binary() {
    let setup = Setup::new(&Settings::default());
    let life = Life::start(&setup);
    let mut idle = Client::connect(setup.address);
    assert_eq!(idle.get("/health").status, 200);
    let old = life.master();
    kill(old, Signal::SIGUSR2).expect("signalled");
    wait_until("another master is named", || life.try_master().filter(|&pid| pid != old));
    life.wait_for_log("this one finishes its requests");
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
    life.wait_for_log("this one finishes its requests");
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
        .map(|_| Service::attach(&setup.path("data"), Role::Program, None).expect("attached"))
        .collect();
    setup.write_srv(&Settings { workers: 200, ..Settings::default() });
    kill(life.first(), Signal::SIGUSR2).expect("signalled");
    life.wait_for_log("this one continues");
    assert!(setup.log().contains("slots are in use, 202 are needed"), "{}", setup.log());
    assert_eq!(life.master(), life.first());
    drop(programs);
    setup.write_srv(&Settings::default());
    assert_ne!(life.upgrade(), life.first());
    life.stop();
}

/// The process of the last started binary.
fn newcomer(setup: &Setup) -> Pid {
    let log = setup.log();
    let pid = log.rsplit("take over child=").next().and_then(|rest| rest.lines().next());
    Pid::from_raw(pid.expect("named").parse().expect("a pid"))
}

/// Waits until the process reads signals instead of being ended by them.
fn wait_for_signalfd(pid: Pid) {
    wait_until("it reads its signals", || {
        let all = descriptors(pid).ok()?;
        all.iter().any(|target| target.ends_with("anon_inode:[signalfd]")).then_some(())
    });
}

/// Requests an upgrade, and stops the older master before the new binary can begin.
fn begin_and_halt(life: &Life<'_>) -> Pid {
    let frs = env!("CARGO_BIN_EXE_frs");
    let script =
        format!("#!/bin/sh\nwhile [ ! -e begin ]; do sleep 0.01; done\nexec {frs} \"$@\"\n");
    install_script(life.setup, &script, "755");
    let _ = fs::remove_file(life.setup.path("begin"));
    let started = life.setup.log().matches("a new binary is started").count();
    kill(life.first(), Signal::SIGUSR2).expect("signalled");
    wait_until("a new binary is started", || {
        let log = life.setup.log();
        (log.matches("a new binary is started").count() > started).then_some(())
    });
    kill(life.first(), Signal::SIGSTOP).expect("stopped");
    fs::write(life.setup.path("begin"), "").expect("written");
    let new = newcomer(life.setup);
    wait_for_signalfd(new);
    new
}

/// Waits until the new binary asks for the server. Once it is answered it handles signals.
fn wait_until_prepared(setup: &Setup, new: Pid) {
    wait_until("it is prepared", || {
        let children = fs::read_to_string(format!("/proc/{new}/task/{new}/children")).ok()?;
        let is_done = !text(&setup.frs(&["status"]).stdout).contains("prepare");
        (children.is_empty() && is_done).then_some(())
    });
}

#[test]
fn a_reload_asked_of_a_new_binary_too_early_is_made_when_it_has_the_server() {
    for prepared in [false, true] {
        let setup = Setup::new(&Settings::default());
        let life = Life::start(&setup);
        let new = begin_and_halt(&life);
        if prepared {
            wait_until_prepared(&setup, new);
        }
        setup.write_map(&crate::common::MAP.replace("max=\"3\"", "max=\"30\""));
        kill(new, Signal::SIGHUP).expect("signalled");
        kill(life.first(), Signal::SIGCONT).expect("continued");
        wait_until("it is the master", || life.try_master().filter(|&pid| pid == new));
        life.wait_for_log("the new configuration is in force");
        let answer = Client::connect(setup.address).get("/query?biz=three&key=k");
        assert_eq!(answer.attribute("max"), Some("30"));
        assert!(!setup.log().contains("is refused"), "{}", setup.log());
        life.stop();
    }
}

#[test]
fn a_new_binary_that_is_stopped_before_it_serves_is_not_handed_the_server() {
    let setup = Setup::new(&Settings::default());
    let life = Life::start(&setup);
    let new = begin_and_halt(&life);
    wait_until_prepared(&setup, new);
    kill(new, Signal::SIGTERM).expect("signalled");
    kill(life.first(), Signal::SIGCONT).expect("continued");
    life.wait_for_log("this one continues");
    assert_eq!(life.master(), life.first());
    assert_eq!(Client::connect(setup.address).get("/health").status, 200);
    assert_ne!(life.upgrade(), life.first());
    life.stop();
}

// Shows: upgrades.
#[test]
fn whichever_of_both_masters_is_killed_the_other_one_serves() {
    let setup = Setup::new(&Settings::default());
    let mut life = Life::start(&setup);
    let new = begin_and_halt(&life);
    kill(new, Signal::SIGKILL).expect("killed");
    kill(life.first(), Signal::SIGCONT).expect("continued");
    life.wait_for_log("this one continues");
    assert_eq!(life.master(), life.first());
    let newer = begin_and_halt(&life);
    wait_until_prepared(&setup, newer);
    kill(life.first(), Signal::SIGKILL).expect("killed");
    life.first.wait().expect("waited");
    wait_until("it is the master", || life.try_master().filter(|&pid| pid == newer));
    wait_until("it has its workers", || {
        (life.status().matches(", generation 1").count() == 3).then_some(())
    });
    assert_eq!(Client::connect(setup.address).get("/update?biz=three&key=k").status, 200);
    assert_eq!(setup.frs(&["reload"]).status.code(), Some(0));
    life.stop();
}

/// A new binary that never sends a message.
const SILENT: &str = "#!/bin/sh\nexec sleep 1000\n";

#[test]
fn a_server_that_is_stopped_while_a_new_binary_starts_ends_both() {
    let setup = Setup::new(&Settings::default());
    let mut life = Life::start(&setup);
    install_script(&setup, SILENT, "755");
    kill(life.first(), Signal::SIGUSR2).expect("signalled");
    life.wait_for_log("a new binary is started");
    let silent = newcomer(&setup);
    // systemd tracks the end of a main process only if that is its own child.
    assert_ne!(
        process::parent_of(silent),
        Some(life.first()),
        "whoever adopts orphans is its parent"
    );
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
        return needs::skip("it takes root");
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
                log.contains("reopened the log").then_some(())
            });
            assert_eq!(setup.frs(&["reload"]).status.code(), Some(0), "root's file is read");
        }
    });
    let log = fs::metadata(setup.path("logs/frs.log")).expect("there");
    assert_eq!((log.uid(), log.mode() & 0o777), (user.uid.as_raw(), 0o640));
    life.stop();
}

/// Tells the program below how to fail once it has the server.
const PRETEND: &str = "FRS_TEST_PRETEND";
/// The file that the program leaves once it has the server. The tests below depend on it.
const PRETENDED: &str = "pretended";

/// Not a test: a new binary that fails after it has got the server.
#[test]
#[ignore = "a program that other tests start"]
fn pretends_to_take_over() {
    let manner = std::env::var(PRETEND).expect("the test that starts it says what it does");
    let words = std::env::var("FRS_HANDOVER").expect("handed over");
    let channel = words.split(' ').find_map(|word| word.strip_prefix("channel="));
    let fd = channel.expect("a channel").parse().expect("a number");
    let mut adopted = process::adopt(&[fd]).expect("open");
    let channel = Channel::from_inherited(adopted.pop().expect("a channel"));
    assert!(channel.send(b"prepared", &[]).expect("sent"));
    let answer = wait_until("there is an answer", || match channel.receive().expect("received") {
        Delivery::Message(word, _) => Some(word),
        Delivery::Nothing => None,
        Delivery::Closed => panic!("the older master is gone"),
    });
    assert_eq!(answer, b"yours");
    fs::write(PRETENDED, &manner).expect("written");
    let data = Path::new("data");
    if manner == "publishes" {
        let runtime = Runtime::open(data).expect("opened");
        let texts =
            Conf::load_texts(Path::new("conf"), &Default::default()).expect("no faults").texts;
        let generation = runtime.generation() + 1;
        active::write(data, generation, &texts).expect("written");
        runtime.publish(generation);
    }
    if manner == "serves" {
        // Its last message arrives together with its end.
        let old = fs::read_to_string(data.join("lock")).expect("readable");
        let old = Pid::from_raw(old.trim().parse().expect("a pid"));
        kill(old, Signal::SIGSTOP).expect("stopped");
        assert!(channel.send(b"serving", &[]).expect("sent"));
    }
}

/// Removes the file that the program left, and fails if there is none.
fn assert_pretended(setup: &Setup) {
    fs::remove_file(setup.path(PRETENDED)).expect("the program has had the server");
}

fn install_pretender(setup: &Setup, manner: &str) {
    let this = std::env::current_exe().expect("a path");
    let script = format!(
        "#!/bin/sh\n{PRETEND}={manner} exec {} --ignored --exact {}\n",
        this.display(),
        test_name(module_path!(), "pretends_to_take_over")
    );
    install_script(setup, &script, "755");
}

// Shows: upgrades.
#[test]
fn a_new_binary_that_fails_late_gives_the_server_back() {
    let setup = Setup::new(&Settings::default());
    install(&setup, Path::new(env!("CARGO_BIN_EXE_frs")));
    let path = setup.path("notify");
    let systemd = Systemd::new(&path);
    let life = Life::spawn_quietly(&setup, Command::new("./frs").env("NOTIFY_SOCKET", &path));
    systemd.wait_for("READY=1");
    install_pretender(&setup, "fails");
    under_load(setup.address, |answered| {
        for round in 1..=2 {
            kill(life.first(), Signal::SIGUSR2).expect("signalled");
            wait_until("it goes on", || {
                (setup.log().matches("this one continues").count() == round).then_some(())
            });
            assert_pretended(&setup);
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

// Shows: upgrades.
#[test]
fn a_configuration_that_a_failing_binary_has_put_in_force_is_taken_back() {
    let setup = Setup::new(&Settings::default());
    let life = Life::start(&setup);
    // A setting that a new binary accepts, but a reload does not.
    let more = "<listen>unix:other.sock</listen>".to_owned();
    setup.write_srv(&Settings { more, ..Settings::default() });
    setup.write_map(&crate::common::MAP.replace("max=\"3\"", "max=\"30\""));
    install_pretender(&setup, "publishes");
    kill(life.first(), Signal::SIGUSR2).expect("signalled");
    life.wait_for_log("this one continues");
    wait_until("all have what was before", || {
        (life.status().matches(", generation 3").count() == 3).then_some(())
    });
    assert_pretended(&setup);
    let max = || {
        let answer = Client::connect(setup.address).get("/query?biz=three&key=k");
        answer.attribute("max").map(str::to_owned)
    };
    assert_eq!(max().as_deref(), Some("3"));
    setup.write_srv(&Settings::default());
    let output = setup.frs(&["reload"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(max().as_deref(), Some("30"));
    life.stop();
}

// Shows: upgrades.
#[test]
fn a_new_binary_that_dies_as_it_says_that_it_serves_has_not_taken_over() {
    let setup = Setup::new(&Settings::default());
    let life = Life::start(&setup);
    install_pretender(&setup, "serves");
    kill(life.first(), Signal::SIGUSR2).expect("signalled");
    life.wait_for_log("a new binary is started");
    let new = newcomer(&setup);
    wait_until("it is gone", || (!is_alive(new)).then_some(()));
    kill(life.first(), Signal::SIGCONT).expect("continued");
    life.wait_for_log("this one continues");
    assert_pretended(&setup);
    assert_eq!(life.master(), life.first());
    assert_eq!(Client::connect(setup.address).get("/health").status, 200);
    life.stop();
}

#[test]
fn an_upgrade_passes_the_doorbells_on_and_leaves_one_courier() {
    let cluster = "<cluster name=\"test\" secret-file=\"conf/cluster.secret\">\
                   <node>127.0.0.1:1</node></cluster>";
    let setup = Setup::new(&Settings { more: cluster.to_owned(), ..Settings::default() });
    let secret = setup.path("conf/cluster.secret");
    files::write_secret(&secret, "a".repeat(64));
    let life = Life::start(&setup);
    let couriers = || life.status().lines().filter(|line| line.starts_with("courier ")).count();
    let text = wait_until("there is a courier", || (couriers() == 1).then(|| life.status()));
    let first = text.lines().find(|line| line.starts_with("courier ")).expect("there").to_owned();
    for _ in 0..2 {
        life.upgrade();
        wait_until("there is one courier", || (couriers() == 1).then_some(()));
        assert!(!life.status().contains(&first), "the older one has ended");
    }
    // The processes of both binaries must name keys alike.
    files::write_secret(&secret, "b".repeat(64));
    let master = life.master();
    kill(master, Signal::SIGUSR2).expect("it runs");
    wait_until("it is refused", || {
        setup.log().contains("<cluster secret-file> differs").then_some(())
    });
    assert_eq!((life.master(), couriers()), (master, 1));
    life.stop();
}
