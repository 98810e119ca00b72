//! The cost of each policy. The server and the keys are the same. Each round measures all policies
//! in turn, and compares each with `interval` of the same round.

use std::time::Duration;

use crate::load::{Load, Protocol, Requests};
use crate::report::{self, Sample};
use crate::servers::{Frs, Server};
use crate::{CONNECTIONS, Options, Result};

/// The keys of each biz. The load of one connection uses each about ten times a second.
const KEYS: usize = 10_000;

/// Long enough for a ring to reach its steady state.
const WARM_UP: Duration = Duration::from_secs(6);

/// Policies in the order of their biz ids.
const NAMES: [&str; 9] = [
    "interval",
    "interval with debt",
    "calendar day",
    "sliding, M = 50",
    "sliding-counter",
    "token",
    "total",
    "count",
    "interval and total of the biz",
];

/// Only `sliding` reaches its limit. With about ten uses a second of each key, about 40 of its 50
/// places are taken, and a few uses are refused.
const MAP: &str = r#"<map>
  <group name="small" files="1" key-nodes="2048" node-size="64" hash="bob"/>
  <group name="wide" files="1" key-nodes="2048" node-size="128" hash="bob"/>
  <group name="ring" files="1" key-nodes="512" node-size="320" hash="bob"/>
  <biz id="1" name="b1" key="string">
    <limit policy="interval" interval="24h" max="1000000000"/>
  </biz>
  <biz id="2" name="b2" key="string">
    <limit policy="interval" interval="24h" max="1000000000" debt="1000"/>
  </biz>
  <biz id="3" name="b3" key="string">
    <limit policy="calendar" unit="day" tz="Asia/Shanghai" max="1000000000"/>
  </biz>
  <biz id="4" name="b4" group="ring" key="string">
    <limit policy="sliding" interval="4s" max="50"/>
  </biz>
  <biz id="5" name="b5" group="wide" key="string">
    <limit policy="sliding-counter" interval="1h" max="1000000000"/>
  </biz>
  <biz id="6" name="b6" key="string">
    <limit policy="token" rate="1000000/s" burst="1000000"/>
  </biz>
  <biz id="7" name="b7" key="string"><limit policy="total" max="1000000000"/></biz>
  <biz id="8" name="b8" key="string"><limit policy="count" unit="day"/></biz>
  <biz id="9" name="b9" key="string">
    <limit policy="interval" interval="24h" max="1000000000"/>
    <limit policy="total" scope="biz" max="1000000000000"/>
  </biz>
</map>
"#;

/// Runs all rounds, and prints the table.
pub fn run(options: &Options) -> Result<()> {
    let frs = Frs::start(MAP)?;
    let load = |seconds, requests: &Requests| {
        let (address, protocol) = (frs.address(), Protocol::HttpRefusing);
        let load = Load { address, protocol, connections: CONNECTIONS, depth: 1 };
        load.run(requests, seconds)
    };
    let requests = |id| Requests::updates_of(id, 1, KEYS);
    let requests: Vec<Requests> = (1..=NAMES.len() as u32).map(requests).collect();
    let mut rows: Vec<Vec<Sample>> = NAMES.map(|_| Vec::new()).into();
    for round in 1..=options.rounds {
        eprintln!("policies: round {round} of {}", options.rounds);
        for (index, (requests, samples)) in requests.iter().zip(&mut rows).enumerate() {
            // The ring empties between two rounds.
            let warm_up = if NAMES[index].starts_with("sliding,") { WARM_UP } else { WARM_UP / 6 };
            load(warm_up, requests)?;
            let before = frs.cpu()?;
            let measured = load(options.seconds, requests)?;
            samples.push(Sample::new(measured, frs.cpu()?.saturating_sub(before)));
        }
    }
    let title = "one-item Updates of each policy, one request per round trip";
    report::print_over_peers(title, &NAMES, &rows, &[(0, "the first")]);
    Ok(())
}
