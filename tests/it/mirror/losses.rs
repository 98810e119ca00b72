//! Machines that are lost for good under load: all processes are killed and the data directory is
//! removed, at a random moment. The clients' own logs say what may be missing on the other machine.
//!
//! `FRS_LOSSES` is the number of losses.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};

use super::{MIRROR_MS, Machine, machines, start};
use crate::cluster::hosts::Random;
use crate::common::items::{post, read_xml, try_post_unread};
use crate::common::load::{UntilDropped, wait_for_more};
use crate::common::{Client, Server, wait_until};

const LOSSES: usize = 20;
/// Keys whose limit is never reached.
const PLENTY: usize = 300;
/// Keys of each loss whose limit is reached.
const FEW: usize = 24;
const FEW_MAX: u64 = 40;
const KEYS: usize = PLENTY + FEW;
const CLIENTS: u64 = 4;
/// The pause between two probes.
const PROBE_PAUSE: Duration = Duration::from_millis(10);
/// Items of a request.
const BATCH: usize = 8;
/// No machine is lost.
const NONE: usize = 2;
/// Requests between the beginning of the load and a loss.
const REQUESTS: std::ops::Range<usize> = 10..240;

/// An acknowledged use.
#[derive(Debug, Clone, Copy)]
struct Ack {
    key: usize,
    machine: usize,
    at: Instant,
}

/// How long changes take to the other machine, as measured with a key of its own.
#[derive(Debug, Default)]
struct Probe {
    longest: Duration,
    /// When the last use that is there was acknowledged.
    there: Option<Instant>,
}

struct Load<'a> {
    machines: &'a [Machine; 2],
    is_over: AtomicBool,
    is_paused: AtomicBool,
    resting: AtomicUsize,
    /// The lost machine.
    lost: AtomicUsize,
    loss: AtomicUsize,
    answered: AtomicU64,
    acks: Mutex<Vec<Ack>>,
    /// Uses without an answer, by key.
    unknown: Mutex<Vec<u64>>,
    is_used_up: Vec<AtomicBool>,
    probes: [Mutex<Probe>; 2],
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("no thread fails")
}

