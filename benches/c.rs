//! The cost of an Update from C, beside the same in Rust: Updates one after another, of keys that
//! exist. `just bench-c` builds the library first. Needs `cc`, and valgrind for the instructions.
//!
//! The two programs run in turns, and the median of the pairs' ratios counts, because the load of
//! the machine is the same for both.

mod bench_store;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use frs::{Client, Item};

const MAP: &str = r#"<map>
  <group name="big" files="1" key-nodes="35715" chain="56" node-size="64" hash="bob"/>
  <biz id="1" name="hit" group="big" key="string">
    <limit policy="interval" interval="24h" max="9007199254740991"/>
  </biz>
</map>"#;

const PAIRS: usize = 15;
/// Passes the data directory to the Rust program, which is this one.
const CHILD: &str = "FRS_BENCH_CHILD";

/// The work of both programs.
#[derive(Clone, Copy)]
struct Run {
    keys: u32,
    updates: u64,
}

fn main() {
    if let Some(data) = std::env::var_os(CHILD) {
        let mut numbers = std::env::args().skip(1).map(|text| text.parse().expect("a number"));
        let mut next = || numbers.next().expect("two numbers");
        let run = Run { keys: next() as u32, updates: next() };
        return println!("{}", ns_each(data.as_ref(), run));
    }
    let work = tempfile::tempdir().expect("a directory");
    let (c, data) = (build(work.path()), bench_store::directory());
    bench_store::fill(&data, MAP, "", |_| {});
    let programs = Programs { c, library: work.path().to_owned(), data: data.path().to_owned() };
    for (keys, updates) in [(1000, 3_000_000), (1_000_000, 2_000_000)] {
        programs.compare(Run { keys, updates });
    }
    programs.count_instructions();
}

/// Compiles the C program against the library, which must be built beside this bench.
fn build(work: &Path) -> PathBuf {
    let this = std::env::current_exe().expect("this program");
    let built = this.ancestors().nth(2).expect("a directory of binaries").join("libfrs.so");
    assert!(
        built.exists(),
        "{}: build it by `cargo build --profile dist -p frs-c`",
        built.display()
    );
    std::os::unix::fs::symlink(&built, work.join("libfrs.so.1")).expect("linked");
    let bindings = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../bindings/c"));
    let program = work.join("cost");
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-D_GNU_SOURCE", "-I"]).arg(bindings).arg("-o").arg(&program);
    let status = compiler.arg(bindings.join("benches/cost.c")).arg(built).status();
    assert!(status.expect("cc runs").success());
    program
}

/// Both programs, on one store.
struct Programs {
    c: PathBuf,
    library: PathBuf,
    data: PathBuf,
}

impl Programs {
    /// The command that starts the C or the Rust program.
    fn start(&self, is_c: bool, under: &[&str], run: Run) -> Command {
        let this = std::env::current_exe().expect("this program");
        let program = if is_c { &self.c } else { &this };
        let mut words = under.iter().map(std::ffi::OsStr::new).chain([program.as_os_str()]);
        let mut command = Command::new(words.next().expect("a program"));
        command.args(words).env("LD_LIBRARY_PATH", &self.library);
        if is_c {
            command.arg(&self.data);
        } else {
            command.env(CHILD, &self.data);
        }
        command.arg(run.keys.to_string()).arg(run.updates.to_string());
        command
    }

    fn ns(&self, is_c: bool, run: Run) -> f64 {
        let output = self.start(is_c, &[], run).output().expect("it runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}");
        String::from_utf8_lossy(&output.stdout).trim().parse().expect("a figure")
    }

    fn compare(&self, run: Run) {
        let (mut c, mut rust, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for pair in 0..PAIRS {
            // The programs take turns at being first.
            let first = self.ns(pair % 2 == 0, run);
            let second = self.ns(pair % 2 != 0, run);
            let (of_c, of_rust) = if pair % 2 == 0 { (first, second) } else { (second, first) };
            c.push(of_c);
            rust.push(of_rust);
            ratios.push(of_c / of_rust);
        }
        let [c, rust, ratios] = [c, rust, ratios].map(|mut all| {
            all.sort_by(f64::total_cmp);
            all
        });
        println!(
            "{} keys: C {:.0} ns, Rust {:.0} ns; C/Rust {:.3} ({:.3}-{:.3}), medians of {PAIRS} pairs",
            run.keys,
            c[PAIRS / 2],
            rust[PAIRS / 2],
            ratios[PAIRS / 2],
            ratios[0],
            ratios[PAIRS - 1],
        );
    }

    /// Counts the instructions of one Update: a run of twice as many Updates, less a run of once as
    /// many.
    fn count_instructions(&self) {
        const ONCE: u64 = 20_000;
        let count = |is_c, updates| {
            let under = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"];
            let output = self.start(is_c, &under, Run { keys: 1000, updates }).output().ok()?;
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let line = said.lines().find(|line| line.contains("Collected"))?;
            line.rsplit(' ').next()?.parse::<f64>().ok()
        };
        let each = |is_c| Some((count(is_c, 2 * ONCE)? - count(is_c, ONCE)?) / ONCE as f64);
        match (each(true), each(false)) {
            (Some(c), Some(rust)) => {
                println!("instructions: C {c:.0}, Rust {rust:.0}; C/Rust {:.3}", c / rust);
            }
            _ => println!("instructions: not counted, valgrind is not installed"),
        }
    }
}

/// The Rust program: does the same as bindings/c/benches/cost.c.
fn ns_each(data: &Path, Run { keys, updates }: Run) -> f64 {
    let client = Client::attach(data).expect("a client");
    let update = |key: &str| {
        let verdict = client.update(Item::new("hit", key)).expect("judged");
        assert!(verdict.is_allowed());
    };
    let text = |key: u32| format!("key-{:08x}", key.wrapping_mul(2_654_435_761));
    let keys: Vec<String> = (0..keys).map(text).collect();
    let texts = keys.concat();
    keys.iter().for_each(|key| update(key));
    let (begun, mut at) = (Instant::now(), 0);
    for _ in 0..updates {
        update(&texts[at..at + 12]);
        at = if at + 12 == texts.len() { 0 } else { at + 12 };
    }
    begun.elapsed().as_nanos() as f64 / updates as f64
}
