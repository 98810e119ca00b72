//! Drives the processes. The seed decides whose turn it is, for how many steps, which process dies
//! where, and what is scribbled over.

use std::cell::RefCell;
use std::panic::resume_unwind;
use std::time::{Duration, Instant};

use frs_base::clock;
use frs_store::crash::{self, Step};
use frs_store::layout::PAGE_WORDS;
use frs_store::region::Region;

use super::START_MS;
use super::process::Process;

/// The payload with which a simulated process unwinds when it dies.
pub(super) struct Died;

/// splitmix64 (Steele, Lea, Flood 2014): a generator of 64 bits of state.
#[derive(Debug, Clone, Copy)]
pub(super) struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number from `least` on, below `end`.
    pub fn draw(&mut self, least: u64, end: u64) -> u64 {
        least + self.next() % (end - least)
    }

    pub fn one_in(&mut self, many: u64) -> bool {
        self.draw(0, many) == 0
    }
}

/// The fate of a process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub draws: Draws,
    /// The store before which the process dies. `None`: it lives to its end.
    pub dies_at: Option<u64>,
    pub requests: u64,
    /// Stored words may be scribbled over, so the process checks no promise.
    pub scribbles: bool,
}

/// The process whose turn it is.
#[derive(Debug, Clone, Copy)]
struct Turn {
    /// Stores until its death.
    left: Option<u64>,
    dead: bool,
    /// Steps until another process's turn.
    quantum: u64,
}

#[derive(Debug, Clone, Copy)]
struct Clock {
    start: Instant,
    passed_ms: u64,
}

thread_local! {
    static TURN: RefCell<Option<Turn>> = const { RefCell::new(None) };
    static CLOCK: RefCell<Option<Clock>> = const { RefCell::new(None) };
}

/// The wall clock of the simulation.
pub(super) fn now() -> u64 {
    START_MS + CLOCK.with_borrow(|clock| clock.map_or(0, |clock| clock.passed_ms))
}

fn pass(ms: u64) {
    CLOCK.with_borrow_mut(|clock| {
        let clock = clock.as_mut().expect("it runs");
        clock.passed_ms += ms;
        clock::play(Some(clock.start + Duration::from_millis(clock.passed_ms)));
    });
}

/// Yields to another process, from anywhere in a process.
#[expect(deprecated, reason = "the other way needs a value of the process's first function")]
fn give_turn_up() {
    generator::yield_with(());
}

/// Called before each step of a process. Returns whether the step has an effect.
fn step(step: Step) -> bool {
    let Some(mut turn) = TURN.with_borrow(|turn| *turn) else {
        // No simulated process runs.
        if step == Step::Sleep {
            pass(1);
        }
        return true;
    };
    if turn.dead {
        return false;
    }
    if step == Step::Store
        && let Some(left) = &mut turn.left
    {
        if *left == 0 && !std::thread::panicking() {
            turn.dead = true;
            TURN.set(Some(turn));
            resume_unwind(Box::new(Died));
        }
        *left = left.saturating_sub(1);
    }
    if step == Step::Sleep {
        pass(1);
        turn.quantum = 0;
    }
    TURN.set(Some(turn));
    // A bug's panic is not simulated: it unwinds at once.
    if turn.quantum == 0 && !std::thread::panicking() {
        give_turn_up();
        // It is this process's turn again, and `resume` has set the rest of the turn.
        return true;
    }
    turn.quantum -= u64::from(turn.quantum > 0);
    TURN.set(Some(turn));
    true
}

/// Ends the simulation of steps in this thread.
pub(super) fn stop() {
    TURN.set(None);
    CLOCK.set(None);
    crash::play(None);
    clock::play(None);
}

#[derive(Debug)]
struct Stopped {
    number: u32,
    /// The remaining turns of the stop.
    turns: u64,
}

#[derive(Debug)]
pub(super) struct Player {
    draws: Draws,
    /// Whether turns are short or long.
    haste: u64,
    /// The process that is stopped.
    stopped: Option<Stopped>,
    pub deaths: u64,
}

impl Player {
    pub fn new(seed: u64) -> Player {
        CLOCK.set(Some(Clock { start: Instant::now(), passed_ms: 0 }));
        TURN.set(None);
        pass(0);
        crash::play(Some(step));
        let mut draws = Draws(seed);
        let haste = [1, 3, 10, 60][draws.draw(0, 4) as usize];
        Player { draws, haste, stopped: None, deaths: 0 }
    }

    pub fn draw(&mut self, least: u64, end: u64) -> u64 {
        self.draws.draw(least, end)
    }

    pub fn one_in(&mut self, many: u64) -> bool {
        self.draws.one_in(many)
    }

    pub fn plan(&mut self, scribbles: bool) -> Plan {
        let requests = self.draws.draw(1, 12);
        // Most die early, in their first work, which is the recovery of others.
        let farthest = [30, 100, 400][self.draws.draw(0, 3) as usize];
        let dies_at = (!self.draws.one_in(4)).then(|| self.draws.draw(0, farthest));
        Plan { draws: Draws(self.draws.next()), dies_at, requests, scribbles }
    }

    /// The process whose turn it is. `None`: all have ended.
    pub fn choose(&mut self, processes: usize) -> Option<usize> {
        (processes > 0).then(|| self.draws.draw(0, processes as u64) as usize)
    }

    /// Gives a process its turn, unless it is stopped.
    pub fn resume(&mut self, process: &mut Process) {
        if let Some(Stopped { number, turns }) = self.stopped.as_mut() {
            *turns -= 1;
            let is_it = *number == process.number;
            if *turns == 0 {
                self.stopped = None;
            } else if is_it {
                // The stopped process may be the only one left to wait for.
                pass(1);
                return;
            }
        } else if self.draws.one_in(50) {
            self.stopped = Some(Stopped { number: process.number, turns: self.draws.draw(1, 300) });
        }
        if self.draws.one_in(10) {
            pass(1);
        }
        let quantum = self.draws.draw(0, self.haste + 1);
        TURN.set(Some(Turn { left: process.left, dead: false, quantum }));
        process.resume();
        let turn = TURN.take().expect("its turn");
        process.left = turn.left;
        self.deaths += u64::from(turn.dead);
    }

    /// From here on no process dies or waits for another.
    pub fn pause(&mut self) {
        TURN.set(None);
    }

    pub fn end(&mut self) {
        stop();
    }

    /// Changes a word of a group's key-nodes.
    pub fn scribble(&mut self, files: &[Region]) {
        let file = &files[self.draws.draw(0, files.len() as u64) as usize];
        let at = self.draws.draw(PAGE_WORDS as u64, file.len() as u64) as usize;
        let word = file.word(at);
        let old = word.load(frs_base::sync::Ordering::Relaxed);
        let new = match self.draws.draw(0, 3) {
            0 => 0,
            1 => old ^ 1 << self.draws.draw(0, 64),
            _ => self.draws.next(),
        };
        word.store(new, frs_base::sync::Ordering::Relaxed);
    }
}
