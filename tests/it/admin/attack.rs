//! An attack: one address among many is refused again and again in usual traffic, and each view
//! names it.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use frs_load::Keys;
use serde_json::Value;

use crate::common::plane::Plane;
use crate::common::terminal::{Size, Terminal};
use crate::common::{Client, Setup, text, wait_until};

/// Both businesses have the same traffic. The attacker uses the first one.
const MAP: &str = r#"<map>
  <group name="default" files="1" key-nodes="4096" chain="8" node-size="128"/>
  <biz id="1" name="login" key="string">
    <limit policy="interval" interval="1h" max="1"/>
  </biz>
  <biz id="2" name="pages" key="string">
    <limit policy="interval" interval="1h" max="1"/>
  </biz>
</map>
"#;
const ADDRESSES: u64 = 10_000;
/// The attacker's rank in the traffic, where it is one of the rarest addresses.
const ATTACKER: u64 = 9_876;
/// The time within which each view shows the attacker.
const SOON: Duration = Duration::from_secs(5);
/// The pieces of a second. Each is sent at once.
const PIECES: u32 = 20;

fn address(rank: u64) -> String {
    let of = rank * 7919 % ADDRESSES;
    format!("10.1.{}.{}", of / 100, of % 100)
}

/// A refused key.
#[derive(Debug, Default, PartialEq, Eq, Hash, Clone)]
struct Key {
    biz: String,
    address: String,
}
type Refused = HashMap<Key, u64>;

/// A client that sends until this is dropped or ended.
struct Traffic {
    ends: Arc<AtomicBool>,
    sender: Option<JoinHandle<Refused>>,
}

impl Traffic {
    /// Sends the requests of `piece` again and again.
    fn start(mut client: Client, mut piece: impl FnMut() -> Vec<Key> + Send + 'static) -> Traffic {
        let ends = Arc::new(AtomicBool::new(false));
        let is_over = ends.clone();
        let sender = spawn(move || {
            let mut refused = Refused::new();
            while !is_over.load(Ordering::Relaxed) {
                for key in send(&mut client, piece()) {
                    *refused.entry(key).or_default() += 1;
                }
                sleep(Duration::from_secs(1) / PIECES);
            }
            refused
        });
        Traffic { ends, sender: Some(sender) }
    }

    /// Ends the client. Returns all its refusals.
    fn end(mut self) -> Refused {
        self.ends.store(true, Ordering::Relaxed);
        self.sender.take().expect("it runs").join().expect("all was answered")
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}

/// Sends Updates in one piece. Returns the refused keys.
fn send(client: &mut Client, keys: Vec<Key>) -> Vec<Key> {
    let request = |Key { biz, address }: &Key| {
        format!("GET /update?biz={biz}&key={address} HTTP/1.1\r\nHost: localhost\r\n\r\n")
    };
    let requests: String = keys.iter().map(request).collect();
    client.stream.write_all(requests.as_bytes()).expect("written");
    let mut refused = keys;
    refused.retain(|key| {
        let status = client.answer().status;
        assert!([200, 429].contains(&status), "{status}: {key:?}");
        status == 429
    });
    refused
}

/// Zipf traffic of all addresses: rank n comes in proportion to 1/n.
fn usual(seed: u64) -> impl FnMut() -> Vec<Key> {
    let ranks = Keys::zipf(seed, ADDRESSES as u32, 1.0);
    let mut next = 0;
    move || {
        let of = |nth: usize| {
            next += 1;
            let rank = ranks.at(next).into();
            Key { biz: ["login", "pages"][nth % 2].to_owned(), address: address(rank) }
        };
        (0..24).map(of).collect()
    }
}

fn attacker() -> Key {
    Key { biz: "login".to_owned(), address: address(ATTACKER) }
}

/// An attack: 100 Updates a second from one address.
fn attack() -> Vec<Key> {
    vec![attacker(); 100 / PIECES as usize]
}

/// A line of a view of the refused keys.
#[derive(Debug, Default, PartialEq, Eq, Clone)]
struct Shown {
    key: Key,
    refused: u64,
    error: u64,
}

fn number(word: &str) -> u64 {
    word.replace(',', "").parse().unwrap_or_else(|_| panic!("{word}"))
}

/// Whether some counts may be too high, because a sketch had no room for all keys.
fn is_full(shown: &[Shown]) -> bool {
    shown.iter().any(|one| one.error > 0)
}

/// The refused keys by the admin plane, the most refused one first.
fn by_plane(plane: &Plane, query: &str) -> Vec<Shown> {
    let top = plane.json(&format!("/top?by=refused&n=30{query}"));
    let word = |value: &Value| value.as_str().expect("a word").to_owned();
    let shown = |node: &Value| Shown {
        key: Key { biz: word(&node["biz"]), address: word(&node["key"]) },
        refused: node["refused"].as_u64().expect("a number"),
        error: node["error"].as_u64().expect("a number"),
    };
    top["top"]["nodes"].as_array().into_iter().flatten().map(shown).collect()
}

/// The refused keys by frs-inspect.
fn by_tool(setup: &Setup, more: &[&str]) -> Vec<Shown> {
    let said = setup.inspect(&[&["top", "data", "--by", "refused", "-n", "30"], more].concat());
    assert!(said.status.success(), "{said:?}");
    let said = text(&said.stdout);
    let shown = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (biz, address) = (words[3].to_owned(), words[4].trim_matches('"').to_owned());
        Shown { key: Key { biz, address }, refused: number(words[1]), error: number(words[2]) }
    };
    said.lines().skip(2).map(shown).collect()
}

