//! The program: reads its arguments, runs all threads, prints and draws the result.
//!
//! Invariant: the exit status is that of the manual. 0: all answers were right. 1: an answer was
//! wrong, or there was no answer or no connection. 2: wrong usage.

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Instant;

use clap::CommandFactory;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::arguments::Arguments;
use crate::checked::Checked;
use crate::failure::Failure;
use crate::load::{Load, Share};
use crate::plot;
use crate::schedule::Schedule;
use crate::stamp::Stamp;
use crate::summary::Summary;
use crate::tally::Tally;
use crate::target::Target;

/// The result of all threads.
struct Totals {
    /// The counts of each server.
    tallies: Vec<Tally>,
    /// Requests of an open loop that were due and never sent.
    unsent: u64,
    /// Why the run ended early, if it did.
    failure: Option<Failure>,
}

/// Runs the program.
pub fn main() -> ExitCode {
    if let Some(status) = frs_pages::write_if_asked(<Arguments as CommandFactory>::command) {
        return status;
    }
    let arguments = Arguments::from_command_line();
    let stamp = Stamp::now();
    let Totals { tallies, unsent, mut failure } = match run(&arguments) {
        Ok(totals) => totals,
        Err(failure) => Totals { failure: Some(failure), ..nothing(&arguments) },
    };
    let mut tally = Tally::new();
    tallies.iter().for_each(|of_one| tally.add(of_one));
    tally.unsent = unsent;
    if tally.requests() > 0 {
        let elapsed_ns = elapsed_ns(&arguments, &tally, failure.is_some());
        let summary =
            Summary { arguments: &arguments, tally: &tally, servers: &tallies, elapsed_ns };
        print!("{summary}");
        let drawn = arguments.plot.as_ref().map(|file| {
            let drawing = plot::draw(&summary, &stamp).map_err(std::io::Error::other)?;
            std::fs::write(file, drawing)
        });
        failure = failure.or(drawn.and_then(Result::err).map(Failure::Plot));
        let latencies = arguments.latencies.as_ref();
        let written = latencies.map(|file| std::fs::write(file, tally.latencies()));
        failure = failure.or(written.and_then(Result::err).map(Failure::Latencies));
    }
    if tally.requests() == 0 && tally.items() > 0 {
        failure = failure.or(Some(Failure::Unanswered { items: tally.items() }));
    }
    match failure {
        None => ExitCode::SUCCESS,
        Some(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

/// Opens all connections, then starts all threads at once. Returns the sum of their counts, and the
/// first failure.
fn run(arguments: &Arguments) -> Result<Totals, Failure> {
    allow_many_files();
    let targets: Vec<Target> = arguments.targets().cloned().collect();
    let mut shares = shares(arguments, &targets);
    for client in 0..arguments.connections as usize {
        let of = client % shares.len();
        shares[of].connect(1)?;
    }
    let (start, failed) = (Instant::now(), AtomicBool::new(false));
    let ready =
        shares.into_iter().map(|share| Load::new(share, Checked::new(arguments), start, &failed));
    let loads = ready.collect::<Result<Vec<_>, _>>()?;
    Ok(thread::scope(|scope| {
        let threads: Vec<_> = loads.into_iter().map(|load| scope.spawn(|| load.run())).collect();
        let mut all = nothing(arguments);
        for thread in threads {
            // A thread that panicked has printed the reason. The remaining threads are not the
            // whole run.
            let one = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            all.tallies.iter_mut().zip(&one.traffic.tallies).for_each(|(sum, more)| sum.add(more));
            all.unsent += one.unsent;
            all.failure = all.failure.or(one.failure);
        }
        all
    }))
}

fn shares<'r>(arguments: &Arguments, targets: &'r [Target]) -> Vec<Share<'r>> {
    let stride = arguments.threads();
    let share = |thread: u32| Share {
        targets,
        streams: Vec::new(),
        pipeline: arguments.pipeline,
        sends_at_once: false,
        schedule: Schedule {
            number: thread.into(),
            stride: stride.into(),
            total: arguments.requests,
            rate: arguments.rate,
            burst_ns: None,
            end_ns: arguments.end_ns(),
        },
    };
    (0..stride).map(share).collect()
}

/// The result of a run that sent nothing.
fn nothing(arguments: &Arguments) -> Totals {
    Totals { tallies: vec![Tally::new(); arguments.targets().count()], unsent: 0, failure: None }
}

/// The duration of the run: to its end, if it has one, and at least to the last answer.
fn elapsed_ns(arguments: &Arguments, tally: &Tally, failed: bool) -> u64 {
    let all_sent = arguments.requests.is_some_and(|total| tally.requests() >= total);
    let end_ns = arguments.end_ns().filter(|_| !failed && !all_sent);
    tally.last_ns.max(end_ns.unwrap_or(0))
}

/// Raises the limit of open files, because every connection is one. If the limit cannot be raised,
/// connecting reports that.
fn allow_many_files() {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}
