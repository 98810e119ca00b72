//! Samples, their medians, and the table of a scenario.

use std::time::Duration;

use crate::load::Measured;
use crate::servers::{self, Server};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Client {
    Wrk,
    Own,
}

impl Client {
    fn name(self) -> &'static str {
        match self {
            Client::Wrk => "wrk",
            Client::Own => "own",
        }
    }
}

/// One measurement.
pub struct Sample {
    requests_per_second: f64,
    p50_micros: f64,
    p99_micros: f64,
    /// Processor time of the server's processes for one request.
    cpu_micros: f64,
}

impl Sample {
    pub fn new(measured: Measured, cpu: Duration) -> Sample {
        let requests = measured.requests.max(1) as f64;
        let micros = |latency: Option<Duration>| {
            latency.map_or(f64::NAN, |latency| latency.as_secs_f64() * 1e6)
        };
        Sample {
            requests_per_second: requests / measured.elapsed.as_secs_f64(),
            p50_micros: micros(measured.p50),
            p99_micros: micros(measured.p99),
            cpu_micros: cpu.as_secs_f64() * 1e6 / requests,
        }
    }
}

/// A server under a client: one sample for each round.
pub struct Row<'a> {
    pub client: Client,
    pub server: &'a dyn Server,
    pub samples: Vec<Sample>,
}

impl<'a> Row<'a> {
    pub fn new(client: Client, server: &'a dyn Server) -> Row<'a> {
        Row { client, server, samples: Vec::new() }
    }

    fn spread(&self, figure: impl Fn(&Sample) -> f64) -> Spread {
        Spread::new(self.samples.iter().map(figure).collect())
    }
}

/// The median, the least and the greatest of some figures.
struct Spread {
    median: f64,
    least: f64,
    greatest: f64,
}

impl Spread {
    fn new(mut figures: Vec<f64>) -> Spread {
        figures.sort_by(f64::total_cmp);
        let middle = figures.len() / 2;
        let median = match figures.len() % 2 {
            0 => f64::midpoint(figures[middle - 1], figures[middle]),
            _ => figures[middle],
        };
        Spread { median, least: figures[0], greatest: figures[figures.len() - 1] }
    }

    fn show(&self, decimals: usize) -> String {
        let Spread { median, least, greatest } = self;
        format!("{median:.decimals$} ({least:.decimals$}-{greatest:.decimals$})")
    }

    fn show_median(&self) -> String {
        if self.median.is_nan() { "-".to_owned() } else { format!("{:.0}", self.median) }
    }
}

/// Prints the table and the ratios of one scenario.
pub fn print(title: &str, items: usize, reply_bytes: usize, rows: &[Row<'_>]) {
    println!("\n{title}; HTTP replies of {reply_bytes} bytes; medians (min-max)");
    println!(
        "{:<7}{:<11}{:>26}{:>8}{:>8}{:>25}",
        "client", "server", "1000 requests/s", "p50 µs", "p99 µs", "CPU µs/request"
    );
    for row in rows {
        println!(
            "{:<7}{:<11}{:>26}{:>8}{:>8}{:>25}{}",
            row.client.name(),
            row.server.name(),
            row.spread(|sample| sample.requests_per_second / 1e3).show(1),
            row.spread(|sample| sample.p50_micros).show_median(),
            row.spread(|sample| sample.p99_micros).show_median(),
            row.spread(|sample| sample.cpu_micros).show(3),
            per_item(row, items),
        );
    }
    for row in rows.iter().filter(|row| row.server.name() == servers::FRS) {
        for peer in rows.iter().filter(|peer| peer.client == row.client) {
            if peer.server.name() != servers::FRS {
                print_ratio(row, peer);
            }
        }
    }
}

/// Prints every case, and the ratio of its CPU to that of each peer, round by round. A peer is the
/// index of its case and its name in the head.
pub fn print_over_peers(
    title: &str,
    names: &[&str],
    rows: &[Vec<Sample>],
    peers: &[(usize, &str)],
) {
    println!("\n{title}; medians (min-max)");
    print!("{:<32}{:>12}{:>8}{:>8}", "", "1000 req/s", "p50 µs", "p99 µs");
    print!("{:>26}", "CPU µs/request");
    for (_, peer) in peers {
        print!("{:>22}", format!("over {peer}"));
    }
    println!();
    for (name, samples) in names.iter().zip(rows) {
        let spread = |figure: fn(&Sample) -> f64| Spread::new(samples.iter().map(figure).collect());
        print!(
            "{name:<32}{:>12.0}{:>8}{:>8}{:>26}",
            spread(|sample| sample.requests_per_second / 1e3).median,
            spread(|sample| sample.p50_micros).show_median(),
            spread(|sample| sample.p99_micros).show_median(),
            spread(|sample| sample.cpu_micros).show(3),
        );
        for (peer, _) in peers {
            let pairs = samples.iter().zip(&rows[*peer]);
            let ratios = pairs.map(|(own, peer)| own.cpu_micros / peer.cpu_micros).collect();
            print!("{:>22}", Spread::new(ratios).show(3));
        }
        println!();
    }
}

fn per_item(row: &Row<'_>, items: usize) -> String {
    if items == 1 {
        return String::new();
    }
    let spread = row.spread(|sample| sample.cpu_micros * 1e3 / items as f64);
    format!("  {} ns/item", spread.show(1))
}

/// frs's ratio to a peer, round by round.
fn print_ratio(frs: &Row<'_>, peer: &Row<'_>) {
    let ratio = |figure: fn(&Sample) -> f64| {
        let rounds = frs.samples.iter().zip(&peer.samples);
        Spread::new(rounds.map(|(frs, peer)| figure(frs) / figure(peer)).collect())
    };
    let p99 = ratio(|sample| sample.p99_micros);
    let p99 = if p99.median.is_nan() { "-".to_owned() } else { p99.show(2) };
    println!(
        "{:<7}frs/{:<11}CPU {}   requests/s {}   p99 {p99}",
        frs.client.name(),
        peer.server.name(),
        ratio(|sample| sample.cpu_micros).show(2),
        ratio(|sample| sample.requests_per_second).show(2),
    );
}
