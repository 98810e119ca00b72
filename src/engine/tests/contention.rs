//! Many processes and threads on the library. Invariant: atomic requests that overlap in random
//! order never deadlock, never charge in part, and add up exactly, even while processes are killed.
//!
//! Each process records its answers in its own file, in whole lines written at once, before and
//! after each request. So the stored counts are known, except for interrupted requests.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command as Process, Stdio};
use std::time::{Duration, Instant};

use frs_base::testing::told;

use crate::testing::{Ask, World, request};
use crate::{Command, ItemError, ItemOptions, Request};

const NOW: u64 = 1_700_000_000_000;
const KEYS: usize = 12;
/// The maximum of all keys but the last. The last one is used up early, and refuses whole requests.
const PLENTY: u64 = 1_000_000;
const FEW: u64 = 40;
const PROCESSES: u64 = 4;
const THREADS: u64 = 2;
const BOUND: Duration = Duration::from_secs(30);

/// One key-node shared by several keys, separate ones for others, and one node for the whole biz.
const MAP: &str = r#"<map>
  <group name="narrow" files="1" key-nodes="2" chain="16" node-size="128"/>
  <group name="wide" files="2" key-nodes="64" chain="8" node-size="64"/>
  <biz id="1" name="narrow" key="integer"><limit policy="interval" interval="24h" max="1000000"/></biz>
  <biz id="2" name="wide" group="wide" key="integer"><limit policy="interval" interval="24h" max="1000000"/></biz>
  <biz id="3" name="few" key="integer">
    <limit policy="total" scope="biz" max="40"/><limit policy="interval" interval="24h" max="1000000"/>
  </biz>
</map>"#;

/// Key number `nth`: its biz and its name there.
fn key(nth: usize) -> (&'static str, String) {
    match nth {
        0..4 => ("narrow", nth.to_string()),
        4..11 => ("wide", nth.to_string()),
        _ => ("few", nth.to_string()),
    }
}

/// A small generator, the same sequence for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

/// Several keys in random order, some of them twice. Sometimes the key that refuses is among them.
fn draw(random: &mut Random) -> Vec<usize> {
    let few = random.below(8) == 0;
    let mut keys: Vec<usize> = (0..2 + random.below(5)).map(|_| random.below(KEYS - 1)).collect();
    if few {
        keys.insert(random.below(keys.len()), KEYS - 1);
    }
    keys
}

fn compose(keys: &[usize]) -> Request {
    let named: Vec<(&str, String)> = keys.iter().map(|&nth| key(nth)).collect();
    let asks: Vec<Ask<'_>> = named.iter().map(|(biz, key)| Ask(biz, key, 1)).collect();
    request(Command::Update, true, &asks)
}

/// Not a test: one of the processes.
#[test]
#[ignore = "a program that other tests start"]
fn contender() {
    let [dir, number, requests] =
        ["FRS_CONTEND_DIR", "FRS_CONTEND_NUMBER", "FRS_CONTEND_REQUESTS"].map(told);
    let number: u64 = number.parse().unwrap();
    let requests: u64 = requests.parse().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (dir, name) = (Path::new(&dir), number * THREADS + thread);
            scope.spawn(move || contend(dir, name, requests));
        }
    });
}

fn contend(dir: &Path, name: u64, requests: u64) {
    let world = World::of(dir, MAP);
    let mut service = world.attach();
    let mut notes = File::create(dir.join(format!("notes.{name}"))).unwrap();
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ (name + 1));
    for _ in 0..requests {
        let keys = draw(&mut random);
        let list: String = keys.iter().map(|key| format!(" {key}")).collect();
        notes.write_all(format!("ask{list}\n").as_bytes()).unwrap();
        let answers = service.answers(&compose(&keys), NOW);
        let refused = answers.items.iter().filter(|answer| match answer.result {
            Ok(verdict) => verdict.limited,
            Err(_) => true,
        });
        assert_eq!(answers.refused, refused.count() > 0, "all or none: {answers:?}");
        let busy = answers.items.iter().any(|answer| answer.result == Err(ItemError::Busy));
        let note: &[u8] = match (answers.refused, busy) {
            (false, _) => b"yes\n",
            (true, false) => b"no\n",
            (true, true) => b"busy\n",
        };
        notes.write_all(note).unwrap();
    }
}

/// The charges that the answers to a process show: certain ones, and possible ones.
#[derive(Default)]
struct Told {
    certain: [u64; KEYS],
    perhaps: [u64; KEYS],
    busy: u64,
}

