//! The master's files are removed, cut, replaced or overwritten while it serves, or the master is
//! killed.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::PathBuf;
use std::time::Instant;

use crate::common::{Client, Server, Settings, Setup, is_alive, text, wait_until};
use frs_engine::{Answers, Command, ItemError, ItemOptions, Request, Role, Service};
use nix::sys::signal::{Signal, kill};

fn setup() -> Setup {
    Setup::new(&Settings { workers: 1, ..Settings::default() })
}

fn lock_of(setup: &Setup) -> PathBuf {
    setup.path("data/lock")
}

/// Waits until the file names the server's master.
fn wait_for_name(server: &mut Server<'_>) {
    let line = format!("{}\n", server.master());
    wait_until("the file names the master", || {
        let ended = server.ended();
        assert!(ended.is_none(), "{ended:?}\n{}", server.setup.log());
        let text = fs::read_to_string(lock_of(server.setup)).unwrap_or_default();
        (text == line).then_some(())
    });
}

// Shows: one-master.
#[test]
fn a_killed_master_never_keeps_the_next_one_out() {
    let setup = setup();
    let mut server = setup.start();
    for round in 0..40 {
        // The dead master is not reaped yet, so its id still exists.
        server.signal(Signal::SIGKILL);
        let mut next = setup.start_unready();
        wait_for_name(&mut next);
        if round % 4 == 0 {
            next.wait_for_workers(1);
        }
        drop(std::mem::replace(&mut server, next));
    }
}

// Shows: one-master.
#[test]
fn a_lock_file_that_is_removed_lets_no_second_master_in_and_is_written_again() {
    let setup = setup();
    let mut server = setup.start();
    for round in 0..3 {
        fs::remove_file(lock_of(&setup)).expect("removed");
        if round == 1 {
            // A stopped master does not write the file again.
            server.signal(Signal::SIGSTOP);
        }
        let output = setup.frs(&["serve"]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = text(&output.stderr);
        assert!(said.contains(&format!("process {}", server.master())), "{said}");
        let output = setup.frs(&["status"]);
        let named = format!("master       process {}\n", server.master());
        assert!(text(&output.stdout).contains(&named), "{output:?}");
        if round == 2 {
            break;
        }
        server.signal(Signal::SIGCONT);
        wait_for_name(&mut server);
    }
    let output = setup.inspect(&["verify", "--repair", "data"]);
    assert!(text(&output.stderr).contains("a server is running"), "{output:?}");
    assert_eq!(setup.frs(&["stop"]).status.code(), Some(0));
    assert!(server.wait().success());
}

// Shows: readers-stop-nothing.
#[test]
fn nobody_else_may_read_what_a_lock_would_stop() {
    let setup = setup();
    let _server = setup.start();
    let mode = |name| fs::metadata(setup.path(name)).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode("data"), 0o711);
    assert_eq!(mode("data/lock"), 0o600);
    assert_eq!(mode("data/runtime.mmap"), 0o600);
    assert_eq!(mode("data/control"), 0o600, "answers quote the configuration");
}

