//! Exactly M uses are admitted if M are allowed: with many workers and many clients, one by one and
//! pipelined, while workers are killed or left alone.
//!
//! A use whose answer was lost may have been charged, so it is never requested again. The stored
//! count lies between the acknowledged uses and those plus the unanswered ones.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::common::{Answer, Client, Server, Settings, Setup, wait_until};
use nix::sys::signal::{Signal, kill};

/// Clients that wait for each answer, and clients that do not.
const DEPTHS: [usize; 6] = [1, 1, 1, 8, 8, 8];
const KILLS: usize = 24;
/// Requests answered between two kills, so that the server keeps serving.
const BETWEEN_KILLS: u64 = 60;

/// A subject limited to `max` uses, and the outcomes of the requests for it.
struct Subject {
    biz: String,
    /// The number of keys that requests use in turn.
    keys: u64,
    name: usize,
    max: u64,
    asked: AtomicU64,
    unanswered: AtomicU64,
    /// The `used` of each acknowledged admission.
    admitted: Mutex<BTreeSet<u64>>,
}

impl Subject {
    fn new(biz: &str, max: u64, keys: u64, name: usize) -> Subject {
        let (asked, unanswered) = (AtomicU64::new(0), AtomicU64::new(0));
        let admitted = Mutex::default();
        Subject { biz: biz.to_owned(), keys, name, max, asked, unanswered, admitted }
    }

    fn request(&self, command: &str) -> String {
        let key = self.asked.fetch_add(1, Ordering::Relaxed) % self.keys;
        let (biz, name) = (&self.biz, self.name);
        format!("GET /{command}?biz={biz}&key=k{name}-{key} HTTP/1.1\r\nHost: t\r\n\r\n")
    }

    /// Records the answer to an Update. Returns whether there is still room.
    fn note(&self, answer: &Answer) -> bool {
        let used = answer.attribute("used").and_then(|used| used.parse().ok());
        match answer.status {
            200 => {
                let used: u64 = used.expect("figures");
                assert!((1..=self.max).contains(&used), "{answer:?}");
                let first = self.admitted.lock().expect("no panic").insert(used);
                assert!(first, "use {used} of {} was acknowledged twice", self.max);
                true
            }
            429 => {
                assert_eq!(used, Some(self.max), "refused before the maximum: {answer:?}");
                false
            }
            // A busy request is not charged: the holder of its key-node is dying.
            503 if answer.attribute("error") == Some("busy") => true,
            _ => panic!("{answer:?}"),
        }
    }

    fn acknowledged(&self) -> u64 {
        self.admitted.lock().expect("no panic").len() as u64
    }

    /// The stored count, by Query.
    fn used(&self, client: &mut Client) -> u64 {
        client.send(&self.request("query"));
        let answer = client.answer();
        answer.attribute("used").and_then(|used| used.parse().ok()).expect("used")
    }
}

/// The subjects in request order. All clients request each at about the same time, more often than
/// it admits.
struct Course {
    subjects: Vec<Subject>,
    next: AtomicU64,
    answered: AtomicU64,
    lost: AtomicU64,
    stop: AtomicBool,
}

impl Course {
    fn new(subjects: Vec<Subject>) -> Course {
        let (next, answered) = (AtomicU64::new(0), AtomicU64::new(0));
        let lost = AtomicU64::new(0);
        Course { subjects, next, answered, lost, stop: AtomicBool::new(false) }
    }

    fn asks(subject: &Subject) -> u64 {
        subject.max * 3 / 2 + 3
    }

    /// The next subject. `None` after the last one, or when stopped.
    fn take(&self) -> Option<&Subject> {
        let asks = Self::asks(self.subjects.first()?);
        let at = self.next.fetch_add(1, Ordering::Relaxed) / asks;
        let subject = self.subjects.get(at as usize)?;
        (!self.stop.load(Ordering::Relaxed)).then_some(subject)
    }

    /// One client's run through the course.
    fn run(&self, address: SocketAddr, depth: usize) {
        let mut client = Client::connect(address);
        loop {
            let batch: Vec<&Subject> = (0..depth).map_while(|_| self.take()).collect();
            if batch.is_empty() {
                return;
            }
            let requests: String = batch.iter().map(|subject| subject.request("update")).collect();
            let answered = self.ask(&mut client, &requests, &batch);
            if answered < batch.len() {
                for subject in &batch[answered..] {
                    subject.unanswered.fetch_add(1, Ordering::Relaxed);
                    self.lost.fetch_add(1, Ordering::Relaxed);
                }
                client = Client::connect(address);
            }
        }
    }

    /// Sends requests. Returns the number of answers.
    fn ask(&self, client: &mut Client, requests: &str, batch: &[&Subject]) -> usize {
        if client.stream.write_all(requests.as_bytes()).is_err() {
            return 0;
        }
        for (nth, subject) in batch.iter().enumerate() {
            let Ok(answer) = client.try_answer() else { return nth };
            subject.note(&answer);
            self.answered.fetch_add(1, Ordering::Relaxed);
        }
        batch.len()
    }

    /// Runs all clients at once, with `act` beside them.
    fn run_all(&self, address: SocketAddr, act: impl FnOnce()) {
        thread::scope(|scope| {
            for depth in DEPTHS {
                scope.spawn(move || self.run(address, depth));
            }
            let stop = Stop(&self.stop);
            act();
            drop(stop);
        });
    }
}

