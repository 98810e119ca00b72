//! One simulated process: it attaches, recovers dead processes, and makes requests until its plan
//! is done or it dies.

use std::cell::RefCell;
use std::panic::{catch_unwind, resume_unwind};
use std::rc::Rc;

use frs_store::simulated::Locks;
use generator::{Generator, Gn};

use super::Stage;
use super::calls;
use super::growth::move_some;
use super::oracle::{Oracle, PAIRS, TOTALS};
use super::player::{Died, Plan, now};
use super::registers;
use crate::{Answers, Command, ItemOptions, MovePass, RecordName, Request, Service};

/// Words of a simulated process's stack.
const STACK_WORDS: usize = 64 * 1024;

/// The arguments of a process.
type Parts = (Rc<Stage>, Locks, Rc<RefCell<Oracle>>);

thread_local! {
    /// The arguments of the process that begins next, and the result of the process that ended
    /// last. A generator that yields from anywhere can neither take nor return a value.
    static BEGINS: RefCell<Option<(Parts, Plan)>> = const { RefCell::new(None) };
    static ENDED: RefCell<Option<std::thread::Result<()>>> = const { RefCell::new(None) };
}

pub(super) struct Process {
    pub number: u32,
    /// Stores until its death.
    pub left: Option<u64>,
    begins: Option<(Parts, Plan)>,
    run: Generator<'static, (), ()>,
}

impl Process {
    pub fn start(number: u32, parts: Parts, plan: Plan) -> Process {
        let run = Gn::new_opt(STACK_WORDS, || {
            let lived = catch_unwind(|| {
                let begins = BEGINS.with_borrow_mut(Option::take);
                let ((stage, locks, oracle), plan) = begins.expect("it was started");
                live(&stage, &locks, &oracle, plan);
            });
            ENDED.set(Some(lived));
        });
        Process { number, left: plan.dies_at, begins: Some((parts, plan)), run }
    }

    /// Runs until the turn is over. A panic other than a death continues here.
    pub fn resume(&mut self) {
        if let Some(begins) = self.begins.take() {
            BEGINS.set(Some(begins));
        }
        self.run.resume();
        if let Some(Err(payload)) = ENDED.take()
            && !payload.is::<Died>()
        {
            resume_unwind(payload);
        }
    }

    pub fn is_over(&self) -> bool {
        self.run.is_done()
    }
}

fn live(stage: &Stage, locks: &Locks, oracle: &RefCell<Oracle>, mut plan: Plan) {
    let mut service = stage.attach(locks).expect("attached");
    let mut pass = MovePass::default();
    let hold = plan.draws.draw(0, 1 << 40);
    for _ in 0..plan.requests {
        if plan.draws.one_in(6) {
            service.recover_dead();
        }
        // Each process may act as the keeper now and then. One may end in the middle, and another
        // continue.
        if plan.draws.one_in(2) {
            move_some(&mut service, stage, &mut pass, plan.draws.draw(1, 9) as usize);
        }
        ask(&mut service, oracle, &mut plan, hold);
    }
}

/// Makes one drawn request. The oracle sees the request, and then its answer. No other process has
/// this hold.
fn ask(service: &mut Service, oracle: &RefCell<Oracle>, plan: &mut Plan, hold: u64) {
    let draws = &mut plan.draws;
    let mut request = Request::default();
    let (kind, count) = (draws.draw(0, 20), draws.draw(1, 3) as i32);
    let many = draws.one_in(3);
    request.begin(Command::Update);
    match kind {
        0..=3 => {
            for _ in 0..if many { 3 } else { 1 } {
                let key = draws.draw(0, TOTALS as u64);
                request.push("total", &key.to_string(), ItemOptions::of(count));
            }
        }
        4..=6 => {
            // Both keys of a pair, and some more keys on other key-nodes.
            request.atomic = true;
            let pair = draws.draw(0, PAIRS as u64);
            let mut keys = [2 * pair, 2 * pair + 1];
            if many {
                keys.reverse();
            }
            for key in keys {
                request.push("pair", &key.to_string(), ItemOptions::of(count));
            }
            if draws.one_in(2) {
                request.push("often", "in all", ItemOptions::ONE.forced());
            }
        }
        7 => request.push("both", &draws.draw(0, 9).to_string(), ItemOptions::ONE),
        8..=9 => {
            let key = ["a", "b", "c", "d", "e", "f", "g"][draws.draw(0, 7) as usize];
            let force = draws.one_in(4);
            request.push("often", key, ItemOptions { force, ..ItemOptions::of(count) });
        }
        10 => {
            request.begin(Command::Query);
            let key = draws.draw(0, TOTALS as u64);
            request.push("total", &key.to_string(), ItemOptions::ONE);
        }
        11..=15 => calls::draw(&mut request, draws, hold),
        17..=19 => return registers::ask(service, oracle, draws, plan.scribbles),
        _ => {
            let key = ["a", "b", "c"][draws.draw(0, 3) as usize];
            service.begin_tick();
            let _ = service.erase(RecordName::of_key("often", key), now());
            return;
        }
    }
    let asked = oracle.borrow_mut().asked(&request);
    let mut answers = Answers::default();
    service.begin_tick();
    service.run(&request, asked.sent_ms, &mut answers);
    oracle.borrow_mut().answered(asked, &request, &answers, plan.scribbles);
}
