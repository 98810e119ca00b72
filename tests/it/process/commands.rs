//! Requests over data/control: each command gets its own answer, whoever else asks, is killed or
//! sends nonsense.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

use frs_base::sys::process::parent_of;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::common::{BOUND, MAP, Settings, Setup, descriptors, text, wait_until};

/// Starts an frs command.
fn begin(setup: &Setup, arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_frs"));
    command.current_dir(setup.dir.path()).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("frs runs")
}

/// Waits until a command has connected to the server.
fn wait_until_connected(command: &Child) {
    let pid = Pid::from_raw(command.id().cast_signed());
    wait_until("the command is connected", || {
        let open = descriptors(pid).ok()?;
        let is_socket = |name: &std::path::PathBuf| name.to_string_lossy().starts_with("socket:");
        open.iter().any(is_socket).then_some(())
    });
}

fn end(command: Child) -> Output {
    command.wait_with_output().expect("it ends")
}

// Shows: one-answer-each.
#[test]
fn commands_at_once_are_each_told_what_became_of_the_files_as_they_were() {
    let setup = Setup::new(&Settings::default());
    let server = setup.start();
    for round in 0..5 {
        let good = round % 2 == 0;
        setup.write_map(&if good { MAP.to_owned() } else { MAP.replace("\"3\"", "\"many\"") });
        let commands: Vec<Child> = (0..8).map(|_| begin(&setup, &["reload"])).collect();
        server.signal(Signal::SIGHUP);
        for output in commands.into_iter().map(end) {
            let (told, faults) = (text(&output.stdout), text(&output.stderr));
            assert_eq!(output.status.success(), good, "{told}{faults}");
            match good {
                true => assert!(told.starts_with("taken: generation "), "{told}"),
                false => assert!(faults.contains("conf/map.xml:7:"), "{faults}"),
            }
        }
    }
    let status = text(&setup.frs(&["status"]).stdout);
    assert!(!status.contains("refused"), "the last one was taken: {status}");
}

// Shows: one-answer-each.
#[test]
fn nonsense_and_silence_on_the_socket_stop_no_command() {
    let setup = Setup::new(&Settings::default());
    let _server = setup.start();
    let connect = || UnixStream::connect(setup.path("data/control")).expect("it listens");
    let connections: Vec<UnixStream> = (0..16).map(|_| connect()).collect();
    for (nth, mut stream) in connections.iter().enumerate() {
        let bytes: &[u8] = match nth % 4 {
            0 => b"GET /update?biz=three&key=k HTTP/1.1\r\nHost: localhost\r\n\r\n",
            1 => &[0; 7],
            2 => &[0xff; 30_000],
            _ => &[],
        };
        // It may be closed in the middle.
        let _ = stream.write_all(bytes);
    }
    let output = setup.frs(&["reload"]);
    assert_eq!(text(&output.stdout), "taken: generation 2\n", "{}", text(&output.stderr));
    drop(connections);
    assert_eq!(text(&setup.frs(&["reload"]).stdout), "taken: generation 3\n");
}

// Shows: one-answer-each.
#[test]
fn a_connection_that_the_master_closes_ends_while_a_reload_is_prepared() {
    let setup = Setup::new(&Settings::default());
    let server = setup.start();
    let mut stream = UnixStream::connect(setup.path("data/control")).expect("it listens");
    stream.set_read_timeout(Some(BOUND)).expect("set");
    // The master accepts in order.
    assert!(setup.frs(&["reload"]).status.success());
    setup.write_map(&MAP.replace("<map>", "<map><group name=\"more\" keys=\"500000\"/>"));
    let children = || -> BTreeSet<i32> {
        let numbers = fs::read_dir("/proc").expect("read").flatten();
        let pids = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(|&pid| parent_of(Pid::from_raw(pid)) == Some(server.master())).collect()
    };
    let before = children();
    let (mut command, begun) = (begin(&setup, &["reload"]), Instant::now());
    let is_of_more = |entry: fs::DirEntry| entry.file_name().to_string_lossy().starts_with("more");
    while !fs::read_dir(setup.path("data")).expect("read").flatten().any(is_of_more) {
        assert!(begun.elapsed() < BOUND, "no process makes the group");
    }
    let child = children().difference(&before).next().copied();
    let child = Pid::from_raw(child.expect("a child that prepares"));
    let _ = kill(child, Signal::SIGSTOP);
    stream.write_all(&[0xff; 64]).expect("sent");
    let ended = stream.read(&mut [0]);
    let is_held = command.try_wait().expect("asked").is_none();
    let _ = kill(child, Signal::SIGCONT);
    assert!(is_held, "the child was stopped too late");
    let is_late = |error: std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
    assert!(!ended.is_err_and(is_late), "the child holds the connection");
    assert_eq!(end(command).status.code(), Some(0));
}

