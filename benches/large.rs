//! A large group in memory, on real sockets: the cost of its items beside those of a small group.
//! Also the time that it takes to copy the group to disk, to start after a kill and after the loss
//! of the memory, and to grow the group by half while it serves, with the cost of requests
//! meanwhile. `just bench-large`; `--keys 100000000 --planned 60000000`, `--rate 100000`
//!
//! The group is in /dev/shm, its checkpoints are in the directory of temporary files. Client and
//! server share the processors. Processor time is that of the workers. Any answer but a verdict, or
//! a lost count, ends the bench with a panic.

#[path = "../tests/it/common/mod.rs"]
#[allow(dead_code, reason = "the tests need the rest")]
mod common;
#[path = "serve/servers.rs"]
#[allow(dead_code, reason = "the other bench needs the rest")]
mod servers;

use std::ops::Range;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clap::Parser;

use common::{Client, Server, Settings, Setup, tools};
use servers::cpu_of_tree;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The keys of the bench whose files are included.
const KEYS: usize = 100_000;
/// The most keys of the small group.
const SMALL_KEYS: u32 = 1_000_000;
/// The items of a request where the cost of items is measured.
const ITEMS: u64 = 64;
/// Keys whose counts are compared.
const SAMPLE: u64 = 1000;
/// The longest wait for the server.
const LONGEST: Duration = Duration::from_secs(1800);

/// Measures a large group
#[derive(Parser)]
#[command(name = "large")]
struct Options {
    /// Keys that are used
    #[arg(long, default_value_t = 1_000_000)]
    keys: u32,
    /// Keys that the group is planned for: it has nodes for twice as many [default: those used]
    #[arg(long)]
    planned: Option<u32>,
    /// Turns of a load on the small group and one on the large group
    #[arg(long, default_value_t = 5)]
    turns: u32,
    /// Requests a second beside passes and the move
    #[arg(long, default_value_t = 20_000)]
    rate: u64,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Rounds of a load without and with a pass beside it, in turns
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Does not grow the group: it needs memory for both geometries
    #[arg(long)]
    keep: bool,
    /// Given by cargo bench
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<()> {
    let options = Options::parse();
    if !options.bench {
        println!("large is a bench: just bench-large");
        return Ok(());
    }
    let live = tempfile::tempdir_in("/dev/shm")?;
    let setup = Setup::new(&Settings::default());
    let more = format!(
        "<log level=\"info\"/><data live=\"{}\" checkpoint=\"24h\" checkpoint-rate=\"4GiB/s\"/>",
        live.path().display()
    );
    setup.write_srv(&Settings { more, workers: 1, ..Settings::default() });
    setup.write_map(&options.map(1.0));
    let bench = Bench { options, setup, live };
    bench.run()
}

impl Options {
    /// A group for `times` the planned keys, and a small one.
    fn map(&self, times: f64) -> String {
        let pair = |id, name, keys| {
            format!(
                "<group name=\"{name}\" keys=\"{keys}\" hash=\"bob\"/>
                <biz id=\"{id}\" name=\"{name}\" group=\"{name}\" key=\"integer\">
                <limit policy=\"interval\" interval=\"300d\" max=\"1000000000\"/></biz>"
            )
        };
        let planned = (f64::from(self.planned.unwrap_or(self.keys)) * times) as u64;
        let small = self.keys.min(SMALL_KEYS).into();
        format!("<map>{}{}</map>", pair(1, "large", planned), pair(2, "small", small))
    }
}

struct Bench {
    options: Options,
    setup: Setup,
    live: tempfile::TempDir,
}

/// The figures of frs-load, and the processor time of the workers.
struct Run {
    requests: f64,
    seconds: f64,
    p99_us: String,
    cpu: Duration,
}

impl Run {
    fn cpu_us(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.requests
    }

