//! The processes that a killed master leaves behind. Stopped processes cannot notice its end, and
//! must not keep the next start from serving.

use std::os::unix::fs::FileExt;
use std::process::Stdio;

use crate::common::programs;
use crate::common::{Client, Server, Settings, Setup, is_alive, wait_until};
use frs_engine::{Role, Service};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Stops a process and waits until it has stopped.
fn stop(pid: Pid) {
    kill(pid, Signal::SIGSTOP).expect("stopped");
    wait_until("it stands still", || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("there");
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T')).then_some(())
    });
}

/// Kills the master alone with SIGKILL, and starts a server at once.
fn start_again<'a>(setup: &'a Setup, server: &mut Server<'_>) -> Server<'a> {
    server.signal(Signal::SIGKILL);
    server.wait();
    setup.start_apart()
}

/// The number of keys that `charge_all` charges.
const KEYS: usize = 64;

/// Charges all keys at once. Returns whether the server answered.
fn charge_all(client: &mut Client) -> bool {
    let items: String =
        (0..KEYS).map(|key| format!("<item biz=\"plenty\" key=\"{key}\"/>")).collect();
    let body = format!("<request atomic=\"true\">{items}</request>");
    let length = body.len();
    client.send(&format!(
        "POST /update HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\n\r\n{body}"
    ));
    client.try_answer().is_ok_and(|answer| {
        assert_eq!(answer.body.matches("limited=\"false\"").count(), KEYS, "{answer:?}");
        true
    })
}

/// The number of taken semaphores, read from the files.
fn taken(setup: &Setup) -> usize {
    let mut taken = 0;
    for file in 0..2 {
        let file = std::fs::File::open(setup.path(&format!("data/default.{file}.mmap")));
        let file = file.expect("there");
        for key_node in 0..512 {
            let mut word = [0; 4];
            file.read_exact_at(&mut word, 4096 + key_node * (64 + 8 * 128)).expect("read");
            taken += usize::from(word != [0; 4]);
        }
    }
    taken
}

// Shows: stalls-are-bounded.
#[test]
fn a_stopped_worker_of_a_killed_master_does_not_hold_up_the_next_start() {
    let setup = Setup::new(&Settings::default());
    let mut server = setup.start_apart();
    let stopped = server.wait_for_workers(2)[0];
    server.client().charge("plenty", "kept", 7);
    stop(stopped);
    let again = start_again(&setup, &mut server);
    assert!(!is_alive(stopped), "it holds the address no more");
    assert_eq!(again.wait_for_workers(2).len(), 2);
    let answer = again.client().get("/query?biz=plenty&key=kept");
    assert_eq!(answer.attribute("used"), Some("7"));
    assert!(setup.log().contains("killed a stopped process of a dead master"), "{}", setup.log());
}

#[test]
fn nor_does_a_stopped_keeper() {
    let more = "<admin listen=\"unix:admin.sock\"/>".to_owned();
    let setup = Setup::new(&Settings { more, ..Settings::default() });
    let mut server = setup.start_apart();
    let keeper = wait_until("a keeper is attached", || server.attached("keeper").pop());
    stop(keeper);
    let again = start_again(&setup, &mut server);
    assert!(!is_alive(keeper));
    wait_until("there is another", || again.attached("keeper").pop());
}

// Shows: stalls-are-bounded.
#[test]
fn nor_does_one_that_was_stopped_in_the_middle_of_a_transaction() {
    let setup = Setup::new(&Settings { workers: 1, ..Settings::default() });
    setup.write_map(&crate::common::MAP.replace("key-nodes=\"64\"", "key-nodes=\"512\""));
    let mut server = setup.start_apart();
    let worker = server.wait_for_workers(1)[0];
    let address = setup.address;
    let again = std::thread::scope(|scope| {
        let mut client = Client::connect(address);
        assert!(charge_all(&mut client));
        let charging = scope.spawn(move || while charge_all(&mut client) {});
        wait_until("it is stopped while it holds key-nodes", || {
            stop(worker);
            if taken(&setup) > 0 {
                return Some(());
            }
            kill(worker, Signal::SIGCONT).expect("continued");
            None
        });
        let again = start_again(&setup, &mut server);
        assert!(!is_alive(worker));
        charging.join().expect("joined");
        again
    });
    // The transaction was undone or committed as a whole, and holds nothing up.
    let mut client = again.client();
    let used = |client: &mut Client, key: usize| {
        let answer = client.get(&format!("/query?biz=plenty&key={key}"));
        answer.attribute("used").map(str::to_owned).expect("not busy")
    };
    let first = used(&mut client, 0);
    for key in 1..KEYS {
        assert_eq!(used(&mut client, key), first, "key {key}");
    }
    assert!(charge_all(&mut client));
}

/// The attached program that the test below starts. It does nothing.
#[test]
#[ignore = "started by another test"]
fn program() {
    let Ok(data) = std::env::var("FRS_PROGRAM_DATA") else { return };
    let _service = Service::attach(data.as_ref(), Role::Program, None).expect("attached");
    loop {
        std::thread::park();
    }
}

// Shows: only-orphans-end.
#[test]
fn a_stopped_program_is_left_alone() {
    let setup = Setup::new(&Settings::default());
    let mut server = setup.start_apart();
    let mut program = programs::program(module_path!(), "program")
        .env("FRS_PROGRAM_DATA", setup.path("data"))
        .stdout(Stdio::null())
        .spawn()
        .expect("started");
    let pid = wait_until("it is attached", || server.attached("program").pop());
    assert_eq!(pid.as_raw(), program.id() as i32);
    stop(pid);
    let again = start_again(&setup, &mut server);
    assert_eq!(again.attached("program"), [pid]);
    program.kill().and_then(|()| program.wait()).expect("ended");
}

// Shows: address-after-a-kill.
#[test]
fn a_start_waits_for_whoever_still_listens_after_a_kill_and_names_it() {
    let setup = Setup::new(&Settings::default());
    let mut server = setup.start();
    server.client().charge("plenty", "kept", 7);
    server.kill_all_and_wait();
    drop(server);
    // Stands for a process that has lost its slot, but not its sockets.
    let listener = std::net::TcpListener::bind(setup.address).expect("bound");
    let server = setup.start_unready();
    let named = format!("process {} (", std::process::id());
    wait_until("it is named", || {
        let log = setup.log();
        let mut lines = log.lines().filter(|line| line.contains("waiting until it ends"));
        lines.any(|line| line.contains(&named)).then_some(())
    });
    drop(listener);
    let server = server.ready();
    let answer = server.client().get("/query?biz=plenty&key=kept");
    assert_eq!(answer.attribute("used"), Some("7"));
}
