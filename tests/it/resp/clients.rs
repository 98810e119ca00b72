//! Redis clients in common use, in Python, Node and PHP. Each plays the same stories with a real
//! server, in each version of the protocol that it speaks.
//!
//! Invariant: the clients are published packages that know nothing of frs. The expectations that
//! they share are written here once. Another client is a driver and a line of the table.

use std::collections::BTreeMap;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use serde_json::{Value, json};

use super::driver::{Driver, Kind, Refusal};
use super::{Served, TOKEN, ask};
use crate::common::{Client, wait_until};
use crate::life::Life;

const BOTH: &[u8] = &[2, 3];

macro_rules! play {
    ($($client:ident: $kind:expr;)*) => {$(
        pub mod $client {
            use super::*;

            pub static KIND: Kind = $kind;

            // Shows: redis-clients.
            #[test]
            fn it_connects_with_the_token_and_not_without() {
                super::it_connects_with_the_token_and_not_without(&KIND);
            }

            // Shows: redis-clients.
            #[test]
            fn it_knows_every_command_and_error() {
                super::it_knows_every_command_and_error(&KIND);
            }

            // Shows: redis-clients.
            #[test]
            fn its_pipelines_and_transactions_are_answered_in_order() {
                super::its_pipelines_and_transactions_are_answered_in_order(&KIND);
            }

            // Shows: redis-clients.
            #[test]
            fn it_counts_exactly_over_reloads_and_new_binaries() {
                super::it_counts_exactly_over_reloads_and_new_binaries(&KIND);
            }
        }
    )*};
}

play! {
    redis_py: Kind {
        program: "python3",
        script: "redis_py.py",
        protocols: BOTH,
        gives_maps: true,
        refusal: "ResponseError",
    };
    redis_py_asyncio: Kind {
        program: "python3",
        script: "redis_py_asyncio.py",
        protocols: BOTH,
        gives_maps: true,
        refusal: "ResponseError",
    };
    valkey_glide_of_python: Kind {
        program: "python3",
        script: "valkey_glide.py",
        protocols: BOTH,
        gives_maps: true,
        refusal: "RequestError",
    };
    ioredis: Kind {
        program: "node",
        script: "ioredis.js",
        protocols: BOTH,
        gives_maps: false,
        refusal: "SimpleError",
    };
    node_redis: Kind {
        program: "node",
        script: "node_redis.js",
        protocols: BOTH,
        gives_maps: true,
        refusal: "SimpleError",
    };
    valkey_glide_of_node: Kind {
        program: "node",
        script: "valkey_glide.js",
        protocols: BOTH,
        gives_maps: true,
        refusal: "RequestError",
    };
    phpredis: Kind {
        program: "php",
        script: "phpredis.php",
        protocols: &[2],
        gives_maps: false,
        refusal: "false",
    };
}

/// The names and values of a map, in the form that this client returns.
#[track_caller]
fn map(driver: &Driver, found: &Value) -> BTreeMap<String, Value> {
    if driver.protocol == 3 && driver.kind.gives_maps {
        let map = found.as_object().unwrap_or_else(|| panic!("found {found}, expected a map"));
        return map.clone().into_iter().collect();
    }
    let flat = found.as_array().unwrap_or_else(|| panic!("found {found}, expected a flat list"));
    let (pairs, rest) = flat.as_chunks();
    assert!(rest.is_empty(), "{found}");
    let name = |name: &Value| name.as_str().expect("a name").to_owned();
    pairs.iter().map(|[key, value]| (name(key), value.clone())).collect()
}

/// Checks the names and numbers of a verdict. `retry` and `reset` are the rest of the window, or
/// absent.
#[track_caller]
fn expect_verdict(driver: &Driver, found: &Value, expected: &Value) {
    let mut map = map(driver, found);
    for name in ["reset", "retry"] {
        if let Some(ms) = map.remove(name) {
            let ms = ms.as_u64().expect("a number");
            assert!((1..=3_600_000).contains(&ms), "{name} of {found}");
        }
    }
    assert_eq!(json!(map), *expected, "{} in RESP{}", driver.kind.script, driver.protocol);
}