impl Load<'_> {
    fn item(&self, key: usize) -> String {
        let loss = self.loss.load(Ordering::Relaxed);
        match key.checked_sub(PLENTY) {
            None => format!("<item biz=\"plenty\" key=\"k{key}\"/>"),
            Some(few) => format!("<item biz=\"few\" key=\"{loss}-{few}\"/>"),
        }
    }

    /// Where the keys of a machine are used.
    fn route(&self, home: usize) -> usize {
        if self.lost.load(Ordering::SeqCst) == home { 1 - home } else { home }
    }

    fn rest(&self) {
        self.resting.fetch_add(1, Ordering::SeqCst);
        while self.is_paused.load(Ordering::SeqCst) && !self.is_over.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
        self.resting.fetch_sub(1, Ordering::SeqCst);
    }

    fn client(&self, seed: u64) {
        let (mut random, mut clients) = (Random::new(seed), [None, None]);
        while !self.is_over.load(Ordering::SeqCst) {
            if self.is_paused.load(Ordering::SeqCst) {
                self.rest();
                continue;
            }
            let home = random.below(2);
            let at = self.route(home);
            let Some(mut client) =
                clients[at].take().or_else(|| Client::try_connect(self.machines[at].address()))
            else {
                thread::sleep(Duration::from_millis(1));
                continue;
            };
            // After the loss more of them, so that they are soon used up.
            let few = if self.lost.load(Ordering::SeqCst) == NONE { BATCH / 4 } else { BATCH / 2 };
            let key = |nth| match nth < few {
                false => random.below(PLENTY / 2) * 2 + home,
                true => PLENTY + random.below(FEW / 2) * 2 + home,
            };
            let keys: Vec<usize> = (0..BATCH).map(key).collect();
            let items: String = keys.iter().map(|key| self.item(*key)).collect();
            let document = format!("<request>{items}</request>");
            match try_post_unread(&mut client, "/update", &document) {
                Ok(answer) => {
                    let now = Instant::now();
                    assert_eq!(answer.status, 200, "{answer:?}");
                    let items = read_xml(&answer).items;
                    for (key, item) in keys.into_iter().zip(items) {
                        match item.values.get("limited") {
                            Some("false") => {
                                lock(&self.acks).push(Ack { key, machine: at, at: now })
                            }
                            Some("true") => self.is_used_up[key].store(true, Ordering::SeqCst),
                            _ => panic!("{item:?}"),
                        }
                    }
                    self.answered.fetch_add(1, Ordering::Relaxed);
                    clients[at] = Some(client);
                }
                Err(_) => keys.into_iter().for_each(|key| lock(&self.unknown)[key] += 1),
            }
        }
    }

    /// Measures how long a use of a machine takes to the other one, again and again.
    fn probe(&self, from: usize) {
        let (mut clients, key) = ([None, None], format!("probe{from}"));
        let mut ask = |at: usize, command: &str| -> Option<u64> {
            let slot: &mut Option<Client> = &mut clients[at];
            let address = self.machines[at].address();
            let mut client = slot.take().or_else(|| Client::try_connect(address))?;
            let answer = client.try_get(&format!("/{command}?biz=plenty&key={key}")).ok()?;
            *slot = Some(client);
            answer.attribute("used")?.parse().ok()
        };
        let mut under_way = VecDeque::new();
        while !self.is_over.load(Ordering::SeqCst) {
            if self.is_paused.load(Ordering::SeqCst) || self.lost.load(Ordering::SeqCst) != NONE {
                under_way.clear();
                thread::sleep(Duration::from_millis(2));
                continue;
            }
            if let Some(count) = ask(from, "update") {
                under_way.push_back((count, Instant::now()));
            }
            let Some(there) = ask(1 - from, "query") else { continue };
            while let Some((_, since)) =
                under_way.front().copied().filter(|(count, _)| *count <= there)
            {
                under_way.pop_front();
                let mut probe = lock(&self.probes[from]);
                probe.longest = probe.longest.max(since.elapsed());
                probe.there = Some(since);
            }
            thread::sleep(PROBE_PAUSE);
        }
    }

    /// The uses of all keys on a machine.
    fn used(&self, machine: usize) -> Vec<u64> {
        let mut client = self.machines[machine].client();
        let keys: Vec<usize> = (0..KEYS).collect();
        let used = |keys: &[usize]| -> Vec<u64> {
            let items: String = keys.iter().map(|key| self.item(*key)).collect();
            let response = post(&mut client, "/query", &format!("<request>{items}</request>"));
            let used = |item: &crate::common::items::Item| item.values.number("used");
            response.items.iter().map(|item| used(item).expect("a verdict")).collect()
        };
        keys.chunks(50).flat_map(used).collect()
    }

    fn pause(&self) {
        self.is_paused.store(true, Ordering::SeqCst);
        wait_until("all clients rest", || {
            (self.resting.load(Ordering::SeqCst) == CLIENTS as usize).then_some(())
        });
    }

    /// Begins the next loss.
    fn go_on(&self, loss: usize) {
        self.loss.store(loss, Ordering::SeqCst);
        self.is_used_up.iter().for_each(|is_used_up| is_used_up.store(false, Ordering::SeqCst));
        self.lost.store(NONE, Ordering::SeqCst);
        self.is_paused.store(false, Ordering::SeqCst);
    }
}

/// What is known of a loss.
struct Loss {
    lost: usize,
    killed: Instant,
    /// Uses that were acknowledged longer before are on the other machine.
    window: Duration,
}

/// What the losses cost.
#[derive(Debug, Default)]
struct Sums {
    /// Acknowledged uses of lost machines that had to be carried, and were.
    carried: u64,
    missing: u64,
    over: u64,
    oldest: Duration,
    window: Duration,
}

impl Loss {
    /// Compares the uses on the other machine with those that were acknowledged. `before` are the
    /// uses at the beginning.
    fn check(&self, load: &Load<'_>, before: &[u64], used: &[u64], sums: &mut Sums) {
        let mut acks = vec![Vec::new(); KEYS];
        let all = std::mem::take(&mut *lock(&load.acks));
        let length = all.last().map_or(0.0, |ack: &Ack| (ack.at - all[0].at).as_secs_f64());
        let rate = all.len() as f64 / length.max(0.001);
        all.into_iter().for_each(|ack| acks[ack.key].push(ack));
        let unknown = std::mem::replace(&mut *lock(&load.unknown), vec![0; KEYS]);
        let (mut missing, mut of_keys, mut over, mut oldest) = (0, 0, 0, Duration::ZERO);
        for key in 0..KEYS {
            let count = acks[key].len() as u64;
            let mut lost: Vec<Instant> =
                acks[key].iter().filter(|ack| ack.machine == self.lost).map(|ack| ack.at).collect();
            lost.sort_unstable();
            let ages = lost.iter().map(|at| self.killed.saturating_duration_since(*at));
            let recent = ages.filter(|age| *age <= self.window).count() as u64;
            sums.carried += lost.len() as u64 - recent;
            // How old the oldest use is that is missing.
            let mut note = |missing: u64| {
                let at = lost.len().checked_sub(missing as usize).and_then(|at| lost.get(at));
                let age = at.map(|at| self.killed.saturating_duration_since(*at));
                oldest = oldest.max(age.unwrap_or_default());
            };
            let told = format!(
                "{}: {} before, {count} acknowledged, {} of them by the lost machine, {recent} of \
                 those in its last {:?}, {} unknown, {} used",
                load.item(key),
                before[key],
                lost.len(),
                self.window,
                unknown[key],
                used[key]
            );
            if key < PLENTY {
                let most = before[key] + count;
                assert!(used[key] <= most + unknown[key], "{told}: too many");
                assert!(used[key] + recent >= most, "{told}: too few");
                let of_key = most.saturating_sub(used[key]);
                (missing, of_keys) = (missing + of_key, of_keys + u64::from(of_key > 0));
                note(of_key);
            } else {
                assert!(count + unknown[key] >= FEW_MAX, "{told}: too few admitted");
                let of_key = count.saturating_sub(FEW_MAX);
                assert!(of_key <= recent, "{told}: too many admitted");
                over += of_key;
                note(of_key);
            }
        }
        println!(
            "loss {}: {rate:.0} uses/s, {missing} missing of {of_keys} keys, {over} over, the \
             oldest {oldest:?} before the loss; the bound is {:?}",
            load.loss.load(Ordering::SeqCst),
            self.window
        );
        sums.missing += missing;
        sums.over += over;
        sums.oldest = sums.oldest.max(oldest);
        sums.window = sums.window.max(self.window);
    }
}

