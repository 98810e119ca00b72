//! Programs that share a group, more of them than processors: throughput, and the waits of single
//! Updates. On keys of their own, on 100 hot keys by Zipf's law, and on one key. `just
//! bench-contention`; `--processes 1,2,64`, `--seconds 2`, `--rounds 3`
//!
//! All programs of a cell begin at the same time. An Update lasts from the end of the one before,
//! so the longest ones show the waits for a semaphore and for a processor.

mod bench_store;
mod random;

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command as Program, Stdio};
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use frs_engine::{Answers, Command, ItemError, ItemOptions, Request, Role, Service};
use frs_load::Keys as Drawn;
use frs_store::{Counter, Runtime};

use random::Random;

const NOW: u64 = 1_700_000_000_000;
/// The keys of one program that has its own.
const OWN_KEYS: usize = 1000;
const HOT_KEYS: u32 = 100;
const EXPONENT: f64 = 1.2;
/// The requests that a program has prepared, and sends in turn.
const READY: usize = 4096;

const MAP: &str = r#"<map>
  <group name="some" files="1" key-nodes="4096" chain="56" node-size="64" hash="bob"/>
  <biz id="1" name="some" group="some" key="string">
    <limit policy="interval" interval="24h" max="9007199254740991"/>
  </biz>
</map>"#;

/// Programs that share a group, more of them than there are processors
#[derive(Parser)]
#[command(name = "contention")]
struct Options {
    /// How many programs
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16,32,64")]
    processes: Vec<usize>,
    /// Seconds of a cell
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Rounds; each measures every cell once
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Only these
    #[arg(long, value_enum, value_delimiter = ',', default_value = "own,hot,one")]
    keys: Vec<Keys>,
    /// Given by cargo bench
    #[arg(long, hide = true)]
    bench: bool,
    /// Given to a program: the directory, and which one it is
    #[arg(long, hide = true, num_args = 2)]
    child: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Keys {
    /// Each program has 1000 keys of its own
    Own,
    /// All have 100 keys, drawn by Zipf's law with 1.2
    Hot,
    /// All have one key
    One,
}

impl Keys {
    fn title(self) -> &'static str {
        match self {
            Keys::Own => "own keys",
            Keys::Hot => "100 hot keys",
            Keys::One => "one key",
        }
    }

    /// The keys of a program, in the order of its requests.
    fn ready(self, program: usize) -> Vec<String> {
        let mut random = Random(0x9e37_79b9 + program as u64);
        let hot = Drawn::zipf(program as u64, HOT_KEYS, EXPONENT);
        let key = |place| match self {
            Keys::Own => format!("own-{program}-{}", random.next() % OWN_KEYS as u64),
            Keys::Hot => format!("hot-{}", hot.at(place)),
            Keys::One => "one".to_owned(),
        };
        (0..READY as u64).map(key).collect()
    }
}

/// The number of Updates of each duration, in eight steps for each power of two.
#[derive(Clone)]
struct Times([u64; 64 * 8]);

impl Times {
    fn add(&mut self, ns: u64) {
        let log = ns.max(8).ilog2();
        self.0[(log * 8) as usize + ((ns.max(8) >> (log - 3)) & 7) as usize] += 1;
    }

    /// The longest duration among this share of the shortest Updates.
    fn quantile_us(&self, share: f64) -> f64 {
        let all: u64 = self.0.iter().sum();
        let mut left = (all as f64 * share).ceil().min(all as f64) as u64;
        let place = self.0.iter().position(|&count| {
            left = left.saturating_sub(count);
            left == 0
        });
        let (log, step) = (place.unwrap_or(0) / 8, place.unwrap_or(0) % 8);
        ((8 + step + 1) as f64) * 2f64.powi(log as i32 - 3) / 1000.0
    }
}

/// The work of one program, or of all.
struct Done {
    updates: u64,
    busy: u64,
    times: Times,
}

/// The results of one cell.
struct Cell {
    /// Updates a second of all programs.
    rate: f64,
    /// The slowest program's part of a fair share.
    least: f64,
    p99_us: f64,
    longest_us: f64,
    busy: u64,
    /// Waits for a taken semaphore, per thousand Updates.
    waits: f64,
}

