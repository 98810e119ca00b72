//! RESP end to end: Redis clients talk to a real server, in both versions of the protocol.
//!
//! Invariant: the clients are published libraries that know nothing of frs.

mod clients;
pub mod driver;
mod recipes;

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use redis::{Client, Connection, ErrorKind, FromRedisValue, Value, cmd, pipe};

use crate::common::address::Reserved;
use crate::common::{self, MAP, Settings, Setup, needs, text, wait_until};

const TOKEN: &str = "a-token-of-24-characters";
const THROTTLE: &str = "<biz id='3' name='throttle' key='string'>\
    <limit policy='gcra' rate='30/m' burst='16' per-call='true'/></biz></map>";

/// A server that speaks RESP on two addresses, one of them with a token.
struct Served {
    open: Reserved,
    guarded: Reserved,
    setup: Setup,
}

impl Served {
    fn new() -> Served {
        let (open, guarded) = (Reserved::new(), Reserved::new());
        let more = format!(
            "<resp listen='{}' throttle='throttle'/><resp listen='{}' token-file='conf/resp.token'/>",
            open.address, guarded.address
        );
        let setup = Setup::new(&Settings { more, ..Settings::default() });
        common::files::write_secret(&setup.path("conf/resp.token"), TOKEN);
        let served = Served { open, guarded, setup };
        served.setup.write_map(&served.map());
        served
    }

    /// Its map.xml.
    fn map(&self) -> String {
        MAP.replace("</map>", THROTTLE)
    }

    fn connect(&self, protocol: u8) -> Connection {
        let url = format!("redis://{}/?protocol=resp{protocol}", self.open.address);
        let client = Client::open(url).expect("an address");
        wait_until("a connection", || client.get_connection().ok())
    }
}

fn ask<T: FromRedisValue>(connection: &mut Connection, command: &str) -> T {
    let mut words = command.split(' ');
    let mut command = cmd(words.next().expect("a command"));
    words.for_each(|word| {
        command.arg(word);
    });
    command.query(connection).expect("an answer")
}

/// The names and numbers of a verdict.
fn verdict(connection: &mut Connection, command: &str) -> Vec<(String, i64)> {
    let map: BTreeMap<String, i64> = ask(connection, command);
    map.into_iter().collect()
}

fn of<const N: usize>(pairs: [(&str, i64); N]) -> Vec<(String, i64)> {
    pairs.map(|(name, number)| (name.to_owned(), number)).to_vec()
}

// Shows: redis-clients.
#[test]
fn a_client_of_redis_asks_in_both_versions() {
    let served = Served::new();
    let _server = served.setup.start();
    for protocol in [2, 3] {
        let connection = &mut served.connect(protocol);
        let key = format!("k{protocol}");
        for used in 1..=3 {
            let mut found = verdict(connection, &format!("FRS.UPDATE three {key}"));
            found.retain(|(name, _)| name != "reset");
            let shown = [("limit", 1), ("limited", 0), ("max", 3), ("remaining", 3 - used)];
            assert_eq!(found, [of(shown), of([("used", used)])].concat());
        }
        let refused = verdict(connection, &format!("frs.update three {key}"));
        assert!(refused.contains(&("limited".to_owned(), 1)), "{refused:?}");
        assert!(refused.iter().any(|(name, _)| name == "retry"), "{refused:?}");
        let over_http = crate::common::Client::connect(served.setup.address)
            .get(&format!("/query?biz=three&key={key}"));
        assert_eq!(over_http.attribute("used"), Some("3"), "one service behind all");

        let unknown = cmd("FRS.UPDATE").arg(&["nobody", "k"]).query::<Value>(connection);
        let unknown = unknown.expect_err("no business");
        assert_eq!(unknown.kind(), ErrorKind::Server(redis::ServerErrorKind::ResponseError));
        assert!(unknown.to_string().contains("unknown-biz"), "{unknown}");
        let get = cmd("GET").arg("k").query::<Value>(connection).expect_err("no Redis");
        assert!(get.to_string().contains("see docs/redis.md"), "{get}");
    }
}

