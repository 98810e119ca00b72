//! Programs that share a small group are killed at random moments, one by one and several at once,
//! while they charge, evict, wait, attach and recover each other. No acknowledged use is lost, no
//! change is half done, no semaphore stays taken, and no program hangs.
//!
//! Each program has a seat in a page that it shares with this process. It records there what it is
//! about to charge and, after the answer, that it was charged. The second record is one store,
//! which a kill leaves done or not done. So at most the last request of a killed program is
//! uncertain.
//!
//! `FRS_TORTURE_KILLS` is the number of kills. `FRS_TORTURE_SEED` repeats the choices of a run, but
//! not its timing: `just torture`.

use std::fs::File;
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::common::programs::program;
use frs_base::clock;
use frs_conf::Texts;
use frs_engine::inspect::Reader;
use frs_engine::{Answers, Command, ItemError, ItemOptions, Request, Role, Service};
use frs_store::region::Region;
use frs_store::testing::put_in_force;
use frs_store::{Counter, GroupCounter, Runtime};

const TEST: &str = "programs_are_killed_at_any_moment_and_nothing_is_lost";
const VICTIM: &str = "victim";
const SEAT: &str = "FRS_TORTURE_SEAT";
const DIR: &str = "FRS_TORTURE_DIR";
const SEED: &str = "FRS_TORTURE_SEED";
const KILLS: &str = "FRS_TORTURE_KILLS";

/// The number of kills on one store before it is checked and replaced.
const KILLS_OF_A_ROUND: usize = 500;
/// The programs that charge, and those that only recover the dead.
const CHARGERS: usize = 5;
const RECOVERERS: usize = 2;
const SEATS: usize = CHARGERS + RECOVERERS;
/// Longer than any wait, even on a busy machine.
const BOUND: Duration = Duration::from_secs(60);

/// Two files of two key-nodes have sixteen places. At most three nodes of a chain are permanent.
const MAP: &str = r#"<map>
  <group name="small" files="2" key-nodes="2" chain="4" node-size="128"/>
  <biz id="1" name="sum" key="integer"><limit policy="total" max="1000000000"/></biz>
  <biz id="2" name="few" key="integer"><limit policy="total" max="400"/></biz>
  <biz id="3" name="churn" key="integer">
    <limit policy="interval" interval="24h" max="1000000000"/>
    <limit policy="total" scope="biz" max="1000000000"/>
  </biz>
</map>"#;

/// Keys that only atomic requests charge, all four together: one in each key-node.
const TOGETHER: [u64; 4] = [0, 1, 2, 3];
/// A key that is charged alone, and a key with few uses.
const ALONE: u64 = 4;
const FEW_KEY: u64 = 5;
const FEW: u64 = 400;
/// Keys that evict each other.
const CHURNING: u64 = 200;

/// The counts that are checked exactly: the four keys together, the one alone, the one with few
/// uses, and the sum of `churn`.
const SUBJECTS: usize = 7;
const SUBJECT_ALONE: usize = 4;
const SUBJECT_FEW: usize = 5;
const SUBJECT_CHURN: usize = 6;

/// A small generator. The same seed gives the same numbers.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

/// The words of the seats: the begun request, the answered request, and two sets of counts. `told`
/// selects one of the sets.
struct Page {
    words: Region,
}

impl Page {
    const STOP: usize = 0;
    const SEATS_START: usize = 8;
    /// The number of the begun request, or of the recoverer's look.
    const BEGUN: usize = 0;
    /// The number of the last answered request, shifted by one. Its lowest bit selects the counts.
    const TOLD: usize = 1;
    /// The charges of the begun request, one word for each subject.
    const ASKED: usize = 2;
    const COUNTS: [usize; 2] = [16, 32];
    /// The numbers of items that were busy, and that found no place.
    const BUSY: usize = 10;
    const FULL: usize = 11;
    const SEAT_WORDS: usize = 48;
    const WORDS: usize = 512;

    fn create(path: &Path) -> Page {
        let file = File::options().read(true).write(true).create_new(true).open(path);
        let file = file.expect("created");
        file.set_len(Self::WORDS as u64 * 8).expect("so long");
        Page { words: Region::map(&file, 0, Self::WORDS).expect("mapped") }
    }

