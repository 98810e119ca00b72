//! A process is stopped at each store of an Update in turn. Invariant: another process waits for
//! its semaphores at most one lock-timeout, once. Everything else goes on. Whether the stopped
//! process is continued or killed, nothing is lost.

use std::path::Path;
use std::process::{Child, Command as Process, Stdio};
use std::time::{Duration, Instant};

use frs_base::testing::told;
use frs_conf::key::KeyNodeId;
use frs_store::crash;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::testing::{Ask, World, request};
use crate::{Command, ItemError, Service};

const NOW: u64 = 1_700_000_000_000;
/// The default lock-timeout, which the configuration of these tests does not change.
const LOCK_TIMEOUT: Duration = Duration::from_millis(50);

const MAP: &str = r#"<map>
  <group name="g" files="2" key-nodes="64" chain="8" node-size="128"/>
  <biz id="1" name="a" key="integer"><limit policy="interval" interval="1h" max="1000"/></biz>
</map>"#;

/// The key-node of the key: file `7 % 2`, number `7 / 2`. Keys of this type are placed by modulo.
const HELD: KeyNodeId = KeyNodeId { file: 1, key_node: 3 };
const ASK: Ask<'_> = Ask("a", "7", 1);
const OTHER: Ask<'_> = Ask("a", "8", 1);

/// Not a test: the process that is stopped.
#[test]
#[ignore = "a program that other tests start"]
fn holder() {
    let [dir, stop_at] = ["FRS_STOP_DIR", "FRS_STOP_AT"].map(told);
    let world = World::of(Path::new(&dir), MAP);
    let mut service = world.attach();
    let mut answers = Default::default();
    service.begin_tick();
    crash::arm_stop(stop_at.parse().unwrap());
    service.run(&request(Command::Update, false, &[ASK]), NOW, &mut answers);
    let stores = crash::disarm();
    assert!(answers.items[0].result.is_ok(), "{answers:?}");
    std::fs::write(Path::new(&dir).join("stores"), stores.to_string()).unwrap();
}

fn spawn(world: &World, stop_at: u64) -> Child {
    Process::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "tests::stopped::holder"])
        .env("FRS_STOP_DIR", &world.dir)
        .env("FRS_STOP_AT", stop_at.to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(child.id() as i32)
}

/// A process that is stopped at this store. Dropping it kills the process.
struct Stopped(Child);

impl Stopped {
    fn at(world: &World, store: u64) -> Stopped {
        let child = spawn(world, store);
        let status = waitpid(pid(&child), Some(WaitPidFlag::WUNTRACED)).unwrap();
        assert!(matches!(status, WaitStatus::Stopped(..)), "at {store}: {status:?}");
        Stopped(child)
    }

    fn signal(&self, signal: Signal) {
        kill(pid(&self.0), signal).unwrap();
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The number of stores of an Update.
fn count_stores(world: &World) -> u64 {
    assert!(spawn(world, 0).wait().unwrap().success());
    std::fs::read_to_string(world.dir.join("stores")).unwrap().parse().unwrap()
}

fn is_held(world: &World) -> bool {
    world.group("g").semaphore(HELD.file, HELD.key_node).word() != 0
}

fn ask(service: &mut Service, asks: &[Ask<'_>], atomic: bool) -> Vec<Option<ItemError>> {
    let answers = service.answers(&request(Command::Update, atomic, asks), NOW);
    answers.items.iter().map(|answer| answer.result.err()).collect()
}

/// While the holder is stopped: one wait, then none. Other key-nodes are not affected.
fn expect_busy_once(service: &mut Service) {
    let busy = Some(ItemError::Busy);
    let begun = Instant::now();
    assert_eq!(ask(service, &[ASK, OTHER, ASK], false), [busy, None, busy]);
    assert!(begun.elapsed() >= LOCK_TIMEOUT, "not before its time: {:?}", begun.elapsed());
    let begun = Instant::now();
    for _ in 0..20 {
        assert_eq!(ask(service, &[ASK, OTHER], false), [busy, None]);
        assert_eq!(ask(service, &[OTHER, ASK], true), [busy, busy]);
        let query = request(Command::Query, false, &[ASK]);
        assert_eq!(service.answers(&query, NOW).items[0].result, Err(ItemError::Busy));
    }
    // 60 turns: if each one waited, that would take three seconds.
    assert!(begun.elapsed() < 10 * LOCK_TIMEOUT, "{:?}", begun.elapsed());
}

/// Stops a process at each store of an Update, and ends the stop by `end`. `known` is whether the
/// interrupted charge is certain.
fn at_each_store(end: Signal, known: bool) {
    let world = World::new(MAP);
    // The first Update creates the node.
    let stores = [count_stores(&world), count_stores(&world)][1];
    let (mut held, mut total) = (0, 2);
    for store in 1..=stores {
        let mut stopped = Stopped::at(&world, store);
        let mut service = world.attach();
        let was_held = is_held(&world);
        if was_held {
            expect_busy_once(&mut service);
            held += 1;
        } else {
            assert_eq!(ask(&mut service, &[ASK, OTHER], false), [None, None], "at {store}");
            total += 1;
        }
        stopped.signal(end);
        let status = stopped.0.wait().unwrap();
        assert_eq!(status.success(), known, "at {store}");
        // The kernel may take a moment to release the dead process's lock. Until then the key is
        // busy.
        let begun = Instant::now();
        while ask(&mut service, &[ASK], false) != [None] {
            assert!(begun.elapsed() < Duration::from_secs(10), "at {store}: never free again");
        }
        total += 1;
        let used = service.used("a", "7", NOW);
        assert!(used == total + 1 || used == total && !known, "at {store}: {used} of {total}");
        total = used;
        drop(service);
        world.runtime().slots().iter().for_each(|slot| assert!(!slot.alive));
        world.attach().recover_dead();
        world.verify();
    }
    // The semaphore is held except at the beginning and after its release.
    assert!(held > 5 && held < stores, "{held} of {stores}");
}

#[test]
fn continued_it_goes_on_where_it_was() {
    at_each_store(Signal::SIGCONT, true);
}

#[test]
fn killed_it_is_recovered() {
    at_each_store(Signal::SIGKILL, false);
}
