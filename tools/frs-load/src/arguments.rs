//! Arguments: the options of a run, as given on the command line.
//!
//! Invariant: a run that clap accepts is possible. Only the network can prevent it.

use std::path::PathBuf;

use clap::{CommandFactory, Parser, ValueEnum, error::ErrorKind, value_parser};
use frs_conf as conf;
use frs_engine::Command;

use crate::ring::Ring;
use crate::target::Target;

/// The most connections of a run, to all servers together.
const CONNECTIONS_MAX: usize = 65_535;
/// The most keys of type ip: the addresses of 10.0.0.0/8.
const IP_KEYS_MAX: u32 = 1 << 24;
const DAY_MS: u64 = 86_400_000;
const DEFAULT_DURATION_MS: u64 = 10_000;

/// The part of the manual page besides the options.
const STATUS: &str = "\
Exit status: 0 all answers were right; 1 an answer was wrong, or there was no
answer or no connection; 2 wrong usage.";

/// Makes load for an frs server, checks every answer, measures rates and latencies.
///
/// Without --rate the loop is closed: each connection sends its next request when its answer has
/// come. With --rate it is open: each request has its time beforehand, and its latency counts from
/// that time, even if the server was late to answer others.
///
/// With several servers each client has a connection to every one of them.
#[derive(Debug, Clone, Parser)]
#[command(name = "frs-load", version, after_long_help = STATUS)]
pub struct Arguments {
    /// http://HOST:PORT[/update|/query] or unix:PATH; /update unless it says otherwise
    #[arg(value_name = "URL", value_parser = Target::parse, required_unless_present = "more")]
    pub first: Option<Target>,
    /// One more server, of the same form; may be given several times
    #[arg(long = "url", value_name = "URL", value_parser = Target::parse)]
    pub more: Vec<Target>,
    /// Which of several servers gets a request
    #[arg(long, value_name = "BY", default_value = "none")]
    pub route: Route,
    /// Send /query instead of /update
    #[arg(long)]
    pub query: bool,
    /// Connections to keep open, to each server
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = value_parser!(u32).range(1..=65_535))]
    pub connections: u32,
    /// Unanswered requests of each client
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..=1024))]
    pub pipeline: u32,
    /// Items in each request
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..=65_536))]
    pub items: u32,
    /// How long to send, such as 250ms, 10s, 5m [default: 10s, without bound with --requests]
    #[arg(long, value_name = "D", value_parser = conf::duration(1, 7 * DAY_MS))]
    pub duration: Option<u64>,
    /// Total number of requests to send
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    pub requests: Option<u64>,
    /// Name or id of the biz; the shipped map.xml has the default
    #[arg(long, default_value = "app-user-api", value_parser = biz)]
    pub biz: String,
    /// Number of keys: k0, k1, …
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = value_parser!(u32).range(1..))]
    pub keys: u32,
    /// What the biz's keys are: k0, k1, …; 0, 1, …; 10.0.0.0, 10.0.0.1, …
    #[arg(long, value_name = "TYPE", default_value = "string")]
    pub key_type: KeyType,
    /// Skew of the keys: key n is used about 1/(n+1)^S as often as key 0; 0: all alike
    #[arg(long, value_name = "S", default_value_t = 0.99, value_parser = zipf)]
    pub zipf: f64,
    /// Use the keys one after the other, from number N on, instead of drawing them
    #[arg(long, value_name = "N", conflicts_with = "zipf")]
    pub in_turn: Option<u32>,
    /// Uses of each item
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..=2_147_483_647))]
    pub count: u32,
    /// Numbers for limits with per-call, such as 5/60s or "5/1m 100/1h"
    #[arg(long, value_name = "RATE", value_parser = call_rate)]
    pub call_rate: Option<String>,
    /// The maximum for a limit with per-call, whose window is that of map.xml
    #[arg(long, value_name = "N", conflicts_with = "call_rate")]
    pub call_max: Option<u64>,
    /// Take as many of --count as fit
    #[arg(long, conflicts_with = "holds")]
    pub partial: bool,
    /// Give each item an id, and send a request again whose answer was lost with its connection;
    /// the biz needs `once`
    #[arg(long)]
    pub once: bool,
    /// Use one of N holds of each key: each item makes it hold --count, or nothing
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=1024))]
    pub holds: Option<u32>,
    /// Open loop: requests a second
    #[arg(long, value_name = "R", value_parser = value_parser!(u64).range(1..=1_000_000_000))]
    pub rate: Option<u64>,
    /// Send JSON instead of XML
    #[arg(long)]
    pub json: bool,
    /// Speak RESP instead of HTTP, to the address of a `<resp>` without a token
    #[arg(long, conflicts_with = "json")]
    pub resp: bool,
    /// Seed of the keys: the same seed gives the same keys in the same order
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Threads [default: one for every two processors]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=256))]
    pub threads: Option<u32>,
    /// Say how full the windows were that were asked for more than their limit's max
    #[arg(long)]
    pub windows: bool,
    /// Write how many answers had which latency
    #[arg(long, value_name = "FILE.csv")]
    pub latencies: Option<PathBuf>,
    /// Draw latency percentiles and throughput over time, with options, date and figures
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
}