fn main() {
    let options = Options::parse();
    if let [dir, program] = &options.child[..] {
        let program = program.parse().expect("a number");
        return report(&work(dir.as_ref(), options.keys[0], program, options.seconds));
    }
    if !options.bench {
        return println!("contention is a bench: just bench-contention");
    }
    println!("keys          programs      M/s  of one's  least  p99 µs  longest µs  busy  waits ‰");
    for &keys in &options.keys {
        let mut alone = None;
        for &processes in &options.processes {
            let mut cells: Vec<Cell> =
                (0..options.rounds).map(|_| measure(keys, processes, options.seconds)).collect();
            cells.sort_by(|one, other| one.rate.total_cmp(&other.rate));
            let Cell { rate, least, p99_us, longest_us, busy, waits } = cells[cells.len() / 2];
            let alone = *alone.get_or_insert(rate);
            println!(
                "{:12} {processes:9} {:8.2} {:9.2} {least:6.2} {p99_us:7.1} {longest_us:11.0} \
                 {busy:5} {waits:8.2}",
                keys.title(),
                rate / 1e6,
                rate / alone,
            );
        }
    }
}

/// Runs this many programs at the same time.
fn measure(keys: Keys, processes: usize, seconds: f64) -> Cell {
    let dir = bench_store::directory();
    bench_store::fill(&dir, MAP, "", |_| {});
    let name = keys.to_possible_value().expect("a value");
    let begin = |program: usize| {
        let this = std::env::current_exe().expect("this program");
        let mut child = Program::new(this);
        child.args(["--keys", name.get_name(), "--seconds", &seconds.to_string(), "--child"]);
        child.arg(dir.path()).arg(program.to_string());
        child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a program")
    };
    let mut children: Vec<Child> = (0..processes).map(begin).collect();
    for child in &mut children {
        // The child reports that it is attached.
        child.stdout.as_mut().expect("a pipe").read_exact(&mut [0]).expect("a word");
    }
    for child in &mut children {
        child.stdin.as_mut().expect("a pipe").write_all(b"go").expect("told");
    }
    let done: Vec<Done> = children.into_iter().map(told).collect();
    let mut times = Times([0; 512]);
    for (sum, count) in done.iter().flat_map(|one| one.times.0.iter().enumerate()) {
        times.0[sum] += count;
    }
    let updates: u64 = done.iter().map(|one| one.updates).sum();
    let least = done.iter().map(|one| one.updates).min().unwrap_or(0);
    let sums = Runtime::open(dir.path()).expect("a runtime").sums();
    Cell {
        rate: updates as f64 / seconds,
        least: least as f64 * processes as f64 / updates as f64,
        p99_us: times.quantile_us(0.99),
        longest_us: times.quantile_us(1.0),
        busy: done.iter().map(|one| one.busy).sum(),
        waits: sums.count(Counter::SemaphoreWaits) as f64 * 1000.0 / updates as f64,
    }
}

/// Acts as a program: sends requests until the time is over.
fn work(dir: &Path, keys: Keys, program: usize, seconds: f64) -> Done {
    let mut service = Service::attach(dir, Role::Program, None).expect("an attachment");
    let request = |key: &String| {
        let mut request = Request::default();
        request.begin(Command::Update);
        request.push("some", key, ItemOptions::ONE);
        request
    };
    let requests: Vec<Request> = keys.ready(program).iter().map(request).collect();
    let mut answers = Answers::default();
    print!("r");
    std::io::stdout().flush().expect("said");
    std::io::stdin().read_exact(&mut [0; 2]).expect("told to begin");
    let mut done = Done { updates: 0, busy: 0, times: Times([0; 512]) };
    let (begun, all) = (Instant::now(), Duration::from_secs_f64(seconds));
    let mut last = begun;
    for request in requests.iter().cycle() {
        service.begin_tick();
        service.run(request, NOW, &mut answers);
        let now = Instant::now();
        match answers.items[0].result {
            Ok(_) => done.updates += 1,
            Err(ItemError::Busy) => done.busy += 1,
            Err(error) => panic!("{error:?}"),
        }
        done.times.add((now - last).as_nanos() as u64);
        last = now;
        if now - begun >= all {
            break;
        }
    }
    done
}

/// Prints the results for the parent.
fn report(done: &Done) {
    let numbers = [done.updates, done.busy].into_iter().chain(done.times.0);
    let words: Vec<String> = numbers.map(|number| number.to_string()).collect();
    println!("{}", words.join(" "));
}

/// Reads the results that a program has printed.
fn told(child: Child) -> Done {
    let output = child.wait_with_output().expect("a program that ends");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut numbers = text.split_whitespace().map(|word| word.parse().expect("a number"));
    let mut next = || numbers.next().expect("all numbers");
    let (updates, busy) = (next(), next());
    let mut times = Times([0; 512]);
    times.0.iter_mut().for_each(|count| *count = next());
    Done { updates, busy, times }
}
