//! What other users of the machine may do to a server, and the server's own user to root.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::Signal;
use nix::unistd::{Pid, Uid, User};

use crate::common::needs::{self, skip};
use crate::common::plane::ask_socket;
use crate::common::{Settings, Setup, is_alive, text, wait_until};

/// The user nobody. `None` if the test is not root, or the user does not exist.
fn nobody() -> Option<User> {
    if !Uid::effective().is_root() {
        skip("it takes root");
        return None;
    }
    let user = User::from_name("nobody").ok().flatten();
    if user.is_none() {
        skip("this system has no user nobody");
    }
    user
}

fn settings(more: &str) -> Settings {
    Settings { workers: 1, more: more.to_owned(), ..Settings::default() }
}

/// A server of root whose directory everyone may enter.
fn setup(more: &str) -> Setup {
    let setup = Setup::new(&settings(more));
    fs::set_permissions(setup.dir.path(), Permissions::from_mode(0o755)).expect("set");
    setup
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("set");
}

/// Creates a directory of this user.
fn directory_of(setup: &Setup, name: &str, user: &User) {
    fs::create_dir(setup.path(name)).expect("made");
    give(&setup.path(name), user);
}

fn give(path: &Path, user: &User) {
    chown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw())).expect("given");
}

/// The error of a server that must not start.
fn refused(setup: &Setup) -> String {
    let output = setup.frs(&["serve"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    text(&output.stderr).to_owned()
}

/// A process that is killed on drop.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

// Shows: no-way-to-root.
#[test]
fn the_servers_user_leads_root_nowhere_through_the_log() {
    let Some(user) = nobody() else { return };
    let setup = setup("<user>nobody</user><log file=\"logs/frs.log\"/>");
    directory_of(&setup, "logs", &user);
    let (log, victim) = (setup.path("logs/frs.log"), setup.path("victim"));
    fs::write(&victim, "root's").expect("written");
    set_mode(&victim, 0o600);
    let untouched = || {
        let found = fs::metadata(&victim).expect("there");
        assert_eq!((found.uid(), found.mode() & 0o777), (0, 0o600));
        assert_eq!(fs::read_to_string(&victim).expect("readable"), "root's");
    };
    symlink(&victim, &log).expect("linked");
    let said = refused(&setup);
    assert!(said.contains("<log file>") && said.contains("found a link"), "{said}");
    untouched();
    // A link to a missing file creates nothing.
    fs::remove_file(&log).expect("removed");
    symlink(setup.path("made"), &log).expect("linked");
    refused(&setup);
    assert!(!setup.path("made").exists());
    // The user may not open root's file under a second name either.
    fs::remove_file(&log).expect("removed");
    fs::hard_link(&victim, &log).expect("linked");
    let said = refused(&setup);
    assert!(said.contains("<log file>"), "{said}");
    untouched();

    fs::remove_file(&log).expect("removed");
    let mut server = setup.start();
    let owner = |path: &Path| fs::metadata(path).expect("there").uid();
    assert_eq!(owner(&log), user.uid.as_raw());
    // A rotation follows no link either.
    fs::rename(&log, setup.path("logs/old")).expect("renamed");
    symlink(&victim, &log).expect("linked");
    server.signal(Signal::SIGUSR1);
    wait_until("it says that it goes on in the old file", || {
        let text = fs::read_to_string(setup.path("logs/old")).expect("readable");
        text.contains("cannot reopen the log").then_some(())
    });
    untouched();
    server.signal(Signal::SIGTERM);
    assert!(server.wait().success());
}

// Shows: readers-stop-nothing.
#[test]
fn a_reader_of_all_files_stops_nothing() {
    let Some(user) = nobody() else { return };
    // Everyone may read the records. The files whose locks would stop the service are not readable.
    let setup = setup("<data mode=\"0644\"/>");
    let server = setup.start();
    server.client().charge("plenty", "k", 1);
    let may_read = |name: &str| {
        let mut reader = Command::new("cat");
        reader.arg(setup.path(name)).uid(user.uid.as_raw()).gid(user.gid.as_raw());
        let reader = reader.stdout(Stdio::null()).stderr(Stdio::null());
        reader.status().expect("cat runs").success()
    };
    assert!(may_read("data/default.0.mmap"), "as <data mode> says");
    for name in ["data/runtime.mmap", "data/lock"] {
        assert!(!may_read(name), "{name}: a read lock would stop the service");
    }
    // The server corrects wrong modes that an administrator has set.
    set_mode(&setup.path("data/runtime.mmap"), 0o644);
    set_mode(&setup.path("data/lock"), 0o644);
    drop(server);
    // A user who may read the directory may lock it.
    set_mode(&setup.path("data"), 0o755);
    let mut locker = Command::new("flock");
    locker.arg("--exclusive").arg(setup.path("data")).args(["-c", "echo held; sleep 1000"]);
    locker.uid(user.uid.as_raw()).gid(user.gid.as_raw()).process_group(0).stdout(Stdio::piped());
    let Some(child) = needs::spawn(&mut locker) else { return };
    let mut locker = Running(child);
    let mut held = [0; 5];
    let stdout = locker.0.stdout.as_mut().expect("piped");
    std::io::Read::read_exact(stdout, &mut held).expect("locked");
    let server = setup.start();
    server.client().charge("plenty", "k", 1);
    assert!(!may_read("data/runtime.mmap") && !may_read("data/lock"));
    drop(server);
    let group = Pid::from_raw(locker.0.id() as i32);
    nix::sys::signal::killpg(group, Signal::SIGKILL).expect("signalled");
}

// Shows: readers-stop-nothing.
#[test]
fn a_directory_that_others_could_fill_is_not_served_from() {
    let Some(user) = nobody() else { return };
    for (name, more) in [("data", ""), ("live", "<data live=\"live\"/>")] {
        let setup = setup(more);
        directory_of(&setup, name, &user);
        let said = refused(&setup);
        let owner = format!("found a directory of the user {}", user.uid);
        assert!(said.contains(name) && said.contains(&owner), "{said}");
        chown(setup.path(name), Some(0), Some(0)).expect("given");
        for mode in [0o777, 0o1777] {
            set_mode(&setup.path(name), mode);
            let said = refused(&setup);
            let found = format!("found the mode {mode:04o}");
            assert!(said.contains(name) && said.contains(&found), "{said}");
        }
        set_mode(&setup.path(name), 0o755);
        let server = setup.start();
        server.client().charge("plenty", "k", 1);
        drop(server);
        // A file of another user may hold anything.
        let file = setup.path(name).join("default.0.mmap");
        give(&file, &user);
        let said = refused(&setup);
        assert!(said.contains("default.0.mmap: owner: found user"), "{said}");
    }
}

// Shows: signals-the-master.
#[test]
fn a_command_signals_the_master_and_no_process_that_a_file_names() {
    let Some(_) = nobody() else { return };
    let setup = setup("");
    let mut server = setup.start();
    let child = Command::new("sleep").arg("1000").spawn().expect("sleep runs");
    let mut victim = Running(child);
    // A stopped master does not write its name again.
    server.signal(Signal::SIGSTOP);
    fs::write(setup.path("data/lock"), format!("{}\n", victim.0.id())).expect("written");
    let status = setup.frs(&["status"]);
    let named = format!("master       process {}\n", server.master());
    assert!(text(&status.stdout).contains(&named), "{status:?}");
    std::thread::scope(|scope| {
        let stop = scope.spawn(|| setup.frs(&["stop"]));
        wait_until("the master has its signal", || {
            let status = fs::read_to_string(format!("/proc/{}/status", server.master())).ok()?;
            let pending = status.lines().find_map(|line| line.strip_prefix("ShdPnd:\t"))?;
            let pending = u64::from_str_radix(pending.trim(), 16).ok()?;
            let is_hit = !is_alive(Pid::from_raw(victim.0.id() as i32));
            (is_hit || pending & 1 << (Signal::SIGTERM as u32 - 1) != 0).then_some(())
        });
        server.signal(Signal::SIGCONT);
        let output = stop.join().expect("it ran");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    });
    assert!(server.wait().success());
    assert!(victim.0.try_wait().expect("asked").is_none(), "it was not signalled");
}

// Shows: no-way-to-root.
#[test]
fn the_servers_user_opens_the_sockets_and_root_only_what_that_user_may_not() {
    let Some(user) = nobody() else { return };
    let free = |port: &u16| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let Some(port) = (600..1024).rev().find(free) else { return skip("no port below 1024") };
    let setup = setup(&format!(
        "<user>nobody</user><listen>127.0.0.1:{port}</listen>\
         <listen>unix:own/frs.sock</listen><listen>unix:roots/frs.sock</listen>"
    ));
    directory_of(&setup, "own", &user);
    fs::create_dir(setup.path("roots")).expect("made");
    set_mode(&setup.path("roots"), 0o755);
    let mut server = setup.start();
    let socket = |name: &str| {
        let found = fs::metadata(setup.path(name)).expect("there");
        (found.uid(), found.mode() & 0o777)
    };
    assert_eq!(socket("own/frs.sock"), (user.uid.as_raw(), 0o666));
    assert_eq!(socket("roots/frs.sock"), (0, 0o666));
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    let mut client = crate::common::Client::connect(address);
    assert_eq!(client.get("/query?biz=plenty&key=k").status, 200);
    // More workers than root's listeners.
    setup.write_srv(&Settings {
        workers: 3,
        ..settings(&format!(
            "<user>nobody</user><listen>127.0.0.1:{port}</listen>\
         <listen>unix:own/frs.sock</listen><listen>unix:roots/frs.sock</listen>"
        ))
    });
    let output = setup.frs(&["reload"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    server.wait_for_workers(3);
    server.signal(Signal::SIGTERM);
    assert!(server.wait().success());
    assert!(!setup.path("own/frs.sock").exists() && !setup.path("roots/frs.sock").exists());
}

#[test]
fn a_socket_that_root_left_is_replaced_after_a_kill() {
    if nobody().is_none() {
        return;
    }
    let setup = setup("<user>nobody</user><admin listen=\"unix:roots/admin.sock\"/>");
    fs::create_dir(setup.path("roots")).expect("made");
    set_mode(&setup.path("roots"), 0o755);
    let mut server = setup.start();
    let socket = fs::metadata(setup.path("roots/admin.sock")).expect("there");
    assert_eq!((socket.uid(), socket.mode() & 0o777), (0, 0o600), "nobody may not ask");
    server.kill_all_and_wait();
    assert!(setup.path("roots/admin.sock").exists(), "it is stale");
    drop(server);
    let mut server = setup.start();
    server.signal(Signal::SIGTERM);
    assert!(server.wait().success());
}

#[test]
fn a_volume_whose_group_is_one_of_the_servers_own_is_served_from() {
    let Some(user) = nobody() else { return };
    let setup = setup("");
    let volume = setup.path("data");
    fs::create_dir(&volume).expect("made");
    // As fsGroup leaves a volume: owned by root, with a group without a name.
    chown(&volume, Some(0), Some(61_234)).expect("given");
    set_mode(&volume, 0o2777);
    let start = |groups: &str| {
        let mut command = Command::new("setpriv");
        command.arg(format!("--reuid={}", user.uid)).arg(format!("--regid={}", user.gid));
        command.arg(groups).arg(env!("CARGO_BIN_EXE_frs")).arg("serve");
        command.current_dir(setup.dir.path()).stderr(Stdio::null()).process_group(0);
        needs::spawn(&mut command).map(Running)
    };
    let Some(mut open) = start("--groups=61234") else { return };
    assert_eq!(open.0.wait().expect("ended").code(), Some(1), "everybody may write it");
    set_mode(&volume, 0o2775);
    let mut server = start("--groups=61234").expect("installed");
    wait_until("it serves", || (setup.frs(&["status"]).status.code() == Some(0)).then_some(()));
    nix::sys::signal::kill(Pid::from_raw(server.0.id() as i32), Signal::SIGTERM).expect("asked");
    assert!(server.0.wait().expect("ended").success());
    let mut foreign = start("--clear-groups").expect("installed");
    assert_eq!(foreign.0.wait().expect("ended").code(), Some(1), "it is another's group");
}

// Shows: no-way-to-root.
#[test]
fn root_reads_no_configuration_that_another_user_may_write() {
    let Some(user) = nobody() else { return };
    let setup = setup("<user>nobody</user>");
    let (conf, srv) = (setup.path("conf"), setup.path("conf/srv.xml"));
    let refuses = |path: &Path, found: &str| {
        for command in ["serve", "check"] {
            let output = setup.frs(&[command]);
            assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
            let said = text(&output.stderr);
            let named = path.canonicalize().expect("there").display().to_string();
            assert!(said.contains(&named) && said.contains(found), "{said}");
        }
    };
    for path in [&srv, &conf] {
        give(path, &user);
        refuses(path, &format!("found one of the user {}", user.uid));
        chown(path, Some(0), Some(0)).expect("given");
        let mode = fs::metadata(path).expect("there").mode() & 0o7777;
        for open in [0o020, 0o002, 0o1002] {
            set_mode(path, mode | open);
            refuses(path, "found the mode");
        }
        set_mode(path, mode);
    }
    let server = setup.start();
    // A reload does not read it either.
    set_mode(&conf, 0o777);
    let output = setup.frs(&["reload"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("only root may write"), "{}", text(&output.stderr));
    set_mode(&conf, 0o755);
    assert_eq!(setup.frs(&["reload"]).status.code(), Some(0));
    drop(server);
}

// Shows: no-way-to-root.
#[test]
fn the_map_in_a_directory_of_the_servers_user_is_changed_there_and_leads_root_nowhere() {
    let Some(user) = nobody() else { return };
    let more = "<user>nobody</user><admin listen=\"unix:run/admin.sock\"/>\
                <map file=\"maps/map.xml\"/>";
    let setup = setup(more);
    directory_of(&setup, "maps", &user);
    directory_of(&setup, "run", &user);
    let (beside, map) = (setup.path("conf/map.xml"), setup.path("maps/map.xml"));
    fs::rename(&beside, &map).expect("renamed");
    give(&map, &user);
    let server = setup.start();
    server.client().charge("plenty", "k", 1);
    let biz = "<biz id=\"9\" name=\"nine\" key=\"string\">\
               <limit policy=\"interval\" interval=\"1h\" max=\"5\"/></biz>";
    let request = format!("PUT /biz/9 HTTP/1.0\r\nContent-Length: {}\r\n\r\n{biz}", biz.len());
    let answer = ask_socket(setup.path("run/admin.sock"), &request).expect("answered");
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    assert!(fs::read_to_string(&map).expect("readable").contains("nine"));
    assert!(!beside.exists());
    let found = fs::metadata(&map).expect("there");
    assert_eq!(found.uid(), user.uid.as_raw());
    assert_eq!(server.client().get("/query?biz=nine&key=k").attribute("max"), Some("5"));

    // A fault would quote text that only root may read.
    let text_of = fs::read_to_string(&map).expect("readable");
    for how in ["a link", "a second name"] {
        fs::write(setup.path("secret"), "<root's secret/>").expect("written");
        fs::remove_file(&map).expect("removed");
        match how {
            "a link" => symlink(setup.path("secret"), &map).expect("linked"),
            _ => fs::hard_link(setup.path("secret"), &map).expect("linked"),
        }
        let output = setup.frs(&["reload"]);
        assert_eq!(output.status.code(), Some(1), "{how}");
        let said = text(&output.stderr);
        assert!(said.contains("maps/map.xml") && !said.contains("secret"), "{how}: {said}");
    }
    fs::remove_file(&map).expect("removed");
    fs::write(&map, text_of).expect("written");
    assert_eq!(setup.frs(&["reload"]).status.code(), Some(0));
}
