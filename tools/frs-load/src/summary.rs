//! The summary: the result of a run as text.
//!
//! Invariant: the same values give the same text.

use std::fmt::{self, Write};

use frs_base::figures::grouped;
use frs_engine::Command;

use crate::answer::{VERDICTS, Verdict};
use crate::arguments::{Arguments, Format, Order, Route};
use crate::tally::Tally;
use crate::windows::Exhausted;

/// The latencies that are shown.
const QUANTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

/// A run and its counts.
pub struct Summary<'r> {
    pub arguments: &'r Arguments,
    /// The counts of all servers together.
    pub tally: &'r Tally,
    /// The counts of each server.
    pub servers: &'r [Tally],
    pub elapsed_ns: u64,
}

impl Summary<'_> {
    /// A description of the run in one line.
    pub fn title(&self) -> String {
        let Arguments { biz, keys, route, .. } = self.arguments;
        let path = match self.arguments.command() {
            Command::Query => "query",
            Command::Update => "update",
        };
        let keys = grouped(u64::from(*keys));
        let order = match self.arguments.order() {
            Order::Zipf(exponent) => format!("Zipf {exponent}"),
            Order::InTurn(first) => format!("in turn from {}", grouped(u64::from(first))),
        };
        let targets: Vec<String> = self.arguments.targets().map(ToString::to_string).collect();
        let targets = match (&targets[..], route) {
            ([one], _) => one.clone(),
            (all, Route::Key) => format!("{} servers, routed by key", all.len()),
            (all, Route::None) => format!("{} servers, not routed", all.len()),
        };
        format!("{targets}, {path}: biz {biz}, {keys} keys, {order}")
    }

    /// How the requests are sent, in one line.
    pub fn manner(&self) -> String {
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

    /// The number of requests and their rate.
    pub fn rates(&self) -> String {
        let requests = self.tally.requests();
        let seconds = self.elapsed_ns as f64 / 1e9;
        let rate = grouped(self.per_second(requests));
        format!("{} in {seconds:.2} s: {rate}/s", grouped(requests))
    }

    /// The quantiles of latency in µs, with `between` between them.
    pub fn quantiles(&self, between: &str) -> String {
        let latencies_ns = &self.tally.latencies_ns;
        let quantiles = QUANTILES.map(|(name, quantile)| {
            format!("{name} {}", grouped(latencies_ns.value_at_quantile(quantile) / 1000))
        });
        quantiles.join(between)
    }

    fn amounts(&self, out: &mut String) -> fmt::Result {
        writeln!(out, "requests    {}", self.rates())?;
        if self.arguments.items > 1 {
            let items = self.tally.items();
            let rate = grouped(self.per_second(items));
            writeln!(out, "items       {}: {rate}/s", grouped(items))?;
        }
        writeln!(out, "latency µs  {}", self.quantiles("   "))
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
        if self.arguments.format() == Format::Resp {
            return Ok(());
        }
        writeln!(out, "\n{:<20} {:>15}", "status", "requests")?;
        for (status, number) in &self.tally.statuses {
            writeln!(out, "{status:<20} {:>15}", grouped(*number))?;
        }
        Ok(())
    }

    /// Only windows with more requests than their max tell whether all of it was admitted.
    fn windows(&self, out: &mut String) -> fmt::Result {
        if !self.arguments.windows {
            return Ok(());
        }
        let Exhausted { windows, max, admitted, over } = self.tally.windows.exhausted();
        let share = 100.0 * admitted as f64 / max.max(1) as f64;
        let [windows, max, admitted, over] = [windows, max, admitted, over].map(grouped);
        writeln!(
            out,
            "\nwindows asked for more than max: {windows}; admitted {admitted} of {max}: \
             {share:.2} %; over {over}"
        )
    }

    /// If there are several servers, writes a row for each.
    fn of_servers(&self, out: &mut String) -> fmt::Result {
        if self.servers.len() < 2 {
            return Ok(());
        }
        let names = ["server", "requests", "share", "p50 µs", "p99 µs", "allowed", "errors"];
        let [server, requests, share, p50, p99, allowed, errors] = names;
        writeln!(
            out,
            "\n{server:<28} {requests:>13} {share:>9} {p50:>9} {p99:>9} {allowed:>13} {errors:>9}"
        )?;
        for (target, tally) in self.arguments.targets().zip(self.servers) {
            let share = 100.0 * tally.requests() as f64 / self.tally.requests().max(1) as f64;
            let latency_us =
                |quantile| grouped(tally.latencies_ns.value_at_quantile(quantile) / 1000);
            writeln!(
                out,
                "{:<28} {:>13} {share:>7.2} % {:>9} {:>9} {:>13} {:>9}",
                target.to_string(),
                grouped(tally.requests()),
                latency_us(0.5),
                latency_us(0.99),
                grouped(tally.verdicts[Verdict::Allowed as usize]),
                grouped(tally.errors.values().sum()),
            )?;
        }
        Ok(())
    }

    fn remarks(&self, out: &mut String) -> fmt::Result {
        let Tally { reconnects, sent_again, unsent, .. } = self.tally;
        if *reconnects > 0 {
            writeln!(out, "\nconnections made again: {}", grouped(*reconnects))?;
        }
        if *sent_again > 0 {
            writeln!(out, "\nrequests sent again: {}", grouped(*sent_again))?;
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
        self.windows(&mut out)?;
        self.of_servers(&mut out)?;
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
        (tally.unsent, tally.reconnects, tally.sent_again) = (7, 1, 3);
        let summary = Summary {
            arguments: &arguments,
            tally: &tally,
            servers: std::slice::from_ref(&tally),
            elapsed_ns: 500_000_000,
        };
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
            "requests sent again: 3\n",
            "requests never sent: 7;",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
    }

    #[test]
    fn a_row_for_each_of_several_servers() {
        let words = "frs-load http://a:1 --url http://b:1 --route key";
        let arguments = Arguments::parse_from(words.split(' '));
        let mut servers = [Tally::new(), Tally::new()];
        for _ in 0..3000 {
            servers[0].answered(200, 7_000, 1);
            servers[0].item(Outcome::Verdict(VERDICTS[0].0));
        }
        for _ in 0..1000 {
            servers[1].answered(503, 9_000, 1);
            servers[1].item(Outcome::Error("overloaded"));
        }
        let mut tally = Tally::new();
        servers.iter().for_each(|of_one| tally.add(of_one));
        let summary =
            Summary { arguments: &arguments, tally: &tally, servers: &servers, elapsed_ns: 1 };
        let text = summary.to_string();
        assert!(text.starts_with("2 servers, routed by key, update: biz "), "{text}");
        let row = |server: &str| -> Vec<String> {
            let line = text.lines().find(|line| line.starts_with(server)).expect(&text);
            line.split_whitespace().map(str::to_owned).collect()
        };
        assert_eq!(
            row("http://a:1"),
            ["http://a:1", "3,000", "75.00", "%", "7", "7", "3,000", "0"]
        );
        assert_eq!(
            row("http://b:1"),
            ["http://b:1", "1,000", "25.00", "%", "9", "9", "0", "1,000"]
        );
    }
}