// Shows: one-answer-each.
#[test]
fn the_request_of_a_killed_command_loses_nothing() {
    const GROUP: &str = r#"files="2" key-nodes="64" chain="8" node-size="128""#;
    let setup = Setup::new(&Settings { http: "lock-timeout='10s'".into(), ..Settings::default() });
    let server = setup.start();
    let mut client = server.client();
    for key in 0..60 {
        client.charge("plenty", &format!("k{key}"), 1);
    }
    assert!(MAP.contains(GROUP));
    let smaller = r#"files="1" key-nodes="1" chain="28" node-size="128""#;
    setup.write_map(&MAP.replace(GROUP, smaller));
    server.signal(Signal::SIGSTOP);
    let mut killed = begin(&setup, &["reload", "--lossy"]);
    wait_until_connected(&killed);
    killed.kill().expect("killed");
    killed.wait().expect("dead");
    let waits = begin(&setup, &["reload"]);
    wait_until_connected(&waits);
    server.signal(Signal::SIGCONT);
    let output = end(waits);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    let said = text(&output.stderr);
    assert!(said.contains("32 of 60 nodes in use find no place"), "{said}");
    assert!(said.ends_with("refused: the old configuration stays in force\n"), "{said}");
    let status = text(&setup.frs(&["status"]).stdout);
    assert!(status.contains("reload       refused: generation 1 stays in force\n"), "{status}");
    assert!(status.contains("             group default: 32 of 60 nodes"), "{status}");
}

// Shows: one-answer-each.
#[test]
fn a_command_says_that_its_master_was_killed() {
    let setup = Setup::new(&Settings::default());
    let mut server = setup.start();
    server.signal(Signal::SIGSTOP);
    let command = begin(&setup, &["reload"]);
    wait_until_connected(&command);
    server.kill_all();
    let output = end(command);
    assert_eq!(output.status.code(), Some(1));
    let expected = format!("the master (process {}) has ended\n", server.master());
    assert_eq!(text(&output.stderr), expected);
    drop(server);
    // The next master takes the place of the dead one's socket.
    let server = setup.start();
    assert_eq!(setup.frs(&["reload"]).status.code(), Some(0));
    kill(server.master(), Signal::SIGTERM).expect("asked");
    wait_until("the socket goes with its server", || {
        (!setup.path("data/control").exists()).then_some(())
    });
}

// Shows: one-answer-each.
#[test]
fn a_master_without_its_socket_is_named_and_opens_it_again() {
    let setup = Setup::new(&Settings::default());
    let server = setup.start();
    server.signal(Signal::SIGSTOP);
    fs::remove_file(setup.path("data/control")).expect("there");
    // As with a master of an earlier version.
    let output = setup.frs(&["reload"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    let expected = format!(
        "cannot ask the master (process {}) over data/control: No such file",
        server.master()
    );
    assert!(said.starts_with(&expected) && said.contains("kill -HUP"), "{said}");
    server.signal(Signal::SIGCONT);
    assert_eq!(setup.frs(&["reload"]).status.code(), Some(0), "it waits until it is there");
}

// Shows: one-answer-each.
#[test]
fn a_server_with_a_long_path_to_its_data_is_asked() {
    let data = ["d".repeat(100), "e".repeat(100)].join("/");
    let setup =
        Setup::new(&Settings { more: format!("<data dir=\"{data}\"/>"), ..Settings::default() });
    let mut server = setup.start();
    assert!(setup.path(&data).join("control").exists());
    assert_eq!(text(&setup.frs(&["reload"]).stdout), "taken: generation 2\n");
    setup.write_map("<map><nonsense/></map>");
    let output = setup.frs(&["reload"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("conf/map.xml:1:6"), "{output:?}");
    assert_eq!(setup.frs(&["stop"]).status.code(), Some(0));
    assert!(server.wait().success() && !setup.path(&data).join("control").exists());
}