    fn open(path: &Path) -> Page {
        let file = File::options().read(true).write(true).open(path).expect("it is there");
        Page { words: Region::map(&file, 0, Self::WORDS).expect("mapped") }
    }

    const fn at(seat: usize, word: usize) -> usize {
        Self::SEATS_START + seat * Self::SEAT_WORDS + word
    }

    fn load(&self, seat: usize, word: usize) -> u64 {
        self.words.load(Self::at(seat, word))
    }

    fn store(&self, seat: usize, word: usize, value: u64) {
        self.words.store_release(Self::at(seat, word), value);
    }

    fn is_over(&self) -> bool {
        self.words.load(Self::STOP) != 0
    }

    /// The charges that the program knows.
    fn counts(&self, seat: usize) -> [u64; SUBJECTS] {
        let counts = Self::COUNTS[(self.load(seat, Self::TOLD) & 1) as usize];
        std::array::from_fn(|subject| self.load(seat, counts + subject))
    }

    /// The charges of a begun request without an answer: it was charged wholly or not at all.
    fn uncertain(&self, seat: usize) -> [u64; SUBJECTS] {
        let is_over = self.load(seat, Self::TOLD) >> 1 == self.load(seat, Self::BEGUN);
        std::array::from_fn(|subject| match is_over {
            true => 0,
            false => self.load(seat, Self::ASKED + subject),
        })
    }

    /// Records the request that the program is about to send.
    fn begin(&self, seat: usize, asked: &[u64; SUBJECTS]) {
        for (subject, &count) in asked.iter().enumerate() {
            self.store(seat, Self::ASKED + subject, count);
        }
        self.store(seat, Self::BEGUN, self.load(seat, Self::BEGUN) + 1);
    }

    /// Records the answer by one store.
    fn tell(&self, seat: usize, charged: &[u64; SUBJECTS]) {
        let told = self.load(seat, Self::TOLD);
        let (counts, other) = (self.counts(seat), (told & 1) ^ 1);
        for subject in 0..SUBJECTS {
            let count = counts[subject] + charged[subject];
            self.store(seat, Self::COUNTS[other as usize] + subject, count);
        }
        self.store(seat, Self::TOLD, self.load(seat, Self::BEGUN) << 1 | other);
    }

    /// Ends the begun request of a dead program's seat.
    fn settle(&self, seat: usize) {
        let counts = self.load(seat, Self::TOLD) & 1;
        self.store(seat, Self::TOLD, self.load(seat, Self::BEGUN) << 1 | counts);
    }

    fn sum(&self, word: usize) -> u64 {
        (0..SEATS).map(|seat| self.load(seat, word)).sum()
    }
}

/// A request of a program: its items, and its charges if it is allowed.
struct Ask {
    request: Request,
    charges: [u64; SUBJECTS],
}

impl Ask {
    fn draw(random: &mut Random) -> Ask {
        let mut ask = Ask { request: Request::default(), charges: [0; SUBJECTS] };
        ask.request.begin(Command::Update);
        match random.below(8) {
            0 | 1 => ask.add_together(random),
            2 => ask.add("sum", ALONE, SUBJECT_ALONE, 1 + random.below(3)),
            3 => ask.add("few", FEW_KEY, SUBJECT_FEW, 1),
            _ => ask.add("churn", random.below(CHURNING), SUBJECT_CHURN, 1),
        }
        ask
    }

    /// Adds the four keys in any order, and a node that may have to be created.
    fn add_together(&mut self, random: &mut Random) {
        self.request.atomic = true;
        let first = random.below(4) as usize;
        for nth in 0..4 {
            let subject = (first + nth * (1 + 2 * (first & 1))) % 4;
            self.add("sum", TOGETHER[subject], subject, 1);
        }
        if random.below(2) == 0 {
            self.add("churn", random.below(CHURNING), SUBJECT_CHURN, 1);
        }
    }

    fn add(&mut self, biz: &str, key: u64, subject: usize, count: u64) {
        self.request.push(biz, &key.to_string(), ItemOptions::of(count as i32));
        self.charges[subject] += count;
    }
}