fn verdict(limited: u64, used: u64, max: u64) -> Value {
    let remaining = max.saturating_sub(used);
    json!({ "limited": limited, "limit": 1, "used": used, "max": max, "remaining": remaining })
}

/// Checks for Redis's own value, or the client's version of it.
#[track_caller]
fn expect_either(found: &Value, either: &Value, or: &Value) {
    assert!(found == either || found == or, "found {found}, expected {either} or {or}");
}

fn it_connects_with_the_token_and_not_without(kind: &'static Kind) {
    let Some(mut driver) = Driver::start(kind) else { return };
    let served = Served::new();
    let _server = served.setup.start();
    let address = served.guarded.address;
    for &protocol in kind.protocols {
        wait_until("it is served", || driver.connect(address, protocol, Some(TOKEN)).ok());
        let found = driver.ask("FRS.UPDATE plenty k");
        assert_eq!(map(&driver, &found)["limited"], 0);

        // redis-py has a class for this error, and Glide has its own words for it in RESP2.
        let words = ["WRONGPASS", "AuthenticationError", "Password authentication failed"];
        let wrong = driver.connect(address, protocol, Some("a-wrong-token-of-characters"));
        let Refusal { class, text } = wrong.expect_err("a wrong token");
        let said = format!("{class}: {text}");
        assert!(words.iter().any(|word| said.contains(word)), "{said}");

        // Some clients connect without authentication, and their commands are refused.
        let none = driver.connect(address, protocol, None);
        let none = none.and_then(|_| driver.try_ask("FRS.UPDATE plenty k"));
        let Refusal { class, text } = none.expect_err("no token");
        // redis-py makes a class of NOAUTH.
        let said = format!("{class}: {text}");
        assert!(said.contains("NOAUTH") || said.contains("AuthenticationError"), "{said}");
    }
    let answer = Client::connect(served.setup.address).get("/query?biz=plenty&key=k");
    let used = kind.protocols.len().to_string();
    assert_eq!(answer.attribute("used"), Some(&*used), "refused ones charge nothing");
}

fn it_knows_every_command_and_error(kind: &'static Kind) {
    let Some(mut driver) = Driver::start(kind) else { return };
    let served = Served::new();
    let _server = served.setup.start();
    for &protocol in kind.protocols {
        let address = served.open.address;
        wait_until("it is served", || driver.connect(address, protocol, None).ok());
        its_own_functions_work(&mut driver, &served);
        single_items(&mut driver);
        many_items(&mut driver);
        for (args, expected) in [
            ("2 1 60", [0, 3, 2, -1, 60]),
            ("2 1 60 2", [0, 3, 0, -1, 180]),
            ("2 1 60", [1, 3, 0, 60, 180]),
        ] {
            let found = driver.ask(&format!("CL.THROTTLE t{protocol} {args}"));
            assert_eq!(found, json!(expected), "{args}");
        }
        errors(&mut driver);
    }
}

fn its_own_functions_work(driver: &mut Driver, served: &Served) {
    let own = driver.own();
    expect_either(&own["ping"], &json!("PONG"), &json!(true));
    expect_either(&own["select"], &json!("OK"), &json!(true));
    assert_eq!((&own["echo"], &own["version"]), (&json!("said"), &json!("7.0.0")));
    assert_eq!(own["id"], true);
    let count: i64 = ask(&mut served.connect(2), "COMMAND COUNT");
    // Some clients have no functions for these.
    expect_either(&own["commands"], &json!(count), &Value::Null);
    expect_either(&own["described"], &json!(true), &Value::Null);
    expect_either(&own["name"], &json!("a-test"), &Value::Null);
    let set = driver.ask("CLIENT SETINFO LIB-NAME a-test");
    expect_either(&set, &json!("OK"), &json!(true));
}