/// The format of requests and answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Xml,
    Json,
    Resp,
}

/// The form of the keys, as in map.xml.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KeyType {
    /// `k0`, `k1`, …; for digest keys too
    String,
    /// `0`, `1`, …
    Integer,
    /// `10.0.0.0`, `10.0.0.1`, …
    Ip,
}

/// The order in which a run uses its keys.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Order {
    /// Drawn at random: with exponent S, key n is drawn about 1/(n+1)^S as often as key 0.
    Zipf(f64),
    /// One after the other, from this key on. The last key is followed by key 0.
    InTurn(u32),
}

/// Which of several servers gets a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Route {
    /// That of the first item's key, by the consistent hash of nginx
    Key,
    /// Any, whatever the keys
    None,
}

impl Arguments {
    /// Reads the command line. On an error the process ends with status 2.
    pub fn from_command_line() -> Arguments {
        let arguments = Arguments::parse();
        if let Err(what) = arguments.check() {
            <Arguments as CommandFactory>::command()
                .error(ErrorKind::ArgumentConflict, what)
                .exit();
        }
        arguments
    }

    /// Checks that the arguments fit together.
    fn check(&self) -> Result<(), String> {
        let mut commands = self.targets().filter_map(|target| target.command);
        if self.query && commands.clone().any(|command| command == Command::Update) {
            return Err("--query with a URL that ends in /update".to_owned());
        }
        let first = commands.next();
        if commands.any(|command| Some(command) != first) {
            return Err("URLs that end in /update and in /query".to_owned());
        }
        let twice = |(nth, target): (usize, &Target)| {
            self.targets().take(nth).any(|before| before.address == target.address)
        };
        if let Some((_, target)) = self.targets().enumerate().find(|pair| twice(*pair)) {
            return Err(format!("{target} twice"));
        }
        if self.connections as usize * self.targets().count() > CONNECTIONS_MAX {
            return Err(format!("more than {CONNECTIONS_MAX} connections in all"));
        }
        if self.once && self.command() == Command::Query {
            return Err("--once with a Query, which charges nothing".to_owned());
        }
        if self.windows && (self.count > 1 || self.holds.is_some()) {
            return Err("--windows with --count or --holds: it counts one use an item".to_owned());
        }
        let is_plain = self.call_rate.is_none() && self.call_max.is_none() && !self.partial;
        let is_plain = is_plain && !self.once && self.holds.is_none();
        if self.resp && self.items > 1 && !is_plain {
            return Err("--resp with --items: a command of many items takes none of --call-rate, \
                        --call-max, --partial, --once and --holds"
                .to_owned());
        }
        if self.key_type == KeyType::Ip && self.keys > IP_KEYS_MAX {
            return Err(format!("--keys {} with --key-type ip: at most {IP_KEYS_MAX}", self.keys));
        }
        Ok(())
    }

    /// The command that requests use.
    pub fn command(&self) -> Command {
        let said = || self.targets().find_map(|target| target.command);
        if self.query { Command::Query } else { said().unwrap_or(Command::Update) }
    }

    /// The format of requests and answers.
    pub fn format(&self) -> Format {
        match (self.json, self.resp) {
            (true, _) => Format::Json,
            (false, true) => Format::Resp,
            (false, false) => Format::Xml,
        }
    }

    /// The order of the keys.
    pub fn order(&self) -> Order {
        self.in_turn.map_or(Order::Zipf(self.zipf), Order::InTurn)
    }

    /// The servers, at least one.
    pub fn targets(&self) -> impl Iterator<Item = &Target> + Clone {
        self.first.iter().chain(&self.more)
    }

    /// The ring of the servers. `None` if the keys of a request do not choose its server.
    pub fn ring(&self) -> Option<Ring> {
        let targets = || self.targets().cloned().collect::<Vec<_>>();
        (self.route == Route::Key).then(|| Ring::new(&targets()))
    }

    /// The time at which sending ends. `None` if the number of requests ends it.
    pub fn end_ns(&self) -> Option<u64> {
        let default_ms = self.requests.is_none().then_some(DEFAULT_DURATION_MS);
        self.duration.or(default_ms).map(|ms| ms * 1_000_000)
    }