/// The program to be killed, started by the test below. It does nothing on its own.
#[test]
#[ignore = "started by programs_are_killed_at_any_moment_and_nothing_is_lost"]
fn victim() {
    let var = |name| std::env::var(name).ok();
    let (Some(dir), Some(seat), Some(seed)) = (var(DIR), var(SEAT), var(SEED)) else { return };
    let (dir, seat) = (Path::new(&dir), seat.parse::<usize>().expect("a seat"));
    let page = Page::open(&dir.join("page"));
    let mut random = Random::new(seed.parse().expect("a seed"));
    let mut service = Service::attach(&dir.join("data"), Role::Program, None).expect("attached");
    let mut answers = Answers::default();
    while !page.is_over() {
        if seat >= CHARGERS {
            page.begin(seat, &[0; SUBJECTS]);
            service.recover_dead();
            page.tell(seat, &[0; SUBJECTS]);
            continue;
        }
        let ask = Ask::draw(&mut random);
        page.begin(seat, &ask.charges);
        service.begin_tick();
        answers.clear();
        service.run(&ask.request, clock::now(), &mut answers);
        page.tell(seat, &charged(&ask, &answers, (&page, seat)));
    }
}

/// The charges according to the answers.
fn charged(ask: &Ask, answers: &Answers, (page, seat): (&Page, usize)) -> [u64; SUBJECTS] {
    let count = |word| page.store(seat, word, page.load(seat, word) + 1);
    for answer in &answers.items {
        match answer.result {
            Ok(_) => {}
            Err(ItemError::Busy) => count(Page::BUSY),
            Err(ItemError::Full) => count(Page::FULL),
            Err(error) => panic!("{error}: {:?}", ask.request),
        }
    }
    let all = answers.items.iter().all(|item| item.result.as_ref().is_ok_and(|it| !it.limited));
    assert!(!ask.request.atomic || all != answers.refused, "{answers:?}");
    if all { ask.charges } else { [0; SUBJECTS] }
}

/// A store and the programs that use it.
struct Round {
    dir: tempfile::TempDir,
    page: Page,
    random: Random,
    programs: Vec<Option<Child>>,
    /// The sum of the unanswered charges of killed programs.
    uncertain: [u64; SUBJECTS],
    /// The number of killed programs with an unanswered request.
    lost: u64,
    kills: usize,
}

/// The figures of a run.
#[derive(Debug, Default)]
struct Figures {
    kills: usize,
    requests: u64,
    uncertain: u64,
    creates: u64,
    evictions: u64,
    recoveries: u64,
    orphans: u64,
    busy: u64,
    full: u64,
}

impl Round {
    fn new(seed: u64) -> Round {
        let dir = tempfile::tempdir().expect("a directory");
        let data = dir.path().join("data");
        std::fs::create_dir(&data).expect("made");
        let srv = format!(
            "<srv><workers>{SEATS}</workers><listen>127.0.0.1:1</listen><data dir=\"{}\"/></srv>",
            data.display()
        );
        put_in_force(&data, &Texts::of(srv, MAP));
        let page = Page::create(&dir.path().join("page"));
        let (programs, none) = ((0..SEATS).map(|_| None).collect(), [0; SUBJECTS]);
        let random = Random::new(seed);
        let round = Round { dir, page, random, programs, uncertain: none, lost: 0, kills: 0 };
        round.create_nodes();
        round
    }

    /// Creates the permanent nodes. Later there may be no place for them.
    fn create_nodes(&self) {
        let mut service = self.attach();
        let keys = TOGETHER.iter().map(|&key| ("sum", key)).chain([("sum", ALONE)]);
        for (biz, key) in keys.chain([("few", FEW_KEY), ("churn", 0)]) {
            let mut ask = Ask { request: Request::default(), charges: [0; SUBJECTS] };
            ask.request.begin(Command::Update);
            ask.add(biz, key, 0, 1);
            let answers = run(&mut service, &ask.request);
            assert!(answers.items[0].result.is_ok(), "{answers:?}");
        }
    }

    fn attach(&self) -> Service {
        Service::attach(&self.dir.path().join("data"), Role::Program, None).expect("attached")
    }

