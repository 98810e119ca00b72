//! HAProxy with the file of conf/examples/mirror sends the requests for a key to one of two
//! machines, and to the other one when that machine is lost.

use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::{Machine, machines, start};
use crate::common::address::Reserved;
use crate::common::load::{UntilDropped, wait_for_more};
use crate::common::{Answer, Client, wait_until};
use crate::gateways::programs::haproxy;

const CLIENTS: usize = 6;
const KEYS: usize = 60;

struct Router {
    address: SocketAddr,
    child: Child,
    dir: tempfile::TempDir,
    _reserved: Reserved,
}

impl Router {
    /// `None` if it is not installed.
    fn start(machines: &[Machine; 2]) -> Option<Router> {
        let gateway = haproxy();
        let program = gateway.program()?;
        let reserved = Reserved::new();
        let dir = tempfile::tempdir().expect("a directory");
        let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
            .join("conf/examples/mirror/haproxy.cfg");
        let mut text = std::fs::read_to_string(path).expect("shipped");
        for (from, to) in [
            ("127.0.0.1:7600", machines[0].address()),
            ("127.0.0.1:7700", machines[1].address()),
            ("127.0.0.1:7650", reserved.address),
        ] {
            assert!(text.contains(from), "{from} in {text}");
            text = text.replace(from, &to.to_string());
        }
        std::fs::write(dir.path().join("haproxy.cfg"), text).expect("written");
        let child = Command::new(program)
            .args((gateway.arguments)(dir.path()))
            .current_dir(dir.path())
            .process_group(0)
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(dir.path().join("log")).expect("a log"))
            .spawn()
            .expect("the router starts");
        let mut router = Router { address: reserved.address, child, dir, _reserved: reserved };
        router.wait();
        Some(router)
    }

    fn wait(&mut self) {
        wait_until("the router serves", || {
            let ended = self.child.try_wait().expect("waited");
            assert!(ended.is_none(), "it ended instead: {ended:?}");
            let answer = Client::try_connect(self.address)?.try_get("/health").ok()?;
            (answer.status == 200).then_some(())
        });
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        let _ = killpg(Pid::from_raw(self.child.id() as i32), Signal::SIGKILL);
        let _ = self.child.wait();
        if thread::panicking() {
            let log = std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
            eprintln!("--- the router's log\n{log}---");
        }
    }
}

/// Clients of the router, each with its own keys.
struct Clients<'a> {
    router: &'a Router,
    is_over: AtomicBool,
    /// No process of the lost machine is left.
    is_gone: AtomicBool,
    answered: AtomicU64,
    /// Requests that were sent to a machine that was lost before it answered.
    unknown: AtomicU64,
}

impl Clients<'_> {
    /// Charges keys until the test is over. Returns the number of answers for each key.
    fn charge(&self, nth: usize) -> Vec<u64> {
        let (mut client, mut counts, mut at) = (None, vec![0; KEYS], nth);
        while !self.is_over.load(Ordering::Relaxed) {
            let target = format!("/update?biz=plenty&key=k{at}");
            let mut ask = || -> Option<Answer> {
                let mut this =
                    client.take().unwrap_or_else(|| Client::connect(self.router.address));
                let answer = this.try_get(&target).ok()?;
                client = Some(this).filter(|_| !answer.closes());
                Some(answer)
            };
            loop {
                let is_gone = self.is_gone.load(Ordering::SeqCst);
                let answer = ask();
                if answer.as_ref().is_some_and(|answer| answer.status == 200) {
                    break;
                }
                // A machine that is dying may have charged it, so the router does not send it
                // again. Once the machine is gone, each request is answered.
                let is_unknown =
                    answer.as_ref().is_none_or(|answer| matches!(answer.status, 502..=504));
                assert!(is_unknown && !is_gone, "{answer:?}");
                self.unknown.fetch_add(1, Ordering::Relaxed);
            }
            counts[at] += 1;
            self.answered.fetch_add(1, Ordering::Relaxed);
            at = (at + CLIENTS) % KEYS;
        }
        counts
    }
}

/// How many keys a machine has a use of.
fn known(machine: &Machine) -> usize {
    let mut client = machine.client();
    (0..KEYS).filter(|key| super::used(&mut client, "plenty", &format!("k{key}")) > 0).count()
}

#[test]
fn behind_a_router_no_request_fails_once_a_machine_is_gone_and_none_when_it_is_back() {
    let machines: [Machine; 2] = machines();
    let servers = start(&machines);
    let Some(router) = Router::start(&machines) else { return };
    let clients = Clients {
        router: &router,
        is_over: AtomicBool::new(false),
        is_gone: AtomicBool::new(false),
        answered: AtomicU64::new(0),
        unknown: AtomicU64::new(0),
    };
    let [server, _other] = servers;
    let counts = thread::scope(|scope| {
        let (ends, clients) = (UntilDropped(&clients.is_over), &clients);
        let all: Vec<_> =
            (0..CLIENTS).map(|nth| scope.spawn(move || clients.charge(nth))).collect();
        wait_until("both machines have all keys", || {
            machines.iter().all(|machine| known(machine) == KEYS).then_some(())
        });
        wait_for_more(&clients.answered, 500);
        assert_eq!(clients.unknown.load(Ordering::Relaxed), 0);
        machines[0].lose(server);
        clients.is_gone.store(true, Ordering::SeqCst);
        wait_for_more(&clients.answered, 500);
        let _server = machines[0].start();
        machines[0].wait_until_learnt();
        wait_until("the machine is used again", || {
            let updates = "frs_items_total{biz=\"plenty\",command=\"update\",verdict=\"allowed\"}";
            machines[0].plane.metric(updates).filter(|count| *count > 100)
        });
        wait_for_more(&clients.answered, 500);
        drop(ends);
        let counts: Vec<Vec<u64>> =
            all.into_iter().map(|client| client.join().expect("no request fails")).collect();
        // Both machines agree in the end.
        for key in 0..KEYS {
            wait_until("both agree", || {
                let name = format!("k{key}");
                let used = machines.each_ref().map(|machine| machine.used("plenty", &name));
                (used[0] == used[1]).then_some(())
            });
        }
        counts
    });
    let answered: u64 = counts.iter().flatten().sum();
    let mut client = machines[1].client();
    let used = (0..KEYS).map(|key| super::used(&mut client, "plenty", &format!("k{key}")));
    let used: u64 = used.sum();
    let unknown = clients.unknown.load(Ordering::Relaxed);
    println!("{answered} answered, {unknown} without an answer, {used} used");
    assert!(used <= answered + unknown, "{used} of {answered} and {unknown}");
}