    /// The number of threads. Each thread has at least one connection.
    pub fn threads(&self) -> u32 {
        let half = || {
            let processors = std::thread::available_parallelism().map_or(1, usize::from);
            (processors / 2).clamp(1, 256) as u32
        };
        self.threads.unwrap_or_else(half).min(self.connections)
    }
}

/// Reads the name or id of a biz, without characters that need escaping.
fn biz(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if (1..=64).contains(&text.len()) && text.bytes().all(plain) {
        Ok(text.to_owned())
    } else {
        Err("expected an id or a name of 1 to 64 letters, digits, '.', '_', '-'".to_owned())
    }
}

/// Reads the numbers for limits of the call, without characters that need escaping. The server
/// judges them.
fn call_rate(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/ ".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) {
        Ok(text.to_owned())
    } else {
        Err("expected rates such as 5/60s or 1000/month, with spaces between them".to_owned())
    }
}

fn zipf(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=10.0).contains(number));
    number.ok_or_else(|| "expected a number from 0 to 10".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &str) -> Result<Arguments, String> {
        let words = format!("frs-load {words}");
        let parsed =
            Arguments::try_parse_from(words.split_whitespace()).map_err(|e| e.to_string())?;
        parsed.check().map(|()| parsed)
    }

    #[test]
    fn defaults_are_those_of_the_manual() {
        let found = parse("http://localhost:7600").unwrap();
        assert_eq!((found.connections, found.pipeline, found.items), (64, 1, 1));
        assert_eq!((found.keys, found.zipf, found.rate), (100_000, 0.99, None));
        assert_eq!(found.end_ns(), Some(10_000_000_000));
        assert_eq!(found.command(), Command::Update);
    }

    #[test]
    fn keys_are_drawn_unless_they_come_in_turn() {
        assert_eq!(parse("unix:a --zipf 1").unwrap().order(), Order::Zipf(1.0));
        assert_eq!(parse("unix:a --in-turn 7").unwrap().order(), Order::InTurn(7));
    }

    #[test]
    fn requests_take_the_place_of_the_default_duration() {
        assert_eq!(parse("unix:a --requests 5").unwrap().end_ns(), None);
        let both = parse("unix:a --requests 5 --duration 250ms").unwrap();
        assert_eq!(both.end_ns(), Some(250_000_000));
    }

    #[test]
    fn the_url_or_a_flag_say_query() {
        assert_eq!(parse("http://a:1/query").unwrap().command(), Command::Query);
        assert_eq!(parse("unix:a --query").unwrap().command(), Command::Query);
        assert!(parse("http://a:1/update --query").is_err());
    }

    #[test]
    fn servers_are_those_of_all_urls() {
        let named = |words: &str| -> Vec<String> {
            parse(words).unwrap().targets().map(ToString::to_string).collect()
        };
        assert_eq!(named("--url http://a:1 --url unix:b"), ["http://a:1", "unix:b"]);
        assert_eq!(named("http://c:1 --url http://a:1"), ["http://c:1", "http://a:1"]);
        let found = parse("http://a:1 --url http://b:1/query").unwrap();
        assert_eq!(found.command(), Command::Query);
        assert!(found.ring().is_none());
        assert!(parse("http://a:1 --url http://b:1 --route key").unwrap().ring().is_some());
    }

    #[test]
    fn what_cannot_be_run_is_refused() {
        for wrong in [
            "http://a:1 --connections 0",
            "http://a:1 --duration 10",
            "http://a:1 --biz a<b",
            "http://a:1 --zipf -1",
            "http://a:1 --zipf nan",
            "http://a:1 --in-turn 0 --zipf 1",
            "http://a:1 --in-turn -1",
            "http://a:1 --rate 0",
            "http://a:1 --keys 0",
            "http://a:1 --keys 16777217 --key-type ip",
            "https://a:1",
            "",
            "http://a:1 --url https://b:1",
            "http://a:1/query --url http://b:1/update",
            "http://a:1 --url http://b:1/update --query",
            "http://a:1 --url http://a:1/",
            "http://a:1 --url http://b:1 --connections 32768",
            "http://a:1 --route biz",
            "http://a:1 --resp --json",
            "http://a:1 --count 0",
            "http://a:1 --call-rate 5,m",
            "http://a:1 --call-rate 5/m --call-max 5",
            "http://a:1 --partial --holds 5",
            "http://a:1 --once --query",
            "http://a:1/query --once",
            "http://a:1 --windows --count 2",
            "http://a:1 --resp --items 2 --once",
            "http://a:1 --holds 0",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