    /// The processor time of an item, if each request has [`ITEMS`].
    fn item_ns(&self) -> f64 {
        self.cpu_us() * 1000.0 / ITEMS as f64
    }
}

impl Bench {
    fn run(&self) -> Result<()> {
        let Options { keys, rate, seconds, rounds, .. } = self.options;
        let begun = Instant::now();
        let mut server = self.start()?;
        say("making the groups", begun.elapsed(), &format!("{keys} keys, {} MiB", self.mib()?));
        self.compare(&server)?;
        for name in ["first pass", "first pass of the other checkpoint", "pass without a change"] {
            let (time, said) = self.pass()?;
            say(name, time, &said);
        }
        for round in 1..=rounds {
            let alone = self.load_at(&server, rate, seconds)?;
            // The pass writes the changes of this load beside the next one.
            let passing = Command::new(env!("CARGO_BIN_EXE_frs"))
                .current_dir(self.setup.dir.path())
                .arg("checkpoint")
                .stdout(Stdio::piped())
                .spawn()?;
            let beside = self.load_at(&server, rate, seconds)?;
            let passed = passing.wait_with_output()?;
            let ratio = beside.cpu_us() / alone.cpu_us();
            println!(
                "round {round}: {rate} requests/s alone: {:.2} µs each, p99 {} µs; beside a pass: {:.2} µs each, p99 {} µs; ratio {ratio:.3}; {}",
                alone.cpu_us(),
                alone.p99_us,
                beside.cpu_us(),
                beside.p99_us,
                common::text(&passed.stdout).trim()
            );
        }
        let (time, said) = self.pass()?;
        say("usual pass", time, &said);
        let counts = self.counts(&server);
        server.kill_all_and_wait();
        drop(server);
        let begun = Instant::now();
        let mut server = self.start()?;
        say("start after kill -9 of all", begun.elapsed(), "");
        assert_eq!(self.counts(&server), counts);
        server.kill_all_and_wait();
        drop(server);
        for entry in std::fs::read_dir(self.live.path())? {
            std::fs::remove_file(entry?.path())?;
        }
        std::fs::remove_file(self.setup.path("data/runtime.mmap"))?;
        let begun = Instant::now();
        let server = self.start()?;
        say("start after the loss of the memory", begun.elapsed(), "restored from a checkpoint");
        assert_eq!(self.counts(&server), counts);
        if !self.options.keep {
            self.grow(&server, counts)?;
        }
        Ok(())
    }

    /// Fills both groups, and compares the cost of their items.
    fn compare(&self, server: &Server<'_>) -> Result<()> {
        let Options { keys, seconds, turns, .. } = self.options;
        self.make_nodes(server, "small", 0..keys.min(SMALL_KEYS))?;
        // Each key once. The last tenth goes into a group that is nearly as full as planned.
        let most = keys / 10 * 9;
        for (name, made) in
            [("making nine tenths of its nodes", 0..most), ("making the others", most..keys)]
        {
            let made = self.make_nodes(server, "large", made)?;
            let note = format!("{:.0} ns an item, {ITEMS} in a request", made.item_ns());
            say(name, Duration::from_secs_f64(made.seconds), &note);
        }
        let mut ratios = Vec::new();
        for turn in 1..=turns {
            let [small, large] = ["small", "large"].map(|group| {
                let duration = format!("{seconds}s");
                let run = self.load_items(server, group, &["--zipf", "0", "--duration", &duration]);
                run.map(|run| run.item_ns())
            });
            let (small, large) = (small?, large?);
            println!(
                "turn {turn}: a node found: {small:.0} ns an item in the small group, {large:.0} in the large one"
            );
            ratios.push(large / small);
        }
        ratios.sort_by(f64::total_cmp);
        if let Some(median) = ratios.get(ratios.len() / 2) {
            println!("median ratio {median:.2}");
        }
        Ok(())
    }

    /// Grows the group by half of its planned keys, beside a load.
    fn grow(&self, server: &Server<'_>, counts: Vec<u64>) -> Result<()> {
        let Options { rate, seconds, .. } = self.options;
        let alone = self.load_at(server, rate, seconds)?;
        self.setup.write_map(&self.options.map(1.5));
        let begun = Instant::now();
        let reloaded = self.frs("reload")?;
        say("reload to a plan of half as many more", begun.elapsed(), reloaded.trim());
        let mut runs = Vec::new();
        while !self.setup.log().contains("the group has moved") && begun.elapsed() < LONGEST {
            runs.push(self.load_at(server, rate, seconds)?);
        }
        say("moving it while it serves", begun.elapsed(), &format!("{} MiB", self.mib()?));
        println!("alone: {:.2} µs each, p99 {} µs", alone.cpu_us(), alone.p99_us);
        for run in runs {
            println!("beside the move: {:.2} µs each, p99 {} µs", run.cpu_us(), run.p99_us);
        }
        assert!(self.counts(server).iter().zip(counts).all(|(&now, before)| now >= before));
        Ok(())
    }