impl Told {
    fn read(&mut self, path: &Path) {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let mut open: Option<Vec<usize>> = None;
        for line in text.split_inclusive('\n') {
            match line.trim_end() {
                "yes" => add(&mut self.certain, &open.take().unwrap()),
                "no" => open = None,
                "busy" => {
                    open = None;
                    self.busy += 1;
                }
                ask => {
                    let keys = ask.split(' ').skip(1).map(|key| key.parse().unwrap());
                    open = Some(keys.collect());
                }
            }
        }
        if let Some(keys) = open {
            add(&mut self.perhaps, &keys);
        }
    }
}

fn add(counts: &mut [u64; KEYS], keys: &[usize]) {
    keys.iter().for_each(|&key| counts[key] += 1);
}

fn spawn(world: &World, number: u64, requests: u64) -> Child {
    Process::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "tests::contention::contender"])
        .env("FRS_CONTEND_DIR", &world.dir)
        .env("FRS_CONTEND_NUMBER", number.to_string())
        .env("FRS_CONTEND_REQUESTS", requests.to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Waits until the child ends by itself. Fails if processes wait for each other forever.
fn expect_success(child: &mut Child) {
    let begun = Instant::now();
    loop {
        match child.try_wait().unwrap() {
            Some(status) => return assert!(status.success(), "{status:?}"),
            None if begun.elapsed() > BOUND => {
                child.kill().unwrap();
                child.wait().unwrap();
                panic!("they wait for each other");
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}

/// The stored counts of each key, and of the last key's biz as a whole.
fn stored(world: &World) -> ([u64; KEYS], u64) {
    let mut service = world.attach();
    let mut used = [0; KEYS];
    for (nth, used) in used.iter_mut().enumerate() {
        let (biz, key) = key(nth);
        let mut query = Request::default();
        query.begin(Command::Query);
        query.push(biz, &key, ItemOptions::ONE.detailed());
        // The limit of the key itself comes last.
        *used = service.answers(&query, NOW).details.limits.last().unwrap().figures.used;
    }
    let whole = service.used("few", "0", NOW);
    (used, whole)
}

#[test]
fn what_was_told_is_what_is_stored() {
    let world = World::with_lock_timeout(MAP, "10s");
    let mut children: Vec<Child> =
        (0..PROCESSES).map(|number| spawn(&world, number, 400)).collect();
    children.iter_mut().for_each(expect_success);
    let mut told = Told::default();
    for name in 0..PROCESSES * THREADS {
        told.read(&world.dir.join(format!("notes.{name}")));
    }
    // If requests waited for each other, only the lock-timeout would end that.
    assert_eq!(told.busy, 0, "requests were busy");
    let (used, whole) = stored(&world);
    assert_eq!(used, told.certain);
    assert_eq!((whole, used[KEYS - 1]), (FEW, FEW), "exactly as many as there are");
    assert!(used[..KEYS - 1].iter().all(|&used| used > 100 && used < PLENTY), "{used:?}");
    world.verify();
}

#[test]
fn a_process_that_is_killed_leaves_whole_requests_only() {
    const ROUNDS: u64 = 12;
    let world = World::new(MAP);
    let mut random = Random(7);
    let mut told = Told::default();
    let mut steady: Vec<Child> =
        (0..PROCESSES - 1).map(|number| spawn(&world, number, 400)).collect();
    for round in 0..ROUNDS {
        let mut victim = spawn(&world, PROCESSES + round, u64::MAX);
        // Killed at a random moment.
        let notes = world.dir.join(format!("notes.{}", (PROCESSES + round) * THREADS));
        let (wanted, begun) = (200 + random.below(2000) as u64, Instant::now());
        while notes.metadata().map_or(0, |notes| notes.len()) < wanted {
            assert!(begun.elapsed() < BOUND, "it does not get on");
            std::thread::yield_now();
        }
        victim.kill().unwrap();
        victim.wait().unwrap();
    }
    steady.iter_mut().for_each(expect_success);
    world.attach().recover_dead();
    for number in (0..PROCESSES - 1).chain((0..ROUNDS).map(|round| PROCESSES + round)) {
        for thread in 0..THREADS {
            told.read(&world.dir.join(format!("notes.{}", number * THREADS + thread)));
        }
    }
    let (used, whole) = stored(&world);
    for (key, used) in used.iter().enumerate() {
        let (certain, perhaps) = (told.certain[key], told.perhaps[key]);
        let bounds = certain..=certain + perhaps;
        assert!(bounds.contains(used), "key {key}: {used} of {bounds:?}");
    }
    assert_eq!(whole, used[KEYS - 1], "both limits of one item were charged, or none");
    assert_eq!(whole, FEW);
    world.verify();
}