fn single_items(driver: &mut Driver) {
    let key = format!("k{}", driver.protocol);
    let throttled = json!({ "limited": 0, "limit": 1, "used": 1, "max": 2, "remaining": 1 });
    for (command, expected) in [
        (format!("FRS.UPDATE three {key}"), verdict(0, 1, 3)),
        (format!("FRS.UPDATE three {key} COUNT 2"), verdict(0, 3, 3)),
        (format!("FRS.UPDATE three {key}"), verdict(1, 3, 3)),
        (format!("FRS.QUERY three {key}"), verdict(1, 3, 3)),
        (format!("FRS.UPDATE three {key} FORCE"), verdict(1, 4, 3)),
        (format!("FRS.UPDATE three {key} COUNT -2"), verdict(0, 2, 3)),
        (format!("FRS.QUERY three {key} COUNT 1"), verdict(0, 2, 3)),
        (format!("FRS.UPDATE throttle {key} RATE 2/m BURST 2"), throttled),
    ] {
        let found = driver.ask(&command);
        expect_verdict(driver, &found, &expected);
        if driver.protocol == 2 || !driver.kind.gives_maps {
            assert_eq!(found[0], "limited", "first of {found}");
        }
        assert_eq!(map(driver, &found).contains_key("retry"), expected["limited"] == 1);
    }
    let found = driver.ask(&format!("FRS.QUERY three {key} DETAIL"));
    let limits = map(driver, &found)["limits"].clone();
    let [limit] = &limits.as_array().expect("limits")[..] else { panic!("{limits}") };
    let limit = map(driver, limit);
    assert_eq!((&limit["index"], &limit["policy"]), (&json!(1), &json!("interval")));
    assert_eq!((&limit["used"], &limit["max"]), (&json!(2), &json!(3)));
}

fn many_items(driver: &mut Driver) {
    let key = format!("m{}", driver.protocol);
    for (command, refused, used) in [
        (format!("FRS.MUPDATE ITEMS 2 plenty {key} 2 nobody {key} 1"), 0, 2),
        (format!("FRS.MQUERY ITEMS 2 plenty {key} 2 nobody {key} 1"), 0, 2),
        // Nothing is charged.
        (format!("FRS.MUPDATE ATOMIC ITEMS 2 plenty {key} 2 nobody {key} 1"), 1, 2),
    ] {
        let found = driver.ask(&command);
        let found = map(driver, &found);
        assert_eq!(found["refused"], refused, "{command}");
        let [good, bad] = &found["items"].as_array().expect("items")[..] else { panic!("two") };
        expect_verdict(driver, good, &verdict(0, used, 1_000_000));
        assert_eq!(json!(map(driver, bad)), json!({ "error": "unknown-biz" }));
    }
}

fn errors(driver: &mut Driver) {
    for (command, said) in [
        ("FRS.UPDATE nobody k", "unknown-biz (map.xml names no such business)"),
        ("FRS.UPDATE three k COUNT x", "bad-count (expected a whole number of 32 bits, "),
        ("FRS.UPDATE three k RATE 1/s BURST 1", "bad-rate"),
        ("FRS.UPDATE three k NONSENSE", "NONSENSE"),
        ("FRS.UPDATE three", "wrong number of arguments for 'frs.update' command"),
        ("CL.THROTTLE k -1 1 60", "max_burst"),
        ("GET k", "unknown command 'GET' (see docs/redis.md"),
        ("SELECT 1", "DB index is out of range"),
    ] {
        let text = driver.refused(command);
        assert!(text.contains(said), "{command}: found {text:?}, expected {said:?}");
    }
    let own = driver.own();
    assert_eq!(own["echo"], "said", "the connection stays usable");
}