// Shows: redis-clients.
#[test]
fn pipelines_and_transactions_are_answered_in_order() {
    let served = Served::new();
    let _server = served.setup.start();
    for (protocol, atomic) in [(2, false), (2, true), (3, false), (3, true)] {
        let connection = &mut served.connect(protocol);
        let mut many = pipe();
        if atomic {
            many.atomic();
        }
        for _ in 0..100 {
            many.cmd("FRS.UPDATE").arg(&["plenty", &format!("p{protocol}{atomic}")]);
        }
        let found: Vec<BTreeMap<String, i64>> = many.query(connection).expect("answers");
        let used: Vec<i64> = found.iter().map(|verdict| verdict["used"]).collect();
        assert_eq!(used, (1..=100).collect::<Vec<i64>>(), "{protocol} {atomic}");
    }
}

// Shows: redis-clients.
#[test]
fn cl_throttle_answers_as_redis_cell() {
    let served = Served::new();
    let _server = served.setup.start();
    let connection = &mut served.connect(2);
    for (args, expected) in [
        ("a 2 1 60", [0, 3, 2, -1, 60]),
        ("b 15 30 60", [0, 16, 15, -1, 2]),
        ("c 15 30 60 17", [1, 16, 16, -1, 0]),
        ("d 0 1 60 0", [0, 1, 1, -1, 0]),
        ("j 0 7 3", [0, 1, 0, -1, 1]),
    ] {
        let found: [i64; 5] = ask(connection, &format!("CL.THROTTLE {args}"));
        assert_eq!(found, expected, "{args}");
    }
    // Several calls for a key. Figures are rounded up to seconds, so all calls must fall within one
    // second.
    let mut nth = 0;
    wait_until("calls within a second", || {
        nth += 1;
        let (a, p) = (format!("a{nth}"), format!("p{nth}"));
        let begun = Instant::now();
        let found = [(&a, "2 1 60"), (&a, "2 1 60"), (&a, "2 1 60"), (&a, "2 1 60")]
            .into_iter()
            .chain([(&p, "3 1 60"), (&p, "0 1 60"), (&p, "10 10 60")])
            .map(|(key, args)| ask(connection, &format!("CL.THROTTLE {key} {args}")))
            .collect::<Vec<[i64; 5]>>();
        (begun.elapsed() < Duration::from_millis(900)).then(|| {
            let of_a =
                [[0, 3, 2, -1, 60], [0, 3, 1, -1, 120], [0, 3, 0, -1, 180], [1, 3, 0, 60, 180]];
            let of_p = [[0, 4, 3, -1, 60], [1, 1, 0, 60, 60], [0, 11, 0, -1, 66]];
            assert_eq!(found, [&of_a[..], &of_p].concat());
        })
    });
    let bad = cmd("CL.THROTTLE").arg(&["a", "-1", "1", "60"]).query::<Value>(connection);
    assert!(bad.is_err(), "{bad:?}");
}

// Shows: redis-clients.
#[test]
fn who_names_no_token_or_a_wrong_one_is_not_served() {
    let served = Served::new();
    let _server = served.setup.start();
    let address = served.guarded.address;
    for protocol in [2, 3] {
        let connect = |login: &str| {
            let url = format!("redis://{login}{address}/?protocol=resp{protocol}");
            Client::open(url).expect("an address").get_connection()
        };
        let mut known = wait_until("it is served", || connect(&format!(":{TOKEN}@")).ok());
        assert_eq!(ask::<String>(&mut known, "PING"), "PONG");
        assert!(connect(":a-wrong-token-of-characters@").is_err());
        let update = |connection: &mut Connection| {
            cmd("FRS.UPDATE").arg(&["plenty", "k"]).query::<Value>(connection)
        };
        // In RESP3 the handshake itself needs the token.
        let refused = connect("").and_then(|mut connection| update(&mut connection));
        let refused = refused.expect_err("no token");
        assert!(refused.to_string().contains("NOAUTH"), "{refused}");
        update(&mut known).expect("a verdict");
    }
}

// Shows: redis-clients.
#[test]
fn people_ask_with_redis_cli() {
    let served = Served::new();
    let _server = served.setup.start();
    served.connect(2);
    let port = served.open.address.port().to_string();
    for version in ["-2", "-3"] {
        let mut cli = Command::new("redis-cli");
        cli.args([version, "-p", &port, "FRS.QUERY", "three", "by-hand", "DETAIL"]);
        let Some(output) = needs::output(&mut cli) else { return };
        let shown = text(&output.stdout);
        for word in ["limited", "remaining", "limits", "policy", "interval"] {
            assert!(shown.contains(word), "{version}: {shown}");
        }
    }
}
