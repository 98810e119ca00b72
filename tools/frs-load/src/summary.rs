//! The summary: the result of a run as text.
//!
//! Invariant: the same values give the same text.

use std::fmt::{self, Write};

use frs::base::figures::grouped;
use frs::service::Command;

use crate::answer::VERDICTS;
use crate::arguments::Arguments;
use crate::tally::Tally;

/// The latencies to show.
const QUANTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

/// A run and its counts.
pub struct Summary<'r> {
    pub arguments: &'r Arguments,
    pub tally: &'r Tally,
    pub elapsed_ns: u64,
}

impl Summary<'_> {
    /// A description of the run in one line.
    pub fn title(&self) -> String {
        let Arguments { target, biz, keys, zipf, .. } = self.arguments;
        let path = match self.arguments.command() {
            Command::Query => "query",
            Command::Update => "update",
        };
        let keys = grouped(u64::from(*keys));
        format!("{target}, {path}: biz {biz}, {keys} keys, Zipf {zipf}")
    }

    fn manner(&self) -> String {
        let Arguments { connections, pipeline, items, rate, seed, .. } = self.arguments;
        let threads = self.arguments.threads();
        let count = |number: u64, of: &str| {
            format!("{} {of}{}", grouped(number), if number == 1 { "" } else { "s" })
        };
        let connections = count((*connections).into(), "connection");
        let pipeline = count((*pipeline).into(), "request");
        let items = count((*items).into(), "item");
        let manner = match rate {
            Some(rate) => format!("open loop, {} requests/s", grouped(*rate)),
            None => "closed loop".to_owned(),
        };
        let threads = count(threads.into(), "thread");
        format!("{manner}; {connections} × {pipeline} × {items}; {threads}; seed {seed}")
    }

    fn per_second(&self, number: u64) -> u64 {
        let per_second = u128::from(number) * 1_000_000_000 / u128::from(self.elapsed_ns.max(1));
        u64::try_from(per_second).unwrap_or(u64::MAX)
    }

    fn amounts(&self, out: &mut String) -> fmt::Result {
        let (requests, items) = (self.tally.requests(), self.tally.items());
        let seconds = self.elapsed_ns as f64 / 1e9;
        let rate = grouped(self.per_second(requests));
        writeln!(out, "requests    {} in {seconds:.2} s: {rate}/s", grouped(requests))?;
        if self.arguments.items > 1 {
            let rate = grouped(self.per_second(items));
            writeln!(out, "items       {}: {rate}/s", grouped(items))?;
        }
        let latencies_ns = &self.tally.latencies_ns;
        let quantiles = QUANTILES.map(|(name, quantile)| {
            format!("{name} {}", grouped(latencies_ns.value_at_quantile(quantile) / 1000))
        });
        writeln!(out, "latency µs  {}", quantiles.join("   "))
    }

    fn outcomes(&self, out: &mut String) -> fmt::Result {
        let items = self.tally.items();
        let row = |out: &mut String, name: &str, number: u64| {
            let share = 100.0 * number as f64 / items.max(1) as f64;
            writeln!(out, "{name:<20} {:>15} {share:>9.2} %", grouped(number))
        };
        writeln!(out, "\n{:<20} {:>15} {:>11}", "verdict", "items", "share")?;
        for ((_, name), number) in VERDICTS.iter().zip(self.tally.verdicts) {
            if number > 0 {
                row(out, name, number)?;
            }
        }
        for (error, number) in &self.tally.errors {
            row(out, &format!("error: {error}"), *number)?;
        }
        writeln!(out, "\n{:<20} {:>15}", "status", "requests")?;
        for (status, number) in &self.tally.statuses {
            writeln!(out, "{status:<20} {:>15}", grouped(*number))?;
        }
        Ok(())
    }

    fn remarks(&self, out: &mut String) -> fmt::Result {
        let Tally { reconnects, unsent, .. } = self.tally;
        if *reconnects > 0 {
            writeln!(out, "\nconnections made again: {}", grouped(*reconnects))?;
        }
        if *unsent > 0 {
            let unsent = grouped(*unsent);
            writeln!(out, "\nrequests never sent: {unsent}; the rate was not kept up with")?;
        }
        Ok(())
    }
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        self.amounts(&mut out)?;
        self.outcomes(&mut out)?;
        self.remarks(&mut out)?;
        write!(f, "{}\n{}\n\n{out}", self.title(), self.manner())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::answer::{Outcome, VERDICTS};

    #[test]
    fn a_summary() {
        let words = "frs-load http://a:1 --rate 5000 --items 2 --threads 1 --connections 1";
        let arguments = Arguments::parse_from(words.split(' '));
        let mut tally = Tally::new();
        for request in 1..=1000 {
            tally.answered(200, request * 1000, request);
            tally.item(Outcome::Verdict(VERDICTS[0].0));
            tally.item(Outcome::Verdict(VERDICTS[1].0));
        }
        tally.failed("closed", 2);
        (tally.unsent, tally.reconnects) = (7, 1);
        let summary = Summary { arguments: &arguments, tally: &tally, elapsed_ns: 500_000_000 };
        let text = summary.to_string();
        for line in [
            "http://a:1, update: biz app-user-api, 100,000 keys, Zipf 0.99\n",
            "open loop, 5,000 requests/s; 1 connection × 1 request × 2 items; 1 thread; seed 1\n",
            "requests    1,000 in 0.50 s: 2,000/s\n",
            "items       2,002: 4,004/s\n",
            "p50 500   p90 900   p99 990",
            "limited                        1,000     49.95 %\n",
            "error: closed                      2      0.10 %\n",
            "200                            1,000\n",
            "connections made again: 1\n",
            "requests never sent: 7;",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
    }
}