fn its_pipelines_and_transactions_are_answered_in_order(kind: &'static Kind) {
    let Some(mut driver) = Driver::start(kind) else { return };
    let served = Served::new();
    let _server = served.setup.start();
    let address = served.open.address;
    for (&protocol, is_transaction) in
        kind.protocols.iter().flat_map(|protocol| [(protocol, false), (protocol, true)])
    {
        wait_until("it is served", || driver.connect(address, protocol, None).ok());
        let command = format!("FRS.UPDATE plenty p{protocol}{is_transaction}");
        let mut commands = vec![&*command; 101];
        commands[50] = "FRS.UPDATE nobody k";
        let replies = driver.try_many(&commands, is_transaction).expect("answers");
        assert_eq!(replies.len(), commands.len());
        let mut used = 0;
        for (nth, reply) in replies.iter().enumerate() {
            if nth == 50 {
                let refusal = reply.clone().expect_err("no business");
                assert_eq!(refusal.class, kind.refusal);
                assert!(refusal.text.contains("unknown-biz"), "{refusal:?}");
                continue;
            }
            used += 1;
            expect_verdict(
                &driver,
                reply.as_ref().expect("answered"),
                &verdict(0, used, 1_000_000),
            );
        }
        assert_eq!(driver.own()["echo"], "said", "the connection stays usable");
        if is_transaction {
            a_transaction_with_a_command_that_is_unknown_is_not_run(&mut driver);
        }
    }
}

fn a_transaction_with_a_command_that_is_unknown_is_not_run(driver: &mut Driver) {
    let key = format!("aborted{}", driver.protocol);
    let update = format!("FRS.UPDATE plenty {key}");
    let replies = driver.try_many(&[&update, "GET k", &update], true);
    let Refusal { class, text } = replies.expect_err("an unknown command");
    let said = format!("{class}: {text}");
    // Some clients report EXECABORT in their own words, others report its cause.
    let words = ["EXECABORT", "ExecAbort", "unknown command 'GET'"];
    assert!(words.iter().any(|word| said.contains(word)), "{said}");
    let found = driver.ask(&format!("FRS.QUERY plenty {key}"));
    assert_eq!(map(driver, &found)["used"], 0, "nothing was run");
}

fn it_counts_exactly_over_reloads_and_new_binaries(kind: &'static Kind) {
    let Some(mut driver) = Driver::start(kind) else { return };
    let served = Served::new();
    let setup = &served.setup;
    let life = Life::start(setup);
    for &protocol in kind.protocols {
        let address = served.open.address;
        wait_until("it is served", || driver.connect(address, protocol, None).ok());
        let key = format!("life{protocol}");
        let command = format!("FRS.UPDATE plenty {key}");
        let used = |answered: u64| {
            let answer =
                Client::connect(setup.address).get(&format!("/query?biz=plenty&key={key}"));
            assert_eq!(answer.attribute("used"), Some(&*answered.to_string()), "{protocol}");
        };

        // Changes the max of a neighbour: the client stays connected.
        let connection = driver.ask("CLIENT ID");
        let max = format!("{}0", protocol);
        let answered = driver.while_asking(&command, || {
            let map = served.map().replace("max=\"3\"", &format!("max=\"{max}\""));
            setup.write_map(&map);
            kill(life.master(), Signal::SIGHUP).expect("signalled");
            wait_until("the reload is in force", || {
                let answer = Client::connect(setup.address).get("/query?biz=three&key=k");
                (answer.attribute("max") == Some(&*max)).then_some(())
            });
        });
        used(answered);
        assert_eq!(driver.ask("CLIENT ID"), connection, "{protocol}");

        // New workers: the client reconnects by itself.
        let again = driver.while_asking(&command, || {
            let old = life.workers();
            crate::life::install(setup, Path::new(env!("CARGO_BIN_EXE_frs")));
            life.upgrade();
            assert!(life.workers().is_disjoint(&old));
        });
        used(answered + again);
        let info = driver.ask("INFO server").to_string();
        let (_, pid) = info.split_once("process_id").expect("named");
        let is_digit = |letter: char| letter.is_ascii_digit();
        let pid = pid.trim_start_matches(|letter| !is_digit(letter));
        let pid = pid.split(|letter| !is_digit(letter)).next().and_then(|pid| pid.parse().ok());
        assert!(life.workers().contains(&pid.expect("a number")), "{info}");
    }
    life.stop();
}
