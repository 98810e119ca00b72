//! Many processors at few semaphores: a simulation in which each access to a contended line, each
//! system call and each sleep takes time. The steps are those of [`Waiter`] and [`Semaphore`].
//!
//! Invariant: a seed replays a run. Nothing here depends on the machine that runs it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use frs_base::sync::AtomicU32;

use super::{Next, Waiter};
use crate::lock::semaphore::{Semaphore, Token};

/// Times of a machine of two sockets, in ns; measured ones are within a factor of two of these.
const LINE_MOVES: u64 = 100;
const LINE_IS_HERE: u64 = 2;
const PAUSE: u64 = 40;
/// The work of a holder, and the pause of a process between two transactions.
const HELD: u64 = 150;
const BETWEEN: u64 = 200;
const SLEEP_CALL: u64 = 700;
const WAKE_CALL: u64 = 1_200;
const WAKES_WITHIN: u64 = 50_000;
const SLICE: u64 = 1_000_000;
const RUN: u64 = 20_000_000;

/// A step that a process is about to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Begin,
    Look,
    /// Sets the waiters bit, and sleeps if the word is still the one that was seen.
    Sleep(u32),
    /// The sleep with this number ends, unless the process was woken before.
    Slept(u64),
    Release,
}

/// A step on the agenda. The earliest step comes first; steps of one time run in the order of their
/// entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    at: u64,
    order: u64,
    process: usize,
    step: Step,
}

struct Line {
    word: AtomicU32,
    /// Until then no other processor gets the line.
    free_at: u64,
    /// The processors that have a copy, one bit each.
    copies: u64,
    sleepers: VecDeque<usize>,
}

struct Process {
    token: Token,
    waiter: Waiter,
    line: usize,
    since: u64,
    /// Number of the last sleep. The end of an earlier sleep is ignored.
    sleeps: u64,
    is_asleep: bool,
    done: u64,
    longest: u64,
}

/// Processes, each on a processor of its own, and the lines that they want.
pub struct Crowd {
    lines: Vec<Line>,
    processes: Vec<Process>,
    agenda: BinaryHeap<Reverse<Entry>>,
    entered: u64,
    random: u64,
    /// Sum of the weights of the lines before each line, and of all lines.
    weights: Vec<f64>,
}

/// The result of a run.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    /// Transactions in a millisecond.
    pub rate: f64,
    /// Transactions of the process with the fewest, as a part of a fair share.
    pub least: f64,
    pub longest_ns: u64,
}

impl Crowd {
    /// Each of the processes draws a line by Zipf's law with this exponent. Without an exponent
    /// each has a line of its own.
    pub fn new(seed: u64, processes: usize, lines: usize, exponent: Option<f64>) -> Crowd {
        let mut weights = vec![0.0];
        for line in 0..lines {
            let weight = ((line + 1) as f64).powf(-exponent.unwrap_or(0.0));
            weights.push(weights[line] + weight);
        }
        let is_own = exponent.is_none();
        let process = |number: usize| Process {
            token: Token::new(number as u32, 1),
            waiter: Waiter::new(),
            line: if is_own { number } else { 0 },
            since: 0,
            sleeps: 0,
            is_asleep: false,
            done: 0,
            longest: 0,
        };
        let line =
            || Line { word: AtomicU32::new(0), free_at: 0, copies: 0, sleepers: VecDeque::new() };
        Crowd {
            lines: (0..if is_own { processes } else { lines }).map(|_| line()).collect(),
            processes: (0..processes).map(process).collect(),
            agenda: BinaryHeap::new(),
            entered: 0,
            random: seed,
            weights: if is_own { Vec::new() } else { weights },
        }
    }

    /// Runs for a while.
    pub fn run(mut self) -> Outcome {
        for process in 0..self.processes.len() {
            let at = self.draw() % BETWEEN;
            self.enter(at, process, Step::Begin);
        }
        while let Some(Reverse(entry)) = self.agenda.pop() {
            if entry.at >= RUN {
                break;
            }
            self.step(entry.at, entry.process, entry.step);
        }
        let done: u64 = self.processes.iter().map(|process| process.done).sum();
        let least = self.processes.iter().map(|process| process.done).min().unwrap_or(0);
        // A wait that has not ended counts, too.
        let longest = self.processes.iter().map(|one| one.longest.max(RUN - one.since.min(RUN)));
        Outcome {
            rate: done as f64 / (RUN as f64 / 1e6),
            least: least as f64 * self.processes.len() as f64 / done as f64,
            longest_ns: longest.max().unwrap_or(0),
        }
    }

    fn enter(&mut self, at: u64, process: usize, step: Step) {
        self.entered += 1;
        self.agenda.push(Reverse(Entry { at, order: self.entered, process, step }));
    }