    fn spawn(&mut self, seat: usize) {
        let child = program(module_path!(), VICTIM)
            .arg("--test-threads=1")
            .env(DIR, self.dir.path())
            .env(SEAT, seat.to_string())
            .env(SEED, self.random.below(u64::MAX).to_string())
            .stdout(Stdio::null())
            .spawn()
            .expect("spawned");
        self.programs[seat] = Some(child);
    }

    /// Waits until the program has begun this many more requests.
    fn wait_for_more(&mut self, seat: usize, more: u64) {
        let goal = self.page.load(seat, Page::BEGUN) + more;
        let begun = Instant::now();
        while self.page.load(seat, Page::BEGUN) < goal {
            let child = self.programs[seat].as_mut().expect("it was started");
            let ended = child.try_wait().expect("waited");
            assert!(ended.is_none(), "the program of seat {seat} ended: {ended:?}");
            assert!(begun.elapsed() < BOUND, "the program of seat {seat} hangs");
            std::hint::spin_loop();
            if begun.elapsed() > Duration::from_millis(1) {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    }

    /// Kills the programs of these seats, all of them before it waits for the first.
    fn kill(&mut self, seats: &[usize]) {
        for &seat in seats {
            self.programs[seat].as_mut().expect("it was started").kill().expect("killed");
        }
        for &seat in seats {
            let mut child = self.programs[seat].take().expect("it was started");
            let status = child.wait().expect("waited");
            assert!(!status.success(), "the program of seat {seat} ended by itself: {status}");
            let uncertain = self.page.uncertain(seat);
            self.uncertain.iter_mut().zip(uncertain).for_each(|(sum, count)| *sum += count);
            self.lost += u64::from(uncertain != [0; SUBJECTS]);
            self.page.settle(seat);
            self.kills += 1;
        }
    }

    /// Kills some programs at once, after one of them has run for a while, and then perhaps those
    /// that recover them.
    fn attack(&mut self) {
        let first = self.random.below(SEATS as u64) as usize;
        let more = self.random.below(30);
        self.wait_for_more(first, 1 + more);
        let mut seats = vec![first];
        if self.random.below(4) == 0 {
            for seat in 0..SEATS {
                if seat != first && self.random.below(3) == 0 {
                    seats.push(seat);
                }
            }
        }
        self.kill(&seats);
        if self.random.below(3) == 0 {
            // From zero to the time in which a waiter notices that the holder is dead.
            let pause = Duration::from_micros(self.random.below(6000));
            let begun = Instant::now();
            while begun.elapsed() < pause {
                std::hint::spin_loop();
            }
            let next = self.random.below(SEATS as u64) as usize;
            let second: Vec<usize> = [next, (next + 1) % SEATS]
                .into_iter()
                .filter(|&seat| self.programs[seat].is_some())
                .collect();
            self.kill(&second);
            seats.extend(second);
        }
        seats.into_iter().for_each(|seat| self.spawn(seat));
    }

    /// Makes all attacks, then lets the programs end by themselves.
    fn run(&mut self, kills: usize) {
        (0..SEATS).for_each(|seat| self.spawn(seat));
        while self.kills < kills {
            self.attack();
        }
        (0..SEATS).for_each(|seat| self.wait_for_more(seat, 1));
        self.page.words.store_release(Page::STOP, 1);
        for (seat, child) in self.programs.iter_mut().enumerate() {
            let child = child.as_mut().expect("it was started");
            let begun = Instant::now();
            let status = loop {
                if let Some(status) = child.try_wait().expect("waited") {
                    break status;
                }
                assert!(begun.elapsed() < BOUND, "the program of seat {seat} does not end");
                std::thread::sleep(Duration::from_millis(1));
            };
            assert!(status.success(), "the program of seat {seat}: {status}");
        }
    }

    /// Checks that the stored counts equal the known ones, except for unanswered requests of killed
    /// programs.
    fn compare(&mut self, figures: &mut Figures) {
        let mut service = self.attach();
        let begun = Instant::now();
        let runtime = Runtime::open(&self.dir.path().join("data")).expect("it is there");
        while runtime.slots().len() > 1 {
            service.recover_dead();
            assert!(begun.elapsed() < BOUND, "dead slots stay: {:?}", runtime.slots());
        }
        let told: [u64; SUBJECTS] = std::array::from_fn(|subject| {
            (0..CHARGERS).map(|seat| self.page.counts(seat)[subject]).sum()
        });
        let stored = stored(&mut service);
        for subject in 0..SUBJECTS {
            // The creation charged each key once.
            let least = told[subject] + 1;
            let most: RangeInclusive<u64> = least..=least + self.uncertain[subject];
            let found = stored[subject];
            assert!(most.contains(&found), "subject {subject}: {found} is stored, {most:?} told");
        }
        let [first, others @ ..] = TOGETHER.map(|key| stored[key as usize]);
        assert!(others.iter().all(|&other| other == first), "in part: {stored:?}");
        assert!(stored[SUBJECT_FEW] <= FEW, "more than {FEW} were admitted");
        drop(service);
        let reader =
            Reader::open(&self.dir.path().join("data"), None).expect("it can be looked at");
        for (name, group) in reader.groups() {
            let live = group.expect("it can be looked at").verify(&reader.pass());
            assert!(live.report.is_clean() && live.in_transaction.is_empty(), "{name}: {live:?}");
        }
        assert!(runtime.slots().is_empty(), "{:?}", runtime.slots());
        self.count(&runtime, figures);
    }

    fn count(&self, runtime: &Runtime, figures: &mut Figures) {
        let evictions = [GroupCounter::EvictionsIdle, GroupCounter::EvictionsLimiting];
        figures.kills += self.kills;
        figures.requests +=
            (0..CHARGERS).map(|seat| self.page.load(seat, Page::BEGUN)).sum::<u64>();
        figures.uncertain += self.lost;
        figures.creates += runtime.count_of_groups(GroupCounter::Creates);
        figures.evictions +=
            evictions.map(|counter| runtime.count_of_groups(counter)).iter().sum::<u64>();
        figures.recoveries += runtime.count(Counter::Recoveries);
        figures.orphans += runtime.count(Counter::SemaphoreOrphans);
        figures.busy += self.page.sum(Page::BUSY);
        figures.full += self.page.sum(Page::FULL);
    }
}

impl Drop for Round {
    fn drop(&mut self) {
        for child in self.programs.iter_mut().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn run(service: &mut Service, request: &Request) -> Answers {
    let mut answers = Answers::default();
    service.begin_tick();
    service.run(request, clock::now(), &mut answers);
    answers
}

/// The use of each subject. No key-node is busy any more.
fn stored(service: &mut Service) -> [u64; SUBJECTS] {
    let mut request = Request::default();
    request.begin(Command::Query);
    for key in TOGETHER.into_iter().chain([ALONE]) {
        request.push("sum", &key.to_string(), ItemOptions::of(0).detailed());
    }
    request.push("few", &FEW_KEY.to_string(), ItemOptions::of(0).detailed());
    request.push("churn", "0", ItemOptions::of(0).detailed());
    let answers = run(service, &request);
    std::array::from_fn(|subject| {
        let answer = &answers.items[subject];
        assert!(answer.result.is_ok(), "subject {subject}: {answer:?}");
        let details = &answers.details.limits[answer.details.clone()];
        details.last().expect("a limit").figures.used
    })
}

// Shows: deaths-lose-nothing.
#[test]
fn programs_are_killed_at_any_moment_and_nothing_is_lost() {
    let number = |name: &str| {
        let text = std::env::var(name).ok()?;
        Some(text.parse::<u64>().unwrap_or_else(|error| panic!("{name}={text}: {error}")))
    };
    let kills = number(KILLS).map_or(100, |kills| kills as usize);
    let drawn = || clock::now() ^ u64::from(std::process::id()) << 40;
    let seed = number(SEED).unwrap_or_else(drawn);
    let mut figures = Figures::default();
    for nth in 0.. {
        let left = kills.saturating_sub(figures.kills).min(KILLS_OF_A_ROUND);
        if left == 0 {
            break;
        }
        println!("{TEST}: round {nth}, {SEED}={seed}: {left} kills");
        let mut round = Round::new(seed.wrapping_add(nth));
        round.run(left);
        round.compare(&mut figures);
    }
    println!("{figures:?}");
    assert!(figures.evictions > 100, "the group is not small enough: {figures:?}");
    assert!(figures.recoveries > 0 && figures.uncertain > 0, "{figures:?}");
}