    fn start(&self) -> Result<Server<'_>> {
        let server = self.setup.start_unready();
        let begun = Instant::now();
        let is_served = || {
            let answer =
                Client::try_connect(self.setup.address)?.try_get("/query?biz=large&key=0").ok()?;
            (answer.status == 200 && answer.attribute("error").is_none()).then_some(())
        };
        while is_served().is_none() {
            assert!(begun.elapsed() < LONGEST, "the server does not serve: {}", self.setup.log());
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(server)
    }

    fn counts(&self, server: &Server<'_>) -> Vec<u64> {
        let mut client = server.client();
        let step = (u64::from(self.options.keys) / SAMPLE).max(1);
        let keys = (0..SAMPLE).map(|nth| nth * step);
        let used = |key| {
            let answer = client.get(&format!("/query?biz=large&key={key}"));
            answer.attribute("used").expect("a count").parse().expect("a number")
        };
        keys.map(used).collect()
    }

    fn frs(&self, command: &str) -> Result<String> {
        let output = Command::new(env!("CARGO_BIN_EXE_frs"))
            .current_dir(self.setup.dir.path())
            .arg(command)
            .output()?;
        let said = common::text(&output.stdout);
        if output.status.success() { Ok(said) } else { Err(common::text(&output.stderr).into()) }
    }

    fn pass(&self) -> Result<(Duration, String)> {
        let begun = Instant::now();
        let said = self.frs("checkpoint")?;
        Ok((begun.elapsed(), said.trim().to_owned()))
    }

    /// Runs a load on the large group at a rate.
    fn load_at(&self, server: &Server<'_>, rate: u64, seconds: u64) -> Result<Run> {
        let (rate, duration) = (rate.to_string(), format!("{seconds}s"));
        let arguments = ["--zipf", "0", "--rate", &rate, "--duration", &duration];
        self.load(server, "large", &arguments)
    }

    /// Sends an Update of each of these keys of a group.
    fn make_nodes(&self, server: &Server<'_>, group: &str, keys: Range<u32>) -> Result<Run> {
        let requests = u64::from(keys.end - keys.start).div_ceil(ITEMS).to_string();
        let first = keys.start.to_string();
        self.load_items(server, group, &["--in-turn", &first, "--requests", &requests])
    }

    /// Runs a load of requests with many items.
    fn load_items(&self, server: &Server<'_>, group: &str, arguments: &[&str]) -> Result<Run> {
        let items = ITEMS.to_string();
        let many = ["--items", &items, "--pipeline", "4"];
        self.load(server, group, &[&many, arguments].concat())
    }

    /// Runs a load on the business of a group, which has the group's name.
    fn load(&self, server: &Server<'_>, group: &str, arguments: &[&str]) -> Result<Run> {
        let workers = server.workers();
        let spent = || -> Result<Duration> {
            workers.iter().map(|worker| cpu_of_tree(worker.as_raw() as u32)).sum()
        };
        let before = spent()?;
        let keys = self.options.keys.min(if group == "small" { SMALL_KEYS } else { u32::MAX });
        let output = Command::new(tools::tool("frs-load"))
            .arg(format!("http://{}", self.setup.address))
            .args(["--biz", group, "--key-type", "integer", "--keys", &keys.to_string()])
            .args(["--threads", "1", "--connections", "16"])
            .args(arguments)
            .output()?;
        let cpu = spent()?.saturating_sub(before);
        let said = common::text(&output.stdout);
        if !output.status.success() {
            return Err(format!("{said}{}", common::text(&output.stderr)).into());
        }
        let words = |line: &str| -> Vec<String> {
            let found = said.lines().find(|text| text.starts_with(line)).unwrap_or_default();
            found.replace([',', ':'], "").split_whitespace().map(str::to_owned).collect()
        };
        let (requests, latency) = (words("requests "), words("latency"));
        let at = latency.iter().position(|word| word == "p99").ok_or("no p99")?;
        Ok(Run {
            requests: requests[1].parse()?,
            seconds: requests[3].parse()?,
            p99_us: latency[at + 1].clone(),
            cpu,
        })
    }

    /// The size of the group's files.
    fn mib(&self) -> Result<u64> {
        let mut bytes = 0;
        for entry in std::fs::read_dir(self.live.path())? {
            bytes += entry?.metadata()?.len();
        }
        Ok(bytes >> 20)
    }
}

fn say(what: &str, time: Duration, note: &str) {
    println!("{what:<40} {:>10.3} s  {note}", time.as_secs_f64());
}