    /// xorshift64*.
    fn draw(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    fn draw_line(&mut self) -> Option<usize> {
        let all = *self.weights.last()?;
        let place = self.draw() as f64 / (1u64 << 53) as f64 * all;
        Some(self.weights.partition_point(|&before| before <= place) - 1)
    }

    /// When an access to a line ends that begins now. An access that changes the line takes it from
    /// all others.
    fn access(&mut self, now: u64, process: usize, changes: bool) -> u64 {
        let line = &mut self.lines[self.processes[process].line];
        let own = 1 << process;
        let is_here = if changes { line.copies == own } else { line.copies & own != 0 };
        if is_here {
            return now + LINE_IS_HERE;
        }
        line.copies = if changes { own } else { line.copies | own };
        line.free_at = line.free_at.max(now) + LINE_MOVES;
        line.free_at
    }

    fn step(&mut self, now: u64, process: usize, step: Step) {
        match step {
            Step::Begin => {
                if let Some(line) = self.draw_line() {
                    self.processes[process].line = line;
                }
                self.processes[process].since = now;
                self.processes[process].waiter = Waiter::new();
                let line = self.processes[process].line;
                let semaphore = Semaphore::at(&self.lines[line].word);
                let is_taken = semaphore.try_take(self.processes[process].token).is_ok();
                let at = self.access(now, process, true);
                let next = if is_taken { (at + HELD, Step::Release) } else { (at, Step::Look) };
                self.enter(next.0, process, next.1);
            }
            Step::Look => {
                let Process { token, ref mut waiter, line, .. } = self.processes[process];
                let semaphore = Semaphore::at(&self.lines[line].word);
                let was_free = semaphore.word() == 0;
                let next = waiter.look(semaphore, token);
                let at = self.access(now, process, was_free);
                match next {
                    Next::Taken => self.enter(at + HELD, process, Step::Release),
                    Next::Look(pauses) => {
                        self.enter(at + PAUSE * u64::from(pauses), process, Step::Look);
                    }
                    Next::Sleep(seen) => self.enter(at, process, Step::Sleep(seen)),
                }
            }
            Step::Sleep(seen) => self.sleep(now, process, seen),
            Step::Slept(number) => {
                let one = &self.processes[process];
                if one.is_asleep && one.sleeps == number {
                    self.lines[one.line].sleepers.retain(|&other| other != process);
                    self.awake(now, process);
                }
            }
            Step::Release => {
                let at = self.access(now, process, true);
                let line = &mut self.lines[self.processes[process].line];
                let word = Semaphore::at(&line.word).word();
                // The simulation has its own sleepers, so the kernel wakes none.
                Semaphore::at(&line.word).release();
                let mut over = at;
                if word >> 31 != 0 {
                    over += WAKE_CALL;
                    if let Some(woken) = line.sleepers.pop_front() {
                        let wakes_at = over + self.draw() % WAKES_WITHIN;
                        self.awake(wakes_at, woken);
                    }
                }
                let one = &mut self.processes[process];
                one.done += 1;
                one.longest = one.longest.max(now - one.since);
                one.since = over;
                let pause = BETWEEN + self.draw() % BETWEEN;
                self.enter(over + pause, process, Step::Begin);
            }
        }
    }

    fn sleep(&mut self, now: u64, process: usize, seen: u32) {
        let at = self.access(now, process, true);
        let line = &mut self.lines[self.processes[process].line];
        let is_same = seen != 0 && Semaphore::at(&line.word).mark(seen);
        let one = &mut self.processes[process];
        one.waiter.wakes();
        if !is_same {
            return self.enter(at, process, Step::Look);
        }
        line.sleepers.push_back(process);
        (one.is_asleep, one.sleeps) = (true, one.sleeps + 1);
        let sleeps = one.sleeps;
        self.enter(at + SLEEP_CALL + SLICE, process, Step::Slept(sleeps));
    }

    fn awake(&mut self, at: u64, process: usize) {
        self.processes[process].is_asleep = false;
        self.enter(at, process, Step::Look);
    }
}

mod tests {
    use super::*;

    fn outcome(processes: usize, lines: usize, exponent: Option<f64>) -> Outcome {
        let outcome = Crowd::new(1 + processes as u64, processes, lines, exponent).run();
        println!("{processes:3} at {lines:3}: {outcome:?}");
        outcome
    }

    /// More than two processes do about as much together as two, and each gets its share.
    // Shows: hot-keys.
    #[test]
    fn a_crowd_at_one_semaphore_does_not_collapse() {
        let two = outcome(2, 1, Some(0.0));
        for processes in [4, 8, 16, 32, 64] {
            let crowd = outcome(processes, 1, Some(0.0));
            assert!(crowd.rate > two.rate / 3.0, "{processes}: {crowd:?}, {two:?}");
            assert!(crowd.least > 0.25, "{processes}: {crowd:?}");
            assert!(crowd.longest_ns < 5_000_000, "{processes}: {crowd:?}");
        }
    }

    // Shows: hot-keys.
    #[test]
    fn a_crowd_at_hot_keys_does_not_collapse() {
        let two = outcome(2, 100, Some(1.2));
        for processes in [4, 8, 16, 32, 64] {
            let crowd = outcome(processes, 100, Some(1.2));
            assert!(crowd.rate > two.rate, "{processes}: {crowd:?}, {two:?}");
            assert!(crowd.least > 0.25, "{processes}: {crowd:?}");
            assert!(crowd.longest_ns < 5_000_000, "{processes}: {crowd:?}");
        }
    }

    // Shows: hot-keys.
    #[test]
    fn processes_with_keys_of_their_own_do_not_know_of_each_other() {
        let one = outcome(1, 1, None);
        let crowd = outcome(64, 64, None);
        assert!(crowd.rate > 63.0 * one.rate && crowd.least > 0.98, "{crowd:?}, {one:?}");
    }
}