/// The first line of the refused keys on the screen of `watch`.
fn by_watch(lines: &[String]) -> Option<Shown> {
    let heading = lines.iter().position(|line| line.starts_with("refused in 1 m"))?;
    let words: Vec<&str> = lines[heading + 1].split_whitespace().collect();
    let (biz, address) = (words[1].to_owned(), words[0].trim_matches('"').to_owned());
    Some(Shown { key: Key { biz, address }, refused: number(words[2]), error: number(words[3]) })
}

/// The refusals of each business's limit, by `/stats` and by `/metrics`.
fn by_limit(plane: &Plane) -> [[u64; 2]; 2] {
    let stats = plane.json("/stats");
    let of_stats = |name: &str| {
        let bizs = stats["bizs"].as_array().expect("a list");
        let biz = bizs.iter().find(|biz| biz["name"] == name).expect("it is there");
        biz["refusals"][0].as_u64().unwrap_or(0)
    };
    let of_metrics = |name: &str| {
        let sample = format!("frs_limit_refusals_total{{biz=\"{name}\",limit=\"1\"}}");
        plane.metric(&sample).unwrap_or(0)
    };
    let bizs = ["login", "pages"];
    [bizs.map(of_stats), bizs.map(of_metrics)]
}

// Shows: refused-keys.
#[test]
fn an_attacker_is_first_in_every_view() {
    let plane = Plane::new(2);
    plane.setup.write_map(MAP);
    let server = plane.start(2);
    let is_first = |shown: Vec<Shown>| {
        shown.first().filter(|first| first.key == attacker()).map(|first| first.refused)
    };
    let watch = plane.setup.inspector(&["watch", "data"]);
    let mut watch = Terminal::start(&watch, Size { columns: 120, rows: 40 });
    // Three clients reach both workers.
    let mut traffic: Vec<Traffic> =
        (1..4).map(|seed| Traffic::start(server.client(), usual(seed))).collect();
    wait_until("no sketch has room for another key", || {
        ["&biz=login", "&biz=pages"].iter().all(|biz| is_full(&by_plane(&plane, biz))).then_some(())
    });
    assert!(is_first(by_plane(&plane, "")).is_none());

    let begun = Instant::now();
    traffic.extend((0..2).map(|_| Traffic::start(server.client(), attack)));
    for query in ["", "&biz=login", "&window=1h", "&biz=login&window=1h"] {
        wait_until(&format!("/top{query}"), || is_first(by_plane(&plane, query)));
    }
    wait_until("frs-inspect top", || is_first(by_tool(&plane.setup, &[])));
    wait_until("frs-inspect top login", || is_first(by_tool(&plane.setup, &["login"])));
    watch.wait_for("watch", |lines| is_first(by_watch(lines).into_iter().collect()));
    wait_until("/stats and /metrics", || {
        let is_first = |[login, pages]: [u64; 2]| login > pages + 100;
        by_limit(&plane).into_iter().all(is_first).then_some(())
    });
    assert!(begun.elapsed() <= SOON, "first in all views after {:?}", begun.elapsed());
    wait_until("it goes on for a while", || {
        is_first(by_plane(&plane, "&biz=login")).filter(|&refused| refused > 800)
    });

    let mut refused = Refused::new();
    for (key, count) in traffic.into_iter().flat_map(Traffic::end) {
        *refused.entry(key).or_default() += count;
    }
    let of_biz = |biz: &str| -> u64 {
        refused.iter().filter(|(key, _)| key.biz == biz).map(|(_, count)| count).sum()
    };
    let totals = ["login", "pages"].map(of_biz);
    wait_until("all is counted", || (by_limit(&plane) == [totals; 2]).then_some(()));
    let check = |view: &str, shown: &[Shown]| {
        assert_eq!(shown[0].key, attacker(), "{view}: {shown:?}");
        for Shown { key, refused: most, error } in shown {
            let really = refused.get(key).copied().unwrap_or(0);
            let is_so =
                most - error <= really && really <= *most && *error <= of_biz(&key.biz) / 64;
            assert!(is_so, "{view}: {key:?}: {really}, shown as {most}, wrong by {error} at most");
        }
    };
    let same = |query: &str, more: &[&str]| {
        let shown = by_plane(&plane, query);
        check(query, &shown);
        assert_eq!(shown, by_tool(&plane.setup, more), "{query}");
        shown[0].clone()
    };
    let minute = [same("", &[]), same("&biz=login", &["login"])];
    let shown = watch.wait_for("the same figures", |lines| {
        by_watch(lines).filter(|shown| minute.iter().all(|other| other == shown))
    });
    let of_all = same("&window=1h", &["--window", "1h"]);
    assert_eq!(of_all, same("&biz=login&window=1h", &["login", "--window", "1h"]));
    println!("{} refusals of {shown:?}", refused[&attacker()]);
}
