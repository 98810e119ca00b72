//! The cost of inspection to a live server. frs-load, which checks every answer, runs in turns
//! beside a busy loop and beside frs-inspect, which dumps, verifies and lists without a pause. Both
//! neighbours take the same processor time: a server with an idle processor would wake up more
//! often and find fewer requests each time, which costs more.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::load::Measured;
use crate::report::{self, Sample};
use crate::servers::{Frs, Server};
use crate::{Options, Result};

const NAMES: [&str; 2] = ["beside a busy loop", "beside frs-inspect"];

/// The hottest keys of the load reach their limit, and become free again during the load.
const MAP: &str = r#"<map>
  <group name="default" files="2" key-nodes="2048" chain="56" node-size="64" key-bytes="24" hash="bob"/>
  <biz id="1" name="bench" key="string">
    <limit policy="interval" interval="5s" max="1000"/>
  </biz>
</map>
"#;

/// Runs all rounds, and prints the table.
pub fn run(options: &Options) -> Result<()> {
    let frs = Frs::start(MAP)?;
    let duration = options.seconds;
    load(frs.address(), Duration::from_secs(2))?;
    let mut rows: Vec<Vec<Sample>> = NAMES.map(|_| Vec::new()).into();
    let mut looks = 0;
    for round in 1..=options.rounds {
        eprintln!("inspected: round {round} of {}", options.rounds);
        let neighbours: [Neighbour; 2] = [spin, look];
        for (neighbour, samples) in neighbours.into_iter().zip(&mut rows) {
            let before = frs.cpu()?;
            let (measured, looked) = beside(neighbour, &frs, duration)?;
            looks += looked;
            samples.push(Sample::new(measured, frs.cpu()?.saturating_sub(before)));
        }
    }
    report::print_over_peers(
        "frs-load, one request per round trip",
        &NAMES,
        &rows,
        &[(0, "the first")],
    );
    println!("{looks} runs of frs-inspect, every one without a fault");
    Ok(())
}

/// The number of inspections.
type Looked = std::result::Result<usize, String>;
/// A program beside the load. It runs until `over` is set.
type Neighbour = fn(&Path, &AtomicBool) -> Looked;

/// Runs a load beside a neighbour.
fn beside(neighbour: Neighbour, frs: &Frs, duration: Duration) -> Result<(Measured, usize)> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let looker = scope.spawn(|| neighbour(frs.data_dir(), &over));
        let measured = load(frs.address(), duration);
        over.store(true, Ordering::Relaxed);
        let looked = looker.join().map_err(|_| "the thread that looks has panicked")?;
        Ok((measured?, looked?))
    })
}

/// Spins until `over` is set.
fn spin(_data: &Path, over: &AtomicBool) -> Looked {
    while !over.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
    Ok(0)
}

/// Dumps, verifies and lists in turns until `over` is set.
fn look(data: &Path, over: &AtomicBool) -> Looked {
    let commands: [(&str, &[&str]); 3] =
        [("dump", &["--format", "csv"]), ("verify", &[]), ("top", &["bench"])];
    let mut looked = 0;
    for (command, options) in commands.into_iter().cycle() {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let mut inspect = Command::new(crate::tools::tool("frs-inspect"));
        inspect.arg(command).arg(data).args(options).stdout(Stdio::null());
        let output = inspect.output().map_err(|error| error.to_string())?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("frs-inspect {command}: {}: {said}", output.status));
        }
        looked += 1;
    }
    Ok(looked)
}

/// Runs frs-load. A wrong answer is an error.
fn load(address: SocketAddr, duration: Duration) -> Result<Measured> {
    let output = Command::new(crate::tools::tool("frs-load"))
        .args([format!("http://{address}"), format!("--duration={}s", duration.as_secs())])
        .args(["--biz", "bench"])
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let requests = said.lines().find_map(|line| line.strip_prefix("requests "));
    let requests = requests.and_then(|rest| rest.split_whitespace().next());
    let requests = requests.and_then(|count| count.replace(',', "").parse().ok());
    match requests {
        Some(requests) if output.status.success() => {
            Ok(Measured { requests, elapsed: duration, p50: None, p99: None })
        }
        _ => Err(format!("frs-load: {}: {said}", output.status).into()),
    }
}