#[test]
fn a_lost_machine_costs_at_most_the_uses_of_its_last_period() {
    let told = std::env::var("FRS_LOSSES").ok();
    let losses = told.map_or(LOSSES, |text| text.parse().expect("FRS_LOSSES: a number"));
    let machines: [Machine; 2] = machines();
    let mut servers = start(&machines).map(Some);
    let load = Load {
        machines: &machines,
        is_over: AtomicBool::new(false),
        is_paused: AtomicBool::new(true),
        resting: AtomicUsize::new(0),
        lost: AtomicUsize::new(NONE),
        loss: AtomicUsize::new(0),
        answered: AtomicU64::new(0),
        acks: Mutex::default(),
        unknown: Mutex::new(vec![0; KEYS]),
        is_used_up: (0..KEYS).map(|_| AtomicBool::new(false)).collect(),
        probes: Default::default(),
    };
    let (mut before, mut sums, mut random) = (vec![0; KEYS], Sums::default(), Random::new(77));
    thread::scope(|scope| {
        let (ends, load) = (UntilDropped(&load.is_over), &load);
        for seed in 0..CLIENTS {
            scope.spawn(move || load.client(seed));
        }
        for from in [0, 1] {
            scope.spawn(move || load.probe(from));
        }
        for nth in 1..=losses {
            load.probes.iter().for_each(|probe| lock(probe).there = None);
            load.go_on(nth);
            wait_until("changes are on the other machines", || {
                load.probes.iter().all(|probe| lock(probe).there.is_some()).then_some(())
            });
            let requests = REQUESTS.start + random.below(REQUESTS.len());
            wait_for_more(&load.answered, requests as u64);
            let lost = random.below(2);
            let loss = lose(load, lost, &mut servers);
            wait_until("all small limits are reached", || {
                let mut few = load.is_used_up[PLENTY..].iter();
                few.all(|is_used_up| is_used_up.load(Ordering::SeqCst)).then_some(())
            });
            load.pause();
            let used = load.used(1 - lost);
            loss.check(load, &before, &used, &mut sums);
            servers[lost] = Some(machines[lost].start());
            let back = load.used(lost);
            assert_eq!(back, used, "the lost machine has all back, or asks for it");
            machines[lost].wait_until_learnt();
            assert_eq!(load.used(lost), used, "it has learnt all");
            before = used;
            before[PLENTY..].fill(0);
        }
        drop(ends);
    });
    println!("{losses} losses: {sums:?}");
    assert!(sums.carried > 20 * losses as u64, "{sums:?}");
    assert!(sums.window < Duration::from_millis(MIRROR_MS) + Duration::from_secs(3), "{sums:?}");
}

/// Loses a machine. The bound is the longest time that a change took, or the time since the last
/// change that is known to be on the other machine.
fn lose<'m>(load: &Load<'m>, lost: usize, servers: &mut [Option<Server<'m>>; 2]) -> Loss {
    let server = servers[lost].take().expect("it runs");
    let killed = Instant::now();
    killpg(server.master(), Signal::SIGKILL).expect("killed");
    load.lost.store(lost, Ordering::SeqCst);
    let probe = lock(&load.probes[lost]);
    let since = killed.saturating_duration_since(probe.there.expect("some change is there"));
    let longest = probe.longest.max(since);
    drop(probe);
    load.machines[lost].lose(server);
    Loss { lost, killed, window: longest + PROBE_PAUSE }
}