/// Lets the clients end, also when `act` fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

const TOTALS: usize = 24;

fn setup() -> Setup {
    // Room for all keys: an eviction would forget a use.
    let mut map = r#"<map>
      <group name="default" files="2" key-nodes="256" chain="56" node-size="128"/>
      <biz id="1" name="m1" key="string"><limit policy="interval" interval="24h" max="1"/></biz>
      <biz id="2" name="m5" key="string"><limit policy="interval" interval="24h" max="5"/></biz>
      <biz id="3" name="m1000" key="string"><limit policy="interval" interval="24h" max="1000"/></biz>
    "#
    .to_owned();
    for nth in 0..TOTALS {
        let id = 100 + nth;
        map += &format!(
            "<biz id=\"{id}\" name=\"t{nth}\" key=\"string\">\
             <limit policy=\"total\" scope=\"biz\" max=\"100\"/></biz>"
        );
    }
    let setup = Setup::new(&Settings { workers: 4, ..Settings::default() });
    setup.write_map(&(map + "</map>"));
    setup
}

fn keyed(biz: &str, max: u64, count: usize) -> Vec<Subject> {
    (0..count).map(|name| Subject::new(biz, max, 1, name)).collect()
}

fn totals() -> Vec<Subject> {
    (0..TOTALS).map(|nth| Subject::new(&format!("t{nth}"), 100, 7, nth)).collect()
}

// Shows: exactly-m.
#[test]
fn undisturbed_exactly_m_are_admitted_and_acknowledged() {
    let setup = setup();
    let server = setup.start();
    server.wait_for_workers(4);
    let courses = [keyed("m1", 1, 200), keyed("m5", 5, 60), keyed("m1000", 1000, 1), totals()]
        .map(Course::new);
    for course in &courses {
        course.run_all(setup.address, || ());
        let mut client = server.client();
        for subject in &course.subjects {
            let (biz, name) = (&subject.biz, subject.name);
            assert_eq!(subject.acknowledged(), subject.max, "{biz} {name}");
            assert_eq!(subject.used(&mut client), subject.max, "{biz} {name}");
        }
        assert_eq!(course.lost.load(Ordering::Relaxed), 0, "nobody was killed");
    }
}

/// Kills one worker after another while the clients send requests, each time after some more
/// answers. If no kill has hit a request, it kills more of them.
fn kill_workers(server: &Server<'_>, course: &Course) {
    for nth in 0.. {
        let has_hit = course.lost.load(Ordering::Relaxed) > 0;
        if nth >= KILLS && (has_hit || course.is_over()) {
            return;
        }
        let begun = course.answered.load(Ordering::Relaxed);
        wait_until("more is answered", || {
            let more = course.answered.load(Ordering::Relaxed) >= begun + BETWEEN_KILLS;
            (more || course.is_over()).then_some(())
        });
        let workers = wait_until("a worker lives", || {
            Some(server.workers()).filter(|workers| !workers.is_empty())
        });
        let _ = kill(workers[nth % workers.len()], Signal::SIGKILL);
    }
}

impl Course {
    fn is_over(&self) -> bool {
        let asks = self.subjects.first().map_or(0, Self::asks);
        self.next.load(Ordering::Relaxed) >= asks * self.subjects.len() as u64
    }
}

fn while_workers_are_killed(subjects: Vec<Subject>) {
    let setup = setup();
    let server = setup.start();
    server.wait_for_workers(4);
    let course = Course::new(subjects);
    course.run_all(setup.address, || {
        kill_workers(&server, &course);
        course.stop.store(true, Ordering::Relaxed);
    });
    assert!(course.lost.load(Ordering::Relaxed) > 0, "the kills hit nobody");
    let mut client = server.client();
    for subject in &course.subjects {
        if subject.asked.load(Ordering::Relaxed) == 0 {
            continue;
        }
        let what = format!("{} {}", subject.biz, subject.name);
        let (known, lost) = (subject.acknowledged(), subject.unanswered.load(Ordering::Relaxed));
        let used = subject.used(&mut client);
        assert!(used >= known, "{what}: {known} acknowledged, only {used} stored");
        assert!(used <= known + lost, "{what}: {known} and {lost} unanswered, {used} stored");
        // No process is killed any more, so the rest is admitted to the last use.
        wait_until("it is used up", || {
            client.send(&subject.request("update"));
            (!subject.note(&client.answer())).then_some(())
        });
        let (known, used) = (subject.acknowledged(), subject.used(&mut client));
        assert_eq!(used, subject.max, "{what}");
        assert!(known <= subject.max && known + lost >= subject.max, "{what}: {known}, {lost}");
    }
}

#[test]
fn of_one_use_while_workers_are_killed() {
    while_workers_are_killed(keyed("m1", 1, 6_000));
}

#[test]
fn of_five_uses_while_workers_are_killed() {
    while_workers_are_killed(keyed("m5", 5, 3_000));
}

// Shows: exactly-m.
#[test]
fn of_a_thousand_uses_while_workers_are_killed() {
    while_workers_are_killed(keyed("m1000", 1000, 30));
}

#[test]
fn of_a_total_over_all_keys_while_workers_are_killed() {
    while_workers_are_killed(totals());
}
