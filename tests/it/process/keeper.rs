//! The keeper, end to end: reports of flushes, and slots of killed programs.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::common::programs::program;
use crate::common::{BOUND, Client, Server, Settings, Setup, text, wait_until};
use frs_engine::{Role, Service};

/// Passes the data directory to the program that a test starts.
const DATA: &str = "FRS_TEST_ATTACH_TO";
/// The byte of runtime.mmap that records a failed flush: the map of src/store/file/layout.rs.
const FLUSH_FAILED: u64 = 72 * 8;

fn with_flush(flush: &str) -> Settings {
    Settings { more: format!("<data flush=\"{flush}\"/>"), ..Settings::default() }
}

/// The answers of /health over enough connections to reach each worker.
fn healths(server: &Server<'_>) -> Vec<(u16, String)> {
    let mut clients: Vec<Client> = (0..16).map(|_| server.client()).collect();
    let ask = |client: &mut Client| {
        let answer = client.get("/health");
        (answer.status, answer.body)
    };
    clients.iter_mut().map(ask).collect()
}

/// No system call can be made to fail here in a portable way. So the test writes what the keeper
/// records after a failure.
// Shows: flush-is-whole.
#[test]
fn health_is_bad_from_a_failed_flush_to_the_next_good_one() {
    let setup = Setup::new(&with_flush("24h"));
    let server = setup.start();
    server.wait_for_workers(2);
    assert!(healths(&server).iter().all(|(status, _)| *status == 200));
    let runtime = OpenOptions::new().write(true).open(setup.path("data/runtime.mmap"));
    runtime.expect("there").write_all_at(&[1], FLUSH_FAILED).expect("written");
    for (status, words) in healths(&server) {
        assert_eq!(status, 503);
        assert!(words.contains("not written back to the disk"), "{words}");
    }
    assert_eq!(server.client().get("/update?biz=plenty&key=k").status, 200, "it serves");
    setup.write_srv(&with_flush("10ms"));
    assert_eq!(setup.frs(&["reload"]).status.code(), Some(0));
    wait_until("a flush has succeeded", || {
        healths(&server).iter().all(|(status, _)| *status == 200).then_some(())
    });
}

/// Not a test: the program that the test below starts.
#[test]
#[ignore = "a program that another test starts"]
fn attaches_and_waits() {
    let data = std::env::var(DATA).expect("the test that starts it names the data directory");
    let _service = Service::attach(data.as_ref(), Role::Program, None).expect("attached");
    println!("\nattached");
    std::thread::sleep(BOUND * 2);
}

#[test]
fn the_slot_of_a_killed_program_becomes_free_by_itself() {
    let setup = Setup::new(&Settings::default());
    let server = setup.start();
    server.wait_for_workers(2);
    // For two seconds after its start a keeper looks for dead processes that its predecessor
    // missed.
    let begun = Instant::now();
    let mut program = program(module_path!(), "attaches_and_waits")
        .env(DATA, setup.path("data"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let mut said = BufReader::new(program.stdout.take().expect("a pipe")).lines();
    assert!(said.any(|line| line.expect("read") == "attached"));
    let is_shown = || {
        let status = text(&setup.frs(&["status"]).stdout);
        status.lines().any(|line| line.starts_with("program "))
    };
    wait_until("the keeper's first looks are over", || {
        (begun.elapsed() > Duration::from_secs(3)).then_some(())
    });
    assert!(is_shown());
    program.kill().expect("killed");
    program.wait().expect("reaped");
    // No process attaches, dies or waits for the slot meanwhile.
    let killed = Instant::now();
    wait_until("its slot is free", || (!is_shown()).then_some(()));
    assert!(killed.elapsed() < Duration::from_secs(5), "{:?}", killed.elapsed());
    assert!(setup.log().contains("slot recovered"), "{}", setup.log());
}