#[test]
fn the_data_have_a_directory_of_their_own() {
    let more = r#"<data dir="./conf"/>"#.to_owned();
    let setup = Setup::new(&Settings { more, ..Settings::default() });
    for command in ["check", "serve"] {
        let output = setup.frs(&[command]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = text(&output.stderr);
        assert!(said.contains("conf/srv.xml") && said.contains("a directory of its own"), "{said}");
    }
}

// Offsets in runtime.mmap, in words: the map of src/store/file/layout.rs.
const GENERATION: u64 = 64;

fn runtime_of(setup: &Setup) -> File {
    let path = setup.path("data/runtime.mmap");
    OpenOptions::new().read(true).write(true).open(path).expect("it is there")
}

/// Damages runtime.mmap.
fn damage(setup: &Setup, how: &str) {
    let (path, other) = (setup.path("data/runtime.mmap"), setup.path("data/other"));
    let whole = runtime_of(setup).metadata().expect("open").len();
    match how {
        "removed" => fs::remove_file(&path).expect("removed"),
        "cut to nothing" => runtime_of(setup).set_len(0).expect("cut"),
        "cut to a page" => runtime_of(setup).set_len(4096).expect("cut"),
        "cut by a byte" => runtime_of(setup).set_len(whole - 1).expect("cut"),
        "damaged" => runtime_of(setup).write_all_at(b"other", 8).expect("written"),
        "replaced by a copy" => {
            assert!(
                std::process::Command::new("cp")
                    .args(["--sparse=always".as_ref(), path.as_os_str(), other.as_os_str()])
                    .status()
                    .expect("cp runs")
                    .success()
            );
            fs::rename(&other, &path).expect("renamed");
        }
        "replaced by a directory" => {
            fs::remove_file(&path).expect("removed");
            fs::create_dir(&path).expect("made");
        }
        other => panic!("{other}"),
    }
}

fn used(client: &mut Client) -> u64 {
    let answer = client.get("/query?biz=plenty&key=kept");
    answer.attribute("used").and_then(|used| used.parse().ok()).expect("used")
}

fn ends_and_starts_anew(how: &str) {
    let setup = setup();
    let mut server = setup.start();
    server.client().charge("plenty", "kept", 7);
    let workers = server.wait_for_workers(1);
    // A cut file ends a process that has it mapped.
    let program = (!how.starts_with("cut"))
        .then(|| Service::attach(&setup.path("data"), Role::Program, None).expect("attached"));
    damage(&setup, how);
    let status = server.wait();
    assert_eq!(status.code(), Some(1), "{how}: {status:?}");
    let log = setup.log();
    assert!(log.contains("runtime.mmap: ") && log.contains("start it again"), "{how}: {log}");
    assert!(!workers.into_iter().any(is_alive), "{how}: the worker has ended before");
    assert!(!log.contains("and marked clean"), "{how}: nobody knows what is in them: {log}");
    drop(server);
    if how == "damaged" {
        // The program holds a slot of the file that must be created again.
        drop(program);
        let server = setup.start();
        return assert_eq!(used(&mut server.client()), 7, "{how}");
    }
    let server = setup.start();
    assert_eq!(used(&mut server.client()), 7, "{how}");
    if let Some(mut program) = program {
        let (mut request, mut answers) = (Request::default(), Answers::default());
        request.begin(Command::Update);
        request.push("plenty", "kept", ItemOptions::ONE);
        program.begin_tick();
        program.run(&request, frs_base::clock::now(), &mut answers);
        let said = "it knows nothing of the new server's semaphores";
        assert_eq!(answers.items[0].result, Err(ItemError::Store), "{how}: {said}");
        assert_eq!(used(&mut server.client()), 7, "{how}");
    }
}

// Shows: shared-files-repaired.
#[test]
fn a_server_whose_runtime_file_is_removed_or_replaced_ends_and_the_next_start_serves() {
    let hows = ["removed", "replaced by a copy", "replaced by a directory"];
    hows.into_iter().for_each(ends_and_starts_anew);
}

// Shows: shared-files-repaired.
#[test]
fn a_server_whose_runtime_file_is_cut_or_damaged_ends_and_the_next_start_serves() {
    let hows = ["cut to nothing", "cut to a page", "cut by a byte", "damaged"];
    hows.into_iter().for_each(ends_and_starts_anew);
}

// Shows: shared-files-repaired.
#[test]
fn a_configuration_in_force_that_is_lost_is_written_again_and_processes_start_by_it() {
    let setup = setup();
    let mut server = setup.start();
    server.client().charge("plenty", "kept", 7);
    let path = setup.path("data/conf.active.1");
    let whole = fs::read(&path).expect("readable");
    for how in ["removed", "emptied", "written over", "replaced"] {
        match how {
            "removed" => fs::remove_file(&path).expect("removed"),
            "emptied" => File::create(&path).map(drop).expect("emptied"),
            "written over" => {
                let file = OpenOptions::new().write(true).open(&path).expect("there");
                file.write_all_at(b"x", whole.len() as u64 / 2).expect("written");
            }
            _ => {
                fs::write(setup.path("data/other"), &whole[1..]).expect("written");
                fs::rename(setup.path("data/other"), &path).expect("renamed");
            }
        }
        // A process that starts meanwhile uses the rewritten configuration.
        kill(server.wait_for_workers(1)[0], Signal::SIGKILL).expect("killed");
        wait_until("it is written again", || {
            (fs::read(&path).ok().as_ref() == Some(&whole)).then_some(())
        });
        wait_until("a worker serves", || {
            let mut client = Client::try_connect(setup.address)?;
            client.try_get("/health").ok().filter(|answer| answer.status == 200)
        });
        assert_eq!(used(&mut server.client()), 7, "{how}");
    }
    assert_eq!(setup.frs(&["reload"]).status.code(), Some(0));
    assert_eq!(setup.frs(&["stop"]).status.code(), Some(0));
    assert!(server.wait().success());
}

// Shows: shared-files-repaired.
#[test]
fn a_damaged_generation_is_put_right_within_a_second_and_no_older_configuration_serves() {
    let setup = setup();
    let mut server = setup.start();
    // The older generation allowed three, the one in force allows thirty.
    let map = crate::common::MAP.replace(r#"max="3""#, r#"max="30""#);
    for generation in 2..=3u64 {
        let text = if generation == 3 { map.clone() } else { crate::common::MAP.to_owned() };
        setup.write_map(&text);
        assert_eq!(setup.frs(&["reload"]).status.code(), Some(0));
    }
    let file = runtime_of(&setup);
    let word = || {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, GENERATION * 8).expect("read");
        u64::from_le_bytes(bytes)
    };
    assert_eq!(word(), 3);
    let mut client = server.client();
    let mut charged = 0;
    for damaged in [2, 3 ^ 1 << 1, 3 ^ 1 << 2, 3 ^ 1 << 40, 3 ^ 1 << 63, 0, u64::MAX] {
        // The master is stopped, so it cannot repair the word.
        server.signal(Signal::SIGSTOP);
        file.write_all_at(&damaged.to_le_bytes(), GENERATION * 8).expect("written");
        let answer = client.get("/update?biz=three&key=k");
        assert_eq!(answer.attribute("error"), Some("store"), "{damaged}: {}", answer.body);
        assert_eq!(client.get("/health").status, 503, "{damaged}");
        assert!(client.get("/health").body.contains("store"), "{damaged}");
        let begun = Instant::now();
        server.signal(Signal::SIGCONT);
        wait_until("it is put right", || (word() == 3).then_some(()));
        let took = begun.elapsed();
        assert!(took.as_secs() < 5, "about a second: {took:?}");
        let answer = client.get("/update?biz=three&key=k");
        charged += 1;
        assert_eq!(answer.attribute("max"), Some("30"), "{}", answer.body);
        assert_eq!(answer.attribute("used"), Some(charged.to_string().as_str()));
        assert_eq!(client.get("/health").status, 200);
    }
    assert_eq!(setup.frs(&["stop"]).status.code(), Some(0), "{}", setup.log());
    assert!(server.wait().success());
}

#[test]
fn a_start_after_a_kill_counts_on_from_the_last_configuration_whatever_the_word_says() {
    let setup = setup();
    let mut server = setup.start();
    server.client().charge("plenty", "kept", 7);
    let mut last = 1;
    for damaged in [u64::MAX, 1 << 40, 0, 1] {
        server.kill_all();
        drop(server);
        let file = runtime_of(&setup);
        file.write_all_at(&damaged.to_le_bytes(), GENERATION * 8).expect("written");
        server = setup.start();
        // A clean end leaves 0: no process is attached, and the count begins again.
        last = if damaged == 0 { 1 } else { last + 1 };
        let output = setup.frs(&["status"]);
        let said = text(&output.stdout);
        assert!(said.contains(&format!("generation   {last}\n")), "{damaged}: {output:?}");
        assert_eq!(used(&mut server.client()), 7, "{damaged}");
    }
}
