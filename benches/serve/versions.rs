//! The cost of a version beside the one before: `--only versions --before PROGRAM`.
//!
//! Both servers have one worker. This version runs with everything that it counts and serves.

use std::path::Path;

use crate::load::{self, Requests};
use crate::pairs::{self, Case};
use crate::servers::{Frs, Server, free_address};
use crate::{KEYS, Options, Result};

/// The number of keys if there are few. Each is drawn equally often.
const FEW: usize = 16;
/// The exponent of frs-load.
const EXPONENT: f64 = 0.99;
/// The number of drawn keys.
const DRAWS: usize = 1 << 17;

/// The first biz never refuses a key. The other biz refuses each key from its second use on.
const MAP: &str = r#"<map>
  <group name="open" files="2" key-nodes="2048" chain="56" node-size="64" key-bytes="24" hash="bob"/>
  <group name="spent" files="2" key-nodes="2048" chain="56" node-size="64" key-bytes="24" hash="bob"/>
  <biz id="1" name="open" group="open" key="string">
    <limit policy="interval" interval="24h" max="1000000000"/>
  </biz>
  <biz id="2" name="spent" group="spent" key="string">
    <limit policy="interval" interval="24h" max="1"/>
  </biz>
</map>
"#;

fn cases() -> Vec<Case> {
    use load::Protocol::{Http, HttpRefused};
    let open = |command, items| Requests::of(command, 1, items, &load::shuffled(items, KEYS));
    let few = load::drawn(DRAWS, FEW, 0.0);
    let drawn = load::drawn(DRAWS, KEYS, EXPONENT);
    let refused = |items, keys: &[usize]| Requests::of("update", 2, items, keys);
    vec![
        Case::pipelined("Updates that pass, pipelined", open("update", 1), Http),
        Case::pipelined("Queries, pipelined", open("query", 1), Http),
        Case::in_turn("64 Updates that pass in a request", open("update", 64), Http),
        Case::in_turn("64 Queries in a request", open("query", 64), Http),
        Case::pipelined("refused, of 16 keys, pipelined", refused(1, &few), HttpRefused),
        Case::pipelined("refused, by Zipf's law, pipelined", refused(1, &drawn), HttpRefused),
        Case::in_turn("64 refused in a request, of 16 keys", refused(64, &few), HttpRefused),
        Case::in_turn("64 refused in a request, by Zipf", refused(64, &drawn), HttpRefused),
    ]
}

/// Runs all rounds, and prints a table for each case.
pub fn run(options: &Options, before: &Path) -> Result<()> {
    // Creates every key, and uses up the limits of the second biz.
    let first = [1, 2].map(|biz| Requests::updates_of(biz, 64, KEYS));
    pairs::run(options, "versions", ["before", "now"], &cases(), || {
        let old = format!(r#"<admin listen="{}"/>"#, free_address()?);
        let old = Frs::start_program(before, MAP, &old)?;
        let (admin, metrics) = (free_address()?, free_address()?);
        let new = format!(r#"<admin listen="{admin}"/><metrics listen="{metrics}"/>"#);
        let servers = [old, Frs::start_with(MAP, &new)?];
        for server in &servers {
            for requests in &first {
                load::pass(server.address(), requests)?;
            }
        }
        Ok(servers)
    })
}
